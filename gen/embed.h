/* embed.h - a kernel set as one C file: for the runtime, or by itself on the driver.
 *
 * With the runtime the file is a pack in an array and a function that opens it. Standalone it is
 * the cubins, the parameter block, argument checks, dispatch and the few calls of the driver, found
 * by dlopen; everything about fields and parameters in it is expanded from fields.def, params.def
 * and axes.def by templates/embed/. Equal sets give equal text. */
#ifndef ATTUNE_EMBED_H
#define ATTUNE_EMBED_H

#include "set_load.h"
#include "text.h"

typedef struct attune_embed_options {
  const char *prefix; /* of every name that the file exports; a C identifier */
  int standalone;
  int keep_ptx; /* for the runtime: with PTX and source, so that the CPU device can run it */
} attune_embed_options;

/* Appends the C file, and to header, unless NULL, the declarations alone. The set is stripped
 * unless keep_ptx. ATTUNE_INVALID: the prefix, or a kernel that a standalone file cannot dispatch,
 * by name. */
attune_status attune__embed(attune_loaded *loaded, const attune_embed_options *options,
                            attune__text *file, attune__text *header);

/* ---- between the files of embed ---- */

/* Comment at the head: what wrote it, and the kernels (all, or those with used[i]) with registers,
 * shared memory and code bytes. */
void attune__embed_head(const attune_loaded *loaded, const unsigned char *used, attune__text *out);
/* Bytes as lines of 64-bit words in hexadecimal, each with a comma behind; the last is filled up
 * with zeros. */
void attune__embed_words(const void *bytes, size_t size, attune__text *out);
/* Expands templates/embed/<name> for an environment. */
attune_status attune__embed_expand(const char *name, const attune__text *environment,
                                   attune__text *out);
/* The two kinds of file (embed_pack.c, embed_alone.c). */
attune_status attune__embed_pack(const attune_loaded *loaded, const char *prefix,
                                 attune__text *file, attune__text *header);
attune_status attune__embed_alone(const attune_loaded *loaded, const char *prefix,
                                  attune__text *file, attune__text *header);

#endif
