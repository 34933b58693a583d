/* model_attn_fwd_short.c - attn_fwd, family short: what templates/attn_fwd/short.cu needs and
 * costs.
 *
 * A block is one warpgroup that loads and two to five that multiply. It holds `stages` items, each
 * the rows of Q of one head, up to block_m, with all its keys, up to block_n, as panels in shared
 * memory. A kernel serves shapes with len_k <= block_n, so that the planner offers it to those
 * alone, and only where a spec or a measured row names it. */
#include "model_attn_fwd.h"
#include "model_wgmma.h"

#include <stdio.h>

enum {
  ATOM = 8,               /* rows of a swizzle's pattern */
  JOB_WORDS = 12,         /* of struct Job */
  SM_REGISTERS = 65536,   /* hopper's, for the threads of a block */
  REGISTERS_LOAD = 32,    /* of a thread that loads */
  REGISTERS_BESIDE = 28,  /* what NVRTC 13.0 needs beside scores, P and O to spill nowhere */
  PRODUCT_BESIDE = 26,    /* what it keeps free beside the scores of one instruction (C7602) */
  MOST_OF_24_WARPS = 100, /* scores, P and O: 98 are in order, 104 are serialised (C7512) */
  MAX_STAGES = 8,
  FROM_KEYS = 192,         /* order 1 pays */
  SMEM_FOR_ITEMS = 230400, /* of a block's 227 KB, beside zeros, jobs and barriers */
  MAX_ROWS = 256           /* of a TMA box, and of a product's N */
};

static int tiles(const attune_tile *t) {
  return (t->block_m + ATTUNE__WGMMA_ROWS - 1) / ATTUNE__WGMMA_ROWS;
}

/* Registers of a thread: at the launch, and once it multiplies: what is left of an SM's when the
 * others have given theirs back; setmaxnreg counts in eights, a thread has up to 255. */
static int registers_at_start(const attune_tile *t) {
  return SM_REGISTERS / (32 * t->warps) / 8 * 8;
}
static int registers_multiply(const attune_tile *t) {
  int rest = (registers_at_start(t) * (attune__wgmma_groups(t) + 1) - REGISTERS_LOAD) /
             attune__wgmma_groups(t) / 8 * 8;
  return rest < 240 ? rest : 240;
}

/* Of a thread: P and O. */
static int registers_output(const attune_variant *v, const attune_tile *t) {
  return t->block_n / 4 + attune__wgmma_padded(v->head_dim_qk) / 2;
}

/* Scores of a thread, then P and O; never all three. Order knob 1: the next scores beside O. */
static int registers(const attune_variant *v, const attune_tile *t) {
  int scores = t->block_n / 2, output = registers_output(v, t);
  if (t->order) scores += attune__wgmma_padded(v->head_dim_qk) / 2;
  int bounds = 8 * attune__mask_has_lower(v->mask) + 4 * attune__mask_has_upper(v->mask);
  return (scores > output ? scores : output) + bounds + REGISTERS_BESIDE;
}

/* Items whose tiles take turns at once must all have come. */
static int items_of_a_turn(const attune_tile *t) {
  return (attune__wgmma_groups(t) + tiles(t) - 2) / tiles(t) + 1;
}

/* Order knob 1: a tile leaves its item once that of the warpgroup's next tile has come. */
static int items_apart(const attune_tile *t) {
  return (attune__wgmma_groups(t) + tiles(t) - 1) / tiles(t);
}

static int legal_fields(const attune_tile *t, char *reason, size_t size) {
  if (t->warps < 12 || t->warps > 24 || t->warps % 4)
    return snprintf(reason, size, "warps %d: family short has 12, 16, 20 or 24", t->warps), 0;
  if (t->block_m < ATOM || t->block_m > MAX_ROWS || t->block_m % ATOM ||
      t->block_n < ATTUNE__WGMMA_STEP || t->block_n > MAX_ROWS || t->block_n % ATOM)
    return snprintf(reason, size,
                    "block_m %d, block_n %d: family short has multiples of 8 up to 256", t->block_m,
                    t->block_n),
           0;
  if (t->block_k || t->share_kv)
    return snprintf(reason, size, "block_k, share_kv: family short has 0"), 0;
  if (t->stages < 1 || t->stages > MAX_STAGES)
    return snprintf(reason, size, "stages %d: family short has 1 to %d", t->stages, MAX_STAGES), 0;
  if (t->turns > 1 || t->order > 1 || t->chains > 3 || t->chains >= t->block_n / 4)
    return snprintf(reason, size, "turns and order are 0 or 1, chains 0 to 3"), 0;
  return 1;
}

static int legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  if (!legal_fields(t, reason, size)) return 0;
  if (t->block_m % v->group)
    return snprintf(reason, size, "block_m %d: rows of a group's %d heads come together",
                    t->block_m, v->group),
           0;
  if (t->block_n % ATTUNE__WGMMA_STEP && attune__wgmma_panels(v) > 1)
    return snprintf(reason, size, "block_n %d: with rows of %d panels a multiple of 16", t->block_n,
                    attune__wgmma_panels(v)),
           0;
  /* The last tile's rows of Q beyond the item's are read from what follows: K of the item, where
   * that is enough, but not the next panel, which is being written. */
  int beyond = tiles(t) * ATTUNE__WGMMA_ROWS - t->block_m;
  if (beyond && attune__wgmma_panels(v) > 1)
    return snprintf(reason, size, "block_m %d: with rows of %d panels a multiple of %d", t->block_m,
                    attune__wgmma_panels(v), ATTUNE__WGMMA_ROWS),
           0;
  if (beyond > t->block_n)
    return snprintf(reason, size, "block_n %d: the last tile of rows reads %d beyond its own",
                    t->block_n, beyond),
           0;
  if (t->turns && items_of_a_turn(t) > t->stages)
    return snprintf(reason, size, "turns 1: %d warpgroups need more than %d stages",
                    attune__wgmma_groups(t), t->stages),
           0;
  if (t->order && t->block_n < ATTUNE__WGMMA_ROWS) /* K stands for the rows of a tile that is not */
    return snprintf(reason, size, "order 1: block_n %d, from %d on", t->block_n,
                    ATTUNE__WGMMA_ROWS),
           0;
  if (t->order && items_apart(t) >= t->stages)
    return snprintf(reason, size, "order 1: %d warpgroups need more than %d stages",
                    attune__wgmma_groups(t), t->stages),
           0;
  if (t->block_n / 2 + PRODUCT_BESIDE > registers_at_start(t))
    return snprintf(reason, size, "registers: scores need %d, a thread starts with %d",
                    t->block_n / 2 + PRODUCT_BESIDE, registers_at_start(t)),
           0;
  const int together = t->block_n / 2 + registers_output(v, t);
  if (t->warps == 24 && together > MOST_OF_24_WARPS)
    return snprintf(reason, size, "registers: scores, P and O need %d, of 24 warps at most %d",
                    together, MOST_OF_24_WARPS),
           0;
  if (registers(v, t) <= registers_multiply(t)) return 1;
  snprintf(reason, size, "registers: needs about %d, a thread has %d", registers(v, t),
           registers_multiply(t));
  return 0;
}

static const int lengths[] = {32,  48,  64,  80,  96,  112, 128, 144,
                              160, 176, 192, 200, 208, 224, 240, 256};

/* As many stages as an SM holds: what is in flight is what this family is about. Maxima in two
 * chains. Turns wherever they can be: on an H200 (2026-11-30) they take 4 % at 197 keys, 3 % at 256
 * and at 128, nothing at 77. The next scores beside O take 4 % at 197 keys, 2 % at 256, and cost 2
 * to 4 % at 160 and fewer. */
static int candidates(const attune_variant *v, attune_tile *out, int max) {
  int count = 0;
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
    int item = 3 * lengths[k] * attune__wgmma_panels(v) * attune__wgmma_panel(v),
        stages = SMEM_FOR_ITEMS / item;
    for (int warps = 12; warps <= 24 && count < max; warps += 4) {
      attune_tile *t = &out[count++];
      *t = (attune_tile){.family = ATTUNE_FAMILY_SHORT,
                         .block_m = (uint16_t)lengths[k],
                         .block_n = (uint16_t)lengths[k],
                         .stages = (uint8_t)(stages < MAX_STAGES ? stages : MAX_STAGES),
                         .warps = (uint8_t)warps,
                         .chains = 1};
      t->turns = items_of_a_turn(t) <= t->stages;
      t->order = t->block_n >= FROM_KEYS && items_apart(t) < t->stages;
      if (registers(v, t) > registers_multiply(t)) t->order = 0;
    }
  }
  return count;
}

static void ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  uint32_t rows = (uint32_t)(t->stages * attune__wgmma_panels(v) * (t->block_m + 2 * t->block_n));
  attune__ledger_add(out, "items", "elem_t", 2, rows, (uint32_t)attune__wgmma_panel(v) / 2,
                     ATTUNE__PANEL_ALIGN, "a stage: panels of Q, then of O, of K and of V");
  attune__ledger_add(out, "zeros", "elem_t", 2, ATOM, (uint32_t)attune__wgmma_panel(v) / 2,
                     ATTUNE__PANEL_ALIGN, "rows of V behind the last");
  attune__ledger_add(out, "jobs", "u32", 4, t->stages, JOB_WORDS, 16,
                     "of each item: place, mask, keys");
  attune__ledger_add(out, "barriers", "u64", 8, 4u * t->stages, 1, 8,
                     "mbarriers: Q and K there, V there, V clean, done");
}

static void constants(attune_kernel *kernel) {
  const attune_variant *v = &kernel->variant;
  attune__add_constant(kernel, "kHeadDimQK", v->head_dim_qk, "elements of a row of Q and K");
  attune__add_constant(kernel, "kHeadDimV", v->head_dim_v, "elements of a row of V and O");
  attune__add_constant(kernel, "kPadded", attune__wgmma_padded(v->head_dim_qk),
                       "whole steps of 16 of them");
  attune__add_constant(kernel, "kPanel", attune__wgmma_panel(v), "bytes of a panel's row");
  attune__add_constant(kernel, "kPanelQK", attune__wgmma_panel(v), "the same, of prim/wgmma.cuh");
  attune__add_constant(kernel, "kPanelV", attune__wgmma_panel(v), "the same");
  attune__add_constant(kernel, "kRegistersLoad", REGISTERS_LOAD, "of a thread that loads");
  attune__add_constant(kernel, "kRegistersMultiply", registers_multiply(&kernel->tile),
                       "of a thread that multiplies");
}

/* Share of the smaller ceilings that shows, with one warpgroup; more of them hide more. Fitted to
 * 64, 77, 128 and 197 keys on an H200 (2026-11-30), beside the families that serve longer heads. */
static const double exposed_by_group = 0.24;

static void cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                 const attune_shape *s, attune_cost *out) {
  attune_mask_sums sums;
  attune_traffic bytes;
  attune_ledger smem = {.count = 0};
  attune__mask_blocks(v, s, t->block_m, t->block_n, &sums);
  attune__forward_traffic_whole(v, t, s, &bytes);
  ledger(v, t, &smem);
  double items = (double)(s->batch * s->heads_q / v->group) * (double)sums.blocks;
  double scores = items * tiles(t) * ATTUNE__WGMMA_ROWS * t->block_n;
  const int padded = attune__wgmma_padded(v->head_dim_qk);
  double read = tiles(t) * (2.0 * ATTUNE__WGMMA_ROWS + 4.0 * t->block_n) * padded;
  attune_work work = {.blocks = items,
                      .steps = items,
                      .tensor = 4 * scores * padded,
                      .exponentials = scores,
                      .instructions = attune__wgmma_instructions * scores / 32,
                      .wavefronts =
                          items * (read + 2.0 * (t->block_m + 2 * t->block_n) * padded) / 128,
                      .blocks_per_head = (double)sums.blocks,
                      .warps = 4 * attune__wgmma_groups(t),
                      .registers = registers_multiply(t),
                      .smem_bytes = smem.bytes,
                      .kv_bytes = attune__kv_bytes(v, s),
                      .start = attune__wgmma_start,
                      .ahead = t->stages > 1 && items > b->sms,
                      /* with one stage loads are beside no arithmetic */
                      .exposed = t->stages > 1 ? exposed_by_group / attune__wgmma_groups(t) : 1};
  attune__work_cost(b, &work, &bytes, out);
}

const attune_model attune__model_attn_fwd_short = {
    .op = ATTUNE_OP_ATTN_FWD,
    .family = ATTUNE_FAMILY_SHORT,
    .knobs = 1u << ATTUNE__TILE_order | 1u << ATTUNE__TILE_turns | 1u << ATTUNE__TILE_chains,
    .template_path = "attn_fwd/short.cu",
    .candidates = candidates,
    .legal = legal,
    .ledger = ledger,
    .constants = constants,
    .recipe = attune__wgmma_recipe,
    .registers = registers,
    .traffic = attune__forward_traffic_whole,
    .cost = cost,
};
