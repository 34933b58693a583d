//-- prim/rows.cuh - what online softmax keeps of a row in family fma, from its first key to O and LSE.
//-- Needs prim/math, place, tile and output.
// What the threads know of their rows after some keys: sum and o are relative to 2^max. A thread
// sums its own columns only; the lanes of a row are added up once, at the end.
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

//@ if features.sink then
//@   include("score/sink.cuh")

//@ end
// O /= sum and LSE = max + log(sum), to device memory
__device__ __forceinline__ void store_rows(const Params &params, const Place &place, Rows &rows) {
  const QueryRows<float> lse = query_rows(place, params.lse, params.lse_stride_batch,
                                          params.lse_stride_seq, params.lse_stride_head);
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    const int row = place.row0 + tile_row(i);
    float sum = lanes_sum<kLanesN>(rows.sum[i]);
    const bool seen = sum != 0;  // some key: else O is 0 even where V is NaN
    //@ if features.bias and dtype.q == "fp32" then
    rows.max[i] = fmaxf(rows.max[i] * kLog2e, kLowest);
    //@ end
    //@ if features.sink then
    const float sink = params.sinks[place.head_q + min(row, place.row1 - 1) % kGroup];
    const float raised = add_sink(sink, rows.max[i], sum), factor = raised * row_factor(sum);
    //@ else
    const float factor = row_factor(sum);
    //@ end
#pragma unroll
    for (int g = 0; g < kGroupsV; g++)
#pragma unroll
      for (int e = 0; e < kVecV; e++) rows.o[i][g][e] = seen ? rows.o[i][g][e] * factor : 0;
    if (params.lse && lane_n() == 0 && row < place.row1) *lse.at(row) = row_lse(rows.max[i], sum);
  }
  store_output(query_rows(place, params.o, params.o_stride_batch, params.o_stride_seq,
                          params.o_stride_head),
               place, rows.o);
}
