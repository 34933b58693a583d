/* tune.h - finds the fastest tile of each variant and shape class by measuring.
 *
 *   tune.c          cells, passes, the budget, what wins
 *   tune_compile.c  kernels compiled ahead of the timing, in parallel
 *   tune_search.c   the rule: which tile is tried next
 *   tune_lab.h      where a candidate is checked and timed
 *   tune_rows.h     what comes of it, and the files that keep it
 *
 * A cell is one variant on one shape class. Its candidates are the planner's first choice, what
 * won for its relatives, the planner's next ones, then neighbours of the best so far; each is
 * compiled, checked against the reference, and timed in interleaved rounds beside the incumbent;
 * the slower half is dropped after each of a few rounds. The incumbent is the measured row that
 * there is, else the planner's first choice. To win, a candidate must beat it in rounds of their
 * own by ATTUNE__TUNE_MARGIN, outside the noise. */
#ifndef ATTUNE_TUNE_H
#define ATTUNE_TUNE_H

#include "plan.h"
#include "spec.h"
#include "tune_lab.h"

/* A gain below this is not worth a change of row: part of a median, 1 %. */
#define ATTUNE__TUNE_MARGIN 0.01

/* ---- the rule ----------------------------------------------------------------------------------
 */

/* One variant's tiles on one shape: what the planner lists, and what the knobs make of it. */
typedef struct attune__search attune__search;
/* The plans are those of the program's parts, in order; borrowed. Same seed, same proposals. */
attune_status attune__search_open(const attune_plan *plans, int parts, uint64_t seed,
                                  attune__search **out);
void attune__search_close(attune__search *search);
/* The next tiles to try, none that was proposed, taken or told before. 0: there are none left. */
int attune__search_next(attune__search *search, attune__tiles *out);
/* What came of tiles, proposed or not: milliseconds; INFINITY when they cannot be used. */
void attune__search_tell(attune__search *search, const attune__tiles *tiles, double milliseconds);
/* What was good elsewhere: where it is legal here and new, it is proposed next, once the planner's
 * first choice has been. The first ATTUNE__SEARCH_SUGGESTED are kept, and none of before. */
enum { ATTUNE__SEARCH_SUGGESTED = 6 };
void attune__search_suggest(attune__search *search, const attune__tiles *tiles, int count);
/* These are tried already: they are not proposed. */
void attune__search_take(attune__search *search, const attune__tiles *tiles);

/* ---- results -----------------------------------------------------------------------------------
 */

typedef enum attune__trial_state {
  ATTUNE__TRIAL_NEW,
  ATTUNE__TRIAL_TIMED,
  ATTUNE__TRIAL_NOT_COMPILED, /* an error, or registers spill */
  ATTUNE__TRIAL_WRONG,        /* a defect: reported, never timed */
  ATTUNE__TRIAL_FAULT,
  ATTUNE__TRIAL_HANG,
  ATTUNE__TRIAL_LATE /* the budget ended before it was timed */
} attune__trial_state;

typedef struct attune__tune_trial {
  attune__tiles tiles;
  attune__trial_state state;
  attune__tuned_time time; /* of the last rounds that it was in */
  double ratio;            /* its median over the incumbent's in the same rounds; 0: not timed */
  uint32_t smem_bytes;     /* of the kernel with most */
  uint32_t registers;      /* of a thread, as compiled; 0: not known */
  char why[ATTUNE__WHY_MAX];
} attune__tune_trial;

typedef struct attune__tune_cell {
  int request; /* index into the spec's requests */
  attune_variant variant;
  attune_class cls;
  attune_shape shape;
  attune__tune_trial *trial; /* [0] is the planner's first choice */
  int trials;
  int winner;            /* index of it; -1: nothing was timed */
  int changed;           /* 1: the winner is another than the row that there was */
  attune__tuned_row row; /* the result, when winner >= 0 */
} attune__tune_cell;

typedef struct attune__tune_result {
  attune__lab_facts facts;
  attune__tune_cell *cell;
  int cells;
  int compiled, checked, timed; /* candidates */
  int wrong, faults, hangs;
  int unfinished; /* cells that the budget left without a time */
  double wall_s;
} attune__tune_result;
void attune__tune_result_free(attune__tune_result *result);

/* ---- the tuner ---------------------------------------------------------------------------------
 */

typedef struct attune__tune_progress {
  double elapsed_s, budget_s;
  int cells, cells_timed; /* with a time */
  int timed;              /* candidates */
  const char *message;    /* a defect, a fault, a hang: a line of its own; NULL: none */
} attune__tune_progress;

/* Kernel -> entry file, from several threads at once; a test's makes it up. */
typedef struct attune__tune_compiler {
  void *user;
  /* *bytes is malloc'ed. ATTUNE_COMPILE also when registers spill. digest: of what was compiled,
   * for the marks (attune__tuned_mark). */
  attune_status (*compile)(void *user, const attune_kernel *kernel, void **bytes, size_t *size,
                           char digest[17]);
  char nvrtc[32]; /* its version, for the rows' key */
} attune__tune_compiler;

typedef struct attune__tune_options {
  double budget_s; /* 0: until nothing is left to try */
  uint64_t seed;
  int jobs;                   /* compiles at once; 0: three quarters of the cores */
  int max_trials;             /* of a cell; 0: 40 */
  int more;                   /* 1: search on where a row is measured; 0: confirm it */
  const attune_shape *shapes; /* to tune for; NULL: of each class the planner's */
  int shape_count;
  attune__bench_options final; /* of the rounds that decide; 0: 15 rounds of 2 ms */
  void (*progress)(void *user, const attune__tune_progress *progress);
  void *user;
} attune__tune_options;

/* Tunes every variant of a spec that the lab's device runs. `known` has rows and marks of before,
 * and gets those that were made: the caller saves it, or what it has added to it. ATTUNE_NOT_FOUND:
 * nothing there runs on the device. Candidates' failures are in the result. */
attune_status attune__tune(const attune_spec *spec, const attune__lab *lab,
                           const attune__tune_compiler *compiler,
                           const attune__tune_options *options, attune__tuned *known,
                           attune__tune_result *out);

#endif
