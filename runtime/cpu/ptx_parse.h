/* ptx_parse.h - what ptx_parse.c and ptx_match.c share: a module being read. */
#ifndef ATTUNE_CPU_PTX_PARSE_H
#define ATTUNE_CPU_PTX_PARSE_H

#include "ptx.h"
#include "ptx_lex.h"

enum {
  ATTUNE__STATEMENT_TOKENS = 1024, /* of one instruction: wgmma of n 256 has 270 */
  ATTUNE__OPERANDS_MAX = 160,
  ATTUNE__FILE_BYTES_MAX = 16 << 20 /* of a register file */
};

typedef enum attune__symbol_kind {
  ATTUNE__SYMBOL_REGISTER, /* letter w, d, h or p */
  ATTUNE__SYMBOL_RANGE,    /* %r<100>: name is the prefix */
  ATTUNE__SYMBOL_SHARED,   /* value: its address */
  ATTUNE__SYMBOL_PARAM
} attune__symbol_kind;

typedef struct attune__symbol {
  attune__symbol_kind kind;
  const char *name; /* in the text */
  uint32_t size;
  char letter;
  uint32_t slot, count, bytes; /* bytes: from one register of a range to the next */
  uint64_t value;
} attune__symbol;

/* A label, or a branch to one, with the scope that it stands in. */
typedef struct attune__label {
  const char *name;
  uint32_t size, scope, ins, line;
} attune__label;

typedef struct attune__parser {
  attune__lexer lex;
  const char *kernel;
  attune__ptx *program;
  attune__symbol *symbol;
  uint32_t symbols, symbol_room;
  attune__label *label, *jump;
  uint32_t labels, label_room, jumps, jump_room;
  uint32_t *scope_parent; /* by scope; scope 0 is its own */
  uint32_t scopes, scope_room, scope;
  uint32_t ins_room, operand_room, operands, constant_room, place_room, file_room;
  uint32_t place;      /* of the next instructions */
  uint32_t file_bytes; /* used so far of the register file */
  uint32_t sink;       /* slot that '_' writes to */
  int has_dynamic;     /* the address of dynamic shared memory was given out */
  attune_status status;
} attune__parser;

/* Makes room for one more element of an array; 0, or -1 when out of memory (status is set). */
int attune__grow(attune__parser *p, void *array, uint32_t count, uint32_t *room, size_t size);
/* Sets status and message "KERNEL.ptx:LINE: ..." unless there is one; -1. */
int attune__refuse(attune__parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A place for `count` registers of a letter; UINT32_MAX and a refusal when it is too much. */
uint32_t attune__slot(attune__parser *p, uint32_t line, char letter, uint32_t count);
/* The slot of a number (bytes 4 or 8 a lane), shared by all that use it. */
uint32_t attune__constant_slot(attune__parser *p, uint64_t value, uint32_t bytes);
/* The symbol of that name; for a register of a range its slot is in *slot. NULL: none. */
const attune__symbol *attune__symbol_find(const attune__parser *p, const attune__token *name,
                                          uint32_t *slot);

/* Declares a symbol. */
int attune__symbol_add(attune__parser *p, attune__symbol symbol);
/* ".loc 1 125 3" and what follows on its line: the place of the next instructions. */
int attune__parse_loc(attune__parser *p, uint32_t line);
/* ".file 1 "/attune/templates/attn_fwd/fma.cu"" */
int attune__parse_file(attune__parser *p);
/* The number that comes next, as a uint32_t; 0 when something else does. */
int attune__parse_u32(attune__parser *p, uint32_t *out);

/* Resolves one instruction (ptx_match.c): opcode and operand tokens, without the semicolon. Adds
 * its operands and, for a branch, its jump; 0 or -1. */
int attune__match(attune__parser *p, const attune__token *opcode, const attune__token *operands,
                  uint32_t count, attune__ins *out);

#endif
