/* model_attn_fwd_fma.c - attn_fwd, family fma: what templates/attn_fwd/fma.cu needs and costs. */
#include "model_fma.h"

static int candidates(const attune_variant *v, attune_tile *out, int max) {
  (void)v;
  return attune__fma_candidates(out, max, 1);
}

/* Scores, O, the operands of one step of the micro-tile, m and l of each row, addresses. */
static int registers(const attune_variant *v, const attune_tile *t) {
  int rows = attune__fma_rows_per_thread(t), cols = attune__fma_cols_per_thread(t);
  int o = rows * attune__fma_padded_v(v->head_dim_v) / FMA_LANES;
  return rows * cols + o + 4 * (rows + cols) + 2 * rows + 40;
}

static int legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  return attune__fma_legal_fields(t, 1, reason, size) &&
         attune__fma_legal_blocks(t, reason, size) &&
         attune__fma_legal_registers(registers(v, t), reason, size);
}

static void ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  attune__fma_add_q(out, v, t);
  if (t->share_kv) {
    attune__fma_add_kv(out, v, t);
  } else {
    attune__fma_add_k(out, v, t);
    attune__fma_add_v(out, v, t);
  }
  attune__fma_add_p(out, t);
}

static void recipe(const attune_variant *v, const attune_tile *t, attune_recipe *out) {
  (void)v, (void)t;
  out->grid = ATTUNE_GRID_Q_TILES, out->workspace = ATTUNE_WORKSPACE_NONE;
}

const attune_model attune__model_attn_fwd_fma = {
    .op = ATTUNE_OP_ATTN_FWD,
    .family = ATTUNE_FAMILY_FMA,
    .template_path = "attn_fwd/fma.cu",
    .candidates = candidates,
    .legal = legal,
    .ledger = ledger,
    .constants = attune__fma_constants,
    .recipe = recipe,
    .registers = registers,
};
