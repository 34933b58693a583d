/* nvrtc.c - CUDA text to cubin and PTX.
 *
 * Input: a self-contained source and the name of its kernel. Output: the image, the log and what
 * the compiler says the kernel needs. Finding the library is nvrtc_load.c's, reading the log
 * nvrtc_text.c's, reading the cubin cubin.c's.
 *
 * Three properties of NVRTC shape this file (measured on 13.0.88):
 *   - it needs more stack than a small thread has, so every call runs on a thread of its own;
 *   - its first compile swaps the process's SIGINT and SIGTERM handlers for some 80 ms, so a
 *     warm-up compile does that once, with signals held back from the calling thread meanwhile;
 *   - its locks do not survive fork(), so a child of the process that loaded it is refused. */
#include "nvrtc.h"
#include "nvrtc_api.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  STACK_BYTES = 8 << 20, /* 64 KiB crashes on an attention kernel, 128 KiB passes */
  COMPILE_MIB = 512,     /* memory that one compile may take */
  ERROR_MAX = 2048
};

/* The stack limit is the process's own, and no header may shadow anything: both are in the options
 * for that. Unused names are no fault (177): a kernel states all its constants, and a body that
 * uses some of them. Line numbers are for the PTX, for the CPU device's reports; in the cubin they
 * would take three times the room of the code. -Xptxas makes ptxas tell what a kernel needs. */
const char *const attune__nvrtc_options[] = {"--std=c++17",
                                             "--device-as-default-execution-space",
                                             "--modify-stack-limit=false",
                                             "--no-source-include",
                                             "--diag-suppress=177",
                                             "-lineinfo",
                                             "-Xptxas=--suppress-debug-info",
                                             "-Xptxas=-v",
                                             "-Xptxas=--warn-on-spills",
                                             NULL};
enum { MAX_OPTIONS = 16 };

static struct {
  pthread_once_t once;
  attune_status status;
  char error[ERROR_MAX];
  attune__nvrtc_api api;
  attune_nvrtc_info info;
  pid_t owner;
  sem_t slots; /* compiles that may run at once */
} service = {.once = PTHREAD_ONCE_INIT};

/* ---- threads ------------------------------------------------------------------------------- */

typedef attune_status (*work_fn)(void *);
typedef struct work {
  work_fn run;
  void *argument;
  attune_status status;
  char error[ERROR_MAX]; /* attune_error() is the thread's own */
} work;

static void *work_main(void *argument) {
  work *w = argument;
  w->status = w->run(w->argument);
  if (w->status) snprintf(w->error, sizeof w->error, "%s", attune_error());
  return NULL;
}

/* Runs `run` on a thread with a stack of STACK_BYTES that takes no signals, and waits for it.
 * hold_signals: the calling thread takes none either until it is done. */
static attune_status on_own_thread(work_fn run, void *argument, int hold_signals) {
  work w = {.run = run, .argument = argument};
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes)) return attune_fail(ATTUNE_NO_MEMORY, "no compiler thread");
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&thread, &attributes, work_main, &w);
  if (!hold_signals) pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed) pthread_join(thread, NULL);
  if (hold_signals) pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (failed)
    return attune_fail(ATTUNE_NO_MEMORY, "cannot start a compiler thread with 8 MiB of stack: %s",
                       strerror(failed));
  return w.status ? attune_fail(w.status, "%s", w.error) : ATTUNE_OK;
}

/* ---- one program --------------------------------------------------------------------------- */

typedef struct blob {
  char *data; /* malloc'ed, NUL-terminated */
  size_t bytes;
} blob;

typedef int (*size_fn)(void *program, size_t *bytes);
typedef int (*text_fn)(void *program, char *out);

static attune_status fetch(void *program, size_fn size, text_fn text, blob *out) {
  size_t bytes = 0;
  if (size(program, &bytes)) return attune_fail(ATTUNE_COMPILE, "NVRTC gave no result");
  out->data = calloc(bytes + 1, 1);
  if (!out->data) return attune_fail(ATTUNE_NO_MEMORY, "%zu bytes for NVRTC's result", bytes);
  out->bytes = bytes;
  if (bytes && text(program, out->data))
    return attune_fail(ATTUNE_COMPILE, "NVRTC gave no result of %zu bytes", bytes);
  return ATTUNE_OK;
}

typedef struct request {
  const attune__nvrtc_api *api;
  const char *source;
  char file[ATTUNE_NAME_MAX + 16]; /* the name that errors carry */
  char arch[64];                   /* the option of that name */
  const char *option[MAX_OPTIONS];
  int options;
  blob *cubin, *ptx; /* what is wanted; NULL: not */
  blob log;
} request;

static attune_status compile_failed(const request *r, int result) {
  char line[512] = "";
  attune__log_first_error(r->log.data ? r->log.data : "", line, sizeof line);
  const char *what = r->api->GetErrorString(result);
  return attune_fail(ATTUNE_COMPILE, "%s (%s, %s)", line[0] ? line : "NVRTC failed", what, r->file);
}

static attune_status run_request(void *argument) {
  request *r = argument;
  const attune__nvrtc_api *api = r->api;
  void *program = NULL;
  int result = api->CreateProgram(&program, r->source, r->file, 0, NULL, NULL);
  if (result) return compile_failed(r, result);
  result = api->CompileProgram(program, r->options, r->option);
  attune_status status = fetch(program, api->GetProgramLogSize, api->GetProgramLog, &r->log);
  if (!status && result) status = compile_failed(r, result);
  if (!status && r->cubin) status = fetch(program, api->GetCUBINSize, api->GetCUBIN, r->cubin);
  if (!status && r->ptx) status = fetch(program, api->GetPTXSize, api->GetPTX, r->ptx);
  api->DestroyProgram(&program);
  return status;
}

/* ---- once per process ---------------------------------------------------------------------- */

/* Through both stages, front end and ptxas; its PTX tells the build number. */
static attune_status warm_up(const attune__nvrtc_api *api, attune_nvrtc_info *info) {
  char arch[32], version[16];
  snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d", api->archs[0]);
  blob cubin = {0}, ptx = {0};
  request r = {.api = api,
               .source = "extern \"C\" __global__ void warm_up() {}",
               .file = "warm_up.cu",
               .option = {arch, "--modify-stack-limit=false", "--no-source-include"},
               .options = 3,
               .cubin = &cubin,
               .ptx = &ptx};
  attune_status status = run_request(&r);
  if (status)
    status = attune_fail(ATTUNE_NO_COMPILER, "%s does not compile an empty kernel: %s", api->path,
                         attune_error());
  else if (attune__ptx_version(ptx.data, version, sizeof version))
    snprintf(info->version, sizeof info->version, "nvrtc %s", version);
  else
    snprintf(info->version, sizeof info->version, "nvrtc %d.%d", api->major, api->minor);
  free(cubin.data), free(ptx.data), free(r.log.data);
  return status;
}

/* Compiles at once: one a core, as far as memory goes. */
static unsigned slots(void) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  long pages_per_compile = ((long)COMPILE_MIB << 20) / sysconf(_SC_PAGESIZE);
  long by_memory = sysconf(_SC_PHYS_PAGES) / pages_per_compile;
  long least = cores < by_memory ? cores : by_memory;
  return least < 1 ? 1u : (unsigned)least;
}

static attune_status load_on_thread(void *argument) {
  (void)argument;
  attune_status status = attune__nvrtc_load(&service.api);
  if (!status) status = warm_up(&service.api, &service.info);
  return status;
}

static void load_once(void) {
  service.owner = getpid();
  sem_init(&service.slots, 0, slots());
  service.status = on_own_thread(load_on_thread, NULL, 1);
  if (service.status) snprintf(service.error, sizeof service.error, "%s", attune_error());
  snprintf(service.info.path, sizeof service.info.path, "%s", service.api.path);
}

static attune_status need_service(void) {
  pthread_once(&service.once, load_once);
  return service.status ? attune_fail(service.status, "%s", service.error) : ATTUNE_OK;
}

attune_status attune__nvrtc_info(attune_nvrtc_info *out) {
  memset(out, 0, sizeof *out);
  attune_status status = need_service();
  if (!status) *out = service.info;
  return status;
}

/* ---- compiles ------------------------------------------------------------------------------ */

static attune_status check_arch(uint32_t arch, const char *arch_name) {
  attune__text known = {0};
  for (int i = 0; i < service.api.arch_count; i++) {
    if ((uint32_t)service.api.archs[i] == attune__arch_cc(arch)) {
      attune__text_free(&known);
      return ATTUNE_OK;
    }
    attune__text_printf(&known, " sm_%d", service.api.archs[i]);
  }
  attune_status status = attune_fail(ATTUNE_UNSUPPORTED, "%s: %s compiles for%s", arch_name,
                                     service.info.version, known.data ? known.data : " nothing");
  attune__text_free(&known);
  return status;
}

/* What can be said before NVRTC is asked. */
static attune_status check_request(const char *source, const char *name, uint32_t arch,
                                   const char *arch_name) {
  attune_status status = need_service();
  if (status) return status;
  if (getpid() != service.owner)
    return attune_fail(ATTUNE_BUSY,
                       "%s: cannot compile in a forked child, NVRTC's locks belong to the parent; "
                       "compile before the fork, or exec a new program",
                       name);
  if (attune__source_includes(source))
    return attune_fail(ATTUNE_COMPILE,
                       "%s: the source includes a file; generated CUDA must be self-contained",
                       name);
  return check_arch(arch, arch_name);
}

static attune_status run_in_slot(request *r) {
  while (sem_wait(&service.slots) && errno == EINTR) continue;
  attune_status status = on_own_thread(run_request, r, 0);
  sem_post(&service.slots);
  return status;
}

double attune__now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Facts of an image that NVRTC made without an error: it also calls a source without kernels, and
 * an arch that it has no code for, a success. */
static attune_status read_facts(attune_image *image, const char *name) {
  attune_status status = attune__cubin_facts(image->cubin, image->cubin_bytes, name, &image->facts);
  if (status) return attune_fail(ATTUNE_COMPILE, "%s", attune_error());
  uint32_t registers = image->facts.registers;
  if (!attune__log_facts(image->log, name, &image->facts) || image->facts.registers != registers)
    return attune_fail(ATTUNE_COMPILE, "%s: cannot read spills and registers in the log of %s",
                       name, service.info.version);
  return ATTUNE_OK;
}

static void add_options(request *r) {
  for (int i = 0; attune__nvrtc_options[i]; i++) r->option[r->options++] = attune__nvrtc_options[i];
  /* From 12.9 on NVRTC has a cache of its own where a driver is installed, and a hit comes without
   * the log that spills are read from. The option changes no code, so it is in no key. */
  const attune__nvrtc_api *api = &service.api;
  if (api->major > 12 || (api->major == 12 && api->minor >= 9))
    r->option[r->options++] = "--no-cache";
}

/* For `target`: "sm_90a" to machine code, "compute_90a" to PTX alone. */
static attune_status compile_for(request *r, const char *name, const char *target) {
  r->api = &service.api;
  snprintf(r->arch, sizeof r->arch, "--gpu-architecture=%s", target);
  /* Absolute, or -lineinfo would write the working directory before it. */
  snprintf(r->file, sizeof r->file, "/attune/%s.cu", name);
  r->option[r->options++] = r->arch;
  add_options(r);
  return run_in_slot(r);
}

attune_status attune__nvrtc_compile(const char *source, const char *name, uint32_t arch,
                                    attune_image *out) {
  memset(out, 0, sizeof *out);
  char arch_name[ATTUNE_ARCH_MAX];
  attune__arch_print(arch, 1, arch_name);
  attune_status status = check_request(source, name, arch, arch_name);
  if (status) return status;
  blob cubin = {0}, ptx = {0};
  request r = {.source = source, .cubin = &cubin, .ptx = &ptx};
  double start = attune__now_ms();
  status = compile_for(&r, name, arch_name);
  out->milliseconds = attune__now_ms() - start;
  out->cubin = cubin.data, out->cubin_bytes = cubin.bytes, out->log = r.log.data;
  out->ptx = ptx.data, out->ptx_bytes = ptx.data ? strlen(ptx.data) : 0;
  return status ? status : read_facts(out, name);
}

attune_status attune__nvrtc_ptx(const char *source, const char *name, uint32_t arch, char **out,
                                size_t *out_bytes) {
  *out = NULL, *out_bytes = 0;
  char arch_name[ATTUNE_ARCH_MAX], target[ATTUNE_ARCH_MAX + 8];
  attune__arch_print(arch, 1, arch_name);
  attune_status status = check_request(source, name, arch, arch_name);
  if (status) return status;
  snprintf(target, sizeof target, "compute%s", arch_name + 2);
  blob ptx = {0};
  request r = {.source = source, .ptx = &ptx};
  status = compile_for(&r, name, target);
  free(r.log.data);
  if (status)
    free(ptx.data);
  else
    *out = ptx.data, *out_bytes = strlen(ptx.data);
  return status;
}

void attune__image_free(attune_image *image) {
  free(image->cubin);
  free(image->ptx);
  free(image->log);
  memset(image, 0, sizeof *image);
}
