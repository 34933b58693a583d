/* list.c - `attune list SPEC`: the kernels of a spec, a line each, or their number. */
#include "../expand.h"
#include "cli.h"
#include "show.h"

#include <string.h>

static const cli_option options[] = {
    {"--count", NULL, "the number of kernels alone"},
    {"--arch", "A", "for this arch instead of the spec's; native: the GPU here"},
    {NULL, NULL, NULL},
};

static int registers_of(const attune_kernel *k) {
  const attune_model *model = attune__model(k->variant.op, k->variant.part, k->tile.family);
  return model->registers(&k->variant, &k->tile);
}

static void list_kernels(const attune_job *job, attune__text *out) {
  int width = 0;
  for (int i = 0; i < job->kernel_count; i++) {
    int length = (int)strlen(job->kernels[i].name);
    if (length > width) width = length;
  }
  for (int i = 0; i < job->kernel_count; i++) {
    const attune_kernel *k = &job->kernels[i];
    attune__text_printf(out, "%-*s  %3d x %-3d  %3u threads ", width, k->name, k->tile.block_m,
                        k->tile.block_n, k->recipe.threads);
    show_grouped(out, 8, k->recipe.smem_bytes);
    attune__text_printf(out, " bytes shared  about %3d registers\n", registers_of(k));
  }
}

static void list_json(const attune_job *job, attune__text *out) {
  attune__json json = {.text = out};
  attune__json_begin(&json, '{');
  show_json_count(&json, "schema", CLI_JSON_SCHEMA);
  show_json_count(&json, "count", job->kernel_count);
  attune__json_key(&json, "kernels");
  attune__json_begin(&json, '[');
  for (int i = 0; i < job->kernel_count; i++) {
    const attune_kernel *k = &job->kernels[i];
    attune__json_begin(&json, '{');
    show_json_text(&json, "name", k->name);
    show_json_tile(&json, &k->tile);
    show_json_count(&json, "threads", k->recipe.threads);
    show_json_count(&json, "smem_bytes", k->recipe.smem_bytes);
    show_json_count(&json, "registers_estimate", registers_of(k));
    attune__json_end(&json, '}');
  }
  attune__json_end(&json, ']');
  attune__json_end(&json, '}');
  attune__text_puts(out, "\n");
}

static int run(const cli_args *args) {
  attune_job job;
  int rc = cli_read_job(args->word[0], cli_value(args, "--arch"), &job);
  if (rc != CLI_OK) return rc;
  attune__text text = {0};
  if (args->json)
    list_json(&job, &text);
  else if (cli_value(args, "--count"))
    attune__text_printf(&text, "%d\n", job.kernel_count);
  else
    list_kernels(&job, &text);
  attune__job_free(&job);
  return cli_print(&text);
}

const cli_command cli_list_command = {
    .name = "list",
    .usage = "list SPEC [--count] [--arch A]",
    .text = "Lists the kernels of a spec, a line each: name, block of queries x keys, threads,\n"
            "shared memory. Registers are an estimate: `attune build` says what they are.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
