/* device_cpu.c - the CPU device behind device.h: loads PTX, launches, keeps buffers and counters.
 *
 * Input: entries with their PTX, launch configurations, parameter blocks. Output: launches that
 * have run when the call returns, faults as ATTUNE_MISMATCH, counters. Executing is engine.h's. */
#include "../attune_cpu.h"
#include "../context.h"
#include "engine.h"
#include "tensormap_bytes.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef struct cpu_device {
  attune__device base;
  pthread_mutex_t lock;       /* of options and counters */
  char arch[ATTUNE_ARCH_MAX]; /* where options.arch points */
  attune_cpu_options options;
  attune_cpu_counters part[ATTUNE_MAX_PARTS]; /* of the last launch, by part; size 0: none */
} cpu_device;

struct attune__function {
  attune_entry entry; /* without payloads */
  attune__ptx *program;
};

/* ---- loading ----------------------------------------------------------------------------------
 */

static attune_status check_entry(const cpu_device *d, const attune_entry *entry) {
  if (!entry->payload[ATTUNE_PAYLOAD_PTX].data)
    return attune_fail(ATTUNE_BAD_FILE,
                       "%s has no PTX, which the CPU device executes: build it again", entry->name);
  if (entry->recipe.smem_bytes <= (uint32_t)d->base.facts.smem_block) return ATTUNE_OK;
  return attune_fail(ATTUNE_BAD_FILE,
                     "%s needs %u bytes of shared memory per block, %s has %d: build it with a "
                     "smaller sram",
                     entry->name, entry->recipe.smem_bytes, d->base.facts.name,
                     d->base.facts.smem_block);
}

static attune_status parse(const attune_entry *entry, attune__ptx **out) {
  char *text;
  size_t bytes;
  attune_status status = attune__entry_payload(entry, ATTUNE_PAYLOAD_PTX, &text, &bytes);
  if (status) return status;
  status = attune__ptx_parse(text, bytes, entry->name, out);
  free(text);
  if (status || (*out)->param_bytes == entry->recipe.param_bytes) return status;
  status = attune_fail(ATTUNE_BAD_FILE, "%s: its PTX takes %u bytes of parameters, its recipe %u",
                       entry->name, (*out)->param_bytes, entry->recipe.param_bytes);
  attune__ptx_free(*out);
  return status;
}

static attune_status cpu_load(attune__device *device, const attune_entry *entry,
                              attune__function **out) {
  attune_status status = check_entry((cpu_device *)device, entry);
  if (status) return status;
  attune__function *f = calloc(1, sizeof *f);
  if (!f) return attune_fail(ATTUNE_NO_MEMORY, "no memory to load %s", entry->name);
  f->entry = *entry;
  memset(f->entry.payload, 0, sizeof f->entry.payload);
  status = parse(entry, &f->program);
  if (status)
    free(f);
  else
    *out = f;
  return status;
}

static void cpu_unload(attune__device *device, attune__function *f) {
  (void)device;
  attune__ptx_free(f->program);
  free(f);
}

/* ---- launching --------------------------------------------------------------------------------
 */

enum {
  PARAMS_MAX = sizeof(attune_params_attn_fwd_maps) > sizeof(attune_params_attn_standard)
                   ? sizeof(attune_params_attn_fwd_maps)
                   : sizeof(attune_params_attn_standard)
};

/* A parameter block as kernels see it: aligned, with tagged pointers. */
typedef struct tagged_block {
  _Alignas(64) unsigned char bytes[PARAMS_MAX];
} tagged_block;

static void tag_pointers(const attune__tensors *t, const attune__gmem *g, tagged_block *block) {
  for (uint32_t k = 0; k < t->count; k++) {
    uint64_t pointer = attune__gmem_pointer(g, k);
    memcpy(block->bytes + t->pointer[k], &pointer, sizeof pointer);
  }
}

/* A map's base becomes the tagged pointer of the tensor at that address. */
static attune_status tag_maps(const attune__tensors *t, const attune__gmem *g,
                              tagged_block *block) {
  for (int m = 0; m < ATTUNE_MAPS; m++) {
    unsigned char *at =
        block->bytes + offsetof(attune_params_attn_fwd_maps, map) + m * ATTUNE__TENSORMAP_BYTES;
    attune__tensormap map;
    if (!attune__tensormap_decode(at, &map))
      return attune_fail(ATTUNE_INVALID, "tensor map %d of the parameter block is none", m);
    for (uint32_t k = 0; k < t->count; k++)
      if ((uint64_t)(uintptr_t)t->tensor[k].base == map.base) {
        map.base = attune__gmem_pointer(g, k);
        break;
      }
    attune_status status = attune__tensormap_encode(&map, at);
    if (status) return status;
  }
  return ATTUNE_OK;
}

static attune_status run(const attune__cpu_launch *launch, attune_cpu_counters *counters) {
  attune_status status = attune__cpu_run(launch, counters);
  attune__gmem_counters(launch->gmem, counters);
  return status ? status : attune__gmem_finish(launch->gmem, launch->kernel);
}

/* Counters of a program's first part begin a new program. */
static void keep(cpu_device *d, int part, const attune_cpu_counters *counters) {
  pthread_mutex_lock(&d->lock);
  for (int k = 0; part == 0 && k < ATTUNE_MAX_PARTS; k++) d->part[k].size = 0;
  d->part[part] = *counters;
  pthread_mutex_unlock(&d->lock);
}

static attune_cpu_options options_of(cpu_device *d) {
  pthread_mutex_lock(&d->lock);
  attune_cpu_options options = d->options;
  pthread_mutex_unlock(&d->lock);
  return options;
}

static attune_status cpu_launch(attune__device *device, attune__function *f,
                                const attune__launch_config *config, const void *params,
                                size_t param_bytes, void *stream) {
  (void)stream;
  cpu_device *d = (cpu_device *)device;
  const attune_variant *variant = &f->entry.variant;
  attune_params_attn_standard known = {0};
  tagged_block block = {{0}};
  attune__tensors tensors;
  if (param_bytes > sizeof block.bytes || param_bytes != f->program->param_bytes)
    return attune_fail(ATTUNE_INVALID, "%s: %zu bytes of parameters, it takes %u", f->entry.name,
                       param_bytes, f->program->param_bytes);
  memcpy(&known, params, f->entry.recipe.maps ? sizeof(attune_params_attn_fwd) : param_bytes);
  memcpy(block.bytes, params, param_bytes);
  attune_status status = attune__tensors_of(variant, &known, &tensors);
  if (status) return status;
  attune__cpu_launch launch = {.program = f->program,
                               .kernel = f->entry.name,
                               .params = block.bytes,
                               .grid = config->grid,
                               .threads = config->threads,
                               .smem_bytes = config->smem_bytes,
                               .cluster = config->cluster,
                               .early = config->early != 0,
                               .options = options_of(d)};
  status =
      attune__gmem_make(tensors.tensor, tensors.count, !launch.options.unchecked, &launch.gmem);
  if (!status) {
    tag_pointers(&tensors, launch.gmem, &block);
    attune_cpu_counters counters = attune_cpu_counters_init();
    if (f->entry.recipe.maps) status = tag_maps(&tensors, launch.gmem, &block);
    if (!status) status = run(&launch, &counters);
    keep(d, variant->part, &counters);
    attune__gmem_free(launch.gmem);
  }
  attune__tensors_free(&tensors);
  return status;
}

/* ---- buffers ----------------------------------------------------------------------------------
 */

enum { PAGE = 4096 }; /* before each buffer, for its size */

/* Pages that are never touched cost nothing, so tensors with far-apart rows fit. */
static attune_status cpu_alloc(attune__device *device, size_t bytes, void **out) {
  size_t total = bytes + PAGE;
  unsigned char *memory = total < bytes ? MAP_FAILED
                                        : mmap(NULL, total, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return attune_fail(ATTUNE_NO_MEMORY, "%s has no %zu bytes left", device->facts.name, bytes);
  memcpy(memory, &total, sizeof total);
  *out = memory + PAGE;
  return ATTUNE_OK;
}

static void cpu_free(attune__device *device, void *pointer) {
  (void)device;
  if (!pointer) return;
  unsigned char *memory = (unsigned char *)pointer - PAGE;
  size_t total;
  memcpy(&total, memory, sizeof total);
  munmap(memory, total);
}

static attune_status cpu_copy(attune__device *device, void *to, const void *from, size_t bytes) {
  (void)device;
  if (bytes) memcpy(to, from, bytes);
  return ATTUNE_OK;
}

static attune_status cpu_synchronize(attune__device *device) {
  (void)device;
  return ATTUNE_OK;
}

static attune_status cpu_encode_map(attune__device *device, const attune__tensormap *map,
                                    void *out) {
  (void)device;
  return attune__tensormap_encode(map, out);
}

static attune_status cpu_time_begin(attune__device *device, void *stream) {
  (void)stream;
  return attune_fail(ATTUNE_UNSUPPORTED,
                     "%s executes and counts; its time says nothing about a GPU's: count bytes, "
                     "or measure on a GPU",
                     device->facts.name);
}

static attune_status cpu_time_end(attune__device *device, void *stream, float *milliseconds) {
  *milliseconds = 0;
  return cpu_time_begin(device, stream);
}

/* ---- opening and closing ----------------------------------------------------------------------
 */

static void cpu_close(attune__device *device) {
  cpu_device *d = (cpu_device *)device;
  pthread_mutex_destroy(&d->lock);
  free(d);
}

static const attune__device_ops cpu_ops = {.name = "cpu",
                                           .close = cpu_close,
                                           .load = cpu_load,
                                           .unload = cpu_unload,
                                           .launch = cpu_launch,
                                           .encode_map = cpu_encode_map,
                                           .alloc = cpu_alloc,
                                           .free = cpu_free,
                                           .upload = cpu_copy,
                                           .download = cpu_copy,
                                           .synchronize = cpu_synchronize,
                                           .time_begin = cpu_time_begin,
                                           .time_end = cpu_time_end};

/* Bytes of shared memory that a block may have: CUDA C++ programming guide, "Technical
 * Specifications per Compute Capability". */
static int32_t smem_block_of(uint32_t cc) {
  switch (cc) {
    case 75:
      return 64 << 10;
    case 80:
    case 87:
      return 163 << 10;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 << 10;
  }
  return 227 << 10;
}

static attune_status check_options(const attune_cpu_options *o, uint32_t *arch) {
  if (!o || o->size != sizeof *o)
    return attune_fail(ATTUNE_INVALID,
                       "the CPU device's options are NULL or of another size: begin with "
                       "attune_cpu_options_init()");
  if (o->landing > ATTUNE_CPU_LAND_RANDOM || o->sums > ATTUNE_CPU_SUMS_HARDWARE || o->threads < 0)
    return attune_fail(ATTUNE_INVALID,
                       "the CPU device's options: landing %d, sums %d, threads %d "
                       "are not all known",
                       (int)o->landing, (int)o->sums, (int)o->threads);
  *arch = o->arch ? attune__arch_parse(o->arch) : 0;
  if (*arch) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "options.arch is '%s', must be of the form sm_80 or sm_90a",
                     o->arch ? o->arch : "");
}

attune_status attune_cpu_open(const attune_cpu_options *options, attune_context **out) {
  if (!out) return attune_fail(ATTUNE_INVALID, "attune_cpu_open: out is NULL");
  *out = NULL;
  uint32_t arch = 0;
  attune_status status = check_options(options, &arch);
  if (status) return status;
  cpu_device *d = calloc(1, sizeof *d);
  if (!d) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a device");
  pthread_mutex_init(&d->lock, NULL);
  d->base.ops = &cpu_ops;
  d->options = *options;
  d->options.arch = d->arch; /* the caller's string may go */
  attune__device_facts *facts = &d->base.facts;
  attune__arch_print(arch, 1, d->arch);
  snprintf(facts->name, sizeof facts->name, "the CPU as %s", d->arch);
  facts->arch = arch;
  facts->sm_count = 3; /* so that a persistent grid has blocks beside each other */
  facts->smem_block = smem_block_of(attune__arch_cc(arch));
  attune_options messages = attune_options_init();
  messages.message = options->message;
  messages.message_user = options->message_user;
  return attune__open_with(&d->base, arch, &messages, out);
}

/* The context's device when it is one of ours. */
static cpu_device *device_of(attune_context *context) {
  attune__device *device = context ? attune__context_device(context) : NULL;
  if (device && device->ops == &cpu_ops) return (cpu_device *)device;
  attune_fail(ATTUNE_INVALID, "the context was not made by attune_cpu_open");
  return NULL;
}

attune_status attune_cpu_configure(attune_context *context, const attune_cpu_options *options) {
  uint32_t arch = 0;
  cpu_device *d = device_of(context);
  if (!d) return ATTUNE_INVALID;
  attune_status status = check_options(options, &arch);
  if (status) return status;
  if (arch != d->base.facts.arch)
    return attune_fail(ATTUNE_INVALID, "options.arch is not %s's: open another context",
                       d->base.facts.name);
  pthread_mutex_lock(&d->lock);
  d->options = *options;
  d->options.arch = d->arch;
  pthread_mutex_unlock(&d->lock);
  return ATTUNE_OK;
}

/* ---- counters ---------------------------------------------------------------------------------
 */

static void add_tensor(attune_cpu_counters *sum, const attune_cpu_tensor *more) {
  int32_t t = 0;
  while (t < sum->tensors && strcmp(sum->tensor[t].name, more->name) != 0) t++;
  if (t == sum->tensors) {
    sum->tensor[sum->tensors++] = *more;
    return;
  }
  attune_cpu_tensor *s = &sum->tensor[t];
  s->requested_read += more->requested_read, s->requested_write += more->requested_write;
  s->compulsory_read += more->compulsory_read, s->compulsory_write += more->compulsory_write;
  s->sectors_read += more->sectors_read, s->sectors_write += more->sectors_write;
}

static void add_part(attune_cpu_counters *sum, const attune_cpu_counters *part) {
  attune__cpu_add(sum, part);
  for (int32_t t = 0; t < part->tensors; t++) add_tensor(sum, &part->tensor[t]);
}

attune_status attune_cpu_count(attune_context *context, int32_t part, attune_cpu_counters *out) {
  cpu_device *d = device_of(context);
  if (!d) return ATTUNE_INVALID;
  if (!out || out->size != sizeof *out || part >= ATTUNE_MAX_PARTS)
    return attune_fail(ATTUNE_INVALID,
                       "attune_cpu_count: out is NULL or not begun with "
                       "attune_cpu_counters_init(), or there is no part %d",
                       (int)part);
  int found = 0;
  *out = attune_cpu_counters_init();
  pthread_mutex_lock(&d->lock);
  for (int k = 0; k < ATTUNE_MAX_PARTS; k++) {
    if ((part >= 0 && k != part) || !d->part[k].size) continue;
    add_part(out, &d->part[k]);
    found = 1;
  }
  pthread_mutex_unlock(&d->lock);
  return found ? ATTUNE_OK : attune_fail(ATTUNE_NOT_FOUND, "nothing was counted: launch first");
}
