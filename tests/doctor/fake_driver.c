/* fake_driver.c - a libcuda.so.1 for test_doctor.c, test_bench.c and test_device_cuda.c: one
 * device, described by the environment. Nothing is computed: memory is addresses, time is launches,
 * and a tensor map is the words it was made of.
 *
 *   FAKE_INIT  what cuInit returns; FAKE_CC  compute capability times ten; FAKE_COUNT  devices
 *   FAKE_LAUNCH_US  microseconds that each launch takes on the device, 20 unless set */
#include <stdio.h>
#include <stdlib.h>

static int number(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

#define FAKE(name, ...) __attribute__((visibility("default"))) int name(__VA_ARGS__)
#define FAKE_OK(name)                                                                              \
  FAKE(name, void);                                                                                \
  FAKE(name, void) {                                                                               \
    return 0;                                                                                      \
  }

FAKE(cuInit, unsigned flags);
FAKE(cuInit, unsigned flags) {
  return flags ? 1 : number("FAKE_INIT", 0);
}
FAKE(cuDriverGetVersion, int *version);
FAKE(cuDriverGetVersion, int *version) {
  return *version = 13000, 0;
}
FAKE(cuGetErrorName, int code, const char **text);
FAKE(cuGetErrorName, int code, const char **text) {
  return *text = code ? "CUDA_ERROR_FAKE" : "CUDA_SUCCESS", 0;
}
FAKE(cuGetErrorString, int code, const char **text);
FAKE(cuGetErrorString, int code, const char **text) {
  return *text = code ? "a made-up error" : "no error", 0;
}
FAKE(cuDeviceGetCount, int *count);
FAKE(cuDeviceGetCount, int *count) {
  return *count = number("FAKE_COUNT", 1), 0;
}
FAKE(cuDeviceGet, int *device, int ordinal);
FAKE(cuDeviceGet, int *device, int ordinal) {
  return *device = ordinal, 0;
}
FAKE(cuDeviceGetName, char *name, int size, int device);
FAKE(cuDeviceGetName, char *name, int size, int device) {
  return snprintf(name, (size_t)size, "Fake GPU %d", device), 0;
}
FAKE(cuDeviceGetAttribute, int *value, int attribute, int device);
FAKE(cuDeviceGetAttribute, int *value, int attribute, int device) {
  int cc = number("FAKE_CC", 90);
  switch (attribute) { /* CUdevice_attribute */
    case 16:
      return *value = 77, device;
    case 38:
      return *value = 50 << 20, device;
    case 75:
      return *value = cc / 10, device;
    case 76:
      return *value = cc % 10, device;
    case 97:
      return *value = 123456, device;
    default:
      return 1;
  }
}
FAKE(cuDevicePrimaryCtxRetain, void **context, int device);
FAKE(cuDevicePrimaryCtxRetain, void **context, int device) {
  static int something;
  return *context = &something, device;
}

/* ---- contexts and tensor maps: what test_device_cuda.c looks at --------------------------------
 */

__attribute__((visibility("default"))) int fake_pushes, fake_depth, fake_encoded, fake_replaced,
    fake_early;
static void *contexts[8] = {NULL}; /* a stack; [fake_depth] is current */

FAKE(cuCtxPushCurrent_v2, void *context);
FAKE(cuCtxPushCurrent_v2, void *context) {
  if (fake_depth == 7) return 1;
  return fake_pushes++, contexts[++fake_depth] = context, 0;
}
FAKE(cuCtxPopCurrent_v2, void **context);
FAKE(cuCtxPopCurrent_v2, void **context) {
  if (fake_depth == 0) return 201; /* CUDA_ERROR_INVALID_CONTEXT */
  return *context = contexts[fake_depth--], 0;
}
FAKE(cuCtxGetCurrent, void **context);
FAKE(cuCtxGetCurrent, void **context) {
  return *context = contexts[fake_depth], 0;
}
FAKE(cuTensorMapEncodeTiled, unsigned long long *map, int type, unsigned rank, void *base,
     const unsigned long long *extents, const unsigned long long *strides, const unsigned *box,
     const unsigned *element_strides, int interleave, int swizzle, int promotion, int fill);
FAKE(cuTensorMapEncodeTiled, unsigned long long *map, int type, unsigned rank, void *base,
     const unsigned long long *extents, const unsigned long long *strides, const unsigned *box,
     const unsigned *element_strides, int interleave, int swizzle, int promotion, int fill) {
  if (!contexts[fake_depth] || (size_t)base % 16 || rank < 2 || rank > 5) return 1;
  for (int i = 0; i < 16; i++) map[i] = 0;
  map[0] = (size_t)base;
  map[1] = (unsigned long long)(type << 12 | swizzle << 8 | promotion << 4 | fill << 1) | rank
                                                                                              << 20;
  for (unsigned k = 0; k < rank; k++) {
    if (element_strides[k] != 1 || interleave) return 1;
    map[2 + k] = extents[k];
    map[7 + k] = (k ? strides[k - 1] : 0) << 16 | box[k];
  }
  return fake_encoded++, 0;
}
FAKE(cuTensorMapReplaceAddress, unsigned long long *map, void *base);
FAKE(cuTensorMapReplaceAddress, unsigned long long *map, void *base) {
  if (!contexts[fake_depth] || (size_t)base % 16) return 1;
  return map[0] = (size_t)base, fake_replaced++, 0;
}

/* NVRTC asks for one, and takes a no. */
FAKE(cuGetExportTable, void);
FAKE(cuGetExportTable, void) {
  return 500; /* CUDA_ERROR_NOT_FOUND */
}

FAKE_OK(cuDevicePrimaryCtxRelease_v2)
FAKE_OK(cuCtxSynchronize)
FAKE_OK(cuModuleLoadData)
FAKE_OK(cuModuleUnload)
FAKE_OK(cuModuleGetFunction)
FAKE_OK(cuFuncSetAttribute)
FAKE_OK(cuMemFree_v2)
FAKE_OK(cuMemcpyHtoD_v2)
FAKE_OK(cuMemcpyDtoH_v2)
FAKE_OK(cuEventSynchronize)

/* ---- memory and time ------------------------------------------------------------------------- */

typedef struct count {
  int launches;
} count; /* an event: launches before it; a graph: those in it */

static int launches, recording, recorded;

FAKE(cuMemAlloc_v2, unsigned long long *address, size_t bytes);
FAKE(cuMemAlloc_v2, unsigned long long *address, size_t bytes) {
  static unsigned long long next = 1 << 20;
  *address = next;
  next += (bytes + 255) / 256 * 256;
  return 0;
}
FAKE(cuLaunchKernel, void);
FAKE(cuLaunchKernel, void) {
  recorded += recording;
  launches += !recording;
  return 0;
}
/* Of a CUlaunchConfig the grid, and the one attribute that is known: programmatic stream
 * serialization. */
typedef struct launch_config {
  unsigned grid[3], block[3], smem;
  void *stream;
  const struct { int id, pad, on; } * attributes;
  unsigned attribute_count;
} launch_config;
FAKE(cuLaunchKernelEx, const launch_config *config, void *function, void **params, void **extra);
FAKE(cuLaunchKernelEx, const launch_config *config, void *function, void **params, void **extra) {
  (void)function;
  if (config->attribute_count != 1 || config->attributes->id != 6 || !params || extra) return 1;
  if (config->grid[1] != 1 || config->grid[2] != 1 || config->block[1] != 1) return 1;
  fake_early += config->attributes->on;
  return cuLaunchKernel();
}
FAKE(cuEventCreate, count **event, unsigned flags);
FAKE(cuEventCreate, count **event, unsigned flags) {
  *event = calloc(1, sizeof **event);
  return *event ? (int)flags : 2;
}
FAKE(cuEventDestroy_v2, count *event);
FAKE(cuEventDestroy_v2, count *event) {
  free(event);
  return 0;
}
FAKE(cuEventRecord, count *event, void *stream);
FAKE(cuEventRecord, count *event, void *stream) {
  event->launches = launches;
  return stream ? 0 : 1; /* timing has a stream of its own */
}
FAKE(cuEventElapsedTime, float *milliseconds, const count *begin, const count *end);
FAKE(cuEventElapsedTime, float *milliseconds, const count *begin, const count *end) {
  int each = number("FAKE_LAUNCH_US", 20);
  *milliseconds = (float)((end->launches - begin->launches) * each) / 1000;
  return 0;
}
FAKE(cuStreamCreate, void **stream, unsigned flags);
FAKE(cuStreamCreate, void **stream, unsigned flags) {
  *stream = &launches;
  return flags == 1 ? 0 : 1; /* CU_STREAM_NON_BLOCKING */
}
FAKE(cuStreamBeginCapture_v2, void *stream, int mode);
FAKE(cuStreamBeginCapture_v2, void *stream, int mode) {
  if (recording || stream != &launches || mode != 2) return 1;
  recording = 1, recorded = 0;
  return 0;
}
FAKE(cuStreamEndCapture, void *stream, count **graph);
FAKE(cuStreamEndCapture, void *stream, count **graph) {
  *graph = calloc(1, sizeof **graph);
  if (!*graph || !recording || stream != &launches) return 1;
  recording = 0, (*graph)->launches = recorded;
  return 0;
}
FAKE(cuGraphInstantiateWithFlags, count **exec, const count *graph, unsigned long long flags);
FAKE(cuGraphInstantiateWithFlags, count **exec, const count *graph, unsigned long long flags) {
  *exec = calloc(1, sizeof **exec);
  if (!*exec || flags) return 1;
  **exec = *graph;
  return 0;
}
FAKE(cuGraphLaunch, const count *exec, void *stream);
FAKE(cuGraphLaunch, const count *exec, void *stream) {
  launches += exec->launches;
  return stream == &launches ? 0 : 1;
}
FAKE(cuGraphDestroy, count *graph);
FAKE(cuGraphDestroy, count *graph) {
  free(graph);
  return 0;
}
FAKE(cuGraphExecDestroy, count *exec);
FAKE(cuGraphExecDestroy, count *exec) {
  free(exec);
  return 0;
}
FAKE(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, void *function, int threads,
     size_t smem);
FAKE(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, void *function, int threads,
     size_t smem) {
  *blocks = 3;
  return threads > 0 && smem < 123456 ? 0 : function != NULL;
}
FAKE_OK(cuStreamDestroy_v2)
