/* built.c - see built.h. Needs NVRTC for what is not there yet. */
#include "built.h"

#include "../gen/build.h"
#include "test.h"

enum { PATH = 128 };

static void folder_of(const char *name, char out[PATH]) {
  snprintf(out, PATH, "build/sets/test-%s", name);
}

void build_spec(const char *name, attune_job *out) {
  char path[PATH], folder[PATH];
  attune_spec spec;
  attune_spec_options options = {.arch = NULL};
  attune_build_summary summary;
  attune__text errors = {0};
  snprintf(path, sizeof path, "specs/%s.yaml", name);
  folder_of(name, folder);
  ck_assert_msg(attune__spec_read(path, NULL, 0, &options, &spec, &errors) == ATTUNE_OK, "%s",
                errors.data);
  ck_assert_msg(attune__expand(&spec, out, &errors) == ATTUNE_OK, "%s", errors.data);
  attune_build_options build = {.out = folder};
  attune_status status = attune__build(out, &build, &summary, &errors);
  ck_assert_msg(status == ATTUNE_OK, "%s: %s\n%s", path, attune_error(),
                errors.data ? errors.data : "");
  attune__spec_free(&spec);
  attune__text_free(&errors);
}

attune_status read_built(const char *name, const char *kernel, void **out, size_t *out_bytes) {
  char folder[PATH];
  folder_of(name, folder);
  char *path = attune__set_entry_path(folder, kernel);
  attune_status status = path ? attune__file_read(path, ATTUNE_ENTRY_MAX, out, out_bytes)
                              : attune_fail(ATTUNE_NO_MEMORY, "the path of an entry");
  free(path);
  return status;
}
