/* embed_pack.c - a C file for programs that link the runtime: the pack in an array, and a function
 * that opens it in a context.
 *
 * Input: a set in memory. Output: the C text, and that of a header. */
#include <stdlib.h>
#include <string.h>

#include "embed.h"
#include "lua_text.h"

static void environment(const attune_loaded *loaded, const char *prefix, const char *part,
                        attune__text *out) {
  attune__text_puts(out, "return {");
  attune__lua_string(out, "prefix", prefix);
  attune__lua_string(out, "part", part);
  attune__lua_int(out, "kernels", loaded->set.kernel_count);
  attune__text_puts(out, "}\n");
}

static attune_status add_part(const attune_loaded *loaded, const char *prefix, const char *part,
                              attune__text *out) {
  attune__text values = {0};
  environment(loaded, prefix, part, &values);
  attune_status status = attune__embed_expand("embed/embedded.c", &values, out);
  attune__text_free(&values);
  return status;
}

/* The installed header, or the one in attune's own tree. */
static const char include_attune[] =
    "#if defined(__has_include) && !__has_include(<attune/attune.h>)"
    "\n#include \"attune.h\"\n#else\n#include <attune/attune.h>\n"
    "#endif\n\n";

/* The pack's bytes, each entry under its name. */
static attune_status add_array(const attune_loaded *loaded, const char *prefix, attune__text *out) {
  void *pack;
  size_t bytes, at = 0;
  attune__set set;
  attune_status status = attune__loaded_pack(loaded, &pack, &bytes);
  if (status) return status;
  status = attune__pack_read(pack, bytes, prefix, &set);
  attune__text_printf(out,
                      "#ifdef __cplusplus\nalignas(64)\n#else\n_Alignas(64)\n#endif\n"
                      "static const unsigned long long %s_pack[%zu] = {\n",
                      prefix, bytes / sizeof(uint64_t));
  for (int i = 0; i <= set.kernel_count && !status; i++) {
    attune__span entry = {(const char *)pack + bytes, 0};
    if (i < set.kernel_count) status = attune__pack_entry(&set, i, &entry);
    size_t begin = (size_t)((const char *)entry.data - (const char *)pack);
    attune__embed_words((const char *)pack + at, begin - at, out);
    if (i < set.kernel_count)
      attune__text_printf(out, "/* %s: %zu bytes at %zu */\n", set.kernels[i].name, entry.size,
                          begin);
    at = begin;
  }
  attune__text_puts(out, "};\n\n");
  attune__set_free(&set);
  free(pack);
  return status;
}

attune_status attune__embed_pack(const attune_loaded *loaded, const char *prefix,
                                 attune__text *file, attune__text *header) {
  attune__embed_head(loaded, NULL, file);
  attune__text_printf(file,
                      " *\n * Compile it as C or C++ and link libattune (pkg-config attune):\n"
                      " *   attune_status %s_open(attune_context *context);\n */\n%s",
                      prefix, include_attune);
  attune_status status = add_part(loaded, prefix, "declarations", file);
  attune__text_puts(file, "\n");
  if (!status) status = add_array(loaded, prefix, file);
  if (!status) status = add_part(loaded, prefix, "definitions", file);
  if (status || !header) return status;
  attune__text_printf(header,
                      "/* Written by `attune embed`, attune %s. */\n#ifndef %s_H\n#define "
                      "%s_H\n\n%s",
                      attune_version(), prefix, prefix, include_attune);
  status = add_part(loaded, prefix, "declarations", header);
  attune__text_puts(header, "\n#endif\n");
  return status;
}
