/* model_attn_fwd_middle.c - attn_fwd, family middle: what templates/attn_fwd/middle.cu needs and
 * costs.
 *
 * A block is one warpgroup that loads and two or three that multiply, each with tiles of 64 rows of
 * its own. Tiles lie in shared memory as panels, two of Q for a warpgroup, and `stages` of K and of
 * V for all of them. A pass is what is loaded of K and V for some tiles: for one of each warpgroup,
 * or, where keys stay, for all of a head. */
#include "model_attn_fwd.h"
#include "model_wgmma.h"

#include <stdio.h>

enum {
  JOB_WORDS = 12,        /* of struct Job, */
  JOB_WORDS_MASKED = 24, /* and under a mask */
  REGISTERS_BESIDE = 28, /* what NVRTC 13.0 needs beside scores, P and O to spill nowhere */
  MAX_STAGES = 8,
  LEAST_NARROW = 32,       /* each width is code of its own, which takes long to compile */
  ONE_CHAIN_UP_TO = 64,    /* elements of a row, padded */
  SMEM_FOR_TILES = 230400, /* of a block's 227 KB, beside jobs and barriers */
  HEADS_TO_STAY = 256,     /* with fewer, SMs of an H200 may differ by a head of one or two */
  ROWS_TO_STAY = 1 << 20   /* whose tiles one barrier counts */
};

/* Keys by which a tile's last step gets narrower, and how many widths that makes. */
static int narrow(const attune_tile *t) {
  return t->block_k ? t->block_k : t->block_n;
}
static int widths(const attune_tile *t) {
  return (t->block_n + narrow(t) - 1) / narrow(t);
}

/* Tiles of rows of a warpgroup in shared memory. */
static int slots(const attune_tile *t) {
  return 2 + t->second_q;
}

static int masked(const attune_variant *v) {
  return v->mask != ATTUNE_MASK_NONE;
}

/* Scores, P and O of a thread. */
static int registers(const attune_variant *v, const attune_tile *t) {
  return t->block_n / 2 + t->block_n / 4 + v->head_dim_v / 2 + 4 * masked(v) + REGISTERS_BESIDE;
}

/* Registers of a thread by role: what setmaxnreg can hand out of those that the block starts with,
 * 128 or 168 a thread. The warps that load find out much, which 32 hold just so. */
typedef struct roles {
  int load, multiply;
} roles;

static roles registers_by_role(const attune_variant *v, const attune_tile *t) {
  if (attune__wgmma_groups(t) == 2) return (roles){40, 232};
  return registers(v, t) > 152 ? (roles){32, 160} : (roles){56, 152};
}

static int legal_fields(const attune_tile *t, char *reason, size_t size) {
  if (t->warps != 12 && t->warps != 16)
    return snprintf(reason, size, "warps %d: family middle has 12 or 16", t->warps), 0;
  if (t->block_m != ATTUNE__WGMMA_ROWS)
    return snprintf(reason, size, "block_m %d: a warpgroup's tile has %d rows", t->block_m,
                    ATTUNE__WGMMA_ROWS),
           0;
  if (t->block_n < ATTUNE__WGMMA_ROWS || t->block_n > 256 || t->block_n % ATTUNE__WGMMA_STEP)
    return snprintf(reason, size, "block_n %d: family middle has multiples of 16 from 64 to 256",
                    t->block_n),
           0;
  if (t->block_k % ATTUNE__WGMMA_STEP || t->block_k > t->block_n ||
      (t->block_k && t->block_k < LEAST_NARROW))
    return snprintf(reason, size,
                    "block_k %d: family middle has 0 and multiples of 16 from %d to block_n",
                    t->block_k, LEAST_NARROW),
           0;
  if (t->share_kv) return snprintf(reason, size, "share_kv: family middle has 0"), 0;
  if (t->stages < 2 || t->stages > MAX_STAGES)
    return snprintf(reason, size, "stages %d: family middle has 2 to %d", t->stages, MAX_STAGES), 0;
  if (t->second_q > 1 || t->turns > 1 || t->lazy > 1 || t->chains > 3 || t->order > 9)
    return snprintf(reason, size, "second_q, turns and lazy are 0 or 1, chains 0 to 3, order to 9"),
           0;
  return 1;
}

/* Stages under a mask: a warpgroup hears nothing of the steps of a pass that its tile does not see,
 * before and behind those that it does, and must not miss a whole round. */
static int least_stages(const attune_tile *t) {
  int apart = (attune__wgmma_groups(t) - 1) * ATTUNE__WGMMA_ROWS;
  return (apart - 1) / t->block_n + 1 + apart / t->block_n + 1;
}

static int legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  if (!legal_fields(t, reason, size)) return 0;
  if (masked(v) && t->stages < least_stages(t))
    return snprintf(reason, size, "stages %d: under a mask steps of %d keys need %d", t->stages,
                    t->block_n, least_stages(t)),
           0;
  if (masked(v) && t->turns)
    return snprintf(reason, size, "turns 1: under a mask warpgroups differ in their steps"), 0;
  if (registers(v, t) <= registers_by_role(v, t).multiply) return 1;
  snprintf(reason, size, "registers: needs about %d, a thread has %d", registers(v, t),
           registers_by_role(v, t).multiply);
  return 0;
}

static const int keys_of_step[] = {64, 80, 96, 112, 128, 144, 160};
static const int keys_of_width[] = {32, 48, 64};

/* Under a mask with a bound below, a pass's tiles begin 64 keys apart: in steps of 80, 96 or 112
 * keys each then ends with another width, which was 10 to 40 % slower (H200, d 64, window 128). */
static int fits_step(const attune_variant *v, int keys) {
  return !attune__mask_has_lower(v->mask) || keys % ATTUNE__WGMMA_ROWS == 0;
}

/* Under any mask a tile's keys mostly end 64 keys behind those of the one before: a width that does
 * not divide 64 fits no last step better, and tiles_sums counts widths that do. */
static int fits_width(const attune_variant *v, int keys) {
  return !masked(v) || ATTUNE__WGMMA_ROWS % keys == 0;
}

/* Three warpgroups that multiply: two were slower wherever they were timed (H200, 577 to 1500
 * keys). As many stages as fit beside Q: the more keys fit, the more heads' keys stay. A row's
 * maximum in one chain up to head dim 64 without a mask: 2 to 4 % faster than two in the rows tuned
 * on an H200 (2026-11-30), and the other way round from 72 on. Under a mask the maxima stand before
 * the wait for P V: up to 5 % faster there, and slower without one (H200, 2026-12-01). */
static int candidates(const attune_variant *v, attune_tile *out, int max) {
  const int row = attune__wgmma_panels(v) * attune__wgmma_panel(v),
            q = 2 * 3 * ATTUNE__WGMMA_ROWS * row;
  int count = 0;
  for (size_t n = 0; n < sizeof keys_of_step / sizeof *keys_of_step; n++)
    for (size_t k = 0; k < sizeof keys_of_width / sizeof *keys_of_width && count < max; k++) {
      if (!fits_step(v, keys_of_step[n]) || !fits_width(v, keys_of_width[k])) continue;
      int stages = (SMEM_FOR_TILES - q) / (2 * keys_of_step[n] * row);
      out[count++] = (attune_tile){.family = ATTUNE_FAMILY_MIDDLE,
                                   .block_m = ATTUNE__WGMMA_ROWS,
                                   .block_n = (uint16_t)keys_of_step[n],
                                   .block_k = (uint16_t)keys_of_width[k],
                                   .stages = (uint8_t)(stages < MAX_STAGES ? stages : MAX_STAGES),
                                   .warps = 16,
                                   .order = (uint8_t)masked(v),
                                   .turns = (uint8_t)!masked(v),
                                   .chains = !masked(v) && attune__wgmma_padded(v->head_dim_qk) >
                                                               ONE_CHAIN_UP_TO};
    }
  return count;
}

static void add_panels(attune_ledger *ledger, const attune_variant *v, const char *name, int rows,
                       const char *note) {
  attune__ledger_add(ledger, name, "elem_t", 2, (uint32_t)(rows * attune__wgmma_panels(v)),
                     (uint32_t)attune__wgmma_panel(v) / 2, ATTUNE__PANEL_ALIGN, note);
}

static void ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  const uint32_t tiles = (uint32_t)(slots(t) * attune__wgmma_groups(t));
  add_panels(out, v, "q", (int)tiles * ATTUNE__WGMMA_ROWS,
             "panels of Q, then of O, two tiles a warpgroup");
  add_panels(out, v, "k", t->stages * t->block_n, "panels of K, a step a stage");
  add_panels(out, v, "v", t->stages * t->block_n, "panels of V, a step a stage");
  attune__ledger_add(out, "jobs", "u32", 4, tiles, masked(v) ? JOB_WORDS_MASKED : JOB_WORDS, 16,
                     "of each tile of Q: place, steps, first stage");
  attune__ledger_add(out, "ends", "float", 4, tiles, 2 * ATTUNE__WGMMA_ROWS, 16,
                     "of each row: maximum and sum, for its LSE");
  attune__ledger_add(out, "barriers", "u64", 8,
                     2 * tiles + 4u * t->stages + (uint32_t)attune__wgmma_groups(t) + 1, 1, 8,
                     "mbarriers: Q there, O there, K, V full and free, a load landed");
}

static void constants(attune_kernel *kernel) {
  const attune_variant *v = &kernel->variant;
  const roles registers = registers_by_role(v, &kernel->tile);
  attune__add_constant(kernel, "kHeadDimQK", v->head_dim_qk, "elements of a row of Q and K");
  attune__add_constant(kernel, "kHeadDimV", v->head_dim_v, "elements of a row of V and O");
  attune__add_constant(kernel, "kPadded", attune__wgmma_padded(v->head_dim_qk),
                       "whole steps of 16 of Q's and K's");
  attune__add_constant(kernel, "kPanel", attune__wgmma_panel(v), "bytes of a panel's row");
  if (masked(v)) {
    attune__add_constant(kernel, "kKeysInL2", attune__wgmma_keys_in_l2(v),
                         "keys of heads that work beside each other");
  } else {
    attune__add_constant(kernel, "kHeadsToStay", HEADS_TO_STAY, "heads that make keys stay");
    attune__add_constant(kernel, "kRowsToStay", ROWS_TO_STAY,
                         "the most rows of a head whose keys stay");
  }
  attune__add_constant(kernel, "kRegistersLoad", registers.load, "of a thread that loads");
  attune__add_constant(kernel, "kRegistersMultiply", registers.multiply,
                       "of a thread that multiplies");
}

static int64_t tiles_of(const attune_shape *s) {
  return (s->len_q + ATTUNE__WGMMA_ROWS - 1) / ATTUNE__WGMMA_ROWS;
}

/* Whether the keys of a head stay in shared memory for all its rows: the template's rule. */
static int keys_stay(const attune_variant *v, const attune_tile *t, const attune_shape *s) {
  return !masked(v) && s->len_k <= t->stages * t->block_n &&
         s->batch * s->heads_q >= HEADS_TO_STAY && tiles_of(s) > attune__wgmma_groups(t) &&
         s->len_q <= ROWS_TO_STAY;
}

/* What the passes of a head visit. Where a mask has a bound above, the longest tiles are taken
 * first, and the pass that has fewer is the one of the first rows. */
static void passes(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                   attune_mask_sums *out) {
  const int64_t tiles = tiles_of(s), groups = attune__wgmma_groups(t);
  const int64_t rows = ATTUNE__WGMMA_ROWS * (keys_stay(v, t, s) ? tiles : groups);
  int64_t few = attune__mask_has_upper(v->mask) ? tiles * ATTUNE__WGMMA_ROWS % rows : 0;
  attune_mask_sums rest;
  if (few > s->len_q) few = s->len_q;
  attune__mask_blocks_of(v, s, 0, few, rows, t->block_n, out);
  attune__mask_blocks_of(v, s, few, s->len_q, rows, t->block_n, &rest);
  out->blocks += rest.blocks, out->loaded += rest.loaded, out->steps += rest.steps;
}

static void traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                    attune_traffic *out) {
  const double heads = (double)(s->batch * s->heads_q), rows = heads * (double)s->len_q;
  int64_t first, last;
  attune_mask_sums pass;
  attune__mask_range(v, s, 0, s->len_q, &first, &last);
  passes(v, t, s, &pass);
  const double distinct = (double)(s->batch * s->heads_kv * (last - first));
  const double requested = heads * (double)pass.loaded;
  const double row = v->head_dim_qk * attune__dtype_bytes(v->dtype_q);
  *out = (attune_traffic){0};
  attune__traffic_read(out, "Q", "batch * heads_q * len_q * head_dim_qk", row, rows, rows);
  attune__traffic_read(out, "K", "batch * heads_q * keys of its passes * head_dim_qk", row,
                       requested, distinct);
  attune__traffic_read(out, "V", "batch * heads_q * keys of its passes * head_dim_v", row,
                       requested, distinct);
  attune__traffic_write(out, "O", "batch * heads_q * len_q * head_dim_v", row, rows);
  attune__traffic_write(out, "LSE", "batch * heads_q * len_q", 4, rows);
}

/* What one saves at the ends of tiles, of a step's smaller ceilings: they cost family wgmma about a
 * step each. Fitted to what a prototype took for 577 keys of 64, 729 of 72 and 1500 of 80 elements
 * on an H200. The rest is as in that family; timed there, 2026-11-30, this one comes first at d 64
 * from 512 to 4096 keys, by 18 % to 3 %, in large batches. */
static const double saved_at_ends = 0.4;
/* Clocks in which a tile compares what is left with one width. */
static const double width_clocks = 4;

/* What a tile multiplies that sees `keys` and begins `offset` keys into a step: whole steps, two at
 * least, of which the last is as narrow as it can be. */
static void add_tile(const attune_tile *t, int64_t offset, int64_t keys, double *steps,
                     double *multiplied) {
  int64_t count = (offset + keys + t->block_n - 1) / t->block_n, width = t->block_n;
  if (count < 2) count = 2;
  const int64_t left = offset + keys - (count - 1) * t->block_n;
  while (width > narrow(t) && left <= width - narrow(t)) width -= narrow(t);
  *steps += (double)count, *multiplied += (double)((count - 1) * t->block_n + width);
}

/* Sums over the tiles of a head: steps, and keys that are multiplied. */
static void tiles_sums(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                       double *steps, double *multiplied) {
  const int64_t tiles = tiles_of(s), groups = attune__wgmma_groups(t);
  *steps = *multiplied = 0;
  if (attune__mask_has_upper(v->mask) && !attune__mask_has_lower(v->mask)) {
    attune_mask_sums whole, narrowed; /* all begin with the same key */
    attune__mask_blocks(v, s, ATTUNE__WGMMA_ROWS, t->block_n, &whole);
    attune__mask_blocks(v, s, ATTUNE__WGMMA_ROWS, narrow(t), &narrowed);
    *steps = (double)(whole.steps > 2 * tiles ? whole.steps : 2 * tiles);
    *multiplied = (double)(narrowed.steps * narrow(t));
    return;
  }
  /* All are alike but for where they begin in the steps of their pass */
  attune_mask_sums all;
  attune__mask_blocks(v, s, ATTUNE__WGMMA_ROWS, t->block_n, &all);
  for (int64_t g = 0; g < groups; g++)
    add_tile(t, masked(v) ? g * ATTUNE__WGMMA_ROWS % t->block_n : 0, all.keys / tiles, steps,
             multiplied);
  *steps *= (double)tiles / (double)groups, *multiplied *= (double)tiles / (double)groups;
}

static void cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                 const attune_shape *s, attune_cost *out) {
  attune_traffic bytes;
  attune_mask_sums pass;
  attune_ledger smem = {.count = 0};
  traffic(v, t, s, &bytes);
  ledger(v, t, &smem);
  passes(v, t, s, &pass);
  const double heads = (double)(s->batch * s->heads_q), tiles = (double)tiles_of(s);
  const int groups = attune__wgmma_groups(t);
  double of_tiles, keys; /* of a head */
  tiles_sums(v, t, s, &of_tiles, &keys);
  /* A block works on as many tiles at once as it has warpgroups. */
  const double rounds = keys_stay(v, t, s) ? heads * tiles / groups : heads * (double)pass.blocks;
  const double steps = rounds * of_tiles / tiles, scores = heads * ATTUNE__WGMMA_ROWS * keys;
  const int qk = attune__wgmma_padded(v->head_dim_qk), vv = v->head_dim_v;
  const int busy = tiles < groups ? (int)tiles : groups;
  const int follows = rounds > b->sms; /* a tile on another, in most blocks */
  attune_work work = {
      .blocks = rounds,
      .steps = steps,
      .tensor = 2 * scores * (qk + vv),
      .exponentials = scores,
      .instructions =
          (attune__wgmma_instructions * scores + steps * groups * ATTUNE__WGMMA_ROWS * vv) / 32,
      .blocks_per_head = (double)pass.blocks,
      .warps = 4 * groups,
      .registers = registers_by_role(v, t).multiply,
      .smem_bytes = smem.bytes,
      .kv_bytes = attune__kv_bytes(v, s),
      .step_clocks = attune__wgmma_step_clocks + width_clocks * widths(t) * rounds / steps,
      .exposed = attune__wgmma_exposed(v, busy) - (follows ? saved_at_ends * rounds / steps : 0),
      .start = attune__wgmma_start,
      .ahead = follows};
  /* Each warpgroup reads its rows of Q and all of K, then all of V; TMA fills them once a pass. */
  work.wavefronts =
      (steps * groups * 2.0 * ATTUNE__WGMMA_ROWS * qk + heads * keys * 2.0 * (qk + vv) +
       heads * (double)(pass.steps * t->block_n) * 2.0 * (qk + vv)) /
      128;
  attune__work_cost(b, &work, &bytes, out);
}

const attune_model attune__model_attn_fwd_middle = {
    .op = ATTUNE_OP_ATTN_FWD,
    .family = ATTUNE_FAMILY_MIDDLE,
    .knobs = 1u << ATTUNE__TILE_second_q | 1u << ATTUNE__TILE_turns | 1u << ATTUNE__TILE_lazy |
             1u << ATTUNE__TILE_chains | 1u << ATTUNE__TILE_order,
    .template_path = "attn_fwd/middle.cu",
    .candidates = candidates,
    .legal = legal,
    .ledger = ledger,
    .constants = constants,
    .recipe = attune__wgmma_recipe,
    .registers = registers,
    .traffic = traffic,
    .cost = cost,
};
