/* mask_range.c - the mask on the host: which keys rows can see, how many pairs that makes, FLOPs.
 * The twin of templates/mask; nothing else on the host computes with the diagonal. */
#include "model.h"

/* Bounds of j - i; unbounded sides are far outside of any length (lengths stay below 2^29). */
enum { FAR = 1 << 30 };
typedef struct {
  int64_t lower, upper;
} bounds;

static bounds bounds_of(const attune_variant *v, const attune_shape *s) {
  int64_t offset = s->corner == ATTUNE_CORNER_BOTTOM_RIGHT ? s->len_k - s->len_q : 0;
  bounds b = {-FAR, FAR};
  if (attune__mask_has_upper(v->mask)) b.upper = offset;
  if (!attune__mask_has_lower(v->mask)) return b;
  if (s->window_left >= 0) b.lower = offset - s->window_left;
  b.upper = s->window_right >= 0 ? offset + s->window_right : FAR;
  return b;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

void attune__mask_range(const attune_variant *v, const attune_shape *s, int64_t i0, int64_t i1,
                        int64_t *begin, int64_t *end) {
  bounds b = bounds_of(v, s);
  *begin = clamp(i0 + b.lower, 0, s->len_k);
  *end = i0 < i1 ? clamp(i1 + b.upper, *begin, s->len_k) : *begin;
}

void attune__mask_blocks(const attune_variant *v, const attune_shape *s, int64_t block_m,
                         int64_t block_n, attune_mask_sums *out) {
  *out = (attune_mask_sums){0};
  int64_t group = v->group, rows = s->len_q * group, first, last;
  attune__mask_range(v, s, 0, s->len_q, &first, &last);
  for (int64_t row0 = 0; row0 < rows; row0 += block_m) {
    int64_t row1 = row0 + block_m < rows ? row0 + block_m : rows, begin, end;
    attune__mask_range(v, s, row0 / group, (row1 - 1) / group + 1, &begin, &end);
    out->blocks++;
    out->keys += end - begin;
    out->pairs += (row1 - row0) * (end - begin);
    int64_t steps = (end - begin + block_n - 1) / block_n;
    out->steps += steps;
    out->loaded += clamp(begin + steps * block_n, end, last > end ? last : end) - begin;
  }
}

double attune__mask_pairs(const attune_variant *v, const attune_shape *s) {
  attune_mask_sums rows;
  attune__mask_blocks(v, s, 1, 1, &rows);
  return (double)rows.pairs / v->group;
}

double attune__flops(const attune_variant *v, const attune_shape *s) {
  double heads = (double)s->batch * (double)s->heads_q;
  return 2.0 * heads * attune__mask_pairs(v, s) * (v->head_dim_qk + v->head_dim_v);
}
