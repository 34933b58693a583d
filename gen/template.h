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

/* The engine's limits on one expansion; over one is an ATTUNE_TEMPLATE error. attn_fwd takes 75,000
 * steps (Lua VM instructions), most of them the engine's own, and 0.4 MB (measured). */
enum {
  ATTUNE_TEMPLATE_STEPS = 10 * 1000 * 1000,
  ATTUNE_TEMPLATE_BYTES = 64 << 20,
  ATTUNE_TEMPLATE_REP_BYTES = 64 << 10, /* longest result of string.rep */
  ATTUNE_TEMPLATE_DEPTH = 16            /* includes within includes */
};

/* One expansion as plain values: what attune__emit makes of a kernel, and tests by hand. */
typedef struct attune_template_job {
  const attune_template_file *files; /* engine.lua, sandbox.lua and the templates, sorted by path */
  int count;
  int op;           /* templates of other ops cannot be included; 0: any can */
  const char *root; /* path of the template to expand */
  const char *text; /* an outline (below) in its place, and how messages name it; or NULL */
  const char *place;
  const char *environment; /* Lua text "return {name = ..., ...}": the values that templates see */
  int lines, outline;      /* as in attune_emit_options */
} attune_template_job;
/* Appends the expanded text; appends nothing when there is an error. */
attune_status attune__template_expand(const attune_template_job *job, attune__text *out);

typedef struct attune_emit_options {
  int lines;   /* 1: write #line on drift (for compiling); 0: plain text (for people, golden) */
  int outline; /* 1: parts (type/, prim/, ...) stay the lines that include them */
  const attune_facts *facts; /* for the data sheet, NULL before compiling */
  const char *compiler;      /* likewise */
} attune_emit_options;

/* Kernel -> self-contained CUDA text, appended to out; options NULL: all 0. ATTUNE_TEMPLATE: the
 * message is "templates/x:line: error: ..." and the template's line. */
attune_status attune__emit(const attune_kernel *kernel, const attune_emit_options *options,
                           attune__text *out);
/* The same from the text of an outline, which may be edited: what its include lines leave out
 * stands there again. path: of the outline, for messages and #line; line: of it, where text begins.
 * An error of the outline's own is "path:line: error: ...". */
attune_status attune__emit_outline(const attune_kernel *kernel, const attune_emit_options *options,
                                   const char *path, int line, const char *text, size_t size,
                                   attune__text *out);
/* The environment of a kernel, as attune_template_job wants it: every value a template can name. */
void attune__emit_environment(const attune_kernel *kernel, const attune_emit_options *options,
                              attune__text *out);
/* The data sheet at the head of a kernel, a line each, without comment marks (sheet.c). */
void attune__sheet(const attune_kernel *kernel, const attune_emit_options *options,
                   attune__text *out);
/* SHA-256 (hex) over the op's own templates: every file that the op may include, which is those of
 * templates/<op>/ and the shared ones (engine.lua, sandbox.lua, head.cuh, type/, prim/, mask/).
 * Computed once per process and op. */
attune_status attune__template_digest(int op, char out[65]);

#endif
