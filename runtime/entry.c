/* entry.c - a compiled kernel to the bytes of one file, and back.
 *
 * Input: an attune_entry, or bytes from anywhere. Output: the other one. Every byte of a file is
 * determined by the entry, and reading insists on that: what attune__entry_write could not have
 * written is refused. Files are left to file.c, ELF to elf.c, the recipe to launch.c. */
#include "entry.h"

#include <sha2.h>
#include <stdlib.h>
#include <zstd.h>

#include "launch.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "entries are written as they lie");

enum { MAGIC_BYTES = 8, PAYLOAD_ALIGN = 64 };
static const char MAGIC[MAGIC_BYTES] = "attune\n\1";

typedef struct attune_entry_head {
  uint32_t version;    /* ATTUNE_ENTRY_VERSION */
  uint32_t head_bytes; /* of this struct: it grows with fields.def */
  uint64_t file_bytes;
  struct {
    uint64_t offset, bytes, raw_bytes;
  } payload[ATTUNE_PAYLOADS];
  struct {
    double value;
    char name[24];
  } pin[ATTUNE_MAX_PINS];
  uint32_t pin_count;
  attune_recipe recipe;
  attune_facts facts;
  attune_variant variant;
  attune_tile tile;
  char compiler[32];
  char name[ATTUNE_NAME_MAX];
  char zero[8]; /* fills up to 8 bytes */
} attune_entry_head;

_Static_assert(sizeof(attune_entry_head) == 16 + 24 * ATTUNE_PAYLOADS + 32 * ATTUNE_MAX_PINS + 4 +
                                                sizeof(attune_recipe) + sizeof(attune_facts) +
                                                sizeof(attune_variant) + sizeof(attune_tile) + 32 +
                                                ATTUNE_NAME_MAX + 8,
               "head has padding: choose the size of zero[] so that there is none");
_Static_assert(sizeof(((attune_pinset *)0)->pin[0].name) == 24, "pins have outgrown the head");

static size_t align_payload(size_t offset) {
  return (offset + PAYLOAD_ALIGN - 1) / PAYLOAD_ALIGN * PAYLOAD_ALIGN;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* A payload as it is stored: the entry's own bytes, or a compressed copy that `owned` frees. */
typedef struct stored {
  const void *data;
  void *owned;
  size_t bytes, raw_bytes;
} stored;

static void free_stored(stored payloads[ATTUNE_PAYLOADS]) {
  for (int i = 0; i < ATTUNE_PAYLOADS; i++) free(payloads[i].owned);
}

static attune_status compress(stored *payload) {
  size_t capacity = ZSTD_compressBound(payload->raw_bytes);
  payload->owned = malloc(capacity);
  if (!payload->owned) return attune_fail(ATTUNE_NO_MEMORY, "no memory to compress a payload");
  payload->bytes = ZSTD_compress(payload->owned, capacity, payload->data, payload->raw_bytes,
                                 ZSTD_CLEVEL_DEFAULT);
  if (ZSTD_isError(payload->bytes))
    return attune_fail(ATTUNE_NO_MEMORY, "zstd: %s", ZSTD_getErrorName(payload->bytes));
  payload->data = payload->owned;
  return ATTUNE_OK;
}

static attune_status store_payloads(const attune_entry *entry, stored payloads[ATTUNE_PAYLOADS]) {
  for (int i = 0; i < ATTUNE_PAYLOADS; i++) {
    if (!entry->payload[i].data || !entry->payload[i].bytes) continue;
    if (entry->payload[i].bytes > ATTUNE_ENTRY_MAX)
      return attune_fail(ATTUNE_INVALID, "a payload of %s has %zu bytes; %d are the limit",
                         entry->name, entry->payload[i].bytes, ATTUNE_ENTRY_MAX);
    payloads[i].data = entry->payload[i].data;
    payloads[i].bytes = payloads[i].raw_bytes = entry->payload[i].bytes;
    attune_status status = i == ATTUNE_PAYLOAD_CUBIN ? ATTUNE_OK : compress(&payloads[i]);
    if (status) return status;
  }
  return ATTUNE_OK;
}

/* memcpy of a string into a zeroed field: what lies behind its NUL in the source stays behind. */
static void copy_text(char *to, size_t size, const char *from) {
  memcpy(to, from, strnlen(from, size - 1));
}

static void fill_head(const attune_entry *entry, const stored payloads[ATTUNE_PAYLOADS],
                      attune_entry_head *head) {
  memset(head, 0, sizeof *head);
  head->version = ATTUNE_ENTRY_VERSION;
  head->head_bytes = sizeof *head;
  copy_text(head->name, sizeof head->name, entry->name);
  copy_text(head->compiler, sizeof head->compiler, entry->compiler);
  head->variant = entry->variant;
  head->tile = entry->tile;
  head->recipe = entry->recipe;
  head->facts = entry->facts;
  head->pin_count = entry->pins.count;
  for (uint32_t i = 0; i < entry->pins.count && i < ATTUNE_MAX_PINS; i++) {
    copy_text(head->pin[i].name, sizeof head->pin[i].name, entry->pins.pin[i].name);
    head->pin[i].value = entry->pins.pin[i].value;
  }
  size_t end = MAGIC_BYTES + sizeof *head;
  for (int i = 0; i < ATTUNE_PAYLOADS; i++) {
    if (!payloads[i].bytes) continue;
    head->payload[i].offset = align_payload(end);
    head->payload[i].bytes = payloads[i].bytes;
    head->payload[i].raw_bytes = payloads[i].raw_bytes;
    end = align_payload(end) + payloads[i].bytes;
  }
  head->file_bytes = end + SHA256_DIGEST_LENGTH;
}

static void sha256(const void *bytes, size_t size, uint8_t out[SHA256_DIGEST_LENGTH]) {
  SHA2_CTX sha;
  SHA256Init(&sha);
  SHA256Update(&sha, bytes, size);
  SHA256Final(out, &sha);
}

static void lay_out(const attune_entry_head *head, const stored payloads[ATTUNE_PAYLOADS],
                    char *bytes) {
  memcpy(bytes, MAGIC, MAGIC_BYTES);
  memcpy(bytes + MAGIC_BYTES, head, sizeof *head);
  for (int i = 0; i < ATTUNE_PAYLOADS; i++)
    if (payloads[i].bytes)
      memcpy(bytes + head->payload[i].offset, payloads[i].data, payloads[i].bytes);
  size_t hashed = (size_t)head->file_bytes - SHA256_DIGEST_LENGTH;
  sha256(bytes, hashed, (uint8_t *)bytes + hashed);
}

/* A reader's refusal is the writer's error: nothing unreadable leaves this file. */
static attune_status check_written(const void *bytes, size_t size) {
  attune_entry back;
  attune_status status = attune__entry_read(bytes, size, &back);
  return status == ATTUNE_BAD_FILE ? attune_fail(ATTUNE_INVALID, "%s", attune_error()) : status;
}

attune_status attune__entry_write(const attune_entry *entry, void **out, size_t *out_bytes) {
  stored payloads[ATTUNE_PAYLOADS] = {0};
  attune_entry_head head;
  char *bytes = NULL;
  attune_status status = store_payloads(entry, payloads);
  if (!status) {
    fill_head(entry, payloads, &head);
    bytes = calloc(1, (size_t)head.file_bytes);
    if (bytes) {
      lay_out(&head, payloads, bytes);
      status = check_written(bytes, (size_t)head.file_bytes);
    } else {
      status = attune_fail(ATTUNE_NO_MEMORY, "no memory for the entry %s", entry->name);
    }
  }
  free_stored(payloads);
  if (status) {
    free(bytes);
    return status;
  }
  *out = bytes;
  *out_bytes = (size_t)head.file_bytes;
  return ATTUNE_OK;
}

/* ---- reading ------------------------------------------------------------------------------- */

static attune_status bad(const char *what) {
  attune_fail(ATTUNE_BAD_FILE, "bad entry: %s", what);
  return ATTUNE_BAD_FILE;
}

static attune_status check_frame(const char *bytes, size_t size, attune_entry_head *head) {
  if (size < MAGIC_BYTES + sizeof *head + SHA256_DIGEST_LENGTH) return bad("too short");
  if (size > ATTUNE_ENTRY_MAX) return bad("too long");
  if (memcmp(bytes, MAGIC, MAGIC_BYTES) != 0) return bad("no attune entry");
  memcpy(head, bytes + MAGIC_BYTES, sizeof *head);
  if (head->version != ATTUNE_ENTRY_VERSION || head->head_bytes != sizeof *head)
    return bad("written by another version of attune");
  if (head->file_bytes != size) return bad("its length is not the one it states");
  uint8_t digest[SHA256_DIGEST_LENGTH];
  sha256(bytes, size - sizeof digest, digest);
  if (memcmp(digest, bytes + size - sizeof digest, sizeof digest) != 0)
    return bad("the checksum differs");
  return ATTUNE_OK;
}

/* A string field ends in NUL and holds zeros behind it. */
static int text_sane(const char *text, size_t size) {
  size_t length = strnlen(text, size);
  if (length == size) return 0;
  for (size_t i = length; i < size; i++)
    if (text[i]) return 0;
  return 1;
}

static int all_zero(const char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i]) return 0;
  return 1;
}

static attune_status check_head(const attune_entry_head *head) {
  attune_variant variant;
  attune_tile tile;
  int has_tile, is_program;
  if (!text_sane(head->name, sizeof head->name) ||
      !text_sane(head->compiler, sizeof head->compiler))
    return bad("a text field has no end");
  if (!all_zero(head->zero, sizeof head->zero)) return bad("padding is not zero");
  if (attune__name_parse(head->name, &variant, &tile, &has_tile, &is_program) || !has_tile)
    return bad("its name is no kernel name");
  if (memcmp(&variant, &head->variant, sizeof variant) != 0 ||
      memcmp(&tile, &head->tile, sizeof tile) != 0)
    return bad("its fields are not those of its name");
  return ATTUNE_OK;
}

/* Rebuilds the pinset: an add that succeeds at the same place with the same value is the proof that
 * names are sorted and unique and that values are in their kept form. */
static attune_status read_pins(const attune_entry_head *head, attune_pinset *pins) {
  if (head->pin_count > ATTUNE_MAX_PINS) return bad("too many pins");
  for (uint32_t i = 0; i < ATTUNE_MAX_PINS; i++) {
    const char *name = head->pin[i].name;
    if (i >= head->pin_count) {
      if (!all_zero((const char *)&head->pin[i], sizeof head->pin[i])) return bad("a stray pin");
      continue;
    }
    if (!text_sane(name, sizeof head->pin[i].name)) return bad("a pin's name has no end");
    if (attune__pinset_add(pins, name, head->pin[i].value) || strcmp(pins->pin[i].name, name) != 0)
      return bad("a pin is out of order or out of range");
    if (memcmp(&pins->pin[i].value, &head->pin[i].value, sizeof(double)) != 0)
      return bad("a pin's value is no int32 or fp32");
  }
  if (attune__pinset_digest(pins) != head->variant.pins) return bad("pins differ from the name's");
  return ATTUNE_OK;
}

/* Whether the bytes are one zstd frame, whole, that says it holds raw_bytes. */
static int frame_sane(const void *frame, uint64_t size, uint64_t raw_bytes) {
  return ZSTD_findFrameCompressedSize(frame, (size_t)size) == size &&
         ZSTD_getFrameContentSize(frame, (size_t)size) == raw_bytes;
}

static attune_status read_payloads(const char *bytes, const attune_entry_head *head,
                                   attune_entry *entry) {
  size_t end = MAGIC_BYTES + sizeof *head, limit = (size_t)head->file_bytes - SHA256_DIGEST_LENGTH;
  for (int i = 0; i < ATTUNE_PAYLOADS; i++) {
    uint64_t offset = head->payload[i].offset, size = head->payload[i].bytes;
    uint64_t raw_bytes = head->payload[i].raw_bytes;
    if (!offset && !size && !raw_bytes) continue;
    if (offset != align_payload(end) || offset > limit || size < 1 || size > limit - offset)
      return bad("a payload is not where it must be");
    if (!all_zero(bytes + end, (size_t)offset - end)) return bad("padding is not zero");
    if (raw_bytes < 1 || raw_bytes > ATTUNE_ENTRY_MAX) return bad("a payload is too large");
    if (i == ATTUNE_PAYLOAD_CUBIN && (raw_bytes != size || !attune__elf_sane(bytes + offset, size)))
      return bad("the cubin's ELF reaches beyond its bytes");
    if (i != ATTUNE_PAYLOAD_CUBIN && !frame_sane(bytes + offset, size, raw_bytes))
      return bad("a payload is no whole zstd frame");
    entry->payload[i].data = bytes + offset;
    entry->payload[i].bytes = (size_t)size;
    entry->payload[i].raw_bytes = (size_t)raw_bytes;
    end = (size_t)(offset + size);
  }
  return end == limit ? ATTUNE_OK : bad("bytes behind the last payload");
}

static void copy_head(const attune_entry_head *head, attune_entry *entry) {
  memcpy(entry->name, head->name, sizeof entry->name);
  memcpy(entry->compiler, head->compiler, sizeof entry->compiler);
  entry->variant = head->variant;
  entry->tile = head->tile;
  entry->recipe = head->recipe;
  entry->facts = head->facts;
}

attune_status attune__entry_read(const void *bytes, size_t size, attune_entry *entry) {
  attune_entry_head head;
  memset(entry, 0, sizeof *entry);
  attune_status status = check_frame(bytes, size, &head);
  if (!status) status = check_head(&head);
  if (!status) copy_head(&head, entry);
  if (!status) status = read_pins(&head, &entry->pins);
  if (!status) status = attune__recipe_check(entry);
  if (!status) status = read_payloads(bytes, &head, entry);
  if (status) memset(entry, 0, sizeof *entry);
  return status;
}

attune_status attune__entry_payload(const attune_entry *entry, attune_payload which, char **out,
                                    size_t *out_bytes) {
  const void *data = entry->payload[which].data;
  size_t stored_bytes = entry->payload[which].bytes, raw_bytes = entry->payload[which].raw_bytes;
  if (!data) return attune_fail(ATTUNE_NOT_FOUND, "%s has no such payload", entry->name);
  char *raw = malloc(raw_bytes + 1);
  if (!raw) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a payload, %zu bytes", raw_bytes);
  size_t got = stored_bytes;
  if (which == ATTUNE_PAYLOAD_CUBIN)
    memcpy(raw, data, raw_bytes);
  else
    got = ZSTD_decompress(raw, raw_bytes, data, stored_bytes);
  if (got != raw_bytes) {
    free(raw);
    return bad("a payload does not decompress");
  }
  raw[raw_bytes] = 0;
  *out = raw;
  *out_bytes = raw_bytes;
  return ATTUNE_OK;
}
