/* test_tune_compare.c - measured rows timed again on a lab that makes its times up: which hold,
 * which have become slower, which fail, and of which nothing can be said. */
#include "../gen/tune_compare.h"
#include "fake_lab.h"
#include "test.h"

static const attune__bench_options options = {.rounds = 15, .sample_ms = 2, .warm_ms = 4};

static attune__tiles tiles_of(const char *text) {
  attune__tiles tiles;
  ck_assert_msg(!attune__tiles_parse(text, &tiles), "%s", attune_error());
  return tiles;
}

/* A row of a variant whose winner is `tile`, or what the planner chooses where that is NULL. */
static attune__tuned_row row_of(const char *variant, const char *tile) {
  attune__tuned_row row = {.cls = ATTUNE_CLASS_LONG_MANY};
  attune_plan plan;
  attune_tile ignored;
  int has_tile, is_program;
  ck_assert_int_eq(attune__name_parse(variant, &row.variant, &ignored, &has_tile, &is_program), 0);
  row.key = (attune__tuned_key){.gpu = "Fake GPU", .sms = 132, .memory_mhz = 3200};
  row.key.arch = row.variant.arch;
  row.shape = attune__plan_shape(row.cls);
  attune_plan_request wish = {.variant = row.variant, .shape = row.shape};
  ck_assert_int_eq(attune__plan_make(&wish, &plan), 0);
  row.tiles = (attune__tiles){.count = 1, .tile = {plan.candidates[0].tile}};
  attune__plan_free(&plan);
  if (tile) row.tiles = tiles_of(tile);
  return row;
}

static attune__comparison compare(fake_lab *fake, const attune__tuned_row *row) {
  attune__comparison c;
  attune__lab lab = fake_lab_of(fake);
  attune__tune_compiler compiler = fake_compiler_of(fake);
  ck_assert_msg(!attune__compare_row(row, &lab, &compiler, &options, &c), "%s", attune_error());
  return c;
}

static const char *const variant = "attn_fwd_sm90a_fp16_d64", *const small = "mma_m64n32w2";
static double small_is_fast(const attune_tile *t) {
  return t->block_n == 32 ? 0.08 : 0.1;
}
static double small_is_slow(const attune_tile *t) {
  return t->block_n == 32 ? 0.12 : 0.1;
}
static fake_fate small_faults(const attune_tile *t) {
  return t->block_n == 32 ? FAKE_FAULT : FAKE_FINE;
}
static fake_fate small_spills(const attune_tile *t) {
  return t->block_n == 32 ? FAKE_NOT_COMPILED : FAKE_FINE;
}
static fake_fate others_are_wrong(const attune_tile *t) {
  return t->block_n == 32 ? FAKE_FINE : FAKE_WRONG;
}

START_TEST(verdicts_follow_the_times) {
  attune__tuned_row row = row_of(variant, small);
  fake_lab fake = {.cost = small_is_fast, .noise = 0.005};
  attune__comparison c = compare(&fake, &row);
  ck_assert_int_eq(c.verdict, ATTUNE__COMPARE_HOLDS);
  ck_assert_double_eq_tol(c.winner_time.median, 0.08, 0.001);
  ck_assert_double_eq_tol(c.planned_time.median, 0.1, 0.001);
  fake = (fake_lab){.cost = small_is_slow, .noise = 0.005};
  c = compare(&fake, &row);
  ck_assert_int_eq(c.verdict, ATTUNE__COMPARE_SLOWER);
  ck_assert_str_eq(attune__compare_word(c.verdict), "slower");
  /* the same, within the noise: two fifths of a sample's spread */
  fake = (fake_lab){.cost = small_is_slow, .noise = 0.5};
  ck_assert_int_ne(compare(&fake, &row).verdict, ATTUNE__COMPARE_SLOWER);
}
END_TEST

START_TEST(what_is_planned_has_nothing_to_be_slower_than) {
  attune__tuned_row row = row_of(variant, NULL);
  fake_lab fake = {.cost = small_is_fast};
  attune__comparison c = compare(&fake, &row);
  ck_assert_int_eq(c.verdict, ATTUNE__COMPARE_PLANNED);
  ck_assert_int_eq(fake.added, 1);
  ck_assert_double_eq(c.planned_time.median, 0);
}
END_TEST

START_TEST(a_winner_that_fails_is_told) {
  attune__tuned_row row = row_of(variant, small);
  fake_lab fake = {.cost = small_is_fast, .fate = small_faults};
  attune__comparison c = compare(&fake, &row);
  ck_assert_int_eq(c.verdict, ATTUNE__COMPARE_FAILED);
  ck_assert_str_eq(c.why, "made-up illegal address");
  fake = (fake_lab){.cost = small_is_fast, .fate = small_faults, .fails_when_timed = 1};
  ck_assert_int_eq(compare(&fake, &row).verdict, ATTUNE__COMPARE_FAILED);
  fake = (fake_lab){.cost = small_is_fast, .fate = small_spills};
  ck_assert_int_eq(compare(&fake, &row).verdict, ATTUNE__COMPARE_FAILED);
  ck_assert_int_eq(fake.opened, 0);
  fake = (fake_lab){.cost = small_is_slow, .fate = others_are_wrong};
  ck_assert_int_eq(compare(&fake, &row).verdict, ATTUNE__COMPARE_HOLDS);
  row.tiles.tile[0].block_n = 17; /* no tile of today */
  ck_assert_int_eq(compare(&fake, &row).verdict, ATTUNE__COMPARE_FAILED);
}
END_TEST

START_TEST(disturbed_times_say_nothing) {
  attune__tuned_row row = row_of(variant, small);
  fake_lab fake = {.cost = small_is_slow, .watch = {.known = 1, .throttled = 1}};
  attune__comparison c = compare(&fake, &row);
  ck_assert_int_eq(c.verdict, ATTUNE__COMPARE_DISTURBED);
  ck_assert_str_eq(c.why, "the GPU was slowed for heat or power");
  fake = (fake_lab){.cost = small_is_slow, .drift = 0.01};
  ck_assert_int_eq(compare(&fake, &row).verdict, ATTUNE__COMPARE_DISTURBED);
  row.variant.pins = 0x1234;
  ck_assert_int_eq(compare(&fake, &row).verdict, ATTUNE__COMPARE_SKIPPED);
}
END_TEST

START_TEST(rows_of_this_gpu_whatever_compiled_them) {
  attune__tuned_row row = row_of(variant, small);
  fake_lab fake = {.cost = small_is_fast};
  attune__lab lab = fake_lab_of(&fake);
  attune__lab_facts facts;
  ck_assert_int_eq(lab.facts(lab.user, &facts), 0);
  snprintf(row.key.nvrtc, sizeof row.key.nvrtc, "nvrtc 9.9");
  row.driver = 1;
  ck_assert_int_eq(attune__compare_is_here(&row, &facts), 1);
  row.key.sms = 66;
  ck_assert_int_eq(attune__compare_is_here(&row, &facts), 0);
  row.key.sms = 132;
  row.variant.arch = attune__arch(100, 'a');
  ck_assert_int_eq(attune__compare_is_here(&row, &facts), 0);
  row = row_of(variant, small);
  row.key.gpu[0] = 'X';
  ck_assert_int_eq(attune__compare_is_here(&row, &facts), 0);
}
END_TEST

TEST_MAIN("tune_compare", verdicts_follow_the_times, what_is_planned_has_nothing_to_be_slower_than,
          a_winner_that_fails_is_told, disturbed_times_say_nothing,
          rows_of_this_gpu_whatever_compiled_them)
