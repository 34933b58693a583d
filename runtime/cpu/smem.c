/* smem.c - shared memory and its shadow: bounds, initialisation, races, proxies.
 *
 * Input: accesses as opcodes make them. Output: the bytes, or a fault. A race is a pair of accesses
 * of which neither is ordered before the other, one being a write: the shadow keeps what it needs
 * to see that at the second of them, in any schedule. Which orders there are is clock.c's.
 *
 * Most reads repeat one that the warp has made since its last synchronisation, and are known good
 * by its time alone: that is the quick path of attune__smem_load. */
#include "engine.h"

#include <stdlib.h>

/* ---- making ------------------------------------------------------------------------------------
 */

attune_status attune__smem_init(attune__smem *m, uint32_t size, uint32_t granule, uint32_t warps,
                                int checks) {
  m->size = size;
  m->shift = granule == 4 ? 2 : granule == 2 ? 1 : 0;
  m->cells = (size + granule - 1) >> m->shift;
  size_t cells = m->cells + 1u; /* of a kernel without shared memory, too */
  m->bytes = aligned_alloc(1024, (size_t)(size / 1024 + 1) * 1024);
  if (checks) {
    m->cell = calloc(cells, sizeof *m->cell);
    m->readers = calloc(cells, sizeof *m->readers);
    m->pins = calloc(cells, sizeof *m->pins);
    m->read_time = calloc(cells * warps, sizeof *m->read_time);
    m->read_lane = calloc(cells * warps, sizeof *m->read_lane);
  }
  int complete = m->cell && m->readers && m->pins && m->read_time && m->read_lane;
  if (m->bytes && (complete || !checks)) return ATTUNE_OK;
  return attune_fail(ATTUNE_NO_MEMORY, "no memory for %u bytes of shared memory", size);
}

/* Fresh bytes are a NaN in every format, so that numbers go wrong where checks are off. */
void attune__smem_reset(attune__smem *m, uint32_t warps) {
  memset(m->bytes, 0xff, m->size);
  if (!m->cell) return;
  memset(m->cell, 0, m->cells * sizeof *m->cell);
  memset(m->readers, 0, m->cells * sizeof *m->readers);
  memset(m->pins, 0, m->cells * sizeof *m->pins);
  memset(m->read_time, 0, (size_t)m->cells * warps * sizeof *m->read_time);
}

void attune__smem_free(attune__smem *m) {
  free(m->bytes), free(m->cell), free(m->readers), free(m->pins);
  free(m->read_time), free(m->read_lane);
}

/* ---- addresses --------------------------------------------------------------------------------
 */

static attune__smem *block_of(attune__warp *w, int lane, uint32_t address, const char *what) {
  uint32_t rank = address >> ATTUNE__SHARED_RANK_SHIFT;
  if (rank == 0) return &w->block->smem;
  if (rank > w->engine->blocks)
    attune__fault(w, lane, "%s: shared address 0x%x is of block %u in a cluster of %u", what,
                  address, rank - 1, w->engine->blocks);
  return &w->engine->block[rank - 1].smem;
}

unsigned char *attune__smem_at(attune__warp *w, int lane, uint32_t address, uint32_t bytes,
                               const char *what, attune__smem **m, uint32_t *offset) {
  *m = block_of(w, lane, address, what);
  *offset = (address & ((1u << ATTUNE__SHARED_RANK_SHIFT) - 1)) - ATTUNE__SHARED_BASE;
  uint32_t align = bytes < 16 ? bytes : 16;
  if (*offset >= (*m)->size || bytes > (*m)->size - *offset)
    attune__fault(w, lane, "%s: %u bytes at byte %d of the block's %u bytes of shared memory", what,
                  bytes, (int)*offset, (*m)->size);
  if (*offset & (align - 1))
    attune__fault(w, lane, "%s: byte %u of shared memory is not aligned to %u", what, *offset,
                  align);
  return (*m)->bytes + *offset;
}

/* ---- checks -----------------------------------------------------------------------------------
 */

/* Who wrote a cell, for reports. */
static const char *writer_name(const attune__engine *e, const attune__cell *c, char out[32]) {
  if (c->writer >= e->warps) return "an asynchronous copy";
  const attune__warp *w = &e->warp[c->writer];
  size_t n = 0;
  const char *text = "warp ";
  while (text[n]) out[n] = text[n], n++;
  if (w->index >= 10) out[n++] = (char)('0' + w->index / 10);
  out[n++] = (char)('0' + w->index % 10);
  out[n] = 0;
  return out;
}

static uint32_t byte_of(const attune__smem *m, uint32_t cell) {
  return cell << m->shift;
}

static int seen_by_async(const attune__warp *w, const attune__cell *c) {
  return w->clock[ATTUNE__AGENTS_MAX + c->writer] >= c->time;
}

static void check_state(attune__warp *w, int lane, const attune__smem *m, uint32_t k,
                        const char *what) {
  switch (m->cell[k].state) {
    case ATTUNE__CELL_EMPTY:
      attune__fault(w, lane, "%s reads byte %u of shared memory, which nothing has written", what,
                    byte_of(m, k));
    case ATTUNE__CELL_IN_FLIGHT:
      attune__fault(w, lane,
                    "%s reads byte %u of shared memory while an asynchronous copy to it is under "
                    "way: a wait is missing",
                    what, byte_of(m, k));
    case ATTUNE__CELL_MBARRIER:
      attune__fault(w, lane, "%s reads an mbarrier, at byte %u of shared memory", what,
                    byte_of(m, k));
  }
}

/* does: "reads", "overwrites". */
static void check_written(attune__warp *w, int lane, const attune__smem *m, uint32_t k,
                          attune__proxy proxy, const char *what, const char *does) {
  const attune__cell *c = &m->cell[k];
  char name[32];
  if (w->clock[c->writer] < c->time)
    attune__fault(w, lane, "race: %s %s byte %u of shared memory, which %s wrote, with no %s", what,
                  does, byte_of(m, k), writer_name(w->engine, c, name),
                  c->writer < w->engine->warps ? "barrier between" : "wait at its mbarrier");
  if (proxy == ATTUNE__ASYNC && c->proxy == ATTUNE__GENERIC && !seen_by_async(w, c))
    attune__fault(w, lane,
                  "%s %s byte %u of shared memory through the asynchronous proxy; %s wrote it with "
                  "no fence.proxy.async between",
                  what, does, byte_of(m, k), writer_name(w->engine, c, name));
}

/* Whether the cell's last write is this warp's, with no __syncwarp since. */
static int fresh(const attune__warp *w, const attune__cell *c, attune__proxy proxy) {
  return c->writer == w->agent && c->time == w->clock[w->agent] && proxy == ATTUNE__GENERIC &&
         c->proxy == ATTUNE__GENERIC && c->state == ATTUNE__CELL_WRITTEN;
}

/* Everything but the ordinary case: written by somebody that this warp is ordered after. Returns
 * whether the read is to be recorded. */
static __attribute__((noinline)) int judge_read(attune__warp *w, int lane, const attune__smem *m,
                                                uint32_t k, attune__proxy proxy, const char *what) {
  const attune__cell *c = &m->cell[k];
  if (c->state != ATTUNE__CELL_WRITTEN) check_state(w, lane, m, k, what);
  check_written(w, lane, m, k, proxy, what, "reads");
  if (!fresh(w, c, proxy)) return 1;
  if (c->lane != lane)
    attune__fault(
        w, lane,
        "race: %s reads byte %u of shared memory, which lane %d of the warp wrote, with no "
        "__syncwarp between",
        what, byte_of(m, k), c->lane);
  return 0; /* who is ordered after the write is ordered after this, too */
}

/* Whether a generic read of the cell is the ordinary case. */
static inline int is_ordinary(const attune__warp *w, const attune__cell *c) {
  return c->state == ATTUNE__CELL_WRITTEN && w->clock[c->writer] >= c->time &&
         (c->writer != w->agent || c->time < w->clock[w->agent]);
}

static inline void read_cell(attune__warp *w, int lane, attune__smem *m, uint32_t k,
                             attune__proxy proxy, const char *what) {
  uint32_t now = w->clock[w->agent];
  int ordinary = proxy == ATTUNE__GENERIC && is_ordinary(w, &m->cell[k]);
  if (!ordinary && !judge_read(w, lane, m, k, proxy, what)) return;
  uint32_t *time = &m->read_time[(size_t)w->agent * m->cells + k];
  int8_t *reader = &m->read_lane[(size_t)w->agent * m->cells + k];
  *reader = (int8_t)(*time == now && *reader != lane ? -1 : lane);
  *time = now;
  m->readers[k] |= UINT64_C(1) << w->agent;
}

/* Four cells that one access wrote, and that the warp reads for the first time since it
 * synchronised: at once. 0: they are not that. */
static inline int read_four(attune__warp *w, int lane, attune__smem *m, uint32_t k) {
  const attune__cell *c = &m->cell[k];
  const uint32_t now = w->clock[w->agent];
  uint32_t *time = &m->read_time[(size_t)w->agent * m->cells + k];
  uint64_t cells[4];
  memcpy(cells, c, sizeof cells);
  if (((cells[0] ^ cells[1]) | (cells[0] ^ cells[2]) | (cells[0] ^ cells[3])) != 0) return 0;
  if (time[0] == now || time[1] == now || time[2] == now || time[3] == now) return 0;
  if (!is_ordinary(w, c)) return 0;
  for (int n = 0; n < 4; n++) time[n] = now;
  for (int n = 0; n < 4; n++) m->readers[k + (unsigned)n] |= UINT64_C(1) << w->agent;
  memset(&m->read_lane[(size_t)w->agent * m->cells + k], lane, 4);
  return 1;
}

/* The reads since the last write must all be ordered before this write. */
static void check_readers(attune__warp *w, int lane, const attune__smem *m, uint32_t k,
                          attune__proxy proxy, const char *what) {
  for (uint64_t left = m->readers[k]; left; left &= left - 1) {
    uint32_t v = (uint32_t)__builtin_ctzll(left);
    uint32_t time = m->read_time[(size_t)v * m->cells + k];
    if (v != w->agent && time > w->clock[v])
      attune__fault(w, lane,
                    "race: %s overwrites byte %u of shared memory, which warp %u read, with no "
                    "barrier between",
                    what, byte_of(m, k), w->engine->warp[v].index);
    int8_t reader = m->read_lane[(size_t)v * m->cells + k];
    if (v == w->agent && proxy == ATTUNE__GENERIC && lane >= 0 && reader >= 0 &&
        time == w->clock[v] && reader != lane)
      attune__fault(w, lane,
                    "race: %s overwrites byte %u of shared memory, which lane %d of the warp read, "
                    "with no __syncwarp between",
                    what, byte_of(m, k), reader);
  }
}

static __attribute__((noinline)) void check_overwrite(attune__warp *w, int lane,
                                                      const attune__smem *m, uint32_t k,
                                                      attune__proxy proxy, const char *what) {
  const attune__cell *c = &m->cell[k];
  if (m->pins[k])
    attune__fault(w, lane,
                  "%s overwrites byte %u of shared memory while asynchronous work reads it", what,
                  byte_of(m, k));
  if (c->state == ATTUNE__CELL_IN_FLIGHT)
    attune__fault(
        w, lane,
        "%s overwrites byte %u of shared memory while an asynchronous copy to it is under "
        "way",
        what, byte_of(m, k));
  if (c->state == ATTUNE__CELL_MBARRIER)
    attune__fault(w, lane, "%s overwrites an mbarrier, at byte %u of shared memory", what,
                  byte_of(m, k));
  if (c->state == ATTUNE__CELL_EMPTY) return;
  check_written(w, lane, m, k, proxy, what, "overwrites");
  if (fresh(w, c, proxy) && c->lane != lane)
    attune__fault(w, lane,
                  "race: %s overwrites byte %u of shared memory, which lane %d of the warp wrote, "
                  "with no __syncwarp between",
                  what, byte_of(m, k), c->lane);
}

static inline void write_cell(attune__warp *w, int lane, attune__smem *m, uint32_t k,
                              attune__proxy proxy, attune__cell_state state, const char *what) {
  const attune__cell *c = &m->cell[k];
  uint32_t now = w->clock[w->agent];
  int ordinary = c->state <= ATTUNE__CELL_WRITTEN && proxy == ATTUNE__GENERIC && !m->pins[k] &&
                 w->clock[c->writer] >= c->time && (c->writer != w->agent || c->time < now);
  if (!ordinary) check_overwrite(w, lane, m, k, proxy, what);
  if (m->readers[k]) check_readers(w, lane, m, k, proxy, what);
  m->readers[k] = 0;
  m->read_time[(size_t)w->agent * m->cells + k] = 0;
  m->cell[k] = (attune__cell){.time = now,
                              .writer = (uint8_t)w->agent,
                              .lane = (int8_t)lane,
                              .state = (uint8_t)state,
                              .proxy = (uint8_t)proxy};
}

/* ---- accesses ---------------------------------------------------------------------------------
 */

static uint32_t end_cell(const attune__smem *m, uint32_t offset, uint32_t bytes) {
  return (offset + bytes + (1u << m->shift) - 1) >> m->shift;
}

void attune__smem_read(attune__warp *w, int lane, attune__smem *m, uint32_t offset, uint32_t bytes,
                       attune__proxy proxy, const char *what) {
  if (!m->cell) return;
  uint32_t k = offset >> m->shift, end = end_cell(m, offset, bytes);
  while (proxy == ATTUNE__GENERIC && end - k >= 4 && read_four(w, lane, m, k)) k += 4;
  for (; k < end; k++) read_cell(w, lane, m, k, proxy, what);
}

void attune__smem_write(attune__warp *w, int lane, attune__smem *m, uint32_t offset, uint32_t bytes,
                        attune__proxy proxy, attune__cell_state state, const char *what) {
  if (!m->cell) return;
  for (uint32_t k = offset >> m->shift; k < end_cell(m, offset, bytes); k++)
    write_cell(w, lane, m, k, proxy, state, what);
}

void attune__smem_landed(attune__smem *m, uint32_t offset, uint32_t bytes, uint32_t agent,
                         uint32_t time, attune__proxy proxy) {
  if (!m->cell) return;
  for (uint32_t k = offset >> m->shift; k < end_cell(m, offset, bytes); k++)
    m->cell[k] = (attune__cell){.time = time,
                                .writer = (uint8_t)agent,
                                .lane = -1,
                                .state = ATTUNE__CELL_WRITTEN,
                                .proxy = (uint8_t)proxy};
}

void attune__smem_pin(attune__smem *m, uint32_t offset, uint32_t bytes, int change) {
  if (!m->cell) return;
  for (uint32_t k = offset >> m->shift; k < end_cell(m, offset, bytes); k++)
    m->pins[k] = (uint16_t)(m->pins[k] + change);
}

void attune__smem_poison(attune__smem *m, uint32_t offset, uint32_t bytes) {
  memset(m->bytes + offset, 0xff, bytes);
}
