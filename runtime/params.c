/* params.c - from a caller's arguments to the parameter block that kernels read (params.def).
 *
 * Input: a variant and attune_attn_args. Output: a filled block, or the argument that is wrong,
 * what it was and what would work. Grids, workspaces and the launch itself are left to launch.c.
 *
 * The block of attn_fwd, which is attn_demo's too, is a prefix of attn_standard's, so one function
 * fills both. */
#include "launch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

_Static_assert(sizeof(attune_params_attn_fwd) == offsetof(attune_params_attn_standard, scores),
               "attn_fwd's block is a prefix of attn_standard's");

size_t attune__param_bytes(int op) {
  switch (op) {
    case ATTUNE_OP_ATTN_FWD:
    case ATTUNE_OP_ATTN_DEMO:
      return sizeof(attune_params_attn_fwd);
    case ATTUNE_OP_ATTN_STANDARD:
      return sizeof(attune_params_attn_standard);
  }
  return 0;
}

typedef struct scalar_row {
  const char *name;
  int pinnable;
} scalar_row;
#define P(type, name, pinnable, text) {#name, pinnable},
static const scalar_row attn_fwd_rows[] = {ATTUNE_PARAMS_ATTN_FWD(P){NULL, 0}};
static const scalar_row attn_demo_rows[] = {ATTUNE_PARAMS_ATTN_DEMO(P){NULL, 0}};
static const scalar_row attn_standard_rows[] = {ATTUNE_PARAMS_ATTN_STANDARD(P){NULL, 0}};
#undef P

int attune__pinnable(int op, const char *name) {
  const scalar_row *row = NULL;
  if (op == ATTUNE_OP_ATTN_FWD) row = attn_fwd_rows;
  if (op == ATTUNE_OP_ATTN_STANDARD) row = attn_standard_rows;
  if (op == ATTUNE_OP_ATTN_DEMO) row = attn_demo_rows;
  for (; row && row->name; row++)
    if (strcmp(row->name, name) == 0) return row->pinnable;
  return 0;
}

/* ---- sizes --------------------------------------------------------------------------------- */

static attune_status check_length(const char *name, int32_t value) {
  if (value >= 0 && value < ATTUNE_LENGTH_LIMIT) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "%s is %" PRId32 ", must be 0 .. %d", name, value,
                     ATTUNE_LENGTH_LIMIT - 1);
}

static attune_status check_heads(const attune_variant *variant, const attune_attn_args *args) {
  if (args->heads_q == 0) return ATTUNE_OK;
  if (args->heads_kv == 0 || args->heads_q % args->heads_kv != 0)
    return attune_fail(ATTUNE_INVALID,
                       "heads_q %" PRId32 " is not a multiple of heads_kv %" PRId32
                       ": consecutive query heads share a key/value head",
                       args->heads_q, args->heads_kv);
  int32_t share = args->heads_q / args->heads_kv;
  if (variant->group > 1 && share % variant->group != 0)
    return attune_fail(ATTUNE_INVALID,
                       "heads_q / heads_kv is %" PRId32
                       ", must be a multiple of group %d of the kernel",
                       share, variant->group);
  return ATTUNE_OK;
}

static attune_status check_sizes(const attune_variant *variant, const attune_attn_args *args) {
  if (args->size != sizeof *args)
    return attune_fail(ATTUNE_INVALID,
                       "args.size is %zu, this library wants %zu: begin with "
                       "attune_attn_args_init() of the attune.h that belongs to it",
                       args->size, sizeof *args);
  const struct {
    const char *name;
    int32_t value;
  } lengths[] = {{"batch", args->batch},
                 {"heads_q", args->heads_q},
                 {"heads_kv", args->heads_kv},
                 {"len_q", args->len_q},
                 {"len_k", args->len_k}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    attune_status status = check_length(lengths[i].name, lengths[i].value);
    if (status) return status;
  }
  return check_heads(variant, args);
}

/* ---- tensors ------------------------------------------------------------------------------- */

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

static attune_status check_stride(const operand *t, int axis) {
  int64_t stride = t->axis[axis].stride, unit = t->unit_bytes / t->element_bytes;
  if (t->axis[axis].extent <= 1) return ATTUNE_OK;
  if (t->output && stride == 0)
    return attune_fail(ATTUNE_INVALID, "%s.%s is 0: the rows of an output must not overlap",
                       t->name, t->axis[axis].name);
  if (stride % unit == 0) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID,
                     "%s.%s is %" PRId64
                     " elements of %d bytes, not a multiple of %d bytes: pad the "
                     "rows, or ask for align elem",
                     t->name, t->axis[axis].name, stride, t->element_bytes, t->unit_bytes);
}

static attune_status check_operand(const operand *t) {
  if (!t->data)
    return attune_fail(ATTUNE_INVALID, "%s.data is NULL, must be a device pointer", t->name);
  if ((uintptr_t)t->data % (uintptr_t)t->unit_bytes != 0)
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

static attune_status check_lse(const attune_attn_args *args) {
  if (!args->lse) return ATTUNE_OK;
  operand t = {.name = "lse",
               .data = args->lse,
               .output = 1,
               .element_bytes = sizeof(float),
               .unit_bytes = sizeof(float),
               .axis = {{"stride_batch", args->lse_stride_batch, args->batch},
                        {"stride_seq", args->lse_stride_seq, args->len_q},
                        {"stride_head", args->lse_stride_head, args->heads_q}}};
  return check_operand(&t);
}

static attune_status check_tensors(const attune_variant *v, const attune_attn_args *args) {
  const int32_t rows[3] = {args->batch, args->len_q, args->heads_q};
  const int32_t keys[3] = {args->batch, args->len_k, args->heads_kv};
  attune_status status = check_tensor("q", &args->q, v->align, v->dtype_q, 0, rows);
  if (!status && args->len_k > 0)
    status = check_tensor("k", &args->k, v->align, v->dtype_kv, 0, keys);
  if (!status && args->len_k > 0)
    status = check_tensor("v", &args->v, v->align, v->dtype_kv, 0, keys);
  if (!status) status = check_tensor("o", &args->o, v->align, v->dtype_out, 1, rows);
  if (!status) status = check_lse(args);
  if (!status && (uintptr_t)args->seqused_k % sizeof(int32_t) != 0)
    status = attune_fail(ATTUNE_INVALID, "seqused_k is %p, not a multiple of 4 bytes",
                         (const void *)args->seqused_k);
  return status;
}

static void fill_tensors(const attune_attn_args *args, attune_params_attn_standard *out) {
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
  out->lse_stride_seq = args->lse_stride_seq;
  out->lse_stride_head = args->lse_stride_head;
  out->seqused_k = args->seqused_k;
}

/* ---- scalars ------------------------------------------------------------------------------- */

static attune_status fill_scale(const attune_variant *variant, const attune_attn_args *args,
                                float *scale) {
  if (args->flags & ~(uint32_t)ATTUNE_DEFAULT_SCALE)
    return attune_fail(ATTUNE_INVALID, "flags is 0x%" PRIx32 ", known is only ATTUNE_DEFAULT_SCALE",
                       args->flags);
  *scale = args->scale;
  if (args->flags & ATTUNE_DEFAULT_SCALE) *scale = (float)(1.0 / sqrt(variant->head_dim_qk));
  if (isfinite(*scale)) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID,
                     "scale is %s, must be finite; the flag ATTUNE_DEFAULT_SCALE gives "
                     "1 / sqrt(head_dim_qk)",
                     isnan(*scale) ? "not a number" : "infinite");
}

static attune_status fill_corner(attune_corner spec_corner, const attune_attn_args *args,
                                 int32_t *bottom_right) {
  int corner = args->corner ? (int)args->corner : (int)spec_corner;
  if (corner && !attune__corner_name(corner))
    return attune_fail(ATTUNE_INVALID,
                       "corner is %d, must be ATTUNE_CORNER_TOP_LEFT or ATTUNE_CORNER_BOTTOM_RIGHT",
                       corner);
  if (!corner && (args->len_q != args->len_k || args->seqused_k))
    return attune_fail(ATTUNE_INVALID,
                       "corner is not named, but len_q %" PRId32 " and len_k %" PRId32
                       "%s differ: set args.corner, or name it in the spec (mask: {causal: ...})",
                       args->len_q, args->len_k, args->seqused_k ? " (with seqused_k) may" : "");
  *bottom_right = corner == ATTUNE_CORNER_BOTTOM_RIGHT;
  return ATTUNE_OK;
}

/* A bound of ATTUNE_LENGTH_LIMIT - 1 reaches every key from every row, so a larger one is cut to
 * it. */
static attune_status fill_window(const char *name, int32_t value, int32_t *out) {
  if (value < -1)
    return attune_fail(ATTUNE_INVALID, "%s is %" PRId32 ", must be -1 (all keys) or more", name,
                       value);
  *out = value < ATTUNE_LENGTH_LIMIT ? value : ATTUNE_LENGTH_LIMIT - 1;
  return ATTUNE_OK;
}

static attune_status fill_mask(const attune_variant *variant, attune_corner spec_corner,
                               const attune_attn_args *args, attune_params_attn_standard *out) {
  out->window_left = out->window_right = -1;
  int lower = attune__mask_has_lower(variant->mask), upper = attune__mask_has_upper(variant->mask);
  if (!lower && !upper) return ATTUNE_OK;
  attune_status status = fill_corner(spec_corner, args, &out->bottom_right);
  if (!lower) { /* the diagonal itself is the bound */
    out->window_right = 0;
    return status;
  }
  if (!status) status = fill_window("window_left", args->window_left, &out->window_left);
  if (!status) status = fill_window("window_right", args->window_right, &out->window_right);
  return status;
}

attune_status attune__params_fill(const attune_variant *variant, attune_corner spec_corner,
                                  const attune_attn_args *args, attune_params_attn_standard *out) {
  memset(out, 0, sizeof *out);
  attune_status status = check_sizes(variant, args);
  if (status) return status;
  out->size = (uint32_t)attune__param_bytes(variant->op);
  out->abi = ATTUNE_ABI;
  out->batch = args->batch;
  out->heads_q = args->heads_q;
  out->heads_kv = args->heads_kv;
  out->len_q = args->len_q;
  out->len_k = args->len_k;
  int empty = args->batch == 0 || args->heads_q == 0 || args->len_q == 0;
  if (!empty) status = check_tensors(variant, args);
  fill_tensors(args, out);
  if (!status) status = fill_scale(variant, args, &out->scale);
  if (!status) status = fill_mask(variant, spec_corner, args, out);
  if (variant->op == ATTUNE_OP_ATTN_STANDARD) {
    out->scores = args->workspace;
    out->scores_pitch = attune__scores_pitch(args->len_k);
  }
  return status;
}

/* ---- pins ---------------------------------------------------------------------------------- */

/* The block's scalar of that name as a double; 0 when the op has no such pinnable scalar. */
static int scalar(int op, const attune_params_attn_standard *params, const char *name,
                  double *value) {
  if (!attune__pinnable(op, name)) return 0;
#define ATTUNE__VALUE_1(field)                                                                     \
  if (strcmp(name, #field) == 0) return *value = (double)params->field, 1;
#define ATTUNE__VALUE_0(field)
#define P(type, field, pinnable, text) ATTUNE__VALUE_##pinnable(field)
  ATTUNE_PARAMS_ATTN_STANDARD(P)
#undef P
  return 0;
}

attune_status attune__params_check_pins(const attune_pinset *pins, int op,
                                        const attune_params_attn_standard *params) {
  for (uint32_t i = 0; i < pins->count; i++) {
    const char *name = pins->pin[i].name;
    double have, pinned = pins->pin[i].value;
    if (!scalar(op, params, name, &have))
      return attune_fail(ATTUNE_INVALID, "the kernel pins %s, which %s does not have", name,
                         attune__op_name(op));
    if (have == pinned) continue; /* a pinset keeps what an int32 or an fp32 can hold */
    char want_text[ATTUNE_PIN_TEXT_MAX], have_text[ATTUNE_PIN_TEXT_MAX];
    attune__pin_print(pinned, want_text);
    attune__pin_print(have, have_text);
    return attune_fail(ATTUNE_INVALID,
                       "%s is %s, but this kernel was compiled for %s=%s: launch with that value, "
                       "or find a program without the pin",
                       name, have_text, name, want_text);
  }
  return ATTUNE_OK;
}
