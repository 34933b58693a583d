/* probe.c - runs one program on the CPU device and sets what it counted against the formulas.
 *
 * Input: entries, a shape, host data. Output: O, LSE, and a tally per part. The device does the
 * executing, checking and counting; the models have the formulas. */
#include "probe.h"

#include "../runtime/context.h"
#include "reference.h"
#include "verify.h"

#include <stdlib.h>
#include <string.h>

struct attune__probe {
  attune_context *context;
  attune_program *program;
  attune_variant variant; /* part 0 */
  attune_entry entry[ATTUNE_MAX_PARTS];
  int count;
  attune_shape shape; /* of the last run */
  int with_lse;
};

/* ---- opening ------------------------------------------------------------------------------- */

static attune_status read_entries(attune__probe *p, const void *const *entries,
                                  const size_t *entry_bytes) {
  for (int i = 0; i < p->count; i++) {
    attune_status status = attune__entry_read(entries[i], entry_bytes[i], &p->entry[i]);
    if (status != ATTUNE_OK) return status;
    memset(p->entry[i].payload, 0, sizeof p->entry[i].payload);
  }
  p->variant = p->entry[0].variant;
  p->variant.part = 0;
  return ATTUNE_OK;
}

static attune_status open_context(attune__probe *p, const attune_cpu_options *options) {
  attune_cpu_options own = options ? *options : attune_cpu_options_init();
  char arch[ATTUNE_ARCH_MAX];
  attune__arch_print(p->variant.arch, 1, arch);
  own.arch = arch;
  return attune_cpu_open(&own, &p->context);
}

attune_status attune__probe_open(const attune_cpu_options *options, const void *const *entries,
                                 const size_t *entry_bytes, int count, attune__probe **out) {
  *out = NULL;
  if (count < 1 || count > ATTUNE_MAX_PARTS)
    return attune_fail(ATTUNE_INVALID, "%d entries: a program has 1 to %d", count,
                       ATTUNE_MAX_PARTS);
  attune__probe *p = calloc(1, sizeof *p);
  if (!p) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a probe");
  p->count = count;
  attune_status status = read_entries(p, entries, entry_bytes);
  if (status == ATTUNE_OK) status = open_context(p, options);
  if (status == ATTUNE_OK)
    status = attune__verify_open(p->context, &p->variant, &p->entry[0].pins, entries, entry_bytes,
                                 count, &p->program);
  if (status == ATTUNE_OK)
    *out = p;
  else
    attune__probe_close(p);
  return status;
}

attune_status attune__probe_open_kernels(attune_store *store, const attune_cpu_options *options,
                                         const attune_kernel *kernels, int count,
                                         attune__probe **out) {
  void *bytes[ATTUNE_MAX_PARTS] = {NULL};
  size_t size[ATTUNE_MAX_PARTS] = {0};
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < count && i < ATTUNE_MAX_PARTS && status == ATTUNE_OK; i++)
    status = attune__store_get(store, &kernels[i], 1, &bytes[i], &size[i], NULL);
  if (status == ATTUNE_OK)
    status = attune__probe_open(options, (const void *const *)bytes, size, count, out);
  for (int i = 0; i < ATTUNE_MAX_PARTS; i++) free(bytes[i]);
  return status;
}

void attune__probe_close(attune__probe *p) {
  if (!p) return;
  if (p->context) attune_close(p->context);
  free(p);
}

const attune_entry *attune__probe_entry(const attune__probe *p, int part) {
  return &p->entry[part];
}

int attune__probe_parts(const attune__probe *p) {
  return p->count;
}

/* ---- data ---------------------------------------------------------------------------------- */

attune__probe_sizes attune__probe_sizes_of(const attune_variant *v, const attune_shape *s) {
  size_t rows = (size_t)(s->batch * s->heads_q * s->len_q);
  size_t keys = (size_t)(s->batch * s->heads_kv * s->len_k);
  return (attune__probe_sizes){.q = rows * v->head_dim_qk,
                               .k = keys * v->head_dim_qk,
                               .v = keys * v->head_dim_v,
                               .o = rows * v->head_dim_v,
                               .lse = rows};
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* Sum of four uniforms of variance 1/12 each, scaled to variance 1: exact in float, so that no
 * libm has a say in it. */
void attune__probe_normal(uint64_t seed, int dtype, float *out, size_t count) {
  const float root3 = 1.7320508f;
  uint64_t state = seed;
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = next_random(&state);
    int32_t sum = 0;
    for (int part = 0; part < 4; part++) sum += (int32_t)(bits >> (16 * part) & 0xffff) - 32768;
    out[i] = attune__round(dtype, (float)sum / 65536 * root3);
  }
}

/* ---- a launch ------------------------------------------------------------------------------ */

/* The device's memory of one run. */
typedef struct buffers {
  void *q, *k, *v, *o, *lse, *workspace;
  void *bias, *bits, *quarters, *cu_seqlens_q, *cu_seqlens_k; /* NULL where no feature asks */
  size_t workspace_bytes;
} buffers;

static void free_buffers(const attune__probe *p, const buffers *b) {
  void *all[] = {b->q,           b->k,    b->v,    b->o,        b->lse,
                 b->workspace,   b->bias, b->bits, b->quarters, b->cu_seqlens_q,
                 b->cu_seqlens_k};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) attune_free(p->context, all[i]);
}

static attune_status upload(const attune__probe *p, int dtype, const float *from, size_t count,
                            void **out) {
  size_t bytes = count * (size_t)attune__dtype_bytes(dtype);
  void *elements = malloc(bytes + 1);
  if (!elements) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a tensor of %zu bytes", bytes);
  attune__to_dtype(dtype, from, elements, count);
  attune_status status = attune_alloc(p->context, bytes, out);
  if (status == ATTUNE_OK) status = attune_upload(p->context, *out, elements, bytes);
  free(elements);
  return status;
}

static attune_status fill_buffers(const attune__probe *p, const attune__probe_sizes *sizes,
                                  const attune__probe_data *data, buffers *b) {
  const attune_variant *v = &p->variant;
  const attune_shape *s = &p->shape;
  attune_status status =
      attune_workspace(p->program, (int32_t)s->batch, (int32_t)s->heads_q, (int32_t)s->len_q,
                       (int32_t)s->len_k, &b->workspace_bytes);
  if (status == ATTUNE_OK) status = upload(p, v->dtype_q, data->q, sizes->q, &b->q);
  if (status == ATTUNE_OK) status = upload(p, v->dtype_kv, data->k, sizes->k, &b->k);
  if (status == ATTUNE_OK) status = upload(p, v->dtype_kv, data->v, sizes->v, &b->v);
  if (status == ATTUNE_OK)
    status = attune_alloc(p->context, sizes->o * (size_t)attune__dtype_bytes(v->dtype_out), &b->o);
  if (status == ATTUNE_OK && data->lse)
    status = attune_alloc(p->context, sizes->lse * sizeof(float), &b->lse);
  if (status == ATTUNE_OK && b->workspace_bytes)
    status = attune_alloc(p->context, b->workspace_bytes, &b->workspace);
  return status;
}

static attune_status upload_bytes(const attune__probe *p, const void *from, size_t bytes,
                                  void **out) {
  attune_status status = attune_alloc(p->context, bytes, out);
  return status == ATTUNE_OK ? attune_upload(p->context, *out, from, bytes) : status;
}

static attune_status fill_bias(const attune__probe *p, buffers *b) {
  const attune_shape *s = &p->shape;
  size_t count = (size_t)(s->batch * s->heads_q * s->len_q * s->len_k);
  float *numbers = malloc((count + 1) * sizeof *numbers);
  if (!numbers) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a bias of %zu numbers", count);
  attune__probe_normal(11, p->variant.dtype_q, numbers, count);
  attune_status status = upload(p, p->variant.dtype_q, numbers, count, &b->bias);
  free(numbers);
  return status;
}

static int64_t words_of(const attune_shape *s) {
  return (s->len_k + 31) / 32;
}

static attune_status fill_bits(const attune__probe *p, buffers *b) {
  const attune_shape *s = &p->shape;
  size_t bytes = (size_t)(s->batch * s->heads_q * s->len_q * words_of(s)) * sizeof(uint32_t);
  void *ones = malloc(bytes + 1);
  if (!ones) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a bit mask of %zu bytes", bytes);
  memset(ones, 0xff, bytes);
  attune_status status = upload_bytes(p, ones, bytes, &b->bits);
  free(ones);
  return status;
}

static attune_status fill_quarters(const attune__probe *p, buffers *b) {
  size_t count = (size_t)(p->shape.batch * p->shape.heads_q);
  float *quarters = malloc((count + 1) * sizeof *quarters);
  if (!quarters) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %zu slopes", count);
  for (size_t i = 0; i < count; i++) quarters[i] = 0.25f;
  attune_status status = upload_bytes(p, quarters, count * sizeof *quarters, &b->quarters);
  free(quarters);
  return status;
}

static attune_status fill_cu_seqlens(const attune__probe *p, int64_t length, void **out) {
  size_t count = (size_t)p->shape.batch + 1;
  int32_t *starts = malloc(count * sizeof *starts);
  if (!starts) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %zu sequences", count);
  for (size_t i = 0; i < count; i++) starts[i] = (int32_t)((int64_t)i * length);
  attune_status status = upload_bytes(p, starts, count * sizeof *starts, out);
  free(starts);
  return status;
}

static attune_status fill_features(const attune__probe *p, buffers *b) {
  const uint32_t f = p->variant.features;
  attune_status status = ATTUNE_OK;
  if (f & ATTUNE_FEATURE_BIAS) status = fill_bias(p, b);
  if (status == ATTUNE_OK && f & ATTUNE_FEATURE_BITMASK) status = fill_bits(p, b);
  if (status == ATTUNE_OK && f & (ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_SINK))
    status = fill_quarters(p, b);
  if (!(f & ATTUNE_FEATURE_VARLEN)) return status;
  if (status == ATTUNE_OK) status = fill_cu_seqlens(p, p->shape.len_q, &b->cu_seqlens_q);
  if (status == ATTUNE_OK) status = fill_cu_seqlens(p, p->shape.len_k, &b->cu_seqlens_k);
  return status;
}

static void add_varlen(const attune_shape *s, const buffers *b, attune_attn_args *args) {
  int64_t total_q = s->batch * s->len_q, total_k = s->batch * s->len_k;
  args->cu_seqlens_q = b->cu_seqlens_q, args->cu_seqlens_k = b->cu_seqlens_k;
  args->total_q = (int32_t)total_q, args->total_k = (int32_t)total_k;
  args->q.stride_head = total_q * args->q.stride_seq;
  args->k.stride_head = total_k * args->k.stride_seq;
  args->v.stride_head = total_k * args->v.stride_seq;
  args->o.stride_head = total_q * args->o.stride_seq;
  args->lse_stride_head = total_q;
}

static void add_features(const attune__probe *p, const buffers *b, attune_attn_args *args) {
  const attune_shape *s = &p->shape;
  const uint32_t f = p->variant.features;
  if (f & ATTUNE_FEATURE_SOFTCAP) args->softcap = 30;
  if (f & ATTUNE_FEATURE_ALIBI)
    args->alibi_slopes = b->quarters, args->alibi_stride_batch = s->heads_q;
  if (f & ATTUNE_FEATURE_SINK) args->sinks = b->quarters;
  args->bias = b->bias, args->bias_stride_k = 1, args->bias_stride_q = s->len_k;
  args->bias_stride_head = s->len_q * s->len_k;
  args->bias_stride_batch = s->heads_q * args->bias_stride_head;
  args->bitmask = b->bits, args->bitmask_stride_q = words_of(s);
  args->bitmask_stride_head = s->len_q * words_of(s);
  args->bitmask_stride_batch = s->heads_q * args->bitmask_stride_head;
  if (f & ATTUNE_FEATURE_VARLEN) add_varlen(s, b, args);
}

static attune_attn_args args_of(const attune__probe *p, const buffers *b, float scale) {
  const attune_shape *s = &p->shape;
  const attune_variant *v = &p->variant;
  attune_attn_args args = attune_attn_args_init();
  args.q = attune_bhsd(b->q, s->len_q, s->heads_q, v->head_dim_qk);
  args.k = attune_bhsd(b->k, s->len_k, s->heads_kv, v->head_dim_qk);
  args.v = attune_bhsd(b->v, s->len_k, s->heads_kv, v->head_dim_v);
  args.o = attune_bhsd(b->o, s->len_q, s->heads_q, v->head_dim_v);
  args.lse = b->lse;
  args.lse_stride_batch = s->heads_q * s->len_q;
  args.lse_stride_head = s->len_q, args.lse_stride_seq = 1;
  args.batch = (int32_t)s->batch;
  args.heads_q = (int32_t)s->heads_q, args.heads_kv = (int32_t)s->heads_kv;
  args.len_q = (int32_t)s->len_q, args.len_k = (int32_t)s->len_k;
  args.scale = scale;
  args.corner = s->corner;
  args.window_left = (int32_t)s->window_left, args.window_right = (int32_t)s->window_right;
  args.workspace = b->workspace, args.workspace_bytes = b->workspace_bytes;
  add_features(p, b, &args);
  return args;
}

static attune_status download_o(const attune__probe *p, const buffers *b, size_t count,
                                float *out) {
  int dtype = p->variant.dtype_out;
  size_t bytes = count * (size_t)attune__dtype_bytes(dtype);
  void *elements = malloc(bytes + 1);
  if (!elements) return attune_fail(ATTUNE_NO_MEMORY, "no memory for O of %zu bytes", bytes);
  attune_status status = attune_download(p->context, elements, b->o, bytes);
  if (status == ATTUNE_OK) attune__from_dtype(dtype, elements, out, count);
  free(elements);
  return status;
}

attune_status attune__probe_run(attune__probe *p, const attune_shape *shape,
                                const attune__probe_data *data) {
  attune__probe_sizes sizes = attune__probe_sizes_of(&p->variant, shape);
  buffers b = {.q = NULL};
  p->shape = *shape, p->with_lse = data->lse != NULL;
  attune_status status = fill_buffers(p, &sizes, data, &b);
  if (status == ATTUNE_OK) status = fill_features(p, &b);
  if (status == ATTUNE_OK) {
    attune_attn_args args = args_of(p, &b, data->scale);
    status = attune_launch(p->program, &args, NULL);
  }
  if (status == ATTUNE_OK && data->o) status = download_o(p, &b, sizes.o, data->o);
  if (status == ATTUNE_OK && data->lse)
    status = attune_download(p->context, data->lse, b.lse, sizes.lse * sizeof(float));
  free_buffers(p, &b);
  return status;
}

/* ---- tallies ------------------------------------------------------------------------------- */

/* The device's name for a tensor of the formulas: S and P are one workspace. */
static const char *counter_name(const char *tensor) {
  static const char *const names[][2] = {{"Q", "q"},
                                         {"K", "k"},
                                         {"V", "v"},
                                         {"O", "o"},
                                         {"LSE", "lse"},
                                         {"S", "scores"},
                                         {"P", "scores"},
                                         {"BIAS", "bias"},
                                         {"BITS", "bitmask"},
                                         {"SLOPES", "alibi_slopes"},
                                         {"SINKS", "sinks"},
                                         {"CU_Q", "cu_seqlens_q"},
                                         {"CU_K", "cu_seqlens_k"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(tensor, names[i][0])) return names[i][1];
  return tensor;
}

static attune__tally_row *row_of(attune__tally *tally, const char *tensor) {
  for (int i = 0; i < tally->count; i++)
    if (!strcmp(tally->row[i].tensor, tensor)) return &tally->row[i];
  attune__tally_row *row = &tally->row[tally->count++];
  *row = (attune__tally_row){.tensor = tensor};
  return row;
}

void attune__tally_formulas(const attune_variant *variant, const attune_tile *tile,
                            const attune_shape *shape, int with_lse, attune__tally *out) {
  attune_traffic traffic = {.count = 0};
  const attune_model *model = attune__model(variant->op, variant->part, tile->family);
  *out = (attune__tally){.count = 0};
  if (model) model->traffic(variant, tile, shape, &traffic);
  for (int i = 0; i < traffic.count; i++) {
    const attune_traffic_row *from = &traffic.row[i];
    if (!with_lse && !strcmp(from->tensor, "LSE")) continue;
    attune__tally_row *row = row_of(out, counter_name(from->tensor));
    row->formula[ATTUNE__REQUESTED_READ] += (uint64_t)from->requested_read;
    row->formula[ATTUNE__REQUESTED_WRITE] += (uint64_t)from->requested_write;
    row->formula[ATTUNE__COMPULSORY_READ] += (uint64_t)from->compulsory_read;
    row->formula[ATTUNE__COMPULSORY_WRITE] += (uint64_t)from->compulsory_write;
  }
}

static void add_counts(attune__tally *tally, const attune_cpu_counters *counters) {
  for (int i = 0; i < counters->tensors; i++) {
    const attune_cpu_tensor *from = &counters->tensor[i];
    const uint64_t counts[] = {from->requested_read, from->requested_write, from->compulsory_read,
                               from->compulsory_write};
    if (!counts[0] && !counts[1] && !counts[2] && !counts[3]) continue;
    attune__tally_row *row = row_of(tally, from->name);
    for (int kind = 0; kind < ATTUNE__TALLY_COUNTS; kind++) row->counted[kind] += counts[kind];
  }
}

static uint64_t distance(uint64_t a, uint64_t b) {
  return a > b ? a - b : b - a;
}

attune_status attune__probe_tally(attune__probe *p, int part, attune__tally *out) {
  const attune_entry *entry = &p->entry[part];
  attune_cpu_counters counters = attune_cpu_counters_init();
  attune_status status = attune_cpu_count(p->context, part, &counters);
  if (status != ATTUNE_OK) return status;
  attune__tally_formulas(&entry->variant, &entry->tile, &p->shape, p->with_lse, out);
  out->counters = counters;
  add_counts(out, &counters);
  for (int i = 0; i < out->count; i++)
    for (int kind = 0; kind < ATTUNE__TALLY_COUNTS; kind++)
      out->difference += distance(out->row[i].formula[kind], out->row[i].counted[kind]);
  return ATTUNE_OK;
}
