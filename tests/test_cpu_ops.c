/* test_cpu_ops.c - the CPU device's plain opcodes, each on random and extreme operands, against
 * what the PTX manual says of it, written down here a second time. */
#include "../gen/reference.h"
#include "cpu_kernel.h"
#include "test.h"

#include <math.h>

enum { LANES = 1024 };

/* Operands of a lane: words of 16, 32 and 64 bits by view. */
typedef struct operands {
  uint64_t a, b, c;
} operands;

/* X(name, PTX, register that holds the result, what it must be): the statement sees %a %b %c of 64,
 * %x %y %z of 32 and %h %i %j of 16 bits, the expression the same as d, w and h. */
#define U(v)  ((uint32_t)(v))
#define S(v)  ((int32_t)(v))
#define H(v)  ((uint16_t)(v))
#define SH(v) ((int16_t)(v))
#define L(v)  ((int64_t)(v))
#define F(v)  attune__f32((uint32_t)(v))
#define B(v)  attune__bits(v)
#define OPS(X)                                                                                     \
  X(add_s32, "add.s32 %w, %x, %y;", 'w', a + b)                                                    \
  X(sub_u32, "sub.u32 %w, %x, %y;", 'w', a - b)                                                    \
  X(mul_lo_s32, "mul.lo.s32 %w, %x, %y;", 'w', a *b)                                               \
  X(mad_lo_s32, "mad.lo.s32 %w, %x, %y, %z;", 'w', a *b + c)                                       \
  X(mul_hi_u32, "mul.hi.u32 %w, %x, %y;", 'w', (uint64_t)U(a) * U(b) >> 32)                        \
  X(mul_hi_s32, "mul.hi.s32 %w, %x, %y;", 'w', (int64_t)S(a) * S(b) >> 32)                         \
  X(mul_wide_s32, "mul.wide.s32 %d, %x, %y;", 'd', (int64_t)S(a) * S(b))                           \
  X(mul_wide_u32, "mul.wide.u32 %d, %x, %y;", 'd', (uint64_t)U(a) * U(b))                          \
  X(mul_wide_u16, "mul.wide.u16 %w, %h, %i;", 'w', (uint32_t)H(a) * H(b))                          \
  X(mul_hi_u16, "mul.hi.u16 %v, %h, %i;", 'h', (uint32_t)H(a) * H(b) >> 16)                        \
  X(mul_lo_s16, "mul.lo.s16 %v, %h, %i;", 'h', a *b)                                               \
  X(add_s16, "add.s16 %v, %h, %i;", 'h', a + b)                                                    \
  X(sub_s16, "sub.s16 %v, %h, %i;", 'h', a - b)                                                    \
  X(add_s64, "add.s64 %d, %a, %b;", 'd', a + b)                                                    \
  X(sub_s64, "sub.s64 %d, %a, %b;", 'd', a - b)                                                    \
  X(mul_lo_s64, "mul.lo.s64 %d, %a, %b;", 'd', a *b)                                               \
  X(mad_lo_s64, "mad.lo.s64 %d, %a, %b, %c;", 'd', a *b + c)                                       \
  X(mul_hi_u64, "mul.hi.u64 %d, %a, %b;", 'd', (unsigned __int128)a *b >> 64)                      \
  X(mul_hi_s64, "mul.hi.s64 %d, %a, %b;", 'd', (__int128)L(a) * L(b) >> 64)                        \
  X(mad_wide_s32, "mad.wide.s32 %d, %x, %y, %c;", 'd', (uint64_t)((int64_t)S(a) * S(b)) + c)       \
  X(div_u32, "div.u32 %w, %x, %y;", 'w', U(b) ? U(a) / U(b) : UINT32_MAX)                          \
  X(rem_u32, "rem.u32 %w, %x, %y;", 'w', U(b) ? U(a) % U(b) : U(a))                                \
  X(div_s32, "div.s32 %w, %x, %y;", 'w', S(b) ? (int64_t)S(a) / S(b) : -1)                         \
  X(rem_s32, "rem.s32 %w, %x, %y;", 'w', S(b) ? (int64_t)S(a) % S(b) : S(a))                       \
  X(min_s32, "min.s32 %w, %x, %y;", 'w', S(a) < S(b) ? a : b)                                      \
  X(max_u32, "max.u32 %w, %x, %y;", 'w', U(a) > U(b) ? a : b)                                      \
  X(max_s64, "max.s64 %d, %a, %b;", 'd', L(a) > L(b) ? a : b)                                      \
  X(neg_s32, "neg.s32 %w, %x;", 'w', -a)                                                           \
  X(abs_s32, "abs.s32 %w, %x;", 'w', S(a) < 0 ? -a : a)                                            \
  X(and_b32, "and.b32 %w, %x, %y;", 'w', a &b)                                                     \
  X(or_b64, "or.b64 %d, %a, %b;", 'd', a | b)                                                      \
  X(xor_b16, "xor.b16 %v, %h, %i;", 'h', a ^ b)                                                    \
  X(not_b16, "not.b16 %v, %h;", 'h', ~a)                                                           \
  X(not_b64, "not.b64 %d, %a;", 'd', ~a)                                                           \
  X(shl_b32, "shl.b32 %w, %x, %n;", 'w', n > 31 ? 0 : a << n)                                      \
  X(shl_b64, "shl.b64 %d, %a, %n;", 'd', n > 63 ? 0 : a << n)                                      \
  X(shl_b16, "shl.b16 %v, %h, %n;", 'h', n > 15 ? 0 : a << n)                                      \
  X(shr_u32, "shr.u32 %w, %x, %n;", 'w', n > 31 ? 0 : U(a) >> n)                                   \
  X(shr_s32, "shr.s32 %w, %x, %n;", 'w', S(a) >> (n > 31 ? 31 : n))                                \
  X(shr_s64, "shr.s64 %d, %a, %n;", 'd', L(a) >> (n > 63 ? 63 : n))                                \
  X(shr_u16, "shr.u16 %v, %h, %n;", 'h', n > 15 ? 0 : H(a) >> n)                                   \
  X(shr_s16, "shr.s16 %v, %h, %n;", 'h', SH(a) >> (n > 15 ? 15 : n))                               \
  X(shf_l, "shf.l.wrap.b32 %w, %x, %y, %n;", 'w',                                                  \
    n % 32 ? U(b) << n % 32 | U(a) >> (32 - n % 32) : U(b))                                        \
  X(shf_r, "shf.r.wrap.b32 %w, %x, %y, %n;", 'w',                                                  \
    n % 32 ? U(a) >> n % 32 | U(b) << (32 - n % 32) : U(a))                                        \
  X(bfe_u32, "bfe.u32 %w, %x, %n, %m;", 'w', field(U(a), n, m, 0))                                 \
  X(bfe_s32, "bfe.s32 %w, %x, %n, %m;", 'w', field(U(a), n, m, 1))                                 \
  X(bfi_b32, "bfi.b32 %w, %x, %y, %n, %m;", 'w', inserted(U(a), U(b), n, m))                       \
  X(popc, "popc.b32 %w, %x;", 'w', bits_of(U(a)))                                                  \
  X(clz, "clz.b32 %w, %x;", 'w', leading(U(a)))                                                    \
  X(brev, "brev.b32 %w, %x;", 'w', reversed(U(a)))                                                 \
  X(prmt, "prmt.b32 %w, %x, %y, %z;", 'w', permuted(U(a), U(b), U(c)))                             \
  X(lop3, "lop3.b32 %w, %x, %y, %z, 0x96;", 'w', a ^ b ^ c)                                        \
  X(lop3_select, "lop3.b32 %w, %x, %y, %z, 0xca;", 'w', (a & b) | (~a & c))                        \
  X(setp_lt_s32, "setp.lt.s32 %p, %x, %y;", 'p', S(a) < S(b))                                      \
  X(setp_ge_u32, "setp.ge.u32 %p, %x, %y;", 'p', U(a) >= U(b))                                     \
  X(setp_le_s64, "setp.le.s64 %p, %a, %b;", 'p', L(a) <= L(b))                                     \
  X(setp_gt_s16, "setp.gt.s16 %p, %h, %i;", 'p', SH(a) > SH(b))                                    \
  X(setp_ne_b64, "setp.ne.b64 %p, %a, %b;", 'p', a != b)                                           \
  X(logic,                                                                                         \
    "setp.lt.s32 %p, %x, %y; setp.eq.b32 %q, %n, %m; xor.pred %p, %p, %q; not.pred %p, %p;", 'p',  \
    !((S(a) < S(b)) ^ (n == m)))                                                                   \
  X(selp, "setp.lt.u32 %p, %x, %y; selp.b32 %w, %x, %z, %p;", 'w', U(a) < U(b) ? a : c)            \
  X(pack, "mov.b32 %w, {%h, %i};", 'w', H(a) | U(H(b)) << 16)                                      \
  X(unpack, "mov.b32 {%v, %i}, %x; mov.b32 %w, {%i, %v};", 'w', U(a) >> 16 | U(a) << 16)           \
  X(pack64, "mov.b64 %d, {%x, %y};", 'd', U(a) | (uint64_t)U(b) << 32)                             \
  X(unpack64, "mov.b64 {%w, %x}, %a; sub.s32 %w, %x, %w;", 'w', (a >> 32) - a)                     \
  X(cvt_s64_s32, "cvt.s64.s32 %d, %x;", 'd', S(a))                                                 \
  X(cvt_u64_u32, "cvt.u64.u32 %d, %x;", 'd', U(a))                                                 \
  X(cvt_s32_s16, "cvt.s32.s16 %w, %h;", 'w', SH(a))                                                \
  X(cvt_s32_s8, "cvt.s32.s8 %w, %x;", 'w', (int8_t)a)                                              \
  X(cvt_f32_s32, "cvt.rn.f32.s32 %w, %x;", 'w', B((float)S(a)))                                    \
  X(cvt_f32_u32, "cvt.rn.f32.u32 %w, %x;", 'w', B((float)U(a)))                                    \
  X(cvt_s32_f32, "cvt.rzi.s32.f32 %w, %x;", 'w',                                                   \
    saturated(trunc((double)F(a)), -0x1p31, 0x1p31 - 1))                                           \
  X(cvt_u32_f32, "cvt.rni.u32.f32 %w, %x;", 'w', saturated(rint((double)F(a)), 0, 0x1p32 - 1))     \
  X(cvt_f32_floor, "cvt.rmi.f32.f32 %w, %x;", 'f', B(floorf(F(a))))                                \
  X(cvt_f32_f16, "cvt.f32.f16 %w, %h;", 'f', B(widened(ATTUNE_DTYPE_FP16, H(a))))                  \
  X(cvt_f32_bf16, "cvt.f32.bf16 %w, %h;", 'f', B(widened(ATTUNE_DTYPE_BF16, H(a))))                \
  X(cvt_f16_f32, "cvt.rn.f16.f32 %v, %x;", 'h', narrowed(ATTUNE_DTYPE_FP16, F(a)))                 \
  X(cvt_bf16_f32, "cvt.rn.bf16.f32 %v, %x;", 'h', narrowed(ATTUNE_DTYPE_BF16, F(a)))               \
  X(cvt_f16x2, "cvt.rn.f16x2.f32 %w, %x, %y;", 'w',                                                \
    U(narrowed(ATTUNE_DTYPE_FP16, F(a))) << 16 | narrowed(ATTUNE_DTYPE_FP16, F(b)))                \
  X(cvt_bf16x2, "cvt.rn.bf16x2.f32 %w, %x, %y;", 'w',                                              \
    U(narrowed(ATTUNE_DTYPE_BF16, F(a))) << 16 | narrowed(ATTUNE_DTYPE_BF16, F(b)))                \
  X(add_f32, "add.f32 %w, %x, %y;", 'f', B(F(a) + F(b)))                                           \
  X(mul_f32, "mul.rn.f32 %w, %x, %y;", 'f', B(F(a) * F(b)))                                        \
  X(mul_ftz, "mul.ftz.f32 %w, %x, %y;", 'f', flushed(B(F(flushed(a)) * F(flushed(b)))))            \
  X(fma_f32, "fma.rn.f32 %w, %x, %y, %z;", 'f', B(fmaf(F(a), F(b), F(c))))                         \
  X(div_f32, "div.rn.f32 %w, %x, %y;", 'f', B(F(a) / F(b)))                                        \
  X(sqrt_f32, "sqrt.rn.f32 %w, %x;", 'f', B(sqrtf(F(a))))                                          \
  X(neg_f32, "neg.f32 %w, %x;", 'f', B(-F(a)))                                                     \
  X(abs_f32, "abs.f32 %w, %x;", 'f', B(fabsf(F(a))))                                               \
  X(max_f32, "max.f32 %w, %x, %y;", 'f', B(extreme(F(a), F(b), 1)))                                \
  X(min_f32, "min.f32 %w, %x, %y;", 'f', B(extreme(F(a), F(b), 0)))                                \
  X(max_nan, "max.NaN.f32 %w, %x, %y;", 'f',                                                       \
    isnan(F(a)) || isnan(F(b)) ? 0x7fffffff : B(extreme(F(a), F(b), 1)))                           \
  X(setp_lt_f32, "setp.lt.f32 %p, %x, %y;", 'p', F(a) < F(b))                                      \
  X(setp_ne_f32, "setp.ne.f32 %p, %x, %y;", 'p', isless(F(a), F(b)) || isgreater(F(a), F(b)))      \
  X(setp_neu_f32, "setp.neu.f32 %p, %x, %y;", 'p', F(a) != F(b))                                   \
  X(setp_geu_f32, "setp.geu.f32 %p, %x, %y;", 'p', !isless(F(a), F(b)))                            \
  X(setp_nan_f32, "setp.nan.f32 %p, %x, %y;", 'p', isnan(F(a)) || isnan(F(b)))                     \
  X(setp_eq_ftz, "setp.eq.ftz.f32 %p, %x, %y;", 'p', F(flushed(a)) == F(flushed(b)))

/* ---- the manual's words, once more -------------------------------------------------------------
 */

static uint32_t bit(uint32_t x, uint32_t k) {
  return x >> k & 1;
}
/* Bit by bit; the sign is the field's last bit that exists. */
static uint32_t field(uint32_t x, uint32_t at, uint32_t length, int with_sign) {
  uint32_t out = 0, last = at + length - 1 < 31 ? at + length - 1 : 31;
  uint32_t sign = with_sign && length ? bit(x, last) : 0;
  for (uint32_t k = 0; k < 32; k++) out |= (k < length && at + k < 32 ? bit(x, at + k) : sign) << k;
  return out;
}
static uint32_t inserted(uint32_t x, uint32_t into, uint32_t at, uint32_t length) {
  for (uint32_t k = 0; k < length && at + k < 32; k++)
    into = (into & ~(1u << (at + k))) | (k < 32 ? bit(x, k) : 0) << (at + k);
  return into;
}
static uint32_t bits_of(uint32_t x) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < 32; k++) n += bit(x, k);
  return n;
}
static uint32_t leading(uint32_t x) {
  uint32_t n = 0;
  while (n < 32 && !bit(x, 31 - n)) n++;
  return n;
}
static uint32_t reversed(uint32_t x) {
  uint32_t out = 0;
  for (uint32_t k = 0; k < 32; k++) out |= bit(x, k) << (31 - k);
  return out;
}
static uint32_t permuted(uint32_t a, uint32_t b, uint32_t select) {
  uint8_t bytes[8], out[4];
  memcpy(bytes, &a, 4), memcpy(bytes + 4, &b, 4);
  for (int k = 0; k < 4; k++) {
    uint32_t s = select >> 4 * k & 15;
    out[k] = s > 7 ? (bytes[s - 8] > 127 ? 255 : 0) : bytes[s];
  }
  uint32_t word;
  memcpy(&word, out, 4);
  return word;
}
static int64_t saturated(double x, double low, double high) {
  return isnan(x) ? 0 : x < low ? (int64_t)low : x > high ? (int64_t)high : (int64_t)x;
}
static uint32_t flushed(uint64_t bits) {
  uint32_t x = (uint32_t)bits;
  return fpclassify(attune__f32(x)) == FP_SUBNORMAL ? x & 0x80000000 : x;
}
/* gen's conversions are tested by themselves (test_round.c). */
static float widened(int dtype, uint16_t bits) {
  float x;
  attune__from_dtype(dtype, &bits, &x, 1);
  return x;
}
static uint16_t narrowed(int dtype, float x) {
  uint16_t bits;
  attune__to_dtype(dtype, &x, &bits, 1);
  return isnan(x) ? 0x7fff : bits;
}
static float extreme(float a, float b, int most) {
  if (isnan(a)) return isnan(b) ? attune__f32(0x7fffffff) : b;
  if (isnan(b)) return a;
  if (a == b) return (signbit(a) != 0) == most ? b : a; /* of two zeros, max takes +0 */
  return (a > b) == most ? a : b;
}

#define WANT(name, ptx, result, expression)                                                        \
  static uint64_t want_##name(const operands *o) {                                                 \
    uint64_t a = o->a, b = o->b, c = o->c;                                                         \
    uint32_t n = (uint32_t)(b % 70), m = (uint32_t)(c % 40);                                       \
    (void)a, (void)b, (void)c, (void)n, (void)m;                                                   \
    return (uint64_t)(expression);                                                                 \
  }
OPS(WANT)

/* ---- running them -----------------------------------------------------------------------------
 */

static operands in[LANES];
static uint64_t out[LANES];
typedef struct params {
  uint64_t in, out;
} params;
static params the_params;

static void bind(void *p, const uint64_t pointer[]) {
  *(params *)p = (params){pointer[0], pointer[1]};
}

static const char head[] =
    ".version 9.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .align 8 .b8 p[16])\n{\n"
    ".reg .pred %p, %q; .reg .b16 %v, %h, %i, %j; .reg .b32 %w, %x, %y, %z, %n, %m, %t;\n"
    ".reg .b64 %d, %a, %b, %c, %e, %g;\n"
    "mov.u32 %t, %tid.x; mul.wide.u32 %e, %t, 24; ld.param.u64 %g, [p]; add.s64 %e, %e, %g;\n"
    "ld.global.u64 %a, [%e]; ld.global.u64 %b, [%e+8]; ld.global.u64 %c, [%e+16];\n"
    "cvt.u32.u64 %x, %a; cvt.u32.u64 %y, %b; cvt.u32.u64 %z, %c;\n"
    "cvt.u16.u64 %h, %a; cvt.u16.u64 %i, %b; cvt.u16.u64 %j, %c;\n"
    "rem.u64 %d, %b, 70; cvt.u32.u64 %n, %d; rem.u64 %d, %c, 40; cvt.u32.u64 %m, %d;\n"
    "mul.wide.u32 %e, %t, 8; ld.param.u64 %g, [p+8]; add.s64 %e, %e, %g;\n";
static const char tail[] = "\nst.global.u64 [%e], %d; ret;\n}\n";

/* The result as 64 bits. */
static const char *widen(char result) {
  return result == 'h'   ? "cvt.u64.u16 %d, %v;"
         : result == 'p' ? "selp.b64 %d, 1, 0, %p;"
         : result == 'd' ? ""
                         : "cvt.u64.u32 %d, %w;";
}
static uint64_t cut(uint64_t value, char result) {
  return result == 'h'   ? value & 0xffff
         : result == 'p' ? value & 1
         : result == 'd' ? value
                         : value & UINT32_MAX;
}

static void fill(uint64_t seed) {
  static const uint64_t extremes[] = {
      0,          1,          2,          31,         32,         33,
      0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000, 0xbf800000, 0x7f800000,
      0xff800000, 0x7fc00000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
      0x4f000000, 0xcf000000, 0x7fff,     0x8000,     UINT64_MAX, UINT64_C(1) << 63};
  enum { EXTREMES = sizeof extremes / sizeof *extremes };
  for (uint32_t l = 0; l < LANES; l++) {
    uint64_t *word = &in[l].a;
    for (int k = 0; k < 3; k++) {
      seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
      uint64_t random = seed >> 32 | seed << 32;
      word[k] = random % 3 ? random : extremes[(random >> 8) % EXTREMES];
      /* floats that round within fp16, where random bits seldom lie */
      if (random % 7 == 0) word[k] = 0x32000000 + random % 0x15000000;
    }
  }
}

static int same(uint64_t have, uint64_t want, char result) {
  if (result == 'f' && isnan(F(want))) return isnan(F(have));
  return have == want;
}

static void run_op(const char *name, const char *ptx, char result,
                   uint64_t (*want)(const operands *)) {
  static char text[4096];
  static const cpu_tensor tensors[] = {{"in", in, sizeof in, ATTUNE__TENSOR_READ},
                                       {"out", out, sizeof out, ATTUNE__TENSOR_OUTPUT}};
  cpu_kernel k = {.name = "k"};
  snprintf(text, sizeof text, "%s%s\n%s%s", head, ptx, widen(result), tail);
  ck_assert_msg(attune__ptx_parse(text, strlen(text), "k", &k.program) == ATTUNE_OK, "%s: %s", name,
                attune_error());
  cpu_launch launch = {.grid = 1,
                       .threads = LANES,
                       .tensor = tensors,
                       .tensors = 2,
                       .params = &the_params,
                       .params_bytes = sizeof the_params,
                       .bind = bind};
  for (uint64_t seed = 1; seed <= 4; seed++) {
    fill(seed);
    ck_assert_msg(cpu_kernel_run(&k, &launch) == ATTUNE_OK, "%s: %s", name, attune_error());
    for (uint32_t l = 0; l < LANES; l++) {
      uint64_t must = cut(want(&in[l]), result);
      ck_assert_msg(
          same(out[l], must, result), "%s of 0x%llx 0x%llx 0x%llx: 0x%llx, must be 0x%llx", name,
          (unsigned long long)in[l].a, (unsigned long long)in[l].b, (unsigned long long)in[l].c,
          (unsigned long long)out[l], (unsigned long long)must);
    }
  }
  attune__ptx_free(k.program);
}

START_TEST(plain_opcodes) {
#define RUN(name, ptx, result, expression) run_op(#name, ptx, result, want_##name);
  OPS(RUN)
}
END_TEST

/* Inactive lanes keep what they have: the same opcodes under a guard. */
START_TEST(guarded_opcodes) {
#define KEPT(name, expression)                                                                     \
  static const char text_##name[] = "setp.lt.u32 %q, %t, 700; mov.b32 %w, 77; mov.b64 %d, 77;"     \
                                    "mov.b16 %v, 77; setp.ne.s32 %p, %t, %t; @%q " expression;
  KEPT(w, "fma.rn.f32 %w, %x, %y, %z;")
  KEPT(d, "mad.lo.s64 %d, %a, %b, %c;")
  KEPT(h, "mul.hi.u16 %v, %h, %i;")
  KEPT(p, "setp.lt.s32 %p, %x, %y;")
  const struct {
    const char *text;
    char result;
    uint64_t (*want)(const operands *);
  } list[] = {{text_w, 'f', want_fma_f32},
              {text_d, 'd', want_mad_lo_s64},
              {text_h, 'h', want_mul_hi_u16},
              {text_p, 'p', want_setp_lt_s32}};
  for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
    cpu_tensor tensors[] = {{"in", in, sizeof in, ATTUNE__TENSOR_READ},
                            {"out", out, sizeof out, ATTUNE__TENSOR_OUTPUT}};
    cpu_kernel made = {.name = "k"};
    char text[4096];
    snprintf(text, sizeof text, "%s%s\n%s%s", head, list[k].text, widen(list[k].result), tail);
    ck_assert_msg(attune__ptx_parse(text, strlen(text), "k", &made.program) == ATTUNE_OK, "%s",
                  attune_error());
    cpu_launch launch = {.grid = 1,
                         .threads = LANES,
                         .tensor = tensors,
                         .tensors = 2,
                         .params = &the_params,
                         .params_bytes = sizeof the_params,
                         .bind = bind};
    fill(9);
    ck_assert_int_eq(cpu_kernel_run(&made, &launch), ATTUNE_OK);
    for (uint32_t l = 0; l < LANES; l++) {
      uint64_t kept = list[k].result == 'p' ? 0 : 77;
      uint64_t must = l < 700 ? cut(list[k].want(&in[l]), list[k].result) : kept;
      ck_assert_msg(same(out[l], must, list[k].result), "%c, lane %u", list[k].result, l);
    }
    attune__ptx_free(made.program);
  }
}
END_TEST

TEST_MAIN("cpu_ops", plain_opcodes, guarded_opcodes)
