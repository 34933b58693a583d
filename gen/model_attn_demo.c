/* model_attn_demo.c - attn_demo, family fma: attention made wrong or old on purpose, what
 * templates/attn_demo/fma.cu needs and moves.
 *
 *   norescale, nomax   attn_fwd's loops: a block owns block_m rows and walks over the keys
 *   fa1                a block owns a head; for each block_n keys it walks over all rows, and O and
 *                      LSE of every row go out and come back in */
#include "model_fma.h"

static int is_fa1(const attune_variant *v) {
  return (v->features & ATTUNE_FEATURE_FA1) != 0;
}

static int candidates(const attune_variant *v, attune_tile *out, int max) {
  (void)v;
  return attune__fma_candidates(out, max, FMA_APART);
}

/* Of the product beside O, or of the load of a tile. */
static int registers(const attune_variant *v, const attune_tile *t) {
  int rows = attune__fma_rows_per_thread(t), cols = attune__fma_cols_per_thread(t);
  int o = rows * attune__fma_padded_v(v->head_dim_v) / FMA_LANES;
  int product = rows * cols + o + 4 * (rows + cols) + 3 * rows + 48, load = o + 2 * rows + 112;
  if (load > FMA_MAX_REGISTERS) load = FMA_MAX_REGISTERS;
  return product > load ? product : load;
}

static int legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  return attune__fma_legal_fields(t, 0, reason, size) &&
         attune__fma_legal_blocks(t, reason, size) &&
         attune__fma_legal_registers(registers(v, t), reason, size);
}

static void ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  attune__fma_add_q(out, v, t);
  attune__fma_add_k(out, v, t);
  attune__fma_add_v(out, v, t);
  attune__fma_add_p(out, t);
}

/* A tile of rows a block; in fa1 that is every row of the head. */
static void recipe(const attune_variant *v, const attune_tile *t, attune_recipe *out) {
  (void)t;
  out->grid = ATTUNE_GRID_Q_TILES, out->workspace = ATTUNE_WORKSPACE_NONE;
  if (is_fa1(v)) out->block_m = ATTUNE_LENGTH_LIMIT;
}

/* Elements' bytes a row of Q, K, V and O. */
typedef struct row_bytes {
  double q, k, v, o;
} row_bytes;

static row_bytes bytes_of(const attune_variant *v) {
  double kv = attune__dtype_bytes(v->dtype_kv);
  return (row_bytes){v->head_dim_qk * (double)attune__dtype_bytes(v->dtype_q), v->head_dim_qk * kv,
                     v->head_dim_v * kv, v->head_dim_v * (double)attune__dtype_bytes(v->dtype_out)};
}

static void rows_outside(const row_bytes *b, const attune_shape *s, double blocks,
                         attune_traffic *out) {
  double rows = (double)(s->batch * s->heads_q * s->len_q);
  double requested = (double)(s->batch * s->heads_q * s->len_k) * blocks;
  double distinct = blocks > 0 ? (double)(s->batch * s->heads_kv * s->len_k) : 0;
  attune__traffic_read(out, "Q", "batch * heads_q * len_q * head_dim_qk", b->q, rows, rows);
  attune__traffic_read(out, "K", "batch * heads_q * blocks * len_k * head_dim_qk", b->k, requested,
                       distinct);
  attune__traffic_read(out, "V", "batch * heads_q * blocks * len_k * head_dim_v", b->v, requested,
                       distinct);
  attune__traffic_write(out, "O", "batch * heads_q * len_q * head_dim_v", b->o, rows);
  attune__traffic_write(out, "LSE", "batch * heads_q * len_q", 4, rows);
}

/* O and LSE are written once for every tile of keys (without keys once), and read again but for
 * the first. */
static void keys_outside(const row_bytes *b, const attune_shape *s, double tiles,
                         attune_traffic *out) {
  double rows = (double)(s->batch * s->heads_q * s->len_q);
  double keys = (double)(s->batch * s->heads_q * s->len_k);
  double distinct = (double)(s->batch * s->heads_kv * s->len_k);
  double back = tiles > 1 ? tiles - 1 : 0, again = tiles > 1 ? rows : 0;
  attune__traffic_read(out, "Q", "batch * heads_q * len_q * tiles_n * head_dim_qk", b->q,
                       rows * tiles, rows);
  attune__traffic_read(out, "K", "batch * heads_q * len_k * head_dim_qk", b->k, keys, distinct);
  attune__traffic_read(out, "V", "batch * heads_q * len_k * head_dim_v", b->v, keys, distinct);
  attune__traffic_read(out, "O", "batch * heads_q * len_q * (tiles_n - 1) * head_dim_v", b->o,
                       rows * back, again);
  attune__traffic_write_again(out, "O", "batch * heads_q * len_q * tiles_n * head_dim_v", b->o,
                              rows * tiles, rows);
  attune__traffic_read(out, "LSE", "batch * heads_q * len_q * (tiles_n - 1)", 4, rows * back,
                       again);
  attune__traffic_write_again(out, "LSE", "batch * heads_q * len_q * tiles_n", 4, rows * tiles,
                              rows);
}

static double tiles_of(int64_t length, int block) {
  return (double)((length + block - 1) / block);
}

static void traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                    attune_traffic *out) {
  row_bytes bytes = bytes_of(v);
  *out = (attune_traffic){0};
  if (is_fa1(v))
    keys_outside(&bytes, s, s->len_k ? tiles_of(s->len_k, t->block_n) : 1, out);
  else
    rows_outside(&bytes, s, tiles_of(s->len_q, t->block_m), out);
}

static void cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                 const attune_shape *s, attune_cost *out) {
  attune_traffic bytes;
  attune_ledger smem = {.count = 0};
  traffic(v, t, s, &bytes);
  ledger(v, t, &smem);
  double heads = (double)(s->batch * s->heads_q), rows = tiles_of(s->len_q, t->block_m);
  double keys = tiles_of(s->len_k, t->block_n), blocks = is_fa1(v) ? heads : heads * rows;
  attune_work work = {.blocks = blocks,
                      .steps = heads * rows * keys,
                      .step_waits = is_fa1(v) ? 2 : 1,
                      .kv_bytes = attune__kv_bytes(v, s),
                      .blocks_per_head = is_fa1(v) ? 1 : rows,
                      .warps = t->warps,
                      .registers = registers(v, t),
                      .smem_bytes = smem.bytes};
  attune__fma_add_load(&work, t->block_m, v->head_dim_qk, is_fa1(v) ? work.steps : blocks);
  attune__fma_add_load(&work, t->block_n, v->head_dim_qk + v->head_dim_v,
                       is_fa1(v) ? heads * keys : work.steps);
  attune__fma_add_scores(&work, v, t, work.steps);
  attune__fma_add_softmax(&work, v, t, work.steps);
  attune__fma_add_output(&work, v, t, work.steps);
  attune__work_cost(b, &work, &bytes, out);
}

const attune_model attune__model_attn_demo_fma = {
    .op = ATTUNE_OP_ATTN_DEMO,
    .family = ATTUNE_FAMILY_FMA,
    .template_path = "attn_demo/fma.cu",
    .candidates = candidates,
    .legal = legal,
    .ledger = ledger,
    .constants = attune__fma_constants,
    .recipe = recipe,
    .registers = registers,
    .traffic = traffic,
    .cost = cost,
};
