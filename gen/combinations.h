/* combinations.h - what combines with what, as a table for readers, from the rules alone. */
#ifndef ATTUNE_COMBINATIONS_H
#define ATTUNE_COMBINATIONS_H

#include "rules.h"
#include "text.h"

/* A value of a field, or one that stands for a range of them. */
typedef struct attune_value {
  enum {
    ATTUNE_VALUE_DTYPE,    /* first: q and kv, second: out */
    ATTUNE_VALUE_HEAD_DIM, /* first: qk, second: v */
    ATTUNE_VALUE_MASK,
    ATTUNE_VALUE_ALIGN,
    ATTUNE_VALUE_GROUP,
    ATTUNE_VALUE_FEATURES, /* first: a bit; values of this kind go together */
    ATTUNE_VALUE_ARCH
  } kind;
  const char *field, *text; /* as a spec has them */
  int first, second;
} attune_value;
extern const attune_value attune__values[];
extern const int attune__value_count;

/* The plainest variant of an op with `count` values in it. */
attune_variant attune__variant_with(int op, const attune_value *const *values, int count);

/* The table as Markdown: a column per op and family, a row per value, the reasons below, then the
 * pairs that are refused though both values are served. The same as members of a JSON object:
 * "values" and "refused_pairs". */
void attune__combinations_markdown(attune__text *out);
void attune__combinations_json(attune__json *json);

#endif
