/* model_fma_traffic.c - bytes of the tensors that features bring, as templates/attn_fwd/fma.cu
 * reads them. Q, K, V, O and LSE are model_attn_fwd.c's.
 *
 * What is counted: every load of every thread. All lanes of a row read what belongs to the row, so
 * that a tensor of a few bytes has requests of many; they are served by L1. Of varlen all sequences
 * are of one length, of a bit mask all bits are set and no classes are given. */
#include "model_attn_fwd.h"
#include "model_fma.h"

/* One tile of rows: [row0, row1) exist, the threads have rows on to row0 + block_m. */
typedef struct block {
  int64_t row0, row1, begin, end; /* its keys */
} block;

static block block_at(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                      int64_t row0) {
  block b = {.row0 = row0, .row1 = s->len_q * v->group};
  if (b.row1 > row0 + t->block_m) b.row1 = row0 + t->block_m;
  attune__mask_range(v, s, row0 / v->group, (b.row1 - 1) / v->group + 1, &b.begin, &b.end);
  return b;
}

static int64_t overlap(int64_t begin, int64_t end, int64_t low, int64_t high) {
  int64_t first = begin > low ? begin : low, last = end < high ? end : high;
  return last > first ? last - first : 0;
}

/* Keys that a row beyond the last looks at: those that it would see, or all of a step that the
 * block's rows see whole. */
static int64_t keys_beyond(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                           const block *b, int64_t row) {
  int64_t begin, end, first_begin, first_end, last_begin, last_end, sum = 0, i = row / v->group;
  attune__mask_range(v, s, i, i + 1, &begin, &end);
  attune__mask_range(v, s, b->row0 / v->group, b->row0 / v->group + 1, &first_begin, &first_end);
  i = (b->row1 - 1) / v->group;
  attune__mask_range(v, s, i, i + 1, &last_begin, &last_end);
  for (int64_t j0 = b->begin; j0 < b->end; j0 += t->block_n) {
    int64_t j1 = j0 + t->block_n < b->end ? j0 + t->block_n : b->end;
    int full = j1 - j0 == t->block_n && last_begin <= j0 && first_end >= j1 &&
               !(v->features & ATTUNE_FEATURE_BITMASK);
    sum += full ? j1 - j0 : overlap(begin, end, j0, j1);
  }
  return sum;
}

/* What the blocks of one group of query heads do, summed. */
typedef struct sums {
  double blocks, steps, pairs; /* pairs: looked at */
  double words;                /* of 32 bits that hold the pairs which exist, of all heads */
} sums;

static double words_of_rows(const attune_variant *v, const attune_shape *s) {
  double words = 0;
  int64_t begin, end;
  for (int64_t i = 0; i < s->len_q; i++) {
    attune__mask_range(v, s, i, i + 1, &begin, &end);
    if (begin < end) words += (double)(((end - 1) / 32 - begin / 32 + 1) * v->group);
  }
  return words;
}

static sums sums_of(const attune_variant *v, const attune_tile *t, const attune_shape *s) {
  attune_mask_sums all;
  attune__mask_blocks(v, s, t->block_m, t->block_n, &all);
  sums out = {.blocks = (double)all.blocks, .steps = (double)all.steps};
  out.pairs = v->group * attune__mask_pairs(v, s);
  if (v->features & ATTUNE_FEATURE_BITMASK) out.words = words_of_rows(v, s);
  if (!all.blocks) return out;
  block b = block_at(v, t, s, (all.blocks - 1) * t->block_m);
  for (int64_t row = b.row1; row < b.row0 + t->block_m; row++) /* beyond the last */
    out.pairs += (double)keys_beyond(v, t, s, &b, row);
  return out;
}

void attune__fma_feature_traffic(const attune_variant *v, const attune_tile *t,
                                 const attune_shape *s, attune_traffic *out) {
  const uint32_t f = v->features;
  if (!f) return;
  double groups = (double)(s->batch * s->heads_q / v->group);
  double lanes = 32.0 * t->warps * attune__fma_rows_per_thread(t); /* a thread's rows, one by one */
  sums n = sums_of(v, t, s);
  double pairs = (double)(s->batch * s->heads_q) * attune__mask_pairs(v, s);
  double rows = (double)(s->batch * s->heads_q);
  if (f & ATTUNE_FEATURE_BIAS)
    attune__traffic_read(out, "BIAS", "batch * heads_q * pairs, rows beyond the last included",
                         attune__dtype_bytes(v->dtype_q), groups * n.pairs, pairs);
  if (f & ATTUNE_FEATURE_BITMASK)
    attune__traffic_read(out, "BITS", "batch * heads_q * pairs, rows beyond the last included", 4,
                         groups * n.pairs, groups * n.words);
  if (f & ATTUNE_FEATURE_ALIBI)
    attune__traffic_read(out, "SLOPES", "16 lanes * rows * steps", 4, groups * n.steps * lanes,
                         pairs > 0 ? rows : 0);
  if (f & ATTUNE_FEATURE_SINK)
    attune__traffic_read(out, "SINKS", "16 lanes * rows", 4, groups * n.blocks * lanes,
                         rows > 0 && n.blocks > 0 ? (double)s->heads_q : 0);
  if (f & ATTUNE_FEATURE_VARLEN) attune__forward_varlen_traffic(v, t, s, 32 * t->warps, out);
}
