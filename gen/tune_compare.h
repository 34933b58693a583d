/* tune_compare.h - do measured rows still hold? Their winners are timed again beside what the
 * planner would choose today: after another driver, another NVRTC, another attune. */
#ifndef ATTUNE_TUNE_COMPARE_H
#define ATTUNE_TUNE_COMPARE_H

#include "tune.h"

typedef enum attune__compare_verdict {
  ATTUNE__COMPARE_HOLDS = 0, /* faster than the planner's choice, or not slower outside the noise */
  ATTUNE__COMPARE_PLANNED,   /* it is the planner's choice: there is nothing to be slower than */
  ATTUNE__COMPARE_SLOWER,    /* slower than the planner's choice, outside the noise */
  ATTUNE__COMPARE_FAILED,    /* not legal any more, not compiled, wrong, a fault or a hang */
  ATTUNE__COMPARE_DISTURBED, /* nothing can be said: `why` */
  ATTUNE__COMPARE_SKIPPED    /* it cannot be made from its name: `why` */
} attune__compare_verdict;
const char *attune__compare_word(attune__compare_verdict verdict); /* "slower" */

typedef struct attune__comparison {
  attune__compare_verdict verdict;
  attune__tiles planned;
  attune__tuned_time winner_time, planned_time; /* 0 where not timed */
  char why[ATTUNE__WHY_MAX];
} attune__comparison;

/* Whether a row is of the GPU that the lab has, whatever compiled it and drove it. */
int attune__compare_is_here(const attune__tuned_row *row, const attune__lab_facts *facts);
/* Times one row. Fails for the lab's and the compiler's own sake alone. */
attune_status attune__compare_row(const attune__tuned_row *row, const attune__lab *lab,
                                  const attune__tune_compiler *compiler,
                                  const attune__bench_options *options, attune__comparison *out);

#endif
