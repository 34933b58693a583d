/* test_tune_rows.c - measured rows: text and back, what is refused and where, merging under kills
 * and races, and which row serves. */
#include "../gen/tune_use.h"

#include "../gen/expand.h"
#include "../gen/jit.h"
#include "../gen/nvrtc.h"
#include "../runtime/params.def"
#include "fake.h"
#include "scratch.h"
#include "test.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- rows made up ---------------------------------------------------------------------------- */

static attune_variant variant_of(const char *name) {
  attune_variant v;
  attune_tile tile;
  int has_tile, is_program;
  ck_assert_int_eq(attune__name_parse(name, &v, &tile, &has_tile, &is_program), 0);
  return v;
}

static attune__tuned_row row_of(const char *variant, attune_class cls, const char *tile,
                                const char *date) {
  attune__tuned_row row = {
      .key = {.gpu = "NVIDIA H200", .sms = 132, .memory_mhz = 3200, .abi = ATTUNE_ABI},
      .variant = variant_of(variant),
      .cls = cls,
      .time = {0.125, 0.12345678901234567, 0.13},
      .over_time = {0.15, 0.14, 0.16},
      .shape = attune__plan_shape(cls),
      .rounds = 15,
      .calls = 16,
      .tried = 21,
      .l2_cold = 1,
      .driver = 13000};
  attune_nvrtc_info compiler;
  ck_assert_int_eq(attune__nvrtc_info(&compiler), 0);
  memcpy(row.key.nvrtc, compiler.version, sizeof row.key.nvrtc);
  row.key.arch = row.variant.arch;
  ck_assert_int_eq(attune__tiles_parse(tile, &row.tiles), 0);
  row.over = row.tiles;
  snprintf(row.date, sizeof row.date, "%s", date);
  return row;
}

/* Shipped rows have none of it. */
static const char *const d112 = "attn_fwd_sm90a_fp16_d112_causal";
static const char *const tile_a = "wgmma_m128n128s2w12o5", *const tile_b =
                                                               "wgmma_m128n96s2w12q1o4z1g1";
static const char *const early = "2026-11-30T03:00:00Z", *const late = "2026-12-01T00:00:00Z";

static attune__tuned_mark mark_of(const char *kernel, attune__mark_kind kind) {
  attune__tuned_row row = row_of(d112, ATTUNE_CLASS_DECODE, tile_a, early);
  attune__tuned_mark mark = {.key = row.key, .driver = 13000, .kind = kind};
  snprintf(mark.kernel, sizeof mark.kernel, "%s", kernel);
  snprintf(mark.digest, sizeof mark.digest, "0123456789abcdef");
  snprintf(mark.date, sizeof mark.date, "%s", early);
  snprintf(mark.why, sizeof mark.why, "a \"why\" with \\ and \t in it");
  return mark;
}

static char *text_of(const attune__tuned *t) {
  attune__text text = {0};
  attune__tuned_print(t, &text);
  ck_assert(!text.failed);
  return text.data;
}

/* ---- values ---------------------------------------------------------------------------------- */

START_TEST(a_file_reads_back_to_the_same) {
  attune__tuned all = {.count = 0}, back;
  attune__text errors = {0};
  attune__tuned_row row = row_of(d112, ATTUNE_CLASS_LONG_MANY, tile_a, early);
  ck_assert_int_eq(attune__tuned_put(&all, &row), 0);
  row = row_of("attn_standard_sm90a_fp32_d64", ATTUNE_CLASS_DECODE,
               "fma_m64n64k16+fma_m8+fma_m64n64k16", early);
  row.provisional = 1;
  snprintf(row.why, sizeof row.why, "2 other processes on the GPU");
  ck_assert_int_eq(attune__tuned_put(&all, &row), 0);
  row.key.sms = 16; /* a slice is another model */
  ck_assert_int_eq(attune__tuned_put(&all, &row), 0);
  attune__tuned_mark mark =
      mark_of("attn_fwd_sm90a_fp16_d112_causal__wgmma_m128n128s2w12o5", ATTUNE__MARK_HANG);
  ck_assert_int_eq(attune__tuned_put_mark(&all, &mark), 0);
  char *text = text_of(&all);
  ck_assert_msg(!attune__tuned_parse("x.yaml", text, strlen(text), &back, &errors), "%s\n%s",
                errors.data, text);
  char *again = text_of(&back);
  ck_assert_str_eq(text, again);
  ck_assert_int_eq(back.count, 3);
  ck_assert_int_eq(back.mark_count, 1);
  ck_assert_double_eq(back.row[2].time.low, 0.12345678901234567);
  ck_assert_ptr_nonnull(strstr(text, "variant: attn_fwd_sm90a_fp16_d112_causal, class: long_many, "
                                     "tile: wgmma_m128n128s2w12o5, ms: [0.125, "));
  attune__tuned_free(&all);
  attune__tuned_free(&back);
  free(text), free(again);
}
END_TEST

/* A file from when short_many began at 17 queries: what was measured at 256 is of brief_many now,
 * and is written so. */
START_TEST(a_row_is_of_the_class_of_its_shape) {
  attune__tuned t = {.count = 0}, back;
  attune__text errors = {0};
  attune__tuned_row row = row_of(d112, ATTUNE_CLASS_BRIEF_MANY, tile_a, early);
  row.cls = ATTUNE_CLASS_SHORT_MANY;
  attune__tuned_put(&t, &row);
  row = row_of("attn_fwd_sm90a_fp16_d112", ATTUNE_CLASS_SHORT_MANY, tile_a, early);
  attune__tuned_put(&t, &row);
  row.cls = ATTUNE_CLASS_ANY;
  attune__tuned_put(&t, &row);
  char *text = text_of(&t);
  ck_assert_int_eq(attune__tuned_parse("x.yaml", text, strlen(text), &back, &errors), 0);
  ck_assert_int_eq(back.count, 3);
  const attune_variant causal = variant_of(d112);
  ck_assert_ptr_null(attune__tuned_find(&back, &row.key, &causal, ATTUNE_CLASS_SHORT_MANY));
  ck_assert_ptr_nonnull(attune__tuned_find(&back, &row.key, &causal, ATTUNE_CLASS_BRIEF_MANY));
  ck_assert_ptr_nonnull(attune__tuned_find(&back, &row.key, &row.variant, ATTUNE_CLASS_SHORT_MANY));
  ck_assert_ptr_nonnull(attune__tuned_find(&back, &row.key, &row.variant, ATTUNE_CLASS_ANY));
  free(text);
  text = text_of(&back);
  ck_assert_ptr_nonnull(strstr(text, "attn_fwd_sm90a_fp16_d112_causal, class: brief_many, tile: "));
  attune__tuned_free(&t), attune__tuned_free(&back);
  free(text);
}
END_TEST

START_TEST(the_better_of_two_rows_stays) {
  attune__tuned t = {.count = 0};
  attune__tuned_row a = row_of(d112, ATTUNE_CLASS_DECODE, tile_a, late);
  attune__tuned_row b = row_of(d112, ATTUNE_CLASS_DECODE, tile_b, early);
  attune__tuned_put(&t, &a), attune__tuned_put(&t, &b);
  ck_assert(t.count == 1 && attune__tiles_same(&t.row[0].tiles, &a.tiles)); /* the later */
  b.provisional = 1, memcpy(b.date, "2027", 4);
  attune__tuned_put(&t, &b);
  ck_assert(attune__tiles_same(&t.row[0].tiles, &a.tiles)); /* never a provisional one */
  t.row[0].provisional = 1, b.provisional = 0, memcpy(b.date, "2020", 4);
  attune__tuned_put(&t, &b);
  ck_assert(attune__tiles_same(&t.row[0].tiles, &b.tiles)); /* a measured one at once */
  attune__tuned_free(&t);
}
END_TEST

/* ---- hostile files --------------------------------------------------------------------------- */

START_TEST(what_is_wrong_is_refused_with_its_place) {
  static const struct {
    const char *text, *error;
  } bad[] = {
      {"", "x.yaml:1:1: error: the file of measured rows is empty"},
      {"version: 2\ntuned: []\n", "x.yaml:1:10: error: version 2: this attune reads 1"},
      {"version: 1\ntuned: {}\n", "x.yaml:2:8: error: tuned: wanted a list"},
      {"version: 1\n", "x.yaml:1:1: error: tuned is missing"},
      {"version: 1\ntuned: [{gpu: X, sms: -1}]\n", "x.yaml:2:23: error: sms: -1 is out of range"},
      {"version: 1\ntuned: &a []\n", "x.yaml:2:8: error: anchors are not part of a spec"},
      {"version: 1\ntuned: [\n", "error: not YAML"},
      {"version: 1\ntuned:\n- gpu: \"X\"\n  sms: 1\n  memory_mhz: 0\n  arch: sm_90a\n  abi: 1\n  "
       "nvrtc: n\n  rows:\n  - {variant: rm_rf, class: any}\n",
       "x.yaml:10:15: error:"},
      {"version: 1\ntuned:\n- gpu: \"X\"\n  sms: 1\n  memory_mhz: 0\n  arch: sm_90a\n  abi: 1\n  "
       "nvrtc: n\n  rows:\n  - {variant: attn_fwd_sm80_fp16_d64, class: any}\n",
       "x.yaml:10:15: error: the variant is for another arch than its group"},
      {"version: 1\ntuned:\n- gpu: \"X\"\n  sms: 1\n  memory_mhz: 0\n  arch: sm_90a\n  abi: 1\n  "
       "nvrtc: n\n  rows:\n  - {variant: attn_fwd_sm90a_fp16_d64, class: any, tile: ../../etc}\n",
       "x.yaml:10:58: error:"},
      {"version: 1\ntuned: []\n\x01", "x.yaml:3:1: error: a control character"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    attune__tuned t;
    attune__text errors = {0};
    ck_assert_int_eq(attune__tuned_parse("x.yaml", bad[i].text, strlen(bad[i].text), &t, &errors),
                     ATTUNE_BAD_SPEC);
    ck_assert_msg(errors.data && strstr(errors.data, bad[i].error), "%s\n%s", bad[i].text,
                  errors.data);
    ck_assert(!t.count && !t.row);
    attune__text_free(&errors);
  }
}
END_TEST

/* Every prefix and every single changed byte: refused, or a file that prints back. Never a crash.
 */
START_TEST(a_cut_or_changed_file_is_refused_or_sound) {
  attune__tuned t = {.count = 0};
  attune__tuned_row row = row_of(d112, ATTUNE_CLASS_LONG_MANY, tile_a, early);
  attune__tuned_mark mark =
      mark_of("attn_fwd_sm90a_fp16_d112_causal__wgmma_m128n128s2w12o5", ATTUNE__MARK_PASSED);
  attune__tuned_put(&t, &row), attune__tuned_put_mark(&t, &mark);
  char *text = text_of(&t);
  size_t size = strlen(text);
  int refused = 0;
  for (size_t i = 0; i < size; i++)
    for (int how = 0; how < 2; how++) {
      attune__tuned back;
      attune__text errors = {0};
      char kept = text[i];
      text[i] = how ? (char)("{}[]:,#\"'\n 9z\x80"[i % 14]) : kept;
      attune_status status = attune__tuned_parse("x.yaml", text, how ? size : i, &back, &errors);
      text[i] = kept;
      ck_assert(status == ATTUNE_OK || status == ATTUNE_BAD_SPEC);
      ck_assert(status == ATTUNE_OK || errors.size);
      refused += status != ATTUNE_OK;
      ck_assert_int_le(back.count, 1);
      attune__tuned_free(&back);
      attune__text_free(&errors);
    }
  ck_assert_int_gt(refused, (int)size);
  free(text);
  attune__tuned_free(&t);
}
END_TEST

/* ---- files ----------------------------------------------------------------------------------- */

/* Adds `count` rows one by one, from `first` on: a class and a head dim each. */
static void write_rows(const char *path, int first, int count) {
  for (int i = first; i < first + count; i++) {
    char name[64];
    attune__tuned one = {.count = 0};
    attune__text errors = {0};
    snprintf(name, sizeof name, "attn_fwd_sm90a_fp16_d%d", 8 * (1 + i / 5));
    attune__tuned_row row = row_of(name, (attune_class)(1 + i % 5), tile_a, early);
    if (attune__tuned_put(&one, &row) || attune__tuned_save(path, &one, &errors)) _exit(1);
    attune__tuned_free(&one);
  }
}

static int rows_in(const char *path) {
  attune__tuned t;
  attune__text errors = {0};
  ck_assert_msg(!attune__tuned_read(path, &t, &errors), "%s", errors.data);
  int count = t.count;
  attune__tuned_free(&t);
  return count;
}

START_TEST(writers_at_once_lose_nothing) {
  char folder[64], path[128];
  enum { WRITERS = 4, EACH = 20 };
  pid_t pid[WRITERS];
  scratch_make(folder);
  snprintf(path, sizeof path, "%s/tuned/gpu.yaml", folder);
  row_of(d112, ATTUNE_CLASS_DECODE, tile_a, early); /* NVRTC is loaded before the forks */
  for (int i = 0; i < WRITERS; i++)
    if (!(pid[i] = fork())) {
      write_rows(path, i * EACH, EACH);
      _exit(0);
    }
  for (int i = 0; i < WRITERS; i++) {
    int how;
    ck_assert_int_eq(waitpid(pid[i], &how, 0), pid[i]);
    ck_assert_int_eq(how, 0);
  }
  ck_assert_int_eq(rows_in(path), WRITERS * EACH);
  scratch_remove(folder);
}
END_TEST

/* Killed at moments spread over its writing: the file is readable each time, and only grows. */
START_TEST(a_killed_writer_leaves_a_readable_file) {
  char folder[64], path[128];
  int before = 0;
  scratch_make(folder);
  snprintf(path, sizeof path, "%s/tuned/gpu.yaml", folder);
  for (int i = 0; i < 40; i++) {
    pid_t pid = fork();
    if (!pid) {
      write_rows(path, i, 200);
      _exit(0);
    }
    usleep((useconds_t)(i * 173));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    int now = rows_in(path);
    ck_assert_int_ge(now, before);
    before = now;
  }
  ck_assert_int_gt(before, 0);
  scratch_remove(folder);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_not_written_over) {
  char folder[64], path[128];
  static const char junk[] = "version: 1\ntuned: [\n";
  attune__tuned one = {.count = 0};
  attune__text errors = {0};
  void *bytes;
  size_t size;
  scratch_make(folder);
  snprintf(path, sizeof path, "%s/h.yaml", folder);
  ck_assert_int_eq(attune__file_publish(path, junk, sizeof junk - 1), 0);
  attune__tuned_row row = row_of(d112, ATTUNE_CLASS_DECODE, tile_a, early);
  attune__tuned_put(&one, &row);
  ck_assert_int_eq(attune__tuned_save(path, &one, &errors), ATTUNE_BAD_SPEC);
  ck_assert_ptr_nonnull(strstr(errors.data, "h.yaml:"));
  ck_assert_int_eq(attune__file_read(path, 1000, &bytes, &size), 0);
  ck_assert_str_eq(bytes, junk);
  free(bytes);
  attune__tuned_free(&one);
  attune__text_free(&errors);
  scratch_remove(folder);
}
END_TEST

/* ---- what serves ----------------------------------------------------------------------------- */

/* A store with rows of d112: long_many measured, decode provisional, short_few no longer legal. */
static void make_store(char folder[64]) {
  attune__tuned t = {.count = 0};
  attune__text errors = {0};
  scratch_make(folder);
  attune__tuned_row row = row_of(d112, ATTUNE_CLASS_LONG_MANY, tile_b, early);
  ck_assert_int_eq(attune__tiles_parse(tile_a, &row.over), 0);
  attune__tuned_put(&t, &row);
  row = row_of(d112, ATTUNE_CLASS_DECODE, tile_b, early);
  row.provisional = 1, snprintf(row.why, sizeof row.why, "the GPU was slowed for heat or power");
  attune__tuned_put(&t, &row);
  row = row_of(d112, ATTUNE_CLASS_SHORT_FEW, "wgmma_m128n128s2w12o77", early);
  attune__tuned_put(&t, &row);
  char *path = attune__tuned_path(folder, "NVIDIA H200");
  ck_assert_ptr_nonnull(strstr(path, "/tuned/nvidia-h200.yaml"));
  ck_assert_msg(!attune__tuned_save(path, &t, &errors), "%s", errors.data);
  free(path);
  attune__tuned_free(&t);
  setenv("ATTUNE_CACHE_DIR", folder, 1);
}

START_TEST(rows_of_another_model_are_never_used) {
  char folder[64], why[ATTUNE_REASON_MAX];
  attune__tuned_db db;
  attune__text messages = {0};
  make_store(folder);
  ck_assert_int_eq(attune__tuned_db_open(NULL, &db, &messages), 0);
  attune__tuned_row row = row_of(d112, ATTUNE_CLASS_LONG_MANY, tile_b, early);
#define USED(key) attune__tuned_row_for(&db, &(key), &row.variant, row.cls, 232448, why, sizeof why)
  ck_assert_ptr_nonnull(USED(row.key));
  attune__tuned_key other = row.key;
  snprintf(other.gpu, sizeof other.gpu, "NVIDIA H100");
  ck_assert_ptr_null(USED(other));
  other = row.key, other.sms = 114;
  ck_assert_ptr_null(USED(other));
  other = row.key, other.memory_mhz = 2600;
  ck_assert_ptr_null(USED(other));
  other = row.key, other.abi++;
  ck_assert_ptr_null(USED(other));
  other = row.key, other.nvrtc[8]++;
  ck_assert_ptr_null(USED(other));
  row.cls = ATTUNE_CLASS_DECODE;
  ck_assert_ptr_null(USED(row.key));
  ck_assert_ptr_nonnull(strstr(why, "provisional (the GPU was slowed"));
  row.cls = ATTUNE_CLASS_SHORT_FEW;
  ck_assert_ptr_null(USED(row.key));
  ck_assert_ptr_nonnull(strstr(why, "wgmma_m128n128s2w12o77 is not legal here: "));
  attune__tuned_db_close(&db);
  scratch_remove(folder);
}
END_TEST

START_TEST(a_refused_file_leaves_the_others) {
  char folder[64], path[128];
  attune__tuned_db db;
  attune__text messages = {0};
  make_store(folder);
  snprintf(path, sizeof path, "%s/tuned/a-broken.yaml", folder);
  ck_assert_int_eq(attune__file_publish(path, "version: 1\ntuned: [", 19), 0);
  ck_assert_int_eq(attune__tuned_db_open(NULL, &db, &messages), 0);
  ck_assert_int_eq(db.own.count, 3);
  ck_assert_msg(strstr(messages.data, "a-broken.yaml:3:1: error: not YAML") != NULL, "%s",
                messages.data);
  ck_assert_ptr_nonnull(strstr(messages.data, "its measured rows are not used"));
  attune__tuned_db_close(&db);
  attune__text_free(&messages);
  scratch_remove(folder);
}
END_TEST

static attune_status expand(const char *text, attune_job *job, attune__text *errors) {
  attune_spec spec;
  attune_status status = attune__spec_read("spec", text, strlen(text), NULL, &spec, errors);
  if (status) return status;
  status = attune__expand(&spec, job, errors);
  attune__spec_free(&spec);
  return status;
}

START_TEST(a_spec_that_names_the_gpu_gets_rows_by_class) {
  char folder[64];
  attune_job job;
  attune__text errors = {0};
  make_store(folder);
  static const char spec[] = "{version: 1, op: attn_fwd, arch: sm_90a, dtype: fp16, head_dim: 112, "
                             "mask: [causal, none]%s}";
  char text[200];
  snprintf(text, sizeof text, spec, ", gpu: H200");
  ck_assert_msg(!expand(text, &job, &errors), "%s", errors.data);
  ck_assert_int_eq(job.row_count, 3); /* two planned, one measured */
  int measured = 0;
  for (int i = 0; i < job.row_count; i++) {
    if (!job.rows[i].measured) continue;
    measured++;
    ck_assert_int_eq(job.rows[i].cls, ATTUNE_CLASS_LONG_MANY);
    ck_assert_str_eq(job.kernels[job.rows[i].kernel[0]].name,
                     "attn_fwd_sm90a_fp16_d112_causal__wgmma_m128n96s2w12q1o4z1g1");
  }
  ck_assert_int_eq(measured, 1);
  ck_assert_ptr_nonnull(strstr(
      job.notes.data,
      "attn_fwd_sm90a_fp16_d112_causal, decode: planned, not measured: its row is provisional"));
  ck_assert_ptr_nonnull(
      strstr(job.notes.data,
             "short_few: planned, not measured: its measured tile wgmma_m128n128s2w12o77"));
  attune__job_free(&job);
  snprintf(text, sizeof text, spec, "");
  ck_assert_int_eq(expand(text, &job, &errors), 0);
  ck_assert_int_eq(job.row_count, 2); /* nobody named a GPU */
  attune__job_free(&job);
  snprintf(text, sizeof text, spec, ", gpu: H200, family: mma");
  ck_assert_int_eq(expand(text, &job, &errors), 0);
  ck_assert_int_eq(job.row_count, 2); /* the spec's family goes before the row's */
  attune__job_free(&job);
  snprintf(text, sizeof text, spec, ", gpu: H20");
  ck_assert_int_eq(expand(text, &job, &errors), ATTUNE_BAD_SPEC);
  ck_assert_ptr_nonnull(
      strstr(errors.data, "gpu: no measured rows for 'H20'; there are rows of: NVIDIA H200"));
  attune__text_free(&errors);
  scratch_remove(folder);
}
END_TEST

/* On the GPU of the rows, the first call of a class gets that class's tile; another GPU does not.
 */
static void prepare(attune_context *context, int32_t batch, int32_t len,
                    attune_program_info *info) {
  attune_problem problem = fake_problem(d112);
  attune_program *program;
  problem.batch = batch, problem.heads_q = problem.heads_kv = 16;
  problem.len_q = len, problem.len_k = 2048;
  *info = attune_program_info_init();
  ck_assert_msg(!attune_prepare(context, &problem, &program), "%s", attune_error());
  ck_assert_int_eq(attune_info(program, info), 0);
}

static attune_context *open_on(const char *gpu, fake_log *log, attune_jit **jit) {
  attune_context *context = fake_open("sm_90a", NULL, log);
  attune__device_facts *facts = &attune__context_device(context)->facts;
  snprintf(facts->name, sizeof facts->name, "%s", gpu);
  facts->sm_count = 132, facts->memory_mhz = 3201, facts->smem_block = 232448;
  ck_assert_int_eq(attune_jit_install(context, NULL, jit), 0);
  return context;
}

START_TEST(the_jit_takes_the_row_of_the_call) {
  char folder[64];
  fake_log log = {.load_status = ATTUNE_OK};
  attune_jit *jit;
  attune_program_info info;
  static const char *const measured = "attn_fwd_sm90a_fp16_d112_causal__wgmma_m128n96s2w12q1o4z1g1";
  make_store(folder);
  attune_context *context = open_on("NVIDIA H200", &log, &jit);
  prepare(context, 4, 1, &info); /* decode first: its row is provisional */
  ck_assert_str_eq(info.shape_class, "decode");
  ck_assert_str_ne(info.kernels[0].name, measured);
  prepare(context, 16, 2048, &info);
  ck_assert_str_eq(info.shape_class, "long_many");
  ck_assert_str_eq(info.kernels[0].name, measured);
  attune_close(context);
  attune_jit_close(jit);
  context = open_on("NVIDIA H100", &log, &jit);
  prepare(context, 16, 2048, &info);
  ck_assert_str_eq(info.shape_class, "long_many");
  ck_assert_str_ne(info.kernels[0].name, measured);
  attune_close(context);
  attune_jit_close(jit);
  scratch_remove(folder);
}
END_TEST

/* What `attune explain` prints. */
static const char *explained(const char *words) {
  static char output[40000];
  char self[PATH_MAX] = "", line[PATH_MAX + 200];
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 2; i++) *strrchr(self, '/') = 0;
  snprintf(line, sizeof line, "%s/attune explain %s 2>&1", self, words);
  FILE *pipe = popen(line, "r");
  ck_assert_ptr_nonnull(pipe);
  output[fread(output, 1, sizeof output - 1, pipe)] = 0;
  pclose(pipe);
  return output;
}

START_TEST(explain_says_what_was_measured) {
  char folder[64], words[200];
  make_store(folder);
  snprintf(words, sizeof words, "%s__%s", d112, tile_b);
  const char *output = explained(words);
  ck_assert_ptr_nonnull(strstr(output, "measured, by class of shapes\n"));
  /* 0.15 ms over 0.125 ms is 20 %; 0.14 / 0.13 is 7.7 %, 0.16 / 0.12346 is 29.6 %. */
  ck_assert_msg(
      strstr(output, "> long_many   wgmma_m128n96s2w12q1o4z1g1  125.00 us, +20.0 % (+7.7 .. +29.6) "
                     "over wgmma_m128n128s2w12o5; NVIDIA H200, 132 SMs, 2026-11-30\n") != NULL,
      "%s", output);
  ck_assert_ptr_nonnull(strstr(output, "; not used: its row is provisional"));
  scratch_remove(folder);
}
END_TEST

/* Of every class, for what is pinned, and for the keys that there are. */
START_TEST(explain_says_what_the_jit_takes) {
  const char *output = explained("attn_fwd_sm90a_bf16_d64 --seq 77 --batch 64 --pin len_k=77");
  ck_assert_ptr_nonnull(strstr(output, "\n> brief_many  short_m128n128"));
  ck_assert_ptr_nonnull(strstr(output, "\n  long_many   short_m80n80"));
  output = explained("attn_fwd_sm90a_bf16_d64_g8 --seq 200 --batch 32");
  ck_assert_ptr_nonnull(strstr(output, "\n> brief_many  short_m256n256"));
  output = explained("attn_fwd_sm90a_bf16_d64_g8 --seq 200 --batch 32 --keys 4000");
  ck_assert_ptr_nonnull(strstr(output, "\n> brief_many  wgmma_"));
  output = explained("attn_fwd_sm90a_bf16_d64_x12345678 --pin len_k=77");
  ck_assert_ptr_nonnull(strstr(output, "attn_fwd_sm90a_bf16_d64_x12345678 has other pins"));
  output = explained("attn_fwd_sm90a_bf16_d64 --pin len_k");
  ck_assert_ptr_nonnull(strstr(output, "--pin len_k: wanted one like len_k=77"));
  output = explained("attn_fwd_sm90a_bf16_d64 --pin keys=77");
  ck_assert_ptr_nonnull(strstr(output, "--pin keys: no scalar of attn_fwd that can be pinned"));
}
END_TEST

TEST_MAIN("tune_rows", a_file_reads_back_to_the_same, a_row_is_of_the_class_of_its_shape,
          the_better_of_two_rows_stays, what_is_wrong_is_refused_with_its_place,
          a_cut_or_changed_file_is_refused_or_sound, writers_at_once_lose_nothing,
          a_killed_writer_leaves_a_readable_file, a_file_that_cannot_be_read_is_not_written_over,
          rows_of_another_model_are_never_used, a_refused_file_leaves_the_others,
          a_spec_that_names_the_gpu_gets_rows_by_class, the_jit_takes_the_row_of_the_call,
          explain_says_what_was_measured, explain_says_what_the_jit_takes)
