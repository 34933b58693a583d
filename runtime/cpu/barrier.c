/* barrier.c - named barriers: bar.sync and bar.arrive with an id and a number of threads.
 *
 * Input: warps that arrive. Output: order between them, and faults: threads that differ at one id,
 * a warp that arrives twice, more arrivals than threads. */
#include "engine.h"

#include <stdio.h>

static void describe(const attune__warp *w, char *out, size_t size) {
  const attune__barrier *b = w->object;
  snprintf(out, size, "barrier %d, %u of %u threads arrived", (int)(b - w->block->barrier),
           b->arrived, b->need);
}

static void begin(attune__barrier *b, uint32_t threads) {
  b->need = threads;
  b->warps = 0;
  memset(b->clock, 0, sizeof b->clock);
}

static void check(attune__warp *w, const attune__barrier *b, uint32_t id, uint32_t threads) {
  if (id >= ATTUNE__BARRIERS)
    attune__fault(w, -1, "barrier %u: a block has barriers 0 to %d", id, ATTUNE__BARRIERS - 1);
  if (threads == 0 || threads % ATTUNE__LANES || threads > w->block->warps * ATTUNE__LANES)
    attune__fault(w, -1, "barrier %u for %u threads: must be a multiple of 32 up to the block's %u",
                  id, threads, w->block->warps * ATTUNE__LANES);
  if (!b->arrived) return;
  if (b->need != threads)
    attune__fault(w, -1, "barrier %u for %u threads here, but %u threads that wait there said %u",
                  id, threads, b->arrived, b->need);
  if (b->warps >> w->index & 1)
    attune__fault(w, -1, "the warp arrives at barrier %u twice, with %u of %u threads there", id,
                  b->arrived, b->need);
}

/* Everybody is there: all that wait are ordered after all that arrived. */
static void complete(attune__engine *e, attune__barrier *b) {
  b->arrived = 0;
  for (uint32_t k = 0; k < e->warps; k++)
    if (e->warp[k].state == ATTUNE__WAITING && e->warp[k].object == b)
      attune__acquire(&e->warp[k], b->clock);
  attune__wake(e, b);
}

void attune__bar(attune__warp *w, uint32_t id, uint32_t threads, int sync) {
  attune__barrier *b = &w->block->barrier[id < ATTUNE__BARRIERS ? id : 0];
  if (threads == 0) threads = w->block->warps * ATTUNE__LANES;
  check(w, b, id, threads);
  w->engine->count.barriers++;
  if (!b->arrived) begin(b, threads);
  b->warps |= UINT64_C(1) << w->index;
  b->arrived += ATTUNE__LANES;
  attune__release(w, b->clock);
  if (b->arrived == b->need) {
    if (sync) attune__acquire(w, b->clock);
    complete(w->engine, b);
  } else if (sync) {
    attune__wait(w, b, 0, describe);
  }
}
