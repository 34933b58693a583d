/* shell.h - a line of bash, run from the repository root, with its exit code and what it printed.
 *
 * For tests of what is no C: a wheel of NVRTC that `make deps` fetched is found by programs beside
 * build/nvrtc only, so the line is told of it. */
#ifndef ATTUNE_SHELL_H
#define ATTUNE_SHELL_H

#include "test.h"

#include <sys/wait.h>

static char shell_output[1 << 16]; /* stdout and stderr of the last line */

static inline int shell(const char *line) {
  static char whole[4096];
  snprintf(whole, sizeof whole,
           "unset MAKEFLAGS MAKELEVEL ATTUNE_NO_JIT ATTUNE_LIBRARY_PATH\nexec 2>&1\n"
           "for n in $PWD/build/nvrtc/nvidia/cu*/lib/libnvrtc.so.1?; do\n"
           "  [ ! -e $n ] || export ATTUNE_NVRTC=${ATTUNE_NVRTC:-$n}\ndone\n%s",
           line);
  setenv("TEST_SHELL_LINE", whole, 1);
  FILE *pipe = popen("bash -c \"$TEST_SHELL_LINE\"", "r");
  ck_assert_ptr_nonnull(pipe);
  size_t size = fread(shell_output, 1, sizeof shell_output - 1, pipe);
  shell_output[size] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void shell_must(const char *line) {
  int code = shell(line);
  ck_assert_msg(code == 0, "exit %d of\n%s\n%s", code, line, shell_output);
}

#endif
