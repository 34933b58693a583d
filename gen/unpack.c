/* unpack.c - a set as a folder, complete or not at all.
 *
 * Input: a set in memory. Output: DIR with its manifest and entries, which appears by a rename of a
 * folder made beside it. A DIR that is there already must be empty or hold this very set. */
#include "set_load.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static attune_status fail_errno(const char *doing, const char *path) {
  int error = errno;
  return attune_fail(ATTUNE_IO, "%s %s: %s", doing, path, strerror(error));
}

static attune_status no_memory(const char *path) {
  return attune_fail(ATTUNE_NO_MEMORY, "no memory for the path %s", path);
}

void attune__remove_folder(const char *path) {
  DIR *folder = opendir(path);
  for (struct dirent *at; folder && (at = readdir(folder));)
    if (strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0)
      unlinkat(dirfd(folder), at->d_name, 0);
  if (folder) closedir(folder);
  rmdir(path);
}

/* ---- what is there already ------------------------------------------------------------------- */

/* -1: there is no such folder. */
static int is_empty(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return -1;
  int empty = 1;
  for (struct dirent *at; empty && (at = readdir(folder));)
    empty = strcmp(at->d_name, ".") == 0 || strcmp(at->d_name, "..") == 0;
  closedir(folder);
  return empty;
}

static int same_sets(const attune_loaded *a, const attune_loaded *b) {
  char *text[2] = {NULL, NULL};
  size_t size[2] = {0, 0};
  int same = attune__manifest_print(&a->set, &text[0], &size[0]) == ATTUNE_OK &&
             attune__manifest_print(&b->set, &text[1], &size[1]) == ATTUNE_OK &&
             size[0] == size[1] && memcmp(text[0], text[1], size[0]) == 0;
  free(text[0]);
  free(text[1]);
  return same;
}

static attune_status check_present(const attune_loaded *loaded, const char *folder, int *same) {
  attune_loaded there;
  *same = 0;
  if (is_empty(folder) != 0) return ATTUNE_OK;
  if (attune__loaded_read(folder, &there) == ATTUNE_OK) {
    *same = same_sets(loaded, &there);
    attune__loaded_free(&there);
  }
  if (*same) return ATTUNE_OK;
  return attune_fail(
      ATTUNE_INVALID,
      "%s is not empty and does not hold this set: remove it, or name another folder", folder);
}

/* ---- writing ------------------------------------------------------------------------------- */

static attune_status write_files(const attune_loaded *loaded, const char *folder) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < loaded->set.kernel_count && !status; i++) {
    char *path = attune__set_entry_path(folder, loaded->set.kernels[i].name);
    if (!path) return no_memory(folder);
    status = attune__file_publish_synced(path, loaded->files[i].data, loaded->files[i].size);
    free(path);
  }
  attune__set set = loaded->set;
  set.path = (char *)(uintptr_t)folder;
  return status ? status : attune__set_write(&set);
}

/* DIR without slashes at its end. */
static char *trimmed(const char *folder) {
  size_t length = strlen(folder);
  while (length > 1 && folder[length - 1] == '/') length--;
  return strndup(folder, length);
}

/* A name beside DIR that nothing has; NULL without memory or random numbers. */
static char *name_beside(const char *folder) {
  char *beside;
  uint64_t random;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return NULL;
  return asprintf(&beside, "%s.%016llx.tmp", folder, (unsigned long long)random) < 0 ? NULL
                                                                                     : beside;
}

static attune_status write_by_rename(const attune_loaded *loaded, const char *folder) {
  char *beside = name_beside(folder);
  if (!beside) return no_memory(folder);
  attune_status status = attune__make_folders(beside, 0);
  if (!status) {
    status = write_files(loaded, beside);
    if (!status && rename(beside, folder) != 0)
      status = fail_errno("cannot make the folder", folder);
    if (status) attune__remove_folder(beside);
  }
  free(beside);
  return status;
}

attune_status attune__loaded_unpack(const attune_loaded *loaded, const char *folder, int *kept) {
  int same;
  attune_status status = check_present(loaded, folder, &same);
  if (kept) *kept = !status && same;
  if (status || same) return status;
  char *last = trimmed(folder);
  status = last ? write_by_rename(loaded, last) : no_memory(folder);
  free(last);
  return status;
}
