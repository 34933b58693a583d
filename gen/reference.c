/* reference.c - attention on the host: once in float64, once with the rounding points of standard
 * attention in the variant's dtypes.
 *
 * Input: a problem with dense float tensors. Output: O and LSE in double. One (batch, query head)
 * is one piece of work; threads take the next piece until none is left. Every sum runs in plain
 * order (the first term first), as the textbook's loop does: LANES sums stand side by side, so that
 * the compiler can use vector units without changing a bit. What a row sees comes from
 * mask_range.c; rounding from round.c. */
#include "reference.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LANES = 16, MAX_THREADS = 64 };
/* Multiply-adds below which starting a thread costs more than it saves. */
enum { WORTH_A_THREAD = 1 << 18 };

#define SUMS(real)                                                                                 \
  /* kt [dim][pitch] = K [keys][dim] transposed, 0 beyond the keys. */                             \
  static void transpose_##real(const float *k, int64_t keys, int64_t dim, int64_t pitch,           \
                               real *kt) {                                                         \
    for (int64_t d = 0; d < dim; d++)                                                              \
      for (int64_t j = 0; j < pitch; j++) kt[d * pitch + j] = j < keys ? (real)k[j * dim + d] : 0; \
  }                                                                                                \
  /* s[j] = q . k[j] for j in [begin, end); its neighbours up to whole lanes are written too. */   \
  static void scores_##real(const float *q, const real *kt, int64_t dim, int64_t pitch,            \
                            int64_t begin, int64_t end, real *s) {                                 \
    for (int64_t j = begin / LANES * LANES; j < end; j += LANES) {                                 \
      real sum[LANES] = {0};                                                                       \
      for (int64_t d = 0; d < dim; d++)                                                            \
        for (int e = 0; e < LANES; e++) sum[e] += (real)q[d] * kt[d * pitch + j + e];              \
      memcpy(s + j, sum, sizeof sum);                                                              \
    }                                                                                              \
  }                                                                                                \
  /* o += p * v */                                                                                 \
  static void add_##real(real p, const float *v, int64_t dim, real *o) {                           \
    int64_t c = 0;                                                                                 \
    for (; c + LANES <= dim; c += LANES)                                                           \
      for (int e = 0; e < LANES; e++) o[c + e] += p * (real)v[c + e];                              \
    for (; c < dim; c++) o[c] += p * (real)v[c];                                                   \
  }
SUMS(double)
SUMS(float)

/* One head as its rows see it. kt, s, sum and key are scratch of the thread; the first three are
 * double or float. */
typedef struct head {
  const attune_reference_problem *problem;
  const float *q, *v;
  attune_shape sequence; /* lengths in use */
  int64_t batch, index;  /* of the query head */
  int64_t pitch;
  void *kt, *s, *sum;
  int64_t *key; /* the keys that a row sees */
} head;

/* What a row's scores take beside Q and K; NULL and 0 where the variant has no such feature. */
typedef struct terms {
  const float *bias; /* of key 0 */
  int64_t bias_stride, diagonal;
  double softcap, sink;
  float slope;
} terms;

static terms terms_of(const head *h, int64_t i) {
  const attune_reference_problem *p = h->problem;
  uint32_t features = p->variant.features;
  const attune_shape *s = &h->sequence;
  terms t = {.sink = -INFINITY, .bias_stride = p->bias_stride[3]};
  if (features & ATTUNE_FEATURE_SOFTCAP) t.softcap = p->softcap;
  if (features & ATTUNE_FEATURE_BIAS)
    t.bias = p->bias + h->batch * p->bias_stride[0] + h->index * p->bias_stride[1] +
             i * p->bias_stride[2];
  if (features & ATTUNE_FEATURE_ALIBI)
    t.slope = p->alibi_slopes[h->batch * p->shape.heads_q + h->index];
  t.diagonal = i + (s->corner == ATTUNE_CORNER_BOTTOM_RIGHT ? s->len_k - s->len_q : 0);
  if (features & ATTUNE_FEATURE_SINK) t.sink = (double)p->sinks[h->index];
  return t;
}

float attune__bias_value(float x) {
  return isinf(x) || !(x < -1e38f) ? x : -1e38f;
}

/* A score from q . k, every operation in `real`. */
#define SCORE(real, tanh_of)                                                                       \
  static real score_##real(const terms *t, real s, real scale, int64_t j) {                        \
    real cap = (real)t->softcap;                                                                   \
    s *= scale;                                                                                    \
    if (cap > 0) s = cap * tanh_of(s / cap);                                                       \
    if (t->bias) s += (real)attune__bias_value(t->bias[j * t->bias_stride]);                       \
    if (t->slope != 0) s -= (real)t->slope * (real)llabs(j - t->diagonal);                         \
    return s;                                                                                      \
  }
SCORE(double, tanh)
SCORE(float, tanhf)

/* Row i sees the keys h->key[0 .. n). lse may not be NULL. */
typedef void (*row_fn)(const head *h, int64_t i, int64_t n, double *o, double *lse);

/* The maximum is 0 where none is above -inf: the weights then are 0, or NaN if a score is. */
static void row_exact(const head *h, int64_t i, int64_t n, double *o, double *lse) {
  const attune_variant *v = &h->problem->variant;
  const terms t = terms_of(h, i);
  double *s = h->s, *sum = h->sum, max = t.sink, total = 0;
  for (int64_t e = 0; e < n; e++) {
    const int64_t j = h->key[e];
    s[j] = score_double(&t, s[j], h->problem->scale, j);
    if (s[j] > max) max = s[j];
  }
  if (max == -INFINITY) max = 0;
  memset(sum, 0, v->head_dim_v * sizeof *sum);
  for (int64_t e = 0; e < n; e++) {
    const int64_t j = h->key[e];
    const double p = exp(s[j] - max);
    total += p;
    add_double(p, h->v + j * v->head_dim_v, v->head_dim_v, sum);
  }
  total += exp(t.sink - max);
  for (int c = 0; c < v->head_dim_v; c++) o[c] = total == 0 ? 0 : sum[c] / total;
  *lse = max + log(total);
}

static void row_rounded(const head *h, int64_t i, int64_t n, double *o, double *lse) {
  const attune_variant *v = &h->problem->variant;
  const terms t = terms_of(h, i);
  const float scale = (float)h->problem->scale, sink = (float)t.sink;
  float *s = h->s, *sum = h->sum, max = sink, total = 0;
  for (int64_t e = 0; e < n; e++) {
    const int64_t j = h->key[e];
    s[j] = attune__round(v->dtype_q, score_float(&t, s[j], scale, j));
    if (s[j] > max) max = s[j];
  }
  if (max == -INFINITY) max = 0;
  for (int64_t e = 0; e < n; e++) {
    const int64_t j = h->key[e];
    total += s[j] = expf(s[j] - max);
  }
  total += expf(sink - max);
  memset(sum, 0, v->head_dim_v * sizeof *sum);
  for (int64_t e = 0; e < n && total != 0; e++) {
    const int64_t j = h->key[e];
    const float p = attune__round(v->dtype_q, s[j] / total);
    add_float(p, h->v + j * v->head_dim_v, v->head_dim_v, sum);
  }
  for (int c = 0; c < v->head_dim_v; c++) o[c] = (double)attune__round(v->dtype_out, sum[c]);
  *lse = (double)(max + logf(total));
}

static int64_t in_use(const int32_t *seqused, int64_t batch, int64_t length) {
  return seqused ? seqused[batch] : length;
}

attune_shape attune__sequence(const attune_reference_problem *p, int64_t batch) {
  attune_shape s = p->shape;
  s.len_q = in_use(p->seqused_q, batch, s.len_q);
  s.len_k = in_use(p->seqused_k, batch, s.len_k);
  return s;
}

int attune__bit(const attune_reference_problem *p, int64_t batch, int64_t q_head, int64_t i,
                int64_t j) {
  if (!(p->variant.features & ATTUNE_FEATURE_BITMASK)) return 1;
  const uint32_t *row = p->bitmask + batch * p->bitmask_stride[0] + q_head * p->bitmask_stride[1] +
                        i * p->bitmask_stride[2];
  return row[j / 32] >> (j % 32) & 1;
}

/* h->s[j] = q_i . k_j */
typedef void (*products_fn)(const head *h, int64_t i, int64_t begin, int64_t end);

static void products_exact(const head *h, int64_t i, int64_t begin, int64_t end) {
  int64_t dim = h->problem->variant.head_dim_qk;
  scores_double(h->q + i * dim, h->kt, dim, h->pitch, begin, end, h->s);
}

static void products_rounded(const head *h, int64_t i, int64_t begin, int64_t end) {
  int64_t dim = h->problem->variant.head_dim_qk;
  scores_float(h->q + i * dim, h->kt, dim, h->pitch, begin, end, h->s);
}

/* What the threads share. */
typedef struct work {
  const attune_reference_problem *problem;
  products_fn products;
  row_fn row;
  int exact;
  double *o, *lse;
  int64_t pitch; /* len_k in whole lanes */
  int64_t heads; /* pieces: batch x heads_q */
  _Atomic int64_t next;
} work;

static void rows_of_head(const work *w, head *h, int64_t piece) {
  const attune_variant *v = &h->problem->variant;
  const attune_shape *s = &h->problem->shape;
  for (int64_t i = 0; i < h->sequence.len_q; i++) {
    int64_t at = piece * s->len_q + i, begin, end, n = 0;
    double lse;
    attune__mask_range(v, &h->sequence, i, i + 1, &begin, &end);
    for (int64_t j = begin; j < end; j++)
      if (attune__bit(h->problem, h->batch, h->index, i, j)) h->key[n++] = j;
    w->products(h, i, begin, end);
    w->row(h, i, n, w->o + at * v->head_dim_v, &lse);
    if (w->lse) w->lse[at] = lse;
  }
}

static void head_of(const work *w, int64_t piece, head *h) {
  const attune_reference_problem *p = w->problem;
  const attune_variant *v = &p->variant;
  const attune_shape *s = &p->shape;
  h->batch = piece / s->heads_q, h->index = piece % s->heads_q;
  int64_t kv = h->batch * s->heads_kv + h->index / (s->heads_q / s->heads_kv);
  const float *k = p->k + kv * s->len_k * v->head_dim_qk;
  h->problem = p;
  h->q = p->q + piece * s->len_q * v->head_dim_qk;
  h->v = p->v + kv * s->len_k * v->head_dim_v;
  h->sequence = attune__sequence(p, h->batch);
  h->pitch = w->pitch;
  if (w->exact)
    transpose_double(k, s->len_k, v->head_dim_qk, w->pitch, h->kt);
  else
    transpose_float(k, s->len_k, v->head_dim_qk, w->pitch, h->kt);
}

/* What one thread needs, in doubles: kt, s, key, sum. */
_Static_assert(sizeof(int64_t) == sizeof(double), "keys lie among doubles");
static size_t scratch_doubles(const work *w) {
  const attune_variant *v = &w->problem->variant;
  return (size_t)w->pitch * (v->head_dim_qk + 2u) + v->head_dim_v;
}

typedef struct worker {
  work *shared;
  double *scratch;
  pthread_t thread;
} worker;

static void *work_on(void *argument) {
  worker *me = argument;
  work *w = me->shared;
  head h = {.kt = me->scratch};
  h.s = me->scratch + w->pitch * w->problem->variant.head_dim_qk;
  h.key = (int64_t *)h.s + w->pitch;
  h.sum = (double *)(void *)(h.key + w->pitch);
  for (int64_t piece; (piece = atomic_fetch_add(&w->next, 1)) < w->heads;) {
    head_of(w, piece, &h);
    rows_of_head(w, &h, piece);
  }
  return NULL;
}

static int64_t thread_count(const work *w) {
  const attune_shape *s = &w->problem->shape;
  int64_t threads = w->problem->threads ? w->problem->threads : sysconf(_SC_NPROCESSORS_ONLN);
  int64_t sums = w->problem->variant.head_dim_qk + w->problem->variant.head_dim_v;
  int64_t worth = w->heads * s->len_q * s->len_k * sums / WORTH_A_THREAD + 1;
  if (threads > worth) threads = worth;
  if (threads > w->heads) threads = w->heads;
  return threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
}

/* The calling thread works too; where a thread cannot be started the others do its share. */
static attune_status run(work *w) {
  const attune_shape *s = &w->problem->shape;
  w->heads = s->batch * s->heads_q;
  w->pitch = (s->len_k + LANES - 1) / LANES * LANES;
  int64_t threads = thread_count(w), started = 1;
  double *scratch = calloc((size_t)threads * scratch_doubles(w), sizeof *scratch);
  if (!scratch)
    return attune_fail(ATTUNE_NO_MEMORY, "the reference wanted %lld threads' scratch of %zu bytes",
                       (long long)threads, scratch_doubles(w) * sizeof *scratch);
  worker workers[MAX_THREADS];
  for (int64_t t = 0; t < threads; t++)
    workers[t] = (worker){.shared = w, .scratch = scratch + (size_t)t * scratch_doubles(w)};
  while (started < threads &&
         !pthread_create(&workers[started].thread, NULL, work_on, &workers[started]))
    started++;
  work_on(&workers[0]);
  for (int64_t t = 1; t < started; t++) pthread_join(workers[t].thread, NULL);
  free(scratch);
  return ATTUNE_OK;
}

attune_status attune__reference(const attune_reference_problem *p, double *o, double *lse) {
  work w = {
      .problem = p, .products = products_exact, .row = row_exact, .exact = 1, .o = o, .lse = lse};
  return run(&w);
}

attune_status attune__reference_rounded(const attune_reference_problem *p, double *o, double *lse) {
  work w = {.problem = p,
            .products = products_rounded,
            .row = row_rounded,
            .exact = 0,
            .o = o,
            .lse = lse};
  return run(&w);
}
