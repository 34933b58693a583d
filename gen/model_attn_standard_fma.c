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
  return attune__fma_candidates(out, max, FMA_APART);
}

static double query_heads(const attune_shape *s) {
  return (double)(s->batch * s->heads_q);
}
static double key_heads(const attune_shape *s) {
  return (double)(s->batch * s->heads_kv);
}
static double query_rows(const attune_shape *s) {
  return query_heads(s) * (double)s->len_q;
}
/* All tensors but LSE are of one dtype, S and P too. */
static double element_bytes(const attune_variant *v) {
  return attune__dtype_bytes(v->dtype_q);
}
static double tiles(int64_t length, int block) {
  return (double)((length + block - 1) / block);
}

/* ---- qk ---- */

/* Of the product, or of the load of a tile. */
static int qk_registers(const attune_variant *v, const attune_tile *t) {
  (void)v;
  int rows = attune__fma_rows_per_thread(t), cols = attune__fma_cols_per_thread(t);
  int product = rows * cols + 4 * (rows + cols) + 40, load = 96;
  return product > load ? product : load;
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

/* A block for each tile of S: its rows of Q and of K; the tile, without the padding of its pitch.
 */
static void qk_traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                       attune_traffic *out) {
  double rows = query_rows(s), keys = (double)s->len_k;
  double tiles_n = tiles(s->len_k, t->block_n), tiles_m = tiles(s->len_q, t->block_m);
  double bytes = element_bytes(v), row_bytes = v->head_dim_qk * bytes;
  *out = (attune_traffic){0};
  attune__traffic_read(out, "Q", "batch * heads_q * len_q * tiles_n * head_dim_qk", row_bytes,
                       rows * tiles_n, tiles_n > 0 ? rows : 0);
  attune__traffic_read(out, "K", "batch * heads_q * len_k * tiles_m * head_dim_qk", row_bytes,
                       query_heads(s) * keys * tiles_m, tiles_m > 0 ? key_heads(s) * keys : 0);
  attune__traffic_write(out, "S", "batch * heads_q * len_q * len_k", bytes, rows * keys);
}

static void qk_cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                    const attune_shape *s, attune_cost *out) {
  attune_traffic bytes;
  attune_ledger smem = {.count = 0};
  qk_traffic(v, t, s, &bytes);
  qk_ledger(v, t, &smem);
  double per_head = tiles(s->len_q, t->block_m) * tiles(s->len_k, t->block_n);
  attune_work work = {.blocks = query_heads(s) * per_head,
                      .kv_bytes = attune__kv_bytes(v, s),
                      .blocks_per_head = per_head,
                      .warps = t->warps,
                      .registers = qk_registers(v, t),
                      .smem_bytes = smem.bytes};
  attune__fma_add_load(&work, t->block_m + t->block_n, v->head_dim_qk, work.blocks);
  attune__fma_add_scores(&work, v, t, work.blocks);
  work.instructions += work.blocks * t->block_m * t->block_n / 32 * 2; /* scale, store */
  attune__work_cost(b, &work, &bytes, out);
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
    .traffic = qk_traffic,
    .cost = qk_cost,
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

static void softmax_constants(attune_kernel *kernel) {
  (void)kernel; /* neither head dim nor V */
}

static int softmax_registers(const attune_variant *v, const attune_tile *t) {
  (void)v, (void)t;
  return 40;
}

/* Kept scores twice (the second time they come from L2 at best), then the whole row of P. */
static void softmax_traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                            attune_traffic *out) {
  (void)t;
  double pairs = query_heads(s) * attune__mask_pairs(v, s), rows = query_rows(s);
  double bytes = element_bytes(v);
  *out = (attune_traffic){0};
  attune__traffic_read(out, "S", "batch * heads_q * 2 * pairs", bytes, 2 * pairs, pairs);
  attune__traffic_write(out, "P", "batch * heads_q * len_q * len_k", bytes,
                        rows * (double)s->len_k);
  attune__traffic_write(out, "LSE", "batch * heads_q * len_q", 4, rows);
}

/* A pass over a row takes 32 keys a time: about 10 instructions with the online maximum and two ex2
 * in pass 1, 6 and one in pass 2; each pass waits for its first keys. */
static void softmax_cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                         const attune_shape *s, attune_cost *out) {
  attune_traffic bytes;
  softmax_traffic(v, t, s, &bytes);
  double per_head = tiles(s->len_q, t->block_m), pairs = query_heads(s) * attune__mask_pairs(v, s);
  attune_work work = {.blocks = query_heads(s) * per_head,
                      .steps = 2 * query_heads(s) * per_head,
                      .exponentials = 3 * pairs,
                      .instructions = 16 * pairs / 32,
                      .step_waits = 1,
                      .blocks_per_head = per_head,
                      .warps = t->warps,
                      .registers = softmax_registers(v, t)};
  attune__work_cost(b, &work, &bytes, out);
}

const attune_model attune__model_attn_standard_softmax_fma = {
    .op = ATTUNE_OP_ATTN_STANDARD,
    .part = 1,
    .family = ATTUNE_FAMILY_FMA,
    .template_path = "attn_standard/softmax.cu",
    .derived = 1u << ATTUNE__TILE_block_m | 1u << ATTUNE__TILE_block_n,
    .candidates = softmax_candidates,
    .legal = softmax_legal,
    .ledger = softmax_ledger,
    .constants = softmax_constants,
    .recipe = row_recipe,
    .registers = softmax_registers,
    .traffic = softmax_traffic,
    .cost = softmax_cost,
};

/* ---- pv ---- */

static int pv_registers(const attune_variant *v, const attune_tile *t) {
  int rows = attune__fma_rows_per_thread(t);
  return rows * (attune__fma_padded_v(v->head_dim_v) / FMA_LANES + 4) + 88;
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

/* P and V over the key range of each block of rows, masked pairs of that range included. */
static void pv_traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                       attune_traffic *out) {
  attune_mask_sums sums;
  int64_t begin, end;
  attune__mask_blocks(v, s, t->block_m, t->block_n, &sums);
  attune__mask_range(v, s, 0, s->len_q, &begin, &end);
  double scores = query_heads(s) * (double)sums.pairs;
  double bytes = element_bytes(v), row_bytes = v->head_dim_v * bytes;
  *out = (attune_traffic){0};
  attune__traffic_read(out, "P", "batch * heads_q * (rows * keys of each block)", bytes, scores,
                       scores);
  attune__traffic_read(out, "V", "batch * heads_q * keys * head_dim_v", row_bytes,
                       query_heads(s) * (double)sums.keys, key_heads(s) * (double)(end - begin));
  attune__traffic_write(out, "O", "batch * heads_q * len_q * head_dim_v", row_bytes, query_rows(s));
}

static void pv_cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                    const attune_shape *s, attune_cost *out) {
  attune_mask_sums sums;
  attune_traffic bytes;
  attune_ledger smem = {.count = 0};
  attune__mask_blocks(v, s, t->block_m, t->block_n, &sums);
  pv_traffic(v, t, s, &bytes);
  pv_ledger(v, t, &smem);
  attune_work work = {.blocks = query_heads(s) * (double)sums.blocks,
                      .steps = query_heads(s) * (double)sums.steps,
                      .step_waits = 1,
                      .kv_bytes = attune__kv_bytes(v, s),
                      .blocks_per_head = (double)sums.blocks,
                      .warps = t->warps,
                      .registers = pv_registers(v, t),
                      .smem_bytes = smem.bytes};
  attune__fma_add_load(&work, t->block_m, t->block_n, work.steps);
  attune__fma_add_load(&work, t->block_n, v->head_dim_v, work.steps);
  attune__fma_add_output(&work, v, t, work.steps);
  attune__work_cost(b, &work, &bytes, out);
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
    .traffic = pv_traffic,
    .cost = pv_cost,
};
