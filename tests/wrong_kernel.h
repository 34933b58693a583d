/* wrong_kernel.h - a device whose attention kernel computes on the host, rightly or with a fault:
 * what verify must pass and what it must catch.
 *
 * The kernel is written from the definition, with blocks of keys and an online softmax in double;
 * it shares nothing with the reference but number conversion. */
#ifndef ATTUNE_TEST_WRONG_KERNEL_H
#define ATTUNE_TEST_WRONG_KERNEL_H

#include "../runtime/context.h"

typedef enum fault {
  NO_FAULT,
  OTHER_CORNER,
  FORGOTTEN_MASK,
  WINDOW_OFF_BY_ONE,
  UNSCALED,
  SCALE_WITHOUT_SIGN,
  NO_RESCALE,
  NO_MAXIMUM,
  LSE_LOG2,
  LSE_ROUNDED,
  LSE_DENSE,
  WROTE_BEHIND_O,
  WROTE_INPUT,
  LEFT_UNWRITTEN,
  NAN_LEAK,
  NONDETERMINISTIC,
  HEADS_BY_MODULO,
  DENSE_K,
  IGNORED_USED,
  EMPTY_ROW_NAN,
  EMPTY_ROW_INF,
  ROUNDED_P,
  LAST_KEY_LOST,
  OFFSET_32_BITS,
  BEYOND_WORKSPACE,
  IGNORED_USED_Q,
  READ_NEIGHBOUR,
  SOFTCAP_BEFORE_SCALE,
  BIAS_BEFORE_SOFTCAP,
  BIAS_DENSE,
  BIAS_LOWEST,
  ALIBI_CORNER,
  ALIBI_SHARED,
  SINK_NOT_IN_LSE,
  BITS_REVERSED,
  BITS_DENSE,
  LAUNCH_FAILS
} fault;

enum { WRONG_BLOCK_N = 16 }; /* keys that the kernel takes at once */

typedef struct wrong_device {
  attune__device base;
  fault fault;
  size_t memory; /* largest allocation, 64 MiB at first */
  int launches;
} wrong_device;

/* Of that arch, with 4 SMs; it frees itself when a context closes it. */
wrong_device *wrong_device_make(uint32_t arch, fault what);

#endif
