/* schedule.c - the warps of a cluster in turns, and clusters over host threads.
 *
 * Input: a launch. Output: every block run to its end, or the fault of the first block that has one
 * (blocks are taken in order, so it does not depend on the threads). The order of warps is that of
 * the seed and the block alone. */
#include "engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum {
  TURN = 1 << 16,   /* instructions before the next warp's turn; ends spinning on memory, too */
  RANDOM_TURN = 96, /* at most, under a seed: warps part in the middle of what they do */
  THREADS_MAX = 64
};

/* ---- for opcodes ------------------------------------------------------------------------------
 */

uint32_t attune__random(attune__engine *e, uint32_t below) {
  e->random = e->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((e->random >> 33) % below);
}

void attune__wait(attune__warp *w, const void *object, int retry, attune__describe *describe) {
  w->state = ATTUNE__WAITING;
  w->object = object, w->retry = retry, w->describe = describe;
}

void attune__wake(attune__engine *e, const void *object) {
  for (uint32_t k = 0; k < e->warps; k++)
    if (e->warp[k].state == ATTUNE__WAITING && e->warp[k].object == object)
      e->warp[k].state = ATTUNE__READY;
}

/* ---- one cluster ------------------------------------------------------------------------------
 */

/* The next warp that can run: in turns from `after` on, or any by the seed. NULL: none can. */
static attune__warp *pick(attune__engine *e, uint32_t after) {
  uint32_t ready = 0, found = 0;
  for (uint32_t k = 1; k <= e->warps; k++) {
    uint32_t at = (after + k) % e->warps;
    if (e->warp[at].state != ATTUNE__READY) continue;
    if (!e->launch->options.schedule_seed) return &e->warp[at];
    if (attune__random(e, ++ready) == 0) found = at;
  }
  return ready ? &e->warp[found] : NULL;
}

static int all_exited(const attune__engine *e) {
  for (uint32_t k = 0; k < e->warps; k++)
    if (e->warp[k].state != ATTUNE__EXITED) return 0;
  return 1;
}

static void run_warps(attune__engine *e) {
  const attune_cpu_options *o = &e->launch->options;
  uint32_t last = e->warps - 1;
  for (;;) {
    if (o->landing == ATTUNE_CPU_LAND_RANDOM && attune__async_pending(e) &&
        attune__random(e, 4) == 0)
      attune__async_land(e, 1);
    attune__warp *w = pick(e, last);
    if (w) {
      last = w->agent;
      attune__exec(w, o->schedule_seed ? 1 + attune__random(e, RANDOM_TURN) : TURN);
    } else if (all_exited(e)) {
      attune__async_end(e);
      return;
    } else if (attune__async_pending(e)) {
      attune__async_land(e, o->landing == ATTUNE_CPU_LAND_RANDOM);
    } else {
      attune__report_deadlock(e);
      return;
    }
  }
}

static void reset_cluster(attune__engine *e, uint32_t cluster) {
  e->agents = e->warps;
  e->random = e->launch->options.schedule_seed + cluster * UINT64_C(0x9e3779b97f4a7c15);
  memset(e->clocks, 0, (size_t)e->warps * ATTUNE__CLOCK * sizeof *e->clocks);
  attune__async_reset(e);
  for (uint32_t b = 0; b < e->blocks; b++) {
    attune__block *block = &e->block[b];
    block->index = cluster * e->blocks + b;
    attune__smem_reset(&block->smem, e->warps);
    for (int k = 0; k < ATTUNE__BARRIERS; k++) block->barrier[k].arrived = 0;
    for (uint32_t k = 0; k < block->warps; k++) {
      attune__warp *w = &block->warp[k];
      attune__exec_reset(w);
      w->clock[w->agent] = 1;
    }
  }
}

/* 0, or -1 with e->fault. */
static int run_cluster(attune__engine *e, uint32_t cluster) {
  e->fault[0] = 0;
  if (setjmp(e->escape) == 0) {
    reset_cluster(e, cluster);
    run_warps(e);
  }
  e->count.blocks += e->blocks;
  e->count.warps += e->warps;
  return e->fault[0] ? -1 : 0;
}

/* ---- engines ----------------------------------------------------------------------------------
 */

static void engine_free(attune__engine *e) {
  if (!e) return;
  for (uint32_t b = 0; e->block && b < e->blocks; b++) attune__smem_free(&e->block[b].smem);
  for (uint32_t k = 0; e->warp && k < e->warps; k++) free(e->warp[k].file);
  attune__async_free(e);
  free(e->block), free(e->warp), free(e->clocks), free(e->pattern), free(e);
}

static attune_status make_warps(attune__engine *e) {
  size_t bytes = e->launch->program->file_bytes;
  for (uint32_t k = 0; k < e->warps; k++) {
    attune__warp *w = &e->warp[k];
    w->engine = e;
    w->block = &e->block[k / e->block[0].warps];
    w->index = k % e->block[0].warps;
    w->agent = k;
    w->clock = e->clocks + (size_t)k * ATTUNE__CLOCK;
    w->file = aligned_alloc(64, bytes);
    if (!w->file) return attune_fail(ATTUNE_NO_MEMORY, "no memory for registers: %zu bytes", bytes);
  }
  return ATTUNE_OK;
}

static attune_status make_blocks(attune__engine *e) {
  const attune__cpu_launch *launch = e->launch;
  uint32_t size = launch->program->static_smem + launch->smem_bytes;
  for (uint32_t b = 0; b < e->blocks; b++) {
    attune__block *block = &e->block[b];
    block->rank = b;
    block->warps = e->warps / e->blocks;
    block->warp = e->warp + b * block->warps;
    attune_status status =
        attune__smem_init(&block->smem, size, launch->program->granule, e->warps, e->checks);
    if (status) return status;
  }
  return ATTUNE_OK;
}

static attune_status engine_make(const attune__cpu_launch *launch, attune__engine **out) {
  attune__engine *e = *out = calloc(1, sizeof *e);
  if (!e) return attune_fail(ATTUNE_NO_MEMORY, "no memory to run %s", launch->kernel);
  e->launch = launch;
  e->checks = !launch->options.unchecked;
  e->blocks = launch->cluster;
  e->warps = e->blocks * launch->threads / ATTUNE__LANES;
  e->block = calloc(e->blocks, sizeof *e->block);
  e->warp = calloc(e->warps, sizeof *e->warp);
  e->clocks = calloc(e->warps, ATTUNE__CLOCK * sizeof *e->clocks);
  if (!e->block || !e->warp || !e->clocks)
    return attune_fail(ATTUNE_NO_MEMORY, "no memory to run %s", launch->kernel);
  attune_status status = make_blocks(e);
  if (!status) status = make_warps(e);
  if (!status) status = attune__patterns_make(e);
  return status ? status : attune__async_init(e);
}

/* ---- threads ----------------------------------------------------------------------------------
 */

typedef struct crew {
  const attune__cpu_launch *launch;
  uint32_t clusters;
  atomic_uint next;
  atomic_int stop;
  pthread_mutex_t lock; /* of what follows */
  attune_status status; /* ATTUNE_MISMATCH: fault, of cluster `faulty` */
  uint32_t faulty;
  char message[ATTUNE__FAULT_MAX];
  attune_cpu_counters count;
} crew;

static void note(crew *c, attune_status status, uint32_t cluster, const char *message) {
  pthread_mutex_lock(&c->lock);
  if (!c->status || cluster < c->faulty) {
    c->status = status;
    c->faulty = cluster;
    memcpy(c->message, message, strnlen(message, sizeof c->message - 1) + 1);
    c->message[sizeof c->message - 1] = 0;
  }
  pthread_mutex_unlock(&c->lock);
  atomic_store(&c->stop, 1);
}

void attune__cpu_add(attune_cpu_counters *sum, const attune_cpu_counters *more) {
  sum->blocks += more->blocks, sum->warps += more->warps;
  sum->instructions += more->instructions;
  sum->smem_read += more->smem_read, sum->smem_write += more->smem_write;
  sum->smem_phases += more->smem_phases, sum->smem_phases_least += more->smem_phases_least;
  sum->fma += more->fma, sum->mma_macs += more->mma_macs, sum->exp2 += more->exp2;
  sum->barriers += more->barriers, sum->async_bytes += more->async_bytes;
}

static void run_clusters(crew *c, attune__engine *e) {
  while (!atomic_load(&c->stop)) {
    uint32_t cluster = atomic_fetch_add(&c->next, 1);
    if (cluster >= c->clusters) break;
    if (run_cluster(e, cluster)) note(c, ATTUNE_MISMATCH, cluster, e->fault);
  }
  pthread_mutex_lock(&c->lock);
  attune__cpu_add(&c->count, &e->count);
  attune__gmem_add(c->launch->gmem, &e->gmem);
  pthread_mutex_unlock(&c->lock);
}

static void *work(void *argument) {
  crew *c = argument;
  attune__engine *e;
  attune_status status = engine_make(c->launch, &e);
  if (status)
    note(c, status, 0, attune_error());
  else
    run_clusters(c, e);
  engine_free(e);
  return NULL;
}

static uint32_t thread_count(const crew *c) {
  long wanted = c->launch->options.threads;
  if (wanted <= 0) wanted = sysconf(_SC_NPROCESSORS_ONLN);
  if (wanted > THREADS_MAX) wanted = THREADS_MAX;
  if (wanted < 1) wanted = 1;
  return (uint32_t)wanted < c->clusters ? (uint32_t)wanted : c->clusters;
}

/* The caller works too; a thread that cannot be started is done without. */
static void run_threads(crew *c) {
  pthread_t thread[THREADS_MAX];
  uint32_t wanted = thread_count(c), started = 0;
  while (started + 1 < wanted && pthread_create(&thread[started], NULL, work, c) == 0) started++;
  work(c);
  for (uint32_t k = 0; k < started; k++) pthread_join(thread[k], NULL);
}

static attune_status check_launch(const attune__cpu_launch *l) {
  const attune__ptx *p = l->program;
  uint32_t warps = l->threads / ATTUNE__LANES;
  if (l->threads == 0 || l->threads % ATTUNE__LANES || l->threads > 1024 || l->cluster == 0 ||
      l->grid % l->cluster || warps * l->cluster > ATTUNE__WARPS_MAX)
    return attune_fail(ATTUNE_INVALID,
                       "%s: %u blocks of %u threads in clusters of %u: threads must be a multiple "
                       "of 32 up to 1024, blocks one of the cluster, a cluster has up to %d warps",
                       l->kernel, l->grid, l->threads, l->cluster, ATTUNE__WARPS_MAX);
  if (p->threads && p->threads < l->threads)
    return attune_fail(ATTUNE_INVALID, "%s: launched with %u threads, compiled for %u", l->kernel,
                       l->threads, p->threads);
  return ATTUNE_OK;
}

attune_status attune__cpu_run(const attune__cpu_launch *launch, attune_cpu_counters *counters) {
  attune_status status = check_launch(launch);
  if (status || launch->grid == 0) return status;
  crew c = {.launch = launch, .clusters = launch->grid / launch->cluster};
  pthread_mutex_init(&c.lock, NULL);
  run_threads(&c);
  pthread_mutex_destroy(&c.lock);
  if (counters) attune__cpu_add(counters, &c.count);
  return c.status ? attune_fail(c.status, "%s", c.message) : ATTUNE_OK;
}
