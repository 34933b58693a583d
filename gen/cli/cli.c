/* cli.c - options, errors and output, shared by all commands. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int command_help(const cli_command *command) {
  printf("usage: attune %s\n\n%s\n\n", command->usage, command->text);
  for (const cli_option *o = command->options; o && o->name; o++) {
    char left[48];
    snprintf(left, sizeof left, "%s%s%s", o->name, o->argument ? " " : "",
             o->argument ? o->argument : "");
    printf("  %-20s %s\n", left, o->text);
  }
  printf("  %-20s %s\n  %-20s %s\n", "--json", "machine-readable output", "--help", "this text");
  return CLI_OK;
}

static int usage_error(const cli_command *command, const char *what, const char *word) {
  fprintf(stderr, "attune %s: error: %s%s%s\nusage: attune %s\n", command->name, what,
          word ? " " : "", word ? word : "", command->usage);
  return CLI_USAGE;
}

/* Of `what` there is one more than the `most` that the command takes. */
static int too_many(const cli_command *command, const char *what, int most, const char *word) {
  char text[96];
  snprintf(text, sizeof text, "at most %d %s%s, and there is another:", most, what,
           most == 1 ? "" : "s");
  return usage_error(command, text, word);
}

/* Index of an option, -1 when the command has none of that name. */
static int find_option(const cli_command *command, const char *name, size_t length) {
  for (int i = 0; command->options && command->options[i].name; i++)
    if (strlen(command->options[i].name) == length &&
        !strncmp(command->options[i].name, name, length))
      return i;
  return -1;
}

/* What a word attaches to its option: "2" of "--jobs=2", "-j2" and "-j=2"; NULL when nothing.
 * length: of the option's name. */
static const char *attached(const char *word, size_t *length) {
  *length = word[1] == '-' ? strcspn(word, "=") : 2;
  if (!word[*length]) return NULL;
  return word + *length + (word[*length] == '=');
}

static int may_repeat(const cli_option *o) {
  size_t length = o->argument ? strlen(o->argument) : 0;
  return length > 3 && !strcmp(o->argument + length - 3, "...");
}

/* Keeps the value of an option that may be given several times. */
static int keep(cli_args *args, const cli_option *o, const char *value) {
  if (!may_repeat(o)) return CLI_OK;
  if (args->many_count == CLI_MANY)
    return too_many(args->command, "repeated option", CLI_MANY, o->name);
  args->many[args->many_count++] = value;
  return CLI_OK;
}

/* Takes one option at argv[*at], whose value is attached or the next word. */
static int take_option(cli_args *args, int argc, char **argv, int *at) {
  const char *word = argv[*at];
  size_t length;
  const char *value = attached(word, &length);
  int i = find_option(args->command, word, length);
  if (i < 0) return usage_error(args->command, "unknown option", word);
  const cli_option *option = &args->command->options[i];
  if (args->value[i] && !may_repeat(option))
    return usage_error(args->command, "option given twice:", word);
  if (!option->argument) {
    if (value) return usage_error(args->command, "option takes no value:", word);
    args->value[i] = "";
  } else if (value) {
    args->value[i] = value;
  } else if (++*at < argc) {
    args->value[i] = argv[*at];
  } else {
    return usage_error(args->command, "option needs a value:", word);
  }
  return keep(args, option, args->value[i]);
}

int cli_run(const cli_command *command, int argc, char **argv) {
  cli_args args = {.command = command};
  for (int i = 0; i < argc; i++) {
    if (!strcmp(argv[i], "--help")) return command_help(command);
    if (!strcmp(argv[i], "--json")) {
      args.json = 1;
    } else if (argv[i][0] == '-' && argv[i][1]) {
      int rc = take_option(&args, argc, argv, &i);
      if (rc != CLI_OK) return rc;
    } else if (args.words == command->max_words) {
      return too_many(command, "argument", command->max_words, argv[i]);
    } else {
      args.word[args.words++] = argv[i];
    }
  }
  if (args.words < command->min_words) return usage_error(command, "an argument is missing", NULL);
  return command->run(&args);
}

const char *cli_value(const cli_args *args, const char *name) {
  int i = find_option(args->command, name, strlen(name));
  return i < 0 ? NULL : args->value[i];
}

int cli_int(const cli_args *args, const char *name, int64_t low, int64_t high, int64_t *out) {
  const char *text = cli_value(args, name);
  if (!text) return 1;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (!errno && *text && !*end && !isspace((unsigned char)*text) && value >= low && value <= high) {
    *out = value;
    return 1;
  }
  fprintf(stderr, "attune %s: error: %s %s: wanted an integer from %lld to %lld\n",
          args->command->name, name, text, (long long)low, (long long)high);
  return 0;
}

int cli_bytes(const cli_args *args, const char *name, uint32_t *out) {
  const char *text = cli_value(args, name);
  if (!text || (attune__parse_bytes(text, out) && *out)) return 1;
  fprintf(stderr, "attune %s: error: %s %s: wanted bytes, as 98304 or 96KB\n", args->command->name,
          name, text);
  return 0;
}

int cli_fail(attune_status status) {
  fprintf(stderr, "attune: error: %s\n",
          *attune_error() ? attune_error() : attune_status_text(status));
  switch (status) {
    case ATTUNE_MISMATCH:
    case ATTUNE_COMPILE:
    case ATTUNE_TEMPLATE:
      return CLI_CHECK;
    case ATTUNE_NO_DEVICE:
    case ATTUNE_NO_COMPILER:
    case ATTUNE_NO_MEMORY:
    case ATTUNE_DRIVER:
    case ATTUNE_IO:
      return CLI_MISSING;
    default:
      return CLI_USAGE;
  }
}

int cli_print(attune__text *text) {
  int ok = !text->failed;
  if (ok && text->size) ok = fwrite(text->data, 1, text->size, stdout) == text->size;
  if (fflush(stdout)) ok = 0;
  attune__text_free(text);
  if (!ok) fprintf(stderr, "attune: error: output could not be written\n");
  return ok ? CLI_OK : CLI_MISSING;
}

int cli_print_json_text(const char *key, attune__text *text) {
  attune__text wrapped = {.failed = text->failed};
  attune__json json = {.text = &wrapped};
  attune__json_begin(&json, '{');
  attune__json_key(&json, "schema");
  attune__json_int(&json, CLI_JSON_SCHEMA);
  attune__json_key(&json, key);
  attune__json_string(&json, text->data ? text->data : "");
  attune__json_end(&json, '}');
  attune__text_puts(&wrapped, "\n");
  attune__text_free(text);
  return cli_print(&wrapped);
}
