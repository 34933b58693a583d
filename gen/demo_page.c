/* demo_page.c - a page of a demo: filled row by row, printed as text, as JSON and as curves.
 *
 * Input: what an experiment found. Output: text. It knows no experiment. */
#include "cases.h"
#include "demo.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const sources[] = {"executed", "formula", "reference"};
static const char *const source_marks[] = {"", "  by formula", "  on the host"};

void attune__page_free(attune__page *page) {
  attune__text_free(&page->subject);
  attune__text_free(&page->notes);
}

attune__page_table *attune__page_add_table(attune__page *page, const attune__column *columns,
                                           const char *format, ...) {
  attune__page_table *table = &page->table[page->tables++];
  *table = (attune__page_table){.columns = 0};
  for (; columns[table->columns].key; table->columns++)
    table->column[table->columns] = columns[table->columns];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(table->title, sizeof table->title, format, arguments);
  va_end(arguments);
  return table;
}

int attune__page_add_row(attune__page_table *table, attune__row_source source,
                         const double *values) {
  if (table->rows == ATTUNE__TABLE_ROWS) return -1;
  int row = table->rows++;
  table->source[row] = source;
  for (int i = 0; i < table->columns; i++) table->cell[row][i].value = values[i];
  return row;
}

void attune__page_add_curve(attune__page *page, const attune__page_table *table, int x, int y,
                            const char *name) {
  attune__svg_series *series = &page->plot.series[page->plot.series_count++];
  *series = (attune__svg_series){.name = name};
  for (int row = 0; row < table->rows && row < ATTUNE__SVG_POINTS; row++) {
    int i = series->count++;
    series->x[i] = table->cell[row][x].value, series->y[i] = table->cell[row][y].value;
    series->hollow[i] = table->source[row] != ATTUNE__EXECUTED;
  }
}

/* ---- text ---------------------------------------------------------------------------------- */

static void put_cell(const attune__column *column, const attune__table_cell *cell,
                     attune__text *out) {
  if (column->style == ATTUNE__CELL_WORD || cell->word[0])
    attune__text_puts(out, cell->word);
  else if (column->style == ATTUNE__CELL_SCIENTIFIC)
    attune__put_short(out, cell->value);
  else
    attune__text_fixed(out, cell->value, column->style);
}

/* Right-aligned in `width`. */
static void put_aligned(const char *words, int width, attune__text *out) {
  attune__text_printf(out, "%*s", width, words ? words : "");
}

static int width_of(const attune__page_table *table, int column) {
  size_t width = strlen(table->column[column].heading);
  for (int row = 0; row < table->rows; row++) {
    attune__text cell = {0};
    put_cell(&table->column[column], &table->cell[row][column], &cell);
    if (cell.size > width) width = cell.size;
    attune__text_free(&cell);
  }
  return (int)width + 3;
}

static void print_table(const attune__page_table *table, attune__text *out) {
  int width[ATTUNE__TABLE_COLUMNS];
  attune__text_puts(out, "\n");
  if (table->title[0]) attune__text_printf(out, "%s\n", table->title);
  for (int i = 0; i < table->columns; i++) {
    width[i] = width_of(table, i);
    put_aligned(table->column[i].heading, width[i], out);
  }
  attune__text_puts(out, "\n");
  for (int row = 0; row < table->rows; row++) {
    for (int i = 0; i < table->columns; i++) {
      attune__text cell = {0};
      put_cell(&table->column[i], &table->cell[row][i], &cell);
      put_aligned(cell.data, width[i], out);
      attune__text_free(&cell);
    }
    attune__text_printf(out, "%s\n", source_marks[table->source[row]]);
  }
}

void attune__page_print(const attune__page *page, attune__text *out) {
  attune__text_printf(out, "demo %d: %s\n", page->number, page->title);
  if (page->subject.data) attune__text_puts(out, page->subject.data);
  for (int i = 0; i < page->tables; i++) print_table(&page->table[i], out);
  if (page->notes.data) attune__text_printf(out, "\n%s", page->notes.data);
  if (page->difference)
    attune__text_printf(out, "COUNTED BYTES DIFFER FROM THE FORMULA BY %llu\n",
                        (unsigned long long)page->difference);
  if (page->wrong) attune__text_puts(out, "A RESULT IS NOT WHAT THIS PAGE CLAIMS\n");
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void row_json(const attune__page_table *table, int row, attune__json *json) {
  attune__json_begin(json, '{');
  for (int i = 0; i < table->columns; i++) {
    attune__json_key(json, table->column[i].key);
    if (table->column[i].style == ATTUNE__CELL_WORD)
      attune__json_string(json, table->cell[row][i].word);
    else
      attune__json_number(json, table->cell[row][i].value);
  }
  attune__json_key(json, "source");
  attune__json_string(json, sources[table->source[row]]);
  attune__json_end(json, '}');
}

static void table_json(const attune__page_table *table, attune__json *json) {
  attune__json_begin(json, '{');
  attune__json_key(json, "title"), attune__json_string(json, table->title);
  attune__json_key(json, "rows");
  attune__json_begin(json, '[');
  for (int row = 0; row < table->rows; row++) row_json(table, row, json);
  attune__json_end(json, ']');
  attune__json_end(json, '}');
}

/* Text of several lines as a list. */
static void lines_json(const char *key, const attune__text *lines, attune__json *json) {
  attune__json_key(json, key);
  attune__json_begin(json, '[');
  for (const char *at = lines->data, *end; at && (end = strchr(at, '\n')); at = end + 1) {
    char line[512];
    snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
    attune__json_string(json, line);
  }
  attune__json_end(json, ']');
}

void attune__page_json(const attune__page *page, attune__json *json) {
  attune__json_begin(json, '{');
  attune__json_key(json, "demo"), attune__json_int(json, page->number);
  attune__json_key(json, "title"), attune__json_string(json, page->title);
  lines_json("subject", &page->subject, json);
  attune__json_key(json, "tables");
  attune__json_begin(json, '[');
  for (int i = 0; i < page->tables; i++) table_json(&page->table[i], json);
  attune__json_end(json, ']');
  lines_json("notes", &page->notes, json);
  attune__json_key(json, "difference"), attune__json_int(json, (int64_t)page->difference);
  attune__json_key(json, "as_claimed"), attune__json_bool(json, !page->wrong);
  attune__json_end(json, '}');
}
