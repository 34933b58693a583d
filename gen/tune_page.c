/* tune_page.c - the page of a tuning run.
 *
 * Input: a result. Output: HTML, one file: a table of all cells, then a section for each variant
 * with its roofline and, for each class of shapes, the candidates and what became of those that
 * have no time. */
#include "tune_page.h"

#include "svg.h"

#include <stdio.h>
#include <string.h>

static const char head[] =
    "<!DOCTYPE html>\n"
    "<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
    "<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width\"/>\n"
    "<style>\n"
    "body{font:14px/1.45 sans-serif;color:#222;background:#fff;max-width:1100px;margin:2em auto;"
    "padding:0 1em}\n"
    "table{border-collapse:collapse}th,td{text-align:left;padding:2px 10px;border-bottom:1px solid "
    "#ddd}\n"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{font-size:13px}\n"
    "svg{display:block;max-width:100%;height:auto;margin:.5em 0;font-size:12px}svg "
    "text{fill:#222}\n"
    ".grid{stroke:#e4e4e4}.one{stroke:#999;stroke-dasharray:4 3}.axis{stroke:#333}\n"
    ".roof{stroke:#333;stroke-width:2}.provisional{color:#a33}h2{margin-top:2.2em}\n"
    "</style>\n";

/* ---- pieces ---------------------------------------------------------------------------------- */

static void put_code(attune__text *out, const attune__tiles *tiles) {
  attune__text name = {0};
  attune__tiles_print(tiles, &name);
  attune__text_puts(out, "<code>");
  if (name.data) attune__svg_escape(out, name.data);
  attune__text_puts(out, "</code>");
  attune__text_free(&name);
}

static void put_signed(attune__text *out, double value) {
  if (value >= 0) attune__text_puts(out, "+");
  attune__text_fixed(out, value, 1);
}

/* "+4.2 % (+3.1 .. +5.0)", "as planned"; and why it is provisional. */
static void put_gain(attune__text *out, const attune__tuned_row *row) {
  double gain, low, high;
  attune__tuned_gain(row, &gain, &low, &high);
  if (attune__tiles_same(&row->tiles, &row->over)) {
    attune__text_puts(out, "as planned");
  } else {
    put_signed(out, gain);
    attune__text_puts(out, " % (");
    put_signed(out, low);
    attune__text_puts(out, " .. ");
    put_signed(out, high);
    attune__text_puts(out, ")");
  }
  if (!row->provisional) return;
  attune__text_puts(out, " <span class=\"provisional\">provisional: ");
  attune__svg_escape(out, row->why);
  attune__text_puts(out, "</span>");
}

static void put_time(attune__text *out, const attune__tuned_time *t) {
  attune__text_puts(out, "<td class=\"n\">");
  attune__text_fixed(out, 1e3 * t->median, 2);
  attune__text_puts(out, "</td>");
}

static int is_first(const attune__tune_result *r, int i) {
  return !i || memcmp(&r->cell[i].variant, &r->cell[i - 1].variant, sizeof r->cell[i].variant) != 0;
}

/* The cells of the variant that cell `first` begins. */
static int cells_of(const attune__tune_result *r, int first) {
  int count = 1;
  while (first + count < r->cells && !is_first(r, first + count)) count++;
  return count;
}

/* ---- the table of all ------------------------------------------------------------------------ */

static void table_row(const attune__tune_result *r, int i, attune__text *out) {
  const attune__tune_cell *c = &r->cell[i];
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&c->variant, 1, name);
  attune__text_puts(out, "<tr><td>");
  if (is_first(r, i)) attune__text_printf(out, "<a href=\"#%s\">%s</a>", name, name);
  attune__text_printf(out, "</td><td>%s</td>", attune__class_name((int)c->cls));
  if (c->winner < 0) {
    attune__text_puts(out, "<td colspan=\"5\">not timed</td></tr>\n");
    return;
  }
  attune__text_puts(out, "<td>");
  put_code(out, &c->row.over);
  attune__text_puts(out, "</td>");
  put_time(out, &c->row.over_time);
  attune__text_puts(out, "<td>");
  put_code(out, &c->row.tiles);
  attune__text_puts(out, "</td>");
  put_time(out, &c->row.time);
  attune__text_puts(out, "<td>");
  put_gain(out, &c->row);
  attune__text_puts(out, "</td></tr>\n");
}

static void put_table(const attune__tune_result *r, attune__text *out) {
  attune__text_puts(out, "<table>\n<tr><th>variant</th><th>class</th><th>planned</th>"
                         "<th class=\"n\">us</th><th>measured</th><th class=\"n\">us</th>"
                         "<th>gain (interval)</th></tr>\n");
  for (int i = 0; i < r->cells; i++) table_row(r, i, out);
  attune__text_puts(out, "</table>\n");
}

/* ---- a variant ------------------------------------------------------------------------------- */

static const char *state_words(attune__trial_state state) {
  switch (state) {
    case ATTUNE__TRIAL_NOT_COMPILED:
      return "not compiled";
    case ATTUNE__TRIAL_WRONG:
      return "wrong results, a defect";
    case ATTUNE__TRIAL_FAULT:
      return "a fault";
    case ATTUNE__TRIAL_HANG:
      return "did not end in time";
    case ATTUNE__TRIAL_NEW:
    case ATTUNE__TRIAL_LATE:
      return "not reached within the budget";
    case ATTUNE__TRIAL_TIMED:
      break;
  }
  return NULL;
}

/* Those without a time, each with its reason. */
static void put_untimed(const attune__tune_cell *c, attune__text *out) {
  int count = 0;
  for (int i = 0; i < c->trials; i++) count += state_words(c->trial[i].state) != NULL;
  if (!count) return;
  attune__text_printf(out, "<details><summary>%d of %d candidates have no time</summary>\n<ul>\n",
                      count, c->trials);
  for (int i = 0; i < c->trials; i++) {
    const attune__tune_trial *t = &c->trial[i];
    const char *state = state_words(t->state);
    if (!state) continue;
    attune__text_puts(out, "<li>");
    put_code(out, &t->tiles);
    attune__text_printf(out, " %s%s", state, t->why[0] ? ": " : "");
    attune__svg_escape(out, t->why);
    attune__text_puts(out, "</li>\n");
  }
  attune__text_puts(out, "</ul>\n</details>\n");
}

static void put_cell(const attune__tune_cell *c, const attune_board *board, attune__text *out) {
  const attune_shape *s = &c->shape;
  attune__text_printf(out,
                      "<h3>%s: batch %lld, heads %lld over %lld, %lld queries x %lld keys</h3>\n",
                      attune__class_name((int)c->cls), (long long)s->batch, (long long)s->heads_q,
                      (long long)s->heads_kv, (long long)s->len_q, (long long)s->len_k);
  if (c->winner < 0) {
    attune__text_puts(out, "<p>not timed</p>\n");
  } else {
    attune__text_puts(out, "<p>");
    put_code(out, &c->row.tiles);
    attune__text_puts(out, " over ");
    put_code(out, &c->row.over);
    attune__text_puts(out, ": ");
    put_gain(out, &c->row);
    attune__text_printf(out, "; %d rounds of %d calls, %d candidates timed, %s</p>\n",
                        c->row.rounds, c->row.calls, c->row.tried, c->row.date);
    if (board) attune__tune_draw_trials(c, board, out);
  }
  put_untimed(c, out);
}

static void put_variant(const attune__tune_result *r, int first, attune__text *out) {
  const attune__tune_cell *cells = &r->cell[first];
  int count = cells_of(r, first), timed = 0;
  const attune_board *board = attune__board(r->facts.key.arch);
  char name[ATTUNE_NAME_MAX];
  if (!board) board = attune__board(cells->variant.arch);
  attune__variant_name(&cells->variant, 1, name);
  attune__text_printf(out, "<section id=\"%s\">\n<h2>%s</h2>\n", name, name);
  for (int i = 0; i < count; i++) timed += cells[i].winner >= 0;
  if (board && timed) {
    attune__tune_draw_roofline(cells, count, board, out);
    attune__text_printf(out, "<p>Ceilings: data sheet of the %s.</p>\n", board->name);
  }
  for (int i = 0; i < count; i++) put_cell(&cells[i], board, out);
  attune__text_puts(out, "</section>\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_facts(const attune__tune_result *r, attune__text *out) {
  const attune__tuned_key *key = &r->facts.key;
  attune__text_puts(out, "<title>attune tune: ");
  attune__svg_escape(out, key->gpu);
  attune__text_puts(out, "</title>\n</head>\n<body>\n<h1>attune tune: ");
  attune__svg_escape(out, key->gpu);
  attune__text_printf(out,
                      "</h1>\n<p>%d SMs, memory at %d MHz, driver for CUDA %d.%d. %d candidates "
                      "timed, %d kernels compiled, %d programs checked; %d wrong, %d faults, %d "
                      "hangs; in ",
                      key->sms, key->memory_mhz, r->facts.driver / 1000,
                      r->facts.driver % 1000 / 10, r->timed, r->compiled, r->checked, r->wrong,
                      r->faults, r->hangs);
  attune__text_fixed(out, r->wall_s, 1);
  attune__text_puts(out, " s. Microseconds of a call: medians over random tensors that are not in "
                         "L2.</p>\n");
}

void attune__tune_page(const attune__tune_result *r, attune__text *out) {
  attune__text_puts(out, head);
  put_facts(r, out);
  put_table(r, out);
  for (int i = 0; i < r->cells; i++)
    if (is_first(r, i)) put_variant(r, i, out);
  attune__text_puts(out, "</body>\n</html>\n");
}
