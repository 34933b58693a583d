//@ include("mask/bounds.cuh")
// Mask none: every row keeps every key.
constexpr bool kMaskHasUpper = false;

__device__ __forceinline__ MaskBounds mask_bounds(int, int, int, int, int) {
  return {-kUnbounded, kUnbounded};
}
__device__ __forceinline__ BlockClass block_class(MaskBounds, int, int, int, int) {
  return kBlockFull;
}
__device__ __forceinline__ bool keep(MaskBounds, int, int) { return true; }
__device__ __forceinline__ float score(float s, int, int) { return s; }
__device__ __forceinline__ float dscore(float ds, float, int, int) { return ds; }
