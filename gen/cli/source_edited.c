/* source_edited.c - an edited file as a program.
 *
 * Input: a file that `attune emit` wrote and somebody edited. Output: a source with its entries.
 * Reading the file and compiling it are gen/edited.c's. */
#include "../edited.h"

#include "cli.h"
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 8 << 20 }; /* bytes; the longest kernels have 200 KB */

/* The planner's kernels, with those of the file in their places. */
static attune_status job_of(const attune__edited *edited, attune_job *job) {
  attune_request request = {.variant = edited->part[0].kernel.variant,
                            .pins = edited->part[0].kernel.pins};
  request.variant.part = 0;
  attune_status status = source_job_of_request(&request, job);
  for (int i = 0; i < edited->count && status == ATTUNE_OK; i++)
    job->kernels[edited->part[i].kernel.variant.part] = edited->part[i].kernel;
  return status;
}

static attune_status compile(const char *path, const attune__edited_part *part, source *out) {
  char *warning = NULL;
  int kernel = part->kernel.variant.part;
  attune_status status =
      attune__edited_compile(part, &out->edited[kernel], &out->edited_bytes[kernel], &warning);
  if (status != ATTUNE_OK) return status;
  fprintf(stderr, "attune: %s:%d: %s, %s\n", path, part->line, part->kernel.name,
          part->changed ? "edited" : "as attune writes it");
  if (warning) fprintf(stderr, "attune: warning: %s:%d: it %s\n", path, part->line, warning);
  free(warning);
  return ATTUNE_OK;
}

static attune_status open_edited(const char *path, const char *text, source *out) {
  attune__edited edited;
  attune_status status = attune__edited_read(path, text, &edited);
  if (status != ATTUNE_OK) return status;
  status = job_of(&edited, &out->job);
  out->kernel_count = out->job.kernel_count;
  if (status == ATTUNE_OK) status = attune__store_open(NULL, &out->store);
  for (int i = 0; i < edited.count && status == ATTUNE_OK; i++)
    status = compile(path, &edited.part[i], out);
  attune__edited_free(&edited);
  return status == ATTUNE_OK ? source_make_programs(out) : status;
}

int source_open_edited(const char *path, source *out) {
  void *text = NULL;
  size_t size = 0;
  *out = (source){.store = NULL};
  attune_status status = attune__file_read(path, FILE_MAX, &text, &size);
  if (status == ATTUNE_OK && strlen(text) != size)
    status = attune_fail(ATTUNE_BAD_FILE, "%s: it has a byte of value 0: it is no text", path);
  if (status == ATTUNE_OK) status = open_edited(path, text, out);
  free(text);
  if (status == ATTUNE_OK) return CLI_OK;
  source_close(out);
  return cli_fail(status);
}

source source_unedited(const source *s) {
  source own = *s;
  memset(own.edited, 0, sizeof own.edited);
  return own;
}
