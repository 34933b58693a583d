/* verify_data.c - the numbers of a case: inputs from a seed or from the real activations, and what
 * the reference makes of them.
 *
 * Input: a case. Output: a trial, dense and heads first; everything in it holds values of the
 * variant's dtypes. Equal seeds give equal numbers on every machine. Where they lie in device
 * memory is verify_arena.c's. */
#include "cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- real data ----------------------------------------------------------------------------- */

static const int32_t text_lengths[ATTUNE__REAL_BATCH] = {9, 47, 128, 200};

int attune__real_fits(const attune_variant *v) {
  return v->head_dim_qk == ATTUNE__REAL_DIM && v->head_dim_v == ATTUNE__REAL_DIM &&
         v->mask == ATTUNE_MASK_NONE;
}

/* The files are little-endian float32, as is every machine that attune runs on. */
static attune_status read_floats(const char *folder, const char *name, float **out) {
  enum { BYTES = ATTUNE__REAL_LAYERS * ATTUNE__REAL_LAYER * (int)sizeof(float) };
  char path[1024];
  size_t bytes;
  void *data;
  snprintf(path, sizeof path, "%s/%s.bin", folder, name);
  attune_status status = attune__file_read(path, BYTES, &data, &bytes);
  if (status != ATTUNE_OK) return status;
  *out = data;
  if (bytes == BYTES) return ATTUNE_OK;
  return attune_fail(ATTUNE_BAD_FILE, "%s has %zu bytes, wanted %d", path, bytes, (int)BYTES);
}

attune_status attune__real_read(const char *folder, attune__real *out) {
  *out = (attune__real){0};
  attune_status status = read_floats(folder, "q", &out->q);
  if (status == ATTUNE_OK) status = read_floats(folder, "k", &out->k);
  if (status == ATTUNE_OK) status = read_floats(folder, "v", &out->v);
  if (status == ATTUNE_OK) status = read_floats(folder, "o", &out->o);
  if (status != ATTUNE_OK) attune__real_free(out);
  return status;
}

void attune__real_free(attune__real *real) {
  free(real->q), free(real->k), free(real->v), free(real->o);
  *real = (attune__real){0};
}

/* [batch, seq, head, dim] of a layer -> [batch, head, seq, dim], rounded to the dtype. */
static void take_layer(const float *file, int layer, int dtype, float *to) {
  enum { S = ATTUNE__REAL_SEQ, H = ATTUNE__REAL_HEADS, D = ATTUNE__REAL_DIM };
  file += layer * ATTUNE__REAL_LAYER;
  for (int b = 0; b < ATTUNE__REAL_BATCH; b++)
    for (int h = 0; h < H; h++)
      for (int s = 0; s < S; s++, to += D)
        for (int d = 0; d < D; d++)
          to[d] = attune__round(dtype, file[((b * S + s) * H + h) * D + d]);
}

/* ---- random data --------------------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Mean 0, variance 1, bell-shaped, within 3.47: four uniform numbers of 16 bits, added. */
static float draw_normal(uint64_t *state) {
  uint64_t bits = draw(state);
  int sum = 0;
  for (int i = 0; i < 4; i++) sum += (int)(bits >> 16 * i & 0xffff);
  return (float)(sum - 2 * 65535) * (1.7320508f / 65536);
}

static void fill_normal(float *x, int64_t count, float deviation, int dtype, uint64_t *state) {
  for (int64_t i = 0; i < count; i++) x[i] = attune__round(dtype, deviation * draw_normal(state));
}

static void fill_constant(float *x, int64_t count, float value) {
  for (int64_t i = 0; i < count; i++) x[i] = value;
}

/* Q rows (+-96, 0, ...) and K rows (+-104 or 0, 0, ...): their products +-9984 and 0 are exact in
 * every dtype and in every order of summation. */
static void fill_huge(attune__trial *t, int64_t q_rows, int64_t k_rows, uint64_t *state) {
  int dim = t->problem.variant.head_dim_qk;
  memset(t->q, 0, (size_t)(q_rows * dim) * sizeof *t->q);
  memset(t->k, 0, (size_t)(k_rows * dim) * sizeof *t->k);
  for (int64_t i = 0; i < q_rows; i++) t->q[i * dim] = draw(state) & 1 ? 96.0f : -96.0f;
  for (int64_t j = 0; j < k_rows; j++) t->k[j * dim] = (float)((int)(draw(state) % 3) - 1) * 104.0f;
}

/* ---- what no row sees ---------------------------------------------------------------------- */

void attune__trial_seen(const attune__trial *t, int64_t batch, int64_t *begin, int64_t *end) {
  attune_shape sequence = t->problem.shape;
  sequence.len_k = attune__keys_used(&t->problem.shape, t->used, batch);
  attune__mask_range(&t->problem.variant, &sequence, 0, sequence.len_q, begin, end);
}

/* Row j of K and V of a head: NaN, or loud finite values. */
static void fill_hidden(attune__trial *t, int64_t head, int64_t j, int loud) {
  const attune_variant *v = &t->problem.variant;
  int64_t row = head * t->problem.shape.len_k + j;
  fill_constant(t->k + row * v->head_dim_qk, v->head_dim_qk, loud ? 4.0f : NAN);
  fill_constant(t->v + row * v->head_dim_v, v->head_dim_v, loud ? 1000.0f : NAN);
}

static void hide(attune__trial *t, int loud) {
  const attune_shape *s = &t->problem.shape;
  for (int64_t b = 0; b < s->batch; b++) {
    int64_t begin, end;
    attune__trial_seen(t, b, &begin, &end);
    for (int64_t h = 0; h < s->heads_kv; h++)
      for (int64_t j = 0; j < s->len_k; j++)
        if (j < begin || j >= end) fill_hidden(t, b * s->heads_kv + h, j, loud);
  }
}

/* K NaN at one key that some rows see and others do not: masked scores must be selected away. */
static void spoil_key(attune__trial *t) {
  const attune_shape *s = &t->problem.shape;
  int dim = t->problem.variant.head_dim_qk;
  for (int64_t head = 0; head < s->batch * s->heads_kv; head++)
    fill_constant(t->k + (head * s->len_k + s->len_k / 2) * dim, dim, NAN);
}

/* Stride 0 means that the rows are the same rows. */
static void repeat(attune__trial *t) {
  const attune_variant *v = &t->problem.variant;
  const attune_shape *s = &t->problem.shape;
  size_t k = (size_t)(s->heads_kv * s->len_k * v->head_dim_qk);
  size_t one = (size_t)(s->len_k * v->head_dim_v);
  for (int64_t b = 1; b < s->batch; b++) memcpy(t->k + (size_t)b * k, t->k, k * sizeof *t->k);
  for (int64_t h = 1; h < s->batch * s->heads_kv; h++)
    memcpy(t->v + (size_t)h * one, t->v, one * sizeof *t->v);
}

/* ---- trials -------------------------------------------------------------------------------- */

static void fill_used(attune__trial *t, const attune__case *c) {
  int32_t len = (int32_t)c->shape.len_k;
  const int32_t mixed[] = {len, 0, len < 1 ? len : 1, len / 2 + (len > 1), len > 0 ? len - 1 : 0};
  for (int64_t b = 0; b < c->shape.batch; b++) {
    if (c->used == ATTUNE__USED_FULL) t->used[b] = len;
    if (c->used == ATTUNE__USED_MIXED) t->used[b] = mixed[b % 5];
    if (c->used == ATTUNE__USED_REAL) t->used[b] = text_lengths[b];
  }
}

static void fill_random(attune__trial *t, const attune__case *c, uint64_t seed) {
  const attune_variant *v = &t->problem.variant;
  int64_t k_rows = c->shape.batch * c->shape.heads_kv * c->shape.len_k;
  float deviation = c->fill == ATTUNE__FILL_WIDE ? 8.0f : 1.0f;
  fill_normal(t->q, t->rows * v->head_dim_qk, deviation, v->dtype_q, &seed);
  fill_normal(t->k, k_rows * v->head_dim_qk, 1, v->dtype_kv, &seed);
  fill_normal(t->v, k_rows * v->head_dim_v, 1, v->dtype_kv, &seed);
  if (c->fill == ATTUNE__FILL_HUGE) fill_huge(t, t->rows, k_rows, &seed);
  hide(t, c->fill == ATTUNE__FILL_LOUD);
  if (c->fill == ATTUNE__FILL_NAN_KEY) spoil_key(t);
  if (c->layout == ATTUNE__LAYOUT_BROADCAST) repeat(t);
}

static void fill_real(attune__trial *t, const attune__case *c, const attune__real *real) {
  const attune_variant *v = &t->problem.variant;
  take_layer(real->q, c->layer, v->dtype_q, t->q);
  take_layer(real->k, c->layer, v->dtype_kv, t->k);
  take_layer(real->v, c->layer, v->dtype_kv, t->v);
  if (t->file_o) take_layer(real->o, c->layer, ATTUNE_DTYPE_FP32, t->file_o);
}

/* One element more than asked for: nothing asked for is no failure. */
static void *allocate(int64_t count, size_t bytes) {
  return calloc((size_t)count + 1, bytes);
}

static int allocate_trial(attune__trial *t, const attune__case *c) {
  const attune_variant *v = &t->problem.variant;
  const attune_shape *s = &c->shape;
  int64_t k_rows = s->batch * s->heads_kv * s->len_k;
  int from_file = c->fill == ATTUNE__FILL_REAL && v->dtype_out == ATTUNE_DTYPE_FP32 &&
                  v->dtype_q == ATTUNE_DTYPE_FP32 && v->dtype_kv == ATTUNE_DTYPE_FP32;
  t->q = allocate(t->rows * v->head_dim_qk, sizeof *t->q);
  t->k = allocate(k_rows * v->head_dim_qk, sizeof *t->k);
  t->v = allocate(k_rows * v->head_dim_v, sizeof *t->v);
  t->o = allocate(t->rows * v->head_dim_v, sizeof *t->o);
  t->rounded_o = allocate(t->rows * v->head_dim_v, sizeof *t->rounded_o);
  t->lse = allocate(t->rows, sizeof *t->lse);
  if (c->used != ATTUNE__USED_NULL) t->used = allocate(s->batch, sizeof *t->used);
  if (from_file) t->file_o = allocate(t->rows * v->head_dim_v, sizeof *t->file_o);
  return t->q && t->k && t->v && t->o && t->rounded_o && t->lse &&
         (t->used || c->used == ATTUNE__USED_NULL) && (t->file_o || !from_file);
}

static void set_problem(attune__trial *t, const attune__case *c, int threads) {
  attune_reference_problem *p = &t->problem;
  p->shape = c->shape;
  /* The default as the call's float has it. */
  p->scale =
      c->default_scale ? (double)(float)(1 / sqrt(p->variant.head_dim_qk)) : (double)c->scale;
  p->q = t->q, p->k = t->k, p->v = t->v, p->seqused_k = t->used;
  p->threads = threads;
}

attune_status attune__trial_make(const attune_variant *variant, const attune__case *c,
                                 const attune__real *real, uint64_t seed, int threads,
                                 attune__trial *out) {
  *out = (attune__trial){.problem.variant = *variant,
                         .rows = c->shape.batch * c->shape.heads_q * c->shape.len_q};
  if (!allocate_trial(out, c)) {
    attune__trial_free(out);
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for the tensors of a case");
  }
  set_problem(out, c, threads);
  if (out->used) fill_used(out, c);
  if (c->fill == ATTUNE__FILL_REAL)
    fill_real(out, c, real);
  else
    fill_random(out, c, seed);
  attune_status status = attune__reference(&out->problem, out->o, out->lse);
  if (status == ATTUNE_OK) status = attune__reference_rounded(&out->problem, out->rounded_o, NULL);
  if (status != ATTUNE_OK) attune__trial_free(out);
  return status;
}

void attune__trial_free(attune__trial *t) {
  free(t->q), free(t->k), free(t->v), free(t->used);
  free(t->o), free(t->lse), free(t->rounded_o), free(t->file_o);
  *t = (attune__trial){0};
}
