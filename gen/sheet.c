/* sheet.c - the data sheet at the head of a kernel.
 *
 * Input: a kernel, and what the compiler made of it when that is known. Output: lines for a person:
 * what it is, the spec line that makes it again, its tile, the ledger of its shared memory, the
 * bytes it moves for a stated shape, registers and spills. All numbers are the planner's; nothing
 * is computed here. */
#include "spec.h"
#include "template.h"

#include <stdio.h>
#include <string.h>

static const char *op_text(int op) {
  switch (op) {
#define X(name, id, text, doc)                                                                     \
  case id:                                                                                         \
    return doc;
    ATTUNE_OPS(X)
#undef X
  }
  return "";
}

static const char *part_text(int op, int part) {
#define X(op_name, index, suffix, text)                                                            \
  if (op == ATTUNE_OP_##op_name && part == (index)) return text;
  ATTUNE_PARTS(X)
#undef X
  return "";
}

static const char *grid_text(uint32_t grid) {
  switch (grid) {
#define X(name, id, text, doc)                                                                     \
  case id:                                                                                         \
    return doc;
    ATTUNE_GRIDS(X)
#undef X
  }
  return "";
}

static const char *family_text(int family) {
  switch (family) {
#define X(name, id, text, doc)                                                                     \
  case id:                                                                                         \
    return doc;
    ATTUNE_FAMILIES(X)
#undef X
  }
  return "";
}

/* A tile's field in the words of fields.def: "64 rows of Q per block"; a switch ("1: K and V take
 * turns") by its text alone. */
static void add_field(const char *text, int value, attune__text *out) {
  if (!strncmp(text, "1: ", 3))
    attune__text_printf(out, "%s", text + 3);
  else
    attune__text_printf(out, "%d %.*s", value, (int)strcspn(text, ";"), text);
}

static void add_tile(const attune_kernel *kernel, attune__text *out) {
  const char *separator = "tile    ";
#define X(type, field, letters, def, constant, text)                                               \
  if (kernel->tile.field != (def)) {                                                               \
    attune__text_puts(out, separator);                                                             \
    add_field(text, kernel->tile.field, out);                                                      \
    separator = ", ";                                                                              \
  }
  ATTUNE_TILE_FIELDS(X)
#undef X
  attune__text_printf(out, "\nfamily  %s\n", family_text(kernel->tile.family));
}

static void add_launch(const attune_kernel *kernel, attune__text *out) {
  const attune_recipe *recipe = &kernel->recipe;
  attune__text_printf(out, "launch  %u threads a block, ", recipe->threads);
  attune__text_grouped(out, recipe->smem_bytes);
  attune__text_puts(out, " bytes of shared memory");
  attune__text_puts(out, recipe->early ? ", early: it waits itself for what is ahead\n" : "\n");
  attune__text_printf(out, "grid    %s\n", grid_text(recipe->grid));
}

/* A right-aligned number with its thousands grouped. */
static void add_number(uint64_t value, int width, attune__text *out) {
  attune__text digits = {0};
  attune__text_grouped(&digits, value);
  if (digits.failed) {
    out->failed = 1;
    return;
  }
  attune__text_printf(out, "%*s", width, digits.data);
  attune__text_free(&digits);
}

static void add_ledger(const attune_ledger *ledger, attune__text *out) {
  attune__text_printf(out, "\n%-26s%12s%12s\n", "shared memory", "offset", "bytes");
  for (int i = 0; i < ledger->count; i++) {
    const attune_piece *piece = &ledger->piece[i];
    char shape[48];
    snprintf(shape, sizeof shape, "%s [%u][%u]", piece->ctype, piece->rows, piece->columns);
    attune__text_printf(out, "  %-4s %-19s", piece->name, shape);
    add_number(piece->offset, 12, out);
    add_number(piece->bytes, 12, out);
    attune__text_printf(out, "  %s\n", piece->note);
  }
  attune__text_printf(out, "  %-24s%12s", "total", "");
  add_number(ledger->bytes, 12, out);
  attune__text_puts(out, "\n");
}

static void add_shape(const attune_kernel *kernel, const attune_shape *s, attune__text *out) {
  attune__text_printf(out, "\nfor batch %lld, heads_q %lld, heads_kv %lld, len_q %lld, len_k %lld",
                      (long long)s->batch, (long long)s->heads_q, (long long)s->heads_kv,
                      (long long)s->len_q, (long long)s->len_k);
  if (attune__mask_has_lower(kernel->variant.mask))
    attune__text_printf(out, ", window_left %lld, window_right %lld", (long long)s->window_left,
                        (long long)s->window_right);
  attune__text_puts(out, ":\n");
}

static void add_bytes(const char *tensor, const char *verb, double requested, double compulsory,
                      attune__text *out) {
  if (requested == 0 && compulsory == 0) return;
  attune__text_printf(out, "  %-4s %-7s", tensor, verb);
  add_number((uint64_t)requested, 18, out);
  add_number((uint64_t)compulsory, 18, out);
  attune__text_puts(out, "\n");
}

/* Requested: by each block, summed. Compulsory: each distinct byte once. */
static void add_traffic(const attune_kernel *kernel, attune__text *out) {
  const attune_variant *v = &kernel->variant;
  const attune_model *model = attune__model(v->op, v->part, kernel->tile.family);
  if (!model) return;
  attune_shape planned = attune__plan_shape(ATTUNE_CLASS_ANY);
  attune_shape shape = attune__shape_pinned(&planned, &kernel->pins);
  attune_traffic traffic;
  model->traffic(v, &kernel->tile, &shape, &traffic);
  add_shape(kernel, &shape, out);
  attune__text_printf(out, "%-14s%18s%18s\n", "bytes moved", "requested", "compulsory");
  for (int i = 0; i < traffic.count; i++) {
    const attune_traffic_row *row = &traffic.row[i];
    add_bytes(row->tensor, "read", row->requested_read, row->compulsory_read, out);
    add_bytes(row->tensor, "written", row->requested_write, row->compulsory_write, out);
  }
  add_bytes("all", "", traffic.requested, traffic.compulsory, out);
}

static void add_facts(const attune_emit_options *options, attune__text *out) {
  const attune_facts *facts = options->facts;
  if (!facts) return;
  attune__text_printf(out, "\ncompiled  %u registers a thread, %u bytes spilled, %u bytes of stack",
                      facts->registers, facts->spill_bytes, facts->stack_bytes);
  if (options->compiler) attune__text_printf(out, ", by %s", options->compiler);
  attune__text_puts(out, "\n");
}

void attune__sheet(const attune_kernel *kernel, const attune_emit_options *options,
                   attune__text *out) {
  const attune_variant *v = &kernel->variant;
  attune__text_printf(out, "%s\n\n", kernel->name);
  attune__text_printf(out, "%s: %s\n", op_text(v->op), part_text(v->op, v->part));
  attune__text_printf(out, "made by attune %s, ABI %u, from templates/%s\n\n", attune_version(),
                      kernel->recipe.abi, kernel->template_path);
  attune__text_puts(out, "spec    ");
  attune__spec_line(v, &kernel->pins, &kernel->tile, out);
  attune__text_puts(out, "\n");
  add_tile(kernel, out);
  add_launch(kernel, out);
  if (kernel->ledger.count) add_ledger(&kernel->ledger, out);
  add_traffic(kernel, out);
  add_facts(options, out);
}
