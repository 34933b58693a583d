/* tuning.c - tunes on a GPU as a user's program does: attune_tune, then in the background while
 * this thread captures one graph after another in the strictest mode. No capture may fail, and the
 * background must come to an end. Needs a GPU.
 *
 *   tuning PROGRAM STORE     PROGRAM: attune, which tries candidates; STORE: a folder of its own */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../gen/jit.h"

/* Of this head_dim specs/tuned has no rows: what is measured already is not tuned again. */
enum { DIM = 112 };
enum { BATCH = 4, HEADS = 16, LEN = 1024, COUNT = BATCH * HEADS * LEN * DIM };
enum { CAPTURE_GLOBAL = 0, NON_BLOCKING = 1 }; /* of CUstreamCaptureMode, CUstream_flags */
enum { PATIENCE_S = 100, PAUSE_MS = 20 };

static int (*begin_capture)(void *, int), (*end_capture)(void *, void **);
static int (*make_stream)(void **, unsigned), (*destroy_graph)(void *);
static int (*retain)(void **, int), (*set_current)(void *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char told[400]; /* what the background said of the problem */

static void must(long bad, const char *what) {
  if (!bad) return;
  fprintf(stderr, "tuning: %s failed (%ld): %s\n", what, bad, attune_error());
  exit(1);
}

static void load(void *library, void *function, const char *name) {
  void *found = dlsym(library, name);
  must(!found, name);
  memcpy(function, &found, sizeof found);
}

static void load_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  must(!library, "dlopen libcuda.so.1");
  load(library, &begin_capture, "cuStreamBeginCapture_v2");
  load(library, &end_capture, "cuStreamEndCapture");
  load(library, &make_stream, "cuStreamCreate");
  load(library, &destroy_graph, "cuGraphDestroy");
  load(library, &retain, "cuDevicePrimaryCtxRetain");
  load(library, &set_current, "cuCtxSetCurrent");
}

static void listen(void *user, attune_level level, const char *text) {
  (void)user, (void)level;
  if (!strstr(text, "_few: ") && !strstr(text, "_many: ")) return; /* a class, and its result */
  pthread_mutex_lock(&lock);
  snprintf(told, sizeof told, "%s", text);
  pthread_mutex_unlock(&lock);
}

static int is_told(void) {
  pthread_mutex_lock(&lock);
  int is = told[0] != 0;
  pthread_mutex_unlock(&lock);
  return is;
}

static attune_problem problem_of(attune_mask mask) {
  attune_problem p = attune_problem_init();
  p.op = ATTUNE_OP_ATTN_FWD, p.dtype_q = ATTUNE_DTYPE_FP16, p.head_dim_qk = DIM, p.mask = mask;
  p.batch = BATCH, p.heads_q = p.heads_kv = HEADS, p.len_q = p.len_k = LEN;
  return p;
}

/* One launch, into a graph that is thrown away. */
static void capture(attune_program *program, const attune_attn_args *args, void *stream) {
  void *graph;
  must(begin_capture(stream, CAPTURE_GLOBAL), "cuStreamBeginCapture");
  must(attune_launch(program, args, stream), "launch under capture");
  must(end_capture(stream, &graph), "cuStreamEndCapture");
  must(destroy_graph(graph), "cuGraphDestroy");
}

static void tune_now(attune_jit *jit) {
  attune_problem problem = problem_of(ATTUNE_MASK_CAUSAL);
  attune_tune_options options = attune_tune_options_init();
  attune_tune_result r = attune_tune_result_init();
  options.budget = 20;
  must(attune_tune(jit, &problem, &options, &r), "attune_tune");
  attune_program_info info = attune_program_info_init();
  must(attune_info(r.program, &info), "attune_info");
  printf("tuning: %s: planned %.4f ms, winner %.4f ms, %+.1f %% (%+.1f .. %+.1f), %d tried%s\n",
         info.kernels[0].name, r.planned, r.winner, r.gain, r.gain_low, r.gain_high, (int)r.tried,
         r.provisional ? ", provisional" : "");
  must(r.tried < 2, "trying more than one candidate");
}

/* Captures for two seconds of every four, so that the background has its time, too. */
static void tune_behind(attune_context *context, void *stream) {
  const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
  attune_problem problem = problem_of(ATTUNE_MASK_NONE);
  attune_program *program;
  void *memory[4];
  must(attune_prepare(context, &problem, &program), "attune_prepare");
  for (int i = 0; i < 4; i++) must(attune_alloc(context, (size_t)COUNT * 2, &memory[i]), "alloc");
  attune_attn_args args = attune_attn_args_init();
  attune_tensor *const tensors[] = {&args.q, &args.k, &args.v, &args.o};
  for (int i = 0; i < 4; i++) *tensors[i] = attune_bshd(memory[i], LEN, HEADS, DIM);
  args.batch = BATCH, args.heads_q = args.heads_kv = HEADS, args.len_q = args.len_k = LEN;
  args.flags = ATTUNE_DEFAULT_SCALE;
  int captures = 0;
  for (int i = 0; !is_told() && i < PATIENCE_S * 1000 / PAUSE_MS; i++) {
    if (i * PAUSE_MS / 2000 % 2 == 0) capture(program, &args, stream), captures++;
    nanosleep(&pause, NULL);
  }
  must(!is_told(), "waiting for the background (are there rows of this head_dim now?)");
  printf("tuning: %d captures beside it; %s\n", captures, told);
  for (int i = 0; i < 4; i++) attune_free(context, memory[i]);
}

int main(int argc, char **argv) {
  attune_context *context;
  attune_jit *jit;
  attune_jit_options options = attune_jit_options_init();
  setvbuf(stdout, NULL, _IOLBF, 0); /* what was said stands, should it be killed */
  if (argc != 3) return fprintf(stderr, "usage: tuning PROGRAM STORE\n"), 2;
  options.tune_program = argv[1], options.store = argv[2];
  options.message = listen, options.tune = ATTUNE_TUNE_BACKGROUND;
  options.tune_budget = 5, options.tune_share = 0.2;
  must(attune_open(NULL, &context), "attune_open");
  must(attune_jit_install(context, &options, &jit), "attune_jit_install");
  load_driver();
  void *primary, *stream;
  must(retain(&primary, 0), "cuDevicePrimaryCtxRetain");
  must(set_current(primary), "cuCtxSetCurrent");
  must(make_stream(&stream, NON_BLOCKING), "cuStreamCreate");
  tune_now(jit);
  tune_behind(context, stream);
  attune_close(context);
  attune_jit_close(jit);
  return 0;
}
