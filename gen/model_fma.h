/* model_fma.h - what the models of family fma share: the thread layout, the work of a tile.
 *
 * A block is T = 32 * warps threads, as 16 lanes across columns and T / 16 rows of lanes. A thread
 * owns rows_per_thread x cols_per_thread scores and the same rows of O, kVecV columns at a time.
 * Tiles in shared memory are float whatever the dtype: they are converted once, at the load. */
#ifndef ATTUNE_MODEL_FMA_H
#define ATTUNE_MODEL_FMA_H

#include "model_cost.h"

extern const attune_model attune__model_attn_fwd_fma;
extern const attune_model attune__model_attn_standard_qk_fma;
extern const attune_model attune__model_attn_standard_softmax_fma;
extern const attune_model attune__model_attn_standard_pv_fma;
extern const attune_model attune__model_attn_demo_fma;

enum {
  FMA_LANES = 16,         /* threads across the columns of a tile */
  FMA_MAX_REGISTERS = 255 /* of a thread, on every arch */
};

/* Rows of lanes, and what one thread owns of a block_m x block_n tile of S. */
int attune__fma_lane_rows(const attune_tile *t);
int attune__fma_rows_per_thread(const attune_tile *t);
int attune__fma_cols_per_thread(const attune_tile *t);
/* kVecV: floats per thread and load of V; 4 unless that pads head_dim_v by another half. */
int attune__fma_vec_v(int head_dim_v);
/* Columns of the tile of V, and of O: head_dim_v rounded up to 16 * kVecV. */
int attune__fma_padded_v(int head_dim_v);

/* Block tiles {16, 32, 64, 128}^2 x warps {2, 4, 8} x the first of these ways to hold K and V,
 * those that can be laid out over their threads: apart; in turns; 64, and 128 columns a turn. */
enum { FMA_APART = 1, FMA_TURNS, FMA_TURNS_OF_COLUMNS = 4 };
int attune__fma_candidates(attune_tile *out, int max, int ways);
/* Turns that `columns` of K or V take in the buffer. */
int attune__fma_turns(const attune_tile *t, int columns);
/* Divisibility of a block_m x block_n tile over the threads; else the reason. */
int attune__fma_legal_blocks(const attune_tile *t, char *reason, size_t size);
/* The other rules: the fields that family fma has no use for, and registers. */
int attune__fma_legal_fields(const attune_tile *t, int share, char *reason, size_t size);
int attune__fma_legal_registers(int registers, char *reason, size_t size);

/* Tiles of the ledger; all float, 16-byte aligned. */
void attune__fma_add_q(attune_ledger *ledger, const attune_variant *v, const attune_tile *t);
void attune__fma_add_k(attune_ledger *ledger, const attune_variant *v, const attune_tile *t);
void attune__fma_add_v(attune_ledger *ledger, const attune_variant *v, const attune_tile *t);
void attune__fma_add_p(attune_ledger *ledger, const attune_tile *t);
void attune__fma_add_kv(attune_ledger *ledger, const attune_variant *v, const attune_tile *t);

/* Bytes of the tensors that features bring, of attn_fwd. */
void attune__fma_feature_traffic(const attune_variant *v, const attune_tile *t,
                                 const attune_shape *s, attune_traffic *out);

/* Constants beyond the tile's: head dims, kVecV, and kBlocksPerSM for __launch_bounds__, without
 * which the compiler aims at some number of blocks of its own, and spills to reach it. */
void attune__fma_constants(attune_kernel *kernel);

/* Work of a block on one block_m x block_n tile, added `times` times. */
void attune__fma_add_scores(attune_work *w, const attune_variant *v, const attune_tile *t,
                            double times);
void attune__fma_add_softmax(attune_work *w, const attune_variant *v, const attune_tile *t,
                             double times);
void attune__fma_add_output(attune_work *w, const attune_variant *v, const attune_tile *t,
                            double times);
/* Tiles of rows x columns elements copied from device memory to shared memory by the block. */
void attune__fma_add_load(attune_work *w, double rows, double columns, double times);

#endif
