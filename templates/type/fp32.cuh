// Elements are fp32: no conversion.
typedef float elem_t;
typedef elem_t q_t, kv_t, out_t;
constexpr int kChunk = 4;  // elements in 16 bytes

__device__ __forceinline__ float to_float(elem_t x) { return x; }
__device__ __forceinline__ elem_t from_float(float x) { return x; }

// Loads kChunk elements; in one go when aligned to 16 bytes.
template <bool kAligned16>
__device__ __forceinline__ void load_chunk(const elem_t *from, float (&x)[kChunk]) {
  if constexpr (kAligned16) {
    const float4 all = *reinterpret_cast<const float4 *>(from);
    x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
  } else {
#pragma unroll
    for (int e = 0; e < kChunk; e++) x[e] = from[e];
  }
}

//@ include("type/store_fp32.cuh")
