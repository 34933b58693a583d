/* pack.c - a kernel set in one file, by the format in pack.h: from bytes to the set, and back.
 *
 * Input: a file to map, bytes in memory, or a set with its entry files. Output: the set, an entry
 * file in place, or the pack's bytes. The manifest's text is left to manifest.c, an entry's digest
 * and content to set.c and entry.c, files that appear complete to file.c. */
#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packs are written as they lie");

static const char MAGIC[8] = "attune\n\2";

typedef struct pack_head {
  char magic[8];
  uint32_t version, head_bytes;
  uint64_t file_bytes, manifest_bytes;
  uint32_t kernel_count, align;
} pack_head;
_Static_assert(sizeof(pack_head) == 40, "the head has padding");

typedef struct pack_place {
  uint64_t offset, bytes;
} pack_place;

/* Of a head that was checked, or is about to be written. */
static size_t table_bytes(const pack_head *head) {
  return head->kernel_count * sizeof(pack_place);
}
static size_t manifest_at(const pack_head *head) {
  return sizeof *head + table_bytes(head);
}
static size_t checksum_at(const pack_head *head) {
  return manifest_at(head) + (size_t)head->manifest_bytes;
}

static uint64_t align_up(uint64_t offset) {
  return (offset + ATTUNE_PACK_ALIGN - 1) / ATTUNE_PACK_ALIGN * ATTUNE_PACK_ALIGN;
}

static pack_place place_of(const void *pack, int kernel) {
  pack_place place;
  memcpy(&place, (const char *)pack + sizeof(pack_head) + (size_t)kernel * sizeof place,
         sizeof place);
  return place;
}

static void sha256(const void *bytes, size_t size, uint8_t out[SHA256_DIGEST_LENGTH]) {
  SHA2_CTX sha;
  SHA256Init(&sha);
  SHA256Update(&sha, bytes, size);
  SHA256Final(out, &sha);
}

/* ---- reading ------------------------------------------------------------------------------- */

static attune_status bad(const char *where, const char *what) {
  return attune_fail(ATTUNE_BAD_FILE, "%s: bad pack: %s", where, what);
}

int attune__pack_begins(const void *bytes, size_t size) {
  return size >= sizeof MAGIC && memcmp(bytes, MAGIC, sizeof MAGIC) == 0;
}

/* Bounds first: after this the offsets of everything before the entries are within the bytes. */
static attune_status check_head(const char *bytes, size_t size, const char *where,
                                pack_head *head) {
  const size_t least = sizeof *head + SHA256_DIGEST_LENGTH;
  if (!attune__pack_begins(bytes, size))
    return attune_fail(ATTUNE_BAD_FILE,
                       "%s is no kernel set: wanted a folder that `attune build` "
                       "made, or a file that `attune pack` made",
                       where);
  if (size < least) return bad(where, "too short");
  memcpy(head, bytes, sizeof *head);
  if (head->version != ATTUNE_PACK_VERSION || head->head_bytes != sizeof *head ||
      head->align != ATTUNE_PACK_ALIGN)
    return bad(where, "written by another version of attune");
  if (head->file_bytes != size) return bad(where, "its length is not the one it states");
  if (head->kernel_count > (size - least) / sizeof(pack_place) ||
      head->manifest_bytes > size - least - table_bytes(head))
    return bad(where, "its index is longer than the file");
  uint8_t digest[SHA256_DIGEST_LENGTH];
  sha256(bytes, checksum_at(head), digest);
  if (memcmp(digest, bytes + checksum_at(head), sizeof digest) != 0)
    return bad(where, "the checksum of its index differs");
  return ATTUNE_OK;
}

static int all_zero(const char *bytes, uint64_t from, uint64_t to) {
  while (from < to)
    if (bytes[from++]) return 0;
  return 1;
}

/* Everything has one place: right behind what is before it. */
static attune_status check_places(const char *bytes, const pack_head *head, const char *where) {
  uint64_t index_end = checksum_at(head) + SHA256_DIGEST_LENGTH, end = align_up(index_end);
  if (end > head->file_bytes) return bad(where, "it ends within its index");
  if (!all_zero(bytes, index_end, end)) return bad(where, "padding is not zero");
  for (uint32_t i = 0; i < head->kernel_count; i++) {
    pack_place place = place_of(bytes, (int)i);
    if (place.offset != end || place.bytes < 1 || place.bytes > ATTUNE_ENTRY_MAX ||
        place.bytes > head->file_bytes - end)
      return bad(where, "an entry is not where it must be");
    end = align_up(end + place.bytes);
  }
  return end == head->file_bytes ? ATTUNE_OK : bad(where, "bytes behind the last entry");
}

static attune_status read_index(const void *bytes, size_t size, const char *where,
                                attune__set *out) {
  pack_head head = {.version = 0};
  char manifest[256];
  attune_status status = check_head(bytes, size, where, &head);
  if (!status) status = check_places(bytes, &head, where);
  if (status) return status;
  snprintf(manifest, sizeof manifest, "%.240s(manifest)", where);
  status = attune__manifest_parse((const char *)bytes + manifest_at(&head),
                                  (size_t)head.manifest_bytes, manifest, out);
  if (!status && (uint32_t)out->kernel_count != head.kernel_count)
    status = bad(where, "its table and its manifest list different kernels");
  return status;
}

attune_status attune__pack_read(const void *bytes, size_t size, const char *where,
                                attune__set *out) {
  memset(out, 0, sizeof *out);
  attune_status status = read_index(bytes, size, where, out);
  if (!status && !(out->path = strdup(where)))
    status = attune_fail(ATTUNE_NO_MEMORY, "no memory for the set %s", where);
  if (status) {
    attune__set_free(out);
    return status;
  }
  out->pack = bytes;
  out->pack_bytes = size;
  return ATTUNE_OK;
}

attune_status attune__pack_entry(const attune__set *set, int kernel, attune__span *out) {
  pack_place place = place_of(set->pack, kernel);
  uint64_t end = place.offset + place.bytes;
  if (!all_zero(set->pack, end, align_up(end))) return bad(set->path, "padding is not zero");
  out->data = (const char *)set->pack + place.offset;
  out->size = (size_t)place.bytes;
  return ATTUNE_OK;
}

/* ---- mapping ------------------------------------------------------------------------------- */

static attune_status fail_errno(const char *doing, const char *path) {
  int error = errno;
  return attune_fail(ATTUNE_IO, "%s %s: %s", doing, path, strerror(error));
}

int attune__is_pack(const char *path) {
  char first[sizeof MAGIC];
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
  if (fd < 0) return 0;
  ssize_t got = attune__read_fully(fd, first, sizeof first);
  close(fd);
  return got == (ssize_t)sizeof first && attune__pack_begins(first, sizeof first);
}

static attune_status map_file(const char *path, void **bytes, size_t *size) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail_errno("cannot open", path);
  attune_status status = ATTUNE_OK;
  if (fstat(fd, &info) != 0)
    status = fail_errno("cannot read", path);
  else if (!S_ISREG(info.st_mode))
    status = attune_fail(ATTUNE_IO, "cannot read %s: it is not a regular file", path);
  else if (info.st_size < (off_t)sizeof(pack_head))
    status = check_head("", 0, path, &(pack_head){.version = 0});
  if (!status) {
    *size = (size_t)info.st_size;
    *bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (*bytes == MAP_FAILED) status = fail_errno("cannot map", path);
  }
  close(fd);
  return status;
}

attune_status attune__pack_open(const char *path, attune__set *out) {
  void *bytes = NULL;
  size_t size = 0;
  memset(out, 0, sizeof *out);
  attune_status status = map_file(path, &bytes, &size);
  if (status) return status;
  status = attune__pack_read(bytes, size, path, out);
  if (status)
    munmap(bytes, size);
  else
    out->mapping = bytes;
  return status;
}

void attune__pack_close(attune__set *set) {
  if (set->mapping) munmap(set->mapping, set->pack_bytes);
}

/* ---- writing ------------------------------------------------------------------------------- */

static void lay_out(const pack_head *head, const char *manifest, const attune__span *entries,
                    char *bytes) {
  uint64_t end = align_up(checksum_at(head) + SHA256_DIGEST_LENGTH);
  memcpy(bytes, head, sizeof *head);
  memcpy(bytes + manifest_at(head), manifest, (size_t)head->manifest_bytes);
  for (uint32_t i = 0; i < head->kernel_count; i++) {
    pack_place place = {.offset = end, .bytes = entries[i].size};
    memcpy(bytes + sizeof *head + i * sizeof place, &place, sizeof place);
    memcpy(bytes + end, entries[i].data, entries[i].size);
    end = align_up(end + place.bytes);
  }
  sha256(bytes, checksum_at(head), (uint8_t *)bytes + checksum_at(head));
}

/* A reader's refusal is the writer's error: nothing unreadable leaves this file. */
static attune_status check_written(const attune__set *set, const void *bytes, size_t size) {
  attune__set back;
  attune_entry entry;
  void *owned;
  attune_status status = attune__pack_read(bytes, size, set->path, &back);
  for (int i = 0; !status && i < back.kernel_count; i++) {
    if (strcmp(back.kernels[i].name, set->kernels[i].name) != 0)
      status =
          attune_fail(ATTUNE_INVALID, "%s: its kernels are not in the manifest's order", set->path);
    else
      status = attune__set_entry(&back, i, &owned, &entry);
  }
  attune__set_free(&back);
  return status == ATTUNE_BAD_FILE ? attune_fail(ATTUNE_INVALID, "%s", attune_error()) : status;
}

attune_status attune__pack_write(const attune__set *set, const attune__span *entries, void **out,
                                 size_t *out_bytes) {
  char *manifest, *bytes;
  size_t manifest_bytes;
  *out = NULL;
  attune_status status = attune__manifest_print(set, &manifest, &manifest_bytes);
  if (status) return status;
  pack_head head = {.version = ATTUNE_PACK_VERSION,
                    .head_bytes = sizeof head,
                    .manifest_bytes = manifest_bytes,
                    .kernel_count = (uint32_t)set->kernel_count,
                    .align = ATTUNE_PACK_ALIGN};
  memcpy(head.magic, MAGIC, sizeof MAGIC);
  head.file_bytes = align_up(checksum_at(&head) + SHA256_DIGEST_LENGTH);
  for (int i = 0; i < set->kernel_count; i++) head.file_bytes += align_up(entries[i].size);
  bytes = calloc(1, (size_t)head.file_bytes);
  if (bytes) {
    lay_out(&head, manifest, entries, bytes);
    status = check_written(set, bytes, (size_t)head.file_bytes);
  } else {
    status = attune_fail(ATTUNE_NO_MEMORY, "no memory for a pack of %llu bytes",
                         (unsigned long long)head.file_bytes);
  }
  free(manifest);
  if (status) {
    free(bytes);
    return status;
  }
  *out = bytes;
  *out_bytes = (size_t)head.file_bytes;
  return ATTUNE_OK;
}
