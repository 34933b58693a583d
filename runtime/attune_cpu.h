/* attune_cpu.h - the CPU device: executes, checks and counts generated kernels without a GPU.
 *
 * A context on it behaves as one on a GPU: sets, lookups, attune_launch, attune_alloc and their
 * like (device pointers are host memory). It runs the PTX of entries, which `attune build` and the
 * JIT put beside the machine code. A launch runs to its end before the call returns. It says
 * whether a kernel is right and what it moves, never how fast a GPU would be.
 *
 * With checks on, a launch of a kernel with a fault fails with ATTUNE_MISMATCH; attune_error()
 * names the kernel, the template's line, the warp and lane, the tensor, and what is missing. Rows
 * of O and LSE in use (seqused_q, cu_seqlens_q) must be written, once, and the others must not. */
#ifndef ATTUNE_CPU_H
#define ATTUNE_CPU_H

#include "attune.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum attune_cpu_landing { /* when an asynchronous copy's bytes arrive */
                                  ATTUNE_CPU_LAND_LATE =
                                      0, /* when nothing else can run, or when it is waited for */
                                  ATTUNE_CPU_LAND_EARLY = 1, /* at once */
                                  ATTUNE_CPU_LAND_RANDOM = 2 /* by the seed */
} attune_cpu_landing;

typedef enum attune_cpu_sums {                            /* how tensor-core instructions add */
                               ATTUNE_CPU_SUMS_FLOAT = 0, /* in float, k ascending */
                               ATTUNE_CPU_SUMS_HARDWARE =
                                   1 /* as the arch's tensor cores do; several times slower */
} attune_cpu_sums;

typedef struct attune_cpu_options {
  size_t size;            /* sizeof(attune_cpu_options) */
  const char *arch;       /* required: "sm_90a" */
  int32_t unchecked;      /* 1: no checks and no counters, for speed */
  uint64_t schedule_seed; /* 0: warps take turns; else a random order that the seed gives */
  attune_cpu_landing landing;
  attune_cpu_sums sums;
  int32_t threads;           /* host threads; 0: one a core */
  attune_message_fn message; /* as in attune_options */
  void *message_user;
} attune_cpu_options;
ATTUNE__INIT(attune_cpu_options)

/* A context for the arch on the CPU device. The counterpart of attune_open. */
ATTUNE_API attune_status attune_cpu_open(const attune_cpu_options *options, attune_context **out);
/* Options other than arch, messages and threads may change between launches. */
ATTUNE_API attune_status attune_cpu_configure(attune_context *context,
                                              const attune_cpu_options *options);

enum { ATTUNE_CPU_TENSORS = 16 };

/* Bytes between device memory and the chip. requested: what every load and store asked for, summed;
 * compulsory: each byte once. */
typedef struct attune_cpu_tensor {
  const char *name; /* as in attune_attn_args ("q", "lse", "bias", "cu_seqlens_q"), and "scores" for
                       the workspace; static */
  uint64_t requested_read, requested_write;
  uint64_t compulsory_read, compulsory_write;
  uint64_t sectors_read, sectors_write; /* 32-byte sectors that warp-wide accesses touch, summed */
} attune_cpu_tensor;

typedef struct attune_cpu_counters {
  size_t size; /* sizeof(attune_cpu_counters), set by the caller */
  attune_cpu_tensor tensor[ATTUNE_CPU_TENSORS];
  int32_t tensors;
  uint64_t blocks, warps, instructions; /* instructions: executed by a warp */
  uint64_t smem_read, smem_write;       /* bytes of shared memory, by lane */
  uint64_t smem_phases;                 /* turns that the banks take for them */
  uint64_t smem_phases_least;           /* with no two lanes in conflict */
  uint64_t fma;                         /* scalar multiply-adds: fma.rn.f32, by lane */
  uint64_t mma_macs;                    /* multiply-adds of tensor-core instructions */
  uint64_t exp2;                        /* exponentials, by lane */
  uint64_t barriers;                    /* bar.sync and bar.arrive, by warp */
  uint64_t async_bytes;                 /* moved by asynchronous copies */
} attune_cpu_counters;
ATTUNE__INIT(attune_cpu_counters)

/* Counters of the last program launched on the context, all its parts; with `part` >= 0 of that
 * part alone. ATTUNE_INVALID: not a context of this device; ATTUNE_NOT_FOUND: nothing was counted.
 */
ATTUNE_API attune_status attune_cpu_count(attune_context *context, int32_t part,
                                          attune_cpu_counters *out);

#ifdef __cplusplus
}
#endif
#endif
