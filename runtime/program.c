/* program.c - programs: made of a set's row or of a miss handler's entries, loaded once.
 *
 * Input: rows, entries. Output: programs in the lookup table, with their kernels on the device.
 * When to load and whom to ask on a miss is left to prepare.c. */
#include "context.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* ---- programs and the table ----------------------------------------------------------------- */

static attune_program *program_new(attune_context *context, const attune_variant *variant,
                                   int count) {
  attune_program *program = calloc(1, sizeof *program);
  if (!program) {
    attune_fail(ATTUNE_NO_MEMORY, "no memory for a program");
    return NULL;
  }
  program->context = context;
  program->variant = *variant;
  program->count = count;
  attune__variant_name(variant, 1, program->name);
  return program;
}

void attune__program_free(attune_program *program) {
  free(atomic_load_explicit(&program->parts, memory_order_relaxed));
  free(program);
}

/* Enters the program for its class; from here on other threads may find it. Takes it in any case.
 */
static attune_status publish(attune_context *context, attune_program *program, attune_class also) {
  attune__key key = attune__key_of_variant(&program->variant);
  uint32_t arch = program->variant.arch;
  pthread_mutex_lock(&context->lock);
  program->next = context->programs;
  context->programs = program;
  attune_status status =
      attune__table_add(&context->table, &key, program->cls, arch, program->max_len_k, program);
  if (!status && also != program->cls)
    status = attune__table_add(&context->table, &key, also, arch, program->max_len_k, program);
  pthread_mutex_unlock(&context->lock);
  return status;
}

attune_status attune__program_of_row(attune_context *context, attune__opened *set,
                                     const attune__set_row *row) {
  attune_program *program = program_new(context, &row->variant, row->kernel_count);
  if (!program) return ATTUNE_NO_MEMORY;
  program->cls = row->cls;
  program->corner = row->corner;
  program->set = set;
  memcpy(program->kernel, row->kernel, sizeof program->kernel);
  program->max_len_k = row->max_len_k;
  return publish(context, program, program->cls);
}

/* ---- kernels: entries on the device ---------------------------------------------------------- */

int64_t attune__microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static attune_status load_on_device(attune_context *context, const attune_entry *entry,
                                    attune__part *part) {
  attune__device *device = context->device;
  if (!device) return ATTUNE_OK;
  int64_t began = attune__microseconds();
  attune_status status = device->ops->load(device, entry, &part->function);
  int64_t took = attune__microseconds() - began;
  if (!status)
    attune__say(context, ATTUNE_LEVEL_INFO, "loaded %s in %" PRId64 ".%02d ms", entry->name,
                took / 1000, (int)(took % 1000 / 10));
  return status;
}

/* Puts an entry on the device. The caller holds load_lock. */
static attune_status kernel_new(attune_context *context, const attune_entry *entry,
                                attune__kernel **out) {
  attune__kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return attune_fail(ATTUNE_NO_MEMORY, "no memory for kernel %s", entry->name);
  attune_status status = load_on_device(context, entry, &kernel->part);
  if (status) {
    free(kernel);
    return status;
  }
  kernel->part.entry = *entry;
  memset(kernel->part.entry.payload, 0, sizeof kernel->part.entry.payload);
  kernel->next = context->kernels;
  context->kernels = kernel;
  *out = kernel;
  return ATTUNE_OK;
}

/* The kernel as part `part` of a program for `want`: same variant, on an arch that runs here. */
static attune_status check_part(const attune_context *context, const attune_variant *want, int part,
                                const attune_entry *entry) {
  attune_variant have = entry->variant;
  int runs = attune__arch_runs(have.arch, context->arch) && have.part == part;
  have.arch = want->arch, have.part = want->part;
  if (runs && memcmp(&have, want, sizeof have) == 0) return ATTUNE_OK;
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(want, 1, name);
  return attune_fail(ATTUNE_BAD_FILE, "kernel %s is not part %d of %s on %s", entry->name, part,
                     name, context->arch_name);
}

/* ---- loading --------------------------------------------------------------------------------- */

static attune_status set_kernel(attune_context *context, attune__opened *set, int index) {
  if (set->kernels[index]) return ATTUNE_OK;
  void *bytes = NULL;
  attune_entry entry;
  attune_status status = attune__set_entry(&set->set, index, &bytes, &entry);
  if (!status) status = kernel_new(context, &entry, &set->kernels[index]);
  free(bytes);
  return status;
}

static attune_status read_part(attune_program *program, int i, attune__part *out) {
  attune__opened *set = program->set;
  int index = program->kernel[i];
  attune_status status = set_kernel(program->context, set, index);
  if (status) return status;
  *out = set->kernels[index]->part;
  return check_part(program->context, &program->variant, i, &out->entry);
}

/* Makes the parts visible: to info with the first store, to launch with the second. */
static void hand_over(attune_program *program, attune__part *parts) {
  int ready = program->context->device != NULL;
  atomic_store_explicit(&program->parts, parts, memory_order_release);
  atomic_store_explicit(&program->prepared, ready, memory_order_release);
}

static attune_status load(attune_program *program) {
  if (atomic_load_explicit(&program->parts, memory_order_relaxed)) return ATTUNE_OK;
  attune__part *parts = calloc((size_t)program->count, sizeof *parts);
  if (!parts) return attune_fail(ATTUNE_NO_MEMORY, "no memory for the parts of %s", program->name);
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < program->count && !status; i++) status = read_part(program, i, &parts[i]);
  if (status)
    free(parts);
  else
    hand_over(program, parts);
  return status;
}

attune_status attune__program_load(attune_program *program) {
  if (atomic_load_explicit(&program->prepared, memory_order_acquire)) return ATTUNE_OK;
  pthread_mutex_lock(&program->context->load_lock);
  attune_status status = load(program);
  pthread_mutex_unlock(&program->context->load_lock);
  return status;
}

/* ---- what a miss handler hands back ---------------------------------------------------------- */

static attune_status result_part(attune_context *context, const attune_variant *want, int i,
                                 const attune_miss_result *result, attune__part *out) {
  attune_entry entry;
  attune__kernel *kernel = NULL;
  attune_status status = attune__entry_read(result->entries[i], result->entry_bytes[i], &entry);
  if (!status) status = check_part(context, want, i, &entry);
  if (status) return status;
  pthread_mutex_lock(&context->load_lock);
  status = kernel_new(context, &entry, &kernel);
  pthread_mutex_unlock(&context->load_lock);
  if (kernel) *out = kernel->part;
  return status;
}

static attune_status result_parts(attune_context *context, const attune_variant *want,
                                  const attune_miss_result *result, attune_program *program) {
  attune__part *parts = calloc((size_t)program->count, sizeof *parts);
  if (!parts) return attune_fail(ATTUNE_NO_MEMORY, "no memory for the parts of %s", program->name);
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < program->count && !status; i++)
    status = result_part(context, want, i, result, &parts[i]);
  if (status) {
    free(parts);
    return status;
  }
  for (int i = 0; i < program->count; i++)
    attune__limit_len_k(&program->max_len_k, &parts[i].entry.tile);
  program->variant.arch = parts[0].entry.variant.arch;
  attune__variant_name(&program->variant, 1, program->name);
  hand_over(program, parts);
  return ATTUNE_OK;
}

attune_status attune__program_of_result(attune_context *context, const attune_variant *want,
                                        const attune_program *bad, const attune_miss_result *result,
                                        attune_program **out) {
  int count = attune__op_parts(want->op);
  if (result->count != count)
    return attune_fail(ATTUNE_INVALID, "the miss handler returned %" PRId32 " kernels, %s has %d",
                       result->count, attune__op_name(want->op), count);
  if (result->shape_class < 0 || result->shape_class >= ATTUNE_CLASS_COUNT)
    return attune_fail(ATTUNE_INVALID,
                       "the miss handler returned a program for shape class %" PRId32,
                       result->shape_class);
  attune_program *program = program_new(context, want, count);
  if (!program) return ATTUNE_NO_MEMORY;
  program->cls = (attune_class)result->shape_class;
  attune_status status = result_parts(context, want, result, program);
  if (status) {
    attune__program_free(program);
    return status;
  }
  *out = program;
  return publish(context, program, bad ? bad->cls : program->cls);
}
