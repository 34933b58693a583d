/* test_trace.c - attune trace, run as a user runs it: bytes by formula and as counted, exit codes,
 * JSON; and that a template that moves more than its formula says is found. Needs NVRTC. */
#include "scratch.h"
#include "test.h"

#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_MAX = 1 << 16 };
static char store[64];          /* folder of the compiled kernels of this test */
static char output[OUTPUT_MAX]; /* stdout and stderr of the last run */

/* Exit code of `attune WORDS`, with `variables` set. The program lies beside the
 * folder of this test. */
static int attune(const char *variables, const char *words) {
  char self[PATH_MAX] = "", line[2 * PATH_MAX];
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 2; i++) *strrchr(self, '/') = 0;
  if (!*store) scratch_make(store);
  snprintf(line, sizeof line, "ATTUNE_CACHE_DIR=%s %s %s/attune %s 2>&1", store, variables, self,
           words);
  FILE *pipe = popen(line, "r");
  ck_assert_ptr_nonnull(pipe);
  size_t size = fread(output, 1, sizeof output - 1, pipe);
  output[size] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const char *text) {
  ck_assert_msg(strstr(output, text) != NULL, "'%s' is missing in:\n%s", text, output);
}

/* Q 2 heads x 100 rows x 64 floats; K is read by both blocks of each head. */
START_TEST(bytes_of_one_kernel) {
  ck_assert_int_eq(attune("", "trace attn_fwd_sm80_fp32_d64__fma_m64n64 --shape q=100,k=70"), 0);
  expect("batch 1, heads 2, 100 queries x 70 keys");
  expect("q        read           51,200          51,200           0");
  expect("k        read           71,680          71,680           0          35,840          "
         "35,840           0");
  expect("lse      write             800             800           0");
  expect("no fault");
  expect("difference 0");
}
END_TEST

START_TEST(json_of_a_program_of_three_kernels) {
  ck_assert_int_eq(attune("", "trace attn_standard_sm80_fp32_d32_causal --json "
                              "--shape b=2,h=4/2,q=33,k=50 --seed 3 --landing random"),
                   0);
  expect("\"schema\": 1");
  expect("\"device\": \"cpu\"");
  expect("\"heads_kv\": 2");
  expect("\"name\": \"scores\"");
  /* S: 2 x 4 heads x 33 x 50 floats, written by the first kernel */
  expect("\"requested_write\": 52800");
  expect("\"difference\": 0");
}
END_TEST

START_TEST(wrong_words_are_refused) {
  static const char *const words[] = {"trace",
                                      "trace no_such_kernel",
                                      "trace attn_fwd_sm80_fp32_d64 --shape q",
                                      "trace attn_fwd_sm80_fp32_d64 --shape h=3/2",
                                      "trace attn_fwd_sm80_fp32_d64 --shape w=3",
                                      "trace attn_fwd_sm80_fp32_d64 --landing soon",
                                      "trace attn_fwd_sm80_fp32_d64 --seed -1",
                                      "trace specs/article.yaml",
                                      "demo 10",
                                      "demo --plot build/x.svg",
                                      "verify attn_fwd_sm80_fp32_d64 --device tpu"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    ck_assert_msg(attune("", words[i]) == 2, "%s:\n%s", words[i], output);
}
END_TEST

/* A template that loads K twice. */
START_TEST(more_bytes_than_the_formula_fail) {
  char folder[64], line[512], variables[128];
  scratch_make(folder);
  snprintf(line, sizeof line,
           "cp -r templates/. %s && sed -i '/load_tile<kHeadDimQK>(smem.k, k,/{h;p;g}' "
           "%s/attn_fwd/fma_apart.cuh",
           folder, folder);
  ck_assert_int_eq(system(line), 0);
  snprintf(variables, sizeof variables, "ATTUNE_TEMPLATES=%s", folder);
  ck_assert_int_eq(attune(variables, "trace attn_fwd_sm80_fp32_d64__fma_m64n64 --shape q=100,k=70"),
                   1);
  expect("k        read           71,680         143,360       71680");
  expect("counted bytes differ from the formula by 71680");
  scratch_remove(folder);
  scratch_remove(store);
}
END_TEST

TEST_MAIN("trace", bytes_of_one_kernel, json_of_a_program_of_three_kernels, wrong_words_are_refused,
          more_bytes_than_the_formula_fail)
