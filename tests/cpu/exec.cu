// exec.cu - divergence, barriers, shared and global memory: right, and wrong in each way once.
struct P {
  const u32 *in;
  u32 *out;
  int n;
};

// Lanes part in loops of different length, in nested branches and by early return.
extern "C" __global__ void __launch_bounds__(128) divergent(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, at = blockIdx.x * 128 + t;
  u32 a = 0;
  for (u32 i = 0; i < ((t * 5) & 7) + p.n; i++) {
    if ((i ^ t) & 1)
      a += p.in[i * 32 + (t & 31)];
    else
      a = a * 3 - 1;
  }
  if (t & 2) {
    a *= 5;
    if (t & 4) a ^= 0x1234;
  } else {
    for (u32 j = 0; j < (t & 3); j++) {
      a += p.in[j];
      if ((a & 63) == 7) break;
    }
  }
  if (t % 9 == 4) {
    p.out[at] = a + 1;
    return;
  }
  p.out[at] = __popc(a) & 1 ? a : ~a;
}

// Four warps hand words round, p.n times: out[t] = in[(t + 33 * n) % 128] + n.
extern "C" __global__ void __launch_bounds__(128) ring(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, base = smem_base();
  u32 x = p.in[t];
  for (int i = 0; i < p.n; i++) {
    store_shared(base + t * 4, x); /*@2*/
#if FAULT != 1
    __syncthreads();
#endif
    x = load_shared(base + (t + 33) % 128 * 4) + 1; /*@1*/ /*@2*/
#if FAULT != 2
    __syncthreads();
#endif
  }
  p.out[t] = x;
}

// Lanes of one warp hand words round.
extern "C" __global__ void __launch_bounds__(128) lanes(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, base = smem_base(), other = base + (t ^ 1) * 4;
  store_shared(base + t * 4, p.in[t]);
#if FAULT == 2
  store_shared(other, t); /*@2*/
#endif
#if FAULT != 1
  __syncwarp();
#endif
  const u32 x = load_shared(other); /*@1*/
#if FAULT != 3
  __syncwarp();
#endif
  store_shared(base + t * 4, x); /*@3*/
  p.out[t] = load_shared(base + t * 4) + load_shared(base + t * 4);
}

// Half words: neighbours share a word and are no race.
extern "C" __global__ void __launch_bounds__(128) halves(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, base = smem_base();
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(base + t * 2), "h"((unsigned short)p.in[t])
               : "memory");
  __syncthreads();
  p.out[t] = load_shared(base + (t & 63) * 4);
}

// Shared memory, one wrong access each.
extern "C" __global__ void __launch_bounds__(128) shared(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, base = smem_base();
  store_shared(base + t * 4, t);
#if FAULT == 1
  store_shared(base + 8192 - 4 + t * 4, t); /*@1*/
#elif FAULT == 2
  store_shared(base + 512 + t * 4 + 2, t); /*@2*/
#elif FAULT == 3
  store_shared(base + 512, t); /*@3*/
#elif FAULT == 4
  if (t % 32 == 0) store_shared(base + 512, t); /*@4*/
#elif FAULT == 5
  store_shared(base - 4, t); /*@5*/
#endif
  __syncthreads();
  u32 x = load_shared(base + (t ^ 32) * 4);
#if FAULT == 6
  x += load_shared(base + 1024); /*@6*/
#endif
  p.out[t] = x;
}

// Named barriers: warps 0, 1 hand to warps 2, 3, which only the latter wait for.
DEV void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
DEV void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
extern "C" __global__ void __launch_bounds__(128) named(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, base = smem_base();
  if (t < 64) {
    store_shared(base + t * 4, p.in[t]);
#if FAULT == 1
    bar_arrive(t < 32 ? 1 : 2, 128); /*@1*/
#elif FAULT == 2
    bar_arrive(1, t < 32 ? 128 : 96); /*@2*/
#elif FAULT == 3
    bar_arrive(1, 128);
    bar_arrive(1, 128); /*@3*/
#elif FAULT == 4
    if (t != 5) bar_arrive(1, 128); /*@4*/
#elif FAULT == 5
    bar_arrive(16, 128); /*@5*/
#elif FAULT == 6
    bar_arrive(1, 100); /*@6*/
#elif FAULT == 7
    if (t >= 32) return;
    bar_arrive(1, 128);
#else
    bar_arrive(1, 128);
#endif
    p.out[t] = 0;
  } else {
    bar_sync(1, 128); /*@1*/ /*@2*/ /*@7*/
    p.out[t] = load_shared(base + (t - 64) * 4);
  }
}

// Global memory, one wrong access each.
extern "C" __global__ void __launch_bounds__(128) global(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, at = blockIdx.x * 128 + t;
  u32 x = p.in[t];
#if FAULT == 1
  x += p.in[p.n + t]; /*@1*/
#elif FAULT == 2
  x += p.in[(long long)t - 1]; /*@2*/
#elif FAULT == 3
  x += *(const volatile u32 *)((const char *)p.in + t * 4 + 2); /*@3*/
#elif FAULT == 4
  *const_cast<u32 *>(p.in + t) = x + 1; /*@4*/
#elif FAULT == 5
  x += *(volatile u32 *)(p.out + t); /*@5*/
#elif FAULT == 6
  p.out[127 - t] = x;
  __syncthreads();
#elif FAULT == 8
  u32 y;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(y) : "l"((u64)(t * 4 + 4096))); /*@8*/
  x += y;
#elif FAULT == 7
  x += ((const uint2 *)(p.in + p.n - 2))[t].y; /*@7*/
#elif FAULT == 9
  if (at == 77) return;
#endif
  p.out[at] = x; /*@6*/
}
