// Shared memory by address.
__device__ __forceinline__ u32 shared_address(const void *at) {
  return (u32)__cvta_generic_to_shared(at);
}
