/* test_spec.c - the spec reader: what it refuses, word for word, and what it expands to.
 *
 * tests/bad/NAME.yaml with NAME.expected beside it is a spec and all that is printed for it; faults
 * that no file in a repository can have (a directory, 10,000 levels) are made here. */
#include "../gen/board.h"
#include "../gen/spec.h"
#include "test.h"

#include <dirent.h>
#include <glob.h>
#include <locale.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- helpers ---- */

typedef struct result {
  attune_status status;
  attune_spec spec;
  attune__text errors;
} result;

static result read_with(const char *path, const char *source, const attune_spec_options *options) {
  result r = {0};
  r.status =
      attune__spec_read(path, source, source ? strlen(source) : 0, options, &r.spec, &r.errors);
  return r;
}

static void release(result *r) {
  attune__spec_free(&r->spec);
  attune__text_free(&r->errors);
}

static result read_good(const char *source) {
  result r = read_with("good.yaml", source, NULL);
  ck_assert_msg(r.status == ATTUNE_OK, "%s\n%s", source, r.errors.data ? r.errors.data : "?");
  ck_assert_ptr_null(r.errors.data);
  return r;
}

static void expect_count(const char *source, int count) {
  result r = read_good(source);
  ck_assert_msg(r.spec.count == count, "%d, wanted %d: %s", r.spec.count, count, source);
  release(&r);
}

/* The whole text that a refused spec prints. */
static void expect_errors(const char *path, const char *source, const attune_spec_options *options,
                          const char *want) {
  result r = read_with(path, source, options);
  ck_assert_int_eq(r.status, ATTUNE_BAD_SPEC);
  ck_assert_str_eq(r.errors.data, want);
  ck_assert_int_eq(r.spec.count, 0);
  ck_assert_ptr_null(r.spec.requests);
  ck_assert_msg(strstr(attune_error(), path) == attune_error(), "%s", attune_error());
  release(&r);
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

#define HEAD "version: 1\nop: attn_fwd\narch: sm_80\ndtype: fp16\nhead_dim: 64\n"

/* ---- refused ---- */

static int is_yaml(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return length > 5 && !strcmp(entry->d_name + length - 5, ".yaml");
}

static void check_bad_folder(void) {
  struct dirent **entries;
  int count = scandir("tests/bad", &entries, is_yaml, alphasort);
  ck_assert_int_ge(count, 40);
  for (int i = 0; i < count; i++) {
    char yaml[512], expected[512];
    size_t size, length = strlen(entries[i]->d_name) - 5;
    snprintf(yaml, sizeof yaml, "tests/bad/%s", entries[i]->d_name);
    snprintf(expected, sizeof expected, "tests/bad/%.*s.expected", (int)length, entries[i]->d_name);
    void *want;
    ck_assert_int_eq(attune__file_read(expected, 1 << 17, &want, &size), ATTUNE_OK);
    expect_errors(yaml, NULL, NULL, want);
    free(want);
    free(entries[i]);
  }
  free(entries);
}

START_TEST(bad_folder) {
  check_bad_folder();
}
END_TEST

START_TEST(unreadable_files) {
  char folder[] = "build/tmp-XXXXXX";
  ck_assert_ptr_nonnull(mkdtemp(folder));
  char want[256];
  snprintf(want, sizeof want,
           "%s:1:1: error: cannot read the spec: Is a directory\n"
           "  help: name a .yaml file in it\n",
           folder);
  expect_errors(folder, NULL, NULL, want);
  rmdir(folder);
  snprintf(want, sizeof want,
           "%s:1:1: error: cannot open the spec: No such file or directory\n"
           "  help: check the path; specs/ has examples\n",
           folder);
  expect_errors(folder, NULL, NULL, want);
  /* Root may read anything, so a permission cannot be tested everywhere: a file as a folder can. */
  expect_errors("tests/test.h/x.yaml", NULL, NULL,
                "tests/test.h/x.yaml:1:1: error: cannot open the spec: Not a directory\n"
                "  help: check the path; specs/ has examples\n");
}
END_TEST

/* A spec of exactly `size` bytes: the head, then comment lines of 64 bytes. */
static char *padded(size_t size) {
  char *text = malloc(size + 1);
  size_t at = strlen(HEAD);
  memcpy(text, HEAD, at);
  for (size_t column = 0; at < size; at++, column++)
    text[at] = column % 64 == 63 ? '\n' : column % 64 ? 'x' : '#';
  text[size] = 0;
  return text;
}

START_TEST(size_limit) {
  char *fits = padded(64 * 1024), *over = padded(64 * 1024 + 1);
  expect_count(fits, 1);
  result r = read_with("large.yaml", over, NULL);
  ck_assert_int_eq(r.status, ATTUNE_BAD_SPEC);
  /* HEAD has 61 bytes on 5 lines; byte 65536 is number 65475 after it: 1023 lines and 3 columns. */
  ck_assert_uint_eq(strlen(HEAD), 61);
  const char *want = "large.yaml:1029:4: error: the file is over 64 KiB\n";
  ck_assert_msg(!strncmp(r.errors.data, want, strlen(want)), "%s", r.errors.data);
  release(&r);

  char folder[] = "build/tmp-XXXXXX", path[64];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/large.yaml", folder);
  FILE *file = fopen(path, "wb");
  fputs(over, file);
  for (int i = 0; i < 1000000; i++) fputs("# more\n", file);
  fclose(file);
  r = read_with(path, NULL, NULL);
  ck_assert_ptr_nonnull(strstr(r.errors.data, ":1029:4: error: the file is over 64 KiB\n"));
  release(&r);
  unlink(path);
  rmdir(folder);
  free(fits);
  free(over);
}
END_TEST

/* 10,000 levels of each way to nest, refused where level 33 begins. */
START_TEST(deep_nesting) {
  static const struct {
    const char *level;
    int column;
  } rows[] = {{"[", 33}, {"{a: ", 129}, {"[a,", 97}, {"- ", 65}, {"a: [", 65}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    attune__text text = {0};
    for (int level = 0; level < 10000; level++) attune__text_puts(&text, rows[i].level);
    char want[100];
    snprintf(want, sizeof want, "deep.yaml:1:%d: error: nesting is deeper than 32\n",
             rows[i].column);
    double before = milliseconds();
    result r = read_with("deep.yaml", text.data, NULL);
    double took = milliseconds() - before;
    ck_assert_msg(!strncmp(r.errors.data, want, strlen(want)), "%s", r.errors.data);
    ck_assert_msg(took < 50, "%s: %d ms", rows[i].level, (int)took);
    release(&r);
    attune__text_free(&text);
  }
}
END_TEST

START_TEST(nesting_of_32_is_read) {
  attune__text text = {0};
  for (int level = 0; level < 32; level++) attune__text_puts(&text, "[");
  for (int level = 0; level < 32; level++) attune__text_puts(&text, "]");
  result r = read_with("deep.yaml", text.data, NULL);
  ck_assert_ptr_nonnull(strstr(r.errors.data, "a spec is a map of keys and values"));
  release(&r);
  attune__text_free(&text);
}
END_TEST

/* ---- expanded ---- */

START_TEST(counts) {
  expect_count(HEAD, 1);
  expect_count("{version: 1, op: attn_fwd, arch: [sm_80, sm_90a], dtype: [fp32, fp16, bf16],"
               " head_dim: [32, 64, {qk: 192, v: 128}], mask: [none, causal, window],"
               " align: [16b, elem]}",
               2 * 3 * 3 * 3 * 2);
  expect_count(HEAD "sram: [48KB, 96 KB, 163840B, 163840, device]\n", 4);
  expect_count("version: 1\nop: attn_fwd\narch: [sm_80, sm_90a]\ndtype: fp16\nhead_dim: 64\n"
               "sram: {sm_80: [96KB, device], sm_90a: 200KB}\n",
               3);
  expect_count(HEAD "tile: [{block_m: 64}, {block_m: 128, warps: 8}]\nfamily: fma\n", 2);
  expect_count(HEAD "mask: window\npin: [{window_left: 127}, {window_left: 255, scale: 0.125}]\n",
               2);
  expect_count(HEAD "features: [none, []]\n", 1);
  expect_count("\xef\xbb\xbf" HEAD, 1);
  expect_count("version: 1\r\nop: \"attn_fwd\"\r\narch: 'sm_80'\r\ndtype: fp16\r\nhead_dim: 8\r\n",
               1);
}
END_TEST

START_TEST(values) {
  result r = read_good("version: 1\n\nop: attn_fwd\narch: sm_90a\ndtype: {q: bf16}\n"
                       "head_dim: {qk: 192, v: 128}\nmask: {causal: {corner: bottom_right}}\n"
                       "align: elem\nsram: 96KB\npin: {scale: -2.5e-1, len_q: 4}\n"
                       "tile: {block_m: 64, share_kv: 0}\nfamily: fma\n");
  const attune_request *q = &r.spec.requests[0];
  ck_assert_int_eq(r.spec.count, 1);
  ck_assert_str_eq(r.spec.path, "good.yaml");
  ck_assert_uint_eq(q->variant.arch, 90u << 8 | 'a');
  ck_assert_int_eq(q->variant.op, ATTUNE_OP_ATTN_FWD);
  ck_assert_int_eq(q->variant.dtype_q, ATTUNE_DTYPE_BF16);
  ck_assert_int_eq(q->variant.dtype_kv, ATTUNE_DTYPE_BF16);
  ck_assert_int_eq(q->variant.dtype_out, ATTUNE_DTYPE_BF16);
  ck_assert_int_eq(q->variant.head_dim_qk, 192);
  ck_assert_int_eq(q->variant.head_dim_v, 128);
  ck_assert_int_eq(q->variant.mask, ATTUNE_MASK_CAUSAL);
  ck_assert_int_eq(q->variant.align, ATTUNE_ALIGN_ELEM);
  ck_assert_int_eq(q->variant.group, 1);
  ck_assert_int_eq(q->corner, ATTUNE_CORNER_BOTTOM_RIGHT);
  ck_assert_uint_eq(q->budget, 96 * 1024);
  ck_assert_int_eq(q->family, ATTUNE_FAMILY_FMA);
  ck_assert_int_eq(q->line, 3);
  ck_assert_uint_eq(q->pins.count, 2);
  ck_assert_str_eq(q->pins.pin[0].name, "len_q");
  ck_assert(q->pins.pin[0].value == 4);
  ck_assert_str_eq(q->pins.pin[1].name, "scale");
  ck_assert(q->pins.pin[1].value == -0.25);
  ck_assert_uint_eq(q->variant.pins, attune__pinset_digest(&q->pins));
  ck_assert_uint_ne(q->variant.pins, 0);
  /* block_m is field 0 of a tile, share_kv field 5 */
  ck_assert_uint_eq(q->tile.fixed, 1u << 0 | 1u << 5);
  ck_assert_int_eq(q->tile.tile.block_m, 64);
  release(&r);
}
END_TEST

START_TEST(defaults) {
  result r = read_good(HEAD);
  const attune_request *q = &r.spec.requests[0];
  ck_assert_int_eq(q->variant.mask, ATTUNE_MASK_NONE);
  ck_assert_int_eq(q->variant.align, ATTUNE_ALIGN_16B);
  ck_assert_int_eq(q->variant.group, 1);
  ck_assert_uint_eq(q->variant.features, 0);
  ck_assert_uint_eq(q->variant.pins, 0);
  ck_assert_int_eq(q->corner, 0);
  ck_assert_int_eq(q->family, 0);
  ck_assert_uint_eq(q->budget, 0);
  ck_assert_uint_eq(q->tile.fixed, 0);
  release(&r);
}
END_TEST

START_TEST(exclude_rules) {
#define PRODUCT                                                                                    \
  "version: 1\nop: [attn_fwd, attn_standard]\narch: [sm_80, sm_90a]\ndtype: [fp32, fp16]\n"        \
  "head_dim: [64, {qk: 192, v: 128}]\nmask: [none, {causal: top_left}]\nsram: [48KB, device]\n"    \
  "exclude:\n  - {op: attn_standard, dtype: fp16}\n"
  expect_count(PRODUCT, 64 - 16); /* one of two ops with one of two dtypes: a quarter */
  expect_count(PRODUCT "  - {op: attn_standard}\n", 32);
  expect_count(PRODUCT "  - {mask: causal}\n", 24);
  expect_count(PRODUCT "  - {mask: [none, {causal: top_left}], arch: sm_80}\n", 24);
  expect_count(PRODUCT "  - {head_dim: {qk: 192, v: 128}}\n", 24);
  expect_count(PRODUCT "  - {sram: 48KB, arch: [sm_80, sm_90a]}\n", 24);
  expect_count(PRODUCT "  - {sram: {sm_80: 48KB}}\n", 48 - 12);
}
END_TEST

/* Lists in another order, and values twice, ask for the same. */
START_TEST(sorted_and_unique) {
  result a = read_good("{version: 1, op: attn_fwd, arch: [sm_80, sm_90a], dtype: [fp32, bf16],"
                       " head_dim: [64, 128], mask: [none, causal], sram: [device, 48KB]}");
  result b = read_good("{sram: [48KB, device, 49152], mask: [causal, none, none], op: attn_fwd,"
                       " head_dim: [128, 64, {qk: 64, v: 64}], dtype: [bf16, fp32],"
                       " arch: [sm_90a, sm_80], version: 1}");
  ck_assert_int_eq(a.spec.count, 32);
  ck_assert_int_eq(b.spec.count, 32);
  ck_assert_int_eq(memcmp(a.spec.requests, b.spec.requests, 32 * sizeof(attune_request)), 0);
  char before[ATTUNE_NAME_MAX] = "", name[ATTUNE_NAME_MAX];
  for (int i = 0; i < 32; i++) {
    const attune_request *q = &a.spec.requests[i];
    attune__variant_name(&q->variant, 1, name);
    ck_assert_int_le(strcmp(before, name), 0);
    ck_assert_uint_eq(q->budget, i % 2 ? 0 : 48 * 1024); /* what the device offers comes last */
    memcpy(before, name, sizeof name);
  }
  release(&a);
  release(&b);
}
END_TEST

START_TEST(arch_options) {
  static const char native[] =
      "version: 1\nop: attn_fwd\narch: [native]\ndtype: fp16\nhead_dim: 64\nsram: [96KB, device]\n";
  attune_spec_options options = {.native = 90u << 8, .native_smem = 232448};
  result r = read_with("n.yaml", native, &options);
  ck_assert_int_eq(r.spec.count, 2);
  ck_assert_uint_eq(r.spec.requests[0].variant.arch, 90u << 8 | 'a');
  ck_assert_uint_eq(r.spec.requests[1].budget, 0); /* as the board that stands for it */
  release(&r);

  /* A GPU without a row of its own: the newest arch whose code it runs, and its own limit. */
  options = (attune_spec_options){.native = 87u << 8, .native_smem = 100000};
  r = read_with("n.yaml", native, &options);
  ck_assert_int_eq(r.spec.count, 2);
  ck_assert_uint_eq(r.spec.requests[0].variant.arch, 86u << 8);
  release(&r);

  /* --arch in the place of the spec's; its exclude rules may then match nothing. */
  options = (attune_spec_options){.arch = "sm_75"};
  r = read_with("n.yaml", HEAD "exclude: [{arch: sm_80, dtype: bf16}]\n", &options);
  ck_assert_int_eq(r.spec.count, 1);
  ck_assert_uint_eq(r.spec.requests[0].variant.arch, 75u << 8);
  release(&r);
  options.arch = "sm_77";
  expect_errors("n.yaml", HEAD, &options,
                "n.yaml: error: 'sm_77' is not an arch to generate for\n"
                "  help: archs: sm_75, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a, native\n");
  options.arch = "native";
  expect_errors("n.yaml", HEAD, &options,
                "n.yaml: error: native: this machine has no GPU\n  help: name the arch to generate "
                "for: sm_75, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a\n");
}
END_TEST

START_TEST(native_limit) {
  attune_spec_options options = {.native = 86u << 8, .native_smem = 100000};
  result r = read_with(
      "n.yaml", "{version: 1, op: attn_fwd, arch: native, dtype: fp16, head_dim: 64}", &options);
  ck_assert_int_eq(r.spec.count, 1);
  ck_assert_uint_eq(r.spec.requests[0].budget, 100000);
  release(&r);
  r = read_with("n.yaml",
                "{version: 1, op: attn_fwd, arch: native, dtype: fp16, head_dim: 64, sram: 98KB}",
                &options);
  ck_assert_int_eq(r.status, ATTUNE_BAD_SPEC);
  ck_assert_ptr_nonnull(strstr(r.errors.data, "98KB is over what sm_86 offers a block: 100000B"));
  release(&r);
}
END_TEST

/* The specs of the repository, all of them, and how many programs each asks for. */
START_TEST(shipped_specs) {
  static const struct {
    const char *path;
    int count;
  } rows[] = {{"specs/default.yaml", 2 * 3 * 4 * 3 + 2 * 2 * 2},
              {"specs/article.yaml", 4},
              {"specs/ci.yaml", 5 + (2 + 2) + 2 + (5 + 4) + 5 + 3 + 1 + 3},
              {"specs/ci_features.yaml", 32},
              /* of two archs each */
              {"specs/models/alibi.yaml", 2 * 2 * 2},
              {"specs/models/bert.yaml", 2 * 2 * 2},
              {"specs/models/deepseek.yaml", 2 * (1 + 2) * 2},
              {"specs/models/gemma2.yaml", 2 * 2 * 2 * 2},
              {"specs/models/gemma3.yaml", 2 * (2 * 2 + 2 * 3 + 2)},
              {"specs/models/gpt2.yaml", 2},
              {"specs/models/gpt_oss.yaml", 2 * 2 * 2 * 2},
              {"specs/models/llama3.yaml", 2 * 3 * 2},
              {"specs/models/qwen.yaml", 2 * (2 + 4) * 2},
              {"specs/models/t5.yaml", 2 * 2 * 2},
              {"specs/models/video_dit.yaml", 2 * 2},
              {"specs/models/vit.yaml", 2 * 3}};
  glob_t files;
  ck_assert_int_eq(glob("specs/*.yaml", 0, NULL, &files), 0);
  ck_assert_int_eq(glob("specs/models/*.yaml", GLOB_APPEND, NULL, &files), 0);
  ck_assert_uint_eq(files.gl_pathc, sizeof rows / sizeof *rows);
  globfree(&files);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    result r = read_with(rows[i].path, NULL, NULL);
    ck_assert_msg(r.status == ATTUNE_OK, "%s", r.errors.data);
    ck_assert_msg(r.spec.count == rows[i].count, "%s: %d", rows[i].path, r.spec.count);
    release(&r);
  }
}
END_TEST

/* ---- there and back ---- */

static void round_trip(const attune_request *q, const attune_tile *tile) {
  attune__text line = {0};
  attune__spec_line(&q->variant, &q->pins, tile, &line);
  result r = read_good(line.data);
  ck_assert_int_eq(r.spec.count, 1);
  const attune_request *back = &r.spec.requests[0];
  ck_assert_msg(!memcmp(&back->variant, &q->variant, sizeof q->variant), "%s", line.data);
  ck_assert_msg(!memcmp(&back->pins, &q->pins, sizeof q->pins), "%s", line.data);
  ck_assert_int_eq(back->family, tile ? tile->family : 0);
  ck_assert_uint_eq(back->tile.fixed, tile ? 0x3f : 0);
  attune_tile bare = {0};
  if (tile) bare = *tile;
  bare.family = 0;
  ck_assert_int_eq(memcmp(&back->tile.tile, &bare, sizeof bare), 0);
  release(&r);
  attune__text_free(&line);
}

START_TEST(line_round_trip) {
  static const char *const specs[] = {
      "{version: 1, op: attn_fwd, arch: [sm_75, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a],"
      " dtype: [fp32, fp16, bf16], head_dim: [8, 256, {qk: 192, v: 128}],"
      " mask: [none, causal, window], align: [16b, elem]}",
      "{version: 1, op: attn_standard, arch: sm_80, dtype: fp32, head_dim: 64, mask: [none, "
      "window]}",
      "{version: 1, op: attn_fwd, arch: sm_80, dtype: fp32, head_dim: 64, mask: window, pin:"
      " [{window_left: 127, window_right: -1}, {scale: 0.1}, {scale: -1e-30, len_k: 536870911}]}"};
  attune_tile tile;
  memset(&tile, 0, sizeof tile);
  tile.block_m = 64, tile.block_n = 128, tile.stages = 2, tile.warps = 8, tile.share_kv = 1;
  tile.family = ATTUNE_FAMILY_FMA;
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    result r = read_good(specs[i]);
    for (int k = 0; k < r.spec.count; k++) {
      round_trip(&r.spec.requests[k], NULL);
      if (attune__op_parts(r.spec.requests[k].variant.op) == 1)
        round_trip(&r.spec.requests[k], &tile);
    }
    release(&r);
  }
}
END_TEST

START_TEST(line_text) {
  result r = read_good(HEAD "mask: window\npin: {window_left: 127, scale: 0.125}\nalign: elem\n");
  attune__text line = {0};
  attune_tile tile;
  memset(&tile, 0, sizeof tile);
  tile.block_m = 64, tile.block_n = 32, tile.stages = 1, tile.warps = 4;
  tile.family = ATTUNE_FAMILY_FMA;
  attune__spec_line(&r.spec.requests[0].variant, &r.spec.requests[0].pins, &tile, &line);
  ck_assert_str_eq(line.data,
                   "{version: 1, op: attn_fwd, arch: sm_80, dtype: fp16, head_dim: 64, mask: "
                   "window, align: elem, pin: {scale: 0.125, window_left: 127}, family: fma, tile: "
                   "{block_m: 64, block_n: 32, block_k: 0, stages: 1, warps: 4, share_kv: 0}}");
  attune__text_free(&line);
  /* What no spec may ask for yet is written all the same. */
  attune_variant v = r.spec.requests[0].variant;
  v.dtype_kv = ATTUNE_DTYPE_BF16, v.group = 4,
  v.features = ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_SINK;
  attune__spec_line(&v, NULL, NULL, &line);
  ck_assert_str_eq(line.data, "{version: 1, op: attn_fwd, arch: sm_80, dtype: {q: fp16, kv: bf16, "
                              "out: fp16}, head_dim: 64, mask: window, align: elem, group: 4, "
                              "features: [[alibi, sink]]}");
  attune__text_free(&line);
  release(&r);
}
END_TEST

/* ---- nothing depends on the locale ---- */

START_TEST(comma_locale) {
  static const char pinned[] = HEAD "pin: {scale: 0.125}\n";
  result before = read_good(pinned);
  ck_assert_int_eq(system("sh tests/locale.sh"), 0);
  setenv("LOCPATH", "build/locale", 1);
  ck_assert_ptr_nonnull(setlocale(LC_ALL, "de_DE.UTF-8"));
  char probe[8];
  snprintf(probe, sizeof probe, "%.1f", 0.5);
  ck_assert_str_eq(probe, "0,5");
  check_bad_folder();
  result after = read_good(pinned);
  ck_assert_int_eq(memcmp(before.spec.requests, after.spec.requests, sizeof *before.spec.requests),
                   0);
  round_trip(after.spec.requests, NULL);
  setlocale(LC_ALL, "C");
  release(&before);
  release(&after);
}
END_TEST

TEST_MAIN("spec", bad_folder, unreadable_files, size_limit, deep_nesting, nesting_of_32_is_read,
          counts, values, defaults, exclude_rules, sorted_and_unique, arch_options, native_limit,
          shipped_specs, line_round_trip, line_text, comma_locale)
