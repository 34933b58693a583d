/* device_cuda.c - the CUDA device behind device.h: loads cubins, launches, and keeps buffers.
 *
 * Input: entries, launch configurations, parameter blocks. Output: launches in the device's primary
 * context, which the CUDA runtime and PyTorch use too. Which kernels and when is the caller's.
 *
 * Every call pushes the primary context and pops it; a launch does so only where another context is
 * current, since the two calls cost as much as the rest of it. Kernels are loaded whole at load
 * (lazy loading would take locks at the first launch, wait for the GPU, or fail in a stream
 * capture). */
#include "device.h"
#include "driver.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMEM_WITHOUT_OPTIN = 48 << 10 }; /* bytes a block gets without asking, on every arch */

typedef struct cuda_device {
  attune__device base;
  const attune__cuda *cuda;
  attune__cuda_ordinal ordinal;
  attune__cuda_context context;
  attune__cuda_event begin, end;
  int early; /* launches may begin before what is ahead of them in the stream has ended */
} cuda_device;

/* The library API (CUDA 12) where the driver has it, else a module. */
struct attune__function {
  attune__cuda_function function;
  attune__cuda_library library;
  attune__cuda_module module;
};

/* ---- errors and the current context ---------------------------------------------------------- */

/* An image that the driver refuses is a bad file: it can be built again. */
static attune_status status_of(attune__cuda_result result) {
  switch (result) {
    case CUDA_OK:
      return ATTUNE_OK;
    case CUDA_OUT_OF_MEMORY:
      return ATTUNE_NO_MEMORY;
    case CUDA_INVALID_IMAGE:
    case CUDA_NO_BINARY_FOR_GPU:
    case CUDA_INVALID_PTX:
    case CUDA_UNSUPPORTED_PTX_VERSION:
    case CUDA_INVALID_SOURCE:
    case CUDA_NOT_FOUND:
      return ATTUNE_BAD_FILE;
  }
  if (result >= CUDA_CAPTURE_UNSUPPORTED && result <= CUDA_CAPTURE_WRONG_THREAD) return ATTUNE_BUSY;
  return ATTUNE_DRIVER;
}

/* ATTUNE_OK, or the driver's error as attune's; `what` says what was being done, `name` to what. */
static attune_status check(const attune__cuda *cuda, attune__cuda_result result, const char *what,
                           const char *name) {
  if (result == CUDA_OK) return ATTUNE_OK;
  const char *code = NULL, *text = NULL;
  cuda->error_name(result, &code);
  cuda->error_text(result, &text);
  return attune_fail(status_of(result), "%s %s: %s (%d): %s", what, name,
                     code ? code : "CUDA error", result, text ? text : "no text");
}

static attune_status enter(cuda_device *d) {
  return check(d->cuda, d->cuda->push(d->context), "entering the context of", d->base.facts.name);
}

static void leave(cuda_device *d) {
  attune__cuda_context popped;
  d->cuda->pop(&popped);
}

/* enter(), unless the calling thread is in the context already, as with the CUDA runtime and
 * PyTorch: *entered says whether to leave(). */
static attune_status enter_from_outside(cuda_device *d, int *entered) {
  attune__cuda_context current = NULL;
  *entered = d->cuda->current(&current) != CUDA_OK || current != d->context;
  return *entered ? enter(d) : ATTUNE_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

static attune_status load_library(const attune__cuda *cuda, const attune_entry *entry,
                                  attune__function *f) {
  const void *image = entry->payload[ATTUNE_PAYLOAD_CUBIN].data;
  attune__cuda_kernel kernel;
  attune__cuda_result result = cuda->library_load(&f->library, image, NULL, NULL, 0, NULL, NULL, 0);
  if (!result) result = cuda->library_kernel(&kernel, f->library, entry->name);
  if (!result) result = cuda->kernel_function(&f->function, kernel);
  return check(cuda, result, "loading", entry->name);
}

static attune_status load_module(const attune__cuda *cuda, const attune_entry *entry,
                                 attune__function *f) {
  const void *image = entry->payload[ATTUNE_PAYLOAD_CUBIN].data;
  attune__cuda_result result = cuda->module_load(&f->module, image);
  if (!result) result = cuda->module_function(&f->function, f->module, entry->name);
  return check(cuda, result, "loading", entry->name);
}

/* The limit belongs to the function and is final: no launch ever changes it. */
static attune_status raise_smem(const attune__cuda *cuda, const attune_entry *entry,
                                attune__function *f) {
  if (entry->recipe.smem_bytes <= SMEM_WITHOUT_OPTIN) return ATTUNE_OK;
  return check(
      cuda,
      cuda->function_set(f->function, CUDA_FUNC_MAX_DYNAMIC_SMEM, (int)entry->recipe.smem_bytes),
      "raising the shared memory of", entry->name);
}

static void unload_inside(const attune__cuda *cuda, attune__function *f) {
  if (f->library) cuda->library_unload(f->library);
  if (f->module) cuda->module_unload(f->module);
}

/* In relaxed mode loading is legal while another stream of this process is being captured. */
static attune_status load_inside(const attune__cuda *cuda, const attune_entry *entry,
                                 attune__function *f) {
  int mode = CUDA_CAPTURE_RELAXED;
  int has_libraries =
      cuda->library_load && cuda->library_kernel && cuda->kernel_function && cuda->library_unload;
  if (cuda->exchange_capture_mode) cuda->exchange_capture_mode(&mode);
  attune_status status = has_libraries ? load_library(cuda, entry, f) : load_module(cuda, entry, f);
  if (!status) status = raise_smem(cuda, entry, f);
  if (!status && cuda->function_load)
    status = check(cuda, cuda->function_load(f->function), "loading", entry->name);
  if (cuda->exchange_capture_mode) cuda->exchange_capture_mode(&mode);
  return status;
}

static attune_status check_entry(const cuda_device *d, const attune_entry *entry) {
  if (!entry->payload[ATTUNE_PAYLOAD_CUBIN].data)
    return attune_fail(ATTUNE_BAD_FILE, "%s has no cubin: build it again", entry->name);
  if (entry->recipe.smem_bytes <= (uint32_t)d->base.facts.smem_block) return ATTUNE_OK;
  return attune_fail(ATTUNE_BAD_FILE,
                     "%s needs %u bytes of shared memory per block, %s has %d: build it with a "
                     "smaller sram",
                     entry->name, entry->recipe.smem_bytes, d->base.facts.name,
                     d->base.facts.smem_block);
}

static attune_status cuda_load(attune__device *device, const attune_entry *entry,
                               attune__function **out) {
  cuda_device *d = (cuda_device *)device;
  attune_status status = check_entry(d, entry);
  if (status) return status;
  attune__function *f = calloc(1, sizeof *f);
  if (!f) return attune_fail(ATTUNE_NO_MEMORY, "no memory to load %s", entry->name);
  status = enter(d);
  if (!status) {
    status = load_inside(d->cuda, entry, f);
    if (status) unload_inside(d->cuda, f);
    leave(d);
  }
  if (status)
    free(f);
  else
    *out = f;
  return status;
}

static void cuda_unload(attune__device *device, attune__function *f) {
  cuda_device *d = (cuda_device *)device;
  if (enter(d) == ATTUNE_OK) {
    unload_inside(d->cuda, f);
    leave(d);
  }
  free(f);
}

/* ---- launching ------------------------------------------------------------------------------- */

/* A kernel that waits itself for what is ahead of it in the stream is placed on the SMs as they get
 * free (programmatic dependent launch, CUDA programming guide). */
static attune__cuda_result launch_early(const cuda_device *d, attune__function *f,
                                        const attune__launch_config *config, void **arguments,
                                        void *stream) {
  attune__cuda_launch_attribute early = {.id = CUDA_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION,
                                         .value = {.on = 1}};
  const attune__cuda_launch_config how = {.grid = {config->grid, 1, 1},
                                          .block = {config->threads, 1, 1},
                                          .smem_bytes = config->smem_bytes,
                                          .stream = stream,
                                          .attributes = &early,
                                          .attribute_count = 1};
  return d->cuda->launch_with(&how, f->function, arguments, NULL);
}

/* The kernel takes one struct; the driver knows its size and copies it during the call. */
static attune_status cuda_launch(attune__device *device, attune__function *f,
                                 const attune__launch_config *config, const void *params,
                                 size_t param_bytes, void *stream) {
  (void)param_bytes;
  cuda_device *d = (cuda_device *)device;
  int entered;
  attune_status status = enter_from_outside(d, &entered);
  if (status) return status;
  void *arguments[] = {(void *)(uintptr_t)params};
  attune__cuda_result result =
      d->early && config->early
          ? launch_early(d, f, config, arguments, stream)
          : d->cuda->launch(f->function, config->grid, 1, 1, config->threads, 1, 1,
                            config->smem_bytes, stream, arguments, NULL);
  if (entered) leave(d);
  return check(d->cuda, result, "launching on", d->base.facts.name);
}

/* ---- tensor maps ----------------------------------------------------------------------------- */

/* A map says the same wherever it was made, the driver takes longer to encode one than to put
 * another address into it, and launches of one layer after the other differ in addresses alone:
 * each thread keeps the last maps it made. */
typedef struct kept_map {
  attune__cuda_ordinal ordinal;
  attune__tensormap map; /* rank 0: nothing is kept here */
  _Alignas(64) unsigned char bytes[ATTUNE__TENSORMAP_BYTES];
} kept_map;

enum { MAPS_KEPT = 16 }; /* four of a launch */
static _Thread_local kept_map kept_maps[MAPS_KEPT];
static _Thread_local unsigned next_kept;

static int same_form(const attune__tensormap *a, const attune__tensormap *b) {
  enum { FROM = offsetof(attune__tensormap, rank) };
  enum { TO = offsetof(attune__tensormap, nan_fill) + sizeof a->nan_fill };
  _Static_assert(TO - FROM == sizeof a->rank + sizeof a->type + sizeof a->extent +
                                  sizeof a->stride + sizeof a->box + sizeof a->swizzle +
                                  sizeof a->nan_fill,
                 "bytes of the form are members alone");
  return !memcmp((const char *)a + FROM, (const char *)b + FROM, TO - FROM);
}

static int is_kept(const kept_map *kept, const cuda_device *d, const attune__tensormap *m) {
  return kept->ordinal == d->ordinal && same_form(&kept->map, m);
}

/* The same map, else one that has another address. */
static const kept_map *find_kept(const cuda_device *d, const attune__tensormap *m) {
  for (int i = 0; i < MAPS_KEPT; i++)
    if (kept_maps[i].map.base == m->base && is_kept(&kept_maps[i], d, m)) return &kept_maps[i];
  for (int i = 0; i < MAPS_KEPT; i++)
    if (is_kept(&kept_maps[i], d, m)) return &kept_maps[i];
  return NULL;
}

static void keep_map(const cuda_device *d, const attune__tensormap *m, const void *bytes) {
  kept_map *place = &kept_maps[next_kept++ % MAPS_KEPT];
  place->ordinal = d->ordinal, place->map = *m;
  memcpy(place->bytes, bytes, sizeof place->bytes);
}

/* Promotion to 128 bytes: 256 made a stream of K and V 12 % slower on an H200. */
static attune__cuda_result encode_new(const cuda_device *d, const attune__tensormap *m, void *out) {
  static const uint32_t dense[ATTUNE__TENSORMAP_RANK] = {1, 1, 1, 1, 1};
  return d->cuda->encode_map(out, (int)m->type, m->rank, (void *)(uintptr_t)m->base, m->extent,
                             m->stride + 1, m->box, dense, 0, (int)m->swizzle,
                             CUDA_MAP_L2_PROMOTION_128B,
                             m->nan_fill ? CUDA_MAP_FILL_NAN : CUDA_MAP_FILL_ZEROS);
}

static attune_status cuda_encode_map(attune__device *device, const attune__tensormap *m,
                                     void *out) {
  cuda_device *d = (cuda_device *)device;
  if (!d->cuda->encode_map || !d->cuda->replace_address)
    return attune_fail(ATTUNE_UNSUPPORTED, "the driver of %s has no tensor maps: CUDA 12 has",
                       d->base.facts.name);
  const kept_map *kept = find_kept(d, m);
  if (kept) memcpy(out, kept->bytes, sizeof kept->bytes);
  if (kept && kept->map.base == m->base) return ATTUNE_OK;
  int entered; /* the driver encodes for the current context's device */
  attune_status status = enter_from_outside(d, &entered);
  if (status) return status;
  attune__cuda_result result =
      kept ? d->cuda->replace_address(out, (void *)(uintptr_t)m->base) : encode_new(d, m, out);
  if (entered) leave(d);
  if (!result) keep_map(d, m, out);
  return check(d->cuda, result, "encoding a tensor map on", d->base.facts.name);
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* Runs one driver call inside the context: INSIDE(d, "what", call(...)). */
#define INSIDE(d, what, call)                                                                      \
  do {                                                                                             \
    attune_status entered = enter(d);                                                              \
    if (entered) return entered;                                                                   \
    attune__cuda_result called = (d)->cuda->call;                                                  \
    leave(d);                                                                                      \
    return check((d)->cuda, called, what, (d)->base.facts.name);                                   \
  } while (0)

static attune_status cuda_alloc(attune__device *device, size_t bytes, void **out) {
  cuda_device *d = (cuda_device *)device;
  attune__cuda_pointer pointer = 0;
  attune_status status = enter(d);
  if (status) return status;
  attune__cuda_result result = d->cuda->mem_alloc(&pointer, bytes ? bytes : 1);
  leave(d);
  *out = (void *)(uintptr_t)pointer;
  if (result == CUDA_OUT_OF_MEMORY)
    return attune_fail(ATTUNE_NO_MEMORY, "%s has no %zu bytes left", d->base.facts.name, bytes);
  return check(d->cuda, result, "allocating on", d->base.facts.name);
}

static void cuda_free(attune__device *device, void *pointer) {
  cuda_device *d = (cuda_device *)device;
  if (!pointer || enter(d)) return;
  d->cuda->mem_free((uintptr_t)pointer);
  leave(d);
}

/* From pageable memory the driver's copy returns once it is staged; a stream that does not wait for
 * the default stream could read before it lands. */
static attune_status cuda_upload(attune__device *device, void *to, const void *from, size_t bytes) {
  cuda_device *d = (cuda_device *)device;
  attune_status status = enter(d);
  if (status) return status;
  attune__cuda_result result = d->cuda->upload((uintptr_t)to, from, bytes);
  if (!result)
    result =
        d->cuda->stream_synchronize ? d->cuda->stream_synchronize(NULL) : d->cuda->synchronize();
  leave(d);
  return check(d->cuda, result, "copying to", d->base.facts.name);
}

static attune_status cuda_download(attune__device *device, void *to, const void *from,
                                   size_t bytes) {
  cuda_device *d = (cuda_device *)device;
  INSIDE(d, "copying from", download(to, (uintptr_t)from, bytes));
}

static attune_status cuda_synchronize(attune__device *device) {
  cuda_device *d = (cuda_device *)device;
  INSIDE(d, "waiting for", synchronize());
}

/* ---- time ------------------------------------------------------------------------------------ */

static attune_status cuda_time_begin(attune__device *device, void *stream) {
  cuda_device *d = (cuda_device *)device;
  INSIDE(d, "timing on", event_record(d->begin, stream));
}

static attune_status cuda_time_end(attune__device *device, void *stream, float *milliseconds) {
  cuda_device *d = (cuda_device *)device;
  attune_status status = enter(d);
  if (status) return status;
  attune__cuda_result result = d->cuda->event_record(d->end, stream);
  if (!result) result = d->cuda->event_synchronize(d->end);
  if (!result) result = d->cuda->event_elapsed(milliseconds, d->begin, d->end);
  leave(d);
  return check(d->cuda, result, "timing on", d->base.facts.name);
}

/* Streams and graphs are older than any driver that loads what NVRTC 12 makes; the occupancy call
 * too. */
static attune_status check_can_record(const cuda_device *d) {
  const attune__cuda *cuda = d->cuda;
  if (cuda->stream_create && cuda->stream_destroy && cuda->capture_begin && cuda->capture_end &&
      cuda->graph_instantiate && cuda->graph_launch && cuda->graph_destroy &&
      cuda->graph_exec_destroy)
    return ATTUNE_OK;
  return attune_fail(ATTUNE_UNSUPPORTED,
                     "the driver of %s has no CUDA graphs: CUDA 11.4 and newer "
                     "do",
                     d->base.facts.name);
}

static attune_status cuda_stream_make(attune__device *device, void **out) {
  cuda_device *d = (cuda_device *)device;
  attune_status status = check_can_record(d);
  if (status) return status;
  INSIDE(d, "making a stream on",
         stream_create((attune__cuda_stream *)out, CUDA_STREAM_NON_BLOCKING));
}

static void cuda_stream_free(attune__device *device, void *stream) {
  cuda_device *d = (cuda_device *)device;
  if (!stream || enter(d)) return;
  d->cuda->stream_destroy(stream);
  leave(d);
}

static attune_status cuda_record_begin(attune__device *device, void *stream) {
  cuda_device *d = (cuda_device *)device;
  INSIDE(d, "recording on", capture_begin(stream, CUDA_CAPTURE_RELAXED));
}

static attune_status cuda_record_end(attune__device *device, void *stream, attune__graph **out) {
  cuda_device *d = (cuda_device *)device;
  attune__cuda_graph graph = NULL;
  attune__cuda_graph_exec exec = NULL;
  attune_status status = enter(d);
  *out = NULL;
  if (status) return status;
  attune__cuda_result result = d->cuda->capture_end(stream, &graph);
  if (!result) result = d->cuda->graph_instantiate(&exec, graph, 0);
  if (graph) d->cuda->graph_destroy(graph);
  leave(d);
  *out = (attune__graph *)(void *)exec;
  return check(d->cuda, result, "recording on", d->base.facts.name);
}

static attune_status cuda_graph_launch(attune__device *device, attune__graph *graph, void *stream) {
  cuda_device *d = (cuda_device *)device;
  INSIDE(d, "launching a graph on", graph_launch((attune__cuda_graph_exec)(void *)graph, stream));
}

static void cuda_graph_free(attune__device *device, attune__graph *graph) {
  cuda_device *d = (cuda_device *)device;
  if (!graph || enter(d)) return;
  d->cuda->graph_exec_destroy((attune__cuda_graph_exec)(void *)graph);
  leave(d);
}

/* For the default stream the driver answers with an error when a stream that waits for it is being
 * captured, and leaves the capture as it is. */
static int cuda_capturing(attune__device *device, void *stream) {
  cuda_device *d = (cuda_device *)device;
  int state = 0;
  if (!d->cuda->stream_capturing || enter(d)) return 0;
  attune__cuda_result result = d->cuda->stream_capturing(stream, &state);
  leave(d);
  return result ? result == CUDA_CAPTURE_IMPLICIT : state != 0;
}

static void cuda_relax(attune__device *device) {
  cuda_device *d = (cuda_device *)device;
  int mode = CUDA_CAPTURE_RELAXED;
  if (d->cuda->exchange_capture_mode) d->cuda->exchange_capture_mode(&mode);
}

static attune_status cuda_occupancy(attune__device *device, attune__function *f,
                                    const attune__launch_config *config, int *blocks) {
  cuda_device *d = (cuda_device *)device;
  *blocks = 0;
  if (!d->cuda->occupancy)
    return attune_fail(ATTUNE_UNSUPPORTED, "the driver of %s cannot tell occupancies",
                       d->base.facts.name);
  INSIDE(d, "asking for an occupancy on",
         occupancy(blocks, f->function, (int)config->threads, config->smem_bytes));
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void cuda_close(attune__device *device) {
  cuda_device *d = (cuda_device *)device;
  if (d->context && enter(d) == ATTUNE_OK) {
    if (d->begin) d->cuda->event_destroy(d->begin);
    if (d->end) d->cuda->event_destroy(d->end);
    leave(d);
  }
  if (d->context) d->cuda->primary_release(d->ordinal);
  free(d);
}

static const attune__device_ops cuda_ops = {.name = "cuda",
                                            .close = cuda_close,
                                            .load = cuda_load,
                                            .unload = cuda_unload,
                                            .launch = cuda_launch,
                                            .encode_map = cuda_encode_map,
                                            .alloc = cuda_alloc,
                                            .free = cuda_free,
                                            .upload = cuda_upload,
                                            .download = cuda_download,
                                            .synchronize = cuda_synchronize,
                                            .time_begin = cuda_time_begin,
                                            .time_end = cuda_time_end,
                                            .stream_make = cuda_stream_make,
                                            .stream_free = cuda_stream_free,
                                            .record_begin = cuda_record_begin,
                                            .record_end = cuda_record_end,
                                            .graph_launch = cuda_graph_launch,
                                            .graph_free = cuda_graph_free,
                                            .capturing = cuda_capturing,
                                            .relax = cuda_relax,
                                            .occupancy = cuda_occupancy};

/* From compute capability 9.0 on an arch has instructions of its own, named by the suffix a. */
static uint32_t device_arch(int major, int minor) {
  return attune__arch((uint32_t)(major * 10 + minor), major >= 9 ? 'a' : 0);
}

/* What only a tuner asks; a driver that does not say is none the worse. */
static void read_more_facts(const cuda_device *d, attune__device_facts *facts) {
  int khz = 0;
  if (!d->cuda->device_attribute(&khz, CUDA_ATTRIBUTE_MEMORY_KHZ, d->ordinal))
    facts->memory_mhz = khz / 1000;
  if (d->cuda->device_bus && d->cuda->device_bus(facts->bus, (int)sizeof facts->bus, d->ordinal))
    facts->bus[0] = 0;
}

static attune_status read_facts(cuda_device *d) {
  const attune__cuda *cuda = d->cuda;
  attune__device_facts *facts = &d->base.facts;
  int major = 0, minor = 0;
  attune__cuda_result result = cuda->device_name(facts->name, (int)sizeof facts->name, d->ordinal);
  if (!result) result = cuda->device_attribute(&major, CUDA_ATTRIBUTE_CC_MAJOR, d->ordinal);
  if (!result) result = cuda->device_attribute(&minor, CUDA_ATTRIBUTE_CC_MINOR, d->ordinal);
  if (!result)
    result = cuda->device_attribute(&facts->sm_count, CUDA_ATTRIBUTE_SM_COUNT, d->ordinal);
  if (!result)
    result = cuda->device_attribute(&facts->l2_bytes, CUDA_ATTRIBUTE_L2_BYTES, d->ordinal);
  if (!result)
    result =
        cuda->device_attribute(&facts->smem_block, CUDA_ATTRIBUTE_SMEM_BLOCK_OPTIN, d->ordinal);
  if (!result) result = cuda->driver_version(&facts->driver_cuda);
  facts->arch = device_arch(major, minor);
  read_more_facts(d, facts);
  return check(cuda, result, "asking", "the device for its facts");
}

/* Captured into graphs since CUDA 12.3. */
static int may_launch_early(const cuda_device *d) {
  enum { SINCE = 12030 };
  const char *wish = getenv("ATTUNE_EARLY_LAUNCH");
  if (wish && !strcmp(wish, "0")) return 0;
  return d->cuda->launch_with && d->base.facts.driver_cuda >= SINCE;
}

static attune_status make_context(cuda_device *d) {
  const attune__cuda *cuda = d->cuda;
  attune_status status = check(cuda, cuda->primary_retain(&d->context, d->ordinal),
                               "making a context on", d->base.facts.name);
  if (status) {
    d->context = NULL;
    return status;
  }
  status = enter(d);
  if (status) return status;
  attune__cuda_result result = cuda->event_create(&d->begin, 0);
  if (!result) result = cuda->event_create(&d->end, 0);
  leave(d);
  return check(cuda, result, "making events on", d->base.facts.name);
}

static attune_status pick(const attune__cuda *cuda, int ordinal, attune__cuda_ordinal *out) {
  int count = 0;
  attune__cuda_result result = cuda->init(0);
  if (!result) result = cuda->device_count(&count);
  if (result) {
    check(cuda, result, "starting", "the CUDA driver");
    return attune_fail(ATTUNE_NO_DEVICE, "no usable GPU: %s", attune_error());
  }
  if (ordinal < 0 || ordinal >= count)
    return attune_fail(ATTUNE_NO_DEVICE, "no CUDA device %d: the driver sees %d", ordinal, count);
  return check(cuda, cuda->device_get(out, ordinal), "getting", "the device");
}

attune_status attune__cuda_open(int ordinal, attune__device **out) {
  *out = NULL;
  attune__cuda_ordinal picked = 0;
  const attune__cuda *cuda = attune__cuda_api();
  if (!cuda) return ATTUNE_NO_DEVICE;
  attune_status status = pick(cuda, ordinal, &picked);
  if (status) return status;
  cuda_device *d = calloc(1, sizeof *d);
  if (!d) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a device");
  d->base.ops = &cuda_ops;
  d->cuda = cuda;
  d->ordinal = picked;
  status = read_facts(d);
  d->early = may_launch_early(d);
  if (!status) status = make_context(d);
  if (status)
    cuda_close(&d->base);
  else
    *out = &d->base;
  return status;
}
