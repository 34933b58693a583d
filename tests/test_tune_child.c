/* test_tune_child.c - the lab in a child process: answers pass through, and a candidate that hangs,
 * dies or faults ends the child, not the tuner.
 *
 * The child is this program again, with a made-up lab: `test_tune_child serve`. */
#include "fake_lab.h"
#include "test.h"

#include <limits.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* ---- the child: fates by order ----------------------------------------------------------------
 */

enum { DIES = 1, HANGS = 2, FAULTS = 3, WRONG = 4 };
enum { WHEN_CHECKED = 0, WHEN_TIMED = 10 };

static attune__lab_server *server;

static double cost(const attune_tile *t) {
  return 0.1 * (1 + t->chains);
}

static void act(int order) {
  if (order == DIES) raise(SIGKILL);
  if (order == HANGS)
    for (;;) pause();
}

static attune__lab inside;

static attune_status child_add(void *user, const attune__lab_program *p) {
  attune__lab_server_beat(server, ((fake_lab *)user)->count);
  if (p->bytes[0] != 5 || memcmp(p->entry[0], "entry", 5) != 0) abort();
  int order = p->tiles.tile[0].order;
  act(order);
  if (order == FAULTS) return attune_fail(ATTUNE_DRIVER, "illegal address");
  if (order == WRONG) return attune_fail(ATTUNE_MISMATCH, "wrong by 1");
  return inside.add(user, p);
}

static attune_status child_time(void *user, const int *which, int count,
                                const attune__bench_options *options, attune__bench_time *out,
                                attune__watch *watch) {
  fake_lab *f = user;
  attune_status status = inside.time(user, which, count, options, out, watch);
  for (int i = 0; i < count; i++) {
    int order = f->in[which[i]].tile[0].order - WHEN_TIMED;
    attune__lab_server_beat(server, which[i]);
    act(order);
    if (order == FAULTS) {
      out[i].status = ATTUNE_DRIVER;
      snprintf(out[i].error, sizeof out[i].error, "illegal address");
    }
  }
  return status;
}

static int serve(void) {
  fake_lab fake = {.cost = cost};
  attune__lab lab = inside = fake_lab_of(&fake);
  lab.add = child_add, lab.time = child_time;
  attune__lab_server s = {&lab, STDIN_FILENO, STDOUT_FILENO};
  server = &s;
  return attune__lab_serve(&s) != ATTUNE_OK;
}

/* ---- the parent ------------------------------------------------------------------------------ */

static char self[PATH_MAX];
static char *argv_of_child[] = {self, "serve", NULL};

static attune__lab_child *open_child(attune__lab *lab, double deadline_ms) {
  attune__lab_child *child;
  attune__lab_child_options o = {
      .argv = argv_of_child, .patience_s = 0.5, .deadline_ms = deadline_ms};
  ck_assert_int_eq(attune__lab_child_open(&o, &child, lab), 0);
  return child;
}

static attune_status add(const attune__lab *lab, int order, int chains) {
  attune__lab_program p = {.tiles = {.count = 1}, .entry = {"entry"}, .bytes = {5}};
  p.tiles.tile[0].order = (uint8_t)order, p.tiles.tile[0].chains = (uint8_t)chains;
  return lab->add(lab->user, &p);
}

static void open_cell(const attune__lab *lab) {
  attune__lab_cell cell = {.shape = attune__plan_shape(ATTUNE_CLASS_ANY)};
  ck_assert_int_eq(lab->open(lab->user, &cell), 0);
}

static const attune__bench_options few = {.rounds = 7, .sample_ms = 1, .warm_ms = 1};

START_TEST(answers_pass_through) {
  attune__lab lab;
  attune__lab_child *child = open_child(&lab, 0);
  attune__lab_facts facts;
  attune__bench_time time[2];
  attune__watch watch;
  ck_assert_int_eq(lab.facts(lab.user, &facts), 0);
  ck_assert_str_eq(facts.key.gpu, "Fake GPU");
  open_cell(&lab);
  ck_assert_int_eq(add(&lab, 0, 0), 0);
  ck_assert_int_eq(add(&lab, WRONG, 0), ATTUNE_MISMATCH);
  ck_assert_str_eq(attune_error(), "wrong by 1");
  ck_assert_int_eq(add(&lab, 0, 2), 0);
  int which[] = {1, 0};
  ck_assert_int_eq(lab.time(lab.user, which, 2, &few, time, &watch), 0);
  ck_assert_double_eq_tol(time[0].median, 0.3, 1e-9);
  ck_assert_double_eq_tol(time[1].median, 0.1, 1e-9);
  ck_assert_int_eq(attune__lab_child_restarts(child), 0);
  attune__lab_child_close(child);
}
END_TEST

START_TEST(a_candidate_that_ends_its_child_is_left_out) {
  static const struct {
    int order;
    attune_status status;
    const char *words;
  } fates[] = {{DIES, ATTUNE_DRIVER, "signal 9"},
               {HANGS, ATTUNE_BUSY, "no sign of life"},
               {FAULTS, ATTUNE_DRIVER, "illegal address"}};
  attune__lab lab;
  attune__lab_child *child = open_child(&lab, 0);
  for (int i = 0; i < 3; i++) {
    attune__bench_time time[3];
    attune__watch watch;
    open_cell(&lab);
    ck_assert_int_eq(add(&lab, 0, 0), 0);
    ck_assert_int_eq(add(&lab, fates[i].order + WHEN_CHECKED, 0), fates[i].status);
    ck_assert_msg(strstr(attune_error(), fates[i].words) != NULL, "%s", attune_error());
    ck_assert_int_eq(add(&lab, fates[i].order + WHEN_TIMED, 1), 0); /* contender 1 */
    ck_assert_int_eq(add(&lab, 0, 2), 0);
    int which[] = {0, 1, 2}, rest[] = {2, 0};
    ck_assert_msg(!lab.time(lab.user, which, 3, &few, time, &watch), "%s", attune_error());
    ck_assert_int_eq(time[1].status, fates[i].status);
    ck_assert_msg(strstr(time[1].error, fates[i].words) != NULL, "%s", time[1].error);
    ck_assert_int_eq(lab.time(lab.user, rest, 2, &few, time, &watch), 0);
    ck_assert_double_eq_tol(time[0].median, 0.3, 1e-9); /* the others are as they were */
    ck_assert_double_eq_tol(time[1].median, 0.1, 1e-9);
  }
  ck_assert_int_ge(attune__lab_child_restarts(child), 6);
  attune__lab_child_close(child);
}
END_TEST

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

START_TEST(the_deadline_ends_a_hang_at_once) {
  attune__lab lab;
  double began = now_ms();
  attune__lab_child *child = open_child(&lab, began + 300);
  open_cell(&lab);
  ck_assert_int_eq(add(&lab, HANGS, 0), ATTUNE_BUSY);
  ck_assert_str_eq(attune_error(), "the budget ended");
  ck_assert_int_eq(add(&lab, 0, 0), ATTUNE_BUSY); /* and no other child is begun */
  ck_assert(now_ms() - began < 480);
  attune__lab_child_close(child);
}
END_TEST

START_TEST(a_child_that_cannot_start_is_said) {
  char *const nowhere[] = {"/nowhere/attune", NULL};
  attune__lab lab;
  attune__lab_child *child;
  attune__lab_facts facts;
  attune__lab_child_options o = {.argv = nowhere};
  ck_assert_int_eq(attune__lab_child_open(&o, &child, &lab), 0);
  attune_status status = lab.facts(lab.user, &facts);
  ck_assert(status == ATTUNE_IO || status == ATTUNE_DRIVER);
  attune__lab_child_close(child);
}
END_TEST

static int run_tests(void);

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "serve")) return serve();
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 1;
  return run_tests();
}

#define main run_tests
static TEST_MAIN("tune_child", answers_pass_through, a_candidate_that_ends_its_child_is_left_out,
                 the_deadline_ends_a_hang_at_once, a_child_that_cannot_start_is_said)
