/* set.h - a kernel set: a folder with a manifest and entries, or the same in one file (pack.h).
 *
 *   DIR/manifest                    line-based text, sorted, no time or path in it
 *   DIR/<kernel name>.entry         entry.h
 *
 *   attune-set 1                    format version: first line
 *   abi 1
 *   made-by attune 0.1.0, nvrtc 13.0.88
 *   kernel <name> <sha256 of the entry file>
 *   pin _x<8 hex> <name>=<value> ...
 *   row <variant> <class> <corner or -> <kernel> [<kernel> ...]
 *
 * The first three lines stand in this order, the others in the order of their bytes; one space
 * between words. A reader refuses a version or line it does not know: a set is never half
 * understood. */
#ifndef ATTUNE_SET_H
#define ATTUNE_SET_H

#include "entry.h"

typedef struct attune__set_row {
  attune_variant variant; /* part 0 */
  attune_class cls;
  attune_corner corner; /* 0: the spec named none */
  int32_t max_len_k;    /* the most keys that its kernels take, by their names; 0: any number */
  int kernel_count;
  int kernel[ATTUNE_MAX_PARTS]; /* indices into kernels */
} attune__set_row;

typedef struct attune__set_kernel {
  char name[ATTUNE_NAME_MAX];
  char digest[65];
} attune__set_kernel;

typedef struct attune__set {
  char *path;
  char made_by[64];
  attune__set_kernel *kernels;
  int kernel_count;
  attune__set_row *rows;
  int row_count;
  attune_pinset *pins; /* every pinset that a name's _x stands for */
  int pinset_count;
  const void *pack; /* NULL: a folder */
  size_t pack_bytes;
  void *mapping; /* the pack's, NULL: its bytes are borrowed */
} attune__set;

/* Reads and checks a folder's manifest or a pack's index: names parse, rows point at their own
 * variant's kernels, pinned names have their pins, no duplicates. ATTUNE_BAD_FILE:
 * "DIR/manifest:LINE: ...". */
attune_status attune__set_read(const char *path, attune__set *out);
void attune__set_free(attune__set *set);
/* Publishes the manifest, sorted, into set->path, which is made if need be (entries are written by
 * the caller first). ATTUNE_INVALID for a set that attune__set_read would refuse. */
attune_status attune__set_write(const attune__set *set);
/* One kernel's entry, checked against the manifest's digest and name. It points into *bytes, which
 * the caller frees; into the pack, where the set is one: *bytes is NULL then. */
attune_status attune__set_entry(const attune__set *set, int kernel, void **bytes,
                                attune_entry *entry);
/* The same as the bytes of the entry file: *data is *owned, which the caller frees, or in the pack.
 */
attune_status attune__set_entry_file(const attune__set *set, int kernel, void **owned,
                                     const void **data, size_t *size);
/* DIR/<kernel name>.entry, malloc'ed; NULL without memory. */
char *attune__set_entry_path(const char *set_path, const char *kernel_name);

/* The manifest's text and back (manifest.c). print: malloc'ed, NUL-terminated. parse fills all but
 * path; `where` is the file's name for messages; free the set in either case. */
attune_status attune__manifest_print(const attune__set *set, char **out, size_t *out_bytes);
attune_status attune__manifest_parse(const char *text, size_t size, const char *where,
                                     attune__set *out);

#endif
