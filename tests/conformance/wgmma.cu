// wgmma.cu - wgmma by one warpgroup: shared memory holds `kWords` words of the input, which descriptors a and b
// (less the base address) make matrices of; A's registers (4 a thread) and accumulators follow in the input.
//
// What stands before this file defines, for each N: D_N and H_N, the lists of N/2 and N/4 registers; IO_N(d) and
// IOH_N(d), their constraints; X_N_i and XH_N_i, the name of the i-th operand behind them.
enum { kWords = 8192 };

DEVICE void begin(const Params& params) {
  for (u32 i = threadIdx.x; i < kWords; i += 128) smem[i] = params.in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}
DEVICE void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void finish() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Bit 61 of b, which descriptors leave 0, is the case's: the accumulators don't count.
#define BODY(count, instruction)                                              \
  begin(params);                                                                      \
  const u32 base = shared_address(smem) >> 4;                                         \
  const u64 a = params.a + base, b = (params.b & ~(1ull << 61)) + base;                 \
  const int add = !(params.b >> 61 & 1);                                              \
  const u32* registers = params.in + kWords + threadIdx.x * 4;                        \
  const u32* start = params.in + kWords + 512 + threadIdx.x * count;                  \
  u32 d[count], x[4];                                                                 \
  for (int i = 0; i < count; i++) d[i] = start[i];                                    \
  for (int i = 0; i < 4; i++) x[i] = registers[i];                                    \
  fence();                                                                            \
  instruction;                                                                        \
  finish();                                                                           \
  for (int i = 0; i < count; i++) params.out[threadIdx.x * count + i] = d[i];

#define SS(name, n, io, list, x0, x1, x2, count, types, tail)                                      \
  KERNEL(name, 128) {                                                                              \
    BODY(count,                                                                                 \
         asm volatile("{ .reg .pred p; setp.ne.b32 p, " x2 ", 0; wgmma.mma_async.sync.aligned.m64n" #n types " " list ", " x0 \
                      ", " x1 ", p, " tail "; }"                                                   \
                      : io(d) : "l"(a), "l"(b), "r"(add)))                                         \
    (void)x;                                                                                       \
  }
#define RS(name, n, io, list, x0, x1, x2, x3, x4, x5, count, types, tail)                          \
  KERNEL(name, 128) {                                                                              \
    BODY(count,                                                                                 \
         asm volatile("{ .reg .pred p; setp.ne.b32 p, " x5 ", 0; wgmma.mma_async.sync.aligned.m64n" #n types " " list ", {" x0 \
                      "," x1 "," x2 "," x3 "}, " x4 ", p, " tail "; }"                             \
                      : io(d) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(b), "r"(add)))     \
    (void)a;                                                                                       \
  }
#define SS32(name, n, types, tail) \
  SS(name, n, IO_##n, D_##n, X_##n##_0, X_##n##_1, X_##n##_2, (n / 2), types, tail)
#define RS32(name, n, types, tail)                                                                 \
  RS(name, n, IO_##n, D_##n, X_##n##_0, X_##n##_1, X_##n##_2, X_##n##_3, X_##n##_4, X_##n##_5, (n / 2), types, tail)
#define SS16(name, n, types, tail) \
  SS(name, n, IOH_##n, H_##n, XH_##n##_0, XH_##n##_1, XH_##n##_2, (n / 4), types, tail)
#define RS16(name, n, types, tail)                                                                 \
  RS(name, n, IOH_##n, H_##n, XH_##n##_0, XH_##n##_1, XH_##n##_2, XH_##n##_3, XH_##n##_4, XH_##n##_5, (n / 4), types, tail)

SS32(wgmma_bf16_n8, 8, "k16.f32.bf16.bf16", "1, 1, 0, 0")
SS32(wgmma_bf16_n24, 24, "k16.f32.bf16.bf16", "1, 1, 0, 0")
SS32(wgmma_bf16_n32, 32, "k16.f32.bf16.bf16", "1, 1, 0, 0")
SS32(wgmma_bf16_n136_tt, 136, "k16.f32.bf16.bf16", "1, 1, 1, 1")
SS32(wgmma_bf16_n256_t, 256, "k16.f32.bf16.bf16", "1, 1, 0, 1")
SS32(wgmma_bf16_n32_minus_a, 32, "k16.f32.bf16.bf16", "-1, 1, 0, 0")
SS32(wgmma_bf16_n32_minus_ab, 32, "k16.f32.bf16.bf16", "-1, -1, 0, 0")
RS32(wgmma_bf16_n32_rs, 32, "k16.f32.bf16.bf16", "1, 1, 0")
RS32(wgmma_bf16_n32_rs_t, 32, "k16.f32.bf16.bf16", "1, -1, 1")
SS32(wgmma_f16_n32, 32, "k16.f32.f16.f16", "1, 1, 0, 0")
SS32(wgmma_f16_n32_ta, 32, "k16.f32.f16.f16", "1, 1, 1, 0")
RS32(wgmma_f16_n32_rs_t, 32, "k16.f32.f16.f16", "1, 1, 1")
SS16(wgmma_half_n32, 32, "k16.f16.f16.f16", "1, 1, 0, 0")
RS16(wgmma_half_n32_rs_t, 32, "k16.f16.f16.f16", "1, 1, 1")
SS32(wgmma_tf32_n32, 32, "k8.f32.tf32.tf32", "1, 1")
RS32(wgmma_tf32_n32_rs, 32, "k8.f32.tf32.tf32", "1, 1")
SS32(wgmma_e4m3_e4m3_n32, 32, "k32.f32.e4m3.e4m3", "1, 1")
SS32(wgmma_e4m3_e5m2_n32, 32, "k32.f32.e4m3.e5m2", "1, 1")
SS32(wgmma_e5m2_e4m3_n32, 32, "k32.f32.e5m2.e4m3", "1, 1")
RS32(wgmma_e5m2_e5m2_n32_rs, 32, "k32.f32.e5m2.e5m2", "1, 1")
SS16(wgmma_half_e4m3_n32, 32, "k32.f16.e4m3.e4m3", "1, 1")
RS16(wgmma_half_e5m2_n32_rs, 32, "k32.f16.e5m2.e5m2", "1, 1")
