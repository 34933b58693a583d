/* tune_compare.c - a measured row's winner timed again, beside the planner's choice of today.
 *
 * Input: a row, a lab, a compiler. Output: both times and a verdict. */
#include "tune_compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *attune__compare_word(attune__compare_verdict verdict) {
  switch (verdict) {
    case ATTUNE__COMPARE_HOLDS:
      return "holds";
    case ATTUNE__COMPARE_PLANNED:
      return "as planned";
    case ATTUNE__COMPARE_SLOWER:
      return "slower";
    case ATTUNE__COMPARE_FAILED:
      return "failed";
    case ATTUNE__COMPARE_DISTURBED:
      return "disturbed";
    case ATTUNE__COMPARE_SKIPPED:
      return "skipped";
  }
  return "?";
}

int attune__compare_is_here(const attune__tuned_row *row, const attune__lab_facts *facts) {
  return !strcmp(row->key.gpu, facts->key.gpu) && row->key.sms == facts->key.sms &&
         row->key.memory_mhz == facts->key.memory_mhz &&
         attune__arch_runs(row->variant.arch, facts->key.arch);
}

/* A status that speaks of a candidate: it becomes the verdict. */
static int of_candidate(attune_status status) {
  return status == ATTUNE_MISMATCH || status == ATTUNE_DRIVER || status == ATTUNE_BUSY ||
         status == ATTUNE_BAD_FILE || status == ATTUNE_UNSUPPORTED || status == ATTUNE_COMPILE ||
         status == ATTUNE_INVALID || status == ATTUNE_NO_FIT;
}

static void conclude(attune__comparison *out, attune__compare_verdict verdict, const char *why) {
  out->verdict = verdict;
  snprintf(out->why, sizeof out->why, "%.119s", why);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static attune_status plan(const attune__tuned_row *row, attune__tiles *out) {
  attune_status status = ATTUNE_OK;
  out->count = attune__op_parts(row->variant.op);
  for (int part = 0; part < out->count && !status; part++) {
    attune_plan_request wish = {.variant = row->variant, .shape = row->shape};
    attune_plan plan;
    wish.variant.part = (uint8_t)part;
    status = attune__plan_make(&wish, &plan);
    if (!status) out->tile[part] = plan.candidates[0].tile;
    attune__plan_free(&plan);
  }
  return status;
}

static void free_program(attune__lab_program *p) {
  for (int i = 0; i < ATTUNE_MAX_PARTS; i++) free((void *)(uintptr_t)p->entry[i]);
}

static attune_status make(const attune__tuned_row *row, const attune__tiles *tiles,
                          const attune__tune_compiler *compiler, attune__lab_program *out) {
  const attune_pinset none = {.count = 0};
  attune_status status = ATTUNE_OK;
  *out = (attune__lab_program){.tiles = *tiles};
  for (int part = 0; part < tiles->count && !status; part++) {
    attune_variant v = row->variant;
    attune_kernel kernel;
    char digest[17];
    void *bytes = NULL;
    v.part = (uint8_t)part;
    status = attune__kernel_make(&v, &tiles->tile[part], &none, &kernel);
    if (!status)
      status = compiler->compile(compiler->user, &kernel, &bytes, &out->bytes[part], digest);
    out->entry[part] = bytes;
  }
  return status;
}

/* ---- timing ---------------------------------------------------------------------------------- */

static attune__tuned_time figures(const attune__bench_time *t) {
  return (attune__tuned_time){t->median, t->low, t->high};
}

/* Contender 0 is the winner, 1 what is planned, if that is another. */
static void judge(const attune__bench_time *time, int count, const attune__watch *watch,
                  attune__comparison *out) {
  char why[ATTUNE__WHY_MAX];
  if (time[0].status) return conclude(out, ATTUNE__COMPARE_FAILED, time[0].error);
  out->winner_time = figures(&time[0]);
  if (count == 1) return conclude(out, ATTUNE__COMPARE_PLANNED, "");
  if (time[1].status) return conclude(out, ATTUNE__COMPARE_HOLDS, time[1].error);
  out->planned_time = figures(&time[1]);
  attune__watch_why(watch, why);
  for (int i = 0; i < count && !why[0]; i++)
    if (fabs(time[i].drift) >= ATTUNE__BENCH_DRIFT)
      snprintf(why, sizeof why, "times drifted within the rounds");
  if (why[0]) return conclude(out, ATTUNE__COMPARE_DISTURBED, why);
  conclude(out, time[0].low > time[1].high ? ATTUNE__COMPARE_SLOWER : ATTUNE__COMPARE_HOLDS, "");
}

static attune_status time_both(const attune__tuned_row *row, const attune__lab *lab,
                               const attune__lab_program *program, int count,
                               const attune__bench_options *options, attune__comparison *out) {
  const attune__lab_cell cell = {.variant = row->variant, .shape = row->shape};
  static const int which[] = {0, 1};
  attune__bench_time time[2] = {{.rounds = 0}};
  attune__watch watch = {.known = 0};
  attune_status status = lab->open(lab->user, &cell);
  if (!status) status = lab->add(lab->user, &program[0]);
  if (of_candidate(status)) return conclude(out, ATTUNE__COMPARE_FAILED, attune_error()), ATTUNE_OK;
  if (!status && count > 1) {
    status = lab->add(lab->user, &program[1]);
    if (of_candidate(status)) /* then there is nothing to be slower than */
      return conclude(out, ATTUNE__COMPARE_HOLDS, attune_error()), ATTUNE_OK;
  }
  if (!status) status = lab->time(lab->user, which, count, options, time, &watch);
  if (!status) judge(time, count, &watch, out);
  return status;
}

attune_status attune__compare_row(const attune__tuned_row *row, const attune__lab *lab,
                                  const attune__tune_compiler *compiler,
                                  const attune__bench_options *options, attune__comparison *out) {
  attune__lab_program program[2] = {{.passed = 0}};
  *out = (attune__comparison){.planned = {.count = 0}};
  if (row->variant.pins) {
    conclude(out, ATTUNE__COMPARE_SKIPPED, "its pins stand in a spec alone");
    return ATTUNE_OK;
  }
  attune_status status = plan(row, &out->planned);
  if (status == ATTUNE_NO_FIT)
    return conclude(out, ATTUNE__COMPARE_FAILED, attune_error()), ATTUNE_OK;
  if (status) return status;
  int count = attune__tiles_same(&row->tiles, &out->planned) ? 1 : 2;
  status = make(row, &row->tiles, compiler, &program[0]);
  if (of_candidate(status))
    conclude(out, ATTUNE__COMPARE_FAILED, attune_error()), status = ATTUNE_OK;
  else {
    if (!status && count == 2) status = make(row, &out->planned, compiler, &program[1]);
    if (!status) status = time_both(row, lab, program, count, options, out);
  }
  free_program(&program[0]);
  free_program(&program[1]);
  return status;
}
