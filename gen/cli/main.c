/* main.c - the attune program: finds the command, prints help. Everything else is the commands'. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* clang-format would take the list for declarations. */
/* clang-format off */
#define CLI_COMMANDS(X)                                                                            \
  X(list) X(plan) X(explain) X(emit) X(build) X(verify) X(bench) X(tune) X(run) X(trace) X(demo)           \
  X(cache) X(pack) X(unpack) X(diff) X(embed) X(doctor) X(completion) X(man)
/* clang-format on */

#define X(name) extern const cli_command cli_##name##_command;
CLI_COMMANDS(X)
#undef X

#define X(name) &cli_##name##_command,
const cli_command *const cli_commands[] = {CLI_COMMANDS(X) NULL};
#undef X

static int help(FILE *to) {
  fprintf(to, "attune %s: attention kernels made to measure\n\nusage: attune COMMAND ...\n\n",
          attune_version());
  for (int i = 0; cli_commands[i]; i++)
    fprintf(to, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->text);
  fprintf(to, "\n`attune COMMAND --help` lists a command's options. Specs: specs/README.md.\n"
              "Exit codes: 0 fine, 1 a check failed, 2 usage or bad spec, 3 a tool or device is "
              "missing.\n");
  return to == stdout ? CLI_OK : CLI_USAGE;
}

int main(int argc, char **argv) {
  if (argc < 2) return help(stderr);
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
    return help(stdout);
  if (!strcmp(argv[1], "--version")) {
    printf("attune %s\n", attune_version());
    return CLI_OK;
  }
  /* What `attune tune` runs candidates in; not for people. */
  if (!strcmp(argv[1], "tune-worker")) return cli_tune_worker(argc - 2, argv + 2);
  for (int i = 0; cli_commands[i]; i++)
    if (!strcmp(argv[1], cli_commands[i]->name))
      return cli_run(cli_commands[i], argc - 2, argv + 2);
  fprintf(stderr, "attune: error: no command '%s'; `attune --help` lists them\n", argv[1]);
  return CLI_USAGE;
}
