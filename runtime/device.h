/* device.h - what the runtime asks of a device. CUDA (device_cuda.c) is one; the CPU device will be
 * another, in a library of its own, behind the same calls.
 *
 * Every call is safe from any thread; the CUDA device pushes its primary context and pops it, so
 * the caller's current context is left as found. */
#ifndef ATTUNE_DEVICE_H
#define ATTUNE_DEVICE_H

#include "entry.h"
#include "tensormap.h"

typedef struct attune__device attune__device;     /* begins with ops */
typedef struct attune__function attune__function; /* a loaded kernel */
typedef struct attune__graph attune__graph;       /* recorded launches */

typedef struct attune__launch_config {
  uint32_t grid; /* blocks, one-dimensional */
  uint32_t threads, smem_bytes, cluster;
  uint32_t early; /* 1: may begin before what is ahead of it in the stream has ended */
} attune__launch_config;

typedef struct attune__device_ops {
  const char *name; /* "cuda" */
  void (*close)(attune__device *);
  /* Loads the payload it needs, finds the kernel by entry->name, raises its shared-memory limit.
   * ATTUNE_BAD_FILE: the entry is of no use on this device. */
  attune_status (*load)(attune__device *, const attune_entry *entry, attune__function **out);
  void (*unload)(attune__device *, attune__function *);
  /* Only launches. params is copied before the return. */
  attune_status (*launch)(attune__device *, attune__function *, const attune__launch_config *,
                          const void *params, size_t param_bytes, void *stream);
  /* Writes the device's form of a map, ATTUNE__TENSORMAP_BYTES; ATTUNE_INVALID, ATTUNE_UNSUPPORTED
   * on a device without TMA. Only arithmetic: legal under capture. */
  attune_status (*encode_map)(attune__device *, const attune__tensormap *, void *out);
  /* Buffers, for verify and bench; synchronous. */
  attune_status (*alloc)(attune__device *, size_t bytes, void **out);
  void (*free)(attune__device *, void *);
  attune_status (*upload)(attune__device *, void *to, const void *from, size_t bytes);
  attune_status (*download)(attune__device *, void *to, const void *from, size_t bytes);
  attune_status (*synchronize)(attune__device *);
  /* Device time between begin and end on a stream, milliseconds; end waits. One measurement at a
   * time. A device that cannot tell its time refuses both, and has NULL for all that follow. */
  attune_status (*time_begin)(attune__device *, void *stream);
  attune_status (*time_end)(attune__device *, void *stream, float *milliseconds);
  /* A stream that does not wait for the default stream. */
  attune_status (*stream_make)(attune__device *, void **out);
  void (*stream_free)(attune__device *, void *stream);
  /* What is launched on the stream from record_begin to record_end goes into a graph instead. */
  attune_status (*record_begin)(attune__device *, void *stream);
  attune_status (*record_end)(attune__device *, void *stream, attune__graph **out);
  attune_status (*graph_launch)(attune__device *, attune__graph *, void *stream);
  void (*graph_free)(attune__device *, attune__graph *);
  /* 1: the stream is being captured; of the default stream: one that waits for it is. */
  int (*capturing)(attune__device *, void *stream);
  /* From now on what this thread calls is legal while another thread captures. */
  void (*relax)(attune__device *);
  /* Blocks of a launch that an SM holds at once. */
  attune_status (*occupancy)(attune__device *, attune__function *, const attune__launch_config *,
                             int *blocks);
} attune__device_ops;

typedef struct attune__device_facts {
  char name[128];
  uint32_t arch; /* with suffix 'a' from compute capability 9.0 on */
  int32_t sm_count;
  int32_t smem_block; /* bytes a block may opt in to */
  int32_t l2_bytes;
  int32_t driver_cuda; /* 13000 for CUDA 13.0 */
  int32_t memory_mhz;  /* clock of device memory; 0: not known */
  char bus[20];        /* "0000:1b:00.0", as NVML wants it; "": not known */
} attune__device_facts;

struct attune__device {
  const attune__device_ops *ops;
  attune__device_facts facts;
};

/* ATTUNE_NO_DEVICE when libcuda.so.1 or the ordinal is missing: the message says which. */
attune_status attune__cuda_open(int ordinal, attune__device **out);
/* CUDA version of the driver (13000), 0 when there is no driver. No context is made, nothing is
 * initialised. */
int attune__cuda_driver_version(void);

#endif
