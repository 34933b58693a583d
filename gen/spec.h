/* spec.h - a YAML spec as checked values, and its expansion to requests.
 *
 * Reading never stops at the first fault: diagnostics collect (up to ATTUNE_MAX_DIAGS) and a spec
 * with any is refused whole. specs/README.md documents every field. */
#ifndef ATTUNE_SPEC_H
#define ATTUNE_SPEC_H

#include "plan.h"
#include "text.h"

enum { ATTUNE_MAX_DIAGS = 20, ATTUNE_GPU_MAX = 64 };

/* Prints as  file:line:column: error: message / the line / a caret / help. */
typedef struct attune_diag {
  int line, column; /* from 1 */
  char *message;    /* what was found */
  char *help;       /* what would work; may be NULL */
} attune_diag;

typedef struct attune_diags {
  attune_diag item[ATTUNE_MAX_DIAGS];
  int count;   /* stored */
  int dropped; /* beyond the cap */
} attune_diags;
void attune__diag_add(attune_diags *diags, int line, int column, const char *help,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
void attune__diags_print(const attune_diags *diags, const char *file, const char *source,
                         size_t source_bytes, attune__text *out);
void attune__diags_free(attune_diags *diags);

/* One kernel set wish: a row of the Cartesian product. */
typedef struct attune_request {
  attune_variant variant; /* part 0 */
  attune_pinset pins;
  attune_corner corner; /* default corner, 0: none named */
  int family;           /* 0: planner's choice */
  uint32_t budget;      /* bytes; 0: device */
  attune_tile_pins tile;
  char gpu[ATTUNE_GPU_MAX]; /* whose measured rows choose; "": the planner does */
  int line;                 /* where its op stands in the spec, for messages */
} attune_request;

typedef struct attune_spec {
  char *path;
  attune_request *requests; /* expanded, excluded, sorted by variant name then budget, unique */
  int count;
} attune_spec;

typedef struct attune_spec_options {
  const char *arch;     /* NULL: as the spec says; else replaces its arch list (--arch) */
  uint32_t native;      /* arch of the present GPU, 0 without one: what `native` means */
  uint32_t native_smem; /* its opt-in limit, for sram: device */
} attune_spec_options;

/* Reads, checks and expands. On ATTUNE_BAD_SPEC `errors` holds the printed diagnostics. `path` "-"
 * is not special. source, when not NULL, is used instead of the file's bytes (path names it). */
attune_status attune__spec_read(const char *path, const char *source, size_t source_bytes,
                                const attune_spec_options *options, attune_spec *out,
                                attune__text *errors);
void attune__spec_free(attune_spec *spec);
/* The spec that asks for exactly one variant (and tile, when not NULL) as flow YAML on one line:
 * "{version: 1, op: attn_fwd, arch: sm_80, ...}". Round-trips through attune__spec_read. */
void attune__spec_line(const attune_variant *variant, const attune_pinset *pins,
                       const attune_tile *tile, attune__text *out);

#endif
