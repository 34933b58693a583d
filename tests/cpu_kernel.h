/* cpu_kernel.h - small CUDA kernels on the CPU device: compile to PTX, launch, look at the report.
 *
 * A file of tests/cpu/ may hold several kernels and #if FAULT == n. Lines with the comment @n are
 * where fault n may be reported; any line, when there is none. */
#ifndef ATTUNE_TESTS_CPU_KERNEL_H
#define ATTUNE_TESTS_CPU_KERNEL_H

#include "../runtime/cpu/engine.h"

typedef struct cpu_kernel {
  char *source, *ptx;
  attune__ptx *program;
  const char *name;
} cpu_kernel;

/* Compiles and parses tests/cpu/prim.cuh and this file of the same folder; fails the test when that
 * fails. arch: "sm_90a". */
cpu_kernel cpu_kernel_make(const char *file, const char *name, const char *arch, int fault);
void cpu_kernel_free(cpu_kernel *k);

/* Tensors of plain words or floats, by name; pointer[k] gets the tagged pointer that the parameters
 * need. */
typedef struct cpu_tensor {
  const char *name;
  void *data;
  size_t bytes;
  unsigned kind;
} cpu_tensor;

typedef struct cpu_launch {
  uint32_t grid, threads, smem_bytes, cluster; /* cluster 0: 1 */
  const cpu_tensor *tensor;
  uint32_t tensors;
  void *params;
  size_t params_bytes;
  /* Writes the pointers into params. */
  void (*bind)(void *params, const uint64_t pointer[]);
  attune_cpu_landing landing;
  uint64_t seed;
  int unchecked;
  attune_cpu_counters *counters; /* NULL: not wanted */
} cpu_launch;

/* The launch's status; attune_error() has the report. */
attune_status cpu_kernel_run(const cpu_kernel *k, const cpu_launch *launch);

/* Runs late, early, and 20 random landings and schedules: all must be clean. check() looks at the
 * results after each. */
void cpu_kernel_clean(const cpu_kernel *k, cpu_launch launch, void (*check)(void));
/* Runs late, early and a few random ones: each must fail with a report that has one of the texts,
 * which '|' separates, and a line that is marked with the fault. */
void cpu_kernel_faulty(const cpu_kernel *k, cpu_launch launch, int fault, const char *texts);

#endif
