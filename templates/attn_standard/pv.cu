//-- attn_standard, part pv, family fma: O = P V, over the keys that a block's rows see.
//-- Parts as attn_fwd/fma.cu says.
//@ include("head.cuh")

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/place.cuh")

//@ include("prim/scores.cuh")

//@ include("prim/tile.cuh")

//@ include("prim/product.cuh")

//@ include("prim/output.cuh")

// The tile of P begins at any key, so that its rows are not aligned: element by element, neighbours
// by neighbouring threads. Zero beyond `rows` and `columns`.
__device__ __forceinline__ void load_p(Smem &smem, const q_t *from, i64 pitch, int rows,
                                       int columns) {
#pragma unroll 4
  for (int step = 0; step < kBlockM * kBlockN / kThreads; step++) {
    const unsigned index = step * kThreads + threadIdx.x;
    const int row = index / kBlockN, column = index % kBlockN;
    smem.p[row][column] =
        row < rows && column < columns ? to_float(from[row * pitch + column]) : 0;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSM)
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(16) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  //@ include("prim/scalars.cuh")
  //@ include("prim/early.cuh")

  //@ include("prim/prologue.cuh")
  const q_t *p = scores_row(params, place, i0, heads_q, len_q);
  const kv_t *v = first_key(place, params.v, params.v_stride_batch, params.v_stride_seq,
                            params.v_stride_head);

  clear_padding<kHeadDimV>(smem.v);

  // O = P V
  float o[kRowsPerThread][kGroupsV][kVecV] = {};
  for (int j0 = j_begin; j0 < j_end; j0 += kBlockN) {
    const int columns = min(kBlockN, j_end - j0);
    load_p(smem, p + j0, params.scores_pitch, i1 - i0, columns);
    load_tile<kHeadDimV>(smem.v, v + j0 * params.v_stride_seq, params.v_stride_seq, columns);
    __syncthreads();
    add_product_ab<kBlockN>(o, smem.p, smem.v);
    __syncthreads();
  }

  store_output(query_rows(place, params.o, params.o_stride_batch, params.o_stride_seq,
                          params.o_stride_head),
               place, o);
}
