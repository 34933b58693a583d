/* build.c - `attune build SPEC -o DIR`: compiles the kernels of a spec into a set folder.
 * Progress goes to stderr: a bar on a terminal, else a line per kernel. The summary is the result.
 * Where the code of a planned kernel is not what the planner counted on, the next candidate takes
 * its place, as in the JIT. */
#include "../build.h"
#include "set_word.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_option options[] = {
    {"-o", "DIR", "folder of the set; made when missing"},
    {"-j", "N", "compiles at once; default: as many as cores"},
    {"--arch", "A", "for this arch instead of the spec's; native: the GPU here"},
    {"--keep-source", NULL, "also write <name>.cu, the CUDA text, beside each entry"},
    {"--allow-spills", NULL,
     "keep kernels whose registers spill; else another tile is taken, or the build fails"},
    {NULL, NULL, NULL},
};

/* What became of a kernel, by its index in the job. */
typedef struct outcome {
  attune_facts facts;
  double milliseconds; /* 0: kept */
  int done;
} outcome;

enum { MAX_TRIES = 8 }; /* builds, each with the next candidates; a JIT, waited for, tries fewer */

typedef struct report {
  const attune_job *job;
  outcome *outcomes;
  int name_width, terminal;
  attune__avoided *unfit; /* kernels whose code is slow, over all tries */
  int broken;             /* 1: one failed for another reason */
} report;

/* ---- progress ------------------------------------------------------------------------------ */

static int index_of(const attune_job *job, const char *name) {
  int i = 0;
  while (i < job->kernel_count && strcmp(job->kernels[i].name, name) != 0) i++;
  return i;
}

static void draw_bar(const attune_build_progress *p) {
  char bar[33];
  int filled = p->done * (int)(sizeof bar - 1) / p->total;
  memset(bar, '.', sizeof bar - 1);
  memset(bar, '#', (size_t)filled);
  bar[sizeof bar - 1] = 0;
  fprintf(stderr, "\r\033[K[%s] %d/%d %.60s", bar, p->done, p->total, p->name);
  if (p->done == p->total) fputs("\r\033[K", stderr);
  fflush(stderr);
}

static void print_line(const report *r, const attune_build_progress *p) {
  attune__text line = {0};
  attune__text_printf(&line, "%*d/%d  %-*s", p->total > 99 ? 3 : 2, p->done, p->total,
                      r->name_width, p->name);
  if (!p->facts)
    attune__text_puts(&line, "  failed");
  else if (p->milliseconds > 0) {
    attune__text_printf(&line, "  %3u registers  ", p->facts->registers);
    show_fixed(&line, 6, p->milliseconds, 0);
    attune__text_puts(&line, " ms");
  } else
    attune__text_printf(&line, "  %3u registers     kept", p->facts->registers);
  if (p->warning) attune__text_printf(&line, "  %s", p->warning);
  if (line.data) fprintf(stderr, "%s\n", line.data);
  attune__text_free(&line);
}

static void note_failed(report *r, const attune_build_progress *p) {
  attune__avoided *unfit = r->unfit;
  size_t room = ((size_t)unfit->count + 1) * sizeof *unfit->name;
  char(*name)[ATTUNE_NAME_MAX] = p->warning ? realloc(unfit->name, room) : NULL;
  r->broken |= !name;
  if (!name) return;
  unfit->name = name;
  snprintf(name[unfit->count++], sizeof *name, "%s", p->name);
}

static void on_progress(void *user, const attune_build_progress *p) {
  report *r = user;
  int i = index_of(r->job, p->name);
  if (p->facts && i < r->job->kernel_count)
    r->outcomes[i] = (outcome){*p->facts, p->milliseconds, 1};
  if (!p->facts) note_failed(r, p);
  if (r->terminal)
    draw_bar(p);
  else
    print_line(r, p);
}

/* ---- summary ------------------------------------------------------------------------------- */

static void print_summary(const attune_build_summary *s, const char *folder, attune__text *out) {
  attune__text_printf(out, "%s: %d kernels (%d compiled, %d kept), ", folder, s->compiled + s->kept,
                      s->compiled, s->kept);
  attune__text_grouped(out, (uint64_t)s->entry_bytes);
  attune__text_puts(out, " bytes, ");
  attune__text_fixed(out, s->wall_ms / 1e3, 1);
  attune__text_puts(out, " s");
  if (s->compiled) {
    attune__text_puts(out, ", ");
    attune__text_fixed(out, s->compile_ms / s->compiled / 1e3, 2);
    attune__text_puts(out, " s a compile");
  }
  attune__text_puts(out, "\n");
}

static void kernel_json(attune__json *json, const attune_kernel *kernel, const outcome *o) {
  attune__json_begin(json, '{');
  show_json_text(json, "name", kernel->name);
  show_json_count(json, "registers", o->facts.registers);
  show_json_count(json, "spill_bytes", o->facts.spill_bytes);
  show_json_count(json, "stack_bytes", o->facts.stack_bytes);
  show_json_count(json, "c75_lines", o->facts.c75_lines);
  show_json_count(json, "smem_bytes", kernel->recipe.smem_bytes);
  show_json_count(json, "compile_ms", (int64_t)o->milliseconds);
  attune__json_end(json, '}');
}

static void summary_json(const report *r, const attune_build_summary *s, const char *folder,
                         attune__text *out) {
  attune__json json = {.text = out};
  attune__json_begin(&json, '{');
  show_json_count(&json, "schema", CLI_JSON_SCHEMA);
  show_json_text(&json, "set", folder);
  show_json_count(&json, "compiled", s->compiled);
  show_json_count(&json, "kept", s->kept);
  show_json_count(&json, "failed", s->failed);
  show_json_count(&json, "entry_bytes", s->entry_bytes);
  show_json_count(&json, "wall_ms", (int64_t)s->wall_ms);
  show_json_count(&json, "compile_ms", (int64_t)s->compile_ms);
  attune__json_key(&json, "kernels");
  attune__json_begin(&json, '[');
  for (int i = 0; i < r->job->kernel_count; i++)
    if (r->outcomes[i].done) kernel_json(&json, &r->job->kernels[i], &r->outcomes[i]);
  attune__json_end(&json, ']');
  attune__json_end(&json, '}');
  attune__text_puts(out, "\n");
}

/* ---- fallbacks ----------------------------------------------------------------------------- */

/* How many rows have the reason of row `first`; 0 when an earlier one has it. */
static int rows_alike(const attune_job *job, int first) {
  const char *reason = job->rows[first].fallback;
  int count = 0;
  for (int i = 0; i < job->row_count; i++) {
    if (strcmp(job->rows[i].fallback, reason) != 0) continue;
    if (i < first) return 0;
    count++;
  }
  return count;
}

/* No silent fallback: a note for each reason, with the first program that it is true of. */
static void print_fallbacks(const attune_job *job) {
  char name[ATTUNE_NAME_MAX];
  for (int i = 0; i < job->row_count; i++) {
    const attune_job_row *row = &job->rows[i];
    int count = row->fallback[0] ? rows_alike(job, i) : 0;
    if (!count) continue;
    attune__variant_name(&row->variant, 1, name);
    fprintf(stderr, "note: %d of %d programs (%s%s): family %s, a slower one, stands in: %s\n",
            count, job->row_count, name, count > 1 ? ", ..." : "",
            attune__family_name(job->kernels[row->kernel[0]].tile.family), row->fallback);
  }
}

/* ---- the command --------------------------------------------------------------------------- */

/* What a build is asked for. */
typedef struct order {
  const cli_args *args;
  const char *folder;
  attune_spec spec;
  int64_t jobs;
  int as_result; /* the summary goes to stdout */
} order;

/* The job with other candidates for what proved unfit; 0 where there are none: a tile that the spec
 * or a measured row names. */
static int stand_ins(const order *o, const attune__avoided *unfit, attune_job *out) {
  if (cli_expand(&o->spec, unfit, out) != CLI_OK) return 0;
  for (int i = 0; i < unfit->count; i++)
    if (index_of(out, unfit->name[i]) < out->kernel_count) return attune__job_free(out), 0;
  return 1;
}

/* next: where there may be another try; *again tells whether it has its job. */
static int build(const order *o, report *r, const attune_build_options *how, attune_job *next,
                 int *again) {
  attune_build_summary summary;
  attune__text errors = {0}, text = {0};
  attune_status status = attune__build(r->job, how, &summary, &errors);
  *again = status && next && !r->broken && r->unfit->count && stand_ins(o, r->unfit, next);
  if (errors.data) fputs(errors.data, stderr);
  attune__text_free(&errors);
  if (*again) return fputs("note: the next candidates are tried in their place\n", stderr), CLI_OK;
  int failed = status ? cli_fail(status) : CLI_OK;
  if (!o->as_result) return failed;
  if (o->args->json)
    summary_json(r, &summary, o->folder, &text);
  else if (!failed)
    print_summary(&summary, o->folder, &text);
  int printed = cli_print(&text);
  return failed ? failed : printed;
}

static int build_job(const order *o, const attune_job *job, attune__avoided *unfit,
                     attune_job *next, int *again) {
  report r = {.job = job, .terminal = isatty(STDERR_FILENO), .unfit = unfit};
  r.outcomes = calloc((size_t)job->kernel_count + 1, sizeof *r.outcomes);
  for (int i = 0; i < job->kernel_count; i++) {
    int length = (int)strlen(job->kernels[i].name);
    if (length > r.name_width) r.name_width = length;
  }
  attune_build_options how = {.out = o->folder,
                              .jobs = (int)o->jobs,
                              .keep_source = cli_value(o->args, "--keep-source") != NULL,
                              .allow_spills = cli_value(o->args, "--allow-spills") != NULL,
                              .progress = on_progress,
                              .user = &r};
  *again = 0;
  int rc = r.outcomes ? build(o, &r, &how, next, again)
                      : cli_fail(attune_fail(ATTUNE_NO_MEMORY, "out of memory"));
  free(r.outcomes);
  return rc;
}

static int build_tries(const order *o) {
  attune_job job, next;
  attune__avoided unfit = {.count = 0};
  int rc = cli_expand(&o->spec, NULL, &job), again = rc == CLI_OK;
  if (again) print_fallbacks(&job);
  for (int tries = 1; again; tries++) {
    rc = build_job(o, &job, &unfit, tries < MAX_TRIES ? &next : NULL, &again);
    attune__job_free(&job);
    if (again) job = next;
  }
  free(unfit.name);
  return rc;
}

static int build_spec(const cli_args *args, const char *spec, const char *folder, int as_result) {
  order o = {.args = args, .folder = folder, .as_result = as_result};
  if (!cli_int(args, "-j", 1, 256, &o.jobs)) return CLI_USAGE;
  int rc = cli_read_spec(spec, cli_value(args, "--arch"), &o.spec);
  if (rc != CLI_OK) return rc;
  rc = build_tries(&o);
  attune__spec_free(&o.spec);
  return rc;
}

int cli_build_spec(const cli_args *args, const char *spec, const char *folder) {
  return build_spec(args, spec, folder, 0);
}

static int run(const cli_args *args) {
  const char *folder = cli_value(args, "-o");
  if (!folder || !*folder) {
    fprintf(stderr, "attune build: error: -o DIR is missing: where the set goes\n");
    return CLI_USAGE;
  }
  return build_spec(args, args->word[0], folder, 1);
}

const cli_command cli_build_command = {
    .name = "build",
    .usage = "build SPEC -o DIR [-j N] [--arch A] [--keep-source] [--allow-spills]",
    .text =
        "Compiles the kernels of a spec into a set folder that the runtime opens. Needs no GPU.\n"
        "A second build compiles only what changed: templates, options, compiler, spec.\n"
        "Where the code of a planned kernel spills or is serialised, the next candidate is taken.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
