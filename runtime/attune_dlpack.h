/* attune_dlpack.h - from DLPack tensors to a problem and its arguments.
 *
 * Input: DLTensors, as PyTorch, JAX, CuPy, TVM and others hand out. Output: the parts of an
 * attune_problem and an attune_attn_args that follow from them: pointers, strides, extents, dtypes,
 * alignment and features. Header only, over libattune; nothing is copied, owned or freed: the
 * tensors must live until the launch is done. Masks, scales and the launch are left to the caller.
 *
 *   attune_problem problem = attune_problem_init();
 *   attune_attn_args args = attune_attn_args_init();
 *   attune_dlpack call = {0};
 *   call.layout = ATTUNE_DLPACK_BSHD, call.device = q->device;
 *   call.q = q, call.k = k, call.v = v, call.o = o;
 *   problem.op = ATTUNE_OP_ATTN_FWD, problem.mask = ATTUNE_MASK_CAUSAL;
 *   args.flags = ATTUNE_DEFAULT_SCALE;
 *   if (attune_dlpack_call(&call, &problem, &args) ||
 *       attune_launch_problem(context, &problem, &args, stream)) puts(attune_error());
 *
 * DLPack's own header is taken where it was included before or the compiler finds it; else the four
 * structs of its ABI (1.0) are declared here. Versioned or not, a managed tensor's dl_tensor is
 * what to hand in. Any thread. */
#ifndef ATTUNE_DLPACK_H
#define ATTUNE_DLPACK_H

#include "attune.h"

#if !defined(DLPACK_DLPACK_H_) && defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 } DLDeviceType;
typedef struct DLDevice {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4 } DLDataTypeCode;
typedef struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;
typedef struct DLTensor {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: dense, last dimension fastest */
  uint64_t byte_offset;
} DLTensor;
#endif

/* How the dimensions of q, k, v and o are ordered. */
typedef enum attune_dlpack_layout {
  ATTUNE_DLPACK_BSHD = 1, /* [batch, seq, head, dim] */
  ATTUNE_DLPACK_BHSD = 2, /* [batch, head, seq, dim] */
  ATTUNE_DLPACK_THD = 3   /* [total, head, dim]: packed sequences, with cu_seqlens */
} attune_dlpack_layout;

/* The tensors of one call; zero it first. NULL: not there. A feature's tensor sets the feature's
 * bit. Compiled into the caller, so it may grow. */
typedef struct attune_dlpack {
  attune_dlpack_layout layout;   /* required */
  DLDevice device;               /* where all are: {kDLCUDA, options.device}, with the CPU device
                                    {kDLCPU, 0}. Pinned and managed memory will do for kDLCUDA */
  const DLTensor *q, *k, *v, *o; /* required; fp32, fp16 or bf16, dense in the last dimension */
  const DLTensor *lse;          /* fp32 [batch, heads_q, len_q], packed [heads_q, total_q]; dense in
                                   the last dimension */
  const DLTensor *seqused_q;    /* int32 [batch] */
  const DLTensor *seqused_k;    /* int32 [batch] */
  const DLTensor *cu_seqlens_q; /* int32 [batch + 1]: required by and only for THD */
  const DLTensor *cu_seqlens_k; /* the same */
  const DLTensor *alibi_slopes; /* fp32 [heads_q] or [batch, heads_q] */
  const DLTensor *bias;         /* dtype of q; [batch, heads_q, len_q, len_k]: leading dimensions
                                   may be missing, any extent may be 1 */
  const DLTensor *sinks;        /* fp32 [heads_q] */
  const DLTensor *bitmask;      /* uint32 or int32 [batch, heads_q, len_q, ceil(len_k / 32)], as
                                   bias in what may be missing or 1 but the words */
  const DLTensor *bitmask_classes; /* uint8 [batch, heads_q, ceil(len_q / 64), ceil(len_k / 64)] */
} attune_dlpack;

/* ---- one tensor ------------------------------------------------------------------------------ */

static inline void *attune__dl_data(const DLTensor *t) {
  return t->data ? (char *)t->data + t->byte_offset : NULL;
}

/* Elements from one index of the axis to the next. */
static inline int64_t attune__dl_stride(const DLTensor *t, int axis) {
  int64_t stride = 1;
  if (t->strides) return t->strides[axis];
  for (int later = axis + 1; later < t->ndim; later++) stride *= t->shape[later];
  return stride;
}

static inline int attune__dl_reaches(DLDevice wanted, DLDevice found) {
  if (wanted.device_type == kDLCUDA && found.device_type == kDLCUDAHost) return 1;
  if (wanted.device_id != found.device_id) return 0;
  if (wanted.device_type == kDLCUDA && found.device_type == kDLCUDAManaged) return 1;
  return wanted.device_type == found.device_type;
}

static inline attune_status attune__dl_check(const DLTensor *t, const char *name, DLDevice device) {
  if (!t) return attune_fail(ATTUNE_INVALID, "%s is NULL, must be a DLTensor", name);
  if (!attune__dl_reaches(device, t->device))
    return attune_fail(
        ATTUNE_INVALID,
        "%s is on DLPack device type %d, id %d; the call is for type %d, id %d: copy "
        "it there, or open a context on its device",
        name, (int)t->device.device_type, (int)t->device.device_id, (int)device.device_type,
        (int)device.device_id);
  if (t->dtype.lanes != 1)
    return attune_fail(ATTUNE_INVALID, "%s has elements of %d lanes, must have 1", name,
                       (int)t->dtype.lanes);
  if (t->ndim < 0 || (t->ndim > 0 && !t->shape))
    return attune_fail(ATTUNE_INVALID, "%s has %d dimensions and %s shape", name, (int)t->ndim,
                       t->shape ? "a" : "no");
  for (int axis = 0; axis < t->ndim; axis++)
    if (t->shape[axis] < 0 || t->shape[axis] > INT32_MAX)
      return attune_fail(ATTUNE_INVALID,
                         "%s has extent %lld in dimension %d, must be 0 to 2^31 - 1", name,
                         (long long)t->shape[axis], axis);
  return ATTUNE_OK;
}

static inline int attune__dl_is(const DLTensor *t, int code, int bits) {
  return t->dtype.code == code && t->dtype.bits == bits;
}

/* fp32, fp16 or bf16; 0 for other types. */
static inline attune_dtype attune__dl_dtype(const DLTensor *t) {
  if (attune__dl_is(t, kDLFloat, 32)) return ATTUNE_DTYPE_FP32;
  if (attune__dl_is(t, kDLFloat, 16)) return ATTUNE_DTYPE_FP16;
  if (attune__dl_is(t, kDLBfloat, 16)) return ATTUNE_DTYPE_BF16;
  return (attune_dtype)0;
}

/* Which dimension holds batch, sequence, head and dim; -1: none. */
static inline const int *attune__dl_axes(attune_dlpack_layout layout) {
  static const int axes[3][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {-1, 0, 1, 2}};
  return axes[layout - ATTUNE_DLPACK_BSHD];
}

/* q, k, v or o: checks it and says what it is. extent: batch (1 when packed), sequence, heads, dim.
 * Writes all three outputs, or none and returns ATTUNE_INVALID. */
static inline attune_status attune_dlpack_tensor(const DLTensor *t, const char *name,
                                                 attune_dlpack_layout layout, DLDevice device,
                                                 attune_tensor *out, attune_dtype *dtype,
                                                 int32_t extent[4]) {
  if (layout < ATTUNE_DLPACK_BSHD || layout > ATTUNE_DLPACK_THD)
    return attune_fail(ATTUNE_INVALID, "layout is %d, must be ATTUNE_DLPACK_BSHD, _BHSD or _THD",
                       (int)layout);
  attune_status status = attune__dl_check(t, name, device);
  if (status) return status;
  const int *axes = attune__dl_axes(layout);
  if (t->ndim != axes[3] + 1)
    return attune_fail(ATTUNE_INVALID, "%s has %d dimensions, the layout has %d", name,
                       (int)t->ndim, axes[3] + 1);
  if (!attune__dl_dtype(t))
    return attune_fail(ATTUNE_INVALID,
                       "%s has DLPack type code %d of %d bits, must be float (2) of 32 or 16 bits "
                       "or bfloat (4) of 16",
                       name, (int)t->dtype.code, (int)t->dtype.bits);
  if (t->shape[axes[3]] > 1 && attune__dl_stride(t, axes[3]) != 1)
    return attune_fail(ATTUNE_INVALID, "%s has stride %lld in its last dimension, must be 1", name,
                       (long long)attune__dl_stride(t, axes[3]));
  *dtype = attune__dl_dtype(t);
  out->data = attune__dl_data(t);
  out->stride_batch = axes[0] < 0 ? 0 : attune__dl_stride(t, axes[0]);
  out->stride_seq = attune__dl_stride(t, axes[1]);
  out->stride_head = attune__dl_stride(t, axes[2]);
  for (int axis = 0; axis < 4; axis++)
    extent[axis] = axes[axis] < 0 ? 1 : (int32_t)t->shape[axes[axis]];
  return ATTUNE_OK;
}

/* Whether rows begin at multiples of 16 bytes. A stride counts where there is more than one row. */
static inline int attune__dl_is_16b(const DLTensor *t) {
  int64_t bytes = t->dtype.bits / 8;
  if ((uintptr_t)attune__dl_data(t) % 16 || t->shape[t->ndim - 1] * bytes % 16) return 0;
  for (int axis = 0; axis < t->ndim - 1; axis++)
    if (t->shape[axis] > 1 && attune__dl_stride(t, axis) * bytes % 16) return 0;
  return 1;
}

/* ---- q, k, v, o ------------------------------------------------------------------------------ */

static inline attune_status attune__dl_agree(const char *what, const char *a, int32_t of_a,
                                             const char *b, int32_t of_b) {
  if (of_a == of_b) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "%s of %s is %d and of %s %d, must be the same", what, a,
                     (int)of_a, b, (int)of_b);
}

static inline attune_status attune__dl_shapes(const int32_t q[4], const int32_t k[4],
                                              const int32_t v[4], const int32_t o[4]) {
  attune_status status = attune__dl_agree("batch", "k", k[0], "q", q[0]);
  if (!status) status = attune__dl_agree("batch", "v", v[0], "k", k[0]);
  if (!status) status = attune__dl_agree("batch", "o", o[0], "q", q[0]);
  if (!status) status = attune__dl_agree("sequence length", "v", v[1], "k", k[1]);
  if (!status) status = attune__dl_agree("sequence length", "o", o[1], "q", q[1]);
  if (!status) status = attune__dl_agree("number of heads", "v", v[2], "k", k[2]);
  if (!status) status = attune__dl_agree("number of heads", "o", o[2], "q", q[2]);
  if (!status) status = attune__dl_agree("dim", "k", k[3], "q", q[3]);
  if (!status) status = attune__dl_agree("dim", "o", o[3], "v", v[3]);
  return status;
}

static inline attune_status attune__dl_operands(const attune_dlpack *call, attune_problem *p,
                                                attune_attn_args *a) {
  int32_t q[4] = {0}, k[4] = {0}, v[4] = {0}, o[4] = {0};
  attune_dtype dtype_v = (attune_dtype)0;
  attune_status status =
      attune_dlpack_tensor(call->q, "q", call->layout, call->device, &a->q, &p->dtype_q, q);
  if (!status)
    status = attune_dlpack_tensor(call->k, "k", call->layout, call->device, &a->k, &p->dtype_kv, k);
  if (!status)
    status = attune_dlpack_tensor(call->v, "v", call->layout, call->device, &a->v, &dtype_v, v);
  if (!status)
    status =
        attune_dlpack_tensor(call->o, "o", call->layout, call->device, &a->o, &p->dtype_out, o);
  if (!status) status = attune__dl_shapes(q, k, v, o);
  if (!status && dtype_v != p->dtype_kv)
    status = attune_fail(ATTUNE_INVALID, "k and v have different types, must have the same");
  if (status) return status;
  a->batch = q[0], a->len_q = q[1], a->heads_q = q[2], a->len_k = k[1], a->heads_kv = k[2];
  p->head_dim_qk = q[3], p->head_dim_v = v[3];
  int aligned = attune__dl_is_16b(call->q) && attune__dl_is_16b(call->k) &&
                attune__dl_is_16b(call->v) && attune__dl_is_16b(call->o);
  p->align = aligned ? ATTUNE_ALIGN_16B : ATTUNE_ALIGN_ELEM;
  return ATTUNE_OK;
}

/* ---- the others ------------------------------------------------------------------------------ */

/* A tensor of one type and a shape of which leading dimensions may be missing and, where the bit of
 * `may_be_1` is set (1 << dimension of the full shape), an extent may be 1. stride: of the full
 * shape, 0 where broadcast; NULL: the tensor must be dense. */
static inline attune_status attune__dl_extra(const attune_dlpack *call, const DLTensor *t,
                                             const char *name, int right_type, int ndim,
                                             const int32_t *extent, unsigned may_be_1,
                                             int64_t *stride) {
  attune_status status = attune__dl_check(t, name, call->device);
  if (status) return status;
  if (!right_type)
    return attune_fail(ATTUNE_INVALID,
                       "%s has DLPack type code %d of %d bits, which is not its type", name,
                       (int)t->dtype.code, (int)t->dtype.bits);
  int missing = ndim - t->ndim;
  if (missing < 0 || (missing > 0 && !may_be_1))
    return attune_fail(ATTUNE_INVALID, "%s has %d dimensions, must have %d", name, (int)t->ndim,
                       ndim);
  for (int axis = 0; axis < ndim; axis++) {
    int64_t have = axis < missing ? 1 : t->shape[axis - missing];
    int64_t step = axis < missing ? 0 : attune__dl_stride(t, axis - missing);
    if (have != extent[axis] && !(have == 1 && may_be_1 >> axis & 1))
      return attune_fail(ATTUNE_INVALID, "%s has extent %lld in dimension %d of %d, must be %d",
                         name, (long long)have, axis, ndim, (int)extent[axis]);
    if (axis == ndim - 1 && have > 1 && step != 1 && !(may_be_1 >> axis & 1))
      return attune_fail(ATTUNE_INVALID, "%s has stride %lld in its last dimension, must be 1",
                         name, (long long)step);
    if (stride) stride[axis] = have == 1 && may_be_1 >> axis & 1 ? 0 : step;
  }
  return ATTUNE_OK;
}

static inline attune_status attune__dl_lengths(const attune_dlpack *call, const DLTensor *t,
                                               const char *name, int32_t count,
                                               const int32_t **out) {
  if (!t) return ATTUNE_OK;
  *out = (const int32_t *)attune__dl_data(t);
  return attune__dl_extra(call, t, name, attune__dl_is(t, kDLInt, 32), 1, &count, 0, NULL);
}

/* batch and totals of packed sequences. len_q and len_k become the totals; a caller who knows the
 * longest sequences sets them afterwards, in both structs. */
static inline attune_status attune__dl_packed(const attune_dlpack *call, attune_problem *p,
                                              attune_attn_args *a) {
  const DLTensor *q = call->cu_seqlens_q, *k = call->cu_seqlens_k;
  int packed = call->layout == ATTUNE_DLPACK_THD;
  if (packed != (q != NULL) || packed != (k != NULL))
    return attune_fail(ATTUNE_INVALID,
                       "cu_seqlens_q and cu_seqlens_k are %s, layout THD needs both "
                       "and the others none",
                       q || k ? "given" : "NULL");
  if (!packed) return ATTUNE_OK;
  if (q->ndim != 1 || !q->shape || q->shape[0] < 1 || q->shape[0] > INT32_MAX)
    return attune_fail(ATTUNE_INVALID,
                       "cu_seqlens_q must have one dimension of batch + 1 elements");
  a->batch = (int32_t)q->shape[0] - 1;
  a->total_q = a->len_q, a->total_k = a->len_k;
  p->features |= (uint32_t)ATTUNE_FEATURE_VARLEN;
  attune_status status =
      attune__dl_lengths(call, q, "cu_seqlens_q", a->batch + 1, &a->cu_seqlens_q);
  return status ? status
                : attune__dl_lengths(call, k, "cu_seqlens_k", a->batch + 1, &a->cu_seqlens_k);
}

static inline attune_status attune__dl_lse(const attune_dlpack *call, attune_attn_args *a) {
  const DLTensor *t = call->lse;
  if (!t) return ATTUNE_OK;
  int packed = call->layout == ATTUNE_DLPACK_THD;
  const int32_t extent[3] = {a->batch, a->heads_q, packed ? a->total_q : a->len_q};
  attune_status status = attune__dl_extra(call, t, "lse", attune__dl_is(t, kDLFloat, 32),
                                          packed ? 2 : 3, extent + packed, 0, NULL);
  if (status) return status;
  a->lse = (float *)attune__dl_data(t);
  a->lse_stride_batch = packed ? 0 : attune__dl_stride(t, 0);
  a->lse_stride_head = attune__dl_stride(t, 1 - packed);
  a->lse_stride_seq = attune__dl_stride(t, 2 - packed);
  return ATTUNE_OK;
}

static inline attune_status attune__dl_per_head(const attune_dlpack *call, attune_problem *p,
                                                attune_attn_args *a) {
  const DLTensor *slopes = call->alibi_slopes, *sinks = call->sinks;
  attune_status status = ATTUNE_OK;
  if (slopes) {
    const int32_t extent[2] = {a->batch, a->heads_q};
    int64_t stride[2] = {0, 0};
    status = attune__dl_extra(call, slopes, "alibi_slopes", attune__dl_is(slopes, kDLFloat, 32), 2,
                              extent, 1, stride);
    a->alibi_slopes = (const float *)attune__dl_data(slopes);
    a->alibi_stride_batch = stride[0];
    p->features |= (uint32_t)ATTUNE_FEATURE_ALIBI;
  }
  if (status || !sinks) return status;
  a->sinks = (const float *)attune__dl_data(sinks);
  p->features |= (uint32_t)ATTUNE_FEATURE_SINK;
  return attune__dl_extra(call, sinks, "sinks", attune__dl_is(sinks, kDLFloat, 32), 1, &a->heads_q,
                          0, NULL);
}

static inline attune_status attune__dl_bias(const attune_dlpack *call, attune_problem *p,
                                            attune_attn_args *a) {
  const DLTensor *t = call->bias;
  if (!t) return ATTUNE_OK;
  const int32_t extent[4] = {a->batch, a->heads_q, a->len_q, a->len_k};
  int64_t stride[4] = {0, 0, 0, 0};
  attune_status status =
      attune__dl_extra(call, t, "bias", attune__dl_dtype(t) == p->dtype_q, 4, extent, 0xf, stride);
  a->bias = attune__dl_data(t);
  a->bias_stride_batch = stride[0], a->bias_stride_head = stride[1];
  a->bias_stride_q = stride[2], a->bias_stride_k = stride[3];
  p->features |= (uint32_t)ATTUNE_FEATURE_BIAS;
  return status;
}

/* ceil(length / unit) */
static inline int32_t attune__dl_units(int32_t length, int32_t unit) {
  return (int32_t)(((int64_t)length + unit - 1) / unit);
}

static inline attune_status attune__dl_bitmask(const attune_dlpack *call, attune_problem *p,
                                               attune_attn_args *a) {
  const DLTensor *t = call->bitmask, *classes = call->bitmask_classes;
  int32_t extent[4] = {a->batch, a->heads_q, a->len_q, attune__dl_units(a->len_k, 32)};
  int64_t stride[4] = {0, 0, 0, 0};
  if (!t && classes)
    return attune_fail(ATTUNE_INVALID, "bitmask_classes without bitmask: they class its blocks");
  if (!t) return ATTUNE_OK;
  int words = attune__dl_is(t, kDLUInt, 32) || attune__dl_is(t, kDLInt, 32);
  attune_status status = attune__dl_extra(call, t, "bitmask", words, 4, extent, 7, stride);
  a->bitmask = (const uint32_t *)attune__dl_data(t);
  a->bitmask_stride_batch = stride[0], a->bitmask_stride_head = stride[1];
  a->bitmask_stride_q = stride[2];
  p->features |= (uint32_t)ATTUNE_FEATURE_BITMASK;
  if (status || !classes) return status;
  extent[2] = attune__dl_units(a->len_q, ATTUNE_BITMASK_BLOCK);
  extent[3] = attune__dl_units(a->len_k, ATTUNE_BITMASK_BLOCK);
  status = attune__dl_extra(call, classes, "bitmask_classes", attune__dl_is(classes, kDLUInt, 8), 4,
                            extent, 7, stride);
  a->bitmask_classes = (const uint8_t *)attune__dl_data(classes);
  a->bitmask_classes_stride_batch = stride[0], a->bitmask_classes_stride_head = stride[1];
  a->bitmask_classes_stride_q = stride[2];
  return status;
}

/* ---- a call ---------------------------------------------------------------------------------- */

/* Fills what the tensors say into a problem and arguments that attune_*_init() began: dtypes, head
 * dims, alignment (16-byte rows where q, k, v and o all have them), features, shape, pointers and
 * strides. Leaves op, mask, corner, window, scale, softcap with its feature bit, group, pins and
 * workspace as they are. Writes to neither and returns ATTUNE_INVALID when a tensor is wrong:
 * attune_error() names it. What needs no shapes (strides of outputs, ranges) the launch checks. */
static inline attune_status attune_dlpack_call(const attune_dlpack *call, attune_problem *problem,
                                               attune_attn_args *args) {
  if (!call || !problem || !args)
    return attune_fail(ATTUNE_INVALID, "attune_dlpack_call: call, problem or args is NULL");
  attune_problem p = *problem;
  attune_attn_args a = *args;
  attune_status status = attune__dl_operands(call, &p, &a);
  if (!status) status = attune__dl_packed(call, &p, &a);
  if (!status)
    status = attune__dl_lengths(call, call->seqused_q, "seqused_q", a.batch, &a.seqused_q);
  if (!status)
    status = attune__dl_lengths(call, call->seqused_k, "seqused_k", a.batch, &a.seqused_k);
  if (!status) status = attune__dl_lse(call, &a);
  if (!status) status = attune__dl_per_head(call, &p, &a);
  if (!status) status = attune__dl_bias(call, &p, &a);
  if (!status) status = attune__dl_bitmask(call, &p, &a);
  if (status) return status;
  p.batch = a.batch, p.heads_q = a.heads_q, p.heads_kv = a.heads_kv;
  p.len_q = a.len_q, p.len_k = a.len_k;
  *problem = p;
  *args = a;
  return ATTUNE_OK;
}

#ifdef __cplusplus
}
#endif
#endif
