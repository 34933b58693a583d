/* tensormap.h - what a tensor map says, for TMA: the plain form that the runtime fills and that a
 * device encodes into the 128 bytes that its kernels read. Rules: cuTensorMapEncodeTiled,
 * CUDA 13.0.
 */
#ifndef ATTUNE_TENSORMAP_H
#define ATTUNE_TENSORMAP_H

#include "attune.h"

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
  uint64_t base; /* device address, a multiple of 16 */
  /* From here on its form, without padding between members. */
  uint32_t rank; /* 1..5; axis 0 is the dense one */
  attune__map_type type;
  uint64_t extent[ATTUNE__TENSORMAP_RANK]; /* elements, 1..2^32 - 1 */
  uint64_t stride[ATTUNE__TENSORMAP_RANK]; /* bytes, multiples of 16 below 2^40; [0] is not used */
  uint32_t box[ATTUNE__TENSORMAP_RANK];    /* elements, 1..256 */
  attune__map_swizzle swizzle;
  int nan_fill; /* out of bounds: 0 zeros, 1 NaN */
} attune__tensormap;

#endif
