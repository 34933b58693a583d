/* nvrtc.h - CUDA text -> image: NVRTC by dlopen, on threads of our own with 8 MiB of stack.
 *
 * Looked for in this order: ATTUNE_NVRTC (path of a libnvrtc.so; nothing else is tried then),
 * libnvrtc.so.13, libnvrtc.so.12, /usr/local/cuda/lib64, and as NVIDIA's wheel: in nvrtc/ beside
 * the program or beside its folder (build/nvrtc, by `make deps`), in VIRTUAL_ENV, in the packages
 * of the python3 on PATH. A major version newer than the driver's CUDA is passed over when a driver
 * is present, since its code would not load.
 *
 * As many compiles run at once as the machine has cores and memory for; further callers wait. */
#ifndef ATTUNE_NVRTC_H
#define ATTUNE_NVRTC_H

#include "../runtime/entry.h"
#include "text.h"

typedef struct attune_nvrtc_info {
  char version[32]; /* "nvrtc 13.0.88": with the build number, from the PTX of an empty program */
  char path[512];   /* file that was loaded */
} attune_nvrtc_info;
/* Loads NVRTC once per process and runs the warm-up compile that keeps its signal handlers out of
 * the application's way. ATTUNE_NO_COMPILER: where it was looked for, and `make deps`. */
attune_status attune__nvrtc_info(attune_nvrtc_info *out);

typedef struct attune_image {
  void *cubin;
  size_t cubin_bytes;
  char *ptx; /* NUL-terminated, with line numbers */
  size_t ptx_bytes;
  char *log;          /* NUL-terminated, may be "" */
  attune_facts facts; /* registers and frame from the cubin, the rest from the log */
  double milliseconds;
} attune_image;

/* The options that every compile uses, for keys and display: NULL-terminated, without the arch. */
extern const char *const attune__nvrtc_options[];

/* Compiles `source` (a kernel symbol `name`) for arch "sm_90a" and requires the symbol in the
 * cubin. ATTUNE_COMPILE: the message begins with the first error line; out->log has all.
 * ATTUNE_BUSY in a child forked from a process that had loaded NVRTC. Thread-safe, from threads of
 * any stack size; attune__image_free(out) is due on failure too. */
attune_status attune__nvrtc_compile(const char *source, const char *name, uint32_t arch,
                                    attune_image *out);
/* The image's PTX alone, in about half the time; malloc'ed text. */
attune_status attune__nvrtc_ptx(const char *source, const char *name, uint32_t arch, char **out,
                                size_t *out_bytes);
void attune__image_free(attune_image *image);
/* Milliseconds of the monotonic clock, for durations. */
double attune__now_ms(void);

/* Registers and local frame of one kernel from an ELF cubin (cubin.c): bounds-checked. */
attune_status attune__cubin_facts(const void *cubin, size_t bytes, const char *name,
                                  attune_facts *out);

#endif
