/* test_entry.c - entries survive the trip to bytes and back, and nothing else passes for one.
 *
 * The offsets of head fields below are counted from the comment in entry.h, not taken from code. */
#include <elf.h>
#include <sha2.h>

#include "../runtime/launch.h"
#include "test.h"

enum {
  VERSION_AT = 8,
  HEAD_BYTES_AT = 12,
  FILE_BYTES_AT = 16,
  PAYLOAD_AT = 24, /* offset, bytes, raw_bytes: 8 bytes each; cubin, PTX, source */
  DIGEST_BYTES = 32
};

/* ---- a cubin without code ------------------------------------------------------------------ */

typedef struct tiny_elf {
  Elf64_Ehdr head;
  Elf64_Phdr segment;
  Elf64_Shdr section[3]; /* null, names, shared memory without bytes */
  char names[24];
} tiny_elf;

static tiny_elf make_elf(void) {
  tiny_elf elf;
  memset(&elf, 0, sizeof elf);
  memcpy(elf.head.e_ident, ELFMAG, SELFMAG);
  elf.head.e_ident[EI_CLASS] = ELFCLASS64, elf.head.e_ident[EI_DATA] = ELFDATA2LSB;
  elf.head.e_machine = EM_CUDA;
  elf.head.e_ehsize = sizeof elf.head;
  elf.head.e_phoff = offsetof(tiny_elf, segment), elf.head.e_phnum = 1;
  elf.head.e_phentsize = sizeof elf.segment;
  elf.head.e_shoff = offsetof(tiny_elf, section), elf.head.e_shnum = 3, elf.head.e_shstrndx = 1;
  elf.head.e_shentsize = sizeof elf.section[0];
  elf.segment.p_offset = 0, elf.segment.p_filesz = sizeof elf;
  memcpy(elf.names, "\0.shstrtab\0.nv.shared", 22);
  elf.section[1].sh_name = 1, elf.section[1].sh_type = SHT_STRTAB;
  elf.section[1].sh_offset = offsetof(tiny_elf, names), elf.section[1].sh_size = sizeof elf.names;
  elf.section[2].sh_name = 11, elf.section[2].sh_type = SHT_NOBITS;
  elf.section[2].sh_offset = sizeof elf, elf.section[2].sh_size = 49152;
  return elf;
}

#define INSANE(change)                                                                             \
  do {                                                                                             \
    tiny_elf elf = make_elf();                                                                     \
    change;                                                                                        \
    ck_assert_msg(!attune__elf_sane(&elf, sizeof elf), "passes: " #change);                        \
  } while (0)

START_TEST(elf_bounds_are_checked) {
  tiny_elf good = make_elf();
  ck_assert_int_eq(attune__elf_sane(&good, sizeof good), 1);
  INSANE(elf.head.e_ident[0] = 'E');
  INSANE(elf.head.e_ident[EI_CLASS] = ELFCLASS32);
  INSANE(elf.head.e_ident[EI_DATA] = ELFDATA2MSB);
  INSANE(elf.head.e_machine = EM_X86_64);
  INSANE(elf.head.e_ehsize = 52);
  INSANE(elf.head.e_shentsize = 40);
  INSANE(elf.head.e_phentsize = 32);
  INSANE(elf.head.e_shnum = 0);
  INSANE(elf.head.e_shnum = 4);
  INSANE(elf.head.e_phnum = 65535);
  INSANE(elf.head.e_shstrndx = 3);
  INSANE(elf.head.e_shstrndx = 2);
  INSANE(elf.head.e_shoff = UINT64_MAX - 8);
  INSANE(elf.head.e_shoff = sizeof elf);
  INSANE(elf.head.e_phoff = UINT64_MAX);
  INSANE(elf.segment.p_filesz = sizeof elf + 1);
  INSANE(elf.segment.p_offset = UINT64_MAX);
  INSANE(elf.section[1].sh_size = UINT64_MAX);
  INSANE(elf.section[1].sh_offset = UINT64_MAX);
  INSANE(elf.section[1].sh_offset = sizeof elf - 1);
  INSANE(elf.section[1].sh_size = 0);
  INSANE(elf.section[2].sh_name = sizeof elf.names);
  INSANE(elf.section[2].sh_type = SHT_PROGBITS);
  INSANE(elf.names[sizeof elf.names - 1] = 'x');
}
END_TEST

START_TEST(cut_elf_is_insane) {
  tiny_elf elf = make_elf();
  for (size_t size = 0; size < sizeof elf; size++) {
    void *exact = malloc(size ? size : 1); /* of its own, so that ASan sees a read beyond */
    memcpy(exact, &elf, size);
    if (attune__elf_sane(exact, size)) ck_abort_msg("%zu bytes pass", size);
    free(exact);
  }
}
END_TEST

/* ---- entries ------------------------------------------------------------------------------- */

static const char ptx[] =
    ".version 8.0\n.target sm_90a\n// // // // // // // // // // // // // //\n";
static const char source[] = "extern \"C\" __global__ void f() {}\n";
static tiny_elf cubin;

static attune_entry make_entry(void) {
  attune_entry entry;
  memset(&entry, 0, sizeof entry);
  cubin = make_elf();
  ck_assert_int_eq(attune__pinset_add(&entry.pins, "window_left", 127), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&entry.pins, "scale", 0.1), ATTUNE_OK);
  entry.variant.arch = attune__arch(90, 'a');
  entry.variant.op = ATTUNE_OP_ATTN_FWD;
  entry.variant.dtype_q = entry.variant.dtype_kv = entry.variant.dtype_out = ATTUNE_DTYPE_BF16;
  entry.variant.head_dim_qk = entry.variant.head_dim_v = 128;
  entry.variant.mask = ATTUNE_MASK_WINDOW;
  entry.variant.align = ATTUNE_ALIGN_16B;
  entry.variant.group = 1;
  entry.variant.pins = attune__pinset_digest(&entry.pins);
  entry.tile.block_m = 64, entry.tile.block_n = 32;
  entry.tile.stages = 1, entry.tile.warps = 4, entry.tile.family = ATTUNE_FAMILY_FMA;
  attune__kernel_name(&entry.variant, &entry.tile, entry.name);
  entry.recipe.abi = ATTUNE_ABI;
  entry.recipe.param_bytes = (uint32_t)attune__param_bytes(ATTUNE_OP_ATTN_FWD, 0);
  entry.recipe.threads = 128, entry.recipe.smem_bytes = 98304;
  entry.recipe.grid = ATTUNE_GRID_Q_TILES, entry.recipe.cluster = 1, entry.recipe.early = 1;
  entry.recipe.block_m = 64, entry.recipe.block_n = 32;
  entry.facts.registers = 168, entry.facts.spill_bytes = 8;
  entry.facts.stack_bytes = 16, entry.facts.static_smem = 1024;
  entry.facts.c75_lines = 2;
  strcpy(entry.compiler, "nvrtc 13.0.88");
  entry.payload[ATTUNE_PAYLOAD_CUBIN].data = &cubin;
  entry.payload[ATTUNE_PAYLOAD_CUBIN].bytes = sizeof cubin;
  return entry;
}

static attune_entry make_full_entry(void) {
  attune_entry entry = make_entry();
  entry.payload[ATTUNE_PAYLOAD_PTX].data = ptx;
  entry.payload[ATTUNE_PAYLOAD_PTX].bytes = sizeof ptx - 1;
  entry.payload[ATTUNE_PAYLOAD_SOURCE].data = source;
  entry.payload[ATTUNE_PAYLOAD_SOURCE].bytes = sizeof source - 1;
  return entry;
}

static void write_entry(const attune_entry *entry, void **bytes, size_t *size) {
  ck_assert_msg(attune__entry_write(entry, bytes, size) == ATTUNE_OK, "%s", attune_error());
}

static void check_payload(const attune_entry *entry, attune_payload which, const void *expected,
                          size_t size) {
  char *data;
  size_t bytes;
  ck_assert_int_eq(attune__entry_payload(entry, which, &data, &bytes), ATTUNE_OK);
  ck_assert_uint_eq(bytes, size);
  ck_assert_mem_eq(data, expected, size);
  ck_assert_int_eq(data[size], 0);
  free(data);
}

START_TEST(entries_round_trip) {
  attune_entry entry = make_full_entry(), back;
  void *bytes;
  size_t size;
  write_entry(&entry, &bytes, &size);
  ck_assert_int_eq(attune__entry_read(bytes, size, &back), ATTUNE_OK);
  ck_assert_str_eq(back.name, entry.name);
  ck_assert_str_eq(back.compiler, "nvrtc 13.0.88");
  ck_assert_mem_eq(&back.variant, &entry.variant, sizeof back.variant);
  ck_assert_mem_eq(&back.tile, &entry.tile, sizeof back.tile);
  ck_assert_mem_eq(&back.recipe, &entry.recipe, sizeof back.recipe);
  ck_assert_mem_eq(&back.facts, &entry.facts, sizeof back.facts);
  ck_assert_mem_eq(&back.pins, &entry.pins, sizeof back.pins);
  check_payload(&back, ATTUNE_PAYLOAD_CUBIN, &cubin, sizeof cubin);
  check_payload(&back, ATTUNE_PAYLOAD_PTX, ptx, sizeof ptx - 1);
  check_payload(&back, ATTUNE_PAYLOAD_SOURCE, source, sizeof source - 1);
  for (int i = 0; i < ATTUNE_PAYLOADS; i++)
    ck_assert_uint_eq((size_t)((const char *)back.payload[i].data - (const char *)bytes) % 64, 0);
  free(bytes);
}
END_TEST

START_TEST(absent_payloads_are_said_to_be) {
  attune_entry entry = make_entry(), back;
  void *bytes;
  size_t size;
  char *data;
  write_entry(&entry, &bytes, &size);
  ck_assert_int_eq(attune__entry_read(bytes, size, &back), ATTUNE_OK);
  ck_assert_int_eq(attune__entry_payload(&back, ATTUNE_PAYLOAD_PTX, &data, &size),
                   ATTUNE_NOT_FOUND);
  free(bytes);
}
END_TEST

START_TEST(large_text_is_compressed) {
  enum { BYTES = 1 << 20 };
  attune_entry entry = make_entry(), back;
  char *text = malloc(BYTES);
  for (int i = 0; i < BYTES; i++) text[i] = (char)("add.f32 "[i % 8] + i / 65536);
  entry.payload[ATTUNE_PAYLOAD_PTX].data = text;
  entry.payload[ATTUNE_PAYLOAD_PTX].bytes = BYTES;
  void *bytes;
  size_t size;
  write_entry(&entry, &bytes, &size);
  ck_assert_uint_lt(size, BYTES / 10);
  ck_assert_int_eq(attune__entry_read(bytes, size, &back), ATTUNE_OK);
  check_payload(&back, ATTUNE_PAYLOAD_PTX, text, BYTES);
  free(bytes);
  free(text);
}
END_TEST

START_TEST(equal_entries_have_equal_bytes) {
  attune_entry entry = make_full_entry(), same = make_full_entry();
  memset(same.name + strlen(same.name) + 1, 0xee, sizeof same.name - strlen(same.name) - 1);
  memset(same.compiler + strlen(same.compiler) + 1, 0xee, 4);
  same.payload[ATTUNE_PAYLOAD_PTX].raw_bytes = 12345; /* ignored on input */
  same.pins.pin[5].value = 7;                         /* beyond count */
  void *bytes, *again;
  size_t size, again_size;
  write_entry(&entry, &bytes, &size);
  write_entry(&same, &again, &again_size);
  ck_assert_uint_eq(size, again_size);
  ck_assert_mem_eq(bytes, again, size);
  free(bytes);
  free(again);
}
END_TEST

#define UNWRITABLE(change)                                                                         \
  do {                                                                                             \
    attune_entry entry = make_full_entry();                                                        \
    void *bytes;                                                                                   \
    size_t size;                                                                                   \
    change;                                                                                        \
    ck_assert_msg(attune__entry_write(&entry, &bytes, &size) == ATTUNE_INVALID, #change);          \
  } while (0)

START_TEST(what_cannot_be_read_is_not_written) {
  UNWRITABLE(entry.name[0] = 0);
  UNWRITABLE(memset(entry.name, 'a', sizeof entry.name));
  UNWRITABLE(entry.variant.head_dim_v = 64);
  UNWRITABLE(entry.tile.block_m = 32);
  UNWRITABLE(entry.pins.count = 1);
  UNWRITABLE(entry.pins.count = 9);
  UNWRITABLE(entry.recipe.abi = ATTUNE_ABI + 1);
  UNWRITABLE(entry.recipe.param_bytes -= 8);
  UNWRITABLE(entry.recipe.threads = 1025);
  UNWRITABLE(entry.recipe.grid = 0);
  UNWRITABLE(entry.recipe.workspace = 77);
  UNWRITABLE(entry.recipe.block_m = 0);
  UNWRITABLE(entry.recipe.early = 2);
  UNWRITABLE(cubin.section[1].sh_size = 1 << 20);
  UNWRITABLE(entry.payload[ATTUNE_PAYLOAD_CUBIN].bytes -= 1);
  UNWRITABLE(entry.payload[ATTUNE_PAYLOAD_PTX].bytes = (64 << 20) + 1);
}
END_TEST

/* ---- damaged entries ----------------------------------------------------------------------- */

/* Reads a copy of exactly that size, so that ASan sees a read beyond the end. */
static attune_status read_copy(const void *bytes, size_t size) {
  attune_entry entry;
  void *copy = malloc(size ? size : 1);
  memcpy(copy, bytes, size);
  attune_status status = attune__entry_read(copy, size, &entry);
  free(copy);
  return status;
}

START_TEST(every_flipped_bit_is_found) {
  attune_entry entry = make_full_entry();
  void *bytes;
  size_t size;
  write_entry(&entry, &bytes, &size);
  for (size_t bit = 0; bit < size * 8; bit++) {
    ((unsigned char *)bytes)[bit / 8] ^= (unsigned char)(1 << bit % 8);
    if (read_copy(bytes, size) != ATTUNE_BAD_FILE) ck_abort_msg("bit %zu flips unseen", bit);
    ((unsigned char *)bytes)[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
  ck_assert_int_eq(read_copy(bytes, size), ATTUNE_OK);
  free(bytes);
}
END_TEST

START_TEST(every_truncation_is_found) {
  attune_entry entry = make_full_entry();
  void *bytes;
  size_t size;
  write_entry(&entry, &bytes, &size);
  for (size_t cut = 0; cut < size; cut++)
    if (read_copy(bytes, cut) != ATTUNE_BAD_FILE) ck_abort_msg("%zu bytes pass", cut);
  bytes = realloc(bytes, size + 1);
  ((char *)bytes)[size] = 0;
  ck_assert_int_eq(read_copy(bytes, size + 1), ATTUNE_BAD_FILE);
  free(bytes);
}
END_TEST

/* A right checksum over wrong bytes: what a hostile or buggy writer makes. */
static void reseal(unsigned char *bytes, size_t size) {
  SHA2_CTX sha;
  SHA256Init(&sha);
  SHA256Update(&sha, bytes, size - DIGEST_BYTES);
  SHA256Final(bytes + size - DIGEST_BYTES, &sha);
}

/* With the checksum made right a flipped bit is either refused, or it is another legal entry: one
 * that the writer would write so, to the byte. */
START_TEST(every_resealed_flip_is_refused_or_canonical) {
  attune_entry entry = make_entry(), back; /* no compressed payload: zstd frames have many forms */
  void *bytes, *again;
  size_t size, again_size, accepted = 0;
  write_entry(&entry, &bytes, &size);
  unsigned char *flipped = malloc(size);
  for (size_t bit = 0; bit < (size - DIGEST_BYTES) * 8; bit++) {
    memcpy(flipped, bytes, size);
    flipped[bit / 8] ^= (unsigned char)(1 << bit % 8);
    reseal(flipped, size);
    attune_status status = attune__entry_read(flipped, size, &back);
    if (status == ATTUNE_BAD_FILE) continue;
    if (status) ck_abort_msg("bit %zu: status %d", bit, status);
    accepted++;
    if (attune__entry_write(&back, &again, &again_size)) ck_abort_msg("%s", attune_error());
    if (size != again_size || memcmp(flipped, again, size) != 0)
      ck_abort_msg("bit %zu is accepted but lost", bit);
    free(again);
  }
  ck_assert_uint_gt(accepted, 0); /* facts and the compiler's name are free */
  free(flipped);
  free(bytes);
}
END_TEST

START_TEST(flipped_compressed_payloads_do_no_harm) {
  attune_entry entry = make_full_entry(), back;
  void *bytes;
  size_t size, raw_bytes;
  char *raw;
  write_entry(&entry, &bytes, &size);
  ck_assert_int_eq(attune__entry_read(bytes, size, &back), ATTUNE_OK);
  unsigned char *frame = (unsigned char *)bytes +
                         ((const char *)back.payload[ATTUNE_PAYLOAD_PTX].data - (char *)bytes);
  for (size_t bit = 0; bit < back.payload[ATTUNE_PAYLOAD_PTX].bytes * 8; bit++) {
    frame[bit / 8] ^= (unsigned char)(1 << bit % 8);
    attune_status status = attune__entry_payload(&back, ATTUNE_PAYLOAD_PTX, &raw, &raw_bytes);
    if (status == ATTUNE_OK && raw_bytes != sizeof ptx - 1) ck_abort_msg("bit %zu", bit);
    if (status == ATTUNE_OK)
      free(raw);
    else if (status != ATTUNE_BAD_FILE)
      ck_abort_msg("bit %zu: status %d", bit, status);
    frame[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
  free(bytes);
}
END_TEST

/* Overwrites one head field of a good entry, seals it and reads it. */
static attune_status read_crafted(size_t at, uint64_t value, size_t width) {
  attune_entry entry = make_full_entry();
  void *bytes;
  size_t size;
  write_entry(&entry, &bytes, &size);
  memcpy((char *)bytes + at, &value, width);
  reseal(bytes, size);
  attune_status status = read_copy(bytes, size);
  free(bytes);
  return status;
}

START_TEST(silly_offsets_are_refused) {
  static const uint64_t values[] = {0,
                                    1,
                                    63,
                                    64,
                                    1 << 20,
                                    INT32_MAX,
                                    UINT32_MAX,
                                    INT64_MAX,
                                    UINT64_MAX,
                                    UINT64_MAX - 31,
                                    UINT64_MAX - 63,
                                    UINT64_MAX - 64,
                                    (uint64_t)1 << 63};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    for (size_t at = PAYLOAD_AT; at < PAYLOAD_AT + 3 * 24; at += 8) {
      ck_assert_msg(read_crafted(at, values[i], 8) == ATTUNE_BAD_FILE, "%zu: %llu", at,
                    (unsigned long long)values[i]);
    }
    ck_assert_int_eq(read_crafted(FILE_BYTES_AT, values[i], 8), ATTUNE_BAD_FILE);
    ck_assert_int_eq(read_crafted(HEAD_BYTES_AT, values[i], 4), ATTUNE_BAD_FILE);
  }
  ck_assert_int_eq(read_crafted(VERSION_AT, ATTUNE_ENTRY_VERSION, 4), ATTUNE_OK);
  ck_assert_int_eq(read_crafted(VERSION_AT, ATTUNE_ENTRY_VERSION + 1, 4), ATTUNE_BAD_FILE);
}
END_TEST

TEST_MAIN("entry", elf_bounds_are_checked, cut_elf_is_insane, entries_round_trip,
          absent_payloads_are_said_to_be, large_text_is_compressed, equal_entries_have_equal_bytes,
          what_cannot_be_read_is_not_written, every_flipped_bit_is_found, every_truncation_is_found,
          every_resealed_flip_is_refused_or_canonical, flipped_compressed_payloads_do_no_harm,
          silly_offsets_are_refused)
