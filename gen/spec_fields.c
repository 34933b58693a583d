/* spec_fields.c - the fields of a spec: a node -> its choices, one short reader per field.
 *
 * Input: the node of a field, a value or a list of values. Output: an axis. A reader checks what a
 * value is, not whether kernels for it exist: that is known of whole variants (spec_expand.c).
 * `pin` and `tile`, whose values are maps of numbers, stand in spec_maps.c. */
#include "arch.def"
#include "board.h"
#include "spec_parts.h"
#include "tune_rows.h"

#include <stdio.h>
#include <stdlib.h>

const char *const attune__field_key[FIELDS] = {
#define X(name, key) key,
    ATTUNE_SPEC_FIELDS(X)
#undef X
};

attune__choice *attune__choose(attune__reader *r, attune__axis *axis, const attune__node *node) {
  size_t count = (size_t)axis->count + 1;
  attune__choice *grown = realloc(axis->choice, count * sizeof *grown);
  if (!grown) {
    r->no_memory = 1;
    return NULL;
  }
  axis->choice = grown;
  attune__choice *choice = &grown[axis->count++];
  memset(choice, 0, sizeof *choice);
  choice->node = node;
  return choice;
}

/* ---- closed lists of words ---- */

#define WORD(name, id, text, ...) text,
static const char *const op_words[] = {ATTUNE_OPS(WORD) NULL};
static const char *const dtype_words[] = {ATTUNE_DTYPES(WORD) NULL};
static const char *const mask_words[] = {ATTUNE_MASKS(WORD) NULL};
static const char *const align_words[] = {ATTUNE_ALIGNS(WORD) NULL};
static const char *const corner_words[] = {ATTUNE_CORNERS(WORD) NULL};
static const char *const family_words[] = {ATTUNE_FAMILIES(WORD) NULL};
static const char *const feature_words[] = {"none", ATTUNE_FEATURES(WORD) NULL};
static const char *const dtype_keys[] = {"q", "kv", "out", NULL};
static const char *const head_dim_keys[] = {"qk", "v", NULL};

static const attune__words ops = {"an op", "ops", op_words};
static const attune__words dtypes = {"a dtype", "dtypes", dtype_words};
static const attune__words masks = {"a mask", "masks", mask_words};
static const attune__words aligns = {"an alignment", "alignments", align_words};
static const attune__words corners = {"a corner", "corners", corner_words};
static const attune__words families = {"a family", "families", family_words};
static const attune__words features = {"a feature", "features", feature_words};
static const attune__words dtype_map = {"a key of dtype", "keys", dtype_keys};
static const attune__words head_dim_map = {"a key of head_dim", "keys", head_dim_keys};

/* A word -> its id, 0 after a report. */
static int read_id(attune__reader *r, const attune__node *node, const attune__words *words,
                   int (*parse)(const char *)) {
  int index = attune__value_word(r, node, words);
  return index < 0 ? 0 : parse(words->word[index]);
}

static void add_id(attune__reader *r, const attune__node *node, attune__axis *axis, int id) {
  attune__choice *choice = id ? attune__choose(r, axis, node) : NULL;
  if (choice) choice->value.id = id;
}

static void read_op(attune__reader *r, const attune__node *node, attune__axis *axis) {
  add_id(r, node, axis, read_id(r, node, &ops, attune__op_parse));
}

static void read_align(attune__reader *r, const attune__node *node, attune__axis *axis) {
  add_id(r, node, axis, read_id(r, node, &aligns, attune__align_parse));
}

static void read_family(attune__reader *r, const attune__node *node, attune__axis *axis) {
  add_id(r, node, axis, read_id(r, node, &families, attune__family_parse));
}

static void read_group(attune__reader *r, const attune__node *node, attune__axis *axis) {
  int64_t value;
  if (attune__value_int(r, node, "group", 1, UINT8_MAX, &value)) add_id(r, node, axis, (int)value);
}

/* A name without any rows would leave the order to the planner, silently. */
static int check_gpu(attune__reader *r, const attune__node *node) {
  attune__tuned_db db;
  attune__text messages = {0}, names = {0};
  if (attune__tuned_db_open(NULL, &db, &messages)) return r->no_memory = 1, 0;
  int found = attune__tuned_has_gpu(&db, node->text, &names);
  if (!found)
    attune__spec_error(r, node,
                       "tune on one (`attune tune`), or leave gpu out: the planner chooses",
                       "gpu: no measured rows for '%.40s'; there are rows of: %.200s", node->text,
                       names.data ? names.data : "");
  attune__text_free(&messages);
  attune__text_free(&names);
  attune__tuned_db_close(&db);
  return found;
}

static void read_gpu(attune__reader *r, const attune__node *node, attune__axis *axis) {
  if (!attune__value_scalar(r, node, "the name of a GPU", NULL)) return;
  attune__choice *choice = check_gpu(r, node) ? attune__choose(r, axis, node) : NULL;
  if (choice) snprintf(choice->value.gpu, sizeof choice->value.gpu, "%s", node->text);
}

/* ---- arch ---- */

static const char *const *arch_words(void) {
  static const char *const words[] = {
#define X(text, ...) text,
      ATTUNE_ARCHS(X)
#undef X
          "native",
      NULL};
  return words;
}

const char *attune__arch_text(uint32_t arch) {
  const attune_board *board = attune__board(arch);
  return board ? board->arch_name : "?";
}

/* What `native` stands for: the GPU's own arch, else the newest whose code it runs. */
static uint32_t native_arch(uint32_t device) {
  const attune_board *best = attune__board(device);
  for (int i = 0; i < ATTUNE_BOARDS && !attune__board(device); i++) {
    const attune_board *board = &attune__boards[i];
    if (attune__arch_runs(board->arch, device) && (!best || board->arch > best->arch)) best = board;
  }
  return best ? best->arch : 0;
}

static uint32_t read_native(attune__reader *r, const attune__node *node) {
  uint32_t arch = r->options.native ? native_arch(r->options.native) : 0;
  char device[ATTUNE_ARCH_MAX];
  attune__text help = {0};
  if (arch) return arch;
  attune__text_puts(&help, "name the arch to generate for");
  for (int i = 0; i < ATTUNE_BOARDS; i++)
    attune__text_printf(&help, "%s %s", i ? "," : ":", attune__boards[i].arch_name);
  attune__arch_print(r->options.native, 1, device);
  if (r->options.native)
    attune__spec_error(r, node, help.data, "native: nothing here runs on this GPU (%s)", device);
  else
    attune__spec_error(r, node, help.data, "native: this machine has no GPU");
  attune__text_free(&help);
  return 0;
}

/* sm_90 and sm90a mean sm_90a whatever the edit distance says; sm_91 means none of the others. */
static uint32_t report_arch(attune__reader *r, const attune__node *node, const char *text) {
  uint32_t parsed = attune__arch_parse(text);
  const attune_board *meant = parsed ? attune__board(parsed) : NULL;
  const char *near = meant ? meant->arch_name : parsed ? NULL : attune__nearest(text, arch_words());
  attune__text help = {0};
  if (near) attune__text_printf(&help, "did you mean %s? ", near);
  attune__text_puts(&help, "archs: ");
  attune__words_print(arch_words(), &help);
  attune__spec_error(r, node, help.data, "'%.40s' is not an arch to generate for", text);
  attune__text_free(&help);
  return 0;
}

static uint32_t arch_of(attune__reader *r, const attune__node *node, const char *text) {
  if (!strcmp(text, "native")) return read_native(r, node);
  for (int i = 0; i < ATTUNE_BOARDS; i++)
    if (!strcmp(text, attune__boards[i].arch_name)) return attune__boards[i].arch;
  return report_arch(r, node, text);
}

static void add_arch(attune__reader *r, const attune__node *node, const char *text,
                     attune__axis *axis) {
  uint32_t arch = arch_of(r, node, text);
  attune__choice *choice = arch ? attune__choose(r, axis, node) : NULL;
  if (choice) choice->value.arch = arch;
}

static void read_arch(attune__reader *r, const attune__node *node, attune__axis *axis) {
  if (attune__value_scalar(r, node, "an arch", "such as sm_80"))
    add_arch(r, node, node->text, axis);
}

void attune__field_arch_option(attune__reader *r, attune__axis *axis) {
  add_arch(r, NULL, r->options.arch, axis);
}

/* ---- dtype, head_dim ---- */

static void read_dtype(attune__reader *r, const attune__node *node, attune__axis *axis) {
  const attune__node *part[3] = {node, NULL, NULL};
  int id[3] = {0};
  if (node->kind == ATTUNE_YAML_MAP) {
    if (!attune__map_check(r, node, &dtype_map)) return;
    for (int i = 0; i < 3; i++) part[i] = attune__map_get(node, dtype_keys[i]);
  }
  if (!part[0]) {
    attune__spec_error(r, node, "write {q: fp16, kv: fp16, out: fp16}; kv and out are like q",
                       "dtype: q is missing");
    return;
  }
  for (int i = 0; i < 3; i++) {
    id[i] = part[i] ? read_id(r, part[i], &dtypes, attune__dtype_parse) : id[0];
    if (!id[i]) return;
  }
  attune__choice *choice = attune__choose(r, axis, node);
  if (!choice) return;
  choice->value.dtype.q = id[0];
  choice->value.dtype.kv = id[1];
  choice->value.dtype.out = id[2];
}

/* The planner knows which dims have kernels; this bound only keeps numbers sane. */
enum { HEAD_DIM_MAX = 1024 };

static void read_head_dim(attune__reader *r, const attune__node *node, attune__axis *axis) {
  const attune__node *qk = node, *v = NULL;
  int64_t dim_qk, dim_v;
  if (node->kind == ATTUNE_YAML_MAP) {
    if (!attune__map_check(r, node, &head_dim_map)) return;
    qk = attune__map_get(node, "qk");
    v = attune__map_get(node, "v");
  }
  if (!qk) {
    attune__spec_error(r, node, "write {qk: 192, v: 128}; v is like qk", "head_dim: qk is missing");
    return;
  }
  if (!attune__value_int(r, qk, "head_dim", 1, HEAD_DIM_MAX, &dim_qk)) return;
  dim_v = dim_qk;
  if (v && !attune__value_int(r, v, "head_dim", 1, HEAD_DIM_MAX, &dim_v)) return;
  attune__choice *choice = attune__choose(r, axis, node);
  if (!choice) return;
  choice->value.head_dim.qk = (int)dim_qk;
  choice->value.head_dim.v = (int)dim_v;
}

/* ---- mask ---- */

/* The default corner of {causal: bottom_right} or {causal: {corner: bottom_right}}; 0 after a
 * report. */
static int read_corner(attune__reader *r, const attune__node *value) {
  if (value->kind != ATTUNE_YAML_MAP) return read_id(r, value, &corners, attune__corner_parse);
  const attune__node *corner = NULL;
  for (const attune__node *item = value->first; item; item = item->next) {
    const char *key = item->key->text;
    if (!strcmp(key, "corner"))
      corner = item;
    else if (!strcmp(key, "left") || !strcmp(key, "right"))
      attune__spec_error(r, item->key, "leave it to the caller, or write  pin: {window_left: 127}",
                         "window bounds are run-time arguments, not part of a mask");
    else
      attune__spec_error(r, item->key, "write {corner: bottom_right}",
                         "'%.40s' is not a key of a mask", key);
  }
  if (!corner && !value->first)
    attune__spec_error(r, value, "write {corner: bottom_right}", "mask: an empty map");
  return corner ? read_id(r, corner, &corners, attune__corner_parse) : 0;
}

/* The corner is no part of a kernel: a mask can have one default in a spec. */
static void check_corner(attune__reader *r, const attune__axis *axis, const attune__node *node,
                         int id, int corner) {
  for (int i = 0; i < axis->count; i++) {
    const attune__choice *other = &axis->choice[i];
    if (other->value.mask.id == id && (int)other->value.mask.corner != corner)
      attune__spec_error(r, node, "keep one; the caller may name either corner at run time",
                         "mask %s has two default corners", attune__mask_name(id));
  }
}

static void read_mask(attune__reader *r, const attune__node *node, attune__axis *axis) {
  const attune__node *name = node;
  int corner = 0, is_map = node->kind == ATTUNE_YAML_MAP;
  if (is_map && (!node->first || node->first->next)) {
    attune__spec_error(r, node, "write {causal: bottom_right}; several masks make a list",
                       "mask: a map here has one key, the mask's name");
    return;
  }
  if (is_map) name = node->first->key;
  int id = read_id(r, name, &masks, attune__mask_parse);
  if (!id) return;
  if (is_map && !attune__mask_has_lower(id) && !attune__mask_has_upper(id)) {
    attune__spec_error(r, name, "write mask: none", "mask none has no corner");
    return;
  }
  if (is_map && !(corner = read_corner(r, node->first))) return;
  check_corner(r, axis, node, id, corner);
  attune__choice *choice = attune__choose(r, axis, node);
  if (!choice) return;
  choice->value.mask.id = id;
  choice->value.mask.corner = (attune_corner)corner;
}

/* ---- sram ---- */

static void report_bytes(attune__reader *r, const attune__node *node) {
  char help[96] = "bytes with a unit, such as 96KB (KB = 1024), or device";
  char *end;
  long value = strtol(node->text, &end, 10);
  while (*end == ' ') end++;
  if (end != node->text && value > 0 && value < 10000 && strchr("kK", *end) && *end)
    snprintf(help, sizeof help, "write %ldKB (KB = 1024)", value);
  attune__spec_error(r, node, help, "sram: '%.40s' is not a size", node->text);
}

static void add_sram(attune__reader *r, const attune__node *node, uint32_t arch,
                     attune__axis *axis) {
  uint32_t bytes = 0;
  if (!attune__value_scalar(r, node, "a size or device", "such as 96KB")) return;
  int is_device = !strcmp(node->text, "device");
  if (!is_device && (!attune__parse_bytes(node->text, &bytes) || bytes == 0)) {
    report_bytes(r, node);
    return;
  }
  attune__choice *choice = attune__choose(r, axis, node);
  if (!choice) return;
  choice->value.sram.arch = arch;
  choice->value.sram.bytes = bytes;
}

/* {sm_80: [96KB, device], sm_90a: device} */
static void read_sram(attune__reader *r, const attune__node *node, attune__axis *axis) {
  if (node->kind != ATTUNE_YAML_MAP) {
    add_sram(r, node, 0, axis);
    return;
  }
  if (!node->first)
    attune__spec_error(r, node, "write {sm_80: 96KB, sm_90a: device}", "sram: an empty map");
  for (const attune__node *item = node->first; item; item = item->next) {
    uint32_t arch = item->key->refused ? 0 : arch_of(r, item->key, item->key->text);
    if (!arch) continue;
    int is_list = item->kind == ATTUNE_YAML_LIST;
    if (is_list && !item->first)
      attune__spec_error(r, item, "write 96KB or device", "sram: an empty list");
    const attune__node *one = is_list ? item->first : item;
    for (; one; one = is_list ? one->next : NULL) add_sram(r, one, arch, axis);
  }
}

/* ---- features ---- */

static void read_features(attune__reader *r, const attune__node *node, attune__axis *axis) {
  int is_list = node->kind == ATTUNE_YAML_LIST;
  uint32_t bits = 0;
  const attune__node *one = is_list ? node->first : node;
  for (; one; one = is_list ? one->next : NULL) {
    static const uint32_t bit_of[] = {0,
#define X(name, bit, text, generated) 1u << (bit),
                                      ATTUNE_FEATURES(X)
#undef X
    };
    int index = attune__value_word(r, one, &features);
    if (index < 0) return;
    bits |= bit_of[index];
  }
  attune__choice *choice = attune__choose(r, axis, node);
  if (choice) choice->value.features = bits;
}

/* ---- all fields ---- */

static void (*const readers[FIELDS])(attune__reader *, const attune__node *, attune__axis *) = {
    [FIELD_OP] = read_op,
    [FIELD_ARCH] = read_arch,
    [FIELD_DTYPE] = read_dtype,
    [FIELD_HEAD_DIM] = read_head_dim,
    [FIELD_MASK] = read_mask,
    [FIELD_ALIGN] = read_align,
    [FIELD_SRAM] = read_sram,
    [FIELD_GROUP] = read_group,
    [FIELD_FEATURES] = read_features,
    [FIELD_PIN] = attune__read_pin,
    [FIELD_FAMILY] = read_family,
    [FIELD_GPU] = read_gpu,
    [FIELD_TILE] = attune__read_tile,
};

void attune__field_read(attune__reader *r, int field, const attune__node *node,
                        attune__axis *axis) {
  if (node->refused) return;
  if (node->kind != ATTUNE_YAML_LIST) {
    readers[field](r, node, axis);
    return;
  }
  if (!node->first)
    attune__spec_error(r, node, "give a value, or leave the field out for its default",
                       "%s: an empty list", attune__field_key[field]);
  for (const attune__node *item = node->first; item; item = item->next) {
    if (item->kind == ATTUNE_YAML_LIST && field != FIELD_FEATURES)
      attune__spec_error(r, item, "write one list of values", "%s: a list within the list",
                         attune__field_key[field]);
    else if (!item->refused)
      readers[field](r, item, axis);
  }
}
