/* test_cases.c - which cases verify makes of a variant, and the numbers of one: what a feature's
 * inputs look like in memory, and what of them nothing may look at. */
#include "../gen/cases.h"
#include "test.h"

#include <math.h>

static attune_variant variant_of(int dtype, int dim, uint32_t features, int mask) {
  return (attune_variant){.arch = attune__arch(80, 0),
                          .op = ATTUNE_OP_ATTN_FWD,
                          .dtype_q = (uint8_t)dtype,
                          .dtype_kv = (uint8_t)dtype,
                          .dtype_out = (uint8_t)dtype,
                          .head_dim_qk = (uint16_t)dim,
                          .head_dim_v = (uint16_t)dim,
                          .mask = (uint8_t)mask,
                          .features = features,
                          .align = ATTUNE_ALIGN_16B,
                          .group = 1};
}

static attune_variant featured(uint32_t features, int mask) {
  return variant_of(ATTUNE_DTYPE_FP32, 16, features, mask);
}

/* ---- the list -----------------------------------------------------------------------------------
 */

static attune__case_list cases_of(const attune_variant *v, int quick) {
  attune_tile tile = {.block_m = 64, .block_n = 32};
  attune__case_request request = {
      .variant = v, .tiles = &tile, .tile_count = 1, .sm_count = 132, .quick = quick};
  attune__case_list list;
  ck_assert_int_eq(attune__cases_make(&request, &list), ATTUNE_OK);
  return list;
}

static int has_case(const attune_variant *v, const attune__case_list *list, const char *words) {
  char name[160];
  for (int i = 0; i < list->count; i++) {
    attune__case_print(v, &list->item[i], name, sizeof name);
    if (strstr(name, words)) return 1;
  }
  return 0;
}

START_TEST(cases_cover_what_they_must) {
  static const char *const words[] = {"q1 k1 ",
                                      "q63 k31 ",
                                      "q64 k32 ",
                                      "q65 k33 ",
                                      "q65 k97 window(20,6) bottom_right",
                                      "q129 k1 ",
                                      "q65 k0 ",
                                      "q0 k33 ",
                                      "q0 k0 ",
                                      "q1025 k1025 ",
                                      "b0 ",
                                      "window(0,0) top_left",
                                      "window(0,0) bottom_right",
                                      "window(128,0)",
                                      "window(17,-1)",
                                      "window(-1,9)",
                                      "window(1000,700)",
                                      "h4/4 ",
                                      "h6/2 ",
                                      "h8/1 ",
                                      "b24 h24/3 ",
                                      "bhsd",
                                      "gapped",
                                      "broadcast",
                                      "odd",
                                      "lse_null",
                                      "lse_strided",
                                      "used_full",
                                      "used_mixed",
                                      "loud_hidden_keys",
                                      "scale_0",
                                      "scale_-0.375",
                                      "scores_1e4",
                                      "nan_key",
                                      "no_corner",
                                      "far_batch",
                                      "far_seq",
                                      "far_head"};
  attune_variant v = featured(0, ATTUNE_MASK_WINDOW);
  v.align = ATTUNE_ALIGN_ELEM;
  attune__case_list list = cases_of(&v, 0), quick = cases_of(&v, 1);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    ck_assert_msg(has_case(&v, &list, words[i]), "no case with %s", words[i]);
  ck_assert_int_lt(quick.count, list.count / 2);
  free(list.item), free(quick.item);

  v = variant_of(ATTUNE_DTYPE_FP16, 32, 0, ATTUNE_MASK_NONE);
  list = cases_of(&v, 0);
  ck_assert(has_case(&v, &list, "minilm_layer_0") && has_case(&v, &list, "minilm_layer_5"));
  ck_assert(!has_case(&v, &list, "odd"));
  free(list.item);
}
END_TEST

/* Words of cases that a variant must have, among the quick ones or not. */
static void expect_cases(attune_variant v, int quick, const char *const *words) {
  attune__case_list list = cases_of(&v, quick);
  for (; *words; words++) ck_assert_msg(has_case(&v, &list, *words), "no case with %s", *words);
  free(list.item);
}

START_TEST(cases_cover_the_features) {
  enum { NONE = ATTUNE_MASK_NONE, CAUSAL = ATTUNE_MASK_CAUSAL };
  expect_cases(featured(ATTUNE_FEATURE_SOFTCAP, NONE), 0,
               (const char *const[]){"softcap_15", "softcap_50", "softcap_0.5",
                                     "wide_scores softcap_0.5", "scores_1e4 scale_1 softcap_",
                                     "scale_-1 softcap_50", NULL});
  expect_cases(featured(ATTUNE_FEATURE_ALIBI, NONE), 1,
               (const char *const[]){"top_left", "bottom_right", "alibi_batch", NULL});
  expect_cases(featured(ATTUNE_FEATURE_BIAS, NONE), 0,
               (const char *const[]){"bias_bhqk_inf", "bias_bhqk_lowest", "bias_1hqk", "bias_b1qk",
                                     "bias_bh1k", "bias_bhq1", "bias_b11k", "bias_1111",
                                     "gapped loud_hidden_keys bias", NULL});
  expect_cases(featured(ATTUNE_FEATURE_SINK, CAUSAL), 1,
               (const char *const[]){"sinks_mixed", "k0 causal top_left", NULL});
  expect_cases(featured(ATTUNE_FEATURE_BITMASK, NONE), 0,
               (const char *const[]){"bits_bhq_blocks", "bits_bhq_random_unclassed",
                                     "bits_bhq_none", "bits_1hq_blocks", "bits_b1q_blocks",
                                     "bits_bh1_blocks_unclassed", "nan_key", NULL});
  expect_cases(featured(ATTUNE_FEATURE_VARLEN, CAUSAL), 1,
               (const char *const[]){"varlen_mixed", "lse_strided nan_neighbours varlen_mixed+6",
                                     "queries_mixed used_mixed", "bottom_right", NULL});
  attune_variant packed = featured(0, CAUSAL);
  packed.group = 8;
  expect_cases(packed, 0, (const char *const[]){"h32/2", "q1 ", "q7 k31 ", "q8 k32 ", NULL});
}
END_TEST

/* ---- the numbers --------------------------------------------------------------------------------
 */

static attune__trial make_trial(const attune_variant *v, const attune__case *c) {
  attune__trial trial;
  ck_assert_int_eq(attune__trial_make(v, c, NULL, 1, 1, &trial), ATTUNE_OK);
  return trial;
}

static attune__case case_of(int64_t batch, int64_t heads_q, int64_t len_q, int64_t len_k) {
  return (attune__case){
      .shape = {batch, heads_q, 1, len_q, len_k, -1, -1, ATTUNE_CORNER_BOTTOM_RIGHT},
      .default_scale = 1,
      .softcap = 15,
      .classes = 1};
}

/* By turns; queries and keys meet in every way: both all, one side none, the other more. */
START_TEST(lengths_of_packed_sequences) {
  static const int32_t q[] = {0, 1, 6, 10, 11, 1, 6}, k[] = {20, 0, 1, 11, 19, 0, 1};
  attune_variant v = featured(ATTUNE_FEATURE_VARLEN, ATTUNE_MASK_CAUSAL);
  attune__case c = case_of(7, 2, 17, 26);
  c.lengths = ATTUNE__LENGTHS_MIXED, c.slack = 6;
  attune__trial t = make_trial(&v, &c);
  int32_t first_q = 0, first_k = 0;
  for (int b = 0; b < 7; b++) {
    ck_assert(t.cu_q[b] == first_q && t.cu_k[b] == first_k);
    first_q += t.len_q[b], first_k += t.len_k[b];
    ck_assert(t.rows_q[b] == t.len_q[b] && t.rows_k[b] == t.len_k[b]);
  }
  for (int b = 0; b < 5; b++) {
    int has_q = 0, has_k = 0;
    for (int e = 0; e < 5; e++) has_q |= t.len_q[e] == q[b], has_k |= t.len_k[e] == k[b];
    ck_assert_msg(has_q && has_k, "no sequence of %d queries or %d keys", q[b], k[b]);
  }
  ck_assert(t.total_q == first_q + 6 && t.total_k == first_k + 6);
  attune__trial_free(&t);
}
END_TEST

/* Keys in no row's bounds are NaN, keys in them without a bit are NaN in K alone; every pair that
 * something keeps has numbers, and every other has none in the bias. */
START_TEST(what_nothing_may_look_at_is_nan) {
  attune_variant v = featured(ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_BITMASK, ATTUNE_MASK_CAUSAL);
  attune__case c = case_of(5, 2, 9, 40);
  c.used_q = c.used_k = ATTUNE__USED_MIXED, c.layout = ATTUNE__LAYOUT_GAPPED;
  attune__trial t = make_trial(&v, &c);
  const int64_t *stride = t.problem.bias_stride;
  int64_t kept = 0, out = 0, unset = 0;
  for (int64_t row = 0; row < t.rows; row++) {
    int64_t b = row / 18, h = row / 9 % 2, i = row % 9;
    if (i >= t.rows_q[b]) ck_assert(isnan(t.q[row * 16]));
    for (int64_t j = 0; j < 40; j++) {
      int keeps = i < t.rows_q[b] && attune__trial_keeps(&t, b, h, i, j);
      float bias = t.bias[b * stride[0] + h * stride[1] + i * stride[2] + j];
      ck_assert_int_eq(keeps, !isnan(bias));
      if (keeps) ck_assert(!isnan(t.k[(b * 40 + j) * 16]) && !isnan(t.v[(b * 40 + j) * 16]));
      kept += keeps;
    }
  }
  for (int64_t j = 0; j < 5 * 40; j++) {
    out += isnan(t.v[j * 16]) != 0;
    unset += isnan(t.k[j * 16]) && !isnan(t.v[j * 16]);
  }
  ck_assert(kept > 100 && out > 40 && unset > 0);
  attune__trial_free(&t);
}
END_TEST

/* Axes that a bias or a bit mask is the same along have stride 0; the others do not overlap. */
START_TEST(strides_by_axis) {
  attune_variant v = featured(ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_BITMASK, ATTUNE_MASK_NONE);
  for (int over = 0; over < 16; over++)
    for (int gapped = 0; gapped < 2; gapped++) {
      attune__case c = case_of(2, 3, 5, 70);
      c.bias_over = over, c.bits_over = over & 7;
      c.layout = gapped ? ATTUNE__LAYOUT_GAPPED : ATTUNE__LAYOUT_BSHD;
      attune__trial t = make_trial(&v, &c);
      int64_t bias = over & ATTUNE__OVER_KEYS ? 1 : 70, words = 3, classes = 2;
      if (gapped) bias += 3, words += 1;
      const int64_t extent[] = {2, 3, 5};
      for (int axis = 2; axis >= 0; axis--) {
        int one = over >> axis & 1;
        ck_assert_int_eq(t.problem.bias_stride[axis], one ? 0 : bias);
        ck_assert_int_eq(t.problem.bitmask_stride[axis], one ? 0 : words);
        ck_assert_int_eq(t.classes_stride[axis], one ? 0 : classes);
        if (!one) bias *= extent[axis], words *= extent[axis];
        if (!one && axis < 2) classes *= extent[axis];
      }
      ck_assert_int_eq(t.problem.bias_stride[3], !(over & ATTUNE__OVER_KEYS));
      ck_assert(t.bias_count == bias && t.bits_count == words && t.classes_count == classes);
      attune__trial_free(&t);
    }
}
END_TEST

/* A block-sparse mask has blocks of every class, and garbage beyond the keys. */
START_TEST(blocks_of_every_class) {
  attune_variant v = featured(ATTUNE_FEATURE_BITMASK, ATTUNE_MASK_NONE);
  attune__case c = case_of(2, 2, 133, 201);
  c.bits = ATTUNE__BITS_BLOCKS;
  attune__trial t = make_trial(&v, &c);
  int count[3] = {0}, beyond = 0;
  for (int64_t e = 0; e < t.classes_count; e++) count[t.classes[e]]++;
  ck_assert(count[ATTUNE_BLOCK_EMPTY] > 0 && count[ATTUNE_BLOCK_PARTIAL] > 0 &&
            count[ATTUNE_BLOCK_FULL] > 0);
  for (int64_t e = 6; e < t.bits_count; e += 7) beyond |= (t.bits[e] >> 9) != 0;
  ck_assert(beyond);
  attune__trial_free(&t);
}
END_TEST

TEST_MAIN("cases", cases_cover_what_they_must, cases_cover_the_features,
          lengths_of_packed_sequences, what_nothing_may_look_at_is_nan, strides_by_axis,
          blocks_of_every_class)
