// Rows of O in registers, as add_product_ab leaves them: kGroupsV groups of kVecV columns a row.
constexpr int kGroupsV = (kHeadDimV + kLanesN * kVecV - 1) / (kLanesN * kVecV);

// Stores the thread's part of the rows of a place. Columns beyond kHeadDimV are padding of the tile
// of V: they were computed from its zeros, and end here.
__device__ __forceinline__ void store_output(
    const QueryRows<out_t> &to, const Place &place,
    const float (&o)[kRowsPerThread][kGroupsV][kVecV]) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    const int row = place.row0 + tile_row(i);
    if (row >= place.row1) continue;
    out_t *of_row = to.at(row);
#pragma unroll
    for (int g = 0; g < kGroupsV; g++) {
      const int column = tile_column(g) * kVecV;
      if constexpr (kHeadDimV % kVecV == 0) {
        if (column < kHeadDimV) store_elems<kAligned>(of_row + column, o[i][g]);
      } else {
#pragma unroll
        for (int e = 0; e < kVecV; e++) {
          const float one[1] = {o[i][g][e]};
          if (column + e < kHeadDimV) store_elems<kAligned>(of_row + column + e, one);
        }
      }
    }
  }
}
