// Masks of a warpgroup: of steps of kBlockN keys, and of its scores by bits; a thread has two columns in
// a group of 8. Needs quad.cuh, math.cuh, bounds and kMaskHasLower of the mask.

// Of the steps of kBlockN keys from `first` to `end` those in which each of rows [i0, i1) sees all:
// [from, to). Steps before and behind them are masked.
__device__ __forceinline__ void whole_steps(MaskBounds bounds, int i0, int i1, int first, int end,
                                            int &from, int &to) {
  const int all = min(end, i0 + bounds.upper + 1) - first;  // keys that every row sees, from above
  to = max(all, 0) / kBlockN;
  from = (max(i1 - 1 + bounds.lower - first, 0) + kBlockN - 1) / kBlockN;
}

// A bit for each of a thread's columns of those below `end`; the first 32.
__device__ __forceinline__ u32 columns_below(int end) {
  const u32 at = max(end, 0), count = at / 8 * 2 + min(at % 8, 2);
  u32 above;  // of shl 32 bits are none, which C++ leaves open
  asm("shl.b32 %0, 0xffffffff, %1;" : "=r"(above) : "r"(count));
  return ~above;
}

// Scores of row h to -inf outside columns [low, high] of the thread. Bits become predicates seven at a
// time (R2P), which spares a comparison each.
template <int kElements>
__device__ __forceinline__ void mask_row(float (&s)[kElements], int h, int low, int high) {
#pragma unroll
  for (int word = 0; word < kElements / 2; word += 32) {
    u32 seen = columns_below(high + 1 - 4 * word);
    if (kMaskHasLower) seen &= ~columns_below(low - 4 * word);
#pragma unroll
    for (int c = word; c < min(word + 32, kElements / 2); c++) {
      float &x = s[c / 2 * 4 + 2 * h + c % 2];
      x = seen >> (c - word) & 1 ? x : negative_infinity();  // an if takes longer to compile
    }
  }
}

// Scores of 64 rows to -inf where a pair is not seen: before any arithmetic, since K may hold NaN
// there. Of the thread's first row, whose number is `row`, and of `row_last`, its second: `key` is
// that of its first column. A warp has 16 rows, of which a masked tile often cuts off nothing.
template <int kElements>
__device__ __forceinline__ void mask_scores(float (&s)[kElements], MaskBounds bounds, int row,
                                            int row_last, int key, int end) {
  const int low = row + bounds.lower - key, low_last = row_last + bounds.lower - key;
  const int high = min(row + bounds.upper, end - 1) - key;
  const int high_last = min(row_last + bounds.upper, end - 1) - key;
  constexpr int kColumns = 2 * kElements;
  if (!__any_sync(0xffffffff, high < kColumns - 1 || (kMaskHasLower && low_last > 0))) return;
  mask_row(s, 0, low, high), mask_row(s, 1, low_last, high_last);
}
