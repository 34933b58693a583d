/* test_doctor.c - attune doctor, run as a user runs it: what it finds, its exit codes, its advice,
 * with and without a compiler, a store, and a driver (a made-up one, tests/doctor/); and that it
 * knows every variable that the sources read. Needs NVRTC. */
#include "scratch.h"
#include "test.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_MAX = 1 << 16 };
static char folder[64];         /* a store, a fake driver */
static char output[OUTPUT_MAX]; /* stdout and stderr of the last run */

/* Exit code of a shell line; output is what it printed. */
static int shell(const char *line) {
  FILE *pipe = popen(line, "r");
  ck_assert_ptr_nonnull(pipe);
  size_t size = fread(output, 1, sizeof output - 1, pipe);
  output[size] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Exit code of `attune doctor OPTIONS`, with variables set. The program lies beside the folder of
 * this test. */
static int doctor(const char *variables, const char *options) {
  char self[PATH_MAX] = "", line[2 * PATH_MAX];
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 2; i++) *strrchr(self, '/') = 0;
  if (!*folder) scratch_make(folder);
  snprintf(line, sizeof line,
           "env -u ATTUNE_NO_JIT ATTUNE_CACHE_DIR=%s/store %s %s/attune doctor %s 2>&1", folder,
           variables, self, options);
  return shell(line);
}

static void expect(const char *text) {
  ck_assert_msg(strstr(output, text) != NULL, "'%s' is missing in:\n%s", text, output);
}
static void expect_not(const char *text) {
  ck_assert_msg(strstr(output, text) == NULL, "'%s' is in:\n%s", text, output);
}

/* Runs with the fake driver in place of the machine's. */
static int with_driver(const char *variables, const char *options) {
  char line[512], all[256];
  if (!*folder) scratch_make(folder);
  snprintf(all, sizeof all, "%s/libcuda.so.1", folder);
  if (access(all, R_OK)) {
    snprintf(line, sizeof line,
             "cc -Wall -Wextra -Werror -shared -fPIC -o %s tests/doctor/fake_driver.c 2>&1", all);
    ck_assert_msg(shell(line) == 0, "%s", output);
  }
  snprintf(all, sizeof all, "LD_LIBRARY_PATH=$PWD/%s:$LD_LIBRARY_PATH %s", folder, variables);
  return doctor(all, options);
}

START_TEST(finds_what_is_here) {
  ck_assert_int_eq(doctor("", ""), 0);
  expect("attune    0.1.0, ABI 2, entry format 3, Lua 5.4");
  expect("compiler  nvrtc 1");
  expect("/store, 0 entries, 0 bytes");
  expect("ATTUNE_CACHE_DIR=build/tmp-test-");
  expect("ATTUNE_NO_JIT is not set");
  expect("everything works here");
  expect_not("fault:");
}
END_TEST

START_TEST(json) {
  ck_assert_int_eq(doctor("ATTUNE_NO_JIT=1", "--json"), 0);
  expect("{\"schema\": 1");
  expect("\"nvrtc\": {\"state\": \"fine\"");
  expect("\"entries\": 0, \"bytes\": 0");
  expect("\"ATTUNE_NO_JIT\": \"1\"");
  expect_not("ATTUNE_NVRTC");
}
END_TEST

START_TEST(no_compiler) {
  ck_assert_int_eq(doctor("ATTUNE_NVRTC=/no/such/libnvrtc.so", ""), 3);
  expect("tried /no/such/libnvrtc.so");
  expect("fault:  install a CUDA toolkit");
  expect("something that this machine needs is missing");
  ck_assert_int_eq(doctor("ATTUNE_NVRTC=/no/such/libnvrtc.so", "--json"), 3);
  expect("{\"schema\": 1, \"state\": \"fault\"");
  expect("\"nvrtc\": {\"state\": \"fault\"");
}
END_TEST

/* Kernels are then kept in memory: worth knowing, no fault. */
START_TEST(no_store) {
  char variables[256], path[128];
  snprintf(path, sizeof path, "%s/open", folder);
  ck_assert_int_eq(mkdir(path, 0777) || chmod(path, 0777), 0);
  snprintf(path, sizeof path, "%s/open/v1", folder);
  ck_assert_int_eq(mkdir(path, 0777) || chmod(path, 0777), 0);
  snprintf(variables, sizeof variables, "ATTUNE_CACHE_DIR=%s/open", folder);
  ck_assert_int_eq(doctor(variables, ""), 0);
  expect("others may write to it");
  expect("note:   set ATTUNE_CACHE_DIR to a folder that is yours alone");
  ck_assert_int_eq(doctor("ATTUNE_CACHE_DIR= XDG_CACHE_HOME= HOME=", ""), 0);
  expect("no folder: kernels are compiled again in every process");
}
END_TEST

START_TEST(devices) {
  ck_assert_int_eq(with_driver("", ""), 0);
  expect("CUDA 13.0, 1 device\n");
  expect("device 0: Fake GPU 0, sm_90a, 77 SMs, 123456 bytes of shared memory a block");
  expect("served by sm_90a");
  expect("everything works here, with a GPU");
  static const char *const served[][2] = {{"FAKE_CC=75", "sm_75"},    {"FAKE_CC=80", "sm_80"},
                                          {"FAKE_CC=87", "sm_86"},    {"FAKE_CC=89", "sm_89"},
                                          {"FAKE_CC=100", "sm_100a"}, {"FAKE_CC=120", "sm_120a"}};
  for (size_t i = 0; i < sizeof served / sizeof *served; i++) {
    char line[64];
    ck_assert_int_eq(with_driver(served[i][0], "--json"), 0);
    snprintf(line, sizeof line, "\"served_by\": \"%s\"", served[i][1]);
    expect(line);
  }
}
END_TEST

START_TEST(devices_of_no_use) {
  ck_assert_int_eq(with_driver("FAKE_CC=70", ""), 0);
  expect("sm_70");
  expect("note:   none of attune's archs runs there");
  expect("everything works here that needs no GPU");
  ck_assert_int_eq(with_driver("FAKE_COUNT=0", ""), 0);
  expect("note:   look at CUDA_VISIBLE_DEVICES");
}
END_TEST

/* A driver that does not start is a fault where there is a GPU, and only there. */
START_TEST(driver_that_does_not_start) {
  int has_gpu = !access("/dev/nvidia0", F_OK) || !access("/sys/module/nvidia/version", F_OK);
  ck_assert_int_eq(with_driver("FAKE_INIT=999", ""), has_gpu ? 3 : 0);
  expect("does not start: a made-up error (999)");
  expect("see `nvidia-smi`");
}
END_TEST

START_TEST(every_variable_is_listed) {
  ck_assert_int_eq(
      shell("grep -rhoE '(getenv|absolute)\\(\"[A-Z_]+\"' gen runtime --include='*.c' |"
            " sed 's/.*(\"//; s/\"//' | sort -u"),
      0);
  char names[OUTPUT_MAX];
  memcpy(names, output, sizeof names);
  doctor("", "");
  int count = 0;
  for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n"), count++) expect(name);
  ck_assert_int_ge(count, 8);
  scratch_remove(folder);
}
END_TEST

TEST_MAIN("doctor", finds_what_is_here, json, no_compiler, no_store, devices, devices_of_no_use,
          driver_that_does_not_start, every_variable_is_listed)
