/* exec.c - runs one warp: fetch, divergence, dispatch.
 *
 * Lanes that have parted wait at their own pc; the lanes with the least pc run, and take in whom
 * they meet. Since compilers lay code out so that a branch's arms come before their meeting point,
 * lanes meet again where they do on the GPU, or earlier. */
#include "engine.h"

/* ---- operands ---------------------------------------------------------------------------------
 */

void attune__put32(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active,
                   const uint32_t value[ATTUNE__LANES]) {
  uint32_t *d = attune__r32(w, i, k);
  for (int l = 0; l < ATTUNE__LANES; l++) d[l] = active >> l & 1 ? value[l] : d[l];
}

void attune__put64(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active,
                   const uint64_t value[ATTUNE__LANES]) {
  uint64_t *d = attune__r64(w, i, k);
  for (int l = 0; l < ATTUNE__LANES; l++) d[l] = active >> l & 1 ? value[l] : d[l];
}

uint32_t attune__uniform32(attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active,
                           const char *what) {
  const uint32_t *a = attune__r32(w, i, k);
  uint32_t first = a[attune__first(active)];
  for (int l = 0; l < ATTUNE__LANES; l++)
    if (active >> l & 1 && a[l] != first)
      attune__fault(w, l, "the lanes of the warp differ in the %s: %u here, %u in lane %u", what,
                    a[l], first, attune__first(active));
  return first;
}

uint64_t attune__uniform64(attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active,
                           const char *what) {
  const uint64_t *a = attune__r64(w, i, k);
  uint64_t first = a[attune__first(active)];
  for (int l = 0; l < ATTUNE__LANES; l++)
    if (active >> l & 1 && a[l] != first)
      attune__fault(w, l, "the lanes of the warp differ in the %s: 0x%llx here, 0x%llx in lane %u",
                    what, (unsigned long long)a[l], (unsigned long long)first,
                    attune__first(active));
  return first;
}

/* ---- divergence -------------------------------------------------------------------------------
 */

/* The lanes with the least pc run next; `next` is where the nearest others wait. Gathered lanes are
 * taken in where they are met, from before or from behind. */
static void regroup(attune__warp *w) {
  uint32_t least = UINT32_MAX, next = UINT32_MAX, mask = 0;
  uint32_t running = w->live & ~w->gathered;
  if (!running) running = w->live, w->gathered = 0; /* nobody is left to come */
  for (uint32_t l = 0; l < ATTUNE__LANES; l++)
    if (running >> l & 1 && w->pcs[l] < least) least = w->pcs[l];
  for (uint32_t l = 0; l < ATTUNE__LANES; l++) {
    if (!(w->live >> l & 1)) continue;
    if (w->pcs[l] == least)
      mask |= 1u << l;
    else if (w->pcs[l] < next)
      next = w->pcs[l];
  }
  w->pc = least, w->mask = mask, w->next = w->gathered ? 0 : next;
}

static void set_pcs(attune__warp *w, uint32_t lanes, uint32_t pc) {
  for (uint32_t l = 0; l < ATTUNE__LANES; l++)
    if (lanes >> l & 1) w->pcs[l] = pc;
}

/* The running lanes go to pc, together. */
static void go(attune__warp *w, uint32_t pc) {
  w->pc = pc;
  if (pc < w->next) return;
  set_pcs(w, w->mask, pc);
  regroup(w);
}

static void branch(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t target = (uint32_t)i->target;
  if (active == w->mask) {
    go(w, target);
  } else if (!active) {
    go(w, w->pc + 1);
  } else {
    set_pcs(w, w->mask & ~active, w->pc + 1);
    set_pcs(w, active, target);
    regroup(w);
  }
}

static void leave(attune__warp *w, uint32_t active) {
  w->live &= ~active;
  if (!w->live) {
    w->state = ATTUNE__EXITED;
    attune__async_exit(w);
    return;
  }
  set_pcs(w, w->mask & ~active, w->pc + 1);
  regroup(w);
}

/* ---- the loop ---------------------------------------------------------------------------------
 */

static void check_warp(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t missing = ~active;
  if (missing)
    attune__fault(w, -1, "%s needs the whole warp, lane %u %s", i->opcode->name,
                  attune__first(missing),
                  w->live >> attune__first(missing) & 1 ? "is elsewhere" : "has returned");
}

/* 1 when the running lanes have to wait for others that the instruction names. */
static int gather(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t members = attune__r32(w, i, 0)[attune__first(active)];
  if (!(members & w->live & ~active & ~w->gathered)) {
    w->gathered = 0;
    return 0;
  }
  w->gathered |= active;
  set_pcs(w, w->mask, w->pc);
  regroup(w);
  return 1;
}

/* Instructions that need more than to be executed. */
static void step_slowly(attune__warp *w, const attune__ins *i, uint32_t active) {
  if (i->flags & ATTUNE__OP_BRANCH) {
    branch(w, i, active);
    return;
  }
  if (active && i->flags & ATTUNE__OP_RETURN) {
    leave(w, active);
    return;
  }
  if (active && i->flags & ATTUNE__OP_GATHERS && gather(w, i, active)) return;
  if (active) {
    if (i->flags & ATTUNE__OP_WARP) check_warp(w, i, active);
    if (w->busy) attune__async_touch(w, i);
    i->run(w, i, active);
  }
  if (w->state != ATTUNE__WAITING || !w->retry) go(w, w->pc + 1);
}

void attune__exec(attune__warp *w, uint32_t limit) {
  const attune__ins *ins = w->engine->launch->program->ins;
  const uint32_t slow = ATTUNE__OP_BRANCH | ATTUNE__OP_RETURN | ATTUNE__OP_WARP | ATTUNE__OP_WAITS |
                        ATTUNE__OP_GATHERS;
  uint64_t executed = 0;
  while (w->state == ATTUNE__READY && executed < limit) {
    const attune__ins *i = &ins[w->pc];
    uint32_t active = w->mask;
    executed++;
    w->at = i;
    if (i->guard) active &= *(const uint32_t *)(const void *)(w->file + i->guard) ^ i->negate;
    if (i->flags & slow || w->busy) {
      step_slowly(w, i, active);
      continue;
    }
    if (active) i->run(w, i, active);
    go(w, w->pc + 1);
  }
  w->engine->count.instructions += executed;
}

/* ---- start ------------------------------------------------------------------------------------
 */

static uint32_t special_of(const attune__warp *w, int id, uint32_t lane) {
  const attune__cpu_launch *launch = w->engine->launch;
  switch (id) {
    case ATTUNE__SPECIAL_TID_X:
      return w->index * ATTUNE__LANES + lane;
    case ATTUNE__SPECIAL_NTID_X:
      return launch->threads;
    case ATTUNE__SPECIAL_CTAID_X:
      return w->block->index;
    case ATTUNE__SPECIAL_NCTAID_X:
      return launch->grid;
    case ATTUNE__SPECIAL_LANEID:
      return lane;
    case ATTUNE__SPECIAL_WARPID:
      return w->index;
    case ATTUNE__SPECIAL_CLUSTER_CTARANK:
    case ATTUNE__SPECIAL_CLUSTER_CTAID_X:
      return w->block->rank;
    case ATTUNE__SPECIAL_CLUSTER_NCTAID_X:
      return w->engine->blocks;
    case ATTUNE__SPECIAL_CLUSTERID_X:
      return w->block->index / w->engine->blocks;
  }
  return 0; /* y and z of a one-dimensional grid */
}

static void fill_constants(attune__warp *w) {
  const attune__ptx *program = w->engine->launch->program;
  for (uint32_t k = 0; k < program->constants; k++) {
    const attune__constant *c = &program->constant[k];
    uint32_t *narrow = (uint32_t *)(void *)(w->file + c->slot);
    uint64_t *wide = (uint64_t *)(void *)(w->file + c->slot);
    for (int l = 0; l < ATTUNE__LANES; l++) {
      if (c->bytes == 8)
        wide[l] = c->value;
      else
        narrow[l] = (uint32_t)c->value;
    }
  }
}

/* Registers are all ones before their first write, in every block: a kernel that reads one gives
 * the same wrong numbers in every run. */
void attune__exec_reset(attune__warp *w) {
  const attune__ptx *program = w->engine->launch->program;
  memset(w->file, 0xff, program->file_bytes);
  fill_constants(w);
  for (int id = 0; id < ATTUNE__SPECIAL_COUNT; id++) {
    uint32_t *slot = (uint32_t *)(void *)(w->file + program->special[id]);
    for (uint32_t l = 0; program->special[id] && l < ATTUNE__LANES; l++)
      slot[l] = special_of(w, id, l);
  }
  w->pc = 0, w->mask = w->live = ATTUNE__FULL, w->next = UINT32_MAX;
  w->state = ATTUNE__READY, w->retry = 0, w->busy = 0, w->gathered = 0;
  w->alone = w->engine->launch->early ? 0 : ATTUNE__FULL;
  w->at = program->ins;
}
