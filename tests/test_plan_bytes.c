/* test_plan_bytes.c - what the planner counts: key ranges, bytes of each tensor, the article's
 * table. Expected values are computed here a second time, key by key, or taken from the article. */
#include "planned.h"
#include "test.h"

#include "../gen/text.h"

static uint32_t random_state = 1;
static int random_below(int limit) {
  random_state = random_state * 1664525u + 1013904223u;
  return (int)(random_state >> 8) % limit;
}

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

TEST_MAIN("plan_bytes", key_ranges_and_pairs_are_those_of_the_mask,
          sums_over_blocks_are_those_of_a_loop, forward_bytes_are_exact, standard_bytes_are_exact,
          the_articles_table_to_the_digit)
