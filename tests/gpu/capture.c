/* capture.c - launches under stream capture, in the strictest mode, and replays the graph: the
 * replay must give what a direct launch gives, bit for bit, also after the inputs changed. Needs a
 * GPU. Prints what it compared; exit 0 when all agree. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../gen/jit.h"

enum { BATCH = 2, HEADS = 4, LEN = 200, DIM = 64, COUNT = BATCH * HEADS * LEN * DIM };
enum { CAPTURE_GLOBAL = 0 }; /* CU_STREAM_CAPTURE_MODE_GLOBAL */

#define DRIVER_FUNCTIONS(X)                                                                        \
  X(cuInit, (unsigned))                                                                            \
  X(cuDevicePrimaryCtxRetain, (void **, int))                                                      \
  X(cuCtxSetCurrent, (void *))                                                                     \
  X(cuStreamCreate, (void **, unsigned))                                                           \
  X(cuStreamSynchronize, (void *))                                                                 \
  X(cuStreamBeginCapture_v2, (void *, int))                                                        \
  X(cuStreamEndCapture, (void *, void **))                                                         \
  X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                            \
  X(cuGraphLaunch, (void *, void *))

#define X(name, arguments) static int(*name) arguments;
DRIVER_FUNCTIONS(X)
#undef X

static void must(long bad, const char *what) {
  if (!bad) return;
  fprintf(stderr, "capture: %s failed (%ld): %s\n", what, bad, attune_error());
  exit(1);
}

static void load_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  must(!library, "dlopen libcuda.so.1");
#define X(name, arguments)                                                                         \
  *(void **)&name = dlsym(library, #name);                                                         \
  must(!name, #name);
  DRIVER_FUNCTIONS(X)
#undef X
}

static void random_floats(float *x, unsigned seed) {
  for (int i = 0; i < COUNT; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
  }
}

typedef struct buffers {
  void *q, *k, *v, *direct, *replayed;
} buffers;

static void fill(attune_context *context, const buffers *b, unsigned seed) {
  static float host[COUNT];
  void *const inputs[] = {b->q, b->k, b->v};
  for (unsigned i = 0; i < 3; i++) {
    random_floats(host, seed + i);
    must(attune_upload(context, inputs[i], host, sizeof host), "upload");
  }
}

/* 1 when the two outputs hold the same bits and are not what memory held before. */
static int same_output(attune_context *context, const buffers *b) {
  static float direct[COUNT], replayed[COUNT];
  must(attune_synchronize(context), "synchronize");
  must(attune_download(context, direct, b->direct, sizeof direct), "download");
  must(attune_download(context, replayed, b->replayed, sizeof replayed), "download");
  double sum = 0;
  for (int i = 0; i < COUNT; i++) sum += direct[i] * direct[i];
  return sum > 0 && sum < COUNT && !memcmp(direct, replayed, sizeof direct);
}

static attune_attn_args arguments(const buffers *b, void *o) {
  attune_attn_args args = attune_attn_args_init();
  args.q = attune_bshd(b->q, LEN, HEADS, DIM);
  args.k = attune_bshd(b->k, LEN, HEADS, DIM);
  args.v = attune_bshd(b->v, LEN, HEADS, DIM);
  args.o = attune_bshd(o, LEN, HEADS, DIM);
  args.batch = BATCH, args.heads_q = args.heads_kv = HEADS, args.len_q = args.len_k = LEN;
  args.flags = ATTUNE_DEFAULT_SCALE;
  args.corner = ATTUNE_CORNER_TOP_LEFT;
  return args;
}

static void *capture(attune_program *program, const attune_attn_args *args, void *stream) {
  void *graph, *executable;
  must(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL), "cuStreamBeginCapture");
  must(attune_launch(program, args, stream), "launch under capture");
  must(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  must(cuGraphInstantiateWithFlags(&executable, graph, 0), "cuGraphInstantiate");
  return executable;
}

int main(void) {
  attune_context *context;
  attune_jit *jit;
  attune_program *program;
  must(attune_open(NULL, &context), "attune_open");
  must(attune_jit_install(context, NULL, &jit), "attune_jit_install");
  load_driver();
  void *primary, *stream;
  must(cuInit(0), "cuInit");
  must(cuDevicePrimaryCtxRetain(&primary, 0), "cuDevicePrimaryCtxRetain");
  must(cuCtxSetCurrent(primary), "cuCtxSetCurrent");
  must(cuStreamCreate(&stream, 1 /* non-blocking */), "cuStreamCreate");

  attune_problem problem = attune_problem_init();
  problem.op = ATTUNE_OP_ATTN_FWD;
  problem.dtype_q = ATTUNE_DTYPE_FP32;
  problem.head_dim_qk = DIM;
  problem.mask = ATTUNE_MASK_CAUSAL;
  problem.batch = BATCH, problem.heads_q = problem.heads_kv = HEADS;
  problem.len_q = problem.len_k = LEN;
  must(attune_prepare(context, &problem, &program), "attune_prepare");

  buffers b;
  void **all[] = {&b.q, &b.k, &b.v, &b.direct, &b.replayed};
  for (int i = 0; i < 5; i++) must(attune_alloc(context, COUNT * sizeof(float), all[i]), "alloc");
  attune_attn_args direct = arguments(&b, b.direct), replayed = arguments(&b, b.replayed);
  void *graph = capture(program, &replayed, stream);
  int failures = 0;
  for (unsigned round = 0; round < 3; round++) {
    fill(context, &b, 100 * round);
    must(attune_launch(program, &direct, stream), "launch");
    must(cuGraphLaunch(graph, stream), "cuGraphLaunch");
    must(cuStreamSynchronize(stream), "cuStreamSynchronize");
    int same = same_output(context, &b);
    printf("capture: replay %u %s the direct launch\n", round, same ? "equals" : "DIFFERS FROM");
    failures += !same;
  }
  for (int i = 0; i < 5; i++) attune_free(context, *all[i]);
  attune_close(context);
  attune_jit_close(jit);
  return failures != 0;
}
