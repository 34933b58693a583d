/* tensormap.c - tensor maps of the CPU device: checks, and 128 bytes of our own form.
 *
 * The rules are those of cuTensorMapEncodeTiled (CUDA 13.0), for tiled maps with element strides of
 * 1 and no interleave. One is stricter: a swizzled box is as wide as its pattern. */
#include "tensormap_bytes.h"

#include "../attune.h"

#include <string.h>

enum { BOX_MAX = 256, ALIGN = 16, STRIDE_BITS = 40 };
#define MAGIC      UINT32_C(0x50414d54) /* "TMAP" */
#define EXTENT_MAX UINT32_MAX

/* What stands in the 128 bytes. */
typedef struct form {
  uint32_t magic;
  uint8_t type, rank, swizzle, nan_fill;
  uint64_t base;
  uint64_t stride[ATTUNE__TENSORMAP_RANK];
  uint32_t extent[ATTUNE__TENSORMAP_RANK];
  uint16_t box[ATTUNE__TENSORMAP_RANK];
} form;
_Static_assert(sizeof(form) <= ATTUNE__TENSORMAP_BYTES, "a tensor map has 128 bytes");

uint32_t attune__map_type_bytes(attune__map_type type) {
  switch (type) {
    case ATTUNE__MAP_U8:
      return 1;
    case ATTUNE__MAP_U16:
    case ATTUNE__MAP_F16:
    case ATTUNE__MAP_BF16:
      return 2;
    case ATTUNE__MAP_U32:
    case ATTUNE__MAP_S32:
    case ATTUNE__MAP_F32:
      return 4;
  }
  return 0;
}

/* Chunks of 16 bytes move within a row of the pattern: bits 4.. ^= bits 7.., as many as it has. */
uint32_t attune__map_swizzle_address(attune__map_swizzle swizzle, uint32_t address) {
  static const uint32_t chunks[] = {0, 1, 3, 7};
  return address ^ (address >> 7 & chunks[swizzle]) << 4;
}

/* ---- checks ------------------------------------------------------------------------------------
 */

static attune_status check_head(const attune__tensormap *m) {
  if (!attune__map_type_bytes(m->type))
    return attune_fail(ATTUNE_INVALID, "tensor map: element type %d is not known", (int)m->type);
  if (m->rank < 1 || m->rank > ATTUNE__TENSORMAP_RANK)
    return attune_fail(ATTUNE_INVALID, "tensor map: rank %u is not within 1..%d", m->rank,
                       ATTUNE__TENSORMAP_RANK);
  if (m->base % ALIGN)
    return attune_fail(ATTUNE_INVALID, "tensor map: the base is not aligned to %d bytes", ALIGN);
  if (m->swizzle > ATTUNE__SWIZZLE_128)
    return attune_fail(ATTUNE_INVALID, "tensor map: swizzle %d is not known", (int)m->swizzle);
  return ATTUNE_OK;
}

static attune_status check_axis(const attune__tensormap *m, uint32_t k) {
  if (m->extent[k] < 1 || m->extent[k] > EXTENT_MAX)
    return attune_fail(ATTUNE_INVALID, "tensor map: axis %u has %llu elements, not 1..2^32-1", k,
                       (unsigned long long)m->extent[k]);
  if (m->box[k] < 1 || m->box[k] > BOX_MAX)
    return attune_fail(ATTUNE_INVALID, "tensor map: a box of %u on axis %u, not 1..%d", m->box[k],
                       k, BOX_MAX);
  if (k > 0 && (m->stride[k] % ALIGN || m->stride[k] >> STRIDE_BITS))
    return attune_fail(ATTUNE_INVALID,
                       "tensor map: axis %u has a stride of %llu bytes: must be a multiple of %d "
                       "below 2^%d",
                       k, (unsigned long long)m->stride[k], ALIGN, STRIDE_BITS);
  return ATTUNE_OK;
}

static attune_status check_row(const attune__tensormap *m) {
  uint32_t row = m->box[0] * attune__map_type_bytes(m->type);
  uint32_t width = m->swizzle ? UINT32_C(16) << m->swizzle : row;
  if (row % ALIGN)
    return attune_fail(ATTUNE_INVALID,
                       "tensor map: the box's rows have %u bytes: must be a multiple of %d", row,
                       ALIGN);
  if (row != width)
    return attune_fail(ATTUNE_INVALID,
                       "tensor map: the box's rows have %u bytes, its swizzle wants %u", row,
                       width);
  return ATTUNE_OK;
}

/* ---- the bytes ---------------------------------------------------------------------------------
 */

attune_status attune__tensormap_encode(const attune__tensormap *map,
                                       unsigned char out[ATTUNE__TENSORMAP_BYTES]) {
  attune_status status = check_head(map);
  for (uint32_t k = 0; !status && k < map->rank; k++) status = check_axis(map, k);
  if (!status) status = check_row(map);
  if (status) return status;
  form f = {.magic = MAGIC,
            .type = (uint8_t)map->type,
            .rank = (uint8_t)map->rank,
            .swizzle = (uint8_t)map->swizzle,
            .nan_fill = map->nan_fill != 0,
            .base = map->base};
  for (uint32_t k = 0; k < map->rank; k++) {
    f.extent[k] = (uint32_t)map->extent[k];
    f.stride[k] = k ? map->stride[k] : 0;
    f.box[k] = (uint16_t)map->box[k];
  }
  memset(out, 0, ATTUNE__TENSORMAP_BYTES);
  memcpy(out, &f, sizeof f);
  return ATTUNE_OK;
}

int attune__tensormap_decode(const unsigned char bytes[ATTUNE__TENSORMAP_BYTES],
                             attune__tensormap *out) {
  form f;
  memcpy(&f, bytes, sizeof f);
  if (f.magic != MAGIC) return 0;
  *out = (attune__tensormap){.type = (attune__map_type)f.type,
                             .rank = f.rank,
                             .base = f.base,
                             .swizzle = (attune__map_swizzle)f.swizzle,
                             .nan_fill = f.nan_fill};
  for (uint32_t k = 0; k < ATTUNE__TENSORMAP_RANK; k++) {
    out->extent[k] = k < f.rank ? f.extent[k] : 1;
    out->stride[k] = f.stride[k];
    out->box[k] = k < f.rank ? f.box[k] : 1;
  }
  return 1;
}
