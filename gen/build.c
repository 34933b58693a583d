/* build.c - a job's kernels compiled in parallel into a set folder.
 *
 * Input: a job and a folder. Output: DIR/<name>.entry for each kernel, then the manifest, which is
 * published last and only when every kernel is there. DIR/.keys remembers what each entry was made
 * from (build_keys.c), so that a build goes on where the last one ended. */
#include "build.h"
#include "build_keys.h"
#include "nvrtc.h"
#include "store.h"
#include "template.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ERRORS = 20 }; /* a broken template fails every kernel in the same way */

typedef struct build {
  const attune_job *job;
  const attune_build_options *options;
  attune_nvrtc_info compiler;
  attune__keys old;       /* as found in the folder */
  attune__key_line *made; /* by kernel; the digest is that of the entry in the folder */
  pthread_mutex_t lock;   /* guards all below, and the calls of progress */
  int next, done;
  attune_build_summary *summary;
  attune_status status; /* first failure */
  attune__text *errors;
} build;

/* One kernel on its way. */
typedef struct item {
  int index;
  const attune_kernel *kernel;
  void *bytes;
  size_t size;
  attune_entry entry;               /* points into bytes */
  char warning[ATTUNE_WARNING_MAX]; /* "" when clean */
  int kept;
  double milliseconds;
} item;

static attune_status no_memory(const char *name) {
  return attune_fail(ATTUNE_NO_MEMORY, "%s: its path or text", name);
}

/* DIR/<name>.cu, malloc'ed. */
static char *source_path(const build *b, const char *name) {
  char *path = NULL;
  return asprintf(&path, "%s/%s.cu", b->options->out, name) < 0 ? NULL : path;
}

/* ---- one kernel ---------------------------------------------------------------------------- */

/* 1 when the folder has the entry, made from the same key, byte for byte as it was written. */
static int keep_existing(const build *b, const char *path, item *it) {
  char digest[65];
  const attune__key_line *line = attune__keys_find(&b->old, it->kernel->name);
  if (!line || strcmp(line->key, b->made[it->index].key) != 0) return 0;
  if (attune__file_read(path, ATTUNE_ENTRY_MAX, &it->bytes, &it->size)) return 0;
  attune__sha256_hex(it->bytes, it->size, digest);
  it->kept = strcmp(line->digest, digest) == 0 &&
             attune__entry_read(it->bytes, it->size, &it->entry) == ATTUNE_OK;
  if (it->kept) attune__facts_warning(&it->entry.facts, it->warning);
  if (it->kept && it->warning[0] && !b->options->allow_spills) it->kept = 0;
  if (!it->kept) free(it->bytes), it->bytes = NULL;
  return it->kept;
}

static attune_status compile_item(const build *b, const char *path, item *it) {
  double start = attune__now_ms();
  char *warning;
  attune_status status = attune__compile_entry(it->kernel, 0, &it->bytes, &it->size, &warning);
  it->milliseconds = attune__now_ms() - start;
  snprintf(it->warning, sizeof it->warning, "%s", warning ? warning : "");
  free(warning);
  if (status) return status;
  if (it->warning[0] && !b->options->allow_spills)
    return attune_fail(ATTUNE_COMPILE, "the compiled kernel %s", it->warning);
  status = attune__entry_read(it->bytes, it->size, &it->entry);
  return status ? status : attune__file_publish(path, it->bytes, it->size);
}

/* The text that people read, with the compiler's facts at its head. */
static attune_status write_source(const build *b, const item *it) {
  attune_emit_options options = {.facts = &it->entry.facts, .compiler = it->entry.compiler};
  attune__text text = {0};
  attune_status status = attune__emit(it->kernel, &options, &text);
  char *path = source_path(b, it->kernel->name);
  if (!status && (!path || text.failed)) status = no_memory(it->kernel->name);
  if (!status) status = attune__file_publish(path, text.data, text.size);
  attune__text_free(&text);
  free(path);
  return status;
}

static attune_status make_item(build *b, item *it) {
  attune__key_line *made = &b->made[it->index];
  snprintf(made->name, sizeof made->name, "%s", it->kernel->name);
  attune_status status = attune__store_key(it->kernel, made->key);
  char *path = attune__set_entry_path(b->options->out, it->kernel->name);
  if (!status && !path) status = no_memory(it->kernel->name);
  if (!status && !keep_existing(b, path, it)) status = compile_item(b, path, it);
  if (!status && b->options->keep_source) status = write_source(b, it);
  if (!status) attune__sha256_hex(it->bytes, it->size, made->digest);
  free(path);
  return status;
}

/* ---- workers ------------------------------------------------------------------------------- */

/* With the lock held. */
static void note_failure(build *b, attune_status status, const char *name) {
  b->summary->failed++;
  if (!b->status) b->status = status;
  if (b->summary->failed <= MAX_ERRORS)
    attune__text_printf(b->errors, "%s: %s\n", name, attune_error());
  else if (b->summary->failed == MAX_ERRORS + 1)
    attune__text_puts(b->errors, "and more\n");
}

/* With the lock held. */
static void note_success(build *b, const item *it) {
  b->summary->entry_bytes += (int64_t)it->size;
  b->summary->kept += it->kept;
  b->summary->compiled += !it->kept;
  if (!it->kept) attune__keys_append(b->options->out, &b->made[it->index]);
}

static void note(build *b, const item *it, attune_status status) {
  pthread_mutex_lock(&b->lock);
  b->done++;
  b->summary->compile_ms += it->milliseconds;
  if (status)
    note_failure(b, status, it->kernel->name);
  else
    note_success(b, it);
  attune_build_progress progress = {.done = b->done,
                                    .total = b->job->kernel_count,
                                    .name = it->kernel->name,
                                    .milliseconds = it->milliseconds,
                                    .facts = status ? NULL : &it->entry.facts,
                                    .warning = it->warning[0] ? it->warning : NULL};
  if (b->options->progress) b->options->progress(b->options->user, &progress);
  pthread_mutex_unlock(&b->lock);
}

static int take_next(build *b) {
  pthread_mutex_lock(&b->lock);
  int index = b->next < b->job->kernel_count ? b->next++ : -1;
  pthread_mutex_unlock(&b->lock);
  return index;
}

static void *worker(void *argument) {
  build *b = argument;
  for (int index; (index = take_next(b)) >= 0;) {
    item it = {.index = index, .kernel = &b->job->kernels[index]};
    note(b, &it, make_item(b, &it));
    free(it.bytes);
  }
  return NULL;
}

/* This thread works too; a thread that cannot be started is one worker less. */
static void run_workers(build *b) {
  enum { MAX_WORKERS = 256 };
  pthread_t thread[MAX_WORKERS];
  int jobs = b->options->jobs > 0 ? b->options->jobs : (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (jobs > b->job->kernel_count) jobs = b->job->kernel_count;
  if (jobs > MAX_WORKERS) jobs = MAX_WORKERS;
  int started = 0;
  while (started < jobs - 1 && pthread_create(&thread[started], NULL, worker, b) == 0) started++;
  worker(b);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* ---- the set ------------------------------------------------------------------------------- */

static int has_pins(const attune__set *set, const attune_pinset *pins) {
  for (int i = 0; i < set->pinset_count; i++)
    if (attune__pinset_digest(&set->pins[i]) == attune__pinset_digest(pins)) return 1;
  return 0;
}

static void fill_set(const build *b, attune__set *set) {
  const attune_job *job = b->job;
  for (int i = 0; i < job->kernel_count; i++) {
    attune__set_kernel *kernel = &set->kernels[set->kernel_count++];
    snprintf(kernel->name, sizeof kernel->name, "%s", b->made[i].name);
    snprintf(kernel->digest, sizeof kernel->digest, "%s", b->made[i].digest);
    const attune_pinset *pins = &job->kernels[i].pins;
    if (pins->count && !has_pins(set, pins)) set->pins[set->pinset_count++] = *pins;
  }
  for (int i = 0; i < job->row_count; i++) {
    const attune_job_row *from = &job->rows[i];
    attune__set_row *to = &set->rows[set->row_count++];
    to->variant = from->variant, to->cls = from->cls, to->corner = from->corner;
    to->kernel_count = from->kernel_count;
    memcpy(to->kernel, from->kernel, sizeof to->kernel);
  }
}

static attune_status publish(const build *b) {
  const attune_job *job = b->job;
  attune_status status = ATTUNE_OK;
  attune__set set = {0};
  snprintf(set.made_by, sizeof set.made_by, "attune %s, %.32s", attune_version(),
           b->compiler.version);
  set.path = strdup(b->options->out);
  set.kernels = calloc((size_t)job->kernel_count + 1, sizeof *set.kernels);
  set.rows = calloc((size_t)job->row_count + 1, sizeof *set.rows);
  set.pins = calloc((size_t)job->kernel_count + 1, sizeof *set.pins);
  if (set.path && set.kernels && set.rows && set.pins) {
    fill_set(b, &set);
    status = attune__set_write(&set);
  } else {
    status = attune_fail(ATTUNE_NO_MEMORY, "a set of %d kernels", job->kernel_count);
  }
  attune__set_free(&set);
  return status;
}

/* Entries of an earlier spec that this one does not ask for: the manifest names them no more. */
static void remove_stale(const build *b) {
  for (int i = 0; i < b->old.count; i++) {
    const char *name = b->old.line[i].name;
    int wanted = 0;
    for (int k = 0; k < b->job->kernel_count && !wanted; k++)
      wanted = strcmp(b->job->kernels[k].name, name) == 0;
    if (wanted) continue;
    char *entry = attune__set_entry_path(b->options->out, name), *source = source_path(b, name);
    if (entry) unlink(entry);
    if (source) unlink(source);
    free(entry), free(source);
  }
}

static attune_status finish(build *b) {
  if (b->status)
    return attune_fail(b->status, "%d of %d kernels failed; the set is not complete",
                       b->summary->failed, b->job->kernel_count);
  attune_status status = publish(b);
  if (!status) remove_stale(b);
  if (!status) status = attune__keys_write(b->options->out, b->made, b->job->kernel_count);
  return status;
}

attune_status attune__build(const attune_job *job, const attune_build_options *options,
                            attune_build_summary *out, attune__text *errors) {
  memset(out, 0, sizeof *out);
  double start = attune__now_ms();
  build b = {.job = job, .options = options, .summary = out, .errors = errors};
  attune_status status = attune__nvrtc_info(&b.compiler); /* one error, not one per kernel */
  if (!status) status = attune__make_folders(options->out, 0);
  if (status) return status;
  b.made = calloc((size_t)job->kernel_count + 1, sizeof *b.made);
  if (!b.made || attune__keys_read(options->out, &b.old))
    status = attune_fail(ATTUNE_NO_MEMORY, "a build of %d kernels", job->kernel_count);
  pthread_mutex_init(&b.lock, NULL);
  if (!status) run_workers(&b);
  if (!status) status = finish(&b);
  pthread_mutex_destroy(&b.lock);
  attune__keys_free(&b.old);
  free(b.made);
  out->wall_ms = attune__now_ms() - start;
  return status;
}
