/* verify_data.c - the numbers of a case: inputs from a seed or from the real activations, and what
 * the reference makes of them.
 *
 * Input: a case. Output: a trial, dense and heads first; everything in it holds values of the
 * variant's dtypes. Equal seeds give equal numbers on every machine. The features' tensors are
 * verify_features.c's; where all lie in device memory is verify_arena.c's. */
#include "cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- real data ----------------------------------------------------------------------------- */

static const int32_t text_lengths[ATTUNE__REAL_BATCH] = {9, 47, 128, 200};

int attune__real_fits(const attune_variant *v) {
  return v->head_dim_qk == ATTUNE__REAL_DIM && v->head_dim_v == ATTUNE__REAL_DIM &&
         v->mask == ATTUNE_MASK_NONE && v->group == 1;
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
uint64_t attune__draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Mean 0, variance 1, bell-shaped, within 3.47: four uniform numbers of 16 bits, added. */
float attune__draw_normal(uint64_t *state) {
  uint64_t bits = attune__draw(state);
  int sum = 0;
  for (int i = 0; i < 4; i++) sum += (int)(bits >> 16 * i & 0xffff);
  return (float)(sum - 2 * 65535) * (1.7320508f / 65536);
}

static void fill_normal(float *x, int64_t count, float deviation, int dtype, uint64_t *state) {
  for (int64_t i = 0; i < count; i++)
    x[i] = attune__round(dtype, deviation * attune__draw_normal(state));
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
  for (int64_t i = 0; i < q_rows; i++) t->q[i * dim] = attune__draw(state) & 1 ? 96.0f : -96.0f;
  for (int64_t j = 0; j < k_rows; j++)
    t->k[j * dim] = (float)((int)(attune__draw(state) % 3) - 1) * 104.0f;
}

/* ---- what no row sees ---------------------------------------------------------------------- */

void attune__trial_seen(const attune__trial *t, int64_t batch, int64_t *begin, int64_t *end) {
  attune_shape sequence = attune__sequence(&t->problem, batch);
  attune__mask_range(&t->problem.variant, &sequence, 0, sequence.len_q, begin, end);
}

/* Whether a query of a head that shares the kv head has a bit at the key. */
static int any_bit(const attune__trial *t, int64_t batch, int64_t kv, int64_t j) {
  const attune_shape s = attune__sequence(&t->problem, batch);
  const int64_t share = s.heads_q / s.heads_kv;
  if (!t->bits) return 1;
  for (int64_t h = kv * share; h < (kv + 1) * share; h++)
    for (int64_t i = 0; i < s.len_q; i++)
      if (attune__trial_keeps(t, batch, h, i, j)) return 1;
  return 0;
}

/* Row j of K and V of a head: NaN, or loud finite values. */
static void fill_hidden(attune__trial *t, int64_t head, int64_t j, int loud) {
  const attune_variant *v = &t->problem.variant;
  int64_t row = head * t->problem.shape.len_k + j;
  fill_constant(t->k + row * v->head_dim_qk, v->head_dim_qk, loud ? 4.0f : NAN);
  fill_constant(t->v + row * v->head_dim_v, v->head_dim_v, loud ? 1000.0f : NAN);
}

/* K of a key within the mask's bounds that has no bit. V stays a number, as P V multiplies it by 0,
 * and of its usual size, as the bounds go by the largest. */
static void fill_unset(attune__trial *t, int64_t head, int64_t j) {
  const int dim = t->problem.variant.head_dim_qk;
  fill_constant(t->k + (head * t->problem.shape.len_k + j) * dim, dim, NAN);
}

static void hide_keys(attune__trial *t, int64_t batch, int loud) {
  const attune_shape *s = &t->problem.shape;
  int64_t begin, end;
  attune__trial_seen(t, batch, &begin, &end);
  for (int64_t h = 0; h < s->heads_kv; h++)
    for (int64_t j = 0; j < s->len_k; j++)
      if (j < begin || j >= end)
        fill_hidden(t, batch * s->heads_kv + h, j, loud);
      else if (!loud && !any_bit(t, batch, h, j))
        fill_unset(t, batch * s->heads_kv + h, j);
}

/* Rows of Q that are not in use. */
static void hide_queries(attune__trial *t, int64_t batch, int loud) {
  const attune_shape *s = &t->problem.shape;
  const int64_t dim = t->problem.variant.head_dim_qk, used = t->rows_q[batch];
  for (int64_t head = batch * s->heads_q; head < (batch + 1) * s->heads_q; head++)
    fill_constant(t->q + (head * s->len_q + used) * dim, (s->len_q - used) * dim,
                  loud ? 1000.0f : NAN);
}

static void hide(attune__trial *t, int loud) {
  for (int64_t b = 0; b < t->problem.shape.batch; b++)
    hide_keys(t, b, loud), hide_queries(t, b, loud);
}

/* Whoever reads beyond a sequence meets NaN. */
static void spoil_neighbours(attune__trial *t) {
  const attune_variant *v = &t->problem.variant;
  const attune_shape *s = &t->problem.shape;
  const int64_t queries = s->heads_q * s->len_q, keys = s->heads_kv * s->len_k;
  for (int64_t b = 1; b < s->batch; b += 2) {
    fill_constant(t->q + b * queries * v->head_dim_qk, queries * v->head_dim_qk, NAN);
    fill_constant(t->k + b * keys * v->head_dim_qk, keys * v->head_dim_qk, NAN);
    fill_constant(t->v + b * keys * v->head_dim_v, keys * v->head_dim_v, NAN);
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

/* By turns; `turn` shifts them, so that queries and keys meet in every way. */
static int32_t mixed(int64_t length, int64_t turn) {
  const int64_t by_turns[] = {length, 0, length < 1 ? length : 1, length / 2 + (length > 1),
                              length > 0 ? length - 1 : 0};
  return (int32_t)by_turns[turn % 5];
}

/* One side of the sequences: their lengths, the rows in use, and what the call says of them. */
typedef struct side {
  int32_t *length, *first, *used, *rows;
} side;

static int32_t used_of(attune__used used, int64_t b, int32_t length, int64_t turn) {
  if (used == ATTUNE__USED_MIXED) return mixed(length, turn);
  return used == ATTUNE__USED_REAL ? text_lengths[b] : length;
}

/* first_turn: of lengths; rows in use have another, that they do not go along. */
static void fill_side(const attune__case *c, int64_t length, attune__used used, int64_t first_turn,
                      side s) {
  const int64_t longest = length > c->slack ? length - c->slack : 0;
  for (int64_t b = 0; b < c->shape.batch; b++) {
    s.length[b] = (int32_t)length;
    if (s.first && c->lengths == ATTUNE__LENGTHS_EQUAL) s.length[b] = (int32_t)longest;
    if (s.first && c->lengths == ATTUNE__LENGTHS_MIXED)
      s.length[b] = mixed(longest, first_turn + b + b / 5);
    if (s.first && c->lengths == ATTUNE__LENGTHS_REAL) s.length[b] = text_lengths[b];
    s.rows[b] = used_of(used, b, s.length[b], 3 * first_turn + b);
    if (s.used) s.used[b] = s.rows[b];
    if (s.first) s.first[b + 1] = s.first[b] + s.length[b];
  }
}

static void fill_lengths(attune__trial *t, const attune__case *c) {
  const int64_t batch = c->shape.batch;
  fill_side(c, c->shape.len_q, c->used_q, 1, (side){t->len_q, t->cu_q, t->used_q, t->rows_q});
  fill_side(c, c->shape.len_k, c->used_k, 0, (side){t->len_k, t->cu_k, t->used_k, t->rows_k});
  if (!t->cu_q) return;
  t->total_q = c->total_q ? c->total_q : t->cu_q[batch] + c->slack;
  t->total_k = c->total_k ? c->total_k : t->cu_k[batch] + c->slack;
}

static void fill_random(attune__trial *t, const attune__case *c, uint64_t *seed) {
  const attune_variant *v = &t->problem.variant;
  int64_t k_rows = c->shape.batch * c->shape.heads_kv * c->shape.len_k;
  float deviation = c->fill == ATTUNE__FILL_WIDE ? 8.0f : 1.0f;
  fill_normal(t->q, t->rows * v->head_dim_qk, deviation, v->dtype_q, seed);
  fill_normal(t->k, k_rows * v->head_dim_qk, 1, v->dtype_kv, seed);
  fill_normal(t->v, k_rows * v->head_dim_v, 1, v->dtype_kv, seed);
  if (c->fill == ATTUNE__FILL_HUGE) fill_huge(t, t->rows, k_rows, seed);
  hide(t, c->fill == ATTUNE__FILL_LOUD);
  if (c->fill == ATTUNE__FILL_NAN_KEY) spoil_key(t);
  if (c->fill == ATTUNE__FILL_NAN_NEIGHBOURS) spoil_neighbours(t);
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

/* The file's O is that of plain attention. */
static int has_file(const attune_variant *v, const attune__case *c) {
  return c->fill == ATTUNE__FILL_REAL && v->dtype_out == ATTUNE_DTYPE_FP32 &&
         v->dtype_q == ATTUNE_DTYPE_FP32 && v->dtype_kv == ATTUNE_DTYPE_FP32 &&
         !(v->features & ~(uint32_t)ATTUNE_FEATURE_VARLEN);
}

static int allocate_tensors(attune__trial *t, const attune__case *c) {
  const attune_variant *v = &t->problem.variant;
  const attune_shape *s = &c->shape;
  int64_t k_rows = s->batch * s->heads_kv * s->len_k;
  t->q = allocate(t->rows * v->head_dim_qk, sizeof *t->q);
  t->k = allocate(k_rows * v->head_dim_qk, sizeof *t->k);
  t->v = allocate(k_rows * v->head_dim_v, sizeof *t->v);
  t->o = allocate(t->rows * v->head_dim_v, sizeof *t->o);
  t->rounded_o = allocate(t->rows * v->head_dim_v, sizeof *t->rounded_o);
  t->lse = allocate(t->rows, sizeof *t->lse);
  if (has_file(v, c)) t->file_o = allocate(t->rows * v->head_dim_v, sizeof *t->file_o);
  return t->q && t->k && t->v && t->o && t->rounded_o && t->lse && (t->file_o || !has_file(v, c));
}

/* The four that every trial has, then those that the call passes. */
static int allocate_lengths(attune__trial *t, const attune__case *c) {
  const int64_t count = c->shape.batch + 1;
  const int varlen = (t->problem.variant.features & ATTUNE_FEATURE_VARLEN) != 0;
  const int with_q = c->used_q != ATTUNE__USED_NULL, with_k = c->used_k != ATTUNE__USED_NULL;
  t->len_q = allocate(count, sizeof *t->len_q);
  t->len_k = allocate(count, sizeof *t->len_k);
  t->rows_q = allocate(count, sizeof *t->rows_q);
  t->rows_k = allocate(count, sizeof *t->rows_k);
  if (varlen) t->cu_q = allocate(count, sizeof *t->cu_q);
  if (varlen) t->cu_k = allocate(count, sizeof *t->cu_k);
  if (with_q) t->used_q = allocate(count, sizeof *t->used_q);
  if (with_k) t->used_k = allocate(count, sizeof *t->used_k);
  return t->len_q && t->len_k && t->rows_q && t->rows_k && (!varlen || (t->cu_q && t->cu_k)) &&
         (!with_q || t->used_q) && (!with_k || t->used_k);
}

static void set_problem(attune__trial *t, const attune__case *c, int threads) {
  attune_reference_problem *p = &t->problem;
  p->shape = c->shape;
  /* The default as the call's float has it. */
  p->scale =
      c->default_scale ? (double)(float)(1 / sqrt(p->variant.head_dim_qk)) : (double)c->scale;
  p->q = t->q, p->k = t->k, p->v = t->v, p->seqused_q = t->rows_q, p->seqused_k = t->rows_k;
  p->threads = threads;
}

attune_status attune__trial_make(const attune_variant *variant, const attune__case *c,
                                 const attune__real *real, uint64_t seed, int threads,
                                 attune__trial *out) {
  *out = (attune__trial){.problem.variant = *variant,
                         .rows = c->shape.batch * c->shape.heads_q * c->shape.len_q};
  if (!allocate_tensors(out, c) || !allocate_lengths(out, c)) {
    attune__trial_free(out);
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for the tensors of a case");
  }
  set_problem(out, c, threads);
  fill_lengths(out, c);
  attune_status status = attune__trial_features(out, c, &seed);
  if (status == ATTUNE_OK && c->fill == ATTUNE__FILL_REAL) fill_real(out, c, real);
  if (status == ATTUNE_OK && c->fill != ATTUNE__FILL_REAL) fill_random(out, c, &seed);
  if (status == ATTUNE_OK) status = attune__reference(&out->problem, out->o, out->lse);
  if (status == ATTUNE_OK) status = attune__reference_rounded(&out->problem, out->rounded_o, NULL);
  if (status != ATTUNE_OK) attune__trial_free(out);
  return status;
}

void attune__trial_free(attune__trial *t) {
  free(t->q), free(t->k), free(t->v);
  free(t->len_q), free(t->len_k), free(t->cu_q), free(t->cu_k);
  free(t->used_q), free(t->used_k), free(t->rows_q), free(t->rows_k);
  free(t->slopes), free(t->bias), free(t->sinks), free(t->bits), free(t->classes);
  free(t->o), free(t->lse), free(t->rounded_o), free(t->file_o);
  *t = (attune__trial){0};
}
