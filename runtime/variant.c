/* variant.c - from a caller's problem to the variant that serves it, and what keeps two variants
 * apart.
 *
 * Input: attune_problem. Output: a variant with every default filled in, or the field that is
 * wrong. Which variants have a row is left to the table. This is on the path of attune_find: the
 * checks are a few compares, and messages are built only when one fails. */
#include "variant.h"

#include <stdio.h>

#include "launch.h"

/* Fields leave no padding, so that structs compare and hash as bytes. */
#define X(type, ...) +sizeof(type)
_Static_assert(sizeof(attune_variant) == 0 ATTUNE_VARIANT_FIELDS(X), "variant has padding");
_Static_assert(sizeof(attune_tile) == 1 ATTUNE_TILE_FIELDS(X), "tile has padding");
#undef X

/* The ids of an axis as bits, and its names for messages. */
#define ID_BIT(name, id, ...)       | 1u << (id)
#define LABEL(name, id, text, ...)  " " text
#define FEATURE_BIT(name, bit, ...) | ATTUNE_FEATURE_##name

static int has_id(uint32_t ids, uint32_t id) {
  return id < 32 && (ids >> id & 1);
}

static attune_status bad_axis(const char *field, uint32_t id, const char *labels) {
  return attune_fail(ATTUNE_INVALID, "attune_problem.%s is %u, which is none of:%s", field, id,
                     labels);
}

#define CHECK_AXIS(field, LIST)                                                                    \
  if (!has_id(0 LIST(ID_BIT), (uint32_t)(field)))                                                  \
  return bad_axis(#field, (uint32_t)(field), LIST(LABEL))

static attune_status set_axes(const attune_problem *p, attune_variant *v) {
  attune_op op = p->op;
  attune_dtype dtype_q = p->dtype_q;
  attune_dtype dtype_kv = p->dtype_kv ? p->dtype_kv : dtype_q;
  attune_dtype dtype_out = p->dtype_out ? p->dtype_out : dtype_q;
  attune_mask mask = p->mask ? p->mask : ATTUNE_MASK_NONE;
  attune_align align = p->align ? p->align : ATTUNE_ALIGN_16B;
  CHECK_AXIS(op, ATTUNE_OPS);
  CHECK_AXIS(dtype_q, ATTUNE_DTYPES);
  CHECK_AXIS(dtype_kv, ATTUNE_DTYPES);
  CHECK_AXIS(dtype_out, ATTUNE_DTYPES);
  CHECK_AXIS(mask, ATTUNE_MASKS);
  CHECK_AXIS(align, ATTUNE_ALIGNS);
  v->op = (uint8_t)op;
  v->dtype_q = (uint8_t)dtype_q;
  v->dtype_kv = (uint8_t)dtype_kv;
  v->dtype_out = (uint8_t)dtype_out;
  v->mask = (uint8_t)mask;
  v->align = (uint8_t)align;
  return ATTUNE_OK;
}

static attune_status bad_range(const char *field, int64_t value, int64_t low, int64_t high) {
  return attune_fail(ATTUNE_INVALID, "attune_problem.%s is %lld; %lld to %lld are legal", field,
                     (long long)value, (long long)low, (long long)high);
}

static attune_status set_numbers(const attune_problem *p, attune_variant *v) {
  const uint32_t known = 0 ATTUNE_FEATURES(FEATURE_BIT);
  int32_t dim_qk = p->head_dim_qk, dim_v = p->head_dim_v ? p->head_dim_v : dim_qk;
  int32_t group = p->group ? p->group : 1;
  if (dim_qk < 1 || dim_qk > ATTUNE_HEAD_DIM_MAX)
    return bad_range("head_dim_qk", dim_qk, 1, ATTUNE_HEAD_DIM_MAX);
  if (dim_v < 1 || dim_v > ATTUNE_HEAD_DIM_MAX)
    return bad_range("head_dim_v", dim_v, 1, ATTUNE_HEAD_DIM_MAX);
  if (group < 1 || group > UINT8_MAX) return bad_range("group", group, 1, UINT8_MAX);
  if (p->features & ~known)
    return attune_fail(ATTUNE_INVALID, "attune_problem.features has unknown bits 0x%x",
                       p->features & ~known);
  v->head_dim_qk = (uint16_t)dim_qk;
  v->head_dim_v = (uint16_t)dim_v;
  v->group = (uint8_t)group;
  v->features = p->features;
  return ATTUNE_OK;
}

static attune_status bad_length(const attune_problem *p) {
  const struct {
    const char *field;
    int32_t value;
  } lengths[] = {{"batch", p->batch},
                 {"heads_q", p->heads_q},
                 {"heads_kv", p->heads_kv},
                 {"len_q", p->len_q},
                 {"len_k", p->len_k}};
  size_t i = 0;
  while ((uint32_t)lengths[i].value < ATTUNE_LENGTH_LIMIT) i++;
  return bad_range(lengths[i].field, lengths[i].value, 0, ATTUNE_LENGTH_LIMIT - 1);
}

static attune_status check_shape(const attune_problem *p, int group) {
  uint32_t all = (uint32_t)(p->batch | p->heads_q | p->heads_kv | p->len_q | p->len_k);
  if (all >= ATTUNE_LENGTH_LIMIT) return bad_length(p);
  int ratio = p->heads_kv ? p->heads_q / p->heads_kv : 0;
  if (ratio * p->heads_kv != p->heads_q)
    return attune_fail(ATTUNE_INVALID,
                       "attune_problem.heads_q is %d, which is no multiple of heads_kv %d",
                       p->heads_q, p->heads_kv);
  if (group > 1 && ratio % group != 0)
    return attune_fail(ATTUNE_INVALID,
                       "attune_problem.group is %d, which does not divide heads_q / heads_kv = %d",
                       group, ratio);
  return ATTUNE_OK;
}

static attune_status fold_pins(const attune_problem *p, attune_variant *v) {
  attune_pinset set = {0};
  if (!p->pins)
    return attune_fail(ATTUNE_INVALID, "attune_problem.pins is NULL but pin_count is %u",
                       p->pin_count);
  for (uint32_t i = 0; i < p->pin_count; i++) {
    const char *name = p->pins[i].name;
    if (!name || !attune__pinnable(v->op, name))
      return attune_fail(ATTUNE_INVALID,
                         "attune_problem.pins[%u] is '%s', which is no pinnable scalar of %s", i,
                         name ? name : "(null)", attune__op_name(v->op));
    attune_status status = attune__pinset_add(&set, name, p->pins[i].value);
    if (status) return status;
  }
  v->pins = attune__pinset_digest(&set);
  return ATTUNE_OK;
}

attune_status attune__variant_of(const attune_problem *p, uint32_t arch, attune_variant *out) {
  memset(out, 0, sizeof *out);
  if (!p) return attune_fail(ATTUNE_INVALID, "the problem is NULL");
  if (p->size < sizeof *p)
    return attune_fail(ATTUNE_INVALID,
                       "attune_problem.size is %zu, expected %zu: begin with attune_problem_init()",
                       p->size, sizeof *p);
  out->arch = arch;
  attune_status status = set_axes(p, out);
  if (!status) status = set_numbers(p, out);
  if (!status) status = check_shape(p, out->group);
  if (!status && p->pin_count) status = fold_pins(p, out);
  return status;
}

/* ---- differences --------------------------------------------------------------------------- */

enum { VALUE_MAX = 96 }; /* bytes of a field's value as text: all features fit */

static void print_text(const char *text, char out[VALUE_MAX]) {
  snprintf(out, VALUE_MAX, "%s", text ? text : "?");
}

static void print_features(uint32_t features, char out[VALUE_MAX]) {
  size_t used = 0;
  snprintf(out, VALUE_MAX, "none");
  for (int bit = 0; bit < 32 && used < VALUE_MAX; bit++) {
    if (!(features >> bit & 1)) continue;
    const char *name = attune__feature_name(bit);
    used +=
        (size_t)snprintf(out + used, VALUE_MAX - used, "%s%s", used ? "+" : "", name ? name : "?");
  }
}

/* How a value prints, by the kind of its field; v is the variant that it stands in. */
#define PRINT_ARCH(v, value, out)     attune__arch_print(value, 1, out)
#define PRINT_FEATURES(v, value, out) print_features(value, out)
#define PRINT_PINS(v, value, out)     snprintf(out, VALUE_MAX, (value) ? "x%08x" : "none", value)
#define PRINT_DIM(v, value, out)      snprintf(out, VALUE_MAX, "%u", (unsigned)(value))
#define PRINT_COUNT(v, value, out)    PRINT_DIM(v, value, out)
#define PRINT_OP(v, value, out)       print_text(attune__op_name(value), out)
#define PRINT_PART(v, value, out)     print_text(attune__part_suffix((v)->op, value), out)
#define PRINT_DTYPE(v, value, out)    print_text(attune__dtype_name(value), out)
#define PRINT_MASK(v, value, out)     print_text(attune__mask_name(value), out)
#define PRINT_ALIGN(v, value, out)    print_text(attune__align_name(value), out)

void attune__variant_difference(const attune_variant *want, const attune_variant *have, char *out,
                                size_t size) {
  char wanted[VALUE_MAX], found[VALUE_MAX];
  if (size) out[0] = 0;
#define X(type, field, kind)                                                                       \
  if (want->field != have->field) {                                                                \
    PRINT_##kind(want, want->field, wanted);                                                       \
    PRINT_##kind(have, have->field, found);                                                        \
    snprintf(out, size, #field " %s, nearest has %s", wanted, found);                              \
    return;                                                                                        \
  }
  ATTUNE_VARIANT_FIELDS(X)
#undef X
}
