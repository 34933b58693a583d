/* model_attn_fwd.c - what attn_fwd is in every family: its grid, and the bytes that it moves. */
#include "model_attn_fwd.h"

void attune__forward_recipe(const attune_variant *v, const attune_tile *t, attune_recipe *out) {
  (void)t;
  out->grid = v->features & ATTUNE_FEATURE_VARLEN ? ATTUNE_GRID_VARLEN_TILES : ATTUNE_GRID_Q_TILES;
  out->workspace = ATTUNE_WORKSPACE_NONE;
}

static void traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s, int whole,
                    attune_traffic *out) {
  double heads = (double)(s->batch * s->heads_q), kv_heads = (double)(s->batch * s->heads_kv);
  double rows = heads * (double)s->len_q, kv_bytes = attune__dtype_bytes(v->dtype_kv);
  attune_mask_sums sums;
  int64_t begin, end;
  attune__mask_blocks(v, s, t->block_m, t->block_n, &sums);
  attune__mask_range(v, s, 0, s->len_q, &begin, &end);
  double requested = heads / v->group * (double)(whole ? sums.loaded : sums.keys),
         distinct = kv_heads * (double)(end - begin);
  *out = (attune_traffic){0};
  attune__traffic_read(out, "Q", "batch * heads_q * len_q * head_dim_qk",
                       v->head_dim_qk * attune__dtype_bytes(v->dtype_q), rows, rows);
  attune__traffic_read(out, "K",
                       v->group > 1 ? "batch * heads_q / group * keys * head_dim_qk"
                                    : "batch * heads_q * keys * head_dim_qk",
                       v->head_dim_qk * kv_bytes, requested, distinct);
  attune__traffic_read(out, "V",
                       v->group > 1 ? "batch * heads_q / group * keys * head_dim_v"
                                    : "batch * heads_q * keys * head_dim_v",
                       v->head_dim_v * kv_bytes, requested, distinct);
  attune__traffic_write(out, "O", "batch * heads_q * len_q * head_dim_v",
                        v->head_dim_v * attune__dtype_bytes(v->dtype_out), rows);
  attune__traffic_write(out, "LSE", "batch * heads_q * len_q", 4, rows);
}

void attune__forward_traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                             attune_traffic *out) {
  traffic(v, t, s, 0, out);
}

void attune__forward_traffic_whole(const attune_variant *v, const attune_tile *t,
                                   const attune_shape *s, attune_traffic *out) {
  traffic(v, t, s, 1, out);
}

void attune__forward_bulk_traffic(const attune_variant *v, const attune_shape *s,
                                  const attune_mask_sums *sums, double word_bytes,
                                  attune_traffic *out) {
  double heads = (double)(s->batch * s->heads_q), looked = heads / v->group * (double)sums->pairs;
  double pairs = v->features & (ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_BITMASK)
                     ? heads * attune__mask_pairs(v, s)
                     : 0;
  if (v->features & ATTUNE_FEATURE_BIAS)
    attune__traffic_read(out, "BIAS", "batch * heads_q * pairs of blocks",
                         attune__dtype_bytes(v->dtype_q), looked, pairs);
  if (v->features & ATTUNE_FEATURE_BITMASK)
    attune__traffic_read(out, "BITS", "batch * heads_q * pairs of blocks", 1, looked * word_bytes,
                         pairs / 8);
}

/* Looks at cu_seqlens_q in the search for a tile's sequence, over all tiles; prim/place.cuh. */
static double searches(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                       int64_t tiles) {
  double looks = 0;
  for (int64_t tile = 0; tile < tiles; tile++)
    for (int64_t low = 0, high = s->batch; high - low > 1; looks++) {
      int64_t middle = (low + high) / 2;
      if (middle * s->len_q * v->group / t->block_m + middle <= tile)
        low = middle;
      else
        high = middle;
    }
  return looks;
}

/* Beside the search each thread reads where its sequence begins and ends. */
void attune__forward_varlen_traffic(const attune_variant *v, const attune_tile *t,
                                    const attune_shape *s, int threads_block, attune_traffic *out) {
  int64_t tiles = s->batch * s->len_q * v->group / t->block_m + s->batch;
  double threads = threads_block * (double)(s->heads_q / v->group), all = (double)s->batch + 1;
  double blocks = (double)tiles * threads;
  attune__traffic_read(out, "CU_Q", "threads * (2 + log2(batch))", 4,
                       2 * blocks + threads * searches(v, t, s, tiles), all);
  attune__traffic_read(out, "CU_K", "threads * 2", 4, 2 * blocks, all);
}
