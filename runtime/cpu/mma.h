/* mma.h - the arithmetic of tensor cores, on blocks of 8 x 8 results.
 *
 * Operands travel in chunks of 16 bytes: a row of 8 16-bit elements, 4 tf32 or 16 8-bit ones. A
 * register of an mma fragment is 8 chunks, one a row, and so is a core matrix of wgmma. */
#ifndef ATTUNE_CPU_MMA_H
#define ATTUNE_CPU_MMA_H

#include "engine.h"

typedef enum attune__element {
  ATTUNE__F16,
  ATTUNE__BF16,
  ATTUNE__TF32,
  ATTUNE__E4M3,
  ATTUNE__E5M2
} attune__element;

enum { ATTUNE__CHUNK = 16, ATTUNE__K_MAX = 32 };

static inline uint32_t attune__element_bytes(attune__element e) {
  return e == ATTUNE__TF32 ? 4 : e == ATTUNE__E4M3 || e == ATTUNE__E5M2 ? 1 : 2;
}
/* Elements in a chunk. */
static inline uint32_t attune__chunk_elements(attune__element e) {
  return ATTUNE__CHUNK / attune__element_bytes(e);
}

/* How one instruction adds the k products of a result to its accumulator. */
typedef struct attune__dot {
  uint32_t k;
  int half;             /* the accumulator is f16 */
  int by_f16;           /* 8-bit elements that f16 instructions multiply */
  uint32_t step;        /* products that are added at once; 0: plain float sums, k ascending */
  int fraction;         /* bits kept below the largest term's exponent */
  int keep;             /* bits of the fraction of a float result */
  int least_a, least_b; /* exponent of the elements' subnormals */
} attune__dot;

/* The dot product of a, b (chunks: 16-byte units of k) on the launch's arch, in its mode. */
attune__dot attune__mma_dot(const attune__warp *w, attune__element a, attune__element b,
                            uint32_t chunks, int half, int wgmma);

/* c[8][8] += a[8][k] b[k][8], rounded to what the accumulator holds. */
void attune__mma_block(const attune__dot *dot, float c[64], const float *a, const float *b);

/* Chunks to floats: chunk i to `to + i * pitch`. */
void attune__mma_unpack(attune__element e, const void *from, uint32_t chunks, float *to,
                        uint32_t pitch);
/* 8 x 8 floats: to[j][i] = from[i][j], rows of `from` pitch apart, those of `to` to_pitch. */
void attune__mma_transpose(const float *from, uint32_t pitch, float *to, uint32_t to_pitch);
/* An 8 x 8 block of accumulators and the registers that hold it: two of f32, one of f16. */
void attune__mma_load(const attune__warp *w, const attune__ins *i, uint32_t operand, int half,
                      float block[64]);
void attune__mma_store(const attune__warp *w, const attune__ins *i, uint32_t operand, int half,
                       const float block[64]);
/* A's fragment (operands `first` and on) as two blocks of 8 rows, k floats a row. */
void attune__mma_load_a(const attune__warp *w, const attune__ins *i, uint32_t first,
                        attune__element e, uint32_t k, float *a);

/* Compute capability of the launch's arch: 90. */
uint32_t attune__cc(const attune__warp *w);
/* A fault when the arch is older than `cc`. */
void attune__require_cc(attune__warp *w, uint32_t cc);

#endif
