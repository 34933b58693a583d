//@ if dtype.q == "fp32" then
__device__ __forceinline__ float tanh_of(float x) { return tanhf(x); }
//@ else
// 1 - 2 / (e^(2x) + 1): off by about 2^-22 of the softcap, far below a step of 16 bits. The GPU's own
// tanh.approx is off by 2^-11.
__device__ __forceinline__ float tanh_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(exp2_approx(x * (2 * kLog2e)) + 1));
  return fmaf(-2, y, 1);
}
//@ end
