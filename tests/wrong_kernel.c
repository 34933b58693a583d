/* wrong_kernel.c - the device and the kernel of wrong_kernel.h. Each fault is one place in it. */
#include "wrong_kernel.h"

#include "../gen/reference.h"
#include "fake.h"
#include "test.h"

#include <math.h>
#include <sys/mman.h>

/* ---- the device ------------------------------------------------------------------------------ */

struct attune__function {
  attune_entry entry;
};

static wrong_device *wrong(attune__device *device) {
  return (wrong_device *)(void *)device;
}

static void close_device(attune__device *device) {
  free(device);
}

static attune_status load_kernel(attune__device *device, const attune_entry *entry,
                                 attune__function **out) {
  (void)device;
  *out = calloc(1, sizeof **out);
  if (!*out) return attune_fail(ATTUNE_NO_MEMORY, "no memory");
  (*out)->entry = *entry;
  return ATTUNE_OK;
}

static void unload_kernel(attune__device *device, attune__function *function) {
  (void)device;
  free(function);
}

/* Small buffers exactly as large as asked for, so that ASan sees a slip; large ones without
 * backing. */
enum { HEADER = 256, LARGE = 1 << 28 };

static attune_status allocate(attune__device *device, size_t bytes, void **out) {
  char *memory;
  if (bytes > wrong(device)->memory)
    return attune_fail(ATTUNE_NO_MEMORY, "the device has no %zu bytes", bytes);
  if (bytes < LARGE)
    memory = aligned_alloc(HEADER, (HEADER + bytes + HEADER - 1) / HEADER * HEADER);
  else
    memory = mmap(NULL, HEADER + bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!memory || memory == MAP_FAILED) return attune_fail(ATTUNE_NO_MEMORY, "no host memory");
  memcpy(memory, &bytes, sizeof bytes);
  *out = memory + HEADER;
  return ATTUNE_OK;
}

static void release(attune__device *device, void *buffer) {
  char *memory = (char *)buffer - HEADER;
  size_t bytes;
  (void)device;
  memcpy(&bytes, memory, sizeof bytes);
  if (bytes < LARGE)
    free(memory);
  else
    munmap(memory, HEADER + bytes);
}

/* ---- the kernel ---------------------------------------------------------------------------- */

enum { MAX_DIM = 64 };

typedef struct kernel {
  const attune_variant *v;
  const attune_params_attn_fwd *p;
  fault fault;
} kernel;

/* Sequence b as its lengths in use; of a packed one, its first rows. */
typedef struct sequence {
  int64_t b, len_q, len_k, first_q, first_k;
} sequence;

static int has(const kernel *k, uint32_t feature) {
  return (k->v->features & feature) != 0;
}

static sequence sequence_of(const kernel *k, int64_t b) {
  const attune_params_attn_fwd *p = k->p;
  sequence s = {.b = b, .len_q = p->len_q, .len_k = p->len_k};
  if (has(k, ATTUNE_FEATURE_VARLEN)) {
    s.first_q = p->cu_seqlens_q[b], s.len_q = p->cu_seqlens_q[b + 1] - s.first_q;
    s.first_k = p->cu_seqlens_k[b], s.len_k = p->cu_seqlens_k[b + 1] - s.first_k;
  }
  if (p->seqused_q && k->fault != IGNORED_USED_Q) s.len_q = p->seqused_q[b];
  if (p->seqused_k && k->fault != IGNORED_USED) s.len_k = p->seqused_k[b];
  return s;
}

/* Row `row` of a tensor, which begins at the sequence's row first of a packed one. */
static int64_t offset_of(const kernel *k, int64_t b, int64_t sb, int64_t row, int64_t first,
                         int64_t ss, int64_t h, int64_t sh) {
  int64_t at = (has(k, ATTUNE_FEATURE_VARLEN) ? first * ss : b * sb) + row * ss + h * sh;
  return k->fault == OFFSET_32_BITS ? at & 0x7fffffff : at;
}

static void load_row(int dtype, const void *base, int64_t at, int dim, float *out) {
  attune__from_dtype(dtype, (const char *)base + at * attune__dtype_bytes(dtype), out, (size_t)dim);
}

static int64_t corner_of(const kernel *k, const sequence *s) {
  int bottom_right = k->p->bottom_right ^ (k->fault == OTHER_CORNER);
  return bottom_right ? s->len_k - s->len_q : 0;
}

static int keeps_bit(const kernel *k, const sequence *s, int64_t h, int64_t i, int64_t j) {
  const attune_params_attn_fwd *p = k->p;
  if (!has(k, ATTUNE_FEATURE_BITMASK)) return 1;
  int64_t at = s->b * p->bitmask_stride_batch + h * p->bitmask_stride_head;
  at += k->fault == BITS_DENSE ? i * ((p->len_k + 31) / 32) : i * p->bitmask_stride_q;
  int bit = k->fault == BITS_REVERSED ? 31 - (int)(j % 32) : (int)(j % 32);
  return p->bitmask[at + j / 32] >> bit & 1;
}

static int keeps(const kernel *k, const sequence *s, int64_t h, int64_t i, int64_t j) {
  const attune_params_attn_fwd *p = k->p;
  int64_t diagonal = j - i - corner_of(k, s);
  int left = p->window_left - (k->fault == WINDOW_OFF_BY_ONE);
  if (j >= s->len_k || !keeps_bit(k, s, h, i, j)) return 0;
  if (k->fault == FORGOTTEN_MASK || k->v->mask == ATTUNE_MASK_NONE) return 1;
  if (k->v->mask == ATTUNE_MASK_CAUSAL) return diagonal <= 0;
  return (p->window_left < 0 || -diagonal <= left) &&
         (p->window_right < 0 || diagonal <= p->window_right);
}

typedef struct state {
  double max, sum, o[MAX_DIM];
} state;

static double bias_of(const kernel *k, const sequence *s, int64_t h, int64_t i, int64_t j) {
  const attune_params_attn_fwd *p = k->p;
  int64_t at = s->b * p->bias_stride_batch + h * p->bias_stride_head + j * p->bias_stride_k;
  float bias;
  at += k->fault == BIAS_DENSE ? i * p->len_k : i * p->bias_stride_q;
  load_row(k->v->dtype_q, p->bias, at, 1, &bias);
  if (k->fault == BIAS_LOWEST && bias < -1e38f) return -INFINITY;
  return bias < -1e38f && !isinf(bias) ? -1e38 : (double)bias;
}

/* What the features make of q . k, in their order. */
static double featured(const kernel *k, const sequence *s, int64_t h, int64_t i, int64_t j,
                       double x) {
  const attune_params_attn_fwd *p = k->p;
  double scale = k->fault == SCALE_WITHOUT_SIGN ? fabs((double)p->scale) : (double)p->scale;
  double cap = (double)p->softcap;
  int capped = has(k, ATTUNE_FEATURE_SOFTCAP), biased = has(k, ATTUNE_FEATURE_BIAS);
  if (k->fault == UNSCALED) scale = 1;
  if (capped && k->fault == SOFTCAP_BEFORE_SCALE) return cap * tanh(x / cap) * scale;
  x *= scale;
  if (biased && k->fault == BIAS_BEFORE_SOFTCAP) x += bias_of(k, s, h, i, j);
  if (capped) x = cap * tanh(x / cap);
  if (biased && k->fault != BIAS_BEFORE_SOFTCAP) x += bias_of(k, s, h, i, j);
  if (has(k, ATTUNE_FEATURE_ALIBI)) {
    int64_t row = k->fault == ALIBI_SHARED ? 0 : s->b;
    double slope = (double)p->alibi_slopes[row * p->alibi_stride_batch + h];
    x -= slope * (double)llabs(j - i - (k->fault == ALIBI_CORNER ? 0 : corner_of(k, s)));
  }
  return x;
}

static double score(const kernel *k, const sequence *s, const float *q, int64_t h, int64_t i,
                    int64_t j) {
  const attune_params_attn_fwd *p = k->p;
  int64_t stride = k->fault == DENSE_K ? (int64_t)p->heads_kv * k->v->head_dim_qk : p->k_stride_seq;
  int64_t kv = h / (p->heads_q / p->heads_kv);
  float key[MAX_DIM];
  double x = 0;
  if (k->fault == HEADS_BY_MODULO) kv = h % p->heads_kv;
  load_row(k->v->dtype_kv, p->k,
           offset_of(k, s->b, p->k_stride_batch, j, s->first_k, stride, kv, p->k_stride_head),
           k->v->head_dim_qk, key);
  for (int d = 0; d < k->v->head_dim_qk; d++) x += (double)q[d] * (double)key[d];
  return featured(k, s, h, i, j, x);
}

static void add_key(const kernel *k, state *st, double weight, const sequence *s, int64_t h,
                    int64_t j) {
  const attune_params_attn_fwd *p = k->p;
  int64_t kv = h / (p->heads_q / p->heads_kv);
  float v[MAX_DIM];
  if (k->fault == HEADS_BY_MODULO) kv = h % p->heads_kv;
  if (k->fault == ROUNDED_P) weight = (double)attune__round(ATTUNE_DTYPE_BF16, (float)weight);
  load_row(
      k->v->dtype_kv, p->v,
      offset_of(k, s->b, p->v_stride_batch, j, s->first_k, p->v_stride_seq, kv, p->v_stride_head),
      k->v->head_dim_v, v);
  st->sum += weight;
  for (int c = 0; c < k->v->head_dim_v; c++) st->o[c] += weight * (double)v[c];
}

/* Keys that a block reads although no row may see them: of weight 0, which NaN survives. */
static int reads_unseen(const kernel *k, const sequence *s, int64_t j) {
  if (k->fault == NAN_LEAK) return j < k->p->len_k;
  return k->fault == READ_NEIGHBOUR && s->first_k + j < k->p->cu_seqlens_k[k->p->batch];
}

/* One block of keys: a new maximum, the old sums rescaled, the block's keys added. */
static void add_block(const kernel *k, state *st, const float *q, const sequence *s, int64_t h,
                      int64_t i, int64_t j0) {
  double x[WRONG_BLOCK_N], max = st->max;
  int keep[WRONG_BLOCK_N], any = 0;
  for (int n = 0; n < WRONG_BLOCK_N; n++) {
    keep[n] = keeps(k, s, h, i, j0 + n);
    if (keep[n]) x[n] = score(k, s, q, h, i, j0 + n);
    if (keep[n] && x[n] > max) max = x[n];
    any |= keep[n];
  }
  if (!any && k->fault != NAN_LEAK) return;
  if (k->fault == NO_MAXIMUM || max == -INFINITY) max = 0;
  double old = st->max == max || isinf(st->max) ? 1 : exp(st->max - max);
  st->sum *= old;
  for (int c = 0; c < k->v->head_dim_v; c++) st->o[c] *= k->fault == NO_RESCALE ? 1 : old;
  st->max = max;
  for (int n = 0; n < WRONG_BLOCK_N; n++)
    if (keep[n])
      add_key(k, st, exp(x[n] - max), s, h, j0 + n);
    else if (reads_unseen(k, s, j0 + n))
      add_key(k, st, 0, s, h, j0 + n);
}

/* The sink joins the row's maximum and sum. */
static void add_sink(const kernel *k, state *st, int64_t h) {
  double sink = (double)k->p->sinks[h], max = fmax(st->max, sink);
  if (isinf(sink)) return;
  double old = isinf(st->max) ? 0 : exp(st->max - max);
  st->sum = st->sum * old + exp(sink - max), st->max = max;
  for (int c = 0; c < k->v->head_dim_v; c++) st->o[c] *= old;
}

static void store_row(const kernel *k, const state *st, const sequence *s, int64_t h, int64_t i) {
  const attune_params_attn_fwd *p = k->p;
  float o[MAX_DIM];
  int last = s->b == p->batch - 1 && h == p->heads_q - 1 && i == s->len_q - 1;
  int dim = k->v->head_dim_v, bytes = attune__dtype_bytes(k->v->dtype_out);
  int64_t at =
      offset_of(k, s->b, p->o_stride_batch, i, s->first_q, p->o_stride_seq, h, p->o_stride_head);
  double empty = k->fault == EMPTY_ROW_NAN ? (double)NAN : 0;
  for (int c = 0; c < dim; c++) o[c] = (float)(st->sum > 0 ? st->o[c] / st->sum : empty);
  if (isnan(st->sum)) o[0] = NAN;
  if (last && k->fault == LEFT_UNWRITTEN) dim--;
  attune__to_dtype(k->v->dtype_out, o, (char *)p->o + at * bytes, (size_t)dim);
  if (last && k->fault == WROTE_BEHIND_O)
    attune__to_dtype(k->v->dtype_out, o, (char *)p->o + (at + dim) * bytes, 1);
}

static void store_lse(const kernel *k, const state *st, const sequence *s, int64_t h, int64_t i) {
  const attune_params_attn_fwd *p = k->p;
  if (!p->lse) return;
  int64_t at = offset_of(k, s->b, p->lse_stride_batch, i, s->first_q, p->lse_stride_seq, h,
                         p->lse_stride_head);
  double lse = st->sum > 0 ? st->max + log(st->sum) : -INFINITY;
  if (k->fault == LSE_LOG2) lse *= 1.4426950408889634;
  if (k->fault == LSE_ROUNDED) lse = (double)attune__round(ATTUNE_DTYPE_BF16, (float)lse);
  if (k->fault == LSE_DENSE) at = (s->b * p->heads_q + h) * p->len_q + i;
  if (k->fault == EMPTY_ROW_INF && !(st->sum > 0)) lse = INFINITY;
  p->lse[at] = (float)lse;
}

static void row(const kernel *k, const sequence *whole, int64_t h, int64_t i) {
  const attune_params_attn_fwd *p = k->p;
  sequence s = *whole;
  state st = {.max = -INFINITY};
  float q[MAX_DIM];
  if (k->fault == LAST_KEY_LOST && s.len_k % WRONG_BLOCK_N == 1) s.len_k--;
  load_row(k->v->dtype_q, p->q,
           offset_of(k, s.b, p->q_stride_batch, i, s.first_q, p->q_stride_seq, h, p->q_stride_head),
           k->v->head_dim_qk, q);
  for (int64_t j = 0; j < s.len_k; j += WRONG_BLOCK_N) add_block(k, &st, q, &s, h, i, j);
  int sunk = has(k, ATTUNE_FEATURE_SINK);
  if (k->fault == SINK_NOT_IN_LSE) store_lse(k, &st, &s, h, i);
  if (sunk) add_sink(k, &st, h);
  store_row(k, &st, &s, h, i);
  if (k->fault != SINK_NOT_IN_LSE) store_lse(k, &st, &s, h, i);
}

/* Faults that damage memory as a whole. */
static void spoil(const kernel *k, int launches) {
  const attune_params_attn_standard *p = (const void *)k->p;
  unsigned char *o = p->o;
  if (k->fault == WROTE_INPUT && p->len_k) ((unsigned char *)(uintptr_t)p->k)[0] ^= 1;
  if (k->fault == NONDETERMINISTIC && launches % 2 == 0) o[0] ^= 1;
  if (k->fault == BEYOND_WORKSPACE && p->scores) {
    int64_t rows = (int64_t)p->batch * p->heads_q * p->len_q;
    ((float *)p->scores)[rows * p->scores_pitch] = 0;
  }
}

static attune_status launch(attune__device *device, attune__function *function,
                            const attune__launch_config *config, const void *params,
                            size_t param_bytes, void *stream) {
  wrong_device *w = wrong(device);
  const attune_variant *v = &function->entry.variant;
  kernel k = {.v = v, .p = params, .fault = w->fault};
  (void)config, (void)stream;
  ck_assert_uint_eq(param_bytes, attune__param_bytes(v->op, 0));
  if (k.fault == LAUNCH_FAILS) return attune_fail(ATTUNE_DRIVER, "an illegal address");
  if (v->part != attune__op_parts(v->op) - 1) return ATTUNE_OK; /* the last part does it all */
  for (int64_t b = 0; b < k.p->batch; b++) {
    sequence s = sequence_of(&k, b);
    for (int64_t h = 0; h < k.p->heads_q; h++)
      for (int64_t i = 0; i < s.len_q; i++) row(&k, &s, h, i);
  }
  spoil(&k, w->launches++);
  return ATTUNE_OK;
}

static const attune__device_ops wrong_ops = {.name = "wrong",
                                             .close = close_device,
                                             .load = load_kernel,
                                             .unload = unload_kernel,
                                             .launch = launch,
                                             .alloc = allocate,
                                             .free = release,
                                             .upload = fake_copy,
                                             .download = fake_copy,
                                             .synchronize = fake_synchronize};

wrong_device *wrong_device_make(uint32_t arch, fault what) {
  wrong_device *w = calloc(1, sizeof *w);
  ck_assert_ptr_nonnull(w);
  *w = (wrong_device){.fault = what, .memory = 1 << 26};
  w->base.ops = &wrong_ops;
  w->base.facts = (attune__device_facts){.arch = arch, .sm_count = 4};
  return w;
}
