/* ptx_ops_atomic.c - atom and red on global and shared memory, and the reductions of bulk stores.
 *
 * Atomics on one place never race with each other; with ordinary accesses before them they do. What
 * an atomic wrote counts as ordered before whoever reads it (a barrier that is missing there is not
 * found). Order and scope change nothing else: execution is sequentially consistent.
 *
 * Float additions happen in the order in which warps run: by block and lane when warps take turns
 * on one host thread; else the last bits depend on the schedule, as they do on a GPU. */
#include "async_state.h"
#include "narrow.h"

/* ---- one element -------------------------------------------------------------------------------
 */

static int64_t as_signed(attune__scalar type, uint64_t v) {
  return type == ATTUNE__S32 ? (int32_t)(uint32_t)v : (int64_t)v;
}

static int is_less(attune__scalar type, uint64_t a, uint64_t b) {
  if (type == ATTUNE__F32) return attune__f32((uint32_t)a) < attune__f32((uint32_t)b);
  if (type == ATTUNE__S32 || type == ATTUNE__S64) return as_signed(type, a) < as_signed(type, b);
  return a < b;
}

static uint64_t add(attune__scalar type, uint64_t a, uint64_t b) {
  uint32_t x = (uint32_t)a, y = (uint32_t)b;
  if (type == ATTUNE__F16X2) return add_halves(x, y) | add_halves(x >> 16, y >> 16) << 16;
  if (type == ATTUNE__BF16X2) return add_bf16s(x, y) | add_bf16s(x >> 16, y >> 16) << 16;
  if (type != ATTUNE__F32) return a + b;
  return attune__bits(attune__f32(x) + attune__f32(y));
}

static uint64_t combine(attune__reduction op, attune__scalar type, uint64_t old, uint64_t value,
                        uint64_t compare) {
  switch (op) {
    case ATTUNE__REDUCE_ADD:
      return add(type, old, value);
    case ATTUNE__REDUCE_MIN:
      return is_less(type, value, old) ? value : old;
    case ATTUNE__REDUCE_MAX:
      return is_less(type, old, value) ? value : old;
    case ATTUNE__REDUCE_INC:
      return old >= value ? 0 : old + 1;
    case ATTUNE__REDUCE_DEC:
      return old == 0 || old > value ? value : old - 1;
    case ATTUNE__REDUCE_AND:
      return old & value;
    case ATTUNE__REDUCE_OR:
      return old | value;
    case ATTUNE__REDUCE_XOR:
      return old ^ value;
    case ATTUNE__REDUCE_CAS:
      return old == compare ? value : old;
    case ATTUNE__REDUCE_EXCH:
      break;
  }
  return value;
}

uint64_t attune__reduce(unsigned char *at, attune__reduction op, attune__scalar type,
                        uint64_t value, uint64_t compare) {
  if (attune__scalar_bytes(type) == 8) {
    uint64_t *p = (uint64_t *)(void *)at, old = __atomic_load_n(p, __ATOMIC_SEQ_CST), made;
    do made = combine(op, type, old, value, compare);
    while (!__atomic_compare_exchange_n(p, &old, made, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return old;
  }
  uint32_t *p = (uint32_t *)(void *)at, old = __atomic_load_n(p, __ATOMIC_SEQ_CST), made;
  do made = (uint32_t)combine(op, type, old, value, compare);
  while (!__atomic_compare_exchange_n(p, &old, made, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}

/* ---- operands ----------------------------------------------------------------------------------
 *
 * atom: destinations, [address], values, and for cas the comparand before the value; red has no
 * destinations. data: what, which type, vector length, and whether it is red. */

enum { TYPE = 15, OP_SHIFT = 4, VECTOR_SHIFT = 8, RED = 1 << 12 };
#define DATA(op, type) ((int32_t)(op) << OP_SHIFT | (int32_t)(type))

typedef struct form {
  attune__reduction op;
  attune__scalar type;
  uint32_t vector, address; /* elements; operand */
  int red;
} form;

static form form_of(const attune__ins *i) {
  int32_t data = i->opcode->data;
  uint32_t vector = (uint32_t)(data >> VECTOR_SHIFT & 15);
  form f = {.op = (attune__reduction)(data >> OP_SHIFT & 15),
            .type = (attune__scalar)(data & TYPE),
            .vector = vector ? vector : 1,
            .red = (data & RED) != 0};
  f.address = f.red ? 0 : f.vector;
  return f;
}

static uint64_t value_of(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t lane) {
  return i->operand[k].bytes == 8 ? attune__r64(w, i, k)[lane] : attune__r32(w, i, k)[lane];
}

static void put_lane(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t lane,
                     uint64_t value) {
  if (i->operand[k].bytes == 8)
    attune__r64(w, i, k)[lane] = value;
  else
    attune__r32(w, i, k)[lane] = (uint32_t)value;
}

static void reduce_lane(attune__warp *w, const attune__ins *i, const form *f, uint32_t lane,
                        unsigned char *at) {
  uint32_t value = f->address + 1, size = attune__scalar_bytes(f->type);
  for (uint32_t k = 0; k < f->vector; k++) {
    int cas = f->op == ATTUNE__REDUCE_CAS;
    uint64_t old = attune__reduce(at + k * size, f->op, f->type,
                                  value_of(w, i, value + k + (cas ? 1 : 0), lane),
                                  cas ? value_of(w, i, value, lane) : 0);
    if (!f->red) put_lane(w, i, k, lane, old);
  }
}

/* ---- global ------------------------------------------------------------------------------------
 */

static void run_global(attune__warp *w, const attune__ins *i, uint32_t active) {
  form f = form_of(i);
  uint32_t bytes = f.vector * attune__scalar_bytes(f.type);
  uint64_t address[ATTUNE__LANES] = {0};
  ATTUNE__EACH_LANE(lane, active) {
    address[lane] = attune__global_address(w, i, f.address, lane);
    if (!f.red) attune__gmem_access(w, (int)lane, address[lane], bytes, 0, i->opcode->name);
    reduce_lane(w, i, &f, lane,
                attune__gmem_access(w, (int)lane, address[lane], bytes, 1, i->opcode->name));
  }
  if (!w->engine->checks) return;
  if (!f.red) attune__gmem_sectors(w, active, address, bytes, 0);
  attune__gmem_sectors(w, active, address, bytes, 1);
}

/* ---- shared ------------------------------------------------------------------------------------
 */

/* Written at time 0 of this agent: ordered before everybody. No warp or mbarrier has the number. */
enum { ATOMICS = ATTUNE__AGENTS_MAX - 1 };

static void record(attune__warp *w, int lane, attune__smem *m, uint32_t offset, uint32_t bytes,
                   const char *what) {
  attune__smem_read(w, lane, m, offset, bytes, ATTUNE__GENERIC, what);
  attune__smem_write(w, lane, m, offset, bytes, ATTUNE__GENERIC, ATTUNE__CELL_WRITTEN, what);
  attune__smem_landed(m, offset, bytes, ATOMICS, 0, ATTUNE__GENERIC);
}

static void run_shared(attune__warp *w, const attune__ins *i, uint32_t active) {
  form f = form_of(i);
  uint32_t bytes = attune__scalar_bytes(f.type), address[ATTUNE__LANES] = {0};
  ATTUNE__EACH_LANE(lane, active) {
    attune__smem *m;
    uint32_t offset;
    address[lane] = attune__shared_address(w, i, f.address, lane);
    unsigned char *at =
        attune__smem_at(w, (int)lane, address[lane], bytes, i->opcode->name, &m, &offset);
    if (w->engine->checks) record(w, (int)lane, m, offset, bytes, i->opcode->name);
    reduce_lane(w, i, &f, lane, at);
  }
  if (w->engine->checks) attune__smem_count(w, active, address, bytes, 1);
}

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(opcode, form, function, options)                                                       \
  {.name = opcode, .operands = form, .run = function, .data = options},

/* One operation of one type under every order and scope that is known, in both memories. */
#define AT_GLOBAL(order, type, letter, upper, id)                                                  \
  ROW("atom" order ".global." type, upper ",[g]," letter, run_global, id)                          \
  ROW("red" order ".global." type, "[g]," letter, run_global, (id) | RED)
#define AT_SHARED(order, space, type, letter, upper, id)                                           \
  ROW("atom" order "." space "." type, upper ",[s]," letter, run_shared, id)                       \
  ROW("red" order "." space "." type, "[s]," letter, run_shared, (id) | RED)
#define ATOMIC(type, letter, upper, id)                                                            \
  AT_GLOBAL("", type, letter, upper, id)                                                           \
  AT_GLOBAL(".relaxed.gpu", type, letter, upper, id)                                               \
  AT_GLOBAL(".acquire.gpu", type, letter, upper, id)                                               \
  AT_GLOBAL(".release.gpu", type, letter, upper, id)                                               \
  AT_GLOBAL(".acq_rel.gpu", type, letter, upper, id)                                               \
  AT_SHARED("", "shared", type, letter, upper, id)                                                 \
  AT_SHARED("", "shared::cta", type, letter, upper, id)                                            \
  AT_SHARED(".relaxed.cta", "shared", type, letter, upper, id)                                     \
  AT_SHARED(".relaxed.cta", "shared::cta", type, letter, upper, id)
#define ORDERED(op, name)                                                                          \
  ATOMIC(name ".u32", "w", "W", DATA(op, ATTUNE__U32))                                             \
  ATOMIC(name ".s32", "w", "W", DATA(op, ATTUNE__S32))                                             \
  ATOMIC(name ".u64", "d", "D", DATA(op, ATTUNE__U64))                                             \
  ATOMIC(name ".s64", "d", "D", DATA(op, ATTUNE__S64))
#define BITS(op, name)                                                                             \
  ATOMIC(name ".b32", "w", "W", DATA(op, ATTUNE__U32))                                             \
  ATOMIC(name ".b64", "d", "D", DATA(op, ATTUNE__U64))

#define CAS_AT(opcode, function, address)                                                          \
  ROW(opcode ".cas.b32", "W," address ",w,w", function, DATA(ATTUNE__REDUCE_CAS, ATTUNE__U32))     \
  ROW(opcode ".cas.b64", "D," address ",d,d", function, DATA(ATTUNE__REDUCE_CAS, ATTUNE__U64))

#define VECTOR(order, length, upper, lower)                                                        \
  ROW("atom" order ".global.add.v" #length ".f32", upper ",[g]," lower, run_global,                \
      DATA(ATTUNE__REDUCE_ADD, ATTUNE__F32) | length << VECTOR_SHIFT)                              \
  ROW("red" order ".global.add.v" #length ".f32", "[g]," lower, run_global,                        \
      DATA(ATTUNE__REDUCE_ADD, ATTUNE__F32) | length << VECTOR_SHIFT | RED)
#define VECTORS(order)                                                                             \
  VECTOR(order, 2, "{W,W}", "{w,w}")                                                               \
  VECTOR(order, 4, "{W,W,W,W}", "{w,w,w,w}")

/* One call a line. */
/* clang-format off */
static const attune__opcode rows[] = {
    ATOMIC("add.u32", "w", "W", DATA(ATTUNE__REDUCE_ADD, ATTUNE__U32))
    ATOMIC("add.s32", "w", "W", DATA(ATTUNE__REDUCE_ADD, ATTUNE__S32))
    ATOMIC("add.u64", "d", "D", DATA(ATTUNE__REDUCE_ADD, ATTUNE__U64))
    ATOMIC("add.f32", "w", "W", DATA(ATTUNE__REDUCE_ADD, ATTUNE__F32))
    ATOMIC("add.noftz.f16x2", "w", "W", DATA(ATTUNE__REDUCE_ADD, ATTUNE__F16X2))
    ATOMIC("add.noftz.bf16x2", "w", "W", DATA(ATTUNE__REDUCE_ADD, ATTUNE__BF16X2))
    ORDERED(ATTUNE__REDUCE_MIN, "min")
    ORDERED(ATTUNE__REDUCE_MAX, "max")
    ATOMIC("inc.u32", "w", "W", DATA(ATTUNE__REDUCE_INC, ATTUNE__U32))
    ATOMIC("dec.u32", "w", "W", DATA(ATTUNE__REDUCE_DEC, ATTUNE__U32))
    BITS(ATTUNE__REDUCE_AND, "and")
    BITS(ATTUNE__REDUCE_OR, "or")
    BITS(ATTUNE__REDUCE_XOR, "xor")
    BITS(ATTUNE__REDUCE_EXCH, "exch")
    CAS_AT("atom.global", run_global, "[g]")
    CAS_AT("atom.relaxed.gpu.global", run_global, "[g]")
    CAS_AT("atom.acquire.gpu.global", run_global, "[g]")
    CAS_AT("atom.release.gpu.global", run_global, "[g]")
    CAS_AT("atom.acq_rel.gpu.global", run_global, "[g]")
    CAS_AT("atom.shared", run_shared, "[s]")
    CAS_AT("atom.shared::cta", run_shared, "[s]")
    VECTORS("")
    VECTORS(".relaxed.gpu")
    VECTORS(".release.gpu")
};
/* clang-format on */

const attune__opcodes attune__ops_atomic = {rows, sizeof rows / sizeof *rows};
