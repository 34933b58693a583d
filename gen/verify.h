/* verify.h - runs programs on nasty shapes and real data, and compares with float64.
 *
 * Bound on O: max|err| <= 2 * max|err of rounded standard attention| + 1 output ulp at max|O|
 * (fp32: + 8 ulp at max|V|). Bound on LSE: absolute, stated in verify_judge.c with its derivation.
 * Outputs and padding are poisoned before each run; two runs must agree bit for bit. */
#ifndef ATTUNE_VERIFY_H
#define ATTUNE_VERIFY_H

#include "../runtime/device.h"
#include "model.h"
#include "text.h"

typedef struct attune_verdict {
  char name[ATTUNE_NAME_MAX]; /* kernel, or variant of a program of several */
  int kernels;                /* kernels that this verdict speaks of */
  int passed, cases;          /* cases: those that ran */
  int not_run;                /* cases that could not: no memory, no data */
  char not_run_why[160];
  double worst_error, worst_bound; /* of the case nearest to or furthest over its bound */
  char worst_case[160];            /* "b2 h4/2 q65 k130 causal top_left strided" */
  char reason[400];                /* of the bound, or of the failure */
} attune_verdict;

typedef struct attune_verify_options {
  const char *data; /* folder of the real activations, NULL: tests/data/minilm; absent: said */
  int quick;        /* 1: the few most telling cases */
  int brief;   /* 1: those alone are run, and small; the others are named as not run: for the CPU
                  device, which takes seconds where a GPU takes milliseconds */
  int threads; /* for the reference; 0: all cores */
  int ahead;   /* over 1: so many cases' references are made at once, one thread each, before the
                  first runs: for small cases, whose heads are too few to share among threads */
  uint64_t seed;
  const attune_pinset *pins; /* what the program's kernels were pinned to, NULL: nothing */
} attune_verify_options;

/* A prepared program of exactly these entries (whole entry files, see entry.h), one per part of the
 * variant, whatever the context would have looked up: the context must not know the variant yet,
 * and has no miss handler afterwards. */
attune_status attune__verify_open(attune_context *context, const attune_variant *variant,
                                  const attune_pinset *pins, const void *const *entries,
                                  const size_t *entry_bytes, int count, attune_program **out);
/* Verifies one prepared program through `device`, which is its context's. options may be NULL.
 * ATTUNE_MISMATCH when a case failed (verdict says which); other statuses mean that it could not be
 * run. A driver error during a case is that case's failure, and ends the run. */
attune_status attune__verify_program(attune_program *program, attune__device *device,
                                     const attune_variant *variant,
                                     const attune_verify_options *options, attune_verdict *out);
/* One line: name, pass or FAIL, error, bound, cases, reason. */
void attune__verdict_print(const attune_verdict *verdict, attune__text *out);

#endif
