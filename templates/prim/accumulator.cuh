// A warpgroup's accumulators: of 64 rows, 16 a warp, a thread has the elements e at
//   row     lane / 4 + 8 half(e) of the warp's
//   column  e / 4 * 8 + lane % 4 * 2 + e % 2
// Needs lanes_max of prim/math.cuh, lane of prim/quad.cuh, and order knob kChains.
__device__ __forceinline__ constexpr int half(int e) { return e / 2 % 2; }

// The largest score of row h, over the four lanes that share it. Order knob kChains: maxima in
// several chains, so that they wait less for each other.
template <int kElements>
__device__ __forceinline__ float row_max(const float (&s)[kElements], int h) {
  float chain[kChains + 1];
#pragma unroll
  for (int c = 0; c <= kChains; c++) chain[c] = s[c / 2 * 4 + 2 * h + c % 2];
#pragma unroll
  for (int c = kChains + 1; c < kElements / 2; c++)
    chain[c % (kChains + 1)] = fmaxf(chain[c % (kChains + 1)], s[c / 2 * 4 + 2 * h + c % 2]);
#pragma unroll
  for (int c = 1; c <= kChains; c++) chain[0] = fmaxf(chain[0], chain[c]);
  return lanes_max<4>(chain[0]);
}

// A row whose factor is 0, since it sees no key, gives 0, whatever V holds where others look.
template <int kElements>
__device__ __forceinline__ void clear_empty(float (&o)[kElements], const float (&factor)[2]) {
  if (factor[0] != 0 && factor[1] != 0) return;
#pragma unroll
  for (int e = 0; e < kElements; e++) o[e] = factor[half(e)] != 0 ? o[e] : 0;
}

// Where chunk `chunk` of 16 bytes of a row is, in panels of kRows rows of kPanel bytes, swizzled as
// TMA does.
template <int kPanel, int kRows>
__device__ __forceinline__ u32 swizzled_chunk(u32 tile, unsigned row, unsigned chunk) {
  constexpr int kChunks = kPanel / 16;
  const u32 at = row * kPanel + chunk % kChunks * 16;
  return tile + chunk / kChunks * (kRows * kPanel) + (at ^ (at >> 3 & (kChunks - 1) * 16));
}
