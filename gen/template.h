/* template.h - the template engine: CUDA text with three marks, expanded by sandboxed Lua.
 *
 *   //@ lua       control line
 *   $(expr)       value; must be a string, an integer or a boolean
 *   //-- note     for authors; dropped
 *
 * One template line is one Lua line, so errors carry the template's own line. See
 * templates/engine.lua for the rules and for the names that a template sees. */
#ifndef ATTUNE_TEMPLATE_H
#define ATTUNE_TEMPLATE_H

#include "kernel.h"
#include "text.h"

/* The templates that are compiled into this program, by path below templates/, sorted. */
typedef struct attune_template_file {
  const char *path; /* "attn_fwd/fma.cu" */
  const char *text; /* not NUL-terminated */
  size_t bytes;
} attune_template_file;
/* Embedded files, or those of a folder when ATTUNE_TEMPLATES is set (read once per process). */
attune_status attune__template_files(const attune_template_file **out, int *count);

typedef struct attune_emit_options {
  int lines;          /* 1: write #line on drift (for compiling); 0: plain text (for people, golden) */
  const attune_facts *facts; /* for the data sheet, NULL before compiling */
  const char *compiler;      /* likewise */
} attune_emit_options;

/* Kernel -> self-contained CUDA text. ATTUNE_TEMPLATE: the message is "templates/x:line: error ...". */
attune_status attune__emit(const attune_kernel *kernel, const attune_emit_options *options,
                           attune__text *out);
/* SHA-256 (hex) over the op's own templates: every file of templates/<op>/, and the shared
 * engine.lua, head.cuh, type/, prim/, mask/. Computed once per process and op. */
attune_status attune__template_digest(int op, char out[65]);

#endif
