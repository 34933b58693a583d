/* build_keys.h - DIR/.keys: from what each entry of a set folder was made. A line per kernel,
 *
 *   <kernel name> <store key> <sha256 of the entry file>
 *
 * added as entries appear, so that an interrupted build loses nothing, and rewritten sorted at the
 * end. Only a hint: a line that is missing, cut or wrong costs a compile. Shared by build*.c alone.
 */
#ifndef ATTUNE_BUILD_KEYS_H
#define ATTUNE_BUILD_KEYS_H

#include "../runtime/entry.h"

typedef struct attune__key_line {
  char name[ATTUNE_NAME_MAX];
  char key[65], digest[65];
} attune__key_line;

typedef struct attune__keys {
  attune__key_line *line;
  int count;
} attune__keys;

/* Fails for want of memory alone; a folder without the file has no lines. */
attune_status attune__keys_read(const char *folder, attune__keys *out);
void attune__keys_free(attune__keys *keys);
/* The last line of a name, NULL without one. */
const attune__key_line *attune__keys_find(const attune__keys *keys, const char *name);
/* Adds a line; a failure is left to show as a compile next time. */
void attune__keys_append(const char *folder, const attune__key_line *line);
/* Replaces the file. */
attune_status attune__keys_write(const char *folder, const attune__key_line *line, int count);

#endif
