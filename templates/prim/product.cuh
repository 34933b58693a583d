// Products of tiles in shared memory. A thread keeps its part of the result in registers and reads
// both operands four floats at a time. Loops are unrolled to about kUnrolledFmas multiply-adds: with
// more, the compiler loads ahead into so many registers that fewer blocks fit an SM.
//@ if tile.block_k > 0 then
// Tiles of long rows are small: they have more loads for each multiply-add.
//@ end
constexpr int kUnrolledFmas = $(tile.block_k > 0 and 32 or 128);

template <int kFmas>
constexpr int kStepsUnrolled = kFmas < kUnrolledFmas ? kUnrolledFmas / kFmas : 1;

template <int kCount>
__device__ __forceinline__ void read(float (&x)[kCount], const float *from) {
  if constexpr (kCount == 4) {
    const float4 all = *reinterpret_cast<const float4 *>(from);
    x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
  } else if constexpr (kCount == 2) {
    const float2 all = *reinterpret_cast<const float2 *>(from);
    x[0] = all.x, x[1] = all.y;
  } else {
    x[0] = *from;
  }
}

// s += A B^T: s[i][j] gets row tile_row(i) of A, from column kFrom on, times row tile_column(j) of B,
// kDepth long.
template <int kDepth, int kFrom = 0, int kRows, int kColumns, int kTileM, int kPitchA, int kTileN, int kPitchB>
__device__ __forceinline__ void add_product_abt(float (&s)[kRows][kColumns],
                                                const float (&a)[kTileM][kPitchA],
                                                const float (&b)[kTileN][kPitchB]) {
#pragma unroll kStepsUnrolled<kRows * kColumns * 4>
  for (int d = 0; d < kDepth; d += 4) {
    float x[kRows][4], y[kColumns][4];
#pragma unroll
    for (int i = 0; i < kRows; i++) read(x[i], &a[tile_row(i)][kFrom + d]);
#pragma unroll
    for (int j = 0; j < kColumns; j++) read(y[j], &b[tile_column(j)][d]);
#pragma unroll
    for (int e = 0; e < 4; e++)
#pragma unroll
      for (int i = 0; i < kRows; i++)
#pragma unroll
        for (int j = 0; j < kColumns; j++) s[i][j] = fmaf(x[i][e], y[j][e], s[i][j]);
  }
}

// o += A B: o[i][kFirst + g][e] gets row tile_row(i) of A, kDepth long, times column
// tile_column(g) * kVec + e of B, of which kCount groups are in use (0: all of o).
template <int kDepth, int kFirst = 0, int kCount = 0, int kRows, int kGroups, int kVec, int kTileM,
          int kPitchA, int kTileN, int kPitchB>
__device__ __forceinline__ void add_product_ab(float (&o)[kRows][kGroups][kVec],
                                               const float (&a)[kTileM][kPitchA],
                                               const float (&b)[kTileN][kPitchB]) {
  constexpr int kUsed = kCount ? kCount : kGroups;
#pragma unroll kStepsUnrolled<kRows * kUsed * kVec * 4>
  for (int n = 0; n < kDepth; n += 4) {
    float x[kRows][4];
#pragma unroll
    for (int i = 0; i < kRows; i++) read(x[i], &a[tile_row(i)][n]);
#pragma unroll
    for (int step = 0; step < 4; step++)
#pragma unroll
      for (int g = 0; g < kUsed; g++) {
        float y[kVec];
        read(y, &b[n + step][tile_column(g) * kVec]);
#pragma unroll
        for (int i = 0; i < kRows; i++)
#pragma unroll
          for (int e = 0; e < kVec; e++)
            o[i][kFirst + g][e] = fmaf(x[i][step], y[e], o[i][kFirst + g][e]);
      }
  }
}
