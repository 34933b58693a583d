/* board.h - the archs that attune generates for (arch.def), each with the board that stands for it. */
#ifndef ATTUNE_BOARD_H
#define ATTUNE_BOARD_H

#include "../runtime/variant.h"

typedef struct attune_board {
  const char *arch_name; /* "sm_90a" */
  const char *name;      /* "H200" */
  uint32_t arch;
  int sms, mhz, fp32_lanes, mufu_lanes, tensor_flop, smem_sm_kb, smem_block, dram_gbs, l2_mb;
} attune_board;

enum { ATTUNE_BOARDS = 7 };
extern const attune_board attune__boards[ATTUNE_BOARDS];
/* The row of an arch, NULL when attune has none; sm_90 finds sm_90a's row (same silicon). */
const attune_board *attune__board(uint32_t arch);

#endif
