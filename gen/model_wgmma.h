/* model_wgmma.h - families wgmma, short and middle: warpgroups on Hopper. */
#ifndef ATTUNE_MODEL_WGMMA_H
#define ATTUNE_MODEL_WGMMA_H

#include "model_cost.h"

enum {
  ATTUNE__WGMMA_STEP = 16,    /* elements of the inner dimension of a product */
  ATTUNE__WGMMA_ROWS = 64,    /* of a warpgroup's products */
  ATTUNE__WGMMA_WIDE_O = 112, /* head_dim_v whose O leaves three warpgroups short steps */
  ATTUNE__PANEL_ALIGN = 1024  /* of a swizzle of 128 bytes */
};

/* Keys of heads that work beside each other, so that blocks share their K and V in L2. */
int attune__wgmma_keys_in_l2(const attune_variant *variant);

/* Instructions of a thread for a score: max, FMA, ex2, sum and half a conversion. A model adds a
 * multiplication for each element of O where that is rescaled. */
extern const double attune__wgmma_instructions;
/* Share of the smaller ceilings that shows, by warpgroups that multiply, 1 to 3: one's softmax runs
 * beside another's products. Fitted to the order of tiles of family wgmma on an H200, where from
 * ATTUNE__WGMMA_WIDE_O on three hide no more than two do, and less under a mask, where they take no
 * turns. */
double attune__wgmma_exposed(const attune_variant *variant, int groups);
/* Clocks of a step in which a warpgroup only waits: for a tile, for its products to start, for the
 * quads' maxima. Fitted likewise. */
extern const double attune__wgmma_step_clocks;
/* Clocks before a block's first load: barriers, tensor maps, the first job. Fitted to decoding with
 * a window beside family mma. */
extern const double attune__wgmma_start;

/* Elements of a row in whole steps of a product's inner dimension, 16. */
int attune__wgmma_padded(int head_dim);
/* Warpgroups of a block that multiply; one more loads. */
int attune__wgmma_groups(const attune_tile *tile);
/* Of tiles whose Q, K and V have rows of one width: bytes of a panel's row, and how many panels
 * hold a row; the last may be filled in part. */
int attune__wgmma_panel(const attune_variant *variant);
int attune__wgmma_panels(const attune_variant *variant);
/* How such tiles are launched: a grid that stays, a box of TMA for block_m rows of Q and O and one
 * for block_n keys. */
void attune__wgmma_recipe(const attune_variant *variant, const attune_tile *tile,
                          attune_recipe *out);

extern const attune_model attune__model_attn_fwd_wgmma;
extern const attune_model attune__model_attn_fwd_short;
extern const attune_model attune__model_attn_fwd_middle;

#endif
