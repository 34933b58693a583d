/* buffer.c - device memory for tests and examples: the device's own calls behind a context.
 *
 * Programs with real work have an allocator of their own (cudaMalloc, PyTorch) and hand its
 * pointers to attune_launch; these few calls spare small ones the CUDA toolkit. */
#include "context.h"

static attune_status device_of(attune_context *context, attune__device **out) {
  *out = context ? context->device : NULL;
  if (*out) return ATTUNE_OK;
  if (!context) return attune_fail(ATTUNE_INVALID, "context is NULL");
  return attune_fail(ATTUNE_NO_DEVICE, "the context looks up for %s without a device",
                     context->arch_name);
}

attune_status attune_alloc(attune_context *context, size_t bytes, void **out) {
  attune__device *device;
  attune_status status = device_of(context, &device);
  if (!out) return attune_fail(ATTUNE_INVALID, "attune_alloc: out is NULL");
  *out = NULL;
  return device ? device->ops->alloc(device, bytes, out) : status;
}

void attune_free(attune_context *context, void *memory) {
  if (context && context->device && memory) context->device->ops->free(context->device, memory);
}

attune_status attune_upload(attune_context *context, void *to, const void *from, size_t bytes) {
  attune__device *device;
  attune_status status = device_of(context, &device);
  return device ? device->ops->upload(device, to, from, bytes) : status;
}

attune_status attune_download(attune_context *context, void *to, const void *from, size_t bytes) {
  attune__device *device;
  attune_status status = device_of(context, &device);
  return device ? device->ops->download(device, to, from, bytes) : status;
}

attune_status attune_synchronize(attune_context *context) {
  attune__device *device;
  attune_status status = device_of(context, &device);
  return device ? device->ops->synchronize(device) : status;
}
