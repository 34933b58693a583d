/* lanes.h - loops over the 32 lanes of a warp, for opcodes that treat lanes alike.
 *
 * A destination either is a source, register for register, or overlaps none, so that lanes are
 * independent; LANES tells the compiler. Inactive lanes keep what they have: they are computed too
 * and not stored, so an expression must be defined for any bits (a division by 0 is not). */
#ifndef ATTUNE_CPU_LANES_H
#define ATTUNE_CPU_LANES_H

#include "engine.h"

#if defined(__GNUC__) && !defined(__clang__)
#define LANES _Pragma("GCC ivdep") for (int l = 0; l < ATTUNE__LANES; l++)
#else
#define LANES for (int l = 0; l < ATTUNE__LANES; l++)
#endif

/* Each opcode twice, with and without AVX2 and FMA; the loader picks. (Sanitizers are not ready
 * when it does.) */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

/* Part of every copy of an opcode that uses it. */
#define INLINE static inline __attribute__((always_inline))

/* Destination 0 of type `type` (uint32_t or uint64_t) = expression in a[l], b[l], c[l]. */
#define STORE_LANES(type, d, active, expression)                                                   \
  do {                                                                                             \
    if (active == ATTUNE__FULL) {                                                                  \
      LANES d[l] = (type)(expression);                                                             \
    } else {                                                                                       \
      type all[ATTUNE__LANES];                                                                     \
      LANES all[l] = (type)(expression);                                                           \
      LANES d[l] = active >> l & 1 ? all[l] : d[l];                                                \
    }                                                                                              \
  } while (0)

#define SOURCE(type, name, k)                                                                      \
  const type *name = (const type *)(const void *)(w->file + i->operand[k].slot)
#define DESTINATION(type, name, k) type *name = (type *)(void *)(w->file + i->operand[k].slot)

/* Opcodes d = f(a), f(a, b), f(a, b, c); td, ta, tb, tc are the types of their lanes. */
#define UNARY(name, td, ta, expression)                                                            \
  CLONES static void name(attune__warp *w, const attune__ins *i, uint32_t active) {                \
    DESTINATION(td, d, 0);                                                                         \
    SOURCE(ta, a, 1);                                                                              \
    STORE_LANES(td, d, active, expression);                                                        \
  }
#define BINARY(name, td, ta, tb, expression)                                                       \
  CLONES static void name(attune__warp *w, const attune__ins *i, uint32_t active) {                \
    DESTINATION(td, d, 0);                                                                         \
    SOURCE(ta, a, 1);                                                                              \
    SOURCE(tb, b, 2);                                                                              \
    STORE_LANES(td, d, active, expression);                                                        \
  }
#define TERNARY(name, td, ta, tb, tc, expression)                                                  \
  CLONES static void name(attune__warp *w, const attune__ins *i, uint32_t active) {                \
    DESTINATION(td, d, 0);                                                                         \
    SOURCE(ta, a, 1);                                                                              \
    SOURCE(tb, b, 2);                                                                              \
    SOURCE(tc, c, 3);                                                                              \
    STORE_LANES(td, d, active, expression);                                                        \
  }

/* A predicate of two sources: a bit per lane. */
#define COMPARE(name, t, condition)                                                                \
  CLONES static void name(attune__warp *w, const attune__ins *i, uint32_t active) {                \
    uint32_t *p = attune__rp(w, i, 0), bits = 0;                                                   \
    SOURCE(t, a, 1);                                                                               \
    SOURCE(t, b, 2);                                                                               \
    for (int l = 0; l < ATTUNE__LANES; l++) bits |= (uint32_t)(condition) << l;                    \
    *p = (*p & ~active) | (bits & active);                                                         \
  }

#endif
