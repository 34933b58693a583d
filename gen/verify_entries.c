/* verify_entries.c - from entry files to a program, through the public door that the JIT uses too:
 * a miss handler that has them ready.
 *
 * Input: a context, a variant, the entries of one program. Output: the program, prepared. Where the
 * entries come from (a set, the store, a test) is the caller's business. */
#include "verify.h"

typedef struct ready {
  const void *const *entries;
  const size_t *bytes;
  int count;
} ready;

static attune_status hand_out(void *user, const attune_problem *problem, const char *arch,
                              int dry_run, attune_miss_result *result) {
  const ready *have = user;
  (void)problem, (void)arch;
  if (dry_run) return ATTUNE_OK;
  result->count = have->count;
  for (int i = 0; i < have->count; i++) {
    result->entries[i] = have->entries[i];
    result->entry_bytes[i] = have->bytes[i];
  }
  return ATTUNE_OK;
}

static attune_problem problem_of(const attune_variant *v) {
  attune_problem p = attune_problem_init();
  p.op = (attune_op)v->op;
  p.dtype_q = (attune_dtype)v->dtype_q;
  p.dtype_kv = (attune_dtype)v->dtype_kv;
  p.dtype_out = (attune_dtype)v->dtype_out;
  p.head_dim_qk = v->head_dim_qk, p.head_dim_v = v->head_dim_v;
  p.mask = (attune_mask)v->mask;
  p.align = (attune_align)v->align;
  p.features = v->features;
  p.group = v->group;
  return p;
}

attune_status attune__verify_open(attune_context *context, const attune_variant *variant,
                                  const attune_pinset *pins, const void *const *entries,
                                  const size_t *entry_bytes, int count, attune_program **out) {
  ready have = {entries, entry_bytes, count};
  attune_problem problem = problem_of(variant);
  attune_pin list[ATTUNE_MAX_PINS];
  *out = NULL;
  if (count < 1 || count > ATTUNE_MAX_PARTS)
    return attune_fail(ATTUNE_INVALID, "%d entries: a program has 1 to %d", count,
                       ATTUNE_MAX_PARTS);
  for (uint32_t i = 0; pins && i < pins->count; i++)
    list[i] = (attune_pin){pins->pin[i].name, pins->pin[i].value};
  if (pins) problem.pins = list, problem.pin_count = pins->count;
  attune_on_miss(context, hand_out, &have);
  attune_status status = attune_prepare(context, &problem, out);
  attune_on_miss(context, NULL, NULL);
  return status;
}
