/* list.c - `attune list SPEC|DIR|PACK`: the kernels of a spec or of a set, a line each, or their
 * number. A set's registers are what the compiler said, a spec's are the planner's estimate.
 * Without either: what may stand in a spec, the table of what combines with what. */
#include "../combinations.h"
#include "../expand.h"
#include "../set_load.h"
#include "cli.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_option options[] = {
    {"--count", NULL, "the number of kernels alone"},
    {"--arch", "A", "for this arch instead of the spec's; native: the GPU here"},
    {"--combinations", NULL, "no SPEC: what combines with what, and why not, as Markdown"},
    {NULL, NULL, NULL},
};

/* One kernel, of either. */
typedef struct item {
  const char *name;
  const attune_tile *tile;
  uint32_t threads, smem_bytes;
  int registers;
} item;

typedef struct listing {
  item *items;
  int count;
  int estimated; /* the registers */
} listing;

static int estimate(const attune_kernel *k) {
  const attune_model *model = attune__model(k->variant.op, k->variant.part, k->tile.family);
  return model->registers(&k->variant, &k->tile);
}

static void list_kernels(const listing *l, attune__text *out) {
  int width = 0;
  for (int i = 0; i < l->count; i++) {
    int length = (int)strlen(l->items[i].name);
    if (length > width) width = length;
  }
  for (int i = 0; i < l->count; i++) {
    const item *k = &l->items[i];
    attune__text_printf(out, "%-*s  %3d x %-3d  %3u threads ", width, k->name, k->tile->block_m,
                        k->tile->block_n, k->threads);
    show_grouped(out, 8, k->smem_bytes);
    attune__text_printf(out, " bytes shared  %s%3d registers\n", l->estimated ? "about " : "",
                        k->registers);
  }
}

static void list_json(const listing *l, attune__text *out) {
  attune__json json = {.text = out};
  attune__json_begin(&json, '{');
  show_json_count(&json, "schema", CLI_JSON_SCHEMA);
  show_json_count(&json, "count", l->count);
  attune__json_key(&json, "kernels");
  attune__json_begin(&json, '[');
  for (int i = 0; i < l->count; i++) {
    const item *k = &l->items[i];
    attune__json_begin(&json, '{');
    show_json_text(&json, "name", k->name);
    show_json_tile(&json, k->tile);
    show_json_count(&json, "threads", k->threads);
    show_json_count(&json, "smem_bytes", k->smem_bytes);
    show_json_count(&json, l->estimated ? "registers_estimate" : "registers", k->registers);
    attune__json_end(&json, '}');
  }
  attune__json_end(&json, ']');
  attune__json_end(&json, '}');
  attune__text_puts(out, "\n");
}

static int print(const cli_args *args, const listing *l) {
  attune__text text = {0};
  if (args->json)
    list_json(l, &text);
  else if (cli_value(args, "--count"))
    attune__text_printf(&text, "%d\n", l->count);
  else
    list_kernels(l, &text);
  return cli_print(&text);
}

static int allocate(listing *l, int count) {
  l->count = count;
  l->items = calloc((size_t)count + 1, sizeof *l->items);
  return l->items ? CLI_OK : cli_fail(attune_fail(ATTUNE_NO_MEMORY, "no memory for a list"));
}

static int list_spec(const cli_args *args) {
  attune_job job;
  listing l = {.estimated = 1};
  int rc = cli_read_job(args->word[0], cli_value(args, "--arch"), &job);
  if (rc != CLI_OK) return rc;
  rc = allocate(&l, job.kernel_count);
  for (int i = 0; rc == CLI_OK && i < l.count; i++) {
    const attune_kernel *k = &job.kernels[i];
    l.items[i] = (item){k->name, &k->tile, k->recipe.threads, k->recipe.smem_bytes, estimate(k)};
  }
  if (rc == CLI_OK) rc = print(args, &l);
  free(l.items);
  attune__job_free(&job);
  return rc;
}

static int list_set(const cli_args *args) {
  attune_loaded loaded;
  listing l = {.estimated = 0};
  attune_status status = attune__loaded_read(args->word[0], &loaded);
  if (status != ATTUNE_OK) return cli_fail(status);
  int rc = allocate(&l, loaded.set.kernel_count);
  for (int i = 0; rc == CLI_OK && i < l.count; i++) {
    const attune_entry *e = &loaded.entries[i];
    l.items[i] =
        (item){e->name, &e->tile, e->recipe.threads, e->recipe.smem_bytes, (int)e->facts.registers};
  }
  if (rc == CLI_OK) rc = print(args, &l);
  free(l.items);
  attune__loaded_free(&loaded);
  return rc;
}

static int list_combinations(const cli_args *args) {
  attune__text text = {0};
  attune__json json = {.text = &text};
  if (args->json) {
    attune__json_begin(&json, '{');
    show_json_count(&json, "schema", CLI_JSON_SCHEMA);
    attune__combinations_json(&json);
    attune__json_end(&json, '}');
    attune__text_puts(&text, "\n");
  } else {
    attune__combinations_markdown(&text);
  }
  return cli_print(&text);
}

static int run(const cli_args *args) {
  int combinations = cli_value(args, "--combinations") != NULL;
  if (combinations == args->words) {
    fprintf(stderr, "attune list: error: wanted a spec or a set, or --combinations alone\n");
    return CLI_USAGE;
  }
  if (combinations) return list_combinations(args);
  if (!cli_is_set(args->word[0])) return list_spec(args);
  if (!cli_value(args, "--arch")) return list_set(args);
  fprintf(stderr, "attune list: error: --arch is for a spec; %s says its arch itself\n",
          args->word[0]);
  return CLI_USAGE;
}

const cli_command cli_list_command = {
    .name = "list",
    .usage = "list SPEC|DIR|PACK [--count] [--arch A] | --combinations",
    .text =
        "Lists the kernels of a spec or a set, a line each: name, block of queries x keys,\n"
        "threads, shared memory, registers. A spec's registers are an estimate: `attune build`\n"
        "says what they are.",
    .options = options,
    .min_words = 0,
    .max_words = 1,
    .run = run,
};
