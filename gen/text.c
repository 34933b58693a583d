/* text.c - the growable buffer and the number printing of text.h.
 *
 * Input: bytes and numbers. Output: text that is the same in every locale. Floating-point
 * conversions run under the "C" locale of the calling thread alone (uselocale), so neither the
 * program's locale nor other threads are touched. JSON stands in json.c. */
#include "text.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest "%.*f": a sign, 309 digits of DBL_MAX, the point, MAX_DECIMALS, NUL. */
enum { MAX_DECIMALS = 60, FIXED_MAX = 1 + 309 + 1 + MAX_DECIMALS + 1 };

static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void c_locale_make(void) {
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Switches the thread to the C locale; the result goes to locale_leave. */
static locale_t locale_enter(void) {
  pthread_once(&c_locale_once, c_locale_make);
  return uselocale(c_locale);
}

static void locale_leave(locale_t before) {
  uselocale(before);
}

void attune__text_free(attune__text *text) {
  free(text->data);
  *text = (attune__text){0};
}

static void fail(attune__text *text) {
  attune__text_free(text);
  text->failed = 1;
}

/* Room for `more` bytes and a NUL; 0 when there is none. */
static int reserve(attune__text *text, size_t more) {
  if (text->failed) return 0;
  if (more >= SIZE_MAX / 2 - text->size) {
    fail(text);
    return 0;
  }
  size_t need = text->size + more + 1;
  if (need <= text->capacity) return 1;
  size_t capacity = text->capacity ? text->capacity : 128;
  while (capacity < need) capacity *= 2;
  char *data = realloc(text->data, capacity);
  if (!data) {
    fail(text);
    return 0;
  }
  text->data = data;
  text->capacity = capacity;
  return 1;
}

void attune__text_add(attune__text *text, const char *bytes, size_t size) {
  if (!reserve(text, size)) return;
  if (size) memcpy(text->data + text->size, bytes, size);
  text->size += size;
  text->data[text->size] = 0;
}

void attune__text_puts(attune__text *text, const char *string) {
  attune__text_add(text, string, strlen(string));
}

void attune__text_printf(attune__text *text, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int length = vsnprintf(NULL, 0, format, list);
  if (length < 0) fail(text);
  if (length >= 0 && reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->size, (size_t)length + 1, format, again);
    text->size += (size_t)length;
  }
  va_end(again);
  va_end(list);
}

/* "nan", "inf" and "-inf"; printf would give NaN a sign. */
static int put_special(attune__text *text, double value) {
  if (isfinite(value)) return 0;
  attune__text_puts(text, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  return 1;
}

void attune__text_fixed(attune__text *text, double value, int decimals) {
  char digits[FIXED_MAX];
  if (put_special(text, value)) return;
  if (decimals < 0) decimals = 0;
  if (decimals > MAX_DECIMALS) decimals = MAX_DECIMALS;
  locale_t before = locale_enter();
  snprintf(digits, sizeof digits, "%.*f", decimals, value);
  locale_leave(before);
  attune__text_puts(text, digits);
}

void attune__text_number(attune__text *text, double value) {
  char digits[40];
  if (put_special(text, value)) return;
  locale_t before = locale_enter();
  snprintf(digits, sizeof digits, "%.9g", value);
  if (strtod(digits, NULL) != value) snprintf(digits, sizeof digits, "%.17g", value);
  locale_leave(before);
  attune__text_puts(text, digits);
}

void attune__text_grouped(attune__text *text, uint64_t value) {
  char digits[27]; /* 20 digits, 6 commas, NUL */
  size_t at = sizeof digits - 1;
  digits[at] = 0;
  for (int count = 0; count == 0 || value; count++, value /= 10) {
    if (count && count % 3 == 0) digits[--at] = ',';
    digits[--at] = (char)('0' + value % 10);
  }
  attune__text_puts(text, digits + at);
}

int attune__parse_double(const char *text, double *out) {
  if (!*text || isspace((unsigned char)*text)) return 0;
  char *end;
  locale_t before = locale_enter();
  double value = strtod(text, &end);
  locale_leave(before);
  if (*end) return 0;
  *out = value;
  return 1;
}

int attune__parse_bytes(const char *text, uint32_t *out) {
  static const struct {
    const char *name;
    uint32_t bytes;
  } units[] = {{"", 1}, {"B", 1}, {"KB", 1024}, {"MB", 1024 * 1024}};
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 10 || (text[0] == '0' && digits > 1)) return 0;
  uint64_t value = 0;
  for (size_t i = 0; i < digits; i++) value = value * 10 + (uint64_t)(text[i] - '0');
  const char *unit = text + digits;
  if (unit[0] == ' ' && unit[1]) unit++;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(unit, units[i].name) != 0 || value * units[i].bytes > UINT32_MAX) continue;
    *out = (uint32_t)(value * units[i].bytes);
    return 1;
  }
  return 0;
}

size_t attune__utf8_bytes(const char *text, size_t size) {
  const unsigned char *s = (const unsigned char *)text;
  if (!size) return 0;
  if (s[0] < 0x80) return 1;
  size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4 || size < length) return 0;
  for (size_t i = 1; i < length; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  /* Overlong forms, surrogates, and code points over U+10FFFF show in the second byte. */
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f)) return 0;
  if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) return 0;
  return length;
}
