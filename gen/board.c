/* board.c - the rows of arch.def as a table, and the search in it. */
#include "board.h"

#include <stddef.h>

const attune_board attune__boards[ATTUNE_BOARDS] = {
#define X(text, cc, suffix, ...) {(cc) << 8 | (suffix), text, __VA_ARGS__},
#include "arch.def"
    ATTUNE_ARCHS(X)
#undef X
};

const attune_board *attune__board(uint32_t arch) {
  for (int i = 0; i < ATTUNE_BOARDS; i++) {
    const attune_board *board = &attune__boards[i];
    int same_silicon = attune__arch_cc(board->arch) == attune__arch_cc(arch);
    if (board->arch == arch || (same_silicon && attune__arch_suffix(arch) == 0)) return board;
  }
  return NULL;
}
