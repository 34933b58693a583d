/* ptx_ops_memory.c - loads and stores: parameters, global and shared memory. Loads into a register
 * that is wider than their type extend it, as PTX says. */
#include "lanes.h"

/* How a row's type is moved: bytes of an element in memory, and whether it is sign-extended. */
enum { SIGNED = 256 };
#define BYTES(data) ((uint32_t)(data)&255)

/* ---- addresses --------------------------------------------------------------------------------
 */

void attune__shared_addresses(const attune__warp *w, const attune__ins *i, uint32_t k,
                              uint32_t out[ATTUNE__LANES]) {
  const attune__operand *o = &i->operand[k];
  if (o->bytes == 8) {
    SOURCE(uint64_t, a, k);
    LANES out[l] = (uint32_t)a[l] + (uint32_t)o->offset;
  } else {
    SOURCE(uint32_t, a, k);
    LANES out[l] = a[l] + (uint32_t)o->offset;
  }
}

void attune__global_addresses(const attune__warp *w, const attune__ins *i, uint32_t k,
                              uint64_t out[ATTUNE__LANES]) {
  SOURCE(uint64_t, a, k);
  const uint64_t offset = (uint64_t)(int64_t)i->operand[k].offset;
  LANES out[l] = a[l] + offset;
}

/* ---- elements ---------------------------------------------------------------------------------
 */

static uint64_t get(const unsigned char *from, int32_t data) {
  uint64_t value = 0;
  memcpy(&value, from, BYTES(data));
  uint32_t shift = 64 - 8 * BYTES(data);
  return data & SIGNED ? (uint64_t)((int64_t)(value << shift) >> shift) : value;
}

/* Lane l of destination k. */
static void put_lane(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t l,
                     uint64_t value) {
  if (i->operand[k].bytes == 8)
    attune__r64(w, i, k)[l] = value;
  else
    attune__r32(w, i, k)[l] = (uint32_t)value;
}

/* A 16-bit register keeps zeros above, so a signed byte in one must lose what its sign put there.
 */
static uint64_t narrowed(uint64_t value, const attune__ins *i) {
  return i->opcode->operands[0] == 'H' || i->opcode->operands[1] == 'H' ? value & 0xffff : value;
}

static uint64_t lane_of(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t l) {
  return i->operand[k].bytes == 8 ? attune__r64(w, i, k)[l] : attune__r32(w, i, k)[l];
}

/* ---- parameters -------------------------------------------------------------------------------
 */

static void load_param(attune__warp *w, const attune__ins *i, uint32_t active) {
  const uint32_t count = i->operands - 1, bytes = BYTES(i->opcode->data) * count;
  const uint32_t limit = w->engine->launch->program->param_bytes;
  uint64_t address[ATTUNE__LANES];
  attune__global_addresses(w, i, count, address);
  for (uint32_t left = active; left; left &= left - 1) {
    uint32_t l = attune__first(left);
    uint64_t at = address[l] - ATTUNE__PARAM_SPACE;
    if (at > limit || bytes > limit - at)
      attune__fault(w, (int)l, "ld.param: %u bytes at byte %lld of a parameter of %u", bytes,
                    (long long)at, limit);
    for (uint32_t k = 0; k < count; k++)
      put_lane(w, i, k, l,
               get(w->engine->launch->params + at + k * BYTES(i->opcode->data), i->opcode->data));
  }
}

/* ---- global memory ----------------------------------------------------------------------------
 */

static void load_global(attune__warp *w, const attune__ins *i, uint32_t active) {
  const uint32_t count = i->operands - 1, each = BYTES(i->opcode->data);
  uint64_t address[ATTUNE__LANES];
  attune__global_addresses(w, i, count, address);
  for (uint32_t left = active; left; left &= left - 1) {
    uint32_t l = attune__first(left);
    const unsigned char *from =
        attune__gmem_access(w, (int)l, address[l], each * count, 0, "ld.global");
    for (uint32_t k = 0; k < count; k++)
      put_lane(w, i, k, l, narrowed(get(from + k * each, i->opcode->data), i));
  }
  if (w->engine->checks) attune__gmem_sectors(w, active, address, each * count, 0);
}

static void store_global(attune__warp *w, const attune__ins *i, uint32_t active) {
  const uint32_t count = i->operands - 1, each = BYTES(i->opcode->data);
  uint64_t address[ATTUNE__LANES];
  attune__global_addresses(w, i, 0, address);
  for (uint32_t left = active; left; left &= left - 1) {
    uint32_t l = attune__first(left);
    unsigned char *to = attune__gmem_access(w, (int)l, address[l], each * count, 1, "st.global");
    for (uint32_t k = 0; k < count; k++) {
      uint64_t value = lane_of(w, i, k + 1, l);
      memcpy(to + k * each, &value, each);
    }
  }
  if (w->engine->checks) attune__gmem_sectors(w, active, address, each * count, 1);
}

/* ---- shared memory ----------------------------------------------------------------------------
 */

/* 32-bit elements: the common case has its own path (smem_lanes.c). */
static void load_words(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t address[ATTUNE__LANES];
  attune__shared_addresses(w, i, i->operands - 1, address);
  attune__smem_load(w, i, active, 0, i->operands - 1, address);
}

static void store_words(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t address[ATTUNE__LANES];
  attune__shared_addresses(w, i, 0, address);
  attune__smem_store(w, i, active, 1, i->operands - 1, address);
}

static void load_shared(attune__warp *w, const attune__ins *i, uint32_t active) {
  const uint32_t count = i->operands - 1, each = BYTES(i->opcode->data), bytes = each * count;
  uint32_t address[ATTUNE__LANES], offset;
  attune__smem *m;
  attune__shared_addresses(w, i, count, address);
  for (uint32_t left = active; left; left &= left - 1) {
    uint32_t l = attune__first(left);
    const unsigned char *from =
        attune__smem_at(w, (int)l, address[l], bytes, "ld.shared", &m, &offset);
    attune__smem_read(w, (int)l, m, offset, bytes, ATTUNE__GENERIC, "ld.shared");
    for (uint32_t k = 0; k < count; k++)
      put_lane(w, i, k, l, narrowed(get(from + k * each, i->opcode->data), i));
  }
  if (w->engine->checks) attune__smem_count(w, active, address, bytes, 0);
}

static void store_shared(attune__warp *w, const attune__ins *i, uint32_t active) {
  const uint32_t count = i->operands - 1, each = BYTES(i->opcode->data), bytes = each * count;
  uint32_t address[ATTUNE__LANES], offset;
  attune__smem *m;
  attune__shared_addresses(w, i, 0, address);
  for (uint32_t left = active; left; left &= left - 1) {
    uint32_t l = attune__first(left);
    unsigned char *to = attune__smem_at(w, (int)l, address[l], bytes, "st.shared", &m, &offset);
    attune__smem_write(w, (int)l, m, offset, bytes, ATTUNE__GENERIC, ATTUNE__CELL_WRITTEN,
                       "st.shared");
    for (uint32_t k = 0; k < count; k++) {
      uint64_t value = lane_of(w, i, k + 1, l);
      memcpy(to + k * each, &value, each);
    }
  }
  if (w->engine->checks) attune__smem_count(w, active, address, bytes, 1);
}

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(name, operands, run, data)                                                             \
  { name, operands, run, 0, data, NULL }
#define NARROW(name, operands, run, data, flag)                                                    \
  { name, operands, run, flag, data, NULL }

/* One element and vectors of two and four; V2 for 64-bit ones. */
#define LOAD(op, type, R, at, run, data)                                                           \
  ROW(op type, R "," at, run, data), ROW(op ".v2" type, "{" R "," R "}," at, run, data),           \
      ROW(op ".v4" type, "{" R "," R "," R "," R "}," at, run, data)
#define LOAD2(op, type, R, at, run, data)                                                          \
  ROW(op type, R "," at, run, data), ROW(op ".v2" type, "{" R "," R "}," at, run, data)
#define STORE(op, type, r, at, run, data)                                                          \
  ROW(op type, at "," r, run, data), ROW(op ".v2" type, at ",{" r "," r "}", run, data),           \
      ROW(op ".v4" type, at ",{" r "," r "," r "," r "}", run, data)
#define STORE2(op, type, r, at, run, data)                                                         \
  ROW(op type, at "," r, run, data), ROW(op ".v2" type, at ",{" r "," r "}", run, data)

#define LOAD_TYPES(op, at, run)                                                                    \
  LOAD(op, ".b32", "W", at, run, 4), LOAD(op, ".u32", "W", at, run, 4),                            \
      LOAD(op, ".s32", "W", at, run, 4), LOAD(op, ".f32", "W", at, run, 4),                        \
      LOAD2(op, ".b64", "D", at, run, 8), LOAD2(op, ".u64", "D", at, run, 8),                      \
      LOAD2(op, ".s64", "D", at, run, 8), LOAD(op, ".b16", "H", at, run, 2),                       \
      LOAD(op, ".u16", "H", at, run, 2), ROW(op ".s16", "H," at, run, 2),                          \
      ROW(op ".u16", "W," at, run, 2), ROW(op ".s16", "W," at, run, 2 | SIGNED),                   \
      ROW(op ".u8", "H," at, run, 1), ROW(op ".s8", "H," at, run, 1 | SIGNED),                     \
      ROW(op ".u8", "W," at, run, 1), ROW(op ".s8", "W," at, run, 1 | SIGNED),                     \
      ROW(op ".u32", "D," at, run, 4), ROW(op ".s32", "D," at, run, 4 | SIGNED)
#define STORE_TYPES(op, at, run)                                                                   \
  STORE(op, ".b32", "w", at, run, 4), STORE(op, ".u32", "w", at, run, 4),                          \
      STORE(op, ".s32", "w", at, run, 4), STORE(op, ".f32", "w", at, run, 4),                      \
      STORE2(op, ".b64", "d", at, run, 8), STORE2(op, ".u64", "d", at, run, 8),                    \
      STORE(op, ".b16", "h", at, run, 2), STORE(op, ".u16", "h", at, run, 2),                      \
      ROW(op ".b8", at ",h", run, 1), ROW(op ".u8", at ",h", run, 1)
#define SHARED_WORDS(type)                                                                         \
  LOAD("ld.shared", type, "W", "[s]", load_words, 4),                                              \
      STORE("st.shared", type, "w", "[s]", store_words, 4)

static const attune__opcode rows[] = {
    LOAD_TYPES("ld.param", "[a]", load_param),
    LOAD_TYPES("ld.global", "[g]", load_global),
    LOAD_TYPES("ld.global.nc", "[g]", load_global),
    LOAD_TYPES("ld.volatile.global", "[g]", load_global),
    STORE_TYPES("st.global", "[g]", store_global),
    STORE_TYPES("st.volatile.global", "[g]", store_global),

    SHARED_WORDS(".b32"),
    SHARED_WORDS(".u32"),
    SHARED_WORDS(".s32"),
    SHARED_WORDS(".f32"),
    ROW("ld.shared.u32", "D,[s]", load_shared, 4),
    ROW("ld.shared.s32", "D,[s]", load_shared, 4 | SIGNED),
    LOAD2("ld.shared", ".b64", "D", "[s]", load_shared, 8),
    LOAD2("ld.shared", ".u64", "D", "[s]", load_shared, 8),
    STORE2("st.shared", ".b64", "d", "[s]", store_shared, 8),
    STORE2("st.shared", ".u64", "d", "[s]", store_shared, 8),
    NARROW("ld.shared.b16", "H,[s]", load_shared, 2, ATTUNE__OP_SHARED16),
    NARROW("ld.shared.u16", "H,[s]", load_shared, 2, ATTUNE__OP_SHARED16),
    NARROW("st.shared.b16", "[s],h", store_shared, 2, ATTUNE__OP_SHARED16),
    NARROW("st.shared.u16", "[s],h", store_shared, 2, ATTUNE__OP_SHARED16),
    NARROW("ld.shared.u8", "H,[s]", load_shared, 1, ATTUNE__OP_SHARED8),
    NARROW("st.shared.b8", "[s],h", store_shared, 1, ATTUNE__OP_SHARED8),
    NARROW("st.shared.u8", "[s],h", store_shared, 1, ATTUNE__OP_SHARED8),
    NARROW("st.shared.v2.u8", "[s],{h,h}", store_shared, 1, ATTUNE__OP_SHARED8),
    NARROW("st.shared.v4.u8", "[s],{h,h,h,h}", store_shared, 1, ATTUNE__OP_SHARED8),
};
const attune__opcodes attune__ops_memory = {rows, sizeof rows / sizeof *rows};
