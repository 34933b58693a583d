// Stores kCount (1, 2 or 4) neighbours; in one go when their row is aligned.
template <bool kAligned16, int kCount>
__device__ __forceinline__ void store_elems(float *to, const float (&x)[kCount]) {
  if constexpr (kAligned16 && kCount == 4) {
    *reinterpret_cast<float4 *>(to) = make_float4(x[0], x[1], x[2], x[3]);
  } else if constexpr (kAligned16 && kCount == 2) {
    *reinterpret_cast<float2 *>(to) = make_float2(x[0], x[1]);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; e++) to[e] = x[e];
  }
}
