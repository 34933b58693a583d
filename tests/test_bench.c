/* test_bench.c - timing programs side by side: what a made-up timer and a made-up device are asked
 * for, in which order, and what is made of their answers. Intervals against the binomial
 * distribution summed here; and the command over a made-up driver. Nothing is
 * measured. Needs NVRTC. */
#include "fake.h"
#include "test.h"

#include "../gen/bench.h"

#include <limits.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a timer that makes its times up ----------------------------------------------------------
 */

enum { CONTENDERS = 3, MOST = 6, CALLS_KEPT = 4096 };

typedef struct made_up {
  double per_call[MOST]; /* milliseconds */
  double noise;          /* of every third sample, relative */
  double cold;           /* the first 100 ms on the device take so many times longer */
  int fails;             /* contender that does, -1: none */
  int fails_from;        /* .. from its so-manieth sample on */
  int samples[MOST];
  double device_ms;
  int order[CALLS_KEPT], calls[CALLS_KEPT], asked;
  int host_samples;
} made_up;

static attune_status made_up_device(void *user, int contender, int calls, double *milliseconds) {
  made_up *m = user;
  int i = m->samples[contender]++;
  if (contender == m->fails && i >= m->fails_from)
    return attune_fail(ATTUNE_DRIVER, "contender %d broke", contender);
  double took = m->per_call[contender] * calls * (1 + (i % 3 == 0 ? m->noise : 0));
  if (m->cold > 0 && m->device_ms < 100) took *= m->cold;
  m->device_ms += took;
  if (m->asked < CALLS_KEPT) m->order[m->asked] = contender, m->calls[m->asked] = calls;
  m->asked++;
  *milliseconds = took;
  return ATTUNE_OK;
}

static attune_status made_up_host(void *user, int contender, int calls, double *milliseconds) {
  ((made_up *)user)->host_samples++;
  *milliseconds = 0.004 * (contender + 1) * calls;
  return ATTUNE_OK;
}

static attune_status run(made_up *m, int rounds, attune__bench_time *out) {
  attune__bench_timer timer = {m, made_up_device, made_up_host};
  attune__bench_options options = {.rounds = rounds};
  return attune__bench_run(&timer, CONTENDERS, &options, out);
}

static void expect_near(double have, double want) {
  ck_assert_msg(fabs(have - want) <= 1e-9 * fabs(want), "%.12g, want %.12g", have, want);
}

START_TEST(medians) {
  made_up m = {.per_call = {0.01, 2, 0.3}, .noise = 0.5, .fails = -1};
  attune__bench_time out[CONTENDERS];
  ck_assert_int_eq(run(&m, 9, out), 0);
  for (int i = 0; i < CONTENDERS; i++) {
    ck_assert_int_eq(out[i].status, 0);
    ck_assert_int_eq(out[i].rounds, 9);
    expect_near(out[i].median, m.per_call[i]); /* two thirds of the samples are without noise */
    expect_near(out[i].low, m.per_call[i]);
    expect_near(out[i].high, m.per_call[i] * 1.5); /* 3 of 9 are noisy; the 8th of them is */
    expect_near(out[i].host, 0.004 * (i + 1));
    ck_assert(out[i].calls * m.per_call[i] >= 5);  /* a sample lasts 5 ms and more .. */
    ck_assert(out[i].calls * m.per_call[i] <= 10); /* .. and not much more */
  }
}
END_TEST

/* The rounds are the last that the device is asked for. Over a whole design (as many rounds as
 * contenders, twice as many of an odd number) each contender is once, or twice, at each place of a
 * round and directly behind each other one. */
static void expect_even_neighbours(int count) {
  int rounds = count % 2 ? 2 * count : count, each = rounds / count;
  int at_place[MOST][MOST] = {{0}}, behind[MOST][MOST] = {{0}};
  made_up m = {.fails = -1};
  attune__bench_time out[MOST];
  for (int i = 0; i < count; i++) m.per_call[i] = 0.2 + 0.1 * i;
  attune__bench_timer timer = {&m, made_up_device, made_up_host};
  attune__bench_options options = {.rounds = rounds};
  ck_assert_int_eq(attune__bench_run(&timer, count, &options, out), 0);
  int first = m.asked - rounds * count;
  ck_assert_int_gt(first, 0);
  ck_assert_int_le(m.asked, CALLS_KEPT);
  for (int at = first; at < m.asked; at++) {
    int place = (at - first) % count, who = m.order[at];
    ck_assert_int_eq(m.calls[at], out[who].calls);
    at_place[who][place]++;
    if (place) behind[who][m.order[at - 1]]++;
  }
  for (int i = 0; i < count; i++)
    for (int k = 0; k < count; k++) {
      ck_assert_msg(at_place[i][k] == each, "%d of %d is %d times at place %d", i, count,
                    at_place[i][k], k);
      ck_assert_msg(behind[i][k] == (i == k ? 0 : each), "%d of %d is %d times behind %d", i, count,
                    behind[i][k], k);
    }
}

START_TEST(rounds_are_interleaved) {
  for (int count = 1; count <= MOST; count++) expect_even_neighbours(count);
}
END_TEST

START_TEST(warms_up) {
  made_up m = {.per_call = {0.1, 0.2, 0.4}, .cold = 3, .fails = -1};
  attune__bench_time out[CONTENDERS];
  ck_assert_int_eq(run(&m, 7, out), 0);
  ck_assert(m.device_ms >= 300);
  for (int i = 0; i < CONTENDERS; i++) {
    expect_near(out[i].high, m.per_call[i]); /* nothing of the cold start is in a sample */
    ck_assert(out[i].calls * m.per_call[i] >= 5);
    ck_assert(fabs(out[i].drift) < 1e-9);
  }
}
END_TEST

/* Clocks that fall all the time: the last third of the samples is slower than the first. */
static attune_status falling(void *user, int contender, int calls, double *milliseconds) {
  attune_status status = made_up_device(user, contender, calls, milliseconds);
  made_up *m = user;
  *milliseconds *= pow(1.01, m->samples[contender]);
  return status;
}

START_TEST(drift_is_seen) {
  made_up m = {.per_call = {6, 7, 8}, .fails = -1};
  attune__bench_timer timer = {&m, falling, made_up_host};
  attune__bench_options options = {.rounds = 9, .warm_ms = 1};
  attune__bench_time out[CONTENDERS];
  ck_assert_int_eq(attune__bench_run(&timer, CONTENDERS, &options, out), 0);
  for (int i = 0; i < CONTENDERS; i++) {
    expect_near(out[i].drift + 1, pow(1.01, 6)); /* medians of samples 1-3 and 7-9 */
    ck_assert(out[i].drift > ATTUNE__BENCH_DRIFT);
  }
}
END_TEST

START_TEST(a_failure_is_one_contenders) {
  for (int from = 0; from < 30; from += 29) {
    made_up m = {.per_call = {0.1, 0.2, 0.4}, .fails = 1, .fails_from = from};
    attune__bench_time out[CONTENDERS];
    ck_assert_int_eq(run(&m, 40, out), 0);
    ck_assert_int_eq(out[1].status, ATTUNE_DRIVER);
    ck_assert_str_eq(out[1].error, "contender 1 broke");
    ck_assert(out[1].median == 0);
    expect_near(out[0].median, 0.1);
    expect_near(out[2].median, 0.4);
    ck_assert_int_eq(m.samples[1], from + 1); /* it is not asked again */
  }
}
END_TEST

START_TEST(nonsense_is_refused) {
  made_up m = {.per_call = {1, 1, 1}, .fails = -1};
  attune__bench_timer timer = {&m, made_up_device, made_up_host};
  attune__bench_options options = {.rounds = ATTUNE__BENCH_MAX_ROUNDS + 1};
  attune__bench_time out[CONTENDERS];
  ck_assert_int_eq(attune__bench_run(&timer, CONTENDERS, &options, out), ATTUNE_INVALID);
  ck_assert_int_eq(attune__bench_run(&timer, 0, NULL, out), ATTUNE_INVALID);
}
END_TEST

/* ---- intervals --------------------------------------------------------------------------------
 */

/* P(low-th place <= true median <= high-th place), by counting subsets. */
static double covered(int n, int low, int high) {
  double sum = 0;
  for (int below = low + 1; below <= high; below++)
    sum += exp(lgamma(n + 1) - lgamma(below + 1) - lgamma(n - below + 1) - n * log(2));
  return sum;
}

START_TEST(intervals) {
  /* Conover, Practical Nonparametric Statistics: n 10 takes the 2nd and 9th, n 20 the 6th and
   * 15th. */
  static const struct {
    int n, low, high;
  } known[] = {{1, 0, 0}, {5, 0, 4},  {6, 0, 5},   {7, 0, 6},  {8, 0, 7},
               {9, 1, 7}, {10, 1, 8}, {15, 3, 11}, {20, 5, 14}};
  int low, high;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    attune__bench_interval(known[i].n, &low, &high);
    ck_assert_int_eq(low, known[i].low);
    ck_assert_int_eq(high, known[i].high);
  }
  for (int n = 2; n <= ATTUNE__BENCH_MAX_ROUNDS; n++) {
    double coverage = attune__bench_interval(n, &low, &high);
    ck_assert(fabs(coverage - covered(n, low, high)) < 1e-9);
    if (n < 6) continue;
    ck_assert(coverage >= 0.95);
    ck_assert(covered(n, low + 1, high - 1) < 0.95); /* none is narrower */
  }
}
END_TEST

/* ---- on a made-up device ----------------------------------------------------------------------
 */

/* The fake device of fake.h with a clock: a millisecond per launch. */
typedef struct clocked {
  int launches, began; /* so far; at time_begin */
  int recording, recorded, graphs, replays, streams;
  const void *q[8];              /* of the last launches */
  attune_params_attn_fwd params; /* of the last */
} clocked;
static clocked now;

static attune_status tick(attune__device *device, attune__function *function,
                          const attune__launch_config *config, const void *params, size_t bytes,
                          void *stream) {
  (void)device, (void)function, (void)config, (void)bytes;
  ck_assert_ptr_eq(stream, &now);
  now.params = *(const attune_params_attn_fwd *)params;
  now.q[now.launches % 8] = now.params.q;
  now.launches++;
  return ATTUNE_OK;
}
static attune_status begin(attune__device *device, void *stream) {
  (void)device, (void)stream;
  now.began = now.launches;
  return ATTUNE_OK;
}
static attune_status end(attune__device *device, void *stream, float *milliseconds) {
  (void)device, (void)stream;
  *milliseconds = (float)(now.launches - now.began) * 0.01f;
  return ATTUNE_OK;
}
static attune_status make_stream(attune__device *device, void **out) {
  (void)device;
  now.streams++;
  *out = &now;
  return ATTUNE_OK;
}
static void free_stream(attune__device *device, void *stream) {
  (void)device;
  ck_assert_ptr_eq(stream, &now);
  now.streams--;
}
static attune_status record_begin(attune__device *device, void *stream) {
  (void)device, (void)stream;
  ck_assert(!now.recording);
  now.recording = 1, now.recorded = now.launches;
  return ATTUNE_OK;
}
static attune_status record_end(attune__device *device, void *stream, attune__graph **out) {
  (void)device, (void)stream;
  ck_assert(now.recording);
  int *length = malloc(sizeof *length);
  ck_assert_ptr_nonnull(length);
  *length = now.launches - now.recorded;
  now.launches = now.recorded, now.recording = 0, now.graphs++;
  *out = (attune__graph *)(void *)length;
  return ATTUNE_OK;
}
static attune_status replay(attune__device *device, attune__graph *graph, void *stream) {
  (void)device, (void)stream;
  now.launches += *(int *)(void *)graph, now.replays++;
  return ATTUNE_OK;
}
static void free_graph(attune__device *device, attune__graph *graph) {
  (void)device;
  free(graph);
  now.graphs--;
}

/* A context whose device has that clock, and an L2 of 1 MB. */
static attune_context *clocked_open(fake_log *log, attune__device_ops *ops, int can_time) {
  attune_context *context = fake_open("sm_80", NULL, log);
  attune__device *device = context->device;
  *ops = *device->ops;
  ops->launch = tick;
  ops->time_begin = begin, ops->time_end = end;
  if (can_time) ops->stream_make = make_stream;
  ops->stream_free = free_stream;
  ops->record_begin = record_begin, ops->record_end = record_end;
  ops->graph_launch = replay, ops->graph_free = free_graph;
  device->ops = ops;
  device->facts.l2_bytes = 1 << 20;
  now = (clocked){0};
  return context;
}

static const fake_row row = {.variant = "attn_fwd_sm80_fp16_d64"};
/* A set of tensors: 4 tensors of 1 * 2 * 128 * 64 fp16, and LSE: 132 KB. */
static const attune_shape shape = {.batch = 1,
                                   .heads_q = 2,
                                   .heads_kv = 2,
                                   .len_q = 128,
                                   .len_k = 128,
                                   .window_left = -1,
                                   .window_right = -1,
                                   .corner = ATTUNE_CORNER_TOP_LEFT};

/* A launch of a row's program, by a bench that `look` sees before it closes. */
static void bench_row(const fake_row *from, const attune_shape *on,
                      void (*look)(const attune__bench_time *time)) {
  char folder[FAKE_PATH];
  fake_log log = {0};
  attune__device_ops ops;
  attune_context *context = clocked_open(&log, &ops, 1);
  attune_problem problem = fake_problem(from->variant);
  attune_pin pins[ATTUNE_MAX_PINS];
  attune_program *program;
  attune__bench *bench;
  attune__bench_time time;
  fake_folder(folder);
  fake_open_set(context, folder, from, 1);
  for (uint32_t i = 0; from->pins && i < from->pins->count; i++)
    pins[i] = (attune_pin){from->pins->pin[i].name, from->pins->pin[i].value};
  if (from->pins) problem.pins = pins, problem.pin_count = from->pins->count;
  ck_assert_msg(!attune_prepare(context, &problem, &program), "%s", attune_error());
  ck_assert_int_eq(attune__bench_open(context->device, attune__program_variant(program), from->pins,
                                      on, ATTUNE__L2_WARM, &bench),
                   0);
  ck_assert_int_eq(attune__bench_add(bench, program), 0);
  ck_assert_int_eq(attune__bench_times(bench, NULL, &time), 0);
  ck_assert_msg(time.status == 0, "%s", time.error);
  look(&time);
  attune__bench_close(bench);
  attune_close(context);
  fake_remove(folder);
}

/* What is device memory to the bench is this process's own here. */
static void look_at_features(const attune__bench_time *time) {
  const attune_params_attn_fwd *p = &now.params;
  (void)time;
  for (int b = 0; b <= 3; b++) {
    ck_assert_int_eq(p->cu_seqlens_q[b], b * 100);
    ck_assert_int_eq(p->cu_seqlens_k[b], b * 130);
  }
  ck_assert_int_eq(p->total_q, 300);
  ck_assert_int_eq(p->total_k, 390);
  ck_assert(p->q_stride_seq == 2 * 64 && p->lse_stride_head == 300 && p->lse_stride_seq == 1);
  ck_assert(p->softcap == 50 && p->scale == 0.125f);
  ck_assert(p->alibi_slopes[0] == 0x1p-4f && p->alibi_slopes[1] == 0x1p-8f);
  ck_assert(p->alibi_stride_batch == 0 && p->sinks[0] == 0 && p->sinks[1] == 0);
  ck_assert(p->bias_stride_head == 100 * 130 && p->bias_stride_q == 130 && p->bias_stride_k == 1);
  const uint16_t *bias = p->bias;
  ck_assert(bias[0] != bias[1] && bias[2 * 100 * 130 - 1] != bias[2 * 100 * 130 - 2]);
  ck_assert(p->bitmask_stride_q == 5 && p->bitmask_stride_batch == 0);
  for (int i = 0; i < 100 * 5; i++) ck_assert_uint_eq(p->bitmask[i], UINT32_MAX);
}

START_TEST(every_feature_has_its_inputs) {
  const fake_row all = {.variant = "attn_fwd_sm80_fp16_d64_softcap_alibi_bias_sink_bitmask_varlen"};
  attune_shape s = shape;
  s.batch = 3, s.len_q = 100, s.len_k = 130;
  bench_row(&all, &s, look_at_features);
}
END_TEST

static void look_at_pins(const attune__bench_time *time) {
  (void)time;
  ck_assert(now.params.scale == 0.5f && now.params.window_left == 20 && now.params.batch == 1);
}

START_TEST(pins_hold) {
  attune_pinset pins = {.count = 0};
  ck_assert_int_eq(attune__pinset_add(&pins, "scale", 0.5), 0);
  ck_assert_int_eq(attune__pinset_add(&pins, "window_left", 20), 0);
  const fake_row pinned = {.variant = "attn_fwd_sm80_fp16_d64_window", .pins = &pins};
  bench_row(&pinned, &shape, look_at_pins);
}
END_TEST

static void expect_sets(attune__l2 l2, int sets) {
  char folder[FAKE_PATH];
  fake_log log = {0};
  attune__device_ops ops;
  attune_context *context = clocked_open(&log, &ops, 1);
  fake_folder(folder);
  fake_open_set(context, folder, &row, 1);
  attune_problem problem = fake_problem(row.variant);
  attune_program *program;
  attune__bench *bench;
  attune__bench_time time;
  ck_assert_int_eq(attune_prepare(context, &problem, &program), 0);
  const attune_variant *v = attune__program_variant(program);
  ck_assert_int_eq(attune__bench_open(context->device, v, NULL, &shape, l2, &bench), 0);
  ck_assert_int_eq(attune__bench_sets(bench), sets);
  ck_assert_uint_eq(attune__bench_set_bytes(bench), 4 * 2 * 128 * 64 * 2 + 2 * 128 * 4);
  ck_assert_int_eq(attune__bench_add(bench, program), 0);
  ck_assert_int_eq(attune__bench_times(bench, NULL, &time), 0);
  ck_assert_msg(time.status == 0, "%s", time.error);
  ck_assert(fabs(time.median - 0.01) < 1e-6);
  ck_assert_int_ge(time.calls, 500);
  ck_assert_int_ge(now.replays, time.rounds); /* short ones in graphs */
  int distinct = now.q[0] != now.q[1];
  ck_assert_int_eq(distinct, sets > 1);
  attune__bench_close(bench);
  ck_assert_int_eq(now.graphs, 0);
  ck_assert_int_eq(now.streams, 0);
  attune_close(context);
  fake_remove(folder);
}

START_TEST(l2_cold) {
  expect_sets(ATTUNE__L2_COLD, 16); /* 2 MB over 132,096 bytes */
}
END_TEST
START_TEST(l2_warm) {
  expect_sets(ATTUNE__L2_WARM, 1);
}
END_TEST

START_TEST(no_clock_no_bench) {
  fake_log log = {0};
  attune__device_ops ops;
  attune_context *context = clocked_open(&log, &ops, 0);
  attune_entry entry = fake_entry("attn_fwd_sm80_fp16_d64__fma_m64n64", NULL);
  attune__bench *bench;
  ck_assert_int_eq(
      attune__bench_open(context->device, &entry.variant, NULL, &shape, ATTUNE__L2_COLD, &bench),
      ATTUNE_NO_DEVICE);
  ck_assert_ptr_nonnull(strstr(attune_error(), "timing needs an NVIDIA GPU"));
  ck_assert_ptr_null(bench);
  attune_close(context);
}
END_TEST

/* ---- figures ----------------------------------------------------------------------------------
 */

START_TEST(figures) {
  attune_entry entry = fake_entry("attn_fwd_sm80_fp16_d64__mma_m128n64", NULL);
  const attune_entry *entries[] = {&entry};
  attune_shape s = shape;
  attune__bench_figures f;
  s.batch = 4, s.heads_q = s.heads_kv = 16, s.len_q = s.len_k = 2048;
  attune__bench_figures_of(entries, 1, entry.variant.arch, &s, 0.5, &f);
  ck_assert(f.flops == 4.0 * 4 * 16 * 2048 * 2048 * 64);
  expect_near(f.tflops, f.flops / 0.5e-3 / 1e12);
  double tensors = 4.0 * 4 * 16 * 2048 * 64 * 2, lse = 4.0 * 16 * 2048 * 4;
  ck_assert(f.bytes == tensors + lse);
  expect_near(f.gbs, f.bytes / 0.5e-3 / 1e9);
  ck_assert_str_eq(f.board->name, "A100");
  expect_near(f.share, f.ceiling / 0.5);
  /* The tensor cores alone: 312 TFLOP/s of dense fp16 (A100 data sheet); nothing is faster. */
  ck_assert(f.ceiling >= f.flops / 312e12 * 1e3 * 0.99);
  attune__bench_figures_of(entries, 1, attune__arch(35, 0), &s, 0.5, &f);
  ck_assert(f.board == NULL && f.bytes == 0 && f.share == 0 && f.tflops > 0);
}
END_TEST

/* ---- the command, over a made-up driver --------------------------------------------------------
 */

enum { OUTPUT_MAX = 1 << 16 };
static char driver[FAKE_PATH];  /* folder of the made-up libcuda.so.1 */
static char output[OUTPUT_MAX]; /* stdout and stderr of the last run */

static int shell(const char *line) {
  FILE *pipe = popen(line, "r");
  ck_assert_ptr_nonnull(pipe);
  size_t size = fread(output, 1, sizeof output - 1, pipe);
  output[size] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Exit code of `attune WORDS` with variables set; the program lies beside the folder of this test.
 */
static int attune(const char *variables, const char *words) {
  char self[PATH_MAX] = "", line[3 * PATH_MAX];
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 2; i++) *strrchr(self, '/') = 0;
  snprintf(line, sizeof line, "env %s %s/attune %s 2>&1", variables, self, words);
  return shell(line);
}

static int attune_on_fake(const char *variables, const char *words) {
  char line[512];
  if (!*driver) {
    fake_folder(driver);
    snprintf(line, sizeof line,
             "cc -Wall -Wextra -Werror -shared -fPIC -o %s/libcuda.so.1 tests/doctor/fake_driver.c",
             driver);
    ck_assert_msg(shell(line) == 0, "%s", output);
  }
  snprintf(line, sizeof line, "LD_LIBRARY_PATH=$PWD/%s:$LD_LIBRARY_PATH FAKE_CC=80 %s", driver,
           variables);
  return attune(line, words);
}

static void expect(const char *text) {
  ck_assert_msg(strstr(output, text) != NULL, "'%s' is missing in:\n%s", text, output);
}

/* The number behind a key, from a place in the output on. */
static double number(const char *from, const char *key) {
  const char *at = strstr(from, key);
  ck_assert_msg(at != NULL, "%s is missing in:\n%s", key, output);
  return strtod(at + strlen(key), NULL);
}

#define KERNELS                                                                                    \
  "attn_fwd_sm80_fp32_d32__fma_m64n64 attn_standard_sm80_fp32_d32 "                                \
  "attn_fwd_sm80_fp32_d32__fma_m32n32 --shape b=2,h=4,s=512"

START_TEST(more_kernels_than_a_run_takes) {
  ck_assert_int_eq(attune("", "bench a b c d e f g h another --shape s=512"), 2);
  expect("attune bench: error: at most 8 arguments, and there is another: another\n");
  ck_assert_int_eq(attune("", "list a another"), 2);
  expect("attune list: error: at most 1 argument, and there is another: another\n");
}
END_TEST

START_TEST(times_side_by_side) {
  ck_assert_msg(attune_on_fake("FAKE_LAUNCH_US=50", "bench " KERNELS " --json") == 0, "%s", output);
  expect("{\"schema\": 1");
  expect("\"device\": \"Fake GPU 0\"");
  expect("\"l2\": \"cold\"");
  const char *first = strstr(output, "\"name\": \"attn_fwd_sm80_fp32_d32__fma_m64n64\"");
  const char *standard = strstr(output, "\"name\": \"attn_standard_sm80_fp32_d32\"");
  const char *last = strstr(output, "\"name\": \"attn_fwd_sm80_fp32_d32__fma_m32n32\"");
  ck_assert(first && standard && last && first < standard && standard < last);
  /* One launch, and three. */
  ck_assert(fabs(number(first, "\"us\": ") - 50) < 1e-3);
  ck_assert(fabs(number(standard, "\"us\": ") - 150) < 1e-3);
  ck_assert(number(first, "\"rounds\": ") == ATTUNE__BENCH_ROUNDS);
  ck_assert(number(first, "\"calls\": ") >= 100); /* 5 ms */
  double flops = 4.0 * 2 * 4 * 512 * 512 * 32;
  ck_assert(number(first, "\"flops\": ") == flops);
  ck_assert(fabs(number(first, "\"tflops\": ") / (flops / 50e-6 / 1e12) - 1) < 1e-4);
  ck_assert(number(first, "\"blocks_per_sm\": ") == 3);
  /* 4 tensors of 512 KB and LSE; 2 * 50 MB of L2. */
  ck_assert(number(output, "\"set_bytes\": ") == 4 * 524288 + 16384);
  ck_assert(number(output, "\"sets\": ") == 50);
}
END_TEST

START_TEST(long_launches_and_warm_l2) {
  ck_assert_msg(attune_on_fake("FAKE_LAUNCH_US=2000", "bench " KERNELS " --l2 warm --rounds 7") ==
                    0,
                "%s", output);
  expect("Median of 7 interleaved rounds");
  expect("order statistics 1 and 7, which hold the median with 98.4 %");
  expect("batch 2, heads 4, 512 queries x 512 keys; L2 warm: 1 set of 2.1 MB");
  expect("2000.00 .. 2000.00");
  expect("6000.00 .. 6000.00");
}
END_TEST

START_TEST(what_does_not_run_is_named) {
  ck_assert_int_eq(attune_on_fake("", "bench attn_fwd_sm90a_bf16_d64"), 3);
  expect("attn_fwd_sm90a_bf16_d64__");
  expect("code for sm_90a does not run on Fake GPU 0");
  expect("nothing here runs on this device");
}
END_TEST

START_TEST(needs_a_gpu) {
  ck_assert_int_eq(attune("CUDA_VISIBLE_DEVICES=", "bench attn_fwd_sm80_fp32_d32"), 3);
  expect("only a GPU can be timed");
}
END_TEST

START_TEST(wrong_words) {
  static const char *const words[] = {"--shape b=0",         "--shape q=1",    "--shape b",
                                      "--shape b=1x",        "--shape b=1,=2", "--shape h=6,hk=4",
                                      "--shape s=536870912", "--shape wl=-2",  "--l2 hot",
                                      "--rounds 0",          "--rounds 1001",  ""};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    char line[128];
    snprintf(line, sizeof line, "bench %s %s", *words[i] ? "attn_fwd_sm80_fp32_d32" : "", words[i]);
    ck_assert_msg(attune("", line) == 2, "%s:\n%s", line, output);
    expect("error: ");
  }
}
END_TEST

START_TEST(removes_the_driver) {
  if (*driver) fake_remove(driver);
}
END_TEST

TEST_MAIN("bench", medians, rounds_are_interleaved, warms_up, drift_is_seen,
          a_failure_is_one_contenders, nonsense_is_refused, intervals, l2_cold, l2_warm,
          every_feature_has_its_inputs, pins_hold, no_clock_no_bench, figures,
          more_kernels_than_a_run_takes, times_side_by_side, long_launches_and_warm_l2,
          what_does_not_run_is_named, needs_a_gpu, wrong_words, removes_the_driver)
