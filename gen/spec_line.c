/* spec_line.c - a variant (and tile) back to a spec of one line, for reports, kernel heads and the
 * "add these lines" of a miss.
 *
 * Input: values. Output: flow YAML that attune__spec_read turns into exactly that request. Fields
 * at their default are left out. The part is left out too: a spec asks for whole programs. */
#include "spec_parts.h"

/* Begins a field: the comma and the key. */
static void key(attune__text *out, const char *name) {
  attune__text_printf(out, ", %s: ", name);
}

static void put_dtype(const attune_variant *v, attune__text *out) {
  key(out, "dtype");
  if (v->dtype_kv == v->dtype_q && v->dtype_out == v->dtype_q)
    attune__text_puts(out, attune__dtype_name(v->dtype_q));
  else
    attune__text_printf(out, "{q: %s, kv: %s, out: %s}", attune__dtype_name(v->dtype_q),
                        attune__dtype_name(v->dtype_kv), attune__dtype_name(v->dtype_out));
}

static void put_head_dim(const attune_variant *v, attune__text *out) {
  key(out, "head_dim");
  if (v->head_dim_v == v->head_dim_qk)
    attune__text_printf(out, "%u", (unsigned)v->head_dim_qk);
  else
    attune__text_printf(out, "{qk: %u, v: %u}", (unsigned)v->head_dim_qk, (unsigned)v->head_dim_v);
}

/* A list within a list: several features of one variant, not one variant each. */
static void put_features(uint32_t features, attune__text *out) {
  const char *between = "[[";
  if (!features) return;
  key(out, "features");
  for (int bit = 0; bit < 32; bit++) {
    if (!(features >> bit & 1) || !attune__feature_name(bit)) continue;
    attune__text_printf(out, "%s%s", between, attune__feature_name(bit));
    between = ", ";
  }
  attune__text_puts(out, "]]");
}

static void put_pins(const attune_pinset *pins, attune__text *out) {
  if (!pins || !pins->count) return;
  key(out, "pin");
  for (uint32_t i = 0; i < pins->count; i++) {
    char number[ATTUNE_PIN_TEXT_MAX];
    attune__pin_print(pins->pin[i].value, number);
    attune__text_printf(out, "%s%s: %s", i ? ", " : "{", pins->pin[i].name, number);
  }
  attune__text_puts(out, "}");
}

static void put_tile(const attune_variant *variant, const attune_tile *tile, attune__text *out) {
  const attune_model *model = attune__model(variant->op, variant->part, tile->family);
  const char *between = "{";
  key(out, "family");
  attune__text_puts(out, attune__family_name(tile->family));
  key(out, "tile");
#define X(type, field, letters, def, constant, text)                                               \
  if (tile->field || attune__model_has(model, ATTUNE__TILE_##field)) {                             \
    attune__text_printf(out, "%s" #field ": %u", between, (unsigned)tile->field);                  \
    between = ", ";                                                                                \
  }
  ATTUNE_TILE_FIELDS(X)
#undef X
  attune__text_puts(out, "}");
}

void attune__spec_line(const attune_variant *variant, const attune_pinset *pins,
                       const attune_tile *tile, attune__text *out) {
  char arch[ATTUNE_ARCH_MAX];
  attune__arch_print(variant->arch, 1, arch);
  attune__text_printf(out, "{version: 1, op: %s, arch: %s", attune__op_name(variant->op), arch);
  put_dtype(variant, out);
  put_head_dim(variant, out);
  if (variant->mask != ATTUNE_MASK_NONE)
    attune__text_printf(out, ", mask: %s", attune__mask_name(variant->mask));
  if (variant->align != ATTUNE_ALIGN_16B)
    attune__text_printf(out, ", align: %s", attune__align_name(variant->align));
  if (variant->group != 1) attune__text_printf(out, ", group: %u", (unsigned)variant->group);
  put_features(variant->features, out);
  put_pins(pins, out);
  if (tile && attune__op_parts(variant->op) == 1) put_tile(variant, tile, out);
  attune__text_puts(out, "}");
}
