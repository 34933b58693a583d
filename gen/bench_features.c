/* bench_features.c - the tensors and scalars of a variant's features, for timing.
 *
 * Input: a variant, its pins, a shape. Output: device memory, and the arguments that point to it.
 * One set serves all calls: of these tensors only the bias is large. Values are plain, since none
 * of them changes what a kernel does; verify has the nasty ones. */
#include "bench_features.h"

#include "probe.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 4 };
static const float default_softcap = 50; /* Gemma 2's */

/* Copies host memory to a new device tensor, and frees it. */
static attune_status put(attune__bench_features *f, void *host, size_t bytes, void **out) {
  if (!host) return attune_fail(ATTUNE_NO_MEMORY, "no host memory for %zu bytes of inputs", bytes);
  attune_status status = f->device->ops->alloc(f->device, bytes, out);
  if (!status) status = f->device->ops->upload(f->device, *out, host, bytes);
  free(host);
  return status;
}

/* Row numbers at which sequences begin: queries, then keys. */
static attune_status make_lengths(attune__bench_features *f) {
  const attune_shape *s = &f->shape;
  size_t count = (size_t)s->batch + 1;
  int32_t *rows = malloc(2 * count * sizeof *rows);
  for (size_t i = 0; rows && i < count; i++) {
    rows[i] = (int32_t)((int64_t)i * s->len_q);
    rows[count + i] = (int32_t)((int64_t)i * s->len_k);
  }
  return put(f, rows, 2 * count * sizeof *rows, &f->lengths);
}

static attune_status make_slopes(attune__bench_features *f) {
  size_t count = (size_t)f->shape.heads_q;
  float *slopes = malloc(count * sizeof *slopes);
  for (size_t h = 0; slopes && h < count; h++)
    slopes[h] = exp2f(-8.0f * (float)(h + 1) / (float)count);
  return put(f, slopes, count * sizeof *slopes, &f->slopes);
}

static attune_status make_bias(attune__bench_features *f) {
  const attune_shape *s = &f->shape;
  int dtype = f->variant.dtype_q;
  size_t count = (size_t)s->heads_q * (size_t)s->len_q * (size_t)s->len_k;
  size_t bytes = count * (size_t)attune__dtype_bytes(dtype);
  float *numbers = malloc(count * sizeof *numbers);
  void *elements = malloc(bytes);
  if (numbers && elements) {
    attune__probe_normal(SEED, dtype, numbers, count);
    attune__to_dtype(dtype, numbers, elements, count);
  } else {
    free(elements);
    elements = NULL;
  }
  free(numbers);
  return put(f, elements, bytes, &f->bias);
}

static attune_status make_sinks(attune__bench_features *f) {
  size_t count = (size_t)f->shape.heads_q;
  return put(f, calloc(count, sizeof(float)), count * sizeof(float), &f->sinks);
}

static int64_t words(const attune_shape *s) {
  return (s->len_k + 31) / 32;
}

static attune_status make_bits(attune__bench_features *f) {
  size_t bytes = (size_t)f->shape.len_q * (size_t)words(&f->shape) * sizeof(uint32_t);
  void *bits = malloc(bytes);
  if (bits) memset(bits, 0xff, bytes);
  return put(f, bits, bytes, &f->bits);
}

static void set_pins(attune__bench_features *f, const attune_pinset *pins) {
  for (uint32_t i = 0; pins && i < pins->count; i++) {
    float value = (float)pins->pin[i].value;
    if (!strcmp(pins->pin[i].name, "softcap")) f->softcap = value;
    if (!strcmp(pins->pin[i].name, "scale")) f->scale = value, f->scaled = 1;
  }
}

attune_status attune__bench_features_make(attune__device *device, const attune_variant *variant,
                                          const attune_pinset *pins, const attune_shape *shape,
                                          attune__bench_features *out) {
  static const struct {
    attune_feature feature;
    attune_status (*make)(attune__bench_features *);
  } tensors[] = {{ATTUNE_FEATURE_VARLEN, make_lengths},
                 {ATTUNE_FEATURE_ALIBI, make_slopes},
                 {ATTUNE_FEATURE_BIAS, make_bias},
                 {ATTUNE_FEATURE_SINK, make_sinks},
                 {ATTUNE_FEATURE_BITMASK, make_bits}};
  attune_status status = ATTUNE_OK;
  *out = (attune__bench_features){.device = device, .variant = *variant, .shape = *shape};
  if (variant->features & ATTUNE_FEATURE_SOFTCAP) out->softcap = default_softcap;
  set_pins(out, pins);
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors && !status; i++)
    if (variant->features & (uint32_t)tensors[i].feature) status = tensors[i].make(out);
  return status;
}

void attune__bench_features_free(attune__bench_features *f) {
  void *all[] = {f->lengths, f->slopes, f->bias, f->sinks, f->bits};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]) f->device->ops->free(f->device, all[i]);
  *f = (attune__bench_features){.device = NULL};
}

static void set_varlen(const attune__bench_features *f, attune_attn_args *args) {
  const attune_shape *s = &f->shape;
  const int32_t *rows = f->lengths;
  args->cu_seqlens_q = rows, args->cu_seqlens_k = rows + s->batch + 1;
  args->total_q = (int32_t)(s->batch * s->len_q), args->total_k = (int32_t)(s->batch * s->len_k);
  args->lse_stride_batch = 0, args->lse_stride_head = args->total_q;
}

void attune__bench_features_args(const attune__bench_features *f, attune_attn_args *args) {
  const attune_shape *s = &f->shape;
  if (f->lengths) set_varlen(f, args);
  args->scale = f->scale, args->flags = f->scaled ? 0 : ATTUNE_DEFAULT_SCALE;
  args->softcap = f->softcap;
  args->alibi_slopes = f->slopes, args->sinks = f->sinks;
  args->bias = f->bias;
  args->bias_stride_head = s->len_q * s->len_k, args->bias_stride_q = s->len_k;
  args->bias_stride_k = 1;
  args->bitmask = f->bits, args->bitmask_stride_q = words(s);
}
