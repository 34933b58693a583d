/* test_reference_features.c - the reference on the problems that engines have: softcap, ALiBi,
 * bias, sinks, bits, rows and keys out of use, against closed forms, and all together against the
 * definition in long double. */
#include "../gen/reference.h"
#include "test.h"

#include <float.h>
#include <math.h>

enum { DIM = 4, ROWS = 6, KEYS = 9, HEADS = 4, KV_HEADS = 2, BATCH = 2 };

/* ---- a problem of one head ---------------------------------------------------------------------
 */

/* Scores are 0 where Q is, whatever K; row i of K and V is about key i. */
typedef struct bench {
  attune_reference_problem p;
  float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM];
  double o[ROWS * DIM], lse[ROWS];
} bench;

/* Not to be moved: the problem points into it. */
static void bench_make(bench *b, uint32_t features, int mask, int64_t len_q, int64_t len_k) {
  *b = (bench){.p.scale = 1};
  b->p.variant = (attune_variant){.op = ATTUNE_OP_ATTN_FWD,
                                  .dtype_q = ATTUNE_DTYPE_FP32,
                                  .dtype_kv = ATTUNE_DTYPE_FP32,
                                  .dtype_out = ATTUNE_DTYPE_FP32,
                                  .head_dim_qk = DIM,
                                  .head_dim_v = DIM,
                                  .mask = (uint8_t)mask,
                                  .features = features,
                                  .group = 1};
  b->p.shape = (attune_shape){1, 1, 1, len_q, len_k, -1, -1, ATTUNE_CORNER_TOP_LEFT};
  b->p.q = b->q, b->p.k = b->k, b->p.v = b->v;
  for (int i = 0; i < KEYS * DIM; i++) b->v[i] = (float)(i % 7) - 2.5f;
}

static void bench_run(bench *b) {
  for (int i = 0; i < ROWS * DIM; i++) b->o[i] = -99;
  for (int i = 0; i < ROWS; i++) b->lse[i] = -99;
  ck_assert_int_eq(attune__reference(&b->p, b->o, b->lse), ATTUNE_OK);
}

/* Row i is the mean of V with these weights, its LSE the logarithm of their sum with `rest`. */
static void expect_weights(const bench *b, int i, const double *weight, double rest) {
  double total = rest;
  for (int j = 0; j < b->p.shape.len_k; j++) total += weight[j];
  for (int c = 0; c < DIM; c++) {
    double sum = 0;
    for (int j = 0; j < b->p.shape.len_k; j++) sum += weight[j] * (double)b->v[j * DIM + c];
    ck_assert_double_eq_tol(b->o[i * DIM + c], sum / total, 1e-14);
  }
  ck_assert_double_eq_tol(b->lse[i], log(total), 1e-14);
}

static void expect_row(const bench *b, int i, double o, double lse) {
  for (int c = 0; c < DIM; c++) ck_assert_double_eq(b->o[i * DIM + c], o);
  ck_assert_double_eq(b->lse[i], lse);
}

static void expect_equal(const bench *a, const bench *b) {
  ck_assert_mem_eq(a->o, b->o, sizeof a->o);
  ck_assert_mem_eq(a->lse, b->lse, sizeof a->lse);
}

/* ---- each feature -------------------------------------------------------------------------------
 */

/* Scores 0 and 3 capped at 2: weights 1 and e^(2 tanh 1.5). */
START_TEST(softcap_by_hand) {
  bench b;
  bench_make(&b, ATTUNE_FEATURE_SOFTCAP, ATTUNE_MASK_NONE, 1, 2);
  b.q[0] = 1, b.k[DIM] = 6, b.p.scale = 0.5, b.p.softcap = 2;
  bench_run(&b);
  const double weight[] = {1, exp(2 * tanh(1.5))};
  expect_weights(&b, 0, weight, 0);
}
END_TEST

/* Far over the cap scores are the cap; far under it they are as they were. */
START_TEST(softcap_at_its_ends) {
  bench b, plain;
  bench_make(&b, ATTUNE_FEATURE_SOFTCAP, ATTUNE_MASK_NONE, 1, 3);
  b.q[0] = 1, b.k[0] = 1e6f, b.k[DIM] = 3e6f, b.k[2 * DIM] = -1e6f, b.p.softcap = 0.5;
  bench_run(&b);
  const double weight[] = {exp(0.5), exp(0.5), exp(-0.5)};
  expect_weights(&b, 0, weight, 0);

  b.k[0] = 1, b.k[DIM] = -2, b.k[2 * DIM] = 0.5f, b.p.softcap = 1e7;
  memcpy(&plain, &b, sizeof b);
  plain.p.variant.features = 0, plain.p.k = plain.k, plain.p.q = plain.q;
  bench_run(&b), bench_run(&plain);
  ck_assert_double_eq_tol(b.lse[0], plain.lse[0], 1e-12); /* x - tanh x < x^3 / 3 */
}
END_TEST

/* A slope of ln 2 halves the weight with each step from the diagonal. */
START_TEST(alibi_is_geometric) {
  const float slope = (float)log(2);
  for (int corner = ATTUNE_CORNER_TOP_LEFT; corner <= ATTUNE_CORNER_BOTTOM_RIGHT; corner++) {
    bench b;
    bench_make(&b, ATTUNE_FEATURE_ALIBI, ATTUNE_MASK_NONE, 4, 7);
    b.p.alibi_slopes = &slope, b.p.shape.corner = (attune_corner)corner;
    bench_run(&b);
    for (int i = 0; i < 4; i++) {
      int left = i + (corner == ATTUNE_CORNER_BOTTOM_RIGHT ? 3 : 0), right = 6 - left;
      double sum = 3 - exp2(-left) - exp2(-right);
      ck_assert_double_eq_tol(b.lse[i], log(sum), 1e-7); /* the slope is a float */
    }
  }
  bench b;
  bench_make(&b, ATTUNE_FEATURE_ALIBI, ATTUNE_MASK_CAUSAL, 4, 4);
  b.p.alibi_slopes = &slope;
  bench_run(&b);
  for (int i = 0; i < 4; i++) ck_assert_double_eq_tol(b.lse[i], log(2 - exp2(-i)), 1e-7);
}
END_TEST

/* Two rows of three keys, weights by hand, one of them masked; a row of nothing but -inf. */
START_TEST(bias_by_hand) {
  const float log2f_ = (float)log(2), inf = INFINITY;
  const float bias[] = {0, log2f_, 0, -inf, 1, 1, -inf, -inf, -inf};
  bench b;
  bench_make(&b, ATTUNE_FEATURE_BIAS, ATTUNE_MASK_NONE, 3, 3);
  b.p.bias = bias, b.p.bias_stride[2] = 3, b.p.bias_stride[3] = 1;
  bench_run(&b);
  const double first[] = {1, exp((double)log2f_), 1}, second[] = {0, exp(1), exp(1)};
  expect_weights(&b, 0, first, 0);
  expect_weights(&b, 1, second, 0);
  expect_row(&b, 2, 0, (double)-inf);

  b.p.bias_stride[2] = 0; /* every row as the first */
  bench_run(&b);
  for (int i = 0; i < 3; i++) expect_weights(&b, i, first, 0);
  b.p.bias_stride[3] = 0; /* every pair: it moves LSE alone */
  b.p.bias = bias + 4;
  bench_run(&b);
  const double even[] = {exp(1), exp(1), exp(1)};
  for (int i = 0; i < 3; i++) expect_weights(&b, i, even, 0);
}
END_TEST

/* The lowest finite numbers make an even row, which is not empty. */
START_TEST(bias_of_the_lowest_number) {
  const float bias[] = {-FLT_MAX, -2e38f, -1e38f};
  bench b;
  bench_make(&b, ATTUNE_FEATURE_BIAS, ATTUNE_MASK_NONE, 1, 3);
  b.p.bias = bias, b.p.bias_stride[3] = 1;
  bench_run(&b);
  for (int c = 0; c < DIM; c++) {
    double mean = 0;
    for (int j = 0; j < 3; j++) mean += (double)b.v[j * DIM + c] / 3;
    ck_assert_double_eq_tol(b.o[c], mean, 1e-15);
  }
  ck_assert_double_eq(b.lse[0], (double)-1e38f);
  ck_assert(attune__bias_value(-INFINITY) < -FLT_MAX);
}
END_TEST

static void fill_scores(bench *b) {
  for (int i = 0; i < ROWS * DIM; i++) b->q[i] = (float)(i * 7 % 11) * 0.25f - 1;
  for (int i = 0; i < KEYS * DIM; i++) b->k[i] = (float)(i * 5 % 13) * 0.25f - 1.5f;
}

/* -inf above the diagonal, and bits on and below it, are the causal mask, to the bit. */
START_TEST(bias_and_bits_make_a_mask) {
  bench causal, biased, bits;
  float bias[5 * 5];
  uint32_t bit[5];
  bench_make(&causal, 0, ATTUNE_MASK_CAUSAL, 5, 5);
  bench_make(&biased, ATTUNE_FEATURE_BIAS, ATTUNE_MASK_NONE, 5, 5);
  bench_make(&bits, ATTUNE_FEATURE_BITMASK, ATTUNE_MASK_NONE, 5, 5);
  for (int i = 0; i < 5; i++) {
    for (int j = 0; j < 5; j++) bias[i * 5 + j] = j <= i ? 0 : -INFINITY;
    bit[i] = (2u << i) - 1;
  }
  biased.p.bias = bias, biased.p.bias_stride[2] = 5, biased.p.bias_stride[3] = 1;
  bits.p.bitmask = bit, bits.p.bitmask_stride[2] = 1;
  fill_scores(&causal), fill_scores(&biased), fill_scores(&bits);
  bench_run(&causal), bench_run(&biased), bench_run(&bits);
  expect_equal(&causal, &biased);
  expect_equal(&causal, &bits);
}
END_TEST

/* A key without a bit may be NaN in K, V and bias; a row without one is empty; bits beyond the keys
 * mean nothing. */
START_TEST(pairs_without_bits_are_not_touched) {
  const float bias[] = {0, NAN, 0};
  const uint32_t bits[] = {0xfffffff5u, 0xfffffff8u};
  bench b;
  bench_make(&b, ATTUNE_FEATURE_BITMASK | ATTUNE_FEATURE_BIAS, ATTUNE_MASK_NONE, 2, 3);
  b.p.bitmask = bits, b.p.bitmask_stride[2] = 1;
  b.p.bias = bias, b.p.bias_stride[3] = 1;
  for (int c = 0; c < DIM; c++) b.k[DIM + c] = b.v[DIM + c] = NAN;
  bench_run(&b);
  for (int c = 0; c < DIM; c++)
    ck_assert_double_eq(b.o[c], ((double)b.v[c] + (double)b.v[2 * DIM + c]) / 2);
  ck_assert_double_eq_tol(b.lse[0], log(2), 1e-15);
  expect_row(&b, 1, 0, -INFINITY);
  ck_assert_int_eq(attune__reference_rounded(&b.p, b.o, b.lse), ATTUNE_OK);
  expect_row(&b, 1, 0, -INFINITY);
}
END_TEST

/* Four keys of weight 1 and a sink of weight 4; a row without keys has the sink alone. */
START_TEST(sink_closed_form) {
  float sink = (float)log(4);
  bench b;
  bench_make(&b, ATTUNE_FEATURE_SINK, ATTUNE_MASK_NONE, 1, 4);
  b.p.sinks = &sink;
  bench_run(&b);
  const double weight[] = {1, 1, 1, 1};
  expect_weights(&b, 0, weight, exp((double)sink));
  sink = 1000;
  bench_run(&b);
  expect_row(&b, 0, 0, 1000);

  bench none;
  bench_make(&none, ATTUNE_FEATURE_SINK, ATTUNE_MASK_CAUSAL, 3, 1);
  none.p.sinks = &sink, none.p.shape.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  sink = -0.75f;
  bench_run(&none);
  expect_row(&none, 0, 0, -0.75);
  ck_assert_int_eq(attune__reference_rounded(&none.p, none.o, none.lse), ATTUNE_OK);
  expect_row(&none, 0, 0, -0.75);
}
END_TEST

START_TEST(no_sink_is_minus_infinity) {
  const float sink = -INFINITY;
  bench b, plain;
  bench_make(&b, ATTUNE_FEATURE_SINK, ATTUNE_MASK_CAUSAL, 5, 3);
  bench_make(&plain, 0, ATTUNE_MASK_CAUSAL, 5, 3);
  b.p.sinks = &sink;
  b.p.shape.corner = plain.p.shape.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  fill_scores(&b), fill_scores(&plain);
  bench_run(&b), bench_run(&plain);
  expect_equal(&b, &plain);
}
END_TEST

/* Rows out of use are not written; the corner is that of both lengths in use. */
START_TEST(rows_out_of_use) {
  const int32_t used_q[] = {2}, used_k[] = {3};
  bench b;
  bench_make(&b, 0, ATTUNE_MASK_CAUSAL, 4, 7);
  b.p.shape.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  b.p.seqused_q = used_q, b.p.seqused_k = used_k;
  for (int c = 0; c < DIM; c++) b.q[2 * DIM + c] = NAN;
  bench_run(&b);
  ck_assert_double_eq_tol(b.lse[0], log(2), 1e-15);
  ck_assert_double_eq_tol(b.lse[1], log(3), 1e-15);
  for (int i = 2; i < 4; i++) expect_row(&b, i, -99, -99);
  ck_assert_int_eq(attune__reference_rounded(&b.p, b.o, b.lse), ATTUNE_OK);
  for (int i = 2; i < 4; i++) expect_row(&b, i, -99, -99);
}
END_TEST

/* The features' rounding points, on a row small enough to round by hand in bf16: 3.02 is capped at
 * 8, gets a bias of 0.5 and a slope of 1/8 at distance 1; then S is rounded, and the sink joins in
 * float. */
START_TEST(rounding_points_by_hand) {
  const float bias = 0.5f, slope = 0.125f, sink = 0.3f;
  bench b;
  bench_make(
      &b, ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_SINK,
      ATTUNE_MASK_NONE, 1, 2);
  b.p.variant.dtype_q = b.p.variant.dtype_kv = b.p.variant.dtype_out = ATTUNE_DTYPE_BF16;
  b.p.bias = &bias, b.p.alibi_slopes = &slope, b.p.sinks = &sink, b.p.softcap = 8;
  memset(b.v, 0, sizeof b.v);
  b.q[0] = 1, b.k[DIM] = 1, b.v[DIM] = 1, b.p.scale = 3.02;
  ck_assert_int_eq(attune__reference_rounded(&b.p, b.o, b.lse), ATTUNE_OK);
  float s = attune__round(ATTUNE_DTYPE_BF16, 8 * tanhf(3.02f / 8) + 0.5f - 0.125f);
  float total = expf(0.5f - s) + 1 + expf(0.3f - s);
  ck_assert_double_eq(b.o[0], (double)attune__round(ATTUNE_DTYPE_BF16, 1 / total));
  ck_assert_double_eq(b.lse[0], (double)(s + logf(total)));

  b.p.variant.dtype_out = ATTUNE_DTYPE_FP32; /* P is rounded, O is not: 1 * P */
  b.v[DIM] = 1.015625f;
  ck_assert_int_eq(attune__reference_rounded(&b.p, b.o, b.lse), ATTUNE_OK);
  float p = attune__round(ATTUNE_DTYPE_BF16, 1 / total);
  ck_assert_double_eq(b.o[0], (double)(p * 1.015625f));
}
END_TEST

/* ---- all together against the definition -------------------------------------------------------
 */

/* Everything that a problem can point to, at random. */
typedef struct all {
  float q[BATCH * HEADS * ROWS * DIM];
  float k[BATCH * KV_HEADS * KEYS * DIM], v[BATCH * KV_HEADS * KEYS * DIM];
  float bias[BATCH * HEADS * ROWS * KEYS], slopes[BATCH * HEADS], sinks[HEADS];
  uint32_t bits[BATCH * HEADS * ROWS];
  double o[BATCH * HEADS * ROWS * DIM], lse[BATCH * HEADS * ROWS];
} all;

static uint64_t random_state = 1;
static float random_value(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(int64_t)random_state * 0x1p-62);
}

static void randomize(float *x, size_t count) {
  for (size_t i = 0; i < count; i++) x[i] = random_value();
}

static void randomize_all(all *a) {
  randomize(a->q, sizeof a->q / sizeof *a->q), randomize(a->k, sizeof a->k / sizeof *a->k);
  randomize(a->v, sizeof a->v / sizeof *a->v);
  randomize(a->bias, sizeof a->bias / sizeof *a->bias);
  randomize(a->slopes, BATCH * HEADS), randomize(a->sinks, HEADS);
  for (size_t i = 0; i < sizeof a->bits / sizeof *a->bits; i++)
    a->bits[i] = (uint32_t)(int32_t)(random_value() * 0x1p29f) >> 8;
  a->sinks[1] = -INFINITY;
}

static int keeps(const attune_reference_problem *p, int64_t b, int64_t h, int64_t i, int64_t j) {
  int64_t diagonal = j - i - (p->seqused_k[b] - p->seqused_q[b]);
  uint32_t bits = p->variant.features & ATTUNE_FEATURE_BITMASK
                      ? p->bitmask[(b * HEADS + h) * ROWS + i]
                      : UINT32_MAX;
  return j < p->seqused_k[b] && -diagonal <= p->shape.window_left &&
         diagonal <= p->shape.window_right && (bits >> j & 1);
}

static long double score(const attune_reference_problem *p, const all *a, int64_t b, int64_t h,
                         int64_t i, int64_t j) {
  const uint32_t features = p->variant.features;
  const float *q = a->q + ((b * HEADS + h) * ROWS + i) * DIM;
  const float *k = a->k + ((b * KV_HEADS + h / 2) * KEYS + j) * DIM;
  long double s = 0, cap = p->softcap;
  for (int d = 0; d < DIM; d++) s += (long double)q[d] * (long double)k[d];
  s *= (long double)p->scale;
  if (features & ATTUNE_FEATURE_SOFTCAP) s = cap * tanhl(s / cap);
  if (features & ATTUNE_FEATURE_BIAS)
    s += (long double)a->bias[((b * HEADS + h) * ROWS + i) * KEYS + j];
  if (features & ATTUNE_FEATURE_ALIBI)
    s -= (long double)a->slopes[b * HEADS + h] *
         (long double)llabs(j - i - (p->seqused_k[b] - p->seqused_q[b]));
  return s;
}

static void check_row(const attune_reference_problem *p, const all *a, int64_t b, int64_t h,
                      int64_t i) {
  int64_t row = (b * HEADS + h) * ROWS + i;
  int sunk = p->variant.features & ATTUNE_FEATURE_SINK && h != 1;
  long double total = sunk ? expl((long double)a->sinks[h]) : 0, sum[DIM] = {0};
  for (int64_t j = 0; j < KEYS; j++) {
    if (!keeps(p, b, h, i, j)) continue;
    long double weight = expl(score(p, a, b, h, i, j));
    total += weight;
    for (int c = 0; c < DIM; c++)
      sum[c] += weight * (long double)a->v[((b * KV_HEADS + h / 2) * KEYS + j) * DIM + c];
  }
  for (int c = 0; c < DIM; c++)
    ck_assert_double_eq_tol(a->o[row * DIM + c], total > 0 ? (double)(sum[c] / total) : 0, 1e-13);
  if (total > 0)
    ck_assert_double_eq_tol(a->lse[row], (double)logl(total), 1e-13);
  else
    ck_assert_double_eq(a->lse[row], -INFINITY);
}

static void check_all(const attune_reference_problem *p, all *a) {
  ck_assert_int_eq(attune__reference(p, a->o, a->lse), ATTUNE_OK);
  for (int64_t b = 0; b < BATCH; b++)
    for (int64_t h = 0; h < HEADS; h++)
      for (int64_t i = 0; i < p->seqused_q[b]; i++) check_row(p, a, b, h, i);
}

/* Every set of features, in a window at the lower right corner of lengths that differ. */
START_TEST(every_set_of_features) {
  static const int32_t used_q[] = {6, 4}, used_k[] = {5, 9};
  static all a;
  attune_reference_problem p = {.scale = 0.75,
                                .softcap = 1.5,
                                .q = a.q,
                                .k = a.k,
                                .v = a.v,
                                .seqused_q = used_q,
                                .seqused_k = used_k,
                                .alibi_slopes = a.slopes,
                                .bias = a.bias,
                                .bias_stride = {HEADS * ROWS * KEYS, ROWS * KEYS, KEYS, 1},
                                .sinks = a.sinks,
                                .bitmask = a.bits,
                                .bitmask_stride = {HEADS * ROWS, ROWS, 1}};
  p.shape = (attune_shape){BATCH, HEADS, KV_HEADS, ROWS, KEYS, 3, 1, ATTUNE_CORNER_BOTTOM_RIGHT};
  p.variant = (attune_variant){.head_dim_qk = DIM, .head_dim_v = DIM, .mask = ATTUNE_MASK_WINDOW};
  for (uint32_t features = 0; features < 2 * ATTUNE_FEATURE_BITMASK; features++) {
    randomize_all(&a);
    p.variant.features = features;
    check_all(&p, &a);
  }
}
END_TEST

TEST_MAIN("reference_features", softcap_by_hand, softcap_at_its_ends, alibi_is_geometric,
          bias_by_hand, bias_of_the_lowest_number, bias_and_bits_make_a_mask,
          pairs_without_bits_are_not_touched, sink_closed_form, no_sink_is_minus_infinity,
          rows_out_of_use, rounding_points_by_hand, every_set_of_features)
