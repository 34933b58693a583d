/* fake_driver.c - a libcuda.so.1 for test_doctor.c: one device, described by the environment.
 *
 *   FAKE_INIT  what cuInit returns; FAKE_CC  compute capability times ten; FAKE_COUNT  devices */
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
/* NVRTC asks for one, and takes a no. */
FAKE(cuGetExportTable, void);
FAKE(cuGetExportTable, void) {
  return 500; /* CUDA_ERROR_NOT_FOUND */
}

FAKE_OK(cuDevicePrimaryCtxRelease_v2)
FAKE_OK(cuCtxPushCurrent_v2)
FAKE_OK(cuCtxPopCurrent_v2)
FAKE_OK(cuCtxSynchronize)
FAKE_OK(cuModuleLoadData)
FAKE_OK(cuModuleUnload)
FAKE_OK(cuModuleGetFunction)
FAKE_OK(cuFuncSetAttribute)
FAKE_OK(cuLaunchKernel)
FAKE_OK(cuMemAlloc_v2)
FAKE_OK(cuMemFree_v2)
FAKE_OK(cuMemcpyHtoD_v2)
FAKE_OK(cuMemcpyDtoH_v2)
FAKE_OK(cuEventCreate)
FAKE_OK(cuEventDestroy_v2)
FAKE_OK(cuEventRecord)
FAKE_OK(cuEventSynchronize)
FAKE_OK(cuEventElapsedTime)
