/* edited.h - the text of a kernel that somebody edited by hand: which kernel it is, read back from
 * its data sheet, and its machine code in place of what attune would have written. */
#ifndef ATTUNE_EDITED_H
#define ATTUNE_EDITED_H

#include "kernel.h"

typedef struct attune__edited_part {
  attune_kernel kernel; /* as attune makes it */
  char *text;           /* the file's, of an outline the whole, with #line for places in the file */
  int line;             /* of the file, where the kernel begins */
  int changed;          /* 0: it is what attune writes for the kernel */
} attune__edited_part;

/* Parts of one program, in launch order; not all of them need be there. */
typedef struct attune__edited {
  attune__edited_part part[ATTUNE_MAX_PARTS];
  int count;
} attune__edited;

/* Reads what `attune emit [--outline]` wrote, by now edited: one kernel, or several behind the
 * lines that emit puts between them. A kernel's data sheet must be the one that this attune writes,
 * line for line: name, spec, tile, ledger, launch and ABI hold for the edited text too.
 * ATTUNE_BAD_FILE: the message is "path:line: what was found and wanted". */
attune_status attune__edited_read(const char *path, const char *text, attune__edited *out);
void attune__edited_free(attune__edited *edited);

/* The entry of an edited kernel, as attune__compile_entry. ATTUNE_COMPILE: the message begins with
 * the compiler's first error, at the file's own line. */
attune_status attune__edited_compile(const attune__edited_part *part, void **out, size_t *out_bytes,
                                     char **warning);

#endif
