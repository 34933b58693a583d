/* name.c - names of variants, tiles and kernels, printed and parsed by the grammar in fields.def.
 *
 * Input: fields, or a name. Output: the other one. A name has one spelling: the parser takes words
 * in any order and with defaults spelled out, prints what it understood, and refuses the name if
 * that differs, so that its message can say the right one. Whether kernels of that name can exist
 * is left to the planner. */
#include "variant.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- printing ------------------------------------------------------------------------------ */

static void put(char out[ATTUNE_NAME_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void put(char out[ATTUNE_NAME_MAX], const char *format, ...) {
  size_t used = strlen(out);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out + used, ATTUNE_NAME_MAX - used, format, arguments);
  va_end(arguments);
}

/* A value outside its axis has no name; the "?" keeps such a name from parsing. */
static const char *or_unknown(const char *text) {
  return text ? text : "?";
}

static void put_op(char out[ATTUNE_NAME_MAX], const attune_variant *v, int program) {
  put(out, "%s", or_unknown(attune__op_name(v->op)));
  const char *suffix = or_unknown(attune__part_suffix(v->op, v->part));
  if (!program && *suffix) put(out, "_%s", suffix);
}

static void put_features(char out[ATTUNE_NAME_MAX], uint32_t features) {
  for (int bit = 0; bit < 32; bit++)
    if (features >> bit & 1) put(out, "_%s", or_unknown(attune__feature_name(bit)));
}

void attune__variant_name(const attune_variant *v, int program, char out[ATTUNE_NAME_MAX]) {
  char arch[ATTUNE_ARCH_MAX];
  attune__arch_print(v->arch, 0, arch);
  out[0] = 0;
  put_op(out, v, program);
  put(out, "_%s_%s", arch, or_unknown(attune__dtype_name(v->dtype_q)));
  if (v->dtype_kv != v->dtype_q) put(out, "_kv%s", or_unknown(attune__dtype_name(v->dtype_kv)));
  if (v->dtype_out != v->dtype_q) put(out, "_o%s", or_unknown(attune__dtype_name(v->dtype_out)));
  put(out, "_d%u", (unsigned)v->head_dim_qk);
  if (v->head_dim_v != v->head_dim_qk) put(out, "x%u", (unsigned)v->head_dim_v);
  if (v->mask != ATTUNE_MASK_NONE) put(out, "_%s", or_unknown(attune__mask_name(v->mask)));
  if (v->group != 1) put(out, "_g%u", (unsigned)v->group);
  put_features(out, v->features);
  if (v->align != ATTUNE_ALIGN_16B) put(out, "_%s", or_unknown(attune__align_name(v->align)));
  if (v->pins) put(out, "_x%08x", v->pins);
}

static void put_tile(char out[ATTUNE_NAME_MAX], const attune_tile *t) {
  const char *separator = "_";
  put(out, "%s", or_unknown(attune__family_name(t->family)));
#define X(type, field, letters, def, constant, text)                                               \
  if (t->field != (def)) put(out, "%s" letters "%u", separator, (unsigned)t->field), separator = "";
  ATTUNE_TILE_FIELDS(X)
#undef X
}

void attune__tile_name(const attune_tile *t, char out[ATTUNE_NAME_MAX]) {
  out[0] = 0;
  put_tile(out, t);
}

void attune__kernel_name(const attune_variant *v, const attune_tile *t, char out[ATTUNE_NAME_MAX]) {
  attune__variant_name(v, 0, out);
  put(out, "__");
  put_tile(out, t);
}

/* ---- parsing: the variant ------------------------------------------------------------------ */

/* The words of a variant; a feature's word is WORD_FEATURE << bit. */
enum {
  WORD_ARCH = 1 << 0,
  WORD_DTYPE_Q = 1 << 1,
  WORD_DTYPE_KV = 1 << 2,
  WORD_DTYPE_OUT = 1 << 3,
  WORD_DIMS = 1 << 4,
  WORD_MASK = 1 << 5,
  WORD_GROUP = 1 << 6,
  WORD_ALIGN = 1 << 7,
  WORD_PINS = 1 << 8,
  WORD_FEATURE = 1 << 9,
  WORD_MAX = 32 /* bytes of a word */
};

/* Decimal digits only (strtoul takes signs and spaces); advances *at past them. */
static int read_number(const char **at, uint32_t min, uint32_t max, uint32_t *out) {
  const char *start = *at;
  uint32_t number = 0;
  for (; **at >= '0' && **at <= '9'; ++*at) {
    number = number * 10 + (uint32_t)(**at - '0');
    if (number > max) return 0;
  }
  *out = number;
  return *at > start && number >= min;
}

static int read_dims(const char *text, attune_variant *v) {
  uint32_t qk, dim_v;
  if (!read_number(&text, 1, ATTUNE_HEAD_DIM_MAX, &qk)) return 0;
  v->head_dim_qk = v->head_dim_v = (uint16_t)qk;
  if (*text == 0) return 1;
  if (*text++ != 'x' || !read_number(&text, 1, ATTUNE_HEAD_DIM_MAX, &dim_v)) return 0;
  v->head_dim_v = (uint16_t)dim_v;
  return *text == 0;
}

static int read_group(const char *text, attune_variant *v) {
  uint32_t group;
  if (!read_number(&text, 1, UINT8_MAX, &group)) return 0;
  v->group = (uint8_t)group;
  return *text == 0;
}

static int read_pins(const char *text, attune_variant *v) {
  size_t length = strlen(text);
  if (length != 8 || strspn(text, "0123456789abcdef") != length) return 0;
  return sscanf(text, "%8x", &v->pins) == 1;
}

static int read_dtype(const char *word, const char *prefix, uint8_t *out) {
  size_t length = strlen(prefix);
  if (strncmp(word, prefix, length) != 0) return 0;
  *out = (uint8_t)attune__dtype_parse(word + length);
  return *out != 0;
}

static int read_feature(const char *word, attune_variant *v) {
  for (int bit = 0; bit < 32; bit++) {
    const char *name = attune__feature_name(bit);
    if (!name || strcmp(word, name) != 0) continue;
    v->features |= 1u << bit;
    return WORD_FEATURE << bit;
  }
  return 0;
}

/* Stores what the word says; returns which word it is, 0 when none. */
static int read_word(const char *word, attune_variant *v) {
  uint32_t arch = attune__arch_parse(word);
  int mask = attune__mask_parse(word), align = attune__align_parse(word);
  uint8_t dtype;
  if (arch) return v->arch = arch, WORD_ARCH;
  if (mask) return v->mask = (uint8_t)mask, WORD_MASK;
  if (align) return v->align = (uint8_t)align, WORD_ALIGN;
  if (read_dtype(word, "", &dtype)) return v->dtype_q = dtype, WORD_DTYPE_Q;
  if (read_dtype(word, "kv", &dtype)) return v->dtype_kv = dtype, WORD_DTYPE_KV;
  if (read_dtype(word, "o", &dtype)) return v->dtype_out = dtype, WORD_DTYPE_OUT;
  if (*word == 'd' && read_dims(word + 1, v)) return WORD_DIMS;
  if (*word == 'g' && read_group(word + 1, v)) return WORD_GROUP;
  if (*word == 'x' && read_pins(word + 1, v)) return WORD_PINS;
  return read_feature(word, v);
}

static attune_status refuse(const char *name, const char *found, const char *wanted) {
  return attune_fail(ATTUNE_INVALID, "'%s' is not a kernel name: %s%s%s", name, wanted,
                     *found ? ", found " : "", found);
}

/* The longest op that the name begins with; *rest is what follows its '_'. */
static int read_op(const char *name, const char **rest) {
  int op = 0;
  size_t longest = 0;
#define X(enumerator, id, text, doc)                                                               \
  if (strncmp(name, text "_", sizeof text) == 0 && sizeof text > longest)                          \
    op = id, longest = sizeof text;
  ATTUNE_OPS(X)
#undef X
  *rest = name + longest;
  return op;
}

/* The part's suffix, if one follows the op; returns whether a part is determined. */
static int read_part(const char **rest, attune_variant *v) {
  for (int part = 0; part < attune__op_parts(v->op); part++) {
    const char *suffix = attune__part_suffix(v->op, part);
    size_t length = strlen(suffix);
    if (length == 0 || strncmp(*rest, suffix, length) != 0 || (*rest)[length] != '_') continue;
    v->part = (uint8_t)part;
    *rest += length + 1;
    return 1;
  }
  return attune__op_parts(v->op) == 1;
}

static attune_status read_words(const char *name, const char *at, const char *end,
                                attune_variant *v, int *seen) {
  while (at < end) {
    char word[WORD_MAX] = "";
    const char *stop = memchr(at, '_', (size_t)(end - at));
    size_t length = (size_t)((stop ? stop : end) - at);
    memcpy(word, at, length < sizeof word ? length : sizeof word - 1);
    int bit = length < sizeof word ? read_word(word, v) : 0;
    if (!bit)
      return refuse(name, word,
                    "expected an arch, dtype, d<dim>, mask, g<group>, feature, elem or _x<8 hex>");
    if (*seen & bit) return refuse(name, word, "a word of one kind may stand once");
    *seen |= bit;
    at += length + 1;
    if (stop && at == end) return refuse(name, "", "it ends in '_'");
  }
  return ATTUNE_OK;
}

static void fill_defaults(attune_variant *v) {
  if (!v->dtype_kv) v->dtype_kv = v->dtype_q;
  if (!v->dtype_out) v->dtype_out = v->dtype_q;
  if (!v->mask) v->mask = ATTUNE_MASK_NONE;
  if (!v->align) v->align = ATTUNE_ALIGN_16B;
  if (!v->group) v->group = 1;
}

static attune_status parse_variant(const char *name, const char *end, attune_variant *v,
                                   int *has_part) {
  const char *rest;
  int seen = 0;
  v->op = (uint8_t)read_op(name, &rest);
  if (!v->op) return refuse(name, "", "it begins with no known op");
  *has_part = read_part(&rest, v);
  attune_status status = read_words(name, rest, end, v, &seen);
  if (status) return status;
  if (!(seen & WORD_ARCH)) return refuse(name, "", "the arch is missing, such as sm80");
  if (!(seen & WORD_DTYPE_Q)) return refuse(name, "", "the dtype is missing, such as bf16");
  if (!(seen & WORD_DIMS)) return refuse(name, "", "the head dimension is missing, such as d128");
  fill_defaults(v);
  return ATTUNE_OK;
}

/* ---- parsing: the tile --------------------------------------------------------------------- */

enum {
#define X(type, field, letters, def, constant, text) TILE_##field,
  ATTUNE_TILE_FIELDS(X)
#undef X
};

/* Stores a number under its letters; returns 0 for unknown letters, a value too large for the field
 * or letters that stood before. */
static int set_tile_field(const char *letters, size_t length, uint32_t number, attune_tile *t,
                          unsigned *seen) {
#define X(type, field, text, def, constant, doc)                                                   \
  if (length == sizeof text - 1 && memcmp(letters, text, length) == 0) {                           \
    if (number > (type)-1 || *seen >> TILE_##field & 1) return 0;                                  \
    *seen |= 1u << TILE_##field;                                                                   \
    t->field = (type)number;                                                                       \
    return 1;                                                                                      \
  }
  ATTUNE_TILE_FIELDS(X)
#undef X
  return 0;
}

static attune_status parse_tile(const char *name, const char *at, attune_tile *t) {
#define X(type, field, letters, def, constant, text) t->field = (def);
  ATTUNE_TILE_FIELDS(X)
#undef X
  char family[WORD_MAX] = "";
  size_t length = strcspn(at, "_");
  memcpy(family, at, length < sizeof family ? length : sizeof family - 1);
  t->family = (uint8_t)attune__family_parse(family);
  if (!t->family) return refuse(name, family, "expected the tile's family after '__'");
  at += length;
  if (*at == '_' && *++at == 0) return refuse(name, "", "it ends in '_'");
  for (unsigned seen = 0; *at;) {
    uint32_t number;
    const char *field = at, *digits = at + strspn(at, "abcdefghijklmnopqrstuvwxyz");
    at = digits;
    if (!read_number(&at, 0, UINT16_MAX, &number) ||
        !set_tile_field(field, (size_t)(digits - field), number, t, &seen))
      return refuse(name, field, "expected tile fields such as m64n64s2, each once");
  }
  return ATTUNE_OK;
}

/* ---- the whole name ------------------------------------------------------------------------ */

static attune_status check_spelling(const char *name, const attune_variant *v, const attune_tile *t,
                                    int has_tile, int is_program) {
  char canonical[ATTUNE_NAME_MAX];
  if (has_tile)
    attune__kernel_name(v, t, canonical);
  else
    attune__variant_name(v, is_program, canonical);
  if (strcmp(name, canonical) == 0) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "'%s' is not how this kernel is spelled: write '%s'", name,
                     canonical);
}

attune_status attune__name_parse(const char *name, attune_variant *v, attune_tile *t, int *has_tile,
                                 int *is_program) {
  memset(v, 0, sizeof *v);
  memset(t, 0, sizeof *t);
  if (strlen(name) >= ATTUNE_NAME_MAX)
    return refuse(name, "", "it is longer than any kernel's name");
  const char *tile = strstr(name, "__");
  int has_part = 0;
  attune_status status = parse_variant(name, tile ? tile : name + strlen(name), v, &has_part);
  if (!status && tile && !has_part)
    return refuse(name, "", "a tile belongs to one kernel, so name the part after the op");
  if (!status && tile) status = parse_tile(name, tile + 2, t);
  if (status) return status;
  *has_tile = tile != NULL;
  *is_program = !tile && (!has_part || attune__op_parts(v->op) == 1);
  return check_spelling(name, v, t, *has_tile, *is_program);
}

attune_status attune__tile_parse(const char *name, attune_tile *t) {
  char again[ATTUNE_NAME_MAX];
  memset(t, 0, sizeof *t);
  attune_status status = parse_tile(name, name, t);
  if (status) return status;
  attune__tile_name(t, again);
  return strcmp(again, name) ? attune_fail(ATTUNE_INVALID, "tile %.80s is written %s", name, again)
                             : ATTUNE_OK;
}
