/* wgmma_matrix.c - matrices of wgmma in shared memory: descriptors, swizzles, chunks of 16 bytes.
 *
 * Input: a 64-bit descriptor; output: the bytes of rows or columns, with the reads checked and
 * recorded. A swizzle of W bytes exchanges chunks by their absolute shared address.
 *
 *   K-major    row r, chunk c of k        MN-major   chunk j of 8 rows, k
 *   swizzled   r/8 * stride + r%8 * W     j/(W/16) * leading + j%(W/16) * 16
 *              + 16 c                     + k/8 * stride + k%8 * W
 *   none       r/8 * stride + r%8 * 16    j * stride + k/8 * leading + k%8 * 16
 *              + c * leading
 *
 * (The layouts are those that CUTLASS documents in mma_traits_sm90_gmma.hpp; an H200 agrees, see
 * tests/conformance.) */
#include "wgmma.h"

enum { CHUNKS_MAX = ATTUNE__WGMMA_N_MAX * ATTUNE__WGMMA_CHUNKS, COLUMN = 16 /* k of a column */ };

attune__matrix attune__matrix_decode(attune__warp *w, uint64_t d, const char *what) {
  const uint64_t fields = UINT64_C(0x3fff) | UINT64_C(0x3fff) << 16 | UINT64_C(0x3fff) << 32 |
                          UINT64_C(7) << 49 | UINT64_C(3) << 62;
  if (d & ~fields)
    attune__fault(w, -1, "%s: bits 0x%llx of the descriptor have no meaning", what,
                  (unsigned long long)(d & ~fields));
  if (d >> 49 & 7)
    attune__fault(w, -1,
                  "%s: base offset %u in the descriptor; align the swizzle's pattern and use 0",
                  what, (unsigned)(d >> 49 & 7));
  return (attune__matrix){(uint32_t)(d & 0x3fff) << 4, (uint32_t)(d >> 16 & 0x3fff) << 4,
                          (uint32_t)(d >> 32 & 0x3fff) << 4, (uint32_t)(d >> 62)};
}

static uint32_t width(const attune__matrix *m) { /* of a swizzled row, bytes */
  static const uint32_t bytes[] = {16, 128, 64, 32};
  return bytes[m->swizzle];
}

static uint32_t swizzle(const attune__matrix *m, uint32_t address) {
  static const uint32_t mask[] = {0, 7, 3, 1};
  return address ^ (address >> 7 & mask[m->swizzle]) << 4;
}

static uint32_t row_chunk(const attune__matrix *m, uint32_t r, uint32_t c) {
  uint32_t at = m->start + r / 8 * m->stride + r % 8 * width(m);
  return m->swizzle ? swizzle(m, at + 16 * c) : at + c * m->leading;
}

static uint32_t column_chunk(const attune__matrix *m, uint32_t j, uint32_t k) {
  uint32_t in_row = width(m) / 16;
  if (!m->swizzle) return m->start + j * m->stride + k / 8 * m->leading + k % 8 * 16;
  return swizzle(m, m->start + j / in_row * m->leading + j % in_row * 16 + k / 8 * m->stride +
                        k % 8 * width(m));
}

/* One run of adjacent chunks. */
static void check_run(attune__warp *w, uint32_t address, uint32_t bytes, const char *what) {
  attune__smem *m;
  uint32_t offset;
  attune__smem_at(w, -1, address, bytes, what, &m, &offset);
  if (!w->engine->checks) return;
  attune__smem_read(w, -1, m, offset, bytes, ATTUNE__ASYNC, what);
  attune__wgmma_reads(w, offset, bytes);
  w->engine->count.smem_read += bytes;
}

static void check(attune__warp *w, const uint32_t *address, uint32_t count, const char *what) {
  uint32_t begin = address[0], end = begin + ATTUNE__CHUNK;
  for (uint32_t i = 1; i < count; i++) {
    if (address[i] == end) {
      end += ATTUNE__CHUNK;
    } else if (address[i] + ATTUNE__CHUNK == begin) {
      begin = address[i];
    } else {
      check_run(w, begin, end - begin, what);
      begin = address[i], end = begin + ATTUNE__CHUNK;
    }
  }
  check_run(w, begin, end - begin, what);
}

static void copy(const attune__warp *w, uint32_t address, unsigned char *to) {
  memcpy(to, w->block->smem.bytes + (address - ATTUNE__SHARED_BASE), ATTUNE__CHUNK);
}

void attune__matrix_rows(attune__warp *w, const attune__matrix *m, uint32_t row, uint32_t rows,
                         unsigned char *out, const char *what) {
  uint32_t address[CHUNKS_MAX] = {0}, count = rows * ATTUNE__WGMMA_CHUNKS;
  for (uint32_t i = 0; i < count; i++) address[i] = row_chunk(m, row + i / 2, i % 2);
  check(w, address, count, what);
  for (uint32_t i = 0; i < count; i++) copy(w, address[i], out + i * ATTUNE__CHUNK);
}

void attune__matrix_columns(attune__warp *w, const attune__matrix *m, uint32_t group,
                            uint32_t groups, unsigned char *out, const char *what) {
  uint32_t address[CHUNKS_MAX] = {0}, count = groups * COLUMN;
  for (uint32_t i = 0; i < count; i++) address[i] = column_chunk(m, group + i % groups, i / groups);
  check(w, address, count, what);
  for (uint32_t i = 0; i < count; i++)
    copy(w, address[i], out + (i % groups * COLUMN + i / groups) * ATTUNE__CHUNK);
}
