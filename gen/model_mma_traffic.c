/* model_mma_traffic.c - bytes of the tensors that features bring, as templates/attn_fwd/mma.cu
 * reads them. Q, K, V, O and LSE are model_attn_fwd.c's.
 *
 * What is counted: every load of every thread. A warp reads biases and bits of whole tiles of keys,
 * of those in which it sees some pair; what belongs to a row is read by each lane that has some of
 * it. Of varlen all sequences are of one length, of a bit mask all bits are set and no classes are
 * given. */
#include "model_attn_fwd.h"
#include "model_mma.h"

/* Rows of one warp, or of warps that share them, and the keys of their block. */
typedef struct band {
  int64_t row0, row1; /* those that exist, none when row0 is not below row1 */
  int64_t begin, end;
} band;

/* Elements and words that the bands of one group of query heads read, and those of which each is
 * another one. */
typedef struct sums {
  double blocks, pairs, words, distinct_pairs, distinct_words;
} sums;

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Whether some row of the band sees some key of [j0, j1). */
static int sees(const attune_variant *v, const attune_shape *s, const band *b, int64_t j0,
                int64_t j1) {
  int64_t first, last, unused;
  if (b->row0 >= b->row1) return 0;
  attune__mask_range(v, s, b->row0 / v->group, b->row0 / v->group + 1, &first, &unused);
  attune__mask_range(v, s, (b->row1 - 1) / v->group, (b->row1 - 1) / v->group + 1, &unused, &last);
  return j0 < last && j1 > first;
}

/* Words of bits that a lane reads of a row of a tile; warps of one row each read those of their
 * part. */
static int64_t words_of_tile(const attune_tile *t, int64_t j0, int64_t end) {
  int split = attune__mma_split(t), keys = t->block_n / split;
  int64_t words = 0;
  for (int part = 0; part < split; part++)
    for (int64_t j = 0; j < keys; j += 32) words += j0 + part * keys + j < end;
  return words;
}

static void add_band(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                     const band *b, sums *out) {
  int rows = MMA_STEP * attune__mma_bands(t), bits = (v->features & ATTUNE_FEATURE_BITMASK) != 0;
  int64_t low = -1, high = 0;
  for (int64_t j0 = bits ? b->begin / 64 * 64 : b->begin; j0 < b->end; j0 += t->block_n) {
    int64_t j1 = smaller(j0 + t->block_n, b->end);
    if (!sees(v, s, b, j0, j1)) continue;
    if (low < 0) low = j0;
    high = j1;
    out->pairs += rows * (double)(j1 - j0);
    out->words += 4.0 * rows * (double)words_of_tile(t, j0, b->end);
  }
  if (low < 0) return;
  out->distinct_pairs += (double)((b->row1 - b->row0) * (high - low));
  out->distinct_words += (double)((b->row1 - b->row0) * ((high - 1) / 32 - low / 32 + 1));
}

static sums sums_of(const attune_variant *v, const attune_tile *t, const attune_shape *s) {
  const int64_t all = s->len_q * v->group;
  const int rows = MMA_STEP * attune__mma_bands(t);
  sums out = {0};
  for (int64_t row0 = 0; row0 < all; row0 += t->block_m) {
    band b = {.row1 = smaller(row0 + t->block_m, all)};
    attune__mask_range(v, s, row0 / v->group, (b.row1 - 1) / v->group + 1, &b.begin, &b.end);
    out.blocks++;
    for (int64_t at = row0; at < row0 + t->block_m; at += rows) {
      band part = b;
      part.row0 = at, part.row1 = smaller(at + rows, b.row1);
      add_band(v, t, s, &part, &out);
    }
  }
  return out;
}

void attune__mma_feature_traffic(const attune_variant *v, const attune_tile *t,
                                 const attune_shape *s, attune_traffic *out) {
  const uint32_t f = v->features;
  if (!f) return;
  double groups = (double)(s->batch * s->heads_q / v->group);
  double lanes = 64.0 * t->warps * attune__mma_bands(t); /* a lane's rows, one by one */
  sums n = sums_of(v, t, s);
  int any = n.blocks > 0 && groups > 0;
  if (f & ATTUNE_FEATURE_BIAS)
    attune__traffic_read(out, "BIAS", "batch * heads_q * rows of tiles * keys of tiles",
                         attune__dtype_bytes(v->dtype_q), groups * n.pairs,
                         groups * n.distinct_pairs);
  if (f & ATTUNE_FEATURE_BITMASK)
    attune__traffic_read(out, "BITS", "4 lanes * batch * heads_q * rows of tiles * keys / 32", 4,
                         groups * n.words, groups * n.distinct_words);
  if (f & ATTUNE_FEATURE_ALIBI) /* one head is one load */
    attune__traffic_read(out, "SLOPES", "threads, or each of their rows where heads are packed", 4,
                         groups * n.blocks * (v->group > 1 ? lanes : 32.0 * t->warps),
                         any ? (double)(s->batch * s->heads_q) : 0);
  if (f & ATTUNE_FEATURE_SINK)
    attune__traffic_read(out, "SINKS", "4 lanes * rows of tiles", 4, groups * n.blocks * lanes,
                         any ? (double)s->heads_q : 0);
  if (!(f & ATTUNE_FEATURE_VARLEN)) return;
  attune__forward_varlen_traffic(v, t, s, 32 * t->warps, out);
  attune__traffic_read(out, "CU_Q", "threads * 2, after the loop", 4,
                       groups * n.blocks * 64.0 * t->warps, 0);
}
