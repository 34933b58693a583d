/* test_verify.c - verify itself: a right kernel passes, and each of a list of seeded faults is
 * caught, at a case that shows it (wrong_kernel.h). */
#include "../gen/cases.h"
#include "../gen/verify.h"
#include "test.h"
#include "wrong_kernel.h"

#include <math.h>

/* ---- a program on it ---------------------------------------------------------------------------
 */

typedef struct rig {
  wrong_device *device;
  attune_context *context;
  attune_program *program;
  attune_variant variant;
  attune_verify_options options;
  attune_verdict verdict;
} rig;

static attune_variant variant_of(int op, int dtype, int dim, int mask) {
  return (attune_variant){.arch = attune__arch(80, 0),
                          .op = (uint8_t)op,
                          .dtype_q = (uint8_t)dtype,
                          .dtype_kv = (uint8_t)dtype,
                          .dtype_out = (uint8_t)dtype,
                          .head_dim_qk = (uint16_t)dim,
                          .head_dim_v = (uint16_t)dim,
                          .mask = (uint8_t)mask,
                          .align = ATTUNE_ALIGN_16B,
                          .group = 1};
}

static void make_entry(const attune_variant *v, int part, const attune_pinset *pins, void **bytes,
                       size_t *size) {
  attune_entry entry = {.variant = *v};
  entry.variant.part = (uint8_t)part;
  entry.tile = (attune_tile){.block_m = 16, .block_n = WRONG_BLOCK_N, .stages = 1, .warps = 4};
  entry.tile.family = ATTUNE_FAMILY_FMA;
  if (pins) entry.pins = *pins;
  entry.recipe = (attune_recipe){.abi = ATTUNE_ABI,
                                 .param_bytes = (uint32_t)attune__param_bytes(v->op, 0),
                                 .threads = 128,
                                 .grid = ATTUNE_GRID_Q_TILES,
                                 .block_m = 16,
                                 .block_n = WRONG_BLOCK_N,
                                 .cluster = 1};
  if (v->features & ATTUNE_FEATURE_VARLEN) entry.recipe.grid = ATTUNE_GRID_VARLEN_TILES;
  if (v->op == ATTUNE_OP_ATTN_STANDARD) entry.recipe.workspace = ATTUNE_WORKSPACE_SCORES;
  attune__kernel_name(&entry.variant, &entry.tile, entry.name);
  ck_assert_int_eq(attune__entry_write(&entry, bytes, size), ATTUNE_OK);
}

static rig rig_open(attune_variant v, const attune_pinset *pins, fault what) {
  rig r = {.variant = v, .options = {.pins = pins, .threads = 2}};
  int parts = attune__op_parts(v.op);
  void *bytes[ATTUNE_MAX_PARTS];
  size_t sizes[ATTUNE_MAX_PARTS];
  r.device = wrong_device_make(v.arch, what);
  ck_assert_int_eq(attune__open_with(&r.device->base, v.arch, NULL, &r.context), ATTUNE_OK);
  for (int i = 0; i < parts; i++) make_entry(&v, i, pins, &bytes[i], &sizes[i]);
  attune_status status = attune__verify_open(r.context, &v, pins, (const void *const *)bytes, sizes,
                                             parts, &r.program);
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
  for (int i = 0; i < parts; i++) free(bytes[i]);
  return r;
}

static attune_status rig_run(rig *r) {
  return attune__verify_program(r->program, &r->device->base, &r->variant, &r->options,
                                &r->verdict);
}

static void expect_pass(rig *r, int not_run) {
  attune_status status = rig_run(r);
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
  ck_assert_int_gt(r->verdict.cases, r->options.quick ? 6 : 20);
  ck_assert_int_eq(r->verdict.passed, r->verdict.cases);
  ck_assert_int_eq(r->verdict.not_run, not_run);
  ck_assert_double_le(r->verdict.worst_error, r->verdict.worst_bound);
  ck_assert_double_gt(r->verdict.worst_error, 0);
  attune_close(r->context);
}

/* The fault is caught by the quick cases already; the first failing case and the reason contain
 * these words. */
static void expect_caught(attune_variant v, fault what, const char *in_case, const char *reason) {
  rig r = rig_open(v, NULL, what);
  r.options.quick = 1;
  attune_status status = rig_run(&r);
  ck_assert_msg(status == ATTUNE_MISMATCH, "fault %d: status %d, %d of %d cases passed", what,
                status, r.verdict.passed, r.verdict.cases);
  ck_assert_int_lt(r.verdict.passed, r.verdict.cases);
  ck_assert_msg(strstr(r.verdict.worst_case, in_case), "fault %d at: %s", what,
                r.verdict.worst_case);
  ck_assert_msg(strstr(r.verdict.reason, reason), "fault %d: %s", what, r.verdict.reason);
  attune_close(r.context);
}

static attune_variant fp32(int mask) {
  return variant_of(ATTUNE_OP_ATTN_FWD, ATTUNE_DTYPE_FP32, 16, mask);
}

/* ---- tests -------------------------------------------------------------------------------------
 */

START_TEST(right_kernels_pass) {
  for (int mask = ATTUNE_MASK_NONE; mask <= ATTUNE_MASK_WINDOW; mask++)
    for (int dtype = ATTUNE_DTYPE_FP32; dtype <= ATTUNE_DTYPE_BF16; dtype++) {
      rig r = rig_open(variant_of(ATTUNE_OP_ATTN_FWD, dtype, 16, mask), NULL, NO_FAULT);
      expect_pass(&r, 3); /* the device has not the memory for far offsets */
    }
}
END_TEST

START_TEST(other_dims_alignment_and_parts_pass) {
  attune_variant v = fp32(ATTUNE_MASK_CAUSAL);
  v.head_dim_v = 40, v.align = ATTUNE_ALIGN_ELEM;
  rig elem = rig_open(v, NULL, NO_FAULT);
  expect_pass(&elem, 3);
  v = variant_of(ATTUNE_OP_ATTN_STANDARD, ATTUNE_DTYPE_FP32, 16, ATTUNE_MASK_WINDOW);
  rig standard = rig_open(v, NULL, NO_FAULT);
  ck_assert_int_eq(rig_run(&standard), ATTUNE_OK);
  ck_assert_int_eq(standard.verdict.kernels, 3);
  ck_assert_str_eq(standard.verdict.name, "attn_standard_sm80_fp32_d16_window");
  attune_close(standard.context);
}
END_TEST

START_TEST(real_data_runs_or_is_named) {
  attune_variant v = variant_of(ATTUNE_OP_ATTN_FWD, ATTUNE_DTYPE_FP32, 32, ATTUNE_MASK_NONE);
  rig r = rig_open(v, NULL, NO_FAULT);
  r.options.quick = 1;
  ck_assert_int_eq(rig_run(&r), ATTUNE_OK);
  int with = r.verdict.cases;
  ck_assert_int_eq(r.verdict.not_run, 0);
  r.options.data = "build/no-such-folder";
  ck_assert_int_eq(rig_run(&r), ATTUNE_OK);
  ck_assert_int_eq(r.verdict.cases, with - 2);
  ck_assert_int_eq(r.verdict.not_run, 2);
  ck_assert_ptr_nonnull(strstr(r.verdict.not_run_why, "real data"));
  attune__text text = {0};
  attune__verdict_print(&r.verdict, &text);
  ck_assert_ptr_nonnull(strstr(text.data, ": pass "));
  ck_assert_ptr_nonnull(strstr(text.data, "2 not run (real data"));
  attune__text_free(&text);
  attune_close(r.context);
}
END_TEST

/* Packed by their lengths the texts give the file's O too, which a kernel that is off does not. */
START_TEST(real_data_packed) {
  attune_variant v = variant_of(ATTUNE_OP_ATTN_FWD, ATTUNE_DTYPE_FP32, 32, ATTUNE_MASK_NONE);
  v.features = ATTUNE_FEATURE_VARLEN;
  attune__case c = {.shape = {4, 6, 6, 200, 200, -1, -1, ATTUNE_CORNER_TOP_LEFT},
                    .fill = ATTUNE__FILL_REAL,
                    .lengths = ATTUNE__LENGTHS_REAL,
                    .default_scale = 1};
  attune__real real;
  attune__trial trial;
  attune__judgement judgement;
  ck_assert_int_eq(attune__real_read("tests/data/minilm", &real), ATTUNE_OK);
  ck_assert_int_eq(attune__trial_make(&v, &c, &real, 0, 2, &trial), ATTUNE_OK);
  ck_assert_int_eq(trial.cu_q[4], 9 + 47 + 128 + 200);
  ck_assert_int_eq(trial.total_k, trial.cu_k[4]);
  size_t count = (size_t)trial.rows * 32;
  float *o = malloc(count * sizeof *o);
  ck_assert_ptr_nonnull(o);
  attune__outputs outputs = {o, NULL};
  for (size_t i = 0; i < count; i++) o[i] = (float)trial.o[i];
  attune__judge(&trial, &c, &outputs, &judgement);
  ck_assert_str_eq(judgement.fault, "");
  ck_assert_int_eq(judgement.rows, 6 * (9 + 47 + 128 + 200));
  trial.file_o[8 * 32] += 1e-3f; /* of the first text's last row */
  attune__judge(&trial, &c, &outputs, &judgement);
  ck_assert_ptr_nonnull(strstr(judgement.fault, "O[b0 h0 q8 d0]"));
  free(o);
  attune__trial_free(&trial), attune__real_free(&real);

  rig r = rig_open(v, NULL, NO_FAULT);
  r.options.quick = 1;
  expect_pass(&r, 0);
}
END_TEST

/* What the real data is for: a kernel that sees the padding of the texts moves O by up to 2.33. */
START_TEST(real_data_shows_a_forgotten_length) {
  attune_variant v = variant_of(ATTUNE_OP_ATTN_FWD, ATTUNE_DTYPE_BF16, 32, ATTUNE_MASK_NONE);
  attune__case c = {.shape = {4, 6, 6, 200, 200, -1, -1, ATTUNE_CORNER_TOP_LEFT},
                    .fill = ATTUNE__FILL_REAL,
                    .used_k = ATTUNE__USED_REAL,
                    .default_scale = 1};
  attune__real real;
  attune__trial trial;
  attune__judgement judgement;
  ck_assert_int_eq(attune__real_read("tests/data/minilm", &real), ATTUNE_OK);
  ck_assert_int_eq(attune__trial_make(&v, &c, &real, 0, 2, &trial), ATTUNE_OK);
  size_t count = (size_t)trial.rows * 32;
  double *unmasked = malloc(count * sizeof *unmasked);
  float *o = malloc(count * sizeof *o);
  ck_assert(unmasked && o);
  attune__outputs outputs = {o, NULL};
  for (size_t i = 0; i < count; i++) o[i] = (float)trial.o[i];
  attune__judge(&trial, &c, &outputs, &judgement);
  ck_assert_str_eq(judgement.fault, "");

  attune_reference_problem forgotten = trial.problem;
  forgotten.seqused_k = NULL;
  ck_assert_int_eq(attune__reference(&forgotten, unmasked, NULL), ATTUNE_OK);
  for (size_t i = 0; i < count; i++) o[i] = (float)unmasked[i];
  attune__judge(&trial, &c, &outputs, &judgement);
  ck_assert_str_ne(judgement.fault, "");
  ck_assert_double_gt(judgement.error, 2);
  free(o), free(unmasked);
  attune__trial_free(&trial), attune__real_free(&real);
}
END_TEST

START_TEST(masks_gone_wrong) {
  expect_caught(fp32(ATTUNE_MASK_CAUSAL), OTHER_CORNER, "causal", "O[");
  expect_caught(fp32(ATTUNE_MASK_CAUSAL), FORGOTTEN_MASK, "causal", "O[");
  expect_caught(fp32(ATTUNE_MASK_WINDOW), WINDOW_OFF_BY_ONE, "window(", "O[");
  expect_caught(fp32(ATTUNE_MASK_NONE), IGNORED_USED, "used_mixed", "is nan");
  expect_caught(fp32(ATTUNE_MASK_CAUSAL), NAN_LEAK, "", "is nan");
  expect_caught(fp32(ATTUNE_MASK_NONE), LAST_KEY_LOST, "k49 ", "O[");
}
END_TEST

START_TEST(softmax_gone_wrong) {
  expect_caught(fp32(ATTUNE_MASK_NONE), UNSCALED, "", "O[");
  expect_caught(fp32(ATTUNE_MASK_NONE), SCALE_WITHOUT_SIGN, "scale_-0.375", "O[");
  expect_caught(fp32(ATTUNE_MASK_NONE), NO_RESCALE, "k49 ", "O[");
  expect_caught(fp32(ATTUNE_MASK_NONE), NO_MAXIMUM, "scores_1e4", "O[");
  expect_caught(fp32(ATTUNE_MASK_NONE), ROUNDED_P, "", "allowed");
  expect_caught(fp32(ATTUNE_MASK_NONE), LSE_LOG2, "", "LSE[");
  expect_caught(fp32(ATTUNE_MASK_NONE), LSE_ROUNDED, "", "LSE[");
  expect_caught(fp32(ATTUNE_MASK_CAUSAL), EMPTY_ROW_NAN, "", "sees no key");
  expect_caught(fp32(ATTUNE_MASK_CAUSAL), EMPTY_ROW_INF, "", "sees no key");
}
END_TEST

static attune_variant featured(uint32_t features, int mask) {
  attune_variant v = fp32(mask);
  v.features = features;
  return v;
}

/* Each feature with the masks it is used with, and what models have together. */
START_TEST(right_features_pass) {
  static const struct {
    uint32_t features;
    int dtype, mask;
  } of[] = {
      {ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_SINK, ATTUNE_DTYPE_FP32, ATTUNE_MASK_NONE},
      {ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_BITMASK, ATTUNE_DTYPE_FP32, ATTUNE_MASK_WINDOW},
      {ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_VARLEN, ATTUNE_DTYPE_FP32, ATTUNE_MASK_CAUSAL},
      {ATTUNE_FEATURE_SOFTCAP, ATTUNE_DTYPE_FP16, ATTUNE_MASK_CAUSAL},
      {ATTUNE_FEATURE_ALIBI, ATTUNE_DTYPE_BF16, ATTUNE_MASK_NONE},
      {ATTUNE_FEATURE_BIAS, ATTUNE_DTYPE_FP32, ATTUNE_MASK_NONE},
      {ATTUNE_FEATURE_BIAS, ATTUNE_DTYPE_FP16, ATTUNE_MASK_CAUSAL},
      {ATTUNE_FEATURE_SINK, ATTUNE_DTYPE_FP32, ATTUNE_MASK_WINDOW},
      {ATTUNE_FEATURE_BITMASK, ATTUNE_DTYPE_FP32, ATTUNE_MASK_NONE},
      {ATTUNE_FEATURE_VARLEN, ATTUNE_DTYPE_FP32, ATTUNE_MASK_NONE},
      {ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_VARLEN, ATTUNE_DTYPE_BF16, ATTUNE_MASK_CAUSAL}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    attune_variant v = variant_of(ATTUNE_OP_ATTN_FWD, of[i].dtype, 16, of[i].mask);
    v.features = of[i].features;
    rig r = rig_open(v, NULL, NO_FAULT);
    r.options.quick = i >= 3; /* the last ones take long */
    expect_pass(&r, r.options.quick ? 0 : 3);
  }
}
END_TEST

/* Packed heads, and O in fp32 of 16-bit inputs. */
START_TEST(right_forms_pass) {
  attune_variant v = featured(ATTUNE_FEATURE_VARLEN, ATTUNE_MASK_CAUSAL);
  v.group = 4;
  rig packed = rig_open(v, NULL, NO_FAULT);
  packed.options.quick = 1;
  expect_pass(&packed, 0);
  v = variant_of(ATTUNE_OP_ATTN_FWD, ATTUNE_DTYPE_BF16, 16, ATTUNE_MASK_NONE);
  v.dtype_out = ATTUNE_DTYPE_FP32;
  rig wide = rig_open(v, NULL, NO_FAULT);
  wide.options.quick = 1;
  expect_pass(&wide, 0);
}
END_TEST

START_TEST(features_gone_wrong) {
  enum { NONE = ATTUNE_MASK_NONE, CAUSAL = ATTUNE_MASK_CAUSAL };
  enum { CAP = ATTUNE_FEATURE_SOFTCAP, BIAS = ATTUNE_FEATURE_BIAS, ALIBI = ATTUNE_FEATURE_ALIBI };
  enum { SINK = ATTUNE_FEATURE_SINK, BITS = ATTUNE_FEATURE_BITMASK };
  expect_caught(featured(CAP, NONE), SOFTCAP_BEFORE_SCALE, "softcap", "O[");
  expect_caught(featured(CAP | BIAS, NONE), BIAS_BEFORE_SOFTCAP, "softcap", "O[");
  expect_caught(featured(BIAS, NONE), BIAS_DENSE, "gapped", "O[");
  expect_caught(featured(BIAS, NONE), BIAS_LOWEST, "bias_bhqk_lowest", "O[");
  expect_caught(featured(ALIBI, NONE), ALIBI_CORNER, "bottom_right", "O[");
  expect_caught(featured(ALIBI, NONE), ALIBI_SHARED, "alibi_batch", "O[");
  expect_caught(featured(SINK, NONE), SINK_NOT_IN_LSE, "sinks", "LSE[");
  expect_caught(featured(BITS, NONE), BITS_REVERSED, "bits_bhq_random", "O[");
  expect_caught(featured(BITS, NONE), BITS_DENSE, "gapped", "O[");
}
END_TEST

START_TEST(sequences_gone_wrong) {
  enum { NONE = ATTUNE_MASK_NONE, CAUSAL = ATTUNE_MASK_CAUSAL, VARLEN = ATTUNE_FEATURE_VARLEN };
  expect_caught(fp32(NONE), IGNORED_USED_Q, "queries_mixed", "rows out of use");
  expect_caught(featured(VARLEN, NONE), IGNORED_USED_Q, "queries_mixed", "rows out of use");
  expect_caught(featured(VARLEN, NONE), IGNORED_USED, "used_mixed", "is nan");
  expect_caught(featured(VARLEN, NONE), READ_NEIGHBOUR, "varlen", "is nan");
  expect_caught(featured(VARLEN, CAUSAL), OTHER_CORNER, "causal", "O[");
}
END_TEST

START_TEST(memory_gone_wrong) {
  expect_caught(fp32(ATTUNE_MASK_NONE), WROTE_BEHIND_O, "", "wrote where it must not");
  expect_caught(fp32(ATTUNE_MASK_NONE), WROTE_INPUT, "", "in K or behind it");
  expect_caught(fp32(ATTUNE_MASK_NONE), LEFT_UNWRITTEN, "", "d15] is nan");
  expect_caught(fp32(ATTUNE_MASK_NONE), NONDETERMINISTIC, "", "two runs");
  expect_caught(fp32(ATTUNE_MASK_NONE), HEADS_BY_MODULO, "h4/2", "O[");
  expect_caught(fp32(ATTUNE_MASK_NONE), DENSE_K, "gapped", "O[");
  expect_caught(fp32(ATTUNE_MASK_NONE), LSE_DENSE, "lse_strided", "LSE");
  attune_variant v = variant_of(ATTUNE_OP_ATTN_STANDARD, ATTUNE_DTYPE_FP32, 16, ATTUNE_MASK_NONE);
  expect_caught(v, BEYOND_WORKSPACE, "", "behind the workspace");
}
END_TEST

START_TEST(a_failed_launch_ends_the_run) {
  rig r = rig_open(fp32(ATTUNE_MASK_NONE), NULL, LAUNCH_FAILS);
  ck_assert_int_eq(rig_run(&r), ATTUNE_MISMATCH);
  ck_assert_int_eq(r.verdict.cases, 1);
  ck_assert_int_eq(r.verdict.passed, 0);
  ck_assert_str_eq(r.verdict.reason, "an illegal address");
  attune_close(r.context);
}
END_TEST

/* Address space without backing stands for a device with memory enough. */
START_TEST(far_offsets) {
  for (int dtype = ATTUNE_DTYPE_FP32; dtype <= ATTUNE_DTYPE_FP16; dtype++) {
    attune_variant v = variant_of(ATTUNE_OP_ATTN_FWD, dtype, 16, ATTUNE_MASK_CAUSAL);
    rig r = rig_open(v, NULL, NO_FAULT);
    r.device->memory = (size_t)10 << 30;
    expect_pass(&r, 0);
    rig wrong = rig_open(v, NULL, OFFSET_32_BITS);
    wrong.device->memory = (size_t)10 << 30;
    ck_assert_int_eq(rig_run(&wrong), ATTUNE_MISMATCH);
    ck_assert_int_eq(wrong.verdict.passed, wrong.verdict.cases - 3);
    ck_assert_ptr_nonnull(strstr(wrong.verdict.worst_case, "far_"));
    attune_close(wrong.context);
  }
}
END_TEST

START_TEST(cases_keep_to_pins) {
  attune_variant v = fp32(ATTUNE_MASK_WINDOW);
  attune_pinset pins = {0};
  attune__pinset_add(&pins, "window_left", 127);
  attune__pinset_add(&pins, "heads_kv", 3);
  attune__pinset_add(&pins, "len_q", 40);
  attune__pinset_add(&pins, "bottom_right", 1);
  v.pins = attune__pinset_digest(&pins);
  attune_tile tile = {.block_m = 64, .block_n = 32};
  attune__case_request request = {.variant = &v, .pins = &pins, .tiles = &tile, .tile_count = 1};
  attune__case_list list;
  ck_assert_int_eq(attune__cases_make(&request, &list), ATTUNE_OK);
  for (int i = 0; i < list.count; i++) {
    const attune_shape *s = &list.item[i].shape;
    ck_assert(s->window_left == 127 && s->heads_kv == 3 && s->heads_q % 3 == 0 && s->len_q == 40);
    ck_assert(s->corner == ATTUNE_CORNER_BOTTOM_RIGHT && !list.item[i].corner_unset);
  }
  free(list.item);
  rig r = rig_open(v, &pins, NO_FAULT); /* launches with another value would be refused */
  expect_pass(&r, 0);
}
END_TEST

START_TEST(same_seed_same_verdict) {
  rig r = rig_open(fp32(ATTUNE_MASK_WINDOW), NULL, NO_FAULT);
  r.options.quick = 1, r.options.seed = 7;
  ck_assert_int_eq(rig_run(&r), ATTUNE_OK);
  attune_verdict first = r.verdict;
  ck_assert_int_eq(rig_run(&r), ATTUNE_OK);
  ck_assert_double_eq(first.worst_error, r.verdict.worst_error);
  ck_assert_str_eq(first.worst_case, r.verdict.worst_case);
  attune_close(r.context);
}
END_TEST

START_TEST(short_numbers) {
  static const struct {
    double value;
    const char *want;
  } cases[] = {{0, "0"},
               {1.23456e-6, "1.23e-06"},
               {9.999e-7, "1e-06"},
               {-12.345, "-12.3"},
               {123456, "123000"},
               {0.5, "0.5"},
               {(double)INFINITY, "inf"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attune__text text = {0};
    attune__put_short(&text, cases[i].value);
    ck_assert_str_eq(text.data, cases[i].want);
    attune__text_free(&text);
  }
}
END_TEST

TEST_MAIN("verify", right_kernels_pass, other_dims_alignment_and_parts_pass,
          real_data_runs_or_is_named, real_data_packed, real_data_shows_a_forgotten_length,
          masks_gone_wrong, softmax_gone_wrong, right_features_pass, right_forms_pass,
          features_gone_wrong, sequences_gone_wrong, memory_gone_wrong,
          a_failed_launch_ends_the_run, far_offsets, cases_keep_to_pins, same_seed_same_verdict,
          short_numbers)
