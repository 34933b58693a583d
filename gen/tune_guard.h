/* tune_guard.h - the lab of a tuner in a user's process.
 *
 * Candidates that have passed on this GPU model and driver are timed here, beside what the process
 * runs anyway. What has not is first run by a child process, on the same shape: one that faults or
 * hangs ends there. */
#ifndef ATTUNE_TUNE_GUARD_H
#define ATTUNE_TUNE_GUARD_H

#include "tune_lab.h"

/* A lab of another process, opened and closed as needed: while it lives it is another process on
 * the GPU, and nothing is timed here meanwhile. */
typedef struct attune__guard_trial {
  void *user;
  attune_status (*open)(void *user, attune__lab *out);
  void (*close)(void *user);
} attune__guard_trial;

/* Called around work on the device of this process. */
typedef struct attune__guard_gate {
  void *user;
  int (*enter)(void *user); /* waits until there may be some; 0: there shall be no more */
  void (*leave)(void *user);
  int (*disturbed)(void *user); /* 1: this process launched since the last enter */
} attune__guard_gate;

typedef struct attune__guard {
  attune__lab own;                  /* this process's */
  const attune__guard_trial *trial; /* NULL: there is none, and what has not passed is taken for
                                       what the process runs anyway */
  const attune__guard_gate *gate;   /* NULL: there is always leave to work */
  /* inside */
  attune__lab child;
  int child_open, child_has_cell, child_count;
  attune__lab_cell cell;
} attune__guard;

/* The lab; the guard lives longer. */
attune__lab attune__guard_lab(attune__guard *guard);
/* Ends the child, if there is one. */
void attune__guard_close(attune__guard *guard);

#endif
