/* driver.h - the part of the CUDA driver API that the runtime calls, found by dlopen.
 *
 * Declared here, not taken from cuda.h: building needs no CUDA toolkit. Names of the `_v2` symbols
 * and the values of enums are part of the driver's ABI (cuda.h 13.0). */
#ifndef ATTUNE_DRIVER_H
#define ATTUNE_DRIVER_H

#include "attune.h"

typedef int attune__cuda_result;                 /* CUresult */
typedef int attune__cuda_ordinal;                /* CUdevice */
typedef unsigned long long attune__cuda_pointer; /* CUdeviceptr */
typedef struct CUctx_st *attune__cuda_context;
typedef struct CUmod_st *attune__cuda_module;
typedef struct CUlib_st *attune__cuda_library;
typedef struct CUkern_st *attune__cuda_kernel;
typedef struct CUfunc_st *attune__cuda_function;
typedef struct CUevent_st *attune__cuda_event;
typedef struct CUstream_st *attune__cuda_stream;
typedef struct CUgraph_st *attune__cuda_graph;
typedef struct CUgraphExec_st *attune__cuda_graph_exec;

enum { /* CUresult */
       CUDA_OK = 0,
       CUDA_OUT_OF_MEMORY = 2,
       CUDA_INVALID_IMAGE = 200,
       CUDA_NO_BINARY_FOR_GPU = 209,
       CUDA_INVALID_PTX = 218,
       CUDA_UNSUPPORTED_PTX_VERSION = 222,
       CUDA_INVALID_SOURCE = 300,
       CUDA_NOT_FOUND = 500,
       CUDA_CAPTURE_UNSUPPORTED = 900, /* the first of the stream capture errors .. */
       CUDA_CAPTURE_IMPLICIT = 906,
       CUDA_CAPTURE_WRONG_THREAD = 908 /* .. and the last */
};

enum { /* CUdevice_attribute */
       CUDA_ATTRIBUTE_SM_COUNT = 16,
       CUDA_ATTRIBUTE_MEMORY_KHZ = 36,
       CUDA_ATTRIBUTE_L2_BYTES = 38,
       CUDA_ATTRIBUTE_CC_MAJOR = 75,
       CUDA_ATTRIBUTE_CC_MINOR = 76,
       CUDA_ATTRIBUTE_SMEM_BLOCK_OPTIN = 97
};

enum { /* CUtensorMapL2promotion, CUtensorMapFloatOOBfill */
       CUDA_MAP_L2_PROMOTION_128B = 2,
       CUDA_MAP_FILL_ZEROS = 0,
       CUDA_MAP_FILL_NAN = 1
};
enum { CUDA_FUNC_MAX_DYNAMIC_SMEM = 8 }; /* CUfunction_attribute */
enum { CUDA_CAPTURE_RELAXED = 2 };       /* CUstreamCaptureMode */
enum { CUDA_STREAM_NON_BLOCKING = 1 };   /* CUstream_flags: no waiting for the default stream */

enum { CUDA_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6 }; /* CUlaunchAttributeID */
/* CUlaunchAttribute, of which the value is a union of 64 bytes. */
typedef struct attune__cuda_launch_attribute {
  int id;
  union {
    int on;
    uint64_t words[8];
  } value;
} attune__cuda_launch_attribute;
/* CUlaunchConfig. */
typedef struct attune__cuda_launch_config {
  unsigned grid[3], block[3], smem_bytes;
  attune__cuda_stream stream;
  attune__cuda_launch_attribute *attributes;
  unsigned attribute_count;
} attune__cuda_launch_config;

/* X(required, member, symbol, arguments). What is not required is NULL on older drivers. */
#define ATTUNE__CUDA_FUNCTIONS(X)                                                                  \
  X(1, driver_version, "cuDriverGetVersion", (int *))                                              \
  X(1, init, "cuInit", (unsigned))                                                                 \
  X(1, error_name, "cuGetErrorName", (attune__cuda_result, const char **))                         \
  X(1, error_text, "cuGetErrorString", (attune__cuda_result, const char **))                       \
  X(1, device_count, "cuDeviceGetCount", (int *))                                                  \
  X(1, device_get, "cuDeviceGet", (attune__cuda_ordinal *, int))                                   \
  X(1, device_name, "cuDeviceGetName", (char *, int, attune__cuda_ordinal))                        \
  X(1, device_attribute, "cuDeviceGetAttribute", (int *, int, attune__cuda_ordinal))               \
  X(0, device_bus, "cuDeviceGetPCIBusId", (char *, int, attune__cuda_ordinal))                     \
  X(1, primary_retain, "cuDevicePrimaryCtxRetain", (attune__cuda_context *, attune__cuda_ordinal)) \
  X(1, primary_release, "cuDevicePrimaryCtxRelease_v2", (attune__cuda_ordinal))                    \
  X(1, push, "cuCtxPushCurrent_v2", (attune__cuda_context))                                        \
  X(1, pop, "cuCtxPopCurrent_v2", (attune__cuda_context *))                                        \
  X(1, current, "cuCtxGetCurrent", (attune__cuda_context *))                                       \
  X(1, synchronize, "cuCtxSynchronize", (void))                                                    \
  X(1, module_load, "cuModuleLoadData", (attune__cuda_module *, const void *))                     \
  X(1, module_unload, "cuModuleUnload", (attune__cuda_module))                                     \
  X(1, module_function, "cuModuleGetFunction",                                                     \
    (attune__cuda_function *, attune__cuda_module, const char *))                                  \
  X(0, library_load, "cuLibraryLoadData",                                                          \
    (attune__cuda_library *, const void *, const int *, void *const *, unsigned, const int *,      \
     void *const *, unsigned))                                                                     \
  X(0, library_unload, "cuLibraryUnload", (attune__cuda_library))                                  \
  X(0, library_kernel, "cuLibraryGetKernel",                                                       \
    (attune__cuda_kernel *, attune__cuda_library, const char *))                                   \
  X(0, kernel_function, "cuKernelGetFunction", (attune__cuda_function *, attune__cuda_kernel))     \
  X(0, function_load, "cuFuncLoad", (attune__cuda_function))                                       \
  X(0, exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int *))                        \
  X(1, function_set, "cuFuncSetAttribute", (attune__cuda_function, int, int))                      \
  X(1, launch, "cuLaunchKernel",                                                                   \
    (attune__cuda_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,  \
     attune__cuda_stream, void **, void **))                                                       \
  X(0, launch_with, "cuLaunchKernelEx",                                                            \
    (const attune__cuda_launch_config *, attune__cuda_function, void **, void **))                 \
  X(0, encode_map, "cuTensorMapEncodeTiled",                                                       \
    (void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const uint32_t *,          \
     const uint32_t *, int, int, int, int))                                                        \
  X(0, replace_address, "cuTensorMapReplaceAddress", (void *, void *))                             \
  X(1, mem_alloc, "cuMemAlloc_v2", (attune__cuda_pointer *, size_t))                               \
  X(1, mem_free, "cuMemFree_v2", (attune__cuda_pointer))                                           \
  X(1, upload, "cuMemcpyHtoD_v2", (attune__cuda_pointer, const void *, size_t))                    \
  X(1, download, "cuMemcpyDtoH_v2", (void *, attune__cuda_pointer, size_t))                        \
  X(1, event_create, "cuEventCreate", (attune__cuda_event *, unsigned))                            \
  X(1, event_destroy, "cuEventDestroy_v2", (attune__cuda_event))                                   \
  X(1, event_record, "cuEventRecord", (attune__cuda_event, attune__cuda_stream))                   \
  X(1, event_synchronize, "cuEventSynchronize", (attune__cuda_event))                              \
  X(1, event_elapsed, "cuEventElapsedTime", (float *, attune__cuda_event, attune__cuda_event))     \
  X(0, stream_create, "cuStreamCreate", (attune__cuda_stream *, unsigned))                         \
  X(0, stream_destroy, "cuStreamDestroy_v2", (attune__cuda_stream))                                \
  X(0, stream_capturing, "cuStreamIsCapturing", (attune__cuda_stream, int *))                      \
  X(0, stream_synchronize, "cuStreamSynchronize", (attune__cuda_stream))                           \
  X(0, capture_begin, "cuStreamBeginCapture_v2", (attune__cuda_stream, int))                       \
  X(0, capture_end, "cuStreamEndCapture", (attune__cuda_stream, attune__cuda_graph *))             \
  X(0, graph_instantiate, "cuGraphInstantiateWithFlags",                                           \
    (attune__cuda_graph_exec *, attune__cuda_graph, unsigned long long))                           \
  X(0, graph_launch, "cuGraphLaunch", (attune__cuda_graph_exec, attune__cuda_stream))              \
  X(0, graph_destroy, "cuGraphDestroy", (attune__cuda_graph))                                      \
  X(0, graph_exec_destroy, "cuGraphExecDestroy", (attune__cuda_graph_exec))                        \
  X(0, occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                   \
    (int *, attune__cuda_function, int, size_t))

typedef struct attune__cuda {
#define X(required, member, symbol, arguments) attune__cuda_result(*member) arguments;
  ATTUNE__CUDA_FUNCTIONS(X)
#undef X
} attune__cuda;

/* The driver's functions, loaded once per process and never unloaded; NULL, with attune_error() set
 * (ATTUNE_NO_DEVICE), when there is no libcuda.so.1 or it lacks a required one. Does not call
 * cuInit. */
const attune__cuda *attune__cuda_api(void);

#endif
