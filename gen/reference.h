/* reference.h - attention in float64 on the host, and the same attention with a dtype's rounding
 * points: what every kernel is compared with. Threaded over (batch, head).
 *
 * Inputs are floats that already hold rounded values, laid out [batch, heads, seq, dim], dense;
 * packed sequences too, as lengths in use. The scores are those of attune_attn_args (attune.h).
 * A pair that the mask, the lengths or the bits leave out is never touched by arithmetic, so its
 * key and its bias may hold NaN; a row that sees a NaN gets NaN. A row of which no score is above
 * -inf gives O = 0 and LSE = -inf; with a sink, O = 0 and LSE = the sink. The result does not
 * depend on the number of threads. */
#ifndef ATTUNE_REFERENCE_H
#define ATTUNE_REFERENCE_H

#include "model.h"

typedef struct attune_reference_problem {
  attune_variant variant;
  attune_shape shape;
  double scale;
  const float *q, *k, *v;               /* [batch, heads, len, dim] */
  const int32_t *seqused_q, *seqused_k; /* [batch], may be NULL: all. Rows of O and LSE that are not
                                           in use are not written */
  /* What the variant's features name, else not read; as in attune_attn_args: */
  double softcap;
  const float *alibi_slopes; /* [batch, heads_q] */
  const float *bias;
  int64_t bias_stride[4]; /* batch, head, query, key */
  const float *sinks;     /* [heads_q] */
  const uint32_t *bitmask;
  int64_t bitmask_stride[3]; /* batch, head, query */
  int threads;               /* 0: all cores */
} attune_reference_problem;

/* o [batch, heads_q, len_q, head_dim_v] and lse [batch, heads_q, len_q] (may be NULL) in double.
 * ATTUNE_NO_MEMORY. */
attune_status attune__reference(const attune_reference_problem *p, double *o, double *lse);
/* Standard attention in the variant's dtypes. Rounding points, in order: S = Q K^T summed in float;
 * scale, softcap, bias and ALiBi in float, each operation rounded; S rounded to dtype_q; softmax in
 * float, a sink in float among its terms; P rounded to dtype_q; O summed in float, rounded to
 * dtype_out. LSE from the rounded S, in float. */
attune_status attune__reference_rounded(const attune_reference_problem *p, double *o, double *lse);
/* The shape of one sequence: the lengths are those in use. Its masks follow them. */
attune_shape attune__sequence(const attune_reference_problem *p, int64_t batch);
/* Whether the bits, where the variant has them, keep the pair (query head h, query i, key j). */
int attune__bit(const attune_reference_problem *p, int64_t batch, int64_t head, int64_t i,
                int64_t j);
/* What a bias counts as: finite ones end at -1e38. */
float attune__bias_value(float x);

/* Rounding to a dtype and its bits, round to nearest even. */
float attune__round(int dtype, float x);
void attune__to_dtype(int dtype, const float *from, void *to, size_t count);
void attune__from_dtype(int dtype, const void *from, float *to, size_t count);
/* Distance from |x| to the next larger value of the dtype. */
double attune__ulp(int dtype, double x);

#endif
