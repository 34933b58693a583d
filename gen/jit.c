/* jit.c - the generator as the runtime's miss handler.
 *
 * Input: a problem that no row serves. Output: the entries of its program, from the store or
 * compiled now. A dry run only plans. What to do about rows, loading and launching is the
 * runtime's. */
#include "jit.h"

#include "../runtime/context.h"
#include "../runtime/params.def"
#include "expand.h"
#include "jit_parts.h"
#include "nvrtc.h"
#include "store.h"
#include "tune_use.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Candidates tried when one spills; the planner's register estimate is rarely wrong so often. */
enum { MAX_TRIES = 4 };

/* Seconds, and part of the device's time. */
static const double default_budget = 10, default_share = 0.05;

struct attune_jit {
  attune_store *store;
  int no_jit;
  attune_message_fn message;
  void *user;
  attune__tuned_key key; /* of the context's GPU; gpu "": it has none, and no row is its */
  pthread_mutex_t lock;  /* guards the two below */
  int has_db;
  attune__tuned_db db;
  attune_context *context;
  attune_tune_mode tune;
  double budget, share;
  attune__online_host *host; /* NULL: there is no GPU, or nothing may be compiled */
  attune__online *online;    /* the same */
};

static void say(const attune_jit *jit, attune_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(const attune_jit *jit, attune_level level, const char *format, ...) {
  if (!jit->message) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  jit->message(jit->user, level, text);
}

/* An entry's bytes, malloc'ed. */
typedef struct blob {
  void *bytes;
  size_t size;
} blob;

/* ---- what is asked for --------------------------------------------------------------------- */

/* The arch to generate for: the device's own, else the newest that runs on it. */
static uint32_t code_arch(uint32_t device) {
  if (attune__board(device)) return device;
  uint32_t best = 0;
  for (int i = 0; i < ATTUNE_BOARDS; i++) {
    uint32_t arch = attune__boards[i].arch;
    if (attune__arch_runs(arch, device) && arch > best) best = arch;
  }
  return best ? best : device;
}

attune_status attune__jit_request(const attune_problem *problem, const char *arch,
                                  attune_request *out) {
  memset(out, 0, sizeof *out);
  uint32_t device = attune__arch_parse(arch);
  if (!device) return attune_fail(ATTUNE_INVALID, "arch %s: wanted one like sm_80", arch);
  attune_status status = attune__variant_of(problem, code_arch(device), &out->variant);
  for (uint32_t i = 0; i < problem->pin_count && !status; i++)
    status = attune__pinset_add(&out->pins, problem->pins[i].name, problem->pins[i].value);
  return status ? status : attune__generated(&out->variant);
}

/* ---- one part ------------------------------------------------------------------------------ */

static void say_store_warning(const attune_jit *jit) {
  char warning[512];
  if (attune__store_warning(jit->store, warning, sizeof warning))
    say(jit, ATTUNE_LEVEL_WARN, "compiled kernels are not kept: %s", warning);
}

/* Asked twice, so that a compile is announced and a hit is not. */
static attune_status get_entry(attune_jit *jit, const attune_kernel *kernel, blob *out) {
  attune_status status = attune__store_get(jit->store, kernel, 0, &out->bytes, &out->size, NULL);
  if (status != ATTUNE_NOT_FOUND || jit->no_jit) return status;
  say(jit, ATTUNE_LEVEL_INFO, "compiling %s", kernel->name);
  int compiled;
  double began = attune__now_ms();
  status = attune__store_get(jit->store, kernel, 1, &out->bytes, &out->size, &compiled);
  if (!status && compiled)
    say(jit, ATTUNE_LEVEL_INFO, "compiled %s in %d ms", kernel->name,
        (int)(attune__now_ms() - began));
  say_store_warning(jit);
  return status;
}

/* What is wrong with an entry's code; "" when nothing is. */
static attune_status read_warning(const blob *b, char out[ATTUNE_WARNING_MAX]) {
  attune_entry entry;
  attune_status status = attune__entry_read(b->bytes, b->size, &entry);
  if (!status) attune__facts_warning(&entry.facts, out);
  return status;
}

/* The best candidate whose code is as the planner counted on; when none is, the best of all: it is
 * slow, not wrong. */
static attune_status choose(attune_jit *jit, const attune_plan *plan, const attune_pinset *pins,
                            blob *out) {
  char warning[ATTUNE_WARNING_MAX] = "";
  int tries = plan->legal_count < MAX_TRIES ? plan->legal_count : MAX_TRIES;
  for (int i = 0; i < tries; i++) {
    attune_kernel kernel;
    blob next = {0};
    attune_status status =
        attune__kernel_make(&plan->request.variant, &plan->candidates[i].tile, pins, &kernel);
    if (!status) status = get_entry(jit, &kernel, &next);
    if (!status) status = read_warning(&next, warning);
    int better = !status && (!out->bytes || !warning[0]);
    free(better ? out->bytes : next.bytes);
    if (better) *out = next;
    if (status) return out->bytes ? ATTUNE_OK : status;
    if (!warning[0]) return ATTUNE_OK;
    say(jit, ATTUNE_LEVEL_WARN, "%s %s: %s", kernel.name, warning,
        i + 1 < tries ? "the next candidate is tried" : "no candidate is better");
  }
  return ATTUNE_OK;
}

/* No silent fallback: said at the first part that a slower family does. */
static void say_fallback(const attune_jit *jit, const attune_plan *plan, int *said) {
  char name[ATTUNE_NAME_MAX], reason[ATTUNE_REASON_MAX];
  if (*said || !attune__plan_fallback(plan, reason, sizeof reason)) return;
  attune__variant_name(&plan->request.variant, 1, name);
  say(jit, ATTUNE_LEVEL_WARN, "%s is served by family %s, a slower one: %s", name,
      attune__family_name(plan->candidates[0].tile.family), reason);
  *said = 1;
}

/* For the shape of the problem's class, not its own: what serves does not hang on which call came
 * first. Its number of keys only leaves out tiles that take fewer. */
static attune_status make_part(attune_jit *jit, const attune__online_wish *wish, int part,
                               int *said, blob *out) {
  const attune_plan_request ask = attune__request_plan(&wish->request, part, wish->cls, wish->keys);
  attune_plan plan;
  attune_status status = attune__plan_make(&ask, &plan);
  if (!status) status = choose(jit, &plan, &wish->request.pins, out);
  if (!status) say_fallback(jit, &plan, said);
  attune__plan_free(&plan);
  return status;
}

/* ---- measured rows --------------------------------------------------------------------------- */

/* Read at the first miss; what is wrong with a file is said once. */
static void read_rows(attune_jit *jit) {
  attune__text messages = {0};
  pthread_mutex_lock(&jit->lock);
  if (!jit->has_db) {
    if (attune__tuned_db_open(attune__store_root(jit->store), &jit->db, &messages))
      memset(&jit->db, 0, sizeof jit->db);
    if (messages.data) say(jit, ATTUNE_LEVEL_WARN, "%s", messages.data);
    jit->has_db = 1;
  }
  pthread_mutex_unlock(&jit->lock);
  attune__text_free(&messages);
}

/* Whether the row's kernels take so many keys. */
static int takes(const attune__tuned_row *row, int64_t len_k) {
  int32_t most = 0;
  for (int i = 0; i < row->tiles.count; i++) attune__limit_len_k(&most, &row->tiles.tile[i]);
  return !most || len_k <= most;
}

/* The row for the problem's class and keys on this GPU, a copy. */
static const attune__tuned_row *measured(attune_jit *jit, const attune__online_wish *wish,
                                         attune__tuned_row *copy) {
  const attune_request *request = &wish->request;
  attune_nvrtc_info compiler;
  char why[ATTUNE_REASON_MAX];
  attune__tuned_key key = jit->key;
  if (!key.gpu[0] || attune__nvrtc_info(&compiler)) return NULL;
  read_rows(jit);
  key.arch = request->variant.arch;
  memcpy(key.nvrtc, compiler.version, sizeof key.nvrtc);
  pthread_mutex_lock(&jit->lock);
  const attune__tuned_row *row =
      attune__tuned_for(&jit->db, &key, request, wish->cls, why, sizeof why);
  if (row) *copy = *row, row = copy;
  pthread_mutex_unlock(&jit->lock);
  if (!row && why[0]) say(jit, ATTUNE_LEVEL_INFO, "planned, not measured: %s", why);
  return row && takes(row, wish->keys) ? row : NULL;
}

static attune_status make_measured(attune_jit *jit, const attune_request *request,
                                   const attune__tuned_row *row, blob *part) {
  attune_variant v = request->variant;
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < row->tiles.count && !status; i++) {
    attune_kernel kernel;
    v.part = (uint8_t)i;
    status = attune__kernel_make(&v, &row->tiles.tile[i], &request->pins, &kernel);
    if (!status) status = get_entry(jit, &kernel, &part[i]);
  }
  for (int i = 0; i < ATTUNE_MAX_PARTS && status; i++) free(part[i].bytes), part[i].bytes = NULL;
  return status;
}

/* ---- one program --------------------------------------------------------------------------- */

static void free_entries(attune_miss_result *result) {
  blob *part = result->owner;
  for (int i = 0; i < result->count; i++) free(part[i].bytes);
  free(part);
}

/* A miss where nothing may be compiled: what to add to a spec, so that it is none next time. */
static attune_status say_spec(const attune_request *request) {
  attune__text line = {0};
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&request->variant, 1, name);
  attune__spec_line(&request->variant, &request->pins, NULL, &line);
  attune_status status = line.failed
                             ? attune_fail(ATTUNE_NO_MEMORY, "a line of spec")
                             : attune_fail(ATTUNE_NOT_FOUND,
                                           "%s: no set has it, and compiling is off (no_jit or "
                                           "ATTUNE_NO_JIT); a set built from this spec has it: %s",
                                           name, line.data ? line.data : "");
  attune__text_free(&line);
  return status;
}

static attune_status make_parts(attune_jit *jit, const attune__online_wish *wish,
                                const attune__tuned_row *row, int parts, blob *part) {
  attune_status status = row ? make_measured(jit, &wish->request, row, part) : ATTUNE_OK;
  int said = 0;
  if (row && !status) return status;
  if (row) say(jit, ATTUNE_LEVEL_WARN, "the measured tile cannot be made: %s", attune_error());
  for (int i = 0, failed = 0; i < parts && !failed; i++)
    failed = (status = make_part(jit, wish, i, &said, &part[i])) != 0;
  return status;
}

/* Measures now; NULL, after a message, when there comes nothing of it that may be used. */
static const attune__tuned_row *tune_now(attune_jit *jit, const attune__online_wish *wish,
                                         attune__online_result *result) {
  const attune__online_tuning how = {.budget_s = jit->budget, .seed = 1};
  char name[ATTUNE_NAME_MAX];
  attune__device *device = attune__context_device(jit->context);
  attune_status status = attune__may_tune(device);
  if (!status) status = attune__online_tune(jit->online, wish, &how, result);
  attune__variant_name(&wish->request.variant, 1, name);
  if (status) say(jit, ATTUNE_LEVEL_WARN, "%s: not tuned: %s", name, attune_error());
  if (!status && result->row.provisional)
    say(jit, ATTUNE_LEVEL_WARN, "%s: what was measured is not used: %s", name, result->row.why);
  return status || result->row.provisional ? NULL : &result->row;
}

static attune_status make_program(attune_jit *jit, const attune__online_wish *wish,
                                  attune_miss_result *result) {
  const attune_request *request = &wish->request;
  attune__online_result fresh;
  attune__tuned_row known;
  int parts = attune__op_parts(request->variant.op);
  blob *part = calloc(ATTUNE_MAX_PARTS, sizeof *part);
  if (!part) return attune_fail(ATTUNE_NO_MEMORY, "a program of %d kernels", parts);
  *result = (attune_miss_result){.count = parts, .free_entries = free_entries, .owner = part};
  const attune__tuned_row *row = measured(jit, wish, &known);
  int wanted = !row && jit->online;
  if (wanted && jit->tune == ATTUNE_TUNE_ONCE) row = tune_now(jit, wish, &fresh);
  attune_status status = make_parts(jit, wish, row, parts, part);
  if (!status && wanted && jit->tune == ATTUNE_TUNE_BACKGROUND &&
      attune__online_queue(jit->online, wish))
    say(jit, ATTUNE_LEVEL_WARN, "not tuned: %s", attune_error());
  for (int i = 0; i < parts; i++)
    result->entries[i] = part[i].bytes, result->entry_bytes[i] = part[i].size;
  result->shape_class = (int32_t)wish->cls;
  if (!status) return ATTUNE_OK;
  free_entries(result);
  memset(result, 0, sizeof *result);
  int absent = status == ATTUNE_NOT_FOUND || status == ATTUNE_NO_COMPILER;
  return jit->no_jit && absent ? say_spec(request) : status;
}

/* Whether make_program would work, as far as that is known without compiling. */
static attune_status dry_run(attune_jit *jit, const attune__online_wish *wish) {
  attune_kernel kernels[ATTUNE_MAX_PARTS];
  int count;
  if (!jit->no_jit)
    return attune__expand_request(&wish->request, wish->cls, wish->keys, kernels, &count);
  attune_miss_result result = {0};
  attune_status status = make_program(jit, wish, &result);
  if (!status) free_entries(&result);
  return status;
}

static attune_status on_miss(void *user, const attune_problem *problem, const char *arch, int dry,
                             attune_miss_result *result) {
  attune_request request;
  attune_status status = attune__jit_request(problem, arch, &request);
  if (status) return status;
  attune__online_wish wish = attune__online_wish_of(&request, problem);
  return dry ? dry_run(user, &wish) : make_program(user, &wish, result);
}

/* ---- install ------------------------------------------------------------------------------- */

static int forbidden_by_environment(void) {
  const char *value = getenv("ATTUNE_NO_JIT");
  return value && *value && strcmp(value, "0") != 0;
}

/* What does not change with the problem. */
static void read_key(attune_context *context, attune__tuned_key *key) {
  const attune__device *device = attune__context_device(context);
  if (!device) return;
  snprintf(key->gpu, sizeof key->gpu, "%s", device->facts.name);
  key->sms = device->facts.sm_count;
  key->memory_mhz = attune__memory_class(device->facts.memory_mhz);
  key->abi = ATTUNE_ABI;
}

/* What is measured meanwhile counts for later calls, as if the file had been read after it. */
static void learn(void *user, const attune__tuned_row *row) {
  attune_jit *jit = user;
  read_rows(jit);
  pthread_mutex_lock(&jit->lock);
  if (attune__tuned_put(&jit->db.own, row)) say(jit, ATTUNE_LEVEL_WARN, "%s", attune_error());
  pthread_mutex_unlock(&jit->lock);
}

static void stop_tuning(void *user) {
  attune_jit *jit = user;
  attune__online_stop(jit->online);
}

attune_status attune__jit_use_host(attune_jit *jit, const attune__online_host *host) {
  const attune__online_options options = {.context = jit->context,
                                          .store = jit->store,
                                          .host = host,
                                          .budget_s = jit->budget,
                                          .share = jit->share,
                                          .learn = learn,
                                          .learn_user = jit,
                                          .message = jit->message,
                                          .message_user = jit->user};
  attune__online_close(jit->online);
  attune_status status = attune__online_open(&options, &jit->online);
  if (!status) attune__on_close(jit->context, stop_tuning, jit);
  return status;
}

/* A tuner where there is something to tune on, and nothing forbids to compile. */
static attune_status open_tuner(attune_jit *jit, const attune_jit_options *o) {
  jit->tune = o->tune;
  jit->budget = o->tune_budget > 0 ? o->tune_budget : default_budget;
  jit->share = o->tune_share > 0 ? o->tune_share : default_share;
  if (!attune__context_device(jit->context) || jit->no_jit) return ATTUNE_OK;
  attune_status status =
      attune__host_open(jit->store, jit->context->ordinal, o->tune_program, &jit->host);
  return status ? status : attune__jit_use_host(jit, jit->host);
}

attune__online *attune__jit_online(attune_jit *jit, attune_context **context) {
  *context = jit->context;
  return jit->online;
}

attune_status attune_jit_install(attune_context *context, const attune_jit_options *options,
                                 attune_jit **out) {
  if (out) *out = NULL;
  if (!context || !out || (options && options->size != sizeof *options))
    return attune_fail(ATTUNE_INVALID, "attune_jit_install: wanted a context, a place for the jit, "
                                       "and options with their size (or none)");
  attune_jit_options o = options ? *options : attune_jit_options_init();
  attune_jit *jit = calloc(1, sizeof *jit);
  if (!jit) return attune_fail(ATTUNE_NO_MEMORY, "a jit");
  jit->context = context;
  jit->no_jit = o.no_jit || forbidden_by_environment();
  jit->message = o.message, jit->user = o.message_user;
  pthread_mutex_init(&jit->lock, NULL);
  read_key(context, &jit->key);
  attune_status status = attune__store_open(o.store, &jit->store);
  if (!status) status = open_tuner(jit, &o);
  if (status) {
    attune_jit_close(jit);
    return status;
  }
  attune_on_miss(context, on_miss, jit);
  *out = jit;
  return ATTUNE_OK;
}

void attune_jit_close(attune_jit *jit) {
  if (!jit) return;
  attune__online_close(jit->online);
  attune__host_close(jit->host);
  attune__tuned_db_close(&jit->db);
  pthread_mutex_destroy(&jit->lock);
  attune__store_close(jit->store);
  free(jit);
}
