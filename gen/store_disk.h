/* store_disk.h - the store's folder: paths, locks, files. Shared by store*.c alone. */
#ifndef ATTUNE_STORE_DISK_H
#define ATTUNE_STORE_DISK_H

#include "store.h"

#include <limits.h>

typedef struct attune__disk {
  char root[PATH_MAX - 96]; /* "" when there is none; leaves room for the names below it */
} attune__disk;

/* Chooses, makes and checks the folder; root is "" after a failure, and attune_error() says why. */
attune_status attune__disk_open(const char *root, attune__disk *disk);

typedef enum attune__disk_result {
  ATTUNE__DISK_HIT,
  ATTUNE__DISK_MISS,
  ATTUNE__DISK_BAD
} attune__disk_result;
/* The entry of a key, checked to be kernel `name`. Only a hit sets *out (malloc'ed). */
attune__disk_result attune__disk_read(const attune__disk *disk, const char *key, const char *name,
                                      void **out, size_t *out_bytes);
attune_status attune__disk_publish(const attune__disk *disk, const char *key, const void *bytes,
                                   size_t size);

/* Takes the lock that covers the key, waiting for its holder up to a limit. It only saves work: -1
 * (no lock to be had) means go on without. It dies with its process. */
int attune__disk_lock(const attune__disk *disk, const char *key);
void attune__disk_unlock(int lock);

/* Counts entries, and removes them (and what killed writers left) when `clear` is set. */
attune_status attune__disk_walk(const attune__disk *disk, int clear, attune_store_usage *out);

#endif
