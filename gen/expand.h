/* expand.h - from requests to kernels and rows: plans every part, keeps the best tile, drops
 * duplicates. The value that `attune list` prints and `attune build` compiles. */
#ifndef ATTUNE_EXPAND_H
#define ATTUNE_EXPAND_H

#include "spec.h"

typedef struct attune_job_row {
  attune_variant variant; /* part 0 */
  attune_class cls;
  attune_corner corner;
  int32_t max_len_k; /* the most keys that its kernels take; 0: any number */
  int kernel_count;
  int kernel[ATTUNE_MAX_PARTS];     /* indices into kernels */
  char fallback[ATTUNE_REASON_MAX]; /* why a slower family serves it; "": it is none */
  int measured;                     /* 1: by a measured row; its class is that row's */
} attune_job_row;

typedef struct attune_job {
  attune_kernel *kernels; /* sorted by name, unique */
  int kernel_count;
  attune_job_row *rows; /* sorted by variant name and class */
  int row_count;
  attune__text notes; /* a line for each measured row or GPU that was passed over, and why */
} attune_job;

/* Names of kernels, for the next candidate to be taken in their place. */
typedef struct attune__avoided {
  char (*name)[ATTUNE_NAME_MAX];
  int count;
} attune__avoided;

/* Plans all requests. A request for which no tile fits fails the job: errors get one diagnostic
 * each, at the request's line. Of several budgets the largest gets the row. A request that names a
 * GPU gets a row for each class that is measured there, beside the planner's for any. */
attune_status attune__expand(const attune_spec *spec, attune_job *out, attune__text *errors);
/* The same where some kernels proved to be of no use: of a request's candidates the first that is
 * not one of them, or the first of all when they all are. Measured rows are taken as they are. */
attune_status attune__expand_without(const attune_spec *spec, const attune__avoided *avoided,
                                     attune_job *out, attune__text *errors);
/* What the planner is asked about a part of a request: the shape that stands for the class, with
 * what the request pins of it, and tiles that take `keys` keys, too (0: the shape's will do). */
attune_plan_request attune__request_plan(const attune_request *request, int part, attune_class cls,
                                         int64_t keys);
/* The kernels of one request for the class and keys, in launch order. */
attune_status attune__expand_request(const attune_request *request, attune_class cls, int64_t keys,
                                     attune_kernel *kernels, int *count);
void attune__job_free(attune_job *job);

#endif
