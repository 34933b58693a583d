/* model_wgmma.h - families wgmma, short and middle: warpgroups on Hopper. */
#ifndef ATTUNE_MODEL_WGMMA_H
#define ATTUNE_MODEL_WGMMA_H

#include "model_cost.h"

extern const attune_model attune__model_attn_fwd_wgmma;
extern const attune_model attune__model_attn_fwd_short;
extern const attune_model attune__model_attn_fwd_middle;

#endif
