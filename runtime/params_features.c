/* params_features.c - arguments that belong to a feature: refused where the variant lacks it.
 *
 * Input: a variant and attune_attn_args. Output: ATTUNE_OK, or the argument that the kernel would
 * ignore, so that what it computes would be silently something else. A feature's pointers are
 * checked by params_tensors.c. */
#include "params.h"

#include <math.h>

static attune_status refuse_foreign(const char *argument, int bit) {
  const char *name = attune__feature_name(bit);
  return attune_fail(ATTUNE_INVALID,
                     "%s is set, but the kernel has no feature %s and would ignore it: leave it 0, "
                     "or find a program for a problem with the feature %s",
                     argument, name, name);
}

static attune_status check_foreign(const attune_variant *v, const attune_attn_args *a) {
  const struct {
    const char *argument;
    uint32_t feature;
    int set;
  } row[] = {{"softcap", ATTUNE_FEATURE_SOFTCAP, a->softcap != 0},
             {"alibi_slopes", ATTUNE_FEATURE_ALIBI, a->alibi_slopes != NULL},
             {"bias", ATTUNE_FEATURE_BIAS, a->bias != NULL},
             {"sinks", ATTUNE_FEATURE_SINK, a->sinks != NULL},
             {"bitmask", ATTUNE_FEATURE_BITMASK, a->bitmask != NULL},
             {"bitmask_classes", ATTUNE_FEATURE_BITMASK, a->bitmask_classes != NULL},
             {"cu_seqlens_q", ATTUNE_FEATURE_VARLEN, a->cu_seqlens_q != NULL},
             {"cu_seqlens_k", ATTUNE_FEATURE_VARLEN, a->cu_seqlens_k != NULL},
             {"total_q", ATTUNE_FEATURE_VARLEN, a->total_q != 0},
             {"total_k", ATTUNE_FEATURE_VARLEN, a->total_k != 0}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (row[i].set && !attune__has(v, row[i].feature))
      return refuse_foreign(row[i].argument, __builtin_ctz(row[i].feature));
  return ATTUNE_OK;
}

static attune_status check_softcap(const attune_variant *v, const attune_attn_args *a) {
  if (!attune__has(v, ATTUNE_FEATURE_SOFTCAP) || (a->softcap > 0 && isfinite(a->softcap)))
    return ATTUNE_OK;
  char value[ATTUNE_PIN_TEXT_MAX];
  attune__pin_print((double)a->softcap, value);
  return attune_fail(ATTUNE_INVALID, "softcap is %s, must be over 0 and finite",
                     isnan(a->softcap) ? "not a number" : value);
}

attune_status attune__check_features(const attune_variant *variant, const attune_attn_args *args) {
  attune_status status = check_foreign(variant, args);
  return status ? status : check_softcap(variant, args);
}
