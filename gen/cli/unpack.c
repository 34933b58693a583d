/* unpack.c - `attune unpack FILE -o DIR`: the folder that a pack was made of. */
#include "../set_load.h"
#include "cli.h"
#include "show.h"

#include <stdio.h>

static const cli_option options[] = {
    {"-o", "DIR", "folder of the set; made, or empty, or already this set"},
    {NULL, NULL, NULL},
};

static int print(const cli_args *args, const attune_loaded *l, const char *folder, int kept) {
  attune__text text = {0};
  if (args->json) {
    attune__json json = {.text = &text};
    attune__json_begin(&json, '{');
    show_json_count(&json, "schema", CLI_JSON_SCHEMA);
    show_json_text(&json, "set", folder);
    show_json_count(&json, "kernels", l->set.kernel_count);
    attune__json_key(&json, "written"), attune__json_bool(&json, !kept);
    attune__json_end(&json, '}');
    attune__text_puts(&text, "\n");
  } else {
    attune__text_printf(&text, "%s: %d kernels%s\n", folder, l->set.kernel_count,
                        kept ? ", already there" : "");
  }
  return cli_print(&text);
}

static int run(const cli_args *args) {
  attune_loaded loaded;
  int kept;
  const char *folder = cli_value(args, "-o");
  if (!folder || !*folder) {
    fprintf(stderr, "attune unpack: error: -o DIR is missing: where the set goes\n");
    return CLI_USAGE;
  }
  attune_status status = attune__loaded_read(args->word[0], &loaded);
  if (status != ATTUNE_OK) return cli_fail(status);
  status = attune__loaded_unpack(&loaded, folder, &kept);
  int rc = status == ATTUNE_OK ? print(args, &loaded, folder, kept) : cli_fail(status);
  attune__loaded_free(&loaded);
  return rc;
}

const cli_command cli_unpack_command = {
    .name = "unpack",
    .usage = "unpack FILE -o DIR",
    .text =
        "Gives back the set folder that `attune pack` made a file of, byte for byte: all of it\n"
        "or nothing. A folder with other content is refused.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
