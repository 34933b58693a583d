/* tune_use.c - measured rows in the planner's place (tune_use.h): what expand.c and jit.c ask. */
#include "tune_use.h"

#include <stdio.h>

/* What the spec fixes is not the row's to change. */
static int as_wanted(const attune_request *request, const attune__tiles *tiles) {
  attune_variant v = request->variant;
  for (int part = 0; part < tiles->count; part++) {
    const attune_tile *tile = &tiles->tile[part];
    v.part = (uint8_t)part;
    const attune_model *model = attune__model(v.op, v.part, tile->family);
    if (request->family && request->family != tile->family) return 0;
    if (!attune__tile_matches(&request->tile, model->derived, tile)) return 0;
  }
  return 1;
}

const attune__tuned_row *attune__tuned_for(const attune__tuned_db *db, const attune__tuned_key *key,
                                           const attune_request *request, attune_class cls,
                                           char *why, size_t size) {
  const attune_board *board = attune__board(request->variant.arch);
  uint32_t budget = board ? (uint32_t)board->smem_block : 0;
  if (request->budget && request->budget < budget) budget = request->budget;
  const attune__tuned_row *row =
      attune__tuned_row_for(db, key, &request->variant, cls, budget, why, size);
  return row && as_wanted(request, &row->tiles) ? row : NULL;
}
