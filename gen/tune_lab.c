/* tune_lab.c - candidates checked and timed on the GPU of this process.
 *
 * Input: a cell, then its programs as entry files. Output: verdicts of verify.c, times of bench.c.
 * A candidate that faults takes the device of this process with it, and one that hangs takes the
 * process: whoever tries what is not proven does it in a child (tune_child.c). */
#include "tune_lab.h"

#include "../runtime/context.h"
#include "verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST = 64,     /* contenders of a cell, as bench_device.c has them */
  REFERENCES = 8 /* of a check's cases made at once: about half of the cases */
};

struct attune__lab_gpu {
  attune__device *device;
  int ordinal;
  attune__lab_cell cell;
  attune__bench *bench;
  attune_context *context[MOST]; /* of each contender, which must not meet */
  int count;
  void (*beat)(void *user, int contender);
  void *beat_user;
};

static void beat(const attune__lab_gpu *g, int contender) {
  if (g->beat) g->beat(g->beat_user, contender);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static attune_status facts(void *user, attune__lab_facts *out) {
  const attune__device_facts *f = &((attune__lab_gpu *)user)->device->facts;
  memset(out, 0, sizeof *out);
  snprintf(out->key.gpu, sizeof out->key.gpu, "%s", f->name);
  out->key.sms = f->sm_count;
  out->key.memory_mhz = attune__memory_class(f->memory_mhz);
  out->key.arch = f->arch;
  out->driver = f->driver_cuda;
  out->smem_block = (uint32_t)f->smem_block;
  return ATTUNE_OK;
}

/* ---- a cell ---------------------------------------------------------------------------------- */

static void close_cell(attune__lab_gpu *g) {
  attune__bench_close(g->bench);
  g->bench = NULL;
  for (int i = 0; i < g->count; i++) attune_close(g->context[i]);
  g->count = 0;
}

static attune_status open_cell(void *user, const attune__lab_cell *cell) {
  attune__lab_gpu *g = user;
  close_cell(g);
  g->cell = *cell;
  beat(g, 0);
  return attune__bench_open(g->device, &cell->variant, &cell->pins, &cell->shape, ATTUNE__L2_COLD,
                            &g->bench);
}

static attune_status check(const attune__lab_gpu *g, attune_program *program) {
  attune_verify_options options = {
      .quick = 1, .brief = 1, .ahead = REFERENCES, .pins = &g->cell.pins};
  attune_verdict verdict;
  return attune__verify_program(program, g->device, &g->cell.variant, &options, &verdict);
}

static attune_status add_in(attune__lab_gpu *g, const attune__lab_program *p) {
  attune_program *program;
  attune_status status = attune__verify_open(g->context[g->count], &g->cell.variant, &g->cell.pins,
                                             p->entry, p->bytes, p->tiles.count, &program);
  if (!status && !p->passed) status = check(g, program);
  if (!status) status = attune__bench_add(g->bench, program);
  return status;
}

static attune_status add(void *user, const attune__lab_program *p) {
  attune__lab_gpu *g = user;
  attune_options options = attune_options_init();
  options.device = g->ordinal;
  if (!g->bench) return attune_fail(ATTUNE_INVALID, "no cell is open");
  if (g->count == MOST) return attune_fail(ATTUNE_INVALID, "more than %d candidates", MOST);
  beat(g, g->count);
  attune_status status = attune_open(&options, &g->context[g->count]);
  if (status) return status;
  status = add_in(g, p);
  if (status)
    attune_close(g->context[g->count]);
  else
    g->count++;
  return status;
}

/* ---- timing ---------------------------------------------------------------------------------- */

typedef struct some {
  const attune__lab_gpu *gpu;
  attune__bench_timer timer;
  const int *which;
} some;

static attune_status time_device(void *user, int contender, int calls, double *milliseconds) {
  const some *s = user;
  beat(s->gpu, s->which[contender]);
  return s->timer.device(s->timer.user, s->which[contender], calls, milliseconds);
}

/* What a launch costs the host is the same for all tiles. */
static attune_status time_host(void *user, int contender, int calls, double *milliseconds) {
  (void)user, (void)contender, (void)calls;
  *milliseconds = 0;
  return ATTUNE_OK;
}

static attune_status time_some(void *user, const int *which, int count,
                               const attune__bench_options *options, attune__bench_time *out,
                               attune__watch *watch) {
  attune__lab_gpu *g = user;
  attune__watcher watcher;
  if (!g->bench) return attune_fail(ATTUNE_INVALID, "no cell is open");
  for (int i = 0; i < count; i++)
    if (which[i] < 0 || which[i] >= g->count)
      return attune_fail(ATTUNE_INVALID, "there is no contender %d", which[i]);
  some s = {g, attune__bench_timer_of(g->bench), which};
  attune__bench_timer timer = {&s, time_device, time_host};
  if (watch) attune__watch_begin(&watcher, g->device->facts.bus);
  attune_status status = attune__bench_run(&timer, count, options, out);
  if (watch) attune__watch_end(&watcher, watch);
  return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

attune_status attune__lab_gpu_open(int ordinal, attune__lab_gpu **out, attune__lab *lab) {
  attune__lab_gpu *g = *out = calloc(1, sizeof *g);
  if (!g) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a lab");
  g->ordinal = ordinal;
  attune_status status = attune__cuda_open(ordinal, &g->device);
  if (status) {
    free(g);
    *out = NULL;
    return status;
  }
  *lab = (attune__lab){g, facts, open_cell, add, time_some};
  return ATTUNE_OK;
}

void attune__lab_gpu_close(attune__lab_gpu *g) {
  if (!g) return;
  close_cell(g);
  g->device->ops->close(g->device);
  free(g);
}

void attune__lab_gpu_heartbeat(attune__lab_gpu *g, void (*heartbeat)(void *user, int contender),
                               void *user) {
  g->beat = heartbeat, g->beat_user = user;
}
