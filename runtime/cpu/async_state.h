/* async_state.h - what the opcodes of asynchronous work share: the queue, mbarriers, groups.
 *
 *   async.c            the queue; what a warp has not waited for when it exits
 *   mbarrier.c         mbarriers: phases, arrivals, bytes, waits
 *   cp_async.c         cp.async: groups of a thread, which land when it waits for them
 *   bulk.c             cp.async.bulk, and what TMA shares with it: targets, groups of stores
 *   ptx_ops_atomic.c   atom, red, and the reductions of bulk stores
 *   tma.c, tensormap.c cp.async.bulk.tensor, and the maps that it reads
 *   cluster.c          mapa, cluster barrier, st.async, distributed shared memory
 *   ptx_ops_async.c    fences, setmaxnreg, griddepcontrol */
#ifndef ATTUNE_CPU_ASYNC_STATE_H
#define ATTUNE_CPU_ASYNC_STATE_H

#include "async.h"

/* ---- mbarriers ---------------------------------------------------------------------------------
 *
 * A phase ends when no arrivals and no bytes are missing. An mbarrier is an agent: what an
 * asynchronous copy writes is written by the mbarrier that counts its bytes, so only who waited
 * there is ordered after it. */

/* Of a cluster. One agent is left over, for atomics. */
enum { ATTUNE__MBARRIERS = ATTUNE__AGENTS_MAX - ATTUNE__WARPS_MAX - 1 };

typedef struct attune__mbarrier {
  attune__block *block;
  uint32_t offset;         /* in the block's shared memory */
  uint32_t count, pending; /* arrivals of a phase; those still missing */
  int64_t bytes;  /* expected, not yet arrived; below 0: arrived before they were expected */
  uint32_t phase; /* phases completed */
  uint32_t copied, waited; /* phases that a copy belongs to, and that a wait has seen end */
  uint32_t agent, time;
  uint32_t maker, made;            /* agent and time of its init */
  int fenced;                      /* init is visible to the async proxy and the cluster */
  uint32_t arrived[ATTUNE__CLOCK]; /* what the arrivals so far release */
  uint32_t done[ATTUNE__CLOCK];    /* likewise, when the last phase ended */
} attune__mbarrier;

/* The mbarrier at the address; a fault when there is none, or when its init is not ordered before
 * this. */
attune__mbarrier *attune__mbarrier_at(attune__warp *w, int lane, uint32_t address,
                                      const char *what);
/* The one at `offset` of a block; NULL. */
attune__mbarrier *attune__mbarrier_find(attune__engine *e, const attune__block *block,
                                        uint32_t offset);
/* A copy that reports to b begins: needs the fence after init. */
void attune__mbarrier_track(attune__warp *w, attune__mbarrier *b, const char *what);
/* The time at which a copy writes as the mbarrier's agent; released by the phase it completes. */
uint32_t attune__mbarrier_stamp(attune__mbarrier *b, attune__proxy proxy);
void attune__mbarrier_expect(attune__warp *w, attune__mbarrier *b, uint32_t bytes);
void attune__mbarrier_complete(attune__warp *w, attune__mbarrier *b, uint32_t bytes);
/* `count` arrivals that release nothing by themselves (attune__release does). */
void attune__mbarrier_arrive(attune__warp *w, attune__mbarrier *b, uint32_t count);
/* fence.mbarrier_init, fence.proxy.async: the warp's mbarriers are visible outside. */
void attune__mbarrier_fence(attune__warp *w);
/* The block exits: a fault when a copy into it was never waited for. */
void attune__mbarrier_exit(attune__warp *w);

/* ---- warps -------------------------------------------------------------------------------------
 */

/* One cp.async instruction. */
typedef struct attune__copies {
  const attune__ins *ins;
  uint32_t number; /* of the warp's cp.async instructions, from 0 */
  uint32_t lanes;  /* that have not landed */
  uint32_t bytes;
  attune__smem *smem;
  uint32_t offset[ATTUNE__LANES], group[ATTUNE__LANES];
  const unsigned char *source[ATTUNE__LANES];
  uint8_t source_bytes[ATTUNE__LANES];      /* the rest is 0 */
  attune__mbarrier *tracker[ATTUNE__LANES]; /* NULL: its thread waits for the group */
} attune__copies;

/* A bulk store's source, which its thread has not waited for. */
typedef struct attune__source {
  const attune__ins *ins;
  int lane;
  uint32_t group;
  attune__smem *smem;
  uint32_t offset, bytes;
} attune__source;

/* What another file has unfinished in the warp (wgmma): asked when the warp exits, when an
 * instruction runs while w->busy, and before the next cluster. */
typedef struct attune__unfinished {
  void (*exit)(attune__warp *w);
  void (*touch)(attune__warp *w, const attune__ins *ins);
  void (*reset)(attune__warp *w);
  void (*free)(void *state);
} attune__unfinished;

typedef struct attune__async_warp {
  attune__copies *copies; /* cp.async, oldest first */
  uint32_t copy_count, copy_room;
  uint32_t copy_number;               /* of the next */
  uint32_t copy_group[ATTUNE__LANES]; /* groups committed */

  attune__source *sources; /* of bulk stores, oldest first */
  uint32_t source_count, source_room;
  uint32_t bulk_group[ATTUNE__LANES];

  const attune__ins *polled; /* the last wait that found its phase unfinished, see mbarrier.c */
  const attune__mbarrier *polled_at;
  uint32_t polled_phase;
  uint32_t polls; /* that failed since the last that did not */

  uint32_t registers;       /* of a thread, setmaxnreg */
  uint32_t cluster_arrived; /* phases of the cluster barrier that the warp arrived at */
  uint32_t cluster_waited;

  const attune__unfinished *unfinished; /* NULL: nothing */
  void *unfinished_state;
} attune__async_warp;

/* ---- the engine's part -------------------------------------------------------------------------
 */

typedef struct attune__async {
  attune__pending **op; /* oldest first */
  uint32_t ops, room;
  attune__pending *landing;
  attune__mbarrier mbarrier[ATTUNE__MBARRIERS];
  uint32_t mbarriers;
  /* barrier.cluster: warps that arrived in this phase, phases completed */
  uint64_t cluster_arrived;
  uint32_t cluster_phase;
  uint32_t cluster_clock[ATTUNE__CLOCK], cluster_done[ATTUNE__CLOCK];
  attune__async_warp warp[ATTUNE__WARPS_MAX];
} attune__async;

/* Lands operation k of the queue. */
void attune__async_land_at(attune__engine *e, uint32_t k);
/* Lands the grouped operations of the warp's `lanes`. */
void attune__async_land_groups(attune__warp *w, uint32_t lanes);

/* A fault when the cluster's block `rank` has exited, or does not exist. */
void attune__check_alive(attune__warp *w, int lane, uint32_t rank, const char *what);
/* The warp exits: faults about what it has not waited for; and it leaves the cluster barrier. */
void attune__cp_async_exit(attune__warp *w);
void attune__bulk_exit(attune__warp *w);
void attune__cluster_exit(attune__warp *w);

/* ---- bulk copies -------------------------------------------------------------------------------
 */

/* A copy into shared memory: where it lands, in its block and as many others as a multicast names,
 * and the mbarrier at the same place of each that counts its bytes. */
typedef struct attune__target {
  attune__mbarrier *mbarrier;
  attune__smem *smem;
  uint32_t offset, bytes;
} attune__target;

/* The target of the block that `address` is in, checked. what: the opcode. */
attune__target attune__bulk_target(attune__warp *w, int lane, uint32_t address, uint32_t bytes,
                                   uint32_t mbarrier, const char *what);
/* The same offsets in the cluster's block `rank`. */
attune__target attune__bulk_peer(attune__warp *w, int lane, const attune__target *t, uint32_t rank,
                                 const char *what);
/* The copy begins: its bytes are in flight. It has landed: they are the mbarrier's. */
void attune__bulk_begin(attune__warp *w, int lane, const attune__target *t, attune__proxy proxy,
                        const char *what);
void attune__bulk_end(attune__warp *w, const attune__target *t, attune__proxy proxy);

/* A store of `lane` begins to read [offset, offset + bytes): until its thread has waited for the
 * current bulk group, nobody may write there. */
void attune__bulk_source(attune__warp *w, int lane, attune__smem *m, uint32_t offset,
                         uint32_t bytes, const char *what);

/* What a reducing store does with an element. */
typedef enum attune__reduction {
  ATTUNE__REDUCE_ADD,
  ATTUNE__REDUCE_MIN,
  ATTUNE__REDUCE_MAX,
  ATTUNE__REDUCE_INC,
  ATTUNE__REDUCE_DEC,
  ATTUNE__REDUCE_AND,
  ATTUNE__REDUCE_OR,
  ATTUNE__REDUCE_XOR,
  ATTUNE__REDUCE_EXCH,
  ATTUNE__REDUCE_CAS
} attune__reduction;
typedef enum attune__scalar {
  ATTUNE__U32,
  ATTUNE__S32,
  ATTUNE__F32,
  ATTUNE__F16X2,
  ATTUNE__BF16X2,
  ATTUNE__U64,
  ATTUNE__S64
} attune__scalar;
/* Applies it to *at, at once for all host threads; returns what was there. compare: of cas. */
uint64_t attune__reduce(unsigned char *at, attune__reduction op, attune__scalar type,
                        uint64_t value, uint64_t compare);
static inline uint32_t attune__scalar_bytes(attune__scalar type) {
  return type >= ATTUNE__U64 ? 8 : 4;
}

/* ---- operands ----------------------------------------------------------------------------------
 */

static inline uint32_t attune__shared_address(const attune__warp *w, const attune__ins *i,
                                              uint32_t k, uint32_t lane) {
  uint32_t base =
      i->operand[k].bytes == 8 ? (uint32_t)attune__r64(w, i, k)[lane] : attune__r32(w, i, k)[lane];
  return base + (uint32_t)i->operand[k].offset;
}
static inline uint64_t attune__global_address(const attune__warp *w, const attune__ins *i,
                                              uint32_t k, uint32_t lane) {
  return attune__r64(w, i, k)[lane] + (uint64_t)(int64_t)i->operand[k].offset;
}
/* Iterates `lane` over the bits of a mask. */
#define ATTUNE__EACH_LANE(lane, mask)                                                              \
  for (uint32_t lane##_rest = (mask), lane = 0;                                                    \
       lane##_rest && (lane = attune__first(lane##_rest), 1); lane##_rest &= lane##_rest - 1)

#endif
