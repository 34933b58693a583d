/* test_tune_search.c - how good the rule of tune_search.c is, on made-up cost tables.
 *
 * A table gives every legal tile of a variant a time: what the planner estimates, bent by a random
 * factor for each value of each field, by smaller ones for pairs of values, and by a last one for
 * the tile itself. The optimum is found by looking at all of them; the search sees 40, with noise
 * on each. */
#include "../gen/plan.h"
#include "../gen/tune.h"
#include "test.h"

#include <math.h>

enum { TABLES = 200, TRIALS = 40, MOST_TILES = 200000 };
static const double within = 1.02;

/* ---- tables ---------------------------------------------------------------------------------- */

/* Standard deviations of the logarithm. The prototype's tables of knobs spread by 5 to 15 %. */
static const double of_value = 0.05, of_pair = 0.006, of_tile = 0.003, of_sample = 0.004;
static const double trust = 0.7; /* in the planner's estimate */

static uint64_t mix(uint64_t x) {
  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27, x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* About N(0, 1), from what it is for. */
static double normal(uint64_t table, uint64_t what) {
  uint64_t at = mix(table * 0x9e3779b97f4a7c15u + mix(what + 1));
  double sum = 0;
  for (int i = 0; i < 12; i++)
    sum += (double)((at = mix(at + 0x632be59bd9b4e019u)) >> 11) / 9007199254740992.0;
  return sum - 6;
}

static double log_time(uint64_t table, const attune_tile *t, double estimate) {
  uint64_t value[ATTUNE__TILE_persistent + 1], all = 0;
  int fields = 0;
  double sum = trust * log(estimate);
#define X(type, field, letters, def, constant, text)                                               \
  value[fields] = (uint64_t)fields << 32 | t->field, fields++;
  ATTUNE_TILE_FIELDS(X)
#undef X
  for (int i = 0; i < fields; i++) {
    sum += of_value * normal(table, value[i]);
    all = mix(all ^ value[i]);
    for (int k = 0; k < i; k++) sum += of_pair * normal(table, mix(value[i]) ^ value[k]);
  }
  return sum + of_tile * normal(table, all);
}

/* ---- spaces ---------------------------------------------------------------------------------- */

typedef struct space {
  attune_plan plan;
  attune_tile *tile;
  double *estimate;
  int count;
} space;

static double cost_of(const attune_plan *plan, const attune_tile *tile) {
  const attune_variant *v = &plan->request.variant;
  attune_cost cost;
  memset(&cost, 0, sizeof cost);
  attune__model(v->op, v->part, tile->family)
      ->cost(v, tile, plan->request.board, &plan->request.shape, &cost);
  return cost.total;
}

static void add_tile(space *s, const attune_tile *tile) {
  const attune_variant *v = &s->plan.request.variant;
  const attune_model *model = attune__model(v->op, v->part, tile->family);
  char why[ATTUNE_REASON_MAX];
  attune_ledger ledger = {.count = 0};
  if (!attune__tile_legal(model, v, tile, why, sizeof why)) return;
  model->ledger(v, tile, &ledger);
  if (ledger.bytes > attune__plan_budget(&s->plan.request)) return;
  ck_assert_int_lt(s->count, MOST_TILES);
  s->tile[s->count] = *tile;
  s->estimate[s->count++] = cost_of(&s->plan, tile);
}

/* All values of all knobs of a size. */
static void add_knobs(space *s, attune_tile tile) {
  for (int q = 0; q < 2; q++)
    for (int order = 0; order < 16; order++)
      for (int rest = 0; rest < 48; rest++) {
        tile.second_q = (uint8_t)q, tile.order = (uint8_t)order;
        tile.lazy = rest & 1, tile.persistent = rest >> 1 & 1;
        tile.chains = rest >> 2 & 3, tile.turns = (uint8_t)(rest >> 4);
        add_tile(s, &tile);
      }
}

static void open_space(space *s, const char *name) {
  attune_tile ignored;
  int has_tile, is_program;
  attune_plan_request r = {.shape = attune__plan_shape(ATTUNE_CLASS_LONG_MANY)};
  *s = (space){.count = 0};
  ck_assert_int_eq(attune__name_parse(name, &r.variant, &ignored, &has_tile, &is_program), 0);
  if (strstr(name, "sm90a"))
    r.pins.fixed = 1u << ATTUNE__TILE_stages, r.pins.tile.stages = 2; /* the sizes have no other */
  ck_assert_int_eq(attune__plan_make(&r, &s->plan), 0);
  s->tile = calloc(MOST_TILES, sizeof *s->tile);
  s->estimate = calloc(MOST_TILES, sizeof *s->estimate);
  ck_assert(s->tile && s->estimate);
  for (int i = 0; i < s->plan.legal_count; i++) {
    attune_tile size = s->plan.candidates[i].tile;
    size.second_q = size.order = size.turns = size.lazy = size.chains = size.persistent = 0;
    int met = 0;
    for (int k = 0; k < i && !met; k++) {
      attune_tile other = s->plan.candidates[k].tile;
      other.second_q = other.order = other.turns = other.lazy = other.chains = other.persistent = 0;
      met = !memcmp(&other, &size, sizeof size);
    }
    if (!met) add_knobs(s, size);
  }
}

static void close_space(space *s) {
  attune__plan_free(&s->plan);
  free(s->tile), free(s->estimate);
}

static double optimum(const space *s, uint64_t table) {
  double best = INFINITY;
  for (int i = 0; i < s->count; i++)
    best = fmin(best, log_time(table, &s->tile[i], s->estimate[i]));
  return best;
}

/* True time of what the search would choose, over the optimum. */
static double search(const space *s, uint64_t table) {
  attune__search *rule;
  attune__tiles tiles;
  double measured = INFINITY, chosen = INFINITY;
  ck_assert_int_eq(attune__search_open(&s->plan, 1, table, &rule), 0);
  for (int trial = 0; trial < TRIALS && attune__search_next(rule, &tiles); trial++) {
    double real = log_time(table, &tiles.tile[0], cost_of(&s->plan, &tiles.tile[0]));
    double seen = real + of_sample * normal(table, 1000000 + (uint64_t)trial);
    attune__search_tell(rule, &tiles, exp(seen));
    if (seen < measured) measured = seen, chosen = real;
  }
  attune__search_close(rule);
  return exp(chosen - optimum(s, table));
}

/* The bar of the tuner. */
START_TEST(the_rule_finds_a_good_tile) {
  static const char *const names[] = {"attn_fwd_sm90a_bf16_d128_causal", "attn_fwd_sm90a_fp16_d64",
                                      "attn_fwd_sm80_fp16_d128_causal", "attn_fwd_sm80_fp32_d64"};
  enum { NAMES = sizeof names / sizeof *names };
  int found = 0;
  double worst = 1;
  for (int k = 0; k < NAMES; k++) {
    space s;
    open_space(&s, names[k]);
    for (int i = 0; i < TABLES / NAMES; i++) {
      double ratio = search(&s, (uint64_t)k * TABLES + (uint64_t)i + 1);
      found += ratio <= within;
      worst = fmax(worst, ratio);
    }
    close_space(&s);
  }
  ck_assert_msg(found == TABLES, "%d of %d within 2 %%, the worst %.4f", found, TABLES, worst);
}
END_TEST

/* The same seed and the same times: the same tiles, each proposed once. */
START_TEST(a_search_repeats_and_never_proposes_twice) {
  space s;
  attune__search *a, *b;
  attune__tiles first[TRIALS], second;
  open_space(&s, "attn_fwd_sm90a_bf16_d128_causal");
  ck_assert_int_eq(attune__search_open(&s.plan, 1, 7, &a), 0);
  ck_assert_int_eq(attune__search_open(&s.plan, 1, 7, &b), 0);
  for (int i = 0; i < TRIALS; i++) {
    ck_assert(attune__search_next(a, &first[i]) && attune__search_next(b, &second));
    ck_assert(attune__tiles_same(&first[i], &second));
    for (int k = 0; k < i; k++) ck_assert(!attune__tiles_same(&first[i], &first[k]));
    double ms = exp(log_time(3, &first[i].tile[0], cost_of(&s.plan, &first[i].tile[0])));
    attune__search_tell(a, &first[i], i % 5 == 4 ? INFINITY : ms); /* some are of no use */
    attune__search_tell(b, &second, i % 5 == 4 ? INFINITY : ms);
  }
  ck_assert(!memcmp(&first[0].tile[0], &s.plan.candidates[0].tile, sizeof(attune_tile)));
  attune__search_close(a);
  attune__search_close(b);
  close_space(&s);
}
END_TEST

START_TEST(a_small_space_ends) {
  space s;
  attune__search *rule;
  attune__tiles tiles;
  open_space(&s, "attn_fwd_sm80_fp32_d64");
  ck_assert_int_eq(attune__search_open(&s.plan, 1, 7, &rule), 0);
  int proposed = 0;
  while (attune__search_next(rule, &tiles)) {
    ck_assert_int_lt(++proposed, 10000);
    attune__search_tell(rule, &tiles, 1 + cost_of(&s.plan, &tiles.tile[0]));
  }
  ck_assert_int_ge(proposed, s.count); /* every tile of the table had its turn */
  attune__search_close(rule);
  close_space(&s);
}
END_TEST

TEST_MAIN("tune_search", the_rule_finds_a_good_tile, a_search_repeats_and_never_proposes_twice,
          a_small_space_ends)
