/* ptx_lex.c - PTX text -> tokens. Input: any bytes. Output: words, strings and marks with their
 * line; every byte is passed once, nothing is copied. What words mean is the parser's. */
#include "ptx_lex.h"

#include <string.h>

static int is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '$' || c == '%';
}

static int is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int starts(const attune__lexer *x, const char *text) {
  size_t n = strlen(text);
  return (size_t)(x->end - x->at) >= n && memcmp(x->at, text, n) == 0;
}

/* Passes over bytes up to and with `last`, or to the end. */
static void pass(attune__lexer *x, const char *last) {
  while (x->at < x->end && !starts(x, last)) x->line += *x->at++ == '\n';
  if (x->at < x->end) x->at += strlen(last);
}

static void pass_blanks(attune__lexer *x) {
  while (x->at < x->end) {
    if (starts(x, "//")) {
      while (x->at < x->end && *x->at != '\n') x->at++;
    } else if (starts(x, "/*")) {
      pass(x, "*/");
    } else if (is_blank(*x->at)) {
      x->line += *x->at++ == '\n';
    } else {
      return;
    }
  }
}

/* A word goes on over "::" (shared::cta) but not over ':' (a label's end). */
static const char *word_end(const attune__lexer *x) {
  const char *p = x->at;
  while (p < x->end) {
    if (is_word(*p))
      p++;
    else if (*p == ':' && p + 2 < x->end && p[1] == ':' && is_word(p[2]))
      p += 2;
    else
      break;
  }
  return p;
}

attune__token attune__lex(attune__lexer *x) {
  pass_blanks(x);
  attune__token token = {.at = x->at, .line = x->line};
  if (x->at >= x->end) return token;
  const char *end = word_end(x);
  if (end > x->at) {
    token.kind = ATTUNE__TOKEN_WORD;
    token.size = (uint32_t)(end - x->at);
    x->at = end;
  } else if (*x->at == '"') {
    token.kind = ATTUNE__TOKEN_STRING;
    token.at = ++x->at;
    while (x->at < x->end && *x->at != '"' && *x->at != '\n') x->at++;
    token.size = (uint32_t)(x->at - token.at);
    if (x->at < x->end && *x->at == '"') x->at++;
  } else {
    token.kind = ATTUNE__TOKEN_MARK;
    token.size = 1;
    x->at++;
  }
  return token;
}

attune__token attune__lex_peek(const attune__lexer *lexer) {
  attune__lexer copy = *lexer;
  return attune__lex(&copy);
}

int attune__token_is(const attune__token *token, const char *text) {
  return token->kind != ATTUNE__TOKEN_STRING && token->size == strlen(text) &&
         memcmp(token->at, text, token->size) == 0;
}

int attune__token_starts(const attune__token *token, const char *text) {
  size_t n = strlen(text);
  return token->kind == ATTUNE__TOKEN_WORD && token->size >= n && memcmp(token->at, text, n) == 0;
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

static int digits(const char *at, const char *end, int base, uint64_t *out) {
  if (at == end) return 0;
  *out = 0;
  for (; at < end; at++) {
    uint64_t d = (uint64_t)digit(*at);
    if (d >= (uint64_t)base) return 0;
    if (__builtin_mul_overflow(*out, (uint64_t)base, out)) return 0;
    if (__builtin_add_overflow(*out, d, out)) return 0;
  }
  return 1;
}

int attune__token_number(const attune__token *token, uint64_t *out) {
  if (token->kind != ATTUNE__TOKEN_WORD) return 0;
  const char *at = token->at, *end = at + token->size;
  if (token->size > 2 && at[0] == '0') {
    if (at[1] == 'x' || at[1] == 'X') return digits(at + 2, end, 16, out);
    if (at[1] == 'f' || at[1] == 'F') return token->size == 10 && digits(at + 2, end, 16, out);
    if (at[1] == 'd' || at[1] == 'D') return token->size == 18 && digits(at + 2, end, 16, out);
  }
  if (token->size > 1 && at[0] == '0') return 0; /* octal: NVRTC writes none */
  return digits(at, end, 10, out);
}
