/* params.h - between the files that check arguments and fill the parameter block: params.c (sizes,
 * scalars, pins), params_tensors.c (pointers and strides), params_features.c (what belongs to a
 * feature). Each check returns ATTUNE_INVALID and names the argument, what it was and what would
 * work. */
#ifndef ATTUNE_PARAMS_H
#define ATTUNE_PARAMS_H

#include "launch.h"

static inline int attune__has(const attune_variant *variant, uint32_t feature) {
  return (variant->features & feature) != 0;
}

/* Arguments of features that the variant lacks are unset; the scalars of those it has are legal. */
attune_status attune__check_features(const attune_variant *variant, const attune_attn_args *args);
/* Pointers that the variant needs for this shape are there, and aligned, and strides are. */
attune_status attune__check_tensors(const attune_variant *variant, const attune_attn_args *args);
/* Pointers and strides, of features only those that the variant has. */
void attune__fill_tensors(const attune_variant *variant, const attune_attn_args *args,
                          attune_params_attn_standard *out);

#endif
