/* tensormap.h - the CPU device's own form of a tensor map, for TMA.
 *
 * A map is 128 bytes of the parameter block. cuTensorMapEncodeTiled fills them for a GPU, the
 * function here for the CPU device, under the same rules; a kernel sees no difference. */
#ifndef ATTUNE_CPU_TENSORMAP_H
#define ATTUNE_CPU_TENSORMAP_H

#include "../attune.h"

enum { ATTUNE__TENSORMAP_BYTES = 128, ATTUNE__TENSORMAP_RANK = 5 };

/* Numbers as in cuda.h's CUtensorMapDataType; the ones that attention needs. */
typedef enum attune__map_type {
  ATTUNE__MAP_U8 = 0, /* 8-bit floats, too */
  ATTUNE__MAP_U16 = 1,
  ATTUNE__MAP_U32 = 2,
  ATTUNE__MAP_S32 = 3,
  ATTUNE__MAP_F16 = 6,
  ATTUNE__MAP_F32 = 7,
  ATTUNE__MAP_BF16 = 9
} attune__map_type;

/* Numbers as in CUtensorMapSwizzle: bits of the shared address that are exchanged. */
typedef enum attune__map_swizzle {
  ATTUNE__SWIZZLE_NONE = 0,
  ATTUNE__SWIZZLE_32 = 1,
  ATTUNE__SWIZZLE_64 = 2,
  ATTUNE__SWIZZLE_128 = 3
} attune__map_swizzle;

typedef struct attune__tensormap {
  attune__map_type type;
  uint32_t rank;                           /* 1..5; axis 0 is the dense one */
  uint64_t base;                           /* tagged (memory.h), a multiple of 16 */
  uint64_t extent[ATTUNE__TENSORMAP_RANK]; /* elements, 1..2^32 - 1 */
  uint64_t stride[ATTUNE__TENSORMAP_RANK]; /* bytes, multiples of 16 below 2^40; [0] is not used */
  uint32_t box[ATTUNE__TENSORMAP_RANK];    /* elements, 1..256 */
  attune__map_swizzle swizzle;
  int nan_fill; /* out of bounds: 0 zeros, 1 NaN */
} attune__tensormap;

/* ATTUNE_INVALID: the message says which rule of a tensor map is broken. */
attune_status attune__tensormap_encode(const attune__tensormap *map,
                                       unsigned char out[ATTUNE__TENSORMAP_BYTES]);
/* 1 when the bytes are such a map. */
int attune__tensormap_decode(const unsigned char bytes[ATTUNE__TENSORMAP_BYTES],
                             attune__tensormap *out);

uint32_t attune__map_type_bytes(attune__map_type type);
/* The swizzle of a shared address, in units of bytes. */
uint32_t attune__map_swizzle_address(attune__map_swizzle swizzle, uint32_t address);

#endif
