/* memory.h - what a kernel reads and writes, with the checks and the counts.
 *
 * Shared memory (smem.c) has a shadow: for each granule (4 bytes, or as fine as the kernel's
 * narrowest access) who wrote it, when, through which proxy, and who has read it since. Global
 * memory (gmem.c) is a list of tensors: an access belongs to the tensor that its pointer came from,
 * and must hit its elements, not just its allocation.
 *
 * With checks off both only move bytes, within bounds. */
#ifndef ATTUNE_CPU_MEMORY_H
#define ATTUNE_CPU_MEMORY_H

#include "../attune_cpu.h"
#include "ptx.h"

/* ---- shared memory -----------------------------------------------------------------------------
 */

typedef enum attune__cell_state {
  ATTUNE__CELL_EMPTY = 0, /* never written */
  ATTUNE__CELL_WRITTEN,
  ATTUNE__CELL_IN_FLIGHT, /* an asynchronous copy writes it and has not been waited for */
  ATTUNE__CELL_MBARRIER
} attune__cell_state;

typedef enum attune__proxy { ATTUNE__GENERIC = 0, ATTUNE__ASYNC = 1 } attune__proxy;

/* The last write of a granule. */
typedef struct attune__cell {
  uint32_t time;  /* of the writer */
  uint8_t writer; /* agent */
  int8_t lane;    /* -1: not one lane's */
  uint8_t state, proxy;
} attune__cell;

typedef struct attune__smem {
  unsigned char *bytes; /* of address ATTUNE__SHARED_BASE */
  uint32_t size;
  uint32_t shift; /* log2 of the granule */
  uint32_t cells;
  attune__cell *cell;
  uint64_t *readers;   /* by cell: agents of the warps that have read since the last write */
  uint32_t *read_time; /* [warp of the cluster][cell]: time of its last read */
  int8_t *read_lane;   /* [warp][cell]: the lane that read then; -1: several */
  uint16_t *pins;      /* by cell: unfinished wgmma and bulk stores that read it */
} attune__smem;

/* Sizes for `warps` warps of the cluster; zeroed by _reset before each block. */
attune_status attune__smem_init(attune__smem *m, uint32_t size, uint32_t granule, uint32_t warps,
                                int checks);
void attune__smem_reset(attune__smem *m, uint32_t warps);
void attune__smem_free(attune__smem *m);

/* Where an access of one lane (-1: the warp as one) lies: block (own, or by the rank in a
 * shared::cluster address) and bytes. Faults when out of bounds or not aligned to `bytes` (16 at
 * most). what: "ld.shared", for reports. */
unsigned char *attune__smem_at(attune__warp *w, int lane, uint32_t address, uint32_t bytes,
                               const char *what, attune__smem **m, uint32_t *offset);
/* Checks and records an access of [offset, offset + bytes) that attune__smem_at found. A read is
 * that of one lane or, lane -1, of all lanes. A write leaves the cells in `state`. */
void attune__smem_read(attune__warp *w, int lane, attune__smem *m, uint32_t offset, uint32_t bytes,
                       attune__proxy proxy, const char *what);
void attune__smem_write(attune__warp *w, int lane, attune__smem *m, uint32_t offset, uint32_t bytes,
                        attune__proxy proxy, attune__cell_state state, const char *what);
/* An asynchronous write arrives: the cells are written by `agent` at `time`. */
void attune__smem_landed(attune__smem *m, uint32_t offset, uint32_t bytes, uint32_t agent,
                         uint32_t time, attune__proxy proxy);
/* Adds to the count of unfinished asynchronous readers; writes meanwhile are faults. */
void attune__smem_pin(attune__smem *m, uint32_t offset, uint32_t bytes, int change);
/* Bytes in flight are all ones, a NaN in every float format. */
void attune__smem_poison(attune__smem *m, uint32_t offset, uint32_t bytes);
/* ld.shared and st.shared of all active lanes: `words` (1, 2, 4) 32-bit registers a lane, from
 * operand `first` on. Checks, records, counts. */
void attune__smem_load(attune__warp *w, const attune__ins *i, uint32_t active, uint32_t first,
                       uint32_t words, const uint32_t address[ATTUNE__LANES]);
void attune__smem_store(attune__warp *w, const attune__ins *i, uint32_t active, uint32_t first,
                        uint32_t words, const uint32_t address[ATTUNE__LANES]);
/* Counts one warp-wide access: `bytes` at each active lane's address, in turns of 128 bytes. */
void attune__smem_count(attune__warp *w, uint32_t active, const uint32_t address[ATTUNE__LANES],
                        uint32_t bytes, int store);

/* ---- global memory -----------------------------------------------------------------------------
 *
 * Every pointer of the parameter block is tagged: tensor number + 1 in bits 56 and up, the host
 * address below. Arithmetic keeps the tag, so that each access knows its tensor even when tensors
 * lie interleaved, share their memory, or the address is far off. */

enum { ATTUNE__TAG_SHIFT = 56, ATTUNE__TENSOR_AXES = 4 };

typedef enum attune__tensor_kind {
  ATTUNE__TENSOR_READ = 1,
  ATTUNE__TENSOR_WRITE = 2,
  ATTUNE__TENSOR_ONCE = 4, /* no byte is written twice */
  ATTUNE__TENSOR_ALL = 8,  /* every byte is written */
  ATTUNE__TENSOR_OUTPUT = 2 | 4 | 8
} attune__tensor_kind;

/* A view of up to four axes, in elements. Axes with stride 0 or one element are left out of the map
 * of bytes. */
typedef struct attune__tensor {
  const char *name;
  unsigned kind;
  unsigned char *base;
  uint32_t element_bytes;
  int64_t extent[ATTUNE__TENSOR_AXES];
  int64_t stride[ATTUNE__TENSOR_AXES];
  const unsigned char *in_use; /* of an output, by index on the first two axes together: 0 where it
                                  is of no sequence and must not be written; NULL: all are */
} attune__tensor;

typedef struct attune__gmem attune__gmem; /* the tensors of a launch, with maps of touched bytes */

/* This thread's counts and its last rows (so that neighbours are found at once). */
typedef struct attune__gmem_row {
  uint64_t begin, end; /* tagged addresses of a row of elements */
  uint64_t dense;      /* index of its first byte when the tensor is packed */
} attune__gmem_row;
typedef struct attune__gmem_thread {
  attune__gmem_row row[ATTUNE_CPU_TENSORS];
  uint64_t read[ATTUNE_CPU_TENSORS], write[ATTUNE_CPU_TENSORS];
  uint64_t sectors_read[ATTUNE_CPU_TENSORS], sectors_write[ATTUNE_CPU_TENSORS];
} attune__gmem_thread;

attune_status attune__gmem_make(const attune__tensor *tensors, uint32_t count, int checks,
                                attune__gmem **out);
void attune__gmem_free(attune__gmem *g);
/* The tagged pointer of tensor t, as the parameter block must have it. */
uint64_t attune__gmem_pointer(const attune__gmem *g, uint32_t t);
/* Adds a thread's counts, under a lock; writes the sums to counters. */
void attune__gmem_add(attune__gmem *g, const attune__gmem_thread *thread);
void attune__gmem_counters(const attune__gmem *g, attune_cpu_counters *out);
/* After the last block: ATTUNE_MISMATCH when an output has a byte in use that was never written;
 * kernel: for the message. */
attune_status attune__gmem_finish(const attune__gmem *g, const char *kernel);

/* One lane's access: checks it, marks and counts its bytes (not its sectors), and returns where
 * they are. lane -1: an asynchronous copy's. what: "ld.global". */
unsigned char *attune__gmem_access(attune__warp *w, int lane, uint64_t address, uint32_t bytes,
                                   int store, const char *what);
/* Counts the 32-byte sectors of one warp-wide access of `bytes` per active lane. */
void attune__gmem_sectors(attune__warp *w, uint32_t active, const uint64_t address[ATTUNE__LANES],
                          uint32_t bytes, int store);

#endif
