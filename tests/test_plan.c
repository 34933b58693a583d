/* test_plan.c - the planner: ledgers, order, reasons. What it counts: test_plan_bytes.c. */
#include "planned.h"
#include "test.h"

#include <math.h>

static attune_plan_request request(attune_variant v, uint32_t budget) {
  return (attune_plan_request){
      .variant = v, .budget = budget, .shape = attune__plan_shape(ATTUNE_CLASS_ANY)};
}

/* Bytes that the kernels' contract gives a tile of attn_fwd. */
static uint32_t expected_bytes(const attune_variant *v, const attune_tile *t) {
  if (t->family == ATTUNE_FAMILY_MMA) {
    int rows = 16 * t->warps, split = rows > t->block_m ? rows / t->block_m : 1, step = 16 * split;
    int qk = (v->head_dim_qk + 15) / 16 * 16, dv = (v->head_dim_v + step - 1) / step * step;
    int tiles = t->block_m * qk + t->stages * t->block_n * (qk + dv);
    if (split == 1) return (uint32_t)(2 * tiles);
    int passed = 2 * t->block_m * t->block_n + 4 * split * t->block_m; /* P, and a float a row */
    return (uint32_t)(2 * tiles + passed + 127) / 128 * 128;
  }
  if (t->family == ATTUNE_FAMILY_WGMMA) {
    int qk = (v->head_dim_qk + 15) / 16 * 16, dv = (v->head_dim_v + 15) / 16 * 16;
    int row = qk % 64 == 0 ? 64 : qk % 32 == 0 ? 32 : 16; /* elements of a panel of Q, and of O */
    int o = (dv + row - 1) / row * row, queries = (1 + t->second_q) * t->block_m;
    int bytes = 2 * (queries * (qk > o ? qk : o) + t->stages * t->block_n * (qk + dv));
    bytes += (1 + t->second_q) * 96 + 8 * (2 * (1 + t->second_q) + 4 * t->stages);
    return (uint32_t)(bytes + 1023) / 1024 * 1024;
  }
  if (t->family == ATTUNE_FAMILY_SHORT) {
    int d = (v->head_dim_qk + 15) / 16 * 16, row = d % 64 ? 32 : 64; /* elements of a panel's row */
    int item = 2 * ((d + row - 1) / row * row) * (t->block_m + 2 * t->block_n);
    int bytes = (t->stages * item + 1023) / 1024 * 1024;
    bytes += 2 * 8 * row + t->stages * (48 + 4 * 8); /* zeros, jobs, barriers */
    return (uint32_t)(bytes + 1023) / 1024 * 1024;
  }
  if (t->family == ATTUNE_FAMILY_MIDDLE) {
    int d = (v->head_dim_qk + 15) / 16 * 16, row = d % 64 ? 32 : 64; /* elements of a panel's row */
    int tiles = 2 * (t->warps / 4 - 1), padded = (d + row - 1) / row * row;
    int bytes = 2 * padded * (tiles * t->block_m + 2 * t->stages * t->block_n);
    bytes += tiles * (48 + 8 * t->block_m);                   /* jobs, ends of rows */
    bytes += 8 * (2 * tiles + 4 * t->stages + tiles / 2 + 1); /* barriers */
    return (uint32_t)(bytes + 1023) / 1024 * 1024;
  }
  int qk = v->head_dim_qk, dv = v->head_dim_v;
  int vec = dv <= 16 ? 1 : (dv + 63) / 64 * 64 == (dv + 31) / 32 * 32 ? 4 : 2;
  int padded = (dv + 16 * vec - 1) / (16 * vec) * 16 * vec;
  int p = t->block_n % 32 == 0 ? t->block_n + 16 : t->block_n;
  int kv = t->share_kv ? (qk + 4 < padded ? padded : qk) + 4 : qk + 4 + padded;
  return (uint32_t)(4 * (t->block_m * (qk + 4) + t->block_n * kv + t->block_m * p));
}

static void check_ledger(const attune_ledger *ledger) {
  uint32_t end = 0, align = 1;
  for (int i = 0; i < ledger->count; i++) {
    const attune_piece *piece = &ledger->piece[i];
    const char *type = piece->ctype;
    uint32_t element = strcmp(type, "elem_t") == 0 ? 2 : strcmp(type, "u64") == 0 ? 8 : 4;
    if (piece->align > align) align = piece->align;
    ck_assert_uint_eq(piece->bytes, piece->rows * piece->columns * element);
    ck_assert_uint_eq(piece->offset % piece->align, 0);
    ck_assert_uint_eq(piece->offset, end); /* multiples of 16 bytes: no gaps */
    end = piece->offset + piece->bytes;
  }
  ck_assert_uint_eq(ledger->bytes, (end + align - 1) / align * align);
}

static void check_candidates(const attune_plan *plan) {
  const attune_variant *v = &plan->request.variant;
  for (int i = 0; i < plan->count; i++) {
    const attune_candidate *c = &plan->candidates[i];
    ck_assert_int_eq(c->legal, i < plan->legal_count);
    check_ledger(&c->ledger);
    if (v->op == ATTUNE_OP_ATTN_FWD)
      ck_assert_uint_eq(c->ledger.bytes, expected_bytes(v, &c->tile));
    if (!c->legal) {
      ck_assert_msg(c->reason[0], "%s has no reason", c->name);
      continue;
    }
    ck_assert_uint_le(c->ledger.bytes, attune__plan_budget(&plan->request));
    ck_assert_uint_le(c->ledger.bytes, (uint32_t)plan->request.board->smem_block);
    ck_assert(isfinite(c->cost.total) && c->cost.total > 0 && c->cost.occupancy >= 1);
    if (i) ck_assert(plan->candidates[i - 1].cost.total <= c->cost.total);
  }
}

static void check_same(const attune_plan *a, const attune_plan *b) {
  ck_assert_int_eq(a->count, b->count);
  ck_assert_int_eq(a->legal_count, b->legal_count);
  for (int i = 0; i < a->count; i++) ck_assert_str_eq(a->candidates[i].name, b->candidates[i].name);
}

/* Budgets from too little to all: the first choice never gets worse. */
static void check_variant(attune_variant v) {
  static const uint32_t budgets[] = {4096, 16384, 49152, 98304, 0};
  double before = INFINITY;
  for (int b = 0; b < 5; b++) {
    attune_plan_request r = request(v, budgets[b]);
    attune_plan plan, again;
    attune_status status = attune__plan_make(&r, &plan);
    ck_assert_int_eq(status, plan.legal_count ? ATTUNE_OK : ATTUNE_NO_FIT);
    ck_assert_msg(plan.legal_count || budgets[b], "no tile at all: %s", attune_error());
    check_candidates(&plan);
    if (b == 4) {
      attune__plan_make(&r, &again);
      check_same(&plan, &again);
      attune__plan_free(&again);
    }
    double now = plan.legal_count ? plan.candidates[0].cost.total : INFINITY;
    ck_assert(now <= before);
    before = now;
    attune__plan_free(&plan);
  }
}

/* Every head dim on every arch; dtypes, masks and unequal dims take turns, so that each meets each
 * arch many times. */
START_TEST(every_property_over_the_matrix) {
  static const int others[] = {8, 24, 64, 128, 256};
  for (int b = 0; b < ATTUNE_BOARDS; b++)
    for (int d = 8; d <= 256; d += 8) {
      int turn = d / 8 + b, v = turn % 2 ? d : others[turn % 5];
      int dtype = ATTUNE_DTYPE_FP32 + turn % 3, mask = ATTUNE_MASK_NONE + turn / 3 % 3;
      check_variant(variant(ATTUNE_OP_ATTN_FWD, attune__boards[b].arch_name, dtype, d, v, mask));
    }
}
END_TEST

START_TEST(every_part_of_the_standard_op_is_planned) {
  for (int b = 0; b < ATTUNE_BOARDS; b++)
    for (int d = 8; d <= 256; d += 8)
      for (int part = 0; part < 3; part++) {
        attune_variant v = variant(ATTUNE_OP_ATTN_STANDARD, attune__boards[b].arch_name,
                                   ATTUNE_DTYPE_FP32, d, 264 - d, ATTUNE_MASK_CAUSAL);
        v.part = (uint8_t)part;
        attune_plan_request r = request(v, 0);
        attune_plan plan;
        ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_OK);
        check_candidates(&plan);
        ck_assert_int_eq(plan.candidates[0].ledger.bytes == 0, part == 1);
        attune__plan_free(&plan);
      }
}
END_TEST

/* ---- reasons and errors ---------------------------------------------------------------------- */

static const attune_candidate *find(const attune_plan *plan, const char *name) {
  for (int i = 0; i < plan->count; i++)
    if (!strcmp(plan->candidates[i].name, name)) return &plan->candidates[i];
  ck_abort_msg("no candidate %s", name);
  return NULL;
}

START_TEST(a_dropped_tile_says_why) {
  attune_plan_request r = request(forward(64), 65536);
  attune_plan plan;
  ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_OK);
  ck_assert_str_eq(find(&plan, "fma_m64n64w8")->reason,
                   "shared memory: needs 71,680 bytes, budget 65,536");
  attune__plan_free(&plan);
  r = request(forward(256), 0);
  ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_OK);
  ck_assert_str_eq(find(&plan, "fma_m128n128w8")->reason,
                   "registers: needs about 312, a thread has 255");
  ck_assert_str_eq(find(&plan, "fma_m32n128")->reason,
                   "shared memory: needs 315,904 bytes, sm_80 166,912");
  attune__plan_free(&plan);
}
END_TEST

static void check_no_fit(attune_plan_request r, const char *message) {
  attune_plan plan;
  ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_NO_FIT);
  ck_assert_str_eq(attune_error(), message);
  ck_assert_int_gt(plan.count, 0);
  attune__plan_free(&plan);
}

START_TEST(where_nothing_fits_the_error_says_what_would) {
  check_no_fit(request(forward(128), 12288),
               "no tile of attn_fwd_sm80_fp32_d128 fits: budget 12,288 bytes of shared memory; the "
               "smallest tile, fma_m16n16kv1, needs 17,920, which is 5,632 more; sram: 18KB works, "
               "or head_dim 72");
  attune_plan_request r = request(forward(256), 0);
  r.pins.fixed = 1u << ATTUNE__TILE_block_n, r.pins.tile.block_n = 128;
  r.variant.arch = attune__arch_parse("sm_75");
  check_no_fit(r, "no tile of attn_fwd_sm75_fp32_d256 fits: budget 65,536 bytes of shared memory; "
                  "the smallest tile, fma_m16n128kv1, needs 158,976, which is 93,440 more; no sram "
                  "of sm_75 works, or head_dim 72, or fewer tile pins");
  r.pins.tile.block_n = 48;
  check_no_fit(r, "no tile of attn_fwd_sm75_fp32_d256 fits: tile pins: no candidate has these "
                  "values; `attune explain` lists the tiles");
}
END_TEST

/* What the error offers does work, and one step more does not. */
START_TEST(what_the_error_offers_works) {
  attune_plan plan;
  attune_plan_request r = request(forward(128), 18 * 1024);
  ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_OK);
  attune__plan_free(&plan);
  for (int d = 72; d <= 80; d += 8) {
    r = request(forward(d), 12288);
    ck_assert_int_eq(attune__plan_make(&r, &plan), d == 72 ? ATTUNE_OK : ATTUNE_NO_FIT);
    attune__plan_free(&plan);
  }
}
END_TEST

START_TEST(pins_of_a_spec_choose_among_the_tiles) {
  attune_plan_request r = request(forward(64), 0);
  r.pins.fixed = 1u << ATTUNE__TILE_block_m | 1u << ATTUNE__TILE_warps;
  r.pins.tile.block_m = 32, r.pins.tile.warps = 2;
  attune_plan plan;
  ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_OK);
  for (int i = 0; i < plan.legal_count; i++) {
    ck_assert_int_eq(plan.candidates[i].tile.block_m, 32);
    ck_assert_int_eq(plan.candidates[i].tile.warps, 2);
  }
  ck_assert_str_eq(find(&plan, "fma_m64n64")->reason, "tile: not what the spec asks for");
  attune__plan_free(&plan);
  r.variant = variant(ATTUNE_OP_ATTN_STANDARD, "sm_80", ATTUNE_DTYPE_FP32, 64, 64, 1);
  r.variant.part = 1; /* block_m follows from the warps here */
  ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_OK);
  ck_assert_str_eq(plan.candidates[0].name, "fma_m2w2");
  attune__plan_free(&plan);
}
END_TEST

/* ---- families ----------------------------------------------------------------------------------
 */

/* 16-bit problems of aligned rows go to tensor cores: on every arch, whatever the head dims. */
START_TEST(tensor_cores_come_first) {
  for (int b = 0; b < ATTUNE_BOARDS; b++)
    for (int d = 8; d <= 256; d += 8)
      for (int dtype = ATTUNE_DTYPE_FP16; dtype <= ATTUNE_DTYPE_BF16; dtype++) {
        attune_variant v = variant(ATTUNE_OP_ATTN_FWD, attune__boards[b].arch_name, dtype, d,
                                   d % 24 ? d : 264 - d, ATTUNE_MASK_NONE + d / 8 % 3);
        int turing = attune__arch_cc(v.arch) == 75 && dtype == ATTUNE_DTYPE_BF16;
        for (int align = ATTUNE_ALIGN_16B; align <= ATTUNE_ALIGN_ELEM; align++) {
          v.align = (uint8_t)align;
          attune_plan_request r = request(v, 0);
          attune_plan plan;
          ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_OK);
          int mma = align == ATTUNE_ALIGN_16B && !turing;
          /* Short rows leave little to multiply: there the model may take either. */
          int either = attune__arch_cc(v.arch) == 90 && v.head_dim_v <= v.head_dim_qk;
          int family = plan.candidates[0].tile.family;
          if (family == ATTUNE_FAMILY_MIDDLE) family = ATTUNE_FAMILY_WGMMA; /* the same products */
          int wgmma = either && (d >= 64 || family == ATTUNE_FAMILY_WGMMA);
          ck_assert_msg(family == (mma && wgmma ? ATTUNE_FAMILY_WGMMA
                                   : mma        ? ATTUNE_FAMILY_MMA
                                                : ATTUNE_FAMILY_FMA),
                        "%s, %d, head_dim %d: %s", attune__boards[b].arch_name, dtype, d,
                        plan.candidates[0].name);
          attune__plan_free(&plan);
        }
      }
}
END_TEST

START_TEST(a_family_is_taken_at_its_word) {
  attune_variant v = variant(ATTUNE_OP_ATTN_FWD, "sm_80", ATTUNE_DTYPE_BF16, 64, 64, 2);
  attune_plan_request r = request(v, 0);
  attune_plan plan;
  for (int family = ATTUNE_FAMILY_FMA; family <= ATTUNE_FAMILY_MMA; family++) {
    r.family = family;
    ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_OK);
    for (int i = 0; i < plan.count; i++) ck_assert_int_eq(plan.candidates[i].tile.family, family);
    attune__plan_free(&plan);
  }
  r.variant.align = ATTUNE_ALIGN_ELEM;
  ck_assert_int_eq(attune__plan_make(&r, &plan), ATTUNE_NO_FIT);
  ck_assert_str_eq(attune_error(),
                   "no tile of attn_fwd_sm80_bf16_d64_causal_elem fits: align elem with family "
                   "mma: rows are copied 16 bytes at a time; family fma loads elements");
  attune__plan_free(&plan);
}
END_TEST

/* A family that serves the variant and has no tile that fits is fallen back from, too; the budgets
 * of real boards leave one of today's families always one, so the plan is made by hand. */
START_TEST(a_family_without_a_tile_is_fallen_back_from) {
  attune_candidate c[3];
  memset(c, 0, sizeof c);
  c[0].tile.family = ATTUNE_FAMILY_FMA, c[0].legal = 1;
  c[1].tile.family = c[2].tile.family = ATTUNE_FAMILY_MMA;
  c[1].ledger.bytes = 300, c[2].ledger.bytes = 200;
  strcpy(c[2].name, "mma_m32n16w2"), strcpy(c[2].reason, "shared memory: needs 200");
  attune_plan plan = {.request = request(forward(64), 0), .candidates = c, .count = 3};
  plan.legal_count = 1;
  char reason[ATTUNE_REASON_MAX];
  ck_assert_int_eq(attune__plan_fallback(&plan, reason, sizeof reason), 1);
  ck_assert_str_eq(reason, "family mma has no tile that fits: mma_m32n16w2: shared memory: needs "
                           "200");
  plan.request.pins.fixed = 1; /* the spec's own choice */
  ck_assert_int_eq(attune__plan_fallback(&plan, reason, sizeof reason), 0);
  plan.request.pins.fixed = 0, c[2].legal = 1;
  ck_assert_int_eq(attune__plan_fallback(&plan, reason, sizeof reason), 0);
}
END_TEST

static void check_tile_refused(attune_variant v, attune_tile t, const char *message) {
  attune_kernel kernel;
  ck_assert_int_eq(attune__kernel_make(&v, &t, NULL, &kernel), ATTUNE_INVALID);
  ck_assert_str_eq(attune_error(), message);
}

START_TEST(tiles_of_family_mma_have_rules) {
  attune_variant v = variant(ATTUNE_OP_ATTN_FWD, "sm_80", ATTUNE_DTYPE_FP16, 128, 128, 1);
  attune_tile t = tile(64, 64, 4, 0), other = t;
  t.family = other.family = ATTUNE_FAMILY_MMA;
  attune_kernel kernel;
  ck_assert_int_eq(attune__kernel_make(&v, &t, NULL, &kernel), ATTUNE_OK);
  other.block_m = 256;
  check_tile_refused(v, other,
                     "tile: block_m 256: 4 warps have 16 or 32 rows each, or 2 or 4 of them 16 "
                     "together: a power of two from 16 to 128");
  other = t, other.block_m = 16, other.block_n = 32;
  check_tile_refused(v, other,
                     "tile: block_n 32: 4 warps share rows and have 16 keys each or more");
  other = t, other.block_n = 48;
  check_tile_refused(v, other, "tile: block_n 48: family mma has 16, 32, 64 or 128");
  other = t, other.warps = 3;
  check_tile_refused(v, other, "tile: warps 3: family mma has 2, 4 or 8");
  other = t, other.stages = 5;
  check_tile_refused(v, other, "tile: stages 5: family mma has 1 to 4");
  other = t, other.share_kv = 1;
  check_tile_refused(v, other, "tile: share_kv 1: family mma has 0");
  v.dtype_q = v.dtype_kv = v.dtype_out = ATTUNE_DTYPE_FP32;
  ck_assert_int_eq(attune__kernel_make(&v, &t, NULL, &kernel), ATTUNE_UNSUPPORTED);
  ck_assert_str_eq(attune_error(), "dtype fp32 with family mma: tensor cores multiply fp16 and "
                                   "bf16; family fma has fp32");
}
END_TEST

static void check_refused(attune_variant v, attune_status status, const char *message) {
  attune_plan plan;
  attune_plan_request r = request(v, 0);
  ck_assert_int_eq(attune__generated(&v), status);
  ck_assert_str_eq(attune_error(), message);
  ck_assert_int_eq(attune__plan_make(&r, &plan), status);
  ck_assert_str_eq(attune_error(), message);
}

START_TEST(what_has_no_kernels_is_refused_by_name) {
  check_refused(forward(12), ATTUNE_UNSUPPORTED,
                "head_dim_qk 12: with align 16b rows are multiples of 8 elements; align elem has "
                "any other");
  attune_variant v = forward(64);
  v.head_dim_v = 520;
  check_refused(v, ATTUNE_UNSUPPORTED, "head_dim_v 520: not generated yet; 1 to 512 are");
  v = forward(64), v.features = ATTUNE_FEATURE_PAGED;
  check_refused(v, ATTUNE_UNSUPPORTED, "features paged with op attn_fwd: not generated yet");
  v = forward(64), v.dtype_out = ATTUNE_DTYPE_BF16;
  check_refused(v, ATTUNE_UNSUPPORTED,
                "dtype q fp32, kv fp32, out bf16: not generated yet; O of Q's dtype or in fp32 is");
  v = variant(ATTUNE_OP_ATTN_STANDARD, "sm_80", ATTUNE_DTYPE_FP16, 64, 64, 1), v.group = 4;
  check_refused(v, ATTUNE_UNSUPPORTED,
                "group 4 with op attn_standard: the baseline packs no heads; group 1 serves any "
                "grouping of them");
  v.group = 1, v.dtype_out = ATTUNE_DTYPE_FP32;
  check_refused(v, ATTUNE_UNSUPPORTED,
                "dtype q fp16, kv fp16, out fp32 with op attn_standard: the baseline has one "
                "dtype; op attn_fwd has others");
  v = forward(64), v.arch = attune__arch_parse("sm_70");
  check_refused(v, ATTUNE_UNSUPPORTED,
                "arch sm_70: not generated yet; sm_75, sm_80, sm_86, sm_89, sm_90a, sm_100a and "
                "sm_120a are");
}
END_TEST

/* ---- kernels and boards ---------------------------------------------------------------------- */

START_TEST(a_kernel_knows_how_it_is_launched) {
  attune_variant v = variant(ATTUNE_OP_ATTN_FWD, "sm_90a", ATTUNE_DTYPE_BF16, 192, 128, 2);
  attune_tile t = tile(64, 32, 8, 0);
  attune_kernel k;
  ck_assert_int_eq(attune__kernel_make(&v, &t, NULL, &k), ATTUNE_OK);
  ck_assert_str_eq(k.name, "attn_fwd_sm90a_bf16_d192x128_causal__fma_m64n32w8");
  ck_assert_str_eq(k.template_path, "attn_fwd/fma.cu");
  ck_assert_uint_eq(k.recipe.threads, 256);
  ck_assert_uint_eq(k.recipe.smem_bytes, k.ledger.bytes);
  ck_assert_uint_eq(k.recipe.grid, ATTUNE_GRID_Q_TILES);
  ck_assert_uint_eq(k.recipe.block_m, 64);
  ck_assert_uint_eq(k.recipe.cluster, 1);
  ck_assert_uint_eq(k.recipe.early, 1);
  ck_assert_uint_gt(k.recipe.param_bytes, 200);
  ck_assert_int_eq(k.constant_count, 4);
  ck_assert_str_eq(k.constant[2].name, "kVecV");
  ck_assert_int_eq(k.constant[2].value, 4);
  ck_assert_str_eq(k.constant[3].name, "kBlocksPerSM");
  ck_assert_int_eq(k.constant[3].value, 1); /* 144 registers: 3 warps on each part of an SM */
  v.arch = attune__arch(89, 0);             /* has no griddepcontrol */
  ck_assert_int_eq(attune__kernel_make(&v, &t, NULL, &k), ATTUNE_OK);
  ck_assert_uint_eq(k.recipe.early, 0);
  t.block_m = 80;
  ck_assert_int_eq(attune__kernel_make(&v, &t, NULL, &k), ATTUNE_INVALID);
  ck_assert_str_eq(attune_error(), "tile: block_m 80: 8 warps make 16 rows of lanes, so block_m is "
                                   "16, 32, 64 or 128");
}
END_TEST

START_TEST(pins_must_be_those_of_the_variant) {
  attune_pinset pins = {.count = 0};
  ck_assert_int_eq(attune__pinset_add(&pins, "window_left", 127), ATTUNE_OK);
  attune_variant v = forward(64);
  attune_tile t = tile(64, 64, 8, 0);
  attune_kernel k;
  ck_assert_int_eq(attune__kernel_make(&v, &t, &pins, &k), ATTUNE_INVALID);
  v.pins = attune__pinset_digest(&pins);
  ck_assert_int_eq(attune__kernel_make(&v, &t, &pins, &k), ATTUNE_OK);
  ck_assert_uint_eq(k.pins.count, 1);
  ck_assert_int_eq(attune__kernel_make(&v, &t, NULL, &k), ATTUNE_INVALID);
}
END_TEST

/* And specs/README.md says which. */
static void check_class(attune_class cls, const char *doc, const char *manual) {
  const char *name = attune__class_name((int)cls);
  char line[200];
  attune_shape s = attune__plan_shape(cls);
  ck_assert_msg(attune__shape_class(s.batch, s.heads_q, s.len_q, s.len_k) == cls, "%s", name);
  ck_assert_int_eq(s.heads_q, 16);
  snprintf(line, sizeof line, "\n| `%s` | %s | %lld, %lld x %lld |\n", name, doc,
           (long long)s.batch, (long long)s.len_q, (long long)s.len_k);
  ck_assert_msg(strstr(manual, line) != NULL, "%s", line);
}

START_TEST(a_class_is_planned_for_a_shape_of_its_own) {
  void *manual = NULL;
  size_t size;
  ck_assert_int_eq(attune__file_read("specs/README.md", 1 << 20, &manual, &size), ATTUNE_OK);
#define X(name, id, text, doc)                                                                     \
  if ((id) != ATTUNE_CLASS_ANY) check_class(ATTUNE_CLASS_##name, doc, manual);
  ATTUNE_CLASSES(X)
#undef X
  free(manual);
}
END_TEST

/* ---- the order -------------------------------------------------------------------------------
 */

/* Two tiles of a variant on a shape, each pair timed in the same rounds on an H200, at least 9 %
 * apart (rows of the tuner, 2026-11-30 and 12-01). */
static const struct {
  const char *variant, *faster, *slower;
  int batch, heads, keys;
} timed[] = {
    {"bf16_d192x128_causal", "m128n128s2w12o2t1c1g1", "m128n64s2w12q1o1z1g1", 32, 16, 512},
    {"fp16_d192x128_causal", "m128n128s2w12o2t1c1g1", "m128n64s2w12q1o1z1g1", 32, 16, 512},
    {"bf16_d192x128_window", "m128n128s2w12o2t1c1g1", "m128n64s2w12q1o1z1g1", 32, 16, 512},
    {"bf16_d128_causal", "m128n128s2w12q1o1z1g1", "m192n80s2w16q1o3c1g1", 4, 16, 4096},
    {"bf16_d128", "m128n160s2w12q1o2g1", "m192n80s2w16q1o2t1c1g1", 4, 16, 4096},
};

static double planned_cost(const char *variant_name, const char *tile_name, int batch, int heads,
                           int keys) {
  char name[ATTUNE_NAME_MAX];
  attune_plan_request r = {.shape = attune__plan_shape(ATTUNE_CLASS_LONG_MANY)};
  attune_tile t;
  attune_cost cost;
  int has_tile, is_program;
  snprintf(name, sizeof name, "attn_fwd_sm90a_%s__wgmma_%s", variant_name, tile_name);
  ck_assert_int_eq(attune__name_parse(name, &r.variant, &t, &has_tile, &is_program), 0);
  r.shape.batch = batch, r.shape.heads_q = r.shape.heads_kv = heads;
  r.shape.len_q = r.shape.len_k = keys;
  attune__model(r.variant.op, 0, t.family)
      ->cost(&r.variant, &t, attune__board(r.variant.arch), &r.shape, &cost);
  return cost.total;
}

START_TEST(the_order_is_that_of_what_was_timed) {
  for (size_t i = 0; i < sizeof timed / sizeof *timed; i++) {
    double faster = planned_cost(timed[i].variant, timed[i].faster, timed[i].batch, timed[i].heads,
                                 timed[i].keys);
    double slower = planned_cost(timed[i].variant, timed[i].slower, timed[i].batch, timed[i].heads,
                                 timed[i].keys);
    ck_assert_msg(faster < slower, "%s: %s %g, %s %g", timed[i].variant, timed[i].faster, faster,
                  timed[i].slower, slower);
  }
}
END_TEST

/* Knobs of a tile that nobody has measured: those that were faster where both were timed (d 96,
 * small batches: by 14 %; d 128: by 5 %; d 256: by 2 %). */
START_TEST(knobs_are_those_that_were_faster) {
  static const char *const tiles[] = {
      "bf16_d96__wgmma_m128n208s2w12q1o2t1c1g1", "bf16_d96_causal__wgmma_m128n128s2w12q1o3c1g1",
      "bf16_d128__wgmma_m128n128s2w12q1o1t2z1g1", "bf16_d128_causal__wgmma_m128n128s2w12q1o1z1g1",
      "bf16_d256__wgmma_m128n64s2w12o2t1z1c1g1"};
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
    char name[ATTUNE_NAME_MAX];
    attune_plan_request r = {.shape = attune__plan_shape(ATTUNE_CLASS_LONG_FEW),
                             .family = ATTUNE_FAMILY_WGMMA};
    attune_plan plan;
    attune_tile t;
    int has_tile, is_program, found = 0;
    snprintf(name, sizeof name, "attn_fwd_sm90a_%s", tiles[i]);
    ck_assert_int_eq(attune__name_parse(name, &r.variant, &t, &has_tile, &is_program), 0);
    ck_assert_int_eq(attune__plan_make(&r, &plan), 0);
    for (int k = 0; k < plan.legal_count; k++)
      found += !memcmp(&plan.candidates[k].tile, &t, sizeof t);
    ck_assert_msg(found == 1, "%s is planned %d times", tiles[i], found);
    attune__plan_free(&plan);
  }
}
END_TEST

START_TEST(every_arch_has_a_board) {
  for (int i = 0; i < ATTUNE_BOARDS; i++) {
    const attune_board *b = &attune__boards[i];
    ck_assert_uint_eq(b->arch, attune__arch_parse(b->arch_name));
    ck_assert_ptr_eq(attune__board(b->arch), b);
    ck_assert_int_ge(b->smem_sm_kb * 1024, b->smem_block);
  }
  ck_assert_str_eq(attune__board(attune__arch_parse("sm_90"))->name, "H200");
  ck_assert_ptr_null(attune__board(attune__arch_parse("sm_80a")));
}
END_TEST

TEST_MAIN("plan", every_property_over_the_matrix, every_part_of_the_standard_op_is_planned,
          a_dropped_tile_says_why, where_nothing_fits_the_error_says_what_would,
          what_the_error_offers_works, tensor_cores_come_first, a_family_is_taken_at_its_word,
          a_family_without_a_tile_is_fallen_back_from, tiles_of_family_mma_have_rules,
          pins_of_a_spec_choose_among_the_tiles, what_has_no_kernels_is_refused_by_name,
          a_kernel_knows_how_it_is_launched, pins_must_be_those_of_the_variant,
          a_class_is_planned_for_a_shape_of_its_own, the_order_is_that_of_what_was_timed,
          knobs_are_those_that_were_faster, every_arch_has_a_board)
