/* set_diff.h - what differs between two sets: kernels by name, their parts, rows. */
#ifndef ATTUNE_SET_DIFF_H
#define ATTUNE_SET_DIFF_H

#include "set_load.h"
#include "text.h"

typedef enum attune_difference_kind {
  ATTUNE_DIFF_KERNEL_REMOVED, /* only the first has it */
  ATTUNE_DIFF_KERNEL_ADDED,
  ATTUNE_DIFF_KERNEL_CHANGED,
  ATTUNE_DIFF_ROW_REMOVED,
  ATTUNE_DIFF_ROW_ADDED,
  ATTUNE_DIFF_ROW_CHANGED,
  ATTUNE_DIFF_MADE_BY /* the line that says what made the set */
} attune_difference_kind;

/* One thing that differs. A changed kernel or row has one for each part that differs, in a row. */
typedef struct attune_difference {
  attune_difference_kind kind;
  char name[ATTUNE_NAME_MAX]; /* of the kernel or the row's variant */
  const char *shape_class;    /* of the row; NULL: a kernel. Static */
  const char *part;           /* "code", "registers", "kernels"; NULL: the whole. Static */
  char *before, *after;       /* what stood there; of code its bytes and digest */
} attune_difference;

typedef struct attune_diff {
  attune_difference *items;
  int count;
  int kernels_added, kernels_removed, kernels_changed;
  int rows_added, rows_removed, rows_changed;
} attune_diff;

/* In the order of the manifests: kernels, then rows. count 0: the sets are equal. */
attune_status attune__set_diff(const attune_loaded *a, const attune_loaded *b, attune_diff *out);
void attune__diff_free(attune_diff *diff);

#endif
