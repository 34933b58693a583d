/* text.h - a growable text buffer and C-locale number printing: everything attune prints into
 * files, names or keys goes through here, so that a comma locale changes nothing.
 *
 * An append that runs out of memory sets .failed and drops the text; callers check once at the end.
 */
#ifndef ATTUNE_TEXT_H
#define ATTUNE_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct attune__text {
  char *data; /* NUL-terminated once something was appended; NULL before */
  size_t size, capacity;
  int failed;
} attune__text;

void attune__text_free(attune__text *text);
void attune__text_add(attune__text *text, const char *bytes, size_t size);
void attune__text_puts(attune__text *text, const char *string);
/* printf without floating-point conversions. */
void attune__text_printf(attune__text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A double with `decimals` places, '.' as the point in any locale. */
void attune__text_fixed(attune__text *text, double value, int decimals);
/* Shortest of %.9g / %.17g that reads back to the same double; '.' in any locale; "-inf" ok. */
void attune__text_number(attune__text *text, double value);
/* 1234567 -> "1,234,567". */
void attune__text_grouped(attune__text *text, uint64_t value);
/* A double from C-locale text; 1 on success and when all of it was read. */
int attune__parse_double(const char *text, double *out);
/* "96KB", "163840", "163840B", "1MB" -> bytes (KB = 1024); 1 on success. No sign, no fraction, no
 * leading zero, one space allowed before the unit. */
int attune__parse_bytes(const char *text, uint32_t *out);
/* Bytes (1 to 4) of the well-formed UTF-8 character at `text`; 0 when it is malformed or cut. */
size_t attune__utf8_bytes(const char *text, size_t size);

/* JSON, written as it goes. Keys and strings are escaped; non-finite numbers become null.
 *   attune__json j = {.text = &text};
 *   attune__json_begin(&j, '{'); attune__json_key(&j, "name"); attune__json_string(&j, n);
 *   attune__json_end(&j, '}');                 gives  {"name": "..."}
 * A NULL string is null. Nesting stops at 31 (.failed). */
typedef struct attune__json {
  attune__text *text;
  int depth;
  unsigned char has_item[32];
  int after_key;
} attune__json;
void attune__json_begin(attune__json *json, char bracket);
void attune__json_end(attune__json *json, char bracket);
void attune__json_key(attune__json *json, const char *key);
void attune__json_string(attune__json *json, const char *value);
void attune__json_int(attune__json *json, int64_t value);
void attune__json_number(attune__json *json, double value);
void attune__json_bool(attune__json *json, int value);

#endif
