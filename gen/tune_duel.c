/* tune_duel.c - the contenders of a cell timed: the slower are dropped early, the best meets the
 * incumbent in rounds of their own, and a row is made of it.
 *
 * Input: contenders in the lab. Output: times of trials, the cell's winner and row. What is timed
 * is compared within the same rounds alone, so that what drifts meets all alike. */
#include "tune_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rounds of a first look, of a second at the better half, and of the duel. Samples are shorter than
 * bench's, for there are many; the duel's interval says what that costs. */
static const attune__bench_options first_look = {.rounds = 3, .sample_ms = 1, .warm_ms = 10};
static const attune__bench_options second_look = {.rounds = 7, .sample_ms = 2, .warm_ms = 4};
static const attune__bench_options duel = {.rounds = 15, .sample_ms = 2, .warm_ms = 25};
enum { MANY = 4 };                  /* challengers that deserve a second look */
static const double near_by = 1.02; /* of the incumbent: what meets it in the duel */

typedef struct field {
  attune__tuner_session *s;
  attune__tuner_cell *c;
  const attune__tuner_ring *ring;
  int place[64]; /* contenders that are left, places in the ring */
  int count;
  attune__bench_time time[64]; /* of place[i] in the last rounds */
  attune__watch watch;
} field;

static int trial_of(const field *f, int i) {
  return f->ring->trial[f->place[i]];
}

/* ---- what is of no use -------------------------------------------------------------------------
 */

static attune__trial_state state_of(attune_status status) {
  return status == ATTUNE_MISMATCH ? ATTUNE__TRIAL_WRONG
         : status == ATTUNE_BUSY   ? ATTUNE__TRIAL_HANG
                                   : ATTUNE__TRIAL_FAULT;
}

static attune_status put_marks(attune__tuner_session *s, const attune__tuner_cell *c, int trial,
                               attune__mark_kind kind) {
  attune_status status = ATTUNE_OK;
  for (int part = 0; part < c->parts && !status; part++) {
    const attune__made *made = c->kernels[trial].made[part];
    attune__tuned_mark mark = {.key = attune__tuner_key(s, &c->out->variant),
                               .driver = s->result->facts.driver,
                               .kind = kind};
    memcpy(mark.kernel, made->kernel.name, sizeof mark.kernel);
    memcpy(mark.digest, made->digest, sizeof mark.digest);
    memcpy(mark.why, c->out->trial[trial].why, sizeof mark.why);
    attune__tuner_date(mark.date);
    status = attune__tuned_put_mark(s->known, &mark);
  }
  return status;
}

static void say_condemned(attune__tuner_session *s, const attune__tuner_cell *c, int trial,
                          const char *what) {
  char name[ATTUNE_NAME_MAX];
  attune__text text = {0};
  attune__variant_name(&c->out->variant, 1, name);
  attune__text_printf(&text, "%s %s__", what, name);
  attune__tiles_print(&c->out->trial[trial].tiles, &text);
  attune__text_printf(&text, " (%s): %s", attune__class_name((int)c->out->cls),
                      c->out->trial[trial].why);
  attune__tuner_say(s, text.data);
  attune__text_free(&text);
}

/* A program of several kernels is marked as a whole: which of them it was is not known. */
attune_status attune__tuner_condemn(attune__tuner_session *s, attune__tuner_cell *c, int trial,
                                    attune_status status) {
  attune__tune_trial *t = &c->out->trial[trial];
  attune__mark_kind kind = status == ATTUNE_MISMATCH ? ATTUNE__MARK_WRONG
                           : status == ATTUNE_BUSY   ? ATTUNE__MARK_HANG
                                                     : ATTUNE__MARK_FAULT;
  t->state = state_of(status);
  snprintf(t->why, sizeof t->why, "%.119s", attune_error());
  s->result->wrong += kind == ATTUNE__MARK_WRONG;
  s->result->faults += kind == ATTUNE__MARK_FAULT;
  s->result->hangs += kind == ATTUNE__MARK_HANG;
  attune__search_tell(c->search, &t->tiles, (double)INFINITY);
  if (c->incumbent == trial) c->incumbent = 0;
  say_condemned(s, c, trial, kind == ATTUNE__MARK_WRONG ? "wrong result, a defect:" : "bad:");
  return put_marks(s, c, trial, kind);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Drops those that failed in the last rounds. */
static attune_status drop_failed(field *f) {
  int kept = 0;
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < f->count && !status; i++) {
    if (f->time[i].status) {
      attune_fail(f->time[i].status, "%s", f->time[i].error);
      status = attune__tuner_condemn(f->s, f->c, trial_of(f, i), f->time[i].status);
      continue;
    }
    f->place[kept] = f->place[i];
    f->time[kept++] = f->time[i];
  }
  f->count = kept;
  return status;
}

/* Place among those that are left, -1 when it is not. */
static int index_of(const field *f, int trial) {
  for (int i = 0; i < f->count; i++)
    if (trial_of(f, i) == trial) return i;
  return -1;
}

static int fastest(const field *f) {
  int best = 0;
  for (int i = 1; i < f->count; i++)
    if (f->time[i].median < f->time[best].median) best = i;
  return best;
}

/* Medians over the planner's choice, which is among all rounds as long as it works. */
static void note_times(field *f) {
  int base = index_of(f, 0);
  if (base < 0) base = index_of(f, f->c->incumbent);
  if (base < 0) base = fastest(f);
  for (int i = 0; i < f->count; i++) {
    attune__tune_trial *t = &f->c->out->trial[trial_of(f, i)];
    f->s->result->timed += t->state != ATTUNE__TRIAL_TIMED;
    t->state = ATTUNE__TRIAL_TIMED;
    t->time = (attune__tuned_time){f->time[i].median, f->time[i].low, f->time[i].high};
    t->ratio = f->time[i].median / f->time[base].median;
    attune__search_tell(f->c->search, &t->tiles, t->ratio);
  }
}

/* Times those that are left. With the time up nothing is left. */
static attune_status run(field *f, const attune__bench_options *options) {
  if (!f->count) return ATTUNE_OK;
  attune_status status =
      f->s->lab->time(f->s->lab->user, f->place, f->count, options, f->time, &f->watch);
  if (status && attune__tuner_out_of_time(f->s)) {
    f->count = 0;
    return ATTUNE_OK;
  }
  if (!status) status = drop_failed(f);
  if (!status) note_times(f);
  return status;
}

static int is_fixed(const field *f, int i) {
  return trial_of(f, i) == 0 || trial_of(f, i) == f->c->incumbent;
}

/* Faster first. */
static void sort(field *f) {
  for (int i = 1; i < f->count; i++)
    for (int k = i; k > 0 && f->time[k].median < f->time[k - 1].median; k--) {
      attune__bench_time time = f->time[k];
      int place = f->place[k];
      f->time[k] = f->time[k - 1], f->place[k] = f->place[k - 1];
      f->time[k - 1] = time, f->place[k - 1] = place;
    }
}

/* Keeps the planner's choice, the incumbent, and the fastest challengers: `most` of them, none
 * slower than `limit` times the incumbent. */
static void keep(field *f, int most, double limit) {
  int kept = 0, challengers = 0, incumbent = index_of(f, f->c->incumbent);
  double slowest = incumbent < 0 ? (double)INFINITY : limit * f->time[incumbent].median;
  sort(f);
  for (int i = 0; i < f->count; i++) {
    if (!is_fixed(f, i) && (challengers == most || f->time[i].median > slowest)) continue;
    challengers += !is_fixed(f, i);
    f->place[kept] = f->place[i];
    f->time[kept++] = f->time[i];
  }
  f->count = kept;
}

static int challengers(const field *f) {
  int count = 0;
  for (int i = 0; i < f->count; i++) count += !is_fixed(f, i);
  return count;
}

/* ---- the verdict -------------------------------------------------------------------------------
 */

/* Why the last rounds are provisional; "" when they are not. */
static void doubt(const field *f, char why[ATTUNE__WHY_MAX]) {
  attune__watch_why(&f->watch, why);
  for (int i = 0; i < f->count && !why[0]; i++) {
    if (fabs(f->time[i].drift) >= ATTUNE__BENCH_DRIFT)
      snprintf(why, ATTUNE__WHY_MAX, "times drifted by %d %% within the rounds",
               (int)(100 * fabs(f->time[i].drift) + 0.5));
    else if (f->time[i].coverage < 0.95)
      snprintf(why, ATTUNE__WHY_MAX, "%d rounds are too few for an interval", f->time[i].rounds);
  }
}

/* Outside the noise, and by enough to be worth a change. */
static int beats(const attune__bench_time *a, const attune__bench_time *b) {
  return a->high < b->low && a->median < b->median * (1 - ATTUNE__TUNE_MARGIN);
}

static attune__tuned_time figures(const attune__bench_time *t) {
  return (attune__tuned_time){t->median, t->low, t->high};
}

static int tried(const attune__tuner_cell *c) {
  int count = 0;
  for (int i = 0; i < c->out->trials; i++) count += c->out->trial[i].state == ATTUNE__TRIAL_TIMED;
  return count;
}

/* The row of the last rounds, in which `winner` is one place and the planner's choice another. */
static attune_status make_row(field *f, int winner, const char *why) {
  attune__tuner_cell *c = f->c;
  int planned = index_of(f, 0);
  if (planned < 0) planned = winner; /* it is bad: there is nothing to be faster than */
  attune__tuned_row *row = &c->out->row;
  *row = (attune__tuned_row){.key = attune__tuner_key(f->s, &c->out->variant),
                             .variant = c->out->variant,
                             .cls = c->out->cls,
                             .tiles = c->out->trial[trial_of(f, winner)].tiles,
                             .time = figures(&f->time[winner]),
                             .over = c->out->trial[trial_of(f, planned)].tiles,
                             .over_time = figures(&f->time[planned]),
                             .shape = c->out->shape,
                             .rounds = f->time[winner].rounds,
                             .calls = f->time[winner].calls,
                             .tried = tried(c),
                             .l2_cold = 1,
                             .driver = f->s->result->facts.driver,
                             .provisional = why[0] != 0};
  memcpy(row->why, why, sizeof row->why);
  attune__tuner_date(row->date);
  c->out->winner = trial_of(f, winner);
  c->out->changed = !attune__tiles_same(&c->before, &row->tiles);
  return attune__tuned_put(f->s->known, row);
}

/* The fastest that beats the incumbent takes its place. A row gives way to the planner's choice as
 * soon as that is faster outside the noise: to be slower than planned is nothing to keep. */
static attune_status decide(field *f) {
  char why[ATTUNE__WHY_MAX];
  int winner = index_of(f, f->c->incumbent);
  sort(f);
  if (f->count && (winner = index_of(f, f->c->incumbent)) < 0) winner = 0;
  for (int i = 0; i < f->count; i++)
    if (beats(&f->time[i], &f->time[winner])) {
      winner = i;
      break;
    }
  if (!f->count) return ATTUNE_OK;
  const int planned = index_of(f, 0);
  if (planned >= 0 && f->time[planned].high < f->time[winner].low) winner = planned;
  doubt(f, why);
  if (!why[0]) f->c->incumbent = trial_of(f, winner);
  return make_row(f, winner, why);
}

/* Once more when something disturbed, if there is time. */
static attune_status meet(field *f) {
  char why[ATTUNE__WHY_MAX] = "";
  const attune__bench_options *given = &f->s->options->final;
  const attune__bench_options *options = given->rounds ? given : &duel;
  attune_status status = run(f, options);
  if (!status) doubt(f, why);
  if (!status && why[0] && !attune__tuner_out_of_time(f->s)) status = run(f, options);
  return status ? status : decide(f);
}

attune_status attune__tuner_duel(attune__tuner_session *s, attune__tuner_cell *c,
                                 const attune__tuner_ring *ring) {
  field *f = calloc(1, sizeof *f);
  if (!f) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a duel");
  f->s = s, f->c = c, f->ring = ring, f->count = ring->count;
  for (int i = 0; i < ring->count; i++) f->place[i] = i;
  attune_status status = ATTUNE_OK;
  if (challengers(f)) {
    status = run(f, &first_look);
    if (!status && challengers(f) > MANY) {
      keep(f, (challengers(f) + 1) / 2, 1.25);
      status = run(f, &second_look);
    }
    keep(f, 2, near_by);
  }
  /* Those that only lost have their times; the incumbent's row stands. */
  if (!status && (challengers(f) || c->out->winner < 0)) status = meet(f);
  free(f);
  return status;
}
