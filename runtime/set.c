/* set.c - a kernel set as a folder: its manifest and the entries beside it.
 *
 * Input: a folder, or a set in memory. Output: the other one, and single entries, checked. The
 * manifest's text is left to manifest.c, an entry's bytes to entry.c, a set in one file to pack.c.
 */
#include "pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MANIFEST_MAX = 64 << 20 }; /* bytes */

static attune_status no_memory(const char *path) {
  return attune_fail(ATTUNE_NO_MEMORY, "no memory for the set %s", path);
}

static char *join(const char *folder, const char *name, const char *extension) {
  char *path;
  return asprintf(&path, "%s/%s%s", folder, name, extension) < 0 ? NULL : path;
}

char *attune__set_entry_path(const char *set_path, const char *kernel_name) {
  return join(set_path, kernel_name, ".entry");
}

void attune__set_free(attune__set *set) {
  free(set->path);
  free(set->kernels);
  free(set->rows);
  free(set->pins);
  attune__pack_close(set);
  memset(set, 0, sizeof *set);
}

attune_status attune__set_read(const char *path, attune__set *out) {
  struct stat info;
  if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) return attune__pack_open(path, out);
  memset(out, 0, sizeof *out);
  char *manifest = join(path, "manifest", "");
  if (!manifest) return no_memory(path);
  void *text;
  size_t size;
  attune_status status = attune__file_read(manifest, MANIFEST_MAX, &text, &size);
  if (!status) {
    status = attune__manifest_parse(text, size, manifest, out);
    free(text);
  }
  free(manifest);
  if (!status && !(out->path = strdup(path))) status = no_memory(path);
  if (status) attune__set_free(out);
  return status;
}

/* A reader's refusal is the writer's error: what cannot be opened is not published. */
static attune_status check_text(const char *text, size_t size, const char *where) {
  attune__set back;
  attune_status status = attune__manifest_parse(text, size, where, &back);
  attune__set_free(&back);
  return status == ATTUNE_BAD_FILE ? attune_fail(ATTUNE_INVALID, "%s", attune_error()) : status;
}

attune_status attune__set_write(const attune__set *set) {
  char *text = NULL, *manifest = join(set->path, "manifest", "");
  size_t size;
  if (!manifest) return no_memory(set->path);
  attune_status status = attune__manifest_print(set, &text, &size);
  if (!status) status = check_text(text, size, manifest);
  if (!status) status = attune__make_folders(set->path, 0);
  if (!status) status = attune__file_publish(manifest, text, size);
  free(text);
  free(manifest);
  return status;
}

/* ---- entries ------------------------------------------------------------------------------- */

static attune_status read_folder_file(const attune__set *set, const char *name, void **owned,
                                      attune__span *out) {
  char *path = attune__set_entry_path(set->path, name);
  if (!path) {
    no_memory(set->path);
    return ATTUNE_NO_MEMORY;
  }
  attune_status status = attune__file_read(path, ATTUNE_ENTRY_MAX, owned, &out->size);
  out->data = *owned;
  free(path);
  return status;
}

static attune_status check_entry(const attune__set *set, const attune__set_kernel *kernel,
                                 const attune__span *file, attune_entry *entry) {
  char digest[65];
  attune__sha256_hex(file->data, file->size, digest);
  if (strcmp(digest, kernel->digest) != 0)
    return attune_fail(ATTUNE_BAD_FILE, "%s: %s.entry is not the file that the manifest lists",
                       set->path, kernel->name);
  attune_status status = attune__entry_read(file->data, file->size, entry);
  if (status)
    return attune_fail(status, "%s: %s.entry: %s", set->path, kernel->name, attune_error());
  if (strcmp(entry->name, kernel->name) != 0)
    return attune_fail(ATTUNE_BAD_FILE, "%s: %s.entry holds the kernel %s", set->path, kernel->name,
                       entry->name);
  return ATTUNE_OK;
}

static attune_status read_entry(const attune__set *set, int kernel, void **owned,
                                attune__span *file, attune_entry *entry) {
  const attune__set_kernel *wanted = &set->kernels[kernel];
  *owned = NULL;
  attune_status status = set->pack ? attune__pack_entry(set, kernel, file)
                                   : read_folder_file(set, wanted->name, owned, file);
  if (!status) status = check_entry(set, wanted, file, entry);
  if (!status) return ATTUNE_OK;
  free(*owned);
  *owned = NULL;
  return status;
}

attune_status attune__set_entry(const attune__set *set, int kernel, void **bytes,
                                attune_entry *entry) {
  attune__span file = {NULL, 0};
  return read_entry(set, kernel, bytes, &file, entry);
}

attune_status attune__set_entry_file(const attune__set *set, int kernel, void **owned,
                                     const void **data, size_t *size) {
  attune__span file = {NULL, 0};
  attune_entry entry;
  attune_status status = read_entry(set, kernel, owned, &file, &entry);
  *data = file.data;
  *size = file.size;
  return status;
}
