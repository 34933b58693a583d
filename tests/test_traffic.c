/* test_traffic.c - formula == counted, to the byte: every kernel of every shipped spec, executed on
 * the CPU device with every check on three shapes: tails, a mask's corner, grouped heads.
 *
 * Kernels of specs are those that other programs build too (built.h); the rest is compiled to PTX
 * alone. As many threads as the machine has cores. Needs NVRTC. */
#include "../gen/expand.h"
#include "../gen/nvrtc.h"
#include "../gen/probe.h"
#include "../gen/template.h"
#include "built.h"
#include "test.h"

#include <pthread.h>
#include <unistd.h>

/* Sanitizers look at the program, not at the kernels, and take ten times as long: the CI matrix,
 * which has every dtype, mask and alignment, is enough there. */
static const char *const specs[] = {"ci", "ci_features",
#ifndef __SANITIZE_ADDRESS__
                                    "default", "article"
#endif
};
enum { SPECS = sizeof specs / sizeof *specs, SHAPES = 3, FLOATS = 1 << 18, THREADS_MAX = 16 };

/* A program of a spec, and what became of it. */
typedef struct work {
  const attune_kernel *kernel[ATTUNE_MAX_PARTS];
  int kernels;
  const char *spec; /* where they are built; NULL: nowhere yet */
  char fault[512];  /* "": all was well */
} work;

typedef struct queue {
  work *item;
  int count, next;
  pthread_mutex_t lock;
  const float *data; /* FLOATS numbers that every launch reads Q, K and V from */
} queue;

/* ---- one program --------------------------------------------------------------------------- */

/* An entry with PTX alone, which is all that the device needs. */
static attune_status make_entry(const attune_kernel *kernel, void **out, size_t *out_bytes) {
  attune__text source = {0};
  attune_emit_options options = {.lines = 1};
  char *ptx = NULL;
  size_t bytes = 0;
  attune_status status = attune__emit(kernel, &options, &source);
  if (status == ATTUNE_OK)
    status = attune__nvrtc_ptx(source.data, kernel->name, kernel->variant.arch, &ptx, &bytes);
  attune_entry entry = {.variant = kernel->variant, .tile = kernel->tile, .recipe = kernel->recipe};
  snprintf(entry.name, sizeof entry.name, "%s", kernel->name);
  snprintf(entry.compiler, sizeof entry.compiler, "test");
  entry.payload[ATTUNE_PAYLOAD_PTX].data = ptx;
  entry.payload[ATTUNE_PAYLOAD_PTX].bytes = bytes;
  if (status == ATTUNE_OK) status = attune__entry_write(&entry, out, out_bytes);
  attune__text_free(&source);
  free(ptx);
  return status;
}

static attune_status open_probe(const work *w, attune__probe **out) {
  void *entry[ATTUNE_MAX_PARTS] = {NULL};
  size_t bytes[ATTUNE_MAX_PARTS] = {0};
  attune_cpu_options cpu = attune_cpu_options_init();
  cpu.threads = 1;
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < w->kernels && status == ATTUNE_OK; i++)
    status = w->spec ? read_built(w->spec, w->kernel[i]->name, &entry[i], &bytes[i])
                     : make_entry(w->kernel[i], &entry[i], &bytes[i]);
  if (status == ATTUNE_OK)
    status = attune__probe_open(&cpu, (const void *const *)entry, bytes, w->kernels, out);
  for (int i = 0; i < ATTUNE_MAX_PARTS; i++) free(entry[i]);
  return status;
}

/* Tails in rows and keys; more keys than rows, so that the corner matters, over several tiles of
 * keys and with a window that leaves some out; query heads in groups of three. */
static attune_shape shape_of(const work *w, int which) {
  int m = 0, n = 0;
  for (int i = 0; i < w->kernels; i++) {
    const attune_tile *tile = &w->kernel[i]->tile;
    if (tile->block_n && tile->block_m > m) m = tile->block_m;
    if (tile->block_n > n) n = tile->block_n;
  }
  const int group = w->kernel[0]->variant.group; /* all query heads of a key head, or some */
  const attune_shape shapes[SHAPES] = {
      {1, group, 1, m + 5, n + 3, 20, 6, ATTUNE_CORNER_TOP_LEFT},
      {1, group, 1, m / 2 + 1, 2 * n + 9, n / 2, 0, ATTUNE_CORNER_BOTTOM_RIGHT},
      {group > 1 ? 3 : 2, group > 1 ? 2 * group : 3, 1, 9, n / 2 + 7, 12, -1,
       ATTUNE_CORNER_BOTTOM_RIGHT},
  };
  return shapes[which];
}

static attune_status run_shape(attune__probe *probe, const float *numbers, const attune_shape *s,
                               char *fault, size_t size) {
  static _Thread_local float lse[4096];
  attune__probe_data data = {.q = numbers, .k = numbers, .v = numbers, .lse = lse, .scale = 0.125f};
  attune_status status = attune__probe_run(probe, s, &data);
  for (int part = 0; part < attune__probe_parts(probe) && status == ATTUNE_OK; part++) {
    attune__tally tally;
    status = attune__probe_tally(probe, part, &tally);
    for (int i = 0; i < tally.count && status == ATTUNE_OK && !*fault; i++)
      for (int kind = 0; kind < ATTUNE__TALLY_COUNTS; kind++)
        if (tally.row[i].formula[kind] != tally.row[i].counted[kind])
          snprintf(fault, size, "%s, %d x %d: %s, count %d: formula %llu, counted %llu",
                   attune__probe_entry(probe, part)->name, (int)s->len_q, (int)s->len_k,
                   tally.row[i].tensor, kind, (unsigned long long)tally.row[i].formula[kind],
                   (unsigned long long)tally.row[i].counted[kind]);
  }
  return status;
}

static void run_work(work *w, const float *numbers) {
  attune__probe *probe = NULL;
  attune_status status = open_probe(w, &probe);
  for (int i = 0; i < SHAPES && status == ATTUNE_OK; i++) {
    attune_shape shape = shape_of(w, i);
    attune__probe_sizes n = attune__probe_sizes_of(&w->kernel[0]->variant, &shape);
    if (n.q > FLOATS || n.k > FLOATS || n.v > FLOATS || n.lse > 4096)
      status = attune_fail(ATTUNE_INVALID, "the test has too few numbers for this shape");
    else
      status = run_shape(probe, numbers, &shape, w->fault, sizeof w->fault);
  }
  if (status != ATTUNE_OK)
    snprintf(w->fault, sizeof w->fault, "%s: %.300s", w->kernel[0]->name, attune_error());
  attune__probe_close(probe);
}

/* ---- all of a spec ------------------------------------------------------------------------- */

static void *worker(void *argument) {
  queue *q = argument;
  for (;;) {
    pthread_mutex_lock(&q->lock);
    work *w = q->next < q->count ? &q->item[q->next++] : NULL;
    pthread_mutex_unlock(&q->lock);
    if (!w) return NULL;
    run_work(w, q->data);
  }
}

static void run_queue(queue *q) {
  pthread_t thread[THREADS_MAX];
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int threads = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores;
  pthread_mutex_init(&q->lock, NULL);
  for (int i = 0; i < threads; i++)
    ck_assert_int_eq(pthread_create(&thread[i], NULL, worker, q), 0);
  for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  pthread_mutex_destroy(&q->lock);
}

static void check_spec(const char *name, const float *data) {
  attune_job job;
  build_spec(name, &job);
  queue q = {.item = calloc((size_t)job.row_count + (size_t)job.kernel_count, sizeof *q.item),
             .count = job.row_count,
             .data = data};
  unsigned char *covered = calloc((size_t)job.kernel_count, 1);
  ck_assert(q.item && covered);
  for (int row = 0; row < job.row_count; row++) {
    q.item[row].kernels = job.rows[row].kernel_count, q.item[row].spec = name;
    for (int i = 0; i < q.item[row].kernels; i++) {
      q.item[row].kernel[i] = &job.kernels[job.rows[row].kernel[i]];
      covered[job.rows[row].kernel[i]] = 1;
    }
  }
  for (int i = 0; i < job.kernel_count; i++) { /* reached by name: another family has the row */
    if (covered[i]) continue;
    ck_assert_int_eq(attune__op_parts(job.kernels[i].variant.op), 1);
    q.item[q.count++] = (work){.kernel = {&job.kernels[i]}, .kernels = 1, .spec = name};
  }
  run_queue(&q);
  for (int row = 0; row < q.count; row++) ck_assert_str_eq(q.item[row].fault, "");
  free(covered), free(q.item);
  attune__job_free(&job);
}

START_TEST(counted_bytes_are_the_formulas) {
  float *data = malloc(FLOATS * sizeof *data);
  ck_assert_ptr_nonnull(data);
  /* rounded to bf16, so that every dtype holds them */
  attune__probe_normal(5, ATTUNE_DTYPE_BF16, data, FLOATS);
  for (int i = 0; i < SPECS; i++) check_spec(specs[i], data);
  free(data);
}
END_TEST

/* FlashAttention-1's loop order reads outputs back: its own formula, with and without keys. */
START_TEST(the_old_loop_order_has_its_formula) {
  attune_variant v;
  attune_tile tile;
  int has_tile, is_program;
  attune_kernel kernel;
  work w = {.kernel = {&kernel}, .kernels = 1};
  attune__probe *probe;
  float *data = malloc(FLOATS * sizeof *data);
  ck_assert_ptr_nonnull(data);
  attune__probe_normal(6, ATTUNE_DTYPE_FP32, data, FLOATS);
  ck_assert_int_eq(attune__name_parse("attn_demo_sm80_fp32_d40_fa1__fma_m32n32", &v, &tile,
                                      &has_tile, &is_program),
                   ATTUNE_OK);
  ck_assert_int_eq(attune__kernel_make(&v, &tile, NULL, &kernel), ATTUNE_OK);
  ck_assert_int_eq(open_probe(&w, &probe), ATTUNE_OK);
  for (int keys = 0; keys <= 70; keys += 35) {
    attune_shape shape = {1, 2, 1, 45, keys, -1, -1, ATTUNE_CORNER_TOP_LEFT};
    ck_assert_msg(run_shape(probe, data, &shape, w.fault, sizeof w.fault) == ATTUNE_OK, "%s",
                  attune_error());
    ck_assert_str_eq(w.fault, "");
  }
  attune__probe_close(probe);
  free(data);
}
END_TEST

/* What each feature reads beside Q, K and V, alone and with others; packed groups; long rows. */
START_TEST(features_have_their_formulas) {
  static const char *const names[] = {
      "attn_fwd_sm80_fp32_d40_window_bias__fma_m32n32",
      "attn_fwd_sm80_bf16_d40_bias__fma_m32n32w8kv1",
      "attn_fwd_sm80_fp32_d24_causal_bitmask__fma_m32n32",
      "attn_fwd_sm80_fp32_d24_window_alibi_sink__fma_m64n32",
      "attn_fwd_sm80_bf16_ofp32_d24_window_varlen__fma_m32n32",
      "attn_fwd_sm80_fp16_d24x40_window_g3_softcap_alibi_bias_sink_bitmask_varlen__fma_m32n32w2",
      "attn_fwd_sm80_bf16_d33x17_causal_g3_alibi_bias_elem__fma_m32n64",
      "attn_fwd_sm75_fp16_d264x320_window__fma_m16n16k64kv1",
      "attn_fwd_sm80_bf16_d40_window_bias__mma_m64n32s2",
      "attn_fwd_sm75_fp16_d40_causal_bitmask__mma_m32n64",
      "attn_fwd_sm90a_bf16_d24_alibi_sink__mma_m64n32w2",
      "attn_fwd_sm90a_fp16_ofp32_d24_window_g3_alibi_sink_varlen__mma_m16n64s3",
      "attn_fwd_sm80_fp16_d24x40_window_g3_softcap_alibi_bias_sink_bitmask_varlen__mma_m32n32w2",
      "attn_fwd_sm90a_bf16_d24_causal_alibi__wgmma_m64n32s2w8q1o1g1",
      "attn_fwd_sm90a_fp16_d40_window_alibi_sink__wgmma_m128n48s3w12o5t1c1",
      "attn_fwd_sm90a_bf16_ofp32_d40x24_g4_softcap_alibi_sink__wgmma_m192n32s2w16o3",
      "attn_fwd_sm90a_bf16_d72_window_varlen__wgmma_m128n80s2w12t1",
      "attn_fwd_sm90a_fp16_ofp32_d16x8_causal_g4_softcap_alibi_sink_varlen__wgmma_m64n64s2w8z1"};
  float *data = malloc(FLOATS * sizeof *data);
  ck_assert_ptr_nonnull(data);
  attune__probe_normal(7, ATTUNE_DTYPE_BF16, data, FLOATS);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    attune_variant v;
    attune_tile tile;
    int has_tile, is_program;
    attune_kernel kernel;
    work w = {.kernel = {&kernel}, .kernels = 1};
    ck_assert_int_eq(attune__name_parse(names[i], &v, &tile, &has_tile, &is_program), ATTUNE_OK);
    ck_assert_msg(attune__kernel_make(&v, &tile, NULL, &kernel) == ATTUNE_OK, "%s", attune_error());
    run_work(&w, data);
    ck_assert_str_eq(w.fault, "");
  }
  free(data);
}
END_TEST

TEST_MAIN("traffic", features_have_their_formulas, counted_bytes_are_the_formulas,
          the_old_loop_order_has_its_formula)
