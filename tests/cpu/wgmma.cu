// wgmma.cu - one warpgroup (or less) multiplies 64 x 16 by 16 x 8 matrices of bf16 in shared memory: the ways to
// get wgmma's registers, groups and descriptors wrong. FAULT 0 is right.
struct Params {
  const u32 *in; // 64 rows of A, 8 of B, 32 bytes each, no swizzle
  float *out;
};
static constexpr u32 kBytesA = 64 * 32;

DEV u64 descriptor(u32 at) { // 8 rows by 16 bytes, then the other half of k, then the next 8 rows
  u64 d = (u64)(at >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
#if FAULT == 1
  d |= 1ull << 49;
#elif FAULT == 2
  d |= 1ull << 55;
#endif
  return d;
}
#define FOUR(d) "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
DEV void multiply(float (&d)[4], u64 a, u64 b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, p, 1, 1, 0, 0;\n}"
               : FOUR(d) : "l"(a), "l"(b), "r"(add));
}
DEV void multiply(float (&d)[4], const u32 (&a)[4], u64 b) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p, 1, 1, 0;\n}"
               : FOUR(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kKeep> DEV void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kKeep) : "memory"); }
// A register's new value, which the compiler neither moves nor drops.
DEV void change(float &x) { asm volatile("add.f32 %0, %0, 0f3f800000;" : "+f"(x)); }
DEV void change(u32 &x) { asm volatile("xor.b32 %0, %0, 1;" : "+r"(x)); }

extern "C" __global__ void __launch_bounds__(128, 1) products(const __grid_constant__ Params p) {
  const u32 at_a = smem_base(), at_b = at_a + kBytesA;
  for (u32 i = threadIdx.x; i < (kBytesA + 8 * 32) / 4; i += blockDim.x) store_shared(at_a + 4 * i, p.in[i]);
  proxy_fence();
  __syncthreads();
  const u64 a = descriptor(at_a), b = descriptor(at_b);
  float d[4] = {0, 0, 0, 0}, other[4] = {0, 0, 0, 0};
  u32 x[4];
  const u32 r = at_a + threadIdx.x / 32 * 512 + threadIdx.x % 32 * 4; // A's fragment
  x[0] = load_shared(r), x[1] = load_shared(r + 256), x[2] = load_shared(r + 128), x[3] = load_shared(r + 384);
  wgmma_fence();
#if FAULT == 3
  const int add = threadIdx.x != 5;
#else
  const int add = 1;
#endif
#if FAULT == 4
  if (threadIdx.x / 32 != 3)
#endif
    multiply(d, a, b, add); /*@1*/ /*@2*/ /*@3*/ /*@4*/ /*@12*/
  wgmma_commit();
#if FAULT == 5 // between fence and use
  change(other[1]);
#elif FAULT == 6
  change(x[2]);
#endif
  multiply(other, x, b); /*@5*/ /*@6*/
  wgmma_commit();
#if FAULT == 7
  change(x[0]); /*@7*/
#elif FAULT == 8
  wgmma_wait<1>();
  change(other[3]); /*@8*/
#elif FAULT == 9
  store_shared(at_b + threadIdx.x % 64 * 4, 0); /*@9*/
#endif
#if FAULT == 10
  wgmma_wait<0>();
  multiply(d, a, b, add); /*@10*/
  wgmma_commit();
#endif
#if FAULT == 11
  multiply(other, a, b, add); // never committed
#endif
  wgmma_wait<0>();
  for (int i = 0; i < 4; i++) p.out[threadIdx.x * 4 + i] = d[i] + other[i]; /*@11*/
} /*@4*/
