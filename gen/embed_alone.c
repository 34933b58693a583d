/* embed_alone.c - a C file that needs the CUDA driver and nothing else: what its templates see, and
 * the cubins.
 *
 * Input: a set in memory. Output: the C text and that of a header, or the kernel that such a file
 * cannot dispatch. The code of the file is templates/embed/api.c and standalone.c. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/launch.h"
#include "embed.h"
#include "lua_text.h"

/* What standalone.c knows how to check and launch; a feature beyond is refused. */
enum {
  KNOWN_FEATURES = ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_BIAS |
                   ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_BITMASK | ATTUNE_FEATURE_VARLEN
};

typedef struct alone {
  const attune_loaded *loaded;
  char prefix[64], upper[64];
  unsigned char *used; /* by kernel: a row launches it */
  int *place;          /* by kernel: its index among the used ones */
  /* what occurs in rows, by id or bit */
  unsigned char dtypes[256], masks[256], aligns[256], grids[256];
  uint32_t features;
} alone;

/* ---- what cannot be dispatched --------------------------------------------------------------- */

static attune_status refuse(const char *kernel, const char *why) {
  return attune_fail(ATTUNE_INVALID,
                     "%s: %s, which a standalone file does not dispatch: leave it out of the spec, "
                     "or embed for the runtime (without --standalone)",
                     kernel, why);
}

static attune_status check_kernel(const attune_entry *e) {
  char why[96];
  uint32_t unknown = e->variant.features & ~(uint32_t)KNOWN_FEATURES;
  if (e->variant.op != ATTUNE_OP_ATTN_FWD) {
    snprintf(why, sizeof why, "it is of op %s", attune__op_name(e->variant.op));
    return refuse(e->name, why);
  }
  if (unknown) {
    snprintf(why, sizeof why, "it has the feature %s",
             attune__feature_name(__builtin_ctz(unknown)));
    return refuse(e->name, why);
  }
  if (e->pins.count) return refuse(e->name, "it has pins");
  if (e->recipe.workspace != ATTUNE_WORKSPACE_NONE) return refuse(e->name, "it needs a workspace");
  if (e->recipe.cluster != 1) return refuse(e->name, "it launches in clusters");
  if (e->recipe.maps) return refuse(e->name, "it loads by TMA; family mma does not");
  return ATTUNE_OK;
}

/* Notes what the row has. */
static attune_status take_row(alone *a, const attune__set_row *row) {
  const attune_variant *v = &row->variant;
  for (int i = 0; i < row->kernel_count; i++) {
    const attune_entry *e = &a->loaded->entries[row->kernel[i]];
    attune_status status = check_kernel(e);
    if (status) return status;
    a->used[row->kernel[i]] = 1;
    a->grids[e->recipe.grid & 255] = 1;
  }
  a->dtypes[v->dtype_q] = a->dtypes[v->dtype_kv] = a->dtypes[v->dtype_out] = 1;
  a->masks[v->mask] = a->aligns[v->align] = 1;
  a->features |= v->features;
  return ATTUNE_OK;
}

static attune_status take_rows(alone *a) {
  const attune__set *set = &a->loaded->set;
  int used = 0;
  a->used = calloc((size_t)set->kernel_count + 1, 1);
  a->place = calloc((size_t)set->kernel_count + 1, sizeof *a->place);
  if (!a->used || !a->place)
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for %d kernels", set->kernel_count);
  if (!set->row_count)
    return attune_fail(ATTUNE_INVALID, "%s has no row: nothing could be launched", set->path);
  for (int i = 0; i < set->row_count; i++) {
    attune_status status = take_row(a, &set->rows[i]);
    if (status) return status;
  }
  for (int i = 0; i < set->kernel_count; i++) a->place[i] = used, used += a->used[i];
  return ATTUNE_OK;
}

/* ---- values: what the set has ------------------------------------------------------------------
 */

static const char *mask_note(int lower, int upper) {
  if (lower && upper) return "keys from window_left to window_right of the diagonal";
  if (upper) return "keys up to the diagonal";
  return lower ? "keys from window_left of the diagonal on" : "all keys";
}

static void add_named(attune__text *out, const char *name, int id, const char *note) {
  attune__text_puts(out, "  {");
  attune__lua_string(out, "name", name);
  attune__lua_int(out, "id", id);
  attune__lua_string(out, "note", note);
}

static void add_axes(const alone *a, attune__text *out) {
  char note[32];
  attune__text_puts(out, "dtypes = {\n");
#define X(enumerator, id, name, width)                                                             \
  if (a->dtypes[id]) {                                                                             \
    snprintf(note, sizeof note, "%d bytes", width);                                                \
    add_named(out, name, id, note);                                                                \
    attune__lua_int(out, "bytes", width);                                                          \
    attune__text_puts(out, "},\n");                                                                \
  }
  ATTUNE_DTYPES(X)
#undef X
  attune__text_puts(out, "},\nmasks = {\n");
#define X(enumerator, id, name, has_lower, has_upper)                                              \
  if (a->masks[id]) {                                                                              \
    add_named(out, name, id, mask_note(has_lower, has_upper));                                     \
    attune__lua_bool(out, "lower", has_lower);                                                     \
    attune__lua_bool(out, "upper", has_upper);                                                     \
    attune__text_puts(out, "},\n");                                                                \
  }
  ATTUNE_MASKS(X)
#undef X
  attune__text_puts(out, "},\naligns = {\n");
#define X(enumerator, id, name, doc)                                                               \
  if (a->aligns[id]) {                                                                             \
    add_named(out, name, id, doc);                                                                 \
    attune__text_puts(out, "},\n");                                                                \
  }
  ATTUNE_ALIGNS(X)
#undef X
  attune__text_puts(out, "},\nfeatures = {\n");
#define X(enumerator, bit, text, generated)                                                        \
  if (a->features >> (bit)&1) {                                                                    \
    attune__text_puts(out, "  {");                                                                 \
    attune__lua_string(out, "name", text);                                                         \
    attune__lua_int(out, "bit", bit);                                                              \
    attune__text_puts(out, "},\n");                                                                \
  }
  ATTUNE_FEATURES(X)
#undef X
  attune__text_puts(out, "},\n");
}

static void add_kernels(const alone *a, attune__text *out) {
  attune__text_puts(out, "kernels = {\n");
  for (int i = 0; i < a->loaded->set.kernel_count; i++) {
    const attune_entry *e = &a->loaded->entries[i];
    const char *grid = "";
#define X(name, id, text, rule)                                                                    \
  if (e->recipe.grid == id) grid = text;
    ATTUNE_GRIDS(X)
#undef X
    if (!a->used[i]) continue;
    attune__text_puts(out, "  {");
    attune__lua_string(out, "name", e->name);
    attune__lua_int(out, "threads", e->recipe.threads);
    attune__lua_int(out, "smem", e->recipe.smem_bytes);
    attune__lua_int(out, "block_m", e->recipe.block_m);
    attune__lua_int(out, "block_n", e->recipe.block_n);
    attune__lua_string(out, "grid", grid);
    attune__text_puts(out, "},\n");
  }
  attune__text_puts(out, "},\n");
}

static void add_rows(const alone *a, attune__text *out) {
  attune__text_puts(out, "rows = {\n");
  for (int i = 0; i < a->loaded->set.row_count; i++) {
    const attune__set_row *row = &a->loaded->set.rows[i];
    attune__text_puts(out, "  {");
#define X(type, field, kind) attune__lua_int(out, #field, row->variant.field);
    ATTUNE_VARIANT_FIELDS(X)
#undef X
    attune__lua_int(out, "cc", attune__arch_cc(row->variant.arch));
    attune__lua_int(out, "exact", attune__arch_suffix(row->variant.arch) != 0);
    attune__lua_int(out, "class", row->cls);
    attune__lua_int(out, "kernel", a->place[row->kernel[0]]);
    attune__text_puts(out, "},\n");
  }
  attune__text_puts(out, "},\n");
}

static void add_archs(const alone *a, attune__text *out) {
  attune__text list = {0};
  for (int i = 0; i < a->loaded->set.row_count; i++) {
    char arch[ATTUNE_ARCH_MAX];
    uint32_t mine = a->loaded->set.rows[i].variant.arch;
    int seen = 0;
    for (int j = 0; j < i && !seen; j++) seen = a->loaded->set.rows[j].variant.arch == mine;
    if (seen) continue;
    attune__arch_print(mine, 1, arch);
    attune__text_printf(&list, "%s%s", list.size ? ", " : "", arch);
  }
  attune__lua_string(out, "archs", list.data ? list.data : "");
  if (list.failed) out->failed = 1;
  attune__text_free(&list);
}

/* ---- values: the lists of runtime/ --------------------------------------------------------------
 */

static const char *const statuses[] = {"OK", "INVALID", "NOT_FOUND", "NO_DEVICE", "DRIVER"};

static void add_status(const char *name, int code, const char *text, attune__text *out) {
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
    if (strcmp(statuses[i], name) != 0) continue;
    attune__text_puts(out, "  {");
    attune__lua_string(out, "name", name);
    attune__lua_int(out, "code", code);
    attune__lua_string(out, "text", text);
    attune__text_puts(out, "},\n");
  }
}

/* What a problem has: the variant's fields that its caller chooses. */
static void add_field(const char *name, const char *kind, attune__text *out) {
  static const char *const not_chosen[] = {"ARCH", "PINS", "OP", "PART"};
  for (size_t i = 0; i < sizeof not_chosen / sizeof *not_chosen; i++)
    if (strcmp(not_chosen[i], kind) == 0) return;
  attune__text_puts(out, "  {");
  attune__lua_string(out, "name", name);
  attune__lua_string(out, "kind", kind);
  attune__text_puts(out, "},\n");
}

static void add_param(const char *type, const char *ctype, const char *name, const char *note,
                      attune__text *out) {
  attune__text_puts(out, "  {");
  attune__lua_string(out, "type", type);
  attune__lua_string(out, "ctype", ctype);
  attune__lua_string(out, "name", name);
  attune__lua_string(out, "note", note);
  attune__text_puts(out, "},\n");
}

static void add_pair(const char *first, const char *a, const char *second, const char *b,
                     attune__text *out) {
  attune__text_puts(out, "  {");
  attune__lua_string(out, first, a);
  attune__lua_string(out, second, b);
  attune__text_puts(out, "},\n");
}

#define TEXT_OF(x) #x
#define SPELLED(x) TEXT_OF(x)

static void add_lists(const alone *a, attune__text *out) {
  attune__text_puts(out, "statuses = {\n");
#define X(name, code, text) add_status(#name, code, text, out);
  ATTUNE_STATUSES(X)
#undef X
  attune__text_puts(out, "},\nfields = {\n");
#define X(type, field, kind) add_field(#field, #kind, out);
  ATTUNE_VARIANT_FIELDS(X)
#undef X
  attune__text_puts(out, "},\nparams = {\n");
#define P(type, name, pinnable, text) add_param(#type, SPELLED(ATTUNE__C_##type), #name, text, out);
  ATTUNE_PARAMS_ATTN_FWD(P)
#undef P
  attune__text_puts(out, "},\ngrids = {\n");
#define X(enumerator, id, text, rule)                                                              \
  if (a->grids[id]) add_pair("name", text, "text", rule, out);
  ATTUNE_GRIDS(X)
#undef X
  attune__text_puts(out, "},\nclass_rule = {\n");
#define X(name, rule)                                                                              \
  attune__text_printf(out, "  {id = %d, ", ATTUNE_CLASS_##name);                                   \
  attune__lua_string(out, "condition", #rule);                                                     \
  attune__text_puts(out, "},\n");
  ATTUNE_CLASS_RULE(X)
#undef X
  attune__text_puts(out, "},\n");
}

static void environment(const alone *a, attune__text *out) {
  attune__text_puts(out, "return {\n");
  attune__lua_string(out, "prefix", a->prefix);
  attune__lua_string(out, "upper", a->upper);
  attune__lua_int(out, "abi", ATTUNE_ABI);
  attune__lua_int(out, "param_bytes", (int64_t)attune__param_bytes(ATTUNE_OP_ATTN_FWD, 0));
  attune__lua_int(out, "length_limit", ATTUNE_LENGTH_LIMIT);
  attune__lua_int(out, "align_16b", ATTUNE_ALIGN_16B);
  attune__lua_int(out, "align_elem", ATTUNE_ALIGN_ELEM);
  attune__text_printf(out, "defaults = {MASK = %d, ALIGN = %d, COUNT = 1},\n", ATTUNE_MASK_NONE,
                      ATTUNE_ALIGN_16B);
  add_archs(a, out);
  add_axes(a, out);
  add_lists(a, out);
  add_kernels(a, out);
  add_rows(a, out);
  attune__text_puts(out, "}\n");
}

/* ---- the file ----------------------------------------------------------------------------------
 */

static void add_cubins(const alone *a, attune__text *out) {
  for (int i = 0; i < a->loaded->set.kernel_count; i++) {
    const attune_entry *e = &a->loaded->entries[i];
    size_t bytes = e->payload[ATTUNE_PAYLOAD_CUBIN].bytes;
    if (!a->used[i]) continue;
    attune__text_printf(out,
                        "/* %s: %zu bytes, %u registers */\nstatic const unsigned long long "
                        "cubin_%d[%zu] = {\n",
                        e->name, bytes, e->facts.registers, a->place[i], (bytes + 7) / 8);
    attune__embed_words(e->payload[ATTUNE_PAYLOAD_CUBIN].data, bytes, out);
    attune__text_puts(out, "};\n\n");
  }
}

static const char usage[] =
    " *\n * Compile it as C or C++ and link nothing but libdl and libpthread, which are in libc "
    "since\n"
    " * glibc 2.34; the CUDA driver is looked for at the first call. See %s_attn_fwd below.\n */\n";

static attune_status write_file(const alone *a, const attune__text *values, attune__text *out) {
  attune__embed_head(a->loaded, a->used, out);
  attune__text_printf(out, usage, a->prefix);
  attune__text_printf(out,
                      "#include <dlfcn.h>\n#include <pthread.h>\n#include <stdarg.h>\n"
                      "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n"
                      "#include <string.h>\n\n#ifndef %s_H\n#define %s_H\n",
                      a->upper, a->upper);
  attune_status status = attune__embed_expand("embed/api.c", values, out);
  attune__text_puts(out, "#endif\n\n");
  add_cubins(a, out);
  return status ? status : attune__embed_expand("embed/standalone.c", values, out);
}

static attune_status write_header(const alone *a, const attune__text *values, attune__text *out) {
  attune__text_printf(out,
                      "/* Written by `attune embed`, attune %s. */\n#ifndef %s_H\n#define %s_H\n\n"
                      "#include <stdint.h>\n\n",
                      attune_version(), a->upper, a->upper);
  attune_status status = attune__embed_expand("embed/api.c", values, out);
  attune__text_puts(out, "\n#endif\n");
  return status;
}

attune_status attune__embed_alone(const attune_loaded *loaded, const char *prefix,
                                  attune__text *file, attune__text *header) {
  alone a = {.loaded = loaded};
  attune__text values = {0};
  snprintf(a.prefix, sizeof a.prefix, "%s", prefix);
  for (size_t i = 0; a.prefix[i]; i++) a.upper[i] = (char)toupper((unsigned char)a.prefix[i]);
  attune_status status = take_rows(&a);
  if (!status) {
    environment(&a, &values);
    status = write_file(&a, &values, file);
  }
  if (!status && header) status = write_header(&a, &values, header);
  attune__text_free(&values);
  free(a.used);
  free(a.place);
  return status;
}
