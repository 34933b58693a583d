/* kernel.h - variant + tile: one compiled function, as the generator knows it before compiling. */
#ifndef ATTUNE_KERNEL_H
#define ATTUNE_KERNEL_H

#include "../runtime/entry.h"

/* The shared-memory ledger: one list of named pieces. The budget check, struct Smem in the kernel,
 * the head comment and the launch size all come from it. Offsets grow, pieces never overlap. */
typedef struct attune_piece {
  char name[16];
  char ctype[16];         /* CUDA element type, e.g. "float" */
  uint32_t rows, columns; /* columns include padding; rows * columns elements */
  uint32_t align, offset, bytes;
  char note[64]; /* "K, then V; 4 floats of padding a row" */
} attune_piece;

enum { ATTUNE_MAX_PIECES = 12 };
typedef struct attune_ledger {
  attune_piece piece[ATTUNE_MAX_PIECES];
  int count;
  uint32_t bytes; /* total, rounded up to the largest alignment */
} attune_ledger;
/* Appends a piece of rows x columns elements; computes offset and bytes. */
void attune__ledger_add(attune_ledger *ledger, const char *name, const char *ctype,
                        uint32_t element_bytes, uint32_t rows, uint32_t columns, uint32_t align,
                        const char *note);

/* A constant of the kernel's constants block beyond the tile's fields. */
typedef struct attune_constant {
  char name[24];
  int64_t value;
  char note[80];
} attune_constant;
enum { ATTUNE_MAX_CONSTANTS = 16 };

typedef struct attune_kernel {
  attune_variant variant; /* with its part */
  attune_tile tile;
  attune_pinset pins;
  char name[ATTUNE_NAME_MAX];
  const char *template_path; /* "attn_fwd/fma.cu" */
  attune_ledger ledger;
  attune_recipe recipe;
  attune_constant constant[ATTUNE_MAX_CONSTANTS];
  int constant_count;
} attune_kernel;

void attune__add_constant(attune_kernel *kernel, const char *name, int64_t value, const char *note);

/* Builds the kernel of a variant and tile through its model (model.h); ATTUNE_UNSUPPORTED when no
 * model makes it. Does not check a budget. */
attune_status attune__kernel_make(const attune_variant *variant, const attune_tile *tile,
                                  const attune_pinset *pins, attune_kernel *out);

#endif
