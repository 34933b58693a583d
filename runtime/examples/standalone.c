/* standalone.c - attention in a program that links no attune: one generated C file, the CUDA
 * driver, nothing else.
 *
 *   attune embed runtime/examples/kernels.yaml --standalone --prefix example \
 *     --header example_standalone.h -o example_standalone.c
 *   cc -I. standalone.c example_standalone.c -ldl -lpthread -lm
 *
 *   build/examples/standalone [cuda]   without a GPU: shows what the argument checks and the
 *                                      missing driver say, and ends well unless cuda is asked for
 *
 * An engine has a context and device memory already. This program has neither, so it asks the
 * driver for both itself. */
#include "example_standalone.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEN = 100, DIM = 64, COUNT = LEN * DIM }; /* one sequence, one head, fp32, causal */

/* ---- a context and memory, by the driver's own calls ----------------------------------------- */

#define DRIVER(X)                                                                                  \
  X(init, "cuInit", (unsigned))                                                                    \
  X(retain, "cuDevicePrimaryCtxRetain", (void **, int))                                            \
  X(make_current, "cuCtxSetCurrent", (void *))                                                     \
  X(device_name, "cuDeviceGetName", (char *, int, int))                                            \
  X(alloc, "cuMemAlloc_v2", (void **, size_t))                                                     \
  X(upload, "cuMemcpyHtoD_v2", (void *, const void *, size_t))                                     \
  X(download, "cuMemcpyDtoH_v2", (void *, const void *, size_t))

static struct {
#define X(member, symbol, arguments) int(*member) arguments;
  DRIVER(X)
#undef X
} driver;

/* 1 when there is a GPU and its context is current. */
static int open_device(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
  if (!library) return 0;
#define X(member, symbol, arguments)                                                               \
  {                                                                                                \
    void *found = dlsym(library, symbol);                                                          \
    if (!found) return 0;                                                                          \
    memcpy(&driver.member, &found, sizeof found);                                                  \
  }
  DRIVER(X)
#undef X
  return driver.init(0) == 0 && driver.retain(&context, 0) == 0 &&
         driver.make_current(context) == 0;
}

/* ---- attention ------------------------------------------------------------------------------- */

static example_problem causal_problem(void) {
  example_problem p;
  memset(&p, 0, sizeof p);
  p.dtype_q = EXAMPLE_FP32, p.head_dim_qk = DIM, p.mask = EXAMPLE_CAUSAL;
  return p;
}

/* Tensors [seq, dim] of one sequence and one head. */
static example_params params_of(void *const device[4]) {
  example_params p = example_params_init();
  p.q = device[0], p.k = device[1], p.v = device[2], p.o = device[3];
  p.q_stride_seq = p.k_stride_seq = p.v_stride_seq = p.o_stride_seq = DIM;
  p.batch = p.heads_q = p.heads_kv = 1, p.len_q = p.len_k = LEN;
  p.scale = 1 / sqrtf(DIM);
  return p;
}

/* Element d of row i of softmax(scale Q K^T) V, row i seeing keys 0 .. i. */
static double naive(float host[4][COUNT], int i, int d) {
  double sum = 0, out = 0;
  for (int j = 0; j <= i; j++) {
    double score = 0;
    for (int c = 0; c < DIM; c++)
      score += (double)host[0][i * DIM + c] * (double)host[1][j * DIM + c];
    double weight = exp(score / sqrt(DIM));
    sum += weight, out += weight * (double)host[2][j * DIM + d];
  }
  return out / sum;
}

static int attend(void) {
  static float host[4][COUNT]; /* q, k, v, o */
  void *device[4];
  char name[64] = "";
  double worst = 0;
  for (int t = 0; t < 4; t++) {
    for (int i = 0; i < COUNT; i++) host[t][i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    if (driver.alloc(&device[t], sizeof host[t]) ||
        driver.upload(device[t], host[t], sizeof host[t]))
      return fprintf(stderr, "no device memory\n"), 1;
  }
  const example_problem problem = causal_problem();
  const example_params params = params_of(device);
  if (example_attn_fwd(&problem, &params, NULL) != EXAMPLE_OK)
    return fprintf(stderr, "%s\n", example_error()), 1;
  if (driver.download(host[3], device[3], sizeof host[3])) /* waits for the launch */
    return fprintf(stderr, "the launch failed\n"), 1;
  for (int i = 0; i < LEN; i += 7)
    for (int d = 0; d < DIM; d++)
      worst = fmax(worst, fabs((double)host[3][i * DIM + d] - naive(host, i, d)));
  driver.device_name(name, sizeof name, 0);
  printf("standalone attn_fwd on %s: max|err| %.1e (must be below 1e-5)\n", name, worst);
  return !(worst < 1e-5);
}

/* ---- what a machine without a GPU can show ----------------------------------------------------
 */

static int refused(const char *what, const example_problem *problem, const example_params *params,
                   example_status expected) {
  example_status status = example_attn_fwd(problem, params, NULL);
  printf("%s: %s\n", what, example_error());
  return status != expected;
}

static int show_checks(void) {
  void *device[4] = {(void *)0x10000, (void *)0x20000, (void *)0x30000, (void *)0x40000};
  const example_problem good = causal_problem();
  example_problem problem = good;
  example_params params = params_of(device);
  int wrong = 0;
  problem.head_dim_qk = 80;
  wrong += refused("head_dim 80", &problem, &params, EXAMPLE_NOT_FOUND);
  params.q = (void *)0x10004;
  wrong += refused("q at an odd address", &good, &params, EXAMPLE_INVALID);
  params = params_of(device), params.len_k = LEN + 1;
  wrong += refused("no corner", &good, &params, EXAMPLE_INVALID);
  params = params_of(device), params.scale = example_params_init().scale;
  wrong += refused("no scale", &good, &params, EXAMPLE_INVALID);
  params = params_of(device);
  wrong += refused("no driver", &good, &params, EXAMPLE_NO_DEVICE);
  printf("standalone: no GPU here; its arguments were checked, nothing was computed\n");
  return wrong;
}

int main(int argc, char **argv) {
  if (open_device()) return attend();
  int wrong = show_checks();
  return wrong || (argc > 1 && strcmp(argv[1], "cuda") == 0);
}
