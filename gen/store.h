/* store.h - the JIT's folder of entries on this machine.
 *
 * Root: ATTUNE_CACHE_DIR, else $XDG_CACHE_HOME/attune, else ~/.cache/attune, else none (memory only).
 * Entry: <root>/v1/<2 hex>/<62 hex>, named by SHA-256 over labelled, length-prefixed fields: key
 * schema, kernel name, digest of the op's templates, ABI, NVRTC build, options, pins. No path, time,
 * device index or locale.
 *
 * Published by rename; a lost race means "use your own bytes"; a failed compile is never published;
 * a bad entry is a miss, never an error; the lock only saves work and dies with its process. */
#ifndef ATTUNE_STORE_H
#define ATTUNE_STORE_H

#include "kernel.h"

typedef struct attune_store attune_store;

typedef struct attune_store_stats {
  int64_t hits, misses, bad_entries, compiles, publish_failures, compile_ms;
} attune_store_stats;

/* root NULL: by the rule above; "" : memory only. Never fails for an unusable folder: it warns
 * through attune_error() and works in memory. */
attune_status attune__store_open(const char *root, attune_store **out);
void attune__store_close(attune_store *store);
const char *attune__store_root(const attune_store *store); /* "" when none */
attune_store_stats attune__store_stats(attune_store *store);

/* The key of a kernel, 64 hex digits. */
attune_status attune__store_key(const attune_kernel *kernel, char out[65]);
/* The entry's bytes from disk, or compiled and published. One compile per key among threads of the
 * process; among processes by a lock with a time limit. *out is malloc'ed. compiled, when not
 * NULL, says whether NVRTC ran. allow_compile 0: ATTUNE_NOT_FOUND instead of compiling. */
attune_status attune__store_get(attune_store *store, const attune_kernel *kernel, int allow_compile,
                                void **out, size_t *out_bytes, int *compiled);
/* Kernel -> entry bytes: emit, compile, facts. No disk. A spill or C75xx is reported in *warning
 * (malloc'ed, NULL when clean); the caller decides. keep_source adds the source payload. */
attune_status attune__compile_entry(const attune_kernel *kernel, int keep_source, void **out,
                                    size_t *out_bytes, char **warning);

#endif
