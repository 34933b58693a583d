/* model_mma.h - what the models of family mma share: warps over a tile, 16-bit tiles in shared
 * memory.
 *
 * A warp owns one or two bands of 16 rows of Q, or two or four warps own one together. A lane has,
 * of a band, two rows and a quarter of a warp's columns of them: block_n / 2 scores and padded
 * head_dim_v / 2 elements of O, or a half or a quarter of both. Rows in shared memory
 * are whole 32-byte steps of the tensor cores, swizzled in place of padding. */
#ifndef ATTUNE_MODEL_MMA_H
#define ATTUNE_MODEL_MMA_H

#include "model_cost.h"

extern const attune_model attune__model_attn_fwd_mma;

enum {
  MMA_STEP = 16,          /* rows of a band, and elements of the inner dimension of a product */
  MMA_TILE_ALIGN = 128,   /* bytes; the swizzle's bits are those of the address */
  MMA_MAX_REGISTERS = 255 /* of a thread, on every arch */
};

/* Warps that own the same rows: 1, 2 or 4. Each has a part of a tile's keys and of O's columns. */
int attune__mma_split(const attune_tile *t);
/* Bands of 16 rows that a warp owns. */
int attune__mma_bands(const attune_tile *t);
/* Elements of a row of Q or K in shared memory, and of one of V. */
int attune__mma_padded(int head_dim);
int attune__mma_padded_v(int head_dim, const attune_tile *t);
/* block_m {16, 32, 64, 128}, block_n {16, 32, 64, 128}, warps {2, 4, 8}, stages 1 to 3 (1 on sm_75,
 * where nothing is copied beside the threads). */
int attune__mma_candidates(const attune_variant *v, attune_tile *out, int max);
/* The tile's fields; else the reason. */
int attune__mma_legal(const attune_tile *t, char *reason, size_t size);
/* Rows x columns elements. */
void attune__mma_add_tile(attune_ledger *ledger, const char *name, int rows, int columns,
                          const char *note);

/* Work of a block on one block_m x block_n tile, added `times` times. */
void attune__mma_add_scores(attune_work *w, const attune_variant *v, const attune_tile *t,
                            int q_in_registers, double times);
void attune__mma_add_softmax(attune_work *w, const attune_variant *v, const attune_tile *t,
                             double times);
void attune__mma_add_output(attune_work *w, const attune_variant *v, const attune_tile *t,
                            double times);
/* A tile of rows x columns copied from device memory to shared memory by the block. */
void attune__mma_add_load(attune_work *w, double rows, int columns, double times);

/* Bytes of the tensors that features bring. */
void attune__mma_feature_traffic(const attune_variant *v, const attune_tile *t,
                                 const attune_shape *s, attune_traffic *out);

#endif
