/* bench.h - times programs side by side: what `attune bench`, `attune verify --source` and a tuner
 * share.
 *
 *   bench.c         rounds, medians and intervals of anything behind a timer
 *   bench_device.c  the timer of a GPU: programs of one problem on one shape
 *   bench_figures.c what a time means: FLOP/s, bytes/s, share of the ceiling that binds
 *
 * One round takes a sample of every contender, in orders in which each stands behind each other one
 * equally often, so that what drifts (clocks, heat) meets all alike. A sample is many calls in a
 * row and lasts a few milliseconds. */
#ifndef ATTUNE_BENCH_H
#define ATTUNE_BENCH_H

#include "../runtime/device.h"
#include "model.h"

/* ---- anything behind a timer -------------------------------------------------------------------
 */

/* Contenders are numbered from 0. A test's timer makes its times up. */
typedef struct attune__bench_timer {
  void *user;
  /* Milliseconds on the device of `calls` calls of a contender in a row; waits for them. */
  attune_status (*device)(void *user, int contender, int calls, double *milliseconds);
  /* Milliseconds on the host of as many launches, not waiting for the device. */
  attune_status (*host)(void *user, int contender, int calls, double *milliseconds);
} attune__bench_timer;

enum { ATTUNE__BENCH_ROUNDS = 15, ATTUNE__BENCH_MAX_ROUNDS = 1000, ATTUNE__BENCH_MAX_CALLS = 4096 };

typedef struct attune__bench_options {
  int rounds;       /* 0: ATTUNE__BENCH_ROUNDS */
  double sample_ms; /* a sample's least duration on the device; 0: 5 */
  double warm_ms;   /* time on the device before the first round, at least; 0: 300 */
} attune__bench_options;

/* Milliseconds per call. */
typedef struct attune__bench_time {
  int rounds, calls;    /* samples, and calls in each */
  double median;        /* over the samples */
  double low, high;     /* of the median: order statistics, see attune__bench_interval */
  double coverage;      /* probability that low..high holds it; under 0.95 with fewer than 6 */
  double drift;         /* median of the last third of the samples over that of the first, less 1 */
  double host;          /* median time of a launch on the host */
  attune_status status; /* why there is no time; ATTUNE_OK: there is */
  char error[200];
} attune__bench_time;

/* From this drift on a time is provisional: the clocks had not settled, or somebody else computes.
 */
#define ATTUNE__BENCH_DRIFT 0.03

/* Warms up until a sample of each contender repeats to 1 % (or for ten times warm_ms), then times
 * `count` contenders into out[count]. A contender that fails is left out of further rounds; its
 * status says why. ATTUNE_NO_MEMORY, ATTUNE_INVALID; a contender's failure is not this call's. */
attune_status attune__bench_run(const attune__bench_timer *timer, int count,
                                const attune__bench_options *options, attune__bench_time *out);

/* Places (from 0) of the two samples of n, sorted, between which the median of what they were drawn
 * from lies with a probability of at least 0.95: the k-th lowest and highest, with the largest k
 * for which 1 - 2 P(Binomial(n, 1/2) < k) is that much; no assumption on the distribution. With
 * fewer than 6 samples no k is: the ends. Returns the probability. */
double attune__bench_interval(int n, int *low, int *high);

/* ---- programs on a GPU -------------------------------------------------------------------------
 */

typedef enum attune__l2 {
  ATTUNE__L2_COLD, /* calls go round over sets of tensors that together are twice the L2 */
  ATTUNE__L2_WARM  /* every call has the same tensors */
} attune__l2;

typedef struct attune__bench attune__bench;

/* Tensors of a problem on a shape, in device memory: Q, K and V about N(0, 1), [batch, seq, head,
 * dim]; with LSE, and what the features ask for (bench_features.h). pins, which may be NULL, hold
 * for shape and scalars. ATTUNE_NO_DEVICE where the device cannot tell its time: only a GPU can. */
attune_status attune__bench_open(attune__device *device, const attune_variant *variant,
                                 const attune_pinset *pins, const attune_shape *shape,
                                 attune__l2 l2, attune__bench **out);
void attune__bench_close(attune__bench *bench);
/* The next contender: a prepared program whose context is on that device, and lives longer. */
attune_status attune__bench_add(attune__bench *bench, attune_program *program);
/* Runs all that were added; out has one for each. */
attune_status attune__bench_times(attune__bench *bench, const attune__bench_options *options,
                                  attune__bench_time *out);
/* The timer of what was added, for a run that is not of all: contenders as they were added. */
attune__bench_timer attune__bench_timer_of(attune__bench *bench);
/* Kernels of a contender, in launch order; blocks of one that an SM holds at once, 0: unknown. */
int attune__bench_parts(const attune__bench *bench, int contender);
const attune_entry *attune__bench_entry(const attune__bench *bench, int contender, int part);
int attune__bench_occupancy(const attune__bench *bench, int contender, int part);
const attune_shape *attune__bench_shape(const attune__bench *bench); /* with what is pinned */
int attune__bench_sets(const attune__bench *bench);                  /* of tensors */
size_t attune__bench_set_bytes(const attune__bench *bench);          /* of one of them */

/* ---- what a time means -------------------------------------------------------------------------
 */

typedef struct attune__bench_figures {
  double flops;       /* of a call, by the field's convention (attune__flops) */
  double bytes;       /* compulsory, by the traffic models */
  double tflops, gbs; /* 10^12 FLOP/s, 10^9 bytes/s at the median */
  double ceiling;     /* milliseconds of the ceilings that bind, summed over the kernels */
  const char *binds;  /* of the kernel with the largest; "nothing" */
  double share;       /* ceiling / median, 0 .. 1 */
  const attune_board
      *board; /* whose ceilings they are; NULL: no model, then the last three are 0 */
} attune__bench_figures;

/* entries: of the program's kernels, payloads not needed. median: milliseconds, 0: unknown. */
void attune__bench_figures_of(const attune_entry *const *entries, int count, uint32_t arch,
                              const attune_shape *shape, double median, attune__bench_figures *out);

#endif
