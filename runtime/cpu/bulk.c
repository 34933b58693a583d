/* bulk.c - cp.async.bulk: runs of bytes between global and shared memory, or blocks of a cluster.
 *
 * Input: a run and an mbarrier that counts its bytes, or a bulk group of the thread. Output: bytes
 * in flight until the operation lands; sources that nobody may write until their group is waited
 * for. TMA (tma.c) uses the same targets, sources and groups. All of it is of the async proxy. */
#include "async_state.h"

#include <stdlib.h>

enum { RUN_ALIGN = 16, CHUNK = 16 /* bytes */ };

/* ---- targets -----------------------------------------------------------------------------------
 */

attune__target attune__bulk_target(attune__warp *w, int lane, uint32_t address, uint32_t bytes,
                                   uint32_t mbarrier, const char *what) {
  attune__target t = {.bytes = bytes};
  attune__smem_at(w, lane, address, bytes, what, &t.smem, &t.offset);
  t.mbarrier = attune__mbarrier_at(w, lane, mbarrier, what);
  if (&t.mbarrier->block->smem != t.smem)
    attune__fault(w, lane, "%s: the mbarrier is in another block than the destination", what);
  attune__check_alive(w, lane, t.mbarrier->block->rank, what);
  return t;
}

attune__target attune__bulk_peer(attune__warp *w, int lane, const attune__target *t, uint32_t rank,
                                 const char *what) {
  attune__target peer = *t;
  if (rank >= w->engine->blocks)
    attune__fault(w, lane, "%s: multicast to rank %u of a cluster of %u", what, rank,
                  w->engine->blocks);
  attune__block *block = &w->engine->block[rank];
  attune__check_alive(w, lane, rank, what);
  peer.smem = &block->smem;
  peer.mbarrier = attune__mbarrier_find(w->engine, block, t->mbarrier->offset);
  if (!peer.mbarrier || !peer.mbarrier->count)
    attune__fault(w, lane, "%s: rank %u has no mbarrier at shared 0x%x: mbarrier.init is missing",
                  what, rank, ATTUNE__SHARED_BASE + t->mbarrier->offset);
  return peer;
}

void attune__bulk_begin(attune__warp *w, int lane, const attune__target *t, attune__proxy proxy,
                        const char *what) {
  if (proxy == ATTUNE__ASYNC) attune__mbarrier_track(w, t->mbarrier, what);
  t->mbarrier->copied = t->mbarrier->phase + 1;
  w->engine->count.async_bytes += t->bytes;
  if (!w->engine->checks) return;
  attune__smem_write(w, lane, t->smem, t->offset, t->bytes, proxy, ATTUNE__CELL_IN_FLIGHT, what);
  attune__smem_poison(t->smem, t->offset, t->bytes);
}

void attune__bulk_end(attune__warp *w, const attune__target *t, attune__proxy proxy) {
  uint32_t time = attune__mbarrier_stamp(t->mbarrier, proxy);
  if (w->engine->checks)
    attune__smem_landed(t->smem, t->offset, t->bytes, t->mbarrier->agent, time, proxy);
  attune__mbarrier_complete(w, t->mbarrier, t->bytes);
}

/* ---- groups of stores --------------------------------------------------------------------------
 */

void attune__bulk_source(attune__warp *w, int lane, attune__smem *m, uint32_t offset,
                         uint32_t bytes, const char *what) {
  attune__async_warp *s = w->async;
  w->engine->count.async_bytes += bytes;
  if (!w->engine->checks) return;
  attune__smem_read(w, lane, m, offset, bytes, ATTUNE__ASYNC, what);
  if (s->source_count == s->source_room) {
    uint32_t room = s->source_room ? 2 * s->source_room : 16;
    attune__source *sources = realloc(s->sources, room * sizeof *sources);
    if (!sources) attune__fault(w, lane, "no memory for %s", what);
    s->sources = sources;
    s->source_room = room;
  }
  s->sources[s->source_count++] = (attune__source){.ins = w->at,
                                                   .lane = lane,
                                                   .group = s->bulk_group[lane],
                                                   .smem = m,
                                                   .offset = offset,
                                                   .bytes = bytes};
  attune__smem_pin(m, offset, bytes, 1);
}

/* The copy has read its source by now: later writers must come after this wait. */
static void end_source(attune__warp *w, const attune__source *s) {
  attune__smem_pin(s->smem, s->offset, s->bytes, -1);
  attune__smem_read(w, s->lane, s->smem, s->offset, s->bytes, ATTUNE__ASYNC, "bulk store");
}

static void run_commit(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)i;
  ATTUNE__EACH_LANE(lane, active) w->async->bulk_group[lane]++;
}

/* Landing more than the groups that are waited for is as good a moment as any. */
static void run_wait_group(attune__warp *w, const attune__ins *i, uint32_t active) {
  attune__async_warp *s = w->async;
  uint32_t keep = *attune__r32(w, i, 0), kept = 0;
  attune__async_land_groups(w, active);
  for (uint32_t k = 0; k < s->source_count; k++) {
    const attune__source *source = &s->sources[k];
    int waits = active >> source->lane & 1;
    if (waits && source->group + keep < s->bulk_group[source->lane])
      end_source(w, source);
    else
      s->sources[kept++] = *source;
  }
  s->source_count = kept;
}

void attune__bulk_exit(attune__warp *w) {
  const attune__source *s = w->async->sources;
  if (!w->async->source_count) return;
  w->at = s->ins;
  attune__fault(w, s->lane,
                "the thread exits and never waited for this store: cp.async.bulk.commit_group or "
                "wait_group is missing");
}

/* ---- runs --------------------------------------------------------------------------------------
 */

typedef struct load {
  attune__pending head;
  attune__target target;
  uint64_t from;
} load;

/* Bytes of global memory, counted, in chunks. */
static void transfer(attune__warp *w, uint64_t global, unsigned char *shared, uint32_t bytes,
                     int store, const char *what) {
  uint64_t address[ATTUNE__LANES] = {0};
  for (uint32_t done = 0, lane = 0; done < bytes; done += CHUNK) {
    unsigned char *g = attune__gmem_access(w, -1, global + done, CHUNK, store, what);
    memcpy(store ? g : shared + done, store ? shared + done : g, CHUNK);
    address[lane++] = global + done;
    if (lane < ATTUNE__LANES && done + CHUNK < bytes) continue;
    uint32_t mask = ATTUNE__FULL >> (ATTUNE__LANES - lane);
    if (w->engine->checks) attune__gmem_sectors(w, mask, address, CHUNK, store);
    lane = 0;
  }
}

static void land_load(attune__engine *e, attune__pending *p) {
  const load *l = (const load *)(const void *)p;
  (void)e;
  transfer(p->warp, l->from, l->target.smem->bytes + l->target.offset, l->target.bytes, 0,
           "cp.async.bulk");
  attune__bulk_end(p->warp, &l->target, ATTUNE__ASYNC);
}

static void check_run(attune__warp *w, int lane, uint32_t shared, uint64_t global, uint32_t bytes) {
  if (shared % RUN_ALIGN || global % RUN_ALIGN || bytes % RUN_ALIGN || !bytes)
    attune__fault(w, lane,
                  "cp.async.bulk: both addresses and the size must be multiples of %d: shared "
                  "0x%x, global ...%02x, %u bytes",
                  RUN_ALIGN, shared, (unsigned)(global & 0xff), bytes);
}

static void push_load(attune__warp *w, uint32_t lane, const attune__target *t, uint64_t from) {
  attune__bulk_begin(w, (int)lane, t, ATTUNE__ASYNC, "cp.async.bulk");
  load *l = malloc(sizeof *l);
  if (l) *l = (load){{land_load, w, w->at, UINT32_C(1) << lane, 0}, *t, from};
  attune__async_push(w, l ? &l->head : NULL);
}

/* [to], [from], bytes, [mbarrier], and for multicast the ranks (data 1). */
static void run_load(attune__warp *w, const attune__ins *i, uint32_t active) {
  ATTUNE__EACH_LANE(lane, active) {
    uint32_t to = attune__shared_address(w, i, 0, lane), bytes = attune__r32(w, i, 2)[lane];
    uint64_t from = attune__global_address(w, i, 1, lane);
    check_run(w, (int)lane, to, from, bytes);
    attune__target t = attune__bulk_target(w, (int)lane, to, bytes,
                                           attune__shared_address(w, i, 3, lane), "cp.async.bulk");
    if (!i->opcode->data) {
      push_load(w, lane, &t, from);
      continue;
    }
    ATTUNE__EACH_LANE(rank, attune__r32(w, i, 4)[lane]) {
      attune__target peer = attune__bulk_peer(w, (int)lane, &t, rank, "cp.async.bulk");
      push_load(w, lane, &peer, from);
    }
  }
}

/* ---- from block to block -----------------------------------------------------------------------
 */

typedef struct move {
  attune__pending head;
  attune__target target;
  attune__smem *from;
  uint32_t offset;
} move;

static void land_move(attune__engine *e, attune__pending *p) {
  const move *m = (const move *)(const void *)p;
  memcpy(m->target.smem->bytes + m->target.offset, m->from->bytes + m->offset, m->target.bytes);
  if (e->checks) attune__smem_pin(m->from, m->offset, m->target.bytes, -1);
  attune__bulk_end(p->warp, &m->target, ATTUNE__ASYNC);
}

static void run_move(attune__warp *w, const attune__ins *i, uint32_t active) {
  ATTUNE__EACH_LANE(lane, active) {
    uint32_t to = attune__shared_address(w, i, 0, lane), bytes = attune__r32(w, i, 2)[lane];
    uint32_t from = attune__shared_address(w, i, 1, lane);
    move made = {.head = {land_move, w, w->at, UINT32_C(1) << lane, 0}};
    check_run(w, (int)lane, to, from, bytes);
    made.target = attune__bulk_target(w, (int)lane, to, bytes,
                                      attune__shared_address(w, i, 3, lane), "cp.async.bulk");
    attune__smem_at(w, (int)lane, from, bytes, "cp.async.bulk", &made.from, &made.offset);
    if (w->engine->checks) {
      attune__smem_read(w, (int)lane, made.from, made.offset, bytes, ATTUNE__ASYNC,
                        "cp.async.bulk");
      attune__smem_pin(made.from, made.offset, bytes, 1);
    }
    attune__bulk_begin(w, (int)lane, &made.target, ATTUNE__ASYNC, "cp.async.bulk");
    move *m = malloc(sizeof *m);
    if (m) *m = made;
    attune__async_push(w, m ? &m->head : NULL);
  }
}

/* ---- stores ------------------------------------------------------------------------------------
 */

typedef struct store {
  attune__pending head;
  attune__smem *smem;
  uint32_t offset, bytes;
  uint64_t to;
} store;

static void land_store(attune__engine *e, attune__pending *p) {
  const store *s = (const store *)(const void *)p;
  (void)e;
  transfer(p->warp, s->to, s->smem->bytes + s->offset, s->bytes, 1, "cp.async.bulk");
}

/* data of a reduction: what it does and to which type. */
#define REDUCTION(op, type) ((op) << 4 | (type))

static void land_reduce(attune__engine *e, attune__pending *p) {
  const store *s = (const store *)(const void *)p;
  int32_t data = p->ins->opcode->data;
  attune__scalar type = (attune__scalar)(data & 15);
  attune__reduction op = (attune__reduction)(data >> 4);
  uint32_t size = attune__scalar_bytes(type);
  (void)e;
  for (uint32_t done = 0; done < s->bytes; done += size) {
    uint64_t value = 0;
    memcpy(&value, s->smem->bytes + s->offset + done, size);
    unsigned char *at =
        attune__gmem_access(p->warp, -1, s->to + done, size, 1, "cp.reduce.async.bulk");
    attune__reduce(at, op, type, value, 0);
  }
}

/* [to], [from], bytes */
static void push_store(attune__warp *w, const attune__ins *i, uint32_t active,
                       void (*land)(attune__engine *, attune__pending *)) {
  ATTUNE__EACH_LANE(lane, active) {
    uint32_t from = attune__shared_address(w, i, 1, lane);
    store made = {.head = {land, w, i, UINT32_C(1) << lane, 1},
                  .bytes = attune__r32(w, i, 2)[lane],
                  .to = attune__global_address(w, i, 0, lane)};
    check_run(w, (int)lane, from, made.to, made.bytes);
    attune__smem_at(w, (int)lane, from, made.bytes, "cp.async.bulk", &made.smem, &made.offset);
    attune__bulk_source(w, (int)lane, made.smem, made.offset, made.bytes, "cp.async.bulk");
    store *s = malloc(sizeof *s);
    if (s) *s = made;
    attune__async_push(w, s ? &s->head : NULL);
  }
}

static void run_store(attune__warp *w, const attune__ins *i, uint32_t active) {
  push_store(w, i, active, land_store);
}

static void run_reduce(attune__warp *w, const attune__ins *i, uint32_t active) {
  push_store(w, i, active, land_reduce);
}

/* Touches no data: caches are not modelled. */
static void run_prefetch(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)w, (void)i, (void)active;
}

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(opcode, form, function, options)                                                       \
  {.name = opcode, .operands = form, .run = function, .data = options},
#define HINTED(opcode, form, function, options)                                                    \
  ROW(opcode, form, function, options)                                                             \
  ROW(opcode ".L2::cache_hint", form ",d", function, options)
#define LOAD(space)                                                                                \
  HINTED("cp.async.bulk." space ".global.mbarrier::complete_tx::bytes", "[s],[g],w,[s]", run_load, \
         0)
/* The cache hint comes before the operation: cp.reduce.async.bulk...bulk_group.L2::cache_hint.add
 */
#define REDUCE(op, type, id)                                                                       \
  ROW("cp.reduce.async.bulk.global.shared::cta.bulk_group." op "." type, "[g],[s],w", run_reduce,  \
      id)                                                                                          \
  ROW("cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint." op "." type,            \
      "[g],[s],w,d", run_reduce, id)
#define REDUCE_TYPES(op, id)                                                                       \
  REDUCE(op, "u32", REDUCTION(id, ATTUNE__U32))                                                    \
  REDUCE(op, "s32", REDUCTION(id, ATTUNE__S32))                                                    \
  REDUCE(op, "u64", REDUCTION(id, ATTUNE__U64))

/* One call a line. */
/* clang-format off */
static const attune__opcode rows[] = {
    LOAD("shared::cta")
    LOAD("shared::cluster")
    HINTED("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
           "[s],[g],w,[s],h", run_load, 1)
    ROW("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", "[s],[s],w,[s]",
        run_move, 0)
    HINTED("cp.async.bulk.global.shared::cta.bulk_group", "[g],[s],w", run_store, 0)
    REDUCE("add", "f32", REDUCTION(ATTUNE__REDUCE_ADD, ATTUNE__F32))
    REDUCE("add.noftz", "f16", REDUCTION(ATTUNE__REDUCE_ADD, ATTUNE__F16X2))
    REDUCE("add.noftz", "bf16", REDUCTION(ATTUNE__REDUCE_ADD, ATTUNE__BF16X2))
    REDUCE_TYPES("add", ATTUNE__REDUCE_ADD)
    REDUCE_TYPES("min", ATTUNE__REDUCE_MIN)
    REDUCE_TYPES("max", ATTUNE__REDUCE_MAX)
    HINTED("cp.async.bulk.prefetch.L2.global", "[g],w", run_prefetch, 0)
    ROW("cp.async.bulk.commit_group", "", run_commit, 0)
    ROW("cp.async.bulk.wait_group", "i", run_wait_group, 0)
    ROW("cp.async.bulk.wait_group.read", "i", run_wait_group, 0)
};
/* clang-format on */

const attune__opcodes attune__ops_bulk = {rows, sizeof rows / sizeof *rows};
