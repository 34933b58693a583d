/* test_source.c - attune verify --source, run as a user runs it: what `attune emit` wrote verifies
 * as it is, faults that were edited in are caught at the file's own line, and a data sheet that was
 * touched is refused at its line. On the CPU device; needs NVRTC. */
#include "scratch.h"
#include "test.h"

#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#define KERNEL "attn_fwd_sm80_fp32_d32_causal__fma_m32n32"

enum { OUTPUT_MAX = 1 << 16, TEXT_MAX = 1 << 18 };
static char folder[64];
static char output[OUTPUT_MAX]; /* stdout and stderr of the last run */
static char text[TEXT_MAX];     /* of the kernel, by now edited */

/* Exit code of `attune WORDS`; the program lies beside the folder of this test. */
static int attune(const char *format, const char *word) {
  char self[PATH_MAX] = "", line[2 * PATH_MAX], words[512];
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 2; i++) *strrchr(self, '/') = 0;
  snprintf(words, sizeof words, format, word);
  snprintf(line, sizeof line, "%s/attune %s 2>&1", self, words);
  FILE *pipe = popen(line, "r");
  ck_assert_ptr_nonnull(pipe);
  size_t size = fread(output, 1, sizeof output - 1, pipe);
  output[size] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const char *wanted) {
  ck_assert_msg(strstr(output, wanted) != NULL, "'%s' is missing in:\n%s", wanted, output);
}

static const char *path(void) {
  static char file[128];
  snprintf(file, sizeof file, "%s/k.cu", folder);
  return file;
}

/* Puts into `text` what attune emits for a name; options stand before it. */
static void emit(const char *name) {
  char words[512];
  if (!*folder) scratch_make(folder);
  snprintf(words, sizeof words, "emit %s -o %s", name, path());
  ck_assert_msg(attune("%s", words) == 0, "%s", output);
  FILE *file = fopen(path(), "r");
  ck_assert_ptr_nonnull(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
}

/* Line of the first place of a word, which must be there. */
static int line_of(const char *word) {
  const char *at = strstr(text, word);
  ck_assert_msg(at != NULL, "the kernel has no '%s'", word);
  int line = 1;
  for (const char *c = text; c < at; c++) line += *c == '\n';
  return line;
}

/* Replaces the first place of a word; returns its line. */
static int edit(const char *word, const char *by) {
  int line = line_of(word);
  char *at = strstr(text, word);
  size_t rest = strlen(at + strlen(word)) + 1;
  ck_assert_uint_lt(strlen(text) + strlen(by), sizeof text);
  memmove(at + strlen(by), at + strlen(word), rest);
  memcpy(at, by, strlen(by));
  return line;
}

/* Exit code of verify on `text`. */
static int verify(void) {
  FILE *file = fopen(path(), "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
  ck_assert_int_eq(fclose(file), 0);
  return attune("verify --source %s --device cpu", path());
}

/* "path:line" and what follows; compilers write "path(line)". */
static void expect_at(int line, const char *what) {
  char wanted[512];
  snprintf(wanted, sizeof wanted, "%s:%d%s", path(), line, what);
  expect(wanted);
}
static void expect_compiler_at(int line, const char *what) {
  char wanted[512];
  snprintf(wanted, sizeof wanted, "%s(%d): error: %s", path(), line, what);
  expect(wanted);
}

/* ---- texts that are right ---------------------------------------------------------------------
 */

START_TEST(untouched) {
  emit(KERNEL);
  ck_assert_msg(verify() == 0, "%s", output);
  expect_at(1, ": " KERNEL ", as attune writes it");
  expect(KERNEL ": pass");
  expect("verified 1 of 1 kernels on cpu\n");
}
END_TEST

/* Another text of the same meaning, and a note in the head behind the sheet. */
START_TEST(edited_for_the_better) {
  emit(KERNEL);
  edit("rows.sum[i] *= factor;", "rows.sum[i] = rows.sum[i] * factor;");
  edit("\n\nconstexpr", "\n// tried: another order of the sum\n\nconstexpr");
  ck_assert_msg(verify() == 0, "%s", output);
  expect_at(1, ": " KERNEL ", edited");
  expect("verified 1 of 1 kernels on cpu\n");
}
END_TEST

/* What an outline leaves out is put back; what stands there counts. */
START_TEST(an_outline) {
  emit("--outline " KERNEL);
  ck_assert_ptr_null(strstr(text, "struct Params"));
  ck_assert_msg(verify() == 0, "%s", output);
  expect_at(1, ": " KERNEL ", as attune writes it");
  expect("verified 1 of 1 kernels on cpu\n");
  edit("rows.sum[i] *= factor;", "rows.sum[i] = rows.sum[i] * factor;");
  ck_assert_msg(verify() == 0, "%s", output);
  expect_at(1, ": " KERNEL ", edited");
  edit("rows.sum[i] = rows.sum[i] * factor;", "");
  ck_assert_int_eq(verify(), 1);
  expect(KERNEL ": FAIL");
}
END_TEST

START_TEST(faults_of_an_outline_have_the_files_line) {
  emit("--outline " KERNEL);
  int line = edit("rows.sum[i] *= factor;", "rows.sum[i] *= facto;");
  ck_assert_int_ne(verify(), 0);
  expect_compiler_at(line, "identifier \"facto\" is undefined");
  emit("--outline " KERNEL);
  line = edit("prim/math.cuh", "prim/nowhere.cuh");
  ck_assert_int_eq(verify(), 2);
  expect_at(line, ": error: there is no template 'prim/nowhere.cuh'\n"
                  "//@ include(\"prim/nowhere.cuh\")");
  ck_assert_int_eq(attune("emit --lines --outline %s", KERNEL), 2);
  expect("attune emit: error: an outline has no #line: leave out --lines or --outline\n");
}
END_TEST

START_TEST(several_kernels_in_outline) {
  emit("--outline attn_standard_sm80_fp32_d32");
  ck_assert_msg(verify() == 0, "%s", output);
  expect("verified 3 of 3 kernels on cpu\n");
  ck_assert_ptr_null(strstr(output, ", edited"));
}
END_TEST

/* Without the wait a kernel is launched when what is ahead of it has ended. */
START_TEST(edited_to_be_patient) {
  emit("attn_fwd_sm90a_fp32_d32_causal__fma_m32n32");
  edit("  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n", "");
  ck_assert_msg(verify() == 0, "%s", output);
  expect("verified 1 of 1 kernels on cpu\n");
}
END_TEST

START_TEST(several_kernels) {
  emit("attn_standard_sm80_fp32_d32");
  int third = line_of("// attn_standard_pv");
  ck_assert_msg(verify() == 0, "%s", output);
  expect_at(3, ": attn_standard_qk_sm80_fp32_d32__");
  expect_at(third, ": attn_standard_pv_sm80_fp32_d32__");
  expect("verified 3 of 3 kernels on cpu\n");
}
END_TEST

START_TEST(one_part_of_several) {
  emit("attn_standard_softmax_sm80_fp32_d32");
  ck_assert_msg(verify() == 0, "%s", output);
  expect("attn_standard_sm80_fp32_d32: pass");
}
END_TEST

/* Pins stand in the spec line alone: the name has their digest. */
START_TEST(pinned) {
  if (!*folder) scratch_make(folder);
  char spec[128], words[384];
  snprintf(spec, sizeof spec, "%s/pin.yaml", folder);
  FILE *file = fopen(spec, "w");
  ck_assert_ptr_nonnull(file);
  fputs("{version: 1, op: attn_fwd, arch: sm_80, dtype: fp32, head_dim: 32, mask: window,\n"
        " pin: {window_left: 20, window_right: 0}}\n",
        file);
  fclose(file);
  ck_assert_msg(attune("list %s", spec) == 0, "%s", output);
  output[strcspn(output, " \n")] = 0;
  snprintf(words, sizeof words, "%.160s --spec %s", output, spec);
  emit(words);
  ck_assert_msg(verify() == 0, "%s", output);
  int line = edit("pin: {window_left: 20", "pin: {window_left: 21");
  ck_assert_int_eq(line, 6);
  ck_assert_int_eq(verify(), 2);
  expect_at(1, ": found '// attn_fwd_sm80_fp32_d32_window_x");
}
END_TEST

/* ---- faults in the body ------------------------------------------------------------------------
 */

START_TEST(a_wrong_result_is_caught) {
  emit(KERNEL);
  edit("rows.sum[i] *= factor;", "");
  ck_assert_int_eq(verify(), 1);
  expect(KERNEL ": FAIL");
  expect("verified 0 of 1 kernels on cpu\n");
}
END_TEST

/* Family mma rescales only where a maximum rises by more than its slack: normal scores never make
 * it, and a causal row must see several tiles. */
START_TEST(a_lost_rescale_is_caught) {
  emit("attn_fwd_sm80_fp16_d64_causal__mma_m64n64");
  edit("rows.sum[b][half] *= factor;", "");
  ck_assert_int_eq(verify(), 1);
  expect("wide_scores");
}
END_TEST

/* Rows that see no key of a sequence that is NaN throughout, beside rows that do. */
START_TEST(an_empty_row_is_judged) {
  emit("attn_fwd_sm80_bf16_d40_causal_varlen__mma_m64n32");
  edit("if (factor == 0) clear_row(rows, b, half);", "");
  ck_assert_int_eq(verify(), 1);
  expect("is nan, want 0: the row sees no key");
}
END_TEST

/* The report names a line of the edited file, below the one that lost its barrier's work. */
START_TEST(a_race_is_caught) {
  emit(KERNEL);
  edit("j1 - j0);\n    __syncthreads();\n  }", "j1 - j0);\n  }");
  ck_assert_int_eq(verify(), 1);
  char wanted[256];
  snprintf(wanted, sizeof wanted, ", %s:", path());
  expect("(kernel " KERNEL ", block ");
  expect(wanted);
}
END_TEST

START_TEST(an_error_has_the_files_line) {
  emit(KERNEL);
  int line = edit("rows.sum[i] *= factor;", "rows.sum[i] *= factr;");
  ck_assert_int_eq(verify(), 1);
  expect_compiler_at(line, "identifier \"factr\" is undefined");
}
END_TEST

START_TEST(shared_memory_must_match_the_ledger) {
  emit(KERNEL);
  edit("struct Smem {\n", "struct Smem {\n  float more[4];\n");
  int line = line_of("struct Smem and the ledger differ");
  ck_assert_int_eq(verify(), 1);
  expect_compiler_at(line, "static assertion failed with \"struct Smem and the ledger differ\"");
}
END_TEST

/* ---- heads ------------------------------------------------------------------------------------
 */

START_TEST(a_touched_sheet_is_refused) {
  static const struct {
    int line; /* that is named; 0: the edited one */
    const char *word, *by, *message;
  } cases[] = {
      {1, KERNEL "\n", KERNEL "x\n", ": "},
      {1, "// " KERNEL, KERNEL, ": found '" KERNEL "', wanted '// ' and a kernel's name"},
      {1, "__fma_m32n32\n", "\n", ", wanted the name of a kernel with its tile"},
      {6, "_d32_", "_d40_", "head_dim: 40, mask: causal, family: fma"},
      {6, "mask: causal", "mask: cusal", "'cusal' is not a mask"},
      {6, "block_m: 32", "block_m: 64", "tile: {block_m: 32, "},
      {6, "head_dim: 32", "head_dim: [32, 64]", ", wanted a spec of exactly one variant"},
      {1, "// spec ", "// recipe ", " has no line '// spec "},
      {0, "threads a block", "threads a warp", ", wanted '// launch  128 threads a block"},
      {0, ", ABI ", ", ABI 1", ", wanted '// made by attune "},
      {0, "//   total", "//   sum  ", ", wanted '//   total"},
      {0, "bytes moved ", "bytes wanted", ", wanted '// bytes moved "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    emit(KERNEL);
    int line = edit(cases[i].word, cases[i].by);
    ck_assert_msg(verify() == 2, "case %zu: %s", i, output);
    expect(cases[i].message);
    expect_at(cases[i].line ? cases[i].line : line, "");
  }
}
END_TEST

START_TEST(files_that_are_none) {
  emit(KERNEL);
  text[0] = 0;
  ck_assert_int_eq(verify(), 2);
  expect("the file is empty");
  snprintf(text, sizeof text, "int main(void) { return 0; }\n");
  ck_assert_int_eq(verify(), 2);
  expect_at(1, ": found 'int main(void)");
  ck_assert_int_eq(attune("verify --source %s/absent.cu --device cpu", folder), 3);
  ck_assert_int_eq(attune("verify --source %s/k.cu " KERNEL, folder), 2);
  expect("--source F alone");
  ck_assert_int_eq(attune("verify %s", ""), 2);
}
END_TEST

START_TEST(the_folder_goes) {
  scratch_remove(folder);
}
END_TEST

TEST_MAIN("source", untouched, edited_for_the_better, edited_to_be_patient, an_outline,
          faults_of_an_outline_have_the_files_line, several_kernels_in_outline, several_kernels,
          one_part_of_several, pinned, a_wrong_result_is_caught, a_lost_rescale_is_caught,
          an_empty_row_is_judged, a_race_is_caught, an_error_has_the_files_line,
          shared_memory_must_match_the_ledger, a_touched_sheet_is_refused, files_that_are_none,
          the_folder_goes)
