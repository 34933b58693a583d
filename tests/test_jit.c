/* test_jit.c - the miss handler on a context without a device. Needs NVRTC. */
#include "../gen/expand.h"
#include "../gen/jit.h"
#include "../gen/store.h"
#include "scratch.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* Messages of a jit, one after another. */
typedef struct inbox {
  pthread_mutex_t lock;
  char text[8192];
} inbox;

static void on_message(void *user, attune_level level, const char *text) {
  inbox *box = user;
  pthread_mutex_lock(&box->lock);
  size_t used = strlen(box->text);
  snprintf(box->text + used, sizeof box->text - used, "%d %s\n", (int)level, text);
  pthread_mutex_unlock(&box->lock);
}

static int times(const char *text, const char *words) {
  int count = 0;
  for (; (text = strstr(text, words)); text++) count++;
  return count;
}

/* A context for an arch with a jit, and what it says. */
static const char *arch = "sm_80";
static char folder[64];
static inbox box = {.lock = PTHREAD_MUTEX_INITIALIZER};
static attune_context *context;
static attune_jit *jit;

static void open_all(int no_jit) {
  attune_options options = attune_options_init();
  options.arch = arch;
  ck_assert_msg(attune_open(&options, &context) == ATTUNE_OK, "%s", attune_error());
  attune_jit_options jit_options = attune_jit_options_init();
  jit_options.store = folder;
  jit_options.no_jit = no_jit;
  jit_options.message = on_message;
  jit_options.message_user = &box;
  box.text[0] = 0;
  ck_assert_msg(attune_jit_install(context, &jit_options, &jit) == ATTUNE_OK, "%s", attune_error());
}

static void close_all(void) {
  attune_close(context);
  attune_jit_close(jit);
}

static void fresh_folder(void) {
  scratch_make(folder);
}

static attune_problem small_problem(attune_op op) {
  attune_problem p = attune_problem_init();
  p.op = op;
  p.dtype_q = ATTUNE_DTYPE_FP32;
  p.head_dim_qk = 16;
  p.batch = p.heads_q = p.heads_kv = 1;
  p.len_q = p.len_k = 128;
  return p;
}

/* Templates in which the kernel of the tile has 32 registers a thread, and spills. */
static void write_spilling_templates(const char *where, const attune_tile *tile) {
  char command[1024];
  snprintf(command, sizeof command,
           "cp -r templates %s/templates && "
           "sed -i 's/__launch_bounds__(.*)$/__launch_bounds__(kThreads, "
           "kBlockM == %u \\&\\& kBlockN == %u \\&\\& kWarps == %u \\&\\& kShareKV == %u"
           " ? 2048 \\/ kThreads : 1)/' %s/templates/attn_fwd/fma.cu && "
           "grep -q '2048 / kThreads' %s/templates/attn_fwd/fma.cu",
           where, tile->block_m, tile->block_n, tile->warps, tile->share_kv, where, where);
  ck_assert_int_eq(system(command), 0);
}

/* Templates in which the warpgroups of that tile touch their sums while products are under way. */
static void write_serial_templates(const char *where, const attune_tile *tile) {
  char command[1024];
  snprintf(command, sizeof command,
           "cp -r templates %s/templates && "
           "sed -i '/^__device__ .* void start_output/,/^}/s/products_commit();/&"
           " if (kBlockM == %u \\&\\& kBlockN == %u \\&\\& kSecondQ == %u) rows.o[0] += 1;/' "
           "%s/templates/attn_fwd/wgmma.cu && "
           "grep -q 'rows.o.0. += 1' %s/templates/attn_fwd/wgmma.cu",
           where, tile->block_m, tile->block_n, tile->second_q, where, where);
  ck_assert_int_eq(system(command), 0);
}

/* In a child, since a process reads its templates once: 0 when the next candidate was taken. */
static int next_child(const attune_problem *problem, const char *first, const char *why) {
  char templates[96], line[ATTUNE_NAME_MAX + 16];
  snprintf(templates, sizeof templates, "%s/templates", folder);
  setenv("ATTUNE_TEMPLATES", templates, 1);
  open_all(0);
  attune_program *program;
  attune_program_info info = attune_program_info_init();
  if (attune_prepare(context, problem, &program) || attune_info(program, &info)) return 1;
  snprintf(line, sizeof line, "1 %s %s", first, why);
  if (times(box.text, line) != 1 || times(box.text, "the next candidate is tried") != 1) return 2;
  if (times(box.text, "2 compiled ") != 2 || info.kernels[0].spill_bytes) return 3;
  if (strcmp(info.kernels[0].name, first) == 0) return 4;
  close_all();
  return 0;
}

static void expect_next_candidate(const attune_problem *problem,
                                  void (*write_templates)(const char *, const attune_tile *),
                                  const char *why) {
  fresh_folder();
  attune_request request = {0};
  attune_kernel best;
  int count;
  ck_assert_int_eq(attune__variant_of(problem, attune__arch_parse(arch), &request.variant),
                   ATTUNE_OK);
  attune_class cls =
      attune__shape_class(problem->batch, problem->heads_q, problem->len_q, problem->len_k);
  ck_assert_int_eq(attune__expand_request(&request, cls, 0, &best, &count), ATTUNE_OK);
  write_templates(folder, &best.tile);
  pid_t child = fork();
  if (child == 0) _exit(next_child(problem, best.name, why));
  int status = -1;
  waitpid(child, &status, 0);
  ck_assert_int_eq(WEXITSTATUS(status), 0);
  ck_assert(WIFEXITED(status));
  scratch_remove(folder);
}

START_TEST(a_spill_takes_the_next_candidate) {
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  problem.head_dim_qk = 64;
  expect_next_candidate(&problem, write_spilling_templates, "spills ");
}
END_TEST

/* ptxas waits for each product of a warpgroup where it finds one that it can't leave under way. */
START_TEST(serial_products_take_the_next_candidate) {
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  problem.dtype_q = ATTUNE_DTYPE_BF16, problem.head_dim_qk = 128;
  problem.len_q = problem.len_k = 2048;
  arch = "sm_90a";
  expect_next_candidate(&problem, write_serial_templates, "is not in the order of its text: ");
  arch = "sm_80";
}
END_TEST

START_TEST(prepare_compiles_once_and_the_next_context_hits) {
  fresh_folder();
  open_all(0);
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  attune_program *program, *again;
  ck_assert_int_eq(attune_find(context, &problem, &program), ATTUNE_NOT_FOUND);
  ck_assert_int_eq(attune_supports(context, &problem), ATTUNE_OK);
  ck_assert_str_eq(box.text, ""); /* a question compiles nothing */
  ck_assert_msg(attune_prepare(context, &problem, &program) == ATTUNE_OK, "%s", attune_error());
  ck_assert_int_eq(times(box.text, "2 compiling attn_fwd_sm80_fp32_d16__fma_"), 1);
  ck_assert_int_eq(times(box.text, "2 compiled attn_fwd_sm80_fp32_d16__fma_"), 1);
  ck_assert_int_eq(times(box.text, " ms\n"), 1);
  attune_program_info info = attune_program_info_init();
  ck_assert_int_eq(attune_info(program, &info), ATTUNE_OK);
  ck_assert_str_eq(info.variant, "attn_fwd_sm80_fp32_d16");
  ck_assert_str_eq(info.origin, "jit");
  ck_assert_int_eq(info.kernel_count, 1);
  ck_assert_int_gt(info.kernels[0].registers, 0);
  ck_assert_int_eq(info.kernels[0].spill_bytes, 0);
  ck_assert_int_eq(info.prepared, 0); /* there is no device */
  ck_assert_int_eq(attune_find(context, &problem, &again), ATTUNE_OK);
  ck_assert_ptr_eq(again, program);
  close_all();

  open_all(0);
  ck_assert_int_eq(attune_prepare(context, &problem, &program), ATTUNE_OK);
  ck_assert_str_eq(box.text, ""); /* from the store: nothing to tell */
  close_all();

  open_all(1); /* no_jit: the store may serve */
  ck_assert_int_eq(attune_supports(context, &problem), ATTUNE_OK);
  ck_assert_int_eq(attune_prepare(context, &problem, &program), ATTUNE_OK);
  close_all();
  scratch_remove(folder);
}
END_TEST

START_TEST(a_program_of_three_kernels) {
  fresh_folder();
  open_all(0);
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_STANDARD);
  attune_program *program;
  ck_assert_msg(attune_prepare(context, &problem, &program) == ATTUNE_OK, "%s", attune_error());
  attune_program_info info = attune_program_info_init();
  ck_assert_int_eq(attune_info(program, &info), ATTUNE_OK);
  ck_assert_int_eq(info.kernel_count, 3);
  const char *begins[] = {"attn_standard_qk_", "attn_standard_softmax_", "attn_standard_pv_"};
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(strncmp(info.kernels[i].name, begins[i], strlen(begins[i])), 0);
  ck_assert_int_eq(times(box.text, "2 compiled "), 3);
  close_all();
  scratch_remove(folder);
}
END_TEST

START_TEST(what_is_not_generated_is_refused_with_its_reason) {
  fresh_folder();
  open_all(0);
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  attune_program *program;
  problem.features = ATTUNE_FEATURE_PAGED;
  ck_assert_int_eq(attune_supports(context, &problem), ATTUNE_UNSUPPORTED);
  ck_assert_msg(strstr(attune_error(), "paged") != NULL, "%s", attune_error());
  ck_assert_int_eq(attune_prepare(context, &problem, &program), ATTUNE_UNSUPPORTED);
  problem = small_problem(ATTUNE_OP_ATTN_FWD);
  problem.head_dim_qk = 100;
  ck_assert_int_ne(attune_supports(context, &problem), ATTUNE_OK);
  ck_assert_msg(strstr(attune_error(), "100") != NULL, "%s", attune_error());
  ck_assert_str_eq(box.text, "");
  close_all();
  scratch_remove(folder);
}
END_TEST

/* The spec line in the message asks for exactly the variant that was missing. */
static void expect_spec_line(const char *message, const char *variant) {
  const char *line = strchr(message, '{');
  ck_assert_msg(line != NULL, "%s", message);
  attune_spec spec;
  attune_spec_options options = {0};
  attune__text errors = {0};
  ck_assert_msg(attune__spec_read("line", line, strlen(line), &options, &spec, &errors) ==
                    ATTUNE_OK,
                "%s: %s", line, errors.data ? errors.data : "");
  ck_assert_int_eq(spec.count, 1);
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&spec.requests[0].variant, 1, name);
  ck_assert_str_eq(name, variant);
  attune__spec_free(&spec);
}

START_TEST(without_compiling_a_miss_says_what_to_add) {
  fresh_folder();
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  problem.mask = ATTUNE_MASK_CAUSAL;
  problem.dtype_q = ATTUNE_DTYPE_BF16;
  attune_program *program;
  for (int by_environment = 0; by_environment < 2; by_environment++) {
    if (by_environment) setenv("ATTUNE_NO_JIT", "1", 1);
    open_all(!by_environment);
    ck_assert_int_eq(attune_supports(context, &problem), ATTUNE_NOT_FOUND);
    ck_assert_int_eq(attune_prepare(context, &problem, &program), ATTUNE_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(attune_error(), "ATTUNE_NO_JIT"));
    expect_spec_line(attune_error(), "attn_fwd_sm80_bf16_d16_causal");
    ck_assert_str_eq(box.text, "");
    close_all();
  }
  unsetenv("ATTUNE_NO_JIT");
  attune_store *store;
  attune_store_usage usage;
  ck_assert_int_eq(attune__store_open(folder, &store), ATTUNE_OK);
  ck_assert_int_eq(attune__store_usage(store, &usage), ATTUNE_OK);
  ck_assert_int_eq(usage.entries, 0);
  attune__store_close(store);
  scratch_remove(folder);
}
END_TEST

START_TEST(a_pinned_problem_compiles_its_value_in) {
  fresh_folder();
  open_all(0);
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  attune_pin pin = {"window_left", 63};
  problem.mask = ATTUNE_MASK_WINDOW;
  problem.pins = &pin, problem.pin_count = 1;
  attune_program *program;
  ck_assert_msg(attune_prepare(context, &problem, &program) == ATTUNE_OK, "%s", attune_error());
  ck_assert_int_eq(times(box.text, "compiled attn_fwd_sm80_fp32_d16_window_x"), 1);
  close_all();
  scratch_remove(folder);
}
END_TEST

/* ---- shapes -----------------------------------------------------------------------------------
 */

/* The program of a problem, which is found from then on. */
static attune_program_info made(const attune_problem *problem) {
  attune_program *program, *again;
  attune_program_info info = attune_program_info_init();
  ck_assert_msg(attune_prepare(context, problem, &program) == ATTUNE_OK, "%s", attune_error());
  ck_assert_int_eq(attune_find(context, problem, &again), ATTUNE_OK);
  ck_assert_ptr_eq(again, program);
  ck_assert_int_eq(attune_info(program, &info), ATTUNE_OK);
  return info;
}

static attune_tile tile_made(const attune_problem *problem) {
  attune_variant v;
  attune_tile tile;
  int has_tile, is_program;
  attune_program_info info = made(problem);
  ck_assert_int_eq(attune__name_parse(info.kernels[0].name, &v, &tile, &has_tile, &is_program), 0);
  return tile;
}

/* Each class gets the tile that is planned for it, whatever the lengths of the call and whichever
 * class was called first. */
static void check_classes(const int *order) {
  static const struct {
    int32_t batch, len_q, len_k;
    attune_class cls;
  } shapes[] = {{1, 1, 300, ATTUNE_CLASS_DECODE},
                {1, 300, 100, ATTUNE_CLASS_SHORT_FEW},
                {1, 700, 700, ATTUNE_CLASS_LONG_FEW},
                {3000, 100, 100, ATTUNE_CLASS_BRIEF_MANY}};
  attune_tile tiles[4];
  for (int i = 0; i < 4; i++) {
    attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
    attune_request request = {0};
    attune_kernel planned;
    int count, at = order[i];
    problem.batch = shapes[at].batch, problem.len_q = shapes[at].len_q;
    problem.len_k = shapes[at].len_k;
    attune__variant_of(&problem, attune__arch_parse(arch), &request.variant);
    ck_assert_int_eq(attune__expand_request(&request, shapes[at].cls, 0, &planned, &count), 0);
    tiles[at] = tile_made(&problem);
    ck_assert_str_eq(made(&problem).shape_class, attune__class_name((int)shapes[at].cls));
    ck_assert_mem_eq(&tiles[at], &planned.tile, sizeof planned.tile);
  }
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < i; k++) ck_assert(memcmp(&tiles[i], &tiles[k], sizeof *tiles) != 0);
}

START_TEST(a_class_gets_the_tile_planned_for_it) {
  static const int orders[2][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}};
  fresh_folder();
  for (int i = 0; i < 2; i++) {
    open_all(0);
    check_classes(orders[i]);
    ck_assert_int_eq(times(box.text, "2 compiled "), i ? 0 : 4);
    close_all();
  }
  scratch_remove(folder);
}
END_TEST

START_TEST(classes_with_one_tile_share_the_entry) {
  fresh_folder();
  open_all(0);
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  problem.len_q = problem.len_k = 2048; /* long_few, then long_many */
  attune_tile few = tile_made(&problem);
  problem.batch = 64;
  attune_tile many = tile_made(&problem);
  ck_assert_mem_eq(&few, &many, sizeof few);
  ck_assert_str_eq(made(&problem).shape_class, "long_many");
  ck_assert_int_eq(times(box.text, "2 compiled "), 1);
  close_all();
  scratch_remove(folder);
}
END_TEST

static attune_problem hopper_problem(int32_t batch, int32_t group, int32_t len_q, int32_t len_k) {
  attune_problem p = small_problem(ATTUNE_OP_ATTN_FWD);
  p.dtype_q = ATTUNE_DTYPE_BF16, p.head_dim_qk = 64;
  p.batch = batch, p.heads_q = 16, p.heads_kv = 16 / group, p.group = group;
  p.len_q = len_q, p.len_k = len_k;
  return p;
}

START_TEST(a_pinned_length_is_planned_for) {
  attune_pin pin = {"len_k", 77};
  attune_problem problem = hopper_problem(8, 1, 1024, 77);
  fresh_folder();
  arch = "sm_90a";
  open_all(0);
  problem.pins = &pin, problem.pin_count = 1;
  attune_tile tile = tile_made(&problem);
  ck_assert_uint_eq(tile.family, ATTUNE_FAMILY_SHORT);
  ck_assert_uint_eq(tile.block_n, 80);
  close_all();
  arch = "sm_80";
  scratch_remove(folder);
}
END_TEST

/* A class whose planned tile takes 256 keys: a call with more of them gets one that takes any. */
START_TEST(few_queries_of_many_keys_are_served) {
  const attune_problem self = hopper_problem(32, 8, 200, 200);
  const attune_problem cross = hopper_problem(32, 8, 200, 4000);
  fresh_folder();
  arch = "sm_90a";
  open_all(0);
  attune_tile few = tile_made(&self), many = tile_made(&cross);
  ck_assert_int_eq(attune__tile_max_len_k(&few), 256);
  ck_assert_int_eq(attune__tile_max_len_k(&many), 0);
  attune_tile again = tile_made(&self); /* is still found */
  ck_assert_mem_eq(&again, &few, sizeof few);
  close_all();
  open_all(0); /* the other way round */
  again = tile_made(&cross);
  ck_assert_mem_eq(&again, &many, sizeof many);
  close_all();
  arch = "sm_80";
  scratch_remove(folder);
}
END_TEST

/* ---- what is said ------------------------------------------------------------------------------
 */

/* A slower family that stands in says so once for each program; one that was meant does not. */
START_TEST(a_fallback_is_said_once) {
  static const char said[] = "1 attn_fwd_sm80_fp16_d16_elem is served by family fma, a slower one: "
                             "align elem with family mma: rows are copied 16 bytes at a time; "
                             "family fma loads elements\n";
  fresh_folder();
  open_all(0);
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  attune_program *program;
  problem.dtype_q = ATTUNE_DTYPE_FP16, problem.align = ATTUNE_ALIGN_ELEM;
  ck_assert_int_eq(attune_supports(context, &problem), ATTUNE_OK);
  ck_assert_str_eq(box.text, ""); /* a question is no service */
  for (int i = 0; i < 3; i++) {
    problem.len_q = 128 << i; /* other shapes of one program */
    ck_assert_msg(attune_prepare(context, &problem, &program) == ATTUNE_OK, "%s", attune_error());
  }
  ck_assert_int_eq(times(box.text, said), 1);
  problem.mask = ATTUNE_MASK_CAUSAL;
  ck_assert_int_eq(attune_prepare(context, &problem, &program), ATTUNE_OK);
  ck_assert_int_eq(times(box.text, " is served by family "), 2);
  problem = small_problem(ATTUNE_OP_ATTN_FWD);
  ck_assert_int_eq(attune_prepare(context, &problem, &program), ATTUNE_OK);
  ck_assert_int_eq(times(box.text, " is served by family "), 2);
  close_all();
  scratch_remove(folder);
}
END_TEST

static void *prepare_thread(void *argument) {
  attune_program *program;
  attune_problem *problem = argument;
  return attune_prepare(context, problem, &program) ? NULL : (void *)program;
}

START_TEST(threads_at_one_problem_compile_once) {
  enum { N = 6 };
  fresh_folder();
  open_all(0);
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  pthread_t thread[N];
  void *program[N];
  for (int i = 0; i < N; i++)
    ck_assert_int_eq(pthread_create(&thread[i], NULL, prepare_thread, &problem), 0);
  for (int i = 0; i < N; i++) pthread_join(thread[i], &program[i]);
  for (int i = 0; i < N; i++) {
    ck_assert_ptr_nonnull(program[i]);
    ck_assert_ptr_eq(program[i], program[0]);
  }
  ck_assert_int_eq(times(box.text, "2 compiled "), 1);
  close_all();
  scratch_remove(folder);
}
END_TEST

START_TEST(an_unusable_store_is_said_once) {
  snprintf(folder, sizeof folder, "/proc/attune");
  open_all(0);
  attune_problem problem = small_problem(ATTUNE_OP_ATTN_FWD);
  attune_program *program;
  ck_assert_int_eq(attune_prepare(context, &problem, &program), ATTUNE_OK);
  problem.mask = ATTUNE_MASK_CAUSAL;
  ck_assert_int_eq(attune_prepare(context, &problem, &program), ATTUNE_OK);
  ck_assert_int_eq(times(box.text, "1 compiled kernels are not kept"), 1);
  ck_assert_int_eq(times(box.text, "/proc/attune"), 1);
  close_all();
}
END_TEST

START_TEST(bad_arguments_are_refused) {
  attune_jit *none;
  attune_jit_options options = {.size = 4};
  ck_assert_int_eq(attune_jit_install(NULL, NULL, &none), ATTUNE_INVALID);
  snprintf(folder, sizeof folder, "%s", "");
  open_all(0);
  ck_assert_int_eq(attune_jit_install(context, &options, &none), ATTUNE_INVALID);
  ck_assert_ptr_null(none);
  close_all();
}
END_TEST

TEST_MAIN("jit", a_spill_takes_the_next_candidate, serial_products_take_the_next_candidate,
          prepare_compiles_once_and_the_next_context_hits, a_program_of_three_kernels,
          what_is_not_generated_is_refused_with_its_reason,
          without_compiling_a_miss_says_what_to_add, a_pinned_problem_compiles_its_value_in,
          a_class_gets_the_tile_planned_for_it, classes_with_one_tile_share_the_entry,
          a_pinned_length_is_planned_for, few_queries_of_many_keys_are_served,
          a_fallback_is_said_once, threads_at_one_problem_compile_once,
          an_unusable_store_is_said_once, bad_arguments_are_refused)
