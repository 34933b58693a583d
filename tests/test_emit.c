/* test_emit.c - kernels as CUDA text: the same bytes from any process, golden files, what the head
 * says, and which template changes which op's digest.
 *
 * Templates are read once per process, so this program is its own helper: started with EMIT_HELPER
 * set it prints a kernel (or, for "digests", each op's digest) and ends. */
#include "../gen/model.h"
#include "../gen/template.h"
#include "../runtime/launch.h"
#include "origins.h"
#include "test.h"

#include <dirent.h>
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <unistd.h>

static const char sample[] = "attn_fwd_sm90a_bf16_d128_causal__fma_m64n64";

/* ---- kernels ------------------------------------------------------------------------- */

static attune_status kernel_named(const char *name, attune_kernel *out) {
  attune_variant variant;
  attune_tile tile;
  int has_tile, is_program;
  attune_status status = attune__name_parse(name, &variant, &tile, &has_tile, &is_program);
  if (status == ATTUNE_OK) status = attune__kernel_make(&variant, &tile, NULL, out);
  return status;
}

/* malloc'ed text of a kernel; fails the test when there is an error. */
static char *emitted(const attune_kernel *kernel, const attune_emit_options *options) {
  attune__text out = {0};
  attune_status status = attune__emit(kernel, options, &out);
  ck_assert_msg(status == ATTUNE_OK, "%s: %s", kernel->name, attune_error());
  return out.data;
}

static char *emitted_by_name(const char *name, int lines) {
  attune_kernel kernel;
  ck_assert_msg(kernel_named(name, &kernel) == ATTUNE_OK, "%s: %s", name, attune_error());
  attune_emit_options options = {.lines = lines};
  return emitted(&kernel, &options);
}

/* Calls visit for the first legal tile of a variant in a family; returns 0 when it has no kernel.
 */
static int first_kernel(const attune_variant *v, int family, void (*visit)(const attune_kernel *)) {
  attune_tile tiles[ATTUNE_MAX_CANDIDATES];
  attune_kernel kernel;
  char reason[ATTUNE_REASON_MAX];
  if (!attune__family_serves(v, family, reason, sizeof reason)) return 0;
  const attune_model *model = attune__model(v->op, v->part, family);
  int found = model->candidates(v, tiles, ATTUNE_MAX_CANDIDATES), tile = 0;
  while (tile < found && attune__kernel_make(v, &tiles[tile], NULL, &kernel)) tile++;
  ck_assert_int_lt(tile, found);
  visit(&kernel);
  return 1;
}

/* The same for every kernel of a small matrix; returns how many. */
static int each_kernel(void (*visit)(const attune_kernel *)) {
  static const struct {
    int op, part, dtype, dims;
  } rows[] = {{ATTUNE_OP_ATTN_FWD, 0, ATTUNE_DTYPE_FP32, 64},
              {ATTUNE_OP_ATTN_FWD, 0, ATTUNE_DTYPE_FP16, 40},
              {ATTUNE_OP_ATTN_FWD, 0, ATTUNE_DTYPE_BF16, 128},
              {ATTUNE_OP_ATTN_STANDARD, 0, ATTUNE_DTYPE_FP32, 64},
              {ATTUNE_OP_ATTN_STANDARD, 1, ATTUNE_DTYPE_FP32, 64},
              {ATTUNE_OP_ATTN_STANDARD, 2, ATTUNE_DTYPE_FP32, 64}};
  static const char *const archs[] = {"sm_75", "sm_90a"};
  int count = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int mask = ATTUNE_MASK_NONE; mask <= ATTUNE_MASK_WINDOW; mask++)
      for (int align = ATTUNE_ALIGN_16B; align <= ATTUNE_ALIGN_ELEM; align++)
        for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
          attune_variant v = {.arch = attune__arch_parse(archs[a]), .group = 1};
          v.op = (uint8_t)rows[i].op, v.part = (uint8_t)rows[i].part;
          v.dtype_q = v.dtype_kv = v.dtype_out = (uint8_t)rows[i].dtype;
          v.head_dim_qk = v.head_dim_v = (uint16_t)rows[i].dims;
          v.mask = (uint8_t)mask, v.align = (uint8_t)align;
          count += first_kernel(&v, ATTUNE_FAMILY_FMA, visit);
          count += first_kernel(&v, ATTUNE_FAMILY_MMA, visit);
          count += first_kernel(&v, ATTUNE_FAMILY_WGMMA, visit);
        }
  return count;
}

/* 72 of family fma; of mma a mask each of fp16 on both archs and of bf16 on the later one; of wgmma
 * of both on the later one. */
enum { KERNELS = 72 + 3 * (2 + 1) + 3 * 2 };

/* ---- the text ------------------------------------------------------------------------ */

static void check_plain_text(const attune_kernel *kernel) {
  char *text = emitted(kernel, NULL);
  size_t size = strlen(text);
  static const char *const never[] = {"\r",  "\n\n\n", " \n",      "\t",    "$(",
                                      "//@", "//--",   "#include", "#line", "/attune/"};
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    ck_assert_msg(strstr(text, never[i]) == NULL, "%s: has '%s'", kernel->name, never[i]);
  ck_assert(text[0] != '\n' && text[size - 1] == '\n' && text[size - 2] != '\n');
  ck_assert_ptr_nonnull(strstr(text, kernel->name));
  free(text);
}

START_TEST(text_is_tidy) {
  ck_assert_int_eq(each_kernel(check_plain_text), KERNELS);
}
END_TEST

static void check_lines(const attune_kernel *kernel) {
  const attune_template_file *files;
  int count;
  ck_assert_int_eq(attune__template_files(&files, &count), ATTUNE_OK);
  attune_emit_options options = {.lines = 1};
  char *text = emitted(kernel, &options), *plain = emitted(kernel, NULL);
  attune__text stripped = {0};
  ck_assert_int_gt(check_origins(files, count, text), 100);
  without_directives(text, &stripped);
  ck_assert_str_eq(stripped.data, plain);
  attune__text_free(&stripped);
  free(text), free(plain);
}

START_TEST(lines_point_at_templates) {
  ck_assert_int_eq(each_kernel(check_lines), KERNELS);
}
END_TEST

/* ---- outlines ------------------------------------------------------------------------ */

/* Control lines of an outline: each includes a part. */
static int parts_of(const char *text) {
  int parts = 0;
  for (const char *at = text; (at = strstr(at, "//@")); at++, parts++) {
    ck_assert_msg(at == text || at[-1] == '\n', "%.60s", at);
    ck_assert_msg(!strncmp(at, "//@ include(\"", 13), "%.60s", at);
  }
  return parts;
}

/* An outline is short enough to be read, and expanded it is the whole text; from a later line of a
 * file #line says so. */
enum { OUTLINE_LINES = 600, AT_LINE = 7 };
static void check_outline(const attune_kernel *kernel) {
  attune_emit_options options = {.outline = 1}, with_lines = {.lines = 1};
  char *outline = emitted(kernel, &options), *plain = emitted(kernel, NULL), first[64];
  attune__text whole = {0}, numbered = {0}, stripped = {0};
  int lines = 0;
  for (const char *c = outline; *c; c++) lines += *c == '\n';
  ck_assert_msg(lines <= OUTLINE_LINES, "%s: %d lines", kernel->name, lines);
  ck_assert_int_gt(parts_of(outline), 4);
  ck_assert_int_eq(attune__emit_outline(kernel, NULL, "k.cu", 1, outline, strlen(outline), &whole),
                   ATTUNE_OK);
  ck_assert_str_eq(whole.data, plain);
  ck_assert_int_eq(attune__emit_outline(kernel, &with_lines, "my \"k\".cu", AT_LINE, outline,
                                        strlen(outline), &numbered),
                   ATTUNE_OK);
  snprintf(first, sizeof first, "#line %d \"/attune/my \\\"k\\\".cu\"\n// ", AT_LINE);
  ck_assert_msg(!strncmp(numbered.data, first, strlen(first)), "%.80s", numbered.data);
  without_directives(numbered.data, &stripped);
  ck_assert_str_eq(stripped.data, plain);
  attune__text_free(&whole), attune__text_free(&numbered), attune__text_free(&stripped);
  free(outline), free(plain);
}

START_TEST(outlines_are_short_and_give_the_whole) {
  static const char *const largest[] = {
      "attn_fwd_sm90a_bf16_d128_causal__wgmma_m128n128s2w12q1o1z1g1",
      "attn_fwd_sm90a_bf16_d192x128_window__wgmma_m128n128s2w12o3c1g1",
      "attn_fwd_sm90a_fp16_d64_window_g4_alibi_sink_varlen__wgmma_m128n128s2w12q1o3c1g1",
      "attn_fwd_sm90a_bf16_d64_window__middle_m64n128k32s5w16",
      "attn_fwd_sm90a_bf16_d80__middle_m64n112k32s3w16t1c1",
      "attn_fwd_sm90a_bf16_d64__short_m200n200s3w16o1t1c1",
      "attn_fwd_sm80_fp16_d128_window_alibi_bias_sink_bitmask_varlen__mma_m64n64"};
  ck_assert_int_eq(each_kernel(check_outline), KERNELS);
  for (size_t i = 0; i < sizeof largest / sizeof *largest; i++) {
    attune_kernel kernel;
    ck_assert_msg(kernel_named(largest[i], &kernel) == ATTUNE_OK, "%s: %s", largest[i],
                  attune_error());
    check_outline(&kernel);
  }
}
END_TEST

/* ---- the head ------------------------------------------------------------------------ */

static int has_line(const char *text, const char *format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return strstr(text, line) != NULL;
}

/* Size of a member of struct Params from its CUDA text. */
static size_t member_size(const char *declaration) {
  if (memchr(declaration, '*', strcspn(declaration, ";"))) return 8;
  if (!strncmp(declaration, "i64 ", 4)) return 8;
  ck_assert_msg(!strncmp(declaration, "u32 ", 4) || !strncmp(declaration, "int ", 4) ||
                    !strncmp(declaration, "float ", 6),
                "unknown type in '%.40s'", declaration);
  return 4;
}

typedef struct member {
  const char *name;
  size_t offset;
} member;

/* The CUDA struct, laid out by hand from its text, has the C struct's names, offsets and size. */
static void check_params(const char *name, const member *members, size_t count, size_t bytes) {
  char *text = emitted_by_name(name, 0);
  const char *at = strstr(text, "struct Params {\n");
  size_t offset = 0;
  ck_assert_ptr_nonnull(at);
  for (size_t i = 0; i < count; i++) {
    at = strchr(at, '\n') + 1;
    size_t size = member_size(at + 2), length = strlen(members[i].name);
    const char *end = strchr(at, ';');
    offset = (offset + size - 1) / size * size;
    ck_assert_msg(!strncmp(end - length, members[i].name, length), "want %s, have %.40s",
                  members[i].name, at);
    ck_assert_msg(strchr(" *", end[-1 - (long)length]) != NULL, "%.40s", at);
    ck_assert_msg(offset == members[i].offset, "%s is at %zu in C, at %zu in CUDA", members[i].name,
                  members[i].offset, offset);
    offset += size;
  }
  ck_assert_msg(!strncmp(strchr(at, '\n'), "\n};\n", 4), "more members after %s", at);
  ck_assert_uint_eq((offset + 7) / 8 * 8, bytes);
  ck_assert(has_line(text, "static_assert(sizeof(Params) == %zu,", bytes));
  free(text);
}

START_TEST(params_have_one_layout) {
#define MEMBER(type, name, pinnable, text) {#name, offsetof(STRUCT, name)},
#define STRUCT                             attune_params_attn_fwd
  static const member fwd[] = {ATTUNE_PARAMS_ATTN_FWD(MEMBER)};
  check_params(sample, fwd, sizeof fwd / sizeof *fwd, sizeof(STRUCT));
#undef STRUCT
#define STRUCT attune_params_attn_standard
  static const member standard[] = {ATTUNE_PARAMS_ATTN_STANDARD(MEMBER)};
  check_params("attn_standard_pv_sm80_fp32_d64__fma_m64n64", standard,
               sizeof standard / sizeof *standard, sizeof(STRUCT));
#undef STRUCT
}
END_TEST

static void check_head(const attune_kernel *kernel) {
  char *text = emitted(kernel, NULL);
  ck_assert(has_line(text, "// %s\n", kernel->name));
  ck_assert(has_line(text, "from templates/%s\n", kernel->template_path));
  ck_assert(has_line(text, "constexpr int kBlockM = %d;", kernel->tile.block_m));
  ck_assert(has_line(text, "constexpr int kThreads = %d;", 32 * kernel->tile.warps));
  ck_assert(has_line(text, "constexpr int kSmemBytes = %u;", kernel->ledger.bytes));
  for (int i = 0; i < kernel->ledger.count; i++) {
    const attune_piece *piece = &kernel->ledger.piece[i];
    ck_assert(has_line(text, "  alignas(%u) %s %s[%u][%u];", piece->align, piece->ctype,
                       piece->name, piece->rows, piece->columns));
  }
  ck_assert_int_eq(strstr(text, "struct Smem {") != NULL, kernel->ledger.count > 0);
  free(text);
}

START_TEST(head_says_what_the_kernel_is) {
  ck_assert_int_eq(each_kernel(check_head), KERNELS);
}
END_TEST

START_TEST(facts_stand_in_the_sheet) {
  attune_kernel kernel;
  attune_facts facts = {.registers = 171, .spill_bytes = 12, .stack_bytes = 8};
  attune_emit_options options = {.facts = &facts, .compiler = "nvrtc 13.0.88"};
  ck_assert_int_eq(kernel_named(sample, &kernel), ATTUNE_OK);
  char *with = emitted(&kernel, &options), *without = emitted(&kernel, NULL);
  ck_assert(has_line(with, "// compiled  171 registers a thread, 12 bytes spilled, 8 bytes of "
                           "stack, by nvrtc 13.0.88\n"));
  ck_assert_ptr_null(strstr(without, "compiled  "));
  /* From the constants block on, facts change nothing. */
  ck_assert_str_eq(strstr(with, "constexpr"), strstr(without, "constexpr"));
  free(with), free(without);
}
END_TEST

/* ---- pins ---------------------------------------------------------------------------- */

static attune_status pinned_kernel(const char *pin, double value, attune_kernel *out) {
  attune_kernel free_kernel;
  attune_pinset pins = {.count = 0};
  ck_assert_int_eq(kernel_named("attn_fwd_sm80_fp32_d64_window__fma_m64n64", &free_kernel),
                   ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&pins, pin, value), ATTUNE_OK);
  free_kernel.variant.pins = attune__pinset_digest(&pins);
  return attune__kernel_make(&free_kernel.variant, &free_kernel.tile, &pins, out);
}

static void check_pin(const char *pin, double value, const char *constant) {
  attune_kernel kernel;
  char read[64];
  ck_assert_int_eq(pinned_kernel(pin, value, &kernel), ATTUNE_OK);
  char *text = emitted(&kernel, NULL);
  snprintf(read, sizeof read, "params.%s", pin);
  ck_assert_msg(has_line(text, "\nconstexpr %s;", constant), "%s in\n%s", constant, text);
  ck_assert_msg(strstr(text, read) == NULL, "%s is pinned and read", pin);
  ck_assert_ptr_nonnull(strstr(text, "params.len_q")); /* the others are read as before */
  free(text);
}

START_TEST(pins_are_constants) {
  check_pin("window_left", 127, "int window_left = 127");
  check_pin("window_right", -1, "int window_right = -1");
  check_pin("len_k", 536870911, "int len_k = 536870911");
  check_pin("scale", 0.125, "float scale = 0.125f");
  check_pin("scale", -50, "float scale = -50.0f");
  check_pin("scale", 0.1f, "float scale = 0.100000001f");
  check_pin("scale", 1e-30, "float scale = 1e-30f");
}
END_TEST

START_TEST(bad_pins_are_refused) {
  attune_kernel kernel;
  attune__text out = {0};
  ck_assert_int_eq(pinned_kernel("q_stride_seq", 64, &kernel), ATTUNE_OK);
  ck_assert_int_eq(attune__emit(&kernel, NULL, &out), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "pin q_stride_seq: attn_fwd has no such scalar"));
  ck_assert_int_eq(pinned_kernel("window_left", 1.5, &kernel), ATTUNE_OK);
  ck_assert_int_eq(attune__emit(&kernel, NULL, &out), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "pin window_left: the value is not a 32-bit"));
  ck_assert_ptr_null(out.data);
}
END_TEST

/* ---- golden files -------------------------------------------------------------------- */

static char *file_text(const char *path) {
  void *bytes;
  size_t size;
  ck_assert_msg(attune__file_read(path, 1 << 20, &bytes, &size) == ATTUNE_OK, "%s", attune_error());
  return bytes;
}

static void check_golden(const char *file_name) {
  char path[512], name[ATTUNE_NAME_MAX];
  snprintf(path, sizeof path, "tests/golden/%s", file_name);
  snprintf(name, sizeof name, "%.*s", (int)strcspn(file_name, "."), file_name);
  char *want = file_text(path), *have = emitted_by_name(name, 0);
  size_t same = 0, line = 1;
  for (; want[same] && want[same] == have[same]; same++) line += want[same] == '\n';
  ck_assert_msg(!strcmp(want, have),
                "%s:%zu: differs from what attune emits; if it should, run "
                "tests/golden.sh and read the diff",
                path, line);
  free(want), free(have);
}

START_TEST(golden_files) {
  DIR *folder = opendir("tests/golden");
  int count = 0;
  ck_assert_ptr_nonnull(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!strstr(entry->d_name, ".cu")) continue;
    check_golden(entry->d_name);
    count++;
  }
  closedir(folder);
  ck_assert_int_eq(count, 9);
}
END_TEST

/* ---- other processes ----------------------------------------------------------------- */

/* What the helper prints. variables: "NAME=value ..." for its environment, which is empty else. */
static char *helper_output(const char *what, const char *variables) {
  char self[PATH_MAX], command[3 * PATH_MAX], chunk[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  ck_assert_int_gt(length, 0);
  self[length] = 0;
  snprintf(command, sizeof command, "env -i EMIT_HELPER=%s %s %s", what, variables, self);
  FILE *pipe = popen(command, "r");
  ck_assert_ptr_nonnull(pipe);
  attune__text out = {0};
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, pipe));) attune__text_add(&out, chunk, n);
  ck_assert_msg(pclose(pipe) == 0, "%s\n-> %s", command, out.data ? out.data : "");
  ck_assert_ptr_nonnull(out.data);
  return out.data;
}

/* Runs before main when EMIT_HELPER is set. */
__attribute__((constructor)) static void be_helper(void) {
  const char *what = getenv("EMIT_HELPER"), *folder = getenv("EMIT_FOLDER");
  if (!what) return;
  if (folder && chdir(folder)) exit(2);
  setlocale(LC_ALL, "");
  attune__text out = {0};
  attune_kernel kernel;
  attune_status status = ATTUNE_OK;
  if (strcmp(what, "digests") != 0) {
    status = kernel_named(what, &kernel);
    if (status == ATTUNE_OK) status = attune__emit(&kernel, NULL, &out);
  } else {
    for (int op = ATTUNE_OP_ATTN_FWD; op <= ATTUNE_OP_ATTN_STANDARD && !status; op++) {
      char digest[65];
      status = attune__template_digest(op, digest);
      attune__text_printf(&out, "%s\n", digest);
    }
  }
  fputs(status ? attune_error() : out.data, stdout);
  attune__text_free(&out);
  exit(status ? 1 : 0);
}

START_TEST(same_bytes_from_200_processes) {
  char here[PATH_MAX], locale[PATH_MAX + 64];
  ck_assert_int_eq(system("sh tests/locale.sh"), 0);
  ck_assert_ptr_nonnull(getcwd(here, sizeof here));
  snprintf(locale, sizeof locale, "LOCPATH=%s/build/locale LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo", here);
  const char *const settings[] = {"LC_ALL=C", locale, "EMIT_FOLDER=/ HOME=/nowhere USER=x",
                                  "A=1 LANG=tr_TR"};
  char *want = emitted_by_name(sample, 0);
  for (int i = 0; i < 200; i++) {
    char *have = helper_output(sample, settings[i % 4]);
    ck_assert_msg(!strcmp(want, have), "process %d (%s) differs", i, settings[i % 4]);
    free(have);
  }
  free(want);
}
END_TEST

START_TEST(folder_gives_the_bytes_of_the_embedded) {
  char *want = emitted_by_name(sample, 0);
  char *have = helper_output(sample, "ATTUNE_TEMPLATES=templates");
  char *digests = helper_output("digests", ""),
       *folder_digests = helper_output("digests", "ATTUNE_TEMPLATES=templates");
  ck_assert_str_eq(have, want);
  ck_assert_str_eq(folder_digests, digests);
  free(want), free(have), free(digests), free(folder_digests);
}
END_TEST

START_TEST(bad_folders_are_named) {
  static const char *const folders[] = {"/nowhere/templates", "tests/golden/none", "Makefile"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    char command[2 * PATH_MAX], self[PATH_MAX] = "", text[512] = "";
    ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    snprintf(command, sizeof command, "env -i EMIT_HELPER=digests ATTUNE_TEMPLATES=%s %s",
             folders[i], self);
    FILE *pipe = popen(command, "r");
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, pipe), 0);
    ck_assert_int_ne(pclose(pipe), 0);
    ck_assert_msg(!strncmp(text, "ATTUNE_TEMPLATES: ", 18) && strstr(text, folders[i]), "%s", text);
  }
}
END_TEST

/* ---- digests ------------------------------------------------------------------------- */

static void shell(const char *format, ...) {
  char command[2 * PATH_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof command, format, arguments);
  va_end(arguments);
  ck_assert_msg(system(command) == 0, "%s", command);
}

/* Whether an op's digest changes when a note is added to a template. */
static void check_digest_of(const char *folder, const char *path, const char *before) {
  char variable[PATH_MAX];
  snprintf(variable, sizeof variable, "ATTUNE_TEMPLATES=%s", folder);
  shell("cp %s/%s %s/../kept && echo '%s note' >> %s/%s", folder, path, folder,
        strstr(path, ".lua") ? "--" : "//--", folder, path);
  char *after = helper_output("digests", variable);
  shell("mv %s/../kept %s/%s", folder, folder, path);
  for (int op = ATTUNE_OP_ATTN_FWD; op <= ATTUNE_OP_ATTN_STANDARD; op++) {
    const char *name = attune__op_name(op);
    int of_other_op = !strncmp(path, "embed/", 6) || /* C, of no kernel */
                      (!strncmp(path, "attn_", 5) &&
                       !(!strncmp(path, name, strlen(name)) && path[strlen(name)] == '/'));
    int line = (op - ATTUNE_OP_ATTN_FWD) * 65;
    int changed = strncmp(before + line, after + line, 64) != 0;
    ck_assert_msg(changed != of_other_op, "%s changed: %s's digest %s", path, name,
                  changed ? "changed" : "did not");
  }
  free(after);
}

START_TEST(digests_change_with_their_templates) {
  char root[] = "build/tmp-XXXXXX", folder[64], variable[PATH_MAX];
  ck_assert_ptr_nonnull(mkdtemp(root));
  snprintf(folder, sizeof folder, "%s/templates", root);
  shell("cp -r templates %s && echo x > %s/notes.txt", folder, folder);
  snprintf(variable, sizeof variable, "ATTUNE_TEMPLATES=%s", folder);
  char *before = helper_output("digests", variable), *embedded = helper_output("digests", "");
  ck_assert_str_eq(before, embedded); /* notes.txt is no template */
  ck_assert_str_ne(before, before + 65);
  const attune_template_file *files;
  int count;
  ck_assert_int_eq(attune__template_files(&files, &count), ATTUNE_OK);
  for (int i = 0; i < count; i++) check_digest_of(folder, files[i].path, before);
  shell("mv %s/prim/math.cuh %s/prim/moved.cuh", folder, folder);
  char *moved = helper_output("digests", variable);
  ck_assert_int_ne(strncmp(before, moved, 64), 0);
  ck_assert_int_ne(strncmp(before + 65, moved + 65, 64), 0);
  shell("rm -rf %s", root);
  free(before), free(embedded), free(moved);
}
END_TEST

START_TEST(files_are_sorted_and_complete) {
  static const char *const needed[] = {"attn_fwd/fma.cu", "engine.lua", "head.cuh", "sandbox.lua"};
  const attune_template_file *files;
  int count;
  size_t found = 0;
  ck_assert_int_eq(attune__template_files(&files, &count), ATTUNE_OK);
  for (int i = 0; i < count; i++) {
    if (i) ck_assert_msg(strcmp(files[i - 1].path, files[i].path) < 0, "%s", files[i].path);
    for (size_t n = 0; n < sizeof needed / sizeof *needed; n++)
      found += !strcmp(files[i].path, needed[n]);
  }
  ck_assert_uint_eq(found, sizeof needed / sizeof *needed);
}
END_TEST

TEST_MAIN("emit", text_is_tidy, lines_point_at_templates, outlines_are_short_and_give_the_whole,
          params_have_one_layout, head_says_what_the_kernel_is, facts_stand_in_the_sheet,
          pins_are_constants, bad_pins_are_refused, golden_files, same_bytes_from_200_processes,
          folder_gives_the_bytes_of_the_embedded, bad_folders_are_named,
          digests_change_with_their_templates, files_are_sorted_and_complete)
