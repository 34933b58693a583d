/* model_mma.c - family mma: candidates, common rules, tiles of the ledger, work of a tile. Which
 * tiles an op has is for the model_*.c of the op. */
#include "model_mma.h"

#include <stdio.h>
#include <string.h>

int attune__mma_bands(const attune_tile *t) {
  return t->block_m / (MMA_STEP * t->warps);
}

int attune__mma_padded(int head_dim) {
  return (head_dim + MMA_STEP - 1) / MMA_STEP * MMA_STEP;
}

static int legal_blocks(const attune_tile *t, char *reason, size_t size) {
  int least = MMA_STEP * t->warps;
  if (t->warps != 2 && t->warps != 4 && t->warps != 8)
    return snprintf(reason, size, "warps %d: family mma has 2, 4 or 8", t->warps), 0;
  if (t->block_m != least && t->block_m != 2 * least)
    return snprintf(reason, size, "block_m %d: %d warps have 16 or 32 rows each, so it is %d or %d",
                    t->block_m, t->warps, least, 2 * least),
           0;
  if (t->block_n != 16 && t->block_n != 32 && t->block_n != 64 && t->block_n != 128)
    return snprintf(reason, size, "block_n %d: family mma has 16, 32, 64 or 128", t->block_n), 0;
  return 1;
}

int attune__mma_legal(const attune_tile *t, char *reason, size_t size) {
  if (!legal_blocks(t, reason, size)) return 0;
  if (t->block_k)
    return snprintf(reason, size, "block_k %d: family mma does not split head_dim", t->block_k), 0;
  if (t->share_kv) return snprintf(reason, size, "share_kv %d: family mma has 0", t->share_kv), 0;
  if (t->stages < 1 || t->stages > 4)
    return snprintf(reason, size, "stages %d: family mma has 1 to 4", t->stages), 0;
  return 1;
}

int attune__mma_candidates(const attune_variant *v, attune_tile *out, int max) {
  static const int rows[] = {32, 64, 128}, keys[] = {16, 32, 64, 128}, warps[] = {2, 4, 8};
  int stages = attune__arch_cc(v->arch) >= 80 ? 3 : 1, count = 0;
  char ignored[160];
  for (int i = 0; i < 3 * 4 * 3 * stages && count < max; i++) {
    attune_tile *tile = &out[count];
    memset(tile, 0, sizeof *tile);
    tile->family = ATTUNE_FAMILY_MMA, tile->stages = (uint8_t)(1 + i / 36);
    tile->block_m = (uint16_t)rows[i % 3], tile->block_n = (uint16_t)keys[i / 3 % 4];
    tile->warps = (uint8_t)warps[i / 12 % 3];
    count += attune__mma_legal(tile, ignored, sizeof ignored);
  }
  return count;
}

void attune__mma_add_tile(attune_ledger *ledger, const char *name, int rows, int head_dim,
                          const char *note) {
  attune__ledger_add(ledger, name, "elem_t", 2, (uint32_t)rows,
                     (uint32_t)attune__mma_padded(head_dim), 16, note);
}

/* S = Q K^T: per 16 elements of head_dim an ldmatrix.x4 (4 wavefronts) of K for each 16 keys, one
 * of Q for each band unless it is in registers, and two products for each of both. */
void attune__mma_add_scores(attune_work *w, const attune_variant *v, const attune_tile *t,
                            int q_in_registers, double times) {
  double steps = attune__mma_padded(v->head_dim_qk) / MMA_STEP, bands = attune__mma_bands(t);
  double pairs = t->block_n / 16.0, warps = times * t->warps;
  double loads = steps * (pairs + (q_in_registers ? 0 : bands));
  w->tensor += warps * steps * pairs * bands * 2 * (2 * 16 * 8 * 16);
  w->wavefronts += warps * loads * 4;
  w->instructions += warps * (1.5 * loads + steps * pairs * bands * 2);
}

/* Per score max, scale, ex2, sum and half a conversion; per row a reduction over 4 lanes and the
 * rescaling of l and O, with one ex2 in each lane. */
void attune__mma_add_softmax(attune_work *w, const attune_variant *v, const attune_tile *t,
                             double times) {
  double bands = attune__mma_bands(t), scores = bands * t->block_n / 2;
  double o = bands * attune__mma_padded(v->head_dim_v) / 2, warps = times * t->warps;
  w->exponentials += times * t->block_m * (t->block_n + 4);
  w->instructions += warps * (4.5 * scores + o + 2 * bands * 12);
}

/* O += P V: per 16 keys an ldmatrix.x4 of V for each 16 columns, and two products for each band. */
void attune__mma_add_output(attune_work *w, const attune_variant *v, const attune_tile *t,
                            double times) {
  double steps = t->block_n / 16.0, pairs = attune__mma_padded(v->head_dim_v) / 16;
  double bands = attune__mma_bands(t), warps = times * t->warps, loads = steps * pairs;
  w->tensor += warps * loads * bands * 2 * (2 * 16 * 8 * 16);
  w->wavefronts += warps * loads * 4;
  w->instructions += warps * loads * (1.5 + bands * 2);
}

/* About 5 instructions to address, guard and start the copy of a chunk a lane; 512 bytes of a warp
 * enter shared memory in 4 wavefronts. */
void attune__mma_add_load(attune_work *w, double rows, int head_dim, double times) {
  double warps = times * rows * attune__mma_padded(head_dim) / 8 / 32;
  w->wavefronts += warps * 4;
  w->instructions += warps * 5;
}
