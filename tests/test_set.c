/* test_set.c - sets survive the trip to a folder and back; a manifest is understood whole or
 * refused.
 *
 * The manifest below is written out by hand; its digests come from the entries that the test makes.
 */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../runtime/launch.h"
#include "../runtime/set.h"
#include "test.h"

/* The parameter block's version in manifests, as text. */
#define TEXT_OF(x) #x
#define SPELLED(x) TEXT_OF(x)
#define ABI        SPELLED(ATTUNE_ABI)

static char folder[64];

static void make_folder(void) {
  mkdir("build", 0755);
  strcpy(folder, "build/tmp-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void) {
  char path[600];
  DIR *dir = opendir(folder);
  for (struct dirent *item; (item = readdir(dir));) {
    if (item->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
    if (remove(path) != 0) ck_abort_msg("%s stays", path);
  }
  closedir(dir);
  ck_assert_int_eq(rmdir(folder), 0);
}

/* ---- a set of seven kernels ---------------------------------------------------------------- */

static const char *const kernel_names[] = {
    "attn_standard_pv_sm80_fp32_d64__fma_m64n32",
    "attn_fwd_sm80_fp16_d64__fma_m64n64",
    "attn_standard_qk_sm80_fp32_d64__fma_m64n64",
    "attn_fwd_sm80_fp16_d64_window_x2b529a02__fma_m64n64",
    "attn_fwd_sm90a_fp16_d64__fma_m64n64",
    "attn_fwd_sm80_fp16_d64__fma_m16n64",
    "attn_standard_softmax_sm80_fp32_d64__fma_m4",
};
enum { KERNELS = sizeof kernel_names / sizeof *kernel_names, ROWS = 5 };
static const struct {
  const char *variant, *cls;
  attune_corner corner;
  int kernel[3];
} row_table[ROWS] = {
    {"attn_standard_sm80_fp32_d64", "any", 0, {2, 6, 0}},
    {"attn_fwd_sm80_fp16_d64", "decode", 0, {5}},
    {"attn_fwd_sm80_fp16_d64", "any", 0, {1}},
    {"attn_fwd_sm80_fp16_d64_window_x2b529a02", "any", ATTUNE_CORNER_BOTTOM_RIGHT, {3}},
    {"attn_fwd_sm90a_fp16_d64", "any", ATTUNE_CORNER_TOP_LEFT, {4}},
};

static void parse(const char *name, attune_variant *v, attune_tile *t) {
  int has_tile, is_program;
  ck_assert_msg(attune__name_parse(name, v, t, &has_tile, &is_program) == ATTUNE_OK, "%s",
                attune_error());
}

/* An entry file without payloads. */
static void make_entry(const char *name, void **bytes, size_t *size) {
  attune_entry entry;
  memset(&entry, 0, sizeof entry);
  snprintf(entry.name, sizeof entry.name, "%s", name);
  parse(name, &entry.variant, &entry.tile);
  if (entry.variant.pins)
    ck_assert_int_eq(attune__pinset_add(&entry.pins, "window_left", 127), ATTUNE_OK);
  entry.recipe.abi = ATTUNE_ABI;
  entry.recipe.param_bytes = (uint32_t)attune__param_bytes(entry.variant.op, 0);
  entry.recipe.threads = 128;
  entry.recipe.grid = ATTUNE_GRID_Q_TILES, entry.recipe.cluster = 1;
  entry.recipe.block_m = 64, entry.recipe.block_n = 64;
  ck_assert_msg(attune__entry_write(&entry, bytes, size) == ATTUNE_OK, "%s", attune_error());
}

/* Fills the set with kernels and rows in the order that `turn` rotates them to. */
static void make_set(attune__set *set, int turn) {
  memset(set, 0, sizeof *set);
  set->path = strdup(folder);
  strcpy(set->made_by, "attune 0.1.0, nvrtc 13.0.88");
  set->kernels = calloc(KERNELS, sizeof *set->kernels);
  set->rows = calloc(ROWS, sizeof *set->rows);
  set->pins = calloc(1, sizeof *set->pins);
  set->kernel_count = KERNELS, set->row_count = ROWS, set->pinset_count = 1;
  ck_assert_int_eq(attune__pinset_add(set->pins, "window_left", 127), ATTUNE_OK);
  for (int i = 0; i < KERNELS; i++) {
    void *bytes;
    size_t size;
    attune__set_kernel *kernel = &set->kernels[(i + turn) % KERNELS];
    snprintf(kernel->name, sizeof kernel->name, "%s", kernel_names[i]);
    make_entry(kernel_names[i], &bytes, &size);
    attune__sha256_hex(bytes, size, kernel->digest);
    free(bytes);
  }
  for (int i = 0; i < ROWS; i++) {
    attune_tile tile;
    int ok;
    attune__set_row *row = &set->rows[(i + turn) % ROWS];
    parse(row_table[i].variant, &row->variant, &tile);
    row->cls = (attune_class)attune__class_parse(row_table[i].cls, &ok);
    row->corner = row_table[i].corner;
    row->kernel_count = row->variant.op == ATTUNE_OP_ATTN_STANDARD ? 3 : 1;
    for (int part = 0; part < row->kernel_count; part++)
      row->kernel[part] = (row_table[i].kernel[part] + turn) % KERNELS;
  }
}

static char *read_manifest(void) {
  void *text;
  size_t size;
  char path[128];
  snprintf(path, sizeof path, "%s/manifest", folder);
  ck_assert_int_eq(attune__file_read(path, 1 << 20, &text, &size), ATTUNE_OK);
  return text;
}

/* The manifest of that set with "<>" for digests. */
static const char expected_manifest[] =
    "attune-set 1\n"
    "abi " ABI "\n"
    "made-by attune 0.1.0, nvrtc 13.0.88\n"
    "kernel attn_fwd_sm80_fp16_d64__fma_m16n64 <>\n"
    "kernel attn_fwd_sm80_fp16_d64__fma_m64n64 <>\n"
    "kernel attn_fwd_sm80_fp16_d64_window_x2b529a02__fma_m64n64 <>\n"
    "kernel attn_fwd_sm90a_fp16_d64__fma_m64n64 <>\n"
    "kernel attn_standard_pv_sm80_fp32_d64__fma_m64n32 <>\n"
    "kernel attn_standard_qk_sm80_fp32_d64__fma_m64n64 <>\n"
    "kernel attn_standard_softmax_sm80_fp32_d64__fma_m4 <>\n"
    "pin _x2b529a02 window_left=127\n"
    "row attn_fwd_sm80_fp16_d64 any - attn_fwd_sm80_fp16_d64__fma_m64n64\n"
    "row attn_fwd_sm80_fp16_d64 decode - attn_fwd_sm80_fp16_d64__fma_m16n64\n"
    "row attn_fwd_sm80_fp16_d64_window_x2b529a02 any bottom_right "
    "attn_fwd_sm80_fp16_d64_window_x2b529a02__fma_m64n64\n"
    "row attn_fwd_sm90a_fp16_d64 any top_left attn_fwd_sm90a_fp16_d64__fma_m64n64\n"
    "row attn_standard_sm80_fp32_d64 any - attn_standard_qk_sm80_fp32_d64__fma_m64n64 "
    "attn_standard_softmax_sm80_fp32_d64__fma_m4 attn_standard_pv_sm80_fp32_d64__fma_m64n32\n";

static void check_manifest_text(const char *text) {
  for (const char *expected = expected_manifest; *expected;) {
    if (strncmp(expected, "<>", 2) == 0) {
      ck_assert_uint_eq(strspn(text, "0123456789abcdef"), 64);
      text += 64, expected += 2;
    } else if (*text++ != *expected++) {
      ck_abort_msg("differs at: %.60s", text - 1);
    }
  }
  ck_assert_str_eq(text, "");
}

START_TEST(sets_round_trip) {
  attune__set set, back;
  make_folder();
  make_set(&set, 0);
  ck_assert_msg(attune__set_write(&set) == ATTUNE_OK, "%s", attune_error());
  char *text = read_manifest();
  check_manifest_text(text);
  free(text);
  ck_assert_msg(attune__set_read(folder, &back) == ATTUNE_OK, "%s", attune_error());
  ck_assert_str_eq(back.path, folder);
  ck_assert_str_eq(back.made_by, "attune 0.1.0, nvrtc 13.0.88");
  ck_assert_int_eq(back.kernel_count, KERNELS);
  ck_assert_int_eq(back.row_count, ROWS);
  ck_assert_int_eq(back.pinset_count, 1);
  ck_assert_mem_eq(back.pins, set.pins, sizeof *set.pins);
  const attune__set_row *standard = &back.rows[ROWS - 1], *window = &back.rows[2];
  ck_assert_int_eq(standard->kernel_count, 3);
  ck_assert_str_eq(back.kernels[standard->kernel[0]].name, kernel_names[2]);
  ck_assert_str_eq(back.kernels[standard->kernel[1]].name, kernel_names[6]);
  ck_assert_str_eq(back.kernels[standard->kernel[2]].name, kernel_names[0]);
  ck_assert_int_eq((int)window->corner, ATTUNE_CORNER_BOTTOM_RIGHT);
  ck_assert_int_eq((int)back.rows[1].cls, ATTUNE_CLASS_DECODE);
  attune__set_free(&set);
  attune__set_free(&back);
  attune__set_free(&back); /* harmless when empty */
  remove_folder();
}
END_TEST

START_TEST(equal_sets_have_equal_manifests) {
  make_folder();
  for (int turn = 0; turn < KERNELS; turn++) {
    attune__set set;
    make_set(&set, turn);
    ck_assert_int_eq(attune__set_write(&set), ATTUNE_OK);
    char *text = read_manifest();
    check_manifest_text(text);
    free(text);
    attune__set_free(&set);
  }
  remove_folder();
}
END_TEST

START_TEST(an_empty_set_is_a_set) {
  attune__set set = {0}, back;
  make_folder();
  set.path = folder;
  ck_assert_int_eq(attune__set_write(&set), ATTUNE_OK);
  ck_assert_int_eq(attune__set_read(folder, &back), ATTUNE_OK);
  ck_assert_int_eq(back.kernel_count + back.row_count + back.pinset_count, 0);
  attune__set_free(&back);
  remove_folder();
}
END_TEST

START_TEST(a_missing_set_says_where_it_looked) {
  attune__set set;
  ck_assert_int_eq(attune__set_read("build/no-such-set", &set), ATTUNE_IO);
  ck_assert_ptr_nonnull(strstr(attune_error(), "build/no-such-set/manifest"));
}
END_TEST

#define UNWRITABLE(change, message)                                                                \
  do {                                                                                             \
    attune__set set;                                                                               \
    make_set(&set, 0);                                                                             \
    change;                                                                                        \
    ck_assert_int_eq(attune__set_write(&set), ATTUNE_INVALID);                                     \
    ck_assert_msg(strstr(attune_error(), message) != NULL, "%s", attune_error());                  \
    attune__set_free(&set);                                                                        \
  } while (0)

START_TEST(what_cannot_be_read_is_not_written) {
  make_folder();
  UNWRITABLE(set.kernels[5] = set.kernels[1], "stands twice");
  UNWRITABLE((set.kernels[5] = set.kernels[1], set.kernels[5].digest[0] ^= 1), "listed twice");
  UNWRITABLE((set.rows[1] = set.rows[2], set.rows[1].corner = ATTUNE_CORNER_TOP_LEFT),
             "stands twice");
  UNWRITABLE(set.rows[1].kernel[0] = -1, "'?', which is not listed");
  UNWRITABLE(set.rows[1].kernel[0] = KERNELS, "'?', which is not listed");
  UNWRITABLE(set.rows[1].kernel_count = 0, "expected 'row");
  UNWRITABLE(set.rows[0].kernel_count = 2, "has 3 kernels, found 2");
  UNWRITABLE(set.rows[1].kernel[0] = 4, "is not part 0 of the row's variant");
  UNWRITABLE(set.pinset_count = 0, "no pin line for the kernel");
  UNWRITABLE(set.kernels[1].digest[0] = 0, "expected");
  UNWRITABLE(set.kernels[1].digest[0] = 'X', "is no SHA-256");
  UNWRITABLE(set.kernels[1].name[0] = 'A', "is not a kernel name");
  UNWRITABLE(strcpy(set.made_by, "two\nlines"), "expected kernel, pin or row");
  remove_folder(); /* empty: nothing was published */
}
END_TEST

/* ---- manifests from elsewhere -------------------------------------------------------------- */

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEAD   "attune-set 1\nabi " ABI "\nmade-by anyone\n"
#define FWD    "attn_fwd_sm80_fp16_d64"
#define KERNEL "kernel " FWD "__fma_m64n64 " DIGEST "\n"
#define ROW    "row " FWD " any - " FWD "__fma_m64n64\n"

static void check_bad(const char *text, size_t size, const char *message) {
  attune__set set;
  attune_status status = attune__manifest_parse(text, size, "M", &set);
  attune__set_free(&set);
  ck_assert_msg(status == ATTUNE_BAD_FILE, "status %d for:\n%s", (int)status, text);
  ck_assert_str_eq(attune_error(), message);
}
#define BAD(text, message) check_bad(text, sizeof(text) - 1, message)

START_TEST(first_lines_are_checked) {
  BAD("", "M:0: the file ends before its third line");
  BAD("attune-set 1\nabi " ABI "\n", "M:2: the file ends before its third line");
  BAD("attune-set 2\n",
      "M:1: expected 'attune-set 1', found 'attune-set 2': build the set again with this attune");
  BAD("hello\n",
      "M:1: expected 'attune-set 1', found 'hello': build the set again with this attune");
  BAD("attune-set 1\nabi 99\n",
      "M:2: expected 'abi " ABI "', found 'abi 99': build the set again with this attune");
  BAD("attune-set 1\nabi " ABI "\nkernel\n", "M:3: expected 'made-by ...', found 'kernel'");
  BAD("attune-set 1\r\n", "M:1: the control character 13");
  BAD("attune-set 1\0\n", "M:1: the control character 0");
  BAD("attune-set 1", "M:1: the last line is cut off");
}
END_TEST

START_TEST(unknown_lines_are_refused) {
  BAD(HEAD "hint fast\n", "M:4: expected kernel, pin or row, found 'hint'");
  BAD(HEAD "\n", "M:4: expected a few words with one space between them, found ''");
  BAD(HEAD "# note\n", "M:4: expected kernel, pin or row, found '#'");
  BAD(HEAD "kernel  a b\n",
      "M:4: expected a few words with one space between them, found 'kernel  a b'");
  BAD(HEAD "kernel a \n",
      "M:4: expected a few words with one space between them, found 'kernel a '");
  BAD(HEAD KERNEL "row", "M:5: the last line is cut off");
}
END_TEST

START_TEST(kernel_lines_are_checked) {
  BAD(HEAD KERNEL KERNEL, "M:5: 'kernel " FWD "__fma_m64n64 " DIGEST "' is out of order or stands "
                          "twice");
  BAD(HEAD "kernel " FWD "__fma_m64n64 " DIGEST "\nkernel " FWD "__fma_m64n64 f" DIGEST "\n",
      "M:5: 'f" DIGEST "' is no SHA-256");
  BAD(HEAD "kernel " FWD "__fma_m64n64\n",
      "M:4: expected 'kernel NAME SHA256', found 'kernel " FWD "__fma_m64n64'");
  BAD(HEAD "kernel " FWD " " DIGEST "\n", "M:4: '" FWD "' names no tile");
  BAD(HEAD "kernel " FWD "__fma_m64n64 abc\n", "M:4: 'abc' is no SHA-256");
  BAD(HEAD "kernel " FWD "__fma_m64s1 " DIGEST "\n",
      "M:4: '" FWD "__fma_m64s1' is not how this kernel is spelled: write '" FWD "__fma_m64'");
  BAD(HEAD "kernel " FWD "_x2b529a02__fma " DIGEST "\n",
      "M: no pin line for the kernel " FWD "_x2b529a02__fma");
}
END_TEST

START_TEST(pin_lines_are_checked) {
  BAD(HEAD "pin _x2b529a02\n", "M:4: expected 'pin _xDIGEST NAME=VALUE', found 'pin _x2b529a02'");
  BAD(HEAD "pin _x2b529a02 window_left\n", "M:4: expected NAME=VALUE, found 'window_left'");
  BAD(HEAD "pin _x2b529a02 window_left=1,5\n", "M:4: expected NAME=VALUE, found 'window_left=1,5'");
  BAD(HEAD "pin _x2b529a03 window_left=127\n", "M:4: these pins are _x2b529a02, not '_x2b529a03'");
  BAD(HEAD "pin _x2b529a02 scale=1 scale=1\n", "M:4: pin scale: given twice");
}
END_TEST

START_TEST(row_lines_are_checked) {
  BAD(HEAD KERNEL ROW ROW, "M:6: 'row " FWD " any - " FWD "__fma_m64n64' is out of order or stands "
                           "twice");
  BAD(HEAD KERNEL ROW "row " FWD " any top_left " FWD "__fma_m64n64\n",
      "M:6: the row " FWD " any stands twice");
  BAD(HEAD ROW, "M:4: the row names the kernel '" FWD "__fma_m64n64', which is not listed");
  BAD(HEAD KERNEL "row " FWD " any - " FWD "__fma_m32n64\n",
      "M:5: the row names the kernel '" FWD "__fma_m32n64', which is not listed");
  BAD(HEAD KERNEL "row " FWD "_causal any - " FWD "__fma_m64n64\n",
      "M:5: the kernel " FWD "__fma_m64n64 is not part 0 of the row's variant");
  BAD(HEAD KERNEL "row " FWD " all - " FWD "__fma_m64n64\n", "M:5: 'all' is no shape class");
  BAD(HEAD KERNEL "row " FWD " any 0 " FWD "__fma_m64n64\n",
      "M:5: '0' is no corner: top_left, bottom_right or -");
  BAD(HEAD KERNEL "row " FWD " any - " FWD "__fma_m64n64 " FWD "__fma_m64n64\n",
      "M:5: " FWD " has 1 kernels, found 2");
  BAD(HEAD KERNEL "row " FWD "__fma_m64n64 any - " FWD "__fma_m64n64\n",
      "M:5: '" FWD "__fma_m64n64' is no variant's name");
  BAD(HEAD KERNEL "row attn_standard_qk_sm80_fp16_d64 any - " FWD "__fma_m64n64\n",
      "M:5: 'attn_standard_qk_sm80_fp16_d64' is no variant's name");
}
END_TEST

/* Any cut is either refused, or it ends with a line and holds fewer of them. */
START_TEST(cut_manifests_do_no_harm) {
  static const char text[] = HEAD KERNEL ROW;
  for (size_t size = 0; size < sizeof text - 1; size++) {
    attune__set set;
    char *exact = malloc(size ? size : 1);
    memcpy(exact, text, size);
    attune_status status = attune__manifest_parse(exact, size, "M", &set);
    int whole_lines = size >= sizeof(HEAD) - 1 && text[size - 1] == '\n';
    if ((status == ATTUNE_OK) != whole_lines) ck_abort_msg("%zu bytes: status %d", size, status);
    attune__set_free(&set);
    free(exact);
  }
}
END_TEST

START_TEST(overlong_lines_are_refused) {
  enum { BYTES = 100000 };
  attune__set set;
  char *text = malloc(BYTES);
  memset(text, 'x', BYTES);
  text[BYTES - 1] = '\n';
  ck_assert_int_eq(attune__manifest_parse(text, BYTES, "M", &set), ATTUNE_BAD_FILE);
  ck_assert_str_eq(attune_error(), "M:1: a line of 99999 bytes");
  attune__set_free(&set);
  free(text);
}
END_TEST

/* ---- entries of a set ---------------------------------------------------------------------- */

/* Writes the set with every entry file. */
static void publish_set(attune__set *set) {
  make_set(set, 0);
  for (int i = 0; i < KERNELS; i++) {
    void *bytes;
    size_t size;
    char *path = attune__set_entry_path(folder, kernel_names[i]);
    make_entry(kernel_names[i], &bytes, &size);
    ck_assert_int_eq(attune__file_publish(path, bytes, size), ATTUNE_OK);
    free(path);
    free(bytes);
  }
  ck_assert_int_eq(attune__set_write(set), ATTUNE_OK);
}

START_TEST(entries_of_a_set_are_read) {
  attune__set set;
  make_folder();
  publish_set(&set);
  for (int i = 0; i < KERNELS; i++) {
    void *bytes;
    attune_entry entry;
    ck_assert_msg(attune__set_entry(&set, i, &bytes, &entry) == ATTUNE_OK, "%s", attune_error());
    ck_assert_str_eq(entry.name, kernel_names[i]);
    free(bytes);
  }
  attune__set_free(&set);
  remove_folder();
}
END_TEST

static void check_entry(const attune__set *set, int kernel, attune_status expected,
                        const char *message) {
  void *bytes = &bytes;
  attune_entry entry;
  ck_assert_int_eq(attune__set_entry(set, kernel, &bytes, &entry), expected);
  ck_assert_ptr_null(bytes);
  ck_assert_msg(strstr(attune_error(), message) != NULL, "%s", attune_error());
}

START_TEST(damaged_entries_are_bad_files) {
  attune__set set;
  void *bytes;
  size_t size;
  make_folder();
  publish_set(&set);
  char *first = attune__set_entry_path(folder, kernel_names[1]);
  char *second = attune__set_entry_path(folder, kernel_names[2]);
  ck_assert_int_eq(attune__file_read(first, ATTUNE_ENTRY_MAX, &bytes, &size), ATTUNE_OK);
  ck_assert_int_eq(attune__file_publish(second, bytes, size), ATTUNE_OK); /* another kernel's */
  check_entry(&set, 2, ATTUNE_BAD_FILE, "is not the file that the manifest lists");
  attune__sha256_hex(bytes, size, set.kernels[2].digest); /* even when the manifest says so */
  check_entry(&set, 2, ATTUNE_BAD_FILE, "holds the kernel attn_fwd_sm80_fp16_d64__fma_m64n64");
  ((char *)bytes)[size / 2] ^= 1;
  ck_assert_int_eq(attune__file_publish(first, bytes, size), ATTUNE_OK);
  check_entry(&set, 1, ATTUNE_BAD_FILE, "is not the file that the manifest lists");
  attune__sha256_hex(bytes, size, set.kernels[1].digest);
  check_entry(&set, 1, ATTUNE_BAD_FILE, "the checksum differs");
  ck_assert_int_eq(attune__file_publish(first, bytes, 0), ATTUNE_OK);
  check_entry(&set, 1, ATTUNE_BAD_FILE, "is not the file that the manifest lists");
  ck_assert_int_eq(remove(first), 0);
  check_entry(&set, 1, ATTUNE_IO, "No such file or directory");
  free(bytes);
  free(first);
  free(second);
  attune__set_free(&set);
  remove_folder();
}
END_TEST

TEST_MAIN("set", sets_round_trip, equal_sets_have_equal_manifests, an_empty_set_is_a_set,
          a_missing_set_says_where_it_looked, what_cannot_be_read_is_not_written,
          first_lines_are_checked, unknown_lines_are_refused, kernel_lines_are_checked,
          pin_lines_are_checked, row_lines_are_checked, cut_manifests_do_no_harm,
          overlong_lines_are_refused, entries_of_a_set_are_read, damaged_entries_are_bad_files)
