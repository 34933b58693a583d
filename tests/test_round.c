/* test_round.c - conversion and rounding of the dtypes, over every 16-bit pattern. */
#include "../gen/reference.h"
#include "test.h"

#include <math.h>

/* Value of a 16-bit pattern by the formula of the format. */
static double value_of(int dtype, int pattern) {
  int digits = dtype == ATTUNE_DTYPE_FP16 ? 10 : 7, top = dtype == ATTUNE_DTYPE_FP16 ? 31 : 255;
  int exponent = pattern >> digits & top, significand = pattern & ((1 << digits) - 1);
  int bias = top / 2;
  double sign = pattern & 0x8000 ? -1 : 1;
  if (exponent == top) return significand ? (double)NAN : sign * (double)INFINITY;
  if (!exponent) return sign * ldexp(significand, 1 - bias - digits);
  return sign * ldexp(significand + (1 << digits), exponent - bias - digits);
}

static uint16_t bits_of(int dtype, float x) {
  uint16_t bits;
  attune__to_dtype(dtype, &x, &bits, 1);
  return bits;
}

static const int halves[] = {ATTUNE_DTYPE_FP16, ATTUNE_DTYPE_BF16};

START_TEST(every_pattern_comes_back) {
  for (int t = 0; t < 2; t++)
    for (int pattern = 0; pattern < 65536; pattern++) {
      uint16_t bits = (uint16_t)pattern;
      float x;
      attune__from_dtype(halves[t], &bits, &x, 1);
      double want = value_of(halves[t], pattern);
      if (isnan(want)) {
        ck_assert(isnan(x));
        ck_assert(isnan(value_of(halves[t], bits_of(halves[t], x))));
        ck_assert(isnan(attune__round(halves[t], x)));
        continue;
      }
      if ((double)x != want || bits_of(halves[t], x) != pattern)
        ck_abort_msg("%s %04x", attune__dtype_name(halves[t]), pattern);
      if (!signbit(x) != !signbit(want)) ck_abort_msg("sign of %04x", pattern);
    }
}
END_TEST

/* Between each two neighbours: the midpoint goes to the even one, a float beside it to the nearer.
 * The largest finite value's upper neighbour is infinity, at the place of the next power of two. */
START_TEST(midpoints_go_to_even) {
  for (int t = 0; t < 2; t++) {
    int infinity = halves[t] == ATTUNE_DTYPE_FP16 ? 0x7c00 : 0x7f80;
    for (int low = 0; low < infinity; low++) {
      double a = value_of(halves[t], low), b = value_of(halves[t], low + 1);
      if (isinf(b)) b = 2 * a - value_of(halves[t], low - 1);
      float middle = (float)(a / 2 + b / 2); /* exact: one digit more than the dtype */
      int even = low + (low & 1);
      for (int sign = 0; sign < 2; sign++) {
        float way = sign ? -1 : 1;
        int flag = sign << 15;
        if (bits_of(halves[t], way * middle) != (even | flag) ||
            bits_of(halves[t], way * nextafterf(middle, 0)) != (low | flag) ||
            bits_of(halves[t], way * nextafterf(middle, INFINITY)) != ((low + 1) | flag))
          ck_abort_msg("%s %04x", attune__dtype_name(halves[t]), low | flag);
      }
    }
  }
}
END_TEST

START_TEST(ulp_is_the_next_value) {
  for (int t = 0; t < 2; t++) {
    int infinity = halves[t] == ATTUNE_DTYPE_FP16 ? 0x7c00 : 0x7f80;
    for (int low = 0; low + 1 < infinity; low++) {
      double a = value_of(halves[t], low), b = value_of(halves[t], low + 1);
      if (attune__ulp(halves[t], a) != b - a || attune__ulp(halves[t], -a) != b - a)
        ck_abort_msg("%s %04x", attune__dtype_name(halves[t]), low);
    }
  }
  for (int i = 0; i < 1000; i++) {
    float x = ldexpf(1 + (float)i / 1000, i % 250 - 140) * (i & 1 ? -1 : 1);
    double next = (double)nextafterf(fabsf(x), INFINITY);
    ck_assert_double_eq(attune__ulp(ATTUNE_DTYPE_FP32, (double)x), next - fabs((double)x));
  }
  ck_assert_double_eq(attune__ulp(ATTUNE_DTYPE_FP32, 0), 0x1p-149);
}
END_TEST

START_TEST(fp32_is_left_alone) {
  uint32_t patterns[] = {0, 0x80000000, 1, 0x7f800000, 0xff800000, 0x3f800001, 0x7f7fffff};
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    float x, back;
    memcpy(&x, &patterns[i], sizeof x);
    back = attune__round(ATTUNE_DTYPE_FP32, x);
    ck_assert_mem_eq(&x, &back, sizeof x);
  }
}
END_TEST

TEST_MAIN("round", every_pattern_comes_back, midpoints_go_to_even, ulp_is_the_next_value,
          fp32_is_left_alone)
