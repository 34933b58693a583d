/* wgmma.h - what wgmma instructions of a warp have unfinished, and their matrices in shared memory.
 *
 *   ptx_ops_wgmma.c     the opcodes; computes at issue
 *   wgmma.c             groups: registers in flight, shared memory that is still read
 *   wgmma_matrix.c      descriptors: where a matrix's bytes are */
#ifndef ATTUNE_CPU_WGMMA_H
#define ATTUNE_CPU_WGMMA_H

#include "mma.h"

enum { ATTUNE__WGMMA_N_MAX = 256, ATTUNE__WGMMA_CHUNKS = 2 /* of k, of every type */ };

/* ---- groups ------------------------------------------------------------------------------------
 */

void attune__wgmma_fence(attune__warp *w);
void attune__wgmma_commit(attune__warp *w);
/* Until at most `keep` groups are unfinished. */
void attune__wgmma_wait(attune__warp *w, uint32_t keep);

/* An instruction begins: `results` operands are accumulators, `sources` after them hold A (0: A is
 * in shared memory). Faults: registers in use, written with no fence since, no whole warpgroup. */
void attune__wgmma_begin(attune__warp *w, const attune__ins *ins, uint32_t results,
                         uint32_t sources);
/* The instruction that has begun reads these bytes of its block until its group is waited for. */
void attune__wgmma_reads(attune__warp *w, uint32_t offset, uint32_t bytes);

/* Whether an opcode is wgmma.mma_async (ptx_ops_wgmma.c). */
int attune__is_wgmma(const attune__opcode *opcode);

/* ---- matrices ----------------------------------------------------------------------------------
 */

typedef struct attune__matrix {
  uint32_t start;           /* shared address */
  uint32_t leading, stride; /* byte offsets, see wgmma_matrix.c */
  uint32_t swizzle;         /* code of the descriptor: 0 none, 1 128 bytes, 2 64, 3 32 */
} attune__matrix;

/* A fault for what the CPU device doesn't know: a base offset, unused bits that are set. */
attune__matrix attune__matrix_decode(attune__warp *w, uint64_t descriptor, const char *what);

/* Chunks of rows [row, row + rows), two a row, from a K-major matrix: out[row][2]. */
void attune__matrix_rows(attune__warp *w, const attune__matrix *m, uint32_t row, uint32_t rows,
                         unsigned char *out, const char *what);
/* Chunks of 8 rows from an MN-major matrix of 16-bit elements, one for each k of 16, for 8-row
 * groups [group, group + groups): out[group][16]. */
void attune__matrix_columns(attune__warp *w, const attune__matrix *m, uint32_t group,
                            uint32_t groups, unsigned char *out, const char *what);

#endif
