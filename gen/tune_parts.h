/* tune_parts.h - what the files of the tuner share: the session and its cells.
 *
 *   tune.c        session, budget, passes over the cells
 *   tune_cell.c   one cell: its trials proposed, compiled and taken into the lab
 *   tune_duel.c   one cell's contenders timed: halving, the duel, the row */
#ifndef ATTUNE_TUNE_PARTS_H
#define ATTUNE_TUNE_PARTS_H

#include "tune_compile.h"

/* The kernels of a trial. */
typedef struct attune__tuner_parts {
  attune__made *made[ATTUNE_MAX_PARTS];
} attune__tuner_parts;

typedef struct attune__tuner_session attune__tuner_session;

typedef struct attune__tuner_cell {
  attune__tune_cell *out;
  attune_pinset pins;
  attune_plan plan[ATTUNE_MAX_PARTS];
  int parts;
  attune__search *search;
  attune__tuner_parts *kernels; /* of each trial */
  int incumbent;                /* trial to beat */
  int next;                     /* first trial that was not tried; all behind it were not */
  int exhausted;                /* 1: nothing is left to propose, or the cell cannot be opened */
  int turns;                    /* that it took */
  attune__tiles before;         /* of the row that there was; count 0: none */
} attune__tuner_cell;

struct attune__tuner_session {
  const attune__lab *lab;
  const attune__tune_compiler *compiler;
  const attune__tune_options *options;
  attune__tuned *known;
  attune__tune_result *result;
  attune__ahead *ahead;
  attune__tuner_cell *cell;
  int cells;
  double began_ms, end_ms; /* end_ms 0: no budget */
  int turns;               /* taken, and milliseconds of them */
  double turns_ms;
  int hurry;         /* 1: cells without a time get one challenger, or some would get no turn */
  double longest_ms; /* of a cell's turn */
  int max_trials;
};

double attune__tuner_now(void);
int attune__tuner_out_of_time(const attune__tuner_session *s);
/* Tells the caller's progress; message may be NULL. */
void attune__tuner_say(const attune__tuner_session *s, const char *message);
void attune__tuner_date(char out[ATTUNE__DATE_MAX]);
/* The key of rows of a variant. */
attune__tuned_key attune__tuner_key(const attune__tuner_session *s, const attune_variant *variant);

/* ---- tune_cell.c ---- */

/* Plans the cell, whose variant and shape are set, and appends the row that there was. */
attune_status attune__tuner_cell_plan(attune__tuner_session *s, attune__tuner_cell *c,
                                      const attune_request *request);
void attune__tuner_cell_free(attune__tuner_cell *c);
/* Proposes up to `count` more trials and queues their kernels. */
attune_status attune__tuner_cell_propose(attune__tuner_session *s, attune__tuner_cell *c,
                                         int count);
/* Takes a turn: all trials from c->next on, beside the incumbent. Candidates' failures are noted
 * and said; a failure of anything else is returned. */
attune_status attune__tuner_cell_turn(attune__tuner_session *s, attune__tuner_cell *c);

/* ---- tune_duel.c ---- */

/* Contenders of the open cell: trials by their place in the lab. */
typedef struct attune__tuner_ring {
  int trial[64];
  int count;
} attune__tuner_ring;
/* Times them and keeps what comes of it in the cell. */
attune_status attune__tuner_duel(attune__tuner_session *s, attune__tuner_cell *c,
                                 const attune__tuner_ring *ring);
/* A trial is of no use: why, and a mark for those of its kernels that the lab saw. */
attune_status attune__tuner_condemn(attune__tuner_session *s, attune__tuner_cell *c, int trial,
                                    attune_status status);

#endif
