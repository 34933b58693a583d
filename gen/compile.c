/* compile.c - kernel -> entry: emit, compile, facts, serialise.
 *
 * Input: a kernel as the planner made it. Output: the bytes of its entry file, with machine code
 * for GPUs and PTX for the CPU device, and a warning when the machine code is not what the
 * template's author counted on. Reads and writes no file; whether a warning is an error is the
 * caller's to say. */
#include "nvrtc.h"
#include "store.h"
#include "template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void attune__facts_warning(const attune_facts *facts, char out[ATTUNE_WARNING_MAX]) {
  out[0] = 0;
  if (facts->spill_bytes)
    snprintf(out, ATTUNE_WARNING_MAX, "spills %u bytes at %u registers", facts->spill_bytes,
             facts->registers);
  else if (facts->stack_bytes)
    snprintf(out, ATTUNE_WARNING_MAX, "keeps %u bytes of a thread's variables in local memory",
             facts->stack_bytes);
  else if (facts->c75_lines)
    snprintf(out, ATTUNE_WARNING_MAX, "is not in the order of its text: %u lines C75xx of ptxas",
             facts->c75_lines);
}

/* What is wrong with the image, malloc'ed; NULL when nothing is. */
static attune_status warn(const attune_image *image, char **out) {
  char text[ATTUNE_WARNING_MAX];
  attune__facts_warning(&image->facts, text);
  *out = text[0] ? strdup(text) : NULL;
  if (text[0] && !*out)
    return attune_fail(ATTUNE_NO_MEMORY, "a warning of %zu bytes", strlen(text));
  return ATTUNE_OK;
}

static attune_status emit(const attune_kernel *kernel, const attune_emit_options *options,
                          attune__text *out) {
  attune_status status = attune__emit(kernel, options, out);
  if (!status && (out->failed || !out->data))
    status = attune_fail(ATTUNE_NO_MEMORY, "%s: the text of the kernel", kernel->name);
  return status;
}

static void fill_entry(const attune_kernel *kernel, const attune_image *image,
                       const attune_nvrtc_info *compiler, attune_entry *entry) {
  memset(entry, 0, sizeof *entry);
  snprintf(entry->name, sizeof entry->name, "%s", kernel->name);
  entry->variant = kernel->variant;
  entry->tile = kernel->tile;
  entry->pins = kernel->pins;
  entry->recipe = kernel->recipe;
  entry->facts = image->facts;
  snprintf(entry->compiler, sizeof entry->compiler, "%s", compiler->version);
  entry->payload[ATTUNE_PAYLOAD_CUBIN].data = image->cubin;
  entry->payload[ATTUNE_PAYLOAD_CUBIN].bytes = image->cubin_bytes;
  entry->payload[ATTUNE_PAYLOAD_PTX].data = image->ptx;
  entry->payload[ATTUNE_PAYLOAD_PTX].bytes = image->ptx_bytes;
}

/* The source in an entry is the one that people read: no #line, and the facts in its data sheet. */
static attune_status write_entry(const attune_kernel *kernel, const attune_image *image,
                                 const attune_nvrtc_info *compiler, int keep_source, void **out,
                                 size_t *out_bytes) {
  attune_entry entry;
  fill_entry(kernel, image, compiler, &entry);
  attune__text source = {0};
  attune_status status = ATTUNE_OK;
  if (keep_source) {
    attune_emit_options options = {.facts = &image->facts, .compiler = entry.compiler};
    status = emit(kernel, &options, &source);
    entry.payload[ATTUNE_PAYLOAD_SOURCE].data = source.data;
    entry.payload[ATTUNE_PAYLOAD_SOURCE].bytes = source.size;
  }
  if (!status) status = attune__entry_write(&entry, out, out_bytes);
  attune__text_free(&source);
  return status;
}

/* Text -> entry. The kernel says what the text has to be. */
static attune_status make(const attune_kernel *kernel, const char *text, int keep_source,
                          void **out, size_t *out_bytes, char **warning) {
  attune_nvrtc_info compiler;
  attune_image image = {0};
  attune_status status = attune__nvrtc_info(&compiler);
  if (!status) status = attune__nvrtc_compile(text, kernel->name, kernel->variant.arch, &image);
  if (!status) status = warn(&image, warning);
  if (!status) status = write_entry(kernel, &image, &compiler, keep_source, out, out_bytes);
  attune__image_free(&image);
  if (status) free(*warning), *warning = NULL;
  return status;
}

attune_status attune__compile_text(const attune_kernel *kernel, const char *text, void **out,
                                   size_t *out_bytes, char **warning) {
  *out = NULL, *out_bytes = 0, *warning = NULL;
  return make(kernel, text, 0, out, out_bytes, warning);
}

attune_status attune__compile_entry(const attune_kernel *kernel, int keep_source, void **out,
                                    size_t *out_bytes, char **warning) {
  *out = NULL, *out_bytes = 0, *warning = NULL;
  attune__text source = {0};
  attune_emit_options options = {.lines = 1};
  attune_status status = emit(kernel, &options, &source);
  if (!status) status = make(kernel, source.data, keep_source, out, out_bytes, warning);
  attune__text_free(&source);
  return status;
}
