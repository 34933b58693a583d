/* shape.c - the shape class of a problem: the few buckets that choose among a variant's tiles.
 *
 * Input: a shape. Output: its class, by the rule in axes.def. A row for `any` serves a class
 * without a row of its own; that choice is left to the table. */
#include "variant.h"

enum { DECODE_LEN_Q = 16, SHORT_LEN_Q = 512, FEW_HEADS = 64 };

attune_class attune__shape_class(int64_t batch, int64_t heads_q, int64_t len_q, int64_t len_k) {
  (void)len_k; /* no class depends on it yet: a decode step is one whatever the cache holds */
  int few = batch * heads_q <= FEW_HEADS;
  if (len_q <= DECODE_LEN_Q) return ATTUNE_CLASS_DECODE;
  if (len_q <= SHORT_LEN_Q) return few ? ATTUNE_CLASS_SHORT_FEW : ATTUNE_CLASS_SHORT_MANY;
  return few ? ATTUNE_CLASS_LONG_FEW : ATTUNE_CLASS_LONG_MANY;
}
