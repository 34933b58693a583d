/* emit.c - `attune emit NAME`: the CUDA text of a kernel, or of the kernels of a variant.
 *
 * Input: a kernel's name, or a variant's (then the planner picks the tile), and the spec that
 * pinned names (_x...) come from. Output: the text. Planning is expand.c's, the text gen/emit.c's.
 */
#include "../expand.h"
#include "../template.h"
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const cli_option options[] = {
    {"--spec", "F", "spec whose pins, budget and tile the name stands for"},
    {"--lines", NULL, "write #line where the text drifts from its templates"},
    {"--outline", NULL, "parts (types, instructions, ...) stay the lines that include them"},
    {"-o", "FILE", "write to FILE"},
    {NULL, NULL, NULL},
};

/* What a name stands for: at most one request, and the kernels to print. */
typedef struct selection {
  attune_request request;
  attune_kernel kernels[ATTUNE_MAX_PARTS];
  int count;
} selection;

static int same_program(const attune_variant *a, const attune_variant *b) {
  attune_variant x = *a, y = *b;
  x.part = y.part = 0;
  return !memcmp(&x, &y, sizeof x);
}

/* Takes the spec's request for the variant, or only the pins that its digest stands for. */
static int resolve(const char *path, selection *out) {
  attune_spec_options spec_options = {0};
  attune_spec spec = {0};
  attune__text errors = {0};
  attune_status status = attune__spec_read(path, NULL, 0, &spec_options, &spec, &errors);
  if (errors.data) fputs(errors.data, stderr);
  attune__text_free(&errors);
  if (status != ATTUNE_OK) return status == ATTUNE_BAD_SPEC ? CLI_USAGE : cli_fail(status);
  int found = !out->request.variant.pins, whole = 0;
  for (int i = 0; i < spec.count && !whole; i++) {
    const attune_request *r = &spec.requests[i];
    whole = same_program(&r->variant, &out->request.variant);
    if (whole) out->request = *r;
    if (!found && r->variant.pins == out->request.variant.pins)
      out->request.pins = r->pins, found = 1;
  }
  attune__spec_free(&spec);
  if (found || whole) return CLI_OK;
  return cli_fail(attune_fail(ATTUNE_NOT_FOUND, "%s: no request with the pins _x%08x", path,
                              out->request.variant.pins));
}

/* The kernels of the variant as the planner would make them; only `part` of them when >= 0. */
static attune_status plan(selection *s, int part) {
  attune_status status =
      attune__expand_request(&s->request, ATTUNE_CLASS_ANY, 0, s->kernels, &s->count);
  if (status != ATTUNE_OK || part < 0) return status;
  for (int i = 0; i < s->count; i++)
    if (s->kernels[i].variant.part == part) s->kernels[0] = s->kernels[i];
  s->count = 1;
  return ATTUNE_OK;
}

/* NAME -> kernels; prints what is wrong. */
static int select_kernels(const cli_args *args, selection *s) {
  const char *spec = cli_value(args, "--spec");
  attune_variant variant;
  attune_tile tile;
  int has_tile, is_program;
  attune_status status = attune__name_parse(args->word[0], &variant, &tile, &has_tile, &is_program);
  if (status != ATTUNE_OK) return cli_fail(status);
  s->request.variant = variant, s->request.variant.part = 0;
  if (variant.pins && !spec)
    return cli_fail(attune_fail(ATTUNE_INVALID,
                                "%s: _x%08x stands for pins that the name does not "
                                "hold; name their spec with --spec F",
                                args->word[0], variant.pins));
  int rc = spec ? resolve(spec, s) : CLI_OK;
  if (rc != CLI_OK) return rc;
  if (has_tile) {
    s->count = 1;
    status = attune__kernel_make(&variant, &tile, &s->request.pins, &s->kernels[0]);
  } else {
    status = plan(s, is_program ? -1 : variant.part);
  }
  return status == ATTUNE_OK ? CLI_OK : cli_fail(status);
}

/* Kernel after kernel; each is a source of its own, which a line between them says. */
static attune_status add_sources(const selection *s, const attune_emit_options *emit_options,
                                 attune__text *out) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < s->count && status == ATTUNE_OK; i++) {
    if (s->count > 1)
      attune__text_printf(out, "%s// ==== kernel %d of %d: a source of its own ====\n\n",
                          i ? "\n" : "", i + 1, s->count);
    status = attune__emit(&s->kernels[i], emit_options, out);
  }
  return status;
}

static attune_status add_json(const selection *s, const attune_emit_options *emit_options,
                              attune__text *out) {
  attune__json json = {.text = out};
  attune_status status = ATTUNE_OK;
  attune__json_begin(&json, '{');
  attune__json_key(&json, "schema"), attune__json_int(&json, CLI_JSON_SCHEMA);
  attune__json_key(&json, "kernels"), attune__json_begin(&json, '[');
  for (int i = 0; i < s->count && status == ATTUNE_OK; i++) {
    attune__text source = {0};
    status = attune__emit(&s->kernels[i], emit_options, &source);
    if (status == ATTUNE_OK) {
      attune__json_begin(&json, '{');
      attune__json_key(&json, "name"), attune__json_string(&json, s->kernels[i].name);
      attune__json_key(&json, "source"), attune__json_string(&json, source.data);
      attune__json_end(&json, '}');
    }
    attune__text_free(&source);
  }
  attune__json_end(&json, ']');
  attune__json_end(&json, '}');
  attune__text_puts(out, "\n");
  return status;
}

/* A template error stands first on its line, as editors want it. */
static int failed(attune_status status, attune__text *text) {
  attune__text_free(text);
  if (status != ATTUNE_TEMPLATE) return cli_fail(status);
  fprintf(stderr, "%s\n", attune_error());
  return CLI_CHECK;
}

static int run(const cli_args *args) {
  selection s = {.count = 0};
  if (cli_value(args, "--lines") && cli_value(args, "--outline")) {
    fputs("attune emit: error: an outline has no #line: leave out --lines or --outline\n", stderr);
    return CLI_USAGE;
  }
  int rc = select_kernels(args, &s);
  if (rc != CLI_OK) return rc;
  attune__text text = {0};
  attune_emit_options how = {.lines = cli_value(args, "--lines") != NULL,
                             .outline = cli_value(args, "--outline") != NULL};
  attune_status status = args->json ? add_json(&s, &how, &text) : add_sources(&s, &how, &text);
  if (status == ATTUNE_OK && text.failed)
    status = attune_fail(ATTUNE_NO_MEMORY, "the text of %s", args->word[0]);
  if (status != ATTUNE_OK) return failed(status, &text);
  const char *path = cli_value(args, "-o");
  if (!path) return cli_print(&text);
  status = attune__file_publish(path, text.data, text.size);
  attune__text_free(&text);
  return status == ATTUNE_OK ? CLI_OK : cli_fail(status);
}

const cli_command cli_emit_command = {
    .name = "emit",
    .usage = "emit NAME [--spec F] [--lines] [--outline] [-o FILE]",
    .text =
        "Prints the CUDA text of a kernel. NAME may be a variant: the planner's first choice of "
        "tile,\nand each kernel of its program in launch order. With --outline parts (types, "
        "instructions,\nmasks, ...) stay the lines that include them: the algorithm, to be read, "
        "and to be edited for\n`attune verify --source`, which puts the parts back.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
