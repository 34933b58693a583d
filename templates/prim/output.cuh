// Rows of O in registers, as add_product_ab leaves them: kGroupsV groups of kVecV columns a row.
constexpr int kGroupsV = (kHeadDimV + kLanesN * kVecV - 1) / (kLanesN * kVecV);

// Stores the thread's part of `rows` rows. Groups beyond kHeadDimV are padding of the tile of V:
// they were computed from its zeros, and end here.
__device__ __forceinline__ void store_output(
    out_t *to, i64 stride, int rows, const float (&o)[kRowsPerThread][kGroupsV][kVecV]) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    if (tile_row(i) >= rows) continue;
#pragma unroll
    for (int g = 0; g < kGroupsV; g++) {
      const int column = tile_column(g) * kVecV;
      if (column < kHeadDimV) store_elems<kAligned>(to + tile_row(i) * stride + column, o[i][g]);
    }
  }
}
