/* verify_features.c - the inputs of a trial beside Q, K and V: slopes, bias, sinks, bit mask.
 *
 * Input: a trial whose lengths are known, and its case. Output: the tensors that the variant's
 * features name, as they lie in memory (strides 0 along the axes that the case broadcasts; gaps
 * between rows in every layout but the plainest), set up in the trial's problem too. What no pair
 * may look at is spoiled: the bias is NaN at pairs that nothing keeps, bits beyond the keys are
 * random. */
#include "cases.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int attune__trial_keeps(const attune__trial *t, int64_t batch, int64_t head, int64_t i, int64_t j) {
  int64_t begin, end;
  attune_shape sequence = attune__sequence(&t->problem, batch);
  attune__mask_range(&t->problem.variant, &sequence, i, i + 1, &begin, &end);
  return j >= begin && j < end && attune__bit(&t->problem, batch, head, i, j);
}

/* Calls visit with every pair of rows in use that something keeps. */
typedef void (*pair_fn)(attune__trial *t, int64_t batch, int64_t head, int64_t i, int64_t j);
static void each_kept(attune__trial *t, pair_fn visit) {
  for (int64_t b = 0; b < t->problem.shape.batch; b++) {
    attune_shape s = attune__sequence(&t->problem, b);
    for (int64_t i = 0; i < s.len_q; i++) {
      int64_t begin, end;
      attune__mask_range(&t->problem.variant, &s, i, i + 1, &begin, &end);
      for (int64_t h = 0; h < s.heads_q; h++)
        for (int64_t j = begin; j < end; j++)
          if (attune__bit(&t->problem, b, h, i, j)) visit(t, b, h, i, j);
    }
  }
}

static void *allocate(int64_t count, size_t bytes) {
  return calloc((size_t)count + 1, bytes);
}

/* ---- slopes and sinks ------------------------------------------------------------------------ */

static void fill_slopes(attune__trial *t, const attune__case *c) {
  static const float turns[] = {0.5f, 0, -0.125f, 0.03125f, 2};
  const attune_shape *s = &c->shape;
  for (int64_t b = 0; b < s->batch; b++)
    for (int64_t h = 0; h < s->heads_q; h++)
      t->slopes[b * s->heads_q + h] = c->slopes == ATTUNE__SLOPES_BATCH
                                          ? turns[(b * s->heads_q + h) % 5]
                                          : exp2f(-8.0f * (float)(h + 1) / (float)s->heads_q);
}

static void fill_sinks(attune__trial *t, const attune__case *c, uint64_t *seed) {
  static const float turns[] = {-INFINITY, 40, -40, 0};
  for (int64_t h = 0; h < c->shape.heads_q; h++)
    t->sinks[h] = c->sinks == ATTUNE__SINKS_MIXED ? turns[h % 4] : 2 * attune__draw_normal(seed);
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Extents of a tensor [batch, head, query] that is the same along `over`, with `gap` elements
 * between its rows of `row`, and its strides; returns its elements. */
static int64_t set_strides(const attune_shape *s, int over, int64_t row, int64_t gap,
                           int64_t extent[3], int64_t stride[3]) {
  const int64_t full[3] = {s->batch, s->heads_q, s->len_q};
  int64_t pitch = row + gap;
  for (int axis = 2; axis >= 0; axis--) {
    extent[axis] = over & 1 << axis ? 1 : full[axis];
    stride[axis] = over & 1 << axis ? 0 : pitch;
    pitch *= extent[axis];
  }
  return pitch;
}

static int64_t gap_of(const attune__case *c, int64_t gap) {
  return c->layout == ATTUNE__LAYOUT_BSHD ? 0 : gap;
}

/* A word of row i and keys 32 w ...: random beyond the keys. */
static uint32_t draw_word(const attune__case *c, int64_t i, int64_t w, uint64_t blocks,
                          uint64_t *seed) {
  const uint32_t random = (uint32_t)attune__draw(seed);
  const int64_t keys = c->shape.len_k, last = keys - 32 * w;
  const uint32_t inside = last >= 32 ? UINT32_MAX : (1u << last) - 1;
  uint64_t block = blocks + (uint64_t)(i / ATTUNE_BITMASK_BLOCK * 3 + w / 2);
  uint32_t kept = random;
  if (c->bits == ATTUNE__BITS_NONE || (c->bits == ATTUNE__BITS_BLOCKS && block % 4 == 0)) kept = 0;
  if (c->bits == ATTUNE__BITS_BLOCKS && block % 4 == 1) kept = UINT32_MAX;
  if (c->bits == ATTUNE__BITS_RANDOM && i == c->shape.len_q / 3) kept = 0;
  if (c->bits == ATTUNE__BITS_RANDOM && keys / 4 / 32 == w) kept &= ~(1u << keys / 4 % 32);
  return (kept & inside) | (random & ~inside);
}

static int make_bits(attune__trial *t, const attune__case *c, uint64_t *seed) {
  const int64_t words = (c->shape.len_k + 31) / 32;
  int64_t extent[3], *stride = t->problem.bitmask_stride, part = 0;
  t->bits_count = set_strides(&c->shape, c->bits_over, words, gap_of(c, 1), extent, stride);
  t->problem.bitmask = t->bits = allocate(t->bits_count, sizeof *t->bits);
  if (!t->bits) return 0;
  memset(t->bits, 0xff, (size_t)t->bits_count * sizeof *t->bits);
  for (int64_t b = 0; b < extent[0]; b++)
    for (int64_t h = 0; h < extent[1]; h++, part++)
      for (int64_t i = 0; i < extent[2]; i++)
        for (int64_t w = 0; w < words; w++)
          t->bits[b * stride[0] + h * stride[1] + i * stride[2] + w] =
              draw_word(c, i, w, (uint64_t)part, seed);
  return 1;
}

static int64_t blocks_of(int64_t length) {
  return (length + ATTUNE_BITMASK_BLOCK - 1) / ATTUNE_BITMASK_BLOCK;
}

static int make_classes(attune__trial *t, const attune__case *c) {
  const int64_t *stride = t->problem.bitmask_stride, rows = stride[2] ? c->shape.len_q : 1;
  int64_t extent[3];
  attune_shape blocks = c->shape;
  blocks.len_q = blocks_of(c->shape.len_q);
  t->classes_count =
      set_strides(&blocks, c->bits_over, blocks_of(c->shape.len_k), 0, extent, t->classes_stride);
  t->classes = allocate(t->classes_count, sizeof *t->classes);
  for (int64_t b = 0; t->classes && b < extent[0]; b++)
    for (int64_t h = 0; h < extent[1]; h++)
      attune_bitmask_classes(t->bits + b * stride[0] + h * stride[1], stride[2], (int32_t)rows,
                             (int32_t)c->shape.len_k,
                             t->classes + b * t->classes_stride[0] + h * t->classes_stride[1]);
  return t->classes != NULL;
}

/* ---- bias ------------------------------------------------------------------------------------ */

static int64_t bias_index(const attune__trial *t, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t *stride = t->problem.bias_stride;
  return b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3];
}

static float lowest(int dtype) {
  return dtype == ATTUNE_DTYPE_FP32 ? -FLT_MAX : dtype == ATTUNE_DTYPE_BF16 ? -0x1.fep127f : -65504;
}

/* The element of the pair in memory, which several pairs may share. */
static float draw_bias(const attune__trial *t, const attune__case *c, int64_t i, uint64_t *seed) {
  const int dtype = t->problem.variant.dtype_q;
  const float x = attune__round(dtype, attune__draw_normal(seed));
  const float odd = c->bias == ATTUNE__BIAS_INF ? -INFINITY : lowest(dtype);
  if (c->bias == ATTUNE__BIAS_NORMAL) return x;
  return attune__draw(seed) % 4 == 0 || i == c->shape.len_q / 2 ? odd : x;
}

/* A pair makes its element known; the value is drawn afterwards, in the order of memory. */
static void mark_bias(attune__trial *t, int64_t b, int64_t h, int64_t i, int64_t j) {
  t->bias[bias_index(t, b, h, i, j)] = (float)i;
}

static int make_bias(attune__trial *t, const attune__case *c, uint64_t *seed) {
  const int64_t gap = gap_of(c, 3), row = c->bias_over & ATTUNE__OVER_KEYS ? 1 : c->shape.len_k;
  const float unseen = c->fill == ATTUNE__FILL_LOUD ? 1000 : NAN;
  int64_t extent[3], *stride = t->problem.bias_stride;
  t->bias_count = set_strides(&c->shape, c->bias_over, row, gap, extent, stride);
  stride[3] = !(c->bias_over & ATTUNE__OVER_KEYS);
  t->problem.bias = t->bias = allocate(t->bias_count, sizeof *t->bias);
  if (!t->bias) return 0;
  for (int64_t e = 0; e < t->bias_count; e++) t->bias[e] = -1;
  each_kept(t, mark_bias);
  for (int64_t e = 0; e < t->bias_count; e++)
    t->bias[e] = t->bias[e] < 0 ? unseen : draw_bias(t, c, (int64_t)t->bias[e], seed);
  return 1;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int make(attune__trial *t, const attune__case *c, uint64_t *seed) {
  const uint32_t features = t->problem.variant.features;
  const attune_shape *s = &c->shape;
  if (features & ATTUNE_FEATURE_ALIBI) {
    /* slopes without a batch are there without a sequence, too */
    const int64_t sequences = s->batch > 0 ? s->batch : 1;
    if (!(t->slopes = allocate(sequences * s->heads_q, sizeof *t->slopes))) return 0;
    fill_slopes(t, c);
  }
  if (features & ATTUNE_FEATURE_SINK) {
    if (!(t->sinks = allocate(s->heads_q, sizeof *t->sinks))) return 0;
    fill_sinks(t, c, seed);
  }
  t->problem.softcap = (double)c->softcap;
  t->problem.alibi_slopes = t->slopes, t->problem.sinks = t->sinks;
  if (features & ATTUNE_FEATURE_BITMASK && !make_bits(t, c, seed)) return 0;
  if (features & ATTUNE_FEATURE_BITMASK && c->classes && !make_classes(t, c)) return 0;
  return !(features & ATTUNE_FEATURE_BIAS) || make_bias(t, c, seed);
}

attune_status attune__trial_features(attune__trial *t, const attune__case *c, uint64_t *seed) {
  if (make(t, c, seed)) return ATTUNE_OK;
  return attune_fail(ATTUNE_NO_MEMORY, "no memory for the features' tensors of a case");
}
