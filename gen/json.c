/* json.c - writes JSON into a text, item by item: the commas, the escapes, and nothing else.
 *
 * Input: calls in document order (text.h shows some). Output: JSON on one line, valid UTF-8
 * whatever the strings hold. Nesting is limited by has_item's size; going deeper or closing what is
 * not open fails the text like running out of memory does. */
#include "text.h"

#include <math.h>
#include <string.h>

static void fail(attune__json *json) {
  attune__text_free(json->text);
  json->text->failed = 1;
}

/* What stands before an item: nothing after a key or at top level, else a comma but for the first.
 */
static void separate(attune__json *json) {
  if (json->after_key) {
    json->after_key = 0;
    return;
  }
  if (json->depth == 0) return;
  if (json->has_item[json->depth]) attune__text_puts(json->text, ", ");
  json->has_item[json->depth] = 1;
}

void attune__json_begin(attune__json *json, char bracket) {
  separate(json);
  attune__text_add(json->text, &bracket, 1);
  if (json->depth + 1 >= (int)sizeof json->has_item) {
    fail(json);
    return;
  }
  json->has_item[++json->depth] = 0;
}

void attune__json_end(attune__json *json, char bracket) {
  if (json->depth == 0) {
    fail(json);
    return;
  }
  json->depth--;
  attune__text_add(json->text, &bracket, 1);
}

/* One character of a string; returns the bytes read. Malformed UTF-8 becomes U+FFFD. */
static size_t escape(attune__text *text, const char *s, size_t size) {
  static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
  const char *found = memchr(special, *s, sizeof special - 1);
  size_t bytes = attune__utf8_bytes(s, size);
  if (found)
    attune__text_printf(text, "\\%c", letter[found - special]);
  else if ((unsigned char)*s < 0x20 || *s == 0x7f)
    attune__text_printf(text, "\\u%04x", (unsigned)(unsigned char)*s);
  else if (bytes == 0)
    attune__text_puts(text, "\xef\xbf\xbd");
  else
    attune__text_add(text, s, bytes);
  return bytes ? bytes : 1;
}

static void quote(attune__text *text, const char *s) {
  attune__text_puts(text, "\"");
  for (size_t size = strlen(s); size;) {
    size_t read = escape(text, s, size);
    s += read;
    size -= read;
  }
  attune__text_puts(text, "\"");
}

void attune__json_key(attune__json *json, const char *key) {
  separate(json);
  quote(json->text, key);
  attune__text_puts(json->text, ": ");
  json->after_key = 1;
}

void attune__json_string(attune__json *json, const char *value) {
  separate(json);
  if (value)
    quote(json->text, value);
  else
    attune__text_puts(json->text, "null");
}

void attune__json_int(attune__json *json, int64_t value) {
  separate(json);
  attune__text_printf(json->text, "%lld", (long long)value);
}

void attune__json_number(attune__json *json, double value) {
  separate(json);
  if (isfinite(value))
    attune__text_number(json->text, value);
  else
    attune__text_puts(json->text, "null");
}

void attune__json_bool(attune__json *json, int value) {
  separate(json);
  attune__text_puts(json->text, value ? "true" : "false");
}
