/* test_lookup.c - which program serves a problem, why none does, and that threads may look while
 * sets open and misses are made. The device and the kernels are fake (fake.h). */
#include "fake.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* A find that misses, and the words that its message must hold. */
static void expect_miss(attune_context *context, const attune_problem *problem,
                        attune_status status, const char *words) {
  attune_program *program = (attune_program *)context;
  ck_assert_int_eq(attune_find(context, problem, &program), status);
  ck_assert_ptr_null(program);
  ck_assert_msg(strstr(attune_error(), words) != NULL, "'%s' lacks '%s'", attune_error(), words);
}

/* ---- which row serves ------------------------------------------------------------------------ */

/* Every combination of fields has a row; the fast way to a key must agree with the full check. */
START_TEST(hits_agree_with_the_full_check) {
  static const int dims[] = {8, 32, 64, 256};
  char path[FAKE_PATH], names[3 * 4 * 4 * 3 * 2][ATTUNE_NAME_MAX];
  fake_row rows[COUNT(names)];
  attune_problem problems[COUNT(names)];
  fake_log log = {0};
  attune_context *context = fake_open("sm_80", NULL, &log);
  for (int i = 0; i < COUNT(names); i++) {
    attune_problem p = attune_problem_init();
    attune_variant v;
    p.op = ATTUNE_OP_ATTN_FWD;
    p.dtype_q = (attune_dtype)(1 + i % 3);
    p.head_dim_qk = dims[i / 3 % 4], p.head_dim_v = dims[i / 12 % 4];
    p.mask = (attune_mask)(1 + i / 48 % 3), p.align = (attune_align)(1 + i / 144);
    p.batch = 1 + i % 9, p.heads_q = p.heads_kv = 1 + i % 17, p.len_q = p.len_k = i * 7;
    ck_assert_int_eq(attune__variant_of(&p, attune__arch(80, 0), &v), ATTUNE_OK);
    attune__variant_name(&v, 1, names[i]);
    rows[i] = (fake_row){.variant = names[i]};
    problems[i] = p;
  }
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  for (int i = 0; i < COUNT(names); i++)
    ck_assert_str_eq(fake_info(fake_find(context, &problems[i])).variant, names[i]);
  attune_close(context);
  fake_remove(path);
}
END_TEST

START_TEST(defaults_are_filled_in) {
  static const fake_row rows[] = {{.variant = "attn_fwd_sm80_fp16_d64"}};
  char path[FAKE_PATH];
  attune_context *context = fake_open("sm_80", NULL, NULL);
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  attune_problem p = attune_problem_init();
  p.op = ATTUNE_OP_ATTN_FWD, p.dtype_q = ATTUNE_DTYPE_FP16, p.head_dim_qk = 64;
  attune_program *bare = fake_find(context, &p);
  p = fake_problem("attn_fwd_sm80_fp16_d64");
  ck_assert_ptr_eq(fake_find(context, &p), bare);
  attune_close(context);
  fake_remove(path);
}
END_TEST

/* Rows given in any order: the arch that fits best, else the later one. */
static void expect_origin(const char *arch, const char *first, const char *second, int winner) {
  char path[2][FAKE_PATH];
  const fake_row rows[2] = {{.variant = first}, {.variant = second}};
  attune_context *context = fake_open(arch, NULL, NULL);
  attune_problem p = fake_problem(first);
  for (int i = 0; i < 2; i++) {
    fake_folder(path[i]);
    fake_open_set(context, path[i], &rows[i], 1);
  }
  if (winner < 0)
    expect_miss(context, &p, ATTUNE_NOT_FOUND, "2 rows of the opened sets are for archs");
  else
    ck_assert_str_eq(fake_info(fake_find(context, &p)).origin, path[winner]);
  attune_close(context);
  for (int i = 0; i < 2; i++) fake_remove(path[i]);
}

START_TEST(the_best_arch_wins) {
  expect_origin("sm_90a", "attn_fwd_sm90a_fp16_d64", "attn_fwd_sm90_fp16_d64", 0);
  expect_origin("sm_90a", "attn_fwd_sm90_fp16_d64", "attn_fwd_sm90a_fp16_d64", 1);
  expect_origin("sm_86", "attn_fwd_sm80_fp16_d64", "attn_fwd_sm86_fp16_d64", 1);
  expect_origin("sm_86", "attn_fwd_sm86_fp16_d64", "attn_fwd_sm80_fp16_d64", 0);
  expect_origin("sm_86", "attn_fwd_sm80_fp16_d64", "attn_fwd_sm89_fp16_d64", 0);
  expect_origin("sm_90a", "attn_fwd_sm80_fp16_d64", "attn_fwd_sm90_fp16_d64", 1);
  expect_origin("sm_90", "attn_fwd_sm90a_fp16_d64", "attn_fwd_sm90_fp16_d64", 1);
  expect_origin("sm_75", "attn_fwd_sm80_fp16_d64", "attn_fwd_sm90a_fp16_d64", -1);
  expect_origin("sm_80", "attn_fwd_sm80_fp16_d64", "attn_fwd_sm80_fp16_d64", 1);
}
END_TEST

static const char *class_serving(attune_context *context, attune_problem p, int heads, int len) {
  p.batch = 1, p.heads_q = p.heads_kv = heads, p.len_q = p.len_k = len;
  return fake_info(fake_find(context, &p)).kernels[0].name;
}

START_TEST(the_class_of_the_shape_chooses) {
  static const fake_row rows[] = {
      {.variant = "attn_fwd_sm86_fp16_d64", .tile = "fma_m16n16"},
      {.variant = "attn_fwd_sm86_fp16_d64", .cls = ATTUNE_CLASS_DECODE, .tile = "fma_m32n32"},
      {.variant = "attn_fwd_sm86_fp16_d64", .cls = ATTUNE_CLASS_LONG_MANY, .tile = "fma_m128n64"},
      /* fits worse than the row for every shape, so its class does not count */
      {.variant = "attn_fwd_sm80_fp16_d64", .cls = ATTUNE_CLASS_SHORT_FEW, .tile = "fma_m64n64"}};
  char path[FAKE_PATH];
  attune_context *context = fake_open("sm_86", NULL, NULL);
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  attune_problem p = fake_problem(rows[0].variant);
  ck_assert_str_eq(class_serving(context, p, 8, 16), "attn_fwd_sm86_fp16_d64__fma_m32n32");
  ck_assert_str_eq(class_serving(context, p, 8, 17), "attn_fwd_sm86_fp16_d64__fma_m16n16");
  ck_assert_str_eq(class_serving(context, p, 15, 4096), "attn_fwd_sm86_fp16_d64__fma_m16n16");
  ck_assert_str_eq(class_serving(context, p, 16, 4096), "attn_fwd_sm86_fp16_d64__fma_m128n64");
  attune_close(context);
  fake_remove(path);
}
END_TEST

static const char *keys_serving(attune_context *context, attune_problem p, int heads, int len_q,
                                int len_k) {
  p.batch = 1, p.heads_q = p.heads_kv = heads, p.len_q = len_q, p.len_k = len_k;
  return strrchr(fake_info(fake_find(context, &p)).kernels[0].name, '_') + 1;
}

/* Rows of family short take up to block_n keys: the narrowest that suffices, then any other. */
START_TEST(the_number_of_keys_chooses) {
  static const fake_row rows[] = {
      {.variant = "attn_fwd_sm90a_fp16_d64", .tile = "short_m200n200s3w16"},
      {.variant = "attn_fwd_sm90a_fp16_d64", .tile = "wgmma_m128n128s2w12"},
      {.variant = "attn_fwd_sm90a_fp16_d64", .tile = "short_m80n80s7w24"},
      {.variant = "attn_fwd_sm90a_fp16_d64",
       .cls = ATTUNE_CLASS_SHORT_FEW,
       .tile = "short_m128n128s4w16"},
      {.variant = "attn_fwd_sm90a_bf16_d64", .tile = "short_m64n64s2w12"}};
  char path[FAKE_PATH];
  attune_context *context = fake_open("sm_90a", NULL, NULL);
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  attune_problem p = fake_problem(rows[0].variant);
  ck_assert_str_eq(keys_serving(context, p, 1000, 80, 80), "m80n80s7w24");
  ck_assert_str_eq(keys_serving(context, p, 1000, 80, 81), "m200n200s3w16");
  ck_assert_str_eq(keys_serving(context, p, 1000, 9000, 200), "m200n200s3w16");
  ck_assert_str_eq(keys_serving(context, p, 1000, 200, 201), "m128n128s2w12");
  ck_assert_str_eq(keys_serving(context, p, 8, 80, 0), "m128n128s4w16"); /* the class's own */
  ck_assert_str_eq(keys_serving(context, p, 8, 80, 128), "m128n128s4w16");
  ck_assert_str_eq(keys_serving(context, p, 8, 80, 129), "m200n200s3w16");
  ck_assert_str_eq(keys_serving(context, p, 8, 80, 201), "m128n128s2w12");
  p = fake_problem(rows[4].variant);
  p.len_k = 64;
  fake_find(context, &p);
  p.len_k = 65;
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "has a row for other shapes or fewer keys");
  attune_close(context);
  fake_remove(path);
}
END_TEST

START_TEST(an_elem_row_serves_aligned_problems_and_says_so_once) {
  static const fake_row rows[] = {{.variant = "attn_fwd_sm80_fp16_d64_elem"},
                                  {.variant = "attn_fwd_sm80_fp16_d128"}};
  char path[FAKE_PATH];
  fake_messages kept = {0};
  attune_options options = fake_listening(&kept);
  attune_context *context = fake_open("sm_80", &options, NULL);
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  attune_problem p = fake_problem("attn_fwd_sm80_fp16_d64");
  for (int i = 0; i < 3; i++)
    ck_assert_str_eq(fake_info(fake_find(context, &p)).variant, "attn_fwd_sm80_fp16_d64_elem");
  ck_assert_int_eq(kept.count, 1);
  ck_assert_int_eq(kept.level, ATTUNE_LEVEL_WARN);
  ck_assert_msg(strstr(kept.last, "attn_fwd_sm80_fp16_d64_elem") != NULL, "%s", kept.last);
  p = fake_problem("attn_fwd_sm80_fp16_d128_elem"); /* the other way round would read out of line */
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "align elem, nearest has 16b");
  attune_close(context);
  fake_remove(path);
}
END_TEST

START_TEST(pins_and_their_absence_never_meet) {
  attune_pinset pins = {0};
  ck_assert_int_eq(attune__pinset_add(&pins, "window_left", 127), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&pins, "window_right", 0), ATTUNE_OK);
  const fake_row rows[] = {{.variant = "attn_fwd_sm80_fp16_d64_window", .pins = &pins},
                           {.variant = "attn_fwd_sm80_fp16_d128_window"}};
  char path[FAKE_PATH];
  attune_context *context = fake_open("sm_80", NULL, NULL);
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  attune_problem p = fake_problem("attn_fwd_sm80_fp16_d64_window");
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "pins none, nearest has x");
  attune_pin wanted[] = {{"window_right", 0}, {"window_left", 127}};
  p.pins = wanted, p.pin_count = 2;
  ck_assert_uint_ne(attune__program_variant(fake_find(context, &p))->pins, 0);
  wanted[1].value = 128;
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "pins x");
  wanted[1].value = 127, p.head_dim_qk = p.head_dim_v = 128;
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "nearest has none");
  wanted[0].name = "batches";
  expect_miss(context, &p, ATTUNE_INVALID, "batches");
  attune_close(context);
  fake_remove(path);
}
END_TEST

/* ---- misses ---------------------------------------------------------------------------------- */

START_TEST(a_miss_names_the_field) {
  static const fake_row rows[] = {
      {.variant = "attn_fwd_sm80_fp16_d64"},
      {.variant = "attn_fwd_sm80_fp16_d128_causal"},
      {.variant = "attn_standard_sm80_fp32_d96"},
      {.variant = "attn_fwd_sm80_fp32_d32", .cls = ATTUNE_CLASS_DECODE}};
  char path[FAKE_PATH];
  attune_context *context = fake_open("sm_80", NULL, NULL);
  attune_problem p = fake_problem("attn_fwd_sm80_fp16_d96");
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "no kernel set is open");
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  expect_miss(context, &p, ATTUNE_NOT_FOUND,
              "head_dim_qk 96, nearest has 64 (attn_fwd_sm80_fp16_d64)");
  ck_assert_ptr_nonnull(strstr(attune_error(), "no kernel for attn_fwd_sm80_fp16_d96:"));
  ck_assert_ptr_nonnull(strstr(attune_error(), "attune build SPEC"));
  p = fake_problem("attn_fwd_sm80_fp16_d64_causal");
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "mask causal, nearest has none");
  p = fake_problem("attn_fwd_sm80_fp16_obf16_d64");
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "dtype_out bf16, nearest has fp16");
  p = fake_problem("attn_fwd_sm80_fp16_d64"), p.group = 4, p.heads_kv = 2;
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "group 4, nearest has 1");
  p.group = 1, p.features = ATTUNE_FEATURE_SOFTCAP;
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "features softcap, nearest has none");
  p = fake_problem("attn_fwd_sm80_fp32_d32");
  expect_miss(context, &p, ATTUNE_NOT_FOUND, "none for long_few or any");
  attune_close(context);
  fake_remove(path);
}
END_TEST

/* Values that would alias a row if they were cut to the field's width. */
START_TEST(values_out_of_range_never_hit) {
  static const fake_row rows[] = {{.variant = "attn_fwd_sm80_fp16_d64"}};
  char path[FAKE_PATH];
  attune_context *context = fake_open("sm_80", NULL, NULL);
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  const attune_problem good = fake_problem("attn_fwd_sm80_fp16_d64");
  attune_problem p = good;
#define WRONG(field, value, words)                                                                 \
  p = good, p.field = value, expect_miss(context, &p, ATTUNE_INVALID, words)
  WRONG(head_dim_qk, 65536 + 64, "head_dim_qk");
  WRONG(head_dim_v, 65536 + 64, "head_dim_v");
  WRONG(head_dim_qk, -64, "head_dim_qk");
  WRONG(op, (attune_op)(256 + ATTUNE_OP_ATTN_FWD), "op");
  WRONG(op, (attune_op)0, "op");
  WRONG(dtype_q, (attune_dtype)(256 + ATTUNE_DTYPE_FP16), "dtype_q");
  WRONG(dtype_kv, (attune_dtype)(256 + ATTUNE_DTYPE_FP16), "dtype_kv");
  WRONG(dtype_out, (attune_dtype)99, "dtype_out");
  WRONG(mask, (attune_mask)257, "mask");
  WRONG(align, (attune_align)257, "align");
  WRONG(group, 257, "group");
  WRONG(features, 1u << 31, "features");
  WRONG(batch, -1, "batch");
  WRONG(heads_q, -8, "heads_q");
  WRONG(len_q, 1 << 29, "len_q");
  WRONG(len_k, INT32_MIN, "len_k");
  WRONG(size, sizeof p - 1, "size");
  WRONG(pin_count, 1, "pins is NULL");
#undef WRONG
  attune_program *program;
  ck_assert_int_eq(attune_find(NULL, &good, &program), ATTUNE_INVALID);
  ck_assert_int_eq(attune_find(context, NULL, &program), ATTUNE_INVALID);
  ck_assert_int_eq(attune_find(context, &good, NULL), ATTUNE_INVALID);
  ck_assert_int_eq(attune_prepare(context, &good, NULL), ATTUNE_INVALID);
  attune_close(context);
  fake_remove(path);
}
END_TEST

/* ---- questions ------------------------------------------------------------------------------- */

typedef struct text {
  char data[1024];
  size_t used;
} text;

static int append_name(void *user, attune_program *program) {
  text *seen = user;
  attune_program_info info = fake_info(program);
  seen->used += (size_t)snprintf(seen->data + seen->used, sizeof seen->data - seen->used, "%s %s\n",
                                 info.variant, info.shape_class);
  return strstr(info.variant, "_d96") != NULL;
}

START_TEST(each_goes_in_name_order) {
  static const fake_row rows[] = {
      {.variant = "attn_fwd_sm80_fp16_d64", .cls = ATTUNE_CLASS_DECODE},
      {.variant = "attn_fwd_sm80_fp16_d96", .corner = ATTUNE_CORNER_BOTTOM_RIGHT},
      {.variant = "attn_fwd_sm80_bf16_d64"},
      {.variant = "attn_fwd_sm90a_bf16_d64"},
      {.variant = "attn_fwd_sm80_fp32_d64"},
      {.variant = "attn_fwd_sm80_fp16_d64"}};
  char path[FAKE_PATH];
  text seen = {0};
  attune_context *context = fake_open("sm_80", NULL, NULL);
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  ck_assert_int_eq(attune_each(context, append_name, &seen), ATTUNE_OK);
  ck_assert_str_eq(seen.data, "attn_fwd_sm80_bf16_d64 any\n"
                              "attn_fwd_sm80_fp16_d64 any\n"
                              "attn_fwd_sm80_fp16_d64 decode\n"
                              "attn_fwd_sm80_fp16_d96 any\n");
  attune_problem p = fake_problem("attn_fwd_sm80_fp16_d96");
  ck_assert_int_eq(fake_info(fake_find(context, &p)).corner, ATTUNE_CORNER_BOTTOM_RIGHT);
  attune_program_info wrong = {0};
  ck_assert_int_eq(attune_info(fake_find(context, &p), &wrong), ATTUNE_INVALID);
  ck_assert_int_eq(attune_open_set(context, "build/no such set"), ATTUNE_IO);
  attune_close(context);
  fake_remove(path);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 8, DIMS = 40 };

typedef struct crowd {
  attune_context *context;
  atomic_int found, stop;
} crowd;

/* Looks for d8 .. d320 until the sets have brought them all; a hit must be the right one. */
static void *look(void *user) {
  crowd *c = user;
  int dim = 0, seen = 0;
  while (!atomic_load(&c->stop) || seen < DIMS) {
    char name[64];
    attune_program *program;
    dim = dim % DIMS + 1;
    snprintf(name, sizeof name, "attn_fwd_sm80_fp16_d%d", dim * 8);
    attune_problem p = attune_problem_init();
    p.op = ATTUNE_OP_ATTN_FWD, p.dtype_q = ATTUNE_DTYPE_FP16, p.head_dim_qk = dim * 8;
    if (attune_find(c->context, &p, &program) == ATTUNE_OK) {
      if (strcmp(fake_info(program).variant, name) != 0) return (void *)"a wrong program";
      seen++;
    } else {
      seen = 0;
    }
  }
  atomic_fetch_add(&c->found, 1);
  return NULL;
}

START_TEST(threads_find_while_sets_open_and_misses_are_made) {
  char path[4][FAKE_PATH], names[DIMS][64];
  fake_handler h = {0};
  fake_log log = {0};
  crowd c = {.context = fake_open("sm_80", NULL, &log)};
  pthread_t thread[THREADS];
  attune_on_miss(c.context, fake_handle, &h);
  for (int i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_create(&thread[i], NULL, look, &c), 0);
  for (int i = 0; i < DIMS; i++) snprintf(names[i], 64, "attn_fwd_sm80_fp16_d%d", (i + 1) * 8);
  for (int s = 0; s < 4; s++) { /* 8 rows from each set, the last 8 from the handler */
    fake_row rows[8];
    for (int i = 0; i < 8; i++) rows[i] = (fake_row){.variant = names[s * 8 + i]};
    fake_folder(path[s]);
    fake_open_set(c.context, path[s], rows, 8);
  }
  for (int i = 32; i < DIMS; i++) {
    attune_problem p = fake_problem(names[i]);
    attune_program *program;
    ck_assert_msg(!attune_prepare(c.context, &p, &program), "%s", attune_error());
  }
  atomic_store(&c.stop, 1);
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    pthread_join(thread[i], &wrong);
    ck_assert_msg(!wrong, "%s", (const char *)wrong);
  }
  ck_assert_int_eq(c.found, THREADS);
  ck_assert_int_eq(h.calls, 8);
  attune_close(c.context);
  for (int s = 0; s < 4; s++) fake_remove(path[s]);
}
END_TEST

TEST_MAIN("lookup", hits_agree_with_the_full_check, defaults_are_filled_in, the_best_arch_wins,
          the_class_of_the_shape_chooses, the_number_of_keys_chooses,
          an_elem_row_serves_aligned_problems_and_says_so_once, pins_and_their_absence_never_meet,
          a_miss_names_the_field, values_out_of_range_never_hit, each_goes_in_name_order,
          threads_find_while_sets_open_and_misses_are_made)
