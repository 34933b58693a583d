/* test_mutations.c - the spec reader takes any bytes at all: a spec or an error text, never a
 * crash. Mutants of tests/bad/ and specs/ are read; the sanitizers (`make san`) see what this
 * cannot. */
#include "../gen/spec.h"
#include "test.h"

#include <dirent.h>

enum { MUTATIONS = 2000, CORPUS_MAX = 200, MUTANT_MAX = 1 << 13 };

static uint64_t random_state;
static uint32_t random_below(uint32_t limit) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((random_state >> 33) % limit);
}

typedef struct corpus {
  char *text[CORPUS_MAX];
  size_t size[CORPUS_MAX];
  int count;
} corpus;

static int is_yaml(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return length > 5 && !strcmp(entry->d_name + length - 5, ".yaml");
}

static void corpus_add(corpus *c, const char *folder) {
  struct dirent **entries;
  int count = scandir(folder, &entries, is_yaml, alphasort);
  for (int i = 0; i < count; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    free(entries[i]);
    if (c->count == CORPUS_MAX) continue;
    void *text;
    ck_assert_int_eq(attune__file_read(path, 1 << 17, &text, &c->size[c->count]), ATTUNE_OK);
    c->text[c->count++] = text;
  }
  free(entries);
}

/* Puts `size` bytes into the mutant at `at`, over what is there or between. */
static void put(char *mutant, size_t *length, size_t at, const char *bytes, size_t size, int over) {
  if (at + size > MUTANT_MAX || (!over && *length + size > MUTANT_MAX)) return;
  if (!over) {
    memmove(mutant + at + size, mutant + at, *length - at);
    *length += size;
  } else if (at + size > *length) {
    *length = at + size;
  }
  memcpy(mutant + at, bytes, size);
}

static void mutate(const corpus *c, char *mutant, size_t *length) {
  static const char *const tokens[] = {
      "[",   "]",   "{",      "}",      ": ",        ",",  "- ",    "\n",
      "\t",  "&a ", "*a",     "!!int ", "<<: ",      "? ", "---\n", "...\n",
      "\"",  "'",   "|",      ">",      "%",         "#",  "~",     "0128",
      "-1",  "1e9", "device", "native", "exclude: ", "\r", "\xc3",  "\xe2\x80\xa8",
      "[[[["};
  size_t at = random_below((uint32_t)*length + 1);
  int source = (int)random_below((uint32_t)c->count);
  const char *token = tokens[random_below(sizeof tokens / sizeof *tokens)];
  char byte = (char)random_below(256);
  size_t cut = random_below(40);
  switch (random_below(5)) {
    case 0:
      put(mutant, length, at, &byte, 1, (int)random_below(2));
      break;
    case 1:
      put(mutant, length, at, token, strlen(token), 0);
      break;
    case 2:
      if (at + cut > *length) cut = *length - at;
      memmove(mutant + at, mutant + at + cut, *length - at - cut);
      *length -= cut;
      break;
    case 3: /* a stretch of another file */
      if (cut > c->size[source]) cut = c->size[source];
      put(mutant, length, at, c->text[source] + random_below((uint32_t)(c->size[source] - cut) + 1),
          cut, (int)random_below(2));
      break;
    default: /* a stretch of its own */
      if (at + cut <= *length) {
        char copy[40];
        memcpy(copy, mutant + at, cut);
        put(mutant, length, random_below((uint32_t)*length + 1), copy, cut, 0);
      }
  }
}

static void check_mutant(const char *text, size_t size) {
  attune_spec spec;
  attune__text errors = {0};
  attune_status status = attune__spec_read("mutant.yaml", text, size, NULL, &spec, &errors);
  if (status == ATTUNE_OK) {
    ck_assert_int_gt(spec.count, 0);
    ck_assert_ptr_null(errors.data);
  } else {
    ck_assert_int_eq(status, ATTUNE_BAD_SPEC);
    ck_assert_int_eq(strncmp(errors.data, "mutant.yaml:", 12), 0);
    ck_assert_ptr_nonnull(strstr(errors.data, ": error: "));
  }
  attune__spec_free(&spec);
  attune__text_free(&errors);
}

/* ATTUNE_FUZZ=N runs N mutations from another seed each. */
START_TEST(mutations) {
  static corpus c;
  const char *wanted = getenv("ATTUNE_FUZZ");
  int count = wanted ? atoi(wanted) : MUTATIONS;
  random_state = wanted ? (uint64_t)count : 1;
  corpus_add(&c, "tests/bad");
  corpus_add(&c, "specs");
  ck_assert_int_gt(c.count, 40);
  for (int i = 0; i < count; i++) {
    int source = (int)random_below((uint32_t)c.count);
    size_t length = c.size[source];
    if (length > MUTANT_MAX) continue;
    char *mutant = malloc(MUTANT_MAX);
    memcpy(mutant, c.text[source], length);
    for (uint32_t n = 1 + random_below(8); n; n--) mutate(&c, mutant, &length);
    char *exact = malloc(length ? length : 1); /* of its own size, so that a read beyond it shows */
    memcpy(exact, mutant, length);
    check_mutant(exact, length);
    free(exact);
    free(mutant);
  }
  for (int i = 0; i < c.count; i++) free(c.text[i]);
}
END_TEST

TEST_MAIN("mutations", mutations)
