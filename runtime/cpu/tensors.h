/* tensors.h - what a kernel may do to the tensors of its parameter block. */
#ifndef ATTUNE_CPU_TENSORS_H
#define ATTUNE_CPU_TENSORS_H

#include "../launch.h"
#include "memory.h"

/* The tensors of a launch, and where their pointers stand in its parameter block. */
typedef struct attune__tensors {
  attune__tensor tensor[ATTUNE_CPU_TENSORS];
  uint32_t pointer[ATTUNE_CPU_TENSORS]; /* bytes from the start of the block */
  uint32_t count;
  unsigned char *in_use; /* by row of O: whether it is one of a sequence's in use; NULL: all are */
} attune__tensors;

/* Null pointers and tensors that the kernel's part has no business with are left out: touching them
 * is touching no tensor. Lengths in the block's memory are read: they are the host's here.
 * ATTUNE_NO_MEMORY. */
attune_status attune__tensors_of(const attune_variant *variant,
                                 const attune_params_attn_standard *params, attune__tensors *out);
void attune__tensors_free(attune__tensors *tensors);

#endif
