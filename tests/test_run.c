/* test_run.c - what `make run` promises a machine without a GPU: the default set built, every
 * kernel executed, checked and compared with float64 on the CPU device; and that kernels which are
 * wrong on purpose do not pass. The set stays in build/ (as built.h's), so that a second run
 * compiles what changed. Needs NVRTC; a fresh build takes most of the time. */
#include "test.h"

#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

static char last[1024]; /* line of what the program printed */

/* Exit code of `attune WORDS`; the program lies beside the folder of this test. */
static int attune(const char *words) {
  char self[PATH_MAX] = "", command[2 * PATH_MAX], line[4096];
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 2; i++) *strrchr(self, '/') = 0;
  snprintf(command, sizeof command, "%s/attune %s 2>/dev/null", self, words);
  FILE *pipe = popen(command, "r");
  ck_assert_ptr_nonnull(pipe);
  *last = 0;
  while (fgets(line, sizeof line, pipe)) snprintf(last, sizeof last, "%.1000s", line);
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Sanitizers look at the program, not at the kernels, and take ten times as long: fewer do there.
 */
#ifdef __SANITIZE_ADDRESS__
#define SPEC    "article"
#define KERNELS "8"
#else
#define SPEC    "default"
#define KERNELS "96"
#endif

START_TEST(every_default_kernel) {
  int code = attune("run specs/" SPEC ".yaml -o build/sets/test-" SPEC " --device cpu");
  ck_assert_str_eq(last, "verified " KERNELS " of " KERNELS " kernels on cpu\n");
  ck_assert_int_eq(code, 0);
}
END_TEST

START_TEST(without_checks) {
  ck_assert_int_eq(attune("verify attn_fwd_sm80_fp32_d32__fma_m32n32 --device cpu --checks off"),
                   0);
  ck_assert_str_eq(last, "verified 1 of 1 kernels on cpu\n");
  ck_assert_int_eq(attune("run attn_fwd_sm80_fp32_d32__fma_m32n32 --device cpu --checks off"), 0);
  ck_assert_str_eq(last, "verified 1 of 1 kernels on cpu\n");
  ck_assert_int_eq(attune("run attn_fwd_sm80_fp32_d32__fma_m32n32 --checks maybe"), 2);
}
END_TEST

START_TEST(wrong_kernels) {
  static const char *const features[] = {"norescale", "nomax"};
  for (int i = 0; i < 2; i++) {
    char words[128];
    snprintf(words, sizeof words, "verify attn_demo_sm80_fp32_d32_%s --device cpu", features[i]);
    ck_assert_int_eq(attune(words), 1);
    ck_assert_str_eq(last, "verified 0 of 1 kernels on cpu\n");
  }
}
END_TEST

TEST_MAIN("run", every_default_kernel, without_checks, wrong_kernels)
