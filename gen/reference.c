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

/* One head as its rows see it. kt, s and sum are scratch of the thread, double or float. */
typedef struct head {
  const attune_reference_problem *problem;
  const float *q, *v;
  int64_t used, pitch;
  void *kt, *s, *sum;
} head;

typedef void (*row_fn)(const head *h, int64_t i, int64_t begin, int64_t end, double *o,
                       double *lse);

static void row_exact(const head *h, int64_t i, int64_t begin, int64_t end, double *o,
                      double *lse) {
  const attune_variant *v = &h->problem->variant;
  double *s = h->s, *sum = h->sum, max = -INFINITY, total = 0;
  scores_double(h->q + i * v->head_dim_qk, h->kt, v->head_dim_qk, h->pitch, begin, end, s);
  for (int64_t j = begin; j < end; j++) {
    s[j] *= h->problem->scale;
    if (s[j] > max) max = s[j];
  }
  memset(sum, 0, v->head_dim_v * sizeof *sum);
  for (int64_t j = begin; j < end; j++) {
    double p = exp(s[j] - max);
    total += p;
    add_double(p, h->v + j * v->head_dim_v, v->head_dim_v, sum);
  }
  for (int c = 0; c < v->head_dim_v; c++) o[c] = sum[c] / total;
  *lse = max + log(total);
}

static void row_rounded(const head *h, int64_t i, int64_t begin, int64_t end, double *o,
                        double *lse) {
  const attune_variant *v = &h->problem->variant;
  float *s = h->s, *sum = h->sum, max = -INFINITY, total = 0, scale = (float)h->problem->scale;
  scores_float(h->q + i * v->head_dim_qk, h->kt, v->head_dim_qk, h->pitch, begin, end, s);
  for (int64_t j = begin; j < end; j++) {
    s[j] = attune__round(v->dtype_q, s[j] * scale);
    if (s[j] > max) max = s[j];
  }
  for (int64_t j = begin; j < end; j++) total += s[j] = expf(s[j] - max);
  memset(sum, 0, v->head_dim_v * sizeof *sum);
  for (int64_t j = begin; j < end; j++) {
    float p = attune__round(v->dtype_q, s[j] / total);
    add_float(p, h->v + j * v->head_dim_v, v->head_dim_v, sum);
  }
  for (int c = 0; c < v->head_dim_v; c++) o[c] = (double)attune__round(v->dtype_out, sum[c]);
  *lse = (double)(max + logf(total));
}

int64_t attune__keys_used(const attune_shape *shape, const int32_t *seqused_k, int64_t batch) {
  return seqused_k ? seqused_k[batch] : shape->len_k;
}

void attune__keys_seen(const attune_variant *variant, const attune_shape *shape, int64_t used,
                       int64_t i, int64_t *begin, int64_t *end) {
  attune_shape sequence = *shape;
  sequence.len_k = used;
  attune__mask_range(variant, &sequence, i, i + 1, begin, end);
}

/* What the threads share. */
typedef struct work {
  const attune_reference_problem *problem;
  row_fn row;
  int exact;
  double *o, *lse;
  int64_t pitch; /* len_k in whole lanes */
  int64_t heads; /* pieces: batch x heads_q */
  _Atomic int64_t next;
} work;

static void rows_of_head(const work *w, const head *h, int64_t piece) {
  const attune_variant *v = &h->problem->variant;
  const attune_shape *s = &h->problem->shape;
  for (int64_t i = 0; i < s->len_q; i++) {
    int64_t at = piece * s->len_q + i, begin, end;
    double *o = w->o + at * v->head_dim_v, lse = -INFINITY;
    attune__keys_seen(v, s, h->used, i, &begin, &end);
    if (begin < end)
      w->row(h, i, begin, end, o, &lse);
    else
      memset(o, 0, v->head_dim_v * sizeof *o);
    if (w->lse) w->lse[at] = lse;
  }
}

static void head_of(const work *w, int64_t piece, head *h) {
  const attune_reference_problem *p = w->problem;
  const attune_variant *v = &p->variant;
  const attune_shape *s = &p->shape;
  int64_t batch = piece / s->heads_q, q_head = piece % s->heads_q;
  int64_t kv = batch * s->heads_kv + q_head / (s->heads_q / s->heads_kv);
  const float *k = p->k + kv * s->len_k * v->head_dim_qk;
  h->problem = p;
  h->q = p->q + piece * s->len_q * v->head_dim_qk;
  h->v = p->v + kv * s->len_k * v->head_dim_v;
  h->used = attune__keys_used(s, p->seqused_k, batch);
  h->pitch = w->pitch;
  if (w->exact)
    transpose_double(k, s->len_k, v->head_dim_qk, w->pitch, h->kt);
  else
    transpose_float(k, s->len_k, v->head_dim_qk, w->pitch, h->kt);
}

/* Doubles that one thread needs: kt, s, sum. */
static size_t scratch_doubles(const work *w) {
  const attune_variant *v = &w->problem->variant;
  return (size_t)w->pitch * (v->head_dim_qk + 1u) + v->head_dim_v;
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
  h.sum = (double *)h.s + w->pitch;
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
  work w = {.problem = p, .row = row_exact, .exact = 1, .o = o, .lse = lse};
  return run(&w);
}

attune_status attune__reference_rounded(const attune_reference_problem *p, double *o, double *lse) {
  work w = {.problem = p, .row = row_rounded, .exact = 0, .o = o, .lse = lse};
  return run(&w);
}
