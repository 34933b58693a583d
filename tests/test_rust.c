/* test_rust.c - the Rust binding: builds runtime/rust without a network, runs its tests (layouts of
 * the raw crate, the safe wrapper on the CPU device against plain loops, the manual's example) and
 * the example program. Needs cargo, NVRTC and the ordinary build. */
#include "shell.h"

#define CARGO                                                                                      \
  "command -v cargo || { echo 'cargo is missing: run make deps'; exit 1; }\n"                      \
  "export CARGO_TARGET_DIR=$PWD/build/rust ATTUNE_LIB_DIR=$PWD/build LD_LIBRARY_PATH=$PWD/build\n" \
  "cd runtime/rust && cargo --offline --locked "

/* "test result: ok. 12 passed; 0 failed; ..." of each test program, added. */
static int passed(const char *text) {
  int sum = 0, count;
  for (const char *at = text; (at = strstr(at, "test result: ")); at++)
    if (sscanf(at, "test result: ok. %d passed; 0 failed; 0 ignored;", &count) == 1)
      sum += count;
    else
      return -1;
  return sum;
}

START_TEST(the_crates_compute) {
  shell_must(CARGO "test --workspace");
  ck_assert_msg(passed(shell_output) >= 27, "%s", shell_output);
}
END_TEST

START_TEST(the_example_runs) {
  shell_must(CARGO "run -q --example hello sm_80");
  ck_assert_ptr_nonnull(strstr(shell_output, "row 0 sees itself alone: [-1.0, -0.98, -0.96] is "
                                             "[-1.0, -0.98, -0.96]\n"));
}
END_TEST

TEST_MAIN("rust", the_crates_compute, the_example_runs)
