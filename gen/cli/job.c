/* job.c - spec file -> job, for the commands that take a spec: reads, expands, prints what is
 * wrong. */
#include "../../runtime/device.h"
#include "../expand.h"
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the word stands anywhere in the file: only then is the driver worth its start-up. */
static int mentions(const char *path, const char *word) {
  void *bytes = NULL;
  size_t size;
  int found = 0;
  if (attune__file_read(path, 65536, &bytes, &size) == ATTUNE_OK)
    found = strstr(bytes, word) != NULL;
  free(bytes);
  return found;
}

static void find_native(attune_spec_options *options) {
  attune__device *device;
  if (attune__cuda_open(0, &device) != ATTUNE_OK)
    return; /* the spec reader says so, with its line */
  options->native = device->facts.arch;
  options->native_smem = (uint32_t)device->facts.smem_block;
  device->ops->close(device);
}

static int failed(attune_status status, attune__text *errors) {
  int printed = errors->data != NULL;
  if (printed) fputs(errors->data, stderr);
  attune__text_free(errors);
  return printed ? CLI_USAGE : cli_fail(status);
}

int cli_read_spec(const char *path, const char *arch, attune_spec *out) {
  attune_spec_options options = {.arch = arch};
  attune__text errors = {0};
  if (arch ? !strcmp(arch, "native") : mentions(path, "native")) find_native(&options);
  attune_status status = attune__spec_read(path, NULL, 0, &options, out, &errors);
  if (status != ATTUNE_OK) return failed(status, &errors);
  attune__text_free(&errors);
  return CLI_OK;
}

int cli_expand(const attune_spec *spec, const attune__avoided *avoided, attune_job *out) {
  attune__text errors = {0};
  attune_status status = attune__expand_without(spec, avoided, out, &errors);
  if (status != ATTUNE_OK) return failed(status, &errors);
  attune__text_free(&errors);
  if (out->notes.data && !avoided) fprintf(stderr, "%s", out->notes.data);
  return CLI_OK;
}

int cli_read_job(const char *path, const char *arch, attune_job *out) {
  attune_spec spec;
  int rc = cli_read_spec(path, arch, &spec);
  if (rc != CLI_OK) return rc;
  rc = cli_expand(&spec, NULL, out);
  attune__spec_free(&spec);
  return rc;
}
