/* tma.c - cp.async.bulk.tensor: boxes of a tensor of up to five axes, to and from shared memory.
 *
 * Input: a tensor map in the parameter block (tensormap.h), coordinates, an mbarrier or the
 * thread's bulk group. Output: the box's rows, dense in shared memory but for the swizzle of
 * 16-byte chunks. Elements out of bounds are filled in and count as bytes arrived. Stores and
 * reductions leave out the chunks that lie out of bounds, but a row's last chunk is written whole,
 * also where the row ends within it.
 *
 * What stops an H200 with an illegal instruction is a fault here: axis 0's coordinate off a
 * multiple of 16 bytes, wherever the box lies, and a store's or reduction's coordinate below 0 on
 * any axis. Of unaligned shared memory an H200 says CUDA_ERROR_MISALIGNED_ADDRESS. */
#include "async_state.h"
#include "tensormap_bytes.h"

#include <stdlib.h>

enum { CHUNK = 16 /* bytes */, BOX_ALIGN = 128, AXES = ATTUNE__TENSORMAP_RANK };

/* ---- maps --------------------------------------------------------------------------------------
 */

static attune__tensormap map_at(attune__warp *w, int lane, uint64_t address, uint32_t rank) {
  const attune__cpu_launch *launch = w->engine->launch;
  uint64_t offset = address & ~ATTUNE__PARAM_SPACE;
  attune__tensormap map;
  if ((address & ATTUNE__PARAM_SPACE) != ATTUNE__PARAM_SPACE)
    attune__fault(w, lane,
                  "TMA: the tensor map is no kernel parameter: it must be in a __grid_constant__");
  if (offset % 64 || offset + ATTUNE__TENSORMAP_BYTES > launch->program->param_bytes)
    attune__fault(w, lane, "TMA: no tensor map at byte %llu of the parameters",
                  (unsigned long long)offset);
  if (!attune__tensormap_decode(launch->params + offset, &map))
    attune__fault(w, lane, "TMA: the 128 bytes at byte %llu of the parameters are no tensor map",
                  (unsigned long long)offset);
  if (map.rank != rank)
    attune__fault(w, lane, "TMA: %u coordinates for a tensor map of rank %u", rank, map.rank);
  return map;
}

static uint32_t box_bytes(const attune__tensormap *m) {
  uint32_t bytes = attune__map_type_bytes(m->type);
  for (uint32_t k = 0; k < m->rank; k++) bytes *= m->box[k];
  return bytes;
}

/* ---- boxes -------------------------------------------------------------------------------------
 */

/* One operation in flight. */
typedef struct box {
  attune__pending head;
  attune__tensormap map;
  int32_t at[AXES];      /* of its first element */
  attune__target target; /* of a load */
  attune__smem *smem;    /* of a store */
  uint32_t offset;
} box;

/* A row of the box: where it is, and which elements of it are in bounds. */
typedef struct row {
  uint64_t global;     /* of element 0 of the box's row, if it were in bounds */
  uint32_t begin, end; /* elements of the row that are */
  uint32_t shared;     /* address, before the swizzle */
} row;

static row row_at(const box *b, const uint32_t index[AXES], uint32_t shared) {
  const attune__tensormap *m = &b->map;
  uint32_t size = attune__map_type_bytes(m->type);
  row r = {.global = m->base + (uint64_t)(int64_t)b->at[0] * size, .shared = shared};
  int inside = 1;
  for (uint32_t k = 1; k < m->rank; k++) {
    int64_t at = (int64_t)b->at[k] + index[k];
    inside = inside && at >= 0 && (uint64_t)at < m->extent[k];
    r.global += (uint64_t)at * m->stride[k];
  }
  int64_t first = -(int64_t)b->at[0], last = (int64_t)m->extent[0] - b->at[0];
  r.begin = first > 0 ? (uint32_t)(first < m->box[0] ? first : m->box[0]) : 0;
  r.end = last < m->box[0] ? (uint32_t)(last > 0 ? last : 0) : m->box[0];
  if (!inside || r.begin > r.end) r.begin = r.end = 0;
  return r;
}

static void next_row(const attune__tensormap *m, uint32_t index[AXES]) {
  for (uint32_t k = 1; k < m->rank; k++) {
    if (++index[k] < m->box[k]) return;
    index[k] = 0;
  }
}

/* What is done with a chunk of 16 bytes; g: its global address; bytes: how many are in bounds. */
typedef void transfer(attune__warp *w, const attune__tensormap *m, uint64_t g, unsigned char *s,
                      uint32_t bytes);

/* Sectors are counted by up to 32 chunks, as a warp's access would be. */
typedef struct tally {
  uint64_t address[ATTUNE__LANES];
  uint32_t count;
  int store;
} tally;

static void flush(attune__warp *w, tally *t) {
  if (t->count && w->engine->checks)
    attune__gmem_sectors(w, ATTUNE__FULL >> (ATTUNE__LANES - t->count), t->address, CHUNK,
                         t->store);
  t->count = 0;
}

static void note(attune__warp *w, tally *t, uint64_t address) {
  t->address[t->count++] = address;
  if (t->count == ATTUNE__LANES) flush(w, t);
}

static void each_chunk(attune__warp *w, const box *b, const row *r, unsigned char *bytes,
                       transfer *move, tally *t) {
  uint32_t size = attune__map_type_bytes(b->map.type), per = CHUNK / size;
  for (uint32_t first = 0; first < b->map.box[0]; first += per) {
    uint32_t count = first >= r->begin && first < r->end ? r->end - first : 0;
    if (count > per) count = per;
    uint32_t at = attune__map_swizzle_address(b->map.swizzle, r->shared + first * size);
    move(w, &b->map, r->global + first * size, bytes + at - ATTUNE__SHARED_BASE, count * size);
    if (count) note(w, t, r->global + first * size);
  }
}

static void each_row(attune__warp *w, const box *b, attune__smem *m, uint32_t offset,
                     transfer *move, int store) {
  uint32_t index[AXES] = {0}, rows = 1;
  uint32_t pitch = b->map.box[0] * attune__map_type_bytes(b->map.type);
  tally t = {.store = store};
  for (uint32_t k = 1; k < b->map.rank; k++) rows *= b->map.box[k];
  for (uint32_t k = 0; k < rows; k++) {
    row r = row_at(b, index, ATTUNE__SHARED_BASE + offset + k * pitch);
    each_chunk(w, b, &r, m->bytes, move, &t);
    next_row(&b->map, index);
  }
  flush(w, &t);
}

/* ---- loads -------------------------------------------------------------------------------------
 */

static void fill(const attune__tensormap *m, unsigned char *s) {
  static const uint16_t half_nan = 0x7fff;
  memset(s, 0, CHUNK);
  if (!m->nan_fill) return;
  for (uint32_t k = 0; k < CHUNK; k += 2) memcpy(s + k, &half_nan, 2);
}

static void load_chunk(attune__warp *w, const attune__tensormap *m, uint64_t g, unsigned char *s,
                       uint32_t bytes) {
  uint32_t step = bytes == CHUNK ? CHUNK : attune__map_type_bytes(m->type);
  if (bytes < CHUNK) fill(m, s);
  for (uint32_t k = 0; k < bytes; k += step)
    memcpy(s + k, attune__gmem_access(w, -1, g + k, step, 0, "TMA load"), step);
}

static void land_load(attune__engine *e, attune__pending *p) {
  const box *b = (const box *)(const void *)p;
  (void)e;
  each_row(p->warp, b, b->target.smem, b->target.offset, load_chunk, 0);
  attune__bulk_end(p->warp, &b->target, ATTUNE__ASYNC);
}

static void push(attune__warp *w, const box *made) {
  box *b = malloc(sizeof *b);
  if (b) *b = *made;
  attune__async_push(w, b ? &b->head : NULL);
}

/* The map and the coordinates of a box: operands `first` and those behind it. */
static void aim(attune__warp *w, const attune__ins *i, uint32_t first, uint32_t lane, box *b) {
  uint64_t address = attune__global_address(w, i, first, lane);
  b->map = map_at(w, (int)lane, address, (uint32_t)i->number);
  for (uint32_t k = 0; k < b->map.rank; k++)
    b->at[k] = (int32_t)attune__r32(w, i, first + 1 + k)[lane];
  int64_t byte = (int64_t)b->at[0] * attune__map_type_bytes(b->map.type);
  if (byte % CHUNK)
    attune__fault(w, (int)lane,
                  "TMA: coordinate %d of axis 0 is byte %lld of a row: must be a multiple of %d",
                  b->at[0], (long long)byte, CHUNK);
}

static void check_box(attune__warp *w, int lane, uint32_t address) {
  if (address % BOX_ALIGN)
    attune__fault(w, lane, "TMA: shared address 0x%x is not aligned to %d", address, BOX_ALIGN);
}

/* [to], [map, {coordinates}], [mbarrier], and for multicast the ranks (data 1). */
static void run_load(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t after = 2 + (uint32_t)i->number;
  ATTUNE__EACH_LANE(lane, active) {
    box b = {.head = {land_load, w, i, UINT32_C(1) << lane, 0}};
    uint32_t to = attune__shared_address(w, i, 0, lane);
    aim(w, i, 1, lane, &b);
    check_box(w, (int)lane, to);
    b.target = attune__bulk_target(w, (int)lane, to, box_bytes(&b.map),
                                   attune__shared_address(w, i, after, lane), "TMA load");
    attune__target own = b.target;
    uint32_t ranks = i->opcode->data ? attune__r32(w, i, after + 1)[lane] : 1;
    ATTUNE__EACH_LANE(peer, ranks) {
      if (i->opcode->data) b.target = attune__bulk_peer(w, (int)lane, &own, peer, "TMA load");
      attune__bulk_begin(w, (int)lane, &b.target, ATTUNE__ASYNC, "TMA load");
      push(w, &b);
    }
  }
}

/* ---- stores ------------------------------------------------------------------------------------
 */

static void store_chunk(attune__warp *w, const attune__tensormap *m, uint64_t g, unsigned char *s,
                        uint32_t bytes) {
  (void)m;
  if (!bytes) return;
  const char *what =
      bytes == CHUNK ? "TMA store" : "TMA store of a row's last 16 bytes, always whole";
  memcpy(attune__gmem_access(w, -1, g, CHUNK, 1, what), s, CHUNK);
}

static attune__scalar scalar_of(attune__warp *w, attune__map_type type) {
  if (type == ATTUNE__MAP_F32) return ATTUNE__F32;
  if (type == ATTUNE__MAP_U32) return ATTUNE__U32;
  if (type == ATTUNE__MAP_S32) return ATTUNE__S32;
  attune__fault(w, -1, "TMA reduction: elements of type %d are not known to the CPU device",
                (int)type);
}

static void reduce_chunk(attune__warp *w, const attune__tensormap *m, uint64_t g, unsigned char *s,
                         uint32_t bytes) {
  attune__scalar type = scalar_of(w, m->type);
  const char *what =
      bytes == CHUNK ? "TMA reduction" : "TMA reduction of a row's last 16 bytes, always whole";
  uint32_t size = attune__scalar_bytes(type), end = bytes ? CHUNK : 0;
  for (uint32_t k = 0; k < end; k += size) {
    uint32_t value;
    memcpy(&value, s + k, sizeof value);
    attune__reduce(attune__gmem_access(w, -1, g + k, size, 1, what),
                   (attune__reduction)w->at->opcode->data, type, value, 0);
  }
}

static void land_store(attune__engine *e, attune__pending *p) {
  const box *b = (const box *)(const void *)p;
  (void)e;
  each_row(p->warp, b, b->smem, b->offset, store_chunk, 1);
}

static void land_reduce(attune__engine *e, attune__pending *p) {
  const box *b = (const box *)(const void *)p;
  (void)e;
  each_row(p->warp, b, b->smem, b->offset, reduce_chunk, 1);
}

static void check_corner(attune__warp *w, int lane, const box *b) {
  for (uint32_t k = 0; k < b->map.rank; k++)
    if (b->at[k] < 0)
      attune__fault(w, lane,
                    "TMA store: coordinate %d of axis %u is negative: a box that is stored may "
                    "leave its tensor at the far end only",
                    b->at[k], k);
}

/* [map, {coordinates}], [from] */
static void push_store(attune__warp *w, const attune__ins *i, uint32_t active,
                       void (*land)(attune__engine *, attune__pending *)) {
  uint32_t after = 1 + (uint32_t)i->number;
  ATTUNE__EACH_LANE(lane, active) {
    box b = {.head = {land, w, i, UINT32_C(1) << lane, 1}};
    uint32_t from = attune__shared_address(w, i, after, lane);
    aim(w, i, 0, lane, &b);
    check_corner(w, (int)lane, &b);
    check_box(w, (int)lane, from);
    uint32_t bytes = box_bytes(&b.map);
    attune__smem_at(w, (int)lane, from, bytes, "TMA store", &b.smem, &b.offset);
    attune__bulk_source(w, (int)lane, b.smem, b.offset, bytes, "TMA store");
    push(w, &b);
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
  ATTUNE__EACH_LANE(lane, active) {
    box b = {.at = {0}};
    aim(w, i, 0, lane, &b);
  }
}

/* ---- the table ---------------------------------------------------------------------------------
 */

/* As many coordinates as the opcode says axes: `others` are the operands beside them. */
static int has_coordinates(int32_t number, uint32_t operands, uint32_t others) {
  return number >= 1 && number <= AXES && operands == (uint32_t)number + others;
}
static int accept_1(int32_t number, uint32_t operands) {
  return has_coordinates(number, operands, 1);
}
static int accept_2(int32_t number, uint32_t operands) {
  return has_coordinates(number, operands, 2);
}
static int accept_3(int32_t number, uint32_t operands) {
  return has_coordinates(number, operands, 3);
}
static int accept_4(int32_t number, uint32_t operands) {
  return has_coordinates(number, operands, 4);
}
static int accept_5(int32_t number, uint32_t operands) {
  return has_coordinates(number, operands, 5);
}

#define ROW(opcode, form, function, options, others)                                               \
  {.name = opcode, .operands = form, .run = function, .data = options, .accept = accept_##others},
#define LOAD(space)                                                                                \
  ROW("cp.async.bulk.tensor.#d." space ".mbarrier::complete_tx::bytes", "[s],[g,{w*}],[s]",        \
      run_load, 0, 3)                                                                              \
  ROW("cp.async.bulk.tensor.#d." space ".mbarrier::complete_tx::bytes.L2::cache_hint",             \
      "[s],[g,{w*}],[s],d", run_load, 0, 4)
#define MULTICAST(space)                                                                           \
  ROW("cp.async.bulk.tensor.#d." space ".mbarrier::complete_tx::bytes.multicast::cluster",         \
      "[s],[g,{w*}],[s],h", run_load, 1, 4)                                                        \
  ROW("cp.async.bulk.tensor.#d." space                                                             \
      ".mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint",                           \
      "[s],[g,{w*}],[s],h,d", run_load, 1, 5)
#define STORE(opcode, function, options)                                                           \
  ROW(opcode ".bulk_group", "[g,{w*}],[s]", function, options, 2)                                  \
  ROW(opcode ".bulk_group.L2::cache_hint", "[g,{w*}],[s],d", function, options, 3)
#define REDUCE(name, op)                                                                           \
  STORE("cp.reduce.async.bulk.tensor.#d.global.shared::cta." name, run_reduce, op)                 \
  STORE("cp.reduce.async.bulk.tensor.#d.global.shared::cta." name ".tile", run_reduce, op)

/* One call a line. */
/* clang-format off */
static const attune__opcode rows[] = {
    LOAD("shared::cluster.global")
    LOAD("shared::cluster.global.tile")
    LOAD("shared::cta.global")
    LOAD("shared::cta.global.tile")
    MULTICAST("shared::cluster.global")
    MULTICAST("shared::cluster.global.tile")
    STORE("cp.async.bulk.tensor.#d.global.shared::cta", run_store, 0)
    STORE("cp.async.bulk.tensor.#d.global.shared::cta.tile", run_store, 0)
    REDUCE("add", ATTUNE__REDUCE_ADD)
    REDUCE("min", ATTUNE__REDUCE_MIN)
    REDUCE("max", ATTUNE__REDUCE_MAX)
    ROW("cp.async.bulk.prefetch.tensor.#d.L2.global", "[g,{w*}]", run_prefetch, 0, 1)
    ROW("cp.async.bulk.prefetch.tensor.#d.L2.global.tile", "[g,{w*}]", run_prefetch, 0, 1)
};
/* clang-format on */

const attune__opcodes attune__ops_tma = {rows, sizeof rows / sizeof *rows};
