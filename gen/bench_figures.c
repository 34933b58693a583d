/* bench_figures.c - what a measured time means: rates, and the share of the ceiling that binds.
 *
 * Input: a program's entries, a shape, milliseconds. Output: figures. All FLOPs, bytes and ceilings
 * are the models'; the ceilings are those of the board that stands for the arch. */
#include "bench.h"

#include "model_cost.h"

static double largest_ceiling(const attune_cost *c) {
  const double all[] = {c->fma,           c->tensor, c->exponential,
                        c->shared_memory, c->issue,  c->device_memory};
  double most = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] > most) most = all[i];
  return most;
}

/* Adds one kernel's bytes and ceiling; `most` is the largest ceiling so far. */
static void add_kernel(const attune_entry *entry, const attune_shape *shape, double *most,
                       attune__bench_figures *out) {
  const attune_variant *v = &entry->variant;
  const attune_model *model = attune__model(v->op, v->part, entry->tile.family);
  attune_traffic traffic;
  attune_cost cost;
  if (!model || !out->board) {
    out->board = NULL;
    return;
  }
  model->traffic(v, &entry->tile, shape, &traffic);
  model->cost(v, &entry->tile, out->board, shape, &cost);
  double ceiling = largest_ceiling(&cost) / (out->board->mhz * 1e3);
  out->bytes += traffic.compulsory;
  out->ceiling += ceiling;
  if (ceiling > *most) *most = ceiling, out->binds = cost.binds;
}

void attune__bench_figures_of(const attune_entry *const *entries, int count, uint32_t arch,
                              const attune_shape *shape, double median,
                              attune__bench_figures *out) {
  double most = 0;
  *out = (attune__bench_figures){.binds = "nothing", .board = attune__board(arch)};
  out->flops = attune__flops(&entries[0]->variant, shape);
  for (int i = 0; i < count; i++) add_kernel(entries[i], shape, &most, out);
  if (!out->board) out->bytes = out->ceiling = 0, out->binds = "nothing";
  if (!(median > 0)) return;
  out->tflops = out->flops / median / 1e9;
  out->gbs = out->bytes / median / 1e6;
  out->share = out->ceiling / median;
}
