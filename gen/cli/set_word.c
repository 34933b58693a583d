/* set_word.c - a word of the command line as a set in memory: a folder, a pack, or a spec that is
 * built into a temporary folder and read from there. */
#include "set_word.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int build_and_load(const cli_args *args, const char *spec, attune_loaded *out) {
  const char *base = getenv("TMPDIR");
  char *folder = NULL;
  if (asprintf(&folder, "%s/attune-XXXXXX", base && *base ? base : "/tmp") < 0)
    return cli_fail(attune_fail(ATTUNE_NO_MEMORY, "no memory for a path"));
  if (!mkdtemp(folder)) {
    int rc = cli_fail(attune_fail(ATTUNE_IO, "cannot make the folder %s to build %s in: %s", folder,
                                  spec, strerror(errno)));
    free(folder);
    return rc;
  }
  int rc = cli_build_spec(args, spec, folder);
  if (rc == CLI_OK) {
    attune_status status = attune__loaded_read(folder, out);
    if (status != ATTUNE_OK) rc = cli_fail(status);
  }
  attune__remove_folder(folder);
  free(folder);
  return rc;
}

int cli_load_set(const cli_args *args, const char *word, attune_loaded *out) {
  static const char *const of_a_spec[] = {"-j", "--arch", "--allow-spills"};
  if (!cli_is_set(word)) return build_and_load(args, word, out);
  for (int i = 0; i < 3; i++)
    if (cli_value(args, of_a_spec[i])) {
      fprintf(stderr, "attune %s: error: %s is for a spec; %s is built already\n",
              args->command->name, of_a_spec[i], word);
      return CLI_USAGE;
    }
  attune_status status = attune__loaded_read(word, out);
  return status == ATTUNE_OK ? CLI_OK : cli_fail(status);
}
