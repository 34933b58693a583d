/* bench_compare.c - `attune bench --compare`: stored winners against the planner's choice, again.
 *
 * Input: the measured rows of this GPU, whatever driver and NVRTC they were measured with. Output:
 * a line for each, and what became slower. Kernels run in a child process, as in `attune tune`. */
#include "bench_compare.h"

#include "../store.h"
#include "../tune_compare.h"
#include "../tune_online.h"
#include "show.h"

#include <stdio.h>
#include <string.h>

typedef struct session {
  const cli_args *args;
  const attune__bench_options *options;
  attune__tuned rows; /* the user's and the shipped; of one key the better */
  attune__online_host *host;
  attune__lab lab;
  attune__lab_facts facts;
  int counts[ATTUNE__COMPARE_SKIPPED + 1];
  attune__json json;
  attune__text text;
} session;

/* ---- output ---------------------------------------------------------------------------------- */

static void put_times(session *s, const attune__tuned_row *row, const attune__comparison *c) {
  show_fixed(&s->text, 10, 1e3 * row->time.median, 2);
  show_fixed(&s->text, 10, 1e3 * c->winner_time.median, 2);
  if (c->planned_time.median > 0)
    show_fixed(&s->text, 10, 1e3 * c->planned_time.median, 2);
  else
    attune__text_printf(&s->text, "%10s", "-");
}

static void put_line(session *s, const char *name, const attune__tuned_row *row,
                     const attune__comparison *c) {
  attune__text tiles = {0};
  attune__tiles_print(&row->tiles, &tiles);
  attune__text_printf(&s->text, "%s  %-11s %-26s", name, attune__class_name((int)row->cls),
                      tiles.data ? tiles.data : "");
  attune__text_free(&tiles);
  put_times(s, row, c);
  attune__text_printf(&s->text, "  %s%s%s", attune__compare_word(c->verdict), c->why[0] ? ": " : "",
                      c->why);
  if (c->verdict == ATTUNE__COMPARE_SLOWER) {
    attune__text_puts(&s->text, " than ");
    attune__tiles_print(&c->planned, &s->text);
  }
  attune__text_puts(&s->text, "\n");
}

static void json_tiles(session *s, const char *key, const attune__tiles *tiles) {
  attune__text text = {0};
  attune__tiles_print(tiles, &text);
  show_json_text(&s->json, key, text.data);
  attune__text_free(&text);
}

static void json_time(session *s, const char *key, const attune__tuned_time *t) {
  if (!(t->median > 0)) return;
  attune__json_key(&s->json, key);
  attune__json_begin(&s->json, '[');
  attune__json_number(&s->json, t->median);
  attune__json_number(&s->json, t->low);
  attune__json_number(&s->json, t->high);
  attune__json_end(&s->json, ']');
}

static void json_line(session *s, const char *name, const attune__tuned_row *row,
                      const attune__comparison *c) {
  attune__json_begin(&s->json, '{');
  show_json_text(&s->json, "variant", name);
  show_json_text(&s->json, "class", attune__class_name((int)row->cls));
  json_tiles(s, "tile", &row->tiles);
  json_tiles(s, "planned", &c->planned);
  show_json_text(&s->json, "measured", row->date);
  show_json_text(&s->json, "nvrtc", row->key.nvrtc);
  show_json_count(&s->json, "driver_cuda", row->driver);
  json_time(s, "stored_ms", &row->time);
  json_time(s, "ms", &c->winner_time);
  json_time(s, "planned_ms", &c->planned_time);
  show_json_text(&s->json, "verdict", attune__compare_word(c->verdict));
  if (c->why[0]) show_json_text(&s->json, "why", c->why);
  attune__json_end(&s->json, '}');
}

static void begin(session *s) {
  const attune__tuned_key *key = &s->facts.key;
  s->json = (attune__json){.text = &s->text};
  if (!s->args->json) {
    attune__text_printf(&s->text,
                        "%s, %d SMs, memory at %d MHz; microseconds of a call: as stored, and "
                        "now beside what is planned\n",
                        key->gpu, key->sms, key->memory_mhz);
    return;
  }
  attune__json_begin(&s->json, '{');
  show_json_count(&s->json, "schema", CLI_JSON_SCHEMA);
  show_json_text(&s->json, "device", key->gpu);
  show_json_count(&s->json, "driver_cuda", s->facts.driver);
  attune__json_key(&s->json, "rows");
  attune__json_begin(&s->json, '[');
}

static int end(session *s) {
  const int *n = s->counts;
  int bad = n[ATTUNE__COMPARE_SLOWER] + n[ATTUNE__COMPARE_FAILED], all = 0;
  for (int i = 0; i <= ATTUNE__COMPARE_SKIPPED; i++) all += n[i];
  if (s->args->json) {
    attune__json_end(&s->json, ']');
    show_json_count(&s->json, "slower", n[ATTUNE__COMPARE_SLOWER]);
    show_json_count(&s->json, "failed", n[ATTUNE__COMPARE_FAILED]);
    attune__json_end(&s->json, '}');
    attune__text_puts(&s->text, "\n");
  } else {
    attune__text_printf(&s->text,
                        "%d rows: %d hold, %d as planned, %d slower, %d failed, %d disturbed, %d "
                        "skipped%s\n",
                        all, n[ATTUNE__COMPARE_HOLDS], n[ATTUNE__COMPARE_PLANNED],
                        n[ATTUNE__COMPARE_SLOWER], n[ATTUNE__COMPARE_FAILED],
                        n[ATTUNE__COMPARE_DISTURBED], n[ATTUNE__COMPARE_SKIPPED],
                        bad ? "; attune tune SPEC --more measures them anew" : "");
  }
  int rc = cli_print(&s->text);
  return rc == CLI_OK && bad ? CLI_CHECK : rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static attune_status read_rows(session *s) {
  attune__tuned_db db;
  attune__text messages = {0};
  attune_status status = attune__tuned_db_open(NULL, &db, &messages);
  if (messages.data) fputs(messages.data, stderr);
  attune__text_free(&messages);
  if (status) return status;
  status = attune__tuned_merge(&s->rows, &db.shipped);
  if (!status) status = attune__tuned_merge(&s->rows, &db.own);
  attune__tuned_db_close(&db);
  return status;
}

static int is_wanted(const session *s, const attune__tuned_row *row, const char *name) {
  if (row->provisional || !attune__compare_is_here(row, &s->facts)) return 0;
  for (int i = 0; i < s->args->words; i++)
    if (!strcmp(s->args->word[i], name)) return 1;
  return !s->args->words;
}

/* Of a variant and class with rows for several builds the first in order: the times are of now. */
static int is_repeat(const session *s, int at) {
  const attune__tuned_row *row = &s->rows.row[at];
  for (int i = 0; i < at; i++) {
    const attune__tuned_row *r = &s->rows.row[i];
    if (!r->provisional && r->cls == row->cls && attune__compare_is_here(r, &s->facts) &&
        !memcmp(&r->variant, &row->variant, sizeof r->variant) &&
        attune__tiles_same(&r->tiles, &row->tiles))
      return 1;
  }
  return 0;
}

/* A line is printed as it is done: a GPU with many rows takes minutes. */
static attune_status compare_all(session *s) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < s->rows.count && !status; i++) {
    const attune__tuned_row *row = &s->rows.row[i];
    char name[ATTUNE_NAME_MAX];
    attune__comparison c;
    attune__variant_name(&row->variant, 1, name);
    if (!is_wanted(s, row, name) || is_repeat(s, i)) continue;
    status = attune__compare_row(row, &s->lab, &s->host->compiler, s->options, &c);
    if (status) break;
    s->counts[c.verdict]++;
    if (s->args->json)
      json_line(s, name, row, &c);
    else if (put_line(s, name, row, &c), cli_print(&s->text) != CLI_OK)
      return attune_fail(ATTUNE_IO, "cannot print");
  }
  return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int run_with(session *s) {
  attune_status status = s->lab.facts(s->lab.user, &s->facts);
  if (!status) status = read_rows(s);
  if (status) return cli_fail(status);
  begin(s);
  status = compare_all(s);
  if (!status) return end(s);
  attune__text_free(&s->text);
  return cli_fail(status);
}

int bench_compare(const cli_args *args, const attune__bench_options *options) {
  session s = {.args = args, .options = options};
  attune_store *store = NULL;
  attune_status status = attune__store_open(NULL, &store);
  if (!status) status = attune__host_open(store, 0, "/proc/self/exe", &s.host);
  if (!status) status = s.host->trial->open(s.host->trial->user, &s.lab);
  int rc = status ? cli_fail(status) : run_with(&s);
  if (!status) s.host->trial->close(s.host->trial->user);
  attune__host_close(s.host);
  attune__tuned_free(&s.rows);
  attune__store_close(store);
  return rc;
}
