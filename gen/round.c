/* round.c - rounding floats to a dtype, to its bits and back: the host twin of templates/type/.
 *
 * Integer arithmetic only, so that no machine, compiler or rounding mode changes a bit. Round to
 * nearest even; subnormals are kept; what is too large becomes infinity; a NaN stays a (quiet) NaN
 * of the same sign. */
#include "reference.h"

#include <math.h>
#include <string.h>

/* A binary floating-point format: significand bits after the point, exponent of the smallest normal
 * number, and of the largest. */
typedef struct format {
  int digits, min_exponent, max_exponent;
} format;

static format format_of(int dtype) {
  if (dtype == ATTUNE_DTYPE_FP16) return (format){10, -14, 15};
  if (dtype == ATTUNE_DTYPE_BF16) return (format){7, -126, 127};
  return (format){23, -126, 127};
}

static uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* value / 2^shift, to nearest, ties to even; 1 <= shift <= 31. */
static uint32_t shift_to_even(uint32_t value, int shift) {
  uint32_t half = 1u << (shift - 1), odd = value >> shift & 1;
  return (value + half - 1 + odd) >> shift;
}

static uint16_t to_bf16(float x) {
  uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t to_fp16(float x) {
  uint32_t bits = float_bits(x), magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  int exponent = (int)(magnitude >> 23) - 127;
  if (exponent > 15) return (uint16_t)(sign | 0x7c00);
  /* A carry out of the significand grows the exponent, up to infinity: as it should. */
  if (exponent >= -14)
    return (uint16_t)(sign | (shift_to_even(magnitude, 13) - ((127 - 15) << 10)));
  if (exponent < -25) return (uint16_t)sign;
  uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
  return (uint16_t)(sign | shift_to_even(significand, -1 - exponent));
}

static float from_fp16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
  if (magnitude >= 0x7c00) return bits_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x400) return bits_float(sign | ((magnitude << 13) + ((127u - 15) << 23)));
  float subnormal = ldexpf((float)magnitude, -24);
  return sign ? -subnormal : subnormal;
}

float attune__round(int dtype, float x) {
  if (dtype == ATTUNE_DTYPE_FP16) return from_fp16(to_fp16(x));
  if (dtype == ATTUNE_DTYPE_BF16) return bits_float((uint32_t)to_bf16(x) << 16);
  return x;
}

void attune__to_dtype(int dtype, const float *from, void *to, size_t count) {
  uint16_t *half = to;
  if (dtype == ATTUNE_DTYPE_FP16)
    for (size_t i = 0; i < count; i++) half[i] = to_fp16(from[i]);
  else if (dtype == ATTUNE_DTYPE_BF16)
    for (size_t i = 0; i < count; i++) half[i] = to_bf16(from[i]);
  else if (count)
    memcpy(to, from, count * sizeof *from);
}

void attune__from_dtype(int dtype, const void *from, float *to, size_t count) {
  const uint16_t *half = from;
  if (dtype == ATTUNE_DTYPE_FP16)
    for (size_t i = 0; i < count; i++) to[i] = from_fp16(half[i]);
  else if (dtype == ATTUNE_DTYPE_BF16)
    for (size_t i = 0; i < count; i++) to[i] = bits_float((uint32_t)half[i] << 16);
  else if (count)
    memcpy(to, from, count * sizeof *to);
}

double attune__ulp(int dtype, double x) {
  format f = format_of(dtype);
  if (isnan(x)) return x;
  int exponent = f.min_exponent;
  if (fabs(x) > 0) exponent = isinf(x) ? f.max_exponent : ilogb(x);
  if (exponent < f.min_exponent) exponent = f.min_exponent;
  if (exponent > f.max_exponent) exponent = f.max_exponent;
  return ldexp(1, exponent - f.digits);
}
