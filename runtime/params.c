/* params.c - from a caller's arguments to the parameter block that kernels read (params.def).
 *
 * Input: a variant and attune_attn_args. Output: a filled block, or the argument that is wrong,
 * what it was and what would work. Tensors and what belongs to a feature are left to the files of
 * params.h; grids, workspaces and the launch itself to launch.c.
 *
 * The block of attn_fwd, which is attn_demo's too, is a prefix of attn_standard's, so one function
 * fills both. */
#include "params.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

_Static_assert(sizeof(attune_params_attn_fwd) == offsetof(attune_params_attn_standard, scores),
               "attn_fwd's block is a prefix of attn_standard's");

size_t attune__param_bytes(int op, int maps) {
  if (maps) return op == ATTUNE_OP_ATTN_FWD ? sizeof(attune_params_attn_fwd_maps) : 0;
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

/* Kernels number the rows of a tile in an int: those of all query heads of a group, and of up to
 * two tiles behind the last. */
static attune_status check_rows(const attune_variant *variant, const attune_attn_args *args) {
  const int32_t most = INT32_MAX - 2 * UINT16_MAX; /* block_m is 16 bits */
  int packed = attune__has(variant, ATTUNE_FEATURE_VARLEN);
  int32_t length = packed ? args->total_q : args->len_q;
  if ((int64_t)length * variant->group <= most) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID,
                     "%s is %" PRId32 ", must be 0 .. %" PRId32
                     " in a kernel of group %d: launch fewer at once",
                     packed ? "total_q" : "len_q", length, most / variant->group, variant->group);
}

static attune_status check_sizes(const attune_variant *variant, const attune_attn_args *args) {
  const struct {
    const char *name;
    int32_t value;
  } lengths[] = {{"batch", args->batch},       {"heads_q", args->heads_q},
                 {"heads_kv", args->heads_kv}, {"len_q", args->len_q},
                 {"len_k", args->len_k},       {"total_q", args->total_q},
                 {"total_k", args->total_k}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    attune_status status = check_length(lengths[i].name, lengths[i].value);
    if (status) return status;
  }
  attune_status status = check_heads(variant, args);
  return status ? status : check_rows(variant, args);
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

/* Why the lengths in use of a sequence may differ; NULL when they don't. */
static const char *lengths_differ(const attune_variant *variant, const attune_attn_args *args) {
  if (attune__has(variant, ATTUNE_FEATURE_VARLEN)) return "with varlen lengths may differ";
  if (args->seqused_q) return "with seqused_q lengths may differ";
  if (args->seqused_k) return "with seqused_k lengths may differ";
  return args->len_q != args->len_k ? "the lengths differ" : NULL;
}

static attune_status fill_corner(const attune_variant *variant, attune_corner spec_corner,
                                 const attune_attn_args *args, int32_t *bottom_right) {
  int corner = args->corner ? (int)args->corner : (int)spec_corner;
  if (corner && !attune__corner_name(corner))
    return attune_fail(ATTUNE_INVALID,
                       "corner is %d, must be ATTUNE_CORNER_TOP_LEFT or ATTUNE_CORNER_BOTTOM_RIGHT",
                       corner);
  const char *why = lengths_differ(variant, args);
  if (!corner && why)
    return attune_fail(ATTUNE_INVALID,
                       "corner is not named, but %s (len_q %" PRId32 ", len_k %" PRId32
                       "): set args.corner, or name it in the spec (mask: {causal: ...})",
                       why, args->len_q, args->len_k);
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

static attune_status fill_diagonal(const attune_variant *variant, attune_corner spec_corner,
                                   const attune_attn_args *args, attune_params_attn_standard *out) {
  out->window_left = out->window_right = -1;
  int lower = attune__mask_has_lower(variant->mask), upper = attune__mask_has_upper(variant->mask);
  if (!lower && !upper && !attune__has(variant, ATTUNE_FEATURE_ALIBI)) return ATTUNE_OK;
  attune_status status = fill_corner(variant, spec_corner, args, &out->bottom_right);
  if (!lower) { /* the diagonal itself is the bound */
    out->window_right = upper ? 0 : -1;
    return status;
  }
  if (!status) status = fill_window("window_left", args->window_left, &out->window_left);
  if (!status) status = fill_window("window_right", args->window_right, &out->window_right);
  return status;
}

/* Kernels take tanh(q . k * (scale / softcap)). */
static attune_status fill_softcap(const attune_variant *variant, const attune_attn_args *args,
                                  attune_params_attn_standard *out) {
  if (!attune__has(variant, ATTUNE_FEATURE_SOFTCAP)) return ATTUNE_OK;
  out->softcap = args->softcap;
  if (isfinite(out->scale / out->softcap)) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "scale / softcap overflows: softcap is too small");
}

static void fill_sizes(const attune_variant *variant, const attune_attn_args *args,
                       attune_params_attn_standard *out) {
  out->size = (uint32_t)attune__param_bytes(variant->op, 0);
  out->abi = ATTUNE_ABI;
  out->batch = args->batch;
  out->heads_q = args->heads_q;
  out->heads_kv = args->heads_kv;
  out->len_q = args->len_q;
  out->len_k = args->len_k;
  out->total_q = args->total_q;
  out->total_k = args->total_k;
}

static attune_status check_args(const attune_variant *variant, const attune_attn_args *args) {
  if (args->size != sizeof *args)
    return attune_fail(ATTUNE_INVALID,
                       "args.size is %zu, this library wants %zu: begin with "
                       "attune_attn_args_init() of the attune.h that belongs to it",
                       args->size, sizeof *args);
  attune_status status = check_sizes(variant, args);
  return status ? status : attune__check_features(variant, args);
}

attune_status attune__params_fill(const attune_variant *variant, attune_corner spec_corner,
                                  const attune_attn_args *args, attune_params_attn_standard *out) {
  attune__clear(out, sizeof *out);
  attune_status status = check_args(variant, args);
  if (status) return status;
  fill_sizes(variant, args, out);
  if (!attune__no_rows(variant, out)) status = attune__check_tensors(variant, args);
  attune__fill_tensors(variant, args, out);
  if (!status) status = fill_scale(variant, args, &out->scale);
  if (!status) status = fill_softcap(variant, args, out);
  if (!status) status = fill_diagonal(variant, spec_corner, args, out);
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
