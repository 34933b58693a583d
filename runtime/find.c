/* find.c - from a problem to the program that serves it, and why there is none.
 *
 * Input: a problem. Output: a program of the table, or a message that names the field which caused
 * the miss. Loading and compiling are left to prepare.c. Nothing here locks or allocates. */
#include "context.h"

#include <stdio.h>

enum { LENGTH_BITS = 29 }; /* lengths are 0 .. 2^29 - 1 */

/* ---- hits ---------------------------------------------------------------------------------- */

/* The key of a problem without pins. 0: a field is out of what a key can hold, or there are pins;
 * the full check has to look. A wrong value that fits is found in no row. */
static inline int plain_key(const attune_problem *p, attune__key *key) {
  uint32_t bytes = (uint32_t)p->op | (uint32_t)p->dtype_q | (uint32_t)p->dtype_kv |
                   (uint32_t)p->dtype_out | (uint32_t)p->mask | (uint32_t)p->align |
                   (uint32_t)p->group;
  uint32_t dims = (uint32_t)p->head_dim_qk | (uint32_t)p->head_dim_v;
  uint32_t lengths = (uint32_t)p->batch | (uint32_t)p->heads_q | (uint32_t)p->heads_kv |
                     (uint32_t)p->len_q | (uint32_t)p->len_k;
  if (p->size != sizeof *p || p->pin_count | bytes >> 8 | dims >> 16 | lengths >> LENGTH_BITS)
    return 0;
  *key = (attune__key){{0}};
  ATTUNE__KEY_PUT(key, features, p->features);
  ATTUNE__KEY_PUT(key, head_dim_qk, p->head_dim_qk);
  ATTUNE__KEY_PUT(key, head_dim_v, p->head_dim_v ? p->head_dim_v : p->head_dim_qk);
  ATTUNE__KEY_PUT(key, op, p->op);
  ATTUNE__KEY_PUT(key, dtype_q, p->dtype_q);
  ATTUNE__KEY_PUT(key, dtype_kv, p->dtype_kv ? p->dtype_kv : p->dtype_q);
  ATTUNE__KEY_PUT(key, dtype_out, p->dtype_out ? p->dtype_out : p->dtype_q);
  ATTUNE__KEY_PUT(key, mask, p->mask ? p->mask : ATTUNE_MASK_NONE);
  ATTUNE__KEY_PUT(key, align, p->align ? p->align : ATTUNE_ALIGN_16B);
  ATTUNE__KEY_PUT(key, group, p->group ? p->group : 1);
  return 1;
}

static void say_elem(attune_context *context, attune_program *program) {
  if (atomic_exchange_explicit(&program->said_elem, 1, memory_order_relaxed)) return;
  attune__say(context, ATTUNE_LEVEL_WARN,
              "a 16-byte aligned problem is served by %s, which loads element by element: there is "
              "no row for align 16b",
              program->name);
}

attune_program *attune__find(attune_context *context, const attune__key *key, attune_class cls,
                             int32_t len_k) {
  attune_program *program = attune__table_find(&context->table, key, cls, len_k);
  if (program) return program;
  attune__key elem = *key;
  uint64_t *word = &elem.word[ATTUNE__KEY_WORD(align)];
  if ((*word >> ATTUNE__KEY_SHIFT(align) & 0xff) != ATTUNE_ALIGN_16B) return NULL;
  *word ^= (uint64_t)(ATTUNE_ALIGN_16B ^ ATTUNE_ALIGN_ELEM) << ATTUNE__KEY_SHIFT(align);
  program = attune__table_find(&context->table, &elem, cls, len_k);
  if (program && !atomic_load_explicit(&program->said_elem, memory_order_relaxed))
    say_elem(context, program);
  return program;
}

/* Pins are digested here; what plain_key lets pass is never looked at twice. */
static attune_status find_checked(attune_context *context, const attune_problem *problem,
                                  attune_program **out) {
  attune_variant want;
  attune_class cls;
  attune_status status = attune__check_problem(context, problem, &want, &cls);
  if (status) return status;
  attune__key key = attune__key_of_variant(&want);
  *out = attune__find(context, &key, cls, problem->len_k);
  return *out ? ATTUNE_OK : attune__miss(context, &want, cls);
}

attune_status attune_find(attune_context *context, const attune_problem *problem,
                          attune_program **out) {
  if (!context || !problem || !out)
    return attune_fail(ATTUNE_INVALID, "attune_find: context, problem or out is NULL");
  attune__key key;
  *out = NULL;
  if (plain_key(problem, &key)) {
    attune_class cls =
        attune__shape_class(problem->batch, problem->heads_q, problem->len_q, problem->len_k);
    *out = attune__find(context, &key, cls, problem->len_k);
    if (*out) return ATTUNE_OK;
  }
  return find_checked(context, problem, out);
}

attune_status attune__check_problem(const attune_context *context, const attune_problem *problem,
                                    attune_variant *variant, attune_class *cls) {
  attune_status status = attune__variant_of(problem, context->arch, variant);
  if (status) return status;
  *cls = attune__shape_class(problem->batch, problem->heads_q, problem->len_q, problem->len_k);
  return ATTUNE_OK;
}

attune_status attune_supports(attune_context *context, const attune_problem *problem) {
  attune_program *program;
  attune_status status = attune_find(context, problem, &program);
  if (status != ATTUNE_NOT_FOUND) return status;
  attune_miss_fn miss;
  void *user;
  attune__miss_handler(context, &miss, &user);
  return miss ? miss(user, problem, context->arch_name, 1, NULL) : status;
}

/* ---- misses -------------------------------------------------------------------------------- */

/* How far a row's variant is from the wanted one: another op counts most, then the number of
 * fields that differ, then how far the head dim is. 0: only the shape class is missing. */
static uint32_t distance(const attune_variant *want, const attune_variant *have) {
  uint32_t fields = 0;
#define X(type, field, kind) fields += want->field != have->field;
  ATTUNE_VARIANT_FIELDS(X)
#undef X
  fields -= want->arch != have->arch; /* it runs here, else it were no row */
  int dim = (int)want->head_dim_qk - (int)have->head_dim_qk;
  uint32_t gap = (uint32_t)(dim < 0 ? -dim : dim);
  return (uint32_t)(want->op != have->op) << 24 | fields << 16 | gap;
}

static attune_program *any_of(attune__record *record) {
  for (int i = 0; i < ATTUNE_CLASS_COUNT; i++) {
    attune_program *program = atomic_load_explicit(&record->serves[i], memory_order_acquire);
    attune__limited *limited = atomic_load_explicit(&record->limited[i], memory_order_acquire);
    if (program || limited) return program ? program : limited->program;
  }
  return NULL;
}

static attune_program *nearest(attune_context *context, const attune_variant *want) {
  attune__slots *slots = atomic_load_explicit(&context->table.slots, memory_order_acquire);
  attune_program *best = NULL;
  for (size_t i = 0; i < (size_t)1 << slots->bits; i++) {
    attune__record *record = atomic_load_explicit(&slots->slot[i], memory_order_acquire);
    attune_program *program = record ? any_of(record) : NULL;
    if (!program) continue;
    uint32_t here = distance(want, &program->variant),
             least = best ? distance(want, &best->variant) : 0;
    if (!best || here < least || (here == least && strcmp(program->name, best->name) < 0))
      best = program;
  }
  return best;
}

/* "head_dim_qk 96, nearest has 64 (attn_fwd_sm80_fp16_d64)", or why there is nothing near. */
static void miss_reason(attune_context *context, const attune_variant *want, attune_class cls,
                        char *out, size_t size) {
  const attune_program *near = nearest(context, want);
  int skipped = atomic_load_explicit(&context->skipped_rows, memory_order_acquire);
  if (near && distance(want, &near->variant) == 0) {
    snprintf(out, size, "%s has a row for other shapes or fewer keys, none for %s or any",
             near->name, attune__class_name((int)cls));
  } else if (near) {
    char difference[128];
    attune_variant have = near->variant;
    have.arch = want->arch;
    attune__variant_difference(want, &have, difference, sizeof difference);
    snprintf(out, size, "%s (%s)", difference, near->name);
  } else if (skipped > 0) {
    char arch[ATTUNE_ARCH_MAX];
    attune__arch_print(atomic_load_explicit(&context->skipped_arch, memory_order_relaxed), 1, arch);
    snprintf(out, size,
             "all %d rows of the opened sets are for archs that do not run on %s, such as %s",
             skipped, context->arch_name, arch);
  } else {
    snprintf(out, size, "no kernel set is open");
  }
}

attune_status attune__miss(attune_context *context, const attune_variant *want, attune_class cls) {
  char name[ATTUNE_NAME_MAX], reason[ATTUNE_NAME_MAX + 160];
  attune__variant_name(want, 1, name);
  miss_reason(context, want, cls, reason, sizeof reason);
  return attune_fail(
      ATTUNE_NOT_FOUND, "no kernel for %s: %s; %s", name, reason,
      atomic_load_explicit(&context->handles_misses, memory_order_relaxed)
          ? "attune_prepare will ask the miss handler for it"
          : "add it to a spec and build the set (attune build SPEC -o DIR), or install "
            "the JIT (attune_jit_install)");
}
