/* params_tensors.c - the tensors of a call: pointers, alignment and strides, checked and copied.
 *
 * Input: a variant and attune_attn_args. Output: the block's pointers and strides, or the tensor
 * that is wrong. Memory is never looked at: whether lengths on the device are right is the
 * caller's to know. */
#include "params.h"

#include <inttypes.h>

/* One tensor as the checks see it. A stride counts only where its extent is over 1. */
typedef struct operand {
  const char *name;
  const void *data;
  int output, element_bytes, unit_bytes; /* unit: what address and strides are multiples of */
  struct {
    const char *name;
    int64_t stride;
    int32_t extent;
  } axis[3];
} operand;

/* Units are powers of two: a division takes longer than all the rest of a check. */
static int is_multiple(uint64_t bytes, int unit) {
  return (bytes & ((uint64_t)unit - 1)) == 0;
}

static attune_status check_stride(const operand *t, int axis) {
  int64_t stride = t->axis[axis].stride;
  if (t->axis[axis].extent <= 1) return ATTUNE_OK;
  if (t->output && stride == 0)
    return attune_fail(ATTUNE_INVALID, "%s.%s is 0: the rows of an output must not overlap",
                       t->name, t->axis[axis].name);
  if (is_multiple((uint64_t)stride * (uint64_t)t->element_bytes, t->unit_bytes)) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID,
                     "%s.%s is %" PRId64
                     " elements of %d bytes, not a multiple of %d bytes: pad the "
                     "rows, or ask for align elem",
                     t->name, t->axis[axis].name, stride, t->element_bytes, t->unit_bytes);
}

static attune_status check_operand(const operand *t) {
  if (!t->data)
    return attune_fail(ATTUNE_INVALID, "%s.data is NULL, must be a device pointer", t->name);
  if (!is_multiple((uintptr_t)t->data, t->unit_bytes))
    return attune_fail(ATTUNE_INVALID, "%s.data is %p, not a multiple of %d bytes%s", t->name,
                       t->data, t->unit_bytes,
                       t->unit_bytes > t->element_bytes ? ": align it, or ask for align elem" : "");
  for (int axis = 0; axis < 3; axis++) {
    attune_status status = check_stride(t, axis);
    if (status) return status;
  }
  return ATTUNE_OK;
}

static attune_status check_tensor(const char *name, const attune_tensor *tensor, int align,
                                  int dtype, int output, const int32_t extent[3]) {
  int bytes = attune__dtype_bytes(dtype);
  operand t = {.name = name,
               .data = tensor->data,
               .output = output,
               .element_bytes = bytes,
               .unit_bytes = align == ATTUNE_ALIGN_16B ? 16 : bytes,
               .axis = {{"stride_batch", tensor->stride_batch, extent[0]},
                        {"stride_seq", tensor->stride_seq, extent[1]},
                        {"stride_head", tensor->stride_head, extent[2]}}};
  return check_operand(&t);
}

static attune_status check_lse(const attune_attn_args *args, const int32_t extent[3]) {
  if (!args->lse) return ATTUNE_OK;
  operand t = {.name = "lse",
               .data = args->lse,
               .output = 1,
               .element_bytes = sizeof(float),
               .unit_bytes = sizeof(float),
               .axis = {{"stride_batch", args->lse_stride_batch, extent[0]},
                        {"stride_seq", args->lse_stride_seq, extent[1]},
                        {"stride_head", args->lse_stride_head, extent[2]}}};
  return check_operand(&t);
}

/* Packed sequences are as one: stride_batch is of no axis. */
static attune_status check_operands(const attune_variant *v, const attune_attn_args *args) {
  int packed = attune__has(v, ATTUNE_FEATURE_VARLEN), batch = packed ? 1 : args->batch;
  const int32_t rows[3] = {batch, packed ? args->total_q : args->len_q, args->heads_q};
  const int32_t keys[3] = {batch, packed ? args->total_k : args->len_k, args->heads_kv};
  attune_status status = check_tensor("q", &args->q, v->align, v->dtype_q, 0, rows);
  if (!status && keys[1] > 0) status = check_tensor("k", &args->k, v->align, v->dtype_kv, 0, keys);
  if (!status && keys[1] > 0) status = check_tensor("v", &args->v, v->align, v->dtype_kv, 0, keys);
  if (!status) status = check_tensor("o", &args->o, v->align, v->dtype_out, 1, rows);
  if (!status) status = check_lse(args, rows);
  return status;
}

/* ---- pointers to what is element aligned ------------------------------------------------------
 */

static attune_status check_pointer(const attune_variant *v, const char *name, const void *pointer,
                                   int bytes, uint32_t feature, int needed) {
  if (!pointer && needed && attune__has(v, feature))
    return attune_fail(ATTUNE_INVALID, "%s is NULL, must be a device pointer: the kernel is for %s",
                       name, attune__feature_name(__builtin_ctz(feature)));
  if (is_multiple((uintptr_t)pointer, bytes)) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "%s is %p, not a multiple of %d bytes", name, pointer, bytes);
}

/* Without keys there are no pairs, so that what belongs to a pair may be missing. */
static attune_status check_pointers(const attune_variant *v, const attune_attn_args *a) {
  int pairs = (attune__has(v, ATTUNE_FEATURE_VARLEN) ? a->total_k : a->len_k) > 0;
  const struct {
    const char *name;
    const void *pointer;
    int bytes;
    uint32_t feature; /* 0: always optional */
    int needed;
  } row[] = {{"seqused_q", a->seqused_q, 4, 0, 0},
             {"seqused_k", a->seqused_k, 4, 0, 0},
             {"cu_seqlens_q", a->cu_seqlens_q, 4, ATTUNE_FEATURE_VARLEN, 1},
             {"cu_seqlens_k", a->cu_seqlens_k, 4, ATTUNE_FEATURE_VARLEN, 1},
             {"alibi_slopes", a->alibi_slopes, 4, ATTUNE_FEATURE_ALIBI, 1},
             {"bias", a->bias, attune__dtype_bytes(v->dtype_q), ATTUNE_FEATURE_BIAS, pairs},
             {"sinks", a->sinks, 4, ATTUNE_FEATURE_SINK, 1},
             {"bitmask", a->bitmask, 4, ATTUNE_FEATURE_BITMASK, pairs}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    attune_status status =
        check_pointer(v, row[i].name, row[i].pointer, row[i].bytes, row[i].feature, row[i].needed);
    if (status) return status;
  }
  return ATTUNE_OK;
}

attune_status attune__check_tensors(const attune_variant *variant, const attune_attn_args *args) {
  attune_status status = check_operands(variant, args);
  return status ? status : check_pointers(variant, args);
}

/* ---- filling -----------------------------------------------------------------------------------
 */

static void fill_operands(const attune_attn_args *args, attune_params_attn_standard *out) {
#define TENSOR(t)                                                                                  \
  out->t = args->t.data;                                                                           \
  out->t##_stride_batch = args->t.stride_batch;                                                    \
  out->t##_stride_seq = args->t.stride_seq;                                                        \
  out->t##_stride_head = args->t.stride_head;
  TENSOR(q)
  TENSOR(k)
  TENSOR(v)
  TENSOR(o)
#undef TENSOR
  out->lse = args->lse;
  out->lse_stride_batch = args->lse_stride_batch;
  out->lse_stride_head = args->lse_stride_head;
  out->lse_stride_seq = args->lse_stride_seq;
  out->seqused_q = args->seqused_q;
  out->seqused_k = args->seqused_k;
}

static void fill_packing(const attune_attn_args *args, attune_params_attn_standard *out) {
  out->cu_seqlens_q = args->cu_seqlens_q;
  out->cu_seqlens_k = args->cu_seqlens_k;
  out->q_stride_batch = out->k_stride_batch = out->v_stride_batch = 0;
  out->o_stride_batch = out->lse_stride_batch = 0;
}

static void fill_bias(const attune_attn_args *args, attune_params_attn_standard *out) {
  out->bias = args->bias;
  out->bias_stride_batch = args->bias_stride_batch;
  out->bias_stride_head = args->bias_stride_head;
  out->bias_stride_q = args->bias_stride_q;
  out->bias_stride_k = args->bias_stride_k;
}

static void fill_bitmask(const attune_attn_args *args, attune_params_attn_standard *out) {
  out->bitmask = args->bitmask;
  out->bitmask_stride_batch = args->bitmask_stride_batch;
  out->bitmask_stride_head = args->bitmask_stride_head;
  out->bitmask_stride_q = args->bitmask_stride_q;
  if (!args->bitmask_classes) return;
  out->bitmask_classes = args->bitmask_classes;
  out->bitmask_classes_stride_batch = args->bitmask_classes_stride_batch;
  out->bitmask_classes_stride_head = args->bitmask_classes_stride_head;
  out->bitmask_classes_stride_q = args->bitmask_classes_stride_q;
}

void attune__fill_tensors(const attune_variant *v, const attune_attn_args *args,
                          attune_params_attn_standard *out) {
  fill_operands(args, out);
  if (attune__has(v, ATTUNE_FEATURE_VARLEN)) fill_packing(args, out);
  if (attune__has(v, ATTUNE_FEATURE_BIAS)) fill_bias(args, out);
  if (attune__has(v, ATTUNE_FEATURE_BITMASK)) fill_bitmask(args, out);
  if (attune__has(v, ATTUNE_FEATURE_SINK)) out->sinks = args->sinks;
  if (!attune__has(v, ATTUNE_FEATURE_ALIBI)) return;
  out->alibi_slopes = args->alibi_slopes;
  out->alibi_stride_batch = args->alibi_stride_batch;
}
