/* tune_lab.h - where candidates are tried: checked against the reference, then timed side by side.
 *
 *   tune_lab.c    on the GPU, in this process
 *   tune_child.c  the same in a child process, which is killed and started again when a candidate
 *                 hangs or faults
 *   tune_watch.c  what else goes on on the GPU
 *
 * Tests have a lab that makes its times up. One thread uses a lab at a time. */
#ifndef ATTUNE_TUNE_LAB_H
#define ATTUNE_TUNE_LAB_H

#include "bench.h"
#include "tune_rows.h"

/* What the clocks and other processes did while something was timed; 0 where nothing is known. */
typedef struct attune__watch {
  int known;          /* 0: there is no NVML to ask */
  int sm_mhz;         /* at the end */
  int memory_mhz;     /* at the end */
  int memory_changed; /* 1: its clock was another at the start */
  int throttled;      /* 1: for heat, or by the board's power brake */
  int others;         /* other processes that compute on the GPU */
  int mig;            /* 1: a slice of a GPU */
  int launches;       /* 1: this process launched something else in between */
} attune__watch;
/* Why times taken meanwhile are provisional; "" when they are not. */
void attune__watch_why(const attune__watch *watch, char out[ATTUNE__WHY_MAX]);

typedef struct attune__lab_facts {
  attune__tuned_key key; /* arch: the device's; abi and nvrtc are filled in by the tuner */
  int driver;
  uint32_t smem_block; /* bytes a block may have */
} attune__lab_facts;

/* A candidate: the entry files of its kernels, in launch order; borrowed until the cell closes. */
typedef struct attune__lab_program {
  attune__tiles tiles;
  const void *entry[ATTUNE_MAX_PARTS];
  size_t bytes[ATTUNE_MAX_PARTS];
  int passed; /* 1: checked before; it is not checked again */
} attune__lab_program;

/* One variant on one shape. */
typedef struct attune__lab_cell {
  attune_variant variant;
  attune_pinset pins;
  attune_shape shape;
} attune__lab_cell;

/* Every call may fail for the candidate's sake: ATTUNE_MISMATCH (its results are wrong),
 * ATTUNE_DRIVER (a fault), ATTUNE_BUSY (it did not end in time), ATTUNE_BAD_FILE. Anything else is
 * the lab's own failure. attune_error() has the words. */
typedef struct attune__lab {
  void *user;
  attune_status (*facts)(void *user, attune__lab_facts *out);
  /* Makes the cell's tensors, random ones; closes the one before. */
  attune_status (*open)(void *user, const attune__lab_cell *cell);
  /* Checks the program against the reference unless it passed, and takes it in as the cell's next
   * contender, numbered from 0; one that fails takes no number. */
  attune_status (*add)(void *user, const attune__lab_program *program);
  /* Times contenders `which[count]` in interleaved rounds (bench.h). A contender's own failure is
   * in its out[].status; `watch` may be NULL. */
  attune_status (*time)(void *user, const int *which, int count,
                        const attune__bench_options *options, attune__bench_time *out,
                        attune__watch *watch);
} attune__lab;

/* ---- the GPU, in this process ------------------------------------------------------------------
 */

/* ATTUNE_NO_DEVICE. heartbeat, which may be NULL, is called before each piece of work on the device
 * with the contender that it is for. */
typedef struct attune__lab_gpu attune__lab_gpu;
attune_status attune__lab_gpu_open(int ordinal, attune__lab_gpu **out, attune__lab *lab);
void attune__lab_gpu_close(attune__lab_gpu *gpu);
void attune__lab_gpu_heartbeat(attune__lab_gpu *gpu, void (*heartbeat)(void *user, int contender),
                               void *user);

/* ---- a child process ---------------------------------------------------------------------------
 */

typedef struct attune__lab_child attune__lab_child;
typedef struct attune__lab_child_options {
  char *const *argv;  /* the program that serves; argv[0] is its path */
  double patience_s;  /* without a word from it a candidate hangs; 0: 10 */
  double deadline_ms; /* of attune__now_ms: whatever it does then, it is over; 0: none */
} attune__lab_child_options;
/* Starts at the first call. */
attune_status attune__lab_child_open(const attune__lab_child_options *options,
                                     attune__lab_child **out, attune__lab *lab);
void attune__lab_child_close(attune__lab_child *child); /* waits for it, or kills it */
int attune__lab_child_restarts(const attune__lab_child *child);
/* The child's side: serves a lab on two file descriptors until the first is closed. `beat`, when
 * not NULL, is where the lab's heartbeat must go with the value of `user`. */
typedef struct attune__lab_server {
  const attune__lab *lab;
  int in, out;
} attune__lab_server;
attune_status attune__lab_serve(attune__lab_server *server);
void attune__lab_server_beat(void *server, int contender); /* a heartbeat, for the lab */

/* ---- the watch ---------------------------------------------------------------------------------
 */

/* By NVML, found by dlopen; harmless where there is none. begin and end around what is timed. bus:
 * attune__device_facts. */
typedef struct attune__watcher {
  void *device;
  int memory_mhz, mig;
} attune__watcher;
void attune__watch_begin(attune__watcher *watcher, const char *bus);
void attune__watch_end(attune__watcher *watcher, attune__watch *out);

#endif
