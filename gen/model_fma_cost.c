/* model_fma_cost.c - what a tile of family fma asks of an SM's units, added up for model_cost.c. */
#include "model_fma.h"

/* S = Q K^T: per 4 elements of head_dim a float4 of Q per row (one wavefront: its lanes read two
 * addresses) and a float4 of K per column (16 lanes, two wavefronts). */
void attune__fma_add_scores(attune_work *w, const attune_variant *v, const attune_tile *t,
                            double times) {
  double rows = attune__fma_rows_per_thread(t), cols = attune__fma_cols_per_thread(t);
  double quads = v->head_dim_qk / 4.0, warps = times * t->warps;
  w->fma += times * t->block_m * t->block_n * v->head_dim_qk;
  w->wavefronts += warps * quads * (rows + 2 * cols);
  w->instructions += warps * quads * (rows + cols + 4 * rows * cols);
}

/* Per score max, scale, ex2, sum and the store of P; per row two reductions over 16 lanes and the
 * rescaling of l and O, with one ex2 in each lane. */
void attune__fma_add_softmax(attune_work *w, const attune_variant *v, const attune_tile *t,
                             double times) {
  double rows = attune__fma_rows_per_thread(t), cols = attune__fma_cols_per_thread(t);
  double o = attune__fma_padded_v(v->head_dim_v) / (double)FMA_LANES, warps = times * t->warps;
  w->exponentials += times * t->block_m * (t->block_n + FMA_LANES);
  w->wavefronts += warps * rows * cols;
  w->instructions += warps * rows * (5 * cols + 20 + o);
}

/* O += P V: per key one load of V for each kVecV columns (two wavefronts at 4 floats a lane), per 4
 * keys one float4 of P per row. */
void attune__fma_add_output(attune_work *w, const attune_variant *v, const attune_tile *t,
                            double times) {
  double rows = attune__fma_rows_per_thread(t), keys = t->block_n, warps = times * t->warps;
  double vec = attune__fma_vec_v(v->head_dim_v), padded = attune__fma_padded_v(v->head_dim_v);
  double loads = keys * padded / (FMA_LANES * vec), p_loads = rows * keys / 4;
  w->fma += times * t->block_m * keys * padded;
  w->wavefronts += warps * (loads * (vec == 4 ? 2 : 1) + p_loads);
  w->instructions += warps * (loads + p_loads + keys * rows * padded / FMA_LANES);
}

/* 8 elements per thread at a time: about 14 instructions to address, load, convert and store them.
 */
void attune__fma_add_load(attune_work *w, double rows, double columns, double times) {
  w->wavefronts += times * rows * columns * 4 / 128;
  w->instructions += times * rows * columns / (8 * 32) * 14;
}
