/* scratch.h - a folder under build/ for one test, and its removal. */
#ifndef ATTUNE_SCRATCH_H
#define ATTUNE_SCRATCH_H

#include "test.h"

#include <ftw.h>

static inline int scratch_remove_one(const char *path, const struct stat *s, int type,
                                     struct FTW *at) {
  (void)s, (void)type, (void)at;
  return remove(path);
}
static inline void scratch_remove(const char *path) {
  nftw(path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void scratch_make(char out[64]) {
  snprintf(out, 64, "build/tmp-test-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(out));
}

#endif
