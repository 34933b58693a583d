/* conformance.c - the text and the input of the conformance kernels; the cases are in
 * conformance_cases.c. The same on every machine: integers alone. */
#include "conformance.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text --------------------------------------------------------------------------------------
 */

typedef struct text {
  char *at;
  size_t size, room;
} text;

static void add(text *t, const char *format, ...) {
  va_list list;
  if (t->room < t->size + 4096) {
    char *more = realloc(t->at, t->room + (1 << 17));
    if (!more) abort();
    t->at = more, t->room += 1 << 17;
  }
  va_start(list, format);
  t->size += (size_t)vsnprintf(t->at + t->size, 4096, format, list);
  va_end(list);
}

static int add_file(text *t, const char *name) {
  char path[128], line[1024];
  snprintf(path, sizeof path, "tests/conformance/%s", name);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  while (fgets(line, sizeof line, f)) add(t, "%s", line);
  fclose(f);
  return 1;
}

/* `count` accumulators: their list, their constraints, and names of the ten operands behind. */
static void add_lists(text *t, const char *prefix, unsigned n, unsigned count) {
  add(t, "#define %s_%u \"{", *prefix ? "H" : "D", n);
  for (unsigned i = 0; i < count; i++) add(t, "%s%%%u", i ? "," : "", i);
  add(t, "}\"\n#define IO%s_%u(d) ", prefix, n);
  for (unsigned i = 0; i < count; i++) add(t, "%s\"+r\"(d[%u])", i ? ", " : "", i);
  for (unsigned i = 0; i < 10; i++) add(t, "\n#define X%s_%u_%u \"%%%u\"", prefix, n, i, count + i);
  add(t, "\n");
}

char *conformance_source(const conformance_case *c) {
  static const unsigned sizes[] = {8, 24, 32, 136, 256};
  text t = {0};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    add_lists(&t, "", sizes[i], sizes[i] / 2);
    add_lists(&t, "H", sizes[i], sizes[i] / 4);
  }
  if (add_file(&t, "shared.cuh") && add_file(&t, c->file)) return t.at;
  free(t.at);
  return NULL;
}

/* ---- input -------------------------------------------------------------------------------------
 */

static uint64_t seed_of(const char *name) { /* FNV-1a */
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (; *name; name++) h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  return h;
}

static uint32_t next(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z >> 32);
}

static const struct {
  int bits, mantissa, bias;
} formats[] = {{32, 32, 0}, {32, 23, 127}, {16, 10, 15}, {16, 7, 127}, {8, 3, 7}, {8, 2, 15}};

/* One number. Its largest exponent means infinity or NaN, but in e4m3. */
static uint32_t element(const conformance_fill *f, uint64_t *state) {
  int bits = formats[f->type].bits, mantissa = formats[f->type].mantissa;
  uint32_t random = next(state), kind = next(state) % 64;
  if (f->type == TYPE_RAW) return random;
  int top = (1 << (bits - 1 - mantissa)) - 1, bias = formats[f->type].bias;
  int low = bias - f->spread, high = bias + f->spread, last = f->type == TYPE_E4M3 ? top : top - 1;
  if (low < 0) low = 0;
  if (high > last) high = last;
  uint32_t exponent = (uint32_t)low + next(state) % (uint32_t)(high - low + 1);
  uint32_t fraction = random & ((1u << mantissa) - 1), sign = random >> 31 << (bits - 1);
  if (f->type == TYPE_E4M3 && (int)exponent == top && fraction == 7) fraction = 6;
  if (f->odd && kind < 6) return sign;
  if (f->odd && kind == 6) exponent = (uint32_t)top, fraction = 0;
  if (f->odd && kind == 7) exponent = (uint32_t)top, fraction = (1u << mantissa) - 1;
  return sign | exponent << mantissa | fraction;
}

static void fill(uint32_t *to, uint32_t words, const conformance_fill *f, uint64_t *state) {
  int bits = formats[f->type].bits;
  for (uint32_t i = 0; i < words; i++) {
    to[i] = 0;
    for (int at = 0; at < 32; at += bits) to[i] |= element(f, state) << at;
  }
}

uint32_t conformance_in_words(const conformance_case *c) {
  return c->words + c->more_words + (c->coordinates ? 4 * c->grid : 0);
}

uint32_t *conformance_input(const conformance_case *c) {
  uint32_t *in = malloc((conformance_in_words(c) + 4) * sizeof *in);
  uint64_t state = seed_of(c->name);
  if (!in) return NULL;
  fill(in, c->words, &c->fill, &state);
  fill(in + c->words, c->more_words, &c->more_fill, &state);
  if (c->coordinates)
    memcpy(in + c->words + c->more_words, c->coordinates, 4 * c->grid * sizeof *in);
  return in;
}
