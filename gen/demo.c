/* demo.c - the list of the article's experiments, and what they share: kernels, data, runs.
 *
 * Input: the number of an experiment. Output: its page. What each one measures stands in
 * demo_traffic.c and demo_exact.c. */
#include "demo.h"

#include "../runtime/context.h"
#include "expand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct experiment {
  const char *title;
  attune_status (*page)(const attune__demo *demo, attune__page *page);
} experiment;

static const experiment experiments[ATTUNE__DEMOS] = {
    {"where the time goes: the n^2 share of standard attention", attune__demo_standard},
    {"online softmax, with and without the rescale", attune__demo_rescale},
    {"tiling: same answer, flat memory", attune__demo_tiled},
    {"how big should a tile be?", attune__demo_blocks},
    {"the backward pass: pay flops, save bytes", attune__demo_backward},
    {"exact means exact: against a 128-wide window", attune__demo_window},
    {"not less arithmetic: same flops, less traffic", attune__demo_flops},
    {"FlashAttention-2's loop order against FlashAttention-1's", attune__demo_order},
    {"scores near 800", attune__demo_overflow},
};

const char *attune__demo_title(int number) {
  return number < 1 || number > ATTUNE__DEMOS ? NULL : experiments[number - 1].title;
}

attune_status attune__demo_page(const attune__demo *demo, int number, attune__page *page) {
  *page = (attune__page){.number = number, .title = attune__demo_title(number)};
  if (!page->title)
    return attune_fail(ATTUNE_INVALID, "demo %d: there are 1 to %d", number, ATTUNE__DEMOS);
  page->plot.hollow_means = "by formula";
  attune_status status = experiments[number - 1].page(demo, page);
  if (status == ATTUNE_OK && (page->subject.failed || page->notes.failed))
    status = attune_fail(ATTUNE_NO_MEMORY, "no memory for the page of demo %d", number);
  return status;
}

/* ---- kernels ------------------------------------------------------------------------------- */

attune_tile attune__demo_tile(int block_m, int block_n, int warps) {
  attune_tile tile;
  memset(&tile, 0, sizeof tile);
  tile.family = ATTUNE_FAMILY_FMA, tile.stages = 1;
  tile.block_m = (uint16_t)block_m, tile.block_n = (uint16_t)block_n;
  tile.warps = (uint8_t)warps;
  return tile;
}

attune_shape attune__demo_shape(int64_t n) {
  return (attune_shape){.batch = 1,
                        .heads_q = 1,
                        .heads_kv = 1,
                        .len_q = n,
                        .len_k = n,
                        .window_left = -1,
                        .window_right = -1,
                        .corner = ATTUNE_CORNER_TOP_LEFT};
}

attune_status attune__demo_kernels(const char *arch, int op, uint32_t features, int mask, int dim,
                                   const attune_tile *tile, attune__trial_run *out) {
  attune_request request = {.line = 0};
  attune_problem problem = attune_problem_init();
  problem.op = (attune_op)op, problem.mask = (attune_mask)mask, problem.features = features;
  problem.dtype_q = ATTUNE_DTYPE_FP32, problem.head_dim_qk = dim;
  *out = (attune__trial_run){.kernels = 1};
  attune_status status = attune__variant_of(&problem, attune__arch_parse(arch), &out->variant);
  if (status != ATTUNE_OK) return status;
  if (tile) return attune__kernel_make(&out->variant, tile, NULL, &out->kernel[0]);
  request.variant = out->variant;
  return attune__expand_request(&request, ATTUNE_CLASS_ANY, 0, out->kernel, &out->kernels);
}

/* ---- data ---------------------------------------------------------------------------------- */

attune_status attune__demo_data(const attune_variant *v, const attune_shape *s, float **q,
                                float **k, float **values) {
  attune__probe_sizes n = attune__probe_sizes_of(v, s);
  *q = malloc(n.q * sizeof **q), *k = malloc(n.k * sizeof **k);
  *values = malloc(n.v * sizeof **values);
  if (!*q || !*k || !*values) {
    free(*q), free(*k), free(*values);
    *q = *k = *values = NULL;
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for Q, K and V of %lld keys",
                       (long long)s->len_k);
  }
  attune__probe_normal(1, v->dtype_q, *q, n.q);
  attune__probe_normal(2, v->dtype_kv, *k, n.k);
  attune__probe_normal(3, v->dtype_kv, *values, n.v);
  return ATTUNE_OK;
}

double attune__demo_max_difference(const float *a, const float *b, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; i++) {
    double difference = fabs((double)a[i] - (double)b[i]);
    if (!(difference <= largest)) largest = difference; /* NaN too */
  }
  return largest;
}

/* ---- runs ---------------------------------------------------------------------------------- */

static attune_status run_and_count(attune__probe *probe, const attune__probe_data *data,
                                   attune__trial_run *run, attune__page *page) {
  attune__probe_data own = *data;
  run->o = malloc((attune__probe_sizes_of(&run->variant, &run->shape).o + 1) * sizeof *run->o);
  if (!run->o) return attune_fail(ATTUNE_NO_MEMORY, "no memory for O");
  own.o = run->o;
  attune_status status = attune__probe_run(probe, &run->shape, &own);
  for (int part = 0; part < run->kernels && status == ATTUNE_OK; part++) {
    status = attune__probe_tally(probe, part, &run->tally[part]);
    page->difference += run->tally[part].difference;
  }
  return status;
}

static attune_status execute(const attune__demo *demo, const attune__probe_data *data,
                             attune__trial_run *run, attune__page *page) {
  attune__probe *probe;
  attune_status status =
      attune__probe_open_kernels(demo->store, &demo->cpu, run->kernel, run->kernels, &probe);
  if (status != ATTUNE_OK) return status;
  status = run_and_count(probe, data, run, page);
  attune__probe_close(probe);
  return status;
}

attune_status attune__demo_execute(const attune__demo *demo, const attune__probe_data *data,
                                   int lse, attune__trial_run *run, attune__page *page) {
  attune__probe_data own = {.scale = (float)(1 / sqrt(run->variant.head_dim_qk))};
  float *q = NULL, *k = NULL, *values = NULL;
  attune_status status = ATTUNE_OK;
  if (data)
    own = *data;
  else
    status = attune__demo_data(&run->variant, &run->shape, &q, &k, &values);
  if (!data) own.q = q, own.k = k, own.v = values;
  if (status == ATTUNE_OK && lse) {
    run->lse =
        malloc((attune__probe_sizes_of(&run->variant, &run->shape).lse + 1) * sizeof *run->lse);
    if (!run->lse) status = attune_fail(ATTUNE_NO_MEMORY, "no memory for LSE");
    own.lse = run->lse;
  }
  if (status == ATTUNE_OK) status = execute(demo, &own, run, page);
  free(q), free(k), free(values);
  return status;
}

void attune__demo_free(attune__trial_run *run) {
  free(run->o), free(run->lse);
}

int attune__demo_executes(const attune__demo *demo, int64_t n, int64_t longest) {
  return n <= longest && (!demo->longest || n <= demo->longest);
}

void attune__demo_predict(attune__trial_run *run) {
  for (int part = 0; part < run->kernels; part++) {
    const attune_kernel *kernel = &run->kernel[part];
    attune__tally *tally = &run->tally[part];
    attune__tally_formulas(&kernel->variant, &kernel->tile, &run->shape, 0, tally);
    for (int i = 0; i < tally->count; i++)
      memcpy(tally->row[i].counted, tally->row[i].formula, sizeof tally->row[i].counted);
  }
}

double attune__demo_tensor_bytes(const attune__trial_run *run, attune__demo_count count,
                                 const char *tensor) {
  int read = count == ATTUNE__COUNT_REQUESTED ? ATTUNE__REQUESTED_READ : ATTUNE__COMPULSORY_READ;
  uint64_t sum = 0;
  for (int part = 0; part < run->kernels; part++)
    for (int i = 0; i < run->tally[part].count; i++) {
      const attune__tally_row *row = &run->tally[part].row[i];
      if (!tensor || !strcmp(row->tensor, tensor))
        sum += row->counted[read] + row->counted[read + 1];
    }
  return (double)sum;
}

double attune__demo_bytes(const attune__trial_run *run, attune__demo_count count) {
  return attune__demo_tensor_bytes(run, count, NULL);
}
