/* combinations.c - what combines with what, as a table for readers: made by asking the rules
 * (rules.h) about every value in every op and family, alone and in pairs.
 *
 * Input: nothing. Output: Markdown, or JSON. A column is an op and a family; a mark says that the
 * value is served there beside the plainest others; below stand the pairs that are not, though both
 * of them are. Three fields never matter at once: tests/test_rules.c holds the rules to that. */
#include "combinations.h"

#include "model.h"

#include <stdio.h>
#include <string.h>

/* ---- values -------------------------------------------------------------------------------- */

enum { SM_75 = 75 << 8, SM_80 = 80 << 8, SM_90A = 90 << 8 | 'a' };

#define DTYPE_VALUE(name, id, text, bytes)       {ATTUNE_VALUE_DTYPE, "dtype", text, id, id},
#define ALIGN_VALUE(name, id, text, doc)         {ATTUNE_VALUE_ALIGN, "align", text, id, 0},
#define MASK_VALUE(name, id, text, lower, upper) {ATTUNE_VALUE_MASK, "mask", text, id, 0},
#define FEATURE_VALUE(name, bit, text, families)                                                   \
  {ATTUNE_VALUE_FEATURES, "features", text, ATTUNE_FEATURE_##name, 0},

const attune_value attune__values[] = {
    ATTUNE_DTYPES(DTYPE_VALUE){ATTUNE_VALUE_DTYPE, "dtype", "{q: fp16, out: fp32}",
                               ATTUNE_DTYPE_FP16, ATTUNE_DTYPE_FP32},
    {ATTUNE_VALUE_DTYPE, "dtype", "{q: bf16, out: fp32}", ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_FP32},
    {ATTUNE_VALUE_HEAD_DIM, "head_dim", "8 to 128, multiples of 8", 64, 64},
    {ATTUNE_VALUE_HEAD_DIM, "head_dim", "136 to 256, multiples of 8", 192, 192},
    {ATTUNE_VALUE_HEAD_DIM, "head_dim", "264 to 512, multiples of 8", 512, 512},
    {ATTUNE_VALUE_HEAD_DIM, "head_dim", "{qk: 192, v: 128}", 192, 128},
    {ATTUNE_VALUE_HEAD_DIM, "head_dim", "{qk: 576, v: 512}", 576, 512},
    {ATTUNE_VALUE_HEAD_DIM, "head_dim", "any other, with align: elem", 35, 35},
    ATTUNE_MASKS(MASK_VALUE) ATTUNE_ALIGNS(ALIGN_VALUE){ATTUNE_VALUE_GROUP, "group", "1", 1, 0},
    {ATTUNE_VALUE_GROUP, "group", "2, 4, 8, 16, 32, 64", 4, 0},
    {ATTUNE_VALUE_GROUP, "group", "others to 255", 7, 0},
    ATTUNE_FEATURES(FEATURE_VALUE){ATTUNE_VALUE_ARCH, "arch", "sm_75", SM_75, 0},
    {ATTUNE_VALUE_ARCH, "arch", "sm_90a", SM_90A, 0},
    {ATTUNE_VALUE_ARCH, "arch", "others since sm_80", SM_80, 0},
};
const int attune__value_count = sizeof attune__values / sizeof *attune__values;

static void apply(attune_variant *v, const attune_value *value) {
  switch (value->kind) {
    case ATTUNE_VALUE_DTYPE:
      v->dtype_q = v->dtype_kv = (uint8_t)value->first;
      v->dtype_out = (uint8_t)value->second;
      break;
    case ATTUNE_VALUE_HEAD_DIM:
      v->head_dim_qk = (uint16_t)value->first;
      v->head_dim_v = (uint16_t)value->second;
      if (value->first % 8) v->align = ATTUNE_ALIGN_ELEM;
      break;
    case ATTUNE_VALUE_MASK:
      v->mask = (uint8_t)value->first;
      break;
    case ATTUNE_VALUE_ALIGN:
      v->align = (uint8_t)value->first;
      break;
    case ATTUNE_VALUE_GROUP:
      v->group = (uint8_t)value->first;
      break;
    case ATTUNE_VALUE_FEATURES:
      v->features |= (uint32_t)value->first;
      break;
    case ATTUNE_VALUE_ARCH:
      v->arch = (uint32_t)value->first;
      break;
  }
}

attune_variant attune__variant_with(int op, const attune_value *const *values, int count) {
  attune_variant v;
  memset(&v, 0, sizeof v);
  int plain = op == ATTUNE_OP_ATTN_FWD ? ATTUNE_DTYPE_FP16 : ATTUNE_DTYPE_FP32;
  v.op = (uint8_t)op, v.arch = SM_90A; /* which every family has */
  v.dtype_q = v.dtype_kv = v.dtype_out = (uint8_t)plain;
  v.head_dim_qk = v.head_dim_v = 64;
  v.mask = ATTUNE_MASK_NONE, v.align = ATTUNE_ALIGN_16B, v.group = 1;
  for (int i = 0; i < count; i++) apply(&v, values[i]);
  if (op == ATTUNE_OP_ATTN_DEMO && !v.features) v.features = ATTUNE_FEATURE_NORESCALE;
  return v;
}

/* ---- columns ------------------------------------------------------------------------------- */

typedef struct column {
  int op, family;
} column;
enum { MAX_COLUMNS = 16 };

/* Every op and family of which there are kernels. */
static int all_columns(column out[MAX_COLUMNS]) {
  int count = 0;
#define FAMILY_COLUMN(name, id, text, doc)                                                         \
  if (attune__model(op, 0, id) && count < MAX_COLUMNS) out[count++] = (column){op, id};
#define OP_COLUMNS(name, id, text, doc)                                                            \
  for (int op = id; op; op = 0) {                                                                  \
    ATTUNE_FAMILIES(FAMILY_COLUMN)                                                                 \
  }
  ATTUNE_OPS(OP_COLUMNS)
  return count;
}

/* Why a column has no kernels of a value (and a second one, or NULL) beside the plainest others;
 * NULL when it has. */
static const char *refusal(const column *c, const attune_value *a, const attune_value *b) {
  const attune_value *values[] = {a, b};
  attune_variant v = attune__variant_with(c->op, values, b ? 2 : 1);
  return attune__family_refusal(&v, c->family);
}

/* ---- pairs --------------------------------------------------------------------------------- */

/* Calls visit for each pair of values that a column refuses though it serves both. */
static void each_refused_pair(const column *c,
                              void (*visit)(void *user, const attune_value *a,
                                            const attune_value *b, const char *reason),
                              void *user) {
  for (int i = 0; i < attune__value_count; i++)
    for (int j = i + 1; j < attune__value_count; j++) {
      const attune_value *a = &attune__values[i], *b = &attune__values[j];
      if (a->kind == b->kind && a->kind != ATTUNE_VALUE_FEATURES) continue;
      if (refusal(c, a, NULL) || refusal(c, b, NULL)) continue;
      const char *reason = refusal(c, a, b);
      if (reason) visit(user, a, b, reason);
    }
}

/* ---- Markdown ------------------------------------------------------------------------------ */

/* Reasons in the order in which they are met, each once. */
enum { MAX_NOTES = 64 };
typedef struct notes {
  const char *text[MAX_NOTES];
  int count;
} notes;

static int note(notes *all, const char *reason) {
  for (int i = 0; i < all->count; i++)
    if (!strcmp(all->text[i], reason)) return i + 1;
  if (all->count < MAX_NOTES) all->text[all->count++] = reason;
  return all->count;
}

static void markdown_head(const column *columns, int count, attune__text *out) {
  attune__text_puts(out, "| field | value |");
  for (int i = 0; i < count; i++)
    attune__text_printf(out, " `%s` %s |", attune__op_name(columns[i].op),
                        attune__family_name(columns[i].family));
  attune__text_puts(out, "\n|---|---|");
  for (int i = 0; i < count; i++) attune__text_puts(out, ":-:|");
  attune__text_puts(out, "\n");
}

static void markdown_row(const column *columns, int count, const attune_value *value, notes *all,
                         attune__text *out) {
  attune__text_printf(out, "| `%s` | `%s` |", value->field, value->text);
  for (int i = 0; i < count; i++) {
    const char *reason = refusal(&columns[i], value, NULL);
    if (reason)
      attune__text_printf(out, " no (%d) |", note(all, reason));
    else
      attune__text_puts(out, " yes |");
  }
  attune__text_puts(out, "\n");
}

typedef struct pair_lines {
  const column *column;
  attune__text *out;
  int count;
} pair_lines;

static void markdown_pair(void *user, const attune_value *a, const attune_value *b,
                          const char *reason) {
  pair_lines *lines = user;
  attune__text_printf(
      lines->out, "- `%s` %s: `%s: %s` with `%s: %s`: %s\n", attune__op_name(lines->column->op),
      attune__family_name(lines->column->family), a->field, a->text, b->field, b->text, reason);
  lines->count++;
}

void attune__combinations_markdown(attune__text *out) {
  column columns[MAX_COLUMNS];
  notes all = {.count = 0};
  int count = all_columns(columns);
  markdown_head(columns, count, out);
  for (int i = 0; i < attune__value_count; i++)
    markdown_row(columns, count, &attune__values[i], &all, out);
  attune__text_puts(out, "\n");
  for (int i = 0; i < all.count; i++) attune__text_printf(out, "%d. %s\n", i + 1, all.text[i]);
  attune__text_puts(out, "\nWhat has a `yes` in a column combines with all else that has one, "
                         "features with each other, but for:\n\n");
  pair_lines lines = {.out = out};
  for (int i = 0; i < count; i++) {
    lines.column = &columns[i];
    each_refused_pair(&columns[i], markdown_pair, &lines);
  }
  if (!lines.count) attune__text_puts(out, "- nothing\n");
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_text(attune__json *json, const char *key, const char *value) {
  attune__json_key(json, key);
  attune__json_string(json, value);
}

static void json_column(attune__json *json, const column *c) {
  json_text(json, "op", attune__op_name(c->op));
  json_text(json, "family", attune__family_name(c->family));
}

static void json_row(attune__json *json, const column *c, const attune_value *value) {
  const char *reason = refusal(c, value, NULL);
  attune__json_begin(json, '{');
  json_column(json, c);
  json_text(json, "field", value->field);
  json_text(json, "value", value->text);
  attune__json_key(json, "served");
  attune__json_bool(json, !reason);
  if (reason) json_text(json, "reason", reason);
  attune__json_end(json, '}');
}

typedef struct json_pairs {
  const column *column;
  attune__json *json;
} json_pairs;

static void json_pair(void *user, const attune_value *a, const attune_value *b,
                      const char *reason) {
  json_pairs *pairs = user;
  attune__json_begin(pairs->json, '{');
  json_column(pairs->json, pairs->column);
  json_text(pairs->json, "field", a->field);
  json_text(pairs->json, "value", a->text);
  json_text(pairs->json, "with_field", b->field);
  json_text(pairs->json, "with_value", b->text);
  json_text(pairs->json, "reason", reason);
  attune__json_end(pairs->json, '}');
}

void attune__combinations_json(attune__json *json) {
  column columns[MAX_COLUMNS];
  int count = all_columns(columns);
  attune__json_key(json, "values");
  attune__json_begin(json, '[');
  for (int i = 0; i < attune__value_count; i++)
    for (int k = 0; k < count; k++) json_row(json, &columns[k], &attune__values[i]);
  attune__json_end(json, ']');
  attune__json_key(json, "refused_pairs");
  attune__json_begin(json, '[');
  for (int k = 0; k < count; k++) {
    json_pairs pairs = {&columns[k], json};
    each_refused_pair(&columns[k], json_pair, &pairs);
  }
  attune__json_end(json, ']');
}
