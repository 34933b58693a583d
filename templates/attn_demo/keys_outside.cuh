// FlashAttention-1's order. A block owns a head: it takes kBlockN keys at a time and walks over all
// rows with them, so that K and V are read once, but O and the statistics of a row make the way to
// device memory and back for every tile of keys. The statistic is the LSE, so params.lse is needed.

// Keys j0 .. of one tile of rows: O and LSE of those keys alone.
struct Rows {
  float lse[kRowsPerThread], o[kRowsPerThread][kGroupsV][kVecV];
};

// P = 2^(unit S - max) in the place of S over `columns` keys; the max and sum of each row.
__device__ __forceinline__ void softmax(float (&s)[kRowsPerThread][kColumnsPerThread],
                                        float (&max)[kRowsPerThread], float (&sum)[kRowsPerThread],
                                        float unit, int columns) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    float largest = negative_infinity(), total = 0;
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++)
      if (tile_column(c) < columns) largest = fmaxf(largest, s[i][c]);
    max[i] = lanes_max<kLanesN>(largest) * unit;
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++) {
      s[i][c] = tile_column(c) < columns ? exp2_approx(fmaf(s[i][c], unit, -max[i])) : 0;
      total += s[i][c];
    }
    sum[i] = lanes_sum<kLanesN>(total);
  }
}

// Makes o and lse those of all keys so far: o_old and lse_old are what device memory holds.
__device__ __forceinline__ void merge(Rows &rows, const out_t *o_old, i64 o_stride,
                                      const float *lse_old, i64 lse_stride, int count) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    const int row = tile_row(i);
    float before = lane_n() == 0 && row < count ? lse_old[row * lse_stride] : 0;
    before = __shfl_sync(0xffffffff, before, 0, kLanesN);
    if (row >= count) continue;
    const float larger = fmaxf(before, rows.lse[i]);
    const float a = exp2_approx((before - larger) * kLog2e);
    const float b = exp2_approx((rows.lse[i] - larger) * kLog2e);
    const float factor = row_factor(a + b);
#pragma unroll
    for (int g = 0; g < kGroupsV; g++)
#pragma unroll
      for (int e = 0; e < kVecV; e++) {
        const int column = tile_column(g) * kVecV + e;
        const float old = column < kHeadDimV ? to_float(o_old[row * o_stride + column]) : 0;
        rows.o[i][g][e] = (a * old + b * rows.o[i][g][e]) * factor;
      }
    rows.lse[i] = larger + logf(a + b);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSM)
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(16) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  //@ include("prim/scalars.cuh")

  // The grid has a block for each head
  const BlockPlace place = block_place(blockIdx.x, 1, heads_q);
  const int keys = keys_in_use(params.seqused_k, place.sequence, len_k);
  const int head_kv = place.head / (heads_q / heads_kv);
  const q_t *q =
      params.q + place.sequence * params.q_stride_batch + place.head * params.q_stride_head;
  const kv_t *k = params.k + place.sequence * params.k_stride_batch + head_kv * params.k_stride_head;
  const kv_t *v = params.v + place.sequence * params.v_stride_batch + head_kv * params.v_stride_head;
  out_t *o = params.o + place.sequence * params.o_stride_batch + place.head * params.o_stride_head;
  float *lse =
      params.lse + place.sequence * params.lse_stride_batch + place.head * params.lse_stride_head;
  const float unit = fabsf(scale) * kLog2e;
  clear_padding<kHeadDimV>(smem.v);

  for (int j0 = 0; j0 == 0 || j0 < keys; j0 += kBlockN) {  // without keys once, for O = 0
    const int columns = min(kBlockN, keys - j0);
    load_tile<kHeadDimQK>(smem.k, k + j0 * params.k_stride_seq, params.k_stride_seq, columns);
    load_tile<kHeadDimV>(smem.v, v + j0 * params.v_stride_seq, params.v_stride_seq, columns);

    for (int i0 = 0; i0 < len_q; i0 += kBlockM) {
      const int count = min(kBlockM, len_q - i0);
      load_tile<kHeadDimQK>(smem.q, q + i0 * params.q_stride_seq, params.q_stride_seq, count,
                            scale < 0 ? -1.0f : 1.0f);
      __syncthreads();

      // S = Q K^T, P = exp(scale S - max), O = P V / sum, of these keys alone
      float s[kRowsPerThread][kColumnsPerThread] = {}, max[kRowsPerThread], sum[kRowsPerThread];
      Rows rows = {};
      add_product_abt<kHeadDimQK>(s, smem.q, smem.k);
      softmax(s, max, sum, unit, columns);
      share_p(smem, s);
      add_product_ab<kBlockN>(rows.o, smem.p, smem.v);
#pragma unroll
      for (int i = 0; i < kRowsPerThread; i++) {
        const float factor = row_factor(sum[i]);
        rows.lse[i] = row_lse(max[i], sum[i]);
#pragma unroll
        for (int g = 0; g < kGroupsV; g++)
#pragma unroll
          for (int e = 0; e < kVecV; e++) rows.o[i][g][e] *= factor;
      }

      // O and LSE come in, are merged, and go out again
      out_t *o_here = o + i0 * params.o_stride_seq;
      float *lse_here = lse + i0 * params.lse_stride_seq;
      if (j0 > 0)
        merge(rows, o_here, params.o_stride_seq, lse_here, params.lse_stride_seq, count);
      store_output(o_here, params.o_stride_seq, count, rows.o);
#pragma unroll
      for (int i = 0; i < kRowsPerThread; i++)
        if (lane_n() == 0 && tile_row(i) < count)
          lse_here[tile_row(i) * params.lse_stride_seq] = rows.lse[i];
      __syncthreads();
    }
  }
}
