//@ include("prim/rows.cuh")

// P = 2^(unit S - max) in the place of S, and its sum, over `columns` keys.
__device__ __forceinline__ void online_softmax(float (&s)[kRowsPerThread][kColumnsPerThread],
                                               Rows &rows, float unit, int columns) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
//@ if features.nomax then
    // Wrong on purpose: the maximum stays 0, so that large scores overflow.
//@ else
    float largest = negative_infinity();
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++)
      if (tile_column(c) < columns) largest = fmaxf(largest, s[i][c]);
    // Wrong on purpose: sum and o, which are relative to the old maximum, stay as they are.
    rows.max[i] = fmaxf(rows.max[i], lanes_max<kLanesN>(largest) * unit);
//@ end
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++) {
      s[i][c] = tile_column(c) < columns ? exp2_approx(fmaf(s[i][c], unit, -rows.max[i])) : 0;
      rows.sum[i] += s[i][c];
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSM)
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(16) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  //@ include("prim/scalars.cuh")
  //@ include("prim/early.cuh")

  //@ include("prim/prologue.cuh")
  const QueryRows<const q_t> q = query_rows(place, params.q, params.q_stride_batch,
                                            params.q_stride_seq, params.q_stride_head);
  const kv_t *k = first_key(place, params.k, params.k_stride_batch, params.k_stride_seq,
                            params.k_stride_head);
  const kv_t *v = first_key(place, params.v, params.v_stride_batch, params.v_stride_seq,
                            params.v_stride_head);

  load_tile<kHeadDimQK>(smem.q, q.at(i0), params.q_stride_seq, i1 - i0, scale < 0 ? -1.0f : 1.0f);
  const float unit = fabsf(scale) * kLog2e;
  clear_padding<kHeadDimV>(smem.v);

  Rows rows;
  clear(rows);
  for (int j0 = j_begin; j0 < j_end; j0 += kBlockN) {
    const int columns = min(kBlockN, j_end - j0);
    load_tile<kHeadDimQK>(smem.k, k + j0 * params.k_stride_seq, params.k_stride_seq, columns);
    load_tile<kHeadDimV>(smem.v, v + j0 * params.v_stride_seq, params.v_stride_seq, columns);
    __syncthreads();

    // S = Q K^T
    float s[kRowsPerThread][kColumnsPerThread] = {};
    add_product_abt<kHeadDimQK>(s, smem.q, smem.k);

    // P = exp(scale S - max), O += P V
    online_softmax(s, rows, unit, columns);
    share_p(smem, s);
    add_product_ab<kBlockN>(rows.o, smem.p, smem.v);
    __syncthreads();
  }

  store_rows(params, place, rows);
}
