/* host_time.c - host time of attune_launch by handle: a kernel without tensor maps and one with
 * four, in a stream of its own and in the default one; and of what it is made: the driver's call
 * for the same kernel and parameters, and attune's own part, with a device that does not launch.
 * Needs a GPU.
 *
 * A sample is the mean of BATCH launches into an empty stream, so that no launch waits for room;
 * attune and the driver take turns, and medians of SAMPLES are printed. attune's own part is timed
 * by itself, since those behind it would find an idle GPU. Exit 1 when that part takes over OWN_US,
 * or attune_launch over LIMIT_US on a host whose driver leaves room for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../gen/jit.h"
#include "../../runtime/context.h"
#include "../../runtime/driver.h"

enum { LEN = 2048, HEADS = 16, DIM = 128, BYTES = LEN * HEADS * DIM * 4 }; /* of fp32 */
enum { BATCH = 100, SAMPLES = 41 };
static const double LIMIT_US = 4, OWN_US = 0.5;

static void must(long bad, const char *what) {
  if (!bad) return;
  fprintf(stderr, "host_time: %s failed (%ld): %s\n", what, bad, attune_error());
  exit(1);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* ---- a device that only looks on --------------------------------------------------------------
 */

/* What the last launch came down to. */
static struct {
  _Alignas(64) unsigned char params[sizeof(attune_params_attn_fwd_maps)];
  size_t bytes;
  attune__function *function;
  attune__launch_config config;
} last;

static attune_status look_on(attune__device *device, attune__function *function,
                             const attune__launch_config *config, const void *params,
                             size_t param_bytes, void *stream) {
  (void)device, (void)stream;
  if (last.bytes) return ATTUNE_OK; /* copying is not attune's part */
  last.function = function, last.config = *config, last.bytes = param_bytes;
  memcpy(last.params, params, param_bytes);
  return ATTUNE_OK;
}

/* ---- what is timed ---------------------------------------------------------------------------
 */

enum { ATTUNE, DRIVER, OWN, CALLS };

typedef struct launch {
  attune_context *context;
  attune_program *program;
  attune_attn_args args;
  void *stream;
  const attune__device_ops *ops, *onlookers; /* the device's, and those that do not launch */
} launch;

static void call(const launch *l, int which) {
  attune__device *device = l->context->device;
  if (which == DRIVER)
    must(device->ops->launch(device, last.function, &last.config, last.params, last.bytes,
                             l->stream),
         "the driver's launch");
  else
    must(attune_launch(l->program, &l->args, l->stream), "attune_launch");
}

static double mean_time(const launch *l, int which) {
  must(attune_synchronize(l->context), "synchronize");
  double begin = now_us();
  for (int k = 0; k < BATCH; k++) call(l, which);
  return (now_us() - begin) / BATCH;
}

/* Medians of the mean time of the calls [first, last], which take turns. */
static void time_calls(const launch *l, int first, int last_call, double median[CALLS]) {
  static double sample[CALLS][SAMPLES];
  for (int i = 0; i < SAMPLES; i++)
    for (int c = first; c <= last_call; c++) sample[c][i] = mean_time(l, c);
  must(attune_synchronize(l->context), "synchronize");
  for (int c = first; c <= last_call; c++) {
    qsort(sample[c], SAMPLES, sizeof *sample[c], ascending);
    median[c] = sample[c][SAMPLES / 2];
  }
}

static attune_attn_args arguments(attune_context *context) {
  attune_attn_args args = attune_attn_args_init();
  attune_tensor *const tensor[] = {&args.q, &args.k, &args.v, &args.o};
  for (int i = 0; i < 4; i++) {
    void *data;
    must(attune_alloc(context, BYTES, &data), "alloc");
    *tensor[i] = attune_bshd(data, LEN, HEADS, DIM);
  }
  args.batch = 1, args.heads_q = args.heads_kv = HEADS, args.len_q = args.len_k = LEN;
  args.flags = ATTUNE_DEFAULT_SCALE;
  return args;
}

/* A row of the table; 1 when it is over the limits. */
static int show(launch *l, const char *stream) {
  double us[CALLS];
  last.bytes = 0;
  l->context->device->ops = l->onlookers;
  time_calls(l, OWN, OWN, us);
  l->context->device->ops = l->ops;
  mean_time(l, ATTUNE); /* an idle GPU is found by nobody who is timed */
  time_calls(l, ATTUNE, DRIVER, us);
  printf("  %-7s stream: %.2f us; the driver alone %.2f us, attune alone %.2f us\n", stream,
         us[ATTUNE], us[DRIVER], us[OWN]);
  return us[OWN] > OWN_US || (us[ATTUNE] > LIMIT_US && us[DRIVER] <= LIMIT_US - OWN_US);
}

/* Rows that are over the limits. On Hopper bf16 of that length has tensor maps (family wgmma in the
 * name), fp32 none. */
static int show_streams(launch *l, attune_dtype dtype, void *stream) {
  attune_program_info info = attune_program_info_init();
  attune_problem problem = attune_problem_init();
  problem.op = ATTUNE_OP_ATTN_FWD;
  problem.dtype_q = dtype;
  problem.head_dim_qk = DIM;
  problem.batch = 1, problem.heads_q = problem.heads_kv = HEADS;
  problem.len_q = problem.len_k = LEN;
  must(attune_prepare(l->context, &problem, &l->program), "attune_prepare");
  must(attune_info(l->program, &info), "attune_info");
  printf("%s\n", info.kernels[0].name);
  l->stream = NULL;
  int slow = show(l, "default");
  l->stream = stream;
  return slow + show(l, "own");
}

/* As in a program that uses the CUDA runtime. */
static void make_primary_current(void) {
  const attune__cuda *cuda = attune__cuda_api();
  attune__cuda_context primary;
  must(!cuda, "the driver");
  must(cuda->primary_retain(&primary, 0), "cuDevicePrimaryCtxRetain");
  must(cuda->push(primary), "cuCtxPushCurrent");
}

int main(void) {
  launch l = {.onlookers = NULL};
  attune_jit *jit;
  void *stream;
  must(attune_open(NULL, &l.context), "attune_open");
  must(attune_jit_install(l.context, NULL, &jit), "attune_jit_install");
  make_primary_current();
  attune__device *device = l.context->device;
  l.ops = device->ops, l.args = arguments(l.context);
  attune__device_ops onlookers = *l.ops;
  onlookers.launch = look_on, l.onlookers = &onlookers;
  must(l.ops->stream_make(device, &stream), "a stream");
  int slow = show_streams(&l, ATTUNE_DTYPE_FP32, stream);
  slow += show_streams(&l, ATTUNE_DTYPE_BF16, stream);
  printf("host_time: limit %.0f us where the driver takes up to %.1f, attune alone %.1f us: %s\n",
         LIMIT_US, LIMIT_US - OWN_US, OWN_US, slow ? "FAILED" : "passed");
  return slow != 0;
}
