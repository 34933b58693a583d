/* test_cpu_faults.c - faults seeded into the templates' own text: each is reported with the line of
 * the template where it was made, or where it shows. Needs NVRTC. */
#include "cpu_trial.h"
#include "test.h"

static const char skeleton[] = "templates/attn_fwd/fma.cu";

/* A kernel and what it is launched on. */
typedef struct target {
  const char *kernel;
  attune_shape shape;
  void (*arrange)(attune_attn_args *args);
  const char *arch; /* NULL: sm_80 */
} target;

static const target plain = {"attn_fwd_sm80_fp32_d64_causal__fma_m32n32",
                             {2, 2, 1, 70, 133, -1, 0, ATTUNE_CORNER_BOTTOM_RIGHT},
                             NULL,
                             NULL};

/* Launched before what is ahead of it in the stream has ended. */
static const target early = {"attn_fwd_sm90a_fp32_d64_causal__fma_m32n32",
                             {2, 2, 1, 70, 133, -1, 0, ATTUNE_CORNER_BOTTOM_RIGHT},
                             NULL,
                             "sm_90a"};
static const target early_tma = {"attn_fwd_sm90a_bf16_d64__wgmma_m128n64s2w12",
                                 {1, 2, 1, 70, 133, -1, -1, ATTUNE_CORNER_BOTTOM_RIGHT},
                                 NULL,
                                 "sm_90a"};

/* Two sequences of 30 and 34 queries, 100 and 33 keys, and room behind both; a bias of [34, 100]
 * with a gap for all of them, heads too. */
static void pack(attune_attn_args *a) {
  static const int32_t cu_q[] = {0, 30, 64}, cu_k[] = {0, 100, 133};
  static const float bias[34 * 101];
  a->batch = 2;
  a->cu_seqlens_q = cu_q, a->cu_seqlens_k = cu_k;
  a->total_q = 100, a->total_k = 133;
  a->bias = bias, a->bias_stride_q = 101, a->bias_stride_k = 1;
}

static const target packed = {"attn_fwd_sm80_fp32_d64_causal_bias_varlen__fma_m32n32",
                              {1, 2, 1, 100, 133, -1, 0, ATTUNE_CORNER_BOTTOM_RIGHT},
                              pack,
                              NULL};

/* A missing barrier shows as the first of these that the schedule meets. */
#define UNSYNCHRONISED                                                                             \
  "which nothing has written|with no barrier between|with no __syncwarp between"

/* The last place of `find` in the kernel's text is replaced. line: text of the template's line that
 * the report must name; NULL: any, for what shows at the next access of several. */
typedef struct seed {
  const char *find, *replace, *report, *line;
} seed;

static const seed seeds[] = {
    {"if (row < rows)", "if (row <= rows)", "of q are no elements of it", "load_rows<kHeadDimQK>("},
    {"__syncthreads();\n  add_product_abt", "add_product_abt", UNSYNCHRONISED,
     "add_scores(s, smem,"},
    {"__syncwarp();", ";", "of the warp wrote, with no __syncwarp between",
     "add_output(rows, smem,"},
    {"__syncthreads();\n  }", "\n  }", "with no barrier between", NULL},
    {"if (row >= place.row1) continue;", ";", "of o are no elements of it", "store_rows(params,"},
    {"if (row >= place.row1) continue;", "if (row > place.row1) continue;",
     "of o are no elements of it", "store_rows(params,"},
    {"if (row >= place.row1) continue;", "if (row + 1 >= place.row1) continue;",
     "was never written", NULL},
    {"store_rows(params, place, rows);",
     "store_rows(params, place, rows); store_rows(params, place, rows);",
     ", which was written before", "store_rows(params,"},
    {"if (row >= place.row1) continue;", "if (row >= place.row1) break; __syncthreads();",
     "needs the whole warp|deadlock", NULL},
    {"__syncthreads();\n  add_product_abt",
     "if (threadIdx.x >= 32) __syncthreads();\n  add_product_abt", "deadlock|" UNSYNCHRONISED,
     NULL},
};

/* What packed sequences and a bias bring. */
static const seed packed_seeds[] = {
    {"if (row >= place.row1) continue;", ";",
     "which was written before|a row that is of no sequence", "store_rows(params,"},
    {"place.row1 = min(place.row0 + kBlockM, place.len_q * kGroup)",
     "place.row1 = min(place.row0 + kBlockM, (place.len_q - 1) * kGroup)", "was never written",
     NULL},
    {"place.token_q * stride_seq", "(place.token_q + 1) * stride_seq",
     "was never written|"
     "a row that is of no sequence|which was written before",
     NULL},
    {"i * params.bias_stride_q", "(i + 1) * params.bias_stride_q", "of bias are no elements of it",
     "online_softmax<false>("},
    {"j * bias_stride_k", "(j + 1) * bias_stride_k", "of bias are no elements of it", NULL},
};

static void must_find(const char *at, const char *what) {
  ck_assert_msg(at != NULL, "the template has no \"%s\" any more", what);
}

static const char *last_of(const char *text, const char *find) {
  const char *last = NULL;
  for (const char *at = strstr(text, find); at; at = strstr(at + 1, find)) last = at;
  must_find(last, find);
  return last;
}

static char *plant(void *user, const char *source) {
  const seed *s = user;
  const char *at = last_of(source, s->find);
  size_t size = strlen(source) + strlen(s->replace) + 1;
  char *out = malloc(size);
  ck_assert_ptr_nonnull(out);
  snprintf(out, size, "%.*s%s%s", (int)(at - source), source, s->replace, at + strlen(s->find));
  return out;
}

/* "attn_fwd/fma.cu:118:" or "attn_fwd/fma.cu:118 " of the line that has the text. */
static int names_line(const char *report, const char *text) {
  static char file[1 << 16];
  FILE *f = fopen(skeleton, "rb");
  ck_assert_ptr_nonnull(f);
  file[fread(file, 1, sizeof file - 1, f)] = 0;
  fclose(f);
  const char *at = strstr(file, text);
  must_find(at, text);
  int line = 1;
  for (const char *p = file; p < at; p++) line += *p == '\n';
  char where[64];
  snprintf(where, sizeof where, "attn_fwd/fma.cu:%d", line);
  const char *named = strstr(report, where);
  return named && strchr(": ", named[strlen(where)]);
}

static int has_one(const char *report, const char *texts) {
  while (*texts) {
    char text[128];
    size_t size = strcspn(texts, "|");
    snprintf(text, sizeof text, "%.*s", (int)size, texts);
    if (strstr(report, text)) return 1;
    texts += size + (texts[size] == '|');
  }
  return 0;
}

static void expect_report(const target *on, const seed *s, uint64_t schedule) {
  attune_cpu_options options = attune_cpu_options_init();
  attune_context *context;
  trial_part part;
  options.arch = on->arch ? on->arch : "sm_80", options.schedule_seed = schedule;
  must(attune_cpu_open(&options, &context));
  trial_compile(on->kernel, plant, (void *)(uintptr_t)s, &part);
  attune_program *program = trial_program(context, &part, 1);
  trial t = trial_make(context, &part.kernel.variant, &on->shape);
  t.arrange = on->arrange;
  attune_status status = trial_launch(&t, program);
  const char *report = status ? attune_error() : "";
  if (getenv("ATTUNE_TEST_REPORTS")) printf("%s\n", report);
  ck_assert_msg(status == ATTUNE_MISMATCH, "%s -> %s: not found, status %d", s->find, s->replace,
                (int)status);
  ck_assert_msg(strstr(report, on->kernel) && has_one(report, s->report), "%s -> %s: got: %s",
                s->find, s->replace, report);
  ck_assert_msg(!s->line || names_line(report, s->line), "%s -> %s: not the line of %s: %s",
                s->find, s->replace, s->line, report);
  trial_free(&t);
  attune_close(context);
  free(part.entry);
}

START_TEST(seeded_faults_are_found) {
  for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++) expect_report(&plain, &seeds[k], 0);
}
END_TEST

START_TEST(seeded_faults_of_features_are_found) {
  for (size_t k = 0; k < sizeof packed_seeds / sizeof *packed_seeds; k++)
    expect_report(&packed, &packed_seeds[k], 0);
}
END_TEST

#define TOO_EARLY "the kernel is launched early and has not come to griddepcontrol.wait"
START_TEST(tensors_are_not_touched_before_the_wait) {
  const seed none = {"griddepcontrol.wait;", "", TOO_EARLY, NULL};
  expect_report(&early, &none, 0);
  expect_report(&early_tma, &none, 0);
  const seed some = {"asm volatile(\"griddepcontrol.wait;\"",
                     "if (threadIdx.x % 32 != 5) asm volatile(\"griddepcontrol.wait;\"", TOO_EARLY,
                     NULL};
  expect_report(&early, &some, 0);
}
END_TEST

/* What one schedule shows as unwritten, another may show as a race. */
START_TEST(races_are_found_in_any_schedule) {
  seed any = seeds[1];
  any.report = UNSYNCHRONISED, any.line = NULL;
  for (uint64_t schedule = 1; schedule <= 4; schedule++) expect_report(&plain, &any, schedule);
  any = seeds[3];
  any.report = UNSYNCHRONISED;
  for (uint64_t schedule = 1; schedule <= 4; schedule++) expect_report(&plain, &any, schedule);
}
END_TEST

TEST_MAIN("cpu_faults", seeded_faults_are_found, seeded_faults_of_features_are_found,
          tensors_are_not_touched_before_the_wait, races_are_found_in_any_schedule)
