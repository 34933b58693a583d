/* context.h - the inside of a context: what context.c, find.c and program.c share.
 *
 * Two locks. `lock` guards everything that lookups read (they read it through atomics, without the
 * lock) and the lists; `load_lock` guards reading entries and loading them, and is taken first. */
#ifndef ATTUNE_CONTEXT_H
#define ATTUNE_CONTEXT_H

#include "launch.h"
#include "set.h"
#include "table.h"

#include <pthread.h>

/* A kernel whose entry was read (and loaded, where there is a device); freed with the context. */
typedef struct attune__kernel {
  attune__part part;
  struct attune__kernel *next;
} attune__kernel;

/* An opened set. Rows that name the same kernel share it. */
typedef struct attune__opened {
  attune__set set;
  attune__kernel **kernels; /* by index in the set; NULL until read (load_lock) */
  struct attune__opened *next;
} attune__opened;

struct attune_program {
  attune_context *context;
  attune_variant variant;     /* of the row: part 0 */
  char name[ATTUNE_NAME_MAX]; /* of the variant */
  attune_class cls;
  attune_corner corner;
  attune__opened *set; /* NULL: made by the miss handler */
  int32_t max_len_k;   /* the most keys that it takes; 0: any number */
  int count;
  int kernel[ATTUNE_MAX_PARTS];  /* indices into the set's kernels */
  _Atomic(attune__part *) parts; /* `count` of them; NULL until the entries were read */
  atomic_int prepared;           /* 1: every part has its function */
  atomic_int said_elem;          /* told that it serves aligned problems too */
  struct attune_program *next;
};

/* A miss being handled; others that want the same key wait for it. Lives on the handler's stack. */
typedef struct attune__flight {
  attune__key key;
  struct attune__flight *next;
} attune__flight;

struct attune_context {
  attune__device *device; /* NULL: lookups only */
  uint32_t arch;          /* looked up for */
  char arch_name[ATTUNE_ARCH_MAX];
  attune_message_fn message;
  void *message_user;

  attune__table table;
  atomic_int handles_misses; /* 1: there is a miss handler */
  atomic_int skipped_rows;   /* of opened sets, for archs that do not run here */
  atomic_uint skipped_arch;  /* of one of them */

  pthread_mutex_t lock;
  pthread_cond_t landed; /* a flight ended */
  attune__flight *flights;
  attune_program *programs; /* newest first */
  attune__opened *sets;
  attune_miss_fn miss;
  void *miss_user;

  pthread_mutex_t load_lock;
  attune__kernel *kernels; /* all that were read */

  int ordinal;                  /* of the device */
  atomic_int watched;           /* 1: launches are noted */
  _Atomic(int64_t) launched_us; /* when the last was (attune__microseconds); 0: there was none */
  _Atomic(int64_t) captured_us; /* and the last into a stream capture */
  void (*closing)(void *user);  /* called before anything is freed; NULL: nobody */
  void *closing_user;
};

/* ---- context.c ---- */
/* attune_open with the device given: the context owns it from then on, also when this fails. NULL:
 * lookups only. Tests hand in devices of their own. */
attune_status attune__open_with(attune__device *device, uint32_t arch,
                                const attune_options *options, attune_context **out);
/* The device, NULL without one; closed with the context. */
attune__device *attune__context_device(attune_context *context);
/* From now on launches leave the time of the last one, for who works on the device between them. */
void attune__watch_launches(attune_context *context);
/* Calls `closing` first of all when the context is closed; one caller. */
void attune__on_close(attune_context *context, void (*closing)(void *user), void *user);
/* The variant of the program's row. */
const attune_variant *attune__program_variant(const attune_program *program);
/* Sends a message to the context's callback, if there is one. */
void attune__say(const attune_context *context, attune_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- find.c ---- */
/* The program that serves the key with len_k keys, counting element-aligned rows for aligned
 * problems; NULL: none. */
attune_program *attune__find(attune_context *context, const attune__key *key, attune_class cls,
                             int32_t len_k);
/* Full check of a problem; the variant asked for, and the class of its shape. */
attune_status attune__check_problem(const attune_context *context, const attune_problem *problem,
                                    attune_variant *variant, attune_class *cls);
/* ATTUNE_NOT_FOUND with the reason: the field by which the nearest row differs. */
attune_status attune__miss(attune_context *context, const attune_variant *want, attune_class cls);

/* ---- prepare.c ---- */
/* The installed handler, NULL when there is none. */
void attune__miss_handler(attune_context *context, attune_miss_fn *handler, void **user);

/* ---- program.c ---- */
/* Of a clock that never goes back. */
int64_t attune__microseconds(void);
/* Adds a row of a set as a program (entries unread). */
attune_status attune__program_of_row(attune_context *context, attune__opened *set,
                                     const attune__set_row *row);
/* Reads the entries and loads them once; without a device only reads. ATTUNE_BAD_FILE, ATTUNE_IO:
 * the entry is of no use. */
attune_status attune__program_load(attune_program *program);
/* Makes a program from what a miss handler returned for `want` and enters it for every shape, and
 * for the class of `bad` where that is not NULL. */
attune_status attune__program_of_result(attune_context *context, const attune_variant *want,
                                        const attune_program *bad, const attune_miss_result *result,
                                        attune_program **out);
void attune__program_free(attune_program *program);

#endif
