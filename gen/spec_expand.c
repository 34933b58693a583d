/* spec_expand.c - the Cartesian product of a spec's axes, less what its exclude rules name.
 *
 * Input: the axes and rules of a spec without faults. Output: requests, sorted and unique; or
 * diagnostics for what only whole variants show: a budget over the board's limit, a field whose
 * kernels don't exist yet, a rule that matches nothing. Tiles are left to plan.c. */
#include "../runtime/launch.h"
#include "board.h"
#include "spec_parts.h"

#include <stdlib.h>

/* A product beyond this is a slip, not a set: at half a second each it would compile for hours. */
enum { MAX_PRODUCT = 20000 };

/* One combination: a choice per field, NULL where an optional field is not written. */
typedef struct combination {
  attune__choice *choice[FIELDS];
} combination;

static const attune__node *node_of(const combination *row, int field) {
  return row->choice[field] ? row->choice[field]->node : NULL;
}

/* Whether a budget is one for the row's arch. */
static int sram_applies(const attune__choice *sram, const combination *row) {
  uint32_t arch = sram->value.sram.arch;
  return arch == 0 || arch == row->choice[FIELD_ARCH]->value.arch;
}

/* ---- exclude ---- */

/* Whether a rule's choice speaks of the row: a mask without a corner means any, a budget of one
 * arch means that arch's. */
static int choice_matches(int field, const attune__choice *rule, const combination *row) {
  const attune__choice *have = row->choice[field];
  if (!have) return 0;
  if (field == FIELD_MASK && rule->value.mask.corner == 0)
    return rule->value.mask.id == have->value.mask.id;
  if (field == FIELD_SRAM)
    return rule->value.sram.bytes == have->value.sram.bytes && sram_applies(rule, row);
  return !memcmp(&rule->value, &have->value, sizeof rule->value);
}

static int rule_matches(const attune__rule *rule, const combination *row) {
  for (int field = 0; field < FIELDS; field++) {
    const attune__axis *axis = &rule->axis[field];
    int found = axis->count == 0;
    for (int i = 0; i < axis->count; i++) found |= choice_matches(field, &axis->choice[i], row);
    if (!found) return 0;
  }
  return 1;
}

static int excluded(attune__reader *r, const combination *row) {
  int any = 0;
  for (int i = 0; i < r->rule_count; i++) {
    if (!rule_matches(&r->rules[i], row)) continue;
    r->rules[i].matched = 1;
    any = 1;
  }
  return any;
}

/* With --arch the archs are not the author's, so a rule may well speak of none of them. */
static void check_rules(attune__reader *r) {
  for (int i = 0; i < r->rule_count && !r->options.arch; i++)
    if (!r->rules[i].matched)
      attune__spec_error(r, r->rules[i].node, "correct its values, or remove the rule",
                         "this exclude rule matches nothing");
}

/* ---- one combination -> a request ---- */

/* The optional fields; those that every spec has stand in make_problem. */
static void fill_request(const combination *row, attune_request *out) {
  out->corner = row->choice[FIELD_MASK]->value.mask.corner;
  out->budget = row->choice[FIELD_SRAM]->value.sram.bytes;
  if (row->choice[FIELD_PIN]) out->pins = row->choice[FIELD_PIN]->value.pins;
  if (row->choice[FIELD_FAMILY]) out->family = row->choice[FIELD_FAMILY]->value.id;
  if (row->choice[FIELD_TILE]) out->tile = row->choice[FIELD_TILE]->value.tile;
  if (row->choice[FIELD_GPU]) memcpy(out->gpu, row->choice[FIELD_GPU]->value.gpu, sizeof out->gpu);
  out->line = row->choice[FIELD_OP]->node->line;
}

static attune_problem make_problem(const combination *row) {
  attune_problem p = attune_problem_init();
  p.op = (attune_op)row->choice[FIELD_OP]->value.id;
  p.dtype_q = (attune_dtype)row->choice[FIELD_DTYPE]->value.dtype.q;
  p.dtype_kv = (attune_dtype)row->choice[FIELD_DTYPE]->value.dtype.kv;
  p.dtype_out = (attune_dtype)row->choice[FIELD_DTYPE]->value.dtype.out;
  p.head_dim_qk = row->choice[FIELD_HEAD_DIM]->value.head_dim.qk;
  p.head_dim_v = row->choice[FIELD_HEAD_DIM]->value.head_dim.v;
  p.mask = (attune_mask)row->choice[FIELD_MASK]->value.mask.id;
  p.align = (attune_align)row->choice[FIELD_ALIGN]->value.id;
  p.features = row->choice[FIELD_FEATURES]->value.features;
  p.group = row->choice[FIELD_GROUP]->value.id;
  return p;
}

/* The field that a refusal speaks of: the message begins with it. */
static int field_named(const char *message) {
  for (int field = 0; field < FIELDS; field++) {
    const char *key = attune__field_key[field];
    if (!strncmp(message, key, strlen(key))) return field;
  }
  return FIELD_OP;
}

/* A choice is refused once, in however many combinations it fails. */
static int first_refusal(const combination *row, int field) {
  attune__choice *choice = row->choice[field];
  int first = !choice->refused;
  choice->refused = 1;
  return first;
}

/* attune_error() as a diagnostic at the field that it speaks of, or at the op where that is not
 * written. */
static void report_status(attune__reader *r, const combination *row) {
  int field = field_named(attune_error());
  if (!node_of(row, field)) field = FIELD_OP;
  if (!first_refusal(row, field)) return;
  attune__spec_error(r, node_of(row, field), "take it out, or the combination by an exclude rule",
                     "%s", attune_error());
}

static int check_pins(attune__reader *r, const combination *row, const attune_request *q) {
  for (uint32_t i = 0; i < q->pins.count; i++) {
    const char *name = q->pins.pin[i].name;
    if (attune__pinnable(q->variant.op, name)) continue;
    if (!first_refusal(row, FIELD_PIN)) return 0;
    attune__spec_error(r, node_of(row, FIELD_PIN), NULL,
                       "pin: %s has no scalar %s that can be pinned",
                       attune__op_name(q->variant.op), name);
    return 0;
  }
  return 1;
}

/* Bytes as an author writes them. */
static void print_bytes(uint32_t bytes, attune__text *out) {
  if (bytes % 1024 == 0)
    attune__text_printf(out, "%uKB", bytes / 1024);
  else
    attune__text_printf(out, "%uB", bytes);
}

/* `device` on the present GPU is that GPU's limit, which may differ from the arch's board. */
static int check_budget(attune__reader *r, const combination *row, attune_request *q) {
  const attune_board *board = attune__board(q->variant.arch);
  uint32_t limit = (uint32_t)board->smem_block;
  int present = r->options.native_smem && attune__board(r->options.native) == board;
  if (present) limit = r->options.native_smem;
  if (present && q->budget == 0 && limit != (uint32_t)board->smem_block) q->budget = limit;
  if (q->budget <= limit) return 1;
  if (!first_refusal(row, FIELD_SRAM)) return 0;
  attune__text message = {0}, help = {0};
  print_bytes(q->budget, &message);
  attune__text_printf(&message, " is over what %s offers a block: ", board->arch_name);
  print_bytes(limit, &message);
  attune__text_printf(&message, " (%s)", present ? "this GPU" : board->name);
  attune__text_printf(&help, "write device, or a size per arch: sram: {%s: device, ...}",
                      board->arch_name);
  if (message.data)
    attune__spec_error(r, node_of(row, FIELD_SRAM), help.data, "sram: %s", message.data);
  else
    r->no_memory = 1;
  attune__text_free(&message);
  attune__text_free(&help);
  return 0;
}

/* A tile speaks of one kernel; a program of several would need one for each part. */
static int check_tile(attune__reader *r, const combination *row, const attune_request *q) {
  if (!q->tile.fixed || attune__op_parts(q->variant.op) == 1) return 1;
  if (!first_refusal(row, FIELD_TILE)) return 0;
  attune__spec_error(r, node_of(row, FIELD_TILE),
                     "leave tile out, or put the op into a spec of its own",
                     "tile: not generated yet for %s, a program of %d kernels",
                     attune__op_name(q->variant.op), attune__op_parts(q->variant.op));
  return 0;
}

/* The family that the spec names has kernels of the variant. */
static attune_status check_family(const attune_request *q) {
  char reason[ATTUNE_REASON_MAX];
  if (!q->family || attune__family_serves(&q->variant, q->family, reason, sizeof reason))
    return ATTUNE_OK;
  return attune_fail(ATTUNE_UNSUPPORTED, "%s", reason);
}

/* Fills and checks; 1 when the request stands. */
static int make_request(attune__reader *r, const combination *row, attune_request *out) {
  memset(out, 0, sizeof *out);
  fill_request(row, out);
  attune_problem problem = make_problem(row);
  attune_status status =
      attune__variant_of(&problem, row->choice[FIELD_ARCH]->value.arch, &out->variant);
  out->variant.pins = attune__pinset_digest(&out->pins);
  if (status == ATTUNE_OK) status = attune__generated(&out->variant);
  if (status == ATTUNE_OK) status = check_family(out);
  if (status != ATTUNE_OK) {
    report_status(r, row);
    return 0;
  }
  return check_pins(r, row, out) && check_budget(r, row, out) && check_tile(r, row, out);
}

/* ---- the product ---- */

static int64_t product_size(const attune__reader *r) {
  int64_t size = 1;
  for (int field = 0; field < FIELDS && size <= MAX_PRODUCT; field++)
    if (r->axis[field].count) size *= r->axis[field].count;
  return size;
}

/* Combination number `index`, the last field counting fastest. */
static combination combination_at(const attune__reader *r, int64_t index) {
  combination out;
  for (int field = FIELDS - 1; field >= 0; field--) {
    const attune__axis *axis = &r->axis[field];
    out.choice[field] = axis->count ? &axis->choice[index % axis->count] : NULL;
    if (axis->count) index /= axis->count;
  }
  return out;
}

/* A map of budgets names the archs of the spec, all and no other. */
static void check_sram_archs(attune__reader *r) {
  const attune__axis *archs = &r->axis[FIELD_ARCH], *sram = &r->axis[FIELD_SRAM];
  for (int i = 0; i < archs->count; i++) {
    int found = 0;
    for (int j = 0; j < sram->count; j++) {
      uint32_t arch = sram->choice[j].value.sram.arch;
      found |= arch == 0 || arch == archs->choice[i].value.arch;
    }
    if (!found)
      attune__spec_error(
          r, sram->choice[0].node, "add it to the map; device is what its board offers",
          "sram: there is no budget for %s", attune__arch_text(archs->choice[i].value.arch));
  }
  for (int j = 0; j < sram->count && !r->options.arch; j++) {
    uint32_t arch = sram->choice[j].value.sram.arch;
    int found = arch == 0;
    for (int i = 0; i < archs->count; i++) found |= arch == archs->choice[i].value.arch;
    if (!found)
      attune__spec_error(r, sram->choice[j].node, "add it to arch, or take the budget out",
                         "sram: %s is not among the archs of this spec", attune__arch_text(arch));
  }
}

/* ---- order ---- */

/* Variant name, then budget (the device's own, 0, is the largest), then the rest as bytes. */
static int compare(const void *left, const void *right) {
  const attune_request *a = left, *b = right;
  char name_a[ATTUNE_NAME_MAX], name_b[ATTUNE_NAME_MAX];
  attune__variant_name(&a->variant, 1, name_a);
  attune__variant_name(&b->variant, 1, name_b);
  int order = strcmp(name_a, name_b);
  if (order) return order;
  if (a->budget != b->budget) return a->budget - 1u < b->budget - 1u ? -1 : 1;
  if ((order = memcmp(&a->pins, &b->pins, sizeof a->pins))) return order;
  if ((order = memcmp(&a->tile, &b->tile, sizeof a->tile))) return order;
  if (a->family != b->family) return a->family - b->family;
  if ((order = strcmp(a->gpu, b->gpu))) return order;
  return (int)a->corner - (int)b->corner;
}

static void sort_unique(attune_spec *spec) {
  int kept = 0;
  if (spec->count) qsort(spec->requests, (size_t)spec->count, sizeof *spec->requests, compare);
  for (int i = 0; i < spec->count; i++)
    if (kept == 0 || compare(&spec->requests[kept - 1], &spec->requests[i]))
      spec->requests[kept++] = spec->requests[i];
  spec->count = kept;
}

void attune__spec_product(attune__reader *r, attune_spec *out) {
  int64_t size = product_size(r);
  const attune__node *op = r->axis[FIELD_OP].choice[0].node;
  if (size > MAX_PRODUCT) {
    attune__spec_error(r, op, "shorten the lists or split the spec",
                       "the product of all lists has over %d variants", MAX_PRODUCT);
    return;
  }
  out->requests = malloc((size_t)size * sizeof *out->requests);
  if (!out->requests) {
    r->no_memory = 1;
    return;
  }
  check_sram_archs(r);
  for (int64_t i = 0; i < size; i++) {
    combination row = combination_at(r, i);
    if (!sram_applies(row.choice[FIELD_SRAM], &row) || excluded(r, &row)) continue;
    if (make_request(r, &row, &out->requests[out->count])) out->count++;
  }
  check_rules(r);
  sort_unique(out);
  if (!out->count && !r->diags.count)
    attune__spec_error(r, op, "loosen the exclude rules", "the spec excludes every variant");
}
