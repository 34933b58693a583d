// K and V in buffers of their own: both are loaded at once.
// S += Q K^T of `keys` keys
__device__ __forceinline__ void add_scores(float (&s)[kRowsPerThread][kColumnsPerThread], Smem &smem,
                                           const kv_t *k, i64 k_stride, const kv_t *v, i64 v_stride,
                                           int keys) {
  load_tile<kHeadDimQK>(smem.k, k, k_stride, keys);
  load_tile<kHeadDimV>(smem.v, v, v_stride, keys);
  __syncthreads();
  add_product_abt<kHeadDimQK>(s, smem.q, smem.k);
}

// O += P V: rows of P are written and read by the same half of a warp.
__device__ __forceinline__ void add_output(Rows &rows, Smem &smem, const kv_t *, i64, int) {
  __syncwarp();
  add_product_ab<kBlockN>(rows.o, smem.p, smem.v);
}
