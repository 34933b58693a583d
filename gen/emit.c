/* emit.c - kernel -> environment -> CUDA text.
 *
 * Input: a kernel. Output: the values that its templates see, as the text of a Lua table, and the
 * expanded CUDA. Expansion is left to template.c, the data sheet's lines to sheet.c.
 *
 * What a template sees:
 *   name op part family mask align   strings; part is "" in an op of one kernel
 *   group                            query heads packed as rows of one tile
 *   arch {name, cc, suffix}          "sm_90a", 90, "a"
 *   dtype {q, kv, out}   d {qk, v}   "bf16"; elements
 *   features {softcap, ...}          booleans
 *   tile {family, block_m, ...}      the fields of fields.def
 *   constants [{type, name, value, note}]    the constants block
 *   params [{ctype, name, note, pinnable, pinned}]   struct Params
 *   param_bytes                      its size
 *   ledger [{name, ctype, rows, columns, align, offset, bytes, note}]   struct Smem
 *   smem_bytes                       its size
 *   sheet [line]                     the data sheet */
#include "../runtime/launch.h"
#include "lua_text.h"
#include "model.h"
#include "template.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- parameters of an op, from params.def -------------------------------------------- */

typedef struct param {
  const char *ctype, *name, *note;
  int pinnable;
} param;

/* CUDA twins of ATTUNE__C_*. u32 and i64 are typedefs of head.cuh, q_t kv_t out_t of the type part.
 */
#define CUDA_U32                          "u32"
#define CUDA_I32                          "int"
#define CUDA_I64                          "i64"
#define CUDA_F32                          "float"
#define CUDA_IN_Q                         "const q_t *"
#define CUDA_IN_KV                        "const kv_t *"
#define CUDA_OUT                          "out_t *"
#define CUDA_OUT_F32                      "float *"
#define CUDA_IN_I32                       "const int *"
#define CUDA_IN_U32                       "const u32 *"
#define CUDA_IN_U8                        "const unsigned char *"
#define CUDA_IN_F32                       "const float *"
#define CUDA_SCRATCH                      "q_t *"
#define PARAM(type, name, pinnable, text) {CUDA_##type, #name, text, pinnable},

static const param params_attn_fwd[] = {ATTUNE_PARAMS_ATTN_FWD(PARAM){0}};
static const param params_attn_demo[] = {ATTUNE_PARAMS_ATTN_DEMO(PARAM){0}};
static const param params_attn_standard[] = {ATTUNE_PARAMS_ATTN_STANDARD(PARAM){0}};

static const param *params_of(int op) {
  if (op == ATTUNE_OP_ATTN_FWD) return params_attn_fwd;
  return op == ATTUNE_OP_ATTN_DEMO ? params_attn_demo : params_attn_standard;
}

static int is_pinned(const attune_pinset *pins, const char *name) {
  for (uint32_t i = 0; i < pins->count; i++)
    if (!strcmp(pins->pin[i].name, name)) return 1;
  return 0;
}

/* ---- constants ----------------------------------------------------------------------- */

static void add_constant(attune__text *out, const char *type, const char *name, const char *value,
                         const char *note) {
  attune__text_puts(out, "  {");
  attune__lua_string(out, "type", type);
  attune__lua_string(out, "name", name);
  attune__lua_string(out, "value", value);
  attune__lua_string(out, "note", note);
  attune__text_puts(out, "},\n");
}

static void add_int_constant(attune__text *out, const char *name, int64_t value, const char *note) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)value);
  add_constant(out, "int", name, text, note);
}

/* Nine digits tell any two floats apart; a literal without point or exponent would be an int. */
static void add_pin(attune__text *out, const param *p, double value) {
  char digits[ATTUNE_PIN_TEXT_MAX] = "", text[ATTUNE_PIN_TEXT_MAX + 3];
  attune__pin_print(value, digits);
  const char *suffix = strcmp(p->ctype, CUDA_F32) != 0 ? "" : strpbrk(digits, ".e") ? "f" : ".0f";
  snprintf(text, sizeof text, "%s%s", digits, suffix);
  add_constant(out, p->ctype, p->name, text, "pinned by the spec");
}

static void add_pins(attune__text *out, const attune_kernel *kernel) {
  const attune_pinset *pins = &kernel->pins;
  for (const param *p = params_of(kernel->variant.op); p->name; p++)
    for (uint32_t i = 0; i < pins->count; i++)
      if (!strcmp(pins->pin[i].name, p->name)) add_pin(out, p, pins->pin[i].value);
}

static void add_constants(attune__text *out, const attune_kernel *kernel) {
  attune__text_puts(out, "constants = {\n");
  const attune_model *model =
      attune__model(kernel->variant.op, kernel->variant.part, kernel->tile.family);
#define X(type, field, letters, def, constant, text)                                               \
  if (attune__model_has(model, ATTUNE__TILE_##field))                                              \
    add_int_constant(out, constant, kernel->tile.field, text);
  ATTUNE_TILE_FIELDS(X)
#undef X
  for (int i = 0; i < kernel->constant_count; i++)
    add_int_constant(out, kernel->constant[i].name, kernel->constant[i].value,
                     kernel->constant[i].note);
  add_int_constant(out, "kGroup", kernel->variant.group, "query heads packed as rows of one tile");
  add_int_constant(out, "kThreads", kernel->recipe.threads, "threads per block");
  add_int_constant(out, "kSmemBytes", kernel->ledger.bytes, "shared memory per block");
  add_pins(out, kernel);
  attune__text_puts(out, "},\n");
}

/* ---- the other values ---------------------------------------------------------------- */

static void add_variant(attune__text *out, const attune_kernel *kernel) {
  const attune_variant *v = &kernel->variant;
  char arch[ATTUNE_ARCH_MAX], suffix[2] = {attune__arch_suffix(v->arch), 0};
  attune__arch_print(v->arch, 1, arch);
  attune__lua_string(out, "name", kernel->name);
  attune__lua_string(out, "op", attune__op_name(v->op));
  attune__lua_string(out, "part", attune__part_suffix(v->op, v->part));
  attune__lua_string(out, "family", attune__family_name(kernel->tile.family));
  attune__lua_string(out, "mask", attune__mask_name(v->mask));
  attune__lua_string(out, "align", attune__align_name(v->align));
  attune__lua_int(out, "group", v->group);
  attune__text_puts(out, "\narch = {");
  attune__lua_string(out, "name", arch);
  attune__lua_int(out, "cc", attune__arch_cc(v->arch));
  attune__lua_string(out, "suffix", suffix);
  attune__text_puts(out, "},\ndtype = {");
  attune__lua_string(out, "q", attune__dtype_name(v->dtype_q));
  attune__lua_string(out, "kv", attune__dtype_name(v->dtype_kv));
  attune__lua_string(out, "out", attune__dtype_name(v->dtype_out));
  attune__text_puts(out, "},\nd = {");
  attune__lua_int(out, "qk", v->head_dim_qk);
  attune__lua_int(out, "v", v->head_dim_v);
  attune__text_puts(out, "},\nfeatures = {");
#define X(name, bit, text, generated) attune__lua_bool(out, text, (v->features >> (bit)) & 1);
  ATTUNE_FEATURES(X)
#undef X
  attune__text_puts(out, "},\n");
}

static void add_tile(attune__text *out, const attune_tile *tile) {
  attune__text_puts(out, "tile = {");
  attune__lua_string(out, "family", attune__family_name(tile->family));
#define X(type, field, letters, def, constant, text) attune__lua_int(out, #field, tile->field);
  ATTUNE_TILE_FIELDS(X)
#undef X
  attune__text_puts(out, "},\n");
}

static void add_map(attune__text *out, const char *name, const char *note) {
  attune__text_puts(out, "  {");
  attune__lua_string(out, "ctype", "TensorMap");
  attune__lua_string(out, "name", name);
  attune__lua_string(out, "note", note);
  attune__lua_bool(out, "pinnable", 0);
  attune__lua_bool(out, "pinned", 0);
  attune__text_puts(out, "},\n");
}

static void add_params(attune__text *out, const attune_kernel *kernel) {
  attune__lua_int(out, "param_bytes", kernel->recipe.param_bytes);
  attune__lua_bool(out, "early", kernel->recipe.early != 0);
  attune__text_puts(out, "params = {\n");
  for (const param *p = params_of(kernel->variant.op); p->name; p++) {
    attune__text_puts(out, "  {");
    attune__lua_string(out, "ctype", p->ctype);
    attune__lua_string(out, "name", p->name);
    attune__lua_string(out, "note", p->note);
    attune__lua_bool(out, "pinnable", p->pinnable);
    attune__lua_bool(out, "pinned", is_pinned(&kernel->pins, p->name));
    attune__text_puts(out, "},\n");
  }
#define MAP(name, text) add_map(out, #name, text);
  if (kernel->recipe.maps) {
    ATTUNE_PARAMS_MAPS(MAP)
  }
#undef MAP
  attune__text_puts(out, "},\n");
}

static void add_ledger(attune__text *out, const attune_ledger *ledger) {
  attune__lua_int(out, "smem_bytes", ledger->bytes);
  attune__text_puts(out, "ledger = {\n");
  for (int i = 0; i < ledger->count; i++) {
    const attune_piece *piece = &ledger->piece[i];
    attune__text_puts(out, "  {");
    attune__lua_string(out, "name", piece->name);
    attune__lua_string(out, "ctype", piece->ctype);
    attune__lua_int(out, "rows", piece->rows);
    attune__lua_int(out, "columns", piece->columns);
    attune__lua_int(out, "align", piece->align);
    attune__lua_int(out, "offset", piece->offset);
    attune__lua_int(out, "bytes", piece->bytes);
    attune__lua_string(out, "note", piece->note);
    attune__text_puts(out, "},\n");
  }
  attune__text_puts(out, "},\n");
}

static void add_sheet(attune__text *out, const attune_kernel *kernel,
                      const attune_emit_options *options) {
  attune__text sheet = {0};
  attune__sheet(kernel, options, &sheet);
  if (sheet.failed || !sheet.data) {
    out->failed = 1;
    return;
  }
  attune__text_puts(out, "sheet = {\n");
  char *line = sheet.data;
  for (char *end; (end = strchr(line, '\n')); line = end + 1) {
    *end = 0;
    attune__text_puts(out, "  ");
    attune__lua_quoted(out, line);
    attune__text_puts(out, ",\n");
  }
  attune__text_puts(out, "},\n");
  attune__text_free(&sheet);
}

void attune__emit_environment(const attune_kernel *kernel, const attune_emit_options *options,
                              attune__text *out) {
  attune__text_puts(out, "return {\n");
  add_variant(out, kernel);
  add_tile(out, &kernel->tile);
  add_constants(out, kernel);
  add_params(out, kernel);
  add_ledger(out, &kernel->ledger);
  add_sheet(out, kernel, options);
  attune__text_puts(out, "}\n");
}

/* ---- emit ---------------------------------------------------------------------------- */

/* What stands in the constants block must be what was pinned. */
static attune_status check_pins(const attune_kernel *kernel) {
  for (uint32_t i = 0; i < kernel->pins.count; i++) {
    const char *name = kernel->pins.pin[i].name;
    double value = kernel->pins.pin[i].value;
    const param *p = params_of(kernel->variant.op);
    while (p->name && (!p->pinnable || strcmp(p->name, name) != 0)) p++;
    if (!p->name)
      return attune_fail(ATTUNE_INVALID, "pin %s: %s has no such scalar to pin", name,
                         attune__op_name(kernel->variant.op));
    int is_float = !strcmp(p->ctype, CUDA_F32);
    if (is_float ? !(fabs(value) <= FLT_MAX) : value != (double)(int32_t)value)
      return attune_fail(ATTUNE_INVALID, "pin %s: the value is not %s", name,
                         is_float ? "a finite number" : "a 32-bit integer");
  }
  return ATTUNE_OK;
}

/* Expands the kernel's template, or the text that the job has in its place. */
static attune_status expand(const attune_kernel *kernel, const attune_emit_options *options,
                            attune_template_job *job, attune__text *out) {
  static const attune_emit_options plain = {0};
  if (!options) options = &plain;
  job->op = kernel->variant.op, job->root = kernel->template_path;
  job->lines = options->lines, job->outline = options->outline;
  attune_status status = check_pins(kernel);
  if (status == ATTUNE_OK) status = attune__template_files(&job->files, &job->count);
  if (status != ATTUNE_OK) return status;
  attune__text environment = {0};
  attune__emit_environment(kernel, options, &environment);
  job->environment = environment.data;
  if (environment.failed)
    status = attune_fail(ATTUNE_NO_MEMORY, "the environment of %s", kernel->name);
  else
    status = attune__template_expand(job, out);
  attune__text_free(&environment);
  return status;
}

attune_status attune__emit(const attune_kernel *kernel, const attune_emit_options *options,
                           attune__text *out) {
  attune_template_job job = {0};
  return expand(kernel, options, &job, out);
}

attune_status attune__emit_outline(const attune_kernel *kernel, const attune_emit_options *options,
                                   const char *path, int line, const char *text, size_t size,
                                   attune__text *out) {
  attune__text numbered = {0};
  for (int i = 1; i < line; i++) attune__text_puts(&numbered, "\n");
  attune__text_add(&numbered, text, size);
  attune_template_job job = {.text = numbered.data, .place = path};
  attune_status status = numbered.failed ? attune_fail(ATTUNE_NO_MEMORY, "the text of %s", path)
                                         : expand(kernel, options, &job, out);
  attune__text_free(&numbered);
  return status;
}
