/* ptx_place.c - source lines: .file and .loc directives -> places, and a place as text.
 *
 * Inlined code says which line called it. When that line was itself inlined, the last .loc of that
 * line says from where, so that a chain of parents ends at the kernel's own line. */
#include "ptx_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int attune__parse_u32(attune__parser *p, uint32_t *out) {
  uint64_t value;
  attune__token token = attune__lex_peek(&p->lex);
  if (!attune__token_number(&token, &value) || value > UINT32_MAX) return 0;
  attune__lex(&p->lex);
  *out = (uint32_t)value;
  return 1;
}

/* ---- .file -------------------------------------------------------------------------------------
 */

enum { FILES_MAX = 4096 };

static int set_file(attune__parser *p, uint32_t index, const attune__token *name) {
  attune__ptx *program = p->program;
  while (program->files <= index) {
    if (attune__grow(p, &program->file, program->files, &p->file_room, sizeof *program->file))
      return -1;
    program->file[program->files++] = NULL;
  }
  free(program->file[index]);
  program->file[index] = strndup(name->at, name->size);
  if (!program->file[index])
    p->status = attune_fail(ATTUNE_NO_MEMORY, "no memory to read the PTX of %s", p->kernel);
  return p->status ? -1 : 0;
}

int attune__parse_file(attune__parser *p) {
  uint32_t index;
  if (!attune__parse_u32(p, &index) || index >= FILES_MAX)
    return attune__refuse(p, p->lex.line, ".file: a number below %d is missing", FILES_MAX);
  attune__token name = attune__lex(&p->lex);
  if (name.kind != ATTUNE__TOKEN_STRING)
    return attune__refuse(p, name.line, ".file: its name is missing");
  return set_file(p, index, &name);
}

/* ---- .loc --------------------------------------------------------------------------------------
 */

/* The last place of that line; 0 when there is none. */
static uint32_t find(const attune__ptx *program, const attune__place *want) {
  for (uint32_t k = program->places; k-- > 1;) {
    const attune__place *have = &program->place[k];
    if (have->file == want->file && have->line == want->line && have->column == want->column)
      return k;
  }
  return 0;
}

static uint32_t add(attune__parser *p, attune__place place) {
  attune__ptx *program = p->program;
  uint32_t found = find(program, &place);
  if (found && program->place[found].parent == place.parent) return found;
  if (attune__grow(p, &program->place, program->places, &p->place_room, sizeof place)) return 0;
  program->place[program->places] = place;
  return program->places++;
}

static int parse_position(attune__parser *p, attune__place *out) {
  *out = (attune__place){0};
  return attune__parse_u32(p, &out->file) && attune__parse_u32(p, &out->line) &&
         attune__parse_u32(p, &out->column);
}

static uint32_t parse_parent(attune__parser *p) {
  attune__place parent;
  if (!parse_position(p, &parent)) return 0;
  uint32_t found = find(p->program, &parent);
  return found ? found : add(p, parent);
}

/* The rest of the line: "function_name" and such pass unread, "inlined_at" gives the parent. */
int attune__parse_loc(attune__parser *p, uint32_t line) {
  attune__place place;
  if (!parse_position(p, &place)) return attune__refuse(p, line, ".loc: three numbers are missing");
  for (;;) {
    attune__token token = attune__lex_peek(&p->lex);
    if (token.kind == ATTUNE__TOKEN_END || token.line != line) break;
    attune__lex(&p->lex);
    if (attune__token_is(&token, "inlined_at")) place.parent = parse_parent(p);
  }
  p->place = add(p, place);
  return p->status ? -1 : 0;
}

/* ---- as text -----------------------------------------------------------------------------------
 */

static const char *file_name(const attune__ptx *program, uint32_t file) {
  static const char folder[] = "/attune/templates/", root[] = "/attune/";
  const char *name = file < program->files ? program->file[file] : NULL;
  if (!name) return "?";
  if (strncmp(name, folder, strlen(folder)) == 0) return name + strlen(folder);
  return strncmp(name, root, strlen(root)) == 0 ? name + strlen(root) : name;
}

/* Parents come before their children, but a chain is followed for a bounded number of steps, since
 * the text may say anything. */
void attune__ptx_where(const attune__ptx *program, uint32_t place, char *out, size_t size) {
  if (place >= program->places || !program->place[place].line) {
    snprintf(out, size, "unknown line");
    return;
  }
  uint32_t own = place;
  for (int step = 0; program->place[own].parent && step < 64; step++)
    own = program->place[own].parent;
  const attune__place *outer = &program->place[own], *inner = &program->place[place];
  int length = snprintf(out, size, "%s:%u", file_name(program, outer->file), outer->line);
  if (own != place && length > 0 && (size_t)length < size)
    snprintf(out + length, size - (size_t)length, " (in %s:%u)", file_name(program, inner->file),
             inner->line);
}
