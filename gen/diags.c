/* diags.c - collects the diagnostics of a spec and prints them.
 *
 * Input: places, messages, and the source they speak of. Output, in the order of the places:
 *
 *   specs/x.yaml:3:7: error: unknown mask 'casual'
 *     mask: casual
 *           ^
 *     help: did you mean causal?
 *
 * A place without a source line (an unreadable file) prints the first line and the help alone, and
 * line 0 stands for no place at all. Bytes that a terminal could choke on are replaced. */
#include "yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Longer source lines are cut to a window of this many characters around the place. */
enum { WINDOW = 100 };

static char *format_text(const char *format, va_list list) {
  char *text = NULL;
  return vasprintf(&text, format, list) < 0 ? NULL : text;
}

/* The same thing said twice (by two rows of a product) is said once. */
static int is_known(const attune_diags *diags, int line, int column, const char *message) {
  for (int i = 0; i < diags->count; i++) {
    const attune_diag *d = &diags->item[i];
    if (d->line == line && d->column == column && !strcmp(d->message, message)) return 1;
  }
  return 0;
}

void attune__diag_add(attune_diags *diags, int line, int column, const char *help,
                      const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *message = format_text(format, list);
  va_end(list);
  if (message && is_known(diags, line, column, message)) {
    free(message);
    return;
  }
  char *help_copy = help ? strdup(help) : NULL;
  if (!message || (help && !help_copy) || diags->count == ATTUNE_MAX_DIAGS) {
    free(message);
    free(help_copy);
    diags->dropped++;
    return;
  }
  diags->item[diags->count++] = (attune_diag){line, column, message, help_copy};
}

void attune__diags_free(attune_diags *diags) {
  for (int i = 0; i < diags->count; i++) {
    free(diags->item[i].message);
    free(diags->item[i].help);
  }
  *diags = (attune_diags){0};
}

/* Start and size of a line, counted from 1, without its end; 0 when there is no such line. */
static int find_line(const char *source, size_t bytes, int line, const char **start, size_t *size) {
  size_t at = 0;
  for (; line > 1 && at < bytes; at++) {
    int crlf = source[at] == '\r' && at + 1 < bytes && source[at + 1] == '\n';
    if (source[at] == '\n' || (source[at] == '\r' && !crlf)) line--;
  }
  if (line != 1 || (at == bytes && bytes == 0)) return 0;
  size_t end = at;
  while (end < bytes && source[end] != '\n' && source[end] != '\r') end++;
  *start = source + at;
  *size = end - at;
  return 1;
}

/* Prints characters [from, to) of a line; returns how many there were up to `to`. Malformed and
 * control characters become U+FFFD; as a ruler, all but tabs become spaces. */
static int print_characters(attune__text *out, const char *s, size_t size, int from, int to,
                            int ruler) {
  int count = 0;
  for (size_t at = 0; at < size && count < to; count++) {
    size_t length = attune__utf8_bytes(s + at, size - at);
    if (count < from)
      ;
    else if (s[at] == '\t')
      attune__text_puts(out, "\t");
    else if (ruler)
      attune__text_puts(out, " ");
    else if (attune__yaml_character_fault(s + at, length))
      attune__text_puts(out, "\xef\xbf\xbd");
    else
      attune__text_add(out, s + at, length);
    at += length ? length : 1;
  }
  return count;
}

static int count_characters(const char *s, size_t size) {
  int count = 0;
  for (size_t at = 0; at < size; count++) {
    size_t length = attune__utf8_bytes(s + at, size - at);
    at += length ? length : 1;
  }
  return count;
}

static void print_source(attune__text *out, const char *source, size_t bytes, int line,
                         int column) {
  const char *start;
  size_t size;
  if (!source || line < 1 || !find_line(source, bytes, line, &start, &size)) return;
  int from = column > WINDOW ? column - WINDOW / 2 : 0;
  attune__text_puts(out, from ? "  ..." : "  ");
  print_characters(out, start, size, from, from + WINDOW, 0);
  attune__text_puts(out, count_characters(start, size) > from + WINDOW ? "...\n" : "\n");
  attune__text_puts(out, from ? "     " : "  ");
  int shown = print_characters(out, start, size, from, column - 1, 1);
  for (; shown < column - 1; shown++) attune__text_puts(out, " "); /* just past the line's end */
  attune__text_puts(out, "^\n");
}

static void print_one(attune__text *out, const attune_diag *d, const char *file, const char *source,
                      size_t bytes) {
  attune__text_puts(out, file);
  if (d->line) attune__text_printf(out, ":%d:%d", d->line, d->column);
  attune__text_printf(out, ": error: %s\n", d->message);
  print_source(out, source, bytes, d->line, d->column);
  if (d->help) attune__text_printf(out, "  help: %s\n", d->help);
}

static int stands_before(const attune_diag *a, const attune_diag *b) {
  return a->line != b->line ? a->line < b->line : a->column < b->column;
}

/* By place; those of one place stay as they came. */
static void sort(const attune_diags *diags, const attune_diag **order) {
  for (int i = 0; i < diags->count; i++) {
    int at = i;
    for (; at > 0 && stands_before(&diags->item[i], order[at - 1]); at--) order[at] = order[at - 1];
    order[at] = &diags->item[i];
  }
}

void attune__diags_print(const attune_diags *diags, const char *file, const char *source,
                         size_t source_bytes, attune__text *out) {
  const attune_diag *order[ATTUNE_MAX_DIAGS];
  sort(diags, order);
  for (int i = 0; i < diags->count; i++) print_one(out, order[i], file, source, source_bytes);
  if (diags->dropped)
    attune__text_printf(out, "%s: %d more error%s, not shown\n", file, diags->dropped,
                        diags->dropped == 1 ? "" : "s");
}
