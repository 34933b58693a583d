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
  //@ include("prim/early.cuh")

  // The grid has a block for each head: that of its first tile of rows, which takes all
  Place place = place_of(params, blockIdx.x * ceil_div(len_q, kBlockM), batch, heads_q, heads_kv,
                         len_q, len_k, total_q, total_k);
  const int keys = place.len_k;
  const QueryRows<const q_t> q = query_rows(place, params.q, params.q_stride_batch,
                                            params.q_stride_seq, params.q_stride_head);
  const kv_t *k = first_key(place, params.k, params.k_stride_batch, params.k_stride_seq,
                            params.k_stride_head);
  const kv_t *v = first_key(place, params.v, params.v_stride_batch, params.v_stride_seq,
                            params.v_stride_head);
  const QueryRows<out_t> o = query_rows(place, params.o, params.o_stride_batch, params.o_stride_seq,
                                        params.o_stride_head);
  const QueryRows<float> lse = query_rows(place, params.lse, params.lse_stride_batch,
                                          params.lse_stride_seq, params.lse_stride_head);
  const float unit = fabsf(scale) * kLog2e;
  clear_padding<kHeadDimV>(smem.v);

  for (int j0 = 0; j0 == 0 || j0 < keys; j0 += kBlockN) {  // without keys once, for O = 0
    const int columns = min(kBlockN, keys - j0);
    load_tile<kHeadDimQK>(smem.k, k + j0 * params.k_stride_seq, params.k_stride_seq, columns);
    load_tile<kHeadDimV>(smem.v, v + j0 * params.v_stride_seq, params.v_stride_seq, columns);

    for (int i0 = 0; i0 < place.len_q; i0 += kBlockM) {
      const int count = min(kBlockM, place.len_q - i0);
      place.row0 = i0, place.row1 = i0 + count;
      load_tile<kHeadDimQK>(smem.q, q.at(i0), params.q_stride_seq, count, scale < 0 ? -1.0f : 1.0f);
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
      if (j0 > 0)
        merge(rows, o.at(i0), params.o_stride_seq, lse.at(i0), params.lse_stride_seq, count);
      store_output(o, place, rows.o);
#pragma unroll
      for (int i = 0; i < kRowsPerThread; i++)
        if (lane_n() == 0 && tile_row(i) < count)
          *lse.at(i0 + tile_row(i)) = rows.lse[i];
      __syncthreads();
    }
  }
}
