/* smem_lanes.c - shared-memory accesses of a whole warp: ld.shared and st.shared, and their counts.
 *
 * Input: an address per lane. Output: registers or bytes; bank phases by the rule that a warp's
 * access goes in turns of 128 bytes, and a turn takes as many phases as one bank has different
 * words to give. */
#include "engine.h"

/* ---- counting ---------------------------------------------------------------------------------
 */

/* Phases of the lanes [first, end) of one turn; unit: log2 of the bytes of an access. */
static uint32_t phases(uint32_t active, const uint32_t *address, uint32_t first, uint32_t end,
                       uint32_t unit) {
  uint32_t banks = 128u >> unit, most = 0;
  uint8_t load[128] = {0};
  for (uint32_t l = first; l < end; l++) {
    if (!(active >> l & 1)) continue;
    uint32_t word = address[l] >> unit, known = 0;
    for (uint32_t k = first; k < l && !known; k++)
      known = active >> k & 1 && address[k] >> unit == word;
    if (!known && ++load[word % banks] > most) most = load[word % banks];
  }
  return most;
}

/* Whether no bank is asked for two words: the usual case, found without comparing pairs. */
static int free_of_conflicts(const uint32_t *address, uint32_t first, uint32_t end, uint32_t unit) {
  uint32_t banks = 128u >> unit, taken[32], seen = 0;
  for (uint32_t l = first; l < end; l++) {
    uint32_t word = address[l] >> unit, bank = word & (banks - 1);
    if (seen >> bank & 1 && taken[bank] != word) return 0;
    seen |= 1u << bank;
    taken[bank] = word;
  }
  return 1;
}

void attune__smem_count(attune__warp *w, uint32_t active, const uint32_t address[ATTUNE__LANES],
                        uint32_t bytes, int store) {
  attune_cpu_counters *c = &w->engine->count;
  uint32_t unit = (uint32_t)__builtin_ctz(bytes < 4 ? 4 : bytes);
  uint32_t lanes = bytes <= 4 ? 32 : 128u >> unit; /* of a turn */
  *(store ? &c->smem_write : &c->smem_read) +=
      (uint64_t)bytes * (unsigned)__builtin_popcount(active);
  for (uint32_t first = 0; first < ATTUNE__LANES; first += lanes) {
    uint32_t turn = active >> first & (lanes == 32 ? ATTUNE__FULL : (1u << lanes) - 1);
    if (!turn) continue;
    c->smem_phases_least++;
    c->smem_phases +=
        active == ATTUNE__FULL && free_of_conflicts(address, first, first + lanes, unit)
            ? 1
            : phases(active, address, first, first + lanes, unit);
  }
}

/* ---- loads and stores -------------------------------------------------------------------------
 */

/* Bytes from the start of the block's shared memory; a fault for a lane that is out of bounds or
 * not aligned. */
static void offsets(attune__warp *w, uint32_t active, const uint32_t address[ATTUNE__LANES],
                    uint32_t bytes, const char *what, uint32_t offset[ATTUNE__LANES]) {
  const uint32_t size = w->block->smem.size, last = size >= bytes ? size - bytes : 0;
  uint32_t bad = size < bytes ? active : 0;
  for (uint32_t l = 0; l < ATTUNE__LANES; l++) {
    offset[l] = address[l] - ATTUNE__SHARED_BASE;
    bad |= (uint32_t)(offset[l] > last || offset[l] & (bytes - 1)) << l;
  }
  if (!(bad & active)) return;
  int lane = (int)attune__first(bad & active);
  attune__smem *m;
  attune__smem_at(w, lane, address[lane], bytes, what, &m, &offset[lane]);
  attune__fault(w, lane, "%s: shared address 0x%x is of another block of the cluster", what,
                address[lane]);
}

/* Whether the warp has read these cells since its last synchronisation. */
static inline int known_good(const uint32_t *time, uint32_t cells, uint32_t now) {
  uint32_t differ = 0;
  for (uint32_t k = 0; k < cells; k++) differ |= time[k] ^ now;
  return !differ;
}

static void check_load(attune__warp *w, uint32_t active, const uint32_t offset[ATTUNE__LANES],
                       uint32_t bytes) {
  attune__smem *m = &w->block->smem;
  const uint32_t *time = m->read_time + (size_t)w->agent * m->cells;
  const uint32_t now = w->clock[w->agent], cells = bytes >> m->shift;
  for (uint32_t l = 0; l < ATTUNE__LANES; l++) {
    if (!(active >> l & 1) || known_good(time + (offset[l] >> m->shift), cells, now)) continue;
    attune__smem_read(w, (int)l, m, offset[l], bytes, ATTUNE__GENERIC, "ld.shared");
  }
}

void attune__smem_load(attune__warp *w, const attune__ins *i, uint32_t active, uint32_t first,
                       uint32_t words, const uint32_t address[ATTUNE__LANES]) {
  uint32_t offset[ATTUNE__LANES], *d[4] = {0};
  offsets(w, active, address, 4 * words, "ld.shared", offset);
  if (w->engine->checks) {
    check_load(w, active, offset, 4 * words);
    attune__smem_count(w, active, address, 4 * words, 0);
  }
  for (uint32_t k = 0; k < words; k++) d[k] = attune__r32(w, i, first + k);
  for (uint32_t left = active; left; left &= left - 1) {
    uint32_t l = attune__first(left), value[4];
    memcpy(value, w->block->smem.bytes + offset[l], 4 * (size_t)words);
    for (uint32_t k = 0; k < words; k++) d[k][l] = value[k];
  }
}

void attune__smem_store(attune__warp *w, const attune__ins *i, uint32_t active, uint32_t first,
                        uint32_t words, const uint32_t address[ATTUNE__LANES]) {
  uint32_t offset[ATTUNE__LANES];
  offsets(w, active, address, 4 * words, "st.shared", offset);
  if (w->engine->checks) attune__smem_count(w, active, address, 4 * words, 1);
  for (uint32_t left = active; left; left &= left - 1) {
    uint32_t l = attune__first(left), value[4];
    if (w->engine->checks)
      attune__smem_write(w, (int)l, &w->block->smem, offset[l], 4 * words, ATTUNE__GENERIC,
                         ATTUNE__CELL_WRITTEN, "st.shared");
    for (uint32_t k = 0; k < words; k++) value[k] = attune__r32(w, i, first + k)[l];
    memcpy(w->block->smem.bytes + offset[l], value, 4 * (size_t)words);
  }
}
