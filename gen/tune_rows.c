/* tune_rows.c - measured rows as values: found, put, merged.
 *
 * Input: rows and marks, from a file or from the tuner. Output: sorted lists in which a place is
 * taken once, by the better of two. Text is tune_rows_read.c's and tune_rows_write.c's. */
#include "tune_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tiles ----------------------------------------------------------------------------------- */

void attune__tiles_print(const attune__tiles *tiles, attune__text *out) {
  for (int i = 0; i < tiles->count; i++) {
    char name[ATTUNE_NAME_MAX];
    attune__tile_name(&tiles->tile[i], name);
    attune__text_printf(out, "%s%s", i ? "+" : "", name);
  }
}

attune_status attune__tiles_parse(const char *text, attune__tiles *out) {
  memset(out, 0, sizeof *out);
  for (const char *at = text;; at++) {
    char name[ATTUNE_NAME_MAX];
    size_t length = strcspn(at, "+");
    if (out->count == ATTUNE_MAX_PARTS)
      return attune_fail(ATTUNE_INVALID, "%.80s: more than %d tiles", text, ATTUNE_MAX_PARTS);
    if (length >= sizeof name)
      return attune_fail(ATTUNE_INVALID, "a tile's name of %zu characters", length);
    memcpy(name, at, length);
    name[length] = 0;
    attune_status status = attune__tile_parse(name, &out->tile[out->count++]);
    if (status) return status;
    at += length;
    if (!*at) return ATTUNE_OK;
  }
}

int attune__tiles_same(const attune__tiles *a, const attune__tiles *b) {
  return a->count == b->count && !memcmp(a->tile, b->tile, (size_t)a->count * sizeof *a->tile);
}

/* ---- order ----------------------------------------------------------------------------------- */

static int by_key(const attune__tuned_key *a, const attune__tuned_key *b) {
  int order = strcmp(a->gpu, b->gpu);
  if (!order) order = (a->sms > b->sms) - (a->sms < b->sms);
  if (!order) order = (a->memory_mhz > b->memory_mhz) - (a->memory_mhz < b->memory_mhz);
  if (!order) order = (a->arch > b->arch) - (a->arch < b->arch);
  if (!order) order = (a->abi > b->abi) - (a->abi < b->abi);
  return order ? order : strcmp(a->nvrtc, b->nvrtc);
}

int attune__tuned_key_same(const attune__tuned_key *a, const attune__tuned_key *b) {
  return !by_key(a, b);
}

int attune__tuned_key_before(const attune__tuned_key *a, const attune__tuned_key *b) {
  return by_key(a, b) < 0;
}

static int by_variant(const attune_variant *a, const attune_variant *b) {
  char name_a[ATTUNE_NAME_MAX], name_b[ATTUNE_NAME_MAX];
  attune__variant_name(a, 1, name_a);
  attune__variant_name(b, 1, name_b);
  return strcmp(name_a, name_b);
}

static int by_row(const attune__tuned_row *a, const attune__tuned_row *b) {
  int order = by_key(&a->key, &b->key);
  if (!order) order = by_variant(&a->variant, &b->variant);
  return order ? order : (int)a->cls - (int)b->cls;
}

static int by_mark(const attune__tuned_mark *a, const attune__tuned_mark *b) {
  int order = by_key(&a->key, &b->key);
  if (!order) order = strcmp(a->kernel, b->kernel);
  if (!order) order = strcmp(a->digest, b->digest);
  return order ? order : a->driver - b->driver;
}

/* Measured before provisional, then the later; of one moment the faster. */
static int better(const attune__tuned_row *a, const attune__tuned_row *b) {
  if (a->provisional != b->provisional) return b->provisional;
  int order = strcmp(a->date, b->date);
  return order ? order > 0 : a->time.median < b->time.median;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Where the row is, or would be: the first that is not before it. */
static int row_place(const attune__tuned *t, const attune__tuned_row *row) {
  int low = 0, high = t->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (by_row(&t->row[middle], row) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static int mark_place(const attune__tuned *t, const attune__tuned_mark *mark) {
  int low = 0, high = t->mark_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (by_mark(&t->mark[middle], mark) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Room for one more of `count` items of a list at place `at`; NULL without memory. */
static void *open_place(void *list, int count, int at, size_t size) {
  unsigned char *grown = realloc(list, ((size_t)count + 1) * size);
  if (grown)
    memmove(grown + ((size_t)at + 1) * size, grown + (size_t)at * size,
            (size_t)(count - at) * size);
  return grown;
}

attune_status attune__tuned_put(attune__tuned *t, const attune__tuned_row *row) {
  int at = row_place(t, row);
  if (at < t->count && !by_row(&t->row[at], row)) {
    if (better(row, &t->row[at])) t->row[at] = *row;
    return ATTUNE_OK;
  }
  attune__tuned_row *grown = open_place(t->row, t->count, at, sizeof *grown);
  if (!grown) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %d measured rows", t->count + 1);
  t->row = grown, t->count++;
  grown[at] = *row;
  return ATTUNE_OK;
}

attune_status attune__tuned_put_mark(attune__tuned *t, const attune__tuned_mark *mark) {
  int at = mark_place(t, mark);
  if (at < t->mark_count && !by_mark(&t->mark[at], mark)) {
    if (strcmp(mark->date, t->mark[at].date) >= 0) t->mark[at] = *mark;
    return ATTUNE_OK;
  }
  attune__tuned_mark *grown = open_place(t->mark, t->mark_count, at, sizeof *grown);
  if (!grown) return attune_fail(ATTUNE_NO_MEMORY, "no memory for %d marks", t->mark_count + 1);
  t->mark = grown, t->mark_count++;
  grown[at] = *mark;
  return ATTUNE_OK;
}

attune_status attune__tuned_merge(attune__tuned *into, const attune__tuned *from) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < from->count && !status; i++) status = attune__tuned_put(into, &from->row[i]);
  for (int i = 0; i < from->mark_count && !status; i++)
    status = attune__tuned_put_mark(into, &from->mark[i]);
  return status;
}

attune_status attune__tuned_since(const attune__tuned *from, const char *date,
                                  attune__tuned *into) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < from->count && !status; i++)
    if (strcmp(from->row[i].date, date) >= 0) status = attune__tuned_put(into, &from->row[i]);
  for (int i = 0; i < from->mark_count && !status; i++)
    if (strcmp(from->mark[i].date, date) >= 0)
      status = attune__tuned_put_mark(into, &from->mark[i]);
  return status;
}

void attune__tuned_free(attune__tuned *t) {
  free(t->row);
  free(t->mark);
  memset(t, 0, sizeof *t);
}

const attune__tuned_row *attune__tuned_find(const attune__tuned *t, const attune__tuned_key *key,
                                            const attune_variant *variant, attune_class cls) {
  attune__tuned_row wanted = {.key = *key, .variant = *variant, .cls = cls};
  int at = row_place(t, &wanted);
  return at < t->count && !by_row(&t->row[at], &wanted) ? &t->row[at] : NULL;
}

const attune__tuned_mark *attune__tuned_find_mark(const attune__tuned *t,
                                                  const attune__tuned_key *key, const char *kernel,
                                                  const char *digest, int driver) {
  attune__tuned_mark wanted = {.key = *key, .driver = driver};
  snprintf(wanted.kernel, sizeof wanted.kernel, "%s", kernel);
  snprintf(wanted.digest, sizeof wanted.digest, "%s", digest);
  int at = mark_place(t, &wanted);
  return at < t->mark_count && !by_mark(&t->mark[at], &wanted) ? &t->mark[at] : NULL;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *attune__mark_name(attune__mark_kind kind) {
  static const char *const names[] = {"?", "passed", "wrong", "fault", "hang"};
  return names[kind >= ATTUNE__MARK_PASSED && kind <= ATTUNE__MARK_HANG ? kind : 0];
}

static double faster_by(double slow, double fast) {
  return fast > 0 ? 100 * (slow / fast - 1) : 0;
}

void attune__tuned_gain(const attune__tuned_row *row, double *gain, double *low, double *high) {
  *gain = *low = *high = 0;
  if (attune__tiles_same(&row->tiles, &row->over)) return;
  *gain = faster_by(row->over_time.median, row->time.median);
  *low = faster_by(row->over_time.low, row->time.high);
  *high = faster_by(row->over_time.high, row->time.low);
}
