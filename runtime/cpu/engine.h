/* engine.h - the inside of the CPU device: what executes one cluster of blocks on one host thread.
 *
 *   device_cpu.c, tensors.c   device.h's calls; which tensors an op's kernels read and write
 *   exec.c      a warp: fetch, divergence, dispatch   (ptx.h: what it runs; lanes.h: 32 at a time)
 *   schedule.c  the warps of a cluster in turns, waits, deadlocks; blocks over host threads
 *   barrier.c   named barriers
 *   clock.c     vector clocks: who is ordered after whom
 *   smem.c      shared memory and its shadow        (memory.h); smem_lanes.c: a warp at once
 *   gmem.c      tensors: bounds, kinds, bytes       (memory.h)
 *   async.c     copies and the like that land later (async.h)
 *   report.c    faults as text
 *
 * A warp is an interpreter that can stop at any instruction, so there are no fibers: an opcode that
 * must wait says so and returns, and the scheduler runs another warp. A fault jumps out of
 * the launch: opcodes hold no memory of their own while they call into the engine.
 *
 * Blocks are independent, so each host thread has an engine and takes clusters from a counter. */
#ifndef ATTUNE_CPU_ENGINE_H
#define ATTUNE_CPU_ENGINE_H

#include "../attune_cpu.h"
#include "memory.h"
#include "ptx.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

enum {
  ATTUNE__BARRIERS = 16,    /* named barriers of a block, as on the GPU */
  ATTUNE__WARPS_MAX = 64,   /* of a cluster: a mask of warps is a uint64_t */
  ATTUNE__AGENTS_MAX = 192, /* warps, and what asynchronous work is ordered by (mbarriers) */
  ATTUNE__CLOCK = 2 * ATTUNE__AGENTS_MAX /* length of a vector clock */
};

/* ---- launches ----------------------------------------------------------------------------------
 */

/* What a launch runs; shared by the host threads. */
typedef struct attune__cpu_launch {
  const attune__ptx *program;
  const char *kernel;          /* for reports */
  const unsigned char *params; /* 64-byte aligned, with tagged pointers */
  uint32_t grid, threads, smem_bytes /* dynamic */, cluster;
  int early; /* what is ahead in the stream may still run until griddepcontrol.wait */
  attune__gmem *gmem;
  attune_cpu_options options;
} attune__cpu_launch;

enum { ATTUNE__FAULT_MAX = 2048 };

/* Runs every block. ATTUNE_MISMATCH: a fault; the message is the report of the first block that has
 * one. counters, unless NULL, are added to (not the tensors: gmem has those). */
attune_status attune__cpu_run(const attune__cpu_launch *launch, attune_cpu_counters *counters);
/* sum += more, but for the tensors. */
void attune__cpu_add(attune_cpu_counters *sum, const attune_cpu_counters *more);

/* ---- warps and blocks --------------------------------------------------------------------------
 */

typedef struct attune__block attune__block;
typedef struct attune__engine attune__engine;

typedef enum attune__state {
  ATTUNE__READY,
  ATTUNE__WAITING, /* until somebody calls attune__wake */
  ATTUNE__EXITED
} attune__state;

/* Says what a waiting warp waits for, for the report of a deadlock: "barrier 1, 96 of 128 threads
 * arrived". */
typedef void attune__describe(const attune__warp *warp, char *out, size_t size);

struct attune__warp {
  unsigned char *file; /* the register file, see ptx.h */
  attune__engine *engine;
  attune__block *block;
  uint32_t index;  /* in its block */
  uint32_t agent;  /* in its cluster; its bit in masks, its index in vector clocks */
  uint32_t *clock; /* its vector clock; clock[agent] is its own time */

  /* divergence (exec.c): lanes at pc, lanes that have not returned; when those differ, the pcs of
   * all, and the least of the lanes that don't run. Gathered lanes let the others run until these
   * come to the instruction that they wait at */
  uint32_t pc, mask, live, next, gathered;
  uint32_t pcs[ATTUNE__LANES];
  const attune__ins *at; /* being executed, for reports */

  attune__state state;
  int retry; /* waiting: execute the instruction again when woken */
  attune__describe *describe;
  const void *object; /* what it waits at: a barrier, an mbarrier */
  uint32_t alone;     /* lanes that know that what was ahead of the launch has ended */

  /* asynchronous work of this warp (async.c) */
  uint32_t busy; /* registers that unfinished wgmma still write: exec asks attune__async_touch */
  struct attune__async_warp *async;
};

typedef struct attune__barrier {
  uint32_t need, arrived; /* threads; arrived 0: idle */
  uint64_t warps;         /* that arrived, by index in the block */
  uint32_t clock[ATTUNE__CLOCK];
} attune__barrier;

struct attune__block {
  uint32_t index; /* in the grid */
  uint32_t rank;  /* in its cluster */
  attune__warp *warp;
  uint32_t warps;
  attune__smem smem;
  attune__barrier barrier[ATTUNE__BARRIERS];
};

struct attune__engine {
  const attune__cpu_launch *launch;
  int checks;           /* 0: options.unchecked */
  attune__block *block; /* of the cluster */
  uint32_t blocks;
  attune__warp *warp; /* of the cluster, by agent */
  uint32_t warps, agents;
  uint32_t *clocks; /* the warps' vector clocks, ATTUNE__CLOCK apart */
  uint64_t random;
  struct attune__async *async;
  struct attune__pattern *pattern; /* by instruction (smem_lanes.c) */
  attune_cpu_counters count;       /* this thread's; without the tensors */
  attune__gmem_thread gmem;        /* this thread's bytes per tensor */
  jmp_buf escape;
  char fault[ATTUNE__FAULT_MAX];
};

/* ---- for opcodes -------------------------------------------------------------------------------
 */

static inline uint32_t *attune__r32(const attune__warp *w, const attune__ins *i, uint32_t k) {
  return (uint32_t *)(void *)(w->file + i->operand[k].slot);
}
static inline uint64_t *attune__r64(const attune__warp *w, const attune__ins *i, uint32_t k) {
  return (uint64_t *)(void *)(w->file + i->operand[k].slot);
}
/* Predicate: a bit per lane. */
static inline uint32_t *attune__rp(const attune__warp *w, const attune__ins *i, uint32_t k) {
  return (uint32_t *)(void *)(w->file + i->operand[k].slot);
}
static inline float attune__f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline uint32_t attune__bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
/* The lowest lane of a mask that is not 0. */
static inline uint32_t attune__first(uint32_t mask) {
  return (uint32_t)__builtin_ctz(mask);
}
enum { ATTUNE__ALL = -1 }; /* mask of a whole warp, as int */
#define ATTUNE__FULL UINT32_C(0xffffffff)

/* Stores what `value` holds in the active lanes of destination k, and nothing in the others. */
void attune__put32(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active,
                   const uint32_t value[ATTUNE__LANES]);
void attune__put64(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active,
                   const uint64_t value[ATTUNE__LANES]);
/* A value that all active lanes must agree on (barrier ids, descriptors); a fault when they don't.
 * what: "barrier id". */
uint32_t attune__uniform32(attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active,
                           const char *what);
uint64_t attune__uniform64(attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active,
                           const char *what);

/* Addresses of the lanes: operand k of kind s, or of kind g or a, with its offset. */
void attune__shared_addresses(const attune__warp *w, const attune__ins *i, uint32_t k,
                              uint32_t out[ATTUNE__LANES]);
void attune__global_addresses(const attune__warp *w, const attune__ins *i, uint32_t k,
                              uint64_t out[ATTUNE__LANES]);

/* Ends the launch with a report: "kernel K, block 3, warp 2, lane 5, attn_fwd/fma.cu:118: " and the
 * text, which says what happened and what is missing. lane -1: the warp. Doesn't return. */
_Noreturn void attune__fault(attune__warp *w, int lane, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Stops the warp until attune__wake names the object. retry 1: the instruction is executed again
 * then (and may wait again); 0: it is done. The opcode returns right after. */
void attune__wait(attune__warp *w, const void *object, int retry, attune__describe *describe);
/* Wakes the warps of the cluster that wait at the object. */
void attune__wake(attune__engine *e, const void *object);
/* The seed's next number below `below`. */
uint32_t attune__random(attune__engine *e, uint32_t below);

/* ---- clocks ------------------------------------------------------------------------------------
 *
 * What an agent did at its time t is ordered before what warp w does when w's clock[agent] >= t.
 * What it wrote then is seen by w's asynchronous proxy when clock[ATTUNE__AGENTS_MAX + agent] >= t,
 * too: a fence.proxy.async lay on the way. A warp's own time moves at every release, fence and
 * __syncwarp. Any ordering is a release into some vector and an acquire from it. */

/* vector = max(vector, the warp's clock); the warp's time moves on. */
void attune__release(attune__warp *w, uint32_t vector[ATTUNE__CLOCK]);
/* The warp's clock = max(clock, vector). */
void attune__acquire(attune__warp *w, const uint32_t vector[ATTUNE__CLOCK]);
/* The warp's time moves on: its lanes are ordered with each other. */
void attune__tick(attune__warp *w);
/* fence.proxy.async: all that the warp is ordered after is seen by the asynchronous proxy. */
void attune__proxy_fence(attune__warp *w);
/* A new agent for asynchronous work; a fault when there are too many. */
uint32_t attune__agent(attune__warp *w);

/* ---- barriers (barrier.c) ----------------------------------------------------------------------
 */

/* bar.sync (sync 1) and bar.arrive by the whole warp; threads 0: all of the block. */
void attune__bar(attune__warp *w, uint32_t id, uint32_t threads, int sync);

/* ---- smem_lanes.c ------------------------------------------------------------------------------
 */

enum { ATTUNE__PATTERNS = 512 };
attune_status attune__patterns_make(attune__engine *e); /* freed with the engine */

/* ---- what schedule.c asks of exec.c, and both of async.c ---------------------------------------
 */

/* Runs the warp until it waits, exits, or has executed `limit` instructions. */
void attune__exec(attune__warp *w, uint32_t limit);
/* Fills the register file with constants and special registers for the warp's block. */
void attune__exec_reset(attune__warp *w);

/* Called when the engine is made, before each cluster, and at the end. */
attune_status attune__async_init(attune__engine *e);
void attune__async_reset(attune__engine *e);
void attune__async_free(attune__engine *e);
/* Operations that have not landed; lands the oldest, or one at random. */
uint32_t attune__async_pending(const attune__engine *e);
void attune__async_land(attune__engine *e, int any);
/* A warp has returned: a fault when it leaves work that it never waited for. */
void attune__async_exit(attune__warp *w);
/* w->busy is not 0: a fault when the instruction uses a register that wgmma still writes. */
void attune__async_touch(attune__warp *w, const attune__ins *ins);
/* Every warp of the cluster has returned: lands what is still pending. */
void attune__async_end(attune__engine *e);

/* ---- report.c ----------------------------------------------------------------------------------
 */

/* No warp can run, nothing lands: e->fault says who waits where. */
void attune__report_deadlock(attune__engine *e);

#endif
