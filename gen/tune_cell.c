/* tune_cell.c - one cell of the tuner: trials proposed, compiled and taken into the lab.
 *
 * Input: a variant on a shape, and what is known of it. Output: contenders for tune_duel.c, and
 * for each trial that is none the reason. */
#include "tune_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- planning -------------------------------------------------------------------------------- */

static attune_status plan_part(const attune__tuner_session *s, attune__tuner_cell *c,
                               const attune_request *r, int part) {
  uint32_t most = s->result->facts.smem_block;
  attune_plan_request wish = {.variant = r->variant,
                              .budget = r->budget && r->budget < most ? r->budget : most,
                              .family = r->family,
                              .pins = r->tile,
                              .shape = c->out->shape};
  wish.variant.part = (uint8_t)part;
  return attune__plan_make(&wish, &c->plan[part]);
}

/* Kernels of the tiles, queued; a tile that is not legal any more is ATTUNE_INVALID. */
static attune_status queue(attune__tuner_session *s, const attune__tuner_cell *c,
                           const attune__tiles *tiles, attune__tuner_parts *out,
                           attune__tune_trial *trial) {
  for (int part = 0; part < c->parts; part++) {
    const attune_plan_request *r = &c->plan[part].request;
    attune_kernel kernel;
    attune_status status = attune__kernel_make(&r->variant, &tiles->tile[part], &c->pins, &kernel);
    if (status) return status;
    if (kernel.ledger.bytes > attune__plan_budget(r))
      return attune_fail(ATTUNE_NO_FIT, "%s needs %u bytes of shared memory, there are %u",
                         kernel.name, kernel.ledger.bytes, attune__plan_budget(r));
    if (kernel.ledger.bytes > trial->smem_bytes) trial->smem_bytes = kernel.ledger.bytes;
    out->made[part] = attune__ahead_add(s->ahead, &kernel);
    if (!out->made[part]) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a kernel");
  }
  return ATTUNE_OK;
}

/* Appends a trial; *fit 0: its tiles cannot be used, and it has its reason. */
static attune_status append(attune__tuner_session *s, attune__tuner_cell *c,
                            const attune__tiles *tiles, int *fit) {
  size_t count = (size_t)c->out->trials + 1;
  attune__tune_trial *trials = realloc(c->out->trial, count * sizeof *trials);
  if (trials) c->out->trial = trials;
  attune__tuner_parts *kernels = trials ? realloc(c->kernels, count * sizeof *kernels) : NULL;
  if (!kernels) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %zu trials", count);
  c->kernels = kernels;
  attune__tune_trial *trial = &trials[count - 1];
  memset(trial, 0, sizeof *trial);
  memset(&kernels[count - 1], 0, sizeof *kernels);
  trial->tiles = *tiles;
  attune_status status = queue(s, c, tiles, &kernels[count - 1], trial);
  *fit = !status;
  if (status == ATTUNE_NO_MEMORY) return status;
  if (status) {
    trial->state = ATTUNE__TRIAL_NOT_COMPILED;
    snprintf(trial->why, sizeof trial->why, "%.119s", attune_error());
    attune__search_tell(c->search, tiles, (double)INFINITY);
  }
  c->out->trials++;
  return ATTUNE_OK;
}

/* ---- proposals ------------------------------------------------------------------------------- */

/* 1 when what won for the row may win here: rows of as many bytes, on this device, whatever the
 * mask, the features, the groups and the class. */
static int related(const attune__tuned_row *row, const attune__tuned_key *key,
                   const attune_variant *v) {
  const attune_variant *of_row = &row->variant;
  return of_row->op == v->op && of_row->head_dim_qk == v->head_dim_qk &&
         of_row->head_dim_v == v->head_dim_v &&
         attune__dtype_bytes(of_row->dtype_q) == attune__dtype_bytes(v->dtype_q) &&
         attune__tuned_key_same(&row->key, key);
}

typedef struct voted {
  attune__tiles tiles;
  int votes;
} voted;

/* Counts a vote for the tiles. */
static void vote(voted *list, int *count, const attune__tiles *tiles, int votes) {
  int at = 0;
  while (at < *count && !attune__tiles_same(&list[at].tiles, tiles)) at++;
  if (at == *count) list[(*count)++] = (voted){*tiles, 0};
  list[at].votes += votes;
}

static int by_votes(const void *a, const void *b) {
  return ((const voted *)b)->votes - ((const voted *)a)->votes;
}

/* Suggests what has won for relatives, in this run or before, by the number of rows that say so;
 * one of the cell's own class counts for more than all others. The search adds up what each value
 * of a knob is worth and does not see that two are worth much together: at d 128 without a mask,
 * order 1 and lazy maxima are 5 % faster on an H200, and order 1 alone is 8 % slower. */
static attune_status suggest_relatives(attune__tuner_session *s, attune__tuner_cell *c) {
  const attune__tuned_key key = attune__tuner_key(s, &c->out->variant);
  const attune__tuned *known = s->known;
  attune__tiles tiles[ATTUNE__SEARCH_SUGGESTED];
  int count = 0;
  voted *list = calloc((size_t)known->count + 1, sizeof *list);
  if (!list) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %d relatives", known->count);
  for (int i = 0; i < known->count; i++) {
    const attune__tuned_row *row = &known->row[i];
    if (related(row, &key, &c->out->variant))
      vote(list, &count, &row->tiles, row->cls == c->out->cls ? known->count : 1);
  }
  qsort(list, (size_t)count, sizeof *list, by_votes);
  if (count > ATTUNE__SEARCH_SUGGESTED) count = ATTUNE__SEARCH_SUGGESTED;
  for (int i = 0; i < count; i++) tiles[i] = list[i].tiles;
  attune__search_suggest(c->search, tiles, count);
  free(list);
  return ATTUNE_OK;
}

attune_status attune__tuner_cell_propose(attune__tuner_session *s, attune__tuner_cell *c,
                                         int count) {
  attune_status status = c->exhausted ? ATTUNE_OK : suggest_relatives(s, c);
  for (int i = 0; i < count && !status && !c->exhausted; i++) {
    attune__tiles tiles;
    int fit;
    if (c->out->trials >= s->max_trials || !attune__search_next(c->search, &tiles))
      c->exhausted = 1;
    else
      status = append(s, c, &tiles, &fit);
  }
  return status;
}

/* The planner's first choice, then the row that there was: the incumbent, if its tiles are legal. A
 * measured one is confirmed beside the planner's choice, and that is all, unless more is asked for.
 */
static attune_status append_known(attune__tuner_session *s, attune__tuner_cell *c) {
  attune__tune_cell *out = c->out;
  attune__tuned_key key = attune__tuner_key(s, &out->variant);
  const attune__tuned_row *row = attune__tuned_find(s->known, &key, &out->variant, out->cls);
  int fit = 0;
  attune_status status = attune__tuner_cell_propose(s, c, 1);
  if (status || !row) return status;
  c->before = row->tiles;
  if (!out->trials || !attune__tiles_same(&row->tiles, &out->trial[0].tiles))
    status = append(s, c, &row->tiles, &fit);
  else
    fit = 1;
  if (status || !fit) return status;
  attune__search_take(c->search, &row->tiles);
  if (out->trials > 1) c->incumbent = out->trials - 1;
  c->exhausted = !row->provisional && !s->options->more;
  return ATTUNE_OK;
}

attune_status attune__tuner_cell_plan(attune__tuner_session *s, attune__tuner_cell *c,
                                      const attune_request *request) {
  attune_status status = ATTUNE_OK;
  c->pins = request->pins;
  c->parts = attune__op_parts(request->variant.op);
  for (int part = 0; part < c->parts && !status; part++) status = plan_part(s, c, request, part);
  if (!status)
    status = attune__search_open(c->plan, c->parts, s->options->seed + (uint64_t)(c - s->cell),
                                 &c->search);
  return status ? status : append_known(s, c);
}

void attune__tuner_cell_free(attune__tuner_cell *c) {
  for (int part = 0; part < c->parts; part++) attune__plan_free(&c->plan[part]);
  attune__search_close(c->search);
  free(c->kernels);
}

/* ---- into the lab ---------------------------------------------------------------------------- */

/* 1 when all kernels of a trial are there; else it has its reason, or the time is up. */
static int compiled(attune__tuner_session *s, attune__tuner_cell *c, int index) {
  attune__tune_trial *trial = &c->out->trial[index];
  for (int part = 0; part < c->parts; part++) {
    attune__made *made = c->kernels[index].made[part];
    if (!attune__ahead_wait(s->ahead, made)) {
      trial->state = ATTUNE__TRIAL_LATE;
      return 0;
    }
    if (made->registers > trial->registers) trial->registers = made->registers;
    if (!made->status) continue;
    trial->state = ATTUNE__TRIAL_NOT_COMPILED;
    snprintf(trial->why, sizeof trial->why, "%s", made->why);
    attune__search_tell(c->search, &trial->tiles, (double)INFINITY);
    return 0;
  }
  return 1;
}

/* What is known of a trial: 1 all its kernels passed, -1 one is bad under this driver, 0 else. */
static int marked(attune__tuner_session *s, attune__tuner_cell *c, int index) {
  attune__tuned_key key = attune__tuner_key(s, &c->out->variant);
  int passed = 0;
  for (int part = 0; part < c->parts; part++) {
    const attune__made *made = c->kernels[index].made[part];
    const attune__tuned_mark *mark = attune__tuned_find_mark(s->known, &key, made->kernel.name,
                                                             made->digest, s->result->facts.driver);
    passed += mark && mark->kind == ATTUNE__MARK_PASSED;
    if (!mark || mark->kind == ATTUNE__MARK_PASSED) continue;
    attune__tune_trial *trial = &c->out->trial[index];
    trial->state = mark->kind == ATTUNE__MARK_WRONG  ? ATTUNE__TRIAL_WRONG
                   : mark->kind == ATTUNE__MARK_HANG ? ATTUNE__TRIAL_HANG
                                                     : ATTUNE__TRIAL_FAULT;
    snprintf(trial->why, sizeof trial->why, "marked before: %.100s", mark->why);
    attune__search_tell(c->search, &trial->tiles, (double)INFINITY);
    return -1;
  }
  return passed == c->parts;
}

static attune_status mark_passed(attune__tuner_session *s, const attune__tuner_cell *c, int index) {
  attune_status status = ATTUNE_OK;
  for (int part = 0; part < c->parts && !status; part++) {
    const attune__made *made = c->kernels[index].made[part];
    attune__tuned_mark mark = {.key = attune__tuner_key(s, &c->out->variant),
                               .driver = s->result->facts.driver,
                               .kind = ATTUNE__MARK_PASSED};
    memcpy(mark.kernel, made->kernel.name, sizeof mark.kernel);
    memcpy(mark.digest, made->digest, sizeof mark.digest);
    attune__tuner_date(mark.date);
    status = attune__tuned_put_mark(s->known, &mark);
  }
  return status;
}

/* A status that speaks of the candidate, not of the lab. */
static int of_candidate(attune_status status) {
  return status == ATTUNE_MISMATCH || status == ATTUNE_DRIVER || status == ATTUNE_BUSY ||
         status == ATTUNE_BAD_FILE || status == ATTUNE_UNSUPPORTED;
}

static attune_status take_in(attune__tuner_session *s, attune__tuner_cell *c, int index,
                             attune__tuner_ring *ring) {
  int passed = compiled(s, c, index) ? marked(s, c, index) : -1;
  if (passed < 0) return ATTUNE_OK;
  attune__lab_program program = {.tiles = c->out->trial[index].tiles, .passed = passed};
  for (int part = 0; part < c->parts; part++) {
    program.entry[part] = c->kernels[index].made[part]->bytes;
    program.bytes[part] = c->kernels[index].made[part]->size;
  }
  attune_status status = s->lab->add(s->lab->user, &program);
  if (status && attune__tuner_out_of_time(s)) return ATTUNE_OK;
  if (status) return of_candidate(status) ? attune__tuner_condemn(s, c, index, status) : status;
  ring->trial[ring->count++] = index;
  s->result->checked += !passed;
  return passed ? ATTUNE_OK : mark_passed(s, c, index);
}

/* The planner's choice, the incumbent, and what is new. */
static attune_status fill_ring(attune__tuner_session *s, attune__tuner_cell *c,
                               attune__tuner_ring *ring) {
  attune_status status = ATTUNE_OK;
  int fresh = c->next;
  c->next = c->out->trials;
  for (int i = 0; i < c->out->trials && !status; i++) {
    attune__tune_trial *trial = &c->out->trial[i];
    int usable = trial->state == ATTUNE__TRIAL_NEW || trial->state == ATTUNE__TRIAL_TIMED;
    if (!usable || (i && i != c->incumbent && i < fresh)) continue;
    if (s->hurry && ring->count >= 2) break;
    if (attune__tuner_out_of_time(s))
      trial->state = trial->state == ATTUNE__TRIAL_NEW ? ATTUNE__TRIAL_LATE : trial->state;
    else
      status = take_in(s, c, i, ring);
  }
  return status;
}

/* A cell whose tensors the device has no room for is left; so is one that nothing can be tried in.
 */
static attune_status give_up(attune__tuner_session *s, attune__tuner_cell *c) {
  char name[ATTUNE_NAME_MAX], text[400];
  c->exhausted = 1, c->next = c->out->trials;
  attune__variant_name(&c->out->variant, 1, name);
  snprintf(text, sizeof text, "%s, %s: not tuned: %.150s", name,
           attune__class_name((int)c->out->cls), attune_error());
  attune__tuner_say(s, text);
  return ATTUNE_OK;
}

attune_status attune__tuner_cell_turn(attune__tuner_session *s, attune__tuner_cell *c) {
  attune__tuner_ring ring = {.count = 0};
  attune__lab_cell cell = {.variant = c->out->variant, .pins = c->pins, .shape = c->out->shape};
  attune_status status = s->lab->open(s->lab->user, &cell);
  if (status && attune__tuner_out_of_time(s)) return ATTUNE_OK;
  if (!status) status = fill_ring(s, c, &ring);
  if (!status && ring.count && !attune__tuner_out_of_time(s))
    status = attune__tuner_duel(s, c, &ring);
  if (status && attune__tuner_out_of_time(s)) return ATTUNE_OK;
  return status == ATTUNE_NO_MEMORY || of_candidate(status) ? give_up(s, c) : status;
}
