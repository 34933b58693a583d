/* tune_search.c - the rule: which tiles are tried next. Change it here; tests/test_tune_search.c
 * says how good it is.
 *
 * First the planner's first choice, then what the caller suggests, then the planner's next choices
 * in its order. Then neighbours of the best so far: another size with the same knobs, or one or two
 * fields changed. What was timed is remembered as a number for each value of each field: the
 * logarithm of a time is the planner's estimate plus the numbers of its values. They are fit to all
 * times so far (least squares, held near 0: ridge), and the neighbour with the lowest hopeful
 * estimate is next, or a neighbour of that with a lower one: what the fit says less what it does
 * not know. A value that was never tried is unknown, so each gets its turn where the others promise
 * little. */
#include "tune.h"

#include "cases.h" /* attune__draw */

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  FIRST = 3,         /* of the planner's sizes, before any neighbour; of each part */
  PAIRS = 100,       /* neighbours with two changes that are looked at a turn */
  CLIMBS = 4,        /* neighbours of the neighbour that promises most, and of theirs */
  MOST_VALUES = 160, /* of all fields that were met */
  MOST_POOL = 1024,
  MOST_KNOB = 16 /* a knob's values are below it; which exist the model says */
};

/* Standard deviations: of a value's number, of the doubt in the planner's estimate, of a time that
 * the numbers do not explain; and how many of what is not known to hope for. Chosen on the tables
 * of tests/test_tune_search.c. */
static const double value_spread = 0.06, doubt_spread = 0.2, time_noise = 0.015, hope = 1.75;
static const double of_failure = 0.1; /* by which a tile that fails is slower, to the fit */

/* One that was proposed or told. */
typedef struct known {
  attune__tiles tiles;
  double time; /* log of milliseconds; NaN: none (yet) */
  int failed;  /* 1: it cannot be used */
} known;

typedef struct value {
  int part, field, value;
} value;

struct attune__search {
  const attune_plan *plans;
  int parts;
  uint64_t random;
  known *list;
  int count, capacity;
  attune__tiles suggested[ATTUNE__SEARCH_SUGGESTED];
  int suggestions;
  int looked[ATTUNE_MAX_PARTS];  /* candidates of the part that were looked at, in order */
  int planned[ATTUNE_MAX_PARTS]; /* and those that had their turn */
  value values[MOST_VALUES];
  int value_count;
  /* The fit: lower triangle of the factor of (X'X + ridge), and the numbers. */
  double factor[MOST_VALUES][MOST_VALUES], number[MOST_VALUES];
  double middle, level; /* means of the estimates, and of what they leave of the times */
};

/* ---- tiles ----------------------------------------------------------------------------------- */

static const attune_model *model_of(const attune_plan *plan, const attune_tile *tile) {
  const attune_variant *v = &plan->request.variant;
  return attune__model(v->op, v->part, tile->family);
}

/* As the planner judges its own candidates; the knobs too. */
static int tile_legal(const attune_plan *plan, const attune_tile *tile) {
  const attune_variant *v = &plan->request.variant;
  const attune_model *model = model_of(plan, tile);
  char reason[ATTUNE_REASON_MAX];
  attune_ledger ledger = {.count = 0};
  if (!attune__tile_legal(model, v, tile, reason, sizeof reason)) return 0;
  if (!attune__tile_matches(&plan->request.pins, model->derived, tile)) return 0;
  model->ledger(v, tile, &ledger);
  return ledger.bytes <= attune__plan_budget(&plan->request);
}

/* The planner's estimate, its logarithm: of all parts together. */
static double estimate(const attune__search *s, const attune__tiles *tiles) {
  double clocks = 0;
  for (int part = 0; part < s->parts; part++) {
    const attune_plan *plan = &s->plans[part];
    attune_cost cost;
    memset(&cost, 0, sizeof cost);
    model_of(plan, &tiles->tile[part])
        ->cost(&plan->request.variant, &tiles->tile[part], plan->request.board,
               &plan->request.shape, &cost);
    clocks += cost.total;
  }
  return log(clocks > 1 ? clocks : 1);
}

static known *find(const attune__search *s, const attune__tiles *tiles) {
  for (int i = 0; i < s->count; i++)
    if (attune__tiles_same(&s->list[i].tiles, tiles)) return &s->list[i];
  return NULL;
}

static known *remember(attune__search *s, const attune__tiles *tiles) {
  known *old = find(s, tiles);
  if (old) return old;
  if (s->count == s->capacity) {
    int capacity = s->capacity ? 2 * s->capacity : 64;
    known *grown = realloc(s->list, (size_t)capacity * sizeof *grown);
    if (!grown) return NULL;
    s->list = grown, s->capacity = capacity;
  }
  known *fresh = s->list ? &s->list[s->count++] : NULL;
  if (fresh) *fresh = (known){*tiles, (double)NAN, 0};
  return fresh;
}

static attune__tiles first_choice(const attune__search *s) {
  attune__tiles tiles = {.count = s->parts};
  for (int part = 0; part < s->parts; part++) tiles.tile[part] = s->plans[part].candidates[0].tile;
  return tiles;
}

static const known *best_of(const attune__search *s) {
  const known *best = NULL;
  for (int i = 0; i < s->count; i++)
    if (!isnan(s->list[i].time) && (!best || s->list[i].time < best->time)) best = &s->list[i];
  return best;
}

/* ---- the fit --------------------------------------------------------------------------------- */

/* Place of a value among those met; a new one gets a place when `add`. -1: none. */
static int value_place(attune__search *s, int part, int field, int number, int add) {
  for (int i = 1; i < s->value_count; i++) {
    const value *v = &s->values[i];
    if (v->part == part && v->field == field && v->value == number) return i;
  }
  if (!add || s->value_count == MOST_VALUES) return -1;
  s->values[s->value_count] = (value){part, field, number};
  return s->value_count++;
}

enum { FIELDS = 16, MOST_ACTIVE = FIELDS * ATTUNE_MAX_PARTS };

/* A tile as the fit sees it: the numbers that it adds up, each with its amount. Number 0 is the
 * doubt in the planner: a part of its estimate, taken off or added. */
typedef struct sight {
  int place[MOST_ACTIVE + 1];
  double amount[MOST_ACTIVE + 1], estimate;
  int count, unmet; /* values without a number: as good as never met */
} sight;

static void see_value(attune__search *s, sight *x, int part, int field, int number, int add) {
  int place = value_place(s, part, field, number, add);
  x->unmet += place < 0;
  if (place < 0) return;
  x->place[x->count] = place, x->amount[x->count++] = 1;
}

static sight see(attune__search *s, const attune__tiles *tiles, int add) {
  sight x = {.estimate = estimate(s, tiles), .count = 1};
  x.amount[0] = (x.estimate - s->middle) * doubt_spread / value_spread;
  for (int part = 0; part < s->parts; part++) {
    const attune_tile *t = &tiles->tile[part];
    int field = 0;
#define X(type, name, letters, def, constant, text) see_value(s, &x, part, field++, t->name, add);
    ATTUNE_TILE_FIELDS(X)
#undef X
    see_value(s, &x, part, field, t->family, add);
  }
  return x;
}

/* Cholesky: factor <- L with L L' = factor, in place. The ridge keeps it positive. */
static void factorise(attune__search *s) {
  for (int i = 0; i < s->value_count; i++)
    for (int j = 0; j <= i; j++) {
      double sum = s->factor[i][j];
      for (int k = 0; k < j; k++) sum -= s->factor[i][k] * s->factor[j][k];
      s->factor[i][j] = i == j ? sqrt(sum) : sum / s->factor[j][j];
    }
}

static void solve_lower(const attune__search *s, double *x) {
  for (int i = 0; i < s->value_count; i++) {
    for (int k = 0; k < i; k++) x[i] -= s->factor[i][k] * x[k];
    x[i] /= s->factor[i][i];
  }
}

static void solve_upper(const attune__search *s, double *x) {
  for (int i = s->value_count; i-- > 0;) {
    for (int k = i + 1; k < s->value_count; k++) x[i] -= s->factor[k][i] * x[k];
    x[i] /= s->factor[i][i];
  }
}

/* Means over what was timed: of the estimates, and of what they leave. */
static void centre(attune__search *s) {
  int timed = 0;
  s->middle = s->level = 0;
  for (int i = 0; i < s->count; i++) {
    if (isnan(s->list[i].time)) continue;
    double expected = estimate(s, &s->list[i].tiles);
    s->middle += expected, s->level += s->list[i].time - expected, timed++;
  }
  if (timed) s->middle /= timed, s->level /= timed;
}

/* What the fit takes for a time: of a tile that cannot be used one that is much slower than was
 * expected, so that its values are avoided. NaN: none. */
static double fitted(const attune__search *s, const known *k) {
  return k->failed ? estimate(s, &k->tiles) + s->level + of_failure : k->time;
}

static void fit(attune__search *s) {
  centre(s);
  for (int i = 0; i < s->count; i++)
    if (!isnan(fitted(s, &s->list[i]))) see(s, &s->list[i].tiles, 1);
  memset(s->factor, 0, sizeof s->factor);
  memset(s->number, 0, sizeof s->number);
  for (int i = 0; i < s->value_count; i++)
    s->factor[i][i] = time_noise * time_noise / (value_spread * value_spread);
  for (int i = 0; i < s->count; i++) {
    double time = fitted(s, &s->list[i]);
    if (isnan(time)) continue;
    sight x = see(s, &s->list[i].tiles, 0);
    double left = time - x.estimate - s->level;
    for (int a = 0; a < x.count; a++) {
      s->number[x.place[a]] += x.amount[a] * left;
      for (int b = 0; b < x.count; b++)
        s->factor[x.place[a]][x.place[b]] += x.amount[a] * x.amount[b];
    }
  }
  factorise(s);
  solve_lower(s, s->number);
  solve_upper(s, s->number);
}

/* What the fit says of the logarithm of a time, less what it does not know. */
static double hopeful(attune__search *s, const attune__tiles *tiles) {
  double row[MOST_VALUES] = {0}, unknown = 0;
  sight x = see(s, tiles, 0);
  double expected = x.estimate + s->level;
  for (int i = 0; i < x.count; i++) {
    expected += x.amount[i] * s->number[x.place[i]];
    row[x.place[i]] += x.amount[i];
  }
  solve_lower(s, row);
  for (int i = 0; i < s->value_count; i++) unknown += row[i] * row[i];
  unknown = time_noise * time_noise * unknown + x.unmet * value_spread * value_spread;
  return expected - hope * sqrt(unknown);
}

/* ---- neighbours ------------------------------------------------------------------------------ */

typedef struct pool {
  attune__tiles item[MOST_POOL];
  int count;
} pool;

static void add(const attune__search *s, pool *p, const attune__tiles *tiles, int part) {
  if (p->count == MOST_POOL || find(s, tiles)) return;
  for (int i = 0; i < p->count; i++)
    if (attune__tiles_same(&p->item[i], tiles)) return;
  if (tile_legal(&s->plans[part], &tiles->tile[part])) p->item[p->count++] = *tiles;
}

/* Takes over the knobs that the other family has, too. */
static void copy_knobs(const attune_plan *plan, const attune_tile *from, attune_tile *to) {
  const attune_model *model = model_of(plan, to);
#define X(type, field, letters, def, constant, text)                                               \
  if (ATTUNE_TILE_KNOBS >> ATTUNE__TILE_##field & 1 &&                                             \
      attune__model_has(model, ATTUNE__TILE_##field))                                              \
    to->field = from->field;
  ATTUNE_TILE_FIELDS(X)
#undef X
}

/* The planner's sizes, as it has them and with the knobs of `base`. */
static void add_sizes(const attune__search *s, pool *p, const attune__tiles *base, int part) {
  const attune_plan *plan = &s->plans[part];
  for (int i = 0; i < plan->legal_count; i++) {
    attune__tiles next = *base;
    next.tile[part] = plan->candidates[i].tile;
    if (plan->candidates[i].tile.family == base->tile[part].family)
      copy_knobs(plan, &base->tile[part], &next.tile[part]);
    add(s, p, &next, part);
    next.tile[part] = plan->candidates[i].tile;
    add(s, p, &next, part);
  }
}

/* Every value of every knob, and the number of stages. */
static void add_steps(const attune__search *s, pool *p, const attune__tiles *base, int part) {
#define X(type, field, letters, def, constant, text)                                               \
  for (int number = 0; number < MOST_KNOB && (ATTUNE_TILE_KNOBS >> ATTUNE__TILE_##field & 1 ||     \
                                              ATTUNE__TILE_##field == ATTUNE__TILE_stages);        \
       number++) {                                                                                 \
    attune__tiles next = *base;                                                                    \
    next.tile[part].field = (type)number;                                                          \
    add(s, p, &next, part);                                                                        \
  }
  ATTUNE_TILE_FIELDS(X)
#undef X
}

/* One change at each of two neighbours that lie in the pool by chance. */
static void add_pairs(attune__search *s, pool *p, const attune__tiles *base) {
  int ones = p->count;
  for (int i = 0; i < PAIRS && ones > 1; i++) {
    const attune__tiles *a = &p->item[attune__draw(&s->random) % (uint64_t)ones];
    const attune__tiles *b = &p->item[attune__draw(&s->random) % (uint64_t)ones];
    for (int part = 0; part < s->parts; part++) {
      attune__tiles next = *a;
      if (a->tile[part].family != b->tile[part].family) continue;
#define X(type, field, letters, def, constant, text)                                               \
  if (b->tile[part].field != base->tile[part].field) next.tile[part].field = b->tile[part].field;
      ATTUNE_TILE_FIELDS(X)
#undef X
      add(s, p, &next, part);
    }
  }
}

static void add_neighbours(const attune__search *s, pool *p, const attune__tiles *base) {
  for (int part = 0; part < s->parts; part++) {
    add_sizes(s, p, base, part);
    add_steps(s, p, base, part);
  }
}

/* Takes what promises more than `least`; returns 1 when something does. */
static int take_hopeful(attune__search *s, const pool *p, double *least, attune__tiles *out) {
  int found = 0;
  for (int i = 0; i < p->count; i++) {
    double hoped = hopeful(s, &p->item[i]);
    if (hoped < *least) *least = hoped, *out = p->item[i], found = 1;
  }
  return found;
}

static int next_neighbour(attune__search *s, attune__tiles *out) {
  const known *best = best_of(s);
  const attune__tiles base = best ? best->tiles : first_choice(s);
  double least = INFINITY;
  pool *p = calloc(1, sizeof *p);
  if (!p) return 0;
  add_neighbours(s, p, &base);
  add_pairs(s, p, &base);
  fit(s);
  int found = take_hopeful(s, p, &least, out), moved = found;
  for (int climb = 0; climb < CLIMBS && moved; climb++) {
    const attune__tiles from = *out;
    p->count = 0;
    add_neighbours(s, p, &from);
    moved = take_hopeful(s, p, &least, out);
  }
  free(p);
  return found;
}

static int is_legal(const attune__search *s, const attune__tiles *tiles) {
  int legal = tiles->count == s->parts;
  for (int part = 0; part < s->parts && legal; part++)
    legal = tile_legal(&s->plans[part], &tiles->tile[part]);
  return legal;
}

static int next_suggested(const attune__search *s, attune__tiles *out) {
  for (int i = 0; i < s->suggestions; i++) {
    *out = s->suggested[i];
    if (!find(s, out) && is_legal(s, out)) return 1;
  }
  return 0;
}

/* 1 when a better candidate differs from it in knobs alone: those are left to the neighbours. */
static int is_repeat(const attune_plan *plan, int at) {
  for (int i = 0; i < at; i++) {
    attune_tile other = plan->candidates[i].tile;
    const attune_tile *tile = &plan->candidates[at].tile;
    if (other.family != tile->family) continue;
    copy_knobs(plan, tile, &other);
    if (!memcmp(&other, tile, sizeof other)) return 1;
  }
  return 0;
}

/* The planner's next choice of the part that had fewest turns, the other parts as it chose first.
 */
static int next_planned(attune__search *s, attune__tiles *out) {
  attune__tiles tiles = first_choice(s);
  for (;;) {
    int part = 0;
    for (int i = 1; i < s->parts; i++)
      if (s->planned[i] < s->planned[part]) part = i;
    if (s->planned[part] >= FIRST) return 0;
    int at = s->looked[part]++;
    if (at >= s->plans[part].legal_count) {
      s->planned[part] = FIRST;
      continue;
    }
    if (is_repeat(&s->plans[part], at)) continue;
    s->planned[part]++;
    *out = tiles;
    out->tile[part] = s->plans[part].candidates[at].tile;
    if (!find(s, out)) return 1;
  }
}

/* ---- the calls ------------------------------------------------------------------------------- */

attune_status attune__search_open(const attune_plan *plans, int parts, uint64_t seed,
                                  attune__search **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a search");
  (*out)->plans = plans, (*out)->parts = parts, (*out)->random = seed;
  (*out)->value_count = 1; /* number 0 */
  return ATTUNE_OK;
}

void attune__search_close(attune__search *search) {
  if (search) free(search->list);
  free(search);
}

int attune__search_next(attune__search *s, attune__tiles *out) {
  if (!(s->count && next_suggested(s, out)) && !next_planned(s, out) && !next_neighbour(s, out))
    return 0;
  return remember(s, out) != NULL;
}

void attune__search_tell(attune__search *s, const attune__tiles *tiles, double milliseconds) {
  known *k = remember(s, tiles);
  if (!k) return;
  k->failed = !(milliseconds > 0 && isfinite(milliseconds));
  k->time = k->failed ? (double)NAN : log(milliseconds);
}

void attune__search_suggest(attune__search *s, const attune__tiles *tiles, int count) {
  s->suggestions = count < ATTUNE__SEARCH_SUGGESTED ? count : ATTUNE__SEARCH_SUGGESTED;
  for (int i = 0; i < s->suggestions; i++) s->suggested[i] = tiles[i];
}

void attune__search_take(attune__search *s, const attune__tiles *tiles) {
  remember(s, tiles);
}
