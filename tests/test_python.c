/* test_python.c - the Python binding: runs tests/python/test_attune.py on the CPU device, and
 * installs the package without a network. Needs python3, NVRTC and the ordinary build. */
#include "scratch.h"
#include "shell.h"

/* What a test may say when it skips itself: a package is not installed. */
static int may_skip(const char *skip) {
  static const char *const reasons[] = {"'numpy is not installed", "'jax is not installed",
                                        "'torch is not installed"};
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
    if (strncmp(skip, reasons[i], strlen(reasons[i])) == 0) return 1;
  return 0;
}

START_TEST(the_binding_computes) {
  shell_must("python3 tests/python/test_attune.py -v");
  ck_assert_ptr_nonnull(strstr(shell_output, "\nOK"));
  for (const char *skip = shell_output; (skip = strstr(skip, "skipped '")); skip++)
    ck_assert_msg(may_skip(skip + strlen("skipped ")), "%.*s", (int)strcspn(skip, "\n"), skip);
}
END_TEST

START_TEST(the_package_installs) {
  char folder[64], line[1024];
  scratch_make(folder);
  snprintf(line, sizeof line,
           "cd runtime/python && T=$OLDPWD/%s && python3 -c"
           " 'import backend, sys; print(backend.build_wheel(sys.argv[1]))' $T &&"
           " python3 -m zipfile -e $T/attune-*.whl $T/site && cd / &&"
           " ATTUNE_LIBRARY_PATH=$T/../../build PYTHONPATH=$T/site python3 -c"
           " 'import attune; print(attune.__version__, attune.__file__)'",
           folder);
  shell_must(line);
  ck_assert_msg(strstr(shell_output, "0.1.0 /") && strstr(shell_output, "/site/attune/__init__.py"),
                "%s", shell_output);
  scratch_remove(folder);
}
END_TEST

TEST_MAIN("python", the_binding_computes, the_package_installs)
