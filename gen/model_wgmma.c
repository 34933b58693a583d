/* model_wgmma.c - what the models of families wgmma, short and middle count alike. */
#include "model_wgmma.h"

enum { STEP = 16 }; /* elements of the inner dimension of a product */

int attune__wgmma_padded(int head_dim) {
  return (head_dim + STEP - 1) / STEP * STEP;
}

int attune__wgmma_groups(const attune_tile *tile) {
  return tile->warps / 4 - 1;
}

int attune__wgmma_panel(const attune_variant *variant) {
  return 2 * attune__wgmma_padded(variant->head_dim_qk) % 128 == 0 ? 128 : 64;
}

int attune__wgmma_panels(const attune_variant *variant) {
  const int panel = attune__wgmma_panel(variant);
  return (2 * attune__wgmma_padded(variant->head_dim_qk) + panel - 1) / panel;
}
