/* explain.c - `attune explain NAME`: why this kernel, where its shared memory goes, what it moves.
 * NAME is a variant, whose first choice is explained, or a kernel, which is. */
#include "../../runtime/launch.h"
#include "cli.h"
#include "show.h"
#include "show_classes.h"
#include "show_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_option options[] = {
    {"--sram", "B", "shared memory of a block, as 96KB; default: all that the arch's board offers"},
    {"--seq", "N", "queries and keys per head; default 2048"},
    {"--keys", "N", "keys per head; default: as many as queries"},
    {"--pin", "P", "run-time scalars that are compiled in, as len_k=77,window_left=63"},
    {"--batch", "N", "default 4"},
    {"--heads", "N", "default 16"},
    {NULL, NULL, NULL},
};

/* ---- text ---------------------------------------------------------------------------------- */

static void candidate_lines(const attune_plan *plan, const attune_candidate *chosen,
                            attune__text *out) {
  const attune_board *board = plan->request.board;
  attune__text_puts(out, "\ncandidates, best first; microseconds by ceiling\n"
                         "  tile                   total    math     exp  shared   issue  device  "
                         "blocks/SM  waves  binds\n");
  for (int i = 0; i < plan->count; i++) {
    const attune_candidate *c = &plan->candidates[i];
    const attune_cost *cost = &c->cost;
    attune__text_printf(out, "%c %-20s", c == chosen ? '>' : ' ', c->name);
    if (!c->legal) {
      attune__text_printf(out, "  no: %s\n", c->reason);
      continue;
    }
    double math = cost->fma + cost->tensor; /* a family uses one of them */
    const double clocks[] = {cost->total,         math,        cost->exponential,
                             cost->shared_memory, cost->issue, cost->device_memory};
    for (int k = 0; k < 6; k++) show_fixed(out, 8, show_microseconds(board, clocks[k]), 1);
    attune__text_printf(out, "%11d%7d  %s\n", (int)cost->occupancy, (int)cost->waves, cost->binds);
  }
}

enum { MAP_WIDTH = 64 };

/* A row of characters, one per 1/64 of what a block may have: the piece's letter, '.' for free. */
static void memory_map(const attune_ledger *ledger, uint32_t limit, attune__text *out) {
  attune__text_puts(out, "  |");
  for (int i = 0; i < MAP_WIDTH; i++) {
    uint64_t byte = (2 * (uint64_t)i + 1) * limit / (2 * MAP_WIDTH); /* the middle of the cell */
    char cell[2] = {byte < ledger->bytes ? ' ' : '.', 0};
    for (int k = 0; k < ledger->count; k++) {
      const attune_piece *piece = &ledger->piece[k];
      if (byte >= piece->offset && byte < piece->offset + piece->bytes) cell[0] = piece->name[0];
    }
    attune__text_puts(out, cell);
  }
  attune__text_puts(out, "| ");
  show_grouped(out, 0, limit);
  attune__text_puts(out, " bytes\n");
}

static void ledger_lines(const attune_plan *plan, const attune_candidate *c, attune__text *out) {
  attune__text_printf(out, "\nshared memory of %s: ", c->name);
  show_grouped(out, 0, c->ledger.bytes);
  attune__text_puts(out, " bytes\n");
  if (!c->ledger.count) return;
  memory_map(&c->ledger, attune__plan_budget(&plan->request), out);
  attune__text_puts(out, "    offset     bytes  piece\n");
  for (int i = 0; i < c->ledger.count; i++) {
    const attune_piece *piece = &c->ledger.piece[i];
    show_grouped(out, 10, piece->offset);
    show_grouped(out, 10, piece->bytes);
    attune__text_printf(out, "  %s %s[%u][%u]  %s\n", piece->ctype, piece->name, piece->rows,
                        piece->columns, piece->note);
  }
}

/* How the steps of the algorithm are put in line, where a family has a choice. */
static void knob_lines(const attune_plan *plan, const attune_candidate *c, attune__text *out) {
  const attune_variant *v = &plan->request.variant;
  const uint32_t knobs = attune__model(v->op, v->part, c->tile.family)->knobs;
  if (!knobs) return;
  attune__text_puts(out, "\norder knobs, which the tuner tries\n");
#define X(type, field, letters, def, constant, text)                                               \
  if (knobs >> ATTUNE__TILE_##field & 1)                                                           \
    attune__text_printf(out, "  %-10s %2s%u  %s\n", #field, letters, (unsigned)c->tile.field, text);
  ATTUNE_TILE_FIELDS(X)
#undef X
}
static void traffic_lines(const attune_plan *plan, const attune_candidate *c, attune__text *out) {
  const attune_variant *v = &plan->request.variant;
  attune_traffic traffic;
  attune__model(v->op, v->part, c->tile.family)
      ->traffic(v, &c->tile, &plan->request.shape, &traffic);
  attune__text_puts(out, "\ndevice memory, bytes for ");
  show_shape(out, v, &plan->request.shape);
  attune__text_puts(out, "\n                requested        compulsory  elements requested\n");
  for (int i = 0; i < traffic.count; i++) {
    const attune_traffic_row *row = &traffic.row[i];
    attune__text_printf(out, "  %-3s %s", row->tensor, row->requested_write > 0 ? "w" : "r");
    show_grouped(out, 19, row->requested_read + row->requested_write);
    show_grouped(out, 18, row->compulsory_read + row->compulsory_write);
    attune__text_printf(out, "  %s\n", row->formula);
  }
  attune__text_puts(out, "  sum  ");
  show_grouped(out, 18, traffic.requested);
  show_grouped(out, 18, traffic.compulsory);
  attune__text_puts(out,
                    "\n  keys, tiles_m, tiles_n, pairs: keys in a block's range, tiles of rows and "
                    "of keys, pairs\n"
                    "  that the mask keeps, summed over the blocks of one head. compulsory: each "
                    "distinct byte once.\n");
}

static void ceiling_lines(const attune_plan *plan, const attune_candidate *c, attune__text *out) {
  const attune_cost *cost = &c->cost;
  const struct {
    const char *name;
    double clocks;
  } row[] = {{"fma", cost->fma},
             {"tensor", cost->tensor},
             {"exponential", cost->exponential},
             {"shared memory", cost->shared_memory},
             {"issue", cost->issue},
             {"device memory", cost->device_memory}};
  attune__text_puts(out, "\nceilings, clocks of an SM for the launch\n");
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    attune__text_printf(out, "  %-14s", row[i].name);
    show_grouped(out, 14, row[i].clocks);
    attune__text_puts(out, !strcmp(row[i].name, cost->binds) ? "  binds\n" : "\n");
  }
  attune__text_puts(out, "  start-up      ");
  show_grouped(out, 14, cost->startup);
  attune__text_puts(out, "\n  total         ");
  show_grouped(out, 14, cost->total);
  attune__text_puts(out, "\n  FLOPs         ");
  show_grouped(out, 14, attune__flops(&plan->request.variant, &plan->request.shape));
  attune__text_puts(out, " of the whole op, for pairs that the mask keeps\n");
}

static void explain_text(const attune_plan *plan, const attune_candidate *chosen,
                         const attune_request *request, attune__text *out) {
  char name[ATTUNE_NAME_MAX];
  attune__kernel_name(&plan->request.variant, &chosen->tile, name);
  attune__text_printf(out, "%s\n", name);
  show_model_note(out, plan->request.board);
  ledger_lines(plan, chosen, out);
  knob_lines(plan, chosen, out);
  traffic_lines(plan, chosen, out);
  if (chosen->legal) ceiling_lines(plan, chosen, out);
  candidate_lines(plan, chosen, out);
  show_refused(out, plan);
  show_classes(out, request, plan->request.variant.part, &plan->request.shape);
  show_rows(out, &plan->request.variant, &chosen->tile, attune__plan_budget(&plan->request));
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void explain_json(const attune_plan *plan, const attune_candidate *chosen,
                         const attune_request *request, attune__json *json) {
  char name[ATTUNE_NAME_MAX];
  attune__kernel_name(&plan->request.variant, &chosen->tile, name);
  attune__json_begin(json, '{');
  show_json_text(json, "name", name);
  show_json_request(json, plan);
  show_json_real(json, "flops", attune__flops(&plan->request.variant, &plan->request.shape));
  attune__json_key(json, "chosen");
  show_json_candidate(json, plan, chosen);
  attune__json_key(json, "candidates");
  attune__json_begin(json, '[');
  for (int i = 0; i < plan->count; i++) show_json_candidate(json, plan, &plan->candidates[i]);
  attune__json_end(json, ']');
  show_classes_json(json, request, plan->request.variant.part, &plan->request.shape);
  show_rows_json(json, &plan->request.variant, &chosen->tile, attune__plan_budget(&plan->request));
  attune__json_end(json, '}');
}

/* ---- the command --------------------------------------------------------------------------- */

/* The candidate of that tile, or the first choice; NULL when the name's tile is none. */
static const attune_candidate *choose(const attune_plan *plan, const attune_tile *tile) {
  for (int i = 0; i < plan->count; i++)
    if (!tile || !memcmp(&plan->candidates[i].tile, tile, sizeof *tile))
      return &plan->candidates[i];
  return NULL;
}

/* A measured tile may be none that the planner lists: then it is asked for, field by field. No
 * tile and no candidate: the planner's own status says why nothing fits. */
static attune_status plan_with(const attune_plan_request *request, const attune_tile *tile,
                               attune_plan *plan) {
  attune_plan_request wish = *request;
  attune_status status = attune__plan_make(request, plan);
  if (status != ATTUNE_OK && status != ATTUNE_NO_FIT) return status;
  if (!tile || choose(plan, tile)) return status;
  attune__plan_free(plan);
  wish.family = tile->family;
  wish.pins.fixed = ~0u, wish.pins.tile = *tile;
  return attune__plan_make(&wish, plan);
}

/* What is explained: a variant with its pins, the plan that is wanted of it. */
typedef struct subject {
  attune_request request;
  attune_plan_request wish;
  attune_tile tile;
  int has_tile, is_program;
} subject;

/* Plans and explains one kernel. The table of a plan in which nothing fits is an answer, too. */
static attune_status explain(const subject *s, attune__text *text, attune__json *json) {
  const attune_tile *tile = s->has_tile ? &s->tile : NULL;
  attune_plan plan;
  attune_status status = plan_with(&s->wish, tile, &plan);
  if (status != ATTUNE_OK && status != ATTUNE_NO_FIT) return status;
  const attune_candidate *chosen = choose(&plan, tile);
  if (!chosen && tile)
    status =
        attune_fail(ATTUNE_NOT_FOUND, "the tile is no candidate; name the variant to see them");
  else if (chosen && json)
    explain_json(&plan, chosen, &s->request, json);
  else if (chosen)
    explain_text(&plan, chosen, &s->request, text);
  attune__plan_free(&plan);
  return chosen && tile ? ATTUNE_OK : status;
}

static int read_shape(const cli_args *args, attune_shape *s) {
  int64_t longest = 1 << 24; /* far beyond any model's context */
  *s = attune__plan_shape(ATTUNE_CLASS_ANY);
  if (!cli_int(args, "--seq", 1, longest, &s->len_q)) return 0;
  s->len_k = s->len_q;
  int ok = cli_int(args, "--keys", 1, longest, &s->len_k) &&
           cli_int(args, "--batch", 1, 1 << 20, &s->batch) &&
           cli_int(args, "--heads", 1, 1 << 20, &s->heads_q);
  s->heads_kv = s->heads_q;
  return ok;
}

/* "len_k=77,window_left=63" */
static attune_status read_pins(const char *text, int op, attune_pinset *out) {
  for (const char *at = text; *at; at += strcspn(at, ","), at += *at == ',') {
    char name[24], value[ATTUNE_PIN_TEXT_MAX];
    double number;
    int length = (int)strcspn(at, ",");
    if (sscanf(at, "%23[^=,]=%31[^,]", name, value) != 2 || !attune__pin_parse(value, &number))
      return attune_fail(ATTUNE_INVALID, "--pin %.*s: wanted one like len_k=77", length, at);
    if (!attune__pinnable(op, name))
      return attune_fail(ATTUNE_INVALID, "--pin %s: no scalar of %s that can be pinned", name,
                         attune__op_name(op));
    attune_status status = attune__pinset_add(out, name, number);
    if (status) return status;
  }
  return ATTUNE_OK;
}

/* A name has its pins' digest alone: their values come from --pin, and must be those. */
static attune_status read_subject(const cli_args *args, subject *s) {
  const char *pins = cli_value(args, "--pin");
  attune_variant *v = &s->request.variant;
  attune_status status =
      attune__name_parse(args->word[0], v, &s->tile, &s->has_tile, &s->is_program);
  if (!status && pins) status = read_pins(pins, v->op, &s->request.pins);
  if (status) return status;
  uint32_t digest = attune__pinset_digest(&s->request.pins);
  if (v->pins && pins && v->pins != digest)
    return attune_fail(ATTUNE_INVALID, "--pin %s: %s has other pins", pins, args->word[0]);
  if (pins) v->pins = digest;
  s->wish.variant = *v;
  s->wish.shape = attune__shape_pinned(&s->wish.shape, &s->request.pins);
  return ATTUNE_OK;
}

/* Every part of a program, or the one that the name says. */
static attune_status explain_parts(const cli_args *args, subject *s, attune__text *text) {
  attune__json json = {.text = text};
  attune_variant *v = &s->wish.variant;
  int first = s->is_program ? 0 : v->part;
  int last = s->is_program ? attune__op_parts(v->op) - 1 : first;
  attune_status status = ATTUNE_OK;
  if (args->json) {
    attune__json_begin(&json, '{');
    show_json_count(&json, "schema", CLI_JSON_SCHEMA);
    attune__json_key(&json, "kernels");
    attune__json_begin(&json, '[');
  }
  for (int part = first; part <= last && status == ATTUNE_OK; part++) {
    v->part = (uint8_t)part;
    if (!args->json && part > first) attune__text_puts(text, "\n");
    status = explain(s, text, args->json ? &json : NULL);
  }
  if (args->json) {
    attune__json_end(&json, ']');
    attune__json_end(&json, '}');
    attune__text_puts(text, "\n");
  }
  return status;
}

static int run(const cli_args *args) {
  subject s = {.is_program = 0};
  if (!cli_bytes(args, "--sram", &s.wish.budget) || !read_shape(args, &s.wish.shape))
    return CLI_USAGE;
  attune_status status = read_subject(args, &s);
  if (status != ATTUNE_OK) return cli_fail(status);
  attune__text text = {0};
  status = explain_parts(args, &s, &text);
  if (status != ATTUNE_OK && status != ATTUNE_NO_FIT) {
    attune__text_free(&text);
    return cli_fail(status);
  }
  int failed = status == ATTUNE_OK ? CLI_OK : cli_fail(status);
  int printed = cli_print(&text);
  return printed != CLI_OK ? printed : failed;
}

const cli_command cli_explain_command = {
    .name = "explain",
    .usage = "explain NAME [--sram B] [--seq N] [--keys N] [--batch N] [--heads N] [--pin P]",
    .text =
        "Explains a kernel, or the first choice for a variant: its shared memory, the bytes it\n"
        "moves, the ceilings and which binds, and the other tiles with the reason against each;\n"
        "what the JIT takes for each class of shapes; and the rows that `attune tune` measured of\n"
        "it, or that there are none.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
