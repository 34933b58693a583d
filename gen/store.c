/* store.c - a kernel's entry from disk, or compiled once and published.
 *
 * Input: kernels. Output: entry bytes that the caller owns. Among threads a key is produced by the
 * first that asks, the others wait for its result (a flight); among processes the folder's lock
 * does the same as far as it can. What could not be published stays in memory until the store
 * closes. Paths, files and locks are store_disk.c's, the key store_key.c's. */
#include "store.h"
#include "nvrtc.h"
#include "store_disk.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key under way, or one whose bytes have no other home than memory. */
typedef struct flight {
  char key[65];
  int done, keep;
  int users; /* threads that look at it */
  attune_status status;
  char error[1024];
  void *bytes;
  size_t size;
  struct flight *next;
} flight;

struct attune_store {
  attune__disk disk;
  pthread_mutex_t lock; /* guards all below; never held during a compile or a read */
  pthread_cond_t landed;
  flight *flights;
  attune_store_stats stats;
  char warning[512];
  int warned;
};

static void note_warning(attune_store *store) {
  pthread_mutex_lock(&store->lock);
  if (!store->warning[0]) snprintf(store->warning, sizeof store->warning, "%s", attune_error());
  pthread_mutex_unlock(&store->lock);
}

attune_status attune__store_open(const char *root, attune_store **out) {
  attune_store *store = calloc(1, sizeof *store);
  *out = store;
  if (!store) return attune_fail(ATTUNE_NO_MEMORY, "a store");
  pthread_mutex_init(&store->lock, NULL);
  pthread_cond_init(&store->landed, NULL);
  if (attune__disk_open(root, &store->disk)) note_warning(store);
  return ATTUNE_OK;
}

void attune__store_close(attune_store *store) {
  if (!store) return;
  for (flight *f = store->flights, *next; f; f = next) {
    next = f->next;
    free(f->bytes);
    free(f);
  }
  pthread_cond_destroy(&store->landed);
  pthread_mutex_destroy(&store->lock);
  free(store);
}

const char *attune__store_root(const attune_store *store) {
  return store->disk.root;
}

attune_store_stats attune__store_stats(attune_store *store) {
  pthread_mutex_lock(&store->lock);
  attune_store_stats stats = store->stats;
  pthread_mutex_unlock(&store->lock);
  return stats;
}

int attune__store_warning(attune_store *store, char *out, size_t size) {
  pthread_mutex_lock(&store->lock);
  int fresh = store->warning[0] && !store->warned;
  if (fresh) snprintf(out, size, "%s", store->warning), store->warned = 1;
  pthread_mutex_unlock(&store->lock);
  return fresh;
}

attune_status attune__store_usage(const attune_store *store, attune_store_usage *out) {
  return attune__disk_walk(&store->disk, 0, out);
}

attune_status attune__store_clear(attune_store *store, attune_store_usage *removed) {
  return attune__disk_walk(&store->disk, 1, removed);
}

static void count(attune_store *store, int64_t *counter, int64_t by) {
  pthread_mutex_lock(&store->lock);
  *counter += by;
  pthread_mutex_unlock(&store->lock);
}

/* ---- producing ----------------------------------------------------------------------------- */

static int read_disk(attune_store *store, const flight *f, const char *name, void **out,
                     size_t *out_bytes) {
  attune__disk_result result = attune__disk_read(&store->disk, f->key, name, out, out_bytes);
  if (result == ATTUNE__DISK_BAD) count(store, &store->stats.bad_entries, 1);
  return result == ATTUNE__DISK_HIT;
}

/* Compiles and publishes; bytes that could not be published are good all the same. */
static attune_status compile(attune_store *store, flight *f, const attune_kernel *kernel) {
  char *warning;
  double start = attune__now_ms();
  attune_status status = attune__compile_entry(kernel, 0, &f->bytes, &f->size, &warning);
  if (status) return status;
  free(warning); /* the entry's facts tell it again */
  count(store, &store->stats.compiles, 1);
  count(store, &store->stats.compile_ms, (int64_t)(attune__now_ms() - start));
  f->keep = 1;
  if (!store->disk.root[0]) return ATTUNE_OK;
  if (attune__disk_publish(&store->disk, f->key, f->bytes, f->size)) {
    count(store, &store->stats.publish_failures, 1);
    note_warning(store);
  } else {
    f->keep = 0;
  }
  return ATTUNE_OK;
}

/* Another process may have published while this one waited for the lock: look again. */
static attune_status compile_once(attune_store *store, flight *f, const attune_kernel *kernel,
                                  int *compiled) {
  int lock = attune__disk_lock(&store->disk, f->key);
  attune_status status = ATTUNE_OK;
  if (attune__disk_read(&store->disk, f->key, kernel->name, &f->bytes, &f->size) ==
      ATTUNE__DISK_HIT) {
    count(store, &store->stats.hits, 1);
  } else {
    status = compile(store, f, kernel);
    *compiled = !status;
  }
  attune__disk_unlock(lock);
  return status;
}

static attune_status produce(attune_store *store, flight *f, const attune_kernel *kernel,
                             int allow_compile, int *compiled) {
  if (read_disk(store, f, kernel->name, &f->bytes, &f->size)) {
    count(store, &store->stats.hits, 1);
    return ATTUNE_OK;
  }
  if (allow_compile) return compile_once(store, f, kernel, compiled);
  count(store, &store->stats.misses, 1);
  return attune_fail(ATTUNE_NOT_FOUND, "%s is not in the store", kernel->name);
}

/* ---- flights ------------------------------------------------------------------------------- */

static flight *find_flight(attune_store *store, const char *key) {
  flight *f = store->flights;
  while (f && strcmp(f->key, key) != 0) f = f->next;
  return f;
}

/* With the lock held: callers that come from now on find nothing under way. */
static void unlink_flight(attune_store *store, const flight *f) {
  flight **link = &store->flights;
  while (*link != f) link = &(*link)->next;
  *link = f->next;
}

/* With the lock held: one user less; the last one frees what nobody keeps. */
static void leave(flight *f) {
  f->users--;
  if (f->users || f->keep) return;
  free(f->bytes);
  free(f);
}

/* With the lock held: the result as this caller's own. */
static attune_status take(const flight *f, void **out, size_t *out_bytes) {
  if (f->status) return attune_fail(f->status, "%s", f->error);
  *out = malloc(f->size);
  if (!*out) return attune_fail(ATTUNE_NO_MEMORY, "an entry of %zu bytes", f->size);
  memcpy(*out, f->bytes, f->size);
  *out_bytes = f->size;
  return ATTUNE_OK;
}

/* With the lock held: the flight of a key; *mine when this thread has to fly it. */
static flight *join(attune_store *store, const char *key, int *mine) {
  flight *f = find_flight(store, key);
  *mine = !f;
  if (!f) {
    f = calloc(1, sizeof *f);
    if (!f) return NULL;
    memcpy(f->key, key, sizeof f->key);
    f->next = store->flights;
    store->flights = f;
  }
  f->users++;
  return f;
}

/* The lock is held on entry and on return. */
static void fly(attune_store *store, flight *f, const attune_kernel *kernel, int allow_compile,
                int *compiled) {
  pthread_mutex_unlock(&store->lock);
  attune_status status = produce(store, f, kernel, allow_compile, compiled);
  pthread_mutex_lock(&store->lock);
  f->status = status;
  if (status) snprintf(f->error, sizeof f->error, "%s", attune_error());
  f->done = 1;
  if (!f->keep) unlink_flight(store, f);
  pthread_cond_broadcast(&store->landed);
}

static attune_status get(attune_store *store, const char *key, const attune_kernel *kernel,
                         int allow_compile, void **out, size_t *out_bytes, int *compiled) {
  for (;;) {
    int mine;
    flight *f = join(store, key, &mine);
    if (!f) return attune_fail(ATTUNE_NO_MEMORY, "%s: a place in the store", kernel->name);
    if (mine) fly(store, f, kernel, allow_compile, compiled);
    while (!f->done) pthread_cond_wait(&store->landed, &store->lock);
    if (!mine && !f->status) store->stats.hits++;
    /* A miss of one that was not allowed to compile is none for one that is. */
    int again = !mine && allow_compile && f->status == ATTUNE_NOT_FOUND;
    attune_status status = again ? ATTUNE_OK : take(f, out, out_bytes);
    leave(f);
    if (!again) return status;
  }
}

attune_status attune__store_get(attune_store *store, const attune_kernel *kernel, int allow_compile,
                                void **out, size_t *out_bytes, int *compiled) {
  *out = NULL, *out_bytes = 0;
  int ran = 0;
  char key[65];
  attune_status status = attune__store_key(kernel, key);
  if (!status) {
    pthread_mutex_lock(&store->lock);
    status = get(store, key, kernel, allow_compile, out, out_bytes, &ran);
    pthread_mutex_unlock(&store->lock);
  }
  if (compiled) *compiled = ran;
  return status;
}
