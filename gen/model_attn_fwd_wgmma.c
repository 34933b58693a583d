/* model_attn_fwd_wgmma.c - attn_fwd, family wgmma: what templates/attn_fwd/wgmma.cu needs and
 * costs.
 *
 * A block is one warpgroup that loads and one to three that multiply, 64 rows of Q each. Tiles lie
 * in shared memory as panels whose rows are as wide as the largest swizzle that divides a row. */
#include "model_attn_fwd.h"
#include "model_wgmma.h"

#include <stdio.h>
#include <string.h>

enum { JOB_WORDS = 24 }; /* of struct Job */

/* Bytes of a panel's row. */
static int panel(int head_dim) {
  int bytes = 2 * attune__wgmma_padded(head_dim);
  return bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : 32;
}

static int q_tiles(const attune_tile *t) {
  return t->second_q + 1;
}

static int panels(int head_dim) {
  return 2 * attune__wgmma_padded(head_dim) / panel(head_dim);
}

/* Registers of a thread by role and by the number of warpgroups that multiply: what setmaxnreg can
 * hand out of those that the block starts with, 168 or 128 a thread. Many panels are many boxes
 * that one thread loads, which takes more than 24. */
typedef struct roles {
  int load, multiply;
} roles;

static roles registers_by_role(const attune_variant *v, const attune_tile *t) {
  const int many = panels(v->head_dim_qk) > 4 || panels(v->head_dim_v) > 4;
  if (attune__wgmma_groups(t) == 1) return (roles){56, 256};
  if (attune__wgmma_groups(t) == 2) return many ? (roles){40, 232} : (roles){24, 240};
  return (roles){32, 160};
}

/* Scores, O and P of a thread, and what NVRTC 13.0 needs beside them to spill nowhere. Of a group
 * the two rows of a thread are of two heads, with a slope each. */
static int registers(const attune_variant *v, const attune_tile *t) {
  const int slopes = (v->features & ATTUNE_FEATURE_ALIBI) != 0;
  int need = t->block_n / 2 + attune__wgmma_padded(v->head_dim_v) / 2 + t->block_n / 4 + 28;
  if (v->features & (ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI)) need += 8;
  if (v->group > 1) need += slopes ? 8 : 4;
  return need;
}

static int legal_fields(const attune_tile *t, char *reason, size_t size) {
  if (t->warps != 8 && t->warps != 12 && t->warps != 16)
    return snprintf(reason, size, "warps %d: family wgmma has 8, 12 or 16", t->warps), 0;
  if (t->block_m != ATTUNE__WGMMA_ROWS * attune__wgmma_groups(t))
    return snprintf(reason, size, "block_m %d: %d warps have %d rows", t->block_m, t->warps,
                    ATTUNE__WGMMA_ROWS * attune__wgmma_groups(t)),
           0;
  if (t->block_n < ATTUNE__WGMMA_STEP || t->block_n > 256 || t->block_n % ATTUNE__WGMMA_STEP)
    return snprintf(reason, size, "block_n %d: family wgmma has multiples of 16 up to 256",
                    t->block_n),
           0;
  if (t->block_k || t->share_kv)
    return snprintf(reason, size, "block_k, share_kv: family wgmma has 0"), 0;
  if (t->stages < 1 || t->stages > 4)
    return snprintf(reason, size, "stages %d: family wgmma has 1 to 4", t->stages), 0;
  if (t->second_q > 1 || t->turns > 2 || t->lazy > 1 || t->persistent > 1 || t->order > 10)
    return snprintf(reason, size,
                    "second_q, lazy and persistent are 0 or 1, turns to 2, order to 10"),
           0;
  if (t->chains > 3 || t->chains >= t->block_n / 4)
    return snprintf(reason, size, "chains %d: family wgmma has 0 to 3", t->chains), 0;
  return 1;
}

static int legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  if (!legal_fields(t, reason, size)) return 0;
  if (t->turns && attune__wgmma_groups(t) == 1)
    return snprintf(reason, size, "turns %d: there is one warpgroup", t->turns), 0;
  if (t->stages == 1)
    return snprintf(reason, size, "stages 1: K of the next step lies beside this one's"), 0;
  if (registers(v, t) <= registers_by_role(v, t).multiply) return 1;
  snprintf(reason, size, "registers: needs about %d, a thread has %d", registers(v, t),
           registers_by_role(v, t).multiply);
  return 0;
}

static const int keys_of_tile[] = {32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256};

/* The knobs of a tile that nobody has measured, after 40 random ones of each of d 64, 128, 256,
 * both masks and S 512 to 16384 on an H200 (bf16, 2026-11-30): each is within 5 % of the best there
 * for S 1024 to 4096. A second buffer of Q pays wherever it fits, and a grid that stays always. For
 * rows of V of 112 and 128 elements order 1, a lazy maximum in one chain and turns at the first
 * step without a mask came first on 2026-12-01: at d 128 2 to 6 % from 512 keys on, though 256 keys
 * without a mask are 8 % slower; at d 96 they are 14 % slower in small batches. */
static void set_knobs(const attune_variant *v, attune_tile *t) {
  const int row = attune__wgmma_padded(v->head_dim_v), wide = row > 128;
  const int masked = v->mask != ATTUNE_MASK_NONE, several = attune__wgmma_groups(t) > 1;
  t->persistent = 1;
  if (row >= ATTUNE__WGMMA_WIDE_O && !wide) {
    t->order = 1, t->lazy = 1, t->turns = !masked && several ? 2 : 0;
    return;
  }
  t->order = masked && !wide ? 3 : 2;     /* a masked step has more to do before its maxima */
  t->turns = !masked && several;          /* unmasked steps are all alike */
  t->lazy = (uint8_t)wide, t->chains = 1; /* a wide O costs most to rescale */
}

static int candidates(const attune_variant *v, attune_tile *out, int max) {
  int count = 0;
  for (int g = 1; g <= 3; g++)
    for (size_t k = 0; k < sizeof keys_of_tile / sizeof *keys_of_tile; k++)
      for (int second = 0; second <= 1 && count < max; second++) {
        attune_tile *t = &out[count++];
        *t = (attune_tile){.family = ATTUNE_FAMILY_WGMMA,
                           .block_m = (uint16_t)(ATTUNE__WGMMA_ROWS * g),
                           .block_n = (uint16_t)keys_of_tile[k],
                           .stages = 2,
                           .warps = (uint8_t)(4 * (g + 1)),
                           .second_q = (uint8_t)second};
        set_knobs(v, t);
      }
  return count;
}

static void add_panels(attune_ledger *ledger, const char *name, int rows, int head_dim, int width,
                       const char *note) {
  int columns = width / 2, panels = (attune__wgmma_padded(head_dim) + columns - 1) / columns;
  attune__ledger_add(ledger, name, "elem_t", 2, (uint32_t)(rows * panels), (uint32_t)columns,
                     ATTUNE__PANEL_ALIGN, note);
}

static void ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  int larger = v->head_dim_qk > v->head_dim_v ? v->head_dim_qk : v->head_dim_v;
  add_panels(out, "q", q_tiles(t) * t->block_m, larger, panel(v->head_dim_qk),
             "panels of Q, then of O");
  add_panels(out, "k", t->stages * t->block_n, v->head_dim_qk, panel(v->head_dim_qk),
             "panels of K, a tile a stage");
  add_panels(out, "v", t->stages * t->block_n, v->head_dim_v, panel(v->head_dim_v),
             "panels of V, a tile a stage");
  attune__ledger_add(out, "jobs", "u32", 4, (uint32_t)q_tiles(t), JOB_WORDS, 16,
                     "of each tile of Q: place, mask, steps");
  attune__ledger_add(out, "barriers", "u64", 8, (uint32_t)(2 * q_tiles(t) + 4 * t->stages), 1, 8,
                     "mbarriers: full and free of each buffer");
}

static void constants(attune_kernel *kernel) {
  const attune_variant *v = &kernel->variant;
  const attune_tile *t = &kernel->tile;
  attune__add_constant(kernel, "kHeadDimQK", v->head_dim_qk, "elements of a row of Q and K");
  attune__add_constant(kernel, "kHeadDimV", v->head_dim_v, "elements of a row of V and O");
  attune__add_constant(kernel, "kPaddedQK", attune__wgmma_padded(v->head_dim_qk),
                       "whole steps of 16 of them");
  attune__add_constant(kernel, "kPaddedV", attune__wgmma_padded(v->head_dim_v), "the same");
  attune__add_constant(kernel, "kPanelQK", panel(v->head_dim_qk),
                       "bytes of a panel's row of Q, K, O");
  attune__add_constant(kernel, "kPanelV", panel(v->head_dim_v), "bytes of a panel's row of V");
  attune__add_constant(kernel, "kRegistersLoad", registers_by_role(v, t).load,
                       "of a thread that loads");
  attune__add_constant(kernel, "kRegistersMultiply", registers_by_role(v, t).multiply,
                       "of a thread that multiplies");
  attune__add_constant(kernel, "kKeysInL2", attune__wgmma_keys_in_l2(v),
                       "keys of heads that work beside each other");
}

static void set_box(attune_recipe *out, int map, int rows, int width) {
  out->box[map].rows = (uint32_t)rows, out->box[map].columns = (uint32_t)width / 2;
}

static void recipe(const attune_variant *v, const attune_tile *t, attune_recipe *out) {
  attune__forward_recipe(v, t, out);
  out->maps = 1;
  out->persistent = t->persistent;
  set_box(out, ATTUNE_MAP_Q, t->block_m, panel(v->head_dim_qk));
  set_box(out, ATTUNE_MAP_K, t->block_n, panel(v->head_dim_qk));
  set_box(out, ATTUNE_MAP_V, t->block_n, panel(v->head_dim_v));
  set_box(out, ATTUNE_MAP_O, ATTUNE__WGMMA_ROWS, panel(v->head_dim_qk));
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Boxes of packed sequences end where the last one does: what they load of those that follow, in
 * queries and keys of a group of heads, and the keys of that which none of its own rows loads. */
typedef struct beyond {
  int64_t queries, keys, distinct;
} beyond;

static beyond beyond_sequences(const attune_variant *v, const attune_tile *t,
                               const attune_shape *s) {
  const int64_t rows = s->len_q * v->group, box = t->block_m / v->group;
  int64_t first, seen, reached = 0; /* whole sequences: from first to seen; all: up to reached */
  beyond sum = {0};
  attune__mask_range(v, s, 0, s->len_q, &first, &seen);
  for (int64_t b = 0; b < s->batch; b++) {
    const int64_t left = s->batch - b;
    sum.distinct -= seen - first;
    for (int64_t i0 = 0; i0 * v->group < rows; i0 += box) {
      const int64_t i1 = least(i0 + box, s->len_q);
      int64_t begin, end;
      sum.queries += least(i0 + box, left * s->len_q) - i1;
      attune__mask_range(v, s, i0, i1, &begin, &end);
      if (begin >= end) continue;
      end = begin + (end - begin + t->block_n - 1) / t->block_n * t->block_n;
      sum.keys += least(end, left * s->len_k) - least(end, seen);
      begin += b * s->len_k, end = least(b * s->len_k + end, s->batch * s->len_k);
      if (begin < reached) begin = least(reached, end);
      sum.distinct += end - begin;
      if (end > reached) reached = end;
    }
  }
  return sum;
}

static void packed_traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                           attune_traffic *out) {
  const beyond n = beyond_sequences(v, t, s);
  const double element = attune__dtype_bytes(v->dtype_kv), heads = (double)s->heads_q;
  const double all = heads / v->group * (double)n.keys;
  const double distinct = (double)(s->heads_kv * n.distinct);
  attune__traffic_read(out, "Q", "queries of other sequences in boxes * heads_q * head_dim_qk",
                       element * v->head_dim_qk, (double)n.queries * heads, 0);
  attune__traffic_read(out, "K", "keys of other sequences in boxes * heads_q / group * head_dim_qk",
                       element * v->head_dim_qk, all, distinct);
  attune__traffic_read(out, "V", "keys of other sequences in boxes * heads_q / group * head_dim_v",
                       element * v->head_dim_v, all, distinct);
  attune__forward_varlen_traffic(v, t, s, 1, out);
}

/* A row's slope is read by every lane of it in each step, a sink once; where sequences lie, by the
 * thread that loads. */
static void traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                    attune_traffic *out) {
  attune__forward_traffic_whole(v, t, s, out);
  attune_mask_sums sums;
  attune__mask_blocks(v, s, t->block_m, t->block_n, &sums);
  double heads = (double)(s->batch * s->heads_q / v->group),
         threads = 128 * attune__wgmma_groups(t);
  if (v->features & ATTUNE_FEATURE_ALIBI) /* two rows of one head are one load */
    attune__traffic_read(out, "SLOPES",
                         "steps * threads, or each of their rows where heads are packed", 4,
                         heads * (double)sums.steps * threads * (v->group > 1 ? 2 : 1),
                         (double)(s->batch * s->heads_q));
  if (v->features & ATTUNE_FEATURE_SINK)
    attune__traffic_read(out, "SINKS", "tiles_m * threads * 2", 4,
                         heads * (double)sums.blocks * threads * 2, (double)s->heads_q);
  if (v->features & ATTUNE_FEATURE_VARLEN) packed_traffic(v, t, s, out);
}

/* Share of a tile's start that hides without a second buffer of Q on a grid that stays: the next Q
 * comes beside the last P V, and O leaves beside the next tile. Assumed; with a half, not with a
 * quarter, the tile of 192/128 and 512 keys, causal or windows, is the one that was 11 % faster on
 * an H200 (2026-12-01). */
static const double ahead_of_one_q = 0.5;

static void cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                 const attune_shape *s, attune_cost *out) {
  double heads = (double)(s->batch * s->heads_q) / v->group; /* heads of one tile are one */
  attune_mask_sums sums;
  attune_traffic bytes;
  attune_ledger smem = {.count = 0};
  attune__mask_blocks(v, s, t->block_m, t->block_n, &sums);
  attune__forward_traffic_whole(v, t, s, &bytes);
  ledger(v, t, &smem);
  double steps = heads * (double)sums.steps, scores = (double)t->block_m * t->block_n;
  int qk = attune__wgmma_padded(v->head_dim_qk), vv = attune__wgmma_padded(v->head_dim_v);
  attune_work work = {.blocks = heads * (double)sums.blocks,
                      .steps = steps,
                      .tensor = steps * 2 * scores * (qk + vv),
                      .exponentials = steps * scores,
                      .instructions =
                          steps * (attune__wgmma_instructions * scores + t->block_m * vv) / 32,
                      .blocks_per_head = (double)sums.blocks,
                      .warps = 4 * attune__wgmma_groups(t),
                      .registers = registers_by_role(v, t).multiply,
                      .smem_bytes = smem.bytes,
                      .kv_bytes = attune__kv_bytes(v, s),
                      .step_clocks = attune__wgmma_step_clocks,
                      .start = attune__wgmma_start,
                      .exposed = attune__wgmma_exposed(v, attune__wgmma_groups(t)),
                      .ahead = !t->persistent ? 0
                               : t->second_q  ? 1
                                              : ahead_of_one_q};
  /* Each warpgroup reads its rows of Q and all of K, then all of V; TMA fills them once. */
  double read =
      attune__wgmma_groups(t) * (2.0 * ATTUNE__WGMMA_ROWS * qk + 2.0 * t->block_n * (qk + vv));
  work.wavefronts = steps * (read + 2.0 * t->block_n * (qk + vv)) / 128;
  attune__work_cost(b, &work, &bytes, out);
}

const attune_model attune__model_attn_fwd_wgmma = {
    .op = ATTUNE_OP_ATTN_FWD,
    .family = ATTUNE_FAMILY_WGMMA,
    .knobs = ATTUNE_TILE_KNOBS,
    .template_path = "attn_fwd/wgmma.cu",
    .candidates = candidates,
    .legal = legal,
    .ledger = ledger,
    .constants = constants,
    .recipe = recipe,
    .registers = registers,
    .traffic = traffic,
    .cost = cost,
};
