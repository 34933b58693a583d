// What the threads know of their rows after some keys: sum and o are relative to 2^max.
struct Rows {
  float max[kRowsPerThread], sum[kRowsPerThread], o[kRowsPerThread][kGroupsV][kVecV];
};

__device__ __forceinline__ void clear(Rows &rows) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    rows.max[i] = $(features.nomax and "0" or "kLowest"), rows.sum[i] = 0;
#pragma unroll
    for (int g = 0; g < kGroupsV; g++)
#pragma unroll
      for (int e = 0; e < kVecV; e++) rows.o[i][g][e] = 0;
  }
}

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

  const BlockPlace place = block_place(blockIdx.x, ceil_div(len_q, kBlockM), heads_q);
  const int i0 = place.tile * kBlockM, rows_here = min(kBlockM, len_q - i0);
  const int keys = keys_in_use(params.seqused_k, place.sequence, len_k);
  const int head_kv = place.head / (heads_q / heads_kv);
  const q_t *q = params.q + place.sequence * params.q_stride_batch +
                 place.head * params.q_stride_head + i0 * params.q_stride_seq;
  const kv_t *k = params.k + place.sequence * params.k_stride_batch + head_kv * params.k_stride_head;
  const kv_t *v = params.v + place.sequence * params.v_stride_batch + head_kv * params.v_stride_head;

  load_tile<kHeadDimQK>(smem.q, q, params.q_stride_seq, rows_here, scale < 0 ? -1.0f : 1.0f);
  const float unit = fabsf(scale) * kLog2e;
  clear_padding<kHeadDimV>(smem.v);

  Rows rows;
  clear(rows);
  for (int j0 = 0; j0 < keys; j0 += kBlockN) {
    const int columns = min(kBlockN, keys - j0);
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

  // O /= sum, LSE = max + log(sum)
  float *lse = params.lse + place.sequence * params.lse_stride_batch +
               place.head * params.lse_stride_head + i0 * params.lse_stride_seq;
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    const float sum = lanes_sum<kLanesN>(rows.sum[i]);
    const float factor = row_factor(sum);
#pragma unroll
    for (int g = 0; g < kGroupsV; g++)
#pragma unroll
      for (int e = 0; e < kVecV; e++) rows.o[i][g][e] *= factor;
    if (params.lse && lane_n() == 0 && tile_row(i) < rows_here)
      lse[tile_row(i) * params.lse_stride_seq] = row_lse(rows.max[i], sum);
  }
  out_t *o = params.o + place.sequence * params.o_stride_batch +
             place.head * params.o_stride_head + i0 * params.o_stride_seq;
  store_output(o, params.o_stride_seq, rows_here, rows.o);
}
