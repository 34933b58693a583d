/* model_mma.c - family mma: candidates, common rules, tiles of the ledger, work of a tile. Which
 * tiles an op has is for the model_*.c of the op. */
#include "model_mma.h"

#include <stdio.h>
#include <string.h>

int attune__mma_split(const attune_tile *t) {
  int rows = MMA_STEP * t->warps;
  return rows > t->block_m ? rows / t->block_m : 1;
}

int attune__mma_bands(const attune_tile *t) {
  return t->block_m * attune__mma_split(t) / (MMA_STEP * t->warps);
}

static int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

int attune__mma_padded(int head_dim) {
  return round_up(head_dim, MMA_STEP);
}

int attune__mma_padded_v(int head_dim, const attune_tile *t) {
  return round_up(head_dim, MMA_STEP * attune__mma_split(t));
}

/* block_m is 16 or 32 rows a warp, or 16 rows for 2 or 4 warps together. */
static int legal_rows(const attune_tile *t) {
  int rows = MMA_STEP * t->warps, m = t->block_m;
  return m >= MMA_STEP && (m == 2 * rows || m == rows || m == rows / 2 || m == rows / 4);
}

static int legal_blocks(const attune_tile *t, char *reason, size_t size) {
  if (t->warps != 2 && t->warps != 4 && t->warps != 8)
    return snprintf(reason, size, "warps %d: family mma has 2, 4 or 8", t->warps), 0;
  if (!legal_rows(t))
    return snprintf(
               reason, size,
               "block_m %d: %d warps have 16 or 32 rows each, or 2 or 4 of them 16 together: a "
               "power of two from %d to %d",
               t->block_m, t->warps, t->warps < 4 ? MMA_STEP : 4 * t->warps,
               2 * MMA_STEP * t->warps),
           0;
  if (t->block_n != 16 && t->block_n != 32 && t->block_n != 64 && t->block_n != 128)
    return snprintf(reason, size, "block_n %d: family mma has 16, 32, 64 or 128", t->block_n), 0;
  int least = MMA_STEP * attune__mma_split(t);
  if (t->block_n < least)
    return snprintf(reason, size, "block_n %d: %d warps share rows and have 16 keys each or more",
                    t->block_n, attune__mma_split(t)),
           0;
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
  static const int rows[] = {16, 32, 64, 128}, keys[] = {16, 32, 64, 128}, warps[] = {2, 4, 8};
  int stages = attune__arch_cc(v->arch) >= 80 ? 3 : 1, count = 0;
  char ignored[160];
  for (int i = 0; i < 4 * 4 * 3 * stages && count < max; i++) {
    attune_tile *tile = &out[count];
    memset(tile, 0, sizeof *tile);
    tile->family = ATTUNE_FAMILY_MMA, tile->stages = (uint8_t)(1 + i / 48);
    tile->block_m = (uint16_t)rows[i % 4], tile->block_n = (uint16_t)keys[i / 4 % 4];
    tile->warps = (uint8_t)warps[i / 16 % 3];
    count += attune__mma_legal(tile, ignored, sizeof ignored);
  }
  return count;
}

void attune__mma_add_tile(attune_ledger *ledger, const char *name, int rows, int columns,
                          const char *note) {
  attune__ledger_add(ledger, name, "elem_t", 2, (uint32_t)rows, (uint32_t)columns, MMA_TILE_ALIGN,
                     note);
}

/* S = Q K^T: per 16 elements of head_dim an ldmatrix.x4 (4 wavefronts) of K for each 16 keys of a
 * warp, one of Q for each band unless it is in registers, and two products for each of both. */
void attune__mma_add_scores(attune_work *w, const attune_variant *v, const attune_tile *t,
                            int q_in_registers, double times) {
  double steps = attune__mma_padded(v->head_dim_qk) / MMA_STEP, bands = attune__mma_bands(t);
  double pairs = t->block_n / 16.0 / attune__mma_split(t), warps = times * t->warps;
  double loads = steps * (pairs + (q_in_registers ? 0 : bands));
  w->tensor += warps * steps * pairs * bands * 2 * (2 * 16 * 8 * 16);
  w->wavefronts += warps * loads * 4;
  w->instructions += warps * (loads + steps * pairs * bands * 2);
}

/* Features take instructions for each score: softcap an ex2, a reciprocal and five more, bias a
 * conversion and an addition, alibi two, bits one and a half; and where a score needs anything, one
 * for the scale. */
static double of_features(const attune_variant *v, double *exponentials) {
  uint32_t f = v->features;
  double each = 0;
  if (f & ATTUNE_FEATURE_SOFTCAP) each += 7, *exponentials += 2;
  if (f & ATTUNE_FEATURE_BIAS) each += 3;
  if (f & ATTUNE_FEATURE_ALIBI) each += 2;
  if (f & ATTUNE_FEATURE_BITMASK) each += 1.5;
  return each;
}

/* Per score max, scale, ex2, sum and half a conversion; per row a reduction over 4 lanes. O is
 * seldom rescaled. Warps that share rows pass maxima and P through shared memory. */
void attune__mma_add_softmax(attune_work *w, const attune_variant *v, const attune_tile *t,
                             double times) {
  double split = attune__mma_split(t), bands = attune__mma_bands(t), warps = times * t->warps;
  double scores = bands * t->block_n / split / 2, exponentials = 1;
  w->instructions += warps * ((4.5 + of_features(v, &exponentials)) * scores + bands * 20);
  w->exponentials += times * t->block_m * t->block_n * exponentials;
  if (split == 1) return;
  double stores = scores / 2, loads = bands * t->block_n / 16.0;
  w->wavefronts += warps * (stores + 4 * loads + 2 * bands * (1 + split));
  w->instructions += warps * (2 * stores + loads + 2 * bands * (3 + split));
}

/* O += P V: per 16 keys an ldmatrix.x4 of V for each 16 columns of a warp, and two products for
 * each band. */
void attune__mma_add_output(attune_work *w, const attune_variant *v, const attune_tile *t,
                            double times) {
  double steps = t->block_n / 16.0, bands = attune__mma_bands(t), warps = times * t->warps;
  double pairs = attune__mma_padded_v(v->head_dim_v, t) / 16.0 / attune__mma_split(t);
  double loads = steps * pairs;
  w->tensor += warps * loads * bands * 2 * (2 * 16 * 8 * 16);
  w->wavefronts += warps * loads * 4;
  w->instructions += warps * loads * (1 + bands * 2);
}

/* About 7 instructions to address, guard and start the copy of a chunk a lane; 512 bytes of a warp
 * enter shared memory in 4 wavefronts. */
void attune__mma_add_load(attune_work *w, double rows, int columns, double times) {
  double warps = times * rows * columns / 8 / 32;
  w->wavefronts += warps * 4;
  w->instructions += warps * 7;
}
