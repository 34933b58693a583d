/* jit.h - compile at the first call: the generator installs itself as the runtime's miss handler;
 * and tuning in the program that calls: which tile is fastest on this GPU for a problem's shapes.
 *
 * Public: programs that want JIT link libattune_gen beside libattune and call attune_jit_install.
 *
 * A program is made for the variant and the class of the problem's shape (`attune explain NAME`
 * lists what it takes for each): by the row that was measured on this GPU, else planned for a shape
 * that stands for the class, with what the problem pins of it, whatever the lengths of the first
 * call. So a variant costs one compile for each class that is called, fewer where classes share a
 * tile: the store keeps it once. Where a program takes up to so many keys (attune_launch refuses
 * more), a call of its class with more of them gets another, for any number: look up by the
 * problem's own lengths. The class has that one alone, fewer keys and all, where a call with more
 * came first. */
#ifndef ATTUNE_JIT_H
#define ATTUNE_JIT_H

#include "attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a first call does where this GPU has no measured row for the variant and shape class. A call
 * that finds one uses it in every mode. */
typedef enum attune_tune_mode {
  ATTUNE_TUNE_OFF = 0,       /* the planner's choice serves */
  ATTUNE_TUNE_ONCE = 1,      /* attune_prepare tunes before it returns, for at most the budget */
  ATTUNE_TUNE_BACKGROUND = 2 /* the planner's choice serves at once; a thread tunes between calls,
                                and lookups that come after it find the winner */
} attune_tune_mode;

typedef struct attune_jit_options {
  size_t size;       /* sizeof(attune_jit_options) */
  const char *store; /* folder of entries; NULL: ATTUNE_CACHE_DIR, XDG_CACHE_HOME, ~/.cache */
  int32_t no_jit;    /* 1: use the store, never compile: a miss, of a class whose tile nobody called
                        for, too, says which spec lines to add */
  attune_message_fn
      message; /* compiles with their time, fallbacks with their reason; may be NULL */
  void *message_user;
  attune_tune_mode tune;    /* needs a GPU, and compiling: no_jit turns it off */
  double tune_budget;       /* seconds for a problem, of the device's in the background; 0: 10 */
  double tune_share;        /* part of the device's time that the background may take; 0: 0.05 */
  const char *tune_program; /* the attune program (a path, or a name that PATH has), for candidates
                               that have not passed on this GPU and driver yet: they run in a
                               process of its own first. NULL: those are left out. Copied */
} attune_jit_options;
ATTUNE__INIT(attune_jit_options)

typedef struct attune_jit attune_jit;
/* Installs into the context. options may be NULL. ATTUNE_NO_JIT=1 in the environment forces no_jit.
 * Close the context first, then the jit. Thread rule: as attune_open. */
ATTUNE_API attune_status attune_jit_install(attune_context *context,
                                            const attune_jit_options *options, attune_jit **out);
ATTUNE_API void attune_jit_close(attune_jit *jit);

/* ---- tuning ------------------------------------------------------------------------------------
 *
 * Candidates are checked against float64, timed in turns beside what serves, and the winner must
 * beat it outside the noise (attune tune --help). Rows and what has passed are kept in the store's
 * folder, tuned/<gpu>.yaml, which `attune tune` and later runs share. Closing the context ends what
 * goes on in the background. The background keeps away from stream captures that attune launches
 * into, and from all of streams that wait for the default stream. */

typedef struct attune_tune_options {
  size_t size;        /* sizeof(attune_tune_options) */
  double budget;      /* seconds; 0: 10 */
  uint64_t seed;      /* of the search: the same gives the same proposals */
  int32_t max_trials; /* candidates; 0: 40 */
} attune_tune_options;
ATTUNE__INIT(attune_tune_options)

/* Times are milliseconds of a call: medians. */
typedef struct attune_tune_result {
  size_t size;                /* sizeof(attune_tune_result) */
  attune_program *program;    /* what serves the problem from now on, prepared */
  double planned, winner;     /* the planner's choice, and the winner, in the same rounds */
  double gain;                /* percent by which the winner is faster than the planner's choice */
  double gain_low, gain_high; /* the ends of its interval */
  int32_t tried;              /* candidates that were timed */
  int32_t changed;            /* 1: another program serves than before */
  int32_t
      provisional; /* 1: something disturbed; the row is not used, and measured again next time */
} attune_tune_result;
ATTUNE__INIT(attune_tune_result)

/* Tunes the problem's variant for the class of its shape, on that shape, and puts the winner to
 * work in the context; programs from before stay valid. Takes up to the budget, device memory for
 * several sets of the problem's tensors, and a device that does nothing else meanwhile; not to be
 * called while a stream is captured (ATTUNE_BUSY where that is seen). options and out may be NULL.
 * ATTUNE_NO_DEVICE; ATTUNE_UNSUPPORTED with no_jit; ATTUNE_NO_COMPILER; ATTUNE_NOT_FOUND: nothing
 * could be timed, the message says why. Thread rule: any; one tuning at a time, others wait. */
ATTUNE_API attune_status attune_tune(attune_jit *jit, const attune_problem *problem,
                                     const attune_tune_options *options, attune_tune_result *out);

#ifdef __cplusplus
}
#endif
#endif
