/* ledger.c - the shared-memory ledger: appends pieces, computes offsets and the total.
 * The only shared-memory arithmetic in attune; models say which pieces there are. */
#include "kernel.h"

#include <stdio.h>

static uint32_t round_up(uint32_t value, uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void attune__ledger_add(attune_ledger *ledger, const char *name, const char *ctype,
                        uint32_t element_bytes, uint32_t rows, uint32_t columns, uint32_t align,
                        const char *note) {
  uint32_t end = 0, widest = align;
  for (int i = 0; i < ledger->count; i++) {
    const attune_piece *before = &ledger->piece[i];
    end = before->offset + before->bytes;
    if (before->align > widest) widest = before->align;
  }
  attune_piece *piece = &ledger->piece[ledger->count++];
  snprintf(piece->name, sizeof piece->name, "%s", name);
  snprintf(piece->ctype, sizeof piece->ctype, "%s", ctype);
  snprintf(piece->note, sizeof piece->note, "%s", note);
  piece->rows = rows, piece->columns = columns, piece->align = align;
  piece->bytes = rows * columns * element_bytes;
  piece->offset = round_up(end, align);
  ledger->bytes = round_up(piece->offset + piece->bytes, widest);
}
