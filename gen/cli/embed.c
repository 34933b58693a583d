/* embed.c - `attune embed SPEC|DIR|PACK -o kernels.c`: a kernel set as one C file. */
#include "../embed.h"

#include <stdio.h>
#include <string.h>

#include "set_word.h"
#include "show.h"

static const cli_option options[] = {
    {"-o", "FILE", "the C file; replaced when it is there"},
    {"--standalone", NULL, "needs libcuda alone: cubins, checks, dispatch; no runtime"},
    {"--prefix", "NAME", "of the names that the file exports; default: attune_embedded"},
    {"--header", "FILE", "also write the declarations alone"},
    {"--ptx", NULL, "keep PTX and source, for the CPU device; not with --standalone"},
    CLI_BUILD_OPTIONS,
    {NULL, NULL, NULL},
};

static int print(const cli_args *args, const attune_loaded *l, const char *file, size_t bytes,
                 const attune_embed_options *o) {
  attune__text text = {0};
  const char *function = o->standalone ? "attn_fwd" : "open";
  if (args->json) {
    attune__json json = {.text = &text};
    attune__json_begin(&json, '{');
    show_json_count(&json, "schema", CLI_JSON_SCHEMA);
    show_json_text(&json, "file", file);
    show_json_count(&json, "kernels", l->set.kernel_count);
    show_json_count(&json, "bytes", (int64_t)bytes);
    show_json_text(&json, "prefix", o->prefix);
    attune__json_key(&json, "standalone"), attune__json_bool(&json, o->standalone);
    attune__json_end(&json, '}');
    attune__text_puts(&text, "\n");
  } else {
    attune__text_printf(&text, "%s: %d kernels, ", file, l->set.kernel_count);
    attune__text_grouped(&text, bytes);
    attune__text_printf(&text, " bytes of C; call %s_%s\n", o->prefix, function);
  }
  return cli_print(&text);
}

static int embed(const cli_args *args, attune_loaded *l, const attune_embed_options *o) {
  attune__text text = {0}, declarations = {0};
  const char *file = cli_value(args, "-o"), *header = cli_value(args, "--header");
  attune_status status = attune__embed(l, o, &text, header ? &declarations : NULL);
  if (status == ATTUNE_OK) status = attune__file_publish_synced(file, text.data, text.size);
  if (status == ATTUNE_OK && header)
    status = attune__file_publish_synced(header, declarations.data, declarations.size);
  int rc = status == ATTUNE_OK ? print(args, l, file, text.size, o) : cli_fail(status);
  attune__text_free(&text);
  attune__text_free(&declarations);
  return rc;
}

static int run(const cli_args *args) {
  attune_loaded loaded;
  const char *file = cli_value(args, "-o"), *prefix = cli_value(args, "--prefix");
  attune_embed_options o = {.prefix = prefix ? prefix : "attune_embedded",
                            .standalone = cli_value(args, "--standalone") != NULL,
                            .keep_ptx = cli_value(args, "--ptx") != NULL};
  if (!file || !*file) {
    fprintf(stderr, "attune embed: error: -o FILE is missing: where the C file goes\n");
    return CLI_USAGE;
  }
  if (o.standalone && o.keep_ptx) {
    fprintf(stderr, "attune embed: error: --ptx is for the CPU device, --standalone has none\n");
    return CLI_USAGE;
  }
  int rc = cli_load_set(args, args->word[0], &loaded);
  if (rc != CLI_OK) return rc;
  rc = embed(args, &loaded, &o);
  attune__loaded_free(&loaded);
  return rc;
}

const cli_command cli_embed_command = {
    .name = "embed",
    .usage = "embed SPEC|DIR|PACK -o FILE.c [--standalone] [--prefix NAME] [--header FILE.h]\n"
             "       [--ptx] [-j N] [--arch A] [--allow-spills]",
    .text = "Writes a kernel set as one C file (C11 or C++) that needs the runtime, and opens "
            "there by\n"
            "NAME_open(context); or, with --standalone, nothing but the CUDA driver: "
            "NAME_attn_fwd(...)\n"
            "checks its arguments, finds the kernel and launches it. Equal sets give equal text.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
