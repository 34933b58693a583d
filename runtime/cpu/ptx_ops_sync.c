/* ptx_ops_sync.c - control flow, and barriers of the block and of the warp. What the lanes of a
 * warp exchange is in ptx_ops_warp.c, fences are in ptx_ops_async.c. */
#include "lanes.h"

/* ---- barriers ---------------------------------------------------------------------------------
 */

static void bar_sync(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t id = attune__uniform32(w, i, 0, active, "barrier id"), threads = 0;
  if (i->operands > 1) threads = attune__uniform32(w, i, 1, active, "barrier's threads");
  attune__bar(w, id, threads, 1);
}

static void bar_arrive(attune__warp *w, const attune__ins *i, uint32_t active) {
  attune__bar(w, attune__uniform32(w, i, 0, active, "barrier id"),
              attune__uniform32(w, i, 1, active, "barrier's threads"), 0);
}

/* Lanes of a mask that must all be here, together. */
static void check_members(attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active) {
  uint32_t members = attune__uniform32(w, i, k, active, "mask of lanes");
  if (members != active)
    attune__fault(w, -1, "%s: its mask is 0x%08x, here are lanes 0x%08x: lane %u %s",
                  i->opcode->name, members, active, attune__first(members ^ active),
                  members & ~active ? "is elsewhere or has returned" : "is not in the mask");
}

static void bar_warp(attune__warp *w, const attune__ins *i, uint32_t active) {
  check_members(w, i, 0, active);
  attune__tick(w);
}

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(name, operands, run, flags, data)                                                      \
  { name, operands, run, flags, data, NULL }
#define WARP_WAITS (ATTUNE__OP_WARP | ATTUNE__OP_WAITS)

static const attune__opcode rows[] = {
    ROW("bra", "l", NULL, ATTUNE__OP_BRANCH, 0),
    ROW("bra.uni", "l", NULL, ATTUNE__OP_BRANCH, 0),
    ROW("ret", "", NULL, ATTUNE__OP_RETURN, 0),
    ROW("exit", "", NULL, ATTUNE__OP_RETURN, 0),

    ROW("bar.sync", "w", bar_sync, WARP_WAITS, 0),
    ROW("bar.sync", "w,w", bar_sync, WARP_WAITS, 0),
    ROW("barrier.sync", "w", bar_sync, WARP_WAITS, 0),
    ROW("barrier.sync", "w,w", bar_sync, WARP_WAITS, 0),
    ROW("barrier.sync.aligned", "w", bar_sync, WARP_WAITS, 0),
    ROW("barrier.sync.aligned", "w,w", bar_sync, WARP_WAITS, 0),
    ROW("barrier.cta.sync.aligned", "w", bar_sync, WARP_WAITS, 0),
    ROW("barrier.cta.sync.aligned", "w,w", bar_sync, WARP_WAITS, 0),
    ROW("bar.arrive", "w,w", bar_arrive, WARP_WAITS, 0),
    ROW("barrier.arrive", "w,w", bar_arrive, WARP_WAITS, 0),
    ROW("barrier.cta.arrive.aligned", "w,w", bar_arrive, WARP_WAITS, 0),
    ROW("bar.warp.sync", "w", bar_warp, ATTUNE__OP_GATHERS, 0),
};
const attune__opcodes attune__ops_sync = {rows, sizeof rows / sizeof *rows};
