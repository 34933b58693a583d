/* recording_driver.c - a libcuda.so.1 for test_embed.c: as much of the driver as a standalone file
 * calls. Nothing is computed; the last launch is kept in `recorded`, which the test shares. */
#include "recording_driver.h"

#include <stdio.h>
#include <string.h>

#define FAKE(name, ...)                                                                            \
  __attribute__((visibility("default"))) int name(__VA_ARGS__);                                    \
  int name(__VA_ARGS__)

__attribute__((visibility("default"))) recording recorded = {.cc = 80};

FAKE(cuInit, unsigned flags) {
  return (int)flags;
}
FAKE(cuGetErrorString, int code, const char **text) {
  return *text = code ? "a made-up error" : "no error", 0;
}
FAKE(cuCtxGetDevice, int *device) {
  *device = recorded.device;
  return recorded.no_context ? 201 : 0; /* CUDA_ERROR_INVALID_CONTEXT */
}
FAKE(cuDeviceGetAttribute, int *value, int attribute, int device) {
  if (device != recorded.device) return 101;
  if (attribute == 75) return *value = recorded.cc / 10, 0;
  if (attribute == 76) return *value = recorded.cc % 10, 0;
  if (attribute == 97) return *value = recorded.smem ? recorded.smem : 163 << 10, 0;
  return 1;
}
FAKE(cuLibraryLoadData, void **library, const void *image, const int *a, void *const *b, unsigned c,
     const int *d, void *const *e, unsigned f) {
  if (a || b || c || d || e || f || memcmp(image, "\177ELF", 4) != 0) return 200;
  recorded.loads++;
  return *library = (void *)(size_t)image, recorded.load_result;
}
/* A kernel is its name: launches tell which it was. */
FAKE(cuLibraryGetKernel, void **kernel, void *library, const char *name) {
  return *kernel = (void *)(size_t)name, library ? 0 : 500;
}
FAKE(cuKernelSetAttribute, int attribute, int value, void *kernel, int device) {
  recorded.attributes++;
  return attribute == 8 && value > 0 && kernel && device == recorded.device ? 0 : 1;
}
FAKE(cuKernelGetFunction, void **function, void *kernel) {
  return *function = kernel, 0;
}
FAKE(cuFuncLoad, void *function) {
  return function ? 0 : 1;
}
FAKE(cuThreadExchangeStreamCaptureMode, int *mode) {
  int before = recorded.capture_mode;
  recorded.capture_mode = *mode;
  return *mode = before, 0;
}
FAKE(cuLaunchKernel, void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
     unsigned by, unsigned bz, unsigned smem, void *stream, void **params, void **extra) {
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || extra) return 1;
  snprintf(recorded.kernel, sizeof recorded.kernel, "%s", (const char *)function);
  recorded.grid = gx, recorded.threads = bx, recorded.smem_bytes = smem, recorded.stream = stream;
  memcpy(recorded.block, params[0], recorded.block_bytes);
  recorded.launches++;
  return recorded.launch_result;
}
