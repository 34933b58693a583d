//@ include("mask/bounds.cuh")
// Mask window: row i keeps window_left keys left of its diagonal, the diagonal, and window_right
// keys right of it; -1 leaves a side unbounded.
constexpr bool kMaskHasUpper = true;
constexpr bool kMaskHasLower = true;

__device__ __forceinline__ MaskBounds mask_bounds(int window_left, int window_right,
                                                  int bottom_right, int len_q, int len_k) {
  const int offset = bottom_right ? len_k - len_q : 0;
  return {window_left < 0 ? -kUnbounded : offset - window_left,
          window_right < 0 ? kUnbounded : offset + window_right};
}
__device__ __forceinline__ BlockClass block_class(MaskBounds bounds, int i0, int i1, int j0,
                                                  int j1) {
  const int lowest = j0 - (i1 - 1), highest = j1 - 1 - i0;  // of j - i within the block
  if (highest < bounds.lower || lowest > bounds.upper) return kBlockEmpty;
  return lowest >= bounds.lower && highest <= bounds.upper ? kBlockFull : kBlockPartial;
}
__device__ __forceinline__ bool keep(MaskBounds bounds, int i, int j) {
  return j - i >= bounds.lower && j - i <= bounds.upper;
}
