/* pins.c - run-time scalars that a spec or a caller fixes: a sorted set, its digest, its numbers as
 * text.
 *
 * Input: names and values. Output: the pinset, and the digest that stands in a kernel's name. Which
 * scalars an op lets be pinned is left to params.c. */
#include "variant.h"

#include <locale.h>
#include <math.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>

/* Integers below this print exactly with nine digits; window bounds and lengths stay under 2^29. */
static const double EXACT_INTEGERS = 1e9;

/* Numbers print and parse in the C locale whatever the program has set: the switch is per thread.
 */
void attune__pin_print(double value, char out[ATTUNE_PIN_TEXT_MAX]) {
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  locale_t before = uselocale(c_locale);
  snprintf(out, ATTUNE_PIN_TEXT_MAX, "%.9g", value);
  uselocale(before);
  freelocale(c_locale);
}

int attune__pin_parse(const char *text, double *out) {
  if (!*text || strspn(text, "0123456789+-.e") != strlen(text)) return 0;
  char *end;
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  *out = strtod_l(text, &end, c_locale);
  freelocale(c_locale);
  return *end == 0;
}

/* A scalar is an int32 or an fp32 in the parameter block, so that is what is kept: a caller's 0.1f
 * and a spec's 0.1 are one pin, and nine digits tell any two apart. */
static double as_parameter(double value) {
  if (value == 0) return 0; /* drops the sign of -0 */
  if (fabs(value) < EXACT_INTEGERS && value == nearbyint(value)) return value;
  return (double)(float)value;
}

static int is_identifier(const char *name, size_t max) {
  size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789");
  return length > 0 && length < max && name[length] == 0;
}

attune_status attune__pinset_add(attune_pinset *set, const char *name, double value) {
  if (set->count >= ATTUNE_MAX_PINS)
    return attune_fail(ATTUNE_INVALID, "pin %s: at most %d pins", name, ATTUNE_MAX_PINS);
  if (!is_identifier(name, sizeof set->pin[0].name))
    return attune_fail(ATTUNE_INVALID, "pin '%s': not the name of a scalar in params.def", name);
  if (!isfinite(value) || !isfinite((float)value))
    return attune_fail(ATTUNE_INVALID, "pin %s: the value must be a finite number", name);
  uint32_t at = set->count;
  while (at > 0 && strcmp(set->pin[at - 1].name, name) > 0) at--;
  if (at > 0 && strcmp(set->pin[at - 1].name, name) == 0)
    return attune_fail(ATTUNE_INVALID, "pin %s: given twice", name);
  memmove(&set->pin[at + 1], &set->pin[at], (set->count - at) * sizeof set->pin[0]);
  memset(&set->pin[at], 0, sizeof set->pin[0]);
  memcpy(set->pin[at].name, name, strlen(name));
  set->pin[at].value = as_parameter(value);
  set->count++;
  return ATTUNE_OK;
}

uint32_t attune__pinset_digest(const attune_pinset *set) {
  if (set->count == 0) return 0;
  SHA2_CTX sha;
  SHA256Init(&sha);
  for (uint32_t i = 0; i < set->count; i++) {
    char value[ATTUNE_PIN_TEXT_MAX], line[sizeof set->pin[0].name + sizeof value + 2];
    attune__pin_print(set->pin[i].value, value);
    int length = snprintf(line, sizeof line, "%s=%s\n", set->pin[i].name, value);
    SHA256Update(&sha, (const uint8_t *)line, (size_t)length);
  }
  uint8_t hash[SHA256_DIGEST_LENGTH];
  SHA256Final(hash, &sha);
  uint32_t digest =
      (uint32_t)hash[0] << 24 | (uint32_t)hash[1] << 16 | (uint32_t)hash[2] << 8 | hash[3];
  return digest ? digest : 1; /* 0 means "no pins" */
}
