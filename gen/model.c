/* model.c - the table of models, and the one rule set that says which variants have kernels. */
#include "model.h"

#include "model_fma.h"
#include "model_mma.h"

#include <stdio.h>
#include <string.h>

static const attune_model *const models[] = {
    &attune__model_attn_fwd_fma,
    &attune__model_attn_fwd_mma,
    &attune__model_attn_standard_qk_fma,
    &attune__model_attn_standard_softmax_fma,
    &attune__model_attn_standard_pv_fma,
    &attune__model_attn_demo_fma,
    NULL,
};

const attune_model *attune__model(int op, int part, int family) {
  for (int i = 0; models[i]; i++) {
    const attune_model *model = models[i];
    if (model->op == op && model->part == part && (!family || model->family == family))
      return model;
  }
  return NULL;
}

enum { MIN_HEAD_DIM = 8, MAX_HEAD_DIM = 256, HEAD_DIM_STEP = 8 };

static attune_status check_head_dim(const char *field, int value) {
  if (value >= MIN_HEAD_DIM && value <= MAX_HEAD_DIM && value % HEAD_DIM_STEP == 0)
    return ATTUNE_OK;
  return attune_fail(ATTUNE_UNSUPPORTED,
                     "%s %d: not generated yet; multiples of %d from %d to %d are", field, value,
                     HEAD_DIM_STEP, MIN_HEAD_DIM, MAX_HEAD_DIM);
}

static attune_status check_arch(uint32_t arch) {
  if (attune__board(arch)) return ATTUNE_OK;
  char have[ATTUNE_BOARDS * ATTUNE_ARCH_MAX] = "", want[ATTUNE_ARCH_MAX];
  for (int i = 0, at = 0; i < ATTUNE_BOARDS; i++)
    at += snprintf(have + at, sizeof have - (size_t)at, "%s%s",
                   i == 0                  ? ""
                   : i + 1 < ATTUNE_BOARDS ? ", "
                                           : " and ",
                   attune__boards[i].arch_name);
  attune__arch_print(arch, 1, want);
  return attune_fail(ATTUNE_UNSUPPORTED, "arch %s: not generated yet; %s are", want, have);
}

static attune_status check_dtypes(const attune_variant *v) {
  if (v->dtype_kv != v->dtype_q || v->dtype_out != v->dtype_q) {
    return attune_fail(ATTUNE_UNSUPPORTED,
                       "dtype q %s, kv %s, out %s: not generated yet; one dtype for all three is",
                       attune__dtype_name(v->dtype_q), attune__dtype_name(v->dtype_kv),
                       attune__dtype_name(v->dtype_out));
  }
  if (v->op != ATTUNE_OP_ATTN_FWD && v->dtype_q != ATTUNE_DTYPE_FP32) {
    return attune_fail(ATTUNE_UNSUPPORTED, "dtype %s with op %s: not generated yet; fp32 is",
                       attune__dtype_name(v->dtype_q), attune__op_name(v->op));
  }
  return ATTUNE_OK;
}

/* What attn_demo is made of; no other op has it. */
enum { DEMO_FEATURES = ATTUNE_FEATURE_NORESCALE | ATTUNE_FEATURE_NOMAX | ATTUNE_FEATURE_FA1 };

static attune_status check_demo(const attune_variant *v) {
  uint32_t ways = v->features & DEMO_FEATURES;
  if (v->op != ATTUNE_OP_ATTN_DEMO)
    return !ways ? ATTUNE_OK
                 : attune_fail(ATTUNE_UNSUPPORTED,
                               "features norescale, nomax and fa1 are attn_demo's; %s is not made "
                               "wrong on purpose",
                               attune__op_name(v->op));
  if (ways != v->features || !ways || (ways & (ways - 1)))
    return attune_fail(ATTUNE_UNSUPPORTED, "op attn_demo has one feature: norescale, nomax or fa1");
  if (v->mask == ATTUNE_MASK_NONE) return ATTUNE_OK;
  return attune_fail(ATTUNE_UNSUPPORTED, "mask %s with op attn_demo: not generated yet; none is",
                     attune__mask_name(v->mask));
}

static attune_status check_features(uint32_t features) {
  uint32_t generated = 0;
#define X(name, bit, text, has_kernels) generated |= (uint32_t)(has_kernels) << (bit);
  ATTUNE_FEATURES(X)
#undef X
  for (int bit = 0; bit < 32; bit++) {
    if (!((features & ~generated) >> bit & 1)) continue;
    const char *name = attune__feature_name(bit);
    if (!name) return attune_fail(ATTUNE_INVALID, "features: there is no feature of bit %d", bit);
    return attune_fail(ATTUNE_UNSUPPORTED, "%s: not generated yet", name);
  }
  return ATTUNE_OK;
}

attune_status attune__generated(const attune_variant *v) {
  if (!attune__op_name(v->op) || v->part >= attune__op_parts(v->op))
    return attune_fail(ATTUNE_INVALID, "op %d, part %d: there is no such op", v->op, v->part);
  if (!attune__dtype_name(v->dtype_q) || !attune__dtype_name(v->dtype_kv) ||
      !attune__dtype_name(v->dtype_out) || !attune__mask_name(v->mask) ||
      !attune__align_name(v->align))
    return attune_fail(ATTUNE_INVALID, "a dtype, the mask or the alignment is unset");
  attune_status status = check_arch(v->arch);
  if (status == ATTUNE_OK) status = check_dtypes(v);
  if (status == ATTUNE_OK) status = check_head_dim("head_dim_qk", v->head_dim_qk);
  if (status == ATTUNE_OK) status = check_head_dim("head_dim_v", v->head_dim_v);
  if (status == ATTUNE_OK) status = check_demo(v);
  if (status == ATTUNE_OK) status = check_features(v->features & ~(uint32_t)DEMO_FEATURES);
  if (status == ATTUNE_OK && v->group != 1)
    return attune_fail(ATTUNE_UNSUPPORTED, "group %d: not generated yet; group 1 is", v->group);
  return status;
}
