/* async.c - the queue of operations that land later, and what a warp leaves behind.
 *
 * Input: operations that opcodes push. Output: each landed once: at once, when nothing else can
 * run, or at random, as schedule.c asks; never later than a wait of its own thread needs it. */
#include "async_state.h"

#include <stdlib.h>

/* ---- the queue ---------------------------------------------------------------------------------
 */

static attune__pending *take(attune__async *a, uint32_t k) {
  attune__pending *p = a->op[k];
  for (a->ops--; k < a->ops; k++) a->op[k] = a->op[k + 1];
  return p;
}

/* A fault is the issuing line's, and leaves the operation in `landing`, for reset to free. */
void attune__async_land_at(attune__engine *e, uint32_t k) {
  attune__pending *p = take(e->async, k);
  const attune__ins *at = p->warp->at;
  e->async->landing = p;
  p->warp->at = p->ins;
  p->land(e, p);
  p->warp->at = at;
  e->async->landing = NULL;
  free(p);
}

void attune__async_land_groups(attune__warp *w, uint32_t lanes) {
  attune__async *a = w->engine->async;
  for (uint32_t k = 0; k < a->ops;) {
    const attune__pending *p = a->op[k];
    if (p->warp == w && p->grouped && p->lanes & lanes)
      attune__async_land_at(w->engine, k);
    else
      k++;
  }
}

static int make_room(attune__async *a) {
  if (a->ops < a->room) return 1;
  uint32_t room = a->room ? 2 * a->room : 64;
  attune__pending **op = realloc(a->op, room * sizeof(void *));
  if (!op) return 0;
  a->op = op, a->room = room;
  return 1;
}

void attune__async_push(attune__warp *w, attune__pending *p) {
  attune__engine *e = w->engine;
  attune__async *a = e->async;
  if (!p || !make_room(a)) {
    free(p);
    attune__fault(w, -1, "no memory for an asynchronous operation");
  }
  a->op[a->ops++] = p;
  if (e->launch->options.landing == ATTUNE_CPU_LAND_EARLY) attune__async_land_at(e, a->ops - 1);
}

uint32_t attune__async_pending(const attune__engine *e) {
  return e->async->ops;
}

void attune__async_land(attune__engine *e, int any) {
  if (e->async->ops) attune__async_land_at(e, any ? attune__random(e, e->async->ops) : 0);
}

/* ---- clusters ----------------------------------------------------------------------------------
 */

attune_status attune__async_init(attune__engine *e) {
  e->async = calloc(1, sizeof *e->async);
  if (!e->async)
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for the asynchronous work of a cluster");
  return ATTUNE_OK;
}

static void drop_operations(attune__async *a) {
  for (uint32_t k = 0; k < a->ops; k++) free(a->op[k]);
  free(a->landing);
  a->landing = NULL;
  a->ops = 0;
}

/* Keeps the memory of its lists and what another file hangs on it. */
static void reset_warp(attune__warp *w, attune__async_warp *s) {
  attune__async_warp fresh = {.copies = s->copies,
                              .copy_room = s->copy_room,
                              .sources = s->sources,
                              .source_room = s->source_room,
                              .unfinished = s->unfinished,
                              .unfinished_state = s->unfinished_state};
  *s = fresh;
  w->async = s;
  w->busy = 0;
  if (s->unfinished) s->unfinished->reset(w);
}

void attune__async_reset(attune__engine *e) {
  attune__async *a = e->async;
  drop_operations(a);
  a->mbarriers = 0;
  a->cluster_arrived = 0;
  a->cluster_phase = 0;
  memset(a->cluster_clock, 0, sizeof a->cluster_clock);
  for (uint32_t k = 0; k < e->warps; k++) reset_warp(&e->warp[k], &a->warp[k]);
}

void attune__async_free(attune__engine *e) {
  attune__async *a = e->async;
  if (!a) return;
  drop_operations(a);
  for (uint32_t k = 0; k < ATTUNE__WARPS_MAX; k++) {
    attune__async_warp *s = &a->warp[k];
    if (s->unfinished) s->unfinished->free(s->unfinished_state);
    free(s->copies);
    free(s->sources);
  }
  free(a->op);
  free(a);
  e->async = NULL;
}

void attune__check_alive(attune__warp *w, int lane, uint32_t rank, const char *what) {
  const attune__engine *e = w->engine;
  if (rank >= e->blocks)
    attune__fault(w, lane, "%s: rank %u of a cluster of %u", what, rank, e->blocks);
  const attune__block *block = &e->block[rank];
  for (uint32_t k = 0; k < block->warps; k++)
    if (block->warp[k].state != ATTUNE__EXITED) return;
  attune__fault(w, lane,
                "%s: block %u, rank %u of the cluster, has exited: a cluster barrier at its end is "
                "missing",
                what, block->index, rank);
}

/* ---- what exec.c and schedule.c ask ------------------------------------------------------------
 */

void attune__async_exit(attune__warp *w) {
  const attune__unfinished *u = w->async->unfinished;
  if (w->engine->checks) {
    if (u) u->exit(w);
    attune__cp_async_exit(w);
    attune__bulk_exit(w);
    attune__mbarrier_exit(w);
  }
  attune__cluster_exit(w);
}

void attune__async_end(attune__engine *e) {
  while (e->async->ops) attune__async_land(e, 0);
}

void attune__async_touch(attune__warp *w, const attune__ins *ins) {
  const attune__unfinished *u = w->async->unfinished;
  if (u) u->touch(w, ins);
}
