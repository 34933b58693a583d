/* model_attn_fwd_middle.c - attn_fwd, family middle: what templates/attn_fwd/middle.cu needs and
 * costs.
 *
 * A block is one warpgroup that loads and two or three that multiply, each with tiles of 64 rows of
 * its own. Tiles lie in shared memory as panels, two of Q for a warpgroup, and `stages` of K and of
 * V for all of them. */
#include "model_attn_fwd.h"
#include "model_wgmma.h"

#include <stdio.h>

enum {
  JOB_WORDS = 12,        /* of struct Job */
  REGISTERS_BESIDE = 28, /* what NVRTC 13.0 needs beside scores, P and O to spill nowhere */
  MAX_STAGES = 8,
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

/* Registers of a thread by role: what setmaxnreg can hand out of those that the block starts with,
 * 128 or 168 a thread. */
typedef struct roles {
  int load, multiply;
} roles;

static roles registers_by_role(const attune_tile *t) {
  return attune__wgmma_groups(t) == 2 ? (roles){40, 232} : (roles){32, 160};
}

/* Scores, P and O of a thread. */
static int registers(const attune_variant *v, const attune_tile *t) {
  return t->block_n / 2 + t->block_n / 4 + v->head_dim_v / 2 + REGISTERS_BESIDE;
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
  if (t->block_k % ATTUNE__WGMMA_STEP || t->block_k > t->block_n)
    return snprintf(reason, size, "block_k %d: family middle has multiples of 16 up to block_n",
                    t->block_k),
           0;
  if (t->share_kv) return snprintf(reason, size, "share_kv: family middle has 0"), 0;
  if (t->stages < 2 || t->stages > MAX_STAGES)
    return snprintf(reason, size, "stages %d: family middle has 2 to %d", t->stages, MAX_STAGES), 0;
  if (t->turns > 1 || t->lazy > 1 || t->chains > 3)
    return snprintf(reason, size, "turns and lazy are 0 or 1, chains 0 to 3"), 0;
  return 1;
}

static int legal(const attune_variant *v, const attune_tile *t, char *reason, size_t size) {
  if (!legal_fields(t, reason, size)) return 0;
  if (registers(v, t) <= registers_by_role(t).multiply) return 1;
  snprintf(reason, size, "registers: needs about %d, a thread has %d", registers(v, t),
           registers_by_role(t).multiply);
  return 0;
}

static const int keys_of_step[] = {64, 80, 96, 112, 128, 144, 160};
static const int keys_of_width[] = {16, 32, 64};

/* Three warpgroups that multiply: two were slower wherever they were timed (H200, 577 to 1500
 * keys). As many stages as fit beside Q: the more keys fit, the more heads' keys stay. */
static int candidates(const attune_variant *v, attune_tile *out, int max) {
  const int row = attune__wgmma_panels(v) * attune__wgmma_panel(v),
            q = 2 * 3 * ATTUNE__WGMMA_ROWS * row;
  int count = 0;
  for (size_t n = 0; n < sizeof keys_of_step / sizeof *keys_of_step; n++)
    for (size_t k = 0; k < sizeof keys_of_width / sizeof *keys_of_width && count < max; k++) {
      int stages = (SMEM_FOR_TILES - q) / (2 * keys_of_step[n] * row);
      out[count++] = (attune_tile){.family = ATTUNE_FAMILY_MIDDLE,
                                   .block_m = ATTUNE__WGMMA_ROWS,
                                   .block_n = (uint16_t)keys_of_step[n],
                                   .block_k = (uint16_t)keys_of_width[k],
                                   .stages = (uint8_t)(stages < MAX_STAGES ? stages : MAX_STAGES),
                                   .warps = 16,
                                   .turns = 1,
                                   .chains = 1};
    }
  return count;
}

static void add_panels(attune_ledger *ledger, const attune_variant *v, const char *name, int rows,
                       const char *note) {
  attune__ledger_add(ledger, name, "elem_t", 2, (uint32_t)(rows * attune__wgmma_panels(v)),
                     (uint32_t)attune__wgmma_panel(v) / 2, ATTUNE__PANEL_ALIGN, note);
}

static void ledger(const attune_variant *v, const attune_tile *t, attune_ledger *out) {
  const uint32_t tiles = (uint32_t)(2 * attune__wgmma_groups(t));
  add_panels(out, v, "q", (int)tiles * ATTUNE__WGMMA_ROWS,
             "panels of Q, then of O, two tiles a warpgroup");
  add_panels(out, v, "k", t->stages * t->block_n, "panels of K, a step a stage");
  add_panels(out, v, "v", t->stages * t->block_n, "panels of V, a step a stage");
  attune__ledger_add(out, "jobs", "u32", 4, tiles, JOB_WORDS, 16,
                     "of each tile of Q: place, steps, first stage");
  attune__ledger_add(out, "ends", "float", 4, tiles, 2 * ATTUNE__WGMMA_ROWS, 16,
                     "of each row: maximum and sum, for its LSE");
  attune__ledger_add(out, "barriers", "u64", 8,
                     2 * tiles + 4u * t->stages + (uint32_t)attune__wgmma_groups(t) + 1, 1, 8,
                     "mbarriers: Q there, O there, K, V full and free, a load landed");
}

static void constants(attune_kernel *kernel) {
  const attune_variant *v = &kernel->variant;
  const roles registers = registers_by_role(&kernel->tile);
  attune__add_constant(kernel, "kHeadDimQK", v->head_dim_qk, "elements of a row of Q and K");
  attune__add_constant(kernel, "kHeadDimV", v->head_dim_v, "elements of a row of V and O");
  attune__add_constant(kernel, "kPadded", attune__wgmma_padded(v->head_dim_qk),
                       "whole steps of 16 of Q's and K's");
  attune__add_constant(kernel, "kPanel", attune__wgmma_panel(v), "bytes of a panel's row");
  attune__add_constant(kernel, "kHeadsToStay", HEADS_TO_STAY, "heads that make keys stay");
  attune__add_constant(kernel, "kRowsToStay", ROWS_TO_STAY,
                       "the most rows of a head whose keys stay");
  attune__add_constant(kernel, "kRegistersLoad", registers.load, "of a thread that loads");
  attune__add_constant(kernel, "kRegistersMultiply", registers.multiply,
                       "of a thread that multiplies");
}

static double ceiling(int64_t n, int64_t d) {
  return (double)((n + d - 1) / d);
}

/* Whether the keys of a head stay in shared memory for all its rows: the template's rule. */
static int keys_stay(const attune_tile *t, const attune_shape *s) {
  return s->len_k <= t->stages * t->block_n && s->batch * s->heads_q >= HEADS_TO_STAY &&
         s->len_q > ATTUNE__WGMMA_ROWS * attune__wgmma_groups(t) && s->len_q <= ROWS_TO_STAY;
}

/* Times that the keys of a head are loaded: once, or for each round of its tiles. */
static double passes(const attune_tile *t, const attune_shape *s) {
  return keys_stay(t, s) ? 1 : ceiling(s->len_q, ATTUNE__WGMMA_ROWS * attune__wgmma_groups(t));
}

static void traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                    attune_traffic *out) {
  const double heads = (double)(s->batch * s->heads_q), rows = heads * (double)s->len_q;
  const double distinct = (double)(s->batch * s->heads_kv * s->len_k);
  const double requested = heads * passes(t, s) * (double)s->len_k;
  const double row = v->head_dim_qk * attune__dtype_bytes(v->dtype_q);
  *out = (attune_traffic){0};
  attune__traffic_read(out, "Q", "batch * heads_q * len_q * head_dim_qk", row, rows, rows);
  attune__traffic_read(out, "K", "batch * heads_q * passes * len_k * head_dim_qk", row, requested,
                       distinct);
  attune__traffic_read(out, "V", "batch * heads_q * passes * len_k * head_dim_v", row, requested,
                       distinct);
  attune__traffic_write(out, "O", "batch * heads_q * len_q * head_dim_v", row, rows);
  attune__traffic_write(out, "LSE", "batch * heads_q * len_q", 4, rows);
}

/* Keys that a tile multiplies: whole steps, two at least, and a narrower one. */
static double keys_of_tile(const attune_tile *t, const attune_shape *s) {
  int64_t steps = (s->len_k + t->block_n - 1) / t->block_n, width = t->block_n;
  if (steps < 2) steps = 2;
  int64_t left = s->len_k - (steps - 1) * t->block_n;
  while (width > narrow(t) && left <= width - narrow(t)) width -= narrow(t);
  return (double)((steps - 1) * t->block_n + width);
}

/* What one saves at the ends of tiles, of a step's smaller ceilings: they cost family wgmma about a
 * step each. Fitted to what a prototype took for 577 keys of 64, 729 of 72 and 1500 of 80 elements
 * on an H200. The rest is as in that family; timed there, 2026-11-30, this one comes first at d 64
 * from 512 to 4096 keys, by 18 % to 3 %, in large batches. */
static const double saved_at_ends = 0.4;
/* Clocks in which a tile compares what is left with one width. */
static const double width_clocks = 4;

static void cost(const attune_variant *v, const attune_tile *t, const attune_board *b,
                 const attune_shape *s, attune_cost *out) {
  attune_traffic bytes;
  attune_ledger smem = {.count = 0};
  traffic(v, t, s, &bytes);
  ledger(v, t, &smem);
  const double heads = (double)(s->batch * s->heads_q),
               tiles = ceiling(s->len_q, ATTUNE__WGMMA_ROWS);
  /* A block works on as many tiles at once as it has warpgroups. */
  const double rounds =
      keys_stay(t, s) ? heads * tiles / attune__wgmma_groups(t) : heads * passes(t, s);
  const double keys = keys_of_tile(t, s), steps = rounds * ceiling((int64_t)keys, t->block_n);
  const double scores = heads * tiles * ATTUNE__WGMMA_ROWS * keys;
  const int qk = attune__wgmma_padded(v->head_dim_qk), vv = v->head_dim_v;
  const int groups = attune__wgmma_groups(t), busy = tiles < groups ? (int)tiles : groups;
  const int follows = rounds > b->sms; /* a tile on another, in most blocks */
  attune_work work = {
      .blocks = rounds,
      .steps = steps,
      .tensor = 2 * scores * (qk + vv),
      .exponentials = scores,
      .instructions =
          (attune__wgmma_instructions * scores + steps * groups * ATTUNE__WGMMA_ROWS * vv) / 32,
      .blocks_per_head = passes(t, s),
      .warps = 4 * groups,
      .registers = registers_by_role(t).multiply,
      .smem_bytes = smem.bytes,
      .kv_bytes = attune__kv_bytes(v, s),
      .step_clocks = attune__wgmma_step_clocks + width_clocks * widths(t) * rounds / steps,
      .exposed = attune__wgmma_exposed[busy] - (follows ? saved_at_ends * rounds / steps : 0),
      .ahead = follows};
  /* Each warpgroup reads its rows of Q and all of K, then all of V; TMA fills them once a pass. */
  work.wavefronts =
      (steps * groups * 2.0 * ATTUNE__WGMMA_ROWS * qk + heads * tiles * 2.0 * keys * (qk + vv) +
       heads * passes(t, s) * 2.0 * keys * (qk + vv)) /
      128;
  attune__work_cost(b, &work, &bytes, out);
}

const attune_model attune__model_attn_fwd_middle = {
    .op = ATTUNE_OP_ATTN_FWD,
    .family = ATTUNE_FAMILY_MIDDLE,
    .knobs = 1u << ATTUNE__TILE_turns | 1u << ATTUNE__TILE_lazy | 1u << ATTUNE__TILE_chains,
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
