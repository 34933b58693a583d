/* tune.c - `attune tune SPEC`: measures candidates on the GPU and keeps the fastest per variant and
 * class of shapes.
 *
 * Input: a spec, a budget. Output: rows in the user's file (or -o FILE), a table. The tuning is
 * gen/tune.c's; candidates run in a child process, this program again as `tune-worker`. The table
 * and the JSON stand in tune_report.c. */
#include "tune_report.h"

#include "../nvrtc.h"
#include "../store.h"
#include "../tune_online.h"
#include "../tune_page.h"
#include "../tune_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_option options[] = {
    {"--budget", "S", "seconds; the best so far is kept when they end; default 60, 0: no end"},
    CLI_SHAPE_OPTION,
    {"--shapes", "FILE", "a shape a line, as --shape has them; of one class one"},
    {"--device", "N", "CUDA device; default 0"},
    {"--arch", "A", "for this arch instead of the spec's; native: the GPU here"},
    {"--more", NULL, "search on where a row is measured; else it is only confirmed"},
    {"--seed", "N", "of the search; the same gives the same proposals; default 1"},
    {"-j", "N", "compiles at once; default: three quarters of the cores"},
    {"--report", "FILE", "writes the candidates, the rooflines and the winners as one HTML page"},
    {"-o", "FILE", "rows to start from and to add to; default: the user's own, in the store"},
    {NULL, NULL, NULL},
};

enum { SAVE_MS = 15000, SAY_MS = 10000, DRAW_MS = 250, BAR = 24 };
/* What a run may take beyond its budget before the child is killed, and the silence that makes a
 * hang. */
static const double grace_ms = 3000, patience_s = 5;

typedef struct session {
  attune_spec spec;
  attune_store *store;
  attune__tuned known;
  attune__tune_result result;
  attune__tune_options options;
  attune_shape shapes[CLI_MANY];
  char *path;                   /* of the rows; NULL: they are not kept */
  char began[ATTUNE__DATE_MAX]; /* rows and marks from then on are this run's */
  double began_ms, said_ms, saved_ms;
  int terminal, save_failed;
} session;

/* ---- rows ------------------------------------------------------------------------------------ */

/* Adds what this run has made to the file. */
static attune_status save(session *s) {
  attune__tuned fresh = {.count = 0};
  attune__text errors = {0};
  attune_status status = attune__tuned_since(&s->known, s->began, &fresh);
  if (!status && (fresh.count || fresh.mark_count))
    status = attune__tuned_save(s->path, &fresh, &errors);
  if (errors.data) fputs(errors.data, stderr);
  attune__text_free(&errors);
  attune__tuned_free(&fresh);
  return status;
}

/* The file that is added to must be readable before two minutes are spent on it. */
static attune_status read_known(session *s) {
  attune__tuned_db db;
  attune__tuned file = {.count = 0};
  attune__text messages = {0};
  attune_status status = attune__tuned_db_open(NULL, &db, &messages);
  if (!status) status = attune__tuned_merge(&s->known, &db.shipped);
  if (!status) status = attune__tuned_merge(&s->known, &db.own);
  if (!status && s->path) status = attune__tuned_read(s->path, &file, &messages);
  if (!status) status = attune__tuned_merge(&s->known, &file);
  if (messages.data) fputs(messages.data, stderr);
  attune__text_free(&messages);
  attune__tuned_free(&file);
  attune__tuned_db_close(&db);
  return status;
}

/* ---- progress -------------------------------------------------------------------------------- */

static void draw(const attune__tune_progress *p) {
  int done = p->budget_s > 0 ? (int)(BAR * p->elapsed_s / p->budget_s) : 0;
  fputs("\r[", stderr);
  for (int i = 0; i < BAR; i++) fputc(i < done ? '#' : '.', stderr);
  fprintf(stderr, "] %d", (int)p->elapsed_s);
  if (p->budget_s > 0) fprintf(stderr, " of %d", (int)p->budget_s);
  fprintf(stderr, " s, %d of %d cells, %d candidates timed\033[K", p->cells_timed, p->cells,
          p->timed);
}

static void progress(void *user, const attune__tune_progress *p) {
  session *s = user;
  double now = attune__now_ms();
  if (p->message) fprintf(stderr, "%sattune tune: %s\n", s->terminal ? "\r\033[K" : "", p->message);
  if (s->terminal && now - s->said_ms >= DRAW_MS) draw(p), s->said_ms = now;
  if (!s->terminal && now - s->said_ms >= SAY_MS) {
    fprintf(stderr, "attune tune: %d s, %d of %d cells, %d candidates timed\n", (int)p->elapsed_s,
            p->cells_timed, p->cells, p->timed);
    s->said_ms = now;
  }
  if (s->path && now - s->saved_ms >= SAVE_MS) {
    if (save(s)) s->save_failed = 1;
    s->saved_ms = now;
  }
}

/* ---- options --------------------------------------------------------------------------------- */

static int read_shapes_file(const cli_args *args, const char *path, session *s) {
  void *bytes = NULL;
  size_t size;
  cli_args lines = *args;
  attune_status status = attune__file_read(path, 1 << 16, &bytes, &size);
  int fine = !status;
  if (status) cli_fail(status);
  lines.many_count = 0;
  for (char *save_at, *line = fine ? strtok_r(bytes, "\r\n", &save_at) : NULL; line && fine;
       line = strtok_r(NULL, "\r\n", &save_at)) {
    while (*line == ' ' || *line == '\t') line++;
    if (!*line || *line == '#') continue;
    fine = lines.many_count < CLI_MANY;
    if (fine)
      lines.many[lines.many_count++] = line;
    else
      fprintf(stderr, "attune tune: error: %s has more than %d shapes\n", path, CLI_MANY);
  }
  fine = fine && cli_shapes(&lines, s->shapes, &s->options.shape_count);
  free(bytes);
  return fine;
}

static int read_shapes(const cli_args *args, session *s) {
  const char *file = cli_value(args, "--shapes");
  s->options.shapes = s->shapes;
  if (file && args->many_count) {
    fprintf(stderr, "attune tune: error: give --shape or --shapes, not both\n");
    return 0;
  }
  if (file) return read_shapes_file(args, file, s);
  return !args->many_count || cli_shapes(args, s->shapes, &s->options.shape_count);
}

static int read_options(const cli_args *args, session *s, int64_t *device) {
  int64_t budget = 60, seed = 1, jobs = 0;
  if (!cli_int(args, "--budget", 0, 1000000, &budget) ||
      !cli_int(args, "--seed", 0, INT64_MAX, &seed) || !cli_int(args, "-j", 1, 256, &jobs) ||
      !cli_int(args, "--device", 0, 255, device) || !read_shapes(args, s))
    return 0;
  s->options.budget_s = (double)budget;
  s->options.seed = (uint64_t)seed;
  s->options.jobs = (int)jobs;
  s->options.more = cli_value(args, "--more") != NULL;
  s->options.progress = progress, s->options.user = s;
  return 1;
}

/* ---- the child ------------------------------------------------------------------------------- */

int cli_tune_worker(int argc, char **argv) {
  attune__lab lab;
  attune__lab_gpu *gpu;
  attune_status status = attune__lab_gpu_open(argc > 0 ? atoi(argv[0]) : 0, &gpu, &lab);
  if (status) return cli_fail(status);
  attune__lab_server server = {&lab, STDIN_FILENO, STDOUT_FILENO};
  attune__lab_gpu_heartbeat(gpu, attune__lab_server_beat, &server);
  status = attune__lab_serve(&server);
  attune__lab_gpu_close(gpu);
  return status ? CLI_MISSING : CLI_OK;
}

/* This program's own file, whatever name it was started by. */
static int own_path(char *out, size_t size) {
  ssize_t length = readlink("/proc/self/exe", out, size - 1);
  if (length <= 0) return 0;
  out[length] = 0;
  return 1;
}

/* ---- the command -------------------------------------------------------------------------------
 */

static attune_status tune_in_child(session *s, const char *device) {
  char path[4096], word[] = "tune-worker", number[16];
  char *argv[] = {path, word, number, NULL};
  attune__tune_compiler compiler = {.user = s->store, .compile = attune__host_compile};
  attune_nvrtc_info nvrtc;
  attune__lab lab;
  attune__lab_child *child;
  attune_status status = attune__nvrtc_info(&nvrtc);
  if (status) return status;
  memcpy(compiler.nvrtc, nvrtc.version, sizeof compiler.nvrtc);
  snprintf(number, sizeof number, "%s", device);
  if (!own_path(path, sizeof path)) return attune_fail(ATTUNE_IO, "cannot find this program");
  attune__lab_child_options o = {.argv = argv, .patience_s = patience_s};
  if (s->options.budget_s > 0) { /* what it took to come here is part of it */
    o.deadline_ms = s->began_ms + 1e3 * s->options.budget_s + grace_ms;
    s->options.budget_s -= (attune__now_ms() - s->began_ms) / 1e3;
    if (s->options.budget_s < 0.1) s->options.budget_s = 0.1;
  }
  status = attune__lab_child_open(&o, &child, &lab);
  if (status) return status;
  status = attune__tune(&s->spec, &lab, &compiler, &s->options, &s->known, &s->result);
  attune__lab_child_close(child);
  return status;
}

/* Where the rows go: -o, else the store, which may be nowhere. */
static attune_status choose_path(const cli_args *args, session *s, const char *gpu) {
  const char *given = cli_value(args, "-o"), *root = attune__store_root(s->store);
  if (!given && !root[0]) {
    fprintf(stderr, "attune tune: the rows will not be kept: there is no store; give -o FILE\n");
    return ATTUNE_OK;
  }
  s->path = given ? strdup(given) : attune__tuned_path(root, gpu);
  return s->path ? ATTUNE_OK : attune_fail(ATTUNE_NO_MEMORY, "no memory for a path");
}

static attune_status write_page(const session *s, const char *path) {
  attune__text page = {0};
  attune__tune_page(&s->result, &page);
  attune_status status = page.failed ? attune_fail(ATTUNE_NO_MEMORY, "no memory for the report")
                                     : attune__file_publish(path, page.data, page.size);
  attune__text_free(&page);
  return status;
}

static int print_result(const cli_args *args, session *s) {
  attune__text text = {0};
  const char *report = cli_value(args, "--report");
  attune_status status = report ? write_page(s, report) : ATTUNE_OK;
  if (args->json)
    tune_report_json(&s->result, s->path, &text);
  else
    tune_report_text(&s->result, s->path, &text);
  int rc = cli_print(&text);
  if (rc != CLI_OK) return rc;
  if (status) return cli_fail(status);
  return s->result.wrong ? CLI_CHECK : CLI_OK;
}

static int tune_spec(const cli_args *args, session *s, attune__device_facts *facts,
                     const char *device) {
  attune_status status = attune__store_open(NULL, &s->store);
  if (!status) status = choose_path(args, s, facts->name);
  if (!status) status = read_known(s);
  if (!status) status = tune_in_child(s, device);
  if (s->terminal) fputs("\r\033[K", stderr);
  if (!status && s->path) status = save(s);
  return status ? cli_fail(status) : print_result(args, s);
}

/* The GPU's name, in a moment in which no child is there yet: this process leaves the device again.
 */
static attune_status read_facts(int device, attune__device_facts *out) {
  attune__device *d;
  attune_status status = attune__cuda_open(device, &d);
  if (status) return status;
  *out = d->facts;
  d->ops->close(d);
  return ATTUNE_OK;
}

static int run(const cli_args *args) {
  session s = {.terminal = isatty(STDERR_FILENO), .began_ms = attune__now_ms()};
  attune__device_facts facts;
  int64_t device = 0;
  char number[16];
  if (!read_options(args, &s, &device)) return CLI_USAGE;
  attune_status status = read_facts((int)device, &facts);
  if (status) return cli_fail(status);
  int rc = cli_read_spec(args->word[0], cli_value(args, "--arch"), &s.spec);
  if (rc != CLI_OK) return rc;
  attune__tuner_date(s.began);
  s.said_ms = s.saved_ms = attune__now_ms();
  snprintf(number, sizeof number, "%d", (int)device);
  rc = tune_spec(args, &s, &facts, number);
  attune__tune_result_free(&s.result);
  attune__tuned_free(&s.known);
  attune__store_close(s.store);
  attune__spec_free(&s.spec);
  free(s.path);
  return rc;
}

const cli_command cli_tune_command = {
    .name = "tune",
    .usage = "tune SPEC [--budget S] [--shape S]... [--shapes FILE] [--device N] [--arch A]\n"
             "       [--seed N] [--more] [-j N] [--report FILE] [-o FILE]",
    .text = "Measures tiles on the GPU and keeps the fastest of each variant and class of shapes.\n"
            "Candidates are compiled ahead, checked against float64 before they are timed, and\n"
            "timed beside the row that there was; a winner must beat it outside the noise. What\n"
            "was disturbed is kept as provisional, not used, and tuned again next time.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
