/* cases.c - the nasty shapes: what a program is run on, within what its variant claims.
 *
 * Input: the variant, the tiles of its kernels (whose edges matter), pins, the device's SM count.
 * Output: a list of cases, far ones last (a kernel that computes a wrong 64-bit offset takes the
 * device's context down with it). Every case has all of the variant's features in their plainest
 * form; those that are about a feature come from cases_features.c. The numbers are made in
 * verify_data.c.
 *
 * The list is hopper.md section 9's matrix and features-and-conventions.md section 6.3: lengths
 * around tile edges, none, one; both corners; windows; GQA; more blocks than SMs; strides;
 * seqused_k; scales; large scores; NaN where nothing may look. */
#include "cases.h"

#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef attune__case_maker maker;

/* ---- pins ---------------------------------------------------------------------------------- */

static int pinned(const attune_pinset *pins, const char *name, double *value) {
  for (uint32_t i = 0; pins && i < pins->count; i++)
    if (!strcmp(pins->pin[i].name, name)) {
      *value = pins->pin[i].value;
      return 1;
    }
  return 0;
}

static int pinned_int(const attune_pinset *pins, const char *name, int64_t *field) {
  double value;
  if (!pinned(pins, name, &value)) return 0;
  *field = (int64_t)value;
  return 1;
}

/* Where only one head count is pinned the other follows, so that they stay multiples. */
static void pin_heads(const attune_pinset *pins, attune_shape *s) {
  int q = pinned_int(pins, "heads_q", &s->heads_q), kv = pinned_int(pins, "heads_kv", &s->heads_kv);
  if (q && !kv) s->heads_kv = s->heads_q % s->heads_kv ? s->heads_q : s->heads_kv;
  if (kv && !q) s->heads_q = s->heads_kv * 2;
}

static void pin(const attune_pinset *pins, attune__case *c) {
  double value;
  int64_t bottom_right;
  pinned_int(pins, "batch", &c->shape.batch);
  pinned_int(pins, "len_q", &c->shape.len_q);
  pinned_int(pins, "len_k", &c->shape.len_k);
  pinned_int(pins, "window_left", &c->shape.window_left);
  pinned_int(pins, "window_right", &c->shape.window_right);
  pinned_int(pins, "total_q", &c->total_q);
  pinned_int(pins, "total_k", &c->total_k);
  if (pinned(pins, "softcap", &value)) c->softcap = (float)value;
  pin_heads(pins, &c->shape);
  if (pinned(pins, "scale", &value)) c->scale = (float)value, c->default_scale = 0;
  if (pinned_int(pins, "bottom_right", &bottom_right)) {
    c->shape.corner = bottom_right ? ATTUNE_CORNER_BOTTOM_RIGHT : ATTUNE_CORNER_TOP_LEFT;
    c->corner_unset = 0;
  }
}

/* ---- adding -------------------------------------------------------------------------------- */

/* Real data has one shape and scale, and far layouts are made for few rows. */
static int fixed_shape_is_kept(const attune__case *want, const attune__case *have) {
  const attune_shape *a = &want->shape, *b = &have->shape;
  const int real = want->fill == ATTUNE__FILL_REAL;
  if (!real && !attune__case_far(want)) return 1;
  if (want->total_q != have->total_q || want->total_k != have->total_k) return 0;
  if ((real || want->layout == ATTUNE__LAYOUT_FAR_HEAD) &&
      (a->heads_q != b->heads_q || a->heads_kv != b->heads_kv))
    return 0;
  return a->batch == b->batch && a->len_q == b->len_q && a->len_k == b->len_k &&
         want->default_scale == have->default_scale;
}

static int varlen(const maker *m) {
  return (m->request->variant->features & ATTUNE_FEATURE_VARLEN) != 0;
}

/* Packed sequences must find room in a total that is pinned. */
static int totals_suffice(const maker *m, const attune__case *c) {
  const attune_shape *s = &c->shape;
  return !varlen(m) || ((!c->total_q || s->batch * s->len_q <= c->total_q) &&
                        (!c->total_k || s->batch * s->len_k <= c->total_k));
}

/* Heads that share a tile share a key/value head. */
static void pack_heads(const maker *m, attune__case *c) {
  const int group = m->request->variant->group;
  attune_shape *s = &c->shape;
  double pin;
  if (s->heads_q / s->heads_kv % group == 0) return;
  if (pinned(m->request->pins, "heads_q", &pin))
    s->heads_kv = s->heads_q / group;
  else
    s->heads_q = s->heads_kv * group;
}

/* Keys beyond what the program takes are left out; equal lengths stay so. */
static void shorten(const maker *m, attune_shape *s) {
  if (!m->max_len_k || s->len_k <= m->max_len_k) return;
  if (s->len_q == s->len_k) s->len_q = m->max_len_k;
  s->len_k = m->max_len_k;
}

void attune__case_add(maker *m, attune__case wanted) {
  attune__case_list *list = m->list;
  attune__case c = wanted;
  if (m->request->quick && !c.quick) return;
  shorten(m, &c.shape);
  pin(m->request->pins, &c);
  pack_heads(m, &c);
  if (!fixed_shape_is_kept(&wanted, &c) || !totals_suffice(m, &c)) return;
  if (list->count == list->capacity) {
    int capacity = list->capacity ? 2 * list->capacity : 64;
    attune__case *item = realloc(list->item, (size_t)capacity * sizeof *item);
    if (!item) {
      list->failed = 1;
      return;
    }
    list->item = item, list->capacity = capacity;
  }
  list->item[list->count++] = c;
}

/* With both corners where that makes a difference. */
void attune__case_add_corners(maker *m, attune__case c) {
  attune__case_add(m, c);
  if (!m->corners || (c.shape.len_q == c.shape.len_k && c.used_q == ATTUNE__USED_NULL &&
                      c.used_k == ATTUNE__USED_NULL && c.lengths == ATTUNE__LENGTHS_EQUAL))
    return;
  c.shape.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  attune__case_add(m, c);
}

attune__case attune__case_lengths(const maker *m, int64_t len_q, int64_t len_k) {
  attune__case c = m->base;
  c.shape.len_q = len_q, c.shape.len_k = len_k;
  return c;
}

attune__case attune__case_heads(attune__case c, int64_t batch, int64_t heads_q, int64_t heads_kv) {
  c.shape.batch = batch, c.shape.heads_q = heads_q, c.shape.heads_kv = heads_kv;
  return c;
}

/* ---- the groups ---------------------------------------------------------------------------- */

static void add_tile_edges(maker *m, int64_t bm, int64_t bn) {
  attune__case_add(m, attune__case_lengths(m, 1, 1));
  attune__case_add(m, attune__case_lengths(m, bm - 1, bn - 1));
  attune__case_add(m, attune__case_lengths(m, bm, bn));
  attune__case_add(m, attune__case_lengths(m, bm / 2 + 1, bn + bn / 2));
  attune__case_add_corners(m, attune__case_lengths(m, bm + 1, bn + 1));
  attune__case_add_corners(m, attune__case_lengths(m, 1, 2 * bn + 1));
  attune__case_add_corners(m, attune__case_lengths(m, 2 * bm + 1, 1));
  attune__case several = attune__case_lengths(m, bm + 1, 3 * bn + 1);
  several.quick = 1;
  attune__case_add_corners(m, several);
  attune__case_add_corners(m, attune__case_lengths(m, 2 * bm + bn + 1, bn - 1));
}

static void add_edges(maker *m) {
  for (int i = 0; i < m->request->tile_count; i++) {
    const attune_tile *tile = &m->request->tiles[i];
    int seen = tile->block_n == 0; /* a part without keys has no edge of its own */
    for (int j = 0; j < i; j++)
      seen |= m->request->tiles[j].block_m == tile->block_m &&
              m->request->tiles[j].block_n == tile->block_n;
    /* A tile's rows are of all the heads of a group. */
    int64_t queries = tile->block_m / m->request->variant->group;
    if (!seen) add_tile_edges(m, queries > 1 ? queries : 1, tile->block_n);
  }
}

static void add_lengths(maker *m) {
  attune__case none = attune__case_lengths(m, m->big.block_m + 1, 0);
  none.quick = 1;
  attune__case_add(m, none);
  attune__case_add(m, attune__case_lengths(m, 0, m->big.block_n + 1));
  attune__case_add(m, attune__case_lengths(m, 0, 0));
  attune__case_add(m, attune__case_heads(attune__case_lengths(m, 5, 7), 0, 4, 2));
  attune__case_add_corners(m, attune__case_heads(attune__case_lengths(m, 1025, 1025), 1, 2, 1));
}

static void add_windows(maker *m) {
  static const int windows[][2] = {{0, 0},  {128, 0}, {0, 5},     {17, -1},
                                   {-1, 9}, {-1, -1}, {1000, 700}};
  if (!attune__mask_has_lower(m->request->variant->mask)) return;
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    attune__case c = attune__case_lengths(m, m->big.block_m + 1, 3 * m->big.block_n + 1);
    c.shape.window_left = windows[i][0], c.shape.window_right = windows[i][1];
    c.quick = i == 0 || i == 3;
    attune__case_add_corners(m, c);
    c.shape.len_q = c.shape.len_k = m->big.block_m + m->big.block_n + 3;
    attune__case_add(m, c);
    c.shape.len_q = 2 * m->big.block_m + 7, c.shape.len_k = m->big.block_n + 1;
    attune__case_add_corners(m, c);
  }
}

static void add_heads(maker *m) {
  attune__case c = attune__case_lengths(m, m->big.block_m / 2 + 3, m->big.block_n + 3);
  attune__case_add(m, attune__case_heads(c, 3, 4, 4));
  attune__case_add(m, attune__case_heads(c, 2, 8, 1));
  /* Blocks for each SM to run several, even with a few resident at once. */
  attune__case_add(m, attune__case_heads(attune__case_lengths(m, 33, m->big.block_n + 1),
                                         m->request->sm_count / 6 + 2, 24, 3));
  c.quick = 1;
  attune__case_add(m, attune__case_heads(c, 2, 6, 2));
}

static void add_layouts(maker *m) {
  attune__case c = attune__case_lengths(m, m->big.block_m + 5, m->big.block_n + 9);
  c.layout = ATTUNE__LAYOUT_BHSD;
  attune__case_add(m, c);
  c.layout = ATTUNE__LAYOUT_GAPPED, c.lse = ATTUNE__LSE_STRIDED, c.quick = 1;
  attune__case_add(m, c);
  c.layout = ATTUNE__LAYOUT_BROADCAST, c.lse = ATTUNE__LSE_NULL, c.quick = 0;
  c.bits_over = ATTUNE__OVER_BATCH | ATTUNE__OVER_HEADS; /* shared keys have bits or have none */
  attune__case_add(m, attune__case_heads(c, 3, 4, 2));
  c.bits_over = 0;
  if (m->request->variant->align != ATTUNE_ALIGN_ELEM) return;
  c.layout = ATTUNE__LAYOUT_ODD, c.lse = ATTUNE__LSE_STRIDED, c.quick = 1;
  attune__case_add(m, c);
}

static void add_used(maker *m) {
  const attune_shape *base = &m->base.shape;
  attune__case c =
      attune__case_heads(attune__case_lengths(m, m->big.block_m + 3, 2 * m->big.block_n + 3), 5,
                         base->heads_q, base->heads_kv);
  c.used_k = ATTUNE__USED_MIXED, c.quick = 1;
  attune__case_add_corners(m, c);
  c.fill = ATTUNE__FILL_LOUD, c.quick = 0;
  attune__case_add_corners(m, c);
  c.fill = ATTUNE__FILL_NORMAL, c.layout = ATTUNE__LAYOUT_GAPPED;
  attune__case_add_corners(m, c);
  c.layout = ATTUNE__LAYOUT_BSHD, c.shape.batch = 2, c.used_k = ATTUNE__USED_FULL;
  attune__case_add_corners(m, c);
}

static void add_scales(maker *m) {
  /* The last one is subnormal. */
  static const float scales[] = {0, -0.375f, 1e-12f, 0x1p-130f};
  for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
    attune__case c = attune__case_lengths(m, 19, m->big.block_n + 2);
    c.default_scale = 0, c.scale = scales[i], c.quick = i == 1;
    attune__case_add(m, c);
  }
}

static void add_values(maker *m) {
  /* Scores so far apart that maxima rise from tile to tile. Both corners: a causal row from the top
   * left sees only one tile of so short sequences. */
  attune__case c = attune__case_lengths(m, m->big.block_m + 2, 3 * m->big.block_n + 2);
  c.fill = ATTUNE__FILL_WIDE, c.quick = 1;
  attune__case_add_corners(m, c);
  c.shape.len_k = 2 * m->big.block_n + 2;
  c.fill = ATTUNE__FILL_HUGE, c.default_scale = 0, c.scale = 1, c.quick = 1;
  attune__case_add(m, c);
  c.scale = -1, c.quick = 0;
  attune__case_add(m, c);
  if (!m->masked) return;
  c = attune__case_lengths(m, m->big.block_m + 2, m->big.block_m + 2);
  c.fill = ATTUNE__FILL_NAN_KEY, c.quick = 1;
  attune__case_add(m, c);
}

/* The call names no corner: legal on equal lengths, and everywhere when the set's spec named one.
 */
static void add_unset_corner(maker *m) {
  if (!m->corners || (varlen(m) && !m->request->corner)) return;
  attune__case c = attune__case_lengths(m, m->big.block_m + 1, m->big.block_m + 1);
  c.corner_unset = 1;
  if (m->request->corner) c.shape.corner = m->request->corner;
  attune__case_add(m, c);
  c.shape.len_k = 2 * m->big.block_n + 1;
  if (m->request->corner) attune__case_add(m, c);
}

static void add_real(maker *m) {
  if (!attune__real_fits(m->request->variant)) return;
  attune__case c = attune__case_heads(attune__case_lengths(m, ATTUNE__REAL_SEQ, ATTUNE__REAL_SEQ),
                                      ATTUNE__REAL_BATCH, ATTUNE__REAL_HEADS, ATTUNE__REAL_HEADS);
  c.fill = ATTUNE__FILL_REAL, c.quick = 1;
  if (varlen(m))
    c.lengths = ATTUNE__LENGTHS_REAL;
  else
    c.used_k = ATTUNE__USED_REAL;
  for (c.layer = 0; c.layer < ATTUNE__REAL_LAYERS; c.layer++) attune__case_add(m, c);
}

/* Packed, the rows of a sequence or the sequences are far from each other. */
static void add_far(maker *m) {
  const int group = m->request->variant->group;
  attune__case c = attune__case_lengths(m, 3, 3);
  c.layout = ATTUNE__LAYOUT_FAR_SEQ;
  if (varlen(m)) {
    attune__case_add(m, attune__case_heads(c, 1, 2, 2));
    c.shape.len_q = c.shape.len_k = 1;
    attune__case_add(m, attune__case_heads(c, 3, 2, 2));
  } else {
    attune__case_add(m, c);
  }
  c = attune__case_lengths(m, 5, 9);
  c.layout = ATTUNE__LAYOUT_FAR_BATCH;
  if (!varlen(m)) attune__case_add(m, attune__case_heads(c, 3, 4, 2));
  c.layout = ATTUNE__LAYOUT_FAR_HEAD;
  if (group == 1) attune__case_add(m, attune__case_heads(c, 2, 3, 3));
  if (group == 2) attune__case_add(m, attune__case_heads(c, 2, 4, 2));
  if (group > 2) attune__case_add(m, attune__case_heads(c, 2, group, 1));
}

static maker maker_of(const attune__case_request *request, attune__case_list *list) {
  maker m = {.request = request, .list = list};
  for (int i = 0; i < request->tile_count; i++) {
    const attune_tile *tile = &request->tiles[i];
    if (tile->block_n && tile->block_m > m.big.block_m) m.big.block_m = tile->block_m;
    if (tile->block_n > m.big.block_n) m.big.block_n = tile->block_n;
    attune__limit_len_k(&m.max_len_k, tile);
  }
  int mask = request->variant->mask, windowed = attune__mask_has_lower(mask);
  m.corners = m.masked = windowed || attune__mask_has_upper(mask);
  m.corners |= (request->variant->features & ATTUNE_FEATURE_ALIBI) != 0;
  m.masked |= (request->variant->features & ATTUNE_FEATURE_BITMASK) != 0;
  m.base.shape = (attune_shape){.batch = request->small ? 1 : 2,
                                .heads_q = request->small ? 2 : 4,
                                .heads_kv = request->small ? 1 : 2,
                                .window_left = windowed ? 20 : -1,
                                .window_right = windowed ? 6 : -1,
                                .corner = ATTUNE_CORNER_TOP_LEFT};
  m.base.default_scale = 1;
  m.base.softcap = 15;
  m.base.classes = 1;
  return m;
}

attune_status attune__cases_make(const attune__case_request *request, attune__case_list *out) {
  *out = (attune__case_list){0};
  maker m = maker_of(request, out);
  add_edges(&m);
  add_lengths(&m);
  add_windows(&m);
  add_heads(&m);
  add_layouts(&m);
  add_used(&m);
  attune__case_add_features(&m);
  add_scales(&m);
  add_values(&m);
  add_unset_corner(&m);
  add_real(&m);
  add_far(&m);
  if (!out->failed) return ATTUNE_OK;
  free(out->item);
  *out = (attune__case_list){0};
  return attune_fail(ATTUNE_NO_MEMORY, "no memory for the list of cases");
}

int attune__case_far(const attune__case *c) {
  return c->layout >= ATTUNE__LAYOUT_FAR_BATCH;
}
