/* tune_online.c - one problem tuned in the process that asks for it.
 *
 * Input: a variant on a shape, a host. Output: its measured row, kept in the user's file; the
 * winner in the context's table. What is compiled, tried and timed is the tuner's (tune.h). */
#include "tune_online.h"

#include "../runtime/context.h"
#include "../runtime/params.def"
#include "expand.h"
#include "tune_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attune__online {
  attune_context *context;
  attune_store *store;
  const attune__online_host *host;
  void (*learn)(void *user, const attune__tuned_row *row);
  void *learn_user;
  pthread_mutex_t tuning; /* one at a time */
  attune__background *background;
};

/* One tuning. */
typedef struct session {
  attune__online *online;
  const attune__online_wish *wish;
  const attune__online_tuning *how;
  attune__guard guard;
  attune__tuned_key key;
  int driver;
  attune__tuned before; /* as the files have it; the compiling threads read it */
  attune__tuned known;  /* the same, and what comes of this tuning */
  attune__tiles served; /* what the context serves, or would */
  char began[ATTUNE__DATE_MAX];
  attune__tune_result result;
} session;

/* ---- what serves ----------------------------------------------------------------------------- */

static attune_status planned_tiles(const session *s, attune__tiles *out) {
  attune_kernel kernels[ATTUNE_MAX_PARTS];
  const attune__online_wish *w = s->wish;
  attune_status status = attune__expand_request(&w->request, w->cls, w->keys, kernels, &out->count);
  for (int i = 0; i < out->count && !status; i++) out->tile[i] = kernels[i].tile;
  return status;
}

/* 0 when no program of the variant serves the class yet. */
static int program_tiles(const session *s, attune__tiles *out) {
  attune__key key = attune__key_of_variant(&s->wish->request.variant);
  attune_program *program = attune__find(s->online->context, &key, s->wish->cls, s->wish->keys);
  attune_program_info info = attune_program_info_init();
  if (!program || attune_info(program, &info)) return 0;
  out->count = info.kernel_count;
  for (int i = 0; i < out->count; i++) {
    attune_variant v;
    int has_tile, is_program;
    if (attune__name_parse(info.kernels[i].name, &v, &out->tile[i], &has_tile, &is_program) ||
        !has_tile || v.align != s->wish->request.variant.align)
      return 0;
  }
  return 1;
}

static int is_served(const session *s, const attune_kernel *kernel) {
  int part = kernel->variant.part;
  return part < s->served.count &&
         !memcmp(&kernel->tile, &s->served.tile[part], sizeof kernel->tile);
}

/* ---- compiling ------------------------------------------------------------------------------- */

static int has_passed(const session *s, const char *kernel, const char *digest) {
  const attune__tuned_mark *mark =
      attune__tuned_find_mark(&s->before, &s->key, kernel, digest, s->driver);
  return mark && mark->kind == ATTUNE__MARK_PASSED;
}

/* Without a program to try them in, what has not passed here before is not even compiled. */
static attune_status compile(void *user, const attune_kernel *kernel, void **bytes, size_t *size,
                             char digest[17]) {
  const session *s = user;
  const attune__tune_compiler *c = &s->online->host->compiler;
  attune_status status = c->compile(c->user, kernel, bytes, size, digest);
  if (status || s->guard.trial || is_served(s, kernel) || has_passed(s, kernel->name, digest))
    return status;
  free(*bytes), *bytes = NULL;
  return attune_fail(ATTUNE_UNSUPPORTED, "not proven on this GPU and driver, and there is no "
                                         "program to try it in");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static attune_status read_known(session *s) {
  attune__tuned_db db;
  attune__text messages = {0};
  attune_status status =
      attune__tuned_db_open(attune__store_root(s->online->store), &db, &messages);
  attune__text_free(&messages); /* the jit says them */
  if (status) return status;
  status = attune__tuned_merge(&s->before, &db.shipped);
  if (!status) status = attune__tuned_merge(&s->before, &db.own);
  if (!status) status = attune__tuned_merge(&s->known, &s->before);
  attune__tuned_db_close(&db);
  return status;
}

/* The tuner's incumbent is what serves, where no row says another. Of no date, it is never kept. */
static attune_status put_served(session *s) {
  const attune__online_wish *w = s->wish;
  if (attune__tuned_find(&s->known, &s->key, &w->request.variant, w->cls)) return ATTUNE_OK;
  attune__tuned_row row = {.key = s->key,
                           .variant = w->request.variant,
                           .cls = w->cls,
                           .tiles = s->served,
                           .over = s->served,
                           .shape = w->shape,
                           .provisional = 1,
                           .why = "not measured"};
  return attune__tuned_put(&s->known, &row);
}

static attune_status keep(session *s) {
  const char *root = attune__store_root(s->online->store);
  attune__tuned fresh = {.count = 0};
  attune__text errors = {0};
  if (!root[0]) return ATTUNE_OK;
  char *path = attune__tuned_path(root, s->key.gpu);
  attune_status status = path ? attune__tuned_since(&s->known, s->began, &fresh)
                              : attune_fail(ATTUNE_NO_MEMORY, "no memory for a path");
  if (!status && (fresh.count || fresh.mark_count))
    status = attune__tuned_save(path, &fresh, &errors);
  attune__text_free(&errors);
  attune__tuned_free(&fresh);
  free(path);
  return status;
}

/* ---- the winner at work ---------------------------------------------------------------------- */

static attune_status install(session *s, const attune__tuned_row *row) {
  const attune__tune_compiler *c = &s->online->host->compiler;
  const attune_request *request = &s->wish->request;
  attune_miss_result made = {.count = row->tiles.count, .shape_class = (int32_t)s->wish->cls};
  void *bytes[ATTUNE_MAX_PARTS] = {NULL};
  attune_program *program;
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < row->tiles.count && !status; i++) {
    attune_variant v = request->variant;
    attune_kernel kernel;
    char digest[17];
    v.part = (uint8_t)i;
    status = attune__kernel_make(&v, &row->tiles.tile[i], &request->pins, &kernel);
    if (!status) status = c->compile(c->user, &kernel, &bytes[i], &made.entry_bytes[i], digest);
    made.entries[i] = bytes[i];
  }
  if (!status)
    status =
        attune__program_of_result(s->online->context, &request->variant, NULL, &made, &program);
  for (int i = 0; i < row->tiles.count; i++) free(bytes[i]);
  return status;
}

/* Why nothing was timed: the first candidate that has a reason tells. */
static attune_status nothing_timed(const attune__tune_cell *cell) {
  const char *why = "the budget ended";
  for (int i = cell ? cell->trials : 0; i-- > 0;)
    if (cell->trial[i].why[0]) why = cell->trial[i].why;
  return attune_fail(ATTUNE_NOT_FOUND, "nothing could be timed: %s", why);
}

static attune_status conclude(session *s, attune__online_result *out) {
  attune_status status = keep(s);
  const attune__tune_cell *cell = s->result.cells ? s->result.cell : NULL;
  if (status) return status;
  if (!cell || cell->winner < 0) return nothing_timed(cell);
  out->row = cell->row;
  if (s->online->learn) s->online->learn(s->online->learn_user, &out->row);
  out->changed = !attune__tiles_same(&cell->row.tiles, &s->served);
  return s->how->install && out->changed && !cell->row.provisional ? install(s, &cell->row)
                                                                   : ATTUNE_OK;
}

/* ---- tuning ---------------------------------------------------------------------------------- */

static attune_status read_facts(session *s) {
  attune__lab_facts facts;
  attune_status status = s->guard.own.facts(s->guard.own.user, &facts);
  s->key = facts.key, s->driver = facts.driver;
  s->key.arch = s->wish->request.variant.arch, s->key.abi = ATTUNE_ABI;
  memcpy(s->key.nvrtc, s->online->host->compiler.nvrtc, sizeof s->key.nvrtc);
  return status;
}

static attune_status run(session *s, attune__online_result *out) {
  const attune_spec spec = {.requests = (attune_request *)(uintptr_t)&s->wish->request, .count = 1};
  attune__lab lab = attune__guard_lab(&s->guard);
  attune__tune_compiler compiler = {.user = s, .compile = compile};
  attune__tune_options options = {.budget_s = s->how->budget_s,
                                  .seed = s->how->seed,
                                  .max_trials = s->how->max_trials,
                                  .jobs = s->how->gate ? 1 : 0,
                                  .more = 1,
                                  .shapes = &s->wish->shape,
                                  .shape_count = 1};
  memcpy(compiler.nvrtc, s->online->host->compiler.nvrtc, sizeof compiler.nvrtc);
  attune__tuner_date(s->began);
  attune_status status = read_facts(s);
  if (!status) status = read_known(s);
  if (!status && !program_tiles(s, &s->served)) status = planned_tiles(s, &s->served);
  if (!status) status = put_served(s);
  if (!status) status = attune__tune(&spec, &lab, &compiler, &options, &s->known, &s->result);
  return status ? status : conclude(s, out);
}

attune_status attune__online_tune(attune__online *o, const attune__online_wish *wish,
                                  const attune__online_tuning *how, attune__online_result *out) {
  session s = {.online = o, .wish = wish, .how = how};
  memset(out, 0, sizeof *out);
  s.guard.trial = o->host->trial, s.guard.gate = how->gate;
  pthread_mutex_lock(&o->tuning);
  attune_status status = o->host->open(o->host->user, how->beat, how->beat_user, &s.guard.own);
  if (!status) {
    status = run(&s, out);
    attune__guard_close(&s.guard);
    o->host->close(o->host->user);
  }
  pthread_mutex_unlock(&o->tuning);
  attune__tune_result_free(&s.result);
  attune__tuned_free(&s.before);
  attune__tuned_free(&s.known);
  return status;
}

/* ---- wishes ---------------------------------------------------------------------------------- */

attune__online_wish attune__online_wish_of(const attune_request *request, const attune_problem *p) {
  attune_class cls = attune__shape_class(p->batch, p->heads_q, p->len_q, p->len_k);
  attune__online_wish wish = {
      .request = *request, .shape = attune__plan_shape(cls), .cls = cls, .keys = p->len_k};
  if (p->batch > 0 && p->heads_q > 0 && p->heads_kv > 0 && p->len_q > 0 && p->len_k > 0) {
    wish.shape.batch = p->batch;
    wish.shape.heads_q = p->heads_q, wish.shape.heads_kv = p->heads_kv;
    wish.shape.len_q = p->len_q, wish.shape.len_k = p->len_k;
  }
  return wish;
}

attune_status attune__online_queue(attune__online *o, const attune__online_wish *wish) {
  return attune__background_add(o->background, wish);
}

/* ---- opening --------------------------------------------------------------------------------- */

attune_status attune__online_open(const attune__online_options *options, attune__online **out) {
  attune__online *o = *out = calloc(1, sizeof *o);
  if (!o) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a tuner");
  o->context = options->context, o->store = options->store, o->host = options->host;
  o->learn = options->learn, o->learn_user = options->learn_user;
  pthread_mutex_init(&o->tuning, NULL);
  attune_status status = attune__background_open(o, options, &o->background);
  if (!status) return ATTUNE_OK;
  attune__online_close(o);
  *out = NULL;
  return status;
}

void attune__online_stop(attune__online *o) {
  attune__background_close(o->background);
  o->background = NULL;
}

void attune__online_close(attune__online *o) {
  if (!o) return;
  attune__online_stop(o);
  pthread_mutex_destroy(&o->tuning);
  free(o);
}
