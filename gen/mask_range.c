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

/* One head's mask, seen by blocks of block_m of its packed rows [from, rows), in steps of block_n
 * keys. */
typedef struct walk {
  const attune_variant *v;
  const attune_shape *s;
  int64_t from, rows, block_m, block_n, last; /* last: end of the keys that some row sees */
} walk;

static int64_t row_of(const walk *w, int64_t block) {
  return w->from + block * w->block_m;
}

/* Adds block `at` and, `count - 1` times, one that differs from it as much as `next` does. */
static void add_blocks(const walk *w, int64_t at, int64_t next, int64_t count,
                       attune_mask_sums *out) {
  int64_t keys[2], steps[2], loaded[2], group = w->v->group, row0 = row_of(w, at);
  int64_t size = row0 + w->block_m < w->rows ? w->block_m : w->rows - row0;
  for (int i = 0; i < (count > 1 ? 2 : 1); i++) {
    int64_t first = row_of(w, i ? next : at), begin, end;
    attune__mask_range(w->v, w->s, first / group, (first + size - 1) / group + 1, &begin, &end);
    keys[i] = end - begin;
    steps[i] = (keys[i] + w->block_n - 1) / w->block_n;
    loaded[i] = clamp(begin + steps[i] * w->block_n, end, w->last > end ? w->last : end) - begin;
  }
  int64_t pairs = count > 1 ? count * (count - 1) / 2 : 0;
  int64_t sum = count * keys[0] + (pairs ? pairs * (keys[1] - keys[0]) : 0);
  out->blocks += count;
  out->keys += sum;
  out->pairs += size * sum;
  out->steps += count * steps[0] + (pairs ? pairs * (steps[1] - steps[0]) : 0);
  out->loaded += count * loaded[0] + (pairs ? pairs * (loaded[1] - loaded[0]) : 0);
}

/* The first turn at which a bound that starts at `from` and moves by `by` a turn is at `level` or
 * above; within [0, turns]. */
static int64_t turn_of(int64_t from, int64_t by, int64_t level, int64_t turns) {
  return level <= from ? 0 : clamp((level - from + by - 1) / by, 0, turns);
}

/* Blocks first, first + period, ...: from one to the next the diagonal moves by `by` keys, whole
 * steps. Between the turns at which a bound comes to an end of the keys, counts change evenly. */
static void add_turns(const walk *w, int64_t first, int64_t period, int64_t by, int64_t turns,
                      attune_mask_sums *out) {
  bounds b = bounds_of(w->v, w->s);
  int64_t row0 = row_of(w, first), group = w->v->group;
  int64_t begin = row0 / group + b.lower, end = (row0 + w->block_m - 1) / group + 1 + b.upper;
  int64_t cut[] = {turn_of(begin, by, 0, turns),
                   turn_of(begin, by, w->s->len_k, turns),
                   turn_of(end, by, 0, turns),
                   turn_of(end, by, w->last - w->block_n + 1, turns),
                   turn_of(end, by, w->last, turns),
                   turn_of(end, by, w->s->len_k, turns),
                   turns};
  for (int64_t at = 0, next; at < turns; at = next) {
    next = turns;
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
      if (cut[i] > at && cut[i] < next) next = cut[i];
    add_blocks(w, first + at * period, first + (at + 1) * period, next - at, out);
  }
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* Blocks repeat, moved by whole steps of keys, after as many as have a multiple of group * block_n
 * rows: a plan asks for these sums some hundred times, for heads of any length. */
void attune__mask_blocks_of(const attune_variant *v, const attune_shape *s, int64_t from,
                            int64_t to, int64_t block_m, int64_t block_n, attune_mask_sums *out) {
  *out = (attune_mask_sums){0};
  if (from >= to) return;
  walk w = {.v = v, .s = s, .from = from, .rows = to, .block_m = block_m, .block_n = block_n};
  int64_t unused, whole = (to - from) / block_m, step = v->group * block_n;
  int64_t period = step / common_divisor(step, block_m);
  attune__mask_range(v, s, 0, s->len_q, &unused, &w.last);
  for (int64_t i = 0; i < period && i < whole; i++)
    add_turns(&w, i, period, period * block_m / v->group, (whole - i + period - 1) / period, out);
  if (row_of(&w, whole) < to) add_blocks(&w, whole, whole, 1, out);
}

void attune__mask_blocks(const attune_variant *v, const attune_shape *s, int64_t block_m,
                         int64_t block_n, attune_mask_sums *out) {
  attune__mask_blocks_of(v, s, 0, s->len_q * v->group, block_m, block_n, out);
}

double attune__mask_pairs(const attune_variant *v, const attune_shape *s) {
  attune_variant one = *v;
  attune_mask_sums rows;
  one.group = 1;
  attune__mask_blocks(&one, s, 1, 1, &rows);
  return (double)rows.pairs;
}

double attune__flops(const attune_variant *v, const attune_shape *s) {
  double heads = (double)s->batch * (double)s->heads_q;
  return 2.0 * heads * attune__mask_pairs(v, s) * (v->head_dim_qk + v->head_dim_v);
}
