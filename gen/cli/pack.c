/* pack.c - `attune pack DIR|SPEC -o FILE`: a kernel set as one file, for shipping. */
#include "set_word.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>

static const cli_option options[] = {
    {"-o", "FILE", "the pack; replaced when it is there"},
    {"--strip", NULL, "machine code alone: without PTX (the CPU device needs it) and source"},
    CLI_BUILD_OPTIONS,
    {NULL, NULL, NULL},
};

static int print(const cli_args *args, const attune_loaded *l, const char *file, const void *bytes,
                 size_t size) {
  attune__text text = {0};
  char digest[65];
  attune__sha256_hex(bytes, size, digest);
  if (args->json) {
    attune__json json = {.text = &text};
    attune__json_begin(&json, '{');
    show_json_count(&json, "schema", CLI_JSON_SCHEMA);
    show_json_text(&json, "pack", file);
    show_json_count(&json, "kernels", l->set.kernel_count);
    show_json_count(&json, "rows", l->set.row_count);
    show_json_count(&json, "bytes", (int64_t)size);
    show_json_text(&json, "sha256", digest);
    attune__json_end(&json, '}');
    attune__text_puts(&text, "\n");
  } else {
    attune__text_printf(&text, "%s: %d kernels, %d rows, ", file, l->set.kernel_count,
                        l->set.row_count);
    attune__text_grouped(&text, size);
    attune__text_printf(&text, " bytes, sha256 %s\n", digest);
  }
  return cli_print(&text);
}

static int pack(const cli_args *args, attune_loaded *l, const char *file) {
  void *bytes = NULL;
  size_t size;
  attune_status status = cli_value(args, "--strip") ? attune__loaded_strip(l) : ATTUNE_OK;
  if (status == ATTUNE_OK) status = attune__loaded_pack(l, &bytes, &size);
  if (status == ATTUNE_OK) status = attune__file_publish_synced(file, bytes, size);
  int rc = status == ATTUNE_OK ? print(args, l, file, bytes, size) : cli_fail(status);
  free(bytes);
  return rc;
}

static int run(const cli_args *args) {
  attune_loaded loaded;
  const char *file = cli_value(args, "-o");
  if (!file || !*file) {
    fprintf(stderr, "attune pack: error: -o FILE is missing: where the pack goes\n");
    return CLI_USAGE;
  }
  int rc = cli_load_set(args, args->word[0], &loaded);
  if (rc != CLI_OK) return rc;
  rc = pack(args, &loaded, file);
  attune__loaded_free(&loaded);
  return rc;
}

const cli_command cli_pack_command = {
    .name = "pack",
    .usage = "pack DIR|PACK|SPEC -o FILE [--strip] [-j N] [--arch A] [--allow-spills]",
    .text =
        "Writes a kernel set as one file, which attune_open_set and every command that takes a\n"
        "set folder open in its place. Equal sets give equal bytes. A spec is built first.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
