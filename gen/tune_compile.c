/* tune_compile.c - a queue of kernels and the threads that compile them.
 *
 * Input: kernels in the order in which they will be wanted. Output: their entry files, or why there
 * is none. Near the deadline nothing is begun that would probably end after it. */
#include "tune_compile.h"

#include "nvrtc.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUEUED, UNDER_WAY, DONE };
enum { MOST_JOBS = 256, POLL_MS = 100 };

struct attune__ahead {
  const attune__tune_compiler *compiler;
  double deadline_ms, longest_ms; /* of a compile so far */
  pthread_t thread[MOST_JOBS];
  int threads;
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t added, ended;
  attune__made **made;
  int count, capacity, next, compiled, closing;
};

/* ---- the threads ----------------------------------------------------------------------------- */

static int too_late(const attune__ahead *a) {
  return a->deadline_ms > 0 && attune__now_ms() + a->longest_ms > a->deadline_ms;
}

/* 0 where the bytes are no entry: a test's compiler makes none. */
static uint32_t registers_of(const void *bytes, size_t size) {
  attune_entry entry;
  return bytes && !attune__entry_read(bytes, size, &entry) ? entry.facts.registers : 0;
}

static void make(attune__ahead *a, attune__made *m) {
  double began = attune__now_ms();
  void *bytes = NULL;
  size_t size = 0;
  char digest[17] = "";
  attune_status status = a->compiler->compile(a->compiler->user, &m->kernel, &bytes, &size, digest);
  double took = attune__now_ms() - began;
  uint32_t registers = registers_of(bytes, size);
  pthread_mutex_lock(&a->lock);
  m->registers = registers;
  m->bytes = bytes, m->size = size, m->status = status;
  memcpy(m->digest, digest, sizeof digest);
  if (status) snprintf(m->why, sizeof m->why, "%.119s", attune_error());
  m->state = DONE;
  a->compiled += !status;
  if (took > a->longest_ms) a->longest_ms = took;
  pthread_cond_broadcast(&a->ended);
  pthread_mutex_unlock(&a->lock);
}

static attune__made *take(attune__ahead *a) {
  attune__made *m = NULL;
  pthread_mutex_lock(&a->lock);
  while (!a->closing && a->next == a->count) pthread_cond_wait(&a->added, &a->lock);
  if (!a->closing && !too_late(a)) m = a->made[a->next++], m->state = UNDER_WAY;
  pthread_mutex_unlock(&a->lock);
  return m;
}

static void *work(void *argument) {
  for (attune__made *m; (m = take(argument));) make(argument, m);
  return NULL;
}

/* ---- the asker's side ------------------------------------------------------------------------ */

attune_status attune__ahead_open(const attune__tune_compiler *compiler, int jobs,
                                 double deadline_ms, attune__ahead **out) {
  attune__ahead *a = *out = calloc(1, sizeof *a);
  if (!a) return attune_fail(ATTUNE_NO_MEMORY, "no memory to compile ahead");
  a->compiler = compiler, a->deadline_ms = deadline_ms;
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->added, NULL);
  pthread_cond_init(&a->ended, NULL);
  /* A quarter of the cores is left for the checks, which the timing waits for. */
  if (jobs < 1) jobs = (int)sysconf(_SC_NPROCESSORS_ONLN) * 3 / 4;
  if (jobs < 1) jobs = 1;
  if (jobs > MOST_JOBS) jobs = MOST_JOBS;
  while (a->threads < jobs && !pthread_create(&a->thread[a->threads], NULL, work, a)) a->threads++;
  if (a->threads) return ATTUNE_OK;
  attune__ahead_close(a);
  *out = NULL;
  return attune_fail(ATTUNE_NO_MEMORY, "no thread to compile in");
}

void attune__ahead_close(attune__ahead *a) {
  if (!a) return;
  pthread_mutex_lock(&a->lock);
  a->closing = 1;
  pthread_cond_broadcast(&a->added);
  pthread_mutex_unlock(&a->lock);
  for (int i = 0; i < a->threads; i++) pthread_join(a->thread[i], NULL);
  for (int i = 0; i < a->count; i++) {
    free(a->made[i]->bytes);
    free(a->made[i]);
  }
  pthread_mutex_destroy(&a->lock);
  pthread_cond_destroy(&a->added);
  pthread_cond_destroy(&a->ended);
  free(a->made);
  free(a);
}

static attune__made *find(const attune__ahead *a, const char *name) {
  for (int i = 0; i < a->count; i++)
    if (!strcmp(a->made[i]->kernel.name, name)) return a->made[i];
  return NULL;
}

/* With the lock held. */
static attune__made *append(attune__ahead *a, const attune_kernel *kernel) {
  if (a->count == a->capacity) {
    int capacity = a->capacity ? 2 * a->capacity : 256;
    attune__made **grown = realloc(a->made, (size_t)capacity * sizeof(attune__made *));
    if (!grown) return NULL;
    a->made = grown, a->capacity = capacity;
  }
  attune__made *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->kernel = *kernel;
  a->made[a->count++] = m;
  return m;
}

attune__made *attune__ahead_add(attune__ahead *a, const attune_kernel *kernel) {
  pthread_mutex_lock(&a->lock);
  attune__made *m = find(a, kernel->name);
  if (!m) {
    m = append(a, kernel);
    pthread_cond_signal(&a->added);
  }
  pthread_mutex_unlock(&a->lock);
  return m;
}

/* Looks at the clock now and then: threads that found it too late have left. */
int attune__ahead_wait(attune__ahead *a, attune__made *m) {
  pthread_mutex_lock(&a->lock);
  while (m->state != DONE && !(a->deadline_ms > 0 && attune__now_ms() >= a->deadline_ms) &&
         !(m->state == QUEUED && too_late(a))) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_nsec -= 1000000000L, until.tv_sec++;
    pthread_cond_timedwait(&a->ended, &a->lock, &until);
  }
  int done = m->state == DONE;
  pthread_mutex_unlock(&a->lock);
  return done;
}

int attune__ahead_compiled(attune__ahead *a) {
  pthread_mutex_lock(&a->lock);
  int compiled = a->compiled;
  pthread_mutex_unlock(&a->lock);
  return compiled;
}
