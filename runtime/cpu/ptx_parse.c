/* ptx_parse.c - a PTX module -> the instructions of one kernel.
 *
 * Input: what NVRTC writes (or anything: it is refused, never trusted). Output: an attune__ptx with
 * resolved operands, branches and source lines. Other kernels and the constants of the module are
 * passed over; a kernel that names one is refused by the word. Which opcodes exist is the tables'.
 */
#include "ptx_parse.h"

#include <stdlib.h>
#include <string.h>

static attune__token next(attune__parser *p) {
  return attune__lex(&p->lex);
}

static int is_mark(const attune__token *token, char mark) {
  return token->kind == ATTUNE__TOKEN_MARK && *token->at == mark;
}

static int expect(attune__parser *p, char mark) {
  attune__token token = next(p);
  if (is_mark(&token, mark)) return 0;
  return attune__refuse(p, token.line, "'%c' is missing before '%.*s'", mark,
                        token.size > 40 ? 40 : (int)token.size, token.at);
}

/* Passes up to and with a semicolon. */
static void pass_statement(attune__parser *p) {
  attune__token token = next(p);
  while (token.kind != ATTUNE__TOKEN_END && !is_mark(&token, ';')) token = next(p);
}

/* ---- declarations ------------------------------------------------------------------------------
 */

static const struct {
  const char *name;
  char letter;
  uint32_t bytes;
} types[] = {{".pred", 'p', 0}, {".b8", 0, 1},    {".u8", 0, 1},    {".s8", 0, 1},
             {".b16", 'h', 2},  {".u16", 'h', 2}, {".s16", 'h', 2}, {".f16", 'h', 2},
             {".b32", 'w', 4},  {".u32", 'w', 4}, {".s32", 'w', 4}, {".f32", 'w', 4},
             {".b64", 'd', 8},  {".u64", 'd', 8}, {".s64", 'd', 8}, {".f64", 'd', 8}};

/* Row of types[]; -1: none. */
static int type_of(const attune__token *token) {
  for (int k = 0; k < (int)(sizeof types / sizeof *types); k++)
    if (attune__token_is(token, types[k].name)) return k;
  return -1;
}

/* "%r<100>" or "%p, %q" of one type. */
static int parse_register(attune__parser *p, char letter) {
  attune__token name = next(p);
  if (name.kind != ATTUNE__TOKEN_WORD) return attune__refuse(p, name.line, ".reg: no name");
  attune__symbol symbol = {.kind = ATTUNE__SYMBOL_REGISTER,
                           .name = name.at,
                           .size = name.size,
                           .letter = letter,
                           .count = 1,
                           .bytes = letter == 'p'   ? 4
                                    : letter == 'd' ? 8 * ATTUNE__LANES
                                                    : 4 * ATTUNE__LANES};
  attune__token mark = attune__lex_peek(&p->lex);
  if (is_mark(&mark, '<')) {
    next(p);
    symbol.kind = ATTUNE__SYMBOL_RANGE;
    if (!attune__parse_u32(p, &symbol.count) || expect(p, '>'))
      return attune__refuse(p, name.line, ".reg: a number is missing in '<>'");
  }
  symbol.slot = attune__slot(p, name.line, letter, symbol.count);
  return symbol.slot == UINT32_MAX ? -1 : attune__symbol_add(p, symbol);
}

static int parse_registers(attune__parser *p) {
  attune__token type = next(p);
  int t = type_of(&type);
  if (t < 0 || !types[t].letter)
    return attune__refuse(p, type.line, ".reg %.*s: not known to the CPU device",
                          type.size > 40 ? 40 : (int)type.size, type.at);
  for (;;) {
    if (parse_register(p, types[t].letter)) return -1;
    attune__token mark = next(p);
    if (is_mark(&mark, ';')) return 0;
    if (!is_mark(&mark, ',')) return attune__refuse(p, mark.line, ".reg: ',' or ';' is missing");
  }
}

/* "[4][8]": the product; *open says that one pair was empty. */
static int parse_extents(attune__parser *p, uint64_t *count, int *open) {
  *count = 1, *open = 0;
  for (;;) {
    attune__token mark = attune__lex_peek(&p->lex);
    if (!is_mark(&mark, '[')) return 0;
    next(p);
    uint32_t extent = 0;
    if (!attune__parse_u32(p, &extent)) *open = 1;
    *count *= extent;
    if (*count > UINT32_MAX) return attune__refuse(p, mark.line, "an array is too large");
    if (expect(p, ']')) return -1;
  }
}

/* ".align 16 .b8 name[1024];" behind .shared: after the static variables come the dynamic bytes. */
static int parse_shared(attune__parser *p) {
  uint32_t align = 1;
  attune__token token = next(p);
  if (attune__token_is(&token, ".align")) {
    if (!attune__parse_u32(p, &align) || !align || align > 1024 || (align & (align - 1)))
      return attune__refuse(p, token.line, ".shared: .align is not a power of two up to 1024");
    token = next(p);
  }
  int type = type_of(&token), open;
  attune__token name = next(p);
  uint64_t count;
  if (type < 0 || name.kind != ATTUNE__TOKEN_WORD)
    return attune__refuse(p, token.line, ".shared: type or name is missing");
  if (parse_extents(p, &count, &open)) return -1;
  uint64_t at = ((uint64_t)p->program->static_smem + align - 1) / align * align;
  uint64_t end = open ? at : at + count * types[type].bytes;
  if (end > (1 << 20) || (!open && p->has_dynamic))
    return attune__refuse(p, name.line, ".shared: too large, or declared after dynamic memory");
  p->has_dynamic |= open;
  p->program->static_smem = (uint32_t)end;
  attune__symbol symbol = {.kind = ATTUNE__SYMBOL_SHARED,
                           .name = name.at,
                           .size = name.size,
                           .value = ATTUNE__SHARED_BASE + at};
  return attune__symbol_add(p, symbol) ? -1 : expect(p, ';');
}

/* ---- labels and branches -----------------------------------------------------------------------
 */

static int push_scope(attune__parser *p) {
  if (attune__grow(p, &p->scope_parent, p->scopes, &p->scope_room, sizeof *p->scope_parent))
    return -1;
  p->scope_parent[p->scopes] = p->scope;
  p->scope = p->scopes++;
  return 0;
}

static int add_label(attune__parser *p, const attune__token *name) {
  if (attune__grow(p, &p->label, p->labels, &p->label_room, sizeof *p->label)) return -1;
  p->label[p->labels++] = (attune__label){.name = name->at,
                                          .size = name->size,
                                          .scope = p->scope,
                                          .ins = p->program->count,
                                          .line = name->line};
  return 0;
}

static const attune__label *label_in(const attune__parser *p, const attune__label *jump,
                                     uint32_t scope) {
  for (uint32_t k = 0; k < p->labels; k++) {
    const attune__label *l = &p->label[k];
    if (l->scope == scope && l->size == jump->size && memcmp(l->name, jump->name, l->size) == 0)
      return l;
  }
  return NULL;
}

/* Branches reach labels of their own scope and of those around it. */
static int resolve_jumps(attune__parser *p) {
  for (uint32_t k = 0; k < p->jumps; k++) {
    const attune__label *jump = &p->jump[k], *label = NULL;
    for (uint32_t scope = jump->scope;; scope = p->scope_parent[scope]) {
      label = label_in(p, jump, scope);
      if (label || scope == 0) break;
    }
    if (!label)
      return attune__refuse(p, jump->line, "no label %.*s", jump->size > 60 ? 60 : (int)jump->size,
                            jump->name);
    p->program->ins[jump->ins].target = (int32_t)label->ins;
  }
  return 0;
}

/* ---- instructions ------------------------------------------------------------------------------
 */

/* "@%p" or "@!%p": the at sign was read. */
static int parse_guard(attune__parser *p, attune__ins *ins) {
  attune__token token = next(p);
  if (is_mark(&token, '!')) {
    ins->negate = UINT32_MAX;
    token = next(p);
  }
  uint32_t slot;
  const attune__symbol *s = attune__symbol_find(p, &token, &slot);
  if (!s || s->kind > ATTUNE__SYMBOL_RANGE || s->letter != 'p')
    return attune__refuse(p, token.line, "%.*s is no predicate",
                          token.size > 60 ? 60 : (int)token.size, token.at);
  ins->guard = slot;
  return 0;
}

static int add_instruction(attune__parser *p, attune__ins ins, const attune__token *opcode) {
  attune__token token[ATTUNE__STATEMENT_TOKENS];
  uint32_t count = 0;
  for (attune__token t = next(p); !is_mark(&t, ';'); t = next(p)) {
    if (t.kind == ATTUNE__TOKEN_END || count == ATTUNE__STATEMENT_TOKENS)
      return attune__refuse(p, opcode->line, "opcode %.*s: its ';' is missing",
                            opcode->size > 60 ? 60 : (int)opcode->size, opcode->at);
    token[count++] = t;
  }
  ins.place = p->place;
  ins.line = opcode->line;
  if (attune__match(p, opcode, token, count, &ins)) return -1;
  if (attune__grow(p, &p->program->ins, p->program->count, &p->ins_room, sizeof ins)) return -1;
  p->program->ins[p->program->count++] = ins;
  if (ins.flags & ATTUNE__OP_SHARED16 && p->program->granule > 2) p->program->granule = 2;
  if (ins.flags & ATTUNE__OP_SHARED8) p->program->granule = 1;
  return 0;
}

/* A label, or an instruction with its guard. */
static int parse_instruction(attune__parser *p, attune__token token) {
  attune__ins ins = {0};
  attune__token mark = attune__lex_peek(&p->lex);
  if (token.kind == ATTUNE__TOKEN_WORD && is_mark(&mark, ':')) {
    next(p);
    return add_label(p, &token);
  }
  if (is_mark(&token, '@')) {
    if (parse_guard(p, &ins)) return -1;
    token = next(p);
  }
  if (token.kind != ATTUNE__TOKEN_WORD)
    return attune__refuse(p, token.line, "an opcode is missing");
  return add_instruction(p, ins, &token);
}

/* ---- the kernel --------------------------------------------------------------------------------
 */

static int parse_body(attune__parser *p);

static int parse_scope(attune__parser *p) {
  uint32_t symbols = p->symbols, scope = p->scope;
  if (push_scope(p) || parse_body(p)) return -1;
  p->symbols = symbols, p->scope = scope;
  return 0;
}

/* Statements up to and with the closing brace. Scopes nest as deep as NVRTC's asm blocks, 2. */
static int parse_body(attune__parser *p) {
  for (;;) {
    attune__token token = next(p);
    int bad = 0;
    if (token.kind == ATTUNE__TOKEN_END)
      return attune__refuse(p, token.line, "the kernel's '}' is missing");
    if (is_mark(&token, '}')) return 0;
    if (is_mark(&token, '{'))
      bad = p->scopes > 4096 ? attune__refuse(p, token.line, "too many scopes") : parse_scope(p);
    else if (attune__token_is(&token, ".reg"))
      bad = parse_registers(p);
    else if (attune__token_is(&token, ".shared"))
      bad = parse_shared(p);
    else if (attune__token_is(&token, ".loc"))
      bad = attune__parse_loc(p, token.line);
    else if (attune__token_is(&token, ".pragma"))
      pass_statement(p);
    else if (attune__token_starts(&token, "."))
      bad = attune__refuse(p, token.line, "%.*s: not known to the CPU device",
                           token.size > 60 ? 60 : (int)token.size, token.at);
    else
      bad = parse_instruction(p, token);
    if (bad) return -1;
  }
}

/* "(.param .align 8 .b8 name[216])": one struct. */
static int parse_parameter(attune__parser *p) {
  attune__token token = next(p);
  uint32_t align;
  if (is_mark(&token, ')')) return 0;
  if (!attune__token_is(&token, ".param"))
    return attune__refuse(p, token.line, "the kernel's parameter is missing");
  token = next(p);
  if (attune__token_is(&token, ".align")) {
    if (!attune__parse_u32(p, &align)) return attune__refuse(p, token.line, ".align: no number");
    token = next(p);
  }
  int type = type_of(&token), open;
  uint64_t count;
  attune__token name = next(p);
  if (type < 0 || name.kind != ATTUNE__TOKEN_WORD || parse_extents(p, &count, &open))
    return attune__refuse(p, token.line, "the kernel's parameter is not a struct");
  p->program->param_bytes = (uint32_t)count * types[type].bytes;
  attune__symbol symbol = {.kind = ATTUNE__SYMBOL_PARAM,
                           .name = name.at,
                           .size = name.size,
                           .value = ATTUNE__PARAM_SPACE};
  if (attune__symbol_add(p, symbol)) return -1;
  token = next(p);
  if (is_mark(&token, ')')) return 0;
  return attune__refuse(p, token.line, "the kernel has more than one parameter");
}

/* ".maxntid 128, 1, 1" and such between the parameters and the brace. */
static int parse_head(attune__parser *p) {
  static const char *const known[] = {".maxntid",
                                      ".reqntid",
                                      ".minnctapersm",
                                      ".maxnreg",
                                      ".explicitcluster",
                                      ".reqnctapercluster",
                                      ".maxclusterrank",
                                      ",",
                                      NULL};
  for (;;) {
    attune__token token = next(p);
    uint32_t number;
    int k = 0;
    if (is_mark(&token, '{')) return 0;
    while (known[k] && !attune__token_is(&token, known[k])) k++;
    if (!known[k])
      return attune__refuse(p, token.line, "%.*s: not known to the CPU device",
                            token.size > 60 ? 60 : (int)token.size, token.at);
    if (attune__parse_u32(p, &number) && k < 2) p->program->threads = number;
  }
}

/* A kernel that ends in no ret would run off its end: one is put there, for safety. */
static int end_body(attune__parser *p) {
  static const attune__token ret = {ATTUNE__TOKEN_WORD, "ret", 3, 0};
  attune__ins ins = {.place = p->place};
  if (attune__match(p, &ret, NULL, 0, &ins)) return -1;
  if (attune__grow(p, &p->program->ins, p->program->count, &p->ins_room, sizeof ins)) return -1;
  p->program->ins[p->program->count++] = ins;
  return resolve_jumps(p);
}

static int parse_kernel(attune__parser *p) {
  return parse_parameter(p) || parse_head(p) || push_scope(p) || parse_body(p) || end_body(p);
}

/* ---- the module --------------------------------------------------------------------------------
 */

/* Passes over "(...) ... { ... }" or up to a semicolon before any brace. */
static void pass_function(attune__parser *p) {
  int depth = 0;
  for (;;) {
    attune__token token = next(p);
    if (token.kind == ATTUNE__TOKEN_END) return;
    if (depth == 0 && is_mark(&token, ';')) return;
    depth += is_mark(&token, '{');
    if (is_mark(&token, '}') && --depth <= 0) return;
  }
}

static int parse_entry(attune__parser *p, int *found) {
  attune__token name = next(p);
  if (*found || !attune__token_is(&name, p->kernel)) {
    pass_function(p);
    return 0;
  }
  *found = 1;
  return expect(p, '(') ? -1 : parse_kernel(p);
}

static int parse_module(attune__parser *p) {
  int found = 0, bad = 0;
  while (!bad) {
    attune__token token = next(p);
    if (token.kind == ATTUNE__TOKEN_END) break;
    if (attune__token_is(&token, ".entry"))
      bad = parse_entry(p, &found);
    else if (attune__token_is(&token, ".func") || attune__token_is(&token, ".section"))
      pass_function(p);
    else if (attune__token_is(&token, ".global") || attune__token_is(&token, ".const"))
      pass_statement(p);
    else if (attune__token_is(&token, ".shared"))
      bad = parse_shared(p);
    else if (attune__token_is(&token, ".file"))
      bad = attune__parse_file(p);
  }
  if (bad || found) return bad;
  return attune__refuse(p, p->lex.line, "no kernel of that name in it");
}

/* Operands were indices while their array grew. */
static void finish(attune__parser *p) {
  attune__ptx *program = p->program;
  const attune__operand *operand = program->operand;
  for (uint32_t k = 0; k < program->count; k++) {
    program->ins[k].operand = operand;
    operand += program->ins[k].operands;
  }
  program->file_bytes = p->file_bytes;
}

static int start(attune__parser *p) {
  p->program = calloc(1, sizeof *p->program);
  if (!p->program) {
    p->status = attune_fail(ATTUNE_NO_MEMORY, "no memory to read the PTX of %s", p->kernel);
    return -1;
  }
  p->program->granule = 4;
  p->file_bytes = 64; /* no register has slot 0: it stands for "no guard" */
  p->sink = attune__slot(p, 0, 'd', 1);
  if (attune__grow(p, &p->program->place, 0, &p->place_room, sizeof *p->program->place)) return -1;
  p->program->place[0] = (attune__place){0};
  p->program->places = 1;
  return 0;
}

attune_status attune__ptx_parse(const char *text, size_t bytes, const char *name,
                                attune__ptx **out) {
  *out = NULL;
  attune__parser p = {.lex = {.at = text, .end = text + bytes, .line = 1}, .kernel = name};
  if (start(&p) == 0 && parse_module(&p) == 0) finish(&p);
  free(p.symbol), free(p.label), free(p.jump), free(p.scope_parent);
  if (p.status)
    attune__ptx_free(p.program);
  else
    *out = p.program;
  return p.status;
}

void attune__ptx_free(attune__ptx *program) {
  if (!program) return;
  for (uint32_t k = 0; k < program->files; k++) free(program->file[k]);
  free(program->file), free(program->place), free(program->constant);
  free(program->operand), free(program->ins), free(program);
}
