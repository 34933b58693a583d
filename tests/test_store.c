/* test_store.c - the JIT's folder: keys, hits, damage, races of threads and processes. Needs NVRTC.
 *
 * Processes are made by fork before NVRTC is loaded here, or compile nothing after it. */
#include "../gen/expand.h"
#include "../gen/store.h"
#include "scratch.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A small kernel that compiles fast. */
static attune_kernel small_kernel(const char *arch, int head_dim) {
  attune_request request = {0};
  attune_kernel kernels[ATTUNE_MAX_PARTS];
  int count = 0;
  attune_problem problem = attune_problem_init();
  problem.op = ATTUNE_OP_ATTN_FWD;
  problem.dtype_q = ATTUNE_DTYPE_FP32;
  problem.head_dim_qk = head_dim;
  ck_assert_int_eq(attune__variant_of(&problem, attune__arch_parse(arch), &request.variant), 0);
  ck_assert_msg(attune__expand_request(&request, ATTUNE_CLASS_ANY, 0, kernels, &count) == ATTUNE_OK,
                "%s", attune_error());
  ck_assert_int_eq(count, 1);
  return kernels[0];
}

static char folder[64];
static void fresh_folder(void) {
  scratch_make(folder);
}

static attune_store *open_store(const char *root) {
  attune_store *store;
  ck_assert_int_eq(attune__store_open(root, &store), ATTUNE_OK);
  return store;
}

/* Gets and checks one entry; its digest, and whether it was compiled. */
static int get(attune_store *store, const attune_kernel *kernel, char digest[65]) {
  void *bytes;
  size_t size;
  int compiled = -1;
  attune_entry entry;
  if (attune__store_get(store, kernel, 1, &bytes, &size, &compiled)) return -1;
  int good =
      attune__entry_read(bytes, size, &entry) == ATTUNE_OK && strcmp(entry.name, kernel->name) == 0;
  attune__sha256_hex(bytes, size, digest);
  free(bytes);
  return good ? compiled : -1;
}

static char processes_digest[65];

/* First, while NVRTC is not loaded here: four processes want one key. */
START_TEST(processes_compile_once) {
  enum { N = 4 };
  fresh_folder();
  attune_kernel kernel = small_kernel("sm_80", 16);
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  pid_t child[N];
  struct {
    char digest[65];
    int compiled;
  } result = {0};
  for (int i = 0; i < N; i++) {
    child[i] = fork();
    if (child[i]) continue;
    result.compiled = get(open_store(folder), &kernel, result.digest);
    _exit(write(ends[1], &result, sizeof result) != sizeof result);
  }
  int compiles = 0;
  for (int i = 0; i < N; i++) {
    ck_assert_int_eq(read(ends[0], &result, sizeof result), sizeof result);
    ck_assert_int_ge(result.compiled, 0);
    compiles += result.compiled;
    if (i) ck_assert_str_eq(result.digest, processes_digest);
    memcpy(processes_digest, result.digest, sizeof processes_digest);
  }
  for (int i = 0; i < N; i++) {
    int status = -1;
    waitpid(child[i], &status, 0);
    ck_assert_int_eq(status, 0);
  }
  ck_assert_int_eq(compiles, 1);
  close(ends[0]), close(ends[1]);
  scratch_remove(folder);
}
END_TEST

START_TEST(a_hit_needs_no_compile_and_damage_is_replaced) {
  fresh_folder();
  attune_kernel kernel = small_kernel("sm_80", 16);
  char first[65], digest[65], key[65], path[PATH_MAX];
  attune_store *store = open_store(folder);
  ck_assert_int_eq(get(store, &kernel, first), 1);
  ck_assert_str_eq(first, processes_digest);
  attune__store_close(store);

  store = open_store(folder);
  ck_assert_int_eq(get(store, &kernel, digest), 0);
  ck_assert_str_eq(digest, first);
  attune_store_stats stats = attune__store_stats(store);
  ck_assert_int_eq(stats.hits, 1);
  ck_assert_int_eq(stats.compiles, 0);

  /* one byte changed, and cut short */
  ck_assert_int_eq(attune__store_key(&kernel, key), ATTUNE_OK);
  snprintf(path, sizeof path, "%s/v1/%.2s/%s", folder, key, key + 2);
  struct stat s;
  ck_assert_int_eq(stat(path, &s), 0);
  int file = open(path, O_RDWR);
  char byte;
  ck_assert_int_eq(pread(file, &byte, 1, s.st_size / 2), 1);
  byte = (char)(byte + 1);
  ck_assert_int_eq(pwrite(file, &byte, 1, s.st_size / 2), 1);
  close(file);
  ck_assert_int_eq(get(store, &kernel, digest), 1);
  ck_assert_str_eq(digest, first);
  ck_assert_int_eq(truncate(path, 100), 0);
  ck_assert_int_eq(get(store, &kernel, digest), 1);
  ck_assert_int_eq(get(store, &kernel, digest), 0);
  stats = attune__store_stats(store);
  ck_assert_int_eq(stats.bad_entries, 2);
  ck_assert_int_eq(stats.compiles, 2);
  ck_assert_int_eq(stats.publish_failures, 0);

  attune_store_usage usage;
  ck_assert_int_eq(attune__store_usage(store, &usage), ATTUNE_OK);
  ck_assert_int_eq(usage.entries, 1);
  ck_assert_int_eq(usage.bytes, s.st_size);
  ck_assert_int_eq(attune__store_clear(store, &usage), ATTUNE_OK);
  ck_assert_int_eq(usage.entries, 1);
  ck_assert_int_eq(attune__store_usage(store, &usage), ATTUNE_OK);
  ck_assert_int_eq(usage.entries, 0);
  attune__store_close(store);
  scratch_remove(folder);
}
END_TEST

static void expect_other_key(const attune_kernel *kernel, const char *base, const char *what) {
  char key[65];
  ck_assert_int_eq(attune__store_key(kernel, key), ATTUNE_OK);
  ck_assert_msg(strcmp(key, base) != 0, "the key forgets %s", what);
}

/* Every field of fields.def, through the lists themselves, so that a new one is covered. */
START_TEST(keys_change_with_every_field) {
  attune_kernel kernel = small_kernel("sm_80", 64), other;
  char base[65], key[65];
  ck_assert_int_eq(attune__store_key(&kernel, base), ATTUNE_OK);
  ck_assert_uint_eq(strspn(base, "0123456789abcdef"), 64);
#define CHANGED(change, what)                                                                      \
  other = kernel;                                                                                  \
  change;                                                                                          \
  attune__kernel_name(&other.variant, &other.tile, other.name);                                    \
  expect_other_key(&other, base, what)
  CHANGED(other.variant.arch = attune__arch(86, 0), "arch");
  CHANGED(other.variant.arch = attune__arch(80, 'a'), "arch suffix");
  CHANGED(other.variant.op = ATTUNE_OP_ATTN_STANDARD, "op");
  CHANGED(other.variant.features = 1, "features");
  CHANGED(other.variant.pins = 0x12345678, "pins");
  CHANGED(other.variant.head_dim_qk = 72, "head_dim_qk");
  CHANGED(other.variant.head_dim_v = 72, "head_dim_v");
  CHANGED(other.variant.dtype_q = ATTUNE_DTYPE_BF16, "dtype_q");
  CHANGED(other.variant.dtype_kv = ATTUNE_DTYPE_BF16, "dtype_kv");
  CHANGED(other.variant.dtype_out = ATTUNE_DTYPE_BF16, "dtype_out");
  CHANGED(other.variant.mask = ATTUNE_MASK_CAUSAL, "mask");
  CHANGED(other.variant.align = ATTUNE_ALIGN_ELEM, "align");
  CHANGED(other.variant.group = 4, "group");
#define X(type, field, letters, def, constant, text)                                               \
  CHANGED(other.tile.field = (type)(other.tile.field + 1), #field);
  ATTUNE_TILE_FIELDS(X)
#undef X
  CHANGED(attune__pinset_add(&other.pins, "window_left", 127), "the value of a pin");
  CHANGED(other.ledger.piece[0].columns++, "a piece of the ledger");
  CHANGED(other.constant[0].value++, "a constant");
  CHANGED(other.recipe.smem_bytes++, "the recipe");
  CHANGED(other.template_path = "attn_fwd/other.cu", "the template");

  attune_kernel pinned = kernel;
  ck_assert_int_eq(attune__pinset_add(&pinned.pins, "window_left", 127), ATTUNE_OK);
  ck_assert_int_eq(attune__store_key(&pinned, key), ATTUNE_OK);
  pinned.pins.pin[0].value = 128;
  expect_other_key(&pinned, key, "127 against 128 in a pin");
}
END_TEST

START_TEST(keys_do_not_change_otherwise) {
  attune_kernel kernel = small_kernel("sm_80", 64), again = small_kernel("sm_80", 64);
  char base[65], key[65], here[PATH_MAX];
  ck_assert_int_eq(attune__store_key(&kernel, base), ATTUNE_OK);
  snprintf(again.ledger.piece[0].note, sizeof again.ledger.piece[0].note, "another note");
  ck_assert_int_eq(attune__store_key(&again, key), ATTUNE_OK);
  ck_assert_str_eq(key, base);
  ck_assert_ptr_nonnull(getcwd(here, sizeof here));
  setenv("TZ", "Asia/Tokyo", 1);
  ck_assert_int_eq(chdir("/"), 0);
  ck_assert_int_eq(attune__store_key(&again, key), ATTUNE_OK);
  ck_assert_int_eq(chdir(here), 0);
  unsetenv("TZ");
  ck_assert_str_eq(key, base);
}
END_TEST

/* Served from memory, one warning. */
static void works_without_a_place_on_disk(attune_store *store, int publish_failures) {
  attune_kernel kernel = small_kernel("sm_80", 16);
  char digest[65], warning[512];
  ck_assert_int_eq(get(store, &kernel, digest), 1);
  ck_assert_int_eq(get(store, &kernel, digest), 0);
  ck_assert_str_eq(digest, processes_digest);
  ck_assert_int_eq(attune__store_warning(store, warning, sizeof warning), 1);
  ck_assert_msg(strstr(warning, "/") != NULL, "names the path: %s", warning);
  ck_assert_int_eq(attune__store_warning(store, warning, sizeof warning), 0);
  ck_assert_int_eq(attune__store_stats(store).publish_failures, publish_failures);
  attune__store_close(store);
}

START_TEST(an_unusable_root_works_in_memory) {
  attune_store *store = open_store("/proc/attune"); /* root cannot write there either */
  ck_assert_str_eq(attune__store_root(store), "");
  works_without_a_place_on_disk(store, 0);
}
END_TEST

/* A file where the entry's folder should be: publishing fails, opening did not. */
START_TEST(a_failed_publish_keeps_the_bytes) {
  fresh_folder();
  attune_kernel kernel = small_kernel("sm_80", 16);
  char key[65], path[PATH_MAX];
  attune_store *store = open_store(folder);
  ck_assert_int_eq(attune__store_key(&kernel, key), ATTUNE_OK);
  snprintf(path, sizeof path, "%s/v1/%.2s", folder, key);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  works_without_a_place_on_disk(store, 1);
  scratch_remove(folder);
}
END_TEST

START_TEST(a_folder_that_others_can_write_is_refused) {
  fresh_folder();
  char path[PATH_MAX], warning[512];
  snprintf(path, sizeof path, "%s/v1", folder);
  ck_assert_int_eq(mkdir(path, 0700), 0);
  ck_assert_int_eq(chmod(path, 0777), 0);
  attune_store *store = open_store(folder);
  ck_assert_str_eq(attune__store_root(store), "");
  ck_assert_int_eq(attune__store_warning(store, warning, sizeof warning), 1);
  ck_assert_ptr_nonnull(strstr(warning, "others may write"));
  attune__store_close(store);
  ck_assert_int_eq(rmdir(path), 0);
  ck_assert_int_eq(symlink("/tmp", path), 0);
  store = open_store(folder);
  ck_assert_str_eq(attune__store_root(store), "");
  attune__store_close(store);
  scratch_remove(folder);
}
END_TEST

typedef struct thread_job {
  attune_store *store;
  const attune_kernel *kernel;
  char digest[65];
  int compiled;
} thread_job;

static void *thread_get(void *argument) {
  thread_job *job = argument;
  job->compiled = get(job->store, job->kernel, job->digest);
  return NULL;
}

START_TEST(threads_compile_once) {
  enum { N = 8 };
  fresh_folder();
  attune_kernel kernel = small_kernel("sm_80", 16);
  attune_store *store = open_store(folder);
  pthread_t thread[N];
  thread_job job[N];
  for (int i = 0; i < N; i++) {
    job[i] = (thread_job){.store = store, .kernel = &kernel};
    ck_assert_int_eq(pthread_create(&thread[i], NULL, thread_get, &job[i]), 0);
  }
  int compiles = 0;
  for (int i = 0; i < N; i++) {
    pthread_join(thread[i], NULL);
    ck_assert_int_ge(job[i].compiled, 0);
    compiles += job[i].compiled;
    ck_assert_str_eq(job[i].digest, processes_digest);
  }
  ck_assert_int_eq(compiles, 1);
  attune_store_stats stats = attune__store_stats(store);
  ck_assert_int_eq(stats.compiles, 1);
  ck_assert_int_eq(stats.hits, N - 1);
  attune__store_close(store);
  scratch_remove(folder);
}
END_TEST

START_TEST(a_miss_without_compiling_is_no_answer_for_others) {
  fresh_folder();
  attune_kernel kernel = small_kernel("sm_80", 16);
  attune_store *store = open_store(folder);
  void *bytes;
  size_t size;
  ck_assert_int_eq(attune__store_get(store, &kernel, 0, &bytes, &size, NULL), ATTUNE_NOT_FOUND);
  ck_assert_ptr_null(bytes);
  ck_assert_ptr_nonnull(strstr(attune_error(), kernel.name));
  ck_assert_int_eq(attune__store_stats(store).misses, 1);
  attune__store_close(store);
  scratch_remove(folder);
}
END_TEST

/* A process that dies with the lock, here stopped while it holds all of it. */
START_TEST(a_dead_lock_holder_hinders_nobody) {
  fresh_folder();
  attune_kernel kernel = small_kernel("sm_80", 16);
  attune_store *store = open_store(folder);
  char path[PATH_MAX], digest[65], ready;
  snprintf(path, sizeof path, "%s/v1/lock", folder);
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 256};
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (fcntl(file, F_OFD_SETLK, &all) || write(ends[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  ck_assert_int_eq(read(ends[0], &ready, 1), 1);
  pthread_t thread;
  thread_job job = {.store = store, .kernel = &kernel};
  ck_assert_int_eq(pthread_create(&thread, NULL, thread_get, &job), 0);
  nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL);
  ck_assert_int_eq(attune__store_stats(store).compiles, 0); /* it waits */
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  pthread_join(thread, NULL);
  clock_gettime(CLOCK_MONOTONIC, &after);
  ck_assert_int_lt(after.tv_sec - before.tv_sec, 10); /* and not for the whole limit */
  ck_assert_int_eq(job.compiled, 1);
  ck_assert_int_eq(get(store, &kernel, digest), 0);
  close(ends[0]), close(ends[1]);
  attune__store_close(store);
  scratch_remove(folder);
}
END_TEST

START_TEST(a_failed_compile_publishes_nothing) {
  fresh_folder();
  attune_kernel kernel = small_kernel("sm_80", 16);
  kernel.template_path = "attn_fwd/no_such_file.cu";
  attune_store *store = open_store(folder);
  char digest[65];
  attune_store_usage usage;
  ck_assert_int_eq(get(store, &kernel, digest), -1);
  ck_assert_int_eq(get(store, &kernel, digest), -1);
  ck_assert_ptr_nonnull(strstr(attune_error(), "no_such_file"));
  ck_assert_int_eq(attune__store_usage(store, &usage), ATTUNE_OK);
  ck_assert_int_eq(usage.entries, 0);
  ck_assert_int_eq(attune__store_stats(store).compiles, 0);
  attune__store_close(store);
  scratch_remove(folder);
}
END_TEST

static void expect_root(const char *cache_dir, const char *xdg, const char *home,
                        const char *want) {
  const char *name[] = {"ATTUNE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  const char *value[] = {cache_dir, xdg, home};
  char *keep[3];
  for (int i = 0; i < 3; i++) {
    const char *old = getenv(name[i]);
    keep[i] = old ? strdup(old) : NULL;
    if (value[i])
      setenv(name[i], value[i], 1);
    else
      unsetenv(name[i]);
  }
  attune_store *store = open_store(NULL);
  ck_assert_str_eq(attune__store_root(store), want);
  attune__store_close(store);
  for (int i = 0; i < 3; i++) {
    if (keep[i])
      setenv(name[i], keep[i], 1);
    else
      unsetenv(name[i]);
    free(keep[i]);
  }
}

START_TEST(roots_by_the_environment) {
  fresh_folder();
  char here[PATH_MAX], base[PATH_MAX + 64], a[PATH_MAX + 128], b[PATH_MAX + 128], c[PATH_MAX + 128];
  ck_assert_ptr_nonnull(getcwd(here, sizeof here));
  snprintf(base, sizeof base, "%s/%s", here, folder);
  snprintf(a, sizeof a, "%s/own", base);
  snprintf(b, sizeof b, "%s/attune", base);
  snprintf(c, sizeof c, "%s/.cache/attune", base);
  expect_root(a, base, base, a);
  expect_root(NULL, base, "/nonexistent", b);
  expect_root("", base, "/nonexistent", b);
  expect_root(NULL, NULL, base, c);
  expect_root(NULL, "relative", base, c);
  expect_root(NULL, NULL, NULL, "");
  expect_root(NULL, "", "", "");
  expect_root(NULL, NULL, "relative", "");
  struct stat s;
  ck_assert_int_eq(stat(a, &s), 0);
  ck_assert_int_eq(s.st_mode & 0777, 0700);
  ck_assert_int_ne(access("relative", F_OK), 0);
  scratch_remove(folder);
}
END_TEST

TEST_MAIN("store", processes_compile_once, a_hit_needs_no_compile_and_damage_is_replaced,
          keys_change_with_every_field, keys_do_not_change_otherwise,
          an_unusable_root_works_in_memory, a_failed_publish_keeps_the_bytes,
          a_folder_that_others_can_write_is_refused, threads_compile_once,
          a_miss_without_compiling_is_no_answer_for_others, a_dead_lock_holder_hinders_nobody,
          a_failed_compile_publishes_nothing, roots_by_the_environment)
