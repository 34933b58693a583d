/* source.h - what verify and bench are pointed at, as one value: the kernels, the programs they
 * make, and their entries' bytes, whether they come from a spec, a set (folder or pack) or a name.
 */
#ifndef ATTUNE_CLI_SOURCE_H
#define ATTUNE_CLI_SOURCE_H

#include "../../runtime/set.h"
#include "../expand.h"
#include "../store.h"

/* A program to run: kernels by index, in launch order. */
typedef struct source_program {
  attune_variant variant; /* part 0 */
  attune_corner corner;
  int kernel_count;
  int kernel[ATTUNE_MAX_PARTS];
  int fresh[ATTUNE_MAX_PARTS]; /* 1: no program before this one speaks of the kernel */
} source_program;

typedef struct source {
  attune_job job;      /* of a spec or a name */
  attune_store *store; /* where their entries come from; NULL for a set */
  attune__set set;
  int kernel_count;
  source_program *programs;
  int program_count;
  void *edited[ATTUNE_MAX_PARTS]; /* of a file: entries in place of the kernels' own, by kernel */
  size_t edited_bytes[ATTUNE_MAX_PARTS];
} source;

/* word: a .yaml file, a set folder or a pack, or a kernel's or variant's name. Prints what is wrong
 * and returns the exit code. arch: see cli_read_spec; only for a spec. */
int source_open(const char *word, const char *arch, source *out);
/* The program of an edited file, see edited.h: its own kernels compiled, the others the planner's.
 * Says on stderr which kernels are edited. */
int source_open_edited(const char *path, source *out);
/* The same program as attune makes it: a view of `s`, not to be closed. */
source source_unedited(const source *s);
void source_close(source *s);
const char *source_kernel_name(const source *s, int kernel);
/* The bytes of a kernel's entry file, malloc'ed; a spec's or name's is compiled when the store has
 * it not. */
attune_status source_entry(const source *s, int kernel, void **bytes, size_t *size);

/* Entry files of a program. */
typedef struct source_entries {
  void *bytes[ATTUNE_MAX_PARTS];
  size_t size[ATTUNE_MAX_PARTS];
  int count;
  attune_pinset pins;
} source_entries;
/* source_entries_free is due on failure too. */
attune_status source_entries_get(const source *s, const source_program *p, source_entries *out);
void source_entries_free(source_entries *entries);
/* The one kernel that the program is about, else the program's name. */
void source_program_name(const source *s, const source_program *p, char out[ATTUNE_NAME_MAX]);

/* For the files that make sources: the kernels of a request as a job of one row; then the programs
 * of what was read. */
attune_status source_job_of_request(const attune_request *request, attune_job *job);
attune_status source_make_programs(source *s);

#endif
