/* cache.c - `attune cache info|clear`: the folder where JIT keeps what it compiled. */
#include "../store.h"
#include "cli.h"
#include "show.h"

#include <stdio.h>
#include <string.h>

static const cli_option options[] = {{NULL, NULL, NULL}};

static void show(const cli_args *args, const attune_store *store, const attune_store_usage *usage,
                 attune__text *out) {
  const char *root = attune__store_root(store);
  int cleared = strcmp(args->word[0], "clear") == 0;
  if (args->json) {
    attune__json json = {.text = out};
    attune__json_begin(&json, '{');
    show_json_count(&json, "schema", CLI_JSON_SCHEMA);
    show_json_text(&json, "root", root);
    show_json_count(&json, cleared ? "removed_entries" : "entries", usage->entries);
    show_json_count(&json, cleared ? "removed_bytes" : "bytes", usage->bytes);
    attune__json_end(&json, '}');
    attune__text_puts(out, "\n");
    return;
  }
  attune__text_printf(out, "%s: %s%lld entries, ", *root ? root : "no folder, memory only",
                      cleared ? "removed " : "", (long long)usage->entries);
  attune__text_grouped(out, (uint64_t)usage->bytes);
  attune__text_puts(out, " bytes\n");
}

static int run(const cli_args *args) {
  int clear = strcmp(args->word[0], "clear") == 0;
  if (!clear && strcmp(args->word[0], "info") != 0) {
    fprintf(stderr, "attune cache: error: %s: wanted info or clear\n", args->word[0]);
    return CLI_USAGE;
  }
  attune_store *store;
  attune_status status = attune__store_open(NULL, &store);
  if (status) return cli_fail(status);
  char warning[512];
  if (attune__store_warning(store, warning, sizeof warning))
    fprintf(stderr, "attune: warning: %s\n", warning);
  attune_store_usage usage;
  attune__text text = {0};
  status = clear ? attune__store_clear(store, &usage) : attune__store_usage(store, &usage);
  if (!status) show(args, store, &usage, &text);
  attune__store_close(store);
  return status ? cli_fail(status) : cli_print(&text);
}

const cli_command cli_cache_command = {
    .name = "cache",
    .usage = "cache info|clear",
    .text = "Shows or empties the folder of kernels that were compiled at their first call:\n"
            "ATTUNE_CACHE_DIR, else XDG_CACHE_HOME/attune, else ~/.cache/attune.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
