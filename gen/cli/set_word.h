/* set_word.h - what pack, embed and diff are pointed at: a set, or a spec that is built for it. */
#ifndef ATTUNE_CLI_SET_WORD_H
#define ATTUNE_CLI_SET_WORD_H

#include "../set_load.h"
#include "cli.h"

/* Options of the build, for the tables of the commands that read a spec as well. */
#define CLI_BUILD_OPTIONS                                                                          \
  {"-j", "N", "of a spec: compiles at once; default: as many as cores"},                           \
      {"--arch", "A", "of a spec: for this arch instead of the spec's; native: the GPU here"}, {   \
    "--allow-spills", NULL, "of a spec: keep kernels whose registers spill"                        \
  }

/* Reads the set whole; a spec is built into a temporary folder first, its progress on stderr.
 * Prints what is wrong and returns the exit code. */
int cli_load_set(const cli_args *args, const char *word, attune_loaded *out);
/* Builds a spec into a folder with the command's options (cli/build.c); prints no summary. */
int cli_build_spec(const cli_args *args, const char *spec, const char *folder);

#endif
