/* plan_no_fit.c - what to tell a user for whose wish no tile is legal: the smallest ledger, the
 * gap, and the nearest spec that works. */
#include "plan.h"

#include "text.h"

#include <string.h>

/* The tile that is over the budget by least; NULL when none failed by the budget. */
static const attune_candidate *smallest(const attune_plan *plan) {
  const attune_candidate *best = NULL;
  for (int i = 0; i < plan->count; i++) {
    const attune_candidate *c = &plan->candidates[i];
    if (strncmp(c->reason, "shared memory", strlen("shared memory")) != 0) continue;
    if (!best || c->ledger.bytes < best->ledger.bytes) best = c;
  }
  return best;
}

/* Whether some tile would do for other head dims, all else equal. */
static int fits(const attune_plan *plan, int qk, int v) {
  attune_variant variant = plan->request.variant;
  variant.head_dim_qk = (uint16_t)qk, variant.head_dim_v = (uint16_t)v;
  char ignored[160];
  for (int i = 0; i < plan->count; i++) {
    const attune_tile *tile = &plan->candidates[i].tile;
    const attune_model *model = attune__model(variant.op, variant.part, tile->family);
    attune_ledger ledger = {.count = 0};
    if (!attune__tile_matches(&plan->request.pins, model->derived, tile) ||
        !attune__tile_legal(model, &variant, tile, ignored, sizeof ignored))
      continue;
    model->ledger(&variant, tile, &ledger);
    if (ledger.bytes <= attune__plan_budget(&plan->request)) return 1;
  }
  return 0;
}

/* ", or head_dim 96": the largest that works; nothing when none does. */
static void add_head_dim(const attune_plan *plan, attune__text *text) {
  int qk = plan->request.variant.head_dim_qk, v = plan->request.variant.head_dim_v;
  for (int limit = (qk > v ? qk : v) - 8; limit >= 8; limit -= 8) {
    int less_qk = qk < limit ? qk : limit, less_v = v < limit ? v : limit;
    if (!fits(plan, less_qk, less_v)) continue;
    if (less_qk == less_v) {
      attune__text_printf(text, ", or head_dim %d", less_qk);
    } else {
      attune__text_printf(text, ", or head_dim {qk: %d, v: %d}", less_qk, less_v);
    }
    return;
  }
}

static void say_budget(const attune_plan *plan, const attune_candidate *c, attune__text *text) {
  uint32_t need = c->ledger.bytes, have = attune__plan_budget(&plan->request);
  attune__text_puts(text, "budget ");
  attune__text_grouped(text, have);
  attune__text_printf(text, " bytes of shared memory; the smallest tile, %s, needs ", c->name);
  attune__text_grouped(text, need);
  attune__text_puts(text, ", which is ");
  attune__text_grouped(text, need - have);
  attune__text_puts(text, " more; ");
  uint32_t kb = (need + 1023) / 1024; /* a spec counts in whole KB */
  if (kb * 1024 <= (uint32_t)plan->request.board->smem_block) {
    attune__text_printf(text, "sram: %uKB works", kb);
  } else {
    attune__text_printf(text, "no sram of %s works", plan->request.board->arch_name);
  }
  add_head_dim(plan, text);
  if (plan->request.pins.fixed) attune__text_puts(text, ", or fewer tile pins");
}

/* Without a tile that fails by the budget alone, the wish itself is impossible. */
static void say_pins(const attune_plan *plan, attune__text *text) {
  if (!plan->count) { /* the family that was asked for has no kernels of the variant */
    attune__text_printf(text, "%s", plan->refused_count ? plan->refused[0].reason : "no family");
    return;
  }
  const char *reason = NULL;
  for (int i = 0; i < plan->count && !reason; i++) {
    const attune_candidate *c = &plan->candidates[i];
    const attune_model *model =
        attune__model(plan->request.variant.op, plan->request.variant.part, c->tile.family);
    if (attune__tile_matches(&plan->request.pins, model->derived, &c->tile)) reason = c->reason;
  }
  attune__text_puts(text, "tile pins: ");
  attune__text_puts(text, reason ? reason : "no candidate has these values");
  attune__text_puts(text, "; `attune explain` lists the tiles");
}

attune_status attune__plan_no_fit(const attune_plan *plan) {
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&plan->request.variant, 0, name);
  attune__text text = {0};
  const attune_candidate *c = smallest(plan);
  if (c)
    say_budget(plan, c, &text);
  else
    say_pins(plan, &text);
  attune_status status =
      text.failed ? attune_fail(ATTUNE_NO_MEMORY, "no tile of %s fits", name)
                  : attune_fail(ATTUNE_NO_FIT, "no tile of %s fits: %s", name, text.data);
  attune__text_free(&text);
  return status;
}
