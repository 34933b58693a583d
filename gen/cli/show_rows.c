/* show_rows.c - measured rows of a variant, for `attune explain`.
 *
 * Input: a variant, the tile that is explained. Output: a line for each row of it, on whatever GPU,
 * with the reason where it is not used here. */
#include "show_rows.h"

#include "../../runtime/params.def"
#include "../nvrtc.h"
#include "../tune_rows.h"
#include "show.h"

#include <stdio.h>
#include <string.h>

typedef struct view {
  attune__tuned_db db;
  attune_variant variant; /* part 0: as rows have it */
  int part;
  const attune_tile *tile;
  uint32_t budget;
  attune_nvrtc_info compiler;
  int has_compiler, rows;
} view;

static int open_view(view *w, const attune_variant *variant, const attune_tile *tile,
                     uint32_t budget) {
  attune__text messages = {0};
  *w = (view){.variant = *variant, .part = variant->part, .tile = tile, .budget = budget};
  w->variant.part = 0;
  w->has_compiler = !attune__nvrtc_info(&w->compiler);
  int fine = !attune__tuned_db_open(NULL, &w->db, &messages);
  if (messages.data) fputs(messages.data, stderr);
  attune__text_free(&messages);
  return fine;
}

/* Why a row is not what serves; "" when it is. */
static void refusal(const view *w, const attune__tuned_row *row, char *out, size_t size) {
  const attune__tuned_row *used =
      attune__tuned_row_for(&w->db, &row->key, &row->variant, row->cls, w->budget, out, size);
  if (row->key.abi != ATTUNE_ABI)
    snprintf(out, size, "made for ABI %u, this is %d", row->key.abi, ATTUNE_ABI);
  else if (w->has_compiler && strcmp(row->key.nvrtc, w->compiler.version) != 0)
    snprintf(out, size, "compiled by %s, this is %s", row->key.nvrtc, w->compiler.version);
  else if (used && used != row)
    snprintf(out, size, "another row takes its place");
  else if (used)
    out[0] = 0;
}

static int is_explained(const view *w, const attune__tuned_row *row) {
  return w->tile && w->part < row->tiles.count &&
         !memcmp(&row->tiles.tile[w->part], w->tile, sizeof *w->tile);
}

/* "+4.2 % (+3.1 .. +5.0) over wgmma_m64n64s2" */
static void put_gain(const attune__tuned_row *row, attune__text *out) {
  double value[3];
  static const char *const between[] = {"", " % (", " .. "};
  if (attune__tiles_same(&row->tiles, &row->over)) {
    attune__text_puts(out, "as planned");
    return;
  }
  attune__tuned_gain(row, &value[0], &value[1], &value[2]);
  for (int i = 0; i < 3; i++) {
    attune__text_puts(out, between[i]);
    if (value[i] >= 0) attune__text_puts(out, "+");
    attune__text_fixed(out, value[i], 1);
  }
  attune__text_puts(out, ") over ");
  attune__tiles_print(&row->over, out);
}

static void put_row(const view *w, const attune__tuned_row *row, attune__text *out) {
  char why[ATTUNE_REASON_MAX];
  refusal(w, row, why, sizeof why);
  attune__text_printf(out, "%c %-12s", is_explained(w, row) ? '>' : ' ',
                      attune__class_name((int)row->cls));
  attune__tiles_print(&row->tiles, out);
  attune__text_puts(out, "  ");
  attune__text_fixed(out, 1e3 * row->time.median, 2);
  attune__text_puts(out, " us, ");
  put_gain(row, out);
  attune__text_printf(out, "; %s, %d SMs, %.10s", row->key.gpu, row->key.sms, row->date);
  if (why[0]) attune__text_printf(out, "; not used: %s", why);
  attune__text_puts(out, "\n");
}

static void json_row(const view *w, const attune__tuned_row *row, attune__json *json) {
  char why[ATTUNE_REASON_MAX];
  double gain, low, high;
  attune__text tiles = {0};
  refusal(w, row, why, sizeof why);
  attune__tuned_gain(row, &gain, &low, &high);
  attune__tiles_print(&row->tiles, &tiles);
  attune__json_begin(json, '{');
  show_json_text(json, "class", attune__class_name((int)row->cls));
  show_json_text(json, "tile", tiles.data);
  attune__json_key(json, "this"), attune__json_bool(json, is_explained(w, row));
  show_json_text(json, "gpu", row->key.gpu);
  show_json_count(json, "sms", row->key.sms);
  show_json_text(json, "date", row->date);
  show_json_real(json, "ms", row->time.median);
  show_json_real(json, "gain_percent", gain);
  show_json_real(json, "gain_low", low);
  show_json_real(json, "gain_high", high);
  show_json_text(json, "not_used", why[0] ? why : NULL);
  attune__json_end(json, '}');
  attune__text_free(&tiles);
}

static void each(view *w, const attune__tuned *tuned, attune__text *out, attune__json *json) {
  for (int i = 0; i < tuned->count; i++) {
    const attune__tuned_row *row = &tuned->row[i];
    if (memcmp(&row->variant, &w->variant, sizeof w->variant) != 0) continue;
    if (!w->rows++ && out) attune__text_puts(out, "\nmeasured, by class of shapes\n");
    if (out) put_row(w, row, out);
    if (json) json_row(w, row, json);
  }
}

void show_rows(attune__text *out, const attune_variant *variant, const attune_tile *tile,
               uint32_t budget) {
  view w;
  if (!open_view(&w, variant, tile, budget)) return;
  each(&w, &w.db.own, out, NULL);
  each(&w, &w.db.shipped, out, NULL);
  if (!w.rows) attune__text_puts(out, "\nplanned: there is no measured row of this variant\n");
  attune__tuned_db_close(&w.db);
}

void show_rows_json(attune__json *json, const attune_variant *variant, const attune_tile *tile,
                    uint32_t budget) {
  view w;
  attune__json_key(json, "measured");
  attune__json_begin(json, '[');
  if (open_view(&w, variant, tile, budget)) {
    each(&w, &w.db.own, NULL, json);
    each(&w, &w.db.shipped, NULL, json);
    attune__tuned_db_close(&w.db);
  }
  attune__json_end(json, ']');
}
