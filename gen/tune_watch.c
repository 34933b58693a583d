/* tune_watch.c - what else goes on on the GPU while candidates are timed: clocks, heat, other
 * processes, MIG.
 *
 * Asked of NVML, which comes with the driver; found by dlopen, declared here as driver.h does.
 * Without it nothing is known, and the watch says that. The power limit is no reason to doubt a
 * time: a large GPU meets it under any good kernel, and contenders of the same rounds meet it
 * alike. */
#include "tune_lab.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* nvml.h: nvmlClockType_t, and bits of nvmlClocksEventReasons (once nvmlClocksThrottleReasons). */
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
static const unsigned long long slowed = 0x8     /* hardware slowdown */
                                         | 0x20  /* software thermal */
                                         | 0x40  /* hardware thermal */
                                         | 0x80; /* hardware power brake */

typedef struct nvml_process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned instance, compute_instance;
} nvml_process;

typedef struct nvml {
  int (*init)(void);
  int (*by_bus)(const char *, void **);
  int (*clock)(void *, int, unsigned *);
  int (*reasons)(void *, unsigned long long *);
  int (*processes)(void *, unsigned *, nvml_process *);
  int (*mig)(void *, unsigned *, unsigned *);
  int ready;
} nvml;

static nvml api;

/* A function of the first name that is there. */
static void find(void *library, const char *name, const char *older, void *out) {
  void *symbol = dlsym(library, name);
  if (!symbol && older) symbol = dlsym(library, older);
  memcpy(out, &symbol, sizeof symbol);
}

static void load(void) {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  find(library, "nvmlInit_v2", "nvmlInit", &api.init);
  find(library, "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId", &api.by_bus);
  find(library, "nvmlDeviceGetClockInfo", NULL, &api.clock);
  find(library, "nvmlDeviceGetCurrentClocksEventReasons",
       "nvmlDeviceGetCurrentClocksThrottleReasons", &api.reasons);
  find(library, "nvmlDeviceGetComputeRunningProcesses_v3",
       "nvmlDeviceGetComputeRunningProcesses_v2", &api.processes);
  find(library, "nvmlDeviceGetMigMode", NULL, &api.mig);
  api.ready = api.init && api.by_bus && api.clock && !api.init();
}

static const nvml *nvml_api(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return api.ready ? &api : NULL;
}

static int clock_of(const nvml *n, void *device, int type) {
  unsigned mhz = 0;
  return n->clock(device, type, &mhz) ? 0 : (int)mhz;
}

void attune__watch_begin(attune__watcher *w, const char *bus) {
  const nvml *n = nvml_api();
  unsigned now = 0, pending;
  *w = (attune__watcher){.device = NULL};
  if (!n || !bus[0] || n->by_bus(bus, &w->device)) {
    w->device = NULL;
    return;
  }
  w->memory_mhz = clock_of(n, w->device, NVML_CLOCK_MEM);
  if (n->mig && !n->mig(w->device, &now, &pending)) w->mig = now == 1;
}

/* More than one process: the one that times is always among them. */
static int others_of(const nvml *n, void *device) {
  nvml_process process[64];
  unsigned count = 64;
  if (!n->processes || n->processes(device, &count, process)) return 0;
  return count > 1 ? (int)count - 1 : 0;
}

void attune__watch_end(attune__watcher *w, attune__watch *out) {
  const nvml *n = nvml_api();
  unsigned long long reasons = 0;
  memset(out, 0, sizeof *out);
  if (!n || !w->device) return;
  out->known = 1, out->mig = w->mig;
  out->sm_mhz = clock_of(n, w->device, NVML_CLOCK_SM);
  out->memory_mhz = clock_of(n, w->device, NVML_CLOCK_MEM);
  out->memory_changed = out->memory_mhz != w->memory_mhz;
  out->throttled = n->reasons && !n->reasons(w->device, &reasons) && (reasons & slowed);
  out->others = others_of(n, w->device);
}

void attune__watch_why(const attune__watch *w, char out[ATTUNE__WHY_MAX]) {
  out[0] = 0;
  if (w->others)
    snprintf(out, ATTUNE__WHY_MAX, "%d other process%s on the GPU", w->others,
             w->others == 1 ? "" : "es");
  else if (w->launches)
    snprintf(out, ATTUNE__WHY_MAX, "this process launched other work in between");
  else if (w->throttled)
    snprintf(out, ATTUNE__WHY_MAX, "the GPU was slowed for heat or power");
  else if (w->memory_changed)
    snprintf(out, ATTUNE__WHY_MAX, "the memory clock changed meanwhile, to %d MHz", w->memory_mhz);
  else if (w->mig)
    snprintf(out, ATTUNE__WHY_MAX, "a slice (MIG) of a GPU, whose neighbours are not seen");
}
