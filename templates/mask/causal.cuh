//@ include("mask/bounds.cuh")
// Mask causal: row i keeps keys up to its diagonal, which starts in the top left corner or ends in
// the bottom right one.
constexpr bool kMaskHasUpper = true;
constexpr bool kMaskHasLower = false;

__device__ __forceinline__ MaskBounds mask_bounds(int, int, int bottom_right, int len_q,
                                                  int len_k) {
  return {-kUnbounded, bottom_right ? len_k - len_q : 0};
}
__device__ __forceinline__ BlockClass block_class(MaskBounds bounds, int i0, int i1, int j0,
                                                  int j1) {
  if (j0 - (i1 - 1) > bounds.upper) return kBlockEmpty;
  return j1 - 1 - i0 <= bounds.upper ? kBlockFull : kBlockPartial;
}
__device__ __forceinline__ bool keep(MaskBounds bounds, int i, int j) {
  return j - i <= bounds.upper;
}
