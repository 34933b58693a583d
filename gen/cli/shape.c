/* shape.c - shapes on the command line: "b=4,h=16,s=2048" and what may be left out of it. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = (1 << 29) - 1 }; /* attune_problem's limit */

static int bad_shape(const cli_command *command, const char *text, const char *at) {
  fprintf(stderr,
          "attune %s: error: --shape %s: '%.*s' is none of b= h= hk= s= sk= (1 to %d), wl= wr= "
          "(-1 to %d)\n",
          command->name, text, (int)strcspn(at, ","), at, LONGEST, LONGEST);
  return 0;
}

/* The field of a key, NULL when there is none. */
static int64_t *field_of(attune_shape *s, const char *key, size_t length) {
  const struct {
    const char *key;
    int64_t *field;
  } fields[] = {{"b", &s->batch},        {"h", &s->heads_q}, {"hk", &s->heads_kv},
                {"s", &s->len_q},        {"sk", &s->len_k},  {"wl", &s->window_left},
                {"wr", &s->window_right}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (strlen(fields[i].key) == length && !strncmp(fields[i].key, key, length))
      return fields[i].field;
  return NULL;
}

/* Keys that are left out: hk like h, sk like s, the rest as the planner's shape has it. */
static int parse_shape(const cli_command *command, const char *text, attune_shape *out) {
  *out = attune__plan_shape(ATTUNE_CLASS_ANY);
  out->heads_kv = out->len_k = 0;
  for (const char *at = text; *at;) {
    size_t key = strcspn(at, "=,");
    int64_t *field = at[key] == '=' ? field_of(out, at, key) : NULL;
    int64_t low = field == &out->window_left || field == &out->window_right ? -1 : 1;
    char *end = NULL;
    errno = 0;
    long long value = field ? strtoll(at + key + 1, &end, 10) : 0;
    if (!field || end == at + key + 1 || (*end && *end != ',') || errno || value < low ||
        value > LONGEST)
      return bad_shape(command, text, at);
    *field = value;
    at = *end ? end + 1 : end;
  }
  if (!out->heads_kv) out->heads_kv = out->heads_q;
  if (!out->len_k) out->len_k = out->len_q;
  if (out->heads_q % out->heads_kv == 0) return 1;
  fprintf(stderr, "attune %s: error: --shape %s: h must be a multiple of hk\n", command->name,
          text);
  return 0;
}

int cli_shapes(const cli_args *args, attune_shape out[CLI_MANY], int *count) {
  *count = 0;
  for (int i = 0; i < args->many_count; i++)
    if (!parse_shape(args->command, args->many[i], &out[(*count)++])) return 0;
  if (!*count) out[(*count)++] = attune__plan_shape(ATTUNE_CLASS_ANY);
  return 1;
}
