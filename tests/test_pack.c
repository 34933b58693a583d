/* test_pack.c - a set in one file: round trips, equal bytes, damage of every kind noticed, read in
 * place by contexts, beside folders. Kernels are fake (fake.h); the program's words run at the end,
 * over a spec that NVRTC compiles. */
#include "../gen/set_diff.h"
#include "fake.h"
#include "scratch.h"

#include <fcntl.h>
#include <limits.h>
#include <sha2.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const fake_row rows[] = {
    {.variant = "attn_fwd_sm80_fp16_d64"},
    {.variant = "attn_fwd_sm80_fp16_d64", .cls = ATTUNE_CLASS_DECODE, .tile = "fma_m16n64"},
    {.variant = "attn_fwd_sm80_fp16_d64_causal", .corner = ATTUNE_CORNER_BOTTOM_RIGHT},
    {.variant = "attn_standard_sm80_fp32_d64"}};
enum { KERNELS = 6 };

/* Offsets of pack.h's head. */
enum {
  VERSION_AT = 8,
  HEAD_BYTES_AT = 12,
  FILE_BYTES_AT = 16,
  MANIFEST_BYTES_AT = 24,
  KERNELS_AT = 32,
  ALIGN_AT = 36,
  TABLE_AT = 40,
  PLACE_BYTES = 16,
  DIGEST_BYTES = 32
};

typedef struct image {
  unsigned char *bytes;
  size_t size;
} image;

static void join(char out[PATH_MAX], const char *folder, const char *name) {
  ck_assert_int_lt(snprintf(out, PATH_MAX, "%s/%s", folder, name), PATH_MAX);
}

static attune_loaded load(const char *path) {
  attune_loaded loaded;
  ck_assert_msg(attune__loaded_read(path, &loaded) == ATTUNE_OK, "%s", attune_error());
  return loaded;
}

static image image_of(const char *path) {
  attune_loaded loaded = load(path);
  image out;
  ck_assert_msg(attune__loaded_pack(&loaded, (void **)&out.bytes, &out.size) == ATTUNE_OK, "%s",
                attune_error());
  attune__loaded_free(&loaded);
  return out;
}

static image fake_image(const fake_row *from, int count) {
  char folder[64];
  scratch_make(folder);
  fake_set(folder, from, count);
  image out = image_of(folder);
  scratch_remove(folder);
  return out;
}

static image read_image(const char *path) {
  image out;
  ck_assert_msg(attune__file_read(path, 1 << 30, (void **)&out.bytes, &out.size) == ATTUNE_OK, "%s",
                attune_error());
  return out;
}

static void expect_same(const image *a, const image *b) {
  ck_assert_uint_eq(a->size, b->size);
  ck_assert_mem_eq(a->bytes, b->bytes, a->size);
}

static uint64_t number(const image *pack, size_t at, size_t width) {
  uint64_t value = 0;
  memcpy(&value, pack->bytes + at, width);
  return value;
}

static size_t checksum_at(const image *pack) {
  return TABLE_AT + PLACE_BYTES * (size_t)number(pack, KERNELS_AT, 4) +
         (size_t)number(pack, MANIFEST_BYTES_AT, 8);
}

/* A right checksum over a wrong index. */
static void reseal(image *pack, size_t at) {
  SHA2_CTX sha;
  SHA256Init(&sha);
  SHA256Update(&sha, pack->bytes, at);
  SHA256Final(pack->bytes + at, &sha);
}

/* ---- round trips ----------------------------------------------------------------------------- */

START_TEST(packs_round_trip) {
  char folder[64], out[64], packed[PATH_MAX], unpacked[PATH_MAX], path[PATH_MAX], back[PATH_MAX];
  int kept = -1;
  scratch_make(folder), scratch_make(out);
  fake_set(folder, rows, COUNT(rows));
  join(packed, out, "set.pack"), join(unpacked, out, "deep/set/");
  image first = image_of(folder);
  ck_assert_int_eq(attune__file_publish_synced(packed, first.bytes, first.size), ATTUNE_OK);
  ck_assert_int_eq(attune__is_pack(packed), 1);
  ck_assert_int_eq(attune__is_pack(folder), 0);

  attune_loaded loaded = load(packed);
  ck_assert_int_eq(loaded.set.kernel_count, KERNELS);
  ck_assert_int_eq(loaded.set.row_count, COUNT(rows));
  ck_assert_str_eq(loaded.set.path, packed);
  for (int i = 0; i < KERNELS; i++) { /* in place, aligned */
    ck_assert_ptr_null(loaded.owned[i]);
    ck_assert_uint_eq((uintptr_t)loaded.files[i].data % 64, 0);
  }
  ck_assert_msg(attune__loaded_unpack(&loaded, unpacked, &kept) == ATTUNE_OK, "%s", attune_error());
  ck_assert_int_eq(kept, 0);
  for (int i = -1; i < KERNELS; i++) { /* the manifest, then the entries */
    char name[ATTUNE_NAME_MAX + 8] = "manifest";
    if (i >= 0) snprintf(name, sizeof name, "%s.entry", loaded.set.kernels[i].name);
    join(path, folder, name), join(back, unpacked, name);
    image a = read_image(path), b = read_image(back);
    expect_same(&a, &b);
    free(a.bytes), free(b.bytes);
  }
  ck_assert_int_eq(attune__loaded_unpack(&loaded, unpacked, &kept), ATTUNE_OK);
  ck_assert_int_eq(kept, 1);
  attune__loaded_free(&loaded);
  attune__loaded_free(&loaded); /* harmless when empty */

  image again = image_of(unpacked), third = image_of(packed); /* whatever the path */
  expect_same(&first, &again);
  expect_same(&first, &third);
  free(first.bytes), free(again.bytes), free(third.bytes);
  scratch_remove(folder), scratch_remove(out);
}
END_TEST

START_TEST(an_empty_set_is_a_pack) {
  image pack = fake_image(rows, 0);
  attune__set set;
  ck_assert_msg(attune__pack_read(pack.bytes, pack.size, "it", &set) == ATTUNE_OK, "%s",
                attune_error());
  ck_assert_int_eq(set.kernel_count, 0);
  attune__set_free(&set);
  free(pack.bytes);
}
END_TEST

START_TEST(stripped_is_machine_code_alone) {
  char folder[64], path[PATH_MAX];
  static const char ptx[] = ".version 8.0 // and so on and so on and so on";
  scratch_make(folder);
  fake_set(folder, rows, 1);
  attune_loaded loaded = load(folder);
  attune_entry fat = loaded.entries[0], bare;
  fat.payload[ATTUNE_PAYLOAD_PTX].data = ptx, fat.payload[ATTUNE_PAYLOAD_PTX].bytes = sizeof ptx;
  void *lean = loaded.owned[0]; /* fat's cubin is in it */
  ck_assert_int_eq(attune__entry_write(&fat, &loaded.owned[0], &loaded.files[0].size), ATTUNE_OK);
  free(lean);
  loaded.files[0].data = loaded.owned[0];
  ck_assert_int_eq(
      attune__entry_read(loaded.files[0].data, loaded.files[0].size, &loaded.entries[0]),
      ATTUNE_OK);
  image thin, before = image_of(folder);
  ck_assert_int_eq(attune__loaded_pack(&loaded, (void **)&thin.bytes, &thin.size), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "is not the file that the manifest lists"));
  ck_assert_int_eq(attune__loaded_strip(&loaded), ATTUNE_OK);
  ck_assert_int_eq(attune__loaded_pack(&loaded, (void **)&thin.bytes, &thin.size), ATTUNE_OK);
  expect_same(&before, &thin); /* the fake entry had no PTX before */
  join(path, folder, "x");
  bare = loaded.entries[0];
  ck_assert_ptr_null(bare.payload[ATTUNE_PAYLOAD_PTX].data);
  ck_assert_ptr_nonnull(bare.payload[ATTUNE_PAYLOAD_CUBIN].data);
  free(thin.bytes), free(before.bytes);
  attune__loaded_free(&loaded);
  scratch_remove(folder);
}
END_TEST

START_TEST(unpacking_is_all_or_nothing) {
  char folder[64], path[PATH_MAX], target[PATH_MAX];
  scratch_make(folder);
  image pack = fake_image(rows, COUNT(rows));
  attune_loaded loaded;
  join(path, folder, "p"), join(target, folder, "full/of");
  ck_assert_int_eq(attune__file_publish(path, pack.bytes, pack.size), ATTUNE_OK);
  loaded = load(path);
  ck_assert_int_eq(attune__make_folders(target, 0), ATTUNE_OK);
  join(target, folder, "full");
  ck_assert_int_eq(attune__loaded_unpack(&loaded, target, NULL), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "is not empty"));
  ck_assert_int_eq(attune__loaded_unpack(&loaded, path, NULL), ATTUNE_IO); /* a file is there */
  join(target, folder, "p/below");
  ck_assert_int_eq(attune__loaded_unpack(&loaded, target, NULL), ATTUNE_IO);
  join(target, folder, "full/of"); /* empty: fine */
  ck_assert_int_eq(attune__loaded_unpack(&loaded, target, NULL), ATTUNE_OK);
  join(target, folder, "full/of/manifest");
  ck_assert_int_eq(unlink(target), 0);
  join(target, folder, "full/of"); /* another set, or half of one */
  ck_assert_int_eq(attune__loaded_unpack(&loaded, target, NULL), ATTUNE_INVALID);
  attune__loaded_free(&loaded);
  char line[PATH_MAX + 64];
  snprintf(line, sizeof line, "find %s -name '*.tmp' | grep -q .", folder);
  ck_assert_int_ne(system(line), 0); /* nothing left behind */
  free(pack.bytes);
  scratch_remove(folder);
}
END_TEST

/* ---- damage ---------------------------------------------------------------------------------- */

/* Opens a copy of exactly that size, so that ASan sees a read beyond the end, and reads the
 * entries; kernel -1: all of them, -2: none. */
static attune_status read_copy(const void *bytes, size_t size, int kernel) {
  attune__set set;
  attune_entry entry;
  void *copy = malloc(size ? size : 1), *owned;
  memcpy(copy, bytes, size);
  attune_status status = attune__pack_read(copy, size, "it", &set);
  for (int i = 0; !status && i < set.kernel_count; i++)
    if (kernel == -1 || kernel == i) status = attune__set_entry(&set, i, &owned, &entry);
  attune__set_free(&set);
  free(copy);
  return status;
}

/* Of the index every bit; of the entries every bit of the first, and of the others some. */
START_TEST(every_flipped_bit_is_found) {
  image pack = fake_image(rows, COUNT(rows));
  size_t index_end = (checksum_at(&pack) + DIGEST_BYTES + 63) / 64 * 64;
  ck_assert_uint_eq(number(&pack, TABLE_AT, 8), index_end);
  size_t first_end = index_end + (number(&pack, TABLE_AT + 8, 8) + 63) / 64 * 64;
  ck_assert_int_eq(read_copy(pack.bytes, pack.size, -1), ATTUNE_OK);
  for (size_t bit = 0; bit < pack.size * 8;) {
    int kernel = bit / 8 < index_end ? -2 : bit / 8 < first_end ? 0 : -1;
    pack.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    if (read_copy(pack.bytes, pack.size, kernel) != ATTUNE_BAD_FILE)
      ck_abort_msg("bit %zu flips unseen", bit);
    pack.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    bit += bit / 8 < first_end ? 1 : 37;
  }
  free(pack.bytes);
}
END_TEST

START_TEST(every_truncation_is_found) {
  image pack = fake_image(rows, COUNT(rows));
  for (size_t cut = 0; cut < pack.size; cut++)
    if (read_copy(pack.bytes, cut, -2) != ATTUNE_BAD_FILE) ck_abort_msg("%zu bytes pass", cut);
  pack.bytes = realloc(pack.bytes, pack.size + 64);
  memset(pack.bytes + pack.size, 0, 64);
  ck_assert_int_eq(read_copy(pack.bytes, pack.size + 1, -2), ATTUNE_BAD_FILE);
  ck_assert_int_eq(read_copy(pack.bytes, pack.size + 64, -2), ATTUNE_BAD_FILE);
  free(pack.bytes);
}
END_TEST

static int is_canonical(const image *pack) {
  attune__set set;
  char *text;
  size_t size, at = TABLE_AT + PLACE_BYTES * (size_t)number(pack, KERNELS_AT, 4);
  if (attune__pack_read(pack->bytes, pack->size, "it", &set)) return 0;
  ck_assert_int_eq(attune__manifest_print(&set, &text, &size), ATTUNE_OK);
  int same = size == number(pack, MANIFEST_BYTES_AT, 8) && !memcmp(text, pack->bytes + at, size);
  free(text);
  attune__set_free(&set);
  return same;
}

/* With the checksum made right a flip of head or table is refused; one of the manifest too, or it
 * is another manifest that the writer would write so. */
START_TEST(every_resealed_flip_is_refused_or_canonical) {
  image pack = fake_image(rows, 2);
  size_t at = checksum_at(&pack), table_end = TABLE_AT + PLACE_BYTES * 2, accepted = 0;
  for (size_t bit = 0; bit < at * 8; bit++) {
    pack.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    reseal(&pack, at);
    int kernel = bit / 8 < table_end ? -1 : -2; /* a length within its 64 is the digest's to find */
    if (read_copy(pack.bytes, pack.size, kernel) == ATTUNE_OK) {
      if (bit / 8 < table_end) ck_abort_msg("bit %zu of the index passes", bit);
      if (!is_canonical(&pack)) ck_abort_msg("bit %zu is accepted but lost", bit);
      accepted++;
    }
    pack.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
  ck_assert_uint_gt(accepted, 0); /* who made it, for one */
  free(pack.bytes);
}
END_TEST

START_TEST(silly_sizes_are_refused) {
  static const uint64_t values[] = {0,
                                    1,
                                    2,
                                    39,
                                    40,
                                    63,
                                    64,
                                    1 << 20,
                                    INT32_MAX,
                                    UINT32_MAX,
                                    INT64_MAX,
                                    UINT64_MAX,
                                    UINT64_MAX - 39,
                                    UINT64_MAX - 63,
                                    UINT64_MAX / 16,
                                    (uint64_t)1 << 63,
                                    (uint64_t)1 << 60};
  static const struct {
    size_t at, width;
  } fields[] = {{VERSION_AT, 4},        {HEAD_BYTES_AT, 4}, {FILE_BYTES_AT, 8},
                {MANIFEST_BYTES_AT, 8}, {KERNELS_AT, 4},    {ALIGN_AT, 4},
                {TABLE_AT, 8},          {TABLE_AT + 8, 8},  {TABLE_AT + 16, 8},
                {TABLE_AT + 16 + 8, 8}};
  image pack = fake_image(rows, 2), bad = {malloc(pack.size), pack.size};
  for (int f = 0; f < COUNT(fields); f++)
    for (int v = 0; v < COUNT(values); v++) {
      uint64_t mine = values[v];
      if (fields[f].width == 4) mine &= UINT32_MAX;
      if (mine == number(&pack, fields[f].at, fields[f].width)) continue;
      memcpy(bad.bytes, pack.bytes, pack.size);
      memcpy(bad.bytes + fields[f].at, &values[v], fields[f].width);
      reseal(&bad, checksum_at(&pack));
      ck_assert_int_eq(read_copy(bad.bytes, bad.size, -1), ATTUNE_BAD_FILE);
      size_t where = checksum_at(&bad); /* sealed where the hostile sizes say */
      if (where < bad.size - DIGEST_BYTES) reseal(&bad, where);
      ck_assert_int_eq(read_copy(bad.bytes, bad.size, -1), ATTUNE_BAD_FILE);
    }
  free(bad.bytes), free(pack.bytes);
}
END_TEST

START_TEST(what_is_no_pack_is_said_to_be_none) {
  char folder[64], path[PATH_MAX];
  attune__set set;
  scratch_make(folder);
  join(path, folder, "spec.yaml");
  static const char text[] = "version: 1\nop: attn_fwd\n";
  for (size_t size = 0; size < sizeof text; size += sizeof text - 1) { /* empty, too */
    ck_assert_int_eq(attune__file_publish(path, text, size), ATTUNE_OK);
    ck_assert_int_eq(attune__set_read(path, &set), ATTUNE_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(attune_error(), "is no kernel set"));
    ck_assert_int_eq(attune__is_pack(path), 0);
  }
  scratch_remove(folder);
  ck_assert_int_eq(attune__set_read(path, &set), ATTUNE_IO);
}
END_TEST

/* ---- contexts -------------------------------------------------------------------------------- */

static void write_pack(const char *path, const fake_row *from, int count) {
  image pack = fake_image(from, count);
  ck_assert_int_eq(attune__file_publish_synced(path, pack.bytes, pack.size), ATTUNE_OK);
  free(pack.bytes);
}

static attune_context *open_pack(const char *path, fake_log *log) {
  attune_context *context = fake_open("sm_80", NULL, log);
  ck_assert_msg(!attune_open_set(context, path), "%s", attune_error());
  return context;
}

START_TEST(contexts_open_it_as_a_folder) {
  char folder[64], path[PATH_MAX];
  fake_log log[2] = {{0}};
  attune_program *program;
  scratch_make(folder);
  join(path, folder, "set.pack");
  write_pack(path, rows, COUNT(rows));
  attune_context *first = open_pack(path, &log[0]), *second = open_pack(path, &log[1]);
  write_pack(path, rows, 1); /* replaced: who has it open keeps what it mapped */
  attune_problem p = fake_problem("attn_standard_sm80_fp32_d64");
  ck_assert_msg(!attune_prepare(first, &p, &program), "%s", attune_error());
  ck_assert_str_eq(fake_info(program).origin, path);
  ck_assert_int_eq(log[0].loads, 3);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_msg(!attune_prepare(second, &p, &program), "%s", attune_error());
  p = fake_problem("attn_fwd_sm80_fp16_d64");
  p.len_q = 1;
  ck_assert_msg(!attune_prepare(second, &p, &program), "%s", attune_error());
  ck_assert_str_eq(fake_info(program).kernels[0].name, "attn_fwd_sm80_fp16_d64__fma_m16n64");
  attune_close(first);
  attune_close(second);
  scratch_remove(folder);
}
END_TEST

START_TEST(the_later_set_wins) {
  static const fake_row other[] = {{.variant = "attn_fwd_sm80_fp16_d64", .tile = "fma_m32n32"}};
  static const char *const expected[] = {"attn_fwd_sm80_fp16_d64__fma_m32n32",
                                         "attn_fwd_sm80_fp16_d64__fma_m64n64"};
  char folder[64], set[PATH_MAX], packed[PATH_MAX];
  scratch_make(folder);
  join(packed, folder, "set.pack");
  write_pack(packed, rows, COUNT(rows));
  join(set, folder, "set");
  ck_assert_int_eq(attune__make_folders(set, 0), ATTUNE_OK);
  fake_set(set, other, 1);
  for (int turn = 0; turn < 2; turn++) {
    fake_log log = {0};
    attune_program *program;
    attune_context *context = open_pack(turn ? set : packed, &log);
    ck_assert_int_eq(attune_open_set(context, turn ? packed : set), ATTUNE_OK);
    attune_problem p = fake_problem("attn_fwd_sm80_fp16_d64");
    ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
    ck_assert_str_eq(fake_info(program).kernels[0].name, expected[turn]);
    p = fake_problem("attn_fwd_sm80_fp16_d64_causal"); /* only the pack has it */
    ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
    attune_close(context);
  }
  scratch_remove(folder);
}
END_TEST

START_TEST(memory_is_borrowed) {
  fake_log log = {0};
  attune_program *program;
  image pack = fake_image(rows, COUNT(rows));
  attune_context *context = fake_open("sm_80", NULL, &log);
  ck_assert_int_eq(attune_open_memory(NULL, pack.bytes, pack.size, NULL), ATTUNE_INVALID);
  ck_assert_int_eq(attune_open_memory(context, NULL, 0, NULL), ATTUNE_INVALID);
  ck_assert_int_eq(attune_open_memory(context, pack.bytes + 8, pack.size - 8, NULL),
                   ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "multiple of 16"));
  ck_assert_int_eq(attune_open_memory(context, pack.bytes, pack.size - 64, "here"),
                   ATTUNE_BAD_FILE);
  ck_assert_ptr_nonnull(strstr(attune_error(), "here: bad pack"));
  ck_assert_int_eq(attune_open_memory(context, pack.bytes, pack.size, "here"), ATTUNE_OK);
  attune_problem p = fake_problem("attn_fwd_sm80_fp16_d64");
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
  ck_assert_str_eq(fake_info(program).origin, "here");
  ck_assert_int_eq(attune_open_memory(context, pack.bytes, pack.size, NULL), ATTUNE_OK);
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
  ck_assert_str_eq(fake_info(program).origin, "memory");
  attune_close(context);
  free(pack.bytes);
}
END_TEST

START_TEST(a_damaged_entry_is_a_miss) {
  fake_handler h = {0};
  fake_log log = {0};
  attune_program *program;
  image pack = fake_image(rows, 1);
  pack.bytes[pack.size - 100] ^= 1; /* in its only entry */
  attune_context *context = fake_open("sm_80", NULL, &log);
  ck_assert_int_eq(attune_open_memory(context, pack.bytes, pack.size, "here"), ATTUNE_OK);
  attune_problem p = fake_problem("attn_fwd_sm80_fp16_d64");
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_BAD_FILE);
  ck_assert_ptr_nonnull(strstr(attune_error(), "here: attn_fwd_sm80_fp16_d64__fma_m64n64"));
  attune_on_miss(context, fake_handle, &h);
  ck_assert_msg(attune_prepare(context, &p, &program) == ATTUNE_OK, "%s", attune_error());
  ck_assert_int_eq(h.calls, 1);
  ck_assert_str_eq(fake_info(program).origin, "jit");
  attune_close(context);
  free(pack.bytes);
}
END_TEST

/* ---- differences ----------------------------------------------------------------------------- */

static const attune_difference *find_difference(const attune_diff *diff, const char *name,
                                                const char *part) {
  for (int i = 0; i < diff->count; i++) {
    const attune_difference *d = &diff->items[i];
    if (!strcmp(d->name, name) && (part ? d->part && !strcmp(d->part, part) : !d->part)) return d;
  }
  ck_abort_msg("no difference %s %s", name, part ? part : "");
  return NULL;
}

static void expect_part(const attune_diff *diff, const char *name, const char *part,
                        const char *before, const char *after) {
  const attune_difference *d = find_difference(diff, name, part);
  ck_assert_str_eq(d->before, before);
  ck_assert_str_eq(d->after, after);
}

START_TEST(differences_are_named) {
  static const fake_row other[] = {
      {.variant = "attn_fwd_sm80_fp16_d64", .tile = "fma_m32n32"},
      {.variant = "attn_fwd_sm80_fp16_d64_causal", .corner = ATTUNE_CORNER_TOP_LEFT},
      {.variant = "attn_fwd_sm80_fp16_d64_window"}};
  char left[64], right[64];
  scratch_make(left), scratch_make(right);
  fake_set(left, rows, 3), fake_set(right, other, 3);
  attune_loaded a = load(left), b = load(right);
  attune_diff diff;
  ck_assert_int_eq(attune__set_diff(&a, &a, &diff), ATTUNE_OK);
  ck_assert_int_eq(diff.count, 0);

  attune_entry *changed = &b.entries[0]; /* of the causal kernel, which both have */
  while (strcmp(changed->name, "attn_fwd_sm80_fp16_d64_causal__fma_m64n64") != 0) changed++;
  unsigned char code[64] = {1};
  changed->facts.registers = 41, changed->facts.spill_bytes = 8, changed->recipe.smem_bytes = 2048;
  changed->recipe.abi = 77, changed->recipe.grid = 9;
  changed->payload[ATTUNE_PAYLOAD_CUBIN].data = code;
  changed->payload[ATTUNE_PAYLOAD_CUBIN].bytes = 64;
  changed->payload[ATTUNE_PAYLOAD_CUBIN].raw_bytes = 64;
  strcpy(changed->compiler, "nvrtc 99");
  strcpy(b.set.made_by, "somebody");
  ck_assert_int_eq(attune__set_diff(&a, &b, &diff), ATTUNE_OK);
  const char *causal = changed->name, *variant = "attn_fwd_sm80_fp16_d64";
  expect_part(&diff, causal, "registers", "40", "41");
  expect_part(&diff, causal, "spills", "0", "8");
  expect_part(&diff, causal, "smem", "1024", "2048");
  ck_assert_str_eq(find_difference(&diff, causal, "ABI")->after, "77");
  expect_part(&diff, causal, "grid", "1", "9");
  expect_part(&diff, causal, "compiler", "none", "nvrtc 99");
  ck_assert_ptr_nonnull(strstr(find_difference(&diff, causal, "code")->after, "64 bytes "));
  expect_part(&diff, "attn_fwd_sm80_fp16_d64_causal", "corner", "bottom_right", "top_left");
  expect_part(&diff, variant, "kernels", "attn_fwd_sm80_fp16_d64__fma_m64n64",
              "attn_fwd_sm80_fp16_d64__fma_m32n32");
  ck_assert_int_eq((int)find_difference(&diff, "attn_fwd_sm80_fp16_d64__fma_m32n32", NULL)->kind,
                   ATTUNE_DIFF_KERNEL_ADDED);
  ck_assert_int_eq((int)find_difference(&diff, variant, NULL)->kind, ATTUNE_DIFF_ROW_REMOVED);
  ck_assert_str_eq(find_difference(&diff, variant, NULL)->shape_class, "decode");
  ck_assert_int_eq(diff.kernels_added, 2);
  ck_assert_int_eq(diff.kernels_removed, 2);
  ck_assert_int_eq(diff.kernels_changed, 1);
  ck_assert_int_eq(diff.rows_added, 1);
  ck_assert_int_eq(diff.rows_removed, 1);
  ck_assert_int_eq(diff.rows_changed, 2);
  ck_assert_int_eq(diff.count, 1 + 2 + 2 + 7 + 1 + 1 + 2);
  attune__diff_free(&diff);
  attune__loaded_free(&a), attune__loaded_free(&b);
  scratch_remove(left), scratch_remove(right);
}
END_TEST

/* ---- the program ----------------------------------------------------------------------------- */

static char output[8192]; /* what the last line printed, messages too */

/* Exit code of a line of shell; $A is the program, $S this test's folder. */
static int shell(const char *folder, const char *line) {
  char self[PATH_MAX] = "", whole[3 * PATH_MAX];
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 2; i++) *strrchr(self, '/') = 0;
  snprintf(whole, sizeof whole, "A=%s/attune S=%s; exec 2>&1; %s", self, folder, line);
  FILE *pipe = popen(whole, "r");
  ck_assert_ptr_nonnull(pipe);
  output[fread(output, 1, sizeof output - 1, pipe)] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define EXPECT(code, line, text)                                                                   \
  do {                                                                                             \
    int got = shell(folder, line);                                                                 \
    ck_assert_msg(got == (code), "exit %d of %s: %s", got, line, output);                          \
    ck_assert_msg(strstr(output, text) != NULL, "%s: %s", line, output);                           \
  } while (0)

START_TEST(words_of_the_program) {
  char folder[64], spec[PATH_MAX];
  static const char text[] = "version: 1\nop: attn_fwd\narch: sm_80\ndtype: fp32\n"
                             "head_dim: [8]\nmask: [none, causal]\n";
  scratch_make(folder);
  join(spec, folder, "spec.yaml");
  ck_assert_int_eq(attune__file_publish(spec, text, sizeof text - 1), ATTUNE_OK);
  EXPECT(0, "$A build $S/spec.yaml -o $S/set", "2 kernels");
  EXPECT(0, "$A pack $S/set -o $S/a.pack", "a.pack: 2 kernels, 2 rows, ");
  EXPECT(0, "TMPDIR=$S LC_ALL=de_DE.UTF-8 $A pack $S/spec.yaml -o $S/b.pack", "2/2");
  EXPECT(0, "cmp $S/a.pack $S/b.pack && ls $S", "a.pack\nb.pack\nset\nspec.yaml\n");
  EXPECT(0, "$A unpack $S/a.pack -o $S/back && diff -r -x .keys $S/set $S/back", "2 kernels");
  EXPECT(0, "$A list $S/a.pack --count", "2\n");
  EXPECT(0, "$A list $S/set >$S/1 && $A list $S/b.pack | diff $S/1 - && cat $S/1", "registers");
  EXPECT(0, "$A verify $S/a.pack --device cpu --quick", "verified 2 of 2 kernels on cpu\n");
  EXPECT(0, "$A verify $S/a.pack --device cpu --quick --part 2/2",
         "verified 1 of 1 kernels on cpu\n");
  EXPECT(0, "$A verify $S/a.pack --device cpu --quick --part 3/3",
         "verified 0 of 0 kernels on cpu\n");
  EXPECT(2, "$A verify $S/a.pack --device cpu --part 3/2",
         "attune verify: error: --part 3/2: wanted K/N as 1/8, K from 1 to N\n");
  EXPECT(0, "$A pack --strip $S/a.pack -o $S/thin.pack --json", "\"kernels\": 2");
  EXPECT(0, "[ $(wc -c <$S/thin.pack) -lt $(wc -c <$S/a.pack) ]", "");
  EXPECT(0, "$A diff $S/a.pack $S/set", "the sets are equal\n");
  EXPECT(1, "$A diff $S/a.pack $S/thin.pack", " -> none");
  EXPECT(1, "$A diff $S/a.pack $S/thin.pack", "0 removed, 2 changed; rows: 0 added");
  EXPECT(1, "$A diff --json $S/a.pack $S/thin.pack", "\"part\": \"PTX\"");
  EXPECT(3, "$A diff $S/a.pack $S/nothing", "cannot open");
  EXPECT(2, "$A unpack $S/thin.pack -o $S/back", "is not empty");
  EXPECT(2, "$A pack $S/set", "-o FILE is missing");
  EXPECT(2, "$A pack $S/set -o $S/c.pack --arch sm_90a", "is for a spec");
  EXPECT(2, "$A unpack $S/spec.yaml -o $S/d", "is no kernel set");
  EXPECT(3, "$A pack $S/set -o $S/none/c.pack", "cannot write");
  scratch_remove(folder);
}
END_TEST

TEST_MAIN("pack", packs_round_trip, an_empty_set_is_a_pack, stripped_is_machine_code_alone,
          unpacking_is_all_or_nothing, every_flipped_bit_is_found, every_truncation_is_found,
          every_resealed_flip_is_refused_or_canonical, silly_sizes_are_refused,
          what_is_no_pack_is_said_to_be_none, contexts_open_it_as_a_folder, the_later_set_wins,
          memory_is_borrowed, a_damaged_entry_is_a_miss, differences_are_named,
          words_of_the_program)
