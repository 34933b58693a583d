/* built.h - specs that several test programs need compiled: each kernel is compiled once, by
 * whichever program comes first, and again when what it is made of changes. Kernels that spill
 * fail.
 */
#ifndef ATTUNE_TEST_BUILT_H
#define ATTUNE_TEST_BUILT_H

#include "../gen/expand.h"

/* Expands specs/<name>.yaml and builds it into the set folder build/sets/test-<name>; fails the
 * test with the build's errors. The caller frees the job. */
void build_spec(const char *name, attune_job *out);
/* Bytes of one of its entries; the caller frees them. */
attune_status read_built(const char *name, const char *kernel, void **out, size_t *out_bytes);

#endif
