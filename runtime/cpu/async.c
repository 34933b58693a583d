/* async.c - the queue of work that lands later, and when it does. async.h says more. */
#include "async.h"

#include <stdlib.h>

struct attune__async {
  attune__pending **queue; /* oldest first */
  uint32_t count, room;
};

attune_status attune__async_init(attune__engine *e) {
  e->async = calloc(1, sizeof *e->async);
  return e->async ? ATTUNE_OK : attune_fail(ATTUNE_NO_MEMORY, "no memory for asynchronous copies");
}

void attune__async_reset(attune__engine *e) {
  for (uint32_t k = 0; k < e->async->count; k++) free(e->async->queue[k]);
  e->async->count = 0;
}

void attune__async_free(attune__engine *e) {
  if (!e->async) return;
  attune__async_reset(e);
  free(e->async->queue);
  free(e->async);
  e->async = NULL;
}

uint32_t attune__async_pending(const attune__engine *e) {
  return e->async->count;
}

void attune__async_land(attune__engine *e, int any) {
  struct attune__async *a = e->async;
  uint32_t k = any ? attune__random(e, a->count) : 0;
  attune__pending *p = a->queue[k];
  a->count--;
  memmove(a->queue + k, a->queue + k + 1, (a->count - k) * sizeof *a->queue);
  const attune__ins *at = p->warp->at;
  p->warp->at = p->ins; /* a fault while landing is the issuing line's */
  p->land(e, p);
  p->warp->at = at;
  free(p);
}

static int make_room(struct attune__async *a) {
  if (a->count < a->room) return 1;
  uint32_t room = a->room ? a->room * 2 : 64;
  attune__pending **grown = realloc(a->queue, room * sizeof *grown);
  if (!grown) return 0;
  a->queue = grown, a->room = room;
  return 1;
}

void attune__async_push(attune__warp *w, attune__pending *p) {
  attune__engine *e = w->engine;
  if (!p || !make_room(e->async)) {
    free(p);
    attune__fault(w, -1, "no memory for an asynchronous copy");
  }
  p->warp = w, p->ins = w->at;
  e->async->queue[e->async->count++] = p;
  if (e->launch->options.landing == ATTUNE_CPU_LAND_EARLY) attune__async_land(e, 0);
}

/* The warp's own work that is still under way when it exits would land in memory that belongs to
 * nobody. */
void attune__async_exit(attune__warp *w) {
  for (uint32_t k = 0; k < w->engine->async->count; k++)
    if (w->engine->async->queue[k]->warp == w) {
      w->at = w->engine->async->queue[k]->ins;
      attune__fault(w, -1, "the warp exits without having waited for this %s", w->at->opcode->name);
    }
}

void attune__async_touch(attune__warp *w, const attune__ins *ins) {
  attune__fault(w, -1, "%s: registers are in use by wgmma", ins->opcode->name);
}
