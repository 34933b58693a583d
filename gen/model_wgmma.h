/* model_wgmma.h - families wgmma, short and middle: warpgroups on Hopper. */
#ifndef ATTUNE_MODEL_WGMMA_H
#define ATTUNE_MODEL_WGMMA_H

#include "model_cost.h"

/* Elements of a row in whole steps of a product's inner dimension, 16. */
int attune__wgmma_padded(int head_dim);
/* Warpgroups of a block that multiply; one more loads. */
int attune__wgmma_groups(const attune_tile *tile);
/* Of tiles whose Q, K and V have rows of one width: bytes of a panel's row, and how many panels
 * hold a row; the last may be filled in part. */
int attune__wgmma_panel(const attune_variant *variant);
int attune__wgmma_panels(const attune_variant *variant);

extern const attune_model attune__model_attn_fwd_wgmma;
extern const attune_model attune__model_attn_fwd_short;
extern const attune_model attune__model_attn_fwd_middle;

#endif
