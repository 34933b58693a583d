/* ptx_ops_int.c - integer, logic and move opcodes. 16-bit values stand in 32-bit lanes with zeros
 * above. What PTX leaves undefined (division by 0) gives what the GPU gives, all ones. */
#include "lanes.h"

/* ---- arithmetic -------------------------------------------------------------------------------
 */

BINARY(add32, uint32_t, uint32_t, uint32_t, a[l] + b[l])
BINARY(sub32, uint32_t, uint32_t, uint32_t, a[l] - b[l])
BINARY(mul32, uint32_t, uint32_t, uint32_t, a[l] * b[l])
BINARY(add64, uint64_t, uint64_t, uint64_t, a[l] + b[l])
BINARY(sub64, uint64_t, uint64_t, uint64_t, a[l] - b[l])
BINARY(mul64, uint64_t, uint64_t, uint64_t, a[l] * b[l])
BINARY(add16, uint32_t, uint32_t, uint32_t, (uint16_t)(a[l] + b[l]))
BINARY(sub16, uint32_t, uint32_t, uint32_t, (uint16_t)(a[l] - b[l]))
BINARY(mul16, uint32_t, uint32_t, uint32_t, (uint16_t)(a[l] * b[l]))
TERNARY(mad32, uint32_t, uint32_t, uint32_t, uint32_t, a[l] * b[l] + c[l])
TERNARY(mad64, uint64_t, uint64_t, uint64_t, uint64_t, a[l] * b[l] + c[l])
TERNARY(mad16, uint32_t, uint32_t, uint32_t, uint32_t, (uint16_t)(a[l] * b[l] + c[l]))

BINARY(mul_hi_u16, uint32_t, uint32_t, uint32_t, a[l] * b[l] >> 16)
BINARY(mul_hi_s16, uint32_t, uint32_t, uint32_t, (uint16_t)((int16_t)a[l] * (int16_t)b[l] >> 16))
BINARY(mul_hi_u32, uint32_t, uint32_t, uint32_t, (uint64_t)a[l] * b[l] >> 32)
BINARY(mul_hi_s32, uint32_t, int32_t, int32_t, (uint64_t)((int64_t)a[l] * b[l]) >> 32)
BINARY(mul_hi_u64, uint64_t, uint64_t, uint64_t, (unsigned __int128)a[l] * b[l] >> 64)
BINARY(mul_hi_s64, uint64_t, int64_t, int64_t, (unsigned __int128)((__int128)a[l] * b[l]) >> 64)
BINARY(mul_wide_u16, uint32_t, uint32_t, uint32_t, a[l] * b[l])
BINARY(mul_wide_s16, uint32_t, uint32_t, uint32_t, (int16_t)a[l] * (int16_t)b[l])
BINARY(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)a[l] * b[l])
BINARY(mul_wide_s32, uint64_t, int32_t, int32_t, (int64_t)a[l] * b[l])
TERNARY(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)a[l] * b[l] + c[l])
TERNARY(mad_wide_s32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)((int64_t)a[l] * b[l]) + c[l])

/* INT_MIN / -1 is INT_MIN, as in two's complement. */
static uint32_t divide_s32(int32_t a, int32_t b) {
  return b == 0 ? UINT32_MAX : b == -1 ? 0 - (uint32_t)a : (uint32_t)(a / b);
}
static uint32_t remainder_s32(int32_t a, int32_t b) {
  return b == 0 ? (uint32_t)a : b == -1 ? 0 : (uint32_t)(a % b);
}
static uint64_t divide_s64(int64_t a, int64_t b) {
  return b == 0 ? UINT64_MAX : b == -1 ? 0 - (uint64_t)a : (uint64_t)(a / b);
}
static uint64_t remainder_s64(int64_t a, int64_t b) {
  return b == 0 ? (uint64_t)a : b == -1 ? 0 : (uint64_t)(a % b);
}
BINARY(div_u32, uint32_t, uint32_t, uint32_t, b[l] ? a[l] / b[l] : UINT32_MAX)
BINARY(rem_u32, uint32_t, uint32_t, uint32_t, b[l] ? a[l] % b[l] : a[l])
BINARY(div_s32, uint32_t, int32_t, int32_t, divide_s32(a[l], b[l]))
BINARY(rem_s32, uint32_t, int32_t, int32_t, remainder_s32(a[l], b[l]))
BINARY(div_u64, uint64_t, uint64_t, uint64_t, b[l] ? a[l] / b[l] : UINT64_MAX)
BINARY(rem_u64, uint64_t, uint64_t, uint64_t, b[l] ? a[l] % b[l] : a[l])
BINARY(div_s64, uint64_t, int64_t, int64_t, divide_s64(a[l], b[l]))
BINARY(rem_s64, uint64_t, int64_t, int64_t, remainder_s64(a[l], b[l]))

BINARY(min_s32, uint32_t, int32_t, int32_t, a[l] < b[l] ? a[l] : b[l])
BINARY(max_s32, uint32_t, int32_t, int32_t, a[l] > b[l] ? a[l] : b[l])
BINARY(min_u32, uint32_t, uint32_t, uint32_t, a[l] < b[l] ? a[l] : b[l])
BINARY(max_u32, uint32_t, uint32_t, uint32_t, a[l] > b[l] ? a[l] : b[l])
BINARY(min_s64, uint64_t, int64_t, int64_t, a[l] < b[l] ? a[l] : b[l])
BINARY(max_s64, uint64_t, int64_t, int64_t, a[l] > b[l] ? a[l] : b[l])
BINARY(min_u64, uint64_t, uint64_t, uint64_t, a[l] < b[l] ? a[l] : b[l])
BINARY(max_u64, uint64_t, uint64_t, uint64_t, a[l] > b[l] ? a[l] : b[l])
UNARY(neg32, uint32_t, uint32_t, 0 - a[l])
UNARY(neg64, uint64_t, uint64_t, 0 - a[l])
UNARY(neg16, uint32_t, uint32_t, (uint16_t)(0 - a[l]))
UNARY(abs_s32, uint32_t, uint32_t, (int32_t)a[l] < 0 ? 0 - a[l] : a[l])
UNARY(abs_s64, uint64_t, uint64_t, (int64_t)a[l] < 0 ? 0 - a[l] : a[l])

/* ---- bits -------------------------------------------------------------------------------------
 */

BINARY(and32, uint32_t, uint32_t, uint32_t, a[l] & b[l])
BINARY(or32, uint32_t, uint32_t, uint32_t, a[l] | b[l])
BINARY(xor32, uint32_t, uint32_t, uint32_t, a[l] ^ b[l])
UNARY(not32, uint32_t, uint32_t, ~a[l])
BINARY(and64, uint64_t, uint64_t, uint64_t, a[l] & b[l])
BINARY(or64, uint64_t, uint64_t, uint64_t, a[l] | b[l])
BINARY(xor64, uint64_t, uint64_t, uint64_t, a[l] ^ b[l])
UNARY(not64, uint64_t, uint64_t, ~a[l])
UNARY(not16, uint32_t, uint32_t, (uint16_t)~a[l])

/* Shifts stop at the width. */
BINARY(shl32, uint32_t, uint32_t, uint32_t, b[l] > 31 ? 0 : a[l] << (b[l] & 31))
BINARY(shl64, uint64_t, uint64_t, uint32_t, b[l] > 63 ? 0 : a[l] << (b[l] & 63))
BINARY(shl16, uint32_t, uint32_t, uint32_t, b[l] > 15 ? 0 : (uint16_t)(a[l] << (b[l] & 15)))
BINARY(shr_u32, uint32_t, uint32_t, uint32_t, b[l] > 31 ? 0 : a[l] >> (b[l] & 31))
BINARY(shr_u64, uint64_t, uint64_t, uint32_t, b[l] > 63 ? 0 : a[l] >> (b[l] & 63))
BINARY(shr_s32, uint32_t, int32_t, uint32_t, a[l] >> (b[l] > 31 ? 31 : b[l]))
BINARY(shr_s64, uint64_t, int64_t, uint32_t, a[l] >> (b[l] > 63 ? 63 : b[l]))
BINARY(shr_s16, uint32_t, uint32_t, uint32_t, (uint16_t)((int16_t)a[l] >> (b[l] > 15 ? 15 : b[l])))

/* Funnel shifts take the amount modulo 32 (wrap) or up to 32 (clamp). */
TERNARY(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t,
        ((uint64_t)b[l] << 32 | a[l]) << (c[l] & 31) >> 32)
TERNARY(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t,
        ((uint64_t)b[l] << 32 | a[l]) >> (c[l] & 31))
TERNARY(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t,
        ((uint64_t)b[l] << 32 | a[l]) >> (c[l] > 32 ? 32 : c[l]))

static uint32_t mask_of(uint32_t length) {
  return length > 31 ? UINT32_MAX : (UINT32_C(1) << length) - 1;
}
static uint32_t extract(uint32_t a, uint32_t position, uint32_t length) {
  position &= 255, length &= 255;
  return (position > 31 ? 0 : a >> position) & mask_of(length);
}
/* bfe.s32 fills with the field's top bit, or the word's where the field ends beyond it. */
static uint32_t extract_signed(uint32_t a, uint32_t position, uint32_t length) {
  position &= 255, length &= 255;
  if (length == 0) return 0;
  uint32_t last = position + length - 1 > 31 ? 31 : position + length - 1;
  uint32_t sign = 0 - (a >> last & 1);
  uint32_t bits = position > 31 ? sign : (uint32_t)((int32_t)a >> position);
  return (bits & mask_of(length)) | (sign & ~mask_of(length));
}
static uint32_t insert(uint32_t a, uint32_t b, uint32_t position, uint32_t length) {
  position &= 255, length &= 255;
  if (position > 31) return b;
  uint32_t mask = mask_of(length) << position;
  return (b & ~mask) | (a << position & mask);
}
static inline uint64_t insert64(uint64_t a, uint64_t b, uint32_t position, uint32_t length) {
  if (position > 63) return b;
  uint64_t mask = (length > 63 ? UINT64_MAX : (UINT64_C(1) << length) - 1) << position;
  return (b & ~mask) | (a << position & mask);
}
TERNARY(bfe_u32, uint32_t, uint32_t, uint32_t, uint32_t, extract(a[l], b[l], c[l]))
TERNARY(bfe_s32, uint32_t, uint32_t, uint32_t, uint32_t, extract_signed(a[l], b[l], c[l]))

static void bfi_b32(attune__warp *w, const attune__ins *i, uint32_t active) {
  DESTINATION(uint32_t, d, 0);
  SOURCE(uint32_t, a, 1);
  SOURCE(uint32_t, b, 2);
  SOURCE(uint32_t, c, 3);
  SOURCE(uint32_t, e, 4);
  STORE_LANES(uint32_t, d, active, insert(a[l], b[l], c[l], e[l]));
}

static void bfi_b64(attune__warp *w, const attune__ins *i, uint32_t active) {
  DESTINATION(uint64_t, d, 0);
  SOURCE(uint64_t, a, 1);
  SOURCE(uint64_t, b, 2);
  SOURCE(uint32_t, c, 3);
  SOURCE(uint32_t, e, 4);
  STORE_LANES(uint64_t, d, active, insert64(a[l], b[l], c[l] & 255, e[l] & 255));
}

UNARY(popc32, uint32_t, uint32_t, __builtin_popcount(a[l]))
UNARY(clz32, uint32_t, uint32_t, a[l] ? __builtin_clz(a[l]) : 32)

static uint32_t reverse(uint32_t x) {
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(x);
}
UNARY(brev32, uint32_t, uint32_t, reverse(a[l]))

/* Four bytes out of eight by selectors of four bits; bit 3 of one spreads the byte's sign. */
static uint32_t permute(uint32_t a, uint32_t b, uint32_t selectors) {
  uint64_t both = (uint64_t)b << 32 | a;
  uint32_t out = 0;
  for (int k = 0; k < 4; k++) {
    uint32_t selector = selectors >> 4 * k & 15;
    uint8_t byte = (uint8_t)(both >> 8 * (selector & 7));
    if (selector & 8) byte = byte & 0x80 ? 0xff : 0;
    out |= (uint32_t)byte << 8 * k;
  }
  return out;
}
TERNARY(prmt_b32, uint32_t, uint32_t, uint32_t, uint32_t, permute(a[l], b[l], c[l]))

/* lop3: bit by bit, the number's bit of index a * 4 + b * 2 + c. */
static void lop3_b32(attune__warp *w, const attune__ins *i, uint32_t active) {
  DESTINATION(uint32_t, d, 0);
  SOURCE(uint32_t, a, 1);
  SOURCE(uint32_t, b, 2);
  SOURCE(uint32_t, c, 3);
  const uint32_t table = *attune__r32(w, i, 4);
  uint32_t out[ATTUNE__LANES] = {0};
  for (int k = 0; k < 8; k++) {
    if (!(table >> k & 1)) continue;
    LANES out[l] |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
  }
  STORE_LANES(uint32_t, d, active, out[l]);
}

/* ---- predicates -------------------------------------------------------------------------------
 */

#define PREDICATE(name, expression)                                                                \
  static void name(attune__warp *w, const attune__ins *i, uint32_t active) {                       \
    uint32_t *d = attune__rp(w, i, 0);                                                             \
    const uint32_t a = *attune__rp(w, i, 1);                                                       \
    const uint32_t b = i->operands > 2 ? *attune__rp(w, i, 2) : 0;                                 \
    *d = (*d & ~active) | ((expression)&active);                                                   \
  }
PREDICATE(and_pred, a &b)
PREDICATE(or_pred, a | b)
PREDICATE(xor_pred, a ^ b)
PREDICATE(not_pred, ~a | (b & 0))
PREDICATE(mov_pred, a | (b & 0))

/* mov.pred of a number: true unless 0. */
static void set_pred(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t *d = attune__rp(w, i, 0);
  *d = (*d & ~active) | (*attune__r32(w, i, 1) ? active : 0);
}

/* setp of a type with all six comparisons: SIX(suffix, lane type of a, how a lane is read) */
#define SIX(suffix, t, get)                                                                        \
  COMPARE(eq_##suffix, t, get(a[l]) == get(b[l]))                                                  \
  COMPARE(ne_##suffix, t, get(a[l]) != get(b[l]))                                                  \
  COMPARE(lt_##suffix, t, get(a[l]) < get(b[l]))                                                   \
  COMPARE(le_##suffix, t, get(a[l]) <= get(b[l]))                                                  \
  COMPARE(gt_##suffix, t, get(a[l]) > get(b[l]))                                                   \
  COMPARE(ge_##suffix, t, get(a[l]) >= get(b[l]))
SIX(s32, int32_t, )
SIX(u32, uint32_t, )
SIX(s64, int64_t, )
SIX(u64, uint64_t, )
SIX(s16, uint32_t, (int16_t))

static void selp32(attune__warp *w, const attune__ins *i, uint32_t active) {
  DESTINATION(uint32_t, d, 0);
  SOURCE(uint32_t, a, 1);
  SOURCE(uint32_t, b, 2);
  const uint32_t p = *attune__rp(w, i, 3);
  STORE_LANES(uint32_t, d, active, p >> l & 1 ? a[l] : b[l]);
}
static void selp64(attune__warp *w, const attune__ins *i, uint32_t active) {
  DESTINATION(uint64_t, d, 0);
  SOURCE(uint64_t, a, 1);
  SOURCE(uint64_t, b, 2);
  const uint32_t p = *attune__rp(w, i, 3);
  STORE_LANES(uint64_t, d, active, p >> l & 1 ? a[l] : b[l]);
}

/* ---- moves -------------------------------------------------------------------------------------
 */

UNARY(mov32, uint32_t, uint32_t, a[l])
UNARY(mov64, uint64_t, uint64_t, a[l])
BINARY(pack16, uint32_t, uint32_t, uint32_t, a[l] | b[l] << 16)
BINARY(pack32, uint64_t, uint32_t, uint32_t, (uint64_t)b[l] << 32 | a[l])

/* A source's register may be the first destination's. */
static void unpack16(attune__warp *w, const attune__ins *i, uint32_t active) {
  DESTINATION(uint32_t, low, 0);
  DESTINATION(uint32_t, high, 1);
  uint32_t a[ATTUNE__LANES];
  memcpy(a, attune__r32(w, i, 2), sizeof a);
  STORE_LANES(uint32_t, low, active, a[l] & 0xffff);
  STORE_LANES(uint32_t, high, active, a[l] >> 16);
}
static void unpack32(attune__warp *w, const attune__ins *i, uint32_t active) {
  DESTINATION(uint32_t, low, 0);
  DESTINATION(uint32_t, high, 1);
  SOURCE(uint64_t, a, 2);
  STORE_LANES(uint32_t, low, active, a[l]);
  STORE_LANES(uint32_t, high, active, a[l] >> 32);
}

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(name, operands, run)                                                                   \
  { name, operands, run, 0, 0, NULL }
#define SU32(op, operands, run) ROW(op ".s32", operands, run), ROW(op ".u32", operands, run)
#define SU64(op, operands, run) ROW(op ".s64", operands, run), ROW(op ".u64", operands, run)
#define SU16(op, operands, run) ROW(op ".s16", operands, run), ROW(op ".u16", operands, run)
#define SETP(type, operands, run)                                                                  \
  ROW("setp.eq." type, operands, eq_##run), ROW("setp.ne." type, operands, ne_##run),              \
      ROW("setp.lt." type, operands, lt_##run), ROW("setp.le." type, operands, le_##run),          \
      ROW("setp.gt." type, operands, gt_##run), ROW("setp.ge." type, operands, ge_##run)
#define SETP_BITS(type, operands, run)                                                             \
  ROW("setp.eq." type, operands, eq_##run), ROW("setp.ne." type, operands, ne_##run)
#define TYPES32(op, operands, run)                                                                 \
  ROW(op ".b32", operands, run), SU32(op, operands, run), ROW(op ".f32", operands, run)
#define TYPES64(op, operands, run)                                                                 \
  ROW(op ".b64", operands, run), SU64(op, operands, run), ROW(op ".f64", operands, run)
#define TYPES16(op, operands, run) ROW(op ".b16", operands, run), SU16(op, operands, run)

static const attune__opcode rows[] = {
    SU32("add", "W,w,w", add32),
    SU32("sub", "W,w,w", sub32),
    SU32("mul.lo", "W,w,w", mul32),
    SU64("add", "D,d,d", add64),
    SU64("sub", "D,d,d", sub64),
    SU64("mul.lo", "D,d,d", mul64),
    SU16("add", "H,h,h", add16),
    SU16("sub", "H,h,h", sub16),
    SU16("mul.lo", "H,h,h", mul16),
    SU32("mad.lo", "W,w,w,w", mad32),
    SU64("mad.lo", "D,d,d,d", mad64),
    SU16("mad.lo", "H,h,h,h", mad16),
    ROW("mul.hi.u16", "H,h,h", mul_hi_u16),
    ROW("mul.hi.s16", "H,h,h", mul_hi_s16),
    ROW("mul.hi.u32", "W,w,w", mul_hi_u32),
    ROW("mul.hi.s32", "W,w,w", mul_hi_s32),
    ROW("mul.hi.u64", "D,d,d", mul_hi_u64),
    ROW("mul.hi.s64", "D,d,d", mul_hi_s64),
    ROW("mul.wide.u16", "W,h,h", mul_wide_u16),
    ROW("mul.wide.s16", "W,h,h", mul_wide_s16),
    ROW("mul.wide.u32", "D,w,w", mul_wide_u32),
    ROW("mul.wide.s32", "D,w,w", mul_wide_s32),
    ROW("mad.wide.u32", "D,w,w,d", mad_wide_u32),
    ROW("mad.wide.s32", "D,w,w,d", mad_wide_s32),
    ROW("div.u32", "W,w,w", div_u32),
    ROW("rem.u32", "W,w,w", rem_u32),
    ROW("div.s32", "W,w,w", div_s32),
    ROW("rem.s32", "W,w,w", rem_s32),
    ROW("div.u64", "D,d,d", div_u64),
    ROW("rem.u64", "D,d,d", rem_u64),
    ROW("div.s64", "D,d,d", div_s64),
    ROW("rem.s64", "D,d,d", rem_s64),
    ROW("min.s32", "W,w,w", min_s32),
    ROW("max.s32", "W,w,w", max_s32),
    ROW("min.u32", "W,w,w", min_u32),
    ROW("max.u32", "W,w,w", max_u32),
    ROW("min.s64", "D,d,d", min_s64),
    ROW("max.s64", "D,d,d", max_s64),
    ROW("min.u64", "D,d,d", min_u64),
    ROW("max.u64", "D,d,d", max_u64),
    ROW("neg.s32", "W,w", neg32),
    ROW("neg.s64", "D,d", neg64),
    ROW("neg.s16", "H,h", neg16),
    ROW("abs.s32", "W,w", abs_s32),
    ROW("abs.s64", "D,d", abs_s64),

    ROW("and.b32", "W,w,w", and32),
    ROW("or.b32", "W,w,w", or32),
    ROW("xor.b32", "W,w,w", xor32),
    ROW("not.b32", "W,w", not32),
    ROW("and.b64", "D,d,d", and64),
    ROW("or.b64", "D,d,d", or64),
    ROW("xor.b64", "D,d,d", xor64),
    ROW("not.b64", "D,d", not64),
    ROW("and.b16", "H,h,h", and32),
    ROW("or.b16", "H,h,h", or32),
    ROW("xor.b16", "H,h,h", xor32),
    ROW("not.b16", "H,h", not16),
    ROW("shl.b32", "W,w,w", shl32),
    ROW("shl.b64", "D,d,w", shl64),
    ROW("shl.b16", "H,h,w", shl16),
    ROW("shr.u32", "W,w,w", shr_u32),
    ROW("shr.b32", "W,w,w", shr_u32),
    ROW("shr.s32", "W,w,w", shr_s32),
    ROW("shr.u64", "D,d,w", shr_u64),
    ROW("shr.b64", "D,d,w", shr_u64),
    ROW("shr.s64", "D,d,w", shr_s64),
    ROW("shr.u16", "H,h,w", shr_u32),
    ROW("shr.b16", "H,h,w", shr_u32),
    ROW("shr.s16", "H,h,w", shr_s16),
    ROW("shf.l.wrap.b32", "W,w,w,w", shf_l_wrap),
    ROW("shf.r.wrap.b32", "W,w,w,w", shf_r_wrap),
    ROW("shf.r.clamp.b32", "W,w,w,w", shf_r_clamp),
    ROW("bfe.u32", "W,w,w,w", bfe_u32),
    ROW("bfe.s32", "W,w,w,w", bfe_s32),
    ROW("bfi.b32", "W,w,w,w,w", bfi_b32),
    ROW("bfi.b64", "D,d,d,w,w", bfi_b64),
    ROW("popc.b32", "W,w", popc32),
    ROW("clz.b32", "W,w", clz32),
    ROW("brev.b32", "W,w", brev32),
    ROW("prmt.b32", "W,w,w,w", prmt_b32),
    ROW("lop3.b32", "W,w,w,w,i", lop3_b32),

    ROW("and.pred", "P,p,p", and_pred),
    ROW("or.pred", "P,p,p", or_pred),
    ROW("xor.pred", "P,p,p", xor_pred),
    ROW("not.pred", "P,p", not_pred),
    ROW("mov.pred", "P,p", mov_pred),
    ROW("mov.pred", "P,i", set_pred),
    SETP("s32", "P,w,w", s32),
    SETP("u32", "P,w,w", u32),
    SETP_BITS("b32", "P,w,w", u32),
    SETP("s64", "P,d,d", s64),
    SETP("u64", "P,d,d", u64),
    SETP_BITS("b64", "P,d,d", u64),
    SETP("s16", "P,h,h", s16),
    SETP("u16", "P,h,h", u32),
    SETP_BITS("b16", "P,h,h", u32),
    TYPES32("selp", "W,w,w,p", selp32),
    TYPES64("selp", "D,d,d,p", selp64),
    TYPES16("selp", "H,h,h,p", selp32),

    TYPES32("mov", "W,w", mov32),
    TYPES64("mov", "D,d", mov64),
    TYPES16("mov", "H,h", mov32),
    ROW("mov.b32", "W,{h,h}", pack16),
    ROW("mov.b32", "{H,H},w", unpack16),
    ROW("mov.b64", "D,{w,w}", pack32),
    ROW("mov.b64", "{W,W},d", unpack32),
    /* Tensors keep their tag in every state space, and so does the parameter block. */
    ROW("cvta.to.global.u64", "D,d", mov64),
    ROW("cvta.param.u64", "D,d", mov64),
};
const attune__opcodes attune__ops_int = {rows, sizeof rows / sizeof *rows};
