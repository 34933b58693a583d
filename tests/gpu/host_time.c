/* host_time.c - host time of attune_launch by handle: a kernel without tensor maps and one with
 * four, in a stream of its own and in the default one; beside each the driver's own call for the
 * same kernel with the same parameter block, and for an empty one. Needs a GPU.
 *
 * A sample is the mean of BATCH launches into an empty stream, so that no launch waits for room;
 * the calls take turns, and medians of SAMPLES are printed. Exit 1 when attune_launch takes over
 * LIMIT_US, and over SHARE_US more than the driver, which on some hosts takes as long alone. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../gen/jit.h"
#include "../../runtime/context.h"

enum { LEN = 2048, HEADS = 16, DIM = 128, BYTES = LEN * HEADS * DIM * 4 }; /* of fp32 */
enum { BATCH = 100, SAMPLES = 201 };
static const double LIMIT_US = 4, SHARE_US = 0.4;

static int (*driver_load)(void **, const void *);
static int (*driver_function)(void **, void *, const char *);
static int (*driver_set)(void *, int, int);
static int (*driver_stream)(void **, unsigned);
static int (*driver_launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, void *, void **, void **);
static int (*driver_current)(void *);
static int (*driver_primary)(void **, int);

static void must(long bad, const char *what) {
  if (!bad) return;
  fprintf(stderr, "host_time: %s failed (%ld): %s\n", what, bad, attune_error());
  exit(1);
}

static void load_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  must(!library, "dlopen libcuda.so.1");
  *(void **)&driver_load = dlsym(library, "cuModuleLoadData");
  *(void **)&driver_function = dlsym(library, "cuModuleGetFunction");
  *(void **)&driver_set = dlsym(library, "cuFuncSetAttribute");
  *(void **)&driver_stream = dlsym(library, "cuStreamCreate");
  *(void **)&driver_launch = dlsym(library, "cuLaunchKernel");
  *(void **)&driver_current = dlsym(library, "cuCtxSetCurrent");
  *(void **)&driver_primary = dlsym(library, "cuDevicePrimaryCtxRetain");
  must(!driver_load || !driver_function || !driver_set || !driver_stream || !driver_launch ||
           !driver_current || !driver_primary,
       "dlsym");
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

/* ---- what is timed ---------------------------------------------------------------------------
 */

enum { ATTUNE, SAME_KERNEL, EMPTY_KERNEL, CALLS };

typedef struct launch {
  attune_program *program;
  attune_attn_args args;
  void *stream;
  void *function[CALLS]; /* the driver's, of the kernels that it launches itself */
  unsigned blocks, threads, smem_bytes;
  attune_params_attn_fwd_maps params;
} launch;

static void call(const launch *l, int which) {
  void *params[] = {(void *)(uintptr_t)&l->params};
  if (which == ATTUNE)
    must(attune_launch(l->program, &l->args, l->stream), "attune_launch");
  else if (which == SAME_KERNEL)
    must(driver_launch(l->function[which], l->blocks, 1, 1, l->threads, 1, 1, l->smem_bytes,
                       l->stream, params, NULL),
         "cuLaunchKernel");
  else
    must(driver_launch(l->function[which], 1, 1, 1, 128, 1, 1, 0, l->stream, params, NULL),
         "cuLaunchKernel");
}

/* Medians of the mean time of a call. */
static void time_calls(attune_context *context, const launch *l, double median[CALLS]) {
  static double sample[CALLS][SAMPLES];
  for (int i = 0; i < SAMPLES * CALLS; i++) {
    must(attune_synchronize(context), "synchronize");
    double begin = now_us();
    for (int k = 0; k < BATCH; k++) call(l, i % CALLS);
    sample[i % CALLS][i / CALLS] = (now_us() - begin) / BATCH;
  }
  must(attune_synchronize(context), "synchronize");
  for (int c = 0; c < CALLS; c++) {
    qsort(sample[c], SAMPLES, sizeof *sample[c], ascending);
    median[c] = sample[c][SAMPLES / 2];
  }
}

/* ---- making it ready ---------------------------------------------------------------------------
 */

static void *load(const void *image, const char *name) {
  void *module, *function;
  must(driver_load(&module, image), "cuModuleLoadData");
  must(driver_function(&function, module, name), "cuModuleGetFunction");
  return function;
}

static void *load_empty(size_t bytes) {
  char ptx[512];
  snprintf(ptx, sizeof ptx,
           ".version 7.0\n.target sm_75\n.address_size 64\n"
           ".visible .entry empty(.param .align 64 .b8 params[%zu])\n{\n  ret;\n}\n",
           bytes);
  return load(ptx, "empty");
}

/* The device's own way to load a kernel; the wrapper also loads it apart from attune. */
static const attune__device_ops *device_ops;
static void *last_loaded;

static attune_status load_twice(attune__device *device, const attune_entry *entry,
                                attune__function **out) {
  last_loaded = load(entry->payload[ATTUNE_PAYLOAD_CUBIN].data, entry->name);
  return device_ops->load(device, entry, out);
}

/* The program's only part, for the driver alone, as attune launches it. */
static void ready_driver(attune_context *context, launch *l) {
  enum { MAX_DYNAMIC_SMEM = 8 }; /* CUfunction_attribute */
  const attune__part *part = atomic_load(&l->program->parts);
  const attune_recipe *recipe = &part->entry.recipe;
  const attune_variant *variant = &l->program->variant;
  attune_params_attn_standard params;
  must(attune__params_fill(variant, l->program->corner, &l->args, &params), "the parameters");
  memcpy(&l->params.params, &params, sizeof l->params.params);
  l->params.params.size = recipe->param_bytes;
  if (recipe->maps)
    must(attune__maps_fill(context->device, variant, recipe, &params, l->params.map), "the maps");
  must(attune__grid(variant, recipe, &params, &l->blocks), "the grid");
  unsigned most = (unsigned)context->device->facts.sm_count * recipe->persistent;
  if (most && l->blocks > most) l->blocks = most;
  l->threads = recipe->threads, l->smem_bytes = recipe->smem_bytes;
  l->function[EMPTY_KERNEL] = load_empty(recipe->param_bytes);
  l->function[SAME_KERNEL] = last_loaded;
  must(driver_set(l->function[SAME_KERNEL], MAX_DYNAMIC_SMEM, (int)l->smem_bytes),
       "cuFuncSetAttribute");
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
static int show(attune_context *context, launch *l, const char *stream) {
  double us[CALLS];
  time_calls(context, l, us);
  printf("  %s stream: %.2f us; the driver alone %.2f us, for an empty kernel %.2f us\n", stream,
         us[ATTUNE], us[SAME_KERNEL], us[EMPTY_KERNEL]);
  return us[ATTUNE] > LIMIT_US && us[ATTUNE] - us[SAME_KERNEL] > SHARE_US;
}

/* Rows that are over the limits. On Hopper bf16 of that length has tensor maps (family wgmma in the
 * name), fp32 none. */
static int show_streams(attune_context *context, attune_dtype dtype, void *stream) {
  launch l = {.args = arguments(context)};
  attune_program_info info = attune_program_info_init();
  attune_problem problem = attune_problem_init();
  problem.op = ATTUNE_OP_ATTN_FWD;
  problem.dtype_q = dtype;
  problem.head_dim_qk = DIM;
  problem.batch = 1, problem.heads_q = problem.heads_kv = HEADS;
  problem.len_q = problem.len_k = LEN;
  must(attune_prepare(context, &problem, &l.program), "attune_prepare");
  must(attune_info(l.program, &info), "attune_info");
  ready_driver(context, &l);
  printf("%s\n", info.kernels[0].name);
  int slow = show(context, &l, "default");
  l.stream = stream;
  return slow + show(context, &l, "own");
}

int main(void) {
  enum { NON_BLOCKING = 1 }; /* CUstream_flags */
  attune_context *context;
  attune_jit *jit;
  void *primary, *stream;
  load_driver();
  must(attune_open(NULL, &context), "attune_open");
  must(attune_jit_install(context, NULL, &jit), "attune_jit_install");
  must(driver_primary(&primary, 0), "cuDevicePrimaryCtxRetain");
  must(driver_current(primary), "cuCtxSetCurrent");
  must(driver_stream(&stream, NON_BLOCKING), "cuStreamCreate");
  device_ops = context->device->ops;
  attune__device_ops ops = *device_ops;
  ops.load = load_twice;
  context->device->ops = &ops;
  int slow = show_streams(context, ATTUNE_DTYPE_FP32, stream);
  slow += show_streams(context, ATTUNE_DTYPE_BF16, stream);
  context->device->ops = device_ops;
  printf("host_time: limit %.0f us, or %.1f us more than the driver alone: %s\n", LIMIT_US,
         SHARE_US, slow ? "FAILED" : "passed");
  return slow != 0;
}
