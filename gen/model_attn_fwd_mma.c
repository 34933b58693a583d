/* model_attn_fwd_mma.c - attn_fwd, family mma: what templates/attn_fwd/mma.cu needs and costs. */
#include "model_attn_fwd.h"
#include "model_mma.h"

#include <stdio.h>

/* Where finding a 16-byte chunk of K's row takes a division: its chunks are no power of two. */
static int uneven(const attune_variant *v) {
  int chunks = attune__mma_padded(v->head_dim_qk) / 8;
  return (chunks & (chunks - 1)) != 0;
}

/* What bits keep of a tile's rows and of the tiles to come. Two bands of packed rows, each compared
 * with two bounds, take more beside uneven rows of K: NVRTC 13.0 spills at 160 and 192 elements and
 * 32 keys, not at 128 and 256. */
static int registers_of_bits(const attune_variant *v, const attune_tile *t) {
  int rows = 2 * attune__mma_bands(t), keys = t->block_n / attune__mma_split(t);
  int need = rows * ((keys + 31) / 32) + 2 * t->stages + 8;
  int window_of_group = v->group > 1 && attune__mask_has_lower(v->mask);
  return window_of_group && rows > 2 && uneven(v) ? need + 18 : need;
}

/* What features keep beside the rest: of each row a pointer or a slope and its diagonal; of a tile
 * its biases and bits; of the tiles to come where they begin and what the bits leave of them. A
 * softcap takes one more in one stage, and beside rows of K over 160 elements. */
static int registers_of_features(const attune_variant *v, const attune_tile *t) {
  int rows = 2 * attune__mma_bands(t), keys = t->block_n / attune__mma_split(t), need = 0;
  uint32_t f = v->features;
  if (f & ATTUNE_FEATURE_BIAS) need += rows * (3 + 3 * keys / 16) + 8;
  if (f & ATTUNE_FEATURE_ALIBI) need += rows * 4 + 16;
  if (f & ATTUNE_FEATURE_BITMASK) need += registers_of_bits(v, t);
  if (f & ATTUNE_FEATURE_SOFTCAP) need += t->stages == 1 || v->head_dim_qk > 160 ? 2 : 1;
  int far = f & ATTUNE_FEATURE_VARLEN || v->dtype_out == ATTUNE_DTYPE_FP32; /* where rows go */
  if (v->group > 1 && far) need += 2;
  return need;
}

/* What NVRTC 13.0 needs to spill nowhere, found by compiling: O, the scores of a tile, m, l and the
 * operands of each band, addresses; more for tiles of 128 keys, for a large O, for few threads
 * or long rows, with more chunks to copy each, and where chunks pass through registers on their way
 * to shared memory; from sm_100a on for a second bound of the mask. */
static int registers_without_q(const attune_variant *v, const attune_tile *t) {
  int split = attune__mma_split(t), bands = attune__mma_bands(t);
  int o = bands * attune__mma_padded_v(v->head_dim_v, t) / split / 2;
  int more = (t->block_n == 128 ? 16 : 0) + (t->warps == 2 && bands > 1 ? 4 : 0);
  more += (attune__arch_cc(v->arch) < 80 ? 24 : 0) + (o > 128 ? 12 : 0);
  more += split > 1 && v->head_dim_qk > 128 ? 16 : 0;
  more += attune__arch_cc(v->arch) >= 100 && attune__mask_has_lower(v->mask) ? 2 : 0;
  return o + bands * t->block_n / split / 2 + 8 * bands + 46 + more + registers_of_features(v, t);
}

/* Threads get registers by eights. */
static int whole(int need) {
  int rounded = (need + 7) / 8 * 8;
  return need <= MMA_MAX_REGISTERS && rounded > MMA_MAX_REGISTERS ? MMA_MAX_REGISTERS : rounded;
}

static int registers_of_q(const attune_variant *v, const attune_tile *t) {
  return attune__mma_bands(t) * attune__mma_padded(v->head_dim_qk) / 4;
}

/* Order knob kQInRegisters: Q stays in registers where that costs no block on an SM, and leaves the
 * compiler some of them. */
static int keeps_q(const attune_variant *v, const attune_tile *t) {
  int raw = registers_without_q(v, t), without = whole(raw);
  int with = whole(raw + registers_of_q(v, t));
  return with <= MMA_MAX_REGISTERS - 15 && attune__blocks_by_registers(t->warps, with) ==
                                               attune__blocks_by_registers(t->warps, without);
}

static int registers(const attune_variant *v, const attune_tile *t) {
  return whole(registers_without_q(v, t) + (keeps_q(v, t) ? registers_of_q(v, t) : 0));
}

static int legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  if (!attune__mma_legal(t, reason, size)) return 0;
  if (registers(v, t) <= MMA_MAX_REGISTERS) return 1;
  snprintf(reason, size, "registers: needs about %d, a thread has %d", registers(v, t),
           MMA_MAX_REGISTERS);
  return 0;
}

static void ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  int split = attune__mma_split(t), qk = attune__mma_padded(v->head_dim_qk);
  int columns_v = attune__mma_padded_v(v->head_dim_v, t), keys = t->stages * t->block_n;
  attune__mma_add_tile(out, "q", t->block_m, qk, "Q; chunks swizzled");
  attune__mma_add_tile(out, "k", keys, qk, "K, a tile a stage");
  attune__mma_add_tile(out, "v", keys, columns_v, "V, a tile a stage");
  if (split == 1) return;
  attune__mma_add_tile(out, "p", t->block_m, t->block_n, "P, for the warps of its rows");
  attune__ledger_add(out, "row", "float", 4, (uint32_t)split, t->block_m, 16,
                     "maximum or sum of a row, by warp");
}

static void constants(attune_kernel *kernel) {
  const attune_variant *v = &kernel->variant;
  const attune_tile *t = &kernel->tile;
  char note[80];
  attune__add_constant(kernel, "kHeadDimQK", v->head_dim_qk, "elements of a row of Q and K");
  attune__add_constant(kernel, "kHeadDimV", v->head_dim_v, "elements of a row of V and O");
  attune__add_constant(kernel, "kSplit", attune__mma_split(t), "warps that own the same rows");
  attune__add_constant(kernel, "kQInRegisters", keeps_q(v, t), "1: Q is read from the tile once");
  snprintf(note, sizeof note, "blocks that registers allow: about %d a thread", registers(v, t));
  attune__add_constant(kernel, "kBlocksPerSM",
                       attune__blocks_by_registers(t->warps, registers(v, t)), note);
}

/* Times per iteration that a block waits for device memory: one stage hides a tile behind one
 * product, two behind an iteration. On sm_75 copies hide behind nothing. Assumed. */
static double step_waits(const attune_variant *v, const attune_tile *t) {
  return attune__arch_cc(v->arch) < 80 ? 2 : t->stages == 1 ? 0.5 : t->stages == 2 ? 0.1 : 0;
}

/* Clocks of an iteration that a block alone waits for its own products and exponentials. Fitted to
 * the order of tiles in the 280 cells of the default grid on an H200, 2026-11-30. */
static const double step_latency = 300;

static void traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                    attune_traffic *out) {
  attune__forward_traffic(v, t, s, out);
  attune__mma_feature_traffic(v, t, s, out);
}

static void cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                 const attune_shape *s, attune_cost *out) {
  double heads = (double)(s->batch * s->heads_q) / v->group; /* heads of one tile are one */
  attune_mask_sums sums;
  attune_traffic bytes;
  attune_ledger smem = {.count = 0};
  attune__mask_blocks(v, s, t->block_m, t->block_n, &sums);
  attune__forward_traffic(v, t, s, &bytes);
  attune__forward_bulk_traffic(v, s, &sums, 0.5, &bytes); /* 4 lanes a word */
  ledger(v, t, &smem);
  attune_work work = {.blocks = heads * (double)sums.blocks,
                      .steps = heads * (double)sums.steps,
                      .step_waits = step_waits(v, t),
                      .step_latency = step_latency,
                      .blocks_per_head = (double)sums.blocks,
                      .warps = t->warps,
                      .registers = registers(v, t),
                      .smem_bytes = smem.bytes,
                      .kv_bytes = attune__kv_bytes(v, s)};
  attune__mma_add_load(&work, t->block_m, attune__mma_padded(v->head_dim_qk), work.blocks);
  attune__mma_add_load(&work, t->block_n, attune__mma_padded(v->head_dim_qk), work.steps);
  attune__mma_add_load(&work, t->block_n, attune__mma_padded_v(v->head_dim_v, t), work.steps);
  attune__mma_add_scores(&work, v, t, keeps_q(v, t), work.steps);
  attune__mma_add_softmax(&work, v, t, work.steps);
  attune__mma_add_output(&work, v, t, work.steps);
  attune__work_cost(b, &work, &bytes, out);
}

const attune_model attune__model_attn_fwd_mma = {
    .op = ATTUNE_OP_ATTN_FWD,
    .family = ATTUNE_FAMILY_MMA,
    .template_path = "attn_fwd/mma.cu",
    .candidates = attune__mma_candidates,
    .legal = legal,
    .ledger = ledger,
    .constants = constants,
    .recipe = attune__forward_recipe,
    .registers = registers,
    .traffic = traffic,
    .cost = cost,
};
