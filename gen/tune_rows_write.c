/* tune_rows_write.c - measured rows -> YAML, a row or mark a line, and into the file that has
 * others.
 *
 * Input: rows. Output: text that a person reads, edits and merges by lines; a file that is at any
 * moment the old one or the new one. */
#include "tune_rows.h"

#include "../runtime/entry.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ---- text ------------------------------------------------------------------------------------ */

/* In double quotes; what the reader would refuse becomes '?'. */
static void quoted(attune__text *out, const char *s) {
  attune__text_puts(out, "\"");
  for (; *s; s++) {
    char c[2] = {*s, 0};
    if ((unsigned char)*s < ' ' || (unsigned char)*s > '~') c[0] = '?';
    if (c[0] == '"' || c[0] == '\\') attune__text_puts(out, "\\");
    attune__text_puts(out, c);
  }
  attune__text_puts(out, "\"");
}

static void put_time(attune__text *out, const char *key, const attune__tuned_time *time) {
  attune__text_printf(out, ", %s: [", key);
  attune__text_number(out, time->median);
  attune__text_puts(out, ", ");
  attune__text_number(out, time->low);
  attune__text_puts(out, ", ");
  attune__text_number(out, time->high);
  attune__text_puts(out, "]");
}

static void put_shape(attune__text *out, const attune_shape *s) {
  attune__text_printf(
      out, ", shape: {b: %lld, h: %lld, hk: %lld, s: %lld, sk: %lld, wl: %lld, wr: %lld}",
      (long long)s->batch, (long long)s->heads_q, (long long)s->heads_kv, (long long)s->len_q,
      (long long)s->len_k, (long long)s->window_left, (long long)s->window_right);
}

static void put_row(attune__text *out, const attune__tuned_row *row) {
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&row->variant, 1, name);
  attune__text_printf(out, "  - {variant: %s, class: %s, tile: ", name,
                      attune__class_name((int)row->cls));
  attune__tiles_print(&row->tiles, out);
  put_time(out, "ms", &row->time);
  attune__text_puts(out, ", over: ");
  attune__tiles_print(&row->over, out);
  put_time(out, "over_ms", &row->over_time);
  put_shape(out, &row->shape);
  attune__text_printf(out,
                      ", l2: %s, rounds: %d, calls: %d, tried: %d, driver: %d, date: \"%s\", "
                      "is: %s",
                      row->l2_cold ? "cold" : "warm", row->rounds, row->calls, row->tried,
                      row->driver, row->date, row->provisional ? "provisional" : "measured");
  if (row->why[0]) attune__text_puts(out, ", why: "), quoted(out, row->why);
  attune__text_puts(out, "}\n");
}

static void put_mark(attune__text *out, const attune__tuned_mark *mark) {
  attune__text_printf(out, "  - {kernel: %s, digest: \"%s\", driver: %d, is: %s, date: \"%s\"",
                      mark->kernel, mark->digest, mark->driver, attune__mark_name(mark->kind),
                      mark->date);
  if (mark->why[0]) attune__text_puts(out, ", why: "), quoted(out, mark->why);
  attune__text_puts(out, "}\n");
}

static void put_key(attune__text *out, const attune__tuned_key *key) {
  char arch[ATTUNE_ARCH_MAX];
  attune__arch_print(key->arch, 1, arch);
  attune__text_puts(out, "- gpu: ");
  quoted(out, key->gpu);
  attune__text_printf(out,
                      "\n  sms: %d\n  memory_mhz: %d\n  arch: %s\n  abi: %u\n  nvrtc: ", key->sms,
                      key->memory_mhz, arch, key->abi);
  quoted(out, key->nvrtc);
  attune__text_puts(out, "\n");
}

/* The key that comes next, of a row or a mark; NULL at the end. */
static const attune__tuned_key *next_key(const attune__tuned *t, int row, int mark) {
  if (row == t->count) return mark == t->mark_count ? NULL : &t->mark[mark].key;
  if (mark == t->mark_count || attune__tuned_key_before(&t->row[row].key, &t->mark[mark].key))
    return &t->row[row].key;
  return &t->mark[mark].key;
}

void attune__tuned_print(const attune__tuned *t, attune__text *out) {
  attune__text_puts(
      out,
      "# Measured by `attune tune`: the fastest tile of a variant for a class of shapes, on one "
      "model of GPU.\n"
      "# One row a line; ms is the median of a call and the interval that holds it, over what the "
      "planner\n"
      "# would have taken. Of two rows for one place keep the later. specs/README.md has the "
      "rest.\n"
      "version: 1\ntuned:");
  const attune__tuned_key *key;
  if (!t->count && !t->mark_count) attune__text_puts(out, " []");
  attune__text_puts(out, "\n");
  for (int row = 0, mark = 0; (key = next_key(t, row, mark));) {
    put_key(out, key);
    for (int first = row; row < t->count && attune__tuned_key_same(key, &t->row[row].key); row++) {
      if (row == first) attune__text_puts(out, "  rows:\n");
      put_row(out, &t->row[row]);
    }
    int first = mark;
    for (; mark < t->mark_count && attune__tuned_key_same(key, &t->mark[mark].key); mark++) {
      if (mark == first) attune__text_puts(out, "  marks:\n");
      put_mark(out, &t->mark[mark]);
    }
  }
}

/* ---- files ----------------------------------------------------------------------------------- */

char *attune__tuned_path(const char *root, const char *gpu) {
  char *path = NULL;
  char slug[128];
  size_t length = 0;
  for (; *gpu && length + 1 < sizeof slug; gpu++) {
    int plain = isascii(*gpu) && isalnum((unsigned char)*gpu);
    if (plain || (length && slug[length - 1] != '-'))
      slug[length++] = plain ? (char)tolower((unsigned char)*gpu) : '-';
  }
  while (length && slug[length - 1] == '-') length--;
  slug[length] = 0;
  return asprintf(&path, "%s/tuned/%s.yaml", root, length ? slug : "gpu") < 0 ? NULL : path;
}

/* The lock lies beside the file, which is replaced; it dies with its process. -1 with errno. */
static int take_lock(const char *path) {
  char *name = NULL;
  if (asprintf(&name, "%s.lock", path) < 0) return -1;
  int lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  free(name);
  while (lock >= 0 && flock(lock, LOCK_EX))
    if (errno != EINTR) {
      close(lock);
      return -1;
    }
  return lock;
}

static attune_status make_folder_of(const char *path) {
  char *folder = strdup(path);
  if (!folder) return attune_fail(ATTUNE_NO_MEMORY, "the path %s", path);
  char *slash = strrchr(folder, '/');
  attune_status status = ATTUNE_OK;
  if (slash && slash != folder) *slash = 0, status = attune__make_folders(folder, 0);
  free(folder);
  return status;
}

static attune_status merge_and_publish(const char *path, const attune__tuned *add,
                                       attune__text *errors) {
  attune__tuned all = {.count = 0};
  attune__text text = {0};
  attune_status status = attune__tuned_read(path, &all, errors);
  if (!status) status = attune__tuned_merge(&all, add);
  if (!status) {
    attune__tuned_print(&all, &text);
    status = text.failed ? attune_fail(ATTUNE_NO_MEMORY, "the text of %s", path)
                         : attune__file_publish_synced(path, text.data, text.size);
  }
  attune__text_free(&text);
  attune__tuned_free(&all);
  return status;
}

attune_status attune__tuned_save(const char *path, const attune__tuned *add, attune__text *errors) {
  attune_status status = make_folder_of(path);
  if (status) return status;
  int lock = take_lock(path);
  if (lock < 0)
    return attune_fail(ATTUNE_IO, "cannot lock %s to add measured rows: %s", path, strerror(errno));
  status = merge_and_publish(path, add, errors);
  close(lock);
  return status;
}
