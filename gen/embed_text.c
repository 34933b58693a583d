/* embed_text.c - what both kinds of embedded C file share: the head, arrays of bytes, templates.
 *
 * Input: a set. Output: text. What stands in the file besides is embed_pack.c's and
 * embed_alone.c's.
 */
#include "embed.h"

#include <ctype.h>
#include <string.h>

#include "template.h"

enum { WORDS_A_LINE = 4 };

void attune__embed_head(const attune_loaded *loaded, const unsigned char *used, attune__text *out) {
  attune__text_printf(
      out,
      "/* Written by `attune embed`, attune %s: write it again instead of editing it."
      "\n *\n * Kernels made by %s:\n *   registers  shared B   code B\n",
      attune_version(), loaded->set.made_by);
  for (int i = 0; i < loaded->set.kernel_count; i++) {
    const attune_entry *e = &loaded->entries[i];
    if (used && !used[i]) continue;
    attune__text_printf(out, " *   %9u  %8u  %7zu  %s\n", e->facts.registers, e->recipe.smem_bytes,
                        e->payload[ATTUNE_PAYLOAD_CUBIN].bytes, e->name);
  }
}

void attune__embed_words(const void *bytes, size_t size, attune__text *out) {
  static const char digits[] = "0123456789abcdef";
  char line[WORDS_A_LINE * 20 + 4];
  size_t used = 0;
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, (const char *)bytes + at, size - at < sizeof word ? size - at : sizeof word);
    line[used++] = '0', line[used++] = 'x';
    for (int shift = 60; shift >= 0; shift -= 4) line[used++] = digits[word >> shift & 15];
    line[used++] = ',';
    int last = at + sizeof word >= size || at / sizeof word % WORDS_A_LINE == WORDS_A_LINE - 1;
    line[used++] = last ? '\n' : ' ';
    if (last) attune__text_add(out, line, used), used = 0;
  }
}

attune_status attune__embed_expand(const char *name, const attune__text *environment,
                                   attune__text *out) {
  attune_template_job job = {.root = name, .environment = environment->data};
  if (environment->failed || !environment->data)
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for the values of templates/%s", name);
  attune_status status = attune__template_files(&job.files, &job.count);
  return status ? status : attune__template_expand(&job, out);
}

static int is_identifier(const char *text) {
  if (!isalpha((unsigned char)*text) && *text != '_') return 0;
  for (; *text; text++)
    if (!isalnum((unsigned char)*text) && *text != '_') return 0;
  return 1;
}

attune_status attune__embed(attune_loaded *loaded, const attune_embed_options *options,
                            attune__text *file, attune__text *header) {
  const char *prefix = options->prefix;
  if (!is_identifier(prefix) || strlen(prefix) > 48)
    return attune_fail(ATTUNE_INVALID,
                       "prefix '%s': wanted a C identifier of at most 48 letters, as my_kernels",
                       prefix);
  attune_status status = options->keep_ptx ? ATTUNE_OK : attune__loaded_strip(loaded);
  if (!status)
    status = options->standalone ? attune__embed_alone(loaded, prefix, file, header)
                                 : attune__embed_pack(loaded, prefix, file, header);
  if (status) return status;
  if (file->failed || (header && header->failed))
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for the text of %d kernels",
                       loaded->set.kernel_count);
  return ATTUNE_OK;
}
