/* store.h - the JIT's folder of entries on this machine.
 *
 * Root: ATTUNE_CACHE_DIR, else $XDG_CACHE_HOME/attune, else ~/.cache/attune, else none (memory
 * only). Made with mode 0700; one that others could write to, or that is not ours, is not used.
 * Entry: <root>/v1/<2 hex>/<62 hex>, named by SHA-256 over labelled, length-prefixed fields: key
 * schema, kernel name, digest of the op's templates, ABI, attune and NVRTC version, options, pins,
 * and what the planner computed (ledger, constants, recipe). No path, time, device index or locale.
 *
 * Published by rename; a lost race means "use your own bytes"; a failed compile is never published;
 * a bad entry is a miss, never an error; the lock only saves work and dies with its process. */
#ifndef ATTUNE_STORE_H
#define ATTUNE_STORE_H

#include "kernel.h"

typedef struct attune_store attune_store;

/* A get that succeeds is a hit or a compile; one that was not allowed to compile may be a miss. */
typedef struct attune_store_stats {
  int64_t hits, misses, bad_entries, compiles, publish_failures, compile_ms;
} attune_store_stats;

/* root NULL: by the rule above; "" : memory only. Never fails for an unusable folder: it works in
 * memory then, and attune__store_warning has the reason. */
attune_status attune__store_open(const char *root, attune_store **out);
void attune__store_close(attune_store *store);
const char *attune__store_root(const attune_store *store); /* "" when none */
attune_store_stats attune__store_stats(attune_store *store);
/* Copies the reason for which the folder cannot be used or written and returns 1; 0 when there is
 * none, or when it was handed out before. */
int attune__store_warning(attune_store *store, char *out, size_t size);

/* What lies on disk; clearing leaves entries that are published meanwhile. */
typedef struct attune_store_usage {
  int64_t entries, bytes;
} attune_store_usage;
attune_status attune__store_usage(const attune_store *store, attune_store_usage *out);
attune_status attune__store_clear(attune_store *store, attune_store_usage *removed);

/* The key of a kernel, 64 hex digits. */
attune_status attune__store_key(const attune_kernel *kernel, char out[65]);
/* The entry's bytes from disk, or compiled and published. One compile per key among threads of the
 * process; among processes by a lock with a time limit. *out is malloc'ed. compiled, when not
 * NULL, says whether NVRTC ran. allow_compile 0: ATTUNE_NOT_FOUND instead of compiling. */
attune_status attune__store_get(attune_store *store, const attune_kernel *kernel, int allow_compile,
                                void **out, size_t *out_bytes, int *compiled);
/* Kernel -> entry bytes: emit, compile, facts. No disk. A spill, a local frame or C75xx is reported
 * in *warning (malloc'ed, NULL when clean); the caller decides. keep_source adds the source
 * payload. */
attune_status attune__compile_entry(const attune_kernel *kernel, int keep_source, void **out,
                                    size_t *out_bytes, char **warning);
/* The same from a text that somebody else wrote for the kernel. */
attune_status attune__compile_text(const attune_kernel *kernel, const char *text, void **out,
                                   size_t *out_bytes, char **warning);
/* The same from an entry's facts: spills, else a local frame, else C75xx; "" when clean. */
enum { ATTUNE_WARNING_MAX = 96 };
void attune__facts_warning(const attune_facts *facts, char out[ATTUNE_WARNING_MAX]);

#endif
