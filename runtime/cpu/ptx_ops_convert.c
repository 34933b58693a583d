/* ptx_ops_convert.c - cvt: between integers, fp32, fp16 and bf16. Conversions from float to integer
 * saturate and make NaN 0 (for 64 bits: the lowest), as PTX says. */
#include "lanes.h"
#include "narrow.h"

#include <math.h>

/* ---- integers ---------------------------------------------------------------------------------
 */

UNARY(s64_s32, uint64_t, int32_t, a[l])
UNARY(u64_u32, uint64_t, uint32_t, a[l])
UNARY(u32_u64, uint32_t, uint64_t, a[l])
UNARY(u16_u32, uint32_t, uint32_t, a[l] & 0xffff)
UNARY(u16_u64, uint32_t, uint64_t, a[l] & 0xffff)
UNARY(u32_u16, uint32_t, uint32_t, a[l])
UNARY(s32_s16, uint32_t, uint32_t, (int16_t)a[l])
UNARY(s64_s16, uint64_t, uint32_t, (int64_t)(int16_t)a[l])
UNARY(u64_u16, uint64_t, uint32_t, a[l])
UNARY(s32_s8, uint32_t, uint32_t, (int8_t)a[l])
UNARY(u32_u8, uint32_t, uint32_t, a[l] & 0xff)
UNARY(s16_s8, uint32_t, uint32_t, (uint16_t)(int8_t)a[l])

/* ---- integers and fp32 ------------------------------------------------------------------------
 */

UNARY(f32_s32, uint32_t, int32_t, attune__bits((float)a[l]))
UNARY(f32_u32, uint32_t, uint32_t, attune__bits((float)a[l]))
UNARY(f32_s64, uint32_t, int64_t, attune__bits((float)a[l]))
UNARY(f32_u64, uint32_t, uint64_t, attune__bits((float)a[l]))
UNARY(f32_s16, uint32_t, uint32_t, attune__bits((float)(int16_t)a[l]))
UNARY(f32_u16, uint32_t, uint32_t, attune__bits((float)a[l]))

INLINE uint32_t to_s32(float x) {
  if (!(x == x)) return 0;
  return x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? (uint32_t)INT32_MIN : (uint32_t)(int32_t)x;
}
INLINE uint32_t to_u32(float x) {
  if (!(x > 0)) return 0;
  return x >= 0x1p32f ? UINT32_MAX : (uint32_t)x;
}
#define TO_INTEGER(round, f)                                                                       \
  UNARY(s32_f32_##round, uint32_t, uint32_t, to_s32(f(attune__f32(a[l]))))                         \
  UNARY(u32_f32_##round, uint32_t, uint32_t, to_u32(f(attune__f32(a[l]))))                         \
  UNARY(f32_f32_##round, uint32_t, uint32_t, attune__bits(f(attune__f32(a[l]))))
TO_INTEGER(rzi, truncf)
TO_INTEGER(rni, rintf)
TO_INTEGER(rmi, floorf)
TO_INTEGER(rpi, ceilf)

UNARY(f32_sat, uint32_t, uint32_t,
      attune__f32(a[l]) > 0 ? (attune__f32(a[l]) < 1 ? a[l] : 0x3f800000) : 0)

/* ---- fp16 and bf16 -----------------------------------------------------------------------------
 */

UNARY(f32_f16, uint32_t, uint32_t, half_to_float(a[l]))
UNARY(f32_bf16, uint32_t, uint32_t, a[l] << 16)
UNARY(f16_f32, uint32_t, uint32_t, float_to_half(a[l]))
UNARY(bf16_f32, uint32_t, uint32_t, float_to_bf16(a[l]))
UNARY(tf32_f32, uint32_t, uint32_t, float_to_tf32(a[l]))
/* The first source goes into the upper half. */
BINARY(f16x2_f32, uint32_t, uint32_t, uint32_t, float_to_half(a[l]) << 16 | float_to_half(b[l]))
BINARY(bf16x2_f32, uint32_t, uint32_t, uint32_t, float_to_bf16(a[l]) << 16 | float_to_bf16(b[l]))
BINARY(f16x2_relu, uint32_t, uint32_t, uint32_t,
       float_to_half(relu(a[l])) << 16 | float_to_half(relu(b[l])))
BINARY(bf16x2_relu, uint32_t, uint32_t, uint32_t,
       float_to_bf16(relu(a[l])) << 16 | float_to_bf16(relu(b[l])))

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(name, operands, run)                                                                   \
  { name, operands, run, 0, 0, NULL }
#define ROUND_INTEGER(mode)                                                                        \
  ROW("cvt." #mode ".s32.f32", "W,w", s32_f32_##mode),                                             \
      ROW("cvt." #mode ".u32.f32", "W,w", u32_f32_##mode),                                         \
      ROW("cvt." #mode ".f32.f32", "W,w", f32_f32_##mode)

static const attune__opcode rows[] = {
    ROW("cvt.s64.s32", "D,w", s64_s32),
    ROW("cvt.u64.s32", "D,w", s64_s32),
    ROW("cvt.u64.u32", "D,w", u64_u32),
    ROW("cvt.s64.u32", "D,w", u64_u32),
    ROW("cvt.u32.u64", "W,d", u32_u64),
    ROW("cvt.s32.s64", "W,d", u32_u64),
    ROW("cvt.s32.u64", "W,d", u32_u64),
    ROW("cvt.u32.s64", "W,d", u32_u64),
    ROW("cvt.u16.u32", "H,w", u16_u32),
    ROW("cvt.s16.s32", "H,w", u16_u32),
    ROW("cvt.u16.u64", "H,d", u16_u64),
    ROW("cvt.u32.u16", "W,h", u32_u16),
    ROW("cvt.s32.u16", "W,h", u32_u16),
    ROW("cvt.s32.s16", "W,h", s32_s16),
    ROW("cvt.u32.s16", "W,h", s32_s16),
    ROW("cvt.s64.s16", "D,h", s64_s16),
    ROW("cvt.u64.u16", "D,h", u64_u16),
    ROW("cvt.s32.s8", "W,w", s32_s8),
    ROW("cvt.u32.u8", "W,w", u32_u8),
    ROW("cvt.s16.s8", "H,h", s16_s8),
    ROW("cvt.u16.u8", "H,h", u32_u8),

    ROW("cvt.rn.f32.s32", "W,w", f32_s32),
    ROW("cvt.rn.f32.u32", "W,w", f32_u32),
    ROW("cvt.rn.f32.s64", "W,d", f32_s64),
    ROW("cvt.rn.f32.u64", "W,d", f32_u64),
    ROW("cvt.rn.f32.s16", "W,h", f32_s16),
    ROW("cvt.rn.f32.u16", "W,h", f32_u16),
    ROUND_INTEGER(rzi),
    ROUND_INTEGER(rni),
    ROUND_INTEGER(rmi),
    ROUND_INTEGER(rpi),
    ROW("cvt.sat.f32.f32", "W,w", f32_sat),

    ROW("cvt.f32.f16", "W,h", f32_f16),
    ROW("cvt.f32.bf16", "W,h", f32_bf16),
    ROW("cvt.rn.f16.f32", "H,w", f16_f32),
    ROW("cvt.rn.bf16.f32", "H,w", bf16_f32),
    ROW("cvt.rna.tf32.f32", "W,w", tf32_f32),
    ROW("cvt.rn.f16x2.f32", "W,w,w", f16x2_f32),
    ROW("cvt.rn.bf16x2.f32", "W,w,w", bf16x2_f32),
    ROW("cvt.rn.relu.f16x2.f32", "W,w,w", f16x2_relu),
    ROW("cvt.rn.relu.bf16x2.f32", "W,w,w", bf16x2_relu),
};
const attune__opcodes attune__ops_convert = {rows, sizeof rows / sizeof *rows};
