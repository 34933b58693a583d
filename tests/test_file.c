/* test_file.c - whole files in and out: what stands under a name is complete, whoever writes and
 * whatever fails; folders; SHA-256. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../runtime/entry.h"
#include "test.h"

static char folder[64];

static const char *in_folder(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void make_folder(void) {
  mkdir("build", 0755);
  strcpy(folder, "build/tmp-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Counts the files in the folder and removes it. */
static int remove_folder(void) {
  int count = 0;
  DIR *dir = opendir(folder);
  for (struct dirent *item; (item = readdir(dir));) {
    if (item->d_name[0] == '.') continue;
    count++;
    if (remove(in_folder(item->d_name)) != 0) ck_abort_msg("%s stays", item->d_name);
  }
  closedir(dir);
  ck_assert_int_eq(rmdir(folder), 0);
  return count;
}

START_TEST(files_are_read_whole) {
  static const char content[6] = {'1', '2', 0, '3', '4', '5'};
  void *bytes;
  size_t size;
  make_folder();
  ck_assert_int_eq(attune__file_publish(in_folder("a"), content, 6), ATTUNE_OK);
  ck_assert_int_eq(attune__file_read(in_folder("a"), 6, &bytes, &size), ATTUNE_OK);
  ck_assert_uint_eq(size, 6);
  ck_assert_mem_eq(bytes, content, 6);
  ck_assert_int_eq(((char *)bytes)[6], 0);
  free(bytes);
  ck_assert_int_eq(attune__file_read(in_folder("a"), 5, &bytes, &size), ATTUNE_BAD_FILE);
  ck_assert_ptr_null(bytes);
  ck_assert_int_eq(attune__file_publish(in_folder("a"), "", 0), ATTUNE_OK);
  ck_assert_int_eq(attune__file_read(in_folder("a"), 6, &bytes, &size), ATTUNE_OK);
  ck_assert_uint_eq(size, 0);
  ck_assert_str_eq(bytes, "");
  free(bytes);
  ck_assert_int_eq(attune__file_read(in_folder("missing"), 6, &bytes, &size), ATTUNE_IO);
  ck_assert_ptr_nonnull(strstr(attune_error(), "missing: No such file or directory"));
  ck_assert_int_eq(attune__file_read(folder, 4096, &bytes, &size), ATTUNE_IO);
  ck_assert_ptr_nonnull(strstr(attune_error(), "it is a folder"));
  ck_assert_int_eq(mkfifo(in_folder("fifo"), 0600), 0); /* no writer: a plain open would hang */
  ck_assert_int_eq(attune__file_read(in_folder("fifo"), 6, &bytes, &size), ATTUNE_IO);
  ck_assert_int_eq(remove_folder(), 2);
}
END_TEST

START_TEST(failed_publishing_leaves_nothing) {
  make_folder();
  ck_assert_int_eq(attune__file_publish("/proc/attune", "x", 1), ATTUNE_IO); /* not even for root */
  ck_assert_int_eq(attune__file_publish(in_folder("no/such"), "x", 1), ATTUNE_IO);
  ck_assert_int_eq(attune__file_publish(in_folder("file"), "x", 1), ATTUNE_OK);
  ck_assert_int_eq(attune__file_publish(in_folder("file/below"), "x", 1), ATTUNE_IO);
  ck_assert_int_eq(mkdir(in_folder("taken"), 0755), 0);
  ck_assert_int_eq(attune__file_publish(in_folder("taken"), "x", 1), ATTUNE_IO); /* rename fails */
  ck_assert_ptr_nonnull(strstr(attune_error(), "/taken: Is a directory"));
  ck_assert_int_eq(remove_folder(), 2);
}
END_TEST

START_TEST(a_full_disk_leaves_nothing) {
  void *bytes;
  size_t size;
  make_folder();
  ck_assert_int_eq(attune__file_publish(in_folder("file"), "old", 3), ATTUNE_OK);
  struct rlimit before, small = {1024, 0};
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  signal(SIGXFSZ, SIG_IGN); /* then write says EFBIG, as it says ENOSPC on a full disk */
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
  static const char zeros[4096];
  attune_status status = attune__file_publish(in_folder("file"), zeros, sizeof zeros);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_DFL);
  ck_assert_int_eq(status, ATTUNE_IO);
  ck_assert_int_eq(attune__file_read(in_folder("file"), 100, &bytes, &size), ATTUNE_OK);
  ck_assert_str_eq(bytes, "old");
  free(bytes);
  ck_assert_int_eq(remove_folder(), 1);
}
END_TEST

enum { RACERS = 8, ROUNDS = 50, RACE_BYTES = 100000 };
static atomic_int torn, failed_writes;

/* Publishes a file of one repeated byte again and again, and reads what is there: any one writer's
 * bytes, never a mixture and never a part. */
static void *race(void *letter) {
  char path[512], *mine = malloc(RACE_BYTES);
  snprintf(path, sizeof path, "%s/raced", folder);
  memset(mine, *(char *)letter, RACE_BYTES);
  for (int i = 0; i < ROUNDS; i++) {
    void *bytes = NULL;
    size_t size = 0;
    if (attune__file_publish(path, mine, RACE_BYTES)) atomic_fetch_add(&failed_writes, 1);
    if (attune__file_read(path, RACE_BYTES, &bytes, &size)) atomic_fetch_add(&torn, 1);
    const char *read = bytes;
    if (size != RACE_BYTES || memcmp(read, read + 1, RACE_BYTES - 1) != 0)
      atomic_fetch_add(&torn, 1);
    free(bytes);
  }
  free(mine);
  return NULL;
}

START_TEST(racing_writers_publish_whole_files) {
  pthread_t thread[RACERS];
  char letter[RACERS];
  make_folder();
  for (int i = 0; i < RACERS; i++) {
    letter[i] = (char)('a' + i);
    ck_assert_int_eq(pthread_create(&thread[i], NULL, race, &letter[i]), 0);
  }
  for (int i = 0; i < RACERS; i++) pthread_join(thread[i], NULL);
  ck_assert_int_eq(atomic_load(&torn), 0);
  ck_assert_int_eq(atomic_load(&failed_writes), 0);
  ck_assert_int_eq(remove_folder(), 1); /* no temporary file is left */
}
END_TEST

START_TEST(folders_are_made) {
  struct stat info;
  make_folder();
  ck_assert_int_eq(attune__make_folders(in_folder("a/b//c/"), 1), ATTUNE_OK);
  ck_assert_int_eq(attune__make_folders(in_folder("a/b/c"), 0), ATTUNE_OK); /* there already */
  ck_assert_int_eq(stat(in_folder("a/b/c"), &info), 0);
  ck_assert_int_eq(info.st_mode & 0777, 0700);
  ck_assert_int_eq(attune__file_publish(in_folder("a/file"), "x", 1), ATTUNE_OK);
  ck_assert_int_eq(attune__make_folders(in_folder("a/file"), 0), ATTUNE_IO);
  ck_assert_int_eq(attune__make_folders(in_folder("a/file/b"), 0), ATTUNE_IO);
  ck_assert_ptr_nonnull(strstr(attune_error(), "Not a directory"));
  ck_assert_int_eq(remove(in_folder("a/b/c")), 0);
  ck_assert_int_eq(remove(in_folder("a/b")), 0);
  ck_assert_int_eq(remove(in_folder("a/file")), 0);
  ck_assert_int_eq(remove_folder(), 1);
}
END_TEST

START_TEST(sha256_is_sha256) {
  char digest[65];
  attune__sha256_hex("abc", 3, digest); /* FIPS 180-2, appendix B.1 */
  ck_assert_str_eq(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
END_TEST

TEST_MAIN("file", files_are_read_whole, failed_publishing_leaves_nothing,
          a_full_disk_leaves_nothing, racing_writers_publish_whole_files, folders_are_made,
          sha256_is_sha256)
