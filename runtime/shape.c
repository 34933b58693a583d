/* shape.c - the shape class of a problem: the few buckets that choose among a variant's tiles.
 *
 * Input: a shape. Output: its class, by the rule in axes.def. A row for `any` serves a class
 * without a row of its own; that choice is left to the table. */
#include "variant.h"

attune_class attune__shape_class(int64_t batch, int64_t heads_q, int64_t len_q, int64_t len_k) {
  (void)len_k; /* no class depends on it yet: a decode step is one whatever the cache holds */
#define X(name, condition)                                                                         \
  if (condition) return ATTUNE_CLASS_##name;
  ATTUNE_CLASS_RULE(X)
#undef X
  return ATTUNE_CLASS_ANY;
}
