/* tune.c - the tuner: every variant of a spec on every class of shapes, within a budget.
 *
 * Input: a spec, a lab, a compiler, what is known. Output: a cell for each variant and class, with
 * its trials and its row. The cells take turns: first all meet the planner's first choices, then
 * the neighbours of what was best, until the budget ends or nothing is left. While one cell is
 * timed, the kernels of those that come next are compiled. */
#include "tune_parts.h"

#include "../runtime/params.def"
#include "nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  DEFAULT_TRIALS = 40,
  FIRST_TURN = 6, /* trials of a cell's first turn, and fewer when the budget is short for them */
  SHORT_TURN = 4,
  LATER_TURN = 4
};
static const double short_ms = 1000; /* a cell's share of the budget that is short */

/* ---- time and words -------------------------------------------------------------------------- */

double attune__tuner_now(void) {
  return attune__now_ms();
}

int attune__tuner_out_of_time(const attune__tuner_session *s) {
  return s->end_ms > 0 && attune__tuner_now() >= s->end_ms;
}

void attune__tuner_say(const attune__tuner_session *s, const char *message) {
  if (!s->options->progress) return;
  attune__tune_progress p = {.elapsed_s = (attune__tuner_now() - s->began_ms) / 1e3,
                             .budget_s = s->options->budget_s,
                             .cells = s->cells,
                             .timed = s->result->timed,
                             .message = message};
  for (int i = 0; i < s->cells; i++) p.cells_timed += s->cell[i].out->winner >= 0;
  s->options->progress(s->options->user, &p);
}

void attune__tuner_date(char out[ATTUNE__DATE_MAX]) {
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(out, ATTUNE__DATE_MAX, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

attune__tuned_key attune__tuner_key(const attune__tuner_session *s, const attune_variant *variant) {
  attune__tuned_key key = s->result->facts.key;
  key.arch = variant->arch, key.abi = ATTUNE_ABI;
  memcpy(key.nvrtc, s->compiler->nvrtc, sizeof key.nvrtc);
  return key;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Of several requests for a variant the last has the largest budget, and gets the row. */
static int gets_row(const attune_spec *spec, int i) {
  const attune_request *a = &spec->requests[i];
  return i + 1 == spec->count || memcmp(&a->variant, &a[1].variant, sizeof a->variant) != 0;
}

/* With what is pinned, and a group of query heads for each key head. */
static attune_shape shape_for(const attune_request *request, const attune_shape *shape) {
  attune_shape s = attune__shape_pinned(shape, &request->pins);
  int group = request->variant.group ? request->variant.group : 1;
  if (group > 1) {
    if (s.heads_q % group) s.heads_q = (s.heads_q + group - 1) / group * group;
    if (s.heads_q / s.heads_kv % group) s.heads_kv = s.heads_q / group;
  }
  return s;
}

static int has_cell(const attune__tune_result *r, const attune_variant *v, attune_class cls) {
  for (int i = 0; i < r->cells; i++)
    if (r->cell[i].cls == cls && !memcmp(&r->cell[i].variant, v, sizeof *v)) return 1;
  return 0;
}

/* Pins may hold all shapes in one class: that is one cell. */
static attune_status add_cell(const attune__tuner_session *s, const attune_spec *spec, int request,
                              const attune_shape *wanted) {
  attune__tune_result *r = s->result;
  const attune_request *q = &spec->requests[request];
  attune_shape shape = shape_for(q, wanted);
  attune_class cls = attune__class_of(&shape);
  if (has_cell(r, &q->variant, cls)) return ATTUNE_OK;
  attune__tune_cell *grown = realloc(r->cell, ((size_t)r->cells + 1) * sizeof *grown);
  if (!grown) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %d cells", r->cells + 1);
  r->cell = grown;
  grown[r->cells++] = (attune__tune_cell){
      .request = request, .variant = q->variant, .cls = cls, .shape = shape, .winner = -1};
  return ATTUNE_OK;
}

static attune_status add_cells(const attune__tuner_session *s, const attune_spec *spec,
                               int request) {
  const attune__tune_options *o = s->options;
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < o->shape_count && !status; i++)
    status = add_cell(s, spec, request, &o->shapes[i]);
#define X(name, id, text, doc)                                                                     \
  if (!o->shape_count && !status && (id) != ATTUNE_CLASS_ANY) {                                    \
    attune_shape shape = attune__plan_shape(ATTUNE_CLASS_##name);                                  \
    status = add_cell(s, spec, request, &shape);                                                   \
  }
  ATTUNE_CLASSES(X)
#undef X
  return status;
}

/* A class has one row, so it is tuned for one shape. */
static attune_status check_shapes(const attune__tune_options *o) {
  for (int i = 0; i < o->shape_count; i++) {
    attune_class cls = attune__class_of(&o->shapes[i]);
    for (int k = 0; k < i; k++)
      if (cls == attune__class_of(&o->shapes[k]))
        return attune_fail(ATTUNE_INVALID,
                           "two shapes of class %s: a class has one row, so give one of them",
                           attune__class_name((int)cls));
  }
  return ATTUNE_OK;
}

static attune_status list_cells(const attune__tuner_session *s, const attune_spec *spec) {
  uint32_t device = s->result->facts.key.arch;
  attune_status status = check_shapes(s->options);
  for (int i = 0; i < spec->count && !status; i++)
    if (gets_row(spec, i) && attune__arch_runs(spec->requests[i].variant.arch, device))
      status = add_cells(s, spec, i);
  if (!status && !s->result->cells)
    status = attune_fail(ATTUNE_NOT_FOUND, "nothing here runs on %s", s->result->facts.key.gpu);
  return status;
}

static attune_status plan_cells(attune__tuner_session *s, const attune_spec *spec) {
  attune_status status = ATTUNE_OK;
  s->cell = calloc((size_t)s->result->cells, sizeof *s->cell);
  if (!s->cell) return attune_fail(ATTUNE_NO_MEMORY, "no memory for the cells");
  int turn = FIRST_TURN;
  if (s->end_ms > 0 && (s->end_ms - s->began_ms) / s->result->cells < short_ms) turn = SHORT_TURN;
  for (int i = 0; i < s->result->cells && !status; i++) {
    attune__tuner_cell *c = &s->cell[s->cells++];
    c->out = &s->result->cell[i];
    status = attune__tuner_cell_plan(s, c, &spec->requests[c->out->request]);
    if (!status) status = attune__tuner_cell_propose(s, c, turn - 1);
  }
  return status;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* 0 when a turn like the longest so far would end well after the budget. */
static int time_for_turn(const attune__tuner_session *s) {
  return s->end_ms <= 0 || attune__tuner_now() + s->longest_ms / 2 < s->end_ms;
}

/* Whether turns as long as those so far would leave cells without one. */
static int must_hurry(const attune__tuner_session *s) {
  int left = 0;
  for (int i = 0; i < s->cells; i++) left += s->cell[i].out->winner < 0 && !s->cell[i].turns;
  double mean = s->turns ? s->turns_ms / s->turns : 0;
  return s->end_ms > 0 && left && s->end_ms - attune__tuner_now() < left * mean;
}

static attune_status one_turn(attune__tuner_session *s, attune__tuner_cell *c) {
  double began = attune__tuner_now();
  s->hurry = must_hurry(s);
  attune_status status = attune__tuner_cell_turn(s, c);
  double took = attune__tuner_now() - began;
  if (took > s->longest_ms) s->longest_ms = took;
  c->turns++, s->turns++, s->turns_ms += took;
  if (!status) status = attune__tuner_cell_propose(s, c, LATER_TURN);
  attune__tuner_say(s, NULL);
  return status;
}

static attune_status take_turns(attune__tuner_session *s) {
  attune_status status = ATTUNE_OK;
  for (int moved = 1; moved && !status;) {
    moved = 0;
    for (int i = 0; i < s->cells && !status; i++) {
      const attune__tune_cell *out = s->cell[i].out;
      if (!out || s->cell[i].next >= out->trials) continue;
      if (!time_for_turn(s)) return ATTUNE_OK;
      status = one_turn(s, &s->cell[i]);
      moved = 1;
    }
  }
  return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

static void finish(attune__tuner_session *s) {
  attune__tune_result *r = s->result;
  r->compiled = attune__ahead_compiled(s->ahead);
  for (int i = 0; i < s->cells; i++) {
    const attune__tuner_cell *c = &s->cell[i];
    if (!c->out) continue; /* there was no memory to plan it */
    r->unfinished += c->out->winner < 0;
    for (int k = 0; k < c->out->trials; k++)
      if (c->out->trial[k].state == ATTUNE__TRIAL_NEW) c->out->trial[k].state = ATTUNE__TRIAL_LATE;
  }
}

static attune_status run(attune__tuner_session *s, const attune_spec *spec) {
  attune_status status = s->lab->facts(s->lab->user, &s->result->facts);
  if (!status) status = list_cells(s, spec);
  if (!status) status = attune__ahead_open(s->compiler, s->options->jobs, s->end_ms, &s->ahead);
  if (!status) status = plan_cells(s, spec);
  if (!status) status = take_turns(s);
  if (s->ahead) finish(s);
  attune__ahead_close(s->ahead);
  for (int i = 0; i < s->cells; i++) attune__tuner_cell_free(&s->cell[i]);
  free(s->cell);
  return status;
}

attune_status attune__tune(const attune_spec *spec, const attune__lab *lab,
                           const attune__tune_compiler *compiler,
                           const attune__tune_options *options, attune__tuned *known,
                           attune__tune_result *out) {
  memset(out, 0, sizeof *out);
  attune__tuner_session s = {.lab = lab,
                             .compiler = compiler,
                             .options = options,
                             .known = known,
                             .result = out,
                             .began_ms = attune__tuner_now(),
                             .max_trials =
                                 options->max_trials ? options->max_trials : DEFAULT_TRIALS};
  if (options->budget_s > 0) s.end_ms = s.began_ms + 1e3 * options->budget_s;
  attune_status status = run(&s, spec);
  out->wall_s = (attune__tuner_now() - s.began_ms) / 1e3;
  return status;
}

void attune__tune_result_free(attune__tune_result *result) {
  for (int i = 0; i < result->cells; i++) free(result->cell[i].trial);
  free(result->cell);
  memset(result, 0, sizeof *result);
}
