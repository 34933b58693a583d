// Elements are fp16, held as bits: NVRTC has no __half without headers.
struct elem_t {
  unsigned short bits;
};

__device__ __forceinline__ float to_float(elem_t x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
  return f;
}

// Rounds to nearest even; beyond 65504 becomes infinite.
__device__ __forceinline__ elem_t from_float(float f) {
  elem_t x;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(f));
  return x;
}

//@ include("type/16bit.cuh")
