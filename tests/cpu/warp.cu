// warp.cu - what lanes of a warp exchange, and atomics; right and wrong.
struct P {
  unsigned *in, *out;
  float *floats;
};

extern "C" __global__ void __launch_bounds__(32) exchange(const __grid_constant__ P p) {
  u32 t = threadIdx.x, x = p.in[t], full = ~0u; int all; u32 *o = p.out + t;
  o[0 * 32] = __shfl_xor_sync(full, x, 4);
  o[1 * 32] = __shfl_up_sync(full, x, 3);
  o[2 * 32] = __shfl_down_sync(full, x, 5);
  o[3 * 32] = __shfl_sync(full, x, (t * 7) & 31);
  o[4 * 32] = __shfl_xor_sync(full, x, 9, 8);
  o[5 * 32] = __shfl_up_sync(full, x, 2, 8);
  o[6 * 32] = __shfl_down_sync(full, x, 1, 16);
  o[7 * 32] = __shfl_sync(full, x, t + 3, 4);
  o[8 * 32] = __ballot_sync(full, x & 1);
  o[9 * 32] = __any_sync(full, x == 0) | __all_sync(full, t < 32) << 1 |
              __any_sync(full, t == 40) << 2 | __all_sync(full, t < 31) << 3 |
              __uni_sync(full, t < 40) << 4 | __uni_sync(full, t < 4) << 5;
  o[10 * 32] = __match_any_sync(full, x % 5);
  o[11 * 32] = __match_any_sync(full, (unsigned long long)(x % 3) << 33);
  o[12 * 32] = __match_all_sync(full, t / 40, &all) & (all ? ~0u : 0);
  o[13 * 32] = __match_all_sync(full, t / 20, &all) | (all ? 1 : 0);
  o[14 * 32] = __reduce_add_sync(full, x);
  o[15 * 32] = __reduce_min_sync(full, x);
  o[16 * 32] = __reduce_max_sync(full, (int)(x << 7));
  o[17 * 32] = __reduce_and_sync(full, x | 0xff);
  o[18 * 32] = __reduce_or_sync(full, x);
  o[19 * 32] = __reduce_xor_sync(full, x);
  u32 leader = 9, chosen;
  asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.u32 %1, 1, 0, p; }"
               : "=r"(leader), "=r"(chosen));
  o[20 * 32] = leader; o[21 * 32] = chosen;
  if (t & 2) { o[22 * 32] = __activemask(); o[23 * 32] = __ballot_sync(0xcccccccc, t > 9); }
  u32 v, inside;
  asm volatile("{ .reg .pred p; shfl.sync.down.b32 %0|p, %2, 4, 31, -1;"
               "selp.u32 %1, 1, 0, p; }" : "=r"(v), "=r"(inside) : "r"(x));
  o[24 * 32] = v; o[25 * 32] = inside;
}

extern "C" __global__ void __launch_bounds__(64) atomics(const __grid_constant__ P p) {
  __shared__ u32 s[8]; __shared__ float f;
  u32 t = threadIdx.x, *o = p.out;
  if (t < 8) s[t] = t == 3 ? ~0u : 0;
  if (t == 0) f = 0;
#if FAULT != 1
  __syncthreads();
#endif
  atomicAdd(s, t); atomicMax(s + 1, t * 3 % 64); atomicInc(s + 2, 9); /*@1*/
  atomicMin((int *)s + 3, -(int)t); atomicXor(s + 4, 1u << t % 32);
  u32 old = atomicCAS(s + 5, 0, t + 1); atomicOr(s + 6, old == 0 ? t + 1 : 0);
  atomicAdd(&f, 0.5f * t);
  __syncthreads();
  if (t < 8) o[t] = s[t];
  if (t == 0) p.floats[0] = f;
  atomicAdd(o + 8, t); atomicMax((int *)o + 9, (int)t - 5); atomicAdd((u64 *)o + 5, (u64)t << 31);
  o[64 + blockIdx.x * 64 + t] = atomicAdd(o + 12, 1); atomicExch(o + 13, 7);
  atomicAnd(o + 14, ~(1u << t % 32)); atomicAdd(p.floats + 1, 0.25f);
  atomicAdd((float4 *)(p.floats + 4), make_float4(1, 2, 3, 4));
  atomicAdd((float2 *)(p.floats + 2), make_float2(1, 2));
}

extern "C" __global__ void __launch_bounds__(32) wrong_lanes(const __grid_constant__ P p) {
  u32 t = threadIdx.x, x = p.in[t], r = 0;
#if FAULT == 1
  if (t < 16) r = __ballot_sync(~0u, x & 1); /*@1*/
#elif FAULT == 2
  if (t < 16) r = __ballot_sync(0xff, x & 1); /*@2*/
#elif FAULT == 3
  if (t < 16) r = __shfl_down_sync(0xffff, x, 4); /*@3*/
#elif FAULT == 4
  if (x == p.in[5]) __trap(); /*@4*/
#endif
  p.out[t] = r;
}

// Lane 0 comes to the barrier from behind it: the others wait for what it writes.
extern "C" __global__ void __launch_bounds__(32) gather(const __grid_constant__ P p) {
  __shared__ __align__(16) u32 s[4];
  u32 t = threadIdx.x, at = (u32)__cvta_generic_to_shared(s), here, got;
  asm volatile(
      "{ .reg .pred first; setp.eq.u32 first, %2, 0;\n"
      "@first bra BEHIND;\n"
#if FAULT != 1
      "MEET: bar.warp.sync 0xffffffff;\n"
#else
      "MEET:\n"
#endif
      "activemask.b32 %0;\n"
      "ld.shared.u32 %1, [%3];\n"
      "bra DONE;\n"
      "BEHIND: st.shared.u32 [%3], 77;\n"
      "bra MEET;\n"
      "DONE: }"
      : "=r"(here), "=r"(got) : "r"(t), "r"(at) : "memory"); /*@1*/
  p.out[t] = here; p.out[32 + t] = got;
}

// Bytes of a vector, and a word that becomes 64 bits with its sign.
extern "C" __global__ void __launch_bounds__(32) widths(const __grid_constant__ P p) {
  __shared__ __align__(16) u32 s[64];
  u32 t = threadIdx.x, at = (u32)__cvta_generic_to_shared(s + 2 * t);
  unsigned short a = t, b = 200 + t, c = 255, d = 128;
  long long wide; u32 pair;
  asm volatile("st.shared.v4.u8 [%0], {%1, %2, %3, %4};" ::"r"(at), "h"(a), "h"(b), "h"(c), "h"(d) : "memory");
  asm volatile("st.shared.v2.u8 [%0], {%1, %2};" ::"r"(at + 4), "h"(c), "h"(a) : "memory");
  asm volatile("st.shared.v2.u8 [%0], {%1, %2};" ::"r"(at + 6), "h"(b), "h"(d) : "memory");
  asm volatile("ld.shared.s32 %0, [%1];" : "=l"(wide) : "r"(at) : "memory");
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(pair) : "r"(at + 4) : "memory");
  ((long long *)p.out)[t] = wide; p.out[64 + t] = pair;
}
