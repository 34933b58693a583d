/* nvrtc_api.h - NVRTC as a table of function pointers, shared by nvrtc*.c alone.
 *
 * The few calls that attune makes are declared here, so that building needs no CUDA toolkit. Every
 * call returns 0 for success; a program is an opaque pointer. */
#ifndef ATTUNE_NVRTC_API_H
#define ATTUNE_NVRTC_API_H

#include "nvrtc.h"

/* X(return type, field, arguments): nvrtc.h of CUDA 12 and 13. */
#define ATTUNE__NVRTC_CALLS(X)                                                                     \
  X(int, Version, (int *major, int *minor))                                                        \
  X(int, GetNumSupportedArchs, (int *count))                                                       \
  X(int, GetSupportedArchs, (int *archs))                                                          \
  X(int, CreateProgram,                                                                            \
    (void **program, const char *source, const char *name, int headers, const char *const *texts,  \
     const char *const *names))                                                                    \
  X(int, DestroyProgram, (void **program))                                                         \
  X(int, CompileProgram, (void *program, int options, const char *const *option))                  \
  X(int, GetPTXSize, (void *program, size_t *bytes))                                               \
  X(int, GetPTX, (void *program, char *out))                                                       \
  X(int, GetCUBINSize, (void *program, size_t *bytes))                                             \
  X(int, GetCUBIN, (void *program, char *out))                                                     \
  X(int, GetProgramLogSize, (void *program, size_t *bytes))                                        \
  X(int, GetProgramLog, (void *program, char *out))                                                \
  X(const char *, GetErrorString, (int result))

enum { ATTUNE__NVRTC_ARCHS = 64 };

typedef struct attune__nvrtc_api {
#define X(type, field, arguments) type(*field) arguments;
  ATTUNE__NVRTC_CALLS(X)
#undef X
  int major, minor;
  char path[512];                 /* the file that was loaded, absolute */
  int archs[ATTUNE__NVRTC_ARCHS]; /* compute capabilities it compiles for, ascending */
  int arch_count;
} attune__nvrtc_api;

/* Finds and opens NVRTC and its builtins (nvrtc_load.c). ATTUNE_NO_COMPILER: where it looked. */
attune_status attune__nvrtc_load(attune__nvrtc_api *out);

/* What is read from text (nvrtc_text.c). */

/* 1 when the source includes, imports or embeds a file: such a source could read any file of the
 * machine into the compiler's log, and its meaning would depend on more than its own text. */
int attune__source_includes(const char *source);
/* Spills, static shared memory and C75xx lines of kernel `name` from the log of -Xptxas=-v. 0 when
 * the log says nothing about the kernel. */
int attune__log_facts(const char *log, const char *name, attune_facts *facts);
/* The first line that reports an error, else the first line; cut to size. */
void attune__log_first_error(const char *log, char *out, size_t size);
/* "13.0.88" from the comment at the head of PTX; 0 when it is not there. */
int attune__ptx_version(const char *ptx, char *out, size_t size);

#endif
