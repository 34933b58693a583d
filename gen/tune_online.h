/* tune_online.h - tuning in a user's process: what attune_tune and a jit's tuning modes do.
 *
 *   tune_online.c       one problem tuned, its row kept, its winner put to work
 *   tune_background.c   problems that wait, the thread that tunes them, and when it may work
 *   tune_host.c         the GPU, the program that tries candidates, the compiler
 *   tune_guard.h        which candidates are timed in this process
 *   tune_pace.h         how much of the device's time that takes */
#ifndef ATTUNE_TUNE_ONLINE_H
#define ATTUNE_TUNE_ONLINE_H

#include "jit.h"
#include "spec.h"
#include "store.h"
#include "tune.h"
#include "tune_guard.h"

/* Where candidates come from and where they are timed; a test makes both up. */
typedef struct attune__online_host {
  void *user;
  attune__tune_compiler compiler;
  /* This process's lab. beat, which may be NULL, is called before each piece of work on the
   * device. */
  attune_status (*open)(void *user, void (*beat)(void *user, int contender), void *beat_user,
                        attune__lab *out);
  void (*close)(void *user);
  const attune__guard_trial *trial; /* NULL: what has not passed is not tried */
} attune__online_host;

typedef struct attune__online_options {
  attune_context *context;
  attune_store *store; /* rows and marks are kept under its root */
  const attune__online_host *host;
  double budget_s; /* of a problem in the background */
  double share;    /* of the device's time, in the background */
  void (*learn)(void *user, const attune__tuned_row *row); /* told of every row; may be NULL */
  void *learn_user;
  attune_message_fn message;
  void *message_user;
} attune__online_options;

typedef struct attune__online attune__online;
attune_status attune__online_open(const attune__online_options *options, attune__online **out);
/* Ends what is under way in the background and waits for it; the context may be closed then. */
void attune__online_stop(attune__online *online);
void attune__online_close(attune__online *online);

/* What is made or tuned: a variant on a shape. */
typedef struct attune__online_wish {
  attune_request request;
  attune_shape shape; /* the problem's, or that of the class where the problem has none */
  attune_class cls;
  int32_t keys; /* of the problem: its program takes as many */
} attune__online_wish;
attune__online_wish attune__online_wish_of(const attune_request *request,
                                           const attune_problem *problem);

typedef struct attune__online_tuning {
  double budget_s;
  uint64_t seed;
  int max_trials;
  int install; /* 1: the context serves the winner for the class from then on */
  const attune__guard_gate *gate;
  void (*beat)(void *user, int contender);
  void *beat_user;
} attune__online_tuning;

typedef struct attune__online_result {
  attune__tuned_row row;
  int changed; /* 1: the winner is another than what served */
} attune__online_result;

/* Tunes, one caller at a time. ATTUNE_NOT_FOUND: nothing could be timed; the message says why. */
attune_status attune__online_tune(attune__online *online, const attune__online_wish *wish,
                                  const attune__online_tuning *how, attune__online_result *out);
/* The same later, by the thread in the background, once for each variant and class. */
attune_status attune__online_queue(attune__online *online, const attune__online_wish *wish);

/* ---- tune_background.c ----------------------------------------------------------------------- */

typedef struct attune__background attune__background;
attune_status attune__background_open(attune__online *online, const attune__online_options *options,
                                      attune__background **out);
attune_status attune__background_add(attune__background *b, const attune__online_wish *wish);
void attune__background_close(attune__background *b);

/* ---- tune_host.c ----------------------------------------------------------------------------- */

/* program tries candidates: a path, or a name that PATH has; NULL: there is none. ATTUNE_NOT_FOUND:
 * there is no such program. ordinal: the device's. */
attune_status attune__host_open(attune_store *store, int ordinal, const char *program,
                                attune__online_host **out);
void attune__host_close(attune__online_host *host);
/* A kernel as an entry file, from the store or compiled, clean of spills (attune__tune_compiler);
 * `store` is an attune_store. */
attune_status attune__host_compile(void *store, const attune_kernel *kernel, void **bytes,
                                   size_t *size, char digest[17]);

#endif
