/* host_time.c - host time of attune_launch by handle: a kernel without tensor maps and one with
 * four, beside the driver's own call for an empty kernel with as large a parameter block. Needs a
 * GPU.
 *
 * A sample is the mean of BATCH launches into an empty stream, so that no launch waits for room;
 * the median of SAMPLES is printed. Exit 1 when attune_launch takes over LIMIT_US. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../gen/jit.h"
#include "../../runtime/launch.h"

enum { LEN = 2048, HEADS = 16, DIM = 128, BYTES = LEN * HEADS * DIM * 4 }; /* of fp32 */
enum { BATCH = 100, SAMPLES = 201 };
static const double LIMIT_US = 4;

static int (*driver_load)(void **, const void *);
static int (*driver_function)(void **, void *, const char *);
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
  *(void **)&driver_launch = dlsym(library, "cuLaunchKernel");
  *(void **)&driver_current = dlsym(library, "cuCtxSetCurrent");
  *(void **)&driver_primary = dlsym(library, "cuDevicePrimaryCtxRetain");
  must(!driver_load || !driver_function || !driver_launch || !driver_current || !driver_primary,
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

/* Median of the mean time of a call. */
static double time_of(attune_context *context, void (*call)(void *), void *what) {
  double sample[SAMPLES];
  for (int i = 0; i < SAMPLES; i++) {
    must(attune_synchronize(context), "synchronize");
    double begin = now_us();
    for (int k = 0; k < BATCH; k++) call(what);
    sample[i] = (now_us() - begin) / BATCH;
  }
  must(attune_synchronize(context), "synchronize");
  qsort(sample, SAMPLES, sizeof *sample, ascending);
  return sample[SAMPLES / 2];
}

/* ---- the driver alone -------------------------------------------------------------------------
 */

typedef struct empty {
  void *function;
  unsigned char params[2048];
} empty;

static void launch_empty(void *what) {
  empty *e = what;
  void *arguments[] = {e->params};
  must(driver_launch(e->function, 1, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
}

static double time_empty(attune_context *context, size_t bytes) {
  char ptx[512];
  void *module;
  static empty e;
  snprintf(ptx, sizeof ptx,
           ".version 7.0\n.target sm_75\n.address_size 64\n"
           ".visible .entry empty(.param .align 64 .b8 params[%zu])\n{\n  ret;\n}\n",
           bytes);
  must(driver_load(&module, ptx), "cuModuleLoadData");
  must(driver_function(&e.function, module, "empty"), "cuModuleGetFunction");
  return time_of(context, launch_empty, &e);
}

/* ---- attune ------------------------------------------------------------------------------------
 */

typedef struct launch {
  attune_program *program;
  attune_attn_args args;
} launch;

static void launch_attune(void *what) {
  launch *l = what;
  must(attune_launch(l->program, &l->args, NULL), "attune_launch");
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

/* One row of the table; 1 when it is over the limit. On Hopper bf16 of that length has tensor
 * maps (family wgmma in the name), fp32 none. */
static int show(attune_context *context, attune_dtype dtype, size_t param_bytes) {
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
  double us = time_of(context, launch_attune, &l);
  printf("%-40s %6.2f us; the driver alone, %4zu bytes of parameters: %.2f us\n",
         info.kernels[0].name, us, param_bytes, time_empty(context, param_bytes));
  return us > LIMIT_US;
}

int main(void) {
  attune_context *context;
  attune_jit *jit;
  void *primary;
  load_driver();
  must(attune_open(NULL, &context), "attune_open");
  must(attune_jit_install(context, NULL, &jit), "attune_jit_install");
  must(driver_primary(&primary, 0), "cuDevicePrimaryCtxRetain");
  must(driver_current(primary), "cuCtxSetCurrent");
  int slow = show(context, ATTUNE_DTYPE_FP32, sizeof(attune_params_attn_standard));
  slow += show(context, ATTUNE_DTYPE_BF16, sizeof(attune_params_attn_fwd_maps));
  printf("host_time: limit %.0f us: %s\n", LIMIT_US, slow ? "FAILED" : "passed");
  return slow != 0;
}
