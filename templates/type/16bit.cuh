// Loads and stores that fp16 and bf16 share; elem_t, to_float and from_float stand above.
typedef elem_t q_t, kv_t;
typedef $(dtype.out == "fp32" and "float" or "elem_t") out_t;
constexpr int kChunk = 8;  // elements in 16 bytes

// Two elements of a 32-bit word, and back. The lower address is the lower half.
__device__ __forceinline__ float low_to_float(unsigned word) {
  return to_float(elem_t{(unsigned short)word});
}
__device__ __forceinline__ float high_to_float(unsigned word) {
  return to_float(elem_t{(unsigned short)(word >> 16)});
}
__device__ __forceinline__ unsigned pack(float low, float high) {
//@ if arch.cc >= 80 then
  unsigned word;
  asm("cvt.rn.$(dtype.q == "bf16" and "bf16x2" or "f16x2").f32 %0, %1, %2;"
      : "=r"(word)
      : "f"(high), "f"(low));
  return word;
//@ else
  return from_float(low).bits | (unsigned)from_float(high).bits << 16;
//@ end
}

// Loads kChunk elements; in one go when aligned to 16 bytes.
template <bool kAligned16>
__device__ __forceinline__ void load_chunk(const elem_t *from, float (&x)[kChunk]) {
  if constexpr (kAligned16) {
    const uint4 all = *reinterpret_cast<const uint4 *>(from);
    const unsigned word[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
    for (int w = 0; w < 4; w++) {
      x[2 * w] = low_to_float(word[w]);
      x[2 * w + 1] = high_to_float(word[w]);
    }
  } else {
#pragma unroll
    for (int e = 0; e < kChunk; e++) x[e] = to_float(from[e]);
  }
}

//@ if dtype.out == "fp32" then
//@   include("type/store_fp32.cuh")
//@ else
// Rounds and stores kCount (1, 2 or 4) neighbours; in one go when their row is aligned.
template <bool kAligned16, int kCount>
__device__ __forceinline__ void store_elems(elem_t *to, const float (&x)[kCount]) {
  if constexpr (kAligned16 && kCount == 4) {
    *reinterpret_cast<uint2 *>(to) = make_uint2(pack(x[0], x[1]), pack(x[2], x[3]));
  } else if constexpr (kAligned16 && kCount == 2) {
    *reinterpret_cast<unsigned *>(to) = pack(x[0], x[1]);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; e++) to[e] = from_float(x[e]);
  }
}
//@ end
