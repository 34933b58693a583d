// Four lanes of a warp share a row of what the tensor cores accumulate: of each group of 8 columns a
// lane has two, which rounded are a word.
__device__ __forceinline__ unsigned lane() { return threadIdx.x % 32; }

// Neighbouring lanes swap words of two groups, so that a quad stores 32 bytes at a time: an even lane
// has four columns of the left group then, an odd one of the right, from column lane % 4 / 2 * 4 on.
__device__ __forceinline__ uint2 swap_words(u32 left, u32 right) {
  const bool odd = lane() % 2;
  const u32 got = __shfl_xor_sync(0xffffffff, odd ? left : right, 1);
  return odd ? make_uint2(got, right) : make_uint2(left, got);
}
