/* verify.c - `attune verify SPEC|DIR|PACK|NAME`: runs kernels on a device and compares with
 * float64.
 *
 * A line per program as it ends, then `verified N of M kernels on cuda` (or cpu). What the device
 * cannot run is named and not counted. The checking itself is gen/verify.c's. The CPU device runs
 * every arch; unless --all is given it runs the few most telling cases, and each line says so. */
#include "../verify.h"

#include "../../runtime/attune_cpu.h"
#include "../../runtime/context.h"
#include "bench_page.h"
#include "cli.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_option options[] = {
    {"--source", "F", "an edited file of `attune emit`; on a GPU it is timed beside the original"},
    {"--device", "D", "cuda or cpu; default: cuda where there is a GPU"},
    CLI_SHAPE_OPTION,
    {"--data", "DIR", "real activations; default: tests/data/minilm"},
    {"--arch", "A", "for this arch instead of the spec's; native: the GPU here"},
    {"--quick", NULL, "the few most telling cases"},
    {"--part", "K/N", "of the kernels the K-th of N parts, to share them among processes"},
    {"--all", NULL, "on the CPU device: every case, which takes minutes a kernel"},
    {"--checks", "on|off", "on the CPU device: off for speed; default on"},
    {NULL, NULL, NULL},
};

typedef struct session {
  source source;
  attune_verify_options options;
  attune__device_facts device; /* of the GPU */
  int on_cpu;
  attune_cpu_options cpu;
  int part, parts;              /* programs part, part + parts, .. are this run's */
  int counted, verified;        /* kernels */
  const char *edited;           /* --source; NULL: a word */
  attune_shape shape[CLI_MANY]; /* that it is timed on */
  int shapes;
  int as_json;
  attune__json json;
} session;

/* ---- a program ----------------------------------------------------------------------------- */

static const char *device_name(const session *s) {
  return s->on_cpu ? "cpu" : "cuda";
}

static attune_status open_context(const session *s, const attune_variant *v, attune_context **out) {
  if (!s->on_cpu) return attune_open(NULL, out);
  attune_cpu_options cpu = s->cpu;
  char arch[ATTUNE_ARCH_MAX];
  attune__arch_print(v->arch, 1, arch);
  cpu.arch = arch;
  return attune_cpu_open(&cpu, out);
}

/* In a context of its own: programs of one variant with different tiles do not meet. */
static attune_status verify_entries(const session *s, const source_program *p,
                                    const source_entries *e, attune_verdict *out) {
  attune_context *context;
  attune_program *program;
  attune_verify_options verify_options = s->options;
  attune_status status = open_context(s, &p->variant, &context);
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

/* ---- an edited kernel's time -------------------------------------------------------------------
 */

/* The original and the edited one in the same rounds. */
static attune_status time_page(const session *s, bench_page *page) {
  const source_program *p = &s->source.programs[0];
  source own = source_unedited(&s->source);
  char name[ATTUNE_NAME_MAX];
  source_program_name(&own, p, name);
  attune_status status = bench_page_add(page, &own, p, name);
  if (status == ATTUNE_OK) status = bench_page_add(page, &s->source, p, s->edited);
  return status == ATTUNE_OK ? bench_page_time(page, NULL) : status;
}

static attune_status time_shape(session *s, attune__device *device, const attune_shape *shape,
                                attune__text *text) {
  bench_page page;
  attune_status status =
      bench_page_open(device, &s->source, &s->source.programs[0], shape, ATTUNE__L2_COLD, &page);
  if (status == ATTUNE_OK) status = time_page(s, &page);
  if (status == ATTUNE_OK && s->as_json) bench_page_json(&page, &s->json);
  if (status == ATTUNE_OK && !s->as_json) bench_page_print(&page, text);
  bench_page_close(&page);
  return status;
}

static int time_edited(session *s, attune__device *device) {
  attune__text text = {0};
  attune_status status = ATTUNE_OK;
  if (s->as_json) attune__json_key(&s->json, "times"), attune__json_begin(&s->json, '[');
  for (int i = 0; i < s->shapes && status == ATTUNE_OK; i++)
    status = time_shape(s, device, &s->shape[i], &text);
  if (s->as_json) attune__json_end(&s->json, ']');
  if (status == ATTUNE_OK) return cli_print(&text);
  attune__text_free(&text);
  return cli_fail(status);
}

/* ---- the command --------------------------------------------------------------------------- */

static int verify_one(session *s, const source_program *p) {
  attune_verdict verdict = {.kernels = 0};
  source_entries e = {.count = 0};
  char name[ATTUNE_NAME_MAX];
  source_program_name(&s->source, p, name);
  if (!s->on_cpu && !attune__arch_runs(p->variant.arch, s->device.arch))
    return print_not_run(s, name, p->variant.arch);
  attune_status status = source_entries_get(&s->source, p, &e);
  if (status == ATTUNE_OK) status = verify_entries(s, p, &e, &verdict);
  source_entries_free(&e);
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
    show_json_count(&s->json, "verified", s->verified);
    show_json_count(&s->json, "kernels", s->counted);
    attune__json_end(&s->json, '}');
    attune__text_puts(json_text, "\n");
    return cli_print(json_text);
  }
  attune__text_printf(&text, "verified %d of %d kernels on %s\n", s->verified, s->counted,
                      device_name(s));
  return cli_print(&text);
}

static void begin_json(session *s, attune__text *text) {
  s->json = (attune__json){.text = text};
  attune__json_begin(&s->json, '{');
  show_json_count(&s->json, "schema", CLI_JSON_SCHEMA);
  show_json_text(&s->json, "device", s->on_cpu ? "cpu" : s->device.name);
  attune__json_key(&s->json, "verdicts");
  attune__json_begin(&s->json, '[');
}

static int verify_all(session *s, attune__device *device) {
  attune__text json_text = {0};
  int rc = CLI_OK;
  if (s->as_json) begin_json(s, &json_text);
  for (int i = s->part; i < s->source.program_count && rc == CLI_OK; i += s->parts)
    rc = verify_one(s, &s->source.programs[i]);
  if (s->as_json) attune__json_end(&s->json, ']');
  if (rc == CLI_OK && s->edited && device && s->verified) rc = time_edited(s, device);
  if (rc == CLI_OK) rc = print_end(s, &json_text);
  if (rc != CLI_OK) return rc;
  if (!s->counted && s->parts == 1) {
    fprintf(stderr, "attune verify: error: nothing here runs on this device\n");
    return CLI_MISSING;
  }
  return s->verified == s->counted ? CLI_OK : CLI_CHECK;
}

/* Which device, and how: 0 after a message. */
static int read_device(const cli_args *args, session *s, int *want_cuda) {
  const char *device = cli_value(args, "--device"), *checks = cli_value(args, "--checks");
  *want_cuda = device && !strcmp(device, "cuda");
  s->on_cpu = device && !strcmp(device, "cpu");
  s->cpu = attune_cpu_options_init();
  s->cpu.unchecked = checks && !strcmp(checks, "off");
  if (device && !*want_cuda && !s->on_cpu) {
    fprintf(stderr, "attune verify: error: --device %s: wanted cuda or cpu\n", device);
    return 0;
  }
  if (checks && !s->cpu.unchecked && strcmp(checks, "on") != 0) {
    fprintf(stderr, "attune verify: error: --checks %s: wanted on or off\n", checks);
    return 0;
  }
  return 1;
}

/* Part K of N as the K-th program and every N-th after it: neighbours cost alike. */
static int read_part(const cli_args *args, session *s) {
  const char *part = cli_value(args, "--part");
  char more;
  s->part = 0, s->parts = 1;
  if (!part) return 1;
  if (sscanf(part, "%4d/%4d%c", &s->part, &s->parts, &more) == 2 && 1 <= s->part &&
      s->part-- <= s->parts)
    return 1;
  fprintf(stderr, "attune verify: error: --part %s: wanted K/N as 1/8, K from 1 to N\n", part);
  return 0;
}

/* On the GPU while its device is open: contexts come and go quickly beside it. */
static int verify_on_device(session *s, int want_cuda) {
  attune__device *device = NULL;
  if (!s->on_cpu && attune__cuda_open(0, &device) != ATTUNE_OK) {
    if (want_cuda) return cli_fail(ATTUNE_NO_DEVICE);
    s->on_cpu = 1;
  }
  if (device) s->device = device->facts;
  s->options.brief &= s->on_cpu;
  int rc = verify_all(s, device);
  if (device) device->ops->close(device);
  return rc;
}

/* Either a word or --source, which says itself what it is. */
static int check_words(const cli_args *args, const char *edited) {
  if (!edited != !args->words && !(edited && cli_value(args, "--arch"))) return 1;
  fprintf(stderr,
          "attune verify: error: wanted a spec, set or name, or else --source F alone\n"
          "usage: attune %s\n",
          args->command->usage);
  return 0;
}

static int run(const cli_args *args) {
  session s = {.as_json = args->json};
  int want_cuda;
  if (!read_device(args, &s, &want_cuda) || !read_part(args, &s)) return CLI_USAGE;
  s.options.data = cli_value(args, "--data");
  s.options.quick = cli_value(args, "--quick") != NULL;
  s.options.brief = !cli_value(args, "--all");
  s.edited = cli_value(args, "--source");
  if (!cli_shapes(args, s.shape, &s.shapes) || !check_words(args, s.edited)) return CLI_USAGE;
  int rc = s.edited ? source_open_edited(s.edited, &s.source)
                    : source_open(args->word[0], cli_value(args, "--arch"), &s.source);
  if (rc != CLI_OK) return rc;
  rc = verify_on_device(&s, want_cuda);
  source_close(&s.source);
  return rc;
}

const cli_command cli_verify_command = {
    .name = "verify",
    .usage =
        "verify SPEC|DIR|PACK|NAME [--device cuda|cpu] [--data DIR] [--arch A] [--quick] [--all]\n"
        "       [--checks on|off] [--part K/N]\n"
        "       attune verify --source F [--shape S]... [--device cuda|cpu] [--quick] [--all]",
    .text =
        "Runs kernels on nasty shapes and on real activations and compares with float64.\n"
        "A kernel that the device cannot run is named and not counted. The CPU device runs\n"
        "all, checks every access, and takes the few most telling cases unless --all is given.\n"
        "--source F: F is what `attune emit NAME` wrote, with its body edited by hand. It is\n"
        "compiled in place of the kernel that its data sheet names, which stays as it is.",
    .options = options,
    .max_words = 1,
    .run = run,
};
