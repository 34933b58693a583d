/* cases_features.c - the cases that a variant's features ask for, beside those of cases.c, which
 * have each feature in its plainest form.
 *
 * Input: the maker that cases.c filled. Output: more cases in its list; none for a feature that the
 * variant lacks. */
#include "cases.h"

static int has(const attune__case_maker *m, uint32_t feature) {
  return (m->request->variant->features & feature) != 0;
}

/* A tile and a bit of queries and of keys; two tiles of keys where time is no matter. */
static attune__case several(const attune__case_maker *m) {
  const int64_t tiles = m->request->small ? 1 : 2;
  return attune__case_lengths(m, m->big.block_m + 3, tiles * m->big.block_n + 5);
}

/* Scores far over the cap, at it and far below. */
static void add_softcaps(attune__case_maker *m) {
  static const float caps[] = {0.5f, 50, 15};
  if (!has(m, ATTUNE_FEATURE_SOFTCAP)) return;
  for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
    attune__case c = several(m);
    c.softcap = caps[i], c.quick = i == 0;
    attune__case_add(m, c);
    c.fill = ATTUNE__FILL_WIDE, c.quick = 0;
    attune__case_add(m, c);
    c.fill = ATTUNE__FILL_HUGE, c.default_scale = 0, c.scale = i == 1 ? -1 : 1, c.quick = i == 1;
    attune__case_add(m, c);
  }
}

static void add_slopes(attune__case_maker *m) {
  if (!has(m, ATTUNE_FEATURE_ALIBI)) return;
  attune__case c = several(m);
  c.slopes = ATTUNE__SLOPES_BATCH, c.shape.batch = 2, c.quick = 1;
  attune__case_add_corners(m, c);
  c.quick = 0;
  attune__case_add(m, attune__case_heads(c, 3, 6, 2));
  c.used_k = ATTUNE__USED_MIXED;
  attune__case_add_corners(m, attune__case_heads(c, 5, 4, 2));
}

/* Every set of axes that a bias may be the same along; two of them are what callers have: a bias
 * for each head, and one for each key of a sequence. */
static void add_biases(attune__case_maker *m) {
  enum {
    EVERY = 16,
    PER_HEAD = ATTUNE__OVER_BATCH,
    PADDING = ATTUNE__OVER_HEADS | ATTUNE__OVER_QUERIES
  };
  if (!has(m, ATTUNE_FEATURE_BIAS)) return;
  for (int over = 0; over < EVERY; over++) {
    attune__case c = attune__case_lengths(m, 21, m->big.block_n + 5);
    c.bias_over = over, c.shape.batch = 2, c.quick = over == PER_HEAD || over == PADDING;
    c.layout = over % 2 ? ATTUNE__LAYOUT_GAPPED : ATTUNE__LAYOUT_BSHD;
    attune__case_add(m, c);
  }
  attune__case c = several(m);
  c.bias = ATTUNE__BIAS_INF, c.quick = 1;
  attune__case_add(m, c);
  c.bias = ATTUNE__BIAS_LOWEST;
  attune__case_add(m, c);
  c.layout = ATTUNE__LAYOUT_GAPPED, c.fill = ATTUNE__FILL_LOUD, c.quick = 0;
  attune__case_add(m, c);
}

/* Rows that see keys and rows that see none. */
static void add_sinks(attune__case_maker *m) {
  if (!has(m, ATTUNE_FEATURE_SINK)) return;
  attune__case c = attune__case_heads(several(m), 2, 4, 2);
  c.sinks = ATTUNE__SINKS_MIXED, c.quick = 1;
  attune__case_add(m, c);
  c.used_k = ATTUNE__USED_MIXED, c.quick = 0;
  attune__case_add_corners(m, attune__case_heads(c, 5, 4, 4));
  c.used_k = ATTUNE__USED_NULL, c.fill = ATTUNE__FILL_HUGE, c.default_scale = 0, c.scale = 1;
  attune__case_add(m, c);
}

/* Lengths of several blocks of classes, whatever the tile. */
static void add_bits(attune__case_maker *m) {
  if (!has(m, ATTUNE_FEATURE_BITMASK)) return;
  for (int over = 0; over < 8; over++) {
    attune__case c =
        attune__case_lengths(m, 2 * ATTUNE_BITMASK_BLOCK + 5, 3 * ATTUNE_BITMASK_BLOCK + 9);
    c.bits = ATTUNE__BITS_BLOCKS, c.bits_over = over, c.shape.batch = 2, c.quick = over == 0;
    attune__case_add_corners(m, c);
    c.classes = 0, c.quick = over == ATTUNE__OVER_HEADS;
    attune__case_add(m, c);
  }
  attune__case c = several(m);
  c.bits = ATTUNE__BITS_NONE;
  attune__case_add(m, c);
  c.classes = 0;
  attune__case_add(m, c);
  c.bits = ATTUNE__BITS_RANDOM, c.layout = ATTUNE__LAYOUT_GAPPED, c.quick = 1;
  attune__case_add(m, c);
  c.fill = ATTUNE__FILL_LOUD, c.quick = 0;
  attune__case_add(m, c);
}

/* Sequences of every length in one call, next to each other; behind the last one NaN. */
static void add_packed(attune__case_maker *m) {
  if (!has(m, ATTUNE_FEATURE_VARLEN)) return;
  attune__case c = several(m);
  c.lengths = ATTUNE__LENGTHS_MIXED, c.shape.batch = 7, c.quick = 1;
  attune__case_add_corners(m, c);
  c.slack = 6, c.fill = ATTUNE__FILL_NAN_NEIGHBOURS, c.lse = ATTUNE__LSE_STRIDED;
  attune__case_add_corners(m, c);
  c.fill = ATTUNE__FILL_NORMAL, c.used_q = c.used_k = ATTUNE__USED_MIXED;
  attune__case_add_corners(m, c);
  c.fill = ATTUNE__FILL_LOUD, c.layout = ATTUNE__LAYOUT_GAPPED, c.quick = 0;
  attune__case_add_corners(m, c);
  c.fill = ATTUNE__FILL_NORMAL, c.layout = ATTUNE__LAYOUT_BHSD, c.shape.batch = 33;
  attune__case_add_corners(m, c);
}

/* Rows of Q out of use, with and without keys out of use. */
static void add_used_queries(attune__case_maker *m) {
  if (m->request->variant->op != ATTUNE_OP_ATTN_FWD) return; /* attn_standard computes every row */
  attune__case c = several(m);
  /* The first three sequences use about half, all but one and all. */
  c.used_q = ATTUNE__USED_MIXED, c.shape.batch = m->request->small ? 3 : 5, c.quick = 1;
  attune__case_add_corners(m, c);
  c.shape.batch = 5, c.used_k = ATTUNE__USED_MIXED, c.lse = ATTUNE__LSE_STRIDED, c.quick = 0;
  attune__case_add_corners(m, c);
  c.layout = ATTUNE__LAYOUT_GAPPED, c.fill = ATTUNE__FILL_LOUD;
  attune__case_add_corners(m, c);
}

/* Several groups to a key/value head; one query, whose group is the tile's rows. */
static void add_groups(attune__case_maker *m) {
  const int group = m->request->variant->group;
  if (group == 1) return;
  attune__case c = attune__case_heads(several(m), 2, 4 * group, 2);
  attune__case_add_corners(m, c);
  c.shape.len_q = 1;
  attune__case_add_corners(m, c);
  c.shape.len_q = m->big.block_m / group + 1, c.layout = ATTUNE__LAYOUT_GAPPED;
  c.used_q = c.used_k = ATTUNE__USED_MIXED, c.quick = 1;
  attune__case_add_corners(m, attune__case_heads(c, 5, 2 * group, 1));
}

void attune__case_add_features(attune__case_maker *m) {
  add_softcaps(m);
  add_slopes(m);
  add_biases(m);
  add_sinks(m);
  add_bits(m);
  add_packed(m);
  add_used_queries(m);
  add_groups(m);
}
