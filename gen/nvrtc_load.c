/* nvrtc_load.c - finds NVRTC on this machine and opens it.
 *
 * Input: the environment, the places that nvrtc.h lists. Output: a table of functions. The builtins
 * library, which NVRTC would look up by soname at its first compile, is opened here by the absolute
 * path beside it, so that no other copy on a search path is taken in its stead. Compiling, and the
 * once-per-process rule, are nvrtc.c's. */
#include "../runtime/device.h"
#include "nvrtc_api.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Majors that attune knows, best first. */
static const int majors[] = {13, 12};
enum { MAJORS = sizeof majors / sizeof *majors };

typedef struct search {
  attune__nvrtc_api *api;
  attune__text tried; /* "place, place (why not), ..." for the error */
  int newest;         /* newest major that the driver can load, INT_MAX without a driver */
} search;

static void note_tried(search *s, const char *place, const char *why) {
  if (s->tried.size) attune__text_puts(&s->tried, ", ");
  attune__text_puts(&s->tried, place);
  if (why) attune__text_printf(&s->tried, " (%s)", why);
}

static int resolve(void *library, attune__nvrtc_api *api) {
  void *symbol;
  _Static_assert(sizeof symbol == sizeof api->Version, "POSIX: functions fit a void *");
#define X(type, field, arguments)                                                                  \
  if (!(symbol = dlsym(library, "nvrtc" #field))) return 0;                                        \
  memcpy(&api->field, &symbol, sizeof symbol);
  ATTUNE__NVRTC_CALLS(X)
#undef X
  return 1;
}

/* The file behind the functions, whatever name it was opened by. */
static void find_path(attune__nvrtc_api *api) {
  Dl_info info;
  void *symbol;
  memcpy(&symbol, &api->Version, sizeof symbol);
  if (!dladdr(symbol, &info) || !info.dli_fname) return;
  char *real = realpath(info.dli_fname, NULL);
  snprintf(api->path, sizeof api->path, "%s", real ? real : info.dli_fname);
  free(real);
}

/* Left to NVRTC's own look-up when it is not there; the first compile then tells. */
static void preload_builtins(const attune__nvrtc_api *api) {
  const char *slash = strrchr(api->path, '/');
  if (!slash) return;
  char path[sizeof api->path + 64];
  snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - api->path),
           api->path, api->major, api->minor);
  dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static int list_archs(attune__nvrtc_api *api) {
  if (api->GetNumSupportedArchs(&api->arch_count) || api->arch_count < 1 ||
      api->arch_count > ATTUNE__NVRTC_ARCHS)
    return 0;
  return api->GetSupportedArchs(api->archs) == 0;
}

/* 1 when the library at `path` (or of that soname) is opened and taken. */
static int try_library(search *s, const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    note_tried(s, path, access(path, F_OK) == 0 && why ? why : NULL);
    return 0;
  }
  attune__nvrtc_api *api = s->api;
  const char *why = NULL;
  if (!resolve(library, api) || api->Version(&api->major, &api->minor) || !list_archs(api))
    why = "not an NVRTC that attune can use";
  else if (api->major > s->newest)
    why = "newer than the driver's CUDA, its code would not load";
  if (why) {
    note_tried(s, path, why);
    dlclose(library);
    return 0;
  }
  find_path(api);
  preload_builtins(api);
  return 1;
}

/* Tries libnvrtc.so.<major> in the folders that match; `*` matches as in a shell. */
static int try_pattern(search *s, const char *folder, const char *rest) {
  for (int m = 0; m < MAJORS; m++) {
    char pattern[PATH_MAX + 128];
    snprintf(pattern, sizeof pattern, "%s%s/libnvrtc.so.%d", folder, rest, majors[m]);
    glob_t found;
    int taken = 0;
    if (glob(pattern, 0, NULL, &found) == 0) {
      for (size_t i = 0; i < found.gl_pathc && !taken; i++)
        taken = try_library(s, found.gl_pathv[i]);
      globfree(&found);
    }
    if (taken) return 1;
  }
  char place[PATH_MAX + 128];
  snprintf(place, sizeof place, "%s%s", folder, rest);
  note_tried(s, place, NULL);
  return 0;
}

/* NVIDIA's wheels: nvidia/cu13/lib, and nvidia/cuda_nvrtc/lib before CUDA 13. */
static int try_wheel(search *s, const char *folder, const char *rest) {
  char packages[128];
  snprintf(packages, sizeof packages, "%s/nvidia/cu*/lib", rest);
  return try_pattern(s, folder, packages);
}

/* Folder of a program: of this one when name is NULL, else of the first `name` on PATH. */
static int folder_of(const char *name, char out[PATH_MAX]) {
  char *real = NULL;
  const char *path = name ? getenv("PATH") : NULL;
  if (!name) real = realpath("/proc/self/exe", NULL);
  while (path && *path && !real) {
    int length = (int)strcspn(path, ":");
    char program[PATH_MAX];
    snprintf(program, sizeof program, "%.*s/%s", length, path, name);
    if (length > 0 && access(program, X_OK) == 0) real = realpath(program, NULL);
    path += length + (path[length] == ':');
  }
  char *slash = real ? strrchr(real, '/') : NULL;
  if (slash) snprintf(out, PATH_MAX, "%.*s", (int)(slash - real), real);
  free(real);
  return slash != NULL;
}

/* What `make deps` fetched lies in build/nvrtc: beside this program, or beside its folder for the
 * tests. Never relative to the working directory, where anybody could have put a library. */
static int try_wheels(search *s) {
  char folder[PATH_MAX];
  if (folder_of(NULL, folder) &&
      (try_wheel(s, folder, "/nvrtc") || try_wheel(s, folder, "/../nvrtc")))
    return 1;
  static const char packages[] = "/lib/python3*/*-packages";
  const char *environment = getenv("VIRTUAL_ENV");
  if (environment && *environment && try_wheel(s, environment, packages)) return 1;
  return folder_of("python3", folder) && try_wheel(s, folder, "/../lib/python3*/*-packages");
}

static int try_all(search *s) {
  for (int m = 0; m < MAJORS; m++) {
    char soname[32];
    snprintf(soname, sizeof soname, "libnvrtc.so.%d", majors[m]);
    if (try_library(s, soname)) return 1;
  }
  return try_pattern(s, "/usr/local/cuda", "/lib64") || try_wheels(s);
}

attune_status attune__nvrtc_load(attune__nvrtc_api *out) {
  memset(out, 0, sizeof *out);
  int driver = attune__cuda_driver_version();
  search s = {.api = out, .newest = driver > 0 ? driver / 1000 : INT_MAX};
  const char *named = getenv("ATTUNE_NVRTC");
  int taken;
  if (named && *named) {
    s.newest = INT_MAX; /* whoever names a file may be compiling for another machine */
    taken = try_library(&s, named);
  } else {
    taken = try_all(&s);
  }
  attune_status status = ATTUNE_OK;
  if (!taken)
    status = attune_fail(ATTUNE_NO_COMPILER,
                         "NVRTC not found: run `make deps`, or set ATTUNE_NVRTC to the path of a "
                         "libnvrtc.so; tried %s",
                         s.tried.data ? s.tried.data : "nothing, for want of memory");
  attune__text_free(&s.tried);
  return status;
}
