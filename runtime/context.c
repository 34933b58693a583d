/* context.c - contexts: opening and closing, adding sets, questions about what is there.
 *
 * Input: options and sets. Output: a context whose table knows a program per row. Lookups
 * are find.c's, loading is program.c's, the device stands behind device.h. */
#include "context.h"
#include "pack.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  MESSAGE_BYTES = 1024,
  PACK_MEMORY_ALIGN = 16 /* what malloc gives; the driver reads cubins in place */
};

void attune__say(const attune_context *context, attune_level level, const char *format, ...) {
  if (!context->message) return;
  char text[MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  context->message(context->message_user, level, text);
}

/* ---- open and close ------------------------------------------------------------------------- */

attune_status attune__open_with(attune__device *device, uint32_t arch,
                                const attune_options *options, attune_context **out) {
  *out = NULL;
  attune_context *context = calloc(1, sizeof *context);
  if (!context || attune__table_init(&context->table)) {
    free(context);
    if (device) device->ops->close(device);
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for a context");
  }
  context->device = device;
  context->ordinal = options ? options->device : 0;
  context->arch = arch;
  attune__arch_print(arch, 1, context->arch_name);
  if (options) {
    context->message = options->message;
    context->message_user = options->message_user;
  }
  pthread_mutex_init(&context->lock, NULL);
  pthread_mutex_init(&context->load_lock, NULL);
  pthread_cond_init(&context->landed, NULL);
  *out = context;
  return ATTUNE_OK;
}

static attune_status arch_of_options(const attune_options *options, uint32_t *arch) {
  *arch = 0;
  if (!options) return ATTUNE_OK;
  if (options->size != sizeof *options)
    return attune_fail(ATTUNE_INVALID,
                       "options.size is %zu, this library wants %zu: begin with "
                       "attune_options_init() of the attune.h that belongs to it",
                       options->size, sizeof *options);
  if (!options->arch) return ATTUNE_OK;
  *arch = attune__arch_parse(options->arch);
  if (*arch) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "options.arch is '%s', must be of the form sm_80 or sm_90a",
                     options->arch);
}

attune_status attune_open(const attune_options *options, attune_context **out) {
  if (!out) return attune_fail(ATTUNE_INVALID, "attune_open: out is NULL");
  *out = NULL;
  uint32_t arch;
  attune_status status = arch_of_options(options, &arch);
  if (status) return status;
  attune__device *device = NULL;
  status = attune__cuda_open(options ? options->device : 0, &device);
  if (!device && !arch) return status;
  if (device && arch && !attune__arch_runs(arch, device->facts.arch)) {
    device->ops->close(device); /* lookups for another arch: nothing could be launched */
    device = NULL;
  }
  return attune__open_with(device, arch ? arch : device->facts.arch, options, out);
}

static void free_kernels(attune_context *context) {
  while (context->kernels) {
    attune__kernel *kernel = context->kernels;
    context->kernels = kernel->next;
    if (kernel->part.function) context->device->ops->unload(context->device, kernel->part.function);
    free(kernel);
  }
}

static void free_set(attune__opened *opened) {
  attune__set_free(&opened->set);
  free(opened->kernels);
  free(opened);
}

void attune__watch_launches(attune_context *context) {
  atomic_store_explicit(&context->watched, 1, memory_order_relaxed);
}

void attune__on_close(attune_context *context, void (*closing)(void *user), void *user) {
  context->closing = closing;
  context->closing_user = user;
}

void attune_close(attune_context *context) {
  if (!context) return;
  if (context->closing) context->closing(context->closing_user);
  while (context->programs) {
    attune_program *program = context->programs;
    context->programs = program->next;
    attune__program_free(program);
  }
  free_kernels(context);
  while (context->sets) {
    attune__opened *opened = context->sets;
    context->sets = opened->next;
    free_set(opened);
  }
  attune__table_free(&context->table);
  if (context->device) context->device->ops->close(context->device);
  pthread_cond_destroy(&context->landed);
  pthread_mutex_destroy(&context->load_lock);
  pthread_mutex_destroy(&context->lock);
  free(context);
}

/* ---- sets ----------------------------------------------------------------------------------- */

/* Takes the set in any case; NULL without memory. */
static attune__opened *opened_new(attune__set *set) {
  attune__opened *opened = calloc(1, sizeof *opened);
  attune__kernel **kernels = calloc((size_t)set->kernel_count + 1, sizeof(attune__kernel *));
  if (opened && kernels) {
    opened->set = *set;
    opened->kernels = kernels;
    return opened;
  }
  attune_fail(ATTUNE_NO_MEMORY, "no memory to open %s", set->path);
  attune__set_free(set);
  free(opened);
  free(kernels);
  return NULL;
}

static void skip_row(attune_context *context, const attune__set_row *row) {
  atomic_store_explicit(&context->skipped_arch, row->variant.arch, memory_order_relaxed);
  atomic_fetch_add_explicit(&context->skipped_rows, 1, memory_order_release);
}

static attune_status add_set(attune_context *context, attune__set *set) {
  attune__opened *opened = opened_new(set);
  if (!opened) return ATTUNE_NO_MEMORY;
  attune_status status = ATTUNE_OK;
  pthread_mutex_lock(&context->lock);
  opened->next = context->sets;
  context->sets = opened;
  pthread_mutex_unlock(&context->lock);
  for (int i = 0; i < opened->set.row_count && !status; i++) {
    const attune__set_row *row = &opened->set.rows[i];
    if (attune__arch_runs(row->variant.arch, context->arch))
      status = attune__program_of_row(context, opened, row);
    else
      skip_row(context, row);
  }
  return status;
}

attune_status attune_open_set(attune_context *context, const char *path) {
  if (!context || !path)
    return attune_fail(ATTUNE_INVALID, "attune_open_set: context or path is NULL");
  attune__set set;
  attune_status status = attune__set_read(path, &set);
  return status ? status : add_set(context, &set);
}

attune_status attune_open_memory(attune_context *context, const void *pack, size_t bytes,
                                 const char *name) {
  if (!context || !pack)
    return attune_fail(ATTUNE_INVALID, "attune_open_memory: context or pack is NULL");
  if ((uintptr_t)pack % PACK_MEMORY_ALIGN != 0)
    return attune_fail(ATTUNE_INVALID, "pack is %p, not a multiple of %d bytes", pack,
                       PACK_MEMORY_ALIGN);
  attune__set set;
  attune_status status = attune__pack_read(pack, bytes, name ? name : "memory", &set);
  return status ? status : add_set(context, &set);
}

/* ---- questions ------------------------------------------------------------------------------ */

const char *attune_context_arch(const attune_context *context) {
  return context->arch_name;
}

const char *attune_context_device(const attune_context *context) {
  return context->device ? context->device->facts.name : "";
}

attune__device *attune__context_device(attune_context *context) {
  return context->device;
}

const attune_variant *attune__program_variant(const attune_program *program) {
  return &program->variant;
}

static void kernel_facts(const attune_entry *entry, attune_kernel_facts *out) {
  out->threads = (int32_t)entry->recipe.threads;
  out->smem_bytes = (int32_t)entry->recipe.smem_bytes;
  out->registers = (int32_t)entry->facts.registers;
  out->spill_bytes = (int32_t)entry->facts.spill_bytes;
}

attune_status attune_info(const attune_program *program, attune_program_info *out) {
  if (!program || !out || out->size != sizeof *out)
    return attune_fail(ATTUNE_INVALID, "attune_info: %s",
                       program && out ? "out.size is not that of this library: "
                                        "begin with attune_program_info_init()"
                                      : "program or out is NULL");
  attune_program *readable = (attune_program *)(uintptr_t)program; /* C11 atomics are not const */
  const attune__part *parts = atomic_load_explicit(&readable->parts, memory_order_acquire);
  *out = attune_program_info_init();
  out->variant = program->name;
  out->shape_class = attune__class_name((int)program->cls);
  out->origin = program->set ? program->set->set.path : "jit";
  out->corner = program->corner;
  out->prepared = atomic_load_explicit(&readable->prepared, memory_order_acquire);
  out->kernel_count = program->count;
  for (int i = 0; i < program->count; i++) {
    out->kernels[i].name =
        parts ? parts[i].entry.name : program->set->set.kernels[program->kernel[i]].name;
    if (parts) kernel_facts(&parts[i].entry, &out->kernels[i]);
  }
  return ATTUNE_OK;
}

static int by_name(const void *a, const void *b) {
  const attune_program *x = *(attune_program *const *)a, *y = *(attune_program *const *)b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->cls > y->cls) - (x->cls < y->cls);
}

/* A sorted copy of the list, so that visit may call anything. */
static attune_program **programs(attune_context *context, size_t *count) {
  *count = 0;
  pthread_mutex_lock(&context->lock);
  for (attune_program *p = context->programs; p; p = p->next) ++*count;
  attune_program **list = malloc((*count + 1) * sizeof(attune_program *));
  size_t i = 0;
  for (attune_program *p = context->programs; p && list; p = p->next) list[i++] = p;
  pthread_mutex_unlock(&context->lock);
  if (list) qsort(list, *count, sizeof(attune_program *), by_name);
  return list;
}

attune_status attune_each(attune_context *context, attune_visit_fn visit, void *user) {
  if (!context || !visit)
    return attune_fail(ATTUNE_INVALID, "attune_each: context or visit is NULL");
  size_t count;
  attune_program **list = programs(context, &count);
  if (!list) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a list of %zu programs", count);
  for (size_t i = 0; i < count && !visit(user, list[i]); i++) continue;
  free(list);
  return ATTUNE_OK;
}
