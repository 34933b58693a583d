/* mbarrier.c - mbarriers: init, arrivals, expected bytes, waits; and the opcodes for them.
 *
 * Input: addresses in shared memory, where smem.c marks the object's bytes. Output: phases that
 * end, the order that they give (vector clocks), reports of wrong use. The object itself lives
 * here; its 8 bytes of shared memory are never read. */
#include "async_state.h"

#include <stdio.h>

enum {
  OBJECT_BYTES = 8,
  COUNT_MAX = (1 << 20) - 1, /* arrivals and bytes, PTX ISA */
  POLLS_PER_LANDING = 64,
  POLLS_MAX = 1 << 16
};

/* ---- phases ------------------------------------------------------------------------------------
 */

attune__mbarrier *attune__mbarrier_find(attune__engine *e, const attune__block *block,
                                        uint32_t offset) {
  attune__async *a = e->async;
  for (uint32_t k = 0; k < a->mbarriers; k++)
    if (a->mbarrier[k].block == block && a->mbarrier[k].offset == offset) return &a->mbarrier[k];
  return NULL;
}

static attune__block *block_of(attune__warp *w, const attune__smem *m) {
  attune__engine *e = w->engine;
  for (uint32_t k = 0; k < e->blocks; k++)
    if (&e->block[k].smem == m) return &e->block[k];
  return w->block;
}

static uint32_t address_of(const attune__mbarrier *b) {
  return ATTUNE__SHARED_BASE + b->offset;
}

static void check_init(attune__warp *w, int lane, const attune__mbarrier *b, const char *what) {
  if (w->agent != b->maker && w->clock[b->maker] < b->made)
    attune__fault(w, lane,
                  "%s: mbarrier 0x%x is used with no barrier after its init by warp %u of block "
                  "%u: __syncthreads, or a cluster barrier, is missing",
                  what, address_of(b), w->engine->warp[b->maker].index, b->block->index);
  if (b->block != w->block && !b->fenced)
    attune__fault(w, lane,
                  "%s: mbarrier 0x%x of another block is used, and its init had no "
                  "fence.mbarrier_init",
                  what, address_of(b));
}

attune__mbarrier *attune__mbarrier_at(attune__warp *w, int lane, uint32_t address,
                                      const char *what) {
  attune__smem *m;
  uint32_t offset;
  attune__smem_at(w, lane, address, OBJECT_BYTES, what, &m, &offset);
  attune__mbarrier *b = attune__mbarrier_find(w->engine, block_of(w, m), offset);
  if (!b || !b->count)
    attune__fault(w, lane, "%s: no mbarrier at shared 0x%x: mbarrier.init is missing", what,
                  address);
  if (w->engine->checks) check_init(w, lane, b, what);
  return b;
}

void attune__mbarrier_track(attune__warp *w, attune__mbarrier *b, const char *what) {
  if (w->engine->checks && !b->fenced)
    attune__fault(w, -1,
                  "%s: reports to mbarrier 0x%x, whose init had no fence.mbarrier_init or "
                  "fence.proxy.async",
                  what, address_of(b));
  b->copied = b->phase + 1;
}

uint32_t attune__mbarrier_stamp(attune__mbarrier *b, attune__proxy proxy) {
  b->arrived[b->agent] = ++b->time;
  if (proxy == ATTUNE__ASYNC) b->arrived[ATTUNE__AGENTS_MAX + b->agent] = b->time;
  return b->time;
}

static void end_phase(attune__engine *e, attune__mbarrier *b) {
  if (b->pending || b->bytes) return;
  b->phase++;
  b->pending = b->count;
  memcpy(b->done, b->arrived, sizeof b->done);
  attune__wake(e, b);
}

static void add_bytes(attune__warp *w, attune__mbarrier *b, int64_t bytes, const char *what) {
  b->bytes += bytes;
  if (b->bytes > COUNT_MAX || b->bytes < -COUNT_MAX)
    attune__fault(w, -1, "%s: mbarrier 0x%x counts at most %d bytes in a phase", what,
                  address_of(b), COUNT_MAX);
}

void attune__mbarrier_expect(attune__warp *w, attune__mbarrier *b, uint32_t bytes) {
  add_bytes(w, b, bytes, "expect_tx");
}

void attune__mbarrier_complete(attune__warp *w, attune__mbarrier *b, uint32_t bytes) {
  add_bytes(w, b, -(int64_t)bytes, "complete_tx");
  end_phase(w->engine, b);
}

void attune__mbarrier_arrive(attune__warp *w, attune__mbarrier *b, uint32_t count) {
  if (count > b->pending)
    attune__fault(w, -1,
                  "mbarrier 0x%x gets more arrivals in phase %u than its count %u: the arriving "
                  "thread did not wait for the phase, or the count is too low",
                  address_of(b), b->phase, b->count);
  b->pending -= count;
  end_phase(w->engine, b);
}

void attune__mbarrier_fence(attune__warp *w) {
  attune__async *a = w->engine->async;
  for (uint32_t k = 0; k < a->mbarriers; k++)
    if (a->mbarrier[k].maker == w->agent) a->mbarrier[k].fenced = 1;
}

/* Whether w is the last warp of its block that runs. */
static int is_last(const attune__warp *w) {
  for (uint32_t k = 0; k < w->block->warps; k++) {
    const attune__warp *v = &w->block->warp[k];
    if (v != w && v->state != ATTUNE__EXITED) return 0;
  }
  return 1;
}

void attune__mbarrier_exit(attune__warp *w) {
  attune__async *a = w->engine->async;
  if (!is_last(w)) return;
  for (uint32_t k = 0; k < a->mbarriers; k++) {
    const attune__mbarrier *b = &a->mbarrier[k];
    if (b->block == w->block && b->copied > b->waited)
      attune__fault(w, -1,
                    "the block exits, and nobody waited for the copies of phase %u of mbarrier "
                    "0x%x",
                    b->copied - 1, address_of(b));
  }
}

/* ---- init, inval -------------------------------------------------------------------------------
 */

/* The one at the address, used before or not. */
static attune__mbarrier *make(attune__warp *w, uint32_t offset) {
  attune__async *a = w->engine->async;
  attune__mbarrier *b = attune__mbarrier_find(w->engine, w->block, offset);
  if (b) return b;
  if (a->mbarriers == ATTUNE__MBARRIERS) attune__fault(w, -1, "too many mbarriers in the cluster");
  b = &a->mbarrier[a->mbarriers];
  memset(b, 0, sizeof *b);
  b->block = w->block;
  b->offset = offset;
  b->agent = attune__agent(w);
  a->mbarriers++;
  return b;
}

static attune__smem *own_object(attune__warp *w, int lane, uint32_t address, const char *what,
                                uint32_t *offset) {
  attune__smem *m;
  attune__smem_at(w, lane, address, OBJECT_BYTES, what, &m, offset);
  if (m != &w->block->smem)
    attune__fault(w, lane, "%s: shared 0x%x is another block's", what, address);
  return m;
}

static void init_one(attune__warp *w, int lane, uint32_t address, uint32_t count) {
  uint32_t offset;
  attune__smem *m = own_object(w, lane, address, "mbarrier.init", &offset);
  if (count < 1 || count > COUNT_MAX)
    attune__fault(w, lane, "mbarrier.init: count %u is not within 1..%d", count, COUNT_MAX);
  attune__mbarrier *b = make(w, offset);
  if (b->count)
    attune__fault(w, lane,
                  "mbarrier.init: shared 0x%x is an mbarrier already: mbarrier.inval "
                  "is missing",
                  address);
  if (w->engine->checks)
    attune__smem_write(w, lane, m, offset, OBJECT_BYTES, ATTUNE__GENERIC, ATTUNE__CELL_MBARRIER,
                       "mbarrier.init");
  b->count = b->pending = count;
  b->bytes = 0;
  b->phase = b->copied = b->waited = 0;
  b->maker = w->agent;
  b->made = w->clock[w->agent];
  b->fenced = 0;
}

static void run_init(attune__warp *w, const attune__ins *i, uint32_t active) {
  ATTUNE__EACH_LANE(lane, active)
  init_one(w, (int)lane, attune__shared_address(w, i, 0, lane), attune__r32(w, i, 1)[lane]);
}

static void inval_one(attune__warp *w, int lane, uint32_t address) {
  uint32_t offset;
  attune__smem *m = own_object(w, lane, address, "mbarrier.inval", &offset);
  attune__mbarrier *b = attune__mbarrier_at(w, lane, address, "mbarrier.inval");
  if (b->bytes || b->copied > b->waited)
    attune__fault(w, lane, "mbarrier.inval: copies to mbarrier 0x%x were not waited for", address);
  b->count = 0;
  if (!w->engine->checks) return;
  uint32_t end = (offset + OBJECT_BYTES - 1) >> m->shift;
  for (uint32_t c = offset >> m->shift; c <= end; c++) m->cell[c].state = ATTUNE__CELL_EMPTY;
}

static void run_inval(attune__warp *w, const attune__ins *i, uint32_t active) {
  ATTUNE__EACH_LANE(lane, active)
  inval_one(w, (int)lane, attune__shared_address(w, i, 0, lane));
}

/* ---- arrivals ----------------------------------------------------------------------------------
 */

enum { RELAXED = 1, EXPECT = 2 };

/* Lanes arrive one by one; those at one mbarrier release together. Destination 0: the state before,
 * which a wait without parity takes: the number of the phase. */
static void run_arrive(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint64_t state[ATTUNE__LANES] = {0};
  const attune__mbarrier *released = NULL;
  int relaxed = i->opcode->data & RELAXED, expect = i->opcode->data & EXPECT;
  ATTUNE__EACH_LANE(lane, active) {
    attune__mbarrier *b =
        attune__mbarrier_at(w, (int)lane, attune__shared_address(w, i, 1, lane), "mbarrier.arrive");
    if (b != released && !relaxed) attune__release(w, b->arrived);
    released = b;
    state[lane] = b->phase;
    uint32_t number = i->operands > 2 ? attune__r32(w, i, 2)[lane] : 1;
    if (expect) attune__mbarrier_expect(w, b, number);
    attune__mbarrier_arrive(w, b, expect ? 1 : number);
  }
  attune__put64(w, i, 0, active, state);
}

static void run_expect(attune__warp *w, const attune__ins *i, uint32_t active) {
  ATTUNE__EACH_LANE(lane, active) {
    attune__mbarrier *b = attune__mbarrier_at(w, (int)lane, attune__shared_address(w, i, 0, lane),
                                              "mbarrier.expect_tx");
    attune__mbarrier_expect(w, b, attune__r32(w, i, 1)[lane]);
  }
}

static void run_complete(attune__warp *w, const attune__ins *i, uint32_t active) {
  ATTUNE__EACH_LANE(lane, active) {
    attune__mbarrier *b = attune__mbarrier_at(w, (int)lane, attune__shared_address(w, i, 0, lane),
                                              "mbarrier.complete_tx");
    attune__mbarrier_complete(w, b, attune__r32(w, i, 1)[lane]);
  }
}

/* ---- waits -------------------------------------------------------------------------------------
 */

static void describe(const attune__warp *w, char *out, size_t size) {
  const attune__mbarrier *b = w->object;
  if (b->bytes < 0)
    snprintf(out, size, "mbarrier 0x%x phase %u: %u arrivals missing, %lld bytes too many",
             address_of(b), b->phase, b->pending, -(long long)b->bytes);
  else
    snprintf(out, size, "mbarrier 0x%x phase %u: %u arrivals and %lld bytes missing", address_of(b),
             b->phase, b->pending, (long long)b->bytes);
}

/* With a parity, the phase of that parity has ended when the current one has the other. */
static int has_ended(const attune__mbarrier *b, int by_parity, uint64_t state) {
  return by_parity ? (b->phase & 1) != state : b->phase != state;
}

static uint64_t wanted(attune__warp *w, const attune__ins *i, uint32_t lane, int by_parity) {
  uint64_t state = by_parity ? attune__r32(w, i, 2)[lane] : attune__r64(w, i, 2)[lane];
  if (by_parity && state > 1)
    attune__fault(w, (int)lane, "%s: parity %u is neither 0 nor 1", i->opcode->name,
                  (unsigned)state);
  return state;
}

/* The lanes whose phase has ended; *last: the mbarrier of the highest lane. */
static uint32_t ended_lanes(attune__warp *w, const attune__ins *i, uint32_t active,
                            attune__mbarrier **last) {
  uint32_t ended = 0;
  ATTUNE__EACH_LANE(lane, active) {
    attune__mbarrier *b =
        attune__mbarrier_at(w, (int)lane, attune__shared_address(w, i, 1, lane), i->opcode->name);
    if (b->block != w->block)
      attune__fault(w, (int)lane, "%s: the mbarrier is another block's", i->opcode->name);
    if (has_ended(b, i->opcode->data, wanted(w, i, lane, i->opcode->data))) {
      if (b != *last) attune__acquire(w, b->done);
      b->waited = b->phase;
      ended |= UINT32_C(1) << lane;
    }
    *last = b;
  }
  return ended;
}

/* A loop over several polls never stops the warp, so nothing would ever land late: something lands
 * every now and then, and in the end it is a deadlock. */
static void count_poll(attune__warp *w, const attune__mbarrier *b) {
  uint32_t polls = ++w->async->polls;
  if (polls % POLLS_PER_LANDING == 0) attune__async_land(w->engine, 0);
  if (polls < POLLS_MAX) return;
  attune__fault(w, -1,
                "polled %u times in vain: mbarrier 0x%x phase %u: %u arrivals and %lld bytes "
                "missing",
                polls, address_of(b), b->phase, b->pending, (long long)b->bytes);
}

/* test_wait and try_wait are polls. The first that fails says so, since a kernel may do something
 * else meanwhile; the same one again is a loop, and stops the warp until the phase ends. */
static void run_wait(attune__warp *w, const attune__ins *i, uint32_t active) {
  attune__async_warp *s = w->async;
  attune__mbarrier *b = NULL;
  uint32_t *p = attune__rp(w, i, 0);
  uint32_t ended = ended_lanes(w, i, active, &b);
  if (!b) return; /* active is never 0 */
  if (!ended && s->polled == i && s->polled_at == b && s->polled_phase == b->phase) {
    attune__wait(w, b, 1, describe);
    return;
  }
  s->polled = ended ? NULL : i;
  s->polled_at = b;
  s->polled_phase = b->phase;
  *p = (*p & ~active) | ended;
  if (ended)
    s->polls = 0;
  else
    count_poll(w, b);
}

/* ---- the table ---------------------------------------------------------------------------------
 */

/* Rows for each spelling of the state space, and of the order and scope before it. */
#define ROW(opcode, form, function, options)                                                       \
  {.name = "mbarrier." opcode ".b64", .operands = form, .run = function, .data = options},
#define ARRIVE_AT(space, options)                                                                  \
  ROW("arrive" space, "D,[s]", run_arrive, options)                                                \
  ROW("arrive" space, "D,[s],w", run_arrive, options)                                              \
  ROW("arrive.expect_tx" space, "D,[s],w", run_arrive, options | EXPECT)
#define ARRIVE(order, options)                                                                     \
  ARRIVE_AT(order ".shared", options)                                                              \
  ARRIVE_AT(order ".shared::cta", options)                                                         \
  ARRIVE_AT(order ".shared::cluster", options)
#define BYTES_AT(space)                                                                            \
  ROW("expect_tx" space, "[s],w", run_expect, 0)                                                   \
  ROW("complete_tx" space, "[s],w", run_complete, 0)
#define BYTES(order)                                                                               \
  BYTES_AT(order ".shared")                                                                        \
  BYTES_AT(order ".shared::cta")                                                                   \
  BYTES_AT(order ".shared::cluster")
#define WAIT_ROW(opcode, form, parity)                                                             \
  {.name = "mbarrier." opcode ".b64",                                                              \
   .operands = form,                                                                               \
   .run = run_wait,                                                                                \
   .flags = ATTUNE__OP_WAITS,                                                                      \
   .data = parity},
#define WAIT_AT(space)                                                                             \
  WAIT_ROW("test_wait" space, "P,[s],d", 0)                                                        \
  WAIT_ROW("try_wait" space, "P,[s],d", 0)                                                         \
  WAIT_ROW("try_wait" space, "P,[s],d,w", 0)                                                       \
  WAIT_ROW("test_wait.parity" space, "P,[s],w", 1)                                                 \
  WAIT_ROW("try_wait.parity" space, "P,[s],w", 1)                                                  \
  WAIT_ROW("try_wait.parity" space, "P,[s],w,w", 1)
#define WAIT(order)                                                                                \
  WAIT_AT(order ".shared")                                                                         \
  WAIT_AT(order ".shared::cta")
#define MADE(space)                                                                                \
  ROW("init" space, "[s],w", run_init, 0)                                                          \
  ROW("inval" space, "[s]", run_inval, 0)

/* One call a line. */
/* clang-format off */
static const attune__opcode rows[] = {
    MADE(".shared")
    MADE(".shared::cta")
    ARRIVE("", 0)
    ARRIVE(".release.cta", 0)
    ARRIVE(".release.cluster", 0)
    ARRIVE(".relaxed.cta", RELAXED)
    ARRIVE(".relaxed.cluster", RELAXED)
    BYTES("")
    BYTES(".relaxed.cta")
    BYTES(".relaxed.cluster")
    WAIT("")
    WAIT(".acquire.cta")
    WAIT(".acquire.cluster")
};
/* clang-format on */

const attune__opcodes attune__ops_mbarrier = {rows, sizeof rows / sizeof *rows};
