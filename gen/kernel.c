/* kernel.c - variant + tile -> kernel: asks the model for ledger, recipe and constants and names
 * the result. What follows (text, binary) is made from this value alone. */
#include "../runtime/launch.h"
#include "model.h"

#include <stdio.h>
#include <string.h>

static attune_status check_pins(const attune_variant *variant, const attune_pinset *pins) {
  uint32_t digest = pins && pins->count ? attune__pinset_digest(pins) : 0;
  if (digest == variant->pins) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID,
                     "pins: the variant has digest %08x, the pins given have %08x; pass the pins "
                     "that the variant was made with",
                     variant->pins, digest);
}

enum { EARLY_FROM = 90 }; /* compute capability from which on there is griddepcontrol */

static void fill_recipe(const attune_model *model, attune_kernel *kernel) {
  attune_recipe *recipe = &kernel->recipe;
  recipe->abi = ATTUNE_ABI;
  recipe->threads = 32u * kernel->tile.warps;
  recipe->smem_bytes = kernel->ledger.bytes;
  recipe->block_m = kernel->tile.block_m, recipe->block_n = kernel->tile.block_n;
  recipe->cluster = 1;
  recipe->early = attune__arch_cc(kernel->variant.arch) >= EARLY_FROM;
  model->recipe(&kernel->variant, &kernel->tile, recipe);
  recipe->param_bytes = (uint32_t)attune__param_bytes(kernel->variant.op, recipe->maps != 0);
}

void attune__add_constant(attune_kernel *kernel, const char *name, int64_t value,
                          const char *note) {
  attune_constant *constant = &kernel->constant[kernel->constant_count++];
  snprintf(constant->name, sizeof constant->name, "%s", name);
  snprintf(constant->note, sizeof constant->note, "%s", note);
  constant->value = value;
}

attune_status attune__kernel_make(const attune_variant *variant, const attune_tile *tile,
                                  const attune_pinset *pins, attune_kernel *out) {
  char reason[ATTUNE_REASON_MAX];
  attune_status status = attune__generated(variant);
  if (status == ATTUNE_OK) status = check_pins(variant, pins);
  if (status != ATTUNE_OK) return status;
  if (!attune__family_serves(variant, tile->family, reason, sizeof reason))
    return attune_fail(ATTUNE_UNSUPPORTED, "%s", reason);
  const attune_model *model = attune__model(variant->op, variant->part, tile->family);
  if (!attune__tile_legal(model, variant, tile, reason, sizeof reason))
    return attune_fail(ATTUNE_INVALID, "tile: %s", reason);

  memset(out, 0, sizeof *out);
  out->variant = *variant, out->tile = *tile;
  if (pins) out->pins = *pins;
  out->template_path = model->template_path;
  attune__kernel_name(variant, tile, out->name);
  model->ledger(variant, tile, &out->ledger);
  model->constants(out);
  fill_recipe(model, out);
  return ATTUNE_OK;
}
