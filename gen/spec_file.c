/* spec_file.c - the bytes of a spec file, or why there are none.
 *
 * Input: a path. Output: up to a little more than the allowed size, so that the check of the bytes
 * (yaml.c) can tell where the limit is passed. System messages are not the locale's:
 * strerrordesc_np does not translate. */
#include "spec_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* The limit, a byte order mark, and room for the character that passes the limit. */
enum { LOAD_BYTES = ATTUNE_YAML_MAX_BYTES + 16 };

static void refuse(attune_diags *diags, const char *what, int error) {
  const char *text = strerrordesc_np(error);
  const char *help = error == ENOENT || error == ENOTDIR ? "check the path; specs/ has examples"
                     : error == EISDIR                   ? "name a .yaml file in it"
                                                         : "check the file's permissions";
  attune__diag_add(diags, 1, 1, help, "%s: %s", what, text ? text : "unknown error");
}

attune_status attune__spec_load(const char *path, char **out, size_t *size, attune_diags *diags) {
  *out = NULL;
  char *buffer = malloc(LOAD_BYTES);
  if (!buffer) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %s", path);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : attune__read_fully(fd, buffer, LOAD_BYTES);
  if (got < 0) {
    refuse(diags, fd < 0 ? "cannot open the spec" : "cannot read the spec", errno);
    free(buffer);
  } else {
    *out = buffer;
    *size = (size_t)got;
  }
  if (fd >= 0) close(fd);
  return ATTUNE_OK;
}
