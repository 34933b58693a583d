/* ask.c - a C program that links an installed libattune and nothing else: opens for an arch,
 * asks for a problem that no set has, and prints the answers. */
#include <attune/attune.h>
#include <stdio.h>

int main(void) {
  attune_options options = attune_options_init();
  attune_context *context;
  options.arch = "sm_90a";
  if (attune_open(&options, &context)) return fprintf(stderr, "%s\n", attune_error()), 1;

  attune_problem problem = attune_problem_init();
  problem.op = ATTUNE_OP_ATTN_FWD, problem.dtype_q = ATTUNE_DTYPE_BF16, problem.head_dim_qk = 64;
  problem.batch = problem.heads_q = problem.heads_kv = 1, problem.len_q = problem.len_k = 16;
  attune_status status = attune_supports(context, &problem);
  printf("attune %s looks up for %s: %s, %s\n", attune_version(), attune_context_arch(context),
         attune_status_name(status), *attune_error() ? "and says why" : "and does not say why");
  attune_close(context);
  return 0;
}
