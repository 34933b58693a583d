/* tune_guard.c - a lab over two: this process's GPU, and a child that tries what is not proven.
 *
 * Input: cells and candidates. Output: what the lab of this process finds. */
#include "tune_guard.h"

#include <string.h>

/* ---- the gate -------------------------------------------------------------------------------- */

static attune_status enter(const attune__guard *g) {
  if (!g->gate || g->gate->enter(g->gate->user)) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "tuning was ended");
}

static void leave(const attune__guard *g) {
  if (g->gate) g->gate->leave(g->gate->user);
}

/* ---- the child ------------------------------------------------------------------------------- */

void attune__guard_close(attune__guard *g) {
  if (g->child_open) g->trial->close(g->trial->user);
  g->child_open = g->child_has_cell = g->child_count = 0;
}

/* What passes on another device, or is judged by another attune, proves nothing here. */
static attune_status same_device(attune__guard *g) {
  attune__lab_facts here, there;
  attune_status status = g->own.facts(g->own.user, &here);
  if (!status) status = g->child.facts(g->child.user, &there);
  if (status) return status;
  if (!strcmp(here.key.gpu, there.key.gpu) && here.key.sms == there.key.sms &&
      here.key.arch == there.key.arch && here.driver == there.driver)
    return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "the program that tries candidates runs on %s, this one on %s",
                     there.key.gpu, here.key.gpu);
}

static attune_status start_child(attune__guard *g) {
  if (g->child_open) return ATTUNE_OK;
  attune_status status = g->trial->open(g->trial->user, &g->child);
  if (status) return status;
  g->child_open = 1;
  status = same_device(g);
  if (status) attune__guard_close(g);
  return status;
}

static attune_status open_child_cell(attune__guard *g) {
  if (g->child_has_cell) return ATTUNE_OK;
  attune_status status = g->child.open(g->child.user, &g->cell);
  g->child_has_cell = !status, g->child_count = 0;
  return status;
}

/* Checked there against the reference, then run on the shape on which it will be timed here. */
static attune_status run_there(attune__guard *g, const attune__lab_program *program) {
  static const attune__bench_options once = {.rounds = 1, .sample_ms = 0.5, .warm_ms = 0.5};
  attune__bench_time time;
  attune__watch watch;
  attune_status status = open_child_cell(g);
  if (!status) status = g->child.add(g->child.user, program);
  if (status) return status;
  int number = g->child_count++;
  status = g->child.time(g->child.user, &number, 1, &once, &time, &watch);
  return !status && time.status ? attune_fail(time.status, "%s", time.error) : status;
}

/* It is the same device, and takes its turn like work of this process. */
static attune_status try_there(attune__guard *g, const attune__lab_program *program) {
  attune_status status = start_child(g);
  if (!status) status = enter(g);
  if (status) return status;
  status = run_there(g, program);
  leave(g);
  return status;
}

/* ---- the lab --------------------------------------------------------------------------------- */

static attune_status guard_facts(void *user, attune__lab_facts *out) {
  const attune__guard *g = user;
  return g->own.facts(g->own.user, out);
}

static attune_status guard_open(void *user, const attune__lab_cell *cell) {
  attune__guard *g = user;
  g->cell = *cell, g->child_has_cell = 0;
  attune_status status = enter(g);
  if (status) return status;
  status = g->own.open(g->own.user, cell);
  leave(g);
  return status;
}

static attune_status guard_add(void *user, const attune__lab_program *program) {
  attune__guard *g = user;
  attune__lab_program here = *program;
  attune_status status = ATTUNE_OK;
  if (!here.passed && g->trial) {
    status = try_there(g, program);
    here.passed = 1;
  }
  if (!status) status = enter(g);
  if (status) return status;
  status = g->own.add(g->own.user, &here);
  leave(g);
  return status;
}

static attune_status guard_time(void *user, const int *which, int count,
                                const attune__bench_options *options, attune__bench_time *out,
                                attune__watch *watch) {
  attune__guard *g = user;
  attune__guard_close(g);
  attune_status status = enter(g);
  if (status) return status;
  status = g->own.time(g->own.user, which, count, options, out, watch);
  if (!status && watch && g->gate) watch->launches = g->gate->disturbed(g->gate->user);
  leave(g);
  return status;
}

attune__lab attune__guard_lab(attune__guard *g) {
  return (attune__lab){g, guard_facts, guard_open, guard_add, guard_time};
}
