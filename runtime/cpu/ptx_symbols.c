/* ptx_symbols.c - names and places of a module being read: registers, shared variables, constants,
 * and the layout of the register file.
 *
 * Input: declarations as the parser meets them. Output: slots. */
#include "ptx_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int attune__refuse(attune__parser *p, uint32_t line, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!p->status) p->status = attune_fail(ATTUNE_BAD_FILE, "%s.ptx:%u: %s", p->kernel, line, text);
  return -1;
}

int attune__grow(attune__parser *p, void *array, uint32_t count, uint32_t *room, size_t size) {
  if (count < *room) return 0;
  void *old;
  memcpy(&old, array, sizeof old);
  uint32_t more = *room ? *room * 2 : 64;
  void *grown = realloc(old, more * size);
  if (!grown) {
    p->status = attune_fail(ATTUNE_NO_MEMORY, "no memory to read the PTX of %s", p->kernel);
    return -1;
  }
  memcpy(array, &grown, sizeof grown);
  *room = more;
  return 0;
}

/* ---- the register file -------------------------------------------------------------------------
 */

static uint32_t bytes_of(char letter) {
  return letter == 'd' ? 8 * ATTUNE__LANES : letter == 'p' ? 4 : 4 * ATTUNE__LANES;
}

/* Every slot begins a cache line, but for the predicates of one range. */
uint32_t attune__slot(attune__parser *p, uint32_t line, char letter, uint32_t count) {
  uint64_t bytes = ((uint64_t)bytes_of(letter) * count + 63) / 64 * 64;
  if (p->file_bytes + bytes > ATTUNE__FILE_BYTES_MAX) {
    attune__refuse(p, line, "registers of more than %d bytes a warp", ATTUNE__FILE_BYTES_MAX);
    return UINT32_MAX;
  }
  uint32_t slot = p->file_bytes;
  p->file_bytes += (uint32_t)bytes;
  return slot;
}

uint32_t attune__constant_slot(attune__parser *p, uint64_t value, uint32_t bytes) {
  attune__ptx *program = p->program;
  for (uint32_t k = 0; k < program->constants; k++)
    if (program->constant[k].value == value && program->constant[k].bytes == bytes)
      return program->constant[k].slot;
  if (attune__grow(p, &program->constant, program->constants, &p->constant_room,
                   sizeof *program->constant))
    return UINT32_MAX;
  uint32_t slot = attune__slot(p, p->lex.line, bytes == 8 ? 'd' : 'w', 1);
  program->constant[program->constants++] = (attune__constant){value, slot, bytes};
  return slot;
}

/* ---- symbols -----------------------------------------------------------------------------------
 */

int attune__symbol_add(attune__parser *p, attune__symbol symbol) {
  if (attune__grow(p, &p->symbol, p->symbols, &p->symbol_room, sizeof *p->symbol)) return -1;
  p->symbol[p->symbols++] = symbol;
  return 0;
}

/* The number behind a range's prefix, without leading zeros; UINT32_MAX when there is none. */
static uint32_t range_index(const char *at, uint32_t size) {
  uint32_t index = 0;
  if (size == 0 || size > 8 || (size > 1 && at[0] == '0')) return UINT32_MAX;
  for (uint32_t k = 0; k < size; k++) {
    if (at[k] < '0' || at[k] > '9') return UINT32_MAX;
    index = index * 10 + (uint32_t)(at[k] - '0');
  }
  return index;
}

const attune__symbol *attune__symbol_find(const attune__parser *p, const attune__token *name,
                                          uint32_t *slot) {
  for (uint32_t k = p->symbols; k-- > 0;) {
    const attune__symbol *s = &p->symbol[k];
    if (name->size < s->size || memcmp(s->name, name->at, s->size) != 0) continue;
    uint32_t index = 0;
    if (s->kind == ATTUNE__SYMBOL_RANGE)
      index = range_index(name->at + s->size, name->size - s->size);
    else if (name->size != s->size)
      continue;
    if (s->kind == ATTUNE__SYMBOL_RANGE && index >= s->count) continue;
    *slot = s->slot + index * s->bytes;
    return s;
  }
  return NULL;
}
