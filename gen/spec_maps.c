/* spec_maps.c - the fields whose values are maps of numbers: `pin` and `tile`.
 *
 * Input: a map node. Output: a choice with the pins or the fixed tile fields. Whether an op lets a
 * scalar be pinned, and whether a tile is legal, is known of whole variants: spec_expand.c, plan.c.
 */
#include "spec_parts.h"

#include "../runtime/launch.h"

static int check_map(attune__reader *r, const attune__node *node, const char *field,
                     const char *example) {
  if (node->kind == ATTUNE_YAML_MAP && node->first) return 1;
  if (node->kind == ATTUNE_YAML_MAP)
    attune__spec_error(r, node, example, "%s: an empty map", field);
  else
    attune__spec_error(r, node, example, "%s: wanted a map", field);
  return 0;
}

/* ---- pin ---- */

enum scalar_type {
  U32,
  I32,
  I64,
  F32,
  IN_Q,
  IN_KV,
  OUT,
  IN_I32,
  IN_U32,
  IN_U8,
  IN_F32,
  OUT_F32,
  SCRATCH
};

/* Every parameter of every op by name; those that may be pinned are the words of `pin`. */
static const struct parameter {
  const char *name;
  enum scalar_type type;
  int pinnable;
} parameters[] = {
#define P(type, name, pinnable, text) {#name, type, pinnable},
    ATTUNE_PARAMS_ATTN_FWD(P) ATTUNE_PARAMS_ATTN_STANDARD(P)
#undef P
};
enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static const struct parameter *find_parameter(const char *name) {
  for (int i = 0; i < PARAMETERS; i++)
    if (parameters[i].pinnable && !strcmp(parameters[i].name, name)) return &parameters[i];
  return NULL;
}

static int check_pin_names(attune__reader *r, const attune__node *map) {
  const char *names[PARAMETERS + 1];
  int count = 0;
  for (int i = 0; i < PARAMETERS; i++) /* each once, though ops share most of them */
    if (find_parameter(parameters[i].name) == &parameters[i]) names[count++] = parameters[i].name;
  names[count] = NULL;
  const attune__words words = {"a scalar that can be pinned", "these can", names};
  return attune__map_check(r, map, &words);
}

/* Lengths and window bounds stay below 2^29 (params.def); -1 leaves a window open on that side. */
static int read_integer_pin(attune__reader *r, const attune__node *item, double *value) {
  const char *name = item->key->text;
  int64_t low = !strncmp(name, "window_", 7) ? -1 : 0;
  int64_t high = !strcmp(name, "bottom_right") ? 1 : (1 << 29) - 1;
  int64_t integer;
  if (!attune__value_int(r, item, name, low, high, &integer)) return 0;
  *value = (double)integer;
  return 1;
}

/* Any finite number, but for the cap, which divides. */
static int read_number_pin(attune__reader *r, const attune__node *item, double *value) {
  if (!attune__value_number(r, item, item->key->text, value)) return 0;
  if (strcmp(item->key->text, "softcap") != 0 || (float)*value > 0) return 1;
  attune__spec_error(r, item, "a number over 0; without a cap leave feature softcap out",
                     "softcap: %s is out of range", item->text);
  return 0;
}

void attune__read_pin(attune__reader *r, const attune__node *node, attune__axis *axis) {
  attune_pinset pins;
  memset(&pins, 0, sizeof pins); /* padding too: choices compare as bytes */
  if (!check_map(r, node, "pin", "write {window_left: 127}")) return;
  if (!check_pin_names(r, node)) return;
  for (const attune__node *item = node->first; item; item = item->next) {
    double value;
    int fine = find_parameter(item->key->text)->type == F32 ? read_number_pin(r, item, &value)
                                                            : read_integer_pin(r, item, &value);
    if (!fine) return;
    if (attune__pinset_add(&pins, item->key->text, value) == ATTUNE_OK) continue;
    attune__spec_error(r, item->key, NULL, "%s", attune_error());
    return;
  }
  attune__choice *choice = attune__choose(r, axis, node);
  if (choice) memcpy(&choice->value.pins, &pins, sizeof pins);
}

/* ---- tile ---- */

static const char *const tile_keys[] = {
#define X(type, field, letters, def, constant, text) #field,
    ATTUNE_TILE_FIELDS(X)
#undef X
        NULL};
static const attune__words tile_fields = {"a field of a tile", "fields", tile_keys};

void attune__read_tile(attune__reader *r, const attune__node *node, attune__axis *axis) {
  attune_tile_pins tile;
  memset(&tile, 0, sizeof tile);
  if (!check_map(r, node, "tile", "write {block_m: 64, block_n: 64}")) return;
  if (!attune__map_check(r, node, &tile_fields)) return;
  int bit = 0, fine = 1;
  const attune__node *item;
  int64_t value;
#define X(type, field, letters, def, constant, text)                                               \
  if ((item = attune__map_get(node, #field)) != NULL) {                                            \
    if (attune__value_int(r, item, #field, 0, (type)-1, &value)) {                                 \
      tile.tile.field = (type)value;                                                               \
      tile.fixed |= 1u << bit;                                                                     \
    } else {                                                                                       \
      fine = 0;                                                                                    \
    }                                                                                              \
  }                                                                                                \
  bit++;
  ATTUNE_TILE_FIELDS(X)
#undef X
  attune__choice *choice = fine ? attune__choose(r, axis, node) : NULL;
  if (choice) memcpy(&choice->value.tile, &tile, sizeof tile);
}
