/* tune_report.c - the table of a tuning run, and its JSON. */
#include "tune_report.h"

#include "show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- figures --------------------------------------------------------------------------------- */

typedef struct sums {
  int rows, faster, changed, provisional;
  double log_gain; /* of all rows that are not provisional */
} sums;

static sums sum(const attune__tune_result *r) {
  sums s = {.rows = 0};
  for (int i = 0; i < r->cells; i++) {
    const attune__tune_cell *c = &r->cell[i];
    double gain, low, high;
    if (c->winner < 0) continue;
    s.provisional += c->row.provisional;
    if (c->row.provisional) continue;
    attune__tuned_gain(&c->row, &gain, &low, &high);
    s.rows++, s.changed += c->changed;
    s.faster += gain > 0;
    s.log_gain += log(1 + gain / 100);
  }
  return s;
}

/* Percent, the geometric mean over the rows. */
static double mean_gain(const sums *s) {
  return s->rows ? 100 * (exp(s->log_gain / s->rows) - 1) : 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_tiles(attune__text *out, const attune__tiles *tiles, int width) {
  attune__text name = {0};
  attune__tiles_print(tiles, &name);
  attune__text_printf(out, "%-*s", width, name.data ? name.data : "");
  attune__text_free(&name);
}

static void signed_fixed(attune__text *out, double value, int decimals) {
  if (value >= 0) attune__text_puts(out, "+");
  attune__text_fixed(out, value, decimals);
}

/* "+4.2 % (+3.1 .. +5.0)", "as planned", "provisional: why". */
static void put_gain(attune__text *out, const attune__tuned_row *row) {
  double gain, low, high;
  attune__tuned_gain(row, &gain, &low, &high);
  if (attune__tiles_same(&row->tiles, &row->over)) {
    attune__text_puts(out, "  as planned");
  } else {
    attune__text_puts(out, "  ");
    signed_fixed(out, gain, 1);
    attune__text_puts(out, " % (");
    signed_fixed(out, low, 1);
    attune__text_puts(out, " .. ");
    signed_fixed(out, high, 1);
    attune__text_puts(out, ")");
  }
  if (row->provisional) attune__text_printf(out, "  provisional: %s", row->why);
}

static void put_cell(attune__text *out, const attune__tune_cell *c) {
  attune__text_printf(out, "  %-12s", attune__class_name((int)c->cls));
  if (c->winner < 0) {
    attune__text_puts(out, "not timed\n");
    return;
  }
  put_tiles(out, &c->row.over, 26);
  show_fixed(out, 10, 1e3 * c->row.over_time.median, 2);
  attune__text_puts(out, "  ");
  put_tiles(out, &c->row.tiles, 26);
  show_fixed(out, 10, 1e3 * c->row.time.median, 2);
  put_gain(out, &c->row);
  attune__text_puts(out, "\n");
}

static void put_summary(attune__text *out, const attune__tune_result *r, const char *path) {
  sums s = sum(r);
  attune__text_printf(out, "\n%d rows measured, %d faster than planned, geometric mean ", s.rows,
                      s.faster);
  signed_fixed(out, mean_gain(&s), 1);
  attune__text_printf(out, " %%; %d of another tile than before", s.changed);
  if (s.provisional) attune__text_printf(out, "; %d provisional", s.provisional);
  if (r->unfinished) attune__text_printf(out, "; %d not timed", r->unfinished);
  attune__text_printf(out, "\n%d kernels compiled, %d programs checked, %d timed, ", r->compiled,
                      r->checked, r->timed);
  attune__text_printf(out, "%d wrong, %d faults, %d hangs, in ", r->wrong, r->faults, r->hangs);
  attune__text_fixed(out, r->wall_s, 1);
  attune__text_puts(out, " s\n");
  if (path) attune__text_printf(out, "rows in %s\n", path);
}

void tune_report_text(const attune__tune_result *r, const char *path, attune__text *out) {
  const attune__tuned_key *key = &r->facts.key;
  attune__text_printf(out,
                      "%s, %d SMs, memory at %d MHz; microseconds of a call, random tensors that "
                      "are not in L2\n",
                      key->gpu, key->sms, key->memory_mhz);
  for (int i = 0; i < r->cells; i++) {
    const attune__tune_cell *c = &r->cell[i];
    char name[ATTUNE_NAME_MAX];
    if (!i || memcmp(&c->variant, &r->cell[i - 1].variant, sizeof c->variant) != 0) {
      attune__variant_name(&c->variant, 1, name);
      attune__text_printf(out, "%s\n  %-12s%-26s%10s  %-26s%10s  gain (interval)\n", name, "class",
                          "planned", "us", "measured", "us");
    }
    put_cell(out, c);
  }
  put_summary(out, r, path);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_tiles(attune__json *json, const char *key, const attune__tiles *tiles) {
  attune__text name = {0};
  attune__tiles_print(tiles, &name);
  show_json_text(json, key, name.data);
  attune__text_free(&name);
}

static void json_time(attune__json *json, const char *key, const attune__tuned_time *time) {
  attune__json_key(json, key);
  attune__json_begin(json, '[');
  attune__json_number(json, time->median);
  attune__json_number(json, time->low);
  attune__json_number(json, time->high);
  attune__json_end(json, ']');
}

static void json_trial(attune__json *json, const attune__tune_trial *t) {
  static const char *const states[] = {"new",   "timed", "not compiled", "wrong",
                                       "fault", "hang",  "late"};
  attune__json_begin(json, '{');
  json_tiles(json, "tile", &t->tiles);
  show_json_text(json, "state", states[t->state]);
  if (t->state == ATTUNE__TRIAL_TIMED) {
    json_time(json, "ms", &t->time);
    show_json_real(json, "over_planned", t->ratio);
  }
  show_json_count(json, "smem_bytes", t->smem_bytes);
  show_json_count(json, "registers", t->registers);
  if (t->why[0]) show_json_text(json, "why", t->why);
  attune__json_end(json, '}');
}

static void json_row(attune__json *json, const attune__tune_cell *c) {
  double gain, low, high;
  attune__tuned_gain(&c->row, &gain, &low, &high);
  json_tiles(json, "planned", &c->row.over);
  json_time(json, "planned_ms", &c->row.over_time);
  json_tiles(json, "tile", &c->row.tiles);
  json_time(json, "ms", &c->row.time);
  show_json_real(json, "gain_percent", gain);
  show_json_real(json, "gain_low", low);
  show_json_real(json, "gain_high", high);
  attune__json_key(json, "changed"), attune__json_bool(json, c->changed);
  attune__json_key(json, "provisional"), attune__json_bool(json, c->row.provisional);
  if (c->row.provisional) show_json_text(json, "why", c->row.why);
}

static void json_cell(attune__json *json, const attune__tune_cell *c) {
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&c->variant, 1, name);
  attune__json_begin(json, '{');
  show_json_text(json, "variant", name);
  show_json_text(json, "class", attune__class_name((int)c->cls));
  if (c->winner >= 0) json_row(json, c);
  attune__json_key(json, "trials");
  attune__json_begin(json, '[');
  for (int i = 0; i < c->trials; i++) json_trial(json, &c->trial[i]);
  attune__json_end(json, ']');
  attune__json_end(json, '}');
}

void tune_report_json(const attune__tune_result *r, const char *path, attune__text *out) {
  attune__json json = {.text = out};
  sums s = sum(r);
  attune__json_begin(&json, '{');
  show_json_count(&json, "schema", CLI_JSON_SCHEMA);
  show_json_text(&json, "device", r->facts.key.gpu);
  show_json_count(&json, "sms", r->facts.key.sms);
  show_json_count(&json, "memory_mhz", r->facts.key.memory_mhz);
  show_json_count(&json, "driver_cuda", r->facts.driver);
  show_json_text(&json, "rows_in", path);
  show_json_real(&json, "seconds", r->wall_s);
  show_json_real(&json, "mean_gain_percent", mean_gain(&s));
  show_json_count(&json, "rows", s.rows);
  show_json_count(&json, "changed", s.changed);
  show_json_count(&json, "provisional", s.provisional);
  show_json_count(&json, "not_timed", r->unfinished);
  show_json_count(&json, "compiled", r->compiled);
  show_json_count(&json, "checked", r->checked);
  show_json_count(&json, "timed", r->timed);
  show_json_count(&json, "wrong", r->wrong);
  show_json_count(&json, "faults", r->faults);
  show_json_count(&json, "hangs", r->hangs);
  attune__json_key(&json, "cells");
  attune__json_begin(&json, '[');
  for (int i = 0; i < r->cells; i++) json_cell(&json, &r->cell[i]);
  attune__json_end(&json, ']');
  attune__json_end(&json, '}');
  attune__text_puts(out, "\n");
}
