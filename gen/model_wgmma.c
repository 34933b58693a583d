/* model_wgmma.c - what the models of families wgmma, short and middle count alike. */
#include "model_wgmma.h"

#include "model_attn_fwd.h"

const double attune__wgmma_instructions = 4.5;
const double attune__wgmma_step_clocks = 150;
const double attune__wgmma_start = 2000;

int attune__wgmma_keys_in_l2(const attune_variant *variant) {
  const int bytes = 32 << 20; /* FlashAttention-3's */
  return bytes / (2 * (variant->head_dim_qk + variant->head_dim_v));
}

int attune__wgmma_padded(int head_dim) {
  return (head_dim + ATTUNE__WGMMA_STEP - 1) / ATTUNE__WGMMA_STEP * ATTUNE__WGMMA_STEP;
}

int attune__wgmma_groups(const attune_tile *tile) {
  return tile->warps / 4 - 1;
}

double attune__wgmma_exposed(const attune_variant *variant, int groups) {
  static const double exposed[] = {0, 0.5, 0.25, 0.19}, without_turns = 0.28;
  if (groups < 3 || variant->head_dim_v < ATTUNE__WGMMA_WIDE_O) return exposed[groups];
  return variant->mask == ATTUNE_MASK_NONE ? exposed[2] : without_turns;
}

int attune__wgmma_panel(const attune_variant *variant) {
  return 2 * attune__wgmma_padded(variant->head_dim_qk) % 128 == 0 ? 128 : 64;
}

int attune__wgmma_panels(const attune_variant *variant) {
  const int panel = attune__wgmma_panel(variant);
  return (2 * attune__wgmma_padded(variant->head_dim_qk) + panel - 1) / panel;
}

void attune__wgmma_recipe(const attune_variant *variant, const attune_tile *tile,
                          attune_recipe *out) {
  attune__forward_recipe(variant, tile, out);
  out->maps = 1, out->persistent = 1;
  for (int map = 0; map < ATTUNE_MAPS; map++) {
    int keys = map == ATTUNE_MAP_K || map == ATTUNE_MAP_V;
    out->box[map].rows = keys ? tile->block_n : tile->block_m;
    out->box[map].columns = (uint32_t)attune__wgmma_panel(variant) / 2;
  }
}
