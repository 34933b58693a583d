/* bitmask.c - block classes of a bit mask, made on the host from its bits. */
#include "attune.h"

/* Kept pairs of rows [i0, i1) and keys [j0, j1). */
static int64_t kept(const uint32_t *bits, int64_t stride, int32_t i0, int32_t i1, int32_t j0,
                    int32_t j1) {
  int64_t count = 0;
  for (int32_t i = i0; i < i1; i++)
    for (int32_t j = j0; j < j1; j++) count += bits[i * stride + j / 32] >> (j % 32) & 1;
  return count;
}

static int32_t block_end(int32_t begin, int32_t length) {
  return length - begin < ATTUNE_BITMASK_BLOCK ? length : begin + ATTUNE_BITMASK_BLOCK;
}

attune_status attune_bitmask_classes(const uint32_t *bits, int64_t stride, int32_t rows,
                                     int32_t keys, uint8_t *classes) {
  if (rows < 0 || keys < 0)
    return attune_fail(ATTUNE_INVALID, "rows is %d and keys is %d, must be 0 or more", rows, keys);
  if (rows == 0 || keys == 0) return ATTUNE_OK;
  if (!bits || !classes)
    return attune_fail(ATTUNE_INVALID, "%s is NULL", bits ? "classes" : "bits");
  for (int32_t i = 0; i < rows; i += ATTUNE_BITMASK_BLOCK)
    for (int32_t j = 0; j < keys; j += ATTUNE_BITMASK_BLOCK) {
      int32_t i1 = block_end(i, rows), j1 = block_end(j, keys);
      int64_t count = kept(bits, stride, i, i1, j, j1), all = (int64_t)(i1 - i) * (j1 - j);
      *classes++ = count == all ? ATTUNE_BLOCK_FULL
                   : count      ? ATTUNE_BLOCK_PARTIAL
                                : ATTUNE_BLOCK_EMPTY;
    }
  return ATTUNE_OK;
}
