/* jit.h - compile at the first call: the generator installs itself as the runtime's miss handler.
 *
 * Public: programs that want JIT link libattune_gen beside libattune and call attune_jit_install.
 */
#ifndef ATTUNE_JIT_H
#define ATTUNE_JIT_H

#include "attune.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attune_jit_options {
  size_t size;       /* sizeof(attune_jit_options) */
  const char *store; /* folder of entries; NULL: ATTUNE_CACHE_DIR, XDG_CACHE_HOME, ~/.cache */
  int32_t no_jit;    /* 1: use the store, never compile: a miss says which spec lines to add */
  attune_message_fn
      message; /* compiles with their time, fallbacks with their reason; may be NULL */
  void *message_user;
} attune_jit_options;
ATTUNE__INIT(attune_jit_options)

typedef struct attune_jit attune_jit;
/* Installs into the context. options may be NULL. ATTUNE_NO_JIT=1 in the environment forces no_jit.
 * Close the context first, then the jit. Thread rule: as attune_open. */
ATTUNE_API attune_status attune_jit_install(attune_context *context,
                                            const attune_jit_options *options, attune_jit **out);
ATTUNE_API void attune_jit_close(attune_jit *jit);

#ifdef __cplusplus
}
#endif
#endif
