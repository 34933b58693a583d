/* table.c - the lookup table (table.h): hashing, probing, growth, and which row wins.
 *
 * Input: keys and programs. Output: the program for a key and a shape class. What a miss means and
 * where programs come from is left to find.c and program.c. */
#include "table.h"

#include <stdlib.h>

enum { FIRST_BITS = 6 };

attune__key attune__key_of_variant(const attune_variant *variant) {
  attune_variant plain = *variant;
  plain.arch = 0, plain.part = 0;
  attune__key key = {{0}};
#define X(type, field, kind) ATTUNE__KEY_PUT(&key, field, plain.field);
  ATTUNE_VARIANT_FIELDS(X)
#undef X
  return key;
}

/* Odd multipliers spread every field over the high bits, which choose the slot. */
static inline size_t first_slot(const attune__key *key, int bits) {
  uint64_t hash = key->word[0] * 0x9e3779b97f4a7c15u + key->word[1] * 0xc2b2ae3d27d4eb4fu +
                  key->word[2] * 0xd6e8feb86659fd93u;
  hash ^= hash >> 29;
  return (size_t)((hash * 0xbf58476d1ce4e5b9u) >> (64 - bits));
}

static inline int same_key(const attune__key *a, const attune__key *b) {
  return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2])) == 0;
}

/* The record of the key, or NULL with *at on the empty slot where it would go. */
static inline attune__record *probe(attune__slots *slots, const attune__key *key, size_t *at) {
  size_t mask = ((size_t)1 << slots->bits) - 1;
  for (size_t i = first_slot(key, slots->bits);; i = (i + 1) & mask) {
    attune__record *record = atomic_load_explicit(&slots->slot[i], memory_order_acquire);
    if (!record || same_key(&record->key, key)) {
      *at = i;
      return record;
    }
  }
}

/* The narrowest program of a list that takes so many keys. */
static inline attune_program *taking(_Atomic(attune__limited *) *list, int32_t len_k) {
  attune__limited *one = atomic_load_explicit(list, memory_order_acquire);
  while (one && one->max_len_k < len_k)
    one = atomic_load_explicit(&one->wider, memory_order_acquire);
  return one ? one->program : NULL;
}

attune_program *attune__table_find(attune__table *table, const attune__key *key, attune_class cls,
                                   int32_t len_k) {
  attune__slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
  size_t at;
  attune__record *record = probe(slots, key, &at);
  if (!record) return NULL;
  attune_program *program = taking(&record->limited[cls], len_k);
  if (!program) program = taking(&record->limited[ATTUNE_CLASS_ANY], len_k);
  return program ? program : atomic_load_explicit(&record->serves[cls], memory_order_acquire);
}

static attune__slots *slots_new(int bits, attune__slots *older) {
  size_t count = (size_t)1 << bits;
  attune__slots *slots = calloc(1, sizeof *slots + count * sizeof slots->slot[0]);
  if (!slots) return NULL;
  slots->bits = bits;
  slots->older = older;
  return slots;
}

attune_status attune__table_init(attune__table *table) {
  attune__slots *slots = slots_new(FIRST_BITS, NULL);
  atomic_init(&table->slots, slots);
  table->records = 0;
  return slots ? ATTUNE_OK : attune_fail(ATTUNE_NO_MEMORY, "no memory for the lookup table");
}

static void free_record(attune__record *record) {
  for (int cls = 0; record && cls < ATTUNE_CLASS_COUNT; cls++) {
    attune__limited *one = atomic_load_explicit(&record->limited[cls], memory_order_relaxed);
    while (one) {
      attune__limited *wider = atomic_load_explicit(&one->wider, memory_order_relaxed);
      free(one);
      one = wider;
    }
  }
  free(record);
}

void attune__table_free(attune__table *table) {
  attune__slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
  if (!slots) return;
  for (size_t i = 0; i < (size_t)1 << slots->bits; i++)
    free_record(atomic_load_explicit(&slots->slot[i], memory_order_relaxed));
  while (slots) {
    attune__slots *older = slots->older;
    free(slots);
    slots = older;
  }
  atomic_store_explicit(&table->slots, NULL, memory_order_relaxed);
}

/* A copy with twice the slots; the old array stays for readers that are in it. */
static attune__slots *grow(attune__table *table, attune__slots *old) {
  attune__slots *wider = slots_new(old->bits + 1, old);
  if (!wider) return NULL;
  for (size_t i = 0; i < (size_t)1 << old->bits; i++) {
    attune__record *record = atomic_load_explicit(&old->slot[i], memory_order_relaxed);
    if (!record) continue;
    size_t at;
    probe(wider, &record->key, &at);
    atomic_store_explicit(&wider->slot[at], record, memory_order_relaxed);
  }
  atomic_store_explicit(&table->slots, wider, memory_order_release);
  return wider;
}

/* The row that serves a class: its own unless the row for every shape fits the arch better. */
static attune_program *winner(const attune__record *record, int cls) {
  int own = record->row[cls] && record->arch[cls] >= record->arch[ATTUNE_CLASS_ANY];
  return record->row[own ? cls : ATTUNE_CLASS_ANY];
}

/* Among archs that run on the context's, the larger number fits better: the newer minor, and a
 * suffix over none (sm_90a over sm_90). */
static void enter_unlimited(attune__record *record, attune_class cls, uint32_t arch,
                            attune_program *program) {
  if (record->row[cls] && arch < record->arch[cls]) return;
  record->row[cls] = program;
  record->arch[cls] = arch;
  for (int i = 0; i < ATTUNE_CLASS_COUNT; i++)
    atomic_store_explicit(&record->serves[i], winner(record, i), memory_order_release);
}

/* In front of the first that takes as many keys: of two that take the same, the later one wins. */
static attune_status enter_limited(attune__record *record, attune_class cls, int32_t max_len_k,
                                   attune_program *program) {
  _Atomic(attune__limited *) *at = &record->limited[cls];
  attune__limited *wider, *one = calloc(1, sizeof *one);
  if (!one) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a row of the lookup table");
  while ((wider = atomic_load_explicit(at, memory_order_relaxed)) && wider->max_len_k < max_len_k)
    at = &wider->wider;
  one->program = program, one->max_len_k = max_len_k;
  atomic_init(&one->wider, wider);
  atomic_store_explicit(at, one, memory_order_release);
  return ATTUNE_OK;
}

static attune_status enter(attune__record *record, attune_class cls, uint32_t arch,
                           int32_t max_len_k, attune_program *program) {
  if (max_len_k) return enter_limited(record, cls, max_len_k, program);
  enter_unlimited(record, cls, arch, program);
  return ATTUNE_OK;
}

attune_status attune__table_add(attune__table *table, const attune__key *key, attune_class cls,
                                uint32_t arch, int32_t max_len_k, attune_program *program) {
  attune__slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
  size_t at;
  attune__record *record = probe(slots, key, &at);
  if (record) return enter(record, cls, arch, max_len_k, program);

  if ((table->records + 1) * 2 > (size_t)1 << slots->bits) {
    slots = grow(table, slots);
    if (!slots) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a wider lookup table");
    probe(slots, key, &at);
  }
  record = calloc(1, sizeof *record);
  if (!record) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a row of the lookup table");
  record->key = *key;
  attune_status status = enter(record, cls, arch, max_len_k, program);
  if (status) {
    free(record);
    return status;
  }
  atomic_store_explicit(&slots->slot[at], record, memory_order_release);
  table->records++;
  return ATTUNE_OK;
}
