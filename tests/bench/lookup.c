/* lookup.c - time of a hit of attune_find, by problem with shape, on one thread.
 *
 * A context without a device, an opened set of 144 rows (3 dtypes, 8 head dims, 3 masks, 2
 * alignments), and randomly ordered problems of random shapes, each a hit. One sample is the mean
 * of BATCH lookups, which hides the clock's own cost (about 20 ns); p50 and p99 are over samples.
 * Exit 1 when p50 is over the limit of 25 ns. */
#include "../../runtime/set.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { DIMS = 8, DTYPES = 3, MASKS = 3, ALIGNS = 2, ROWS = DIMS * DTYPES * MASKS * ALIGNS };
enum { BATCH = 64, SAMPLES = 10000, ROUNDS = 9, PROBLEMS = 1024, LIMIT_NS = 25 };

static int fail(const char *what) {
  fprintf(stderr, "lookup: %s: %s\n", what, attune_error());
  return 1;
}

static uint64_t random_state = 1;
static uint32_t random_below(uint32_t limit) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % limit;
}

static attune_problem problem_of(int index) {
  attune_problem p = attune_problem_init();
  p.op = ATTUNE_OP_ATTN_FWD;
  p.dtype_q = (attune_dtype)(1 + index % DTYPES);
  p.mask = (attune_mask)(1 + index / DTYPES % MASKS);
  p.align = (attune_align)(1 + index / DTYPES / MASKS % ALIGNS);
  p.head_dim_qk = 32 * (1 + index / DTYPES / MASKS / ALIGNS % DIMS);
  return p;
}

/* A row of the fma family's smallest tile; nothing is loaded here, so there is no entry behind it.
 */
static int add_row(attune__set *set, int index) {
  attune_problem problem = problem_of(index);
  attune__set_row *row = &set->rows[index];
  attune_tile tile = {
      .block_m = 64, .block_n = 64, .stages = 1, .warps = 4, .family = ATTUNE_FAMILY_FMA};
  if (attune__variant_of(&problem, attune__arch(80, 0), &row->variant)) return 1;
  row->kernel_count = 1;
  row->kernel[0] = index;
  attune__kernel_name(&row->variant, &tile, set->kernels[index].name);
  memset(set->kernels[index].digest, '0', 64);
  return 0;
}

static int write_set(char *path) {
  attune__set set = {.path = path, .made_by = "tests/bench/lookup"};
  set.kernels = calloc(ROWS, sizeof *set.kernels);
  set.rows = calloc(ROWS, sizeof *set.rows);
  int failed = !set.kernels || !set.rows;
  for (int i = 0; i < ROWS && !failed; i++) failed = add_row(&set, i);
  set.kernel_count = set.row_count = ROWS;
  if (!failed) failed = attune__set_write(&set) != ATTUNE_OK;
  free(set.kernels);
  free(set.rows);
  return failed;
}

static void remove_set(const char *path) {
  char manifest[128];
  snprintf(manifest, sizeof manifest, "%s/manifest", path);
  unlink(manifest);
  rmdir(path);
}

static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Fills `samples` with nanoseconds per lookup; 1 when a lookup missed. */
static int measure(attune_context *context, const attune_problem *problems, double *samples) {
  uint32_t next = 0;
  for (int i = 0; i < SAMPLES; i++) {
    int missed = 0;
    int64_t began = nanoseconds();
    for (int j = 0; j < BATCH; j++) {
      attune_program *program;
      missed |= attune_find(context, &problems[next++ % PROBLEMS], &program) != ATTUNE_OK;
    }
    samples[i] = (double)(nanoseconds() - began) / BATCH;
    if (missed) return 1;
  }
  return 0;
}

static int bench(attune_context *context) {
  static attune_problem problems[PROBLEMS];
  static double samples[SAMPLES];
  for (int i = 0; i < PROBLEMS; i++) {
    attune_problem *p = &problems[i];
    *p = problem_of((int)random_below(ROWS));
    p->batch = 1 + (int32_t)random_below(32);
    p->heads_kv = 1 + (int32_t)random_below(8);
    p->heads_q = p->heads_kv * (1 + (int32_t)random_below(8));
    p->len_q = p->len_k = 1 + (int32_t)random_below(4096);
  }
  double p50 = 1e9, p99 = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    if (measure(context, problems, samples)) return fail("attune_find");
    qsort(samples, SAMPLES, sizeof *samples, by_value);
    if (samples[SAMPLES / 2] >= p50) continue;
    p50 = samples[SAMPLES / 2], p99 = samples[SAMPLES / 100 * 99];
  }
  printf("attune_find hit, %d rows, 1 thread: p50 %.1f ns, p99 %.1f ns (means of %d, best of %d "
         "rounds; limit p50 %d)\n",
         ROWS, p50, p99, BATCH, ROUNDS, LIMIT_NS);
  return p50 > LIMIT_NS;
}

int main(void) {
  char path[] = "/tmp/attune-lookup-XXXXXX";
  attune_options options = attune_options_init();
  attune_context *context;
  options.arch = "sm_80";
  if (!mkdtemp(path)) return perror("mkdtemp"), 1;
  if (write_set(path)) return fail("writing a set");
  if (attune_open(&options, &context)) return fail("attune_open");
  int failed = attune_open_set(context, path) ? fail("attune_open_set") : bench(context);
  attune_close(context);
  remove_set(path);
  return failed;
}
