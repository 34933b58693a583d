/* ptx_ops_async.c - fences, setmaxnreg, griddepcontrol, prefetch.
 *
 * Execution is sequentially consistent, so a memory fence does nothing here but what a check looks
 * for: a proxy fence orders ordinary stores before the async proxy's reads, and makes mbarriers
 * visible to it and to the cluster. Order between blocks is not checked. */
#include "async_state.h"

#include <stdio.h>

/* ---- fences ------------------------------------------------------------------------------------
 */

static void run_nothing(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)w, (void)i, (void)active;
}

static void run_proxy_fence(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)i, (void)active;
  attune__proxy_fence(w);
  attune__mbarrier_fence(w);
}

static void run_mbarrier_fence(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)i, (void)active;
  attune__mbarrier_fence(w);
}

/* ---- setmaxnreg --------------------------------------------------------------------------------
 *
 * Warps start with an equal share of the block's registers. dec gives some back, inc waits until
 * there are enough; if nobody gives them, that is a deadlock here too. */

enum { FILE_REGISTERS = 65536 /* 32-bit, of an SM */, LEAST = 24, MOST = 256, UNIT = 8 };

static uint32_t share(const attune__warp *w) {
  uint32_t each = FILE_REGISTERS / (w->block->warps * ATTUNE__LANES) / UNIT * UNIT;
  return each < MOST ? each : MOST;
}

static uint32_t registers_of(const attune__warp *w) {
  return w->async->registers ? w->async->registers : share(w);
}

/* Registers of the block that nobody has, by thread of one warp. */
static uint32_t available(const attune__warp *w) {
  uint32_t used = 0, pool = share(w) * w->block->warps;
  for (uint32_t k = 0; k < w->block->warps; k++) used += registers_of(&w->block->warp[k]);
  return pool - used;
}

static void describe(const attune__warp *w, char *out, size_t size) {
  snprintf(out, size,
           "setmaxnreg.inc: has %u registers a thread, and no warp gives enough of its own",
           registers_of(w));
}

static uint32_t wanted(attune__warp *w, const attune__ins *i) {
  uint32_t registers = *attune__r32(w, i, 0);
  if (registers < LEAST || registers > MOST || registers % UNIT)
    attune__fault(w, -1, "setmaxnreg: %u registers: must be a multiple of %d within %d..%d",
                  registers, UNIT, LEAST, MOST);
  return registers;
}

static void run_dec(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t registers = wanted(w, i);
  (void)active;
  if (registers > registers_of(w))
    attune__fault(w, -1, "setmaxnreg.dec to %u, the warp has %u", registers, registers_of(w));
  w->async->registers = registers;
  attune__wake(w->engine, &w->block->smem);
}

static void run_inc(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t registers = wanted(w, i), have = registers_of(w);
  (void)active;
  if (registers < have)
    attune__fault(w, -1, "setmaxnreg.inc to %u, the warp has %u", registers, have);
  if (registers - have > available(w)) {
    attune__wait(w, &w->block->smem, 1, describe);
    return;
  }
  w->async->registers = registers;
}

static void run_launch_wait(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)i;
  w->alone |= active;
}

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(opcode, form, function) {.name = opcode, .operands = form, .run = function},
#define MEMORY_FENCE(scope)                                                                        \
  ROW("fence.acq_rel." scope, "", run_nothing)                                                     \
  ROW("fence.sc." scope, "", run_nothing)                                                          \
  ROW("fence.acquire." scope, "", run_nothing)                                                     \
  ROW("fence.release." scope, "", run_nothing)
#define REGISTERS(opcode, function)                                                                \
  {.name = "setmaxnreg." opcode ".sync.aligned.u32",                                               \
   .operands = "i",                                                                                \
   .run = function,                                                                                \
   .flags = ATTUNE__OP_WARP | ATTUNE__OP_WAITS},

/* One call a line. */
/* clang-format off */
static const attune__opcode rows[] = {
    MEMORY_FENCE("cta")
    MEMORY_FENCE("cluster")
    MEMORY_FENCE("gpu")
    MEMORY_FENCE("sys")
    ROW("membar.cta", "", run_nothing)
    ROW("membar.gl", "", run_nothing)
    ROW("membar.sys", "", run_nothing)
    ROW("fence.mbarrier_init.release.cluster", "", run_mbarrier_fence)
    ROW("fence.proxy.async", "", run_proxy_fence)
    ROW("fence.proxy.async.shared::cta", "", run_proxy_fence)
    ROW("fence.proxy.async.shared::cluster", "", run_proxy_fence)
    ROW("fence.proxy.async.global", "", run_nothing)
    REGISTERS("dec", run_dec)
    REGISTERS("inc", run_inc)
    /* Launches run one after the other, each to its end; gmem.c wants the wait none the less. */
    ROW("griddepcontrol.launch_dependents", "", run_nothing)
    ROW("griddepcontrol.wait", "", run_launch_wait)
    /* Caches are not modelled. */
    ROW("prefetch.global.L2", "[g]", run_nothing)
    ROW("prefetch.tensormap", "[g]", run_nothing)
};
/* clang-format on */

const attune__opcodes attune__ops_async = {rows, sizeof rows / sizeof *rows};
