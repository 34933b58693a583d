/* tune_host.c - what a tuner in a user's process works with: its GPU, a program that tries
 * candidates in a process of its own, and the compiler with the store.
 *
 * Input: a store, a device's number, a program's name. Output: an attune__online_host. */
#include "tune_online.h"

#include "nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

typedef struct gpu_host {
  attune__online_host base;
  int ordinal;
  char program[PATH_BYTES], number[16];
  char *argv[4];
  attune__lab_gpu *gpu;
  attune__lab_child *child;
  attune__guard_trial trial;
} gpu_host;

/* ---- compiling ------------------------------------------------------------------------------- */

attune_status attune__host_compile(void *store, const attune_kernel *kernel, void **bytes,
                                   size_t *size, char digest[17]) {
  attune_entry entry;
  char key[65], warning[ATTUNE_WARNING_MAX] = "";
  attune_status status = attune__store_key(kernel, key);
  if (status) return status;
  memcpy(digest, key, 16);
  digest[16] = 0;
  status = attune__store_get(store, kernel, 1, bytes, size, NULL);
  if (!status) status = attune__entry_read(*bytes, *size, &entry);
  if (!status) attune__facts_warning(&entry.facts, warning);
  if (!status && warning[0]) status = attune_fail(ATTUNE_COMPILE, "%s", warning);
  if (status) free(*bytes), *bytes = NULL;
  return status;
}

/* ---- labs ------------------------------------------------------------------------------------ */

static attune_status open_gpu(void *user, void (*beat)(void *user, int contender), void *beat_user,
                              attune__lab *out) {
  gpu_host *h = user;
  attune_nvrtc_info nvrtc;
  attune_status status = attune__nvrtc_info(&nvrtc);
  if (!status) status = attune__lab_gpu_open(h->ordinal, &h->gpu, out);
  if (status) return status;
  memcpy(h->base.compiler.nvrtc, nvrtc.version, sizeof h->base.compiler.nvrtc);
  if (beat) attune__lab_gpu_heartbeat(h->gpu, beat, beat_user);
  return ATTUNE_OK;
}

static void close_gpu(void *user) {
  gpu_host *h = user;
  attune__lab_gpu_close(h->gpu);
  h->gpu = NULL;
}

static attune_status open_child(void *user, attune__lab *out) {
  gpu_host *h = user;
  attune__lab_child_options options = {.argv = h->argv};
  return attune__lab_child_open(&options, &h->child, out);
}

static void close_child(void *user) {
  gpu_host *h = user;
  attune__lab_child_close(h->child);
  h->child = NULL;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* As a shell would find it. */
static attune_status find_program(const char *name, char out[PATH_BYTES]) {
  const char *path = strchr(name, '/') ? "" : getenv("PATH");
  for (const char *at = path ? path : ""; strlen(name) < PATH_BYTES / 2;) {
    int length = (int)strcspn(at, ":");
    if (length < PATH_BYTES / 2) {
      snprintf(out, PATH_BYTES, "%.*s%s%s", length, at, length ? "/" : "", name);
      if (!access(out, X_OK)) return ATTUNE_OK;
    }
    at += length;
    if (!*at++) break;
  }
  return attune_fail(ATTUNE_NOT_FOUND,
                     "tune_program '%.200s': no such program; name attune's, which tries "
                     "candidates in a process of its own, or leave it out",
                     name);
}

/* ---- opening --------------------------------------------------------------------------------- */

attune_status attune__host_open(attune_store *store, int ordinal, const char *program,
                                attune__online_host **out) {
  static char worker[] = "tune-worker";
  gpu_host *h = calloc(1, sizeof *h);
  *out = NULL;
  if (!h) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a tuner's host");
  h->ordinal = ordinal;
  h->base = (attune__online_host){.user = h, .open = open_gpu, .close = close_gpu};
  h->base.compiler.user = store, h->base.compiler.compile = attune__host_compile;
  if (program) {
    attune_status status = find_program(program, h->program);
    if (status) {
      free(h);
      return status;
    }
    snprintf(h->number, sizeof h->number, "%d", ordinal);
    h->argv[0] = h->program, h->argv[1] = worker, h->argv[2] = h->number;
    h->trial = (attune__guard_trial){h, open_child, close_child};
    h->base.trial = &h->trial;
  }
  *out = &h->base;
  return ATTUNE_OK;
}

void attune__host_close(attune__online_host *host) {
  free(host);
}
