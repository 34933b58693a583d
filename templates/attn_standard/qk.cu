//-- attn_standard, part qk, family fma: S = scale Q K^T to device memory, masks not applied.
//-- One block makes one kBlockM x kBlockN tile of S. S of a masked pair may be NaN, as K may; the
//-- softmax does not look at it. Parts as attn_fwd/fma.cu says.
//@ include("head.cuh")

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/place.cuh")

//@ include("prim/scores.cuh")

//@ include("prim/tile.cuh")

//@ include("prim/product.cuh")

constexpr int kColumnsPerThread = kBlockN / kLanesN;

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSM)
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(16) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  //@ include("prim/scalars.cuh")
  //@ include("prim/early.cuh")

  // Which rows and keys: tiles of keys come fastest, so that blocks that run together share Q
  const unsigned tiles_k = ceil_div(len_k, kBlockN);
  const Place place = place_of(params, blockIdx.x / tiles_k, batch, heads_q, heads_kv, len_q, len_k,
                               total_q, total_k);
  const int j0 = blockIdx.x % tiles_k * kBlockN, columns = min(kBlockN, place.len_k - j0);
  const int i0 = place.row0, rows = place.row1 - i0;
  if (rows <= 0) return;

  const QueryRows<const q_t> q = query_rows(place, params.q, params.q_stride_batch,
                                            params.q_stride_seq, params.q_stride_head);
  const kv_t *k = first_key(place, params.k, params.k_stride_batch, params.k_stride_seq,
                            params.k_stride_head);
  load_tile<kHeadDimQK>(smem.q, q.at(i0), params.q_stride_seq, rows);
  load_tile<kHeadDimQK>(smem.k, k + j0 * params.k_stride_seq, params.k_stride_seq, columns);
  __syncthreads();

  // S = scale Q K^T
  float s[kRowsPerThread][kColumnsPerThread] = {};
  add_product_abt<kHeadDimQK>(s, smem.q, smem.k);

  q_t *to = scores_row(params, place, i0, heads_q, len_q) + j0;
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++)
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++)
      if (tile_row(i) < rows && tile_column(c) < columns)
        to[tile_row(i) * params.scores_pitch + tile_column(c)] = from_float(scale * s[i][c]);
}
