/* tensormap_bytes.h - the CPU device's own encoding of a tensor map: 128 bytes of the parameter
 * block, which cuTensorMapEncodeTiled fills for a GPU. Same rules; a kernel sees no difference.
 * Bases are tagged pointers (memory.h). */
#ifndef ATTUNE_CPU_TENSORMAP_BYTES_H
#define ATTUNE_CPU_TENSORMAP_BYTES_H

#include "../tensormap.h"

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
