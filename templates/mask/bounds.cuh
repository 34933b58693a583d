// A mask is bounds on the diagonal: row i keeps key j when lower <= j - i <= upper.
struct MaskBounds {
  int lower, upper;
};
constexpr int kUnbounded = 1 << 30;  // beyond any j - i: lengths and windows stay below 2^29

// What a mask leaves of rows [i0, i1) x keys [j0, j1).
enum BlockClass { kBlockEmpty, kBlockPartial, kBlockFull };

// Keys that rows [i0, i1) see, clipped to [0, len_k): [begin, end), begin == end when none.
__device__ __forceinline__ void key_range(MaskBounds bounds, int i0, int i1, int len_k, int &begin,
                                          int &end) {
  begin = max(i0 + bounds.lower, 0);
  end = min(i1 + bounds.upper, len_k);
  if (end < begin) end = begin;
}
