/* store_disk.c - the store's folder: where it is, whether it can be trusted, its files and its
 * lock.
 *
 *   <root>/v1/lock            256 bytes to lock, one for each first byte of a key; never removed
 *   <root>/v1/<2 hex>/<62 hex>   an entry
 *
 * Output is entries that were checked whole: anything else on disk is as good as absent. Who
 * compiles, and what is kept in memory, is store.c's. */
#include "store_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  LOCK_LIMIT_MS = 30000, /* some 30 compiles; then compiling twice costs less than waiting on */
  LOCK_POLL_MS = 10,
  TEMPORARY_AGE_S = 3600 /* an older temporary file has no writer any more */
};

/* ---- the root ------------------------------------------------------------------------------ */

/* XDG asks to ignore a relative path; one in HOME would put the cache into the working directory.
 */
static const char *absolute(const char *variable) {
  const char *value = getenv(variable);
  return value && value[0] == '/' ? value : NULL;
}

static void choose_root(const char *root, attune__disk *disk) {
  const char *folder = root, *rest = "";
  if (!folder) {
    folder = getenv("ATTUNE_CACHE_DIR");
    if (folder && !*folder) folder = NULL;
  }
  if (!folder && (folder = absolute("XDG_CACHE_HOME"))) rest = "/attune";
  if (!folder && (folder = absolute("HOME"))) rest = "/.cache/attune";
  size_t length =
      (size_t)snprintf(disk->root, sizeof disk->root, "%s%s", folder ? folder : "", rest);
  if (length >= sizeof disk->root) disk->root[0] = 0;
}

/* Code is loaded from here: nobody else may be able to put any. */
static attune_status check_folder(const char *path) {
  struct stat s;
  if (lstat(path, &s))
    return attune_fail(ATTUNE_IO, "cannot use %s for compiled kernels: %s", path, strerror(errno));
  const char *why = NULL;
  if (!S_ISDIR(s.st_mode))
    why = "it is not a folder";
  else if (s.st_uid != geteuid())
    why = "it belongs to another user";
  else if (s.st_mode & (S_IWGRP | S_IWOTH))
    why = "others may write to it";
  if (!why) return ATTUNE_OK;
  return attune_fail(ATTUNE_IO, "cannot use %s for compiled kernels: %s; set ATTUNE_CACHE_DIR",
                     path, why);
}

attune_status attune__disk_open(const char *root, attune__disk *disk) {
  choose_root(root, disk);
  if (!disk->root[0]) return ATTUNE_OK;
  char version[PATH_MAX];
  snprintf(version, sizeof version, "%s/v1", disk->root);
  attune_status status = attune__make_folders(version, 1);
  if (!status) status = check_folder(version);
  if (status) disk->root[0] = 0;
  return status;
}

/* ---- entries ------------------------------------------------------------------------------- */

static void entry_path(const attune__disk *disk, const char *key, char out[PATH_MAX]) {
  snprintf(out, PATH_MAX, "%s/v1/%.2s/%.62s", disk->root, key, key + 2);
}

attune__disk_result attune__disk_read(const attune__disk *disk, const char *key, const char *name,
                                      void **out, size_t *out_bytes) {
  char path[PATH_MAX];
  entry_path(disk, key, path);
  struct stat s;
  if (!disk->root[0] || stat(path, &s)) return ATTUNE__DISK_MISS;
  void *bytes = NULL;
  size_t size = 0;
  attune_entry entry;
  if (attune__file_read(path, ATTUNE_ENTRY_MAX, &bytes, &size) ||
      attune__entry_read(bytes, size, &entry) || strcmp(entry.name, name) != 0) {
    free(bytes);
    return ATTUNE__DISK_BAD;
  }
  *out = bytes, *out_bytes = size;
  return ATTUNE__DISK_HIT;
}

attune_status attune__disk_publish(const attune__disk *disk, const char *key, const void *bytes,
                                   size_t size) {
  char path[PATH_MAX];
  entry_path(disk, key, path);
  char *slash = strrchr(path, '/');
  *slash = 0;
  attune_status status = attune__make_folders(path, 1);
  *slash = '/';
  return status ? status : attune__file_publish(path, bytes, size);
}

/* ---- the lock ------------------------------------------------------------------------------ */

static int try_lock(int file, const char *key) {
  char first[3] = {key[0], key[1], 0};
  struct flock range = {.l_type = F_WRLCK,
                        .l_whence = SEEK_SET,
                        .l_start = (off_t)strtoul(first, NULL, 16),
                        .l_len = 1};
  return fcntl(file, F_OFD_SETLK, &range) == 0;
}

int attune__disk_lock(const attune__disk *disk, const char *key) {
  if (!disk->root[0]) return -1;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/v1/lock", disk->root);
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return -1;
  for (int waited = 0; waited < LOCK_LIMIT_MS; waited += LOCK_POLL_MS) {
    if (try_lock(file, key)) return file;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) break;
    nanosleep(&(struct timespec){.tv_nsec = LOCK_POLL_MS * 1000000L}, NULL);
  }
  close(file);
  return -1;
}

void attune__disk_unlock(int lock) {
  if (lock >= 0) close(lock);
}

/* ---- all entries --------------------------------------------------------------------------- */

static int is_hex(const char *name, size_t digits) {
  return strlen(name) == digits && strspn(name, "0123456789abcdef") == digits;
}

/* Another process may be clearing too: a file that is gone already is no error. */
static void remove_file(int folder, const char *name, const struct stat *s, int is_entry) {
  if (is_entry || time(NULL) - s->st_mtime > TEMPORARY_AGE_S) unlinkat(folder, name, 0);
}

static void walk_shard(int parent, const char *name, int clear, attune_store_usage *out) {
  int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  DIR *list = folder < 0 ? NULL : fdopendir(folder);
  if (!list) {
    if (folder >= 0) close(folder);
    return;
  }
  for (struct dirent *file; (file = readdir(list));) {
    struct stat s;
    if (file->d_name[0] == '.' || fstatat(folder, file->d_name, &s, AT_SYMLINK_NOFOLLOW)) continue;
    int is_entry = is_hex(file->d_name, 62);
    if (is_entry) out->entries++, out->bytes += s.st_size;
    if (clear) remove_file(folder, file->d_name, &s, is_entry);
  }
  closedir(list);
}

attune_status attune__disk_walk(const attune__disk *disk, int clear, attune_store_usage *out) {
  memset(out, 0, sizeof *out);
  if (!disk->root[0]) return ATTUNE_OK;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/v1", disk->root);
  DIR *list = opendir(path);
  if (!list) return attune_fail(ATTUNE_IO, "cannot list %s: %s", path, strerror(errno));
  for (struct dirent *shard; (shard = readdir(list));)
    if (is_hex(shard->d_name, 2)) walk_shard(dirfd(list), shard->d_name, clear, out);
  closedir(list);
  return ATTUNE_OK;
}
