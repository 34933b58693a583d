// shared.cuh - what every conformance kernel begins with: types, parameters, the block's shared memory.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct __align__(64) Params {
  u64 map[16];   // a tensor map, where the kernel takes one
  const u32* in; // operands, then accumulators
  u32* out;
  u64 a, b;      // numbers of the case: descriptors, coordinates
};

#define KERNEL(name, threads) \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ Params params)
#define DEVICE static __device__ __forceinline__

extern __shared__ __align__(1024) u32 smem[];

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE u32 lane() { return threadIdx.x % 32; }
