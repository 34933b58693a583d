/* rules.h - what combines with what: the one table that says which variants have kernels, and in
 * which families. Spec check, support query, JIT, planner and the table in specs/README.md
 * (combinations.h) ask it and nothing else; what a tile may be is the models' (model.h).
 *
 * A refusal names field, value, reason and what would work: "align elem with family mma: rows are
 * copied 16 bytes at a time; family fma loads elements". */
#ifndef ATTUNE_RULES_H
#define ATTUNE_RULES_H

#include "../runtime/variant.h"

enum { ATTUNE_REASON_MAX = 240 }; /* bytes of a refusal with its NUL */

/* ATTUNE_OK when some family has kernels of the variant (its pins aside); else ATTUNE_UNSUPPORTED
 * and why, or ATTUNE_INVALID when the variant is no variant. */
attune_status attune__generated(const attune_variant *variant);
/* 1 when the family has kernels of the variant, whatever the tile; else 0 and why. */
int attune__family_serves(const attune_variant *variant, int family, char *reason, size_t size);
/* The rule's reason alone, without the field and value: NULL when the family serves. */
const char *attune__family_refusal(const attune_variant *variant, int family);
/* 1 when what the family refuses is what it is not made for, such as fp32 on tensor cores: then a
 * slower family is no fallback, nothing faster could do it. */
int attune__family_is_apart(const attune_variant *variant, int family);

#endif
