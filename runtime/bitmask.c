/* bitmask.c - block classes of a bit mask, made on the host from its bits, a word at a time and in
 * the order of memory. */
#include "attune.h"

enum { WORD = 32, BLOCK = ATTUNE_BITMASK_BLOCK };
enum { SOME = 1, DROPPED = 2 }; /* of a block: pairs that are kept, pairs that are not */

/* Of the bits of a word that are `valid`. */
static unsigned flags_of(uint32_t word, uint32_t valid) {
  return (word & valid ? SOME : 0) | (~word & valid ? DROPPED : 0);
}

/* Notes a row in the flags of its blocks. */
static void note_row(const uint32_t *row, int32_t keys, uint8_t *flags) {
  int32_t whole = keys / BLOCK, rest = keys % BLOCK;
  for (int32_t n = 0; n < whole; n++) {
    uint32_t either = row[2 * n] | row[2 * n + 1], both = row[2 * n] & row[2 * n + 1];
    flags[n] |= (uint8_t)((either ? SOME : 0) | (~both ? DROPPED : 0));
  }
  for (int32_t j = 0; j < rest; j += WORD) {
    uint32_t valid = rest - j < WORD ? (UINT32_C(1) << (rest - j)) - 1 : UINT32_MAX;
    flags[whole] |= (uint8_t)flags_of(row[2 * whole + j / WORD], valid);
  }
}

static uint8_t class_of(unsigned flags) {
  if (!(flags & SOME)) return ATTUNE_BLOCK_EMPTY;
  return flags & DROPPED ? ATTUNE_BLOCK_PARTIAL : ATTUNE_BLOCK_FULL;
}

attune_status attune_bitmask_classes(const uint32_t *bits, int64_t stride, int32_t rows,
                                     int32_t keys, uint8_t *classes) {
  if (rows < 0 || keys < 0)
    return attune_fail(ATTUNE_INVALID, "rows is %d and keys is %d, must be 0 or more", rows, keys);
  if (rows == 0 || keys == 0) return ATTUNE_OK;
  if (!bits || !classes)
    return attune_fail(ATTUNE_INVALID, "%s is NULL", bits ? "classes" : "bits");
  size_t across = ((size_t)keys + BLOCK - 1) / BLOCK;
  for (int64_t i = 0; i < rows; i += BLOCK, classes += across) {
    memset(classes, 0, across); /* flags, until all rows of the blocks are seen */
    for (int64_t row = i; row < rows && row < i + BLOCK; row++)
      note_row(bits + row * stride, keys, classes);
    for (size_t n = 0; n < across; n++) classes[n] = class_of(classes[n]);
  }
  return ATTUNE_OK;
}
