// attend.cpp - a C++ program that links all that is installed: the JIT compiles a kernel at its
// first call and the CPU device executes it. With Q = 0 every weight is equal: O is V's mean.
#include <attune/attune_cpu.h>
#include <attune/jit.h>

#include <cmath>
#include <cstdio>
#include <vector>

static int fail(const char *what) {
  std::fprintf(stderr, "%s: %s\n", what, attune_error());
  return 1;
}

int main() {
  constexpr int len = 24, dim = 32;
  attune_cpu_options device = attune_cpu_options_init();
  device.arch = "sm_80";
  attune_jit_options options = attune_jit_options_init();
  options.store = ""; // in memory: nothing is left behind
  attune_context *context = nullptr;
  attune_jit *jit = nullptr;
  if (attune_cpu_open(&device, &context)) return fail("attune_cpu_open");
  if (attune_jit_install(context, &options, &jit)) return fail("attune_jit_install");

  attune_problem problem = attune_problem_init();
  problem.op = ATTUNE_OP_ATTN_FWD, problem.dtype_q = ATTUNE_DTYPE_FP32, problem.head_dim_qk = dim;
  problem.batch = problem.heads_q = problem.heads_kv = 1, problem.len_q = problem.len_k = len;
  if (attune_supports(context, &problem)) return fail("attune_supports");
  attune_program *program = nullptr;
  if (attune_prepare(context, &problem, &program)) return fail("attune_prepare");

  std::vector<float> q(len * dim, 0.0f), k(len * dim, 1.0f), v(len * dim), o(len * dim, NAN);
  for (int i = 0; i < len * dim; i++) v[static_cast<size_t>(i)] = static_cast<float>(i % 7);
  const std::vector<float> *host[] = {&q, &k, &v, &o};
  attune_tensor tensor[4];
  for (int t = 0; t < 4; t++) {
    void *memory = nullptr;
    if (attune_alloc(context, sizeof(float) * len * dim, &memory)) return fail("attune_alloc");
    if (attune_upload(context, memory, host[t]->data(), sizeof(float) * len * dim))
      return fail("attune_upload");
    tensor[t] = attune_bshd(memory, len, 1, dim);
  }
  attune_attn_args args = attune_attn_args_init();
  args.q = tensor[0], args.k = tensor[1], args.v = tensor[2], args.o = tensor[3];
  args.batch = args.heads_q = args.heads_kv = 1, args.len_q = args.len_k = len;
  args.flags = ATTUNE_DEFAULT_SCALE;
  if (attune_launch(program, &args, nullptr)) return fail("attune_launch");
  if (attune_download(context, o.data(), args.o.data, sizeof(float) * len * dim))
    return fail("attune_download");

  double worst = 0;
  for (int d = 0; d < dim; d++) {
    double mean = 0;
    for (int j = 0; j < len; j++) mean += v[static_cast<size_t>(j * dim + d)] / double(len);
    for (int i = 0; i < len; i++)
      worst = std::fmax(worst, std::fabs(o[static_cast<size_t>(i * dim + d)] - mean));
  }
  const bool right = worst < 1e-5;
  std::printf("attune %s attends: %s\n", attune_version(), right ? "the mean of V" : "wrong");
  for (const attune_tensor &t : tensor) attune_free(context, t.data);
  attune_close(context);
  attune_jit_close(jit);
  return right ? 0 : 1;
}
