/* bench_features.h - what a bench passes beside Q, K, V, O and LSE: what the variant's features ask
 * for, in their plainest form. Inside of bench only. */
#ifndef ATTUNE_BENCH_FEATURES_H
#define ATTUNE_BENCH_FEATURES_H

#include "bench.h"

/* softcap 50. ALiBi: 2^(-8 h / heads), the same for all sequences. Bias: random, one for each head.
 * Sinks: 0. Bit mask: every bit set, for all sequences and heads; no block classes. Varlen:
 * sequences of the shape's length, packed. Pinned scalars have their values. */
typedef struct attune__bench_features {
  attune__device *device;
  attune_variant variant;
  attune_shape shape;
  void *lengths, *slopes, *bias, *sinks, *bits; /* on the device; NULL: not of the variant */
  float softcap, scale;
  int scaled; /* 0: the default scale */
} attune__bench_features;

/* attune__bench_features_free is due on failure too. */
attune_status attune__bench_features_make(attune__device *device, const attune_variant *variant,
                                          const attune_pinset *pins, const attune_shape *shape,
                                          attune__bench_features *out);
void attune__bench_features_free(attune__bench_features *features);
/* Fills the arguments' members of the features, and what they change of the others. */
void attune__bench_features_args(const attune__bench_features *features, attune_attn_args *args);

#endif
