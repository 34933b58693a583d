/* test_nvrtc.c - the compiler service: facts, errors, hazards of NVRTC, determinism. Needs NVRTC.
 */
#include "../gen/nvrtc.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char tiny[] = "extern \"C\" __global__ void tiny(float *x, int n) {\n"
                           "  __shared__ float s[12];\n"
                           "  s[threadIdx.x % 12] = x[n];\n"
                           "  __syncthreads();\n"
                           "  x[threadIdx.x] = s[(threadIdx.x + 1) % 12];\n"
                           "}\n";

/* 96 live values at 64 registers a thread: must spill. */
static const char spilling[] =
    "extern \"C\" __global__ void __launch_bounds__(1024) spilling(float *x, int n) {\n"
    "  float a[96];\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 96; i++) a[i] = x[i * n];\n"
    "  for (int k = 0; k < n; k++) {\n"
    "    float b[96];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 96; i++) b[i] = a[i] * a[(i * 7 + 13) % 96] + x[k];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 96; i++) a[i] = b[i];\n"
    "  }\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 96; i++) x[i * n + threadIdx.x] = a[i];\n"
    "}\n";

static uint32_t sm(const char *name) {
  return attune__arch_parse(name);
}

static attune_status compile_digest(char digest[65]) {
  attune_image image;
  attune_status status = attune__nvrtc_compile(tiny, "tiny", sm("sm_90a"), &image);
  if (!status) attune__sha256_hex(image.cubin, image.cubin_bytes, digest);
  attune__image_free(&image);
  return status;
}

/* Runs first, before this process has loaded NVRTC: two children compile alone. */
static char child_digest[2][65];
static void run_children(void) {
  for (int i = 0; i < 2; i++) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
      char digest[65] = "";
      _exit(compile_digest(digest) || write(ends[1], digest, 65) != 65);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(read(ends[0], child_digest[i], 65), 65);
    close(ends[0]), close(ends[1]);
  }
}

static int missing_is_reported(void) {
  setenv("ATTUNE_NVRTC", "/nonexistent/libnvrtc.so.13", 1);
  attune_nvrtc_info info;
  return attune__nvrtc_info(&info) == ATTUNE_NO_COMPILER && strstr(attune_error(), "make deps") &&
         strstr(attune_error(), "/nonexistent/libnvrtc.so.13");
}

/* In a child too: a process looks for NVRTC once. */
START_TEST(a_missing_library_says_where_it_was_looked_for) {
  pid_t child = fork();
  if (child == 0) _exit(!missing_is_reported());
  int status = -1;
  waitpid(child, &status, 0);
  ck_assert_int_eq(status, 0);
}
END_TEST

static volatile sig_atomic_t seen[65];
static void on_signal(int number) {
  seen[number]++;
}
static const int signals[] = {SIGINT, SIGTERM, SIGXFSZ};

static int handlers_are_ours(void) {
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction now;
    sigaction(signals[i], NULL, &now);
    if (now.sa_handler != on_signal) return 0;
  }
  return 1;
}

static void *compile_thread(void *argument) {
  return compile_digest(argument) ? argument : NULL;
}

START_TEST(processes_agree_and_signals_stay_ours) {
  run_children();
  ck_assert_str_eq(child_digest[0], child_digest[1]);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], on_signal);
  attune_nvrtc_info info;
  ck_assert_msg(attune__nvrtc_info(&info) == ATTUNE_OK, "%s", attune_error());
  ck_assert(handlers_are_ours());
  /* and during a compile, sampled until it ends */
  char digest[65];
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, compile_thread, digest), 0);
  void *failed = NULL;
  while (pthread_tryjoin_np(thread, &failed)) ck_assert(handlers_are_ours());
  ck_assert_ptr_null(failed);
  ck_assert_str_eq(digest, child_digest[0]);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    raise(signals[i]);
    ck_assert_int_eq(seen[signals[i]], 1);
    signal(signals[i], SIG_DFL);
  }
}
END_TEST

START_TEST(version_has_a_build_number) {
  attune_nvrtc_info info;
  ck_assert_int_eq(attune__nvrtc_info(&info), ATTUNE_OK);
  int major, minor, build;
  ck_assert_int_eq(sscanf(info.version, "nvrtc %d.%d.%d", &major, &minor, &build), 3);
  ck_assert_int_ge(major, 12);
  ck_assert_int_gt(build, 0);
  ck_assert_int_eq(access(info.path, R_OK), 0);
}
END_TEST

START_TEST(facts_of_a_clean_kernel) {
  const char *archs[] = {"sm_75", "sm_90a", "sm_120a"};
  for (int i = 0; i < 3; i++) {
    attune_image image;
    ck_assert_msg(attune__nvrtc_compile(tiny, "tiny", sm(archs[i]), &image) == ATTUNE_OK, "%s",
                  attune_error());
    ck_assert_uint_gt(image.facts.registers, 0);
    ck_assert_uint_lt(image.facts.registers, 64);
    ck_assert_uint_eq(image.facts.static_smem, 12 * sizeof(float));
    ck_assert_uint_eq(image.facts.spill_bytes, 0);
    ck_assert_uint_eq(image.facts.stack_bytes, 0);
    ck_assert_uint_eq(image.facts.c75_lines, 0);
    ck_assert(image.milliseconds > 0);
    attune__image_free(&image);
  }
}
END_TEST

START_TEST(spills_are_seen) {
  attune_image image;
  ck_assert_int_eq(attune__nvrtc_compile(spilling, "spilling", sm("sm_80"), &image), ATTUNE_OK);
  ck_assert_uint_gt(image.facts.spill_bytes, 0);
  ck_assert_uint_gt(image.facts.stack_bytes, 0);
  ck_assert_uint_eq(image.facts.registers, 64);
  ck_assert_ptr_nonnull(strstr(image.log, "spill stores"));
  attune__image_free(&image);
}
END_TEST

START_TEST(c75_lines_are_counted) {
  static const char source[] =
      "extern \"C\" __global__ void __launch_bounds__(128) serial(float *x, long long d) {\n"
      "  float r[4] = {x[0], x[1], x[2], x[3]};\n"
      "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %4, "
      "\"\n"
      "               \"1, 1, 1, 0, 0;\"\n"
      "               : \"+f\"(r[0]), \"+f\"(r[1]), \"+f\"(r[2]), \"+f\"(r[3]) : \"l\"(d));\n"
      "  x[threadIdx.x] = r[0] + r[1];\n"
      "}\n";
  attune_image image;
  ck_assert_msg(attune__nvrtc_compile(source, "serial", sm("sm_90a"), &image) == ATTUNE_OK, "%s",
                attune_error());
  ck_assert_uint_gt(image.facts.c75_lines, 0);
  attune__image_free(&image);
}
END_TEST

static void refused(const char *source, const char *name, const char *arch, attune_status want,
                    const char *begins, const char *has) {
  attune_image image;
  ck_assert_int_eq(attune__nvrtc_compile(source, name, sm(arch), &image), want);
  ck_assert_msg(strncmp(attune_error(), begins, strlen(begins)) == 0, "%s", attune_error());
  ck_assert_msg(strstr(attune_error(), has) != NULL, "%s", attune_error());
  ck_assert_ptr_null(image.cubin);
  attune__image_free(&image);
}

START_TEST(errors_carry_the_templates_line) {
  static const char bad[] = "#line 77 \"/attune/templates/x.cu\"\n"
                            "extern \"C\" __global__ void k(float *x) { x[0] = nope; }\n";
  refused(bad, "k", "sm_80", ATTUNE_COMPILE, "/attune/templates/x.cu(77): error:", "nope");
  attune_image image;
  ck_assert_int_eq(attune__nvrtc_compile("void f() { 1 }", "f", sm("sm_80"), &image),
                   ATTUNE_COMPILE);
  ck_assert(strncmp(attune_error(), "/attune/f.cu(1): error", 22) == 0);
  ck_assert_ptr_nonnull(strstr(image.log, "detected in the compilation"));
  attune__image_free(&image);
  static const char bad_asm[] = "extern \"C\" __global__ void k() { asm(\"bogus.f32 %r1;\"); }";
  refused(bad_asm, "k", "sm_80", ATTUNE_COMPILE, "ptxas", "bogus");
}
END_TEST

START_TEST(what_is_not_a_kernel_is_refused) {
  attune_image image;
  ck_assert_int_eq(attune__nvrtc_compile("", "k", sm("sm_80"), &image), ATTUNE_COMPILE);
  ck_assert_ptr_nonnull(strstr(attune_error(), "no kernel of that name"));
  attune__image_free(&image);
  ck_assert_int_eq(attune__nvrtc_compile(tiny, "tin", sm("sm_80"), &image), ATTUNE_COMPILE);
  attune__image_free(&image);
  refused(tiny, "tiny", "sm_70", ATTUNE_UNSUPPORTED, "sm_70: nvrtc", "sm_80");
}
END_TEST

START_TEST(includes_are_refused) {
  static const char *const bad[] = {
      "#include \"/etc/passwd\"\n", "  #  include <x>\n",     "#/* */include \"x\"\n",
      "#inc\\\nlude \"x\"\n",       "%:include <x>\n",        "/* */ #include <x>\n",
      "#\\\n include <x>\n",        "#import <x>\n",          "#embed \"x\"\n",
      "#include_next <x>\n",        "/* a\n*/#include <x>\n", "#/\\\n* */include <x>\n",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char source[512];
    snprintf(source, sizeof source, "%s%s", bad[i], tiny);
    refused(source, "tiny", "sm_80", ATTUNE_COMPILE, "tiny: the source includes", "self-contained");
  }
}
END_TEST

START_TEST(threads_compile_at_once) {
  enum { N = 4 };
  char digest[N][65];
  pthread_t thread[N];
  pthread_attr_t small; /* NVRTC alone would crash here */
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  for (int i = 0; i < N; i++)
    ck_assert_int_eq(pthread_create(&thread[i], &small, compile_thread, digest[i]), 0);
  for (int i = 0; i < N; i++) {
    void *failed;
    pthread_join(thread[i], &failed);
    ck_assert_ptr_null(failed);
    ck_assert_str_eq(digest[i], child_digest[0]);
  }
  pthread_attr_destroy(&small);
}
END_TEST

START_TEST(a_forked_child_is_refused) {
  attune_nvrtc_info info;
  ck_assert_int_eq(attune__nvrtc_info(&info), ATTUNE_OK);
  pid_t child = fork();
  if (child == 0) {
    char digest[65];
    _exit(compile_digest(digest) == ATTUNE_BUSY && strstr(attune_error(), "forked") ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(ptx_has_lines_and_no_path_of_this_machine) {
  char *ptx, here[4096];
  size_t bytes;
  ck_assert_ptr_nonnull(getcwd(here, sizeof here));
  ck_assert_int_eq(attune__nvrtc_ptx(tiny, "tiny", sm("sm_90a"), &ptx, &bytes), ATTUNE_OK);
  ck_assert_uint_eq(strlen(ptx), bytes);
  ck_assert_ptr_nonnull(strstr(ptx, ".target sm_90a"));
  ck_assert_ptr_nonnull(strstr(ptx, ".entry tiny"));
  ck_assert_ptr_nonnull(strstr(ptx, "\"/attune/tiny.cu\""));
  ck_assert_ptr_null(strstr(ptx, here));
  attune_image image;
  ck_assert_int_eq(attune__nvrtc_compile(tiny, "tiny", sm("sm_90a"), &image), ATTUNE_OK);
  ck_assert_str_eq(image.ptx, ptx);
  ck_assert_uint_eq(image.ptx_bytes, bytes);
  ck_assert_ptr_null(memmem(image.cubin, image.cubin_bytes, ".debug_line", 11));
  attune__image_free(&image);
  free(ptx);
}
END_TEST

/* A cubin cut or changed anywhere is refused or read within its bounds; sanitizers watch. */
START_TEST(damaged_cubins_are_read_within_bounds) {
  attune_image image;
  ck_assert_int_eq(attune__nvrtc_compile(tiny, "tiny", sm("sm_80"), &image), ATTUNE_OK);
  unsigned char *bytes = image.cubin;
  attune_facts facts;
  for (size_t size = 0; size < image.cubin_bytes; size += 61) {
    unsigned char *cut = malloc(size + 1);
    memcpy(cut, bytes, size);
    ck_assert_int_eq(attune__cubin_facts(cut, size, "tiny", &facts), ATTUNE_BAD_FILE);
    free(cut);
  }
  for (size_t at = 0; at < image.cubin_bytes; at++) {
    unsigned char keep = bytes[at];
    bytes[at] = 0xff;
    (void)attune__cubin_facts(bytes, image.cubin_bytes, "tiny", &facts);
    bytes[at] = keep;
  }
  ck_assert_int_eq(attune__cubin_facts(bytes, image.cubin_bytes, "tiny", &facts), ATTUNE_OK);
  ck_assert_uint_eq(facts.registers, image.facts.registers);
  attune__image_free(&image);
}
END_TEST

TEST_MAIN("nvrtc", a_missing_library_says_where_it_was_looked_for,
          processes_agree_and_signals_stay_ours, version_has_a_build_number,
          facts_of_a_clean_kernel, spills_are_seen, c75_lines_are_counted,
          errors_carry_the_templates_line, what_is_not_a_kernel_is_refused, includes_are_refused,
          threads_compile_at_once, a_forked_child_is_refused,
          ptx_has_lines_and_no_path_of_this_machine, damaged_cubins_are_read_within_bounds)
