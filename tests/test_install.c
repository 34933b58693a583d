/* test_install.c - the installed tree, as a stranger's program meets it: the binary interface is
 * the agreed one, nothing else is exported, a C and a C++ program build with pkg-config and with
 * CMake against shared and static libraries and run, the pages know every command, and uninstall
 * leaves nothing. BUILD_FOLDER and BUILD_FLAGS (sanitizers) come from the Makefile. Needs NVRTC. */
#include "scratch.h"
#include "shell.h"

#ifndef BUILD_FOLDER
#define BUILD_FOLDER "build"
#define BUILD_FLAGS  ""
#endif
#define TREE BUILD_FOLDER "/install-test"

static char folder[64]; /* what is built here */

/* A line of bash with $T, the installed tree, $S, this test's folder, and $F, flags. */
static const char *with_tree(const char *line) {
  static char whole[2048];
  if (!*folder) scratch_make(folder);
  snprintf(whole, sizeof whole,
           "T=\"$PWD/" TREE "\" S=%s F='" BUILD_FLAGS "'\n"
           "export PKG_CONFIG_PATH=$T/lib/pkgconfig LD_LIBRARY_PATH=$T/lib\nunset DESTDIR\n%s",
           folder, line);
  return whole;
}

static void must(const char *line) {
  shell_must(with_tree(line));
}

/* A change here is a change for every program that was linked: `make abi`, and read the diff. */
START_TEST(interface_is_the_agreed_one) {
  must("runtime/abi.sh | diff -u runtime/abi.txt -");
}
END_TEST

START_TEST(nothing_else_is_exported) {
  static const char *const libraries[] = {"libattune", "libattune_cpu", "libattune_gen"};
  for (int i = 0; i < 3; i++) {
    char line[1024];
    snprintf(line, sizeof line,
             "diff <(awk '$1 == \"library\" { on = $2 == \"%s\"; next } /^[^ ]/ { on = 0 }"
             " on { sub(/\\(.*/, \"\"); sub(/.*[ *]/, \"\"); print }' runtime/abi.txt | sort)"
             " <(nm -D --defined-only $T/lib/%s.so |"
             " awk '$2 != \"A\" && !/ATTUNE_INSIDE_/ { sub(/@.*/, \"\", $3); print $3 }' | sort)",
             libraries[i], libraries[i]);
    must(line);
    snprintf(line, sizeof line, "readelf -d $T/lib/%s.so | grep -F 'soname: [%s.so.0]'",
             libraries[i], libraries[i]);
    must(line);
  }
}
END_TEST

#define LOOKED_UP "attune 0.1.0 looks up for sm_90a: ATTUNE_NOT_FOUND, and says why\n"
#define ATTENDED  "attune 0.1.0 attends: the mean of V\n"

static void must_print(const char *line, const char *text) {
  must(line);
  ck_assert_str_eq(shell_output, text);
}

START_TEST(pkg_config_shared) {
  must("cc $F -Wall -Wextra -Werror tests/consumer/ask.c -o $S/ask"
       " $(pkg-config --cflags --libs attune)");
  must_print("$S/ask", LOOKED_UP);
  must("c++ $F -Wall -Wextra -Werror tests/consumer/attend.cpp -o $S/attend"
       " $(pkg-config --cflags --libs attune_gen attune_cpu)");
  must_print("$S/attend", ATTENDED);
  must("ldd $S/attend | grep -F \"$T/lib/libattune_gen.so.0\"");
  must("for language in c c++; do echo '#include <attune/attune_dlpack.h>' |"
       " cc -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags attune) -x $language - ||"
       " exit 1; done");
}
END_TEST

#define STATIC(packages)                                                                           \
  "$(pkg-config --static --cflags --libs " packages                                                \
  " | sed 's/-l\\(attune[a-z_]*\\)/-l:lib\\1.a/g')"

START_TEST(pkg_config_static) {
  must("cc $F tests/consumer/ask.c -o $S/ask " STATIC("attune"));
  must_print("$S/ask", LOOKED_UP);
  must("c++ $F tests/consumer/attend.cpp -o $S/attend " STATIC("attune_gen attune_cpu"));
  must_print("$S/attend", ATTENDED);
  must("! ldd $S/attend $S/ask | grep libattune");
}
END_TEST

START_TEST(cmake) {
  must("command -v cmake || { echo 'cmake is missing: run make deps'; exit 1; }");
  must("cmake -S tests/consumer -B $S/cmake -DCMAKE_PREFIX_PATH=\"$T\" \"-DCMAKE_C_FLAGS=$F\""
       " \"-DCMAKE_CXX_FLAGS=$F\" && cmake --build $S/cmake -j2");
  must_print("$S/cmake/ask", LOOKED_UP);
  must_print("$S/cmake/attend", ATTENDED);
  must_print("$S/cmake/ask_static", LOOKED_UP);
  must_print("$S/cmake/attend_static", ATTENDED);
  must("! ldd $S/cmake/attend_static | grep libattune");
  must("ldd $S/cmake/attend | grep -F \"$T/lib/libattune_cpu.so.0\"");
}
END_TEST

/* Another major version is another library. */
START_TEST(cmake_refuses_another_major) {
  must("mkdir -p $S/major && printf '%s\\n' 'cmake_minimum_required(VERSION 3.16)'"
       " 'project(major NONE)' 'find_package(attune 1.0 CONFIG REQUIRED)' > "
       "$S/major/CMakeLists.txt");
  ck_assert_int_ne(shell(with_tree("cmake -S $S/major -B $S/major/out -DCMAKE_PREFIX_PATH=\"$T\"")),
                   0);
  ck_assert_ptr_nonnull(strstr(shell_output, "0.1.0"));
}
END_TEST

START_TEST(pages_know_every_command) {
  must("for command in $($T/bin/attune --help | sed -n 's/^  \\([a-z]*\\) .*/\\1/p'); do"
       "  grep -q \"^.SS $command\\$\" $T/share/man/man1/attune.1 &&"
       "  grep -q \"^      $command) \" $T/share/bash-completion/completions/attune &&"
       "  grep -q \"^    $command) \" $T/share/zsh/site-functions/_attune &&"
       "  grep -q \" -a $command \" $T/share/fish/vendor_completions.d/attune.fish ||"
       "  { echo \"$command is missing\"; exit 1; }; echo -n \"$command \"; done");
  ck_assert_ptr_nonnull(
      strstr(shell_output, "list plan explain emit build verify bench tune run "));
  must("! groff -man -Tascii -ww -z $T/share/man/man1/attune.1 2>&1 >/dev/null | grep .");
}
END_TEST

START_TEST(bash_completes) {
  static const char *const cases[][2] = {
      {"COMP_WORDS=(attune do) COMP_CWORD=1", "doctor\n"},
      {"COMP_WORDS=(attune cache '') COMP_CWORD=2", "info clear --json --help\n"},
      {"COMP_WORDS=(attune list --c) COMP_CWORD=2", "--count --combinations\n"},
      {"COMP_WORDS=(attune list sp) COMP_CWORD=2", "\n"}, /* left to file names */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[256];
    snprintf(
        line, sizeof line,
        "source $T/share/bash-completion/completions/attune; %s; _attune; echo ${COMPREPLY[@]}",
        cases[i][0]);
    must_print(line, cases[i][1]);
  }
}
END_TEST

START_TEST(uninstall_leaves_nothing) {
  must("export VERSION=0.1.0 PREFIX=/opt/attune DESTDIR=$PWD/$S/root\n"
       "runtime/install/install.sh install " BUILD_FOLDER " &&"
       " [ -x $DESTDIR/opt/attune/bin/attune ] &&"
       " grep -q '^prefix=/opt/attune$' $DESTDIR/opt/attune/lib/pkgconfig/attune.pc &&"
       " runtime/install/install.sh uninstall " BUILD_FOLDER " && find $DESTDIR ! -type d");
  ck_assert_str_eq(shell_output, "");
  scratch_remove(folder);
}
END_TEST

TEST_MAIN("install", interface_is_the_agreed_one, nothing_else_is_exported, pkg_config_shared,
          pkg_config_static, cmake, cmake_refuses_another_major, pages_know_every_command,
          bash_completes, uninstall_leaves_nothing)
