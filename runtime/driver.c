/* driver.c - finds the CUDA driver on this machine.
 *
 * Input: libcuda.so.1, wherever the loader finds it. Output: the table of driver.h. Devices and
 * kernels are left to device_cuda.c. libcuda.so without the .1 is the toolkit's stub: never used.
 */
#include "driver.h"

#include "device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static attune__cuda table;
static char failure[512]; /* why there is no table; "" when there is */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *symbol(void *library, int required, const char *name) {
  void *found = dlsym(library, name);
  if (!found && required && !failure[0])
    snprintf(failure, sizeof failure, "libcuda.so.1 has no %s: the driver is older than CUDA 11",
             name);
  return found;
}

static void find_all(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    snprintf(failure, sizeof failure,
             "no CUDA driver: %s; install NVIDIA's driver, or look up "
             "without a device by naming an arch",
             reason ? reason : "libcuda.so.1 not found");
    return;
  }
  /* POSIX lets a data pointer hold a function's address; ISO C wants the detour by memcpy. */
#define X(required, member, name, arguments)                                                       \
  {                                                                                                \
    void *found = symbol(library, required, name);                                                 \
    memcpy(&table.member, &found, sizeof found);                                                   \
  }
  ATTUNE__CUDA_FUNCTIONS(X)
#undef X
}

const attune__cuda *attune__cuda_api(void) {
  pthread_once(&once, find_all);
  if (!failure[0]) return &table;
  attune_fail(ATTUNE_NO_DEVICE, "%s", failure);
  return NULL;
}

int attune__cuda_driver_version(void) {
  int version = 0;
  const attune__cuda *cuda = attune__cuda_api();
  if (!cuda || cuda->driver_version(&version) != CUDA_OK) return 0;
  return version;
}
