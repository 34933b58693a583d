/* axes.c - the rows of axes.def by value and by text.
 *
 * Input: an id or a text. Output: the other one; NULL or 0 when there is no such row. What a row
 * means is left to the code that uses it. */
#include "variant.h"

/* NAME_OF: id -> text of a list whose rows begin with (enumerator, id, text). PARSE: back. */
#define NAME_ROW(name, id, text, ...)                                                              \
  case id:                                                                                         \
    return text;
#define NAME_OF(function, LIST)                                                                    \
  const char *function(int value) {                                                                \
    switch (value) { LIST(NAME_ROW) }                                                              \
    return NULL;                                                                                   \
  }
#define PARSE_ROW(name, id, label, ...)                                                            \
  if (strcmp(text, label) == 0) return id;
#define PARSE(function, LIST)                                                                      \
  int function(const char *text) {                                                                 \
    LIST(PARSE_ROW)                                                                                \
    return 0;                                                                                      \
  }

NAME_OF(attune__op_name, ATTUNE_OPS)
NAME_OF(attune__dtype_name, ATTUNE_DTYPES)
NAME_OF(attune__mask_name, ATTUNE_MASKS)
NAME_OF(attune__align_name, ATTUNE_ALIGNS)
NAME_OF(attune__corner_name, ATTUNE_CORNERS)
NAME_OF(attune__family_name, ATTUNE_FAMILIES)
NAME_OF(attune__class_name, ATTUNE_CLASSES)

PARSE(attune__op_parse, ATTUNE_OPS)
PARSE(attune__dtype_parse, ATTUNE_DTYPES)
PARSE(attune__mask_parse, ATTUNE_MASKS)
PARSE(attune__align_parse, ATTUNE_ALIGNS)
PARSE(attune__corner_parse, ATTUNE_CORNERS)
PARSE(attune__family_parse, ATTUNE_FAMILIES)

int attune__class_parse(const char *text, int *ok) {
  *ok = 1;
  ATTUNE_CLASSES(PARSE_ROW)
  *ok = 0;
  return 0;
}

const char *attune__feature_name(int bit) {
  switch (bit) {
#define X(name, number, text, generated)                                                           \
  case number:                                                                                     \
    return text;
    ATTUNE_FEATURES(X)
#undef X
  }
  return NULL;
}

int attune__dtype_bytes(int dtype) {
  switch (dtype) {
#define X(name, id, text, bytes)                                                                   \
  case id:                                                                                         \
    return bytes;
    ATTUNE_DTYPES(X)
#undef X
  }
  return 0;
}

int attune__mask_has_lower(int mask) {
  switch (mask) {
#define X(name, id, text, has_lower, has_upper)                                                    \
  case id:                                                                                         \
    return has_lower;
    ATTUNE_MASKS(X)
#undef X
  }
  return 0;
}

int attune__mask_has_upper(int mask) {
  switch (mask) {
#define X(name, id, text, has_lower, has_upper)                                                    \
  case id:                                                                                         \
    return has_upper;
    ATTUNE_MASKS(X)
#undef X
  }
  return 0;
}

int attune__op_parts(int op) {
  int parts = 0;
#define X(name, index, suffix, text) parts += op == ATTUNE_OP_##name;
  ATTUNE_PARTS(X)
#undef X
  return parts;
}

const char *attune__part_suffix(int op, int part) {
#define X(name, index, suffix, text)                                                               \
  if (op == ATTUNE_OP_##name && part == (index)) return suffix;
  ATTUNE_PARTS(X)
#undef X
  return NULL;
}
