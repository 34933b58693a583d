/* mma.c - what tensor cores compute: products of narrow floats, added to an accumulator.
 *
 * Input: blocks of operands; output: blocks of 8 x 8 results. Which lane holds which element is the
 * opcodes' business (ptx_ops_mma.c, wgmma.c), but for the layout that all fragments share.
 *
 * Plain sums: in float, k ascending; products of these elements are exact in float. Hardware sums,
 * after Microsoft's MMA-Sim (arXiv 2511.10909) and checked against an H200: the products of a step
 * and the accumulator are cut to `fraction` bits below the largest exponent among them, added
 * exactly, and cut to a float (an f16 accumulator: rounded to nearest even). Exponents are those of
 * the factors, not normalised after the product; zero counts as 2^-126. */
#include "mma.h"

#include "../variant.h"
#include "narrow.h"

#include <math.h>

typedef float floats __attribute__((vector_size(32)));
typedef uint32_t words __attribute__((vector_size(32)));
typedef uint16_t halves __attribute__((vector_size(16)));
typedef uint8_t bytes8 __attribute__((vector_size(8)));

/* ---- the arch ----------------------------------------------------------------------------------
 */

uint32_t attune__cc(const attune__warp *w) {
  return attune__arch_cc(attune__arch_parse(w->engine->launch->options.arch));
}

void attune__require_cc(attune__warp *w, uint32_t cc) {
  uint32_t have = attune__cc(w);
  if (have < cc)
    attune__fault(w, -1, "%s needs sm_%u, this launch is for sm_%u", w->at->opcode->name, cc, have);
}

static int least_exponent(attune__element e) {
  return e == ATTUNE__E4M3 ? -6 : e == ATTUNE__F16 || e == ATTUNE__E5M2 ? -14 : -126;
}

/* Bytes of k that are added at once: 16 up to Ada, 32 since Hopper. 24 bits up to Ada, 25 since
 * Hopper; 8-bit elements on Ada and in wgmma: 13, also of the result. Hopper's mma.sync turns 8-bit
 * elements into f16 (an H200 shows it, see tests/conformance). */
attune__dot attune__mma_dot(const attune__warp *w, attune__element a, attune__element b,
                            uint32_t chunks, int half, int wgmma) {
  uint32_t elements = attune__chunk_elements(a);
  attune__dot dot = {.k = chunks * elements, .half = half, .keep = 23};
  if (w->engine->launch->options.sums == ATTUNE_CPU_SUMS_FLOAT) return dot;
  int hopper = attune__cc(w) >= 90, narrow = elements == 16 && (!hopper || wgmma);
  dot.by_f16 = elements == 16 && !narrow;
  dot.step = hopper ? 32 / attune__element_bytes(dot.by_f16 ? ATTUNE__F16 : a) : elements;
  if (dot.step > dot.k) dot.step = dot.k;
  dot.fraction = narrow ? 13 : hopper ? 25 : 24;
  if (narrow) dot.keep = 13;
  dot.least_a = least_exponent(dot.by_f16 ? ATTUNE__F16 : a);
  dot.least_b = least_exponent(dot.by_f16 ? ATTUNE__F16 : b);
  return dot;
}

/* ---- elements ----------------------------------------------------------------------------------
 */

/* Vectors go by pointer: by value their convention depends on the target. */
static inline void put8(const words *bits, float *to) {
  memcpy(to, bits, sizeof *bits);
}

/* Eight f16 in the low halves of words, to floats. */
static inline void put_f16(const words *x, float *to) {
  words magnitude = *x & 0x7fff, bits = magnitude << 13;
  floats f;
  memcpy(&f, &bits, sizeof f);
  f *= 0x1p112f;
  memcpy(&bits, &f, sizeof f);
  bits |= (words)(magnitude >= 0x7c00) & 0x7f800000; /* infinity, NaN */
  bits |= (*x & 0x8000) << 16;
  put8(&bits, to);
}

static inline void put_e4m3(const words *x, float *to) {
  words magnitude = *x & 0x7f, bits = magnitude << 20;
  floats f;
  memcpy(&f, &bits, sizeof f);
  f *= 0x1p120f;
  memcpy(&bits, &f, sizeof f);
  bits |= (words)(magnitude == 0x7f) & 0x7fc00000;
  bits |= (*x & 0x80) << 24;
  put8(&bits, to);
}

static inline void load_halves(const unsigned char *from, words *out) {
  halves h;
  memcpy(&h, from, sizeof h);
  *out = __builtin_convertvector(h, words);
}

static inline void load_bytes(const unsigned char *from, words *out) {
  bytes8 b;
  memcpy(&b, from, sizeof b);
  *out = __builtin_convertvector(b, words);
}

static inline void unpack_chunk(attune__element e, const unsigned char *p, float *to) {
  words x, y;
  switch (e) {
    case ATTUNE__BF16:
      load_halves(p, &x);
      x <<= 16;
      put8(&x, to);
      break;
    case ATTUNE__F16:
      load_halves(p, &x);
      put_f16(&x, to);
      break;
    case ATTUNE__TF32: /* the lower bits don't count */
      for (int k = 0; k < 4; k++) {
        uint32_t bits;
        memcpy(&bits, p + 4 * k, sizeof bits);
        to[k] = attune__f32(bits & 0xffffe000);
      }
      break;
    case ATTUNE__E4M3:
      load_bytes(p, &x), load_bytes(p + 8, &y);
      put_e4m3(&x, to), put_e4m3(&y, to + 8);
      break;
    case ATTUNE__E5M2: /* the upper byte of an f16 */
      load_bytes(p, &x), load_bytes(p + 8, &y);
      x <<= 8, y <<= 8;
      put_f16(&x, to), put_f16(&y, to + 8);
      break;
  }
}

CLONES void attune__mma_unpack(attune__element e, const void *from, uint32_t chunks, float *to,
                               uint32_t pitch) {
  const unsigned char *p = from;
  for (uint32_t i = 0; i < chunks; i++)
    unpack_chunk(e, p + i * ATTUNE__CHUNK, to + (size_t)i * pitch);
}
/* ---- fragments ---------------------------------------------------------------------------------
 *
 * Lane 4g+t holds elements 2t and 2t+1 of row g: of f32 in two registers, of f16 in one. So a block
 * is the two registers' lanes in turn. */

static inline void load_floats(const float *from, floats *to) {
  memcpy(to, from, sizeof *to);
}

#define LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Three perfect shuffles of the 64 elements exchange row and column. */
CLONES void attune__mma_transpose(const float *from, uint32_t pitch, float *to, uint32_t to_pitch) {
  floats x[8], y[8];
  for (uint32_t i = 0; i < 8; i++) load_floats(from + i * pitch, &x[i]);
  for (int i = 0; i < 4; i++) y[2 * i] = LOW(x[i], x[i + 4]), y[2 * i + 1] = HIGH(x[i], x[i + 4]);
  for (int i = 0; i < 4; i++) x[2 * i] = LOW(y[i], y[i + 4]), x[2 * i + 1] = HIGH(y[i], y[i + 4]);
  for (int i = 0; i < 4; i++) y[2 * i] = LOW(x[i], x[i + 4]), y[2 * i + 1] = HIGH(x[i], x[i + 4]);
  for (uint32_t i = 0; i < 8; i++) memcpy(to + i * to_pitch, &y[i], sizeof y[i]);
}

CLONES static void interleave(const float *even, const float *odd, float *to) {
  for (uint32_t i = 0; i < ATTUNE__LANES; i += 8) {
    floats a, b;
    load_floats(even + i, &a), load_floats(odd + i, &b);
    floats low = LOW(a, b), high = HIGH(a, b);
    memcpy(to + 2 * i, &low, sizeof low);
    memcpy(to + 2 * i + 8, &high, sizeof high);
  }
}

CLONES static void separate(const float *from, float *even, float *odd) {
  for (uint32_t i = 0; i < ATTUNE__LANES; i += 8) {
    floats a, b;
    load_floats(from + 2 * i, &a), load_floats(from + 2 * i + 8, &b);
    floats e = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    floats o = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
    memcpy(even + i, &e, sizeof e);
    memcpy(odd + i, &o, sizeof o);
  }
}

static float *as_floats(const attune__warp *w, const attune__ins *i, uint32_t k) {
  return (float *)(void *)(w->file + i->operand[k].slot);
}

void attune__mma_load(const attune__warp *w, const attune__ins *i, uint32_t operand, int half,
                      float block[64]) {
  if (half)
    attune__mma_unpack(ATTUNE__F16, attune__r32(w, i, operand), 8, block, 8);
  else
    interleave(as_floats(w, i, operand), as_floats(w, i, operand + 1), block);
}

void attune__mma_store(const attune__warp *w, const attune__ins *i, uint32_t operand, int half,
                       const float block[64]) {
  if (!half) {
    separate(block, as_floats(w, i, operand), as_floats(w, i, operand + 1));
    return;
  }
  uint32_t *out = attune__r32(w, i, operand);
  for (uint32_t l = 0; l < ATTUNE__LANES; l++)
    out[l] = float_to_half(attune__bits(block[2 * l])) |
             float_to_half(attune__bits(block[2 * l + 1])) << 16;
}

/* Registers in turn: rows 0-7 and 8-15 of the first chunks, then of the second. */
void attune__mma_load_a(const attune__warp *w, const attune__ins *i, uint32_t first,
                        attune__element e, uint32_t k, float *a) {
  uint32_t elements = attune__chunk_elements(e);
  for (uint32_t r = 0; r < 2 * k / elements; r++)
    attune__mma_unpack(e, attune__r32(w, i, first + r), 8,
                       a + (r & 1) * 8 * k + (r >> 1) * elements, k);
}

/* ---- plain sums --------------------------------------------------------------------------------
 */

CLONES static void plain_block(uint32_t k, float c[64], const float *a, const float *b) {
  floats sum[8];
  memcpy(sum, c, sizeof sum);
  for (uint32_t i = 0; i < k; i++, b += 8) {
    floats row;
    load_floats(b, &row);
    for (uint32_t r = 0; r < 8; r++) sum[r] += a[r * k + i] * row;
  }
  memcpy(c, sum, sizeof sum);
}

/* ---- hardware sums -----------------------------------------------------------------------------
 */

enum { NO_EXPONENT = -1000, ZERO_EXPONENT = -126, NAN_BITS = 0x7fffffff };

static int exponent(float x, int least) {
  int e = (int)(attune__bits(x) >> 23 & 255) - 127;
  return x == 0 ? NO_EXPONENT : e < least ? least : e;
}

static double power(int e) { /* 2^e, -1022 <= e <= 1023 */
  uint64_t bits = (uint64_t)(e + 1023) << 52;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Cut to `bits` below the leading one, or below 2^-126 when x is less: a float. */
static float cut(double x, int bits) {
  if (fabs(x) < 0x1p-126) return (float)(trunc(x * power(126 + bits)) * power(-126 - bits));
  uint64_t image;
  memcpy(&image, &x, sizeof image);
  image &= ~UINT64_C(0) << (52 - bits);
  memcpy(&x, &image, sizeof x);
  return (float)x; /* exact, or infinity */
}

static float finish(const attune__dot *dot, double sum) {
  if (sum != sum) return attune__f32(NAN_BITS);
  if (isinf(sum)) return (float)sum;
  return dot->half ? attune__f32(half_to_float(double_to_half(sum))) : cut(sum, dot->keep);
}

/* One step of one result: n products. ea, eb: exponents of the factors. */
static float hardware_step(const attune__dot *dot, float c, const float *a, const int *ea,
                           const float *b, const int *eb) {
  int largest = exponent(c, dot->half ? -14 : -126);
  if (largest < ZERO_EXPONENT) largest = ZERO_EXPONENT;
  double exact = c;
  for (uint32_t k = 0; k < dot->step; k++) {
    int e = ea[k] + eb[8 * k];
    if (e > largest) largest = e;
    exact += (double)a[k] * b[8 * k];
  }
  if (!isfinite(exact)) return finish(dot, exact);
  double up = power(dot->fraction - largest), sum = trunc(c * up);
  for (uint32_t k = 0; k < dot->step; k++) sum += trunc((double)a[k] * b[8 * k] * up);
  return finish(dot, sum * power(largest - dot->fraction));
}

static void hardware_block(const attune__dot *dot, float c[64], const float *a, const float *b) {
  int ea[8 * ATTUNE__K_MAX] = {0}, eb[8 * ATTUNE__K_MAX] = {0};
  for (uint32_t i = 0; i < 8 * dot->k; i++)
    ea[i] = exponent(a[i], dot->least_a), eb[i] = exponent(b[i], dot->least_b);
  for (uint32_t r = 0; r < 8; r++)
    for (uint32_t n = 0; n < 8; n++)
      for (uint32_t k = 0; k < dot->k; k += dot->step) {
        uint32_t i = r * dot->k + k, j = 8 * k + n;
        c[8 * r + n] = hardware_step(dot, c[8 * r + n], a + i, ea + i, b + j, eb + j);
      }
}

/* Hopper's mma.sync of 8-bit elements: two f16 instructions, of the lower and the upper halves of
 * 32-bit words of k, on zeros; then an ordinary addition of C. */
static void block_by_f16(const attune__dot *dot, float c[64], const float *a, const float *b) {
  float a16[8 * ATTUNE__K_MAX], b16[8 * ATTUNE__K_MAX], sum[64] = {0};
  for (uint32_t i = 0; i < dot->k; i++) {
    uint32_t k = i % dot->step / 2 * 4 + i / dot->step * 2 + i % 2;
    for (uint32_t r = 0; r < 8; r++)
      a16[r * dot->k + i] = a[r * dot->k + k], b16[8 * i + r] = b[8 * k + r];
  }
  hardware_block(dot, sum, a16, b16);
  for (uint32_t i = 0; i < 64; i++) {
    c[i] += sum[i];
    if (c[i] != c[i]) c[i] = attune__f32(NAN_BITS);
  }
}

void attune__mma_block(const attune__dot *dot, float c[64], const float *a, const float *b) {
  if (dot->by_f16)
    block_by_f16(dot, c, a, b);
  else if (dot->step)
    hardware_block(dot, c, a, b);
  else
    plain_block(dot->k, c, a, b);
}
