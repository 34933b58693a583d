/* test_plan.c - the planner: ledgers, byte counts, order, reasons; the article's table. Expected
 * values are computed here a second time, key by key, or taken from the article. */
#include "test.h"

#include "../gen/plan.h"
#include "../gen/text.h"

#include <math.h>

static attune_variant variant(int op, const char *arch, int dtype, int qk, int v, int mask) {
  attune_variant out;
  memset(&out, 0, sizeof out);
  out.op = (uint8_t)op, out.arch = attune__arch_parse(arch), out.mask = (uint8_t)mask;
  out.dtype_q = out.dtype_kv = out.dtype_out = (uint8_t)dtype;
  out.head_dim_qk = (uint16_t)qk, out.head_dim_v = (uint16_t)v;
  out.align = ATTUNE_ALIGN_16B, out.group = 1;
  return out;
}

static attune_variant forward(int d) {
  return variant(ATTUNE_OP_ATTN_FWD, "sm_80", ATTUNE_DTYPE_FP32, d, d, ATTUNE_MASK_NONE);
}

static attune_plan_request request(attune_variant v, uint32_t budget) {
  return (attune_plan_request){
      .variant = v, .budget = budget, .shape = attune__plan_shape(ATTUNE_CLASS_ANY)};
}

static attune_tile tile(int m, int n, int warps, int share) {
  attune_tile t;
  memset(&t, 0, sizeof t);
  t.family = ATTUNE_FAMILY_FMA, t.stages = 1, t.share_kv = (uint8_t)share;
  t.block_m = (uint16_t)m, t.block_n = (uint16_t)n, t.warps = (uint8_t)warps;
  return t;
}

static uint32_t random_state = 1;
static int random_below(int limit) {
  random_state = random_state * 1664525u + 1013904223u;
  return (int)(random_state >> 8) % limit;
}

/* ---- the matrix: every property of a plan -------------------------------------------------- */

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

/* ---- bytes and keys, counted one by one ------------------------------------------------------ */

static int keep(const attune_variant *v, const attune_shape *s, int64_t i, int64_t j) {
  int64_t off = s->corner == ATTUNE_CORNER_BOTTOM_RIGHT ? s->len_k - s->len_q : 0;
  if (v->mask == ATTUNE_MASK_CAUSAL) return j - i <= off;
  if (v->mask == ATTUNE_MASK_WINDOW)
    return (s->window_left < 0 || j - i >= off - s->window_left) &&
           (s->window_right < 0 || j - i <= off + s->window_right);
  return 1;
}

/* First and one past the last key that any row of [i0, i1) keeps; equal when there is none. */
static void count_range(const attune_variant *v, const attune_shape *s, int64_t i0, int64_t i1,
                        int64_t *begin, int64_t *end) {
  *begin = *end = -1;
  for (int64_t j = 0; j < s->len_k; j++)
    for (int64_t i = i0; i < i1; i++)
      if (keep(v, s, i, j)) {
        if (*begin < 0) *begin = j;
        *end = j + 1;
        break;
      }
}

static attune_shape random_shape(void) {
  attune_shape s = {.batch = 1 + random_below(2), .heads_kv = 1 + random_below(2)};
  s.heads_q = s.heads_kv * (1 + random_below(3));
  s.len_q = random_below(90), s.len_k = random_below(90);
  s.window_left = random_below(40) - 1, s.window_right = random_below(40) - 1;
  s.corner = random_below(2) ? ATTUNE_CORNER_TOP_LEFT : ATTUNE_CORNER_BOTTOM_RIGHT;
  return s;
}

START_TEST(key_ranges_and_pairs_are_those_of_the_mask) {
  for (int run = 0; run < 400; run++) {
    attune_variant v = forward(64);
    v.mask = (uint8_t)(ATTUNE_MASK_NONE + run % 3);
    attune_shape s = random_shape();
    double pairs = 0;
    for (int64_t i = 0; i < s.len_q; i++)
      for (int64_t j = 0; j < s.len_k; j++) pairs += keep(&v, &s, i, j);
    ck_assert_double_eq(attune__mask_pairs(&v, &s), pairs);
    ck_assert_double_eq(attune__flops(&v, &s),
                        4 * 64 * pairs * (double)s.batch * (double)s.heads_q);
    for (int64_t i0 = 0; i0 < s.len_q; i0 += 16) {
      int64_t i1 = i0 + 16 < s.len_q ? i0 + 16 : s.len_q, begin, end, first, last;
      attune__mask_range(&v, &s, i0, i1, &begin, &end);
      count_range(&v, &s, i0, i1, &first, &last);
      ck_assert_int_eq(end - begin, last - first);
      ck_assert(begin >= 0 && begin <= end && end <= s.len_k);
      if (first >= 0) ck_assert_int_eq(begin, first);
    }
  }
}
END_TEST

/* What one head of a kernel requests and touches, in rows or elements. */
typedef struct counts {
  int64_t range_keys, range_pairs, kept, distinct_keys, blocks_m, blocks_n;
} counts;

static counts count(const attune_variant *v, const attune_shape *s, int m, int n) {
  counts c = {0};
  char touched[128] = {0};
  for (int64_t i0 = 0; i0 < s->len_q; i0 += m) {
    int64_t i1 = i0 + m < s->len_q ? i0 + m : s->len_q, begin, end;
    count_range(v, s, i0, i1, &begin, &end);
    for (int64_t j = begin; j < end; j++) touched[j] = 1;
    c.range_keys += end - begin, c.range_pairs += (i1 - i0) * (end - begin), c.blocks_m++;
    for (int64_t i = i0; i < i1; i++)
      for (int64_t j = 0; j < s->len_k; j++) c.kept += keep(v, s, i, j);
  }
  for (int j = 0; j < 128; j++) c.distinct_keys += touched[j];
  if (n)
    for (int64_t j0 = 0; j0 < s->len_k; j0 += n) c.blocks_n++;
  return c;
}

static void check_row(const attune_traffic *t, const char *tensor, int write, double requested,
                      double compulsory) {
  for (int i = 0; i < t->count; i++) {
    const attune_traffic_row *row = &t->row[i];
    if (strcmp(row->tensor, tensor) != 0) continue;
    ck_assert_double_eq(write ? row->requested_write : row->requested_read, requested);
    ck_assert_double_eq(write ? row->compulsory_write : row->compulsory_read, compulsory);
    ck_assert_double_eq(write ? row->requested_read : row->requested_write, 0);
    return;
  }
  ck_abort_msg("no row %s", tensor);
}

static void check_sums(const attune_traffic *t) {
  double requested = 0, compulsory = 0;
  for (int i = 0; i < t->count; i++) {
    requested += t->row[i].requested_read + t->row[i].requested_write;
    compulsory += t->row[i].compulsory_read + t->row[i].compulsory_write;
  }
  ck_assert_double_eq(t->requested, requested);
  ck_assert_double_eq(t->compulsory, compulsory);
  ck_assert(requested >= compulsory);
}

static attune_traffic traffic_of(const attune_variant *v, const attune_tile *t,
                                 const attune_shape *s) {
  attune_traffic out;
  attune__model(v->op, v->part, t->family)->traffic(v, t, s, &out);
  check_sums(&out);
  return out;
}

/* Against a loop over blocks and rows, of heads long enough that blocks repeat. */
START_TEST(sums_over_blocks_are_those_of_a_loop) {
  for (int run = 0; run < 20000; run++) {
    attune_variant v = forward(64);
    int longest = run % 40 ? 300 : 3000;
    v.mask = (uint8_t)(1 + random_below(3));
    attune_shape s = {.len_q = random_below(longest), .len_k = random_below(longest)};
    s.window_left = random_below(longest / 4) - 1, s.window_right = random_below(40) - 1;
    s.corner = random_below(2) ? ATTUNE_CORNER_TOP_LEFT : ATTUNE_CORNER_BOTTOM_RIGHT;
    v.group = (uint8_t)(random_below(2) ? 1 : 1 + random_below(17));
    int64_t m = 16 << random_below(4), n = 16 * (1 + random_below(9)), first, last;
    attune_mask_sums want = {0}, got;
    int64_t all = s.len_q * v.group, from = run % 2 ? random_below((int)all + 1) : 0;
    int64_t to = run % 2 ? from + random_below((int)(all - from) + 1) : all;
    attune__mask_range(&v, &s, 0, s.len_q, &first, &last);
    for (int64_t row0 = from; row0 < to; row0 += m, want.blocks++) {
      int64_t rows = to - row0 < m ? to - row0 : m, begin, end, at;
      attune__mask_range(&v, &s, row0 / v.group, (row0 + rows - 1) / v.group + 1, &begin, &end);
      for (at = begin; at < end; at += n) want.steps++;
      want.keys += end - begin, want.pairs += rows * (end - begin);
      want.loaded += (at < last || begin == end ? at : last) - begin;
    }
    if (run % 2)
      attune__mask_blocks_of(&v, &s, from, to, m, n, &got);
    else
      attune__mask_blocks(&v, &s, m, n, &got);
    ck_assert_int_eq(got.blocks, want.blocks);
    ck_assert_int_eq(got.keys, want.keys);
    ck_assert_int_eq(got.loaded, want.loaded);
    ck_assert_int_eq(got.pairs, want.pairs);
    ck_assert_int_eq(got.steps, want.steps);
  }
}
END_TEST

START_TEST(forward_bytes_are_exact) {
  for (int run = 0; run < 200; run++) {
    int dtype = ATTUNE_DTYPE_FP32 + run % 3;
    attune_variant v = variant(ATTUNE_OP_ATTN_FWD, "sm_80", dtype, 40, 24, 1 + run / 3 % 3);
    attune_shape s = random_shape();
    attune_tile tl = tile(16 << random_below(2), 16, 4, 0);
    if (dtype != ATTUNE_DTYPE_FP32 && run % 2)
      tl.family = ATTUNE_FAMILY_MMA, tl.block_m = 64, tl.stages = 2;
    counts c = count(&v, &s, tl.block_m, 0);
    attune_traffic t = traffic_of(&v, &tl, &s);
    double e = dtype == ATTUNE_DTYPE_FP32 ? 4 : 2, heads = (double)(s.batch * s.heads_q);
    double kv = (double)(s.batch * s.heads_kv), rows = heads * (double)s.len_q;
    double keys = heads * (double)c.range_keys, distinct = kv * (double)c.distinct_keys;
    check_row(&t, "Q", 0, rows * 40 * e, rows * 40 * e);
    check_row(&t, "K", 0, keys * 40 * e, distinct * 40 * e);
    check_row(&t, "V", 0, keys * 24 * e, distinct * 24 * e);
    check_row(&t, "O", 1, rows * 24 * e, rows * 24 * e);
    check_row(&t, "LSE", 1, rows * 4, rows * 4);
  }
}
END_TEST

START_TEST(standard_bytes_are_exact) {
  for (int run = 0; run < 200; run++) {
    attune_variant v =
        variant(ATTUNE_OP_ATTN_STANDARD, "sm_80", ATTUNE_DTYPE_FP32, 40, 24, 1 + run % 3);
    attune_shape s = random_shape();
    attune_tile tl = tile(32, 16, 4, 0), rows_tile = tile(4, 0, 4, 0);
    counts c = count(&v, &s, 32, 16);
    double heads = (double)(s.batch * s.heads_q), kv = (double)(s.batch * s.heads_kv);
    double rows = heads * (double)s.len_q, len_k = (double)s.len_k;
    double m = (double)c.blocks_m, n = (double)c.blocks_n, scores = rows * len_k * 4;
    attune_traffic t = traffic_of(&v, &tl, &s);
    check_row(&t, "Q", 0, rows * n * 160, n > 0 ? rows * 160 : 0);
    check_row(&t, "K", 0, heads * len_k * m * 160, m > 0 ? kv * len_k * 160 : 0);
    check_row(&t, "S", 1, scores, scores);
    v.part = 1;
    t = traffic_of(&v, &rows_tile, &s);
    check_row(&t, "S", 0, heads * (double)c.kept * 8, heads * (double)c.kept * 4);
    check_row(&t, "P", 1, scores, scores);
    check_row(&t, "LSE", 1, rows * 4, rows * 4);
    v.part = 2;
    t = traffic_of(&v, &tl, &s);
    check_row(&t, "P", 0, heads * (double)c.range_pairs * 4, heads * (double)c.range_pairs * 4);
    check_row(&t, "V", 0, heads * (double)c.range_keys * 96, kv * (double)c.distinct_keys * 96);
    check_row(&t, "O", 1, rows * 96, rows * 96);
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

/* ---- the article ----------------------------------------------------------------------------- */

START_TEST(the_articles_table_to_the_digit) {
  static const char *const traffic[] = {"32.50", "16.50", "8.50", "4.50", "2.50", "1.50", "1.00"};
  static const char *const set[] = {"13.1", "28.2", "64.5", "161.0", "450.0", "1412.0", "4872.0"};
  for (int i = 0, block = 16; i < 7; i++, block *= 2) {
    attune__text text = {0};
    attune__text_fixed(&text, attune__article_traffic(1024, block, 64, 4) / 1048576, 2);
    ck_assert_str_eq(text.data, traffic[i]);
    attune__text_free(&text);
    attune__text_fixed(&text, attune__article_working_set(block, 64, 4) / 1024, 1);
    ck_assert_str_eq(text.data, set[i]);
    attune__text_free(&text);
  }
  ck_assert_double_eq(attune__article_standard_traffic(1024, 64, 4), 17.0 * 1048576);
}
END_TEST

TEST_MAIN("plan", every_property_over_the_matrix, every_part_of_the_standard_op_is_planned,
          key_ranges_and_pairs_are_those_of_the_mask, sums_over_blocks_are_those_of_a_loop,
          forward_bytes_are_exact, standard_bytes_are_exact, a_dropped_tile_says_why,
          where_nothing_fits_the_error_says_what_would, what_the_error_offers_works,
          tensor_cores_come_first, a_family_is_taken_at_its_word,
          a_family_without_a_tile_is_fallen_back_from, tiles_of_family_mma_have_rules,
          pins_of_a_spec_choose_among_the_tiles, what_has_no_kernels_is_refused_by_name,
          a_kernel_knows_how_it_is_launched, pins_must_be_those_of_the_variant,
          a_class_is_planned_for_a_shape_of_its_own, every_arch_has_a_board,
          the_articles_table_to_the_digit)
