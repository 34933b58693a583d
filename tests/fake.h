/* fake.h - a device that records launches instead of making them, and kernel sets without kernels:
 * what tests of the runtime need in place of a GPU and a compiler. */
#ifndef ATTUNE_TEST_FAKE_H
#define ATTUNE_TEST_FAKE_H

#include "../runtime/context.h"

enum { FAKE_LAUNCHES = 16 };

/* What a fake device saw; it belongs to the test and outlives the device. Counts are of calls. */
typedef struct fake_log {
  atomic_int loads, unloads, closes, launches;
  attune_status load_status;   /* what the next loads return, ATTUNE_OK: they succeed */
  attune_status launch_status; /* what the next launches return */
  struct {
    char kernel[ATTUNE_NAME_MAX];
    attune__launch_config config;
    attune_params_attn_standard params; /* the bytes that the launch was given, the rest 0 */
    size_t param_bytes;
    void *stream;
  } launch[FAKE_LAUNCHES];
} fake_log;

/* A context on a fake device of the arch ("sm_80"); log may be NULL: no device. */
attune_context *fake_open(const char *arch, const attune_options *options, fake_log *log);

/* Parts of a device whose memory is the host's. */
attune_status fake_copy(attune__device *device, void *to, const void *from, size_t bytes);
attune_status fake_synchronize(attune__device *device);

/* An entry of the kernel with that name, with a recipe of its op and an empty cubin. */
attune_entry fake_entry(const char *kernel_name, const attune_pinset *pins);

/* A row of a fake set: kernels are <variant>__<tile>, one per part of the op. */
typedef struct fake_row {
  const char *variant;
  attune_class cls;
  attune_corner corner;
  const char *tile;          /* NULL: "fma_m64n64" */
  const attune_pinset *pins; /* NULL: none */
} fake_row;

/* A new folder under build/ for the life of a test. */
enum { FAKE_PATH = 64 };
void fake_folder(char path[FAKE_PATH]);
void fake_remove(const char *path);
/* Writes a set of those rows, entries included, into the folder. */
void fake_set(const char *path, const fake_row *rows, int count);
/* The same, added to a context, which needs the folder until its programs are prepared. */
void fake_open_set(attune_context *context, const char *path, const fake_row *rows, int count);
/* The problem that a row's variant serves. */
attune_problem fake_problem(const char *variant);

/* Arguments of 2 sequences of 100 queries and keys, 8 heads over 2, head dim 64, any 16-bit type,
 * at addresses that nothing reads. */
void *fake_address(uintptr_t address);
attune_attn_args fake_args(void);
/* They become the block of a kernel of the variant; or are refused with a message of these words.
 */
void fake_filled(const char *variant, attune_corner spec_corner, const attune_attn_args *args,
                 attune_params_attn_standard *out);
void fake_refused(const char *variant, const attune_attn_args *args, const char *words);

/* Finds what must be there; the info of a program. */
attune_program *fake_find(attune_context *context, const attune_problem *problem);
attune_program_info fake_info(const attune_program *program);

/* Keeps what a context says. */
typedef struct fake_messages {
  int count;
  attune_level level;
  char last[1024];
} fake_messages;
attune_options fake_listening(fake_messages *kept);

/* A miss handler that returns fake entries: of the variant asked for, or of `lie`. */
typedef struct fake_handler {
  atomic_int calls, dry_runs, frees;
  const char *lie;      /* kernel to return instead */
  attune_status status; /* to fail with */
} fake_handler;
attune_status fake_handle(void *user, const attune_problem *problem, const char *arch, int dry_run,
                          attune_miss_result *result);

#endif
