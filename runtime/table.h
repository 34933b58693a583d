/* table.h - (variant, shape class) -> program, for lookups without locks.
 *
 *   slots    an array of pointers to records, a power of two, at most half full; a reader probes
 *            from hash(key) until it meets its key or an empty slot
 *   record   one per key: the program that serves each shape class, already resolved
 *
 * Readers use acquire loads only. Writers hold the context's lock, publish by release stores, and
 * grow by building a new array; old arrays stay until the table is freed, so that a reader in the
 * middle of one is safe. Nothing is ever removed.
 *
 * Which row wins for a class: one that takes len_k keys and not any number, of several the one that
 * takes the fewest, the class's own before those of `any`; then the arch that fits best; then the
 * row for the class itself over `any`; then the row that came later. */
#ifndef ATTUNE_TABLE_H
#define ATTUNE_TABLE_H

#include "variant.h"

#include <stdatomic.h>

#define X(name, id, text, doc) +1
enum { ATTUNE_CLASS_COUNT = 0 ATTUNE_CLASSES(X) };
#undef X

/* A variant without arch and part, as three words: within a context both are the same for all. */
typedef struct attune__key {
  uint64_t word[sizeof(attune_variant) / sizeof(uint64_t)];
} attune__key;
_Static_assert(sizeof(attune__key) == sizeof(attune_variant), "a variant is whole words");

/* Where a field of a variant stands in a key: its word, and the shift within it. */
#define ATTUNE__KEY_WORD(field)  (offsetof(attune_variant, field) / 8)
#define ATTUNE__KEY_SHIFT(field) (offsetof(attune_variant, field) % 8 * 8)
/* Stores a field in a key that is zero there. Shifts, not byte stores: the key stays in registers
 * until it is hashed. */
#define ATTUNE__KEY_PUT(key, field, value)                                                         \
  ((key)->word[ATTUNE__KEY_WORD(field)] |= (uint64_t)(value) << ATTUNE__KEY_SHIFT(field))

attune__key attune__key_of_variant(const attune_variant *variant);

/* A program that takes few keys. */
typedef struct attune__limited {
  attune_program *program;
  int32_t max_len_k;
  _Atomic(struct attune__limited *) wider; /* the next that takes more */
} attune__limited;

typedef struct attune__record {
  attune__key key;
  _Atomic(attune__limited *) limited[ATTUNE_CLASS_COUNT]; /* narrowest first */
  _Atomic(attune_program *) serves[ATTUNE_CLASS_COUNT];   /* what a reader takes; NULL: nothing */
  /* the writers' side: the row given for each class, and its arch */
  attune_program *row[ATTUNE_CLASS_COUNT];
  uint32_t arch[ATTUNE_CLASS_COUNT];
} attune__record;

typedef struct attune__slots {
  struct attune__slots *older;
  int bits; /* 2^bits slots */
  _Atomic(attune__record *) slot[];
} attune__slots;

typedef struct attune__table {
  _Atomic(attune__slots *) slots;
  size_t records;
} attune__table;

attune_status attune__table_init(attune__table *table);
void attune__table_free(attune__table *table);
/* The program for the key, class and number of keys, NULL when there is none. Any thread. */
attune_program *attune__table_find(attune__table *table, const attune__key *key, attune_class cls,
                                   int32_t len_k);
/* Enters a row of a program that takes max_len_k keys, 0: any number. The caller holds the
 * writers' lock. */
attune_status attune__table_add(attune__table *table, const attune__key *key, attune_class cls,
                                uint32_t arch, int32_t max_len_k, attune_program *program);

#endif
