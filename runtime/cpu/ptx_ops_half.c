/* ptx_ops_half.c - arithmetic on fp16 and bf16, alone and in pairs, and the conversions of 8-bit
 * floats. Results are rounded once, to nearest even; subnormals count, as PTX says. The
 * approximations (ex2, tanh) are the C library's, rounded.
 *
 * A pair is a 32-bit register: the first element in the low half. */
#include "mma.h"
#include "narrow.h"

/* One element from one, two or three, as doubles; products and sums of these are exact or carry the
 * odd bit. */
typedef double element_of(double a, double b, double c);

static double add(double a, double b, double c) {
  (void)c;
  return add_odd(a, b);
}
static double subtract(double a, double b, double c) {
  (void)c;
  return add_odd(a, -b);
}
static double multiply(double a, double b, double c) {
  (void)c;
  return a * b;
}
static double fused(double a, double b, double c) {
  return add_odd(a * b, c);
}
static double fused_relu(double a, double b, double c) {
  double x = add_odd(a * b, c);
  return x <= 0 ? 0 : x;
}
static double negate(double a, double b, double c) {
  (void)b, (void)c;
  return -a;
}
static double absolute(double a, double b, double c) {
  (void)b, (void)c;
  return fabs(a);
}
/* The operand that is no NaN; -0 lies below +0. */
static double greater(double a, double b, double c) {
  (void)c;
  return a == b ? (signbit(a) ? b : a) : fmax(a, b);
}
static double lesser(double a, double b, double c) {
  (void)c;
  return a == b ? (signbit(a) ? a : b) : fmin(a, b);
}
static double exponential(double a, double b, double c) {
  (void)b, (void)c;
  return exp2(a);
}
static double exponential_ftz(double a, double b, double c) {
  double x = exponential(a, b, c);
  return x < 0x1p-126 ? 0 : x;
}
static double hyperbolic(double a, double b, double c) {
  (void)b, (void)c;
  return tanh(a);
}

static double from_half(uint32_t x) {
  return attune__f32(half_to_float(x & 0xffff));
}
static double from_bf16(uint32_t x) {
  return attune__f32(bf16_to_float(x & 0xffff));
}

#define EACH_LANE(l, mask)                                                                         \
  for (uint32_t l = 0; l < ATTUNE__LANES; l++)                                                     \
    if ((mask) >> l & 1)
/* Neg and abs of NaN are NaN with any sign; the GPU's is canonical. */
#define OPCODE(name, function, type, pair)                                                         \
  static void name(attune__warp *w, const attune__ins *i, uint32_t active) {                       \
    uint32_t *d = attune__r32(w, i, 0), n = i->operands;                                           \
    const uint32_t *a = attune__r32(w, i, 1);                                                      \
    const uint32_t *b = n > 2 ? attune__r32(w, i, 2) : a, *c = n > 3 ? attune__r32(w, i, 3) : a;   \
    EACH_LANE(l, active) {                                                                         \
      uint32_t low =                                                                               \
          double_to_##type(function(from_##type(a[l]), from_##type(b[l]), from_##type(c[l])));     \
      uint32_t high =                                                                              \
          !pair ? 0                                                                                \
                : double_to_##type(function(from_##type(a[l] >> 16), from_##type(b[l] >> 16),      \
                                            from_##type(c[l] >> 16)));                             \
      d[l] = low | high << 16;                                                                     \
    }                                                                                              \
  }
#define ALL(X)                                                                                     \
  X(add, add)                                                                                      \
  X(sub, subtract)                                                                                 \
  X(mul, multiply)                                                                                 \
  X(fma, fused)                                                                                    \
  X(fma_relu, fused_relu)                                                                          \
  X(neg, negate)                                                                                   \
  X(abs, absolute)                                                                                 \
  X(max, greater)                                                                                  \
  X(min, lesser)                                                                                   \
  X(tanh, hyperbolic)
#define FOUR(name, function)                                                                       \
  OPCODE(name##_f16, function, half, 0)                                                            \
  OPCODE(name##_f16x2, function, half, 1)                                                          \
  OPCODE(name##_bf16, function, bf16, 0)                                                           \
  OPCODE(name##_bf16x2, function, bf16, 1)
ALL(FOUR)
OPCODE(ex2_lanes_f16, exponential, half, 0)
OPCODE(ex2_lanes_f16x2, exponential, half, 1)
OPCODE(ex2_lanes_bf16, exponential_ftz, bf16, 0)
OPCODE(ex2_lanes_bf16x2, exponential_ftz, bf16, 1)

/* Exponentials are counted, by element. */
#define COUNTED(type, elements)                                                                    \
  static void ex2_##type(attune__warp *w, const attune__ins *i, uint32_t active) {                 \
    w->engine->count.exp2 += elements * (unsigned)__builtin_popcount(active);                      \
    ex2_lanes_##type(w, i, active);                                                                \
  }
COUNTED(f16, 1)
COUNTED(f16x2, 2)
COUNTED(bf16, 1)
COUNTED(bf16x2, 2)

/* ---- 8 bits ------------------------------------------------------------------------------------
 */

/* The first source goes into the upper byte. */
#define TO_PAIR(type)                                                                              \
  static void type##_f32(attune__warp *w, const attune__ins *i, uint32_t active) {                 \
    uint32_t *d = attune__r32(w, i, 0);                                                            \
    const uint32_t *a = attune__r32(w, i, 1), *b = attune__r32(w, i, 2);                           \
    attune__require_cc(w, 89);                                                                     \
    EACH_LANE(l, active)                                                                           \
    d[l] = float_to_##type(attune__f32(a[l])) << 8 | float_to_##type(attune__f32(b[l]));           \
  }                                                                                                \
  static void type##_f16x2(attune__warp *w, const attune__ins *i, uint32_t active) {               \
    uint32_t *d = attune__r32(w, i, 0);                                                            \
    const uint32_t *a = attune__r32(w, i, 1);                                                      \
    attune__require_cc(w, 89);                                                                     \
    EACH_LANE(l, active)                                                                           \
    d[l] = float_to_##type((float)from_half(a[l] >> 16)) << 8 |                                    \
           float_to_##type((float)from_half(a[l]));                                                \
  }                                                                                                \
  static void f16x2_##type(attune__warp *w, const attune__ins *i, uint32_t active) {               \
    uint32_t *d = attune__r32(w, i, 0);                                                            \
    const uint32_t *a = attune__r32(w, i, 1);                                                      \
    attune__require_cc(w, 89);                                                                     \
    EACH_LANE(l, active)                                                                           \
    d[l] = float_to_half(type##_to_float(a[l] >> 8 & 0xff)) << 16 |                                \
           float_to_half(type##_to_float(a[l] & 0xff));                                            \
  }
TO_PAIR(e4m3)
TO_PAIR(e5m2)

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(name, operands, run)                                                                   \
  { name, operands, run, 0, 0, NULL }
#define TYPES(name, run, one, pair)                                                                \
  ROW(name ".f16", "H," one, run##_f16), ROW(name ".f16x2", "W," pair, run##_f16x2),               \
      ROW(name ".bf16", "H," one, run##_bf16), ROW(name ".bf16x2", "W," pair, run##_bf16x2)
#define UNARY_TYPES(name, run)   TYPES(name, run, "h", "w")
#define BINARY_TYPES(name, run)  TYPES(name, run, "h,h", "w,w")
#define TERNARY_TYPES(name, run) TYPES(name, run, "h,h,h", "w,w,w")

static const attune__opcode rows[] = {
    BINARY_TYPES("add", add),
    BINARY_TYPES("add.rn", add),
    BINARY_TYPES("sub", sub),
    BINARY_TYPES("sub.rn", sub),
    BINARY_TYPES("mul", mul),
    BINARY_TYPES("mul.rn", mul),
    TERNARY_TYPES("fma.rn", fma),
    TERNARY_TYPES("fma.rn.relu", fma_relu),
    UNARY_TYPES("neg", neg),
    UNARY_TYPES("abs", abs),
    BINARY_TYPES("max", max),
    BINARY_TYPES("min", min),
    UNARY_TYPES("tanh.approx", tanh),
    ROW("ex2.approx.f16", "H,h", ex2_f16),
    ROW("ex2.approx.f16x2", "W,w", ex2_f16x2),
    ROW("ex2.approx.ftz.bf16", "H,h", ex2_bf16),
    ROW("ex2.approx.ftz.bf16x2", "W,w", ex2_bf16x2),
    ROW("cvt.rn.satfinite.e4m3x2.f32", "H,w,w", e4m3_f32),
    ROW("cvt.rn.satfinite.e5m2x2.f32", "H,w,w", e5m2_f32),
    ROW("cvt.rn.satfinite.e4m3x2.f16x2", "H,w", e4m3_f16x2),
    ROW("cvt.rn.satfinite.e5m2x2.f16x2", "H,w", e5m2_f16x2),
    ROW("cvt.rn.f16x2.e4m3x2", "W,h", f16x2_e4m3),
    ROW("cvt.rn.f16x2.e5m2x2", "W,h", f16x2_e5m2),
};

const attune__opcodes attune__ops_half = {rows, sizeof rows / sizeof rows[0]};
