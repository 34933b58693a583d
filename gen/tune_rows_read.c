/* tune_rows_read.c - YAML -> measured rows, with a diagnostic at its line and column for whatever
 * is not as attune writes it: a file with any is refused whole.
 *
 * Whether a row's tile is legal today is not asked here: the file outlives the rules (see
 * attune__tuned_row_for). It outlives the bounds of classes, too: a row's class is its shape's. */
#include "tune_rows.h"

#include "spec_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct reader {
  attune__reader r; /* diagnostics */
  attune__tuned *out;
  attune__tuned_key key; /* of the group that is read */
} reader;

enum { MANY = 1 << 30 };

/* ---- words ----------------------------------------------------------------------------------- */

#define WORDS(name, one, ...)                                                                      \
  static const char *const name##_word[] = {__VA_ARGS__, NULL};                                    \
  static const attune__words name = {one, "these", name##_word}
WORDS(top_keys, "a key of measured rows", "version", "tuned");
WORDS(group_keys, "a key of a GPU", "gpu", "sms", "memory_mhz", "arch", "abi", "nvrtc", "rows",
      "marks");
WORDS(row_keys, "a key of a row", "variant", "class", "tile", "ms", "over", "over_ms", "shape",
      "l2", "rounds", "calls", "tried", "driver", "date", "is", "why");
WORDS(shape_keys, "a key of a shape", "b", "h", "hk", "s", "sk", "wl", "wr");
WORDS(mark_keys, "a key of a mark", "kernel", "digest", "driver", "is", "date", "why");
WORDS(l2_words, "a state of L2", "cold", "warm");
WORDS(row_kinds, "what a row is", "measured", "provisional");
WORDS(mark_kinds, "what a mark says", "passed", "wrong", "fault", "hang"); /* in their order */
#undef WORDS

/* ---- values: each reports at its node and returns 0 when it is not as wanted -------------------
 */

static int is_map(reader *f, const attune__node *node, const char *what,
                  const attune__words *words) {
  if (node->refused) return 0;
  if (node->kind == ATTUNE_YAML_MAP) return attune__map_check(&f->r, node, words);
  attune__spec_error(&f->r, node, "as `attune tune` writes it", "%s: wanted a map", what);
  return 0;
}

static const attune__node *need(reader *f, const attune__node *map, const char *key) {
  const attune__node *node = attune__map_get(map, key);
  if (!node) attune__spec_error(&f->r, map, "as `attune tune` writes it", "%s is missing", key);
  return node;
}

static int integer(reader *f, const attune__node *map, const char *key, int64_t low, int *out) {
  int64_t value = 0;
  const attune__node *node = need(f, map, key);
  if (!node || !attune__value_int(&f->r, node, key, low, MANY, &value)) return 0;
  *out = (int)value;
  return 1;
}

/* A text that fits; `optional`: it may be absent, and is "" then. */
static int text(reader *f, const attune__node *map, const char *key, int optional, char *out,
                size_t size) {
  const attune__node *node = optional ? attune__map_get(map, key) : need(f, map, key);
  out[0] = 0;
  if (!node) return optional;
  if (!attune__value_scalar(&f->r, node, "a text", NULL)) return 0;
  if (strlen(node->text) < size) return snprintf(out, size, "%s", node->text), 1;
  attune__spec_error(&f->r, node, NULL, "%s: longer than %zu characters", key, size - 1);
  return 0;
}

/* Index of a word, -1 after a report. */
static int word(reader *f, const attune__node *map, const char *key, const attune__words *words) {
  const attune__node *node = need(f, map, key);
  return node ? attune__value_word(&f->r, node, words) : -1;
}

/* "2026-11-30T03:00:47Z": dates are compared as text. */
static int date(reader *f, const attune__node *map, char out[ATTUNE__DATE_MAX]) {
  static const char form[] = "dddd-dd-ddTdd:dd:ddZ";
  if (!text(f, map, "date", 0, out, ATTUNE__DATE_MAX)) return 0;
  int fine = strlen(out) == strlen(form);
  for (size_t i = 0; fine && form[i]; i++)
    fine = form[i] == 'd' ? out[i] >= '0' && out[i] <= '9' : out[i] == form[i];
  if (!fine)
    attune__spec_error(&f->r, attune__map_get(map, "date"), "write it as 2026-11-30T03:00:47Z",
                       "date: not a time in UTC");
  return fine;
}

static int status_error(reader *f, const attune__node *node, attune_status status) {
  if (status) attune__spec_error(&f->r, node, NULL, "%s", attune_error());
  return !status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int read_variant(reader *f, const attune__node *map, attune_variant *out) {
  const attune__node *node = need(f, map, "variant");
  attune_tile tile;
  int has_tile = 0, is_program = 0;
  if (!node || !attune__value_scalar(&f->r, node, "a variant's name", NULL)) return 0;
  if (!status_error(f, node, attune__name_parse(node->text, out, &tile, &has_tile, &is_program)))
    return 0;
  if (is_program && out->arch == f->key.arch) return 1;
  attune__spec_error(&f->r, node, "a name like attn_fwd_sm90a_bf16_d128",
                     is_program ? "the variant is for another arch than its group"
                                : "wanted the name of a variant");
  return 0;
}

static int read_tiles(reader *f, const attune__node *map, const char *key, int parts,
                      attune__tiles *out) {
  const attune__node *node = need(f, map, key);
  if (!node || !attune__value_scalar(&f->r, node, "a tile's name", NULL)) return 0;
  if (!status_error(f, node, attune__tiles_parse(node->text, out))) return 0;
  if (out->count == parts) return 1;
  attune__spec_error(&f->r, node, "one tile for each kernel, joined by +",
                     "%s: %d tiles for a program of %d kernels", key, out->count, parts);
  return 0;
}

static int read_time(reader *f, const attune__node *map, const char *key, attune__tuned_time *out) {
  const attune__node *node = need(f, map, key);
  double value[3] = {0};
  int count = 0, fine = 1;
  if (!node) return 0;
  const attune__node *item = node->kind == ATTUNE_YAML_LIST ? node->first : NULL;
  for (; item && fine; item = item->next, count++)
    fine = count < 3 && attune__value_number(&f->r, item, key, &value[count]);
  if (fine && count == 3 && value[1] > 0 && value[1] <= value[0] && value[0] <= value[2])
    return *out = (attune__tuned_time){value[0], value[1], value[2]}, 1;
  attune__spec_error(&f->r, node, "write [median, low, high]",
                     "%s: wanted three milliseconds over 0, the first between the others", key);
  return 0;
}

static int read_shape(reader *f, const attune__node *map, attune_shape *s) {
  const attune__node *node = need(f, map, "shape");
  int64_t *const field[] = {&s->batch, &s->heads_q,     &s->heads_kv,    &s->len_q,
                            &s->len_k, &s->window_left, &s->window_right};
  if (!node || !is_map(f, node, "shape", &shape_keys)) return 0;
  s->corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  for (int i = 0; i < 7; i++) {
    int value = 0;
    if (!integer(f, node, shape_keys_word[i], i < 5 ? 1 : -1, &value)) return 0;
    *field[i] = value;
  }
  return 1;
}

static int read_numbers(reader *f, const attune__node *map, attune__tuned_row *row) {
  int l2 = word(f, map, "l2", &l2_words), kind = word(f, map, "is", &row_kinds);
  row->l2_cold = l2 == 0, row->provisional = kind == 1;
  return l2 >= 0 && kind >= 0 && integer(f, map, "rounds", 1, &row->rounds) &&
         integer(f, map, "calls", 1, &row->calls) && integer(f, map, "tried", 0, &row->tried) &&
         integer(f, map, "driver", 0, &row->driver) && date(f, map, row->date) &&
         text(f, map, "why", 1, row->why, sizeof row->why);
}

/* The class that the measured shape is of today: the file may be older than the bounds of classes.
 * What is said of `any` stays so. */
static attune_class class_now(const attune__tuned_row *row) {
  return row->cls == ATTUNE_CLASS_ANY ? row->cls : attune__class_of(&row->shape);
}

static attune_status read_row(reader *f, const attune__node *map) {
  attune__tuned_row row = {.key = f->key};
  int cls_ok = 0;
  if (!is_map(f, map, "a row", &row_keys) || !read_variant(f, map, &row.variant)) return ATTUNE_OK;
  int parts = attune__op_parts(row.variant.op);
  const attune__node *cls = need(f, map, "class");
  if (!cls || !attune__value_scalar(&f->r, cls, "a shape class", NULL)) return ATTUNE_OK;
  row.cls = (attune_class)attune__class_parse(cls->text, &cls_ok);
  if (!cls_ok) attune__spec_error(&f->r, cls, NULL, "'%.40s' is not a shape class", cls->text);
  if (!cls_ok || !read_tiles(f, map, "tile", parts, &row.tiles) ||
      !read_tiles(f, map, "over", parts, &row.over) || !read_time(f, map, "ms", &row.time) ||
      !read_time(f, map, "over_ms", &row.over_time) || !read_shape(f, map, &row.shape) ||
      !read_numbers(f, map, &row))
    return ATTUNE_OK;
  row.cls = class_now(&row);
  return attune__tuned_put(f->out, &row);
}

static attune_status read_mark(reader *f, const attune__node *map) {
  attune__tuned_mark mark = {.key = f->key};
  if (!is_map(f, map, "a mark", &mark_keys)) return ATTUNE_OK;
  int kind = word(f, map, "is", &mark_kinds);
  if (kind < 0 || !text(f, map, "kernel", 0, mark.kernel, sizeof mark.kernel) ||
      !text(f, map, "digest", 0, mark.digest, sizeof mark.digest) ||
      !integer(f, map, "driver", 0, &mark.driver) || !date(f, map, mark.date) ||
      !text(f, map, "why", 1, mark.why, sizeof mark.why))
    return ATTUNE_OK;
  mark.kind = (attune__mark_kind)(kind + 1);
  return attune__tuned_put_mark(f->out, &mark);
}

/* ---- the document ---------------------------------------------------------------------------- */

static attune_status read_list(reader *f, const attune__node *group, const char *key,
                               attune_status (*read)(reader *, const attune__node *)) {
  const attune__node *list = attune__map_get(group, key);
  attune_status status = ATTUNE_OK;
  if (!list) return status;
  if (list->kind != ATTUNE_YAML_LIST) {
    attune__spec_error(&f->r, list, "as `attune tune` writes it", "%s: wanted a list", key);
    return status;
  }
  for (const attune__node *item = list->first; item && !status; item = item->next)
    status = read(f, item);
  return status;
}

static int read_key(reader *f, const attune__node *group) {
  attune__tuned_key *key = &f->key;
  const attune__node *arch;
  int abi = 0;
  memset(key, 0, sizeof *key);
  if (!is_map(f, group, "a GPU", &group_keys) ||
      !text(f, group, "gpu", 0, key->gpu, sizeof key->gpu) ||
      !integer(f, group, "sms", 1, &key->sms) ||
      !integer(f, group, "memory_mhz", 0, &key->memory_mhz) || !integer(f, group, "abi", 1, &abi) ||
      !(arch = need(f, group, "arch")) || !attune__value_scalar(&f->r, arch, "an arch", NULL) ||
      !text(f, group, "nvrtc", 0, key->nvrtc, sizeof key->nvrtc))
    return 0;
  key->abi = (uint32_t)abi;
  key->arch = attune__arch_parse(arch->text);
  if (!key->arch)
    attune__spec_error(&f->r, arch, "such as sm_90a", "'%.40s' is not an arch", arch->text);
  return key->arch != 0;
}

static attune_status read_document(reader *f, const attune__node *root) {
  int version;
  attune_status status = ATTUNE_OK;
  if (!root) {
    attune__diag_add(&f->r.diags, 1, 1, "remove it", "the file of measured rows is empty");
    return status;
  }
  if (!is_map(f, root, "measured rows", &top_keys) || !integer(f, root, "version", 1, &version))
    return status;
  const attune__node *tuned = need(f, root, "tuned");
  if (version != 1)
    attune__spec_error(&f->r, attune__map_get(root, "version"), "a newer attune wrote it",
                       "version %d: this attune reads 1", version);
  if (!tuned || version != 1) return status;
  if (tuned->kind != ATTUNE_YAML_LIST)
    attune__spec_error(&f->r, tuned, "as `attune tune` writes it", "tuned: wanted a list");
  for (const attune__node *group = tuned->first; group && !status; group = group->next) {
    if (tuned->kind != ATTUNE_YAML_LIST || !read_key(f, group)) continue;
    status = read_list(f, group, "rows", read_row);
    if (!status) status = read_list(f, group, "marks", read_mark);
  }
  return status;
}

static attune_status report(reader *f, const char *name, const char *bytes, size_t size,
                            attune__text *errors) {
  attune_diags *diags = &f->r.diags;
  if (f->r.no_memory) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %s", name);
  if (!diags->count && !diags->dropped) return ATTUNE_OK;
  size_t bom = attune__yaml_bom(bytes, size);
  attune__diags_print(diags, name, bytes + bom, size - bom, errors);
  return attune_fail(ATTUNE_BAD_SPEC, "%s:%d:%d: %s", name, diags->count ? diags->item[0].line : 0,
                     diags->count ? diags->item[0].column : 0,
                     diags->count ? diags->item[0].message : "out of memory");
}

attune_status attune__tuned_parse(const char *name, const char *bytes, size_t size,
                                  attune__tuned *out, attune__text *errors) {
  reader f = {.out = out};
  attune__yaml yaml = {0};
  memset(out, 0, sizeof *out);
  attune_status status =
      attune__yaml_parse_up_to(ATTUNE__TUNED_MAX_BYTES, bytes, size, &yaml, &f.r.diags);
  if (!status && yaml.complete && !f.r.diags.count) status = read_document(&f, yaml.root);
  if (!status) status = report(&f, name, bytes, size, errors);
  if (status) attune__tuned_free(out);
  attune__yaml_free(&yaml);
  attune__diags_free(&f.r.diags);
  return status;
}

attune_status attune__tuned_read(const char *path, attune__tuned *out, attune__text *errors) {
  void *bytes = NULL;
  size_t size = 0;
  memset(out, 0, sizeof *out);
  if (access(path, F_OK) && errno == ENOENT) return ATTUNE_OK;
  attune_status status = attune__file_read(path, ATTUNE__TUNED_MAX_BYTES, &bytes, &size);
  if (!status)
    status = attune__tuned_parse(path, bytes, size, out, errors);
  else
    attune__text_printf(errors, "%s: error: %s\n", path, attune_error());
  free(bytes);
  return status;
}
