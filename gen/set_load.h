/* set_load.h - a whole set in memory, and what is done with one as a whole: stripped, packed,
 * unpacked.
 *
 * Reading checks every entry against its digest, so what comes out of here is sound. */
#ifndef ATTUNE_SET_LOAD_H
#define ATTUNE_SET_LOAD_H

#include "../runtime/pack.h"

typedef struct attune_loaded {
  attune__set set;
  attune_entry *entries; /* by kernel; they point into files */
  attune__span *files;   /* entry files, by kernel */
  void **owned;          /* what of them must be freed; NULL: it lies in the pack */
} attune_loaded;

/* A folder or a pack. The folder may go once it is read. */
attune_status attune__loaded_read(const char *path, attune_loaded *out);
void attune__loaded_free(attune_loaded *loaded);
/* Drops the PTX and the source of every entry: machine code alone is left, with new digests. */
attune_status attune__loaded_strip(attune_loaded *loaded);
/* The pack's bytes, malloc'ed. */
attune_status attune__loaded_pack(const attune_loaded *loaded, void **out, size_t *out_bytes);

/* Writes the set as a folder: all of it or nothing, by a folder beside it and a rename. *kept,
 * unless NULL, is 1 when the folder held this very set and stays as it is. ATTUNE_INVALID when it
 * holds anything else. */
attune_status attune__loaded_unpack(const attune_loaded *loaded, const char *folder, int *kept);
/* Removes a folder of files; best effort. */
void attune__remove_folder(const char *path);

#endif
