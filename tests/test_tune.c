/* test_tune.c - the tuner on a lab that makes its times up: what wins, what is never timed, what is
 * provisional, and when it ends. */
#include "../runtime/params.def"
#include "fake_lab.h"
#include "test.h"

#include <math.h>

typedef struct run {
  fake_lab lab;
  attune__tuned known;
  attune__tune_options options;
  attune__tune_result result;
  char messages[4000];
} run;

static const char *const one = "{version: 1, op: attn_fwd, arch: sm_90a, dtype: bf16, head_dim: "
                               "128, mask: causal, family: wgmma}";

static void listen(void *user, const attune__tune_progress *p) {
  run *r = user;
  size_t used = strlen(r->messages);
  if (p->message) snprintf(r->messages + used, sizeof r->messages - used, "%s\n", p->message);
}

static attune_status tune(run *r, const char *text) {
  attune_spec spec;
  attune__text errors = {0};
  attune__lab lab = fake_lab_of(&r->lab);
  attune__tune_compiler compiler = fake_compiler_of(&r->lab);
  ck_assert_msg(!attune__spec_read("spec", text, strlen(text), NULL, &spec, &errors), "%s",
                errors.data);
  attune__tune_result_free(&r->result);
  r->options.jobs = 2, r->options.progress = listen, r->options.user = r;
  attune_status status = attune__tune(&spec, &lab, &compiler, &r->options, &r->known, &r->result);
  attune__spec_free(&spec);
  attune__text_free(&errors);
  return status;
}

static void close_run(run *r) {
  attune__tune_result_free(&r->result);
  attune__tuned_free(&r->known);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static double same_cost(const attune_tile *t) {
  (void)t;
  return 0.1;
}

/* Order 5 takes a tenth less than the others, a second Q a sixth less than one. */
static double order_cost(const attune_tile *t) {
  return 0.1 * (t->order == 5 ? 0.9 : 1) * (t->second_q ? 0.83 : 1) *
         (1 + 0.001 * (t->block_n % 7));
}

/* Half a percent: less than the margin. */
static double trifle_cost(const attune_tile *t) {
  return t->order == 5 ? 0.0995 : 0.1;
}

/* All but `any`, whose id is 0. */
enum {
#define X(name, id, text, doc) +1
  CLASSES = 0 ATTUNE_CLASSES(X) - 1
#undef X
};

/* The planner's first choices for the classes. */
static attune_tile planned[CLASSES];
static int is_first(const attune_tile *t) {
  for (int i = 0; i < CLASSES; i++)
    if (!memcmp(t, &planned[i], sizeof *t)) return 1;
  return 0;
}
static void plan_first(void) {
  attune_tile ignored;
  int has_tile, is_program;
  for (int cls = 1; cls <= CLASSES; cls++) {
    attune_plan_request r = {.family = ATTUNE_FAMILY_WGMMA,
                             .shape = attune__plan_shape((attune_class)cls)};
    attune_plan plan;
    ck_assert_int_eq(attune__name_parse("attn_fwd_sm90a_bf16_d128_causal", &r.variant, &ignored,
                                        &has_tile, &is_program),
                     0);
    ck_assert_int_eq(attune__plan_make(&r, &plan), 0);
    planned[cls - 1] = plan.candidates[0].tile;
    attune__plan_free(&plan);
  }
}
static fake_fate wrong_orders(const attune_tile *t) {
  return t->order == 5 ? FAKE_WRONG : FAKE_FINE;
}
static fake_fate first_is_wrong(const attune_tile *t) {
  return is_first(t) ? FAKE_WRONG : FAKE_FINE;
}
static fake_fate lazy_faults(const attune_tile *t) {
  return t->lazy ? FAKE_FAULT : FAKE_FINE;
}
static fake_fate lazy_hangs(const attune_tile *t) {
  return t->lazy ? FAKE_HANG : FAKE_FINE;
}
static fake_fate chains_spill(const attune_tile *t) {
  return t->chains ? FAKE_NOT_COMPILED : FAKE_FINE;
}

static int count_states(const run *r, attune__trial_state state) {
  int count = 0;
  for (int i = 0; i < r->result.cells; i++)
    for (int k = 0; k < r->result.cell[i].trials; k++)
      count += r->result.cell[i].trial[k].state == state;
  return count;
}

/* ---- what wins ------------------------------------------------------------------------------- */

/* Standard deviation of a gain of so many percent from two medians of 15 samples: a median's is
 * 1.2533 times a mean's. */
static double gain_deviation(double gain, double noise) {
  return (100 + gain) * sqrt(2) * 1.2533 * noise / sqrt(15);
}

START_TEST(the_fastest_wins_and_has_a_row) {
  run r = {.lab = {.cost = order_cost, .noise = 0.005}};
  double off = 0, deviation = 0; /* of the gains together, and of one; all are alike */
  ck_assert_int_eq(tune(&r, one), 0);
  ck_assert_int_eq(r.result.cells, CLASSES);
  ck_assert_int_eq(r.known.count, CLASSES);
  for (int i = 0; i < r.result.cells; i++) {
    const attune__tune_cell *c = &r.result.cell[i];
    double gain, low, high;
    ck_assert_int_ge(c->winner, 0);
    ck_assert_int_eq(c->row.tiles.tile[0].order, 5);
    ck_assert_int_eq(c->row.tiles.tile[0].second_q, 1);
    ck_assert(c->changed && !c->row.provisional && c->row.l2_cold);
    attune__tuned_gain(&c->row, &gain, &low, &high);
    double real = 100 * (order_cost(&c->row.over.tile[0]) / order_cost(&c->row.tiles.tile[0]) - 1);
    off += gain - real, deviation = gain_deviation(real, r.lab.noise);
    ck_assert_msg(fabs(gain - real) < 4 * deviation && low < gain && gain < high, "%f, is %f", gain,
                  real);
    const attune__tuned_row *row = attune__tuned_find(&r.known, &c->row.key, &c->variant, c->cls);
    ck_assert_ptr_nonnull(row);
    ck_assert(attune__tiles_same(&row->tiles, &c->row.tiles));
    ck_assert_uint_eq(row->key.abi, ATTUNE_ABI);
    ck_assert_str_eq(row->key.nvrtc, "nvrtc 13.0.1");
  }
  ck_assert_msg(fabs(off) < 3 * deviation * sqrt(CLASSES), "%f, of %d", off, CLASSES);
  ck_assert_int_eq(r.result.timed, count_states(&r, ATTUNE__TRIAL_TIMED));
  close_run(&r);
}
END_TEST

/* All tiles alike, and noise: a row that is said to be faster is a mistake. 5 % of them may be. */
START_TEST(equal_tiles_are_not_told_apart) {
  static const double noises[] = {0.005, 0.02, 0.05};
  int cells = 0, mistakes = 0;
  for (int k = 0; k < 3; k++) {
    run r = {.lab = {.cost = same_cost, .noise = noises[k], .random = (uint64_t)k + 1},
             .options = {.max_trials = 12}};
    ck_assert_int_eq(tune(&r, "{version: 1, op: attn_fwd, arch: sm_90a, dtype: [bf16, fp16], "
                              "head_dim: [32, 64, 128], mask: [none, causal]}"),
                     0);
    for (int i = 0; i < r.result.cells; i++) {
      const attune__tuned_row *row = &r.result.cell[i].row;
      cells++, mistakes += !row->provisional && !attune__tiles_same(&row->tiles, &row->over);
    }
    close_run(&r);
  }
  ck_assert_int_eq(cells, 3 * 12 * CLASSES);
  ck_assert_msg(mistakes <= 10, "%d of %d", mistakes, cells);
}
END_TEST

START_TEST(a_trifle_is_not_worth_a_change) {
  run r = {.lab = {.cost = trifle_cost, .noise = 0.0001}};
  ck_assert_int_eq(tune(&r, one), 0);
  for (int i = 0; i < r.result.cells; i++)
    ck_assert(attune__tiles_same(&r.result.cell[i].row.tiles, &r.result.cell[i].row.over));
  close_run(&r);
}
END_TEST

/* A second run confirms the rows of the first beside the planner's choices, checks nothing again
 * and changes nothing. Asked for more it searches on, and may find better: the rows stay legal. */
START_TEST(a_second_run_agrees) {
  run r = {.lab = {.cost = order_cost, .noise = 0.005}};
  ck_assert_int_eq(tune(&r, one), 0);
  int checked = r.lab.checked;
  ck_assert_int_gt(checked, 0);
  ck_assert_int_eq(tune(&r, one), 0);
  ck_assert_int_eq(r.lab.checked, checked);
  for (int i = 0; i < r.result.cells; i++) {
    ck_assert(!r.result.cell[i].changed);
    ck_assert_int_le(r.result.cell[i].trials, 2);
  }
  ck_assert_int_eq(r.known.count, CLASSES);
  r.options.more = 1;
  ck_assert_int_eq(tune(&r, one), 0);
  for (int i = 0; i < r.result.cells; i++) {
    const attune__tune_cell *c = &r.result.cell[i];
    ck_assert_int_eq(c->trials, 40);
    for (int k = 2; k < c->trials; k++) /* the row's tiles, second, are not proposed again */
      ck_assert(!attune__tiles_same(&c->trial[k].tiles, &c->trial[1].tiles));
  }
  close_run(&r);
}
END_TEST

/* A row that is found slower than planned, if by half a percent, gives way: its tiles were order
 * 5's, which the second run makes the slower ones. */
static double trifle_slower_cost(const attune_tile *t) {
  return t->order == 5 ? 0.1005 : 0.1;
}
START_TEST(a_row_that_is_slower_than_planned_gives_way) {
  run r = {.lab = {.cost = order_cost, .noise = 0.0001}};
  ck_assert_int_eq(tune(&r, one), 0);
  r.lab.cost = trifle_slower_cost;
  ck_assert_int_eq(tune(&r, one), 0);
  for (int i = 0; i < r.result.cells; i++) {
    ck_assert(r.result.cell[i].changed);
    ck_assert(attune__tiles_same(&r.result.cell[i].row.tiles, &r.result.cell[i].row.over));
  }
  close_run(&r);
}
END_TEST

/* One tile is a fifth faster than all others, which are alike: nothing leads to it but a row of a
 * relative, whose mask is another. */
static attune_tile hidden;
static double hidden_cost(const attune_tile *t) {
  return memcmp(t, &hidden, sizeof *t) ? 0.1 : 0.08;
}
START_TEST(what_won_for_a_relative_is_tried) {
  run r = {.lab = {.cost = order_cost, .noise = 0.002}};
  plan_first();
  ck_assert_int_eq(tune(&r, "{version: 1, op: attn_fwd, arch: sm_90a, dtype: fp16, head_dim: 128, "
                            "family: wgmma}"),
                   0);
  ck_assert_int_gt(r.result.cells, 0);
  hidden = r.result.cell[0].row.tiles.tile[0];
  ck_assert_int_eq(hidden.order, 5);
  ck_assert(!is_first(&hidden));
  r.lab.cost = hidden_cost;
  ck_assert_int_eq(tune(&r, one), 0);
  ck_assert_int_eq(r.result.cells, CLASSES);
  for (int i = 0; i < r.result.cells; i++)
    ck_assert(!memcmp(&r.result.cell[i].row.tiles.tile[0], &hidden, sizeof hidden));
  /* Rows of another length are no relatives */
  ck_assert_int_eq(tune(&r, "{version: 1, op: attn_fwd, arch: sm_90a, dtype: fp16, head_dim: 96, "
                            "family: wgmma}"),
                   0);
  int found = 0;
  for (int i = 0; i < r.result.cells; i++)
    for (int k = 1; k < 7 && k < r.result.cell[i].trials; k++)
      found += !memcmp(&r.result.cell[i].trial[k].tiles.tile[0], &hidden, sizeof hidden);
  ck_assert_int_eq(found, 0);
  close_run(&r);
}
END_TEST

START_TEST(a_program_of_several_kernels_is_tuned_as_one) {
  run r = {.lab = {.cost = same_cost, .arch_cc = 80}, .options = {.max_trials = 20}};
  ck_assert_int_eq(
      tune(&r, "{version: 1, op: attn_standard, arch: sm_80, dtype: fp32, head_dim: 64}"), 0);
  ck_assert_int_eq(r.result.cells, CLASSES);
  for (int i = 0; i < r.result.cells; i++) ck_assert_int_eq(r.result.cell[i].row.tiles.count, 3);
  close_run(&r);
}
END_TEST

/* ---- what is bad -------------------------------------------------------------------------------
 */

START_TEST(a_wrong_tile_is_reported_and_never_timed) {
  run r = {.lab = {.cost = order_cost, .fate = wrong_orders}};
  ck_assert_int_eq(tune(&r, one), 0);
  int wrong = r.result.wrong;
  ck_assert_int_gt(wrong, 0);
  ck_assert_int_eq(r.lab.timed_wrong, 0);
  ck_assert_ptr_nonnull(
      strstr(r.messages, "wrong result, a defect: attn_fwd_sm90a_bf16_d128_causal__wgmma"));
  ck_assert_ptr_nonnull(strstr(r.messages, "made-up wrong result"));
  for (int i = 0; i < r.result.cells; i++)
    ck_assert_int_ne(r.result.cell[i].row.tiles.tile[0].order, 5);
  r.messages[0] = 0, r.options.more = 1; /* the mark says it: not tried again */
  ck_assert_int_eq(tune(&r, one), 0);
  wrong += r.result.wrong; /* those that had not been met */
  for (int i = 0; i < r.known.mark_count; i++) wrong -= r.known.mark[i].kind == ATTUNE__MARK_WRONG;
  ck_assert_int_eq(wrong, 0);
  ck_assert_int_eq(r.lab.timed_wrong, 0);
  ck_assert_int_gt(count_states(&r, ATTUNE__TRIAL_WRONG), 0);
  close_run(&r);
}
END_TEST

START_TEST(a_planned_tile_that_is_wrong_leaves_the_next) {
  run r = {.lab = {.cost = same_cost, .fate = first_is_wrong}};
  plan_first();
  ck_assert_int_eq(tune(&r, one), 0);
  ck_assert_int_gt(r.result.wrong, 0);
  for (int i = 0; i < r.result.cells; i++) {
    ck_assert_int_gt(r.result.cell[i].winner, 0);
    ck_assert(!is_first(&r.result.cell[i].row.tiles.tile[0]));
  }
  close_run(&r);
}
END_TEST

static void check_bad(fake_fate (*fate)(const attune_tile *), int when_timed,
                      attune__trial_state state, attune__mark_kind kind) {
  run r = {.lab = {.cost = order_cost, .fate = fate, .fails_when_timed = when_timed}};
  ck_assert_int_eq(tune(&r, one), 0);
  ck_assert_int_gt(count_states(&r, state), 0);
  int marks = 0;
  for (int i = 0; i < r.known.mark_count; i++) marks += r.known.mark[i].kind == kind;
  ck_assert_int_gt(marks, 0);
  ck_assert_int_eq(r.result.faults + r.result.hangs, marks); /* each met once */
  for (int i = 0; i < r.result.cells; i++) {
    ck_assert_int_ge(r.result.cell[i].winner, 0);
    ck_assert_int_eq(r.result.cell[i].row.tiles.tile[0].lazy, 0);
  }
  close_run(&r);
}

START_TEST(a_fault_or_a_hang_ends_the_candidate_alone) {
  for (int when_timed = 0; when_timed < 2; when_timed++) {
    check_bad(lazy_faults, when_timed, ATTUNE__TRIAL_FAULT, ATTUNE__MARK_FAULT);
    check_bad(lazy_hangs, when_timed, ATTUNE__TRIAL_HANG, ATTUNE__MARK_HANG);
  }
}
END_TEST

START_TEST(what_spills_is_left_out) {
  run r = {.lab = {.cost = order_cost, .fate = chains_spill}};
  ck_assert_int_eq(tune(&r, one), 0);
  ck_assert_int_gt(count_states(&r, ATTUNE__TRIAL_NOT_COMPILED), 0);
  int found = 0;
  for (int i = 0; i < r.result.cells; i++) {
    ck_assert_int_ge(r.result.cell[i].winner, 0);
    ck_assert_int_eq(r.result.cell[i].row.tiles.tile[0].chains, 0);
    found += r.result.cell[i].row.tiles.tile[0].order == 5;
  }
  ck_assert_int_ge(found, r.result.cells - 1); /* all the planner's own choices spill */
  close_run(&r);
}
END_TEST

/* ---- what is provisional -----------------------------------------------------------------------
 */

static void check_provisional(run *r, const char *why) {
  ck_assert_int_eq(tune(r, one), 0);
  attune__tuned_db db = {.shipped = {.count = 0}, .own = r->known};
  for (int i = 0; i < r->result.cells; i++) {
    const attune__tuned_row *row = &r->result.cell[i].row;
    char reason[ATTUNE_REASON_MAX];
    ck_assert_int_eq(row->provisional, 1);
    ck_assert_msg(strstr(row->why, why) != NULL, "%s", row->why);
    const attune__tuned_row *kept =
        attune__tuned_find(&r->known, &row->key, &row->variant, row->cls);
    ck_assert(kept && kept->provisional);
    ck_assert_ptr_null(attune__tuned_row_for(&db, &row->key, &row->variant, row->cls, 232448,
                                             reason, sizeof reason));
    ck_assert_ptr_nonnull(strstr(reason, "provisional"));
  }
}

START_TEST(what_was_disturbed_is_provisional_and_tuned_again) {
  static const struct {
    attune__watch watch;
    const char *why;
  } rows[] = {{{.known = 1, .throttled = 1}, "slowed"},
              {{.known = 1, .others = 2}, "2 other processes"},
              {{.known = 1, .memory_changed = 1, .memory_mhz = 1600}, "memory clock"},
              {{.known = 1, .mig = 1}, "MIG"}};
  for (int k = 0; k < 4; k++) {
    run r = {.lab = {.cost = order_cost, .watch = rows[k].watch}, .options = {.max_trials = 8}};
    check_provisional(&r, rows[k].why);
    r.lab.watch = (attune__watch){.known = 1};
    ck_assert_int_eq(tune(&r, one), 0);
    for (int i = 0; i < r.known.count; i++) ck_assert_int_eq(r.known.row[i].provisional, 0);
    r.lab.watch = rows[k].watch; /* a disturbed run takes no measured row's place */
    ck_assert_int_eq(tune(&r, one), 0);
    for (int i = 0; i < r.known.count; i++) ck_assert_int_eq(r.known.row[i].provisional, 0);
    close_run(&r);
  }
}
END_TEST

/* 0.5 % a sample is 7 % within 15 rounds of one; the ratios within a round are as ever. */
START_TEST(a_drift_is_provisional) {
  run r = {.lab = {.cost = order_cost, .drift = 0.005}, .options = {.max_trials = 8}};
  check_provisional(&r, "drifted");
  close_run(&r);
}
END_TEST

/* ---- when it ends ------------------------------------------------------------------------------
 */

START_TEST(the_budget_holds) {
  run r = {.lab = {.cost = order_cost, .add_ms = 20}, .options = {.budget_s = 1}};
  ck_assert_int_eq(tune(&r, "{version: 1, op: attn_fwd, arch: sm_90a, dtype: [bf16, fp16], "
                            "head_dim: [32, 64, 96, 128], mask: [none, causal, window]}"),
                   0);
  ck_assert_int_eq(r.result.cells, 24 * CLASSES);
  ck_assert_msg(r.result.wall_s < 2, "%f s", r.result.wall_s);
  ck_assert_int_gt(r.result.unfinished, 0);
  ck_assert_int_eq(r.known.count, r.result.cells - r.result.unfinished); /* the best so far */
  close_run(&r);
}
END_TEST

START_TEST(shapes_can_be_given) {
  attune_shape shape = attune__plan_shape(ATTUNE_CLASS_LONG_FEW);
  attune_shape two[2] = {shape, shape};
  two[1].len_q = 3072;
  run r = {.lab = {.cost = order_cost}, .options = {.shapes = &shape, .shape_count = 1}};
  ck_assert_int_eq(tune(&r, one), 0);
  ck_assert_int_eq(r.result.cells, 1);
  ck_assert_int_eq(r.result.cell[0].cls, ATTUNE_CLASS_LONG_FEW);
  r.options.shapes = two, r.options.shape_count = 2;
  ck_assert_int_eq(tune(&r, one), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "two shapes of class long_few"));
  close_run(&r);
}
END_TEST

START_TEST(nothing_for_this_gpu) {
  run r = {.lab = {.cost = order_cost, .arch_cc = 80}};
  ck_assert_int_eq(tune(&r, one), ATTUNE_NOT_FOUND);
  ck_assert_str_eq(attune_error(), "nothing here runs on Fake GPU");
  close_run(&r);
}
END_TEST

TEST_MAIN("tune", the_fastest_wins_and_has_a_row, equal_tiles_are_not_told_apart,
          a_trifle_is_not_worth_a_change, a_second_run_agrees,
          a_row_that_is_slower_than_planned_gives_way, what_won_for_a_relative_is_tried,
          a_program_of_several_kernels_is_tuned_as_one, a_wrong_tile_is_reported_and_never_timed,
          a_planned_tile_that_is_wrong_leaves_the_next, a_fault_or_a_hang_ends_the_candidate_alone,
          what_spills_is_left_out, what_was_disturbed_is_provisional_and_tuned_again,
          a_drift_is_provisional, the_budget_holds, shapes_can_be_given, nothing_for_this_gpu)
