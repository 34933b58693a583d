/* test_build.c - a job built into a set folder: complete, resumable, equal bytes. Needs NVRTC. */
#include "../gen/build.h"
#include "scratch.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char spec_text[] = "version: 1\nop: attn_fwd\narch: sm_80\ndtype: fp32\n"
                                "head_dim: [8, 16]\nmask: [none]\n";

static attune_job read_job(const char *text) {
  attune_spec spec;
  attune_job job;
  attune_spec_options options = {0};
  attune__text errors = {0};
  ck_assert_msg(attune__spec_read("test.yaml", text, strlen(text), &options, &spec, &errors) ==
                    ATTUNE_OK,
                "%s", errors.data ? errors.data : attune_error());
  ck_assert_int_eq(attune__expand(&spec, &job, &errors), ATTUNE_OK);
  attune__spec_free(&spec);
  attune__text_free(&errors);
  return job;
}

static int progress_calls;
static void on_progress(void *user, const attune_build_progress *p) {
  const attune_job *job = user;
  ck_assert_int_eq(p->done, ++progress_calls);
  ck_assert_int_eq(p->total, job->kernel_count);
  ck_assert_ptr_nonnull(p->name);
  if (p->facts) ck_assert_uint_gt(p->facts->registers, 0);
}

static attune_build_summary build_into(attune_job *job, const char *folder, int keep_source) {
  attune_build_options options = {
      .out = folder, .jobs = 2, .keep_source = keep_source, .progress = on_progress, .user = job};
  attune_build_summary summary;
  attune__text errors = {0};
  progress_calls = 0;
  ck_assert_msg(attune__build(job, &options, &summary, &errors) == ATTUNE_OK, "%s",
                errors.data ? errors.data : attune_error());
  ck_assert_ptr_null(errors.data);
  ck_assert_int_eq(progress_calls, job->kernel_count);
  ck_assert_int_eq(summary.failed, 0);
  ck_assert_int_eq(summary.compiled + summary.kept, job->kernel_count);
  return summary;
}

static void join(char out[PATH_MAX], const char *folder, const char *name, const char *suffix) {
  snprintf(out, PATH_MAX, "%s/%s%s", folder, name, suffix);
}

static void digest_of(const char *folder, const char *name, const char *suffix, char out[65]) {
  char path[PATH_MAX];
  void *bytes;
  size_t size;
  join(path, folder, name, suffix);
  ck_assert_msg(attune__file_read(path, 64 << 20, &bytes, &size) == ATTUNE_OK, "%s",
                attune_error());
  attune__sha256_hex(bytes, size, out);
  free(bytes);
}

static void expect_equal(const char *a, const char *b, const char *name, const char *suffix) {
  char first[65], second[65];
  digest_of(a, name, suffix, first), digest_of(b, name, suffix, second);
  ck_assert_str_eq(first, second);
}

START_TEST(a_set_is_complete_and_a_second_build_keeps_it) {
  char folder[64], path[PATH_MAX], before[65], after[65];
  scratch_make(folder);
  attune_job job = read_job(spec_text);
  ck_assert_int_eq(job.kernel_count, 2);
  attune_build_summary summary = build_into(&job, folder, 1);
  ck_assert_int_eq(summary.compiled, 2);
  ck_assert(summary.compile_ms > 0 && summary.wall_ms > 0);

  attune__set set;
  ck_assert_msg(attune__set_read(folder, &set) == ATTUNE_OK, "%s", attune_error());
  ck_assert_int_eq(set.kernel_count, 2);
  ck_assert_int_eq(set.row_count, 2);
  ck_assert_ptr_nonnull(strstr(set.made_by, "nvrtc"));
  int64_t bytes_on_disk = 0;
  for (int i = 0; i < set.kernel_count; i++) {
    void *bytes;
    attune_entry entry;
    struct stat s;
    ck_assert_msg(attune__set_entry(&set, i, &bytes, &entry) == ATTUNE_OK, "%s", attune_error());
    ck_assert_str_eq(entry.name, job.kernels[i].name);
    ck_assert_uint_eq(entry.recipe.smem_bytes, job.kernels[i].ledger.bytes);
    ck_assert_uint_gt(entry.facts.registers, 0);
    ck_assert_uint_eq(entry.facts.spill_bytes, 0);
    free(bytes);
    join(path, folder, job.kernels[i].name, ".entry");
    ck_assert_int_eq(stat(path, &s), 0);
    bytes_on_disk += s.st_size;
    join(path, folder, job.kernels[i].name, ".cu");
    ck_assert_int_eq(access(path, R_OK), 0);
  }
  ck_assert_int_eq(summary.entry_bytes, bytes_on_disk);
  attune__set_free(&set);

  digest_of(folder, "manifest", "", before);
  summary = build_into(&job, folder, 0);
  ck_assert_int_eq(summary.kept, 2);
  digest_of(folder, "manifest", "", after);
  ck_assert_str_eq(before, after);

  /* damaged: made again, the other kept; a lost .keys: all made again, to the same bytes */
  join(path, folder, job.kernels[1].name, ".entry");
  ck_assert_int_eq(truncate(path, 1000), 0);
  summary = build_into(&job, folder, 0);
  ck_assert_int_eq(summary.kept, 1);
  ck_assert_int_eq(summary.compiled, 1);
  join(path, folder, ".keys", "");
  ck_assert_int_eq(unlink(path), 0);
  summary = build_into(&job, folder, 0);
  ck_assert_int_eq(summary.compiled, 2);
  digest_of(folder, "manifest", "", after);
  ck_assert_str_eq(before, after);
  attune__job_free(&job);
  scratch_remove(folder);
}
END_TEST

START_TEST(two_builds_have_equal_bytes) {
  char a[64], b[64];
  scratch_make(a);
  scratch_make(b);
  attune_job job = read_job(spec_text);
  build_into(&job, a, 1);
  build_into(&job, b, 1);
  expect_equal(a, b, "manifest", "");
  expect_equal(a, b, ".keys", "");
  for (int i = 0; i < job.kernel_count; i++) {
    expect_equal(a, b, job.kernels[i].name, ".entry");
    expect_equal(a, b, job.kernels[i].name, ".cu");
  }
  attune__job_free(&job);
  scratch_remove(a);
  scratch_remove(b);
}
END_TEST

static void expect_there(const char *folder, const char *name, const char *suffix, int there) {
  char path[PATH_MAX];
  join(path, folder, name, suffix);
  ck_assert_msg((access(path, F_OK) == 0) == there, "%s", path);
}

START_TEST(another_spec_replaces_the_set) {
  char folder[64];
  scratch_make(folder);
  attune_job two = read_job(spec_text);
  attune_job one = read_job("version: 1\nop: attn_fwd\narch: sm_80\ndtype: fp32\nhead_dim: 16\n");
  build_into(&two, folder, 1);
  attune_build_summary summary = build_into(&one, folder, 0);
  ck_assert_int_eq(summary.kept, 1);
  for (int i = 0; i < two.kernel_count; i++) {
    int stays = strcmp(two.kernels[i].name, one.kernels[0].name) == 0;
    expect_there(folder, two.kernels[i].name, ".entry", stays);
    expect_there(folder, two.kernels[i].name, ".cu", stays);
  }
  attune__job_free(&two);
  attune__job_free(&one);
  scratch_remove(folder);
}
END_TEST

/* One kernel of two fails: the other is compiled, the set is not published. */
START_TEST(a_failed_kernel_fails_the_build) {
  char folder[64];
  scratch_make(folder);
  attune_job job = read_job(spec_text);
  job.kernels[0].template_path = "attn_fwd/no_such_file.cu";
  attune_build_options options = {.out = folder, .jobs = 2};
  attune_build_summary summary;
  attune__text errors = {0};
  ck_assert_int_eq(attune__build(&job, &options, &summary, &errors), ATTUNE_TEMPLATE);
  ck_assert_int_eq(summary.failed, 1);
  ck_assert_int_eq(summary.compiled, 1);
  size_t length = strlen(job.kernels[0].name);
  ck_assert_int_eq(strncmp(errors.data, job.kernels[0].name, length), 0);
  ck_assert_int_eq(errors.data[length], ':');
  ck_assert_ptr_nonnull(strstr(errors.data, "no_such_file"));
  attune__text_free(&errors);
  expect_there(folder, "manifest", "", 0);
  expect_there(folder, job.kernels[0].name, ".entry", 0);

  /* mended: goes on from there */
  job.kernels[0].template_path = job.kernels[1].template_path;
  summary = build_into(&job, folder, 0);
  ck_assert_int_eq(summary.kept, 1);
  ck_assert_int_eq(summary.compiled, 1);
  attune__job_free(&job);
  scratch_remove(folder);
}
END_TEST

/* Launch bounds that the planner would never choose, so that the kernel spills. */
START_TEST(a_spill_fails_the_build_unless_allowed) {
  char folder[64];
  scratch_make(folder);
  attune_job job = read_job("version: 1\nop: attn_fwd\narch: sm_80\ndtype: fp32\nhead_dim: 128\n"
                            "tile: {block_m: 64, block_n: 128, warps: 8, share_kv: 1}\n");
  job.kernels[0].recipe.threads = 1024; /* leaves 64 registers a thread */
  attune_build_options options = {.out = folder};
  attune_build_summary summary;
  attune__text errors = {0};
  ck_assert_int_eq(attune__build(&job, &options, &summary, &errors), ATTUNE_COMPILE);
  ck_assert_ptr_nonnull(strstr(errors.data, "spills"));
  expect_there(folder, job.kernels[0].name, ".entry", 0);
  expect_there(folder, "manifest", "", 0);
  attune__text_free(&errors);
  options.allow_spills = 1;
  ck_assert_msg(attune__build(&job, &options, &summary, &errors) == ATTUNE_OK, "%s",
                attune_error());
  ck_assert_int_eq(summary.compiled, 1);
  /* and what was allowed then is not kept where it is not allowed */
  options.allow_spills = 0;
  ck_assert_int_eq(attune__build(&job, &options, &summary, &errors), ATTUNE_COMPILE);
  attune__text_free(&errors);
  attune__job_free(&job);
  scratch_remove(folder);
}
END_TEST

/* ---- the program ------------------------------------------------------------------------------
 */

static char output[1 << 14]; /* of the last run, stdout and stderr */

/* Exit code of `attune build` of a spec's text, with templates in which a tile of 64 rows spills;
 * the program lies beside the folder of this test. */
static int build_where_64_rows_spill(const char *folder, const char *text) {
  char self[PATH_MAX] = "", line[3 * PATH_MAX], path[PATH_MAX];
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 2; i++) *strrchr(self, '/') = 0;
  snprintf(path, sizeof path, "%s/spec.yaml", folder);
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  ck_assert_int_eq(fclose(file), 0);
  snprintf(line, sizeof line,
           "{ test -d %s/templates || { cp -r templates %s/templates && "
           "sed -i 's/__launch_bounds__(.*)$/__launch_bounds__(kThreads, kHeadDimQK == 16 \\&\\& "
           "kBlockM == 64 ? 2048 \\/ kThreads : 1)/' %s/templates/attn_fwd/fma.cu; }; } && "
           "ATTUNE_TEMPLATES=%s/templates %s/attune build %s -o %s/set 2>&1",
           folder, folder, folder, folder, self, path, folder);
  FILE *pipe = popen(line, "r");
  ck_assert_ptr_nonnull(pipe);
  output[fread(output, 1, sizeof output - 1, pipe)] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const char *wanted) {
  ck_assert_msg(strstr(output, wanted) != NULL, "'%s' is missing in:\n%s", wanted, output);
}

#define SPILLS     "attn_fwd_sm80_fp32_d16__fma_m64n64: the compiled kernel spills "
#define NEXT_TRIED "note: the next candidates are tried in their place\n"
#define ABOUT_16   "version: 1\nop: attn_fwd\narch: sm_80\ndtype: fp32\nhead_dim: [16, 32]\n"

START_TEST(the_next_candidate_takes_the_place_of_one_that_spills) {
  char folder[64];
  scratch_make(folder);
  for (int again = 0; again < 2; again++) {
    ck_assert_msg(build_where_64_rows_spill(folder, ABOUT_16) == 0, "%s", output);
    expect(SPILLS), expect(NEXT_TRIED);
    expect(again ? ": 2 kernels (0 compiled, 2 kept)" : ": 2 kernels (1 compiled, 1 kept)");
  }
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/set", folder);
  expect_there(path, "attn_fwd_sm80_fp32_d32__fma_m64n64", ".entry", 1);
  expect_there(path, "attn_fwd_sm80_fp32_d16__fma_m32n128", ".entry", 1);
  expect_there(path, "attn_fwd_sm80_fp32_d16__fma_m64n64", ".entry", 0);
  scratch_remove(folder);
}
END_TEST

START_TEST(a_named_tile_that_spills_has_no_stand_in) {
  char folder[64];
  scratch_make(folder);
  ck_assert_int_eq(
      build_where_64_rows_spill(folder, ABOUT_16
                                "tile: {block_m: 64, block_n: 64, warps: 4, share_kv: 0}\n"),
      1);
  expect(SPILLS), expect("1 of 2 kernels failed; the set is not complete");
  ck_assert_ptr_null(strstr(output, NEXT_TRIED));
  scratch_remove(folder);
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_an_error) {
  attune_job job = read_job(spec_text);
  attune_build_options options = {.out = "/proc/attune"};
  attune_build_summary summary;
  attune__text errors = {0};
  ck_assert_int_eq(attune__build(&job, &options, &summary, &errors), ATTUNE_IO);
  ck_assert_ptr_nonnull(strstr(attune_error(), "/proc/attune"));
  attune__job_free(&job);
}
END_TEST

TEST_MAIN("build", a_set_is_complete_and_a_second_build_keeps_it, two_builds_have_equal_bytes,
          another_spec_replaces_the_set, a_failed_kernel_fails_the_build,
          a_spill_fails_the_build_unless_allowed,
          the_next_candidate_takes_the_place_of_one_that_spills,
          a_named_tile_that_spills_has_no_stand_in, a_folder_that_cannot_be_made_is_an_error)
