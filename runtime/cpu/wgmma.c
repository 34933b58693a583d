/* wgmma.c - wgmma's asynchrony: groups, and what nobody may touch before they are waited for.
 *
 * Results are computed at issue. Until a wait covers its group, an instruction's registers are in
 * flight and the shared memory that it reads is pinned; the read counts as of the wait, so that a
 * stage freed before it is found in every schedule.
 *
 * wgmma.fence orders registers between ordinary instructions and wgmma. It is due before the first
 * wgmma and after every wait; while work is unfinished, a register written since the last fence is
 * found too. A plain move hands on when its source was written: compilers place them anywhere, for
 * ptxas to remove. */
#include "wgmma.h"

#include "../variant.h"
#include "async_state.h"

#include <stdlib.h>

enum { REGISTER_BYTES = ATTUNE__LANES * 4, WARPGROUP = 4 /* warps */ };

/* A 32-bit register, by slot / REGISTER_BYTES. */
typedef struct entry {
  uint32_t slot;
  uint32_t group;          /* that uses it, plus 1; 0: none unfinished */
  const attune__ins *user; /* the last */
  int result;              /* 1: an accumulator; 0: part of A */
  uint32_t written;        /* number of fences before its last ordinary write, plus 1 */
} entry;

typedef struct span {
  uint32_t offset, bytes;
} span;

typedef struct operation {
  const attune__ins *ins;
  uint32_t group, registers /* operands in use */, time;
  uint32_t spans; /* of this and all before */
} operation;

typedef struct attune__wgmma {
  entry *reg;
  operation *op; /* unfinished, oldest first */
  span *spans;   /* theirs, in order */
  uint32_t ops, op_room, span_count, span_room;
  uint32_t group; /* being filled */
  uint32_t fences, issued;
  int fenced;
} attune__wgmma;

/* ---- state -------------------------------------------------------------------------------------
 */

static attune__wgmma *state_of(const attune__warp *w) {
  return w->async->unfinished_state;
}

static uint32_t registers(const attune__warp *w) {
  return w->engine->launch->program->file_bytes / REGISTER_BYTES + 1;
}

static void reset(attune__warp *w) {
  attune__wgmma *s = state_of(w);
  s->ops = s->span_count = s->group = s->fences = s->issued = 0;
  s->fenced = 0;
  memset(s->reg, 0, registers(w) * sizeof *s->reg);
}

static void release(void *state) {
  attune__wgmma *s = state;
  free(s->reg);
  free(s->op);
  free(s->spans);
  free(s);
}

static entry *find(attune__wgmma *s, const attune__operand *o) {
  return &s->reg[o->slot / REGISTER_BYTES];
}

static int holds(const entry *e, const attune__operand *o) {
  return e->slot == o->slot && o->bytes == 4;
}

/* Room for one more of an array; a fault when there is none. */
static void *room(attune__warp *w, void *array, uint32_t count, uint32_t *have, size_t size) {
  if (count < *have) return array;
  uint32_t want = *have ? 2 * *have : 64;
  void *more = realloc(array, want * size);
  if (!more) attune__fault(w, -1, "no memory to follow unfinished wgmma");
  *have = want;
  return more;
}

/* ---- ordinary instructions ---------------------------------------------------------------------
 */

static void ordinary(attune__warp *w, const attune__ins *ins, const attune__operand *o,
                     int writes) {
  attune__wgmma *s = state_of(w);
  entry *e = find(s, o);
  if (holds(e, o) && e->group && (e->result || writes))
    attune__fault(w, -1, "%s %s a register that wgmma.mma_async still %s: no wgmma.wait_group",
                  ins->opcode->name, writes ? "writes" : "reads", e->result ? "writes" : "reads");
  if (!writes || o->bytes != 4) return;
  const attune__operand *source = &ins->operand[ins->operands - 1];
  const entry *from = find(s, source);
  int moves = strncmp(ins->opcode->name, "mov.", 4) == 0;
  uint32_t moved = holds(from, source) ? from->written : 0;
  *e = (entry){.slot = o->slot, .written = moves ? moved : s->fences + 1};
}

/* Operands follow the letters of the opcode's pattern; those of upper case are written. */
static void touch(attune__warp *w, const attune__ins *ins) {
  if (attune__is_wgmma(ins->opcode)) return;
  uint32_t k = 0;
  for (const char *p = ins->opcode->operands; *p && k < ins->operands; p++) {
    int upper = *p >= 'A' && *p <= 'Z', lower = *p >= 'a' && *p <= 'z' && *p != 'l';
    if (upper || lower) ordinary(w, ins, &ins->operand[k++], upper);
  }
}

/* The warps of a warpgroup execute the same wgmma instructions; the last to exit compares. */
static void leave(attune__warp *w) {
  const attune__wgmma *s = state_of(w);
  if (s->ops) {
    w->at = s->op[0].ins;
    attune__fault(w, -1, "the warp exits with wgmma.mma_async that it never waited for");
  }
  uint32_t first = w->index / WARPGROUP * WARPGROUP;
  for (uint32_t k = first; k < first + WARPGROUP; k++) {
    const attune__warp *other = &w->block->warp[k];
    const attune__wgmma *t = other->async->unfinished ? state_of(other) : NULL;
    if (other != w && other->state == ATTUNE__EXITED && (t ? t->issued : 0) != s->issued)
      attune__fault(w, -1, "it issued %u wgmma.mma_async, warp %u of its warpgroup %u", s->issued,
                    k, t ? t->issued : 0);
  }
}

static const attune__unfinished hooks = {leave, touch, reset, release};

static attune__wgmma *make(attune__warp *w) {
  attune__async_warp *a = w->async;
  if (a->unfinished) return a->unfinished_state;
  attune__wgmma *s = calloc(1, sizeof *s);
  entry *reg = calloc(registers(w), sizeof *reg);
  if (!s || !reg) {
    free(s);
    free(reg);
    attune__fault(w, -1, "no memory to follow unfinished wgmma");
  }
  s->reg = reg;
  a->unfinished_state = s;
  a->unfinished = &hooks;
  return s;
}

/* ---- groups ------------------------------------------------------------------------------------
 */

void attune__wgmma_fence(attune__warp *w) {
  attune__wgmma *s = make(w);
  s->fenced = 1;
  s->fences++;
}

void attune__wgmma_commit(attune__warp *w) {
  make(w)->group++;
}

static void finish_registers(attune__warp *w, attune__wgmma *s, const operation *op) {
  for (uint32_t k = 0; k < op->registers; k++) {
    entry *e = find(s, &op->ins->operand[k]);
    if (!holds(e, &op->ins->operand[k]) || e->group != op->group + 1) continue;
    e->group = 0;
    w->busy--;
  }
}

static void finish_reads(attune__warp *w, const operation *op, const span *begin, const span *end) {
  attune__smem *m = &w->block->smem;
  int moved = w->clock[w->agent] != op->time;
  for (const span *x = begin; x < end; x++) {
    attune__smem_pin(m, x->offset, x->bytes, -1);
    if (moved) attune__smem_read(w, -1, m, x->offset, x->bytes, ATTUNE__ASYNC, "wgmma.mma_async");
  }
}

void attune__wgmma_wait(attune__warp *w, uint32_t keep) {
  attune__wgmma *s = make(w);
  uint32_t done = 0, spans = 0;
  for (; done < s->ops && s->op[done].group + keep < s->group; done++) {
    const operation *op = &s->op[done];
    finish_registers(w, s, op);
    finish_reads(w, op, s->spans + spans, s->spans + op->spans);
    spans = op->spans;
  }
  s->fenced = 0;
  if (!done) return;
  s->ops -= done, s->span_count -= spans;
  memmove(s->op, s->op + done, s->ops * sizeof *s->op);
  memmove(s->spans, s->spans + spans, s->span_count * sizeof *s->spans);
  for (uint32_t k = 0; k < s->ops; k++) s->op[k].spans -= spans;
}

/* ---- instructions ------------------------------------------------------------------------------
 */

/* Accumulators may be in flight from a wgmma of the same shape, which is done before this one. */
static void use(attune__warp *w, attune__wgmma *s, const attune__ins *ins, uint32_t k, int result) {
  const attune__operand *o = &ins->operand[k];
  entry *e = find(s, o);
  if (o->bytes != 4) return;
  if (holds(e, o) && e->group) {
    int chained = result && e->result && e->user->number == ins->number &&
                  strcmp(e->user->opcode->name, ins->opcode->name) == 0;
    if (!chained && (result || e->result))
      attune__fault(
          w, -1,
          "wgmma.mma_async: a register of %s is in use by an earlier one of another shape or role: "
          "no wgmma.wait_group",
          result ? "the accumulator" : "A");
  } else {
    if (holds(e, o) && e->written == s->fences + 1)
      attune__fault(w, -1,
                    "wgmma.mma_async: a register of %s was written after the last wgmma.fence",
                    result ? "the accumulator" : "A");
    w->busy++;
  }
  *e = (entry){o->slot, s->group + 1, ins, result, 0};
}

static void require_warpgroup(attune__warp *w) {
  uint32_t arch = attune__arch_parse(w->engine->launch->options.arch);
  if (attune__arch_cc(arch) != 90 || attune__arch_suffix(arch) != 'a')
    attune__fault(w, -1, "wgmma.mma_async needs sm_90a, this launch is for %s",
                  w->engine->launch->options.arch);
  if (w->index / WARPGROUP * WARPGROUP + WARPGROUP > w->block->warps)
    attune__fault(w, -1, "wgmma.mma_async in a warpgroup of fewer than 4 warps");
}

void attune__wgmma_begin(attune__warp *w, const attune__ins *ins, uint32_t results,
                         uint32_t sources) {
  require_warpgroup(w);
  if (!w->engine->checks) return;
  attune__wgmma *s = make(w);
  if (!s->fenced)
    attune__fault(w, -1,
                  "wgmma.mma_async with no wgmma.fence since the start or the last "
                  "wgmma.wait_group");
  for (uint32_t k = 0; k < results + sources; k++) use(w, s, ins, k, k < results);
  s->op = room(w, s->op, s->ops, &s->op_room, sizeof *s->op);
  s->op[s->ops++] =
      (operation){ins, s->group, results + sources, w->clock[w->agent], s->span_count};
  s->issued++;
}

void attune__wgmma_reads(attune__warp *w, uint32_t offset, uint32_t bytes) {
  attune__wgmma *s = state_of(w);
  s->spans = room(w, s->spans, s->span_count, &s->span_room, sizeof *s->spans);
  s->spans[s->span_count++] = (span){offset, bytes};
  s->op[s->ops - 1].spans = s->span_count;
  attune__smem_pin(&w->block->smem, offset, bytes, 1);
}
