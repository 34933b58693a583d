/* pack.h - a kernel set as one file, which the runtime maps and reads in place.
 *
 *   0      head                        40 bytes, little-endian:
 *            magic "attune\n\2" (8), version (4), bytes of the head (4), bytes of the file (8),
 *            bytes of the manifest (8), kernels (4), alignment of entries: 64 (4)
 *   40     table                       16 bytes a kernel, in the manifest's order:
 *            offset (8) and bytes (8) of its entry file
 *   ...    manifest                    set.h, byte for byte; it has each entry's SHA-256
 *   ...    SHA-256 of all before it    32 bytes
 *   ...    entry files                 entry.h, in the same order, each at a multiple of 64;
 *                                      zeros between them and up to the next 64 at the end
 *
 * Opening checks head, table, manifest and their checksum, and that the file is as long as it says;
 * an entry is checked against its digest when it is read, with the zeros behind it. So every
 * flipped bit and every cut is found, and what is not read costs nothing. No two entries are equal
 * (each holds its kernel's name), so each is stored. Equal sets give equal bytes: there is no time,
 * path, host or locale in it, and only one place for everything.
 *
 * A pack is replaced by renaming a new file over it, as attune__file_publish_synced does: whoever
 * cuts a mapped file short takes its pages from under the reader. */
#ifndef ATTUNE_PACK_H
#define ATTUNE_PACK_H

#include "set.h"

enum { ATTUNE_PACK_VERSION = 1, ATTUNE_PACK_ALIGN = 64 };

/* Bytes of an entry file. */
typedef struct attune__span {
  const void *data;
  size_t size;
} attune__span;

/* 1 when the bytes, or the file's first ones, are those that a pack begins with. */
int attune__pack_begins(const void *bytes, size_t size);
int attune__is_pack(const char *path);

/* The set in a pack: mapped from a file (attune__set_free unmaps it), or borrowed. ATTUNE_BAD_FILE:
 * "PATH: ..." or "PATH(manifest):LINE: ...". */
attune_status attune__pack_open(const char *path, attune__set *out);
attune_status attune__pack_read(const void *bytes, size_t size, const char *where,
                                attune__set *out);
void attune__pack_close(attune__set *set);
/* A kernel's entry file, in place; its digest is left to the caller. */
attune_status attune__pack_entry(const attune__set *set, int kernel, attune__span *out);

/* The pack of a set as attune__set_read gives it, with its entry files in the order of its kernels;
 * *out is malloc'ed. ATTUNE_INVALID for what a reader would refuse. */
attune_status attune__pack_write(const attune__set *set, const attune__span *entries, void **out,
                                 size_t *out_bytes);

#endif
