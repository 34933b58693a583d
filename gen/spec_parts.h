/* spec_parts.h - what the files of the spec reader share.
 *
 *   spec_file.c    path -> bytes
 *   yaml.c         bytes -> nodes
 *   spec_value.c   a scalar or map node -> integer, number, word, or a diagnostic
 *   spec_fields.c  a field's node -> its axis: the list of choices
 *   spec_maps.c    the fields whose values are maps of numbers: pin, tile
 *   spec_expand.c  axes and exclude rules -> requests
 *   spec.c         all of these in order
 *   spec_line.c    and the way back, from a variant to a spec of one line
 */
#ifndef ATTUNE_SPEC_PARTS_H
#define ATTUNE_SPEC_PARTS_H

#include "yaml.h"

/* The fields that span the product, in the order of the documentation: X(enumerator, key). */
#define ATTUNE_SPEC_FIELDS(X)                                                                      \
  X(OP, "op")                                                                                      \
  X(ARCH, "arch")                                                                                  \
  X(DTYPE, "dtype")                                                                                \
  X(HEAD_DIM, "head_dim")                                                                          \
  X(MASK, "mask")                                                                                  \
  X(ALIGN, "align")                                                                                \
  X(SRAM, "sram")                                                                                  \
  X(GROUP, "group")                                                                                \
  X(FEATURES, "features")                                                                          \
  X(PIN, "pin")                                                                                    \
  X(FAMILY, "family")                                                                              \
  X(GPU, "gpu")                                                                                    \
  X(TILE, "tile")

enum {
#define X(name, key) FIELD_##name,
  ATTUNE_SPEC_FIELDS(X)
#undef X
      FIELDS
};

/* One value of a field. The value is zeroed before it is filled, so that values compare as bytes.
 */
typedef struct attune__choice {
  const attune__node *node; /* where it is written; NULL: it is not */
  int refused;              /* 1: a diagnostic of the product spoke of it */
  union {
    int id; /* op, align, family, group */
    uint32_t arch;
    uint32_t features;
    struct {
      int q, kv, out;
    } dtype;
    struct {
      int qk, v;
    } head_dim;
    struct {
      int id;
      attune_corner corner; /* 0: none named */
    } mask;
    struct {
      uint32_t arch;  /* 0: for every arch */
      uint32_t bytes; /* 0: what the device offers */
    } sram;
    attune_pinset pins;
    attune_tile_pins tile;
    char gpu[ATTUNE_GPU_MAX];
  } value;
} attune__choice;

typedef struct attune__axis {
  attune__choice *choice;
  int count;
} attune__axis;

/* An exclude rule: axes without a choice match everything. */
typedef struct attune__rule {
  const attune__node *node;
  attune__axis axis[FIELDS];
  int matched;
} attune__rule;

typedef struct attune__reader {
  attune_spec_options options;
  attune_diags diags;
  int no_memory;
  attune__axis axis[FIELDS];
  attune__rule *rules;
  int rule_count;
} attune__reader;

/* A diagnostic at a node (at no place when it is NULL). */
void attune__spec_error(attune__reader *r, const attune__node *node, const char *help,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- spec_file.c ---- */

/* The bytes of a file, malloc'ed, a little over ATTUNE_YAML_MAX_BYTES at most; a diagnostic and
 * NULL when it cannot be read. ATTUNE_NO_MEMORY is the only failure. */
attune_status attune__spec_load(const char *path, char **out, size_t *size, attune_diags *diags);

/* ---- spec_value.c: each reports at the node and returns 0 (or -1) when it is not as wanted ----
 */

/* A closed list of words, for checking and for "did you mean". */
typedef struct attune__words {
  const char *one, *many;  /* "a mask", "masks" */
  const char *const *word; /* ends with NULL */
} attune__words;

/* The word nearest to `text` by edits, NULL when none is near. */
const char *attune__nearest(const char *text, const char *const *words);
/* Index into the words, -1 after a report. */
int attune__value_word(attune__reader *r, const attune__node *node, const attune__words *words);
/* A scalar, else a report "wanted <wanted>, found a list". */
int attune__value_scalar(attune__reader *r, const attune__node *node, const char *wanted,
                         const char *help);
/* Decimal digits with an optional minus sign, nothing else. */
int attune__value_int(attune__reader *r, const attune__node *node, const char *what, int64_t low,
                      int64_t high, int64_t *out);
/* A finite decimal number; a fraction and an exponent are allowed. */
int attune__value_number(attune__reader *r, const attune__node *node, const char *what,
                         double *out);
/* The value of a key, NULL without. */
const attune__node *attune__map_get(const attune__node *map, const char *key);
/* 1 when every key is one of the words; reports each other key (once, if it was not before). */
int attune__map_check(attune__reader *r, const attune__node *map, const attune__words *words);
/* The words as "a, b, c". */
void attune__words_print(const char *const *words, attune__text *out);

/* ---- spec_fields.c ---- */

extern const char *const attune__field_key[FIELDS];
/* Reads a field's node, a value or a list of values, into choices. */
void attune__field_read(attune__reader *r, int field, const attune__node *node, attune__axis *axis);
/* The arch axis from --arch. */
void attune__field_arch_option(attune__reader *r, attune__axis *axis);
/* "sm_90a" of a board for messages. */
const char *attune__arch_text(uint32_t arch);

/* Room for one more choice, zeroed; NULL when memory is out. */
attune__choice *attune__choose(attune__reader *r, attune__axis *axis, const attune__node *node);

/* ---- spec_maps.c ---- */

/* Readers of one value of `pin` and of `tile`. */
void attune__read_pin(attune__reader *r, const attune__node *node, attune__axis *axis);
void attune__read_tile(attune__reader *r, const attune__node *node, attune__axis *axis);

/* ---- spec_expand.c ---- */

/* Axes and rules -> requests, sorted and unique; or diagnostics. */
void attune__spec_product(attune__reader *r, attune_spec *out);

#endif
