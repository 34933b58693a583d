/* hello.c - attention in one file: open, compile at first use, launch, check against plain loops.
 *
 *   build/examples/hello        needs an NVIDIA GPU, its driver and NVRTC; a second run finds the
 *                             kernel in the store and compiles nothing */
#include "../../gen/jit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEN = 200, DIM = 64, COUNT = LEN * DIM }; /* one sequence, one head, fp32, causal */

#define MUST(call)                                                                                 \
  if ((call) != ATTUNE_OK) return fprintf(stderr, "%s\n  %s\n", #call, attune_error()), 1

static void print_message(void *user, attune_level level, const char *text) {
  fprintf(stderr, "%s: %s\n", level == ATTUNE_LEVEL_WARN ? "warning" : (const char *)user, text);
}

/* Element d of row i of softmax(scale Q K^T) V, row i seeing keys 0 .. i. */
static double naive(const float *q, const float *k, const float *v, double scale, int i, int d) {
  double sum = 0, out = 0;
  for (int j = 0; j <= i; j++) {
    double score = 0;
    for (int c = 0; c < DIM; c++) score += (double)q[i * DIM + c] * (double)k[j * DIM + c];
    double weight = exp(score * scale);
    sum += weight, out += weight * (double)v[j * DIM + d];
  }
  return out / sum;
}

int main(void) {
  static float host[4][COUNT]; /* q, k, v, o */
  void *device[4];
  attune_context *context;
  attune_jit *jit;
  attune_program *program;
  attune_jit_options options = attune_jit_options_init();
  options.message = print_message, options.message_user = "jit";
  MUST(attune_open(NULL, &context));
  MUST(attune_jit_install(context, &options, &jit));

  attune_problem problem = attune_problem_init();
  problem.op = ATTUNE_OP_ATTN_FWD, problem.dtype_q = ATTUNE_DTYPE_FP32;
  problem.head_dim_qk = DIM, problem.mask = ATTUNE_MASK_CAUSAL;
  problem.batch = problem.heads_q = problem.heads_kv = 1, problem.len_q = problem.len_k = LEN;
  MUST(attune_prepare(context, &problem, &program)); /* compiles, or finds it in the store */

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
  MUST(attune_launch(program, &args, NULL));
  MUST(attune_download(context, host[3], device[3], sizeof host[3])); /* waits for the launch */

  double worst = 0;
  for (int i = 0; i < LEN; i += 7)
    for (int d = 0; d < DIM; d++)
      worst = fmax(worst, fabs((double)host[3][i * DIM + d] -
                               naive(host[0], host[1], host[2], 1 / sqrt(DIM), i, d)));
  printf("attn_fwd on %s: max|err| %.1e (must be below 1e-5)\n", attune_context_device(context),
         worst);
  for (int t = 0; t < 4; t++) attune_free(context, device[t]);
  attune_close(context);
  attune_jit_close(jit);
  return !(worst < 1e-5);
}
