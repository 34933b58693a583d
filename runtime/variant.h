/* variant.h - variants and tiles as plain values: names, parsing, comparison.
 *
 * A variant is a problem without its shape, for one arch; a tile is how a kernel does it. Their
 * fields stand in fields.def. Both are zeroed before they are filled, and compare as bytes. */
#ifndef ATTUNE_VARIANT_H
#define ATTUNE_VARIANT_H

#include "attune.h"
#include "fields.def"

typedef struct attune_variant {
#define X(type, field, kind) type field;
  ATTUNE_VARIANT_FIELDS(X)
#undef X
} attune_variant;

typedef struct attune_tile {
#define X(type, field, letters, def, constant, text) type field;
  ATTUNE_TILE_FIELDS(X)
#undef X
  uint8_t family; /* attune_family */
} attune_tile;

typedef enum attune_family {
#define X(name, id, text, doc) ATTUNE_FAMILY_##name = id,
  ATTUNE_FAMILIES(X)
#undef X
} attune_family;

typedef enum attune_class {
#define X(name, id, text, doc) ATTUNE_CLASS_##name = id,
  ATTUNE_CLASSES(X)
#undef X
} attune_class;

/* Bytes of the longest name with its NUL, which tests/test_names.c builds; of the longest arch. */
enum { ATTUNE_NAME_MAX = 192, ATTUNE_ARCH_MAX = 16 };
enum { ATTUNE_HEAD_DIM_MAX = 1024, ATTUNE_LENGTH_LIMIT = 1 << 29 };

/* Arch numbers: 90 and 'a' as in sm_90a. */
static inline uint32_t attune__arch(uint32_t cc, char suffix) {
  return cc << 8 | (unsigned char)suffix;
}
static inline uint32_t attune__arch_cc(uint32_t arch) {
  return arch >> 8;
}
static inline char attune__arch_suffix(uint32_t arch) {
  return (char)(arch & 0xff);
}

/* "sm_90a" or "sm90a" -> number; 0 when it is neither. Says nothing about which archs exist. */
uint32_t attune__arch_parse(const char *text);
/* "sm_90a" (underscore, as NVRTC wants it) or "sm90a" (as names have it). */
void attune__arch_print(uint32_t arch, int underscore, char out[ATTUNE_ARCH_MAX]);
/* 1 when code for `code` runs on a device of `device`: exact for a suffix, else same major and a
 * minor no newer. Of several codes that run, the one with the larger number fits best. */
int attune__arch_runs(uint32_t code, uint32_t device);

/* Names. All return ATTUNE_OK or ATTUNE_INVALID with attune_error() set.
 * variant_name of part 0 of a multi-kernel op with `program` nonzero omits the part: the row's
 * name. */
void attune__variant_name(const attune_variant *v, int program, char out[ATTUNE_NAME_MAX]);
void attune__tile_name(const attune_tile *t, char out[ATTUNE_NAME_MAX]);
void attune__kernel_name(const attune_variant *v, const attune_tile *t, char out[ATTUNE_NAME_MAX]);
/* Parses "<variant>" or "<variant>__<tile>"; has_tile says which. is_program is 1 for a row's name:
 * no tile, and no part of a program of several kernels. A name has one spelling: defaults written
 * out, a wrong order or leading zeros are refused and the message says how to write it. A pinned
 * name keeps the digest in v->pins. */
attune_status attune__name_parse(const char *name, attune_variant *v, attune_tile *t, int *has_tile,
                                 int *is_program);

/* A tile's own name, "fma_m64n64". */
attune_status attune__tile_parse(const char *name, attune_tile *t);

/* Rows of axes.def by value and by text; NULL / 0 when there is none. */
const char *attune__op_name(int op);
const char *attune__dtype_name(int dtype);
int attune__dtype_bytes(int dtype);
const char *attune__mask_name(int mask);
int attune__mask_has_lower(int mask);
int attune__mask_has_upper(int mask);
const char *attune__align_name(int align);
const char *attune__corner_name(int corner);
const char *attune__family_name(int family);
const char *attune__class_name(int cls);
const char *attune__feature_name(int bit);
int attune__op_parse(const char *text);
int attune__dtype_parse(const char *text);
int attune__mask_parse(const char *text);
int attune__align_parse(const char *text);
int attune__corner_parse(const char *text);
int attune__family_parse(const char *text);
int attune__class_parse(const char *text, int *ok);

/* Kernels in a program of the op, and the suffix of one ("" for a single kernel). */
int attune__op_parts(int op);
const char *attune__part_suffix(int op, int part);

/* The most keys that a kernel of the tile takes; 0: any number. A row of such a kernel stands
 * beside others of its variant and class. */
static inline int32_t attune__tile_max_len_k(const attune_tile *tile) {
  return tile->family == ATTUNE_FAMILY_SHORT ? tile->block_n : 0;
}
/* Of a program: takes the limit of one more part into account. */
static inline void attune__limit_len_k(int32_t *limit, const attune_tile *part) {
  int32_t most = attune__tile_max_len_k(part);
  if (most && (!*limit || most < *limit)) *limit = most;
}

/* The variant of a problem for an arch: checks every field, fills defaults, folds the pins to their
 * digest. ATTUNE_INVALID names the field. */
attune_status attune__variant_of(const attune_problem *p, uint32_t arch, attune_variant *out);

/* Pins, sorted by name. A scalar is an int32 or an fp32 in the parameter block, so a value that is
 * no integer is kept rounded to fp32. The digest is the first 4 bytes of SHA-256 over
 * "name=value\n" lines with the value as attune__pin_print writes it; 0 only without pins. */
enum { ATTUNE_MAX_PINS = 8, ATTUNE_PIN_TEXT_MAX = 32 };
typedef struct attune_pinset {
  uint32_t count;
  struct {
    char name[24];
    double value;
  } pin[ATTUNE_MAX_PINS];
} attune_pinset;
attune_status attune__pinset_add(attune_pinset *set, const char *name, double value);
uint32_t attune__pinset_digest(const attune_pinset *set);
/* %.9g in the C locale, exact for every value that a pinset keeps; and back, 1 when all was read.
 */
void attune__pin_print(double value, char out[ATTUNE_PIN_TEXT_MAX]);
int attune__pin_parse(const char *text, double *out);

/* The first field in which two variants differ, as "head_dim_qk 96, nearest has 128"; "" when none
 * does. For misses. */
void attune__variant_difference(const attune_variant *want, const attune_variant *have, char *out,
                                size_t size);

/* Shape class of a shape (shape.c). */
attune_class attune__shape_class(int64_t batch, int64_t heads_q, int64_t len_q, int64_t len_k);

#endif
