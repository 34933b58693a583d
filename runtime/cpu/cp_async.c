/* cp_async.c - cp.async: copies of 4, 8 or 16 bytes from global to shared memory.
 *
 * Input: the copies of a warp's threads, each in a group of its thread. Output: bytes that are in
 * flight, and poisoned, until their thread waits for the group; or until an mbarrier that tracks
 * them (cp.async.mbarrier.arrive) gets its arrival, which goes through the queue. */
#include "async_state.h"

#include <stdlib.h>

/* ---- landing -----------------------------------------------------------------------------------
 */

/* What a thread copies belongs to it until its warp synchronises, as what it stores does. */
static void own(attune__smem *m, uint32_t offset, uint32_t bytes, uint32_t lane) {
  uint32_t last = (offset + bytes - 1) >> m->shift;
  for (uint32_t c = offset >> m->shift; c <= last; c++) m->cell[c].lane = (int8_t)lane;
}

static void record(attune__warp *w, const attune__copies *c, uint32_t lane, int waited) {
  attune__mbarrier *b = c->tracker[lane];
  uint32_t agent = b ? b->agent : w->agent;
  uint32_t time = b ? attune__mbarrier_stamp(b, ATTUNE__GENERIC) : w->clock[w->agent];
  attune__smem_landed(c->smem, c->offset[lane], c->bytes, agent, time, ATTUNE__GENERIC);
  if (waited) w->clock[agent] = time;
  if (!b) own(c->smem, c->offset[lane], c->bytes, lane);
}

/* waited: the warp waits for it, and not only an mbarrier. */
static void land_lane(attune__warp *w, const attune__copies *c, uint32_t lane, int waited) {
  unsigned char *to = c->smem->bytes + c->offset[lane];
  uint32_t taken = c->source_bytes[lane];
  if (taken) memcpy(to, c->source[lane], taken);
  memset(to + taken, 0, c->bytes - taken);
  if (w->engine->checks) record(w, c, lane, waited);
}

typedef struct range {
  uint32_t lanes;
  uint32_t number;               /* instructions below this one */
  uint32_t group[ATTUNE__LANES]; /* and of groups below the lane's */
} range;

/* Lands what the range has, and forgets records without lanes. */
static void land(attune__warp *w, const range *r, int waited) {
  attune__async_warp *s = w->async;
  uint32_t kept = 0;
  for (uint32_t k = 0; k < s->copy_count; k++) {
    attune__copies *c = &s->copies[k];
    uint32_t lanes = c->number < r->number ? c->lanes & r->lanes : 0;
    ATTUNE__EACH_LANE(lane, lanes) {
      if (c->group[lane] >= r->group[lane]) continue;
      land_lane(w, c, lane, waited);
      c->lanes &= ~(UINT32_C(1) << lane);
    }
    if (c->lanes && kept != k) s->copies[kept] = *c;
    kept += c->lanes != 0;
  }
  s->copy_count = kept;
}

static range everything(uint32_t lanes) {
  range r = {.lanes = lanes, .number = UINT32_MAX};
  memset(r.group, 0xff, sizeof r.group);
  return r;
}

/* ---- copies ------------------------------------------------------------------------------------
 */

static attune__copies *add(attune__warp *w, const attune__ins *i) {
  attune__async_warp *s = w->async;
  if (s->copy_count == s->copy_room) {
    uint32_t room = s->copy_room ? 2 * s->copy_room : 16;
    attune__copies *copies = realloc(s->copies, room * sizeof *copies);
    if (!copies) attune__fault(w, -1, "no memory for cp.async");
    s->copies = copies;
    s->copy_room = room;
  }
  attune__copies *c = &s->copies[s->copy_count];
  memset(c, 0, sizeof *c);
  c->ins = i;
  c->number = s->copy_number++;
  return c;
}

/* Bytes that a source lacks need not exist. Its aligned pieces are accesses of their own. */
static const unsigned char *open_source(attune__warp *w, int lane, uint64_t source, uint32_t bytes,
                                        uint32_t taken) {
  const unsigned char *first = NULL;
  if (taken > bytes) attune__fault(w, lane, "cp.async: %u source bytes of %u", taken, bytes);
  if (taken && source % bytes)
    attune__fault(w, lane, "cp.async: the source is not aligned to %u", bytes);
  for (uint32_t done = 0, piece = bytes; done < taken; piece /= 2) {
    if (piece > taken - done) continue;
    const unsigned char *p = attune__gmem_access(w, lane, source + done, piece, 0, "cp.async");
    if (!done) first = p;
    done += piece;
  }
  return first;
}

static void start_lane(attune__warp *w, attune__copies *c, uint32_t lane, uint32_t address,
                       uint64_t source, uint32_t taken) {
  attune__smem *m;
  attune__smem_at(w, (int)lane, address, c->bytes, "cp.async", &m, &c->offset[lane]);
  c->source[lane] = open_source(w, (int)lane, source, c->bytes, taken);
  c->source_bytes[lane] = (uint8_t)taken;
  if (w->engine->checks) {
    attune__smem_write(w, (int)lane, m, c->offset[lane], c->bytes, ATTUNE__GENERIC,
                       ATTUNE__CELL_IN_FLIGHT, "cp.async");
    attune__smem_poison(m, c->offset[lane], c->bytes);
  }
  c->smem = m;
  c->group[lane] = w->async->copy_group[lane];
}

static void count(attune__warp *w, uint32_t active, const uint32_t to[ATTUNE__LANES],
                  const uint64_t from[ATTUNE__LANES], const attune__copies *c) {
  uint32_t read = 0;
  ATTUNE__EACH_LANE(lane, active) {
    read |= (uint32_t)(c->source_bytes[lane] != 0) << lane;
    w->engine->count.async_bytes += c->bytes;
  }
  attune__smem_count(w, active, to, c->bytes, 1);
  if (read) attune__gmem_sectors(w, read, from, c->bytes, 0);
}

/* [to], [from], bytes, and perhaps the bytes to take; data: whether the last operand is a cache
 * hint, and whether only 16 bytes are allowed (cg). */
enum { HINT = 1, ONLY_16 = 2 };
static void run_copy(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t to[ATTUNE__LANES] = {0}, bytes = *attune__r32(w, i, 2);
  uint64_t from[ATTUNE__LANES] = {0};
  uint32_t with_size = i->operands - (i->opcode->data & HINT ? 1 : 0) > 3;
  if (bytes != 16 && ((bytes != 4 && bytes != 8) || i->opcode->data & ONLY_16))
    attune__fault(w, -1, "%s: %u bytes", i->opcode->name, bytes);
  attune__copies *c = add(w, i);
  c->bytes = bytes;
  ATTUNE__EACH_LANE(lane, active) {
    to[lane] = attune__shared_address(w, i, 0, lane);
    from[lane] = attune__global_address(w, i, 1, lane);
    start_lane(w, c, lane, to[lane], from[lane], with_size ? attune__r32(w, i, 3)[lane] : bytes);
  }
  c->lanes = active;
  w->async->copy_count++;
  if (w->engine->checks) count(w, active, to, from, c);
}

/* ---- groups ------------------------------------------------------------------------------------
 */

static void run_commit(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)i;
  ATTUNE__EACH_LANE(lane, active) w->async->copy_group[lane]++;
}

static void run_wait_group(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t keep = *attune__r32(w, i, 0);
  range r = everything(active);
  for (uint32_t l = 0; l < ATTUNE__LANES; l++) {
    uint32_t groups = w->async->copy_group[l];
    r.group[l] = groups > keep ? groups - keep : 0;
  }
  land(w, &r, 1);
}

static void run_wait_all(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)i;
  range r = everything(active);
  land(w, &r, 1);
}

/* ---- mbarriers ---------------------------------------------------------------------------------
 */

typedef struct arrival {
  attune__pending head;
  attune__mbarrier *mbarrier;
  uint32_t number; /* of the first copy after it */
} arrival;

/* The copies before it have landed; the warp itself has waited for nothing. */
static void land_arrival(attune__engine *e, attune__pending *p) {
  const arrival *a = (const arrival *)(const void *)p;
  (void)e;
  range r = everything(p->lanes);
  r.number = a->number;
  land(p->warp, &r, 0);
  attune__mbarrier_arrive(p->warp, a->mbarrier, (uint32_t)__builtin_popcount(p->lanes));
}

/* The lanes' copies that nothing tracks yet are b's from now on. */
static void track(attune__warp *w, attune__mbarrier *b, uint32_t lanes) {
  attune__async_warp *s = w->async;
  for (uint32_t k = 0; k < s->copy_count; k++) {
    attune__copies *c = &s->copies[k];
    ATTUNE__EACH_LANE(lane, c->lanes & lanes) {
      if (c->tracker[lane]) continue;
      c->tracker[lane] = b;
      b->copied = b->phase + 1;
    }
  }
}

static void push_arrival(attune__warp *w, attune__mbarrier *b, uint32_t lanes) {
  arrival *a = malloc(sizeof *a);
  if (a) *a = (arrival){{land_arrival, w, w->at, lanes, 0}, b, w->async->copy_number};
  attune__async_push(w, a ? &a->head : NULL);
}

/* data 1: noinc: the mbarrier's count has this arrival; else it grows by it for the phase. */
static void run_arrive(attune__warp *w, const attune__ins *i, uint32_t active) {
  while (active) {
    uint32_t same = 0, first = attune__first(active);
    uint32_t address = attune__shared_address(w, i, 0, first);
    ATTUNE__EACH_LANE(lane, active)
    same |= (uint32_t)(attune__shared_address(w, i, 0, lane) == address) << lane;
    attune__mbarrier *b = attune__mbarrier_at(w, (int)first, address, "cp.async.mbarrier.arrive");
    if (!i->opcode->data) b->pending += (uint32_t)__builtin_popcount(same);
    track(w, b, same);
    push_arrival(w, b, same);
    active &= ~same;
  }
}

/* ---- exit --------------------------------------------------------------------------------------
 */

void attune__cp_async_exit(attune__warp *w) {
  const attune__async_warp *s = w->async;
  for (uint32_t k = 0; k < s->copy_count; k++) {
    const attune__copies *c = &s->copies[k];
    ATTUNE__EACH_LANE(lane, c->lanes) {
      if (c->tracker[lane]) continue;
      w->at = c->ins;
      attune__fault(w, (int)lane,
                    "the thread exits and never waited for this cp.async: cp.async.wait_group or "
                    "wait_all is missing");
    }
  }
}

/* ---- the table ---------------------------------------------------------------------------------
 */

#define COPY_ROW(opcode, form, options)                                                            \
  {.name = "cp.async." opcode, .operands = form, .run = run_copy, .data = options},
#define COPY_FORMS(opcode, options)                                                                \
  COPY_ROW(opcode, "[s],[g],i", options)                                                           \
  COPY_ROW(opcode, "[s],[g],i,w", options)
#define COPY_AT(opcode, options)                                                                   \
  COPY_FORMS(opcode, options)                                                                      \
  COPY_FORMS(opcode ".L2::64B", options)                                                           \
  COPY_FORMS(opcode ".L2::128B", options)                                                          \
  COPY_FORMS(opcode ".L2::256B", options)                                                          \
  COPY_ROW(opcode ".L2::cache_hint", "[s],[g],i,d", options | HINT)                                \
  COPY_ROW(opcode ".L2::cache_hint", "[s],[g],i,w,d", options | HINT)
#define ARRIVE_ROW(opcode, noinc)                                                                  \
  {.name = "cp.async.mbarrier.arrive" opcode ".b64",                                               \
   .operands = "[s]",                                                                              \
   .run = run_arrive,                                                                              \
   .data = noinc},

/* One call a line. */
/* clang-format off */
static const attune__opcode rows[] = {
    COPY_AT("ca.shared.global", 0)
    COPY_AT("ca.shared::cta.global", 0)
    COPY_AT("cg.shared.global", ONLY_16)
    COPY_AT("cg.shared::cta.global", ONLY_16)
    ARRIVE_ROW(".shared", 0)
    ARRIVE_ROW(".shared::cta", 0)
    ARRIVE_ROW(".noinc.shared", 1)
    ARRIVE_ROW(".noinc.shared::cta", 1)
    {.name = "cp.async.commit_group", .operands = "", .run = run_commit},
    {.name = "cp.async.wait_group", .operands = "i", .run = run_wait_group},
    {.name = "cp.async.wait_all", .operands = "", .run = run_wait_all},
};
/* clang-format on */

const attune__opcodes attune__ops_cp_async = {rows, sizeof rows / sizeof *rows};
