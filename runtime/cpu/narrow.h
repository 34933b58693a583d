/* narrow.h - bits of fp16, bf16, tf32, e4m3 and e5m2, to and from float and double. Rounding is to
 * nearest even unless said; NaN becomes the type's canonical one. */
#ifndef ATTUNE_CPU_NARROW_H
#define ATTUNE_CPU_NARROW_H

#include "lanes.h"

#include <math.h>

/* Exact, subnormals included: the exponent is moved by a multiplication. */
INLINE uint32_t half_to_float(uint32_t h) {
  uint32_t magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;
  uint32_t normal = attune__bits(attune__f32(magnitude << 13) * 0x1p112f);
  uint32_t bits = sign | (magnitude == 0x7c00 ? 0x7f800000 : normal);
  return magnitude > 0x7c00 ? 0x7fffffff : bits;
}

/* Round to nearest even. Below 2^-14 adding 1/2 puts a float's last bit where a half's subnormal
 * has its own, so the addition rounds. */
INLINE uint32_t float_to_half(uint32_t x) {
  uint32_t magnitude = x & 0x7fffffff, sign = x >> 16 & 0x8000;
  uint32_t small = attune__bits(attune__f32(magnitude) + 0.5f) - 0x3f000000;
  uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  uint32_t finite = magnitude < 0x38800000 ? small : normal;
  uint32_t bounded = magnitude >= 0x477ff000 ? 0x7c00 : finite;
  return magnitude > 0x7f800000 ? 0x7fff : sign | bounded;
}

INLINE uint32_t float_to_bf16(uint32_t x) {
  uint32_t rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
  return (x & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded;
}

INLINE uint32_t relu(uint32_t x) {
  return (x & 0x7fffffff) <= 0x7f800000 && x >> 31 ? 0 : x;
}

/* Round to nearest, ties away: what the tensor cores take as tf32. */
INLINE uint32_t float_to_tf32(uint32_t x) {
  if ((x & 0x7fffffff) > 0x7f800000) return (x & 0xffffe000) | 0x400000;
  return (x & 0x7f800000) == 0x7f800000 ? x : (x + 0x1000) & 0xffffe000;
}

INLINE uint32_t bf16_to_float(uint32_t h) {
  return h << 16;
}

/* ---- double ------------------------------------------------------------------------------------
 */

/* x with `digits` significant bits, fewer below 2^least; unbounded above. */
static inline double round_digits(double x, int digits, int least) {
  int e;
  if (x == 0 || !isfinite(x)) return x;
  frexp(x, &e); /* |x| < 2^e */
  double unit = ldexp(1, (e - 1 < least ? least : e - 1) - (digits - 1));
  return rint(x / unit) * unit;
}

static inline uint32_t double_to_half(double x) {
  return float_to_half(attune__bits((float)round_digits(x, 11, -14)));
}
static inline uint32_t double_to_bf16(double x) {
  return float_to_bf16(attune__bits((float)round_digits(x, 8, -126)));
}

/* a + b to nearest odd in the last bit when it isn't exact, so that rounding it again to fewer bits
 * is rounding once. */
static inline double add_odd(double a, double b) {
  double sum = a + b, other = sum - a, lost = (a - (sum - other)) + (b - other);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (!isfinite(sum) || lost == 0 || bits & 1) return sum;
  bits += (lost > 0) == (sum > 0) ? 1 : UINT64_MAX;
  memcpy(&sum, &bits, sizeof sum);
  return sum;
}

/* Sums of two elements: the low 16 bits. */
static inline uint32_t add_halves(uint32_t a, uint32_t b) {
  return double_to_half(
      add_odd(attune__f32(half_to_float(a & 0xffff)), attune__f32(half_to_float(b & 0xffff))));
}
static inline uint32_t add_bf16s(uint32_t a, uint32_t b) {
  return double_to_bf16(
      add_odd(attune__f32(bf16_to_float(a & 0xffff)), attune__f32(bf16_to_float(b & 0xffff))));
}

/* ---- 8 bits ------------------------------------------------------------------------------------
 */

/* Saturates: what is too large, infinity too, becomes the largest finite number. */
static inline uint32_t float_to_e4m3(float x) {
  if (x != x) return 0x7f;
  uint32_t sign = attune__bits(x) >> 24 & 0x80;
  float y = (float)fmin(fabs(round_digits(x, 4, -6)), 448);
  if (y < 0x1p-6f) return sign | (uint32_t)(y * 0x1p9f);
  return sign | ((attune__bits(y) >> 20) - (120 << 3));
}
static inline uint32_t float_to_e5m2(float x) {
  if (x != x) return 0x7f;
  float y = (float)fmin(fabs(round_digits(x, 3, -14)), 57344);
  return (attune__bits(x) >> 24 & 0x80) | float_to_half(attune__bits(y)) >> 8;
}

INLINE uint32_t e4m3_to_float(uint32_t x) {
  uint32_t magnitude = x & 0x7f, sign = (x & 0x80) << 24;
  if (magnitude == 0x7f) return 0x7fffffff;
  return sign | attune__bits(attune__f32(magnitude << 20) * 0x1p120f);
}
INLINE uint32_t e5m2_to_float(uint32_t x) {
  return half_to_float(x << 8);
}

#endif
