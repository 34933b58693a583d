/* record.c - runs the conformance kernels on a GPU of sm_90 and writes what comes out, a file
 * a case, to the folder given (tests/conformance/golden); with a case's name only that one. Needs
 * NVRTC. A case that fails ends the CUDA context, so the program starts itself again with the next:
 * OUT FIRST FAILED. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../gen/nvrtc.h"
#include "../conformance.h"

enum { TILE_INTERLEAVE_NONE = 0, TILE_PROMOTION_NONE = 0, TILE_FILL_ZERO = 0 };
enum { ATTRIBUTE_DYNAMIC_SMEM = 8 /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */ };
enum { NOT_READY = 600, SECONDS_MAX = 10 };

#define DRIVER_FUNCTIONS(X)                                                                        \
  X(cuInit, (unsigned))                                                                            \
  X(cuDevicePrimaryCtxRetain, (void **, int))                                                      \
  X(cuCtxSetCurrent, (void *))                                                                     \
  X(cuModuleLoadData, (void **, const void *))                                                     \
  X(cuModuleGetFunction, (void **, void *, const char *))                                          \
  X(cuFuncSetAttribute, (void *, int, int))                                                        \
  X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                     void *, void **, void **))                                                    \
  X(cuStreamQuery, (void *))                                                                       \
  X(cuMemAlloc_v2, (uint64_t *, size_t))                                                           \
  X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                                             \
  X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                                   \
  X(cuMemsetD32_v2, (uint64_t, unsigned, size_t))                                                  \
  X(cuGetErrorName, (int, const char **))                                                          \
  X(cuTensorMapEncodeTiled, (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,    \
                             const uint32_t *, const uint32_t *, int, int, int, int))

#define X(name, arguments) static int(*name) arguments;
DRIVER_FUNCTIONS(X)
#undef X

static void load_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
  if (!library) exit(3);
#define X(name, arguments) *(void **)&name = dlsym(library, #name);
  DRIVER_FUNCTIONS(X)
#undef X
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) exit(3);
}

/* 0, or what failed. */
static const char *encode(const conformance_map *m, uint64_t base, uint64_t out[16]) {
  static const int types[] = {0 /* bytes */, 7, 6, 9};
  int swizzle = m->swizzle == 128 ? 3 : m->swizzle / 32;
  uint32_t steps[4] = {1, 1, 1, 1};
  int bad = cuTensorMapEncodeTiled(out, types[m->type], m->rank, (void *)(uintptr_t)base, m->dim,
                                   m->stride + 1, m->box, steps, TILE_INTERLEAVE_NONE, swizzle,
                                   TILE_PROMOTION_NONE, TILE_FILL_ZERO);
  return bad ? "cuTensorMapEncodeTiled" : NULL;
}

/* The module of a file, compiled once. */
static void *module_of(const conformance_case *c) {
  static struct {
    const char *file;
    void *module;
  } known[16];
  int k = 0;
  for (; known[k].file; k++)
    if (!strcmp(known[k].file, c->file)) return known[k].module;
  char *source = conformance_source(c);
  attune_image image = {0};
  known[k].file = c->file;
  if (!source || attune__nvrtc_compile(source, c->kernel, attune__arch(90, 'a'), &image) ||
      cuModuleLoadData(&known[k].module, image.cubin))
    fprintf(stderr, "%s: %s\n%s\n", c->file, attune_error(), image.log ? image.log : "");
  attune__image_free(&image);
  free(source);
  return known[k].module;
}

static const char *launch(const conformance_case *c, conformance_params *params) {
  void *module = module_of(c), *function, *arguments[] = {params};
  if (!module) return "compilation";
  if (cuModuleGetFunction(&function, module, c->kernel)) return "cuModuleGetFunction";
  if (cuFuncSetAttribute(function, ATTRIBUTE_DYNAMIC_SMEM, (int)c->smem_bytes))
    return "cuFuncSetAttribute";
  if (cuLaunchKernel(function, c->grid, 1, 1, c->threads, 1, 1, c->smem_bytes, NULL, arguments,
                     NULL))
    return "cuLaunchKernel";
  time_t start = time(NULL);
  int state;
  while ((state = cuStreamQuery(NULL)) == NOT_READY)
    if (time(NULL) - start > SECONDS_MAX) return "the kernel, which doesn't end";
  const char *name = "the kernel";
  if (state) cuGetErrorName(state, &name);
  return state ? name : NULL;
}

static const char *write_file(const conformance_case *c, const char *folder,
                              const uint32_t *words) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.bin", folder, c->name);
  FILE *f = fopen(path, "wb");
  if (!f) return "opening the file";
  int written = fwrite(words, 4, c->out_words, f) == c->out_words;
  return fclose(f) || !written ? "writing" : NULL;
}

static const char *run(const conformance_case *c, const char *folder) {
  conformance_params params = {.a = c->a, .b = c->b};
  size_t in_bytes = conformance_in_words(c) * 4, out_bytes = c->out_words * 4;
  uint32_t *in = conformance_input(c), *out = malloc(out_bytes);
  const char *bad = in && out ? NULL : "memory";
  if (!bad &&
      (cuMemAlloc_v2(&params.in, in_bytes) || cuMemAlloc_v2(&params.out, out_bytes) ||
       cuMemcpyHtoD_v2(params.in, in, in_bytes) || cuMemsetD32_v2(params.out, 0, c->out_words)))
    bad = "the GPU's memory";
  if (!bad && c->map) bad = encode(c->map, c->map->of_output ? params.out : params.in, params.map);
  if (!bad) bad = launch(c, &params);
  if (!bad && cuMemcpyDtoH_v2(out, params.out, out_bytes)) bad = "the copy back";
  if (!bad) bad = write_file(c, folder, out);
  free(in);
  free(out);
  return bad;
}

static int report(const conformance_case *c, const char *bad) {
  if (bad) printf("record: %s failed: %s\n", c->name, bad);
  fflush(stdout);
  return bad != NULL;
}

static int run_one(const char *folder, const char *name) {
  for (size_t k = 0; k < conformance_count; k++) {
    const conformance_case *c = &conformance_cases[k];
    if (strcmp(c->name, name) != 0) continue;
    load_driver();
    return report(c, run(c, folder));
  }
  fprintf(stderr, "record: no case %s\n", name);
  return 2;
}

static int run_all(const char *program, const char *folder, size_t first, unsigned long failed) {
  if (first < conformance_count) load_driver();
  for (size_t k = first; k < conformance_count; k++) {
    if (!report(&conformance_cases[k], run(&conformance_cases[k], folder))) continue;
    char next[24], failures[24];
    snprintf(next, sizeof next, "%zu", k + 1);
    snprintf(failures, sizeof failures, "%lu", failed + 1);
    execl("/proc/self/exe", program, folder, next, failures, (char *)NULL);
    return 1;
  }
  printf("record: %zu cases, %lu failed\n", conformance_count, failed);
  return failed != 0;
}

int main(int count, char **arguments) {
  if (count == 3) return run_one(arguments[1], arguments[2]);
  if (count == 2) return run_all(arguments[0], arguments[1], 0, 0);
  if (count == 4)
    return run_all(arguments[0], arguments[1], strtoul(arguments[2], NULL, 10),
                   strtoul(arguments[3], NULL, 10));
  fprintf(stderr, "usage: record OUT [CASE]\n");
  return 2;
}
