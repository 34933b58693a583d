/* smem_lanes.c - shared-memory accesses of a whole warp: ld.shared and st.shared, and their counts.
 *
 * Input: an address per lane. Output: registers or bytes; bank phases by the rule that a warp's
 * access goes in turns of 128 bytes, and a turn takes as many phases as one bank has different
 * words to give.
 *
 * These are most of what a kernel does, so two things are remembered. Of an instruction: how its
 * lanes' addresses lay to each other, since phases and repeated addresses follow from that alone.
 * Of a cell: that the warp has read it since its last synchronisation, so that it may do so again.
 */
#include "lanes.h"

#include <stdlib.h>

/* ---- patterns ---------------------------------------------------------------------------------
 */

/* Phases of the lanes [first, end) of one turn; unit: log2 of the bytes of an access. */
static uint32_t phases(uint32_t active, const uint32_t *address, uint32_t first, uint32_t end,
                       uint32_t unit) {
  uint32_t banks = 128u >> unit, most = 0;
  uint8_t load[32] = {0};
  for (uint32_t l = first; l < end; l++) {
    if (!(active >> l & 1)) continue;
    uint32_t word = address[l] >> unit, known = 0;
    for (uint32_t k = first; k < l && !known; k++)
      known = active >> k & 1 && address[k] >> unit == word;
    if (!known && ++load[word % banks] > most) most = load[word % banks];
  }
  return most;
}

static void count_phases(uint32_t active, const uint32_t address[ATTUNE__LANES], uint32_t bytes,
                         uint32_t *taken, uint32_t *least) {
  uint32_t unit = (uint32_t)__builtin_ctz(bytes < 4 ? 4 : bytes), lanes = 128u >> unit;
  *taken = *least = 0;
  for (uint32_t first = 0; first < ATTUNE__LANES; first += lanes) {
    uint32_t most = phases(active, address, first, first + lanes, unit);
    *taken += most;
    *least += most > 0;
  }
}

void attune__smem_count(attune__warp *w, uint32_t active, const uint32_t address[ATTUNE__LANES],
                        uint32_t bytes, int store) {
  attune_cpu_counters *c = &w->engine->count;
  uint32_t taken, least;
  count_phases(active, address, bytes, &taken, &least);
  c->smem_phases += taken;
  c->smem_phases_least += least;
  *(store ? &c->smem_write : &c->smem_read) +=
      (uint64_t)bytes * (unsigned)__builtin_popcount(active);
}

/* How the lanes of an instruction lay to each other the last time that all were active. Shifting
 * them together shifts banks together. */
typedef struct attune__pattern {
  const attune__ins *ins;
  uint32_t shift[ATTUNE__LANES]; /* from lane 0's address */
  uint32_t leaders;              /* the first lane of each address */
  uint32_t alone;                /* those whose address no other lane has */
  uint32_t taken, least;         /* phases */
} pattern;

CLONES static int same_pattern(const pattern *p, const uint32_t *offset) {
  uint32_t differ = 0;
  for (int l = 0; l < ATTUNE__LANES; l++) differ |= (offset[l] - offset[0]) ^ p->shift[l];
  return !differ;
}

static void find_leaders(const uint32_t *offset, pattern *p) {
  p->leaders = p->alone = 0;
  for (uint32_t l = 0; l < ATTUNE__LANES; l++) {
    uint32_t k = 0;
    while (offset[k] != offset[l]) k++;
    if (k == l)
      p->leaders |= 1u << l, p->alone |= 1u << l;
    else
      p->alone &= ~(1u << k);
  }
}

static const pattern *pattern_of(attune__warp *w, const attune__ins *i, const uint32_t *offset,
                                 uint32_t bytes) {
  uint32_t index = (uint32_t)(i - w->engine->launch->program->ins) % ATTUNE__PATTERNS;
  pattern *p = &w->engine->pattern[index];
  if (p->ins == i && same_pattern(p, offset)) return p;
  p->ins = i;
  LANES p->shift[l] = offset[l] - offset[0];
  find_leaders(offset, p);
  count_phases(ATTUNE__FULL, offset, bytes, &p->taken, &p->least);
  return p;
}

attune_status attune__patterns_make(attune__engine *e) {
  e->pattern = calloc(ATTUNE__PATTERNS, sizeof *e->pattern);
  return e->pattern ? ATTUNE_OK : attune_fail(ATTUNE_NO_MEMORY, "no memory for access patterns");
}

/* Lanes to check; `alone` are checked as themselves, the others as several lanes at one address. */
typedef struct group {
  uint32_t lanes, alone;
} group;

/* Counts the access. */
static group count_lanes(attune__warp *w, const attune__ins *i, uint32_t active,
                         const uint32_t *offset, uint32_t bytes, int store) {
  if (active != ATTUNE__FULL) {
    attune__smem_count(w, active, offset, bytes, store);
    return (group){active, active};
  }
  attune_cpu_counters *c = &w->engine->count;
  const pattern *p = pattern_of(w, i, offset, bytes);
  c->smem_phases += p->taken;
  c->smem_phases_least += p->least;
  *(store ? &c->smem_write : &c->smem_read) += (uint64_t)bytes * ATTUNE__LANES;
  return (group){p->leaders, p->alone};
}

/* ---- addresses --------------------------------------------------------------------------------
 */

CLONES static uint32_t bad_lanes(const uint32_t *address, uint32_t last, uint32_t align,
                                 uint32_t *offset) {
  uint32_t bad = 0, any = 0;
  for (int l = 0; l < ATTUNE__LANES; l++) {
    offset[l] = address[l] - ATTUNE__SHARED_BASE;
    any |= (uint32_t)(offset[l] > last) | (offset[l] & (align - 1));
  }
  for (int l = 0; any && l < ATTUNE__LANES; l++)
    bad |= (uint32_t)(offset[l] > last || offset[l] & (align - 1)) << l;
  return bad;
}

/* Bytes from the start of the block's shared memory; a fault for a lane that is out of bounds or
 * not aligned. */
static void offsets(attune__warp *w, uint32_t active, const uint32_t address[ATTUNE__LANES],
                    uint32_t bytes, const char *what, uint32_t offset[ATTUNE__LANES]) {
  const uint32_t size = w->block->smem.size;
  uint32_t bad = size < bytes ? active : bad_lanes(address, size - bytes, bytes, offset) & active;
  if (!bad) return;
  int lane = (int)attune__first(bad);
  attune__smem *m;
  attune__smem_at(w, lane, address[lane], bytes, what, &m, &offset[lane]);
  attune__fault(w, lane, "%s: shared address 0x%x is of another block of the cluster", what,
                address[lane]);
}

/* ---- loads ------------------------------------------------------------------------------------
 */

/* Whether the warp has read these cells since its last synchronisation. */
static inline int known_good(const uint32_t *time, uint32_t cells, uint32_t now) {
  uint32_t differ = 0;
  for (uint32_t k = 0; k < cells; k++) differ |= time[k] ^ now;
  return !differ;
}

static int all_known_good(const attune__warp *w, uint32_t lanes, const uint32_t *offset,
                          uint32_t bytes) {
  const attune__smem *m = &w->block->smem;
  const uint32_t *time = m->read_time + (size_t)w->agent * m->cells;
  const uint32_t now = w->clock[w->agent], shift = m->shift, cells = bytes >> shift;
  for (uint32_t left = lanes; left; left &= left - 1) {
    const uint32_t *t = time + (offset[attune__first(left)] >> shift);
    if (cells == 4 ? !known_good(t, 4, now) : !known_good(t, cells, now)) return 0;
  }
  return 1;
}

static void check_load(attune__warp *w, const attune__ins *i, uint32_t active,
                       const uint32_t offset[ATTUNE__LANES], uint32_t bytes) {
  group g = count_lanes(w, i, active, offset, bytes, 0);
  if (all_known_good(w, g.lanes, offset, bytes)) return;
  for (uint32_t left = g.lanes; left; left &= left - 1) {
    uint32_t l = attune__first(left);
    attune__smem_read(w, g.alone >> l & 1 ? (int)l : -1, &w->block->smem, offset[l], bytes,
                      ATTUNE__GENERIC, "ld.shared");
  }
}

/* Four words a lane, all lanes: four lanes at a time as a 4 x 4 transposition. */
typedef uint32_t words4 __attribute__((vector_size(16), aligned(4), may_alias));

CLONES static void gather4(const unsigned char *bytes, const uint32_t *offset, uint32_t *d0,
                           uint32_t *d1, uint32_t *d2, uint32_t *d3) {
  for (int l = 0; l < ATTUNE__LANES; l += 4) {
    words4 a = *(const words4 *)(const void *)(bytes + offset[l]);
    words4 b = *(const words4 *)(const void *)(bytes + offset[l + 1]);
    words4 c = *(const words4 *)(const void *)(bytes + offset[l + 2]);
    words4 d = *(const words4 *)(const void *)(bytes + offset[l + 3]);
    words4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    words4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    words4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    words4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(words4 *)(void *)(d0 + l) = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(words4 *)(void *)(d1 + l) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(words4 *)(void *)(d2 + l) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(words4 *)(void *)(d3 + l) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
  }
}

void attune__smem_load(attune__warp *w, const attune__ins *i, uint32_t active, uint32_t first,
                       uint32_t words, const uint32_t address[ATTUNE__LANES]) {
  uint32_t offset[ATTUNE__LANES], *d[4] = {0};
  const unsigned char *bytes = w->block->smem.bytes;
  offsets(w, active, address, 4 * words, "ld.shared", offset);
  if (w->engine->checks) check_load(w, i, active, offset, 4 * words);
  for (uint32_t k = 0; k < words; k++) d[k] = attune__r32(w, i, first + k);
  if (words == 4 && active == ATTUNE__FULL) {
    gather4(bytes, offset, d[0], d[1], d[2], d[3]);
    return;
  }
  for (uint32_t left = active; left; left &= left - 1) {
    uint32_t l = attune__first(left), value[4];
    memcpy(value, bytes + offset[l], 4 * (size_t)words);
    for (uint32_t k = 0; k < words; k++) d[k][l] = value[k];
  }
}

/* ---- stores -----------------------------------------------------------------------------------
 */

void attune__smem_store(attune__warp *w, const attune__ins *i, uint32_t active, uint32_t first,
                        uint32_t words, const uint32_t address[ATTUNE__LANES]) {
  uint32_t offset[ATTUNE__LANES];
  offsets(w, active, address, 4 * words, "st.shared", offset);
  if (w->engine->checks) count_lanes(w, i, active, offset, 4 * words, 1);
  for (uint32_t left = active; left; left &= left - 1) {
    uint32_t l = attune__first(left), value[4];
    if (w->engine->checks)
      attune__smem_write(w, (int)l, &w->block->smem, offset[l], 4 * words, ATTUNE__GENERIC,
                         ATTUNE__CELL_WRITTEN, "st.shared");
    for (uint32_t k = 0; k < words; k++) value[k] = attune__r32(w, i, first + k)[l];
    memcpy(w->block->smem.bytes + offset[l], value, 4 * (size_t)words);
  }
}
