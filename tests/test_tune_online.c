/* test_tune_online.c - tuning in a user's process, on labs that make their times up: attune_tune,
 * a jit's two modes, what is tried where, and when the background may work. Needs NVRTC for what
 * serves before. */
#include "../gen/jit_parts.h"
#include "../gen/nvrtc.h"
#include "../gen/tune_pace.h"
#include "../runtime/context.h"
#include "fake.h"
#include "fake_lab.h"
#include "scratch.h"

#include <unistd.h>

/* ---- a process with a made-up GPU -------------------------------------------------------------
 */

typedef struct place {
  char folder[64];
  attune_context *context;
  attune_jit *jit;
  fake_log log;
  attune__device_ops ops; /* of the device: a test's own */
  fake_lab own, child;
  int child_lives, child_opens, timed_beside_child;
  int busy;         /* 1: this process launches while candidates are timed */
  atomic_int opens; /* cells here, and children */
  int strangers;    /* candidates that came here unproven and do not serve in this process */
  pthread_mutex_t lock;
  char messages[4000];
  attune__online_host host;
  attune__guard_trial trial;
} place;

static void listen(void *user, attune_level level, const char *text) {
  place *p = user;
  pthread_mutex_lock(&p->lock);
  size_t used = strlen(p->messages);
  snprintf(p->messages + used, sizeof p->messages - used, "%d %s\n", (int)level, text);
  pthread_mutex_unlock(&p->lock);
}

/* An entry that a made-up device loads. The digest tells tiles apart. */
static attune_status compile(void *user, const attune_kernel *kernel, void **bytes, size_t *size,
                             char digest[17]) {
  (void)user;
  attune_entry entry = fake_entry(kernel->name, NULL);
  snprintf(digest, 17, "%08x%08x", kernel->ledger.bytes, kernel->tile.block_m);
  return attune__entry_write(&entry, bytes, size);
}

static attune_status own_time(void *user, const int *which, int count,
                              const attune__bench_options *options, attune__bench_time *out,
                              attune__watch *watch) {
  place *p = user;
  p->timed_beside_child += p->child_lives;
  if (p->busy) atomic_store(&p->context->launched_us, attune__microseconds());
  attune__lab lab = fake_lab_of(&p->own);
  return lab.time(lab.user, which, count, options, out, watch);
}
static attune_status own_facts(void *user, attune__lab_facts *out) {
  attune__lab lab = fake_lab_of(&((place *)user)->own);
  return lab.facts(lab.user, out);
}
static attune_status own_open(void *user, const attune__lab_cell *cell) {
  place *p = user;
  attune__lab lab = fake_lab_of(&p->own);
  p->opens++;
  return lab.open(lab.user, cell);
}
static attune_status own_add(void *user, const attune__lab_program *program) {
  place *p = user;
  attune__lab lab = fake_lab_of(&p->own);
  p->strangers += !program->passed && program->tiles.tile[0].share_kv;
  return lab.add(lab.user, program);
}

static attune_status open_own(void *user, void (*beat)(void *user, int contender), void *beat_user,
                              attune__lab *out) {
  (void)beat, (void)beat_user;
  *out = (attune__lab){user, own_facts, own_open, own_add, own_time};
  return ATTUNE_OK;
}
static void close_own(void *user) {
  (void)user;
}

static attune_status open_child(void *user, attune__lab *out) {
  place *p = user;
  p->child_lives = 1, p->child_opens++, p->opens++;
  *out = fake_lab_of(&p->child);
  return ATTUNE_OK;
}
static void close_child(void *user) {
  ((place *)user)->child_lives = 0;
}

/* Tiles in which K and V share their memory take seven tenths of the others' time; the planner
 * begins with none of them. */
static double cost(const attune_tile *tile) {
  return 0.1 * (tile->share_kv ? 0.7 : 1) * (1 + 0.0001 * tile->block_m);
}
static fake_fate shared_faults(const attune_tile *tile) {
  return tile->share_kv ? FAKE_FAULT : FAKE_FINE;
}

/* The device of the context is the labs'. */
static void name_device(place *p) {
  attune__device *device = attune__context_device(p->context);
  attune__lab_facts facts;
  ck_assert_int_eq(own_facts(p, &facts), 0);
  memcpy(device->facts.name, facts.key.gpu, sizeof facts.key.gpu);
  device->facts.sm_count = facts.key.sms, device->facts.memory_mhz = facts.key.memory_mhz;
  p->ops = *device->ops;
  device->ops = &p->ops;
}

/* Opens a context and a jit over the store, which outlives them. */
static void enter_place(place *p, const attune_jit_options *wanted, int with_child) {
  attune_nvrtc_info nvrtc;
  attune_jit_options options = wanted ? *wanted : attune_jit_options_init();
  pthread_mutex_init(&p->lock, NULL);
  memset(&p->log, 0, sizeof p->log);
  p->own.cost = p->child.cost = cost;
  p->own.arch_cc = p->child.arch_cc = 80;
  p->messages[0] = 0;
  p->context = fake_open("sm_80", NULL, &p->log);
  name_device(p);
  options.store = p->folder, options.message = listen, options.message_user = p;
  ck_assert_msg(!attune_jit_install(p->context, &options, &p->jit), "%s", attune_error());
  ck_assert_int_eq(attune__nvrtc_info(&nvrtc), 0);
  p->host = (attune__online_host){.user = p, .open = open_own, .close = close_own};
  p->host.compiler.compile = compile;
  memcpy(p->host.compiler.nvrtc, nvrtc.version, sizeof p->host.compiler.nvrtc);
  p->trial = (attune__guard_trial){p, open_child, close_child};
  if (with_child) p->host.trial = &p->trial;
  ck_assert_int_eq(attune__jit_use_host(p->jit, &p->host), 0);
}

static void leave_place(place *p) {
  attune_close(p->context);
  attune_jit_close(p->jit);
  pthread_mutex_destroy(&p->lock);
}

/* One store for all tests, without its rows: what serves before is compiled once. */
static char store[64];
static void remove_store(void) {
  scratch_remove(store);
}

/* On the heap: after a failed test a thread in the background may still see it. */
static place *place_new(const place *like) {
  place *p = malloc(sizeof *p);
  ck_assert_ptr_nonnull(p);
  *p = *like;
  if (!store[0]) {
    scratch_make(store);
    atexit(remove_store);
  }
  memcpy(p->folder, store, sizeof p->folder);
  char *path = attune__tuned_path(store, "Fake GPU");
  remove(path);
  free(path);
  return p;
}

static attune_problem problem_of(int len) {
  attune_problem p = attune_problem_init();
  p.op = ATTUNE_OP_ATTN_FWD, p.dtype_q = ATTUNE_DTYPE_FP32;
  p.head_dim_qk = 16, p.batch = p.heads_q = p.heads_kv = 2;
  p.len_q = p.len_k = len;
  return p;
}

static attune_tile tile_of(const attune_program *program) {
  attune_variant v;
  attune_tile tile;
  int has_tile, is_program;
  attune_program_info info = fake_info(program);
  ck_assert_int_eq(attune__name_parse(info.kernels[0].name, &v, &tile, &has_tile, &is_program), 0);
  return tile;
}

static attune__tuned rows_of(const place *p) {
  attune__tuned rows;
  attune__text errors = {0};
  char *path = attune__tuned_path(p->folder, "Fake GPU");
  ck_assert_msg(!attune__tuned_read(path, &rows, &errors), "%s", errors.data);
  free(path);
  attune__text_free(&errors);
  return rows;
}

static int marks_of(const place *p, attune__mark_kind kind) {
  attune__tuned rows = rows_of(p);
  int count = 0;
  for (int i = 0; i < rows.mark_count; i++) count += rows.mark[i].kind == kind;
  attune__tuned_free(&rows);
  return count;
}

/* ---- attune_tune ------------------------------------------------------------------------------
 */

START_TEST(the_winner_serves_and_is_kept) {
  place *p = place_new(&(place){.child_lives = 0});
  attune_problem problem = problem_of(256);
  attune_tune_result result = attune_tune_result_init();
  attune_problem other = problem_of(4096); /* of another class */
  attune_program *before, *elsewhere, *found;
  enter_place(p, NULL, 1);
  ck_assert_int_eq(attune_prepare(p->context, &problem, &before), 0);
  ck_assert_int_eq(attune_prepare(p->context, &other, &elsewhere), 0);
  ck_assert_uint_eq(tile_of(before).share_kv, 0);
  ck_assert_msg(!attune_tune(p->jit, &problem, NULL, &result), "%s", attune_error());
  ck_assert_int_eq(result.changed, 1);
  ck_assert_int_eq(result.provisional, 0);
  ck_assert_int_gt(result.tried, 4);
  ck_assert_double_lt(result.winner, 0.08);
  ck_assert(result.gain > 35 && result.gain_low <= result.gain && result.gain <= result.gain_high);
  ck_assert_uint_eq(tile_of(result.program).share_kv, 1);
  found = fake_find(p->context, &problem);
  ck_assert_ptr_eq(found, result.program);
  ck_assert_int_eq(fake_info(before).prepared, 1);            /* handles of before stay */
  ck_assert_ptr_eq(fake_find(p->context, &other), elsewhere); /* and so do other classes */
  leave_place(p);

  /* the next process reads the row, and measures nothing */
  int timed = p->own.timed;
  enter_place(p, NULL, 0);
  ck_assert_int_eq(attune_prepare(p->context, &problem, &found), 0);
  ck_assert_uint_eq(tile_of(found).share_kv, 1);
  ck_assert_int_eq(p->own.timed, timed);
  leave_place(p);
  free(p);
}
END_TEST

START_TEST(candidates_pass_in_the_child_before_they_are_timed_here) {
  place *p = place_new(&(place){.child_lives = 0});
  attune_problem problem = problem_of(256);
  enter_place(p, NULL, 1);
  ck_assert_msg(!attune_tune(p->jit, &problem, NULL, NULL), "%s", attune_error());
  ck_assert_int_gt(p->child.checked, 4);
  ck_assert_int_eq(p->own.checked, 0);        /* all that came here had passed */
  ck_assert_int_eq(p->timed_beside_child, 0); /* another process on the GPU spoils times */
  ck_assert_int_gt(p->child_opens, 0);
  ck_assert_int_eq(p->child_lives, 0);
  ck_assert_int_ge(marks_of(p, ATTUNE__MARK_PASSED), 5);
  leave_place(p);
  free(p);
}
END_TEST

START_TEST(what_faults_in_the_child_never_comes_here) {
  place *p = place_new(&(place){.child = {.fate = shared_faults, .fails_when_timed = 1}});
  attune_problem problem = problem_of(256);
  attune_tune_result result = attune_tune_result_init();
  enter_place(p, NULL, 1);
  p->own.fate = shared_faults; /* it would take this process with it */
  ck_assert_msg(!attune_tune(p->jit, &problem, NULL, &result), "%s", attune_error());
  ck_assert_uint_eq(tile_of(result.program).share_kv, 0);
  ck_assert_int_gt(marks_of(p, ATTUNE__MARK_FAULT), 0);
  leave_place(p);
  free(p);
}
END_TEST

START_TEST(without_a_child_only_what_has_passed_is_timed) {
  place *p = place_new(&(place){.child_lives = 0});
  attune_problem problem = problem_of(256);
  attune_tune_result result = attune_tune_result_init();
  attune_program *before;
  enter_place(p, NULL, 0);
  ck_assert_int_eq(attune_prepare(p->context, &problem, &before), 0);
  ck_assert_msg(!attune_tune(p->jit, &problem, NULL, &result), "%s", attune_error());
  ck_assert_int_eq(result.tried, 1); /* what serves anyway */
  ck_assert_int_eq(p->strangers, 0);
  ck_assert_int_eq(result.changed, 0);
  ck_assert_ptr_eq(result.program, before);
  leave_place(p);

  enter_place(p, NULL, 1); /* a run with a child leaves its marks */
  ck_assert_int_eq(attune_tune(p->jit, &problem, NULL, NULL), 0);
  leave_place(p);
  int checked = p->child.checked;
  enter_place(p, NULL, 0);
  ck_assert_int_eq(attune_tune(p->jit, &problem, NULL, &result), 0);
  ck_assert_int_gt(result.tried, 4);
  ck_assert_int_eq(p->child.checked, checked);
  leave_place(p);
  free(p);
}
END_TEST

START_TEST(a_disturbed_measurement_changes_nothing) {
  place *p = place_new(&(place){.own = {.watch = {.known = 1, .others = 1}}});
  attune_problem problem = problem_of(256);
  attune_tune_result result = attune_tune_result_init();
  attune_program *before;
  enter_place(p, NULL, 1);
  ck_assert_int_eq(attune_prepare(p->context, &problem, &before), 0);
  ck_assert_int_eq(attune_tune(p->jit, &problem, NULL, &result), 0);
  ck_assert_int_eq(result.provisional, 1);
  ck_assert_int_eq(result.changed, 0);
  ck_assert_ptr_eq(result.program, before);
  leave_place(p);
  enter_place(p, NULL, 0); /* a provisional row is not used by the next process either */
  ck_assert_int_eq(attune_prepare(p->context, &problem, &before), 0);
  ck_assert_uint_eq(tile_of(before).share_kv, 0);
  leave_place(p);
  free(p);
}
END_TEST

static atomic_int is_capturing;
static int capturing(attune__device *device, void *stream) {
  (void)device, (void)stream;
  return is_capturing;
}

START_TEST(refusals_say_why) {
  place *p = place_new(&(place){.child = {.arch_cc = 0}});
  attune_problem problem = problem_of(256);
  attune_tune_result result = attune_tune_result_init();
  enter_place(p, NULL, 1);
  ck_assert_int_eq(attune_tune(NULL, &problem, NULL, NULL), ATTUNE_INVALID);
  ck_assert_int_eq(attune_tune(p->jit, NULL, NULL, NULL), ATTUNE_INVALID);
  result.size--;
  ck_assert_int_eq(attune_tune(p->jit, &problem, NULL, &result), ATTUNE_INVALID);
  p->ops.capturing = capturing, is_capturing = 1;
  ck_assert_int_eq(attune_tune(p->jit, &problem, NULL, NULL), ATTUNE_BUSY);
  is_capturing = 0;
  p->child.arch_cc = 75; /* another device */
  ck_assert_int_eq(attune_tune(p->jit, &problem, NULL, NULL), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "tries candidates runs on"));
  ck_assert_int_eq(p->own.added, 0);
  leave_place(p);

  attune_jit_options options = attune_jit_options_init();
  options.store = p->folder;
  attune_context *context = fake_open("sm_80", NULL, NULL);
  ck_assert_int_eq(attune_jit_install(context, &options, &p->jit), 0);
  ck_assert_int_eq(attune_tune(p->jit, &problem, NULL, NULL), ATTUNE_NO_DEVICE);
  attune_close(context);
  attune_jit_close(p->jit);

  options.no_jit = 1;
  context = fake_open("sm_80", NULL, &p->log);
  ck_assert_int_eq(attune_jit_install(context, &options, &p->jit), 0);
  ck_assert_int_eq(attune_tune(p->jit, &problem, NULL, NULL), ATTUNE_UNSUPPORTED);
  attune_close(context);
  attune_jit_close(p->jit);

  options.no_jit = 0, options.tune_program = "no-such-program";
  context = fake_open("sm_80", NULL, &p->log);
  ck_assert_int_eq(attune_jit_install(context, &options, &p->jit), ATTUNE_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(attune_error(), "no-such-program"));
  attune_close(context);
  free(p);
}
END_TEST

/* ---- modes ------------------------------------------------------------------------------------
 */

START_TEST(once_tunes_at_the_first_call_of_each_class) {
  place *p = place_new(&(place){.child_lives = 0});
  attune_jit_options options = attune_jit_options_init();
  attune_problem shorter = problem_of(256), longer = problem_of(4096);
  attune_program *first, *again;
  options.tune = ATTUNE_TUNE_ONCE;
  enter_place(p, &options, 1);
  ck_assert_int_eq(attune_prepare(p->context, &shorter, &first), 0);
  ck_assert_uint_eq(tile_of(first).share_kv, 1);
  int timed = p->own.timed;
  ck_assert_int_gt(timed, 0);
  ck_assert_int_eq(attune_prepare(p->context, &shorter, &again), 0);
  ck_assert_ptr_eq(again, first);
  ck_assert_int_eq(p->own.timed, timed);
  ck_assert_int_eq(attune_find(p->context, &longer, &again), ATTUNE_NOT_FOUND);
  ck_assert_int_eq(attune_prepare(p->context, &longer, &again), 0);
  ck_assert_uint_eq(tile_of(again).share_kv, 1);
  ck_assert_int_gt(p->own.timed, timed);
  leave_place(p);
  attune__tuned rows = rows_of(p);
  ck_assert_int_eq(rows.count, 2);
  attune__tuned_free(&rows);
  free(p);
}
END_TEST

/* Waits until the lookup finds the winner; seconds, -1: it never does. */
static double wait_for_winner(const place *p, const attune_problem *problem, double seconds) {
  double began = attune__now_ms();
  while (attune__now_ms() - began < 1e3 * seconds) {
    attune_program *program;
    if (!attune_find(p->context, problem, &program) && tile_of(program).share_kv)
      return (attune__now_ms() - began) / 1e3;
    usleep(2000);
  }
  return -1;
}

START_TEST(the_background_serves_at_once_and_better_later) {
  place *p = place_new(&(place){.child_lives = 0});
  attune_jit_options options = attune_jit_options_init();
  attune_problem problem = problem_of(256);
  attune_program *first;
  options.tune = ATTUNE_TUNE_BACKGROUND, options.tune_share = 0.5;
  enter_place(p, &options, 1);
  ck_assert_int_eq(attune_prepare(p->context, &problem, &first), 0);
  ck_assert_uint_eq(tile_of(first).share_kv, 0);
  ck_assert_double_gt(wait_for_winner(p, &problem, 15), 0);
  ck_assert_int_eq(fake_info(first).prepared, 1);
  leave_place(p);
  ck_assert_ptr_nonnull(strstr(p->messages, " % faster than planned"));
  free(p);
}
END_TEST

static int has_message(place *p, const char *words, double seconds) {
  int found = 0;
  for (double began = attune__now_ms(); !found && attune__now_ms() - began < 1e3 * seconds;) {
    usleep(2000);
    pthread_mutex_lock(&p->lock);
    found = strstr(p->messages, words) != NULL;
    pthread_mutex_unlock(&p->lock);
  }
  return found;
}

START_TEST(times_taken_beside_other_launches_are_not_used) {
  place *p = place_new(&(place){.busy = 1});
  attune_jit_options options = attune_jit_options_init();
  attune_problem problem = problem_of(256);
  attune_program *first;
  options.tune = ATTUNE_TUNE_BACKGROUND, options.tune_share = 0.9;
  enter_place(p, &options, 1);
  ck_assert_int_eq(attune_prepare(p->context, &problem, &first), 0);
  ck_assert(has_message(p, "not used: this process launched other work in between", 15));
  ck_assert_ptr_eq(fake_find(p->context, &problem), first);
  leave_place(p);
  free(p);
}
END_TEST

START_TEST(closing_ends_the_background) {
  place *p = place_new(&(place){.own = {.add_ms = 20}, .child = {.add_ms = 20}});
  attune_jit_options options = attune_jit_options_init();
  attune_problem problem = problem_of(256);
  attune_program *first;
  options.tune = ATTUNE_TUNE_BACKGROUND, options.tune_share = 0.001; /* pauses of 20 s */
  enter_place(p, &options, 1);
  ck_assert_int_eq(attune_prepare(p->context, &problem, &first), 0);
  usleep(100000);
  double began = attune__now_ms();
  leave_place(p);
  ck_assert_double_lt(attune__now_ms() - began, 3000);
  ck_assert_int_le(p->own.timed, 0);
  free(p);
}
END_TEST

START_TEST(the_background_does_nothing_while_a_capture_is_seen) {
  place *p = place_new(&(place){.child_lives = 0});
  attune_jit_options options = attune_jit_options_init();
  attune_problem problem = problem_of(256);
  attune_program *first;
  options.tune = ATTUNE_TUNE_BACKGROUND, options.tune_share = 0.9;
  enter_place(p, &options, 1);
  p->ops.capturing = capturing, is_capturing = 1;
  ck_assert_int_eq(attune_prepare(p->context, &problem, &first), 0);
  usleep(300000);
  ck_assert_int_eq(p->opens, 0);
  is_capturing = 0;
  ck_assert_double_gt(wait_for_winner(p, &problem, 15), 0.5); /* a second after the capture */
  leave_place(p);
  free(p);
}
END_TEST

START_TEST(without_a_mode_nothing_is_measured) {
  place *p = place_new(&(place){.child_lives = 0});
  attune_problem problem = problem_of(256);
  attune_program *first;
  enter_place(p, NULL, 1);
  ck_assert_int_eq(attune_prepare(p->context, &problem, &first), 0);
  usleep(50000);
  ck_assert_int_eq(p->opens, 0);
  ck_assert_int_eq(atomic_load(&p->context->watched), 0);
  ck_assert_str_eq(fake_info(first).shape_class, "short_few");
  leave_place(p);
  free(p);
}
END_TEST

/* ---- notes of launches ------------------------------------------------------------------------
 */

START_TEST(launches_are_noted_where_somebody_watches) {
  place *p = place_new(&(place){.child_lives = 0});
  attune_problem problem = problem_of(256);
  attune_program *program;
  enter_place(p, NULL, 1);
  ck_assert_int_eq(attune_prepare(p->context, &problem, &program), 0);
  attune_attn_args args = fake_args();
  args.batch = args.heads_q = args.heads_kv = 0; /* legal, and no work */
  p->ops.capturing = capturing, is_capturing = 0;
  attune_launch(program, &args, NULL);
  ck_assert_int_eq(atomic_load(&p->context->launched_us), 0);
  attune__watch_launches(p->context);
  int64_t before = attune__microseconds();
  attune_launch(program, &args, NULL);
  ck_assert_int_ge(atomic_load(&p->context->launched_us), before);
  ck_assert_int_eq(atomic_load(&p->context->captured_us), 0);
  is_capturing = 1;
  attune_launch(program, &args, NULL);
  ck_assert_int_ge(atomic_load(&p->context->captured_us), before);
  is_capturing = 0;
  leave_place(p);
  free(p);
}
END_TEST

/* ---- the pace ---------------------------------------------------------------------------------
 */

START_TEST(slices_keep_to_the_share) {
  static const double shares[] = {0.01, 0.05, 0.25, 1};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    attune__pace pace = {.share = shares[i]};
    const attune__pace_calls none = {0};
    double now = 1000, used = 0;
    for (int slice = 0; slice < 200; slice++) {
      double wait = attune__pace_wait(&pace, now, &none), took = 0.5 + slice % 7;
      now += wait;
      ck_assert_double_eq(attune__pace_wait(&pace, now, &none), 0);
      attune__pace_begin(&pace, now);
      now += took, used += took;
      attune__pace_end(&pace, now);
    }
    now += attune__pace_wait(&pace, now, &none);
    ck_assert_double_eq_tol(used / (now - 1000), shares[i], 1e-9);
  }
}
END_TEST

START_TEST(slices_fall_between_calls) {
  attune__pace pace = {.share = 0.5};
  attune__pace_calls calls = {.launched = 5000};
  ck_assert_double_eq(attune__pace_wait(&pace, 5000.5, &calls), 1.5);
  ck_assert_double_eq(attune__pace_wait(&pace, 5002, &calls), 0);
  /* one who launches without a pause is waited for a second */
  double now = 5002;
  pace = (attune__pace){.share = 0.5};
  for (calls.launched = now; attune__pace_wait(&pace, now, &calls) > 0; now++) calls.launched = now;
  ck_assert(now >= 6002 && now <= 6004);
  /* a capture is waited for, however long */
  pace = (attune__pace){.share = 0.5};
  calls.launched = 0;
  for (int ms = 5000; ms < 60000; ms += 500) {
    calls.captured = ms - 100;
    ck_assert_double_eq_tol(attune__pace_wait(&pace, ms, &calls), 900, 1e-9);
  }
}
END_TEST

TEST_MAIN("tune_online", the_winner_serves_and_is_kept,
          candidates_pass_in_the_child_before_they_are_timed_here,
          what_faults_in_the_child_never_comes_here, without_a_child_only_what_has_passed_is_timed,
          a_disturbed_measurement_changes_nothing, refusals_say_why,
          once_tunes_at_the_first_call_of_each_class,
          the_background_serves_at_once_and_better_later,
          times_taken_beside_other_launches_are_not_used, closing_ends_the_background,
          the_background_does_nothing_while_a_capture_is_seen, without_a_mode_nothing_is_measured,
          launches_are_noted_where_somebody_watches, slices_keep_to_the_share,
          slices_fall_between_calls)
