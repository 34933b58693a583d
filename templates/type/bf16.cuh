// Elements are bf16, the upper half of a float's bits.
struct elem_t {
  unsigned short bits;
};

__device__ __forceinline__ float to_float(elem_t x) {
  return __uint_as_float((unsigned)x.bits << 16);
}

// Rounds to nearest even.
__device__ __forceinline__ elem_t from_float(float f) {
//@ if arch.cc >= 80 then
  elem_t x;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(x.bits) : "f"(f));
  return x;
//@ else
  // No instruction before sm_80: half a step is added, less one bit where the kept half is even.
  // A NaN is set apart, since the carry could run into its sign.
  const unsigned bits = __float_as_uint(f);
  const unsigned rounded = bits + 0x7fff + (bits >> 16 & 1);
  return elem_t{(unsigned short)(f == f ? rounded >> 16 : 0x7fff)};
//@ end
}

//@ include("type/16bit.cuh")
