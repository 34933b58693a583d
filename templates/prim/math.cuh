// Softmax arithmetic. Exponentials are powers of two, the GPU's native kind; a running maximum starts
// at the lowest finite float instead of -inf, so that no difference of two of them is NaN.
constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;
constexpr float kLowest = -3.40282347e38f;

__device__ __forceinline__ float negative_infinity() { return __int_as_float(0xff800000); }

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / sum of a row, off by one ulp at most; 0 for a row that sees no key, whose O becomes 0.
__device__ __forceinline__ float row_factor(float sum) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(sum));
  return sum == 0 ? 0 : y;
}

// Natural-log LSE of a row: sum of 2^(x - max) with max in units of log2. Off by 2^-22 or two ulp of
// log(sum); -inf for a row that sees no key.
__device__ __forceinline__ float row_lse(float max_log2, float sum) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(sum));
  return fmaf(max_log2, kLn2, y * kLn2);
}

// Maximum and sum over groups of kLanes neighbouring lanes; every lane gets the result. The order
// is fixed, so that two runs agree bit for bit.
template <int kLanes>
__device__ __forceinline__ float lanes_max(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
  return x;
}
template <int kLanes>
__device__ __forceinline__ float lanes_sum(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffff, x, step);
  return x;
}
