/* file.c - whole files in and out, folders, and the SHA-256 that names and guards them.
 *
 * Input: paths and bytes. Output: bytes, or a file that appears under its name complete or not at
 * all. What the bytes mean is left to entry.c and set.c. Without fsync, after a power cut the
 * checksum in the file says what happened, and the file is made again; a file that is shipped is
 * synced. */
#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entry.h"

static attune_status fail_errno(const char *doing, const char *path) {
  int error = errno;
  return attune_fail(ATTUNE_IO, "%s %s: %s", doing, path, strerror(error));
}

/* ---- reading ------------------------------------------------------------------------------- */

ssize_t attune__read_fully(int fd, char *to, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = read(fd, to + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += (size_t)got;
  }
  return (ssize_t)done;
}

static attune_status read_open_file(int fd, const char *path, size_t max, void **out,
                                    size_t *out_bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return fail_errno("cannot read", path);
  if (!S_ISREG(info.st_mode))
    return attune_fail(ATTUNE_IO, "cannot read %s: %s", path,
                       S_ISDIR(info.st_mode) ? "it is a folder" : "it is not a regular file");
  if ((uint64_t)info.st_size > max)
    return attune_fail(ATTUNE_BAD_FILE, "%s has %lld bytes, more than the %zu allowed", path,
                       (long long)info.st_size, max);
  size_t size = (size_t)info.st_size;
  char *bytes = malloc(size + 1);
  if (!bytes) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %s, %zu bytes", path, size);
  ssize_t got = attune__read_fully(fd, bytes, size);
  if (got != (ssize_t)size) {
    attune_status status =
        got < 0 ? fail_errno("cannot read", path)
                : attune_fail(ATTUNE_IO, "cannot read %s: it shrank meanwhile", path);
    free(bytes);
    return status;
  }
  bytes[size] = 0;
  *out = bytes;
  *out_bytes = size;
  return ATTUNE_OK;
}

attune_status attune__file_read(const char *path, size_t max, void **out, size_t *out_bytes) {
  *out = NULL;
  *out_bytes = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* nonblocking: a FIFO must not hang us */
  if (fd < 0) return fail_errno("cannot open", path);
  attune_status status = read_open_file(fd, path, max, out, out_bytes);
  close(fd);
  return status;
}

/* ---- writing ------------------------------------------------------------------------------- */

static int write_fully(int fd, const char *from, size_t size) {
  while (size > 0) {
    ssize_t put = write(fd, from, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return -1;
    from += put;
    size -= (size_t)put;
  }
  return 0;
}

/* Opens a new file beside path under a random name, which goes to *temporary (malloc'ed). Random
 * and not the pid: two containers that share a folder may share pids. */
static int open_temporary(const char *path, char **temporary) {
  for (int attempt = 0; attempt < 16; attempt++) {
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random) return -1;
    if (asprintf(temporary, "%s.%016llx.tmp", path, (unsigned long long)random) < 0) {
      *temporary = NULL;
      errno = ENOMEM;
      return -1;
    }
    int fd = open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0 || errno != EEXIST) return fd;
    free(*temporary);
    *temporary = NULL;
  }
  return -1;
}

static attune_status publish(const char *path, const void *bytes, size_t size, int synced) {
  char *temporary = NULL;
  int fd = open_temporary(path, &temporary);
  if (fd < 0) {
    attune_status status = fail_errno("cannot write", path);
    free(temporary);
    return status;
  }
  int failed = write_fully(fd, bytes, size);
  if (!failed && synced) failed = fsync(fd);
  int error = errno;
  if (close(fd) != 0 && !failed) failed = -1, error = errno;
  if (!failed && rename(temporary, path) != 0) failed = -1, error = errno;
  if (failed) unlink(temporary);
  free(temporary);
  errno = error;
  return failed ? fail_errno("cannot write", path) : ATTUNE_OK;
}

attune_status attune__file_publish(const char *path, const void *bytes, size_t size) {
  return publish(path, bytes, size, 0);
}

attune_status attune__file_publish_synced(const char *path, const void *bytes, size_t size) {
  return publish(path, bytes, size, 1);
}

/* ---- folders ------------------------------------------------------------------------------- */

/* A folder that is there already is fine, also one that another process made just now. */
static int make_folder(const char *path, mode_t mode) {
  struct stat info;
  if (mkdir(path, mode) == 0) return 0;
  int error = errno;
  if (stat(path, &info) == 0) {
    if (S_ISDIR(info.st_mode)) return 0;
    error = ENOTDIR;
  }
  errno = error;
  return -1;
}

attune_status attune__make_folders(const char *path, int private_mode) {
  mode_t mode = private_mode ? 0700 : 0755;
  char *copy = strdup(path);
  if (!copy) return attune_fail(ATTUNE_NO_MEMORY, "no memory for the path %s", path);
  int failed = 0;
  for (char *at = copy; *at && !failed; at++) {
    if (*at != '/' || at == copy) continue;
    *at = 0;
    failed = make_folder(copy, mode);
    *at = '/';
  }
  if (!failed) failed = make_folder(copy, mode);
  free(copy);
  return failed ? fail_errno("cannot make the folder", path) : ATTUNE_OK;
}

/* ---- digests ------------------------------------------------------------------------------- */

void attune__sha256_hex(const void *bytes, size_t size, char out[65]) {
  SHA256Data(bytes, size, out);
}
