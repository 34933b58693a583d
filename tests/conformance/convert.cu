// convert.cu - conversions and arithmetic of narrow floats, lane by lane: kRounds words (or pairs, or triples of
// words) of the input a thread, one result each; thread i of round r reads word 32 r + i, the second operand
// kCount words on.
enum { kRounds = 32, kCount = 32 * kRounds };

#define EACH(name, body)                                                                \
  KERNEL(name, 32) {                                                                    \
    for (u32 i = lane(); i < kCount; i += 32) {                                         \
      const u32 x = params.in[i], y = params.in[kCount + i], z = params.in[2 * kCount + i]; \
      u32 d;                                                                            \
      body;                                                                             \
      params.out[i] = d; (void)x, (void)y, (void)z;                                            \
    }                                                                                   \
  }
#define WORD1(name, opcode) EACH(name, asm(opcode " %0, %1;" : "=r"(d) : "r"(x)))
#define WORD2(name, opcode) EACH(name, asm(opcode " %0, %1, %2;" : "=r"(d) : "r"(x), "r"(y)))
#define WORD3(name, opcode) EACH(name, asm(opcode " %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(z)))
#define FLOAT1(name, opcode) \
  EACH(name, asm(opcode " %0, %1;" : "=r"(d) : "f"(__uint_as_float(x))))
#define TO_INT(name, opcode) FLOAT1(name, opcode)
#define FROM_INT(name, opcode) EACH(name, float f; asm(opcode " %0, %1;" : "=f"(f) : "r"(x)); d = __float_as_uint(f))
#define FROM_LONG(name, opcode) \
  EACH(name, float f; asm(opcode " %0, %1;" : "=f"(f) : "l"((u64)x << 32 | y)); d = __float_as_uint(f))
#define TO_HALF(name, opcode) \
  EACH(name, u16 h; asm(opcode " %0, %1;" : "=h"(h) : "f"(__uint_as_float(x))); d = h)
#define FROM_HALF(name, opcode) \
  EACH(name, float f; asm(opcode " %0, %1;" : "=f"(f) : "h"((u16)x)); d = __float_as_uint(f))
#define TO_PAIR(name, opcode) \
  EACH(name, asm(opcode " %0, %1, %2;" : "=r"(d) : "f"(__uint_as_float(x)), "f"(__uint_as_float(y))))
#define TO_BYTES(name, opcode) \
  EACH(name, u16 h; asm(opcode " %0, %1, %2;" : "=h"(h) : "f"(__uint_as_float(x)), "f"(__uint_as_float(y))); d = h)
#define PAIR_TO_BYTES(name, opcode) EACH(name, u16 h; asm(opcode " %0, %1;" : "=h"(h) : "r"(x)); d = h)
#define FROM_BYTES(name, opcode) EACH(name, asm(opcode " %0, %1;" : "=r"(d) : "h"((u16)x)))
#define FLOAT2(name, opcode)                                                                                         \
  EACH(name, float f; asm(opcode " %0, %1, %2;" : "=f"(f) : "f"(__uint_as_float(x)), "f"(__uint_as_float(y)));       \
       d = __float_as_uint(f))
#define FLOAT3(name, opcode)                                                                                         \
  EACH(name, float f; asm(opcode " %0, %1, %2, %3;"                                                                  \
                          : "=f"(f) : "f"(__uint_as_float(x)), "f"(__uint_as_float(y)), "f"(__uint_as_float(z)));    \
       d = __float_as_uint(f))
#define FLOAT_TO_FLOAT(name, opcode) \
  EACH(name, float f; asm(opcode " %0, %1;" : "=f"(f) : "f"(__uint_as_float(x))); d = __float_as_uint(f))

TO_HALF(cvt_f16, "cvt.rn.f16.f32")
TO_HALF(cvt_bf16, "cvt.rn.bf16.f32")
TO_PAIR(cvt_f16x2, "cvt.rn.f16x2.f32")
TO_PAIR(cvt_bf16x2, "cvt.rn.bf16x2.f32")
TO_PAIR(cvt_f16x2_relu, "cvt.rn.relu.f16x2.f32")
TO_PAIR(cvt_bf16x2_relu, "cvt.rn.relu.bf16x2.f32")
FLOAT1(cvt_tf32, "cvt.rna.tf32.f32")
FROM_HALF(cvt_from_f16, "cvt.f32.f16")
FROM_HALF(cvt_from_bf16, "cvt.f32.bf16")
TO_BYTES(cvt_e4m3x2, "cvt.rn.satfinite.e4m3x2.f32")
TO_BYTES(cvt_e5m2x2, "cvt.rn.satfinite.e5m2x2.f32")
PAIR_TO_BYTES(cvt_e4m3x2_f16x2, "cvt.rn.satfinite.e4m3x2.f16x2")
PAIR_TO_BYTES(cvt_e5m2x2_f16x2, "cvt.rn.satfinite.e5m2x2.f16x2")
FROM_BYTES(cvt_from_e4m3x2, "cvt.rn.f16x2.e4m3x2")
FROM_BYTES(cvt_from_e5m2x2, "cvt.rn.f16x2.e5m2x2")
TO_INT(cvt_s32_rzi, "cvt.rzi.s32.f32")
TO_INT(cvt_s32_rni, "cvt.rni.s32.f32")
TO_INT(cvt_s32_rmi, "cvt.rmi.s32.f32")
TO_INT(cvt_s32_rpi, "cvt.rpi.s32.f32")
TO_INT(cvt_u32_rzi, "cvt.rzi.u32.f32")
FLOAT_TO_FLOAT(cvt_f32_rni, "cvt.rni.f32.f32")
FLOAT_TO_FLOAT(cvt_f32_rpi, "cvt.rpi.f32.f32")
FLOAT_TO_FLOAT(cvt_f32_sat, "cvt.sat.f32.f32")
FROM_INT(cvt_from_s32, "cvt.rn.f32.s32")
FROM_INT(cvt_from_u32, "cvt.rn.f32.u32")
FROM_LONG(cvt_from_s64, "cvt.rn.f32.s64")
FROM_LONG(cvt_from_u64, "cvt.rn.f32.u64")

WORD2(add_f16x2, "add.f16x2")
WORD2(sub_f16x2, "sub.f16x2")
WORD2(mul_f16x2, "mul.f16x2")
WORD3(fma_f16x2, "fma.rn.f16x2")
WORD3(fma_relu_f16x2, "fma.rn.relu.f16x2")
WORD2(max_f16x2, "max.f16x2")
WORD2(min_f16x2, "min.f16x2")
WORD2(add_bf16x2, "add.bf16x2")
WORD2(mul_bf16x2, "mul.bf16x2")
WORD3(fma_bf16x2, "fma.rn.bf16x2")
WORD2(max_bf16x2, "max.bf16x2")
WORD2(min_bf16x2, "min.bf16x2")

FLOAT2(add_f32, "add.rn.f32")
FLOAT2(mul_f32, "mul.rn.f32")
FLOAT3(fma_f32, "fma.rn.f32")
FLOAT2(add_ftz_f32, "add.rn.ftz.f32")
FLOAT2(mul_ftz_f32, "mul.rn.ftz.f32")
FLOAT3(fma_ftz_f32, "fma.rn.ftz.f32")
FLOAT2(max_f32, "max.f32")
FLOAT2(min_f32, "min.f32")
FLOAT2(div_f32, "div.rn.f32")
FLOAT_TO_FLOAT(rcp_f32, "rcp.rn.f32")
FLOAT_TO_FLOAT(sqrt_f32, "sqrt.rn.f32")

// Approximations, compared within ulps.
FLOAT_TO_FLOAT(ex2_f32_approx, "ex2.approx.ftz.f32")
FLOAT_TO_FLOAT(lg2_f32_approx, "lg2.approx.ftz.f32")
FLOAT_TO_FLOAT(rcp_f32_approx, "rcp.approx.ftz.f32")
FLOAT_TO_FLOAT(rsqrt_f32_approx, "rsqrt.approx.ftz.f32")
FLOAT_TO_FLOAT(tanh_f32_approx, "tanh.approx.f32")
WORD1(ex2_approx_f16x2, "ex2.approx.f16x2")
WORD1(ex2_approx_bf16x2, "ex2.approx.ftz.bf16x2")
WORD1(tanh_approx_f16x2, "tanh.approx.f16x2")
