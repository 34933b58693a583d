/* conformance.h - the conformance kernels (tests/conformance/): one case for each primitive of the
 * CPU device, with seeded input. tests/gpu/record.c runs them on a GPU and writes what comes
 * out to tests/conformance/golden/; tests/test_conformance.c compares the CPU device with that. */
#ifndef ATTUNE_TESTS_CONFORMANCE_H
#define ATTUNE_TESTS_CONFORMANCE_H

#include <stddef.h>
#include <stdint.h>

typedef enum conformance_type {
  TYPE_RAW, /* any bits */
  TYPE_F32,
  TYPE_F16,
  TYPE_BF16,
  TYPE_E4M3,
  TYPE_E5M2
} conformance_type;

/* Random numbers: exponents from -spread to spread (within the type); with `odd` also zeros,
 * infinities and NaN. spread EVERYTHING: all exponents. */
typedef struct conformance_fill {
  conformance_type type;
  int spread, odd;
} conformance_fill;
enum { EVERYTHING = 1000 };

typedef struct conformance_map { /* a tensor map; dimension 0 is dense */
  conformance_type type;         /* TYPE_RAW: bytes */
  uint32_t element_bytes, rank;
  uint64_t dim[4], stride[4]; /* stride: bytes, [0] unused */
  uint32_t box[4];
  int swizzle;   /* bytes: 0, 32, 64, 128 */
  int of_output; /* the tensor is the output, not the input */
} conformance_map;

typedef struct conformance_case {
  const char *name; /* of the golden file */
  const char *file, *kernel;
  uint32_t grid, threads, smem_bytes, cluster;
  uint32_t words, more_words; /* of the input */
  conformance_fill fill, more_fill;
  uint32_t out_words; /* zeros before the launch */
  uint64_t a, b;
  const conformance_map *map;
  const int32_t (*coordinates)[4]; /* of each block, behind the input; a is where */
  conformance_type result;         /* of an approximation: what the bounds below are for */
  double relative, absolute;       /* 0, 0: bit for bit */
  int any_nan;                     /* of floats: NaN is NaN, its bits aside */
} conformance_case;

/* Launch parameters, as in tests/conformance/shared.cuh. */
typedef struct conformance_params {
  _Alignas(64) uint64_t map[16];
  uint64_t in, out, a, b;
} conformance_params;

extern const conformance_case conformance_cases[];
extern const size_t conformance_count;

/* CUDA text of a case's file, malloc'ed; NULL when it can't be read. */
char *conformance_source(const conformance_case *c);
/* Words of the input, coordinates included, and the input itself, malloc'ed. */
uint32_t conformance_in_words(const conformance_case *c);
uint32_t *conformance_input(const conformance_case *c);

#endif
