/* doctor.c - `attune doctor`: what attune finds on this machine, and what to do about each fault.
 *
 * Looks at NVRTC, the driver, its devices, the store and the environment with the same calls that
 * the other commands make, so that it cannot disagree with them. Output: a line a fact, a fault
 * with its advice below the part that it stands in. A fault either stops something that this
 * machine could do (exit 3) or is only worth knowing (exit 0). */
#include "../../runtime/device.h"
#include "../../runtime/driver.h"
#include "../../runtime/params.def"
#include "../board.h"
#include "../nvrtc.h"
#include "../store.h"
#include "cli.h"
#include "show.h"

#include <lua.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>
#include <zstd.h>

#define LUA_TEXT LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "." LUA_VERSION_RELEASE

/* Every variable that attune reads, the driver's own last. */
static const struct {
  const char *name, *text;
} variables[] = {
    {"ATTUNE_CACHE_DIR", "folder of the kernels compiled at their first call"},
    {"ATTUNE_NO_JIT", "1: a miss is an error, nothing is compiled"},
    {"ATTUNE_EARLY_LAUNCH", "0: launches begin when what is ahead of them in the stream has ended"},
    {"ATTUNE_NVRTC", "path of the libnvrtc.so to use, and no other"},
    {"ATTUNE_TEMPLATES", "folder of templates in place of the built-in ones"},
    {"XDG_CACHE_HOME", "its attune/ is the folder of kernels, after ATTUNE_CACHE_DIR"},
    {"HOME", "its .cache/attune/ is the folder of kernels, after the two above"},
    {"PATH", "its python3 may have NVRTC among its packages"},
    {"TMPDIR", "folder of temporary sets, of pack and diff; /tmp"},
    {"VIRTUAL_ENV", "Python environment that may have NVRTC among its packages"},
    {"CUDA_VISIBLE_DEVICES", "read by the driver: the devices that programs see"},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

typedef enum doctor_grade { FINE, NOTE, FAULT } doctor_grade; /* a note does not stop anything */
static const char *const grade_names[] = {"fine", "note", "fault"};
enum { MESSAGE_MAX = 2048, DEVICES_MAX = 64 };

/* What one look found. `todo` is due when the grade is not FINE. */
typedef struct finding {
  doctor_grade grade;
  char what[MESSAGE_MAX];
  const char *todo;
} finding;

typedef struct device {
  finding finding;
  attune__device_facts facts;
  const attune_board *board; /* row of arch.def that serves it; NULL: none */
} device;

typedef struct report {
  finding nvrtc, driver, store;
  attune_nvrtc_info nvrtc_info;
  char kernel_driver[64]; /* "580.65.06"; "" when it is not told */
  int driver_cuda;        /* 13000; 0 without a driver */
  device *devices;
  int device_count;
  char root[4096];
  attune_store_usage usage;
} report;

__attribute__((format(printf, 4, 5))) static void found(finding *f, doctor_grade grade,
                                                        const char *todo, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(f->what, sizeof f->what, format, arguments);
  va_end(arguments);
  f->grade = grade, f->todo = todo;
}

/* ---- looking ------------------------------------------------------------------------------- */

static void look_at_nvrtc(report *r) {
  if (attune__nvrtc_info(&r->nvrtc_info))
    found(&r->nvrtc, FAULT,
          "install a CUDA toolkit 12 or 13, or `pip install nvidia-cuda-nvrtc`, or in attune's "
          "source `make deps`; ATTUNE_NVRTC names a file",
          "%s", attune_error());
  else
    found(&r->nvrtc, FINE, NULL, "%s, %s", r->nvrtc_info.version, r->nvrtc_info.path);
}

/* NVIDIA's kernel driver says its version here; libcuda.so only says its CUDA. */
static void read_kernel_driver(report *r) {
  FILE *file = fopen("/sys/module/nvidia/version", "r");
  if (!file) return;
  if (!fgets(r->kernel_driver, sizeof r->kernel_driver, file)) r->kernel_driver[0] = 0;
  r->kernel_driver[strcspn(r->kernel_driver, "\n")] = 0;
  fclose(file);
}

/* Whether this machine, or this container, was given an NVIDIA GPU. */
static int has_gpu(const report *r) {
  return r->kernel_driver[0] || access("/dev/nvidia0", F_OK) == 0;
}

/* Devices that the driver counts; -1 and a finding when it cannot. */
static int count_devices(report *r) {
  const attune__cuda *cuda = attune__cuda_api();
  if (!cuda) {
    found(&r->driver, has_gpu(r) ? FAULT : NOTE,
          has_gpu(r) ? "make libcuda.so.1 visible (in a container: start it with `--gpus all`)"
                     : "nothing, unless there is a GPU: the CPU device verifies every kernel",
          "%s", attune_error());
    return -1;
  }
  r->driver_cuda = attune__cuda_driver_version();
  int count = 0, code = cuda->init(0);
  if (!code) code = cuda->device_count(&count);
  if (!code) return count;
  const char *text = NULL;
  cuda->error_text(code, &text);
  found(&r->driver, has_gpu(r) ? FAULT : NOTE,
        "see `nvidia-smi`; after an update of the driver restart the machine, in a container "
        "start it with `--gpus all`",
        "libcuda.so.1 is there but does not start: %s (%d)", text ? text : "unknown error", code);
  return -1;
}

/* A GPU is served when a row's code runs on it and NVRTC can compile for the row. */
static void look_at_device(int ordinal, int have_nvrtc, device *d) {
  attune__device *opened;
  if (attune__cuda_open(ordinal, &opened)) {
    found(&d->finding, FAULT, "see `nvidia-smi`: another program may hold the device or its memory",
          "device %d cannot be opened: %s", ordinal, attune_error());
    return;
  }
  d->facts = opened->facts;
  opened->ops->close(opened);
  char arch[ATTUNE_ARCH_MAX];
  attune__arch_print(d->facts.arch, 1, arch);
  for (int i = 0; i < ATTUNE_BOARDS; i++) /* ascending: the last that runs is the nearest */
    if (attune__arch_runs(attune__boards[i].arch, d->facts.arch)) d->board = &attune__boards[i];
  found(&d->finding, FINE, NULL, "device %d: %s, %s, %d SMs, %d bytes of shared memory a block",
        ordinal, d->facts.name, arch, d->facts.sm_count, d->facts.smem_block);
  if (!d->board) {
    d->finding.grade = NOTE;
    d->finding.todo = "none of attune's archs runs there: add a row to gen/arch.def";
    return;
  }
  attune_image image = {0};
  if (have_nvrtc && attune__nvrtc_compile("extern \"C\" __global__ void attune_doctor() {}",
                                          "attune_doctor", d->board->arch, &image))
    d->finding.grade = FAULT, d->finding.todo = "use a newer NVRTC: this one has no such arch";
  attune__image_free(&image);
}

static attune_status look_at_driver(report *r) {
  read_kernel_driver(r);
  int count = count_devices(r);
  if (count < 0) return ATTUNE_OK;
  found(&r->driver, FINE, NULL, "%s%sCUDA %d.%d, %d device%s", r->kernel_driver,
        r->kernel_driver[0] ? ", " : "", r->driver_cuda / 1000, r->driver_cuda % 1000 / 10, count,
        count == 1 ? "" : "s");
  if (!count) {
    r->driver.grade = NOTE;
    r->driver.todo = "look at CUDA_VISIBLE_DEVICES: it may hide the devices";
  }
  r->device_count = count < DEVICES_MAX ? count : DEVICES_MAX;
  r->devices = calloc((size_t)r->device_count + 1, sizeof *r->devices);
  if (!r->devices) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a report");
  for (int i = 0; i < r->device_count; i++)
    look_at_device(i, r->nvrtc.grade == FINE, &r->devices[i]);
  return ATTUNE_OK;
}

static attune_status look_at_store(report *r) {
  attune_store *store;
  attune_status status = attune__store_open(NULL, &store);
  if (status) return status;
  char warning[512];
  const char *root = attune__store_root(store);
  snprintf(r->root, sizeof r->root, "%s", root);
  if (attune__store_warning(store, warning, sizeof warning))
    found(&r->store, NOTE, "set ATTUNE_CACHE_DIR to a folder that is yours alone (mode 0700)",
          "%s; kernels are compiled again in every process", warning);
  else if (!*root)
    found(&r->store, NOTE, "set ATTUNE_CACHE_DIR, or HOME, to an absolute path",
          "no folder: kernels are compiled again in every process");
  else if (attune__store_usage(store, &r->usage))
    found(&r->store, NOTE, "see the folder's owner and mode", "%s", attune_error());
  else if (access(root, W_OK))
    found(&r->store, NOTE, "make the folder writable, or set ATTUNE_CACHE_DIR",
          "%s cannot be written to", root);
  else
    found(&r->store, FINE, NULL, "%s, %lld entries, %lld bytes", root, (long long)r->usage.entries,
          (long long)r->usage.bytes);
  attune__store_close(store);
  return ATTUNE_OK;
}

static doctor_grade worst(const report *r) {
  doctor_grade grade = r->nvrtc.grade;
  if (r->driver.grade > grade) grade = r->driver.grade;
  if (r->store.grade > grade) grade = r->store.grade;
  for (int i = 0; i < r->device_count; i++)
    if (r->devices[i].finding.grade > grade) grade = r->devices[i].finding.grade;
  return grade;
}

/* ---- telling ------------------------------------------------------------------------------- */

static void tell(const char *label, const finding *f, attune__text *out) {
  attune__text_printf(out, "%-9s %s\n", label, f->what);
  if (f->grade != FINE)
    attune__text_printf(out, "  %s %s\n", f->grade == FAULT ? "fault: " : "note:  ", f->todo);
}

static void tell_text(const report *r, attune__text *out) {
  attune__text_printf(out, "attune    %s, ABI %d, entry format %d, Lua %s, libyaml %s, zstd %s\n",
                      attune_version(), ATTUNE_ABI, ATTUNE_ENTRY_VERSION, LUA_TEXT,
                      yaml_get_version_string(), ZSTD_versionString());
  tell("compiler", &r->nvrtc, out);
  tell("driver", &r->driver, out);
  for (int i = 0; i < r->device_count; i++) {
    tell("", &r->devices[i].finding, out);
    if (r->devices[i].board)
      attune__text_printf(out, "          served by %s\n", r->devices[i].board->arch_name);
  }
  tell("store", &r->store, out);
  for (int i = 0; i < VARIABLES; i++) {
    const char *value = getenv(variables[i].name);
    attune__text_printf(out, "%-9s %s%s%s\n", i ? "" : "variables", variables[i].name,
                        value ? "=" : " is not set: ", value ? value : variables[i].text);
  }
  attune__text_puts(out, worst(r) == FAULT ? "something that this machine needs is missing\n"
                         : r->device_count && r->devices[0].board
                             ? "everything works here, with a GPU\n"
                             : "everything works here that needs no GPU\n");
}

static void tell_json_finding(attune__json *json, const char *key, const finding *f) {
  if (key) attune__json_key(json, key);
  attune__json_begin(json, '{');
  show_json_text(json, "state", grade_names[f->grade]);
  show_json_text(json, "found", f->what);
  if (f->grade != FINE) show_json_text(json, "todo", f->todo);
}

static void tell_json_devices(attune__json *json, const report *r) {
  attune__json_key(json, "devices");
  attune__json_begin(json, '[');
  for (int i = 0; i < r->device_count; i++) {
    const device *d = &r->devices[i];
    tell_json_finding(json, NULL, &d->finding);
    char arch[ATTUNE_ARCH_MAX];
    attune__arch_print(d->facts.arch, 1, arch);
    show_json_text(json, "name", d->facts.name);
    show_json_text(json, "arch", d->facts.arch ? arch : "");
    show_json_count(json, "sms", d->facts.sm_count);
    show_json_count(json, "smem_block", d->facts.smem_block);
    show_json_text(json, "served_by", d->board ? d->board->arch_name : "");
    attune__json_end(json, '}');
  }
  attune__json_end(json, ']');
}

static void tell_json_versions(attune__json *json) {
  attune__json_key(json, "versions");
  attune__json_begin(json, '{');
  show_json_text(json, "attune", attune_version());
  show_json_count(json, "abi", ATTUNE_ABI);
  show_json_count(json, "entry", ATTUNE_ENTRY_VERSION);
  show_json_text(json, "lua", LUA_TEXT);
  show_json_text(json, "libyaml", yaml_get_version_string());
  show_json_text(json, "zstd", ZSTD_versionString());
  attune__json_end(json, '}');
}

static void tell_json_variables(attune__json *json) {
  attune__json_key(json, "variables");
  attune__json_begin(json, '{');
  for (int i = 0; i < VARIABLES; i++) {
    const char *value = getenv(variables[i].name);
    if (value) show_json_text(json, variables[i].name, value);
  }
  attune__json_end(json, '}');
}

static void tell_json(const report *r, attune__text *out) {
  attune__json json = {.text = out};
  attune__json_begin(&json, '{');
  show_json_count(&json, "schema", CLI_JSON_SCHEMA);
  show_json_text(&json, "state", grade_names[worst(r)]);
  tell_json_versions(&json);
  tell_json_finding(&json, "nvrtc", &r->nvrtc);
  show_json_text(&json, "version", r->nvrtc_info.version);
  show_json_text(&json, "path", r->nvrtc_info.path);
  attune__json_end(&json, '}');
  tell_json_finding(&json, "driver", &r->driver);
  show_json_text(&json, "version", r->kernel_driver);
  show_json_count(&json, "cuda", r->driver_cuda);
  attune__json_end(&json, '}');
  tell_json_devices(&json, r);
  tell_json_finding(&json, "store", &r->store);
  show_json_text(&json, "root", r->root);
  show_json_count(&json, "entries", r->usage.entries);
  show_json_count(&json, "bytes", r->usage.bytes);
  attune__json_end(&json, '}');
  tell_json_variables(&json);
  attune__json_end(&json, '}');
  attune__text_puts(out, "\n");
}

static int run(const cli_args *args) {
  report *r = calloc(1, sizeof *r);
  if (!r) return cli_fail(attune_fail(ATTUNE_NO_MEMORY, "no memory for a report"));
  look_at_nvrtc(r);
  attune_status status = look_at_driver(r);
  if (!status) status = look_at_store(r);
  int rc = CLI_OK;
  if (status) {
    rc = cli_fail(status);
  } else {
    attune__text text = {0};
    if (args->json)
      tell_json(r, &text);
    else
      tell_text(r, &text);
    rc = cli_print(&text);
    if (rc == CLI_OK && worst(r) == FAULT) rc = CLI_MISSING;
  }
  free(r->devices);
  free(r);
  return rc;
}

static const cli_option options[] = {{NULL, NULL, NULL}};

const cli_command cli_doctor_command = {
    .name = "doctor",
    .usage = "doctor",
    .text =
        "Says what attune finds on this machine: NVRTC, driver, devices, the folder of compiled\n"
        "kernels, versions, environment; and what to do about each fault. Exit 3 when something\n"
        "that this machine needs is missing; a machine without a GPU needs none.",
    .options = options,
    .run = run,
};
