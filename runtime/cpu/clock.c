/* clock.c - vector clocks: which work of which agent a warp is ordered after. engine.h says what
 * the times mean. */
#include "engine.h"

static void join(uint32_t *into, const uint32_t *from, uint32_t agents) {
  for (uint32_t a = 0; a < agents; a++)
    if (into[a] < from[a]) into[a] = from[a];
}

void attune__release(attune__warp *w, uint32_t vector[ATTUNE__CLOCK]) {
  join(vector, w->clock, w->engine->agents);
  join(vector + ATTUNE__AGENTS_MAX, w->clock + ATTUNE__AGENTS_MAX, w->engine->agents);
  attune__tick(w);
}

void attune__acquire(attune__warp *w, const uint32_t vector[ATTUNE__CLOCK]) {
  join(w->clock, vector, w->engine->agents);
  join(w->clock + ATTUNE__AGENTS_MAX, vector + ATTUNE__AGENTS_MAX, w->engine->agents);
}

void attune__proxy_fence(attune__warp *w) {
  join(w->clock + ATTUNE__AGENTS_MAX, w->clock, w->engine->agents);
  attune__tick(w);
}

void attune__tick(attune__warp *w) {
  if (++w->clock[w->agent] == UINT32_MAX)
    attune__fault(w, -1, "more synchronisations than the checks can count: launch fewer keys");
}

uint32_t attune__agent(attune__warp *w) {
  attune__engine *e = w->engine;
  if (e->agents == ATTUNE__AGENTS_MAX)
    attune__fault(w, -1, "the cluster has more than %d warps and mbarriers", ATTUNE__AGENTS_MAX);
  return e->agents++;
}
