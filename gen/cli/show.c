/* show.c - columns and JSON objects that list, plan and explain share. */
#include "show.h"

static void pad(attune__text *out, int width, const attune__text *cell) {
  for (int i = (int)cell->size; i < width; i++) attune__text_puts(out, " ");
  if (cell->failed) out->failed = 1;
  if (cell->data) attune__text_puts(out, cell->data);
}

void show_fixed(attune__text *out, int width, double value, int decimals) {
  attune__text cell = {0};
  attune__text_fixed(&cell, value, decimals);
  pad(out, width, &cell);
  attune__text_free(&cell);
}

void show_grouped(attune__text *out, int width, double value) {
  attune__text cell = {0};
  attune__text_grouped(&cell, (uint64_t)value);
  pad(out, width, &cell);
  attune__text_free(&cell);
}

void show_model_note(attune__text *out, const attune_board *board) {
  attune__text_printf(out,
                      "%s, for which the %s stands (%d SMs at %d MHz). Times and registers are a "
                      "model's: nothing here is measured.\n",
                      board->arch_name, board->name, board->sms, board->mhz);
}

void show_shape(attune__text *out, const attune_variant *v, const attune_shape *s) {
  attune__text_printf(out, "batch %lld, heads %lld", (long long)s->batch, (long long)s->heads_q);
  if (s->heads_kv != s->heads_q) attune__text_printf(out, "/%lld", (long long)s->heads_kv);
  attune__text_printf(out, ", %lld queries x %lld keys", (long long)s->len_q, (long long)s->len_k);
  if (attune__mask_has_lower(v->mask))
    attune__text_printf(out, ", window of %lld keys to the left, %lld to the right",
                        (long long)s->window_left, (long long)s->window_right);
  if (attune__mask_has_upper(v->mask) && s->len_q != s->len_k)
    attune__text_printf(out, ", corner %s", attune__corner_name((int)s->corner));
}

double show_microseconds(const attune_board *board, double clocks) {
  return clocks / board->mhz;
}

void show_json_text(attune__json *json, const char *key, const char *value) {
  attune__json_key(json, key);
  attune__json_string(json, value);
}

void show_json_count(attune__json *json, const char *key, int64_t value) {
  attune__json_key(json, key);
  attune__json_int(json, value);
}

void show_json_real(attune__json *json, const char *key, double value) {
  attune__json_key(json, key);
  attune__json_number(json, value);
}

void show_json_tile(attune__json *json, const attune_tile *tile) {
  attune__json_key(json, "tile");
  attune__json_begin(json, '{');
  show_json_text(json, "family", attune__family_name(tile->family));
#define X(type, field, letters, def, constant, text) show_json_count(json, #field, tile->field);
  ATTUNE_TILE_FIELDS(X)
#undef X
  attune__json_end(json, '}');
}

void show_json_shape(attune__json *json, const attune_shape *s) {
  attune__json_key(json, "shape");
  attune__json_begin(json, '{');
  show_json_count(json, "batch", s->batch);
  show_json_count(json, "heads_q", s->heads_q);
  show_json_count(json, "heads_kv", s->heads_kv);
  show_json_count(json, "len_q", s->len_q);
  show_json_count(json, "len_k", s->len_k);
  show_json_count(json, "window_left", s->window_left);
  show_json_count(json, "window_right", s->window_right);
  attune__json_end(json, '}');
}

void show_json_cost(attune__json *json, const attune_cost *c) {
  attune__json_key(json, "model_clocks");
  attune__json_begin(json, '{');
  show_json_real(json, "total", c->total);
  show_json_real(json, "fma", c->fma);
  show_json_real(json, "tensor", c->tensor);
  show_json_real(json, "exponential", c->exponential);
  show_json_real(json, "shared_memory", c->shared_memory);
  show_json_real(json, "issue", c->issue);
  show_json_real(json, "device_memory", c->device_memory);
  show_json_real(json, "startup", c->startup);
  attune__json_end(json, '}');
  show_json_real(json, "waves", c->waves);
  show_json_real(json, "blocks_per_sm", c->occupancy);
  show_json_text(json, "binds", c->binds);
}

void show_json_traffic(attune__json *json, const attune_traffic *traffic) {
  attune__json_key(json, "traffic");
  attune__json_begin(json, '{');
  show_json_real(json, "requested", traffic->requested);
  show_json_real(json, "compulsory", traffic->compulsory);
  attune__json_key(json, "tensors");
  attune__json_begin(json, '[');
  for (int i = 0; i < traffic->count; i++) {
    const attune_traffic_row *row = &traffic->row[i];
    attune__json_begin(json, '{');
    show_json_text(json, "name", row->tensor);
    show_json_text(json, "formula", row->formula);
    show_json_real(json, "requested_read", row->requested_read);
    show_json_real(json, "requested_write", row->requested_write);
    show_json_real(json, "compulsory_read", row->compulsory_read);
    show_json_real(json, "compulsory_write", row->compulsory_write);
    attune__json_end(json, '}');
  }
  attune__json_end(json, ']');
  attune__json_end(json, '}');
}

void show_json_ledger(attune__json *json, const attune_ledger *ledger) {
  attune__json_key(json, "ledger");
  attune__json_begin(json, '{');
  show_json_count(json, "bytes", ledger->bytes);
  attune__json_key(json, "pieces");
  attune__json_begin(json, '[');
  for (int i = 0; i < ledger->count; i++) {
    const attune_piece *piece = &ledger->piece[i];
    attune__json_begin(json, '{');
    show_json_text(json, "name", piece->name);
    show_json_text(json, "type", piece->ctype);
    show_json_count(json, "rows", piece->rows);
    show_json_count(json, "columns", piece->columns);
    show_json_count(json, "offset", piece->offset);
    show_json_count(json, "bytes", piece->bytes);
    show_json_text(json, "note", piece->note);
    attune__json_end(json, '}');
  }
  attune__json_end(json, ']');
  attune__json_end(json, '}');
}

void show_refused(attune__text *out, const attune_plan *plan) {
  char reason[ATTUNE_REASON_MAX];
  if (plan->refused_count) attune__text_puts(out, "\nfamilies without such kernels\n");
  for (int i = 0; i < plan->refused_count; i++)
    attune__text_printf(out, "  %-4s %s\n", attune__family_name(plan->refused[i].family),
                        plan->refused[i].reason);
  if (!attune__plan_fallback(plan, reason, sizeof reason)) return;
  attune__text_printf(out, "%sfamily %s, a slower one, stands in%s%s\n",
                      plan->refused_count ? "" : "\n",
                      attune__family_name(plan->candidates[0].tile.family),
                      plan->refused_count ? "" : ": ", plan->refused_count ? "" : reason);
}

static void json_refused(attune__json *json, const attune_plan *plan) {
  char reason[ATTUNE_REASON_MAX];
  attune__json_key(json, "refused_families");
  attune__json_begin(json, '[');
  for (int i = 0; i < plan->refused_count; i++) {
    attune__json_begin(json, '{');
    show_json_text(json, "family", attune__family_name(plan->refused[i].family));
    show_json_text(json, "reason", plan->refused[i].reason);
    attune__json_end(json, '}');
  }
  attune__json_end(json, ']');
  show_json_text(json, "fallback",
                 attune__plan_fallback(plan, reason, sizeof reason) ? reason : NULL);
}

void show_json_request(attune__json *json, const attune_plan *plan) {
  show_json_text(json, "board", plan->request.board->name);
  show_json_count(json, "budget", attune__plan_budget(&plan->request));
  attune__json_key(json, "measured");
  attune__json_bool(json, 0);
  show_json_shape(json, &plan->request.shape);
  json_refused(json, plan);
}

void show_json_candidate(attune__json *json, const attune_plan *plan, const attune_candidate *c) {
  const attune_variant *v = &plan->request.variant;
  attune_traffic traffic;
  attune__model(v->op, v->part, c->tile.family)
      ->traffic(v, &c->tile, &plan->request.shape, &traffic);
  attune__json_begin(json, '{');
  show_json_text(json, "name", c->name);
  show_json_tile(json, &c->tile);
  attune__json_key(json, "legal");
  attune__json_bool(json, c->legal);
  if (!c->legal) show_json_text(json, "reason", c->reason);
  show_json_count(json, "registers", c->registers);
  if (c->legal) show_json_cost(json, &c->cost);
  show_json_traffic(json, &traffic);
  show_json_ledger(json, &c->ledger);
  attune__json_end(json, '}');
}
