/* model_wgmma.h - families wgmma and short: warpgroups on Hopper. */
#ifndef ATTUNE_MODEL_WGMMA_H
#define ATTUNE_MODEL_WGMMA_H

#include "model_cost.h"

extern const attune_model attune__model_attn_fwd_wgmma;
extern const attune_model attune__model_attn_fwd_short;

#endif
