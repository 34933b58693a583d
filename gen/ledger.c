/* ledger.c - the shared-memory ledger: appends pieces, computes offsets and the total.
 * The only shared-memory arithmetic in attune; models say which pieces there are. */
#include "kernel.h"

#include <string.h>

static uint32_t round_up(uint32_t value, uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/* A plan makes hundreds of ledgers: no printf here. */
static void copy(char *out, size_t size, const char *text) {
  if (!memccpy(out, text, 0, size)) out[size - 1] = 0;
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
  copy(piece->name, sizeof piece->name, name);
  copy(piece->ctype, sizeof piece->ctype, ctype);
  copy(piece->note, sizeof piece->note, note);
  piece->rows = rows, piece->columns = columns, piece->align = align;
  piece->bytes = rows * columns * element_bytes;
  piece->offset = round_up(end, align);
  ledger->bytes = round_up(piece->offset + piece->bytes, widest);
}
