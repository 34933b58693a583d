/* verify.c - `attune verify SPEC|DIR|NAME`: runs kernels on a device and compares with float64.
 *
 * A line per program as it ends, then `verified N of M kernels on cuda`. What the device cannot run
 * is named and not counted. The checking itself is gen/verify.c's. */
#include "../verify.h"

#include "../../runtime/context.h"
#include "cli.h"
#include "show.h"
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_option options[] = {
    {"--device", "D", "cuda, the only one so far"},
    {"--data", "DIR", "real activations; default: tests/data/minilm"},
    {"--arch", "A", "for this arch instead of the spec's; native: the GPU here"},
    {"--quick", NULL, "the few most telling cases"},
    {NULL, NULL, NULL},
};

typedef struct session {
  source source;
  attune_verify_options options;
  attune__device_facts device;
  int counted, verified; /* kernels */
  int as_json;
  attune__json json;
} session;

/* ---- a program ----------------------------------------------------------------------------- */

/* Entry files of a program. */
typedef struct entries {
  void *bytes[ATTUNE_MAX_PARTS];
  size_t size[ATTUNE_MAX_PARTS];
  attune_pinset pins;
} entries;

static void free_entries(entries *e) {
  for (int i = 0; i < ATTUNE_MAX_PARTS; i++) free(e->bytes[i]);
}

static attune_status get_entries(const source *s, const source_program *p, entries *out) {
  attune_entry entry;
  for (int i = 0; i < p->kernel_count; i++) {
    attune_status status = source_entry(s, p->kernel[i], &out->bytes[i], &out->size[i]);
    if (status == ATTUNE_OK) status = attune__entry_read(out->bytes[i], out->size[i], &entry);
    if (status != ATTUNE_OK) return status;
    out->pins = entry.pins;
  }
  return ATTUNE_OK;
}

/* In a context of its own: programs of one variant with different tiles do not meet. */
static attune_status verify_entries(const session *s, const source_program *p, const entries *e,
                                    attune_verdict *out) {
  attune_context *context;
  attune_program *program;
  attune_verify_options verify_options = s->options;
  attune_status status = attune_open(NULL, &context);
  if (status != ATTUNE_OK) return status;
  status = attune__verify_open(context, &p->variant, &e->pins, (const void *const *)e->bytes,
                               e->size, p->kernel_count, &program);
  verify_options.pins = &e->pins;
  if (status == ATTUNE_OK)
    status = attune__verify_program(program, attune__context_device(context), &p->variant,
                                    &verify_options, out);
  attune_close(context);
  return status;
}

/* The one kernel that the program is about, else the program's name. */
static void name_program(const source *s, const source_program *p, char out[ATTUNE_NAME_MAX]) {
  int fresh = 0, which = 0;
  for (int i = 0; i < p->kernel_count; i++)
    if (p->fresh[i]) which = p->kernel[i], fresh++;
  if (fresh == 1)
    snprintf(out, ATTUNE_NAME_MAX, "%s", source_kernel_name(s, which));
  else
    attune__variant_name(&p->variant, 1, out);
}

static int fresh_kernels(const source_program *p) {
  int fresh = 0;
  for (int i = 0; i < p->kernel_count; i++) fresh += p->fresh[i];
  return fresh;
}

/* ---- output -------------------------------------------------------------------------------- */

static void verdict_json(attune__json *json, const attune_verdict *d, int passed) {
  attune__json_begin(json, '{');
  show_json_text(json, "name", d->name);
  show_json_count(json, "kernels", d->kernels);
  attune__json_key(json, "passed"), attune__json_bool(json, passed);
  show_json_count(json, "cases", d->cases);
  show_json_count(json, "cases_passed", d->passed);
  show_json_count(json, "cases_not_run", d->not_run);
  show_json_text(json, "not_run_why", d->not_run_why);
  show_json_real(json, "error", d->worst_error);
  show_json_real(json, "bound", d->worst_bound);
  show_json_text(json, "case", d->worst_case);
  show_json_text(json, "reason", d->reason);
  attune__json_end(json, '}');
}

static int print_verdict(session *s, const attune_verdict *d, int passed) {
  attune__text text = {0};
  if (s->as_json) {
    verdict_json(&s->json, d, passed);
    return CLI_OK;
  }
  attune__verdict_print(d, &text);
  return cli_print(&text);
}

static int print_not_run(session *s, const char *name, uint32_t arch) {
  char code[ATTUNE_ARCH_MAX], here[ATTUNE_ARCH_MAX];
  attune_verdict d = {.kernels = 0};
  attune__text text = {0};
  attune__arch_print(arch, 1, code);
  attune__arch_print(s->device.arch, 1, here);
  snprintf(d.name, sizeof d.name, "%s", name);
  snprintf(d.reason, sizeof d.reason, "code for %s does not run on this device (%s, %.80s)", code,
           here, s->device.name);
  if (s->as_json) return print_verdict(s, &d, 0);
  attune__text_printf(&text, "%s: not run  %s\n", d.name, d.reason);
  return cli_print(&text);
}

/* ---- the command --------------------------------------------------------------------------- */

static int verify_one(session *s, const source_program *p) {
  attune_verdict verdict = {.kernels = 0};
  entries e = {.pins.count = 0};
  char name[ATTUNE_NAME_MAX];
  name_program(&s->source, p, name);
  if (!attune__arch_runs(p->variant.arch, s->device.arch))
    return print_not_run(s, name, p->variant.arch);
  attune_status status = get_entries(&s->source, p, &e);
  if (status == ATTUNE_OK) status = verify_entries(s, p, &e, &verdict);
  free_entries(&e);
  if (status != ATTUNE_OK && status != ATTUNE_MISMATCH)
    snprintf(verdict.reason, sizeof verdict.reason, "could not be run: %.170s", attune_error());
  int passed = status == ATTUNE_OK && verdict.cases > 0;
  /* What could not be made or run to the end counts as one more case, failed. */
  if (!passed && verdict.passed == verdict.cases) verdict.cases++;
  snprintf(verdict.name, sizeof verdict.name, "%s", name);
  verdict.kernels = fresh_kernels(p);
  s->counted += verdict.kernels;
  s->verified += passed ? verdict.kernels : 0;
  return print_verdict(s, &verdict, passed);
}

static int print_end(session *s, attune__text *json_text) {
  attune__text text = {0};
  if (s->as_json) {
    attune__json_end(&s->json, ']');
    show_json_count(&s->json, "verified", s->verified);
    show_json_count(&s->json, "kernels", s->counted);
    attune__json_end(&s->json, '}');
    attune__text_puts(json_text, "\n");
    return cli_print(json_text);
  }
  attune__text_printf(&text, "verified %d of %d kernels on cuda\n", s->verified, s->counted);
  return cli_print(&text);
}

static void begin_json(session *s, attune__text *text) {
  s->json = (attune__json){.text = text};
  attune__json_begin(&s->json, '{');
  show_json_count(&s->json, "schema", CLI_JSON_SCHEMA);
  show_json_text(&s->json, "device", s->device.name);
  attune__json_key(&s->json, "verdicts");
  attune__json_begin(&s->json, '[');
}

static int verify_all(session *s) {
  attune__text json_text = {0};
  int rc = CLI_OK;
  if (s->as_json) begin_json(s, &json_text);
  for (int i = 0; i < s->source.program_count && rc == CLI_OK; i++)
    rc = verify_one(s, &s->source.programs[i]);
  if (rc == CLI_OK) rc = print_end(s, &json_text);
  if (rc != CLI_OK) return rc;
  if (!s->counted) {
    fprintf(stderr, "attune verify: error: nothing here runs on this device\n");
    return CLI_MISSING;
  }
  return s->verified == s->counted ? CLI_OK : CLI_CHECK;
}

static int run(const cli_args *args) {
  session s = {.as_json = args->json};
  attune__device *device;
  const char *wanted = cli_value(args, "--device");
  if (wanted && strcmp(wanted, "cuda") != 0) {
    fprintf(stderr, "attune verify: error: --device %s: there is cuda so far\n", wanted);
    return CLI_USAGE;
  }
  s.options.data = cli_value(args, "--data");
  s.options.quick = cli_value(args, "--quick") != NULL;
  int rc = source_open(args->word[0], cli_value(args, "--arch"), &s.source);
  if (rc != CLI_OK) return rc;
  if (attune__cuda_open(0, &device) != ATTUNE_OK) {
    fprintf(stderr, "attune verify: error: kernels are executed here, which needs a device: %s\n",
            attune_error());
    source_close(&s.source);
    return CLI_MISSING;
  }
  s.device = device->facts;
  rc = verify_all(&s); /* device stays open: contexts come and go quickly beside it */
  device->ops->close(device);
  source_close(&s.source);
  return rc;
}

const cli_command cli_verify_command = {
    .name = "verify",
    .usage = "verify SPEC|DIR|NAME [--device cuda] [--data DIR] [--arch A] [--quick]",
    .text = "Runs kernels on nasty shapes and on real activations and compares with float64.\n"
            "A kernel that the device cannot run is named and not counted.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
