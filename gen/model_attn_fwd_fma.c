/* model_attn_fwd_fma.c - attn_fwd, family fma: what templates/attn_fwd/fma.cu needs and costs. */
#include "model_attn_fwd.h"
#include "model_fma.h"

#include <stdio.h>

/* Whether tiles that hold whole rows leave little room: then a part of the columns is tried too. */
static int long_rows(const attune_variant *v) {
  return v->head_dim_qk > 256 || v->head_dim_v > 256;
}

static int candidates(const attune_variant *v, attune_tile *out, int max) {
  return attune__fma_candidates(out, max, long_rows(v) ? FMA_TURNS_OF_COLUMNS : FMA_TURNS);
}

/* Whether a tile's rows are no power of two of 16-byte chunks: finding a chunk's row then takes a
 * multiplication, and registers for it. */
static int uneven(int head_dim) {
  int chunks = head_dim / 4;
  return (chunks & (chunks - 1)) != 0;
}

/* What features keep in registers beside plain attention: the address of a row's bias and bits, its
 * slope, where its sequence and head lie. A few find room, though not a bias; weights after what
 * compiling showed. */
static int for_features(const attune_variant *v) {
  const uint32_t f = v->features;
  int weight = v->group > 1;
  if (f & ATTUNE_FEATURE_BIAS) weight += 2;
  if (f & ATTUNE_FEATURE_BITMASK) weight += attune__mask_has_lower(v->mask) ? 4 : 3;
  if (f & ATTUNE_FEATURE_ALIBI) weight++;
  if (f & ATTUNE_FEATURE_SOFTCAP) weight++;
  if (f & ATTUNE_FEATURE_VARLEN) weight++;
  if (!weight) return 0;
  const int lower = attune__mask_has_lower(v->mask);
  weight += lower + (v->align == ATTUNE_ALIGN_ELEM);
  if (weight > 3) return 8 * (weight - 1);
  return f & ATTUNE_FEATURE_BIAS ? 8 : 0;
}

/* The busier of two places: the product (scores, O, the operands of a step, m and l of each row,
 * addresses), or the load of a tile (O, m and l, chunks under way; beside a large O the compiler
 * keeps more of them when they are eight elements, or come one by one). The constants are what
 * NVRTC 13.0 needs to spill nowhere; the load of plain attention does with all of
 * 255 where it would like more. */
static int registers(const attune_variant *v, const attune_tile *t) {
  int rows = attune__fma_rows_per_thread(t), cols = attune__fma_cols_per_thread(t);
  int o = rows * attune__fma_padded_v(v->head_dim_v) / FMA_LANES;
  int product = rows * cols + o + 4 * (rows + cols) + 2 * rows + 40, load = o + 2 * rows + 104;
  int single = v->align == ATTUNE_ALIGN_ELEM, eight = attune__dtype_bytes(v->dtype_kv) == 2;
  load += (single || eight) && o > 32 ? 16 : single ? 8 : 0;
  int lower = attune__mask_has_lower(v->mask); /* one more bound to keep beside the load */
  if (!single && !eight && lower && (uneven(v->head_dim_qk) || uneven(v->head_dim_v))) load += 8;
  product += for_features(v), load += for_features(v);
  if (v->features & (ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_BITMASK) && rows * cols > 32)
    product += rows * cols / 2; /* what a row reads for its pairs, some rows at a time */
  if (load > FMA_MAX_REGISTERS && !v->features && v->group == 1) load = FMA_MAX_REGISTERS;
  return product > load ? product : load;
}

static int legal_turns(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  int longer = v->head_dim_qk > v->head_dim_v ? v->head_dim_qk : v->head_dim_v;
  if (!t->block_k || (t->share_kv && t->block_k % 64 == 0 && t->block_k < longer)) return 1;
  snprintf(reason, size,
           "block_k %d: with share_kv 1 K and V may come a multiple of 64 columns at a time, below "
           "%d here; 0: all",
           t->block_k, longer);
  return 0;
}

static int legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  return attune__fma_legal_fields(t, 1, reason, size) &&
         attune__fma_legal_blocks(t, reason, size) && legal_turns(v, t, reason, size) &&
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

static void traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                    attune_traffic *out) {
  attune__forward_traffic(v, t, s, out);
  attune__fma_feature_traffic(v, t, s, out);
}

/* Times per iteration that a block waits for K and V. */
static double step_waits(const attune_variant *v, const attune_tile *t) {
  if (!t->share_kv) return 1;
  return attune__fma_turns(t, v->head_dim_qk) + attune__fma_turns(t, v->head_dim_v);
}

/* Clocks of an iteration that a block alone waits for its barriers, sums over warps and accesses of
 * shared memory; and the share of the smaller ceilings that shows beside the largest, less with
 * more warps on an SM. Fitted to the order of tiles in the 80 fp32 cells of the default grid on an
 * H200, 2026-11-30: the first choice takes 3 % longer than the best on average, 22 % at worst. */
static const double step_latency = 2500, exposed = 0.5, exposed_by_warp = 3;
/* A tile of 16 rows takes so many times as long for its waits as one of 32. Fitted likewise. */
static const double narrow = 1.5;

static void cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                 const attune_shape *s, attune_cost *out) {
  double heads = (double)(s->batch * s->heads_q) / v->group; /* heads of one tile are one */
  attune_mask_sums sums;
  attune_traffic bytes;
  attune_ledger smem = {.count = 0};
  attune__mask_blocks(v, s, t->block_m, t->block_n, &sums);
  attune__forward_traffic(v, t, s, &bytes);
  attune__forward_bulk_traffic(v, s, &sums, 4, &bytes); /* a word for each pair */
  ledger(v, t, &smem);
  attune_work work = {.blocks = heads * (double)sums.blocks,
                      .steps = heads * (double)sums.steps,
                      .step_waits = step_waits(v, t),
                      .step_latency = step_latency * (t->block_m < 32 ? narrow : 1),
                      .exposed = exposed,
                      .exposed_by_warp = exposed_by_warp,
                      .blocks_per_head = (double)sums.blocks,
                      .warps = t->warps,
                      .registers = registers(v, t),
                      .smem_bytes = smem.bytes};
  work.kv_bytes = attune__kv_bytes(v, s);
  attune__fma_add_load(&work, t->block_m, v->head_dim_qk, work.blocks);
  attune__fma_add_load(&work, t->block_n, v->head_dim_qk + v->head_dim_v, work.steps);
  attune__fma_add_scores(&work, v, t, work.steps);
  attune__fma_add_softmax(&work, v, t, work.steps);
  attune__fma_add_output(&work, v, t, work.steps);
  attune__work_cost(b, &work, &bytes, out);
}

const attune_model attune__model_attn_fwd_fma = {
    .op = ATTUNE_OP_ATTN_FWD,
    .family = ATTUNE_FAMILY_FMA,
    .template_path = "attn_fwd/fma.cu",
    .candidates = candidates,
    .legal = legal,
    .ledger = ledger,
    .constants = attune__fma_constants,
    .recipe = attune__forward_recipe,
    .registers = registers,
    .traffic = traffic,
    .cost = cost,
};
