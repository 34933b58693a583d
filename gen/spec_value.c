/* spec_value.c - a node of the tree as a word, an integer or a number, strictly.
 *
 * Input: a node and what is wanted there. Output: the value, or a diagnostic that says what was
 * found and what to write. No text is ever taken for something else than it looks like: `no` is a
 * word, `0128` and `1e3` are not integers. */
#include "spec_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Longer words are shown cut, and never near to anything. */
enum { WORD_MAX = 32 };

void attune__spec_error(attune__reader *r, const attune__node *node, const char *help,
                        const char *format, ...) {
  char message[512];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  attune__diag_add(&r->diags, node ? node->line : 0, node ? node->column : 0, help, "%s", message);
}

/* A scalar's text for a message: in quotes, cut, on one line. */
static const char *shown(const attune__node *node, char out[WORD_MAX + 8]) {
  size_t length = strcspn(node->text, "\r\n"), kept = 0;
  while (kept < length) {
    size_t bytes = attune__utf8_bytes(node->text + kept, length - kept);
    if (bytes == 0 || kept + bytes > WORD_MAX) break;
    kept += bytes;
  }
  const char *cut = node->text[kept] ? "..." : "";
  snprintf(out, WORD_MAX + 8, "'%.*s%s'", (int)kept, node->text, cut);
  return out;
}

static const char *kind_name(const attune__node *node) {
  return node->kind == ATTUNE_YAML_LIST  ? "a list"
         : node->kind == ATTUNE_YAML_MAP ? "a map"
                                         : "a word";
}

/* ---- words ---- */

static int least_of(int a, int b) {
  return a < b ? a : b;
}

/* Edits from a to b: a letter more, less or changed, or two neighbours swapped (casual, causal). */
static int distance(const char *a, const char *b) {
  int rows[3][WORD_MAX + 1], length = (int)strlen(b);
  for (int j = 0; j <= length; j++) rows[0][j] = j;
  for (int i = 1; a[i - 1]; i++) {
    int *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= length; j++) {
      now[j] =
          least_of(before[j - 1] + (a[i - 1] != b[j - 1]), least_of(before[j], now[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = least_of(now[j], earlier[j - 2] + 1);
    }
  }
  return rows[strlen(a) % 3][length];
}

/* Of words equally near, the one that begins alike. */
const char *attune__nearest(const char *text, const char *const *words) {
  size_t length = strlen(text);
  const char *best = NULL;
  if (length > WORD_MAX) return NULL;
  int least = length > 4 ? 3 : 2; /* one more than the edits that are forgiven */
  for (; *words; words++) {
    int edits = distance(text, *words);
    if (edits < least || (best && edits == least && *words[0] == *text && *best != *text)) {
      least = edits;
      best = *words;
    }
  }
  return best;
}

void attune__words_print(const char *const *words, attune__text *out) {
  for (size_t i = 0; words[i]; i++) {
    if (i) attune__text_puts(out, ", ");
    attune__text_puts(out, words[i]);
  }
}

static int find_word(const char *text, const char *const *words) {
  for (int i = 0; words[i]; i++)
    if (!strcmp(text, words[i])) return i;
  return -1;
}

/* Words that YAML readers like to take for something else; here they are words. */
static const char *const truths[] = {"yes", "no", "on", "off", "true", "false", "null", "~", NULL};

/* "did you mean causal? masks: none, causal, window" */
static void print_help(const char *text, const attune__words *words, attune__text *help) {
  const char *near = attune__nearest(text, words->word);
  int is_truth = find_word(text, truths) >= 0;
  if (near && !is_truth) attune__text_printf(help, "did you mean %s? ", near);
  attune__text_printf(help, "%s: ", words->many);
  attune__words_print(words->word, help);
  if (is_truth) attune__text_puts(help, "; plain words, no quotes needed");
}

static void report_word(attune__reader *r, const attune__node *node, const attune__words *words) {
  char text[WORD_MAX + 8];
  attune__text help = {0};
  print_help(node->text, words, &help);
  if (node->kind != ATTUNE_YAML_SCALAR)
    attune__spec_error(r, node, help.data, "wanted %s, found %s", words->one, kind_name(node));
  else if (node->text[0])
    attune__spec_error(r, node, help.data, "%s is not %s", shown(node, text), words->one);
  else
    attune__spec_error(r, node, help.data, "%s is missing here", words->one);
  attune__text_free(&help);
}

int attune__value_scalar(attune__reader *r, const attune__node *node, const char *wanted,
                         const char *help) {
  if (node->refused) return 0;
  if (node->kind == ATTUNE_YAML_SCALAR) return 1;
  attune__spec_error(r, node, help, "wanted %s, found %s", wanted, kind_name(node));
  return 0;
}

int attune__value_word(attune__reader *r, const attune__node *node, const attune__words *words) {
  if (node->refused) return -1;
  int index = node->kind == ATTUNE_YAML_SCALAR ? find_word(node->text, words->word) : -1;
  if (index < 0) report_word(r, node, words);
  return index;
}

/* ---- numbers ---- */

#define PLAIN_INTEGER "decimal digits alone, such as 64"
#define PLAIN_NUMBER  "a finite fp32 number without quotes, such as 0.125"

static int is_integer(const char *text) {
  if (*text == '-') text++;
  size_t digits = strspn(text, "0123456789");
  return digits > 0 && digits < 16 && !text[digits] && (text[0] != '0' || digits == 1);
}

/* What an author of `text` probably meant by it: underscores, leading zeros, hexadecimal and
 * exponents undone. 1 when that is an integer. */
static int guess_integer(const char *text, int64_t *out) {
  char plain[WORD_MAX + 1];
  size_t kept = 0;
  for (; *text && kept < WORD_MAX; text++)
    if (*text != '_') plain[kept++] = *text;
  plain[kept] = 0;
  double value;
  if (!attune__parse_double(plain, &value) || !(fabs(value) < 1e15) || value != nearbyint(value))
    return 0;
  *out = (int64_t)value;
  return 1;
}

static void report_int(attune__reader *r, const attune__node *node, const char *what, int64_t low,
                       int64_t high) {
  char text[WORD_MAX + 8], help[96] = PLAIN_INTEGER;
  int64_t guess;
  if (guess_integer(node->text, &guess) && guess >= low && guess <= high)
    snprintf(help, sizeof help, "write %lld%s", (long long)guess,
             node->plain ? "" : ", without quotes");
  if (!node->text[0])
    attune__spec_error(r, node, help, "%s: an integer is missing here", what);
  else
    attune__spec_error(r, node, help, "%s: wanted an integer from %lld to %lld, found %s%s", what,
                       (long long)low, (long long)high, node->plain ? "" : "the quoted text ",
                       shown(node, text));
}

int attune__value_int(attune__reader *r, const attune__node *node, const char *what, int64_t low,
                      int64_t high, int64_t *out) {
  if (!attune__value_scalar(r, node, "an integer", PLAIN_INTEGER)) return 0;
  if (!node->plain || !is_integer(node->text)) {
    report_int(r, node, what, low, high);
    return 0;
  }
  *out = strtoll(node->text, NULL, 10);
  if (*out >= low && *out <= high) return 1;
  char help[64];
  snprintf(help, sizeof help, "%lld to %lld", (long long)low, (long long)high);
  attune__spec_error(r, node, help, "%s: %s is out of range", what, node->text);
  return 0;
}

/* -?digits[.digits][e[+-]digits], without leading zeros. */
static int is_number(const char *text) {
  if (*text == '-') text++;
  size_t whole = strspn(text, "0123456789");
  if (!whole || (text[0] == '0' && whole > 1)) return 0;
  text += whole;
  if (*text == '.') {
    size_t fraction = strspn(++text, "0123456789");
    if (!fraction) return 0;
    text += fraction;
  }
  if (*text == 'e') {
    text++;
    if (*text == '+' || *text == '-') text++;
    size_t exponent = strspn(text, "0123456789");
    if (!exponent) return 0;
    text += exponent;
  }
  return !*text;
}

int attune__value_number(attune__reader *r, const attune__node *node, const char *what,
                         double *out) {
  char text[WORD_MAX + 8];
  if (!attune__value_scalar(r, node, "a number", PLAIN_NUMBER)) return 0;
  if (node->plain && is_number(node->text) && attune__parse_double(node->text, out) &&
      isfinite((float)*out))
    return 1;
  attune__spec_error(r, node, PLAIN_NUMBER, "%s: wanted a number, found %s", what,
                     shown(node, text));
  return 0;
}

/* ---- maps ---- */

const attune__node *attune__map_get(const attune__node *map, const char *key) {
  for (const attune__node *item = map->first; item; item = item->next)
    if (!strcmp(item->key->text, key)) return item;
  return NULL;
}

int attune__map_check(attune__reader *r, const attune__node *map, const attune__words *words) {
  int fine = 1;
  for (const attune__node *item = map->first; item; item = item->next) {
    if (!item->key->refused && find_word(item->key->text, words->word) >= 0) continue;
    if (!item->key->refused) report_word(r, item->key, words);
    fine = 0;
  }
  return fine;
}
