/* set_load.c - a set read whole, every entry checked; stripped of what only development needs.
 *
 * Input: a folder or a pack. Output: the set with its entry files in memory (a pack's stay where
 * they are mapped), and the pack of it. Writing a folder is unpack.c's. */
#include "set_load.h"

#include <stdlib.h>
#include <string.h>

static attune_status read_file(attune_loaded *l, int kernel) {
  attune__span *file = &l->files[kernel];
  attune_status status =
      attune__set_entry_file(&l->set, kernel, &l->owned[kernel], &file->data, &file->size);
  return status ? status : attune__entry_read(file->data, file->size, &l->entries[kernel]);
}

attune_status attune__loaded_read(const char *path, attune_loaded *out) {
  memset(out, 0, sizeof *out);
  attune_status status = attune__set_read(path, &out->set);
  if (status) return status;
  size_t count = (size_t)out->set.kernel_count + 1;
  out->files = calloc(count, sizeof *out->files);
  out->owned = calloc(count, sizeof *out->owned);
  out->entries = calloc(count, sizeof *out->entries);
  if (!out->files || !out->owned || !out->entries) {
    attune__loaded_free(out);
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for the set %s", path);
  }
  for (int i = 0; i < out->set.kernel_count && !status; i++) status = read_file(out, i);
  if (status) attune__loaded_free(out);
  return status;
}

void attune__loaded_free(attune_loaded *loaded) {
  for (int i = 0; i < loaded->set.kernel_count && loaded->owned; i++) free(loaded->owned[i]);
  free(loaded->files);
  free(loaded->owned);
  free(loaded->entries);
  attune__set_free(&loaded->set);
  memset(loaded, 0, sizeof *loaded);
}

static attune_status strip(attune_loaded *l, int kernel) {
  attune_entry bare = l->entries[kernel];
  for (int i = 0; i < ATTUNE_PAYLOADS; i++)
    if (i != ATTUNE_PAYLOAD_CUBIN) memset(&bare.payload[i], 0, sizeof bare.payload[i]);
  if (!bare.payload[ATTUNE_PAYLOAD_CUBIN].bytes)
    return attune_fail(ATTUNE_INVALID, "%s holds no machine code, nothing would be left of it",
                       bare.name);
  void *bytes;
  size_t size;
  attune_status status = attune__entry_write(&bare, &bytes, &size);
  if (status) return status;
  free(l->owned[kernel]);
  l->owned[kernel] = bytes;
  l->files[kernel] = (attune__span){bytes, size};
  attune__sha256_hex(bytes, size, l->set.kernels[kernel].digest);
  return attune__entry_read(bytes, size, &l->entries[kernel]);
}

attune_status attune__loaded_strip(attune_loaded *loaded) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < loaded->set.kernel_count && !status; i++) status = strip(loaded, i);
  return status;
}

attune_status attune__loaded_pack(const attune_loaded *loaded, void **out, size_t *out_bytes) {
  return attune__pack_write(&loaded->set, loaded->files, out, out_bytes);
}
