/* build.h - a job compiled in parallel into a set folder; resumable: an entry that is already there
 * and was made by the same templates, options and compiler is kept (DIR/.keys remembers).
 *
 * The manifest is published last, and only when every kernel is there; entries of an earlier build
 * that the job does not have are then removed. */
#ifndef ATTUNE_BUILD_H
#define ATTUNE_BUILD_H

#include "../runtime/set.h"
#include "expand.h"

typedef struct attune_build_progress {
  int done, total;
  const char *name;          /* kernel just finished */
  double milliseconds;       /* its compile; 0 when it was kept */
  const attune_facts *facts; /* NULL when it failed */
  const char *warning;       /* spill or C75xx; NULL when clean */
} attune_build_progress;

typedef struct attune_build_options {
  const char *out;  /* set folder; made when missing */
  int jobs;         /* compiles at once; 0: cores */
  int keep_source;  /* also write <name>.cu beside each entry */
  int allow_spills; /* 0: a spill or C75xx fails the build */
  void (*progress)(void *user, const attune_build_progress *); /* one call at a time */
  void *user;
} attune_build_options;

typedef struct attune_build_summary {
  int compiled, kept, failed;
  int64_t entry_bytes;
  double wall_ms, compile_ms; /* wall, and summed over the compiles */
} attune_build_summary;

/* Compiles on after a failure, so that `errors` has a line for each kernel that failed (up to 20):
 * "<name>: <first error>". */
attune_status attune__build(const attune_job *job, const attune_build_options *options,
                            attune_build_summary *out, attune__text *errors);

#endif
