/* embedded.c - attention from kernels that the program carries: no file, no compiler at run time.
 *
 *   attune embed runtime/examples/kernels.yaml --ptx --prefix example -o example_embedded.c
 *   cc embedded.c example_embedded.c $(pkg-config --cflags --libs attune attune_cpu)
 *
 *   build/examples/embedded [cuda|cpu]   cuda: fail without a GPU; cpu: the CPU device, which runs
 *                                        the PTX that --ptx kept; default: whichever there is */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attune_cpu.h"

attune_status example_open(attune_context *context); /* in the generated file */

enum { LEN = 100, DIM = 64, COUNT = LEN * DIM }; /* one sequence, one head, fp32, causal */

#define MUST(call)                                                                                 \
  if ((call) != ATTUNE_OK) return fprintf(stderr, "%s\n  %s\n", #call, attune_error()), 1

/* A GPU, or the CPU device in its place. */
static attune_status open_device(const char *wanted, attune_context **out) {
  attune_cpu_options cpu = attune_cpu_options_init();
  if (strcmp(wanted, "cpu") != 0) {
    attune_status status = attune_open(NULL, out);
    if (status == ATTUNE_OK || strcmp(wanted, "cuda") == 0) return status;
  }
  cpu.arch = "sm_80";
  return attune_cpu_open(&cpu, out);
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

static int attend(attune_context *context, float host[4][COUNT]) {
  void *device[4]; /* q, k, v, o */
  attune_problem problem = attune_problem_init();
  problem.op = ATTUNE_OP_ATTN_FWD, problem.dtype_q = ATTUNE_DTYPE_FP32;
  problem.head_dim_qk = DIM, problem.mask = ATTUNE_MASK_CAUSAL;
  for (int t = 0; t < 4; t++) {
    for (int i = 0; i < COUNT; i++) host[t][i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    MUST(attune_alloc(context, sizeof host[t], &device[t]));
    MUST(attune_upload(context, device[t], host[t], sizeof host[t]));
  }
  attune_attn_args args = attune_attn_args_init();
  args.q = attune_bshd(device[0], LEN, 1, DIM), args.k = attune_bshd(device[1], LEN, 1, DIM);
  args.v = attune_bshd(device[2], LEN, 1, DIM), args.o = attune_bshd(device[3], LEN, 1, DIM);
  args.batch = args.heads_q = args.heads_kv = 1, args.len_q = args.len_k = LEN;
  args.flags = ATTUNE_DEFAULT_SCALE;
  MUST(attune_launch_problem(context, &problem, &args, NULL));
  MUST(attune_download(context, host[3], device[3], sizeof host[3])); /* waits for the launch */
  for (int t = 0; t < 4; t++) attune_free(context, device[t]);
  return 0;
}

int main(int argc, char **argv) {
  static float host[4][COUNT];
  attune_context *context;
  double worst = 0;
  MUST(open_device(argc > 1 ? argv[1] : "", &context));
  MUST(example_open(context));
  if (attend(context, host) != 0) return 1;
  for (int i = 0; i < LEN; i += 7)
    for (int d = 0; d < DIM; d++)
      worst = fmax(worst, fabs((double)host[3][i * DIM + d] - naive(host, i, d)));
  printf("embedded attn_fwd on %s: max|err| %.1e (must be below 1e-5)\n",
         attune_context_device(context), worst);
  attune_close(context);
  return !(worst < 1e-5);
}
