/* cluster.c - what blocks of a cluster do together: their barrier, addresses in each other's shared
 * memory, loads, stores and st.async there.
 *
 * Order between blocks comes from the cluster barrier and from mbarriers, by the same clocks as
 * within a block. A block that has exited has no shared memory left. */
#include "async_state.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- addresses ---------------------------------------------------------------------------------
 */

#define RANK_OF(address) ((address) >> ATTUNE__SHARED_RANK_SHIFT)
#define WITHIN(address)  ((address) & ((UINT32_C(1) << ATTUNE__SHARED_RANK_SHIFT) - 1))

static uint32_t map(attune__warp *w, int lane, uint32_t address, uint32_t rank) {
  if (rank >= w->engine->blocks)
    attune__fault(w, lane, "mapa: rank %u of a cluster of %u", rank, w->engine->blocks);
  return WITHIN(address) | (rank + 1) << ATTUNE__SHARED_RANK_SHIFT;
}

static void run_mapa32(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t mapped[ATTUNE__LANES] = {0};
  ATTUNE__EACH_LANE(lane, active)
  mapped[lane] = map(w, (int)lane, attune__r32(w, i, 1)[lane], attune__r32(w, i, 2)[lane]);
  attune__put32(w, i, 0, active, mapped);
}

static void run_mapa64(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint64_t mapped[ATTUNE__LANES] = {0};
  ATTUNE__EACH_LANE(lane, active)
  mapped[lane] =
      map(w, (int)lane, (uint32_t)attune__r64(w, i, 1)[lane], attune__r32(w, i, 2)[lane]);
  attune__put64(w, i, 0, active, mapped);
}

static uint32_t rank_of(const attune__warp *w, uint32_t address) {
  return RANK_OF(address) ? RANK_OF(address) - 1 : w->block->rank;
}

static void run_rank(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t rank[ATTUNE__LANES] = {0};
  ATTUNE__EACH_LANE(lane, active) rank[lane] = rank_of(w, attune__r32(w, i, 1)[lane]);
  attune__put32(w, i, 0, active, rank);
}

/* ---- barrier.cluster ---------------------------------------------------------------------------
 *
 * A phase ends when every warp that has not exited has arrived. */

static void describe(const attune__warp *w, char *out, size_t size) {
  const attune__engine *e = w->engine;
  unsigned arrived = (unsigned)__builtin_popcountll(e->async->cluster_arrived);
  snprintf(out, size, "barrier.cluster, %u of %u warps arrived", arrived, e->warps);
}

static void end_phase(attune__engine *e) {
  attune__async *a = e->async;
  if (!a->cluster_arrived) return;
  for (uint32_t k = 0; k < e->warps; k++)
    if (e->warp[k].state != ATTUNE__EXITED && !(a->cluster_arrived >> k & 1)) return;
  a->cluster_arrived = 0;
  a->cluster_phase++;
  memcpy(a->cluster_done, a->cluster_clock, sizeof a->cluster_done);
  attune__wake(e, &a->cluster_phase);
}

void attune__cluster_exit(attune__warp *w) {
  end_phase(w->engine);
}

/* data 1: relaxed, orders nothing. */
static void run_arrive(attune__warp *w, const attune__ins *i, uint32_t active) {
  attune__async *a = w->engine->async;
  (void)active;
  if (w->async->cluster_arrived != w->async->cluster_waited)
    attune__fault(w, -1, "barrier.cluster.arrive again, with no barrier.cluster.wait between");
  w->async->cluster_arrived++;
  a->cluster_arrived |= UINT64_C(1) << w->agent;
  if (!i->opcode->data) attune__release(w, a->cluster_clock);
  end_phase(w->engine);
}

static void run_wait(attune__warp *w, const attune__ins *i, uint32_t active) {
  attune__async *a = w->engine->async;
  (void)i, (void)active;
  if (w->async->cluster_arrived == w->async->cluster_waited)
    attune__fault(w, -1, "barrier.cluster.wait with no barrier.cluster.arrive before");
  if (a->cluster_phase < w->async->cluster_arrived) {
    attune__wait(w, &a->cluster_phase, 1, describe);
    return;
  }
  w->async->cluster_waited = w->async->cluster_arrived;
  attune__acquire(w, a->cluster_done);
}

/* ---- ld, st.shared::cluster --------------------------------------------------------------------
 */

/* One lane's `words` registers from operand `first` on, to or from another block's memory. */
static void access_lane(attune__warp *w, const attune__ins *i, uint32_t first, uint32_t lane,
                        uint32_t address, int store) {
  uint32_t words = (uint32_t)i->opcode->data, bytes = words * 4, offset;
  attune__smem *m;
  const char *what = i->opcode->name;
  attune__check_alive(w, (int)lane, rank_of(w, address), what);
  unsigned char *at = attune__smem_at(w, (int)lane, address, bytes, what, &m, &offset);
  if (w->engine->checks && store)
    attune__smem_write(w, (int)lane, m, offset, bytes, ATTUNE__GENERIC, ATTUNE__CELL_WRITTEN, what);
  if (w->engine->checks && !store)
    attune__smem_read(w, (int)lane, m, offset, bytes, ATTUNE__GENERIC, what);
  for (uint32_t k = 0; k < words; k++) {
    uint32_t *word = &attune__r32(w, i, first + k)[lane];
    memcpy(store ? (void *)(at + 4 * k) : (void *)word, store ? (void *)word : (void *)(at + 4 * k),
           4);
  }
}

/* data: registers a lane. */
static void access(attune__warp *w, const attune__ins *i, uint32_t active, uint32_t first,
                   uint32_t where, int store) {
  uint32_t address[ATTUNE__LANES] = {0};
  ATTUNE__EACH_LANE(lane, active) {
    address[lane] = attune__shared_address(w, i, where, lane);
    access_lane(w, i, first, lane, address[lane], store);
  }
  if (w->engine->checks)
    attune__smem_count(w, active, address, 4 * (uint32_t)i->opcode->data, store);
}

static void run_load(attune__warp *w, const attune__ins *i, uint32_t active) {
  access(w, i, active, 0, (uint32_t)i->opcode->data, 0);
}

static void run_store(attune__warp *w, const attune__ins *i, uint32_t active) {
  access(w, i, active, 1, 0, 1);
}

/* ---- st.async ----------------------------------------------------------------------------------
 */

enum { VALUE_MAX = 16 /* bytes */ };

typedef struct delivery {
  attune__pending head;
  attune__target target;
  unsigned char value[VALUE_MAX];
} delivery;

static void land_delivery(attune__engine *e, attune__pending *p) {
  const delivery *d = (const delivery *)(const void *)p;
  (void)e;
  memcpy(d->target.smem->bytes + d->target.offset, d->value, d->target.bytes);
  attune__bulk_end(p->warp, &d->target, ATTUNE__GENERIC);
}

/* [to], values, [mbarrier]; operands between the addresses are the values. */
static void run_st_async(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t values = i->operands - 2, size = i->operand[1].bytes;
  ATTUNE__EACH_LANE(lane, active) {
    attune__target t =
        attune__bulk_target(w, (int)lane, attune__shared_address(w, i, 0, lane), values * size,
                            attune__shared_address(w, i, i->operands - 1, lane), "st.async");
    attune__bulk_begin(w, (int)lane, &t, ATTUNE__GENERIC, "st.async");
    delivery *d = malloc(sizeof *d);
    if (d) *d = (delivery){{land_delivery, w, i, UINT32_C(1) << lane, 0}, t, {0}};
    for (uint32_t k = 0; d && k < values; k++) {
      const void *from = size == 8 ? (const void *)(attune__r64(w, i, 1 + k) + lane)
                                   : (const void *)(attune__r32(w, i, 1 + k) + lane);
      memcpy(d->value + k * size, from, size);
    }
    attune__async_push(w, d ? &d->head : NULL);
  }
}

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(opcode, form, function, options)                                                       \
  {.name = opcode, .operands = form, .run = function, .data = options},
#define BARRIER(opcode, function, options)                                                         \
  {.name = "barrier.cluster." opcode,                                                              \
   .operands = "",                                                                                 \
   .run = function,                                                                                \
   .flags = ATTUNE__OP_WARP | ATTUNE__OP_WAITS,                                                    \
   .data = options},
#define ALIGNED(opcode, function, options)                                                         \
  BARRIER(opcode, function, options)                                                               \
  BARRIER(opcode ".aligned", function, options)
#define ACCESS(type)                                                                               \
  ROW("ld.shared::cluster." type, "W,[s]", run_load, 1)                                            \
  ROW("ld.shared::cluster.v2." type, "{W,W},[s]", run_load, 2)                                     \
  ROW("ld.shared::cluster.v4." type, "{W,W,W,W},[s]", run_load, 4)                                 \
  ROW("st.shared::cluster." type, "[s],w", run_store, 1)                                           \
  ROW("st.shared::cluster.v2." type, "[s],{w,w}", run_store, 2)                                    \
  ROW("st.shared::cluster.v4." type, "[s],{w,w,w,w}", run_store, 4)
#define ST_ASYNC_AT(opcode, type, letter)                                                          \
  ROW(opcode type, "[s]," letter ",[s]", run_st_async, 0)                                          \
  ROW(opcode "v2." type, "[s],{" letter "," letter "},[s]", run_st_async, 0)
#define ST_ASYNC_OF(opcode, type, letter)                                                          \
  ST_ASYNC_AT(opcode ".shared::cluster.mbarrier::complete_tx::bytes.", type, letter)
#define ST_ASYNC(type, letter)                                                                     \
  ST_ASYNC_OF("st.async", type, letter)                                                            \
  ST_ASYNC_OF("st.async.weak", type, letter)
#define ST_ASYNC_4(type)                                                                           \
  ROW("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4." type, "[s],{w,w,w,w},[s]",       \
      run_st_async, 0)                                                                             \
  ROW("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4." type, "[s],{w,w,w,w},[s]",  \
      run_st_async, 0)

/* One call a line. */
/* clang-format off */
static const attune__opcode rows[] = {
    ROW("mapa.shared::cluster.u32", "W,w,w", run_mapa32, 0)
    ROW("mapa.shared::cluster.u64", "D,d,w", run_mapa64, 0)
    ROW("getctarank.shared::cluster.u32", "W,w", run_rank, 0)
    ALIGNED("arrive", run_arrive, 0)
    ALIGNED("arrive.release", run_arrive, 0)
    ALIGNED("arrive.relaxed", run_arrive, 1)
    ALIGNED("wait", run_wait, 0)
    ALIGNED("wait.acquire", run_wait, 0)
    ACCESS("b32")
    ACCESS("u32")
    ACCESS("s32")
    ACCESS("f32")
    ST_ASYNC("b32", "w")
    ST_ASYNC("u32", "w")
    ST_ASYNC("s32", "w")
    ST_ASYNC("f32", "w")
    ST_ASYNC("b64", "d")
    ST_ASYNC("u64", "d")
    ST_ASYNC_4("b32")
    ST_ASYNC_4("u32")
    ST_ASYNC_4("s32")
    ST_ASYNC_4("f32")
};
/* clang-format on */

const attune__opcodes attune__ops_cluster = {rows, sizeof rows / sizeof *rows};
