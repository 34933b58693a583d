/* model_attn_standard_fma.c - attn_standard, family fma: the three kernels that materialise S and
 * P, what templates/attn_standard/{qk,softmax,pv}.cu need and cost.
 *
 *   qk       S = scale Q K^T, every tile, masks or not
 *   softmax  a warp a row: pass 1 reads the kept keys, pass 2 reads them again and writes the row
 *   pv       O = P V over the keys that the block's rows can see */
#include "model_fma.h"

#include <stdio.h>
#include <string.h>

static int block_candidates(const attune_variant *v, attune_tile *out, int max) {
  (void)v;
  return attune__fma_candidates(out, max, 0);
}

/* ---- qk ---- */

static int qk_registers(const attune_variant *v, const attune_tile *t) {
  (void)v;
  int rows = attune__fma_rows_per_thread(t), cols = attune__fma_cols_per_thread(t);
  return rows * cols + 4 * (rows + cols) + 40;
}

static int qk_legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  return attune__fma_legal_fields(t, 0, reason, size) &&
         attune__fma_legal_blocks(t, reason, size) &&
         attune__fma_legal_registers(qk_registers(v, t), reason, size);
}

static void qk_ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  attune__fma_add_q(out, v, t);
  attune__fma_add_k(out, v, t);
}

static void qk_recipe(const attune_variant *v, const attune_tile *t, attune_recipe *out) {
  (void)v, (void)t;
  out->grid = ATTUNE_GRID_S_TILES, out->workspace = ATTUNE_WORKSPACE_SCORES;
}

const attune_model attune__model_attn_standard_qk_fma = {
    .op = ATTUNE_OP_ATTN_STANDARD,
    .part = 0,
    .family = ATTUNE_FAMILY_FMA,
    .template_path = "attn_standard/qk.cu",
    .candidates = block_candidates,
    .legal = qk_legal,
    .ledger = qk_ledger,
    .constants = attune__fma_constants,
    .recipe = qk_recipe,
    .registers = qk_registers,
};

/* ---- softmax ---- */

static int softmax_candidates(const attune_variant *v, attune_tile *out, int max) {
  (void)v;
  int count = 0;
  for (int warps = 2; warps <= 8 && count < max; warps *= 2) {
    attune_tile *tile = &out[count++];
    memset(tile, 0, sizeof *tile);
    tile->family = ATTUNE_FAMILY_FMA, tile->stages = 1;
    tile->warps = (uint8_t)warps, tile->block_m = (uint16_t)warps;
  }
  return count;
}

static int softmax_legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  (void)v;
  if (!attune__fma_legal_fields(t, 0, reason, size)) return 0;
  if (t->block_m == t->warps && t->block_n == 0) return 1;
  snprintf(reason, size, "block_m %d, block_n %d: a warp takes a row, so they are %d and 0",
           t->block_m, t->block_n, t->warps);
  return 0;
}

static void softmax_ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  (void)v, (void)t, (void)out; /* nothing is shared: a row stays in its warp's registers */
}

static void row_recipe(const attune_variant *v, const attune_tile *t, attune_recipe *out) {
  (void)v, (void)t;
  out->grid = ATTUNE_GRID_Q_TILES, out->workspace = ATTUNE_WORKSPACE_SCORES;
}

static int softmax_registers(const attune_variant *v, const attune_tile *t) {
  (void)v, (void)t;
  return 40;
}

const attune_model attune__model_attn_standard_softmax_fma = {
    .op = ATTUNE_OP_ATTN_STANDARD,
    .part = 1,
    .family = ATTUNE_FAMILY_FMA,
    .template_path = "attn_standard/softmax.cu",
    .candidates = softmax_candidates,
    .legal = softmax_legal,
    .ledger = softmax_ledger,
    .constants = attune__fma_constants,
    .recipe = row_recipe,
    .registers = softmax_registers,
};

/* ---- pv ---- */

static int pv_registers(const attune_variant *v, const attune_tile *t) {
  int rows = attune__fma_rows_per_thread(t);
  return rows * attune__fma_padded_v(v->head_dim_v) / FMA_LANES + 4 * rows + 48;
}

static int pv_legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  return attune__fma_legal_fields(t, 0, reason, size) &&
         attune__fma_legal_blocks(t, reason, size) &&
         attune__fma_legal_registers(pv_registers(v, t), reason, size);
}

static void pv_ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  attune__fma_add_p(out, t);
  attune__fma_add_v(out, v, t);
}

const attune_model attune__model_attn_standard_pv_fma = {
    .op = ATTUNE_OP_ATTN_STANDARD,
    .part = 2,
    .family = ATTUNE_FAMILY_FMA,
    .template_path = "attn_standard/pv.cu",
    .candidates = block_candidates,
    .legal = pv_legal,
    .ledger = pv_ledger,
    .constants = attune__fma_constants,
    .recipe = row_recipe,
    .registers = pv_registers,
};
