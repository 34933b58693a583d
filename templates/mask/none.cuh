//@ include("mask/bounds.cuh")
// Mask none: every row keeps every key.
constexpr bool kMaskHasUpper = false;
constexpr bool kMaskHasLower = false;

__device__ __forceinline__ MaskBounds mask_bounds(int, int, int, int, int) {
  return {-kUnbounded, kUnbounded};
}
__device__ __forceinline__ BlockClass block_class(MaskBounds, int, int, int, int) {
  return kBlockFull;
}
__device__ __forceinline__ bool keep(MaskBounds, int, int) { return true; }
