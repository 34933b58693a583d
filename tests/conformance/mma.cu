// mma.cu - one kernel for each mma.sync: a warp a block, registers from the input, results to the output.

// a, b: registers of A and B; operands: all of a lane; accumulators behind all lanes' operands.
#define LOAD(a, b, c)                                            \
  const u32 index = blockIdx.x * 32 + lane();                    \
  const u32* operands = params.in + index * (a + b);             \
  const u32* start = params.in + gridDim.x * 32 * (a + b) + index * c; \
  u32 x[a + b], d[c];                                            \
  for (int i = 0; i < a + b; i++) x[i] = operands[i];            \
  for (int i = 0; i < c; i++) d[i] = start[i];
#define STORE(c) \
  for (int i = 0; i < c; i++) params.out[index * c + i] = d[i];

#define K8(name, types)                                                                              \
  KERNEL(name, 32) {                                                                                 \
    LOAD(2, 1, 4)                                                                                    \
    asm volatile("mma.sync.aligned.m16n8k8.row.col." types " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};" \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2])); \
    STORE(4)                                                                                         \
  }
#define K8_HALF(name, types)                                                                         \
  KERNEL(name, 32) {                                                                                 \
    LOAD(2, 1, 2)                                                                                    \
    asm volatile("mma.sync.aligned.m16n8k8.row.col." types " {%0,%1}, {%2,%3}, {%4}, {%0,%1};"       \
                 : "+r"(d[0]), "+r"(d[1]) : "r"(x[0]), "r"(x[1]), "r"(x[2]));                        \
    STORE(2)                                                                                         \
  }
#define K16(name, shape, types)                                                                      \
  KERNEL(name, 32) {                                                                                 \
    LOAD(4, 2, 4)                                                                                    \
    asm volatile("mma.sync.aligned." shape ".row.col." types                                         \
                 " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                            \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                    \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]));                \
    STORE(4)                                                                                         \
  }
#define K16_HALF(name, types)                                                                        \
  KERNEL(name, 32) {                                                                                 \
    LOAD(4, 2, 2)                                                                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col." types " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};" \
                 : "+r"(d[0]), "+r"(d[1])                                                            \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]));                \
    STORE(2)                                                                                         \
  }

K8(mma_k8_f16, "f32.f16.f16.f32")
K8(mma_k8_bf16, "f32.bf16.bf16.f32")
K8_HALF(mma_k8_half, "f16.f16.f16.f16")
K16(mma_k16_f16, "m16n8k16", "f32.f16.f16.f32")
K16(mma_k16_bf16, "m16n8k16", "f32.bf16.bf16.f32")
K16_HALF(mma_k16_half, "f16.f16.f16.f16")
K16(mma_k8_tf32, "m16n8k8", "f32.tf32.tf32.f32")
K16(mma_k32_e4m3_e4m3, "m16n8k32", "f32.e4m3.e4m3.f32")
K16(mma_k32_e4m3_e5m2, "m16n8k32", "f32.e4m3.e5m2.f32")
K16(mma_k32_e5m2_e4m3, "m16n8k32", "f32.e5m2.e4m3.f32")
K16(mma_k32_e5m2_e5m2, "m16n8k32", "f32.e5m2.e5m2.f32")
