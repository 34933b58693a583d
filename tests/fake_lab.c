/* fake_lab.c - the lab and compiler of fake_lab.h. The statistics are the real ones of bench.c. */
#include "fake_lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Check's own assertions hold in a test's process alone, and a lab may be in its child. */
static void must(int true_here) {
  if (!true_here) abort();
}

static fake_fate fate_of(const fake_lab *f, const attune_tile *tile) {
  return f->fate ? f->fate(tile) : FAKE_FINE;
}

static attune_status fake_facts(void *user, attune__lab_facts *out) {
  const fake_lab *f = user;
  memset(out, 0, sizeof *out);
  snprintf(out->key.gpu, sizeof out->key.gpu, "Fake GPU");
  out->key.sms = 132, out->key.memory_mhz = 3200;
  out->key.arch = attune__arch((uint32_t)(f->arch_cc ? f->arch_cc : 90), f->arch_cc ? 0 : 'a');
  out->driver = 13000, out->smem_block = 232448;
  return ATTUNE_OK;
}

static attune_status fake_open(void *user, const attune__lab_cell *cell) {
  fake_lab *f = user;
  must(cell->shape.len_q > 0);
  f->count = 0, f->opened++;
  return ATTUNE_OK;
}

static void wait_ms(double ms) {
  struct timespec span = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(fmod(ms, 1e3) * 1e6)};
  if (ms > 0) nanosleep(&span, NULL);
}

static attune_status bad(fake_fate fate) {
  if (fate == FAKE_WRONG) return attune_fail(ATTUNE_MISMATCH, "made-up wrong result");
  if (fate == FAKE_FAULT) return attune_fail(ATTUNE_DRIVER, "made-up illegal address");
  if (fate == FAKE_HANG) return attune_fail(ATTUNE_BUSY, "made-up hang");
  return ATTUNE_OK;
}

static attune_status fake_add(void *user, const attune__lab_program *program) {
  fake_lab *f = user;
  fake_fate fate = fate_of(f, &program->tiles.tile[0]);
  for (int i = 0; i < program->tiles.count; i++) must(program->entry[i] != NULL);
  wait_ms(f->add_ms);
  f->added++, f->checked += !program->passed;
  if (fate == FAKE_WRONG && !program->passed) return bad(fate);
  if (!f->fails_when_timed && bad(fate)) return bad(fate);
  f->in[f->count++] = program->tiles;
  return ATTUNE_OK;
}

/* About N(0, 1). */
static double normal(fake_lab *f) {
  double sum = 0;
  for (int i = 0; i < 12; i++) {
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    sum += (double)(f->random >> 11) / 9007199254740992.0;
  }
  return sum - 6;
}

typedef struct rounds {
  fake_lab *fake;
  const int *which;
} rounds;

static attune_status fake_device(void *user, int contender, int calls, double *milliseconds) {
  const rounds *r = user;
  fake_lab *f = r->fake;
  const attune__tiles *tiles = &f->in[r->which[contender]];
  fake_fate fate = fate_of(f, &tiles->tile[0]);
  double sum = 0;
  if (fate == FAKE_WRONG) f->timed_wrong++;
  if (fate == FAKE_FAULT || fate == FAKE_HANG) return bad(fate);
  for (int i = 0; i < tiles->count; i++) sum += f->cost(&tiles->tile[i]);
  f->slowness = (1 + f->slowness) * (1 + f->drift) - 1;
  *milliseconds = calls * sum * (1 + f->slowness) * fmax(0.1, 1 + f->noise * normal(f));
  return ATTUNE_OK;
}

static attune_status fake_host(void *user, int contender, int calls, double *milliseconds) {
  (void)user, (void)contender, (void)calls;
  *milliseconds = 0;
  return ATTUNE_OK;
}

static attune_status fake_time(void *user, const int *which, int count,
                               const attune__bench_options *options, attune__bench_time *out,
                               attune__watch *watch) {
  fake_lab *f = user;
  rounds r = {f, which};
  attune__bench_timer timer = {&r, fake_device, fake_host};
  for (int i = 0; i < count; i++) must(which[i] >= 0 && which[i] < f->count);
  f->timed += count, f->slowness = 0;
  *watch = f->watch;
  return attune__bench_run(&timer, count, options, out);
}

attune__lab fake_lab_of(fake_lab *f) {
  return (attune__lab){f, fake_facts, fake_open, fake_add, fake_time};
}

static attune_status fake_compile(void *user, const attune_kernel *kernel, void **bytes,
                                  size_t *size, char digest[17]) {
  fake_lab *f = user;
  snprintf(digest, 17, "%016x", kernel->ledger.bytes);
  if (fate_of(f, &kernel->tile) == FAKE_NOT_COMPILED)
    return attune_fail(ATTUNE_COMPILE, "spills 8 bytes at 255 registers");
  *bytes = calloc(1, 1), *size = 1;
  return *bytes ? ATTUNE_OK : attune_fail(ATTUNE_NO_MEMORY, "made-up");
}

attune__tune_compiler fake_compiler_of(fake_lab *f) {
  return (attune__tune_compiler){f, fake_compile, "nvrtc 13.0.1"};
}
