/* bench.c - `attune bench WORD...`: times kernels on the GPU, side by side.
 *
 * Input: names, specs, sets; shapes. Output: a table per problem and shape, in which everything
 * that answers the same problem is timed in the same rounds: tiles of one variant, its kernels for
 * other budgets, and standard attention. Without a GPU nothing is timed: exit 3. Timing is
 * bench_page.c's, the table bench_report.c's. */
#include "bench_compare.h"
#include "bench_page.h"
#include "cli.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_option options[] = {
    CLI_SHAPE_OPTION,
    {"--l2", "cold|warm", "cold: every call's tensors come from device memory; default"},
    {"--rounds", "N", "samples of each kernel; default 15"},
    {"--compare", NULL,
     "measured rows of this GPU: each winner beside the planner's choice, again"},
    {"--arch", "A", "for this arch instead of the specs'; native: the GPU here"},
    {NULL, NULL, NULL},
};

enum { MAX_WORDS = 8 };

/* A program that may be timed, and where it comes from. */
typedef struct candidate {
  const source *source;
  const source_program *program;
} candidate;

typedef struct session {
  source sources[MAX_WORDS];
  int source_count;
  candidate *candidates;
  int candidate_count;
  attune__device *device;
  attune_shape shapes[CLI_MANY];
  int shape_count;
  attune__l2 l2;
  attune__bench_options options;
  int timed, failed; /* contenders */
  int as_json;
  attune__json json;
  attune__text text;
} session;

/* ---- candidates ------------------------------------------------------------------------------ */

static void print_not_run(const session *s, const candidate *c) {
  char name[ATTUNE_NAME_MAX], code[ATTUNE_ARCH_MAX];
  source_program_name(c->source, c->program, name);
  attune__arch_print(c->program->variant.arch, 1, code);
  fprintf(stderr, "attune bench: %s: not run: code for %s does not run on %s\n", name, code,
          s->device->facts.name);
}

static void add_candidates(session *s, const source *from) {
  for (int i = 0; i < from->program_count; i++) {
    candidate c = {from, &from->programs[i]};
    if (attune__arch_runs(c.program->variant.arch, s->device->facts.arch))
      s->candidates[s->candidate_count++] = c;
    else
      print_not_run(s, &c);
  }
}

static int find_candidates(const cli_args *args, session *s) {
  int programs = 0;
  for (int i = 0; i < args->words; i++) {
    int rc = source_open(args->word[i], cli_value(args, "--arch"), &s->sources[i]);
    if (rc != CLI_OK) return rc;
    s->source_count++;
    programs += s->sources[i].program_count;
  }
  s->candidates = calloc((size_t)programs + 1, sizeof *s->candidates);
  if (!s->candidates) return cli_fail(attune_fail(ATTUNE_NO_MEMORY, "no memory for the programs"));
  for (int i = 0; i < s->source_count; i++) add_candidates(s, &s->sources[i]);
  if (s->candidate_count) return CLI_OK;
  fprintf(stderr, "attune bench: error: nothing here runs on this device\n");
  return CLI_MISSING;
}

/* Whether two programs answer the same problem, whatever their op and arch. */
static int same_problem(const candidate *a, const candidate *b) {
  attune_variant x = a->program->variant, y = b->program->variant;
  x.op = y.op, x.arch = y.arch;
  return !memcmp(&x, &y, sizeof x);
}

/* ---- one page -------------------------------------------------------------------------------- */

static void say_not_timed(session *s, const candidate *c) {
  char name[ATTUNE_NAME_MAX];
  source_program_name(c->source, c->program, name);
  fprintf(stderr, "attune bench: %s: not timed: %s\n", name, attune_error());
  s->failed++;
}

static void print_page(session *s, const bench_page *page) {
  for (int i = 0; i < page->lines; i++) s->failed += page->line[i].time.status != ATTUNE_OK;
  s->timed += page->lines;
  if (s->as_json)
    bench_page_json(page, &s->json);
  else
    bench_page_print(page, &s->text);
}

/* Adds all that answer the problem of candidate `first`, times them, prints. */
static attune_status time_problem(session *s, int first, bench_page *page) {
  char name[ATTUNE_NAME_MAX];
  attune_status status = ATTUNE_OK;
  for (int i = first; i < s->candidate_count; i++) {
    const candidate *c = &s->candidates[i];
    if (!same_problem(c, &s->candidates[first])) continue;
    source_program_name(c->source, c->program, name);
    if (bench_page_add(page, c->source, c->program, name) != ATTUNE_OK) say_not_timed(s, c);
  }
  if (page->lines) status = bench_page_time(page, &s->options);
  if (status == ATTUNE_OK) print_page(s, page);
  return status;
}

static attune_status bench_problem(session *s, int first, const attune_shape *shape) {
  bench_page page;
  const candidate *c = &s->candidates[first];
  attune_status status = bench_page_open(s->device, c->source, c->program, shape, s->l2, &page);
  if (status == ATTUNE_OK) status = time_problem(s, first, &page);
  bench_page_close(&page);
  return status;
}

static int is_first_of_problem(const session *s, int i) {
  for (int before = 0; before < i; before++)
    if (same_problem(&s->candidates[before], &s->candidates[i])) return 0;
  return 1;
}

/* A table is printed as it is done: a run over a whole set takes minutes. */
static int bench_all(session *s) {
  for (int i = 0; i < s->candidate_count; i++)
    for (int k = 0; k < s->shape_count && is_first_of_problem(s, i); k++) {
      attune_status status = bench_problem(s, i, &s->shapes[k]);
      if (status != ATTUNE_OK) return cli_fail(status);
      if (!s->as_json && cli_print(&s->text) != CLI_OK) return CLI_MISSING;
    }
  return CLI_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void begin(session *s) {
  s->json = (attune__json){.text = &s->text};
  if (!s->as_json) {
    bench_legend_print(&s->device->facts, s->options.rounds, &s->text);
    return;
  }
  attune__json_begin(&s->json, '{');
  show_json_count(&s->json, "schema", CLI_JSON_SCHEMA);
  show_json_text(&s->json, "attune", attune_version());
  show_json_text(&s->json, "device", s->device->facts.name);
  show_json_count(&s->json, "driver_cuda", s->device->facts.driver_cuda);
  show_json_text(&s->json, "interval", "order statistics, binomial");
  attune__json_key(&s->json, "pages");
  attune__json_begin(&s->json, '[');
}

static int end(session *s) {
  if (s->as_json) {
    attune__json_end(&s->json, ']');
    attune__json_end(&s->json, '}');
    attune__text_puts(&s->text, "\n");
  }
  int rc = cli_print(&s->text);
  if (rc != CLI_OK) return rc;
  return s->failed ? CLI_CHECK : CLI_OK;
}

static int read_options(const cli_args *args, session *s) {
  const char *l2 = cli_value(args, "--l2");
  int64_t rounds = ATTUNE__BENCH_ROUNDS;
  if (!cli_int(args, "--rounds", 1, ATTUNE__BENCH_MAX_ROUNDS, &rounds)) return 0;
  s->options.rounds = (int)rounds;
  s->l2 = l2 && !strcmp(l2, "warm") ? ATTUNE__L2_WARM : ATTUNE__L2_COLD;
  if (l2 && s->l2 == ATTUNE__L2_COLD && strcmp(l2, "cold") != 0) {
    fprintf(stderr, "attune bench: error: --l2 %s: wanted cold or warm\n", l2);
    return 0;
  }
  return cli_shapes(args, s->shapes, &s->shape_count);
}

static int run(const cli_args *args) {
  session s = {.as_json = args->json};
  int compare = cli_value(args, "--compare") != NULL;
  if (!read_options(args, &s)) return CLI_USAGE;
  if (!compare && !args->words) {
    fprintf(stderr, "attune bench: error: nothing to time: give a name, a spec or a set, or "
                    "--compare\n");
    return CLI_USAGE;
  }
  attune_status status = attune__cuda_open(0, &s.device);
  if (status != ATTUNE_OK) {
    cli_fail(status);
    fprintf(stderr, "attune bench: only a GPU can be timed; the CPU device counts bytes: `attune "
                    "trace`\n");
    return CLI_MISSING;
  }
  if (compare) { /* a child works on the device; this process is not to be another on it */
    s.device->ops->close(s.device);
    return bench_compare(args, &s.options);
  }
  int rc = find_candidates(args, &s);
  if (rc == CLI_OK) {
    begin(&s);
    rc = bench_all(&s);
  }
  if (rc == CLI_OK) rc = end(&s);
  attune__text_free(&s.text);
  free(s.candidates);
  for (int i = 0; i < s.source_count; i++) source_close(&s.sources[i]);
  s.device->ops->close(s.device);
  return rc;
}

const cli_command cli_bench_command = {
    .name = "bench",
    .usage = "bench NAME|SPEC|DIR|PACK... [--shape S]... [--l2 cold|warm] [--rounds N] [--arch A]\n"
             "       attune bench --compare [VARIANT]... [--rounds N]",
    .text =
        "Times kernels on the GPU: all that answer one problem in the same interleaved rounds.\n"
        "Short launches are timed in CUDA graphs of many calls, over random tensors. Give\n"
        "several names to compare tiles, or a variant of attn_standard beside one of attn_fwd.\n"
        "With --compare the winners that `attune tune` measured on this GPU are timed again\n"
        "beside what the planner would choose: after an update of the driver or of NVRTC. Exit 1\n"
        "when one is slower outside the noise, or fails.",
    .options = options,
    .min_words = 0,
    .max_words = MAX_WORDS,
    .run = run,
};
