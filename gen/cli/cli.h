/* cli.h - what the commands share: options, output, exit codes. One file per command.
 *
 * Results go to stdout, messages to stderr. Exit: 0 fine, 1 a check failed, 2 usage or bad spec,
 * 3 a tool or device is missing. Every command knows --json and --help. */
#ifndef ATTUNE_CLI_H
#define ATTUNE_CLI_H

#include "../expand.h"

enum { CLI_OK = 0, CLI_CHECK = 1, CLI_USAGE = 2, CLI_MISSING = 3 };
enum { CLI_JSON_SCHEMA = 1 };
enum { CLI_MANY = 16 };

typedef struct cli_args cli_args;

/* A declared option; the parser and --help come from the same table. */
typedef struct cli_option {
  const char *name;     /* "--dtype" */
  const char *argument; /* "T", NULL: a switch; "T...": may be given several times */
  const char *text;
} cli_option;

typedef struct cli_command {
  const char *name, *usage, *text;
  const cli_option *options; /* ends with name NULL; --json and --help are implied */
  int min_words, max_words;  /* positional arguments */
  int (*run)(const cli_args *args);
} cli_command;

struct cli_args {
  const cli_command *command;
  const char *word[8];
  int words;
  const char *value[24];      /* by option index; "" for a switch that is set; NULL: absent */
  const char *many[CLI_MANY]; /* all values of the option that may be given several times; a command
                                 has at most one */
  int many_count;
  int json;
};

/* Parses the words after the command's name, then runs it. Returns the exit code. */
int cli_run(const cli_command *command, int argc, char **argv);
/* Value of an option by name, NULL when absent. */
const char *cli_value(const cli_args *args, const char *name);
/* Values of options as numbers; *out stays as it is when the option is absent. Print what is wrong
 * and return 0 when the value is no decimal integer in [low, high], no bytes ("96KB") over 0. */
int cli_int(const cli_args *args, const char *name, int64_t low, int64_t high, int64_t *out);
int cli_bytes(const cli_args *args, const char *name, uint32_t *out);
/* The values of --shape, "b=4,h=16,s=2048[,hk=..][,sk=..][,wl=..][,wr=..]", or the shape that is
 * planned for when there is none; 0 after a message. (shape.c) */
#define CLI_SHAPE_OPTION                                                                           \
  { "--shape", "S...", "b=4,h=16,s=2048[,hk=..][,sk=..][,wl=..][,wr=..]: batch, heads, length" }
int cli_shapes(const cli_args *args, attune_shape out[CLI_MANY], int *count);
/* Prints "attune: error: ..." from a status (attune_error()) and returns the exit code for it. */
int cli_fail(attune_status status);
/* Prints text to stdout and frees it; returns CLI_OK, or CLI_MISSING when memory or stdout failed.
 */
int cli_print(attune__text *text);
/* The same as {"schema": .., key: text}. */
int cli_print_json_text(const char *key, attune__text *text);

/* Reads a spec, for --arch (NULL: as it says; "native": the GPU here). Prints what is wrong and
 * returns the exit code; on CLI_OK the caller frees *out. expand makes the job of a spec, without
 * some kernels where `avoided` is not NULL; read_job does both. */
int cli_read_spec(const char *path, const char *arch, attune_spec *out);
int cli_expand(const attune_spec *spec, const attune__avoided *avoided, attune_job *out);
int cli_read_job(const char *path, const char *arch, attune_job *out);

/* 1 when the word names a set: a folder, or a pack. */
int cli_is_set(const char *word);

/* The child of `attune tune`: serves the GPU of argv[0] on standard input and output. (tune.c) */
int cli_tune_worker(int argc, char **argv);

extern const cli_command *const cli_commands[]; /* main.c; ends with NULL */

#endif
