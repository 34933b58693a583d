/* test_prepare.c - making programs ready: kernels loaded once, misses handled once, damage noticed,
 * all of it under threads. The device and the kernels are fake (fake.h). */
#include "fake.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- preparing ------------------------------------------------------------------------------- */

START_TEST(kernels_load_once_and_are_shared) {
  static const fake_row rows[] = {
      {.variant = "attn_fwd_sm80_fp16_d64", .cls = ATTUNE_CLASS_DECODE},
      {.variant = "attn_fwd_sm80_fp16_d64", .cls = ATTUNE_CLASS_LONG_FEW},
      {.variant = "attn_standard_sm80_fp32_d64"}};
  char path[FAKE_PATH];
  fake_log log = {0};
  attune_context *context = fake_open("sm_80", NULL, &log);
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  attune_problem p = fake_problem("attn_fwd_sm80_fp16_d64");
  attune_program *few, *decode, *standard;
  attune_program_info info = fake_info(fake_find(context, &p));
  ck_assert_int_eq(info.prepared, 0);
  ck_assert_int_eq(info.kernels[0].threads, 0);
  ck_assert_int_eq(attune_prepare(context, &p, &few), ATTUNE_OK);
  ck_assert_int_eq(attune_prepare(context, &p, &few), ATTUNE_OK);
  p.len_q = 1;
  ck_assert_int_eq(attune_prepare(context, &p, &decode), ATTUNE_OK);
  ck_assert_ptr_ne(few, decode);
  ck_assert_int_eq(log.loads, 1); /* both classes name one kernel */
  p = fake_problem("attn_standard_sm80_fp32_d64");
  ck_assert_int_eq(attune_prepare(context, &p, &standard), ATTUNE_OK);
  ck_assert_int_eq(log.loads, 4);
  info = fake_info(standard);
  ck_assert_int_eq(info.prepared, 1);
  ck_assert_int_eq(info.kernel_count, 3);
  ck_assert_str_eq(info.kernels[1].name, "attn_standard_softmax_sm80_fp32_d64__fma_m64n64");
  ck_assert_int_eq(info.kernels[1].threads, 128);
  ck_assert_int_eq(info.kernels[1].registers, 40);
  attune_close(context);
  ck_assert_int_eq(log.unloads, 4);
  ck_assert_int_eq(log.closes, 1);
  fake_remove(path);
}
END_TEST

START_TEST(without_a_device_prepare_reads_and_launch_refuses) {
  static const fake_row rows[] = {{.variant = "attn_fwd_sm80_fp16_d64"}};
  char path[FAKE_PATH];
  attune_options options = attune_options_init();
  attune_context *context;
  options.arch = "sm_999"; /* no device runs it */
  ck_assert_int_eq(attune_open(&options, &context), ATTUNE_OK);
  ck_assert_str_eq(attune_context_arch(context), "sm_999");
  ck_assert_str_eq(attune_context_device(context), "");
  attune_close(context);
  options.arch = "hopper";
  ck_assert_int_eq(attune_open(&options, &context), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "hopper"));

  context = fake_open("sm_80", NULL, NULL);
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  attune_problem p = fake_problem("attn_fwd_sm80_fp16_d64");
  attune_attn_args args = attune_attn_args_init();
  attune_program *program;
  void *memory;
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
  ck_assert_int_eq(fake_info(program).prepared, 0);
  ck_assert_int_eq(fake_info(program).kernels[0].registers, 40);
  ck_assert_int_eq(attune_launch(program, &args, NULL), ATTUNE_NO_DEVICE);
  ck_assert_int_eq(attune_alloc(context, 16, &memory), ATTUNE_NO_DEVICE);
  ck_assert_int_eq(attune_synchronize(context), ATTUNE_NO_DEVICE);
  attune_close(context);
  attune_close(NULL);
  fake_remove(path);
}
END_TEST

START_TEST(a_miss_asks_the_handler_once) {
  fake_handler h = {0};
  fake_log log = {0};
  attune_context *context = fake_open("sm_90a", NULL, &log);
  attune_problem p = fake_problem("attn_standard_sm90a_fp32_d64");
  attune_program *program;
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_NOT_FOUND);
  ck_assert_int_eq(attune_supports(context, &p), ATTUNE_NOT_FOUND);
  attune_on_miss(context, fake_handle, &h);
  ck_assert_int_eq(attune_find(context, &p, &program), ATTUNE_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(attune_error(), "attune_prepare will ask the miss handler"));
  ck_assert_int_eq(attune_supports(context, &p), ATTUNE_OK);
  ck_assert_int_eq(h.dry_runs, 1);
  ck_assert_int_eq(h.calls, 0);
  ck_assert_msg(attune_prepare(context, &p, &program) == ATTUNE_OK, "%s", attune_error());
  p.len_q = 3; /* another class: the program serves every shape */
  ck_assert_ptr_eq(fake_find(context, &p), program);
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
  ck_assert_int_eq(h.calls, 1);
  ck_assert_int_eq(h.frees, 1);
  attune_program_info info = fake_info(program);
  ck_assert_str_eq(info.origin, "jit");
  ck_assert_str_eq(info.variant, "attn_standard_sm90a_fp32_d64");
  ck_assert_str_eq(info.kernels[2].name, "attn_standard_pv_sm90a_fp32_d64__fma_m32n32");
  ck_assert_int_eq(info.prepared, 1);
  attune_close(context);
  ck_assert_int_eq(log.unloads, 3);
}
END_TEST

START_TEST(what_the_handler_returns_is_checked) {
  fake_handler h = {.lie = "attn_fwd_sm80_fp16_d128__fma_m64n64"};
  fake_log log = {0};
  attune_context *context = fake_open("sm_80", NULL, &log);
  attune_problem p = fake_problem("attn_fwd_sm80_fp16_d64");
  attune_program *program = (attune_program *)context;
  attune_on_miss(context, fake_handle, &h);
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_BAD_FILE);
  ck_assert_ptr_null(program);
  ck_assert_int_eq(h.frees, 1);
  ck_assert_int_eq(log.loads, 0);
  h.lie = "attn_fwd_sm90a_fp16_d64__fma_m64n64";
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_BAD_FILE);
  h.status = ATTUNE_COMPILE;
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_COMPILE);
  ck_assert_str_eq(attune_error(), "the handler's reason");
  ck_assert_int_eq(attune_supports(context, &p), ATTUNE_COMPILE);
  h.lie = NULL, h.status = ATTUNE_OK, log.load_status = ATTUNE_NO_MEMORY;
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_NO_MEMORY);
  log.load_status = ATTUNE_OK;
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
  p.head_dim_qk = 0;
  int calls = h.calls;
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_INVALID);
  ck_assert_int_eq(h.calls, calls);
  attune_on_miss(context, NULL, NULL);
  p.head_dim_qk = p.head_dim_v = 32;
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_NOT_FOUND);
  attune_close(context);
}
END_TEST

static void damage(const char *folder, const char *kernel) {
  char *path = attune__set_entry_path(folder, kernel);
  FILE *file = fopen(path, "r+b");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fseek(file, 100, SEEK_SET), 0);
  ck_assert_int_ne(fputc('!', file), EOF);
  ck_assert_int_eq(fclose(file), 0);
  free(path);
}

START_TEST(a_damaged_entry_is_a_miss) {
  static const fake_row rows[] = {
      {.variant = "attn_fwd_sm80_fp16_d64", .cls = ATTUNE_CLASS_LONG_FEW}};
  char path[FAKE_PATH];
  fake_handler h = {0};
  fake_messages kept = {0};
  fake_log log = {0};
  attune_options options = fake_listening(&kept);
  attune_context *context = fake_open("sm_80", &options, &log);
  attune_problem p = fake_problem(rows[0].variant);
  attune_program *program;
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  damage(path, "attn_fwd_sm80_fp16_d64__fma_m64n64");
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_BAD_FILE);
  ck_assert_int_eq(kept.count, 0);
  attune_on_miss(context, fake_handle, &h);
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
  ck_assert_int_eq(h.calls, 1);
  ck_assert_int_eq(kept.count, 2); /* the damage, then the load in its place */
  ck_assert_str_eq(fake_info(program).origin, "jit");
  ck_assert_ptr_eq(fake_find(context, &p), program);
  attune_close(context);
  fake_remove(path);
}
END_TEST

/* A driver's refusal to load is an error of its own unless it is about the image. */
START_TEST(only_useless_entries_are_misses) {
  static const fake_row rows[] = {{.variant = "attn_fwd_sm80_fp16_d64"}};
  char path[FAKE_PATH];
  fake_handler h = {0};
  fake_log log = {.load_status = ATTUNE_DRIVER};
  attune_context *context = fake_open("sm_80", NULL, &log);
  attune_problem p = fake_problem(rows[0].variant);
  attune_program *program;
  fake_folder(path);
  fake_open_set(context, path, rows, COUNT(rows));
  attune_on_miss(context, fake_handle, &h);
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_DRIVER);
  ck_assert_int_eq(h.calls, 0);
  log.load_status = ATTUNE_OK;
  ck_assert_int_eq(attune_prepare(context, &p, &program), ATTUNE_OK);
  ck_assert_int_eq(h.calls, 0);
  ck_assert_str_eq(fake_info(program).origin, path);
  attune_close(context);
  fake_remove(path);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 8, DIMS = 40 };

typedef struct preparer {
  attune_context *context;
  attune_program *program[DIMS];
} preparer;

static void *prepare_all(void *user) {
  preparer *mine = user;
  for (int i = 0; i < DIMS; i++) {
    char name[64];
    snprintf(name, sizeof name, "attn_fwd_sm80_%s_d%d", i % 2 ? "bf16" : "fp16", (i + 1) * 8);
    attune_problem p = fake_problem(name);
    if (attune_prepare(mine->context, &p, &mine->program[i])) return (void *)"prepare failed";
    if (!fake_info(mine->program[i]).prepared) return (void *)"not prepared";
  }
  return NULL;
}

/* Half of the problems are in a set, half are made: each kernel is loaded, each miss handled once.
 */
START_TEST(threads_prepare_each_program_once) {
  char path[FAKE_PATH], names[DIMS][64];
  fake_row rows[DIMS];
  fake_handler h = {0};
  fake_log log = {0};
  attune_context *context = fake_open("sm_80", NULL, &log);
  preparer mine[THREADS];
  pthread_t thread[THREADS];
  for (int i = 0; i < DIMS; i++) {
    snprintf(names[i], 64, "attn_fwd_sm80_bf16_d%d", (i + 1) * 8);
    rows[i] = (fake_row){.variant = names[i]};
  }
  fake_folder(path);
  fake_open_set(context, path, rows, DIMS);
  attune_on_miss(context, fake_handle, &h);
  for (int i = 0; i < THREADS; i++) {
    mine[i].context = context;
    ck_assert_int_eq(pthread_create(&thread[i], NULL, prepare_all, &mine[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    pthread_join(thread[i], &wrong);
    ck_assert_msg(!wrong, "%s", (const char *)wrong);
    ck_assert_mem_eq(mine[i].program, mine[0].program, sizeof mine[0].program);
  }
  ck_assert_int_eq(log.loads, DIMS);
  ck_assert_int_eq(h.calls, DIMS / 2);
  attune_close(context);
  ck_assert_int_eq(log.unloads, DIMS);
  fake_remove(path);
}
END_TEST

TEST_MAIN("prepare", kernels_load_once_and_are_shared,
          without_a_device_prepare_reads_and_launch_refuses, a_miss_asks_the_handler_once,
          what_the_handler_returns_is_checked, a_damaged_entry_is_a_miss,
          only_useless_entries_are_misses, threads_prepare_each_program_once)
