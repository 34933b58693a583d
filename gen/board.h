/* board.h - the archs that attune generates for (arch.def), each with the board that stands for it.
 */
#ifndef ATTUNE_BOARD_H
#define ATTUNE_BOARD_H

#include "../runtime/variant.h"

typedef struct attune_board {
  uint32_t arch;
  const char *arch_name; /* "sm_90a" */
  /* the columns of arch.def from here on, in its order and units */
  const char *name; /* "H200" */
  int sms, mhz, fp32_lanes, mufu_lanes, tensor_flop, threads_sm, blocks_sm, smem_sm_kb, smem_block;
  int dram_gbs, l2_mb;
} attune_board;

enum { ATTUNE_BOARDS = 7 };
extern const attune_board attune__boards[ATTUNE_BOARDS];
/* The row of an arch, NULL when attune has none; sm_90 finds sm_90a's row (same silicon). */
const attune_board *attune__board(uint32_t arch);

#endif
