/* ptx_ops_float.c - fp32 opcodes. Rounding is to nearest even, exact as on the GPU; .ftz flushes
 * subnormal inputs and results to zeros of their sign. The approximations (ex2, lg2, rcp, rsqrt,
 * tanh, div.full) are the C library's: nearer to the true value than the GPU's, never bit equal. */
#include "lanes.h"

#include <math.h>

INLINE uint32_t flush(uint32_t x) {
  return x & 0x7f800000 ? x : x & 0x80000000;
}

/* Sources and results, as they are and flushed. */
#define X        attune__f32(a[l])
#define Y        attune__f32(b[l])
#define Z        attune__f32(c[l])
#define XF       attune__f32(flush(a[l]))
#define YF       attune__f32(flush(b[l]))
#define ZF       attune__f32(flush(c[l]))
#define BITS(x)  attune__bits(x)
#define BITSF(x) flush(attune__bits(x))

/* ---- exact ------------------------------------------------------------------------------------
 */

BINARY(add, uint32_t, uint32_t, uint32_t, BITS(X + Y))
BINARY(sub, uint32_t, uint32_t, uint32_t, BITS(X - Y))
BINARY(mul, uint32_t, uint32_t, uint32_t, BITS(X *Y))
BINARY(add_ftz, uint32_t, uint32_t, uint32_t, BITSF(XF + YF))
BINARY(sub_ftz, uint32_t, uint32_t, uint32_t, BITSF(XF - YF))
BINARY(mul_ftz, uint32_t, uint32_t, uint32_t, BITSF(XF *YF))
/* Multiply-adds are counted. */
INLINE void count_fma(attune__warp *w, uint32_t active) {
  w->engine->count.fma += (unsigned)__builtin_popcount(active);
}
#define FMA(name, expression)                                                                      \
  CLONES static void name(attune__warp *w, const attune__ins *i, uint32_t active) {                \
    DESTINATION(uint32_t, d, 0);                                                                   \
    SOURCE(uint32_t, a, 1);                                                                        \
    SOURCE(uint32_t, b, 2);                                                                        \
    SOURCE(uint32_t, c, 3);                                                                        \
    count_fma(w, active);                                                                          \
    STORE_LANES(uint32_t, d, active, expression);                                                  \
  }
FMA(fma_rn, BITS(__builtin_fmaf(X, Y, Z)))
FMA(fma_rn_ftz, BITSF(__builtin_fmaf(XF, YF, ZF)))

UNARY(neg, uint32_t, uint32_t, a[l] ^ 0x80000000)
UNARY(absolute, uint32_t, uint32_t, a[l] & 0x7fffffff)
UNARY(neg_ftz, uint32_t, uint32_t, flush(a[l]) ^ 0x80000000)
UNARY(absolute_ftz, uint32_t, uint32_t, flush(a[l]) & 0x7fffffff)
UNARY(rcp_rn, uint32_t, uint32_t, BITS(1.0f / X))
UNARY(sqrt_rn, uint32_t, uint32_t, BITS(sqrtf(X)))
BINARY(div_rn, uint32_t, uint32_t, uint32_t, BITS(X / Y))
BINARY(copysign_f32, uint32_t, uint32_t, uint32_t, (b[l] & 0x7fffffff) | (a[l] & 0x80000000))

/* The operand that is no NaN, the canonical NaN when both are; -0 lies below +0: comparing the bits
 * as sign and magnitude orders them. */
static const uint32_t kNan = 0x7fffffff;
INLINE int32_t order(uint32_t x) {
  return (int32_t)(x >> 31 ? x ^ 0x7fffffff : x);
}
INLINE int is_nan(uint32_t x) {
  return (x & 0x7fffffff) > 0x7f800000;
}
INLINE uint32_t largest(uint32_t x, uint32_t y) {
  uint32_t more = order(x) > order(y) ? x : y;
  uint32_t other = is_nan(x) ? y : is_nan(y) ? x : more;
  return is_nan(other) ? kNan : other;
}
INLINE uint32_t least(uint32_t x, uint32_t y) {
  uint32_t less = order(x) < order(y) ? x : y;
  uint32_t other = is_nan(x) ? y : is_nan(y) ? x : less;
  return is_nan(other) ? kNan : other;
}
BINARY(max_f32, uint32_t, uint32_t, uint32_t, largest(a[l], b[l]))
BINARY(min_f32, uint32_t, uint32_t, uint32_t, least(a[l], b[l]))
BINARY(max_ftz, uint32_t, uint32_t, uint32_t, largest(flush(a[l]), flush(b[l])))
BINARY(min_ftz, uint32_t, uint32_t, uint32_t, least(flush(a[l]), flush(b[l])))
BINARY(max_nan, uint32_t, uint32_t, uint32_t,
       is_nan(a[l]) || is_nan(b[l]) ? kNan : largest(a[l], b[l]))
BINARY(min_nan, uint32_t, uint32_t, uint32_t,
       is_nan(a[l]) || is_nan(b[l]) ? kNan : least(a[l], b[l]))

/* ---- approximations ---------------------------------------------------------------------------
 */

/* 2^x by its Taylor polynomial on [-1/2, 1/2], coefficients log(2)^k / k!, since the C library's
 * exp2f does one lane at a time. Off by 1 ulp at most (test_cpu_exec.c); the GPU's by 2. */
INLINE uint32_t exp2_of(uint32_t bits) {
  const float magic = 0x1.8p23f; /* adding it leaves the nearest integer in the lowest bits */
  float x = attune__f32(bits);
  float bounded = x < -151 ? -151 : x > 129 ? 129 : x; /* NaN stays */
  float shifted = bounded + magic, f = bounded - (shifted - magic);
  float p = 1.5252734e-5f;
  p = __builtin_fmaf(p, f, 1.5403530e-4f);
  p = __builtin_fmaf(p, f, 1.3333558e-3f);
  p = __builtin_fmaf(p, f, 9.6181291e-3f);
  p = __builtin_fmaf(p, f, 5.5504109e-2f);
  p = __builtin_fmaf(p, f, 2.4022651e-1f);
  p = __builtin_fmaf(p, f, 6.9314718e-1f);
  p = __builtin_fmaf(p, f, 1.0f);
  /* in two steps, so that each factor is a normal number */
  uint32_t n = attune__bits(shifted) - attune__bits(magic);
  uint32_t half = (uint32_t)((int32_t)n >> 1);
  float scaled = p * attune__f32((half + 127) << 23);
  return attune__bits(scaled * attune__f32((n - half + 127) << 23));
}

/* Exponentials are counted. */
#define EX2(name, expression)                                                                      \
  CLONES static void name(attune__warp *w, const attune__ins *i, uint32_t active) {                \
    DESTINATION(uint32_t, d, 0);                                                                   \
    SOURCE(uint32_t, a, 1);                                                                        \
    w->engine->count.exp2 += (unsigned)__builtin_popcount(active);                                 \
    STORE_LANES(uint32_t, d, active, expression);                                                  \
  }
EX2(ex2, exp2_of(a[l]))
EX2(ex2_ftz, flush(exp2_of(flush(a[l]))))

UNARY(lg2, uint32_t, uint32_t, BITS(log2f(X)))
UNARY(lg2_ftz, uint32_t, uint32_t, BITS(log2f(XF)))
UNARY(rcp_ftz, uint32_t, uint32_t, BITSF(1.0f / XF))
UNARY(sqrt_ftz, uint32_t, uint32_t, BITSF(sqrtf(XF)))
UNARY(rsqrt, uint32_t, uint32_t, BITS(1.0f / sqrtf(X)))
UNARY(rsqrt_ftz, uint32_t, uint32_t, BITSF(1.0f / sqrtf(XF)))
UNARY(tanh_approx, uint32_t, uint32_t, BITS(tanhf(X)))
BINARY(div_ftz, uint32_t, uint32_t, uint32_t, BITSF(XF / YF))

/* ---- comparisons ------------------------------------------------------------------------------
 */

/* Ordered comparisons are false for NaN, unordered ones (...u) true. Flushing changes none but
 * those of a subnormal with 0 or another. */
#define COMPARISONS(suffix, x, y)                                                                  \
  COMPARE(eq##suffix, uint32_t, x == y)                                                            \
  COMPARE(ne##suffix, uint32_t, x<y || x> y)                                                       \
  COMPARE(lt##suffix, uint32_t, x < y)                                                             \
  COMPARE(le##suffix, uint32_t, x <= y)                                                            \
  COMPARE(gt##suffix, uint32_t, x > y)                                                             \
  COMPARE(ge##suffix, uint32_t, x >= y)                                                            \
  COMPARE(equ##suffix, uint32_t, !(x < y || x > y))                                                \
  COMPARE(neu##suffix, uint32_t, x != y)                                                           \
  COMPARE(ltu##suffix, uint32_t, !(x >= y))                                                        \
  COMPARE(leu##suffix, uint32_t, !(x > y))                                                         \
  COMPARE(gtu##suffix, uint32_t, !(x <= y))                                                        \
  COMPARE(geu##suffix, uint32_t, !(x < y))
COMPARISONS(_f32, X, Y)
COMPARISONS(_ftz, XF, YF)
COMPARE(num_f32, uint32_t, !is_nan(a[l]) && !is_nan(b[l]))
COMPARE(nan_f32, uint32_t, is_nan(a[l]) || is_nan(b[l]))

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(name, operands, run)                                                                   \
  { name, operands, run, 0, 0, NULL }
/* op, op.rn and, flushed, op.ftz and op.rn.ftz */
#define ROUNDED(op, operands, run)                                                                 \
  ROW(op ".f32", operands, run), ROW(op ".rn.f32", operands, run),                                 \
      ROW(op ".ftz.f32", operands, run##_ftz), ROW(op ".rn.ftz.f32", operands, run##_ftz)
#define SETP(comparison)                                                                           \
  ROW("setp." #comparison ".f32", "P,w,w", comparison##_f32),                                      \
      ROW("setp." #comparison ".ftz.f32", "P,w,w", comparison##_ftz)

static const attune__opcode rows[] = {
    ROUNDED("add", "W,w,w", add),
    ROUNDED("sub", "W,w,w", sub),
    ROUNDED("mul", "W,w,w", mul),
    ROW("fma.rn.f32", "W,w,w,w", fma_rn),
    ROW("fma.rn.ftz.f32", "W,w,w,w", fma_rn_ftz),
    ROW("neg.f32", "W,w", neg),
    ROW("neg.ftz.f32", "W,w", neg_ftz),
    ROW("abs.f32", "W,w", absolute),
    ROW("abs.ftz.f32", "W,w", absolute_ftz),
    ROW("copysign.f32", "W,w,w", copysign_f32),
    ROW("max.f32", "W,w,w", max_f32),
    ROW("min.f32", "W,w,w", min_f32),
    ROW("max.ftz.f32", "W,w,w", max_ftz),
    ROW("min.ftz.f32", "W,w,w", min_ftz),
    ROW("max.NaN.f32", "W,w,w", max_nan),
    ROW("min.NaN.f32", "W,w,w", min_nan),
    ROW("rcp.rn.f32", "W,w", rcp_rn),
    ROW("sqrt.rn.f32", "W,w", sqrt_rn),
    ROW("div.rn.f32", "W,w,w", div_rn),

    ROW("ex2.approx.f32", "W,w", ex2),
    ROW("ex2.approx.ftz.f32", "W,w", ex2_ftz),
    ROW("lg2.approx.f32", "W,w", lg2),
    ROW("lg2.approx.ftz.f32", "W,w", lg2_ftz),
    ROW("rcp.approx.f32", "W,w", rcp_rn),
    ROW("rcp.approx.ftz.f32", "W,w", rcp_ftz),
    ROW("sqrt.approx.f32", "W,w", sqrt_rn),
    ROW("sqrt.approx.ftz.f32", "W,w", sqrt_ftz),
    ROW("rsqrt.approx.f32", "W,w", rsqrt),
    ROW("rsqrt.approx.ftz.f32", "W,w", rsqrt_ftz),
    ROW("tanh.approx.f32", "W,w", tanh_approx),
    ROW("div.approx.f32", "W,w,w", div_rn),
    ROW("div.full.f32", "W,w,w", div_rn),
    ROW("div.approx.ftz.f32", "W,w,w", div_ftz),
    ROW("div.full.ftz.f32", "W,w,w", div_ftz),

    SETP(eq),
    SETP(ne),
    SETP(lt),
    SETP(le),
    SETP(gt),
    SETP(ge),
    SETP(equ),
    SETP(neu),
    SETP(ltu),
    SETP(leu),
    SETP(gtu),
    SETP(geu),
    ROW("setp.num.f32", "P,w,w", num_f32),
    ROW("setp.nan.f32", "P,w,w", nan_f32),
};
const attune__opcodes attune__ops_float = {rows, sizeof rows / sizeof *rows};
