/* tune_compile.h - kernels compiled ahead of the timing, in parallel, in the order of the asking.
 * One thread asks; each kernel is made once. Inside of the tuner only. */
#ifndef ATTUNE_TUNE_COMPILE_H
#define ATTUNE_TUNE_COMPILE_H

#include "tune.h"

typedef struct attune__ahead attune__ahead;

/* One kernel's way. Its fields are the asker's to read once attune__ahead_wait said so. */
typedef struct attune__made {
  attune_kernel kernel;
  char digest[17];
  uint32_t registers; /* of a thread, as compiled; 0: not known */
  void *bytes;        /* the entry file */
  size_t size;
  attune_status status;
  char why[ATTUNE__WHY_MAX];
  int state; /* of tune_compile.c */
} attune__made;

attune_status attune__ahead_open(const attune__tune_compiler *compiler, int jobs,
                                 double deadline_ms, attune__ahead **out);
/* What is under way is waited for; what is not begun is dropped. */
void attune__ahead_close(attune__ahead *ahead);
/* The kernel of that name, queued when it is new. NULL without memory. Lives until the close. */
attune__made *attune__ahead_add(attune__ahead *ahead, const attune_kernel *kernel);
/* Waits until it is made; 0: the deadline comes first. */
int attune__ahead_wait(attune__ahead *ahead, attune__made *made);
int attune__ahead_compiled(attune__ahead *ahead);

#endif
