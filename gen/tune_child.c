/* tune_child.c - a lab in a child process.
 *
 * The parent's side is a lab like another: it writes requests to the child's standard input and
 * reads answers from its standard output, plain structs, for both sides are one program. Before
 * each piece of work the child says for which contender it is. When nothing comes for a while, or
 * the child is gone, that contender is to blame: the child is killed, the call fails with the
 * contender's fault, and the next call starts a child and gives it the cell and its contenders
 * again. */
#include "tune_lab.h"

#include "nvrtc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64, MAGIC = 0x74756e65 };
static const double default_patience_s = 10;
static const double patience_to_start_s =
    60; /* a driver may take long to wake all GPUs of a host */

typedef enum word { ASK_FACTS = 1, ASK_OPEN, ASK_ADD, ASK_TIME, SAY_BEAT, SAY_ANSWER } word;

/* What stands before every message; `bytes` follow it. */
typedef struct head {
  uint32_t magic, word;
  int32_t number; /* SAY_BEAT: contender; SAY_ANSWER: status */
  uint32_t unused;
  uint64_t bytes;
} head;

typedef struct ask_time {
  int32_t which[MOST];
  int32_t count;
  attune__bench_options options;
} ask_time;

typedef struct answer_time {
  attune__bench_time time[MOST];
  attune__watch watch;
} answer_time;

/* ---- bytes ----------------------------------------------------------------------------------- */

/* 0 when the other side is gone. */
static int send_bytes(int fd, const void *bytes, size_t size) {
  for (const char *at = bytes; size;) {
    ssize_t done = write(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return 0;
    at += done, size -= (size_t)done;
  }
  return 1;
}

static int send_head(int fd, word w, int number, size_t bytes) {
  head h = {MAGIC, w, number, 0, bytes};
  return send_bytes(fd, &h, sizeof h);
}

/* ---- the parent's side ----------------------------------------------------------------------- */

typedef enum ending { ANSWERED, SILENT, GONE, OVER } ending;

struct attune__lab_child {
  attune__lab_child_options options;
  pid_t pid; /* 0: there is none */
  int to, from, restarts, started;
  int heard; /* 1: this child has said something */
  int cell_open;
  attune__lab_cell cell;
  attune__lab_program program[MOST];
  int lost[MOST];   /* 1: it hung or faulted, and is not given to another child */
  int number[MOST]; /* the child's for it, -1: none */
  int count;
  int blamed; /* the child's number of the contender that it worked for last */
};

/* Of a child that was waited for. */
static void forget(attune__lab_child *c) {
  close(c->to);
  close(c->from);
  c->pid = 0;
}

static void stop(attune__lab_child *c, int kindly) {
  if (!c->pid) return;
  close(c->to);
  for (int i = 0; kindly && i < 50; i++) { /* it ends when its input does */
    if (waitpid(c->pid, NULL, WNOHANG) == c->pid) kindly = -1;
    if (kindly < 0) break;
    poll(NULL, 0, 20);
  }
  close(c->from);
  if (kindly >= 0) {
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) continue;
  }
  c->pid = 0;
}

static int spawn(attune__lab_child *c, const int to[2], const int from[2]) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions)) return 0;
  int fine = !posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO) &&
             !posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO) &&
             !posix_spawn(&c->pid, c->options.argv[0], &actions, NULL, c->options.argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (!fine) c->pid = 0;
  return fine;
}

static attune_status start(attune__lab_child *c) {
  int to[2] = {-1, -1}, from[2] = {-1, -1};
  int fine = !pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC) && spawn(c, to, from);
  int error = errno;
  if (to[0] >= 0) close(to[0]);
  if (from[1] >= 0) close(from[1]);
  if (fine) {
    c->to = to[1], c->from = from[0], c->heard = 0;
    c->restarts += c->started++ > 0;
    for (int i = 0; i < MOST; i++) c->number[i] = -1;
    return ATTUNE_OK;
  }
  if (to[1] >= 0) close(to[1]);
  if (from[0] >= 0) close(from[0]);
  return attune_fail(ATTUNE_IO, "cannot start %s to time candidates in: %s", c->options.argv[0],
                     strerror(error));
}

/* Milliseconds that the child may still be silent; 0: none. */
static double patience(const attune__lab_child *c, double since) {
  double limit_s = c->heard ? c->options.patience_s : patience_to_start_s;
  double left = since + 1e3 * limit_s - attune__now_ms();
  if (c->options.deadline_ms > 0 && c->options.deadline_ms - attune__now_ms() < left)
    left = c->options.deadline_ms - attune__now_ms();
  return left > 0 ? left : 0;
}

static ending receive(attune__lab_child *c, void *bytes, size_t size) {
  double since = attune__now_ms();
  for (char *at = bytes; size;) {
    struct pollfd wait = {.fd = c->from, .events = POLLIN};
    double left = patience(c, since);
    if (left <= 0)
      return c->options.deadline_ms > 0 && attune__now_ms() >= c->options.deadline_ms ? OVER
                                                                                      : SILENT;
    if (poll(&wait, 1, (int)left + 1) <= 0) continue;
    ssize_t got = read(c->from, at, size);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return GONE;
    at += got, size -= (size_t)got;
  }
  return ANSWERED;
}

/* Reads to the answer; its payload goes to `out`, or its words become the error. */
static ending await(attune__lab_child *c, void *out, size_t size, attune_status *status) {
  char text[1024];
  for (;;) {
    head h;
    ending end = receive(c, &h, sizeof h);
    if (end) return end;
    if (h.magic != MAGIC) return GONE;
    c->heard = 1;
    if (h.word == SAY_BEAT) {
      c->blamed = h.number;
      continue;
    }
    *status = (attune_status)h.number;
    if (h.bytes != (*status ? sizeof text : size)) return GONE;
    end = receive(c, *status ? text : out, h.bytes);
    if (!end && *status) text[sizeof text - 1] = 0, attune_fail(*status, "%s", text);
    return end;
  }
}

/* Its pipe closes a moment before it can be asked. */
static const char *how_it_ended(attune__lab_child *c, char *out, size_t size) {
  int how = 0, ended = 0;
  for (int i = 0; i < 50 && !ended; i++) {
    ended = waitpid(c->pid, &how, WNOHANG) == c->pid;
    if (!ended) poll(NULL, 0, 10);
  }
  if (!ended)
    snprintf(out, size, "it closed its output");
  else if (WIFSIGNALED(how))
    snprintf(out, size, "signal %d", WTERMSIG(how));
  else
    snprintf(out, size, "exit %d", WEXITSTATUS(how));
  if (ended) forget(c);
  return out;
}

/* What a child that did not answer makes of a call. */
static attune_status blame(attune__lab_child *c, ending end) {
  char how[64];
  attune_status status;
  if (end == OVER)
    status = attune_fail(ATTUNE_BUSY, "the budget ended");
  else if (end == SILENT)
    status = attune_fail(ATTUNE_BUSY, "no sign of life for %d seconds",
                         (int)(c->heard ? c->options.patience_s : patience_to_start_s));
  else
    status = attune_fail(ATTUNE_DRIVER, "the process that ran it died: %s",
                         how_it_ended(c, how, sizeof how));
  stop(c, 0);
  return status;
}

/* One request of up to MOST + 1 pieces, and its answer. */
static attune_status ask(attune__lab_child *c, word w, const void *const *piece,
                         const size_t *bytes, int pieces, void *out, size_t size) {
  size_t all = 0;
  attune_status status = ATTUNE_OK;
  if (c->options.deadline_ms > 0 && attune__now_ms() >= c->options.deadline_ms)
    return attune_fail(ATTUNE_BUSY, "the budget ended");
  for (int i = 0; i < pieces; i++) all += bytes[i];
  int fine = send_head(c->to, w, 0, all);
  for (int i = 0; i < pieces && fine; i++) fine = send_bytes(c->to, piece[i], bytes[i]);
  ending end = fine ? await(c, out, size, &status) : GONE;
  if (end) return blame(c, end);
  /* After a driver's error nothing more works in that process. */
  if (status == ATTUNE_DRIVER) stop(c, 0);
  return status;
}

static attune_status ask_add(attune__lab_child *c, const attune__lab_program *p) {
  const void *piece[1 + ATTUNE_MAX_PARTS] = {p};
  size_t bytes[1 + ATTUNE_MAX_PARTS] = {sizeof *p};
  for (int i = 0; i < p->tiles.count; i++) piece[1 + i] = p->entry[i], bytes[1 + i] = p->bytes[i];
  return ask(c, ASK_ADD, piece, bytes, 1 + p->tiles.count, NULL, 0);
}

/* What a new child must know of the cell. */
static attune_status replay(attune__lab_child *c) {
  const void *piece = &c->cell;
  size_t bytes = sizeof c->cell;
  int next = 0;
  attune_status status = c->cell_open ? ask(c, ASK_OPEN, &piece, &bytes, 1, NULL, 0) : ATTUNE_OK;
  for (int i = 0; i < c->count && !status; i++) {
    if (c->lost[i]) continue;
    attune__lab_program program = c->program[i];
    program.passed = 1;
    status = ask_add(c, &program);
    if (!status) c->number[i] = next++;
  }
  return status;
}

static attune_status ready(attune__lab_child *c) {
  if (c->pid) return ATTUNE_OK;
  attune_status status = start(c);
  return status ? status : replay(c);
}

static attune_status child_facts(void *user, attune__lab_facts *out) {
  attune_status status = ready(user);
  return status ? status : ask(user, ASK_FACTS, NULL, NULL, 0, out, sizeof *out);
}

static attune_status child_open(void *user, const attune__lab_cell *cell) {
  attune__lab_child *c = user;
  const void *piece = cell;
  size_t bytes = sizeof *cell;
  c->cell_open = 0, c->count = 0;
  attune_status status = ready(c);
  if (!status) status = ask(c, ASK_OPEN, &piece, &bytes, 1, NULL, 0);
  if (!status) c->cell = *cell, c->cell_open = 1;
  return status;
}

static int next_number(const attune__lab_child *c) {
  int next = 0;
  for (int i = 0; i < c->count; i++)
    if (c->number[i] >= next) next = c->number[i] + 1;
  return next;
}

static attune_status child_add(void *user, const attune__lab_program *program) {
  attune__lab_child *c = user;
  if (c->count == MOST) return attune_fail(ATTUNE_INVALID, "more than %d candidates", MOST);
  attune_status status = ready(c);
  int number = next_number(c);
  if (!status) status = ask_add(c, program);
  if (status) return status;
  c->program[c->count] = *program;
  c->lost[c->count] = 0;
  c->number[c->count++] = number;
  return ATTUNE_OK;
}

/* The contender that the child worked for when it ended; -1: not one of ours. */
static int culprit(const attune__lab_child *c, const int *number) {
  for (int i = 0; i < c->count; i++)
    if (number[i] == c->blamed) return i;
  return -1;
}

/* One run of those that are not lost. A child that ends names the culprit, and the run is due again
 * without it: 1. */
static int time_left(attune__lab_child *c, const int *which, int count,
                     const attune__bench_options *options, attune__bench_time *out,
                     attune__watch *watch, attune_status *status) {
  answer_time *answer = calloc(1, sizeof *answer);
  ask_time request = {.options = *options};
  int number[MOST], place[MOST] = {0};
  if (!answer) return *status = attune_fail(ATTUNE_NO_MEMORY, "no memory for times"), 0;
  if ((*status = ready(c))) return free(answer), 0;
  memcpy(number, c->number, sizeof number);
  for (int i = 0; i < count; i++)
    if (!c->lost[which[i]])
      place[request.count] = i, request.which[request.count++] = number[which[i]];
  const void *piece = &request;
  size_t bytes = sizeof request;
  if (!request.count) return free(answer), 0;
  *status = ask(c, ASK_TIME, &piece, &bytes, 1, answer, sizeof *answer);
  for (int i = 0; i < request.count && !*status; i++) out[place[i]] = answer->time[i];
  if (!*status && watch) *watch = answer->watch;
  free(answer);
  int lost = *status && !c->pid ? culprit(c, number) : -1;
  int over = c->options.deadline_ms > 0 && attune__now_ms() >= c->options.deadline_ms;
  if (lost < 0 || over) return 0;
  c->lost[lost] = 1;
  for (int i = 0; i < count; i++)
    if (which[i] == lost) {
      out[i].status = *status;
      snprintf(out[i].error, sizeof out[i].error, "%.199s", attune_error());
    }
  return 1;
}

/* A fault that the child lived to report is in its answer; it is of no use after that. */
static int note_faults(attune__lab_child *c, const int *which, int count,
                       const attune__bench_time *out) {
  int found = 0;
  for (int i = 0; i < count; i++)
    if (out[i].status == ATTUNE_DRIVER && !c->lost[which[i]]) {
      c->lost[which[i]] = 1;
      found = 1;
      break; /* those that failed after it may only have been its victims */
    }
  if (found) stop(c, 0);
  return found;
}

static attune_status child_time(void *user, const int *which, int count,
                                const attune__bench_options *options, attune__bench_time *out,
                                attune__watch *watch) {
  attune__lab_child *c = user;
  attune_status status = ATTUNE_OK;
  if (count < 1 || count > MOST) return attune_fail(ATTUNE_INVALID, "%d contenders", count);
  memset(out, 0, (size_t)count * sizeof *out);
  if (watch) memset(watch, 0, sizeof *watch);
  for (int i = 0; i < count; i++)
    if (which[i] < 0 || which[i] >= c->count)
      return attune_fail(ATTUNE_INVALID, "there is no contender %d", which[i]);
  for (int i = 0; i < count; i++)
    if (c->lost[which[i]]) {
      out[i].status = ATTUNE_DRIVER;
      snprintf(out[i].error, sizeof out[i].error, "it was of no use before");
    }
  for (int turn = 0; turn <= count; turn++) {
    int again = time_left(c, which, count, options, out, watch, &status);
    if (!status) again = note_faults(c, which, count, out);
    if (!again) break;
  }
  return status;
}

attune_status attune__lab_child_open(const attune__lab_child_options *options,
                                     attune__lab_child **out, attune__lab *lab) {
  attune__lab_child *c = *out = calloc(1, sizeof *c);
  if (!c) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a child");
  c->options = *options;
  if (!(c->options.patience_s > 0)) c->options.patience_s = default_patience_s;
  signal(SIGPIPE, SIG_IGN); /* a child that died is an answer */
  *lab = (attune__lab){c, child_facts, child_open, child_add, child_time};
  return ATTUNE_OK;
}

void attune__lab_child_close(attune__lab_child *c) {
  if (c) stop(c, 1);
  free(c);
}

int attune__lab_child_restarts(const attune__lab_child *c) {
  return c->restarts;
}

/* ---- the child's side ------------------------------------------------------------------------ */

void attune__lab_server_beat(void *server, int contender) {
  send_head(((attune__lab_server *)server)->out, SAY_BEAT, contender, 0);
}

static int answer(const attune__lab_server *s, attune_status status, const void *bytes,
                  size_t size) {
  char text[1024] = "";
  if (!status) return send_head(s->out, SAY_ANSWER, 0, size) && send_bytes(s->out, bytes, size);
  snprintf(text, sizeof text, "%s", attune_error());
  return send_head(s->out, SAY_ANSWER, (int)status, sizeof text) &&
         send_bytes(s->out, text, sizeof text);
}

static int serve_facts(const attune__lab_server *s) {
  attune__lab_facts facts;
  attune_status status = s->lab->facts(s->lab->user, &facts);
  return answer(s, status, &facts, sizeof facts);
}

static int serve_open(const attune__lab_server *s, const void *bytes, size_t size) {
  attune__lab_cell cell;
  if (size != sizeof cell) return 0;
  memcpy(&cell, bytes, sizeof cell);
  return answer(s, s->lab->open(s->lab->user, &cell), NULL, 0);
}

static int serve_add(const attune__lab_server *s, const char *bytes, size_t size) {
  attune__lab_program p;
  size_t at = sizeof p;
  if (size < sizeof p) return 0;
  memcpy(&p, bytes, sizeof p);
  if (p.tiles.count < 1 || p.tiles.count > ATTUNE_MAX_PARTS) return 0;
  for (int i = 0; i < p.tiles.count; i++) {
    if (p.bytes[i] > size - at) return 0;
    p.entry[i] = bytes + at;
    at += p.bytes[i];
  }
  return answer(s, s->lab->add(s->lab->user, &p), NULL, 0);
}

static int serve_time(const attune__lab_server *s, const void *bytes, size_t size) {
  ask_time a;
  answer_time *out = calloc(1, sizeof *out);
  if (!out || size != sizeof a) return free(out), 0;
  memcpy(&a, bytes, sizeof a);
  attune_status status =
      s->lab->time(s->lab->user, a.which, a.count, &a.options, out->time, &out->watch);
  int fine = answer(s, status, out, sizeof *out);
  free(out);
  return fine;
}

static int serve_one(const attune__lab_server *s, const head *h, const void *bytes) {
  switch (h->word) {
    case ASK_FACTS:
      return serve_facts(s);
    case ASK_OPEN:
      return serve_open(s, bytes, h->bytes);
    case ASK_ADD:
      return serve_add(s, bytes, h->bytes);
    case ASK_TIME:
      return serve_time(s, bytes, h->bytes);
    default:
      return 0;
  }
}

attune_status attune__lab_serve(attune__lab_server *s) {
  head h;
  signal(SIGPIPE, SIG_IGN);
  while (attune__read_fully(s->in, (char *)&h, sizeof h) == (ssize_t)sizeof h) {
    void *bytes = h.magic == MAGIC && h.bytes < 1u << 30 ? malloc(h.bytes + 1) : NULL;
    int fine = bytes && attune__read_fully(s->in, bytes, h.bytes) == (ssize_t)h.bytes &&
               serve_one(s, &h, bytes);
    free(bytes);
    if (!fine) return attune_fail(ATTUNE_IO, "the process that asked is gone");
  }
  return ATTUNE_OK;
}
