/* probe.h - one program on the CPU device: dense data in; outputs, and what moved, out.
 *
 * What `attune trace`, `attune demo` and the traffic tests share. Tensors are float, dense, [batch,
 * heads, len, dim], and hold values of the variant's dtypes. One probe is one context: programs of
 * one variant with different tiles do not meet. */
#ifndef ATTUNE_PROBE_H
#define ATTUNE_PROBE_H

#include "../runtime/attune_cpu.h"
#include "kernel.h"
#include "model.h"
#include "store.h"

typedef struct attune__probe attune__probe;

/* What features need comes from the probe: a dense bias about N(0, 1), slopes and sinks of 1/4, a
 * bit mask of ones without classes, sequences of one length, packed: their tensors are [heads,
 * batch
 * * len, dim]. */
typedef struct attune__probe_data {
  const float *q, *k, *v;
  float *o;    /* out; NULL: not wanted */
  float *lse;  /* out, [batch, heads_q, len_q]; NULL: the launch is not given any */
  float scale; /* of Q K^T */
} attune__probe_data;

/* A program of exactly these entries (whole entry files), one per part of the variant. options may
 * be NULL; its arch is set here, to that of the entries. */
attune_status attune__probe_open(const attune_cpu_options *options, const void *const *entries,
                                 const size_t *entry_bytes, int count, attune__probe **out);
/* The same from kernels, whose entries come from the store. */
attune_status attune__probe_open_kernels(attune_store *store, const attune_cpu_options *options,
                                         const attune_kernel *kernels, int count,
                                         attune__probe **out);
void attune__probe_close(attune__probe *probe);
/* Entry of a part, without payloads. */
const attune_entry *attune__probe_entry(const attune__probe *probe, int part);
int attune__probe_parts(const attune__probe *probe);

/* Launches once. ATTUNE_MISMATCH: a check found a fault; attune_error() is its report. */
attune_status attune__probe_run(attune__probe *probe, const attune_shape *shape,
                                const attune__probe_data *data);
/* Floats of Q, K, V and O of a shape. */
typedef struct attune__probe_sizes {
  size_t q, k, v, o, lse;
} attune__probe_sizes;
attune__probe_sizes attune__probe_sizes_of(const attune_variant *variant,
                                           const attune_shape *shape);
/* About N(0, 1) from a seed, rounded to the dtype; equal seeds give equal numbers everywhere. */
void attune__probe_normal(uint64_t seed, int dtype, float *out, size_t count);

/* Bytes of a tensor by the planner's formula and as counted. */
typedef struct attune__tally_row {
  const char *tensor;              /* "q" "k" "v" "o" "lse" "scores" */
  uint64_t formula[4], counted[4]; /* requested read and write, compulsory read and write */
} attune__tally_row;
enum {
  ATTUNE__REQUESTED_READ,
  ATTUNE__REQUESTED_WRITE,
  ATTUNE__COMPULSORY_READ,
  ATTUNE__COMPULSORY_WRITE,
  ATTUNE__TALLY_COUNTS
};
typedef struct attune__tally {
  attune__tally_row row[ATTUNE_CPU_TENSORS + ATTUNE_MAX_TENSORS];
  int count;
  uint64_t difference; /* sum of |counted - formula| over all */
  attune_cpu_counters counters;
} attune__tally;
/* The formulas alone, with `counted` left 0. */
void attune__tally_formulas(const attune_variant *variant, const attune_tile *tile,
                            const attune_shape *shape, int with_lse, attune__tally *out);
/* Of one part of the last run. */
attune_status attune__probe_tally(attune__probe *probe, int part, attune__tally *out);

#endif
