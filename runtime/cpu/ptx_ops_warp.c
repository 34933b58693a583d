/* ptx_ops_warp.c - opcodes by which the lanes of a warp see each other: votes, match, redux,
 * shuffles, elect; and activemask, nanosleep, trap.
 *
 * A membermask names the lanes that take part: each must execute the instruction now and be in its
 * own mask. On a GPU such lanes would wait for each other; here lanes meet as early as they can, so
 * whoever is missing has taken another path. */
#include "engine.h"

/* ---- who takes part ----------------------------------------------------------------------------
 */

/* The mask that operand k has in every active lane; a fault when lanes are missing. Lanes that have
 * returned may stand in it. */
static uint32_t members(attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active) {
  uint32_t mask = attune__uniform32(w, i, k, active, "membermask");
  uint32_t missing = mask & w->live & ~active, outside = active & ~mask;
  if (missing)
    attune__fault(w, (int)attune__first(missing),
                  "%s: the lane is in the membermask 0x%x and takes another path", i->opcode->name,
                  mask);
  if (outside)
    attune__fault(w, (int)attune__first(outside), "%s: the lane is not in its own membermask 0x%x",
                  i->opcode->name, mask);
  return active;
}

static void put_all(const attune__warp *w, const attune__ins *i, uint32_t active, uint32_t value) {
  uint32_t all[ATTUNE__LANES];
  for (int l = 0; l < ATTUNE__LANES; l++) all[l] = value;
  attune__put32(w, i, 0, active, all);
}

static void put_predicate(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t active,
                          uint32_t bits) {
  uint32_t *p = attune__rp(w, i, k);
  *p = (*p & ~active) | (bits & active);
}

/* ---- votes -------------------------------------------------------------------------------------
 */

enum { ALL, ANY, UNI };

static void run_vote(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t lanes = members(w, i, 2, active), yes = *attune__rp(w, i, 1) & lanes;
  int all = yes == lanes, any = yes != 0;
  int result = i->opcode->data == ALL ? all : i->opcode->data == ANY ? any : all || !any;
  put_predicate(w, i, 0, active, result ? ATTUNE__FULL : 0);
}

static void run_ballot(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t lanes = members(w, i, 2, active);
  put_all(w, i, active, *attune__rp(w, i, 1) & lanes);
}

static void run_activemask(attune__warp *w, const attune__ins *i, uint32_t active) {
  put_all(w, i, active, active);
}

/* Destination 0: the leader's lane, 1: who is it. */
static void run_elect(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t leader = attune__first(members(w, i, 2, active));
  put_all(w, i, active, leader);
  put_predicate(w, i, 1, active, UINT32_C(1) << leader);
}

/* ---- match, redux ------------------------------------------------------------------------------
 */

static uint64_t value_of(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t lane) {
  return i->operand[k].bytes == 8 ? attune__r64(w, i, k)[lane] : attune__r32(w, i, k)[lane];
}

/* The lanes with lane's value. */
static uint32_t same_value(const attune__warp *w, const attune__ins *i, uint32_t k, uint32_t lanes,
                           uint32_t lane) {
  uint32_t same = 0;
  for (uint32_t l = 0; l < ATTUNE__LANES; l++)
    if (lanes >> l & 1 && value_of(w, i, k, l) == value_of(w, i, k, lane)) same |= UINT32_C(1) << l;
  return same;
}

static void run_match_any(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t lanes = members(w, i, 2, active), same[ATTUNE__LANES] = {0};
  for (uint32_t l = 0; l < ATTUNE__LANES; l++)
    if (lanes >> l & 1) same[l] = same_value(w, i, 1, lanes, l);
  attune__put32(w, i, 0, active, same);
}

static void match_all(attune__warp *w, const attune__ins *i, uint32_t active, uint32_t source) {
  uint32_t lanes = members(w, i, source + 1, active);
  int all = same_value(w, i, source, lanes, attune__first(lanes)) == lanes;
  put_all(w, i, active, all ? lanes : 0);
  if (source == 2) put_predicate(w, i, 1, active, all ? ATTUNE__FULL : 0);
}

static void run_match_all(attune__warp *w, const attune__ins *i, uint32_t active) {
  match_all(w, i, active, 1);
}
static void run_match_all_p(attune__warp *w, const attune__ins *i, uint32_t active) {
  match_all(w, i, active, 2);
}

enum { ADD, MIN_S, MAX_S, MIN_U, MAX_U, AND, OR, XOR };

static uint32_t combine(int32_t operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case MIN_S:
      return (int32_t)a < (int32_t)b ? a : b;
    case MAX_S:
      return (int32_t)a > (int32_t)b ? a : b;
    case MIN_U:
      return a < b ? a : b;
    case MAX_U:
      return a > b ? a : b;
    case AND:
      return a & b;
    case OR:
      return a | b;
    case XOR:
      return a ^ b;
  }
  return a + b;
}

static void run_redux(attune__warp *w, const attune__ins *i, uint32_t active) {
  uint32_t lanes = members(w, i, 2, active);
  const uint32_t *a = attune__r32(w, i, 1);
  uint32_t first = attune__first(lanes), sum = a[first];
  for (uint32_t l = first + 1; l < ATTUNE__LANES; l++)
    if (lanes >> l & 1) sum = combine(i->opcode->data, sum, a[l]);
  put_all(w, i, active, sum);
}

/* ---- shuffles ----------------------------------------------------------------------------------
 *
 * c: bits 0..4 clamp, bits 8..12 mask of the lane bits that name a segment. A lane whose source is
 * out of its segment keeps its own value, and its predicate is 0. */

enum { UP, DOWN, BFLY, IDX };

typedef struct shuffle {
  uint32_t from[ATTUNE__LANES], inside;
} shuffle;

static void find_source(shuffle *s, int32_t mode, uint32_t lane, uint32_t b, uint32_t c) {
  uint32_t segment = c >> 8 & 31, clamp = c & 31;
  uint32_t least = lane & segment, most = least | (clamp & ~segment);
  uint32_t distance = b & 31, from = lane;
  int inside = 0;
  if (mode == UP) {
    from = lane - distance;
    inside = (int32_t)from >= (int32_t)most;
  } else if (mode == DOWN) {
    from = lane + distance;
    inside = from <= most;
  } else if (mode == BFLY) {
    from = lane ^ distance;
    inside = from <= most;
  } else {
    from = least | (distance & ~segment);
    inside = from <= most;
  }
  s->from[lane] = inside ? from : lane;
  s->inside |= (uint32_t)inside << lane;
}

/* A source lane that does not take part has no value to give. */
static void check_sources(attune__warp *w, const attune__ins *i, uint32_t active,
                          const shuffle *s) {
  for (uint32_t l = 0; l < ATTUNE__LANES; l++)
    if (active >> l & 1 && !(active >> s->from[l] & 1))
      attune__fault(w, (int)l, "%s: it reads lane %u, which takes no part", i->opcode->name,
                    s->from[l]);
}

static void shuffle_lanes(attune__warp *w, const attune__ins *i, uint32_t active, uint32_t source) {
  const uint32_t *a = attune__r32(w, i, source), *b = attune__r32(w, i, source + 1);
  const uint32_t *c = attune__r32(w, i, source + 2);
  shuffle s = {.inside = 0};
  uint32_t moved[ATTUNE__LANES];
  members(w, i, source + 3, active);
  for (uint32_t l = 0; l < ATTUNE__LANES; l++) find_source(&s, i->opcode->data, l, b[l], c[l]);
  if (active != ATTUNE__FULL) check_sources(w, i, active, &s);
  for (uint32_t l = 0; l < ATTUNE__LANES; l++) moved[l] = a[s.from[l]];
  attune__put32(w, i, 0, active, moved);
  if (source == 2) put_predicate(w, i, 1, active, s.inside);
}

static void run_shuffle(attune__warp *w, const attune__ins *i, uint32_t active) {
  shuffle_lanes(w, i, active, 1);
}
static void run_shuffle_p(attune__warp *w, const attune__ins *i, uint32_t active) {
  shuffle_lanes(w, i, active, 2);
}

/* ---- others ------------------------------------------------------------------------------------
 */

/* No time passes here. */
static void run_nothing(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)w, (void)i, (void)active;
}

static void run_trap(attune__warp *w, const attune__ins *i, uint32_t active) {
  (void)i;
  attune__fault(w, (int)attune__first(active), "trap: the kernel itself found something wrong");
}

/* ---- the table ---------------------------------------------------------------------------------
 */

#define ROW(opcode, form, function, options)                                                       \
  {.name = opcode, .operands = form, .run = function, .data = options},
#define MATCH(type, letter)                                                                        \
  ROW("match.any.sync." type, "W," letter ",w", run_match_any, 0)                                  \
  ROW("match.all.sync." type, "W," letter ",w", run_match_all, 0)                                  \
  ROW("match.all.sync." type, "W|P," letter ",w", run_match_all_p, 0)
#define REDUX(opcode, operation) ROW("redux.sync." opcode, "W,w,w", run_redux, operation)
#define SHUFFLE(opcode, mode)                                                                      \
  ROW("shfl.sync." opcode ".b32", "W,w,w,w,w", run_shuffle, mode)                                  \
  ROW("shfl.sync." opcode ".b32", "W|P,w,w,w,w", run_shuffle_p, mode)

/* One call a line. */
/* clang-format off */
static const attune__opcode rows[] = {
    ROW("vote.sync.all.pred", "P,p,w", run_vote, ALL)
    ROW("vote.sync.any.pred", "P,p,w", run_vote, ANY)
    ROW("vote.sync.uni.pred", "P,p,w", run_vote, UNI)
    ROW("vote.sync.ballot.b32", "W,p,w", run_ballot, 0)
    ROW("activemask.b32", "W", run_activemask, 0)
    ROW("elect.sync", "W|P,w", run_elect, 0)
    MATCH("b32", "w")
    MATCH("b64", "d")
    REDUX("add.u32", ADD)
    REDUX("add.s32", ADD)
    REDUX("min.u32", MIN_U)
    REDUX("max.u32", MAX_U)
    REDUX("min.s32", MIN_S)
    REDUX("max.s32", MAX_S)
    REDUX("and.b32", AND)
    REDUX("or.b32", OR)
    REDUX("xor.b32", XOR)
    SHUFFLE("up", UP)
    SHUFFLE("down", DOWN)
    SHUFFLE("bfly", BFLY)
    SHUFFLE("idx", IDX)
    ROW("nanosleep.u32", "w", run_nothing, 0)
    ROW("trap", "", run_trap, 0)
};
/* clang-format on */

const attune__opcodes attune__ops_warp = {rows, sizeof rows / sizeof *rows};
