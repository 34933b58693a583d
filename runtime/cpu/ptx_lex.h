/* ptx_lex.h - PTX text as words and marks. */
#ifndef ATTUNE_CPU_PTX_LEX_H
#define ATTUNE_CPU_PTX_LEX_H

#include <stddef.h>
#include <stdint.h>

typedef enum attune__token_kind {
  ATTUNE__TOKEN_END,    /* of the text */
  ATTUNE__TOKEN_WORD,   /* identifier, register, directive, opcode, number */
  ATTUNE__TOKEN_STRING, /* without its quotes */
  ATTUNE__TOKEN_MARK    /* one character */
} attune__token_kind;

typedef struct attune__token {
  attune__token_kind kind;
  const char *at; /* in the text, not NUL-terminated */
  uint32_t size;
  uint32_t line; /* from 1 */
} attune__token;

typedef struct attune__lexer {
  const char *at, *end;
  uint32_t line;
} attune__lexer;

/* The next token; comments and blanks are passed over. */
attune__token attune__lex(attune__lexer *lexer);
/* The next token, which stays the next. */
attune__token attune__lex_peek(const attune__lexer *lexer);

int attune__token_is(const attune__token *token, const char *text);
int attune__token_starts(const attune__token *token, const char *text);
/* An unsigned decimal or 0x number, 0f and 0d bit patterns; 1 when the word is one. */
int attune__token_number(const attune__token *token, uint64_t *out);

#endif
