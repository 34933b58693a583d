/* ptx_match.c - one instruction -> a row of the opcode tables, with its operands resolved.
 *
 * Input: the tokens of an instruction and the symbols so far. Output: handler, slots, numbers; or a
 * refusal that names file, line and opcode. The grammar of operand patterns is in ptx.h. */
#include "ptx_parse.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows by name ------------------------------------------------------------------------------
 */

typedef struct named_row {
  const attune__opcode *row;
} named_row;

static struct {
  pthread_once_t once;
  named_row *row; /* sorted by name; NULL: no memory */
  size_t count;
} index_of_rows = {.once = PTHREAD_ONCE_INIT};

static int by_name(const void *a, const void *b) {
  const named_row *x = a, *y = b;
  return strcmp(x->row->name, y->row->name);
}

static void make_index(void) {
  size_t total = 0, n = 0;
  for (size_t t = 0; attune__ptx_tables[t]; t++) total += attune__ptx_tables[t]->count;
  index_of_rows.row = calloc(total + 1, sizeof *index_of_rows.row);
  if (!index_of_rows.row) return;
  for (size_t t = 0; attune__ptx_tables[t]; t++)
    for (size_t r = 0; r < attune__ptx_tables[t]->count; r++)
      index_of_rows.row[n++].row = &attune__ptx_tables[t]->row[r];
  qsort(index_of_rows.row, total, sizeof *index_of_rows.row, by_name);
  index_of_rows.count = total;
}

/* The first row of that name; index_of_rows.count when there is none. */
static size_t first_row(const char *name) {
  size_t low = 0, high = index_of_rows.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strcmp(index_of_rows.row[middle].row->name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  int found = low < index_of_rows.count && strcmp(index_of_rows.row[low].row->name, name) == 0;
  return found ? low : index_of_rows.count;
}

/* ---- operands ----------------------------------------------------------------------------------
 */

typedef struct matcher {
  attune__parser *parser;
  const attune__token *at, *end;
  uint32_t line;
  attune__operand operand[ATTUNE__OPERANDS_MAX];
  uint32_t operands;
  const attune__token *label;
  const attune__token *stranger; /* a word that is neither a symbol nor a number */
} matcher;

static int take_mark(matcher *m, char mark) {
  if (m->at == m->end || m->at->kind != ATTUNE__TOKEN_MARK || *m->at->at != mark) return 0;
  m->at++;
  return 1;
}

static int put(matcher *m, uint32_t slot, int32_t offset, uint32_t bytes) {
  if (slot == UINT32_MAX || m->operands == ATTUNE__OPERANDS_MAX) return 0;
  m->operand[m->operands++] = (attune__operand){slot, offset, bytes};
  return 1;
}

static uint32_t bytes_of(char letter) {
  return letter == 'd' ? 8 : letter == 'p' ? 0 : 4;
}

/* A register of that letter. */
static int take_register(matcher *m, char letter) {
  uint32_t slot;
  if (m->at == m->end || m->at->kind != ATTUNE__TOKEN_WORD) return 0;
  const attune__symbol *s = attune__symbol_find(m->parser, m->at, &slot);
  int fits = s && s->kind <= ATTUNE__SYMBOL_RANGE && s->letter == letter;
  if (!fits) return 0;
  m->at++;
  return put(m, slot, 0, bytes_of(letter));
}

static int take_destination(matcher *m, char letter) {
  if (m->at < m->end && attune__token_is(m->at, "_")) {
    m->at++;
    return put(m, m->parser->sink, 0, bytes_of(letter));
  }
  return take_register(m, letter);
}

/* A number with an optional minus. */
static int take_number(matcher *m, uint64_t *out) {
  const attune__token *before = m->at;
  int minus = take_mark(m, '-');
  if (m->at < m->end && attune__token_number(m->at, out)) {
    m->at++;
    if (minus) *out = 0 - *out;
    return 1;
  }
  m->at = before;
  return 0;
}

/* Which of %tid.x and its like a word is; -1: none. */
static int special_of(const attune__token *word) {
  static const char *const names[] = {
#define S(id, name) name,
      ATTUNE__SPECIALS(S)
#undef S
  };
  for (int k = 0; k < ATTUNE__SPECIAL_COUNT; k++)
    if (attune__token_is(word, names[k])) return k;
  return -1;
}

static int take_special(matcher *m) {
  int special = m->at < m->end ? special_of(m->at) : -1;
  if (special < 0) return 0;
  uint32_t *slot = &m->parser->program->special[special];
  if (!*slot) *slot = attune__slot(m->parser, m->line, 'w', 1);
  m->at++;
  return put(m, *slot, 0, 4);
}

/* The address that a shared variable or the parameter stands for. */
static int take_symbol(matcher *m, attune__symbol_kind kind, uint32_t bytes) {
  uint32_t unused;
  if (m->at == m->end || m->at->kind != ATTUNE__TOKEN_WORD) return 0;
  const attune__symbol *s = attune__symbol_find(m->parser, m->at, &unused);
  if (!s || s->kind != kind) return 0;
  m->at++;
  return put(m, attune__constant_slot(m->parser, s->value, bytes), 0, bytes);
}

/* Bits above the operand's must be a sign's. */
static int fits(uint64_t value, int bits) {
  int64_t high = (int64_t)value >> (bits - 1);
  return bits == 64 || high == 0 || high == -1 || value >> bits == 0;
}

static int take_source(matcher *m, char letter) {
  uint64_t value;
  int bits = letter == 'd' ? 64 : letter == 'h' ? 16 : 32;
  if (take_register(m, letter)) return 1;
  if (letter == 'p') return 0;
  if (take_number(m, &value)) {
    if (!fits(value, bits)) return 0;
    if (bits < 64) value &= (UINT64_C(1) << bits) - 1;
    return put(m, attune__constant_slot(m->parser, value, bytes_of(letter)), 0, bytes_of(letter));
  }
  if (letter == 'w' && take_special(m)) return 1;
  if (letter == 'h') return 0;
  return take_symbol(m, ATTUNE__SYMBOL_SHARED, bytes_of(letter)) ||
         (letter == 'd' && take_symbol(m, ATTUNE__SYMBOL_PARAM, 8));
}

static int take_base(matcher *m, char letter) {
  uint64_t value;
  if (take_register(m, 'd')) return 1;
  if (letter == 'a') return take_symbol(m, ATTUNE__SYMBOL_PARAM, 8);
  if (letter == 'g') return 0;
  if (take_register(m, 'w') || take_symbol(m, ATTUNE__SYMBOL_SHARED, 4)) return 1;
  return take_number(m, &value) && value <= UINT32_MAX &&
         put(m, attune__constant_slot(m->parser, value, 4), 0, 4);
}

/* [base], [base+offset] or [base+-offset]: what stands between the brackets. */
static int take_address(matcher *m, char letter) {
  uint64_t value;
  if (!take_base(m, letter)) return 0;
  if (!take_mark(m, '+')) return 1;
  if (!take_number(m, &value) || !fits(value, 32)) return 0;
  int64_t offset = (int64_t)value;
  if (offset > INT32_MAX || offset < INT32_MIN) return 0;
  m->operand[m->operands - 1].offset = (int32_t)offset;
  return 1;
}

static int take_integer(matcher *m) {
  uint64_t value;
  return take_number(m, &value) && fits(value, 32) &&
         put(m, attune__constant_slot(m->parser, value & UINT32_MAX, 4), 0, 4);
}

static int take_label(matcher *m) {
  if (m->at == m->end || m->at->kind != ATTUNE__TOKEN_WORD) return 0;
  m->label = m->at++;
  return 1;
}

static int take(matcher *m, char letter) {
  switch (letter) {
    case 'W':
    case 'D':
    case 'H':
    case 'P':
      return take_destination(m, (char)(letter + ('a' - 'A')));
    case 'w':
    case 'd':
    case 'h':
    case 'p':
      return take_source(m, letter);
    case 'i':
      return take_integer(m);
    case 's':
    case 'g':
    case 'a':
      return take_address(m, letter);
    case 'l':
      return take_label(m);
  }
  return take_mark(m, letter);
}

/* Whether the tokens have the row's form; fills operands. */
static int match_row(matcher *m, const attune__opcode *row, const attune__token *first) {
  m->at = first, m->operands = 0, m->label = NULL;
  for (const char *p = row->operands; *p; p++) {
    if (!take(m, *p)) return 0;
    if (p[1] != '*') continue;
    while (m->at < m->end && attune__token_is(m->at, ",")) {
      m->at++;
      if (!take(m, *p)) return 0;
    }
    p++;
  }
  return m->at == m->end;
}

/* ---- instructions ------------------------------------------------------------------------------
 */

/* A word among the operands that nothing declares: the likeliest reason for a refusal. */
static const attune__token *stranger(attune__parser *p, const attune__token *at, uint32_t count) {
  uint32_t slot;
  uint64_t number;
  for (uint32_t k = 0; k < count; k++)
    if (at[k].kind == ATTUNE__TOKEN_WORD && !attune__token_number(&at[k], &number) &&
        !attune__token_is(&at[k], "_") && special_of(&at[k]) < 0 &&
        !attune__symbol_find(p, &at[k], &slot))
      return &at[k];
  return NULL;
}

static int refuse(attune__parser *p, const attune__token *opcode, const attune__token *operands,
                  uint32_t count, int known) {
  int size = opcode->size > 120 ? 120 : (int)opcode->size;
  if (!known)
    return attune__refuse(p, opcode->line, "opcode %.*s: not known to the CPU device", size,
                          opcode->at);
  const attune__token *word = stranger(p, operands, count);
  if (word)
    return attune__refuse(p, opcode->line, "opcode %.*s: operand %.*s: not known to the CPU device",
                          size, opcode->at, word->size > 60 ? 60 : (int)word->size, word->at);
  return attune__refuse(p, opcode->line,
                        "opcode %.*s: not known to the CPU device with operands of these kinds",
                        size, opcode->at);
}

static int add_operands(attune__parser *p, const matcher *m, attune__ins *out) {
  for (uint32_t k = 0; k < m->operands; k++) {
    if (attune__grow(p, &p->program->operand, p->operands, &p->operand_room,
                     sizeof *p->program->operand))
      return -1;
    p->program->operand[p->operands++] = m->operand[k];
  }
  out->operands = m->operands;
  return 0;
}

static int add_jump(attune__parser *p, const matcher *m) {
  if (!m->label) return 0;
  if (attune__grow(p, &p->jump, p->jumps, &p->jump_room, sizeof *p->jump)) return -1;
  p->jump[p->jumps++] = (attune__label){.name = m->label->at,
                                        .size = m->label->size,
                                        .scope = p->scope,
                                        .ins = p->program->count,
                                        .line = m->line};
  return 0;
}

/* Rows of exactly this name. 1: done, 0: none fits, -1: refused. */
static int match_name(matcher *m, const char *name, int32_t number, const attune__token *operands,
                      attune__ins *out, int *known) {
  for (size_t r = first_row(name); r < index_of_rows.count; r++) {
    const attune__opcode *row = index_of_rows.row[r].row;
    if (strcmp(row->name, name) != 0) break;
    *known = 1;
    if (!match_row(m, row, operands)) continue;
    if (row->accept && !row->accept(number, m->operands)) continue;
    out->run = row->run;
    out->flags = row->flags;
    out->number = number;
    out->opcode = row;
    return add_operands(m->parser, m, out) || add_jump(m->parser, m) ? -1 : 1;
  }
  return m->parser->status ? -1 : 0;
}

/* The name with the digits at [begin, end) as '#'. */
static int32_t with_hash(const char *name, size_t begin, size_t end, char *out) {
  int32_t number = 0;
  for (size_t k = begin; k < end; k++) number = number * 10 + (name[k] - '0');
  memcpy(out, name, begin);
  out[begin] = '#';
  memcpy(out + begin + 1, name + end, strlen(name + end) + 1);
  return number;
}

/* Rows of the name, then of the name with one of its numbers replaced by '#'. */
static int match_names(matcher *m, const char *name, const attune__token *operands,
                       attune__ins *out, int *known) {
  char hashed[256];
  int found = match_name(m, name, 0, operands, out, known);
  for (size_t k = 0; name[k] && !found; k++) {
    size_t digits = strspn(name + k, "0123456789");
    if (digits > 0 && digits < 6) {
      int32_t number = with_hash(name, k, k + digits, hashed);
      found = match_name(m, hashed, number, operands, out, known);
    }
    if (digits) k += digits - 1;
  }
  return found;
}

int attune__match(attune__parser *p, const attune__token *opcode, const attune__token *operands,
                  uint32_t count, attune__ins *out) {
  pthread_once(&index_of_rows.once, make_index);
  if (!index_of_rows.row) {
    p->status = attune_fail(ATTUNE_NO_MEMORY, "no memory for the table of PTX opcodes");
    return -1;
  }
  char name[256];
  int known = 0;
  matcher m = {.parser = p, .end = operands + count, .line = opcode->line};
  if (opcode->size >= sizeof name) return refuse(p, opcode, operands, count, 0);
  memcpy(name, opcode->at, opcode->size);
  name[opcode->size] = 0;
  int found = match_names(&m, name, operands, out, &known);
  if (found > 0) return 0;
  return p->status ? -1 : refuse(p, opcode, operands, count, known);
}
