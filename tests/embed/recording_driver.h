/* recording_driver.h - what the made-up driver of test_embed.c is told and has seen. */
#ifndef ATTUNE_TEST_RECORDING_DRIVER_H
#define ATTUNE_TEST_RECORDING_DRIVER_H

#include <stddef.h>

typedef struct recording {
  int cc, device, no_context, smem, load_result, launch_result; /* told */
  size_t block_bytes;                                           /* of the parameter block */
  int loads, attributes, launches, capture_mode;                /* seen */
  char kernel[192];                                             /* of the last launch */
  unsigned grid, threads, smem_bytes;
  void *stream;
  unsigned char block[1024];
} recording;

#endif
