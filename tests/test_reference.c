/* test_reference.c - the reference against closed forms, a brute-force mask, and the real
 * activations of tests/data. */
#include "../gen/reference.h"
#include "test.h"

#include <math.h>

/* ---- a problem and its memory ---------------------------------------------------------------- */

typedef struct bench {
  attune_reference_problem p;
  float *q, *k, *v;
  double *o, *lse;
} bench;

static uint64_t random_state = 1;

/* In (-2, 2), not rounded to anything coarser than float. */
static float random_value(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(int64_t)random_state * 0x1p-62);
}

static float *random_floats(int64_t count, int dtype) {
  float *x = malloc(((size_t)count + 1) * sizeof *x);
  ck_assert_ptr_nonnull(x);
  for (int64_t i = 0; i < count; i++) x[i] = attune__round(dtype, random_value());
  return x;
}

static bench bench_make(int dtype, int mask, int dim, attune_shape s) {
  bench b = {.p.scale = 1 / sqrt(dim)};
  b.p.variant.op = ATTUNE_OP_ATTN_FWD;
  b.p.variant.dtype_q = b.p.variant.dtype_kv = b.p.variant.dtype_out = (uint8_t)dtype;
  b.p.variant.mask = (uint8_t)mask;
  b.p.variant.head_dim_qk = b.p.variant.head_dim_v = (uint16_t)dim;
  b.p.shape = s;
  b.p.q = b.q = random_floats(s.batch * s.heads_q * s.len_q * dim, dtype);
  b.p.k = b.k = random_floats(s.batch * s.heads_kv * s.len_k * dim, dtype);
  b.p.v = b.v = random_floats(s.batch * s.heads_kv * s.len_k * dim, dtype);
  int64_t rows = s.batch * s.heads_q * s.len_q;
  b.o = calloc((size_t)(rows * dim) + 1, sizeof *b.o);
  b.lse = calloc((size_t)rows + 1, sizeof *b.lse);
  ck_assert(b.o && b.lse);
  return b;
}

static bench bench_small(int mask, int64_t len_q, int64_t len_k) {
  attune_shape s = {1, 1, 1, len_q, len_k, -1, -1, ATTUNE_CORNER_TOP_LEFT};
  return bench_make(ATTUNE_DTYPE_FP32, mask, 8, s);
}

static void bench_run(bench *b) {
  ck_assert_int_eq(attune__reference(&b->p, b->o, b->lse), ATTUNE_OK);
}

static void bench_free(bench *b) {
  free(b->q), free(b->k), free(b->v), free(b->o), free(b->lse);
}

static void fill(float *x, int64_t count, float value) {
  for (int64_t i = 0; i < count; i++) x[i] = value;
}

/* ---- closed forms ---------------------------------------------------------------------------- */

/* Equal scores: O is the mean of V, LSE = s + ln n. */
START_TEST(equal_scores) {
  bench b = bench_small(ATTUNE_MASK_NONE, 3, 37);
  fill(b.q, 3 * 8, 2), fill(b.k, 37 * 8, 0.25f);
  b.p.scale = 0.5;
  bench_run(&b);
  for (int c = 0; c < 8; c++) {
    double mean = 0;
    for (int j = 0; j < 37; j++) mean += (double)b.v[j * 8 + c] / 37;
    for (int i = 0; i < 3; i++) ck_assert_double_eq_tol(b.o[i * 8 + c], mean, 1e-14);
  }
  for (int i = 0; i < 3; i++)
    ck_assert_double_eq_tol(b.lse[i], 0.5 * 8 * 2 * 0.25 + log(37), 1e-13);
  bench_free(&b);
}
END_TEST

START_TEST(scale_zero) {
  bench b = bench_small(ATTUNE_MASK_NONE, 2, 5);
  b.p.scale = 0;
  bench_run(&b);
  for (int c = 0; c < 8; c++) {
    double mean = 0;
    for (int j = 0; j < 5; j++) mean += (double)b.v[j * 8 + c] / 5;
    ck_assert_double_eq_tol(b.o[c], mean, 1e-15);
  }
  ck_assert_double_eq_tol(b.lse[0], log(5), 1e-15);
  bench_free(&b);
}
END_TEST

/* Q = K = 100 I: row i sees almost only key i; a negative scale shuns it. */
START_TEST(one_hot_and_negative_scale) {
  bench b = bench_small(ATTUNE_MASK_NONE, 8, 8);
  fill(b.q, 64, 0), fill(b.k, 64, 0);
  for (int i = 0; i < 8; i++) b.q[i * 8 + i] = b.k[i * 8 + i] = 100;
  b.p.scale = 1;
  bench_run(&b);
  for (int i = 0; i < 64; i++) ck_assert_double_eq(b.o[i], (double)b.v[i]);
  for (int i = 0; i < 8; i++) ck_assert_double_eq(b.lse[i], 10000);

  b.p.scale = -1;
  bench_run(&b);
  for (int i = 0; i < 8; i++)
    for (int c = 0; c < 8; c++) {
      double others = 0;
      for (int j = 0; j < 8; j++) others += j == i ? 0 : (double)b.v[j * 8 + c] / 7;
      ck_assert_double_eq_tol(b.o[i * 8 + c], others, 1e-15);
    }
  ck_assert_double_eq_tol(b.lse[0], log(7), 1e-15);
  bench_free(&b);
}
END_TEST

/* Two keys with scores 0 and ln 3: weights 1/4 and 3/4. */
START_TEST(two_keys_by_hand) {
  bench b = bench_small(ATTUNE_MASK_NONE, 1, 2);
  fill(b.q, 8, 0), fill(b.k, 16, 0);
  b.q[0] = 1, b.k[8] = 1;
  b.p.scale = log(3);
  bench_run(&b);
  for (int c = 0; c < 8; c++)
    ck_assert_double_eq_tol(b.o[c], 0.25 * (double)b.v[c] + 0.75 * (double)b.v[8 + c], 1e-15);
  ck_assert_double_eq_tol(b.lse[0], log(4), 1e-15);
  bench_free(&b);
}
END_TEST

START_TEST(one_key) {
  bench b = bench_small(ATTUNE_MASK_NONE, 4, 1);
  bench_run(&b);
  for (int i = 0; i < 4; i++) {
    double score = 0;
    for (int c = 0; c < 8; c++) {
      ck_assert_double_eq(b.o[i * 8 + c], (double)b.v[c]);
      score += (double)b.q[i * 8 + c] * (double)b.k[c] / sqrt(8);
    }
    ck_assert_double_eq_tol(b.lse[i], score, 1e-14);
  }
  bench_free(&b);
}
END_TEST

/* Causal: the first row is V[0]; the last row is what the same row gives without a mask. */
START_TEST(causal_first_and_last_row) {
  bench b = bench_small(ATTUNE_MASK_CAUSAL, 9, 9);
  bench_run(&b);
  double last[8];
  memcpy(last, b.o + 8 * 8, sizeof last);
  for (int c = 0; c < 8; c++) ck_assert_double_eq(b.o[c], (double)b.v[c]);
  b.p.variant.mask = ATTUNE_MASK_NONE;
  bench_run(&b);
  ck_assert_mem_eq(last, b.o + 8 * 8, sizeof last);
  bench_free(&b);
}
END_TEST

START_TEST(window_of_one_copies_v) {
  bench b = bench_small(ATTUNE_MASK_WINDOW, 6, 6);
  b.p.shape.window_left = b.p.shape.window_right = 0;
  bench_run(&b);
  for (int i = 0; i < 48; i++) ck_assert_double_eq(b.o[i], (double)b.v[i]);

  /* Bottom right with two more keys than rows: row i sees key i + 2. */
  bench wide = bench_small(ATTUNE_MASK_WINDOW, 4, 6);
  wide.p.shape.window_left = wide.p.shape.window_right = 0;
  wide.p.shape.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  bench_run(&wide);
  for (int i = 0; i < 32; i++) ck_assert_double_eq(wide.o[i], (double)wide.v[i + 16]);
  bench_free(&b), bench_free(&wide);
}
END_TEST

static void expect_empty(const bench *b, int row) {
  for (int c = 0; c < 8; c++) ck_assert_double_eq(b->o[row * 8 + c], 0);
  ck_assert(isinf(b->lse[row]) && b->lse[row] < 0);
}

/* More rows than keys, bottom right: the top rows see nothing. No key at all; seqused_k of 0. */
START_TEST(rows_without_keys) {
  bench b = bench_small(ATTUNE_MASK_CAUSAL, 5, 2);
  b.p.shape.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  bench_run(&b);
  for (int i = 0; i < 3; i++) expect_empty(&b, i);
  for (int c = 0; c < 8; c++) ck_assert_double_eq(b.o[3 * 8 + c], (double)b.v[c]);
  bench_free(&b);

  bench none = bench_small(ATTUNE_MASK_NONE, 3, 0);
  bench_run(&none);
  for (int i = 0; i < 3; i++) expect_empty(&none, i);
  bench_free(&none);

  const int32_t used[] = {0};
  bench hidden = bench_small(ATTUNE_MASK_NONE, 3, 4);
  hidden.p.seqused_k = used;
  bench_run(&hidden);
  for (int i = 0; i < 3; i++) expect_empty(&hidden, i);
  ck_assert_int_eq(attune__reference_rounded(&hidden.p, hidden.o, hidden.lse), ATTUNE_OK);
  for (int i = 0; i < 3; i++) expect_empty(&hidden, i);
  bench_free(&hidden);
}
END_TEST

/* With seqused_k the bottom right corner follows the used length, and hidden NaN never shows. */
START_TEST(used_lengths_move_the_corner) {
  const int32_t used[] = {5};
  bench b = bench_small(ATTUNE_MASK_CAUSAL, 3, 9);
  b.p.shape.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  b.p.seqused_k = used;
  fill(b.k + 5 * 8, 4 * 8, NAN), fill(b.v + 5 * 8, 4 * 8, NAN);
  fill(b.q, 3 * 8, 0); /* uniform over what is seen: 3, 4, 5 keys */
  bench_run(&b);
  for (int i = 0; i < 3; i++) {
    ck_assert_double_eq_tol(b.lse[i], log(3 + i), 1e-15);
    double mean = 0;
    for (int j = 0; j < 3 + i; j++) mean += (double)b.v[j * 8] / (3 + i);
    ck_assert_double_eq_tol(b.o[i * 8], mean, 1e-15);
  }
  bench_free(&b);
}
END_TEST

/* A NaN that a row sees makes that row NaN, and only that row. */
START_TEST(seen_nan_shows) {
  bench b = bench_small(ATTUNE_MASK_CAUSAL, 4, 4);
  b.k[3 * 8] = NAN;
  bench_run(&b);
  for (int i = 0; i < 4; i++) ck_assert_int_eq(isnan(b.lse[i]) != 0, i == 3);
  for (int i = 0; i < 4; i++) ck_assert_int_eq(isnan(b.o[i * 8]) != 0, i == 3);
  bench_free(&b);
}
END_TEST

/* Consecutive query heads share a kv head: with one key per head, O tells which was read. */
START_TEST(gqa_consecutive_heads_share) {
  attune_shape s = {2, 6, 2, 1, 1, -1, -1, ATTUNE_CORNER_TOP_LEFT};
  bench b = bench_make(ATTUNE_DTYPE_FP32, ATTUNE_MASK_NONE, 8, s);
  for (int kv = 0; kv < 4; kv++) fill(b.v + kv * 8, 8, (float)kv);
  bench_run(&b);
  const double want[] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3};
  for (int h = 0; h < 12; h++) ck_assert_double_eq(b.o[h * 8 + 7], want[h]);
  bench_free(&b);
}
END_TEST

/* ---- any mask against a loop over all pairs ---------------------------------------------------
 */

static int keeps(const attune_reference_problem *p, int64_t i, int64_t j) {
  const attune_shape *s = &p->shape;
  int64_t diagonal = j - i;
  if (s->corner == ATTUNE_CORNER_BOTTOM_RIGHT) diagonal -= s->len_k - s->len_q;
  if (p->variant.mask == ATTUNE_MASK_NONE) return 1;
  if (p->variant.mask == ATTUNE_MASK_CAUSAL) return diagonal <= 0;
  return (s->window_left < 0 || -diagonal <= s->window_left) &&
         (s->window_right < 0 || diagonal <= s->window_right);
}

/* O and LSE of a row by the definition, in long double, without a maximum. */
static void check_row(const bench *b, int64_t i) {
  int dim = b->p.variant.head_dim_qk;
  long double sum[8] = {0}, total = 0;
  for (int64_t j = 0; j < b->p.shape.len_k; j++) {
    long double score = 0;
    if (!keeps(&b->p, i, j)) continue;
    for (int d = 0; d < dim; d++)
      score += (long double)b->q[i * dim + d] * (long double)b->k[j * dim + d];
    long double weight = expl(score * (long double)b->p.scale);
    total += weight;
    for (int c = 0; c < dim; c++) sum[c] += weight * (long double)b->v[j * dim + c];
  }
  for (int c = 0; c < dim; c++)
    ck_assert_double_eq_tol(b->o[i * dim + c], total > 0 ? (double)(sum[c] / total) : 0, 1e-14);
  if (total > 0)
    ck_assert_double_eq_tol(b->lse[i], (double)logl(total), 1e-14);
  else
    ck_assert_double_eq(b->lse[i], -INFINITY);
}

START_TEST(masks_by_brute_force) {
  static const int lengths[][2] = {{7, 7}, {5, 18}, {18, 5}, {1, 17}, {33, 34}};
  static const int windows[][2] = {{0, 0}, {3, 2}, {4, -1}, {-1, 2}, {-1, -1}, {100, 100}};
  for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
    for (int mask = ATTUNE_MASK_NONE; mask <= ATTUNE_MASK_WINDOW; mask++)
      for (int corner = ATTUNE_CORNER_TOP_LEFT; corner <= ATTUNE_CORNER_BOTTOM_RIGHT; corner++)
        for (size_t w = 0; w < (mask == ATTUNE_MASK_WINDOW ? 6 : 1); w++) {
          bench b = bench_small(mask, lengths[l][0], lengths[l][1]);
          b.p.shape.corner = (attune_corner)corner;
          b.p.shape.window_left = windows[w][0], b.p.shape.window_right = windows[w][1];
          bench_run(&b);
          for (int64_t i = 0; i < b.p.shape.len_q; i++) check_row(&b, i);
          bench_free(&b);
        }
}
END_TEST

/* ---- real activations -------------------------------------------------------------------------
 */

enum { LAYERS = 2, BATCH = 4, SEQ = 200, HEADS = 6, DIM = 32, LAYER = BATCH * SEQ * HEADS * DIM };
static const int32_t lengths_of_texts[BATCH] = {9, 47, 128, 200};

static void read_layer(const char *name, int layer, float *out) {
  char path[64];
  snprintf(path, sizeof path, "tests/data/minilm/%s.bin", name);
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file != NULL, "%s is missing", path);
  ck_assert_int_eq(fseek(file, (long)(layer * LAYER * (int)sizeof *out), SEEK_SET), 0);
  ck_assert_uint_eq(fread(out, sizeof *out, LAYER, file), LAYER);
  fclose(file);
}

/* [batch, seq, head, dim] -> [batch, head, seq, dim], rounded. */
static void heads_first(const float *from, int dtype, float *to) {
  for (int b = 0; b < BATCH; b++)
    for (int s = 0; s < SEQ; s++)
      for (int h = 0; h < HEADS; h++)
        for (int d = 0; d < DIM; d++)
          to[((b * HEADS + h) * SEQ + s) * DIM + d] =
              attune__round(dtype, from[((b * SEQ + s) * HEADS + h) * DIM + d]);
}

static bench bench_real(int layer, int dtype, float *expected) {
  attune_shape s = {BATCH, HEADS, HEADS, SEQ, SEQ, -1, -1, ATTUNE_CORNER_TOP_LEFT};
  bench b = bench_make(dtype, ATTUNE_MASK_NONE, DIM, s);
  float *file = malloc(LAYER * sizeof *file);
  ck_assert_ptr_nonnull(file);
  read_layer("q", layer, file), heads_first(file, dtype, b.q);
  read_layer("k", layer, file), heads_first(file, dtype, b.k);
  read_layer("v", layer, file), heads_first(file, dtype, b.v);
  read_layer("o", layer, file), heads_first(file, ATTUNE_DTYPE_FP32, expected);
  b.p.seqused_k = lengths_of_texts;
  free(file);
  return b;
}

/* Largest difference from `expected` over the texts' own rows. */
static double real_error(const double *o, const double *expected) {
  double worst = 0;
  for (int b = 0; b < BATCH; b++)
    for (int h = 0; h < HEADS; h++)
      for (int at = 0; at < lengths_of_texts[b] * DIM; at++) {
        int64_t i = (int64_t)(b * HEADS + h) * SEQ * DIM + at;
        ck_assert(!isnan(o[i]));
        worst = fmax(worst, fabs(o[i] - expected[i]));
      }
  return worst;
}

/* o.bin is float64 rounded to float32: |o| stays below 8, so half an ulp is 2.4e-7; and bit for bit
 * the same floats as this reference's, but for values that lie next to a tie. */
START_TEST(real_data_matches_the_file) {
  float *file = malloc(LAYER * sizeof *file);
  double *expected = malloc(LAYER * sizeof *expected);
  ck_assert(file && expected);
  for (int layer = 0; layer < LAYERS; layer++) {
    bench b = bench_real(layer, ATTUNE_DTYPE_FP32, file);
    bench_run(&b);
    int different = 0;
    for (int i = 0; i < LAYER; i++) {
      expected[i] = (double)file[i];
      int hidden = i / DIM % SEQ >= lengths_of_texts[i / (HEADS * SEQ * DIM)];
      different += !hidden && (float)b.o[i] != file[i];
    }
    ck_assert_double_le(real_error(b.o, expected), 2.4e-7);
    ck_assert_int_le(different, 2);
    bench_free(&b);
  }
  free(file), free(expected);
}
END_TEST

/* What rounding S and P costs: more in bf16 than fp16 than fp32, of the size of the significand.
 * Margins: 2^-8 and 2^-11 times |s| up to 67 in layer 0's sharpest head, on |v| up to 4.2. */
START_TEST(rounding_costs_what_it_should) {
  static const struct {
    int dtype;
    double low, high;
  } expect[] = {{ATTUNE_DTYPE_FP32, 1e-8, 2e-5},
                {ATTUNE_DTYPE_FP16, 1e-4, 5e-2},
                {ATTUNE_DTYPE_BF16, 1e-3, 5e-1}};
  float *file = malloc(LAYER * sizeof *file);
  double *rounded = malloc(LAYER * sizeof *rounded);
  ck_assert(file && rounded);
  for (int layer = 0; layer < LAYERS; layer++)
    for (size_t t = 0; t < 3; t++) {
      bench b = bench_real(layer, expect[t].dtype, file);
      bench_run(&b);
      ck_assert_int_eq(attune__reference_rounded(&b.p, rounded, NULL), ATTUNE_OK);
      double error = real_error(rounded, b.o);
      ck_assert_msg(error > expect[t].low && error < expect[t].high, "layer %d %s", layer,
                    attune__dtype_name(expect[t].dtype));
      bench_free(&b);
    }
  free(file), free(rounded);
}
END_TEST

/* The stated rounding points, on a row small enough to round by hand: bf16, scores 0 and 3.02,
 * whose neighbours in bf16 are 3.015625 and 3.03125. V picks the first key's weight. */
START_TEST(rounding_points_by_hand) {
  bench b = bench_small(ATTUNE_MASK_NONE, 1, 2);
  b.p.variant.dtype_q = b.p.variant.dtype_kv = b.p.variant.dtype_out = ATTUNE_DTYPE_BF16;
  fill(b.q, 8, 0), fill(b.k, 16, 0), fill(b.v, 16, 0);
  b.q[0] = 1, b.k[8] = 1, b.v[0] = 1;
  b.p.scale = 3.02;
  ck_assert_int_eq(attune__reference_rounded(&b.p, b.o, b.lse), ATTUNE_OK);
  float s = 3.015625f, total = expf(-s) + 1;
  ck_assert_double_eq(b.o[0], (double)attune__round(ATTUNE_DTYPE_BF16, expf(-s) / total));
  ck_assert_double_eq(b.lse[0], (double)(s + logf(total)));
  bench_free(&b);
}
END_TEST

/* ---- threads ----------------------------------------------------------------------------------
 */

START_TEST(threads_change_no_bit) {
  attune_shape s = {3, 6, 2, 70, 90, -1, -1, ATTUNE_CORNER_BOTTOM_RIGHT};
  bench b = bench_make(ATTUNE_DTYPE_BF16, ATTUNE_MASK_CAUSAL, 24, s);
  size_t rows = 3 * 6 * 70, bytes = rows * 24 * sizeof(double);
  double *o = malloc(bytes), *lse = malloc(rows * sizeof *lse);
  ck_assert(o && lse);
  for (int rounded = 0; rounded < 2; rounded++) {
    attune_status (*reference)(const attune_reference_problem *, double *, double *) =
        rounded ? attune__reference_rounded : attune__reference;
    b.p.threads = 1;
    ck_assert_int_eq(reference(&b.p, o, lse), ATTUNE_OK);
    for (int threads = 2; threads <= 16; threads += 7) {
      b.p.threads = threads;
      ck_assert_int_eq(reference(&b.p, b.o, b.lse), ATTUNE_OK);
      ck_assert_mem_eq(o, b.o, bytes);
      ck_assert_mem_eq(lse, b.lse, rows * sizeof *lse);
    }
  }
  free(o), free(lse), bench_free(&b);
}
END_TEST

TEST_MAIN("reference", equal_scores, scale_zero, one_hot_and_negative_scale, two_keys_by_hand,
          one_key, causal_first_and_last_row, window_of_one_copies_v, rows_without_keys,
          used_lengths_move_the_corner, seen_nan_shows, gqa_consecutive_heads_share,
          masks_by_brute_force, real_data_matches_the_file, rounding_costs_what_it_should,
          rounding_points_by_hand, threads_change_no_bit)
