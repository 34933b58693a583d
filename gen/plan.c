/* plan.c - lists the tiles of a variant, drops those that cannot be, orders the rest.
 * In: variant, budget, board, shape. Out: candidates, best first, then the dropped with a reason
 * each. What tiles there are, and what they cost, is the models' (model_*.c). */
#include "plan.h"

#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t attune__plan_budget(const attune_plan_request *request) {
  uint32_t board = (uint32_t)request->board->smem_block;
  return request->budget && request->budget < board ? request->budget : board;
}

attune_shape attune__plan_shape(attune_class cls) {
  attune_shape shape = {.batch = 4,
                        .heads_q = 16,
                        .heads_kv = 16,
                        .len_q = 2048,
                        .len_k = 2048,
                        .window_left = 512, /* of use to mask window alone */
                        .window_right = 0,
                        .corner = ATTUNE_CORNER_BOTTOM_RIGHT};
  if (cls == ATTUNE_CLASS_DECODE) shape.len_q = 1;
  if (cls == ATTUNE_CLASS_SHORT_FEW || cls == ATTUNE_CLASS_BRIEF_MANY)
    shape.len_q = shape.len_k = 256;
  if (cls == ATTUNE_CLASS_SHORT_MANY) shape.len_q = shape.len_k = 512;
  if (cls == ATTUNE_CLASS_SHORT_FEW || cls == ATTUNE_CLASS_LONG_FEW) shape.batch = 1;
  if (cls == ATTUNE_CLASS_MEDIUM_MANY) shape.len_q = shape.len_k = 1024;
  if (cls == ATTUNE_CLASS_BRIEF_MANY || cls == ATTUNE_CLASS_SHORT_MANY ||
      cls == ATTUNE_CLASS_MEDIUM_MANY || cls == ATTUNE_CLASS_LONG_MANY)
    shape.batch = 16;
  return shape;
}

attune_class attune__class_of(const attune_shape *shape) {
  return attune__shape_class(shape->batch, shape->heads_q, shape->len_q, shape->len_k);
}

attune_shape attune__shape_pinned(const attune_shape *shape, const attune_pinset *pins) {
  attune_shape s = *shape;
  for (uint32_t i = 0; pins && i < pins->count; i++) {
    const char *name = pins->pin[i].name;
    int64_t value = (int64_t)pins->pin[i].value;
    if (!strcmp(name, "batch")) s.batch = value;
    if (!strcmp(name, "heads_q")) s.heads_q = value;
    if (!strcmp(name, "heads_kv")) s.heads_kv = value;
    if (!strcmp(name, "len_q")) s.len_q = value;
    if (!strcmp(name, "len_k")) s.len_k = value;
    if (!strcmp(name, "bottom_right"))
      s.corner = value ? ATTUNE_CORNER_BOTTOM_RIGHT : ATTUNE_CORNER_TOP_LEFT;
    if (!strcmp(name, "window_left")) s.window_left = value;
    if (!strcmp(name, "window_right")) s.window_right = value;
  }
  return s;
}

int attune__tile_matches(const attune_tile_pins *pins, uint32_t derived, const attune_tile *tile) {
  uint32_t fixed = pins->fixed & ~derived;
#define X(type, field, letters, def, constant, text)                                               \
  if (fixed >> ATTUNE__TILE_##field & 1 && pins->tile.field != tile->field) return 0;
  ATTUNE_TILE_FIELDS(X)
#undef X
  return 1;
}

static void say_over_budget(const attune_plan_request *request, attune_candidate *c) {
  uint32_t budget = attune__plan_budget(request), board = (uint32_t)request->board->smem_block;
  attune__text text = {0};
  attune__text_puts(&text, "shared memory: needs ");
  attune__text_grouped(&text, c->ledger.bytes);
  attune__text_printf(&text, " bytes, %s ", budget < board ? "budget" : request->board->arch_name);
  attune__text_grouped(&text, budget);
  snprintf(c->reason, sizeof c->reason, "%s", text.failed ? "shared memory" : text.data);
  attune__text_free(&text);
}

static int64_t keys_to_take(const attune_plan_request *request) {
  return request->keys > request->shape.len_k ? request->keys : request->shape.len_k;
}

/* Whether there are more keys than the tile takes. A spec that names the family is taken at its
 * word: the launch refuses such shapes. */
static int too_many_keys(const attune_plan_request *request, const attune_tile *tile) {
  int32_t most = attune__tile_max_len_k(tile);
  return most && !request->family && keys_to_take(request) > most;
}

static void judge(const attune_plan_request *request, const attune_model *model,
                  attune_candidate *c) {
  const attune_variant *v = &request->variant;
  attune__tile_name(&c->tile, c->name);
  model->ledger(v, &c->tile, &c->ledger);
  c->registers = model->registers(v, &c->tile);
  if (!attune__tile_legal(model, v, &c->tile, c->reason, sizeof c->reason)) return;
  if (!attune__tile_matches(&request->pins, model->derived, &c->tile)) {
    snprintf(c->reason, sizeof c->reason, "tile: not what the spec asks for");
  } else if (too_many_keys(request, &c->tile)) {
    snprintf(c->reason, sizeof c->reason, "keys: there are %lld, the tile takes %d",
             (long long)keys_to_take(request), attune__tile_max_len_k(&c->tile));
  } else if (c->ledger.bytes > attune__plan_budget(request)) {
    say_over_budget(request, c);
  } else {
    c->legal = 1;
    model->cost(v, &c->tile, request->board, &request->shape, &c->cost);
  }
}

/* Legal before not; legal ones by time; else, and among equals, by name. */
static int by_order(const void *left, const void *right) {
  const attune_candidate *a = left, *b = right;
  if (a->legal != b->legal) return b->legal - a->legal;
  if (a->legal && a->cost.total != b->cost.total) return a->cost.total < b->cost.total ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* Knobs that the spec fixes hold for every candidate: a model lists its sizes, not all orders of
 * each. Returns how many different tiles are left. */
static int pin_knobs(const attune_plan_request *request, const attune_model *model,
                     attune_tile *tiles, int count) {
  const attune_tile_pins *pins = &request->pins;
  int kept = 0;
  for (int i = 0; i < count; i++) {
    attune_tile tile = tiles[i];
#define X(type, field, letters, def, constant, text)                                               \
  if (pins->fixed & model->knobs & 1u << ATTUNE__TILE_##field) tile.field = pins->tile.field;
    ATTUNE_TILE_FIELDS(X)
#undef X
    int known = 0;
    for (int j = 0; j < kept && !known; j++) known = !memcmp(&tiles[j], &tile, sizeof tile);
    if (!known) tiles[kept++] = tile;
  }
  return kept;
}

static int fixes_all_of(const attune_tile_pins *pins, const attune_model *model) {
#define X(type, field, letters, def, constant, text)                                               \
  if (attune__model_has(model, ATTUNE__TILE_##field) &&                                            \
      !(pins->fixed >> ATTUNE__TILE_##field & 1))                                                  \
    return 0;
  ATTUNE_TILE_FIELDS(X)
#undef X
  return 1;
}

/* A tile that is fixed in every field that its family has is a candidate whether the model lists it
 * or not: a measured one may be none of the list, and a data sheet's spec stands for its kernel. */
static int add_pinned(const attune_plan_request *request, const attune_model *model,
                      attune_tile *tiles, int count) {
  if (!request->family || count == ATTUNE_MAX_CANDIDATES || !fixes_all_of(&request->pins, model))
    return count;
  attune_tile tile = request->pins.tile;
  tile.family = (uint8_t)request->family;
  for (int i = 0; i < count; i++)
    if (!memcmp(&tiles[i], &tile, sizeof tile)) return count;
  tiles[count] = tile;
  return count + 1;
}

static attune_status add_family(attune_plan *plan, int family) {
  const attune_plan_request *request = &plan->request;
  if (request->family && request->family != family) return ATTUNE_OK;
  attune_refusal *refusal = &plan->refused[plan->refused_count];
  refusal->family = family;
  if (!attune__family_serves(&request->variant, family, refusal->reason, sizeof refusal->reason)) {
    plan->refused_count++;
    return ATTUNE_OK;
  }
  const attune_model *model = attune__model(request->variant.op, request->variant.part, family);
  attune_tile tiles[ATTUNE_MAX_CANDIDATES];
  int count = model->candidates(&request->variant, tiles, ATTUNE_MAX_CANDIDATES);
  count = add_pinned(request, model, tiles, pin_knobs(request, model, tiles, count));
  size_t all = (size_t)plan->count + (size_t)count;
  attune_candidate *grown = realloc(plan->candidates, all * sizeof *grown);
  if (!grown) return attune_fail(ATTUNE_NO_MEMORY, "a plan of %zu candidates", all);
  plan->candidates = grown;
  for (int i = 0; i < count; i++) {
    attune_candidate *c = &plan->candidates[plan->count++];
    memset(c, 0, sizeof *c);
    c->tile = tiles[i];
    judge(request, model, c);
    plan->legal_count += c->legal;
  }
  return ATTUNE_OK;
}

attune_status attune__plan_make(const attune_plan_request *request, attune_plan *out) {
  memset(out, 0, sizeof *out);
  out->request = *request;
  attune_status status = attune__generated(&request->variant);
  if (!request->board) out->request.board = attune__board(request->variant.arch);
#define X(name, id, text, doc)                                                                     \
  if (status == ATTUNE_OK) status = add_family(out, id);
  ATTUNE_FAMILIES(X)
#undef X
  if (status != ATTUNE_OK) {
    attune__plan_free(out);
    return status;
  }
  if (out->count) qsort(out->candidates, (size_t)out->count, sizeof *out->candidates, by_order);
  return out->legal_count ? ATTUNE_OK : attune__plan_no_fit(out);
}

/* The tile of a family that is over the budget by least, or the first; NULL when one is legal, or
 * when the family is made for fewer keys. */
static const attune_candidate *nearest_tile(const attune_plan *plan, int family) {
  const attune_candidate *best = NULL;
  for (int i = 0; i < plan->count; i++) {
    const attune_candidate *c = &plan->candidates[i];
    if (c->tile.family != family) continue;
    if (c->legal || too_many_keys(&plan->request, &c->tile)) return NULL;
    if (!best || c->ledger.bytes < best->ledger.bytes) best = c;
  }
  return best;
}

static int falls_back_from(const attune_plan *plan, int family, char *reason, size_t size) {
  for (int i = 0; i < plan->refused_count; i++) {
    if (plan->refused[i].family != family) continue;
    snprintf(reason, size, "%s", plan->refused[i].reason);
    return !attune__family_is_apart(&plan->request.variant, family);
  }
  const attune_candidate *c = nearest_tile(plan, family);
  if (!c) return 0;
  snprintf(reason, size, "family %s has no tile that fits: %s: %s", attune__family_name(family),
           c->name, c->reason);
  return 1;
}

int attune__plan_fallback(const attune_plan *plan, char *reason, size_t size) {
  if (!plan->legal_count || plan->request.family || plan->request.pins.fixed) return 0;
  int chosen = plan->candidates[0].tile.family;
#define X(name, id, text, doc)                                                                     \
  if (id > chosen && falls_back_from(plan, id, reason, size)) return 1;
  ATTUNE_FAMILIES(X)
#undef X
  return 0;
}

void attune__plan_free(attune_plan *plan) {
  free(plan->candidates);
  memset(plan, 0, sizeof *plan);
}
