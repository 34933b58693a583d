/* model_cost.h - what a launch asks of an SM's units, and the time that it takes by that. */
#ifndef ATTUNE_MODEL_COST_H
#define ATTUNE_MODEL_COST_H

#include "model.h"

/* Blocks that an SM has registers for: it is four parts, each with 16384 for whole warps. */
int attune__blocks_by_registers(int warps, int registers);

/* Work of one launch, for attune__work_cost; each model adds up its own. Totals over the launch. */
typedef struct attune_work {
  double blocks;       /* thread blocks */
  double steps;        /* iterations of their loops */
  double fma;          /* multiply-adds, of single lanes */
  double tensor;       /* FLOP of tensor cores, 16-bit with fp32 accumulation */
  double exponentials; /* ex2, of single lanes */
  double wavefronts;   /* 128-byte accesses of shared memory */
  double instructions; /* of warps */
  double step_waits;   /* times per iteration that a block waits for device memory */
  double kv_bytes;     /* K and V that the blocks of one head share */
  double blocks_per_head;
  double step_clocks;  /* of an iteration, in which no unit works */
  double step_latency; /* of an iteration, that a block alone waits; others beside it cover that */
  double exposed; /* share of the smaller ceilings that shows beside the largest; 0: the usual */
  double exposed_by_warp; /* added to that, over the warps on an SM */
  double start;           /* clocks before the first block works, beside its loads */
  double ahead;           /* share of a tile's start that hides behind the one before it */
  int warps, registers;   /* per block; per thread */
  uint32_t smem_bytes;    /* per block */
} attune_work;

/* K and V per query head, in bytes: a group of query heads shares one pair. */
double attune__kv_bytes(const attune_variant *v, const attune_shape *s);
/* Ceilings and total from the work. */
void attune__work_cost(const attune_board *board, const attune_work *work,
                       const attune_traffic *traffic, attune_cost *out);

#endif
