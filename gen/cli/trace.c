/* trace.c - `attune trace NAME`: one launch on the CPU device, checked, with every byte counted.
 *
 * For each kernel: bytes per tensor by the planner's formula, as counted, and the difference, which
 * must be 0; then the other counters. A fault that a check found is an error with its report. */
#include "../probe.h"

#include "cli.h"
#include "show.h"
#include "source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_option options[] = {
    {"--shape", "S", "b=1,h=2,q=256,k=256: batch, heads (h=4/2: query/kv), lengths; left, right"},
    {"--seed", "N", "order of the warps, and the data; 0: warps take turns"},
    {"--landing", "L", "when asynchronous copies arrive: late, early or random"},
    {NULL, NULL, NULL},
};

/* ---- options ------------------------------------------------------------------------------- */

/* One "key=value" of --shape; h takes "4/2". 1 when it is well-formed. */
static int read_shape_item(const char *item, size_t length, attune_shape *out) {
  const struct {
    const char *key;
    int64_t *field;
  } keys[] = {{"b=", &out->batch}, {"h=", &out->heads_q},        {"q=", &out->len_q},
              {"k=", &out->len_k}, {"left=", &out->window_left}, {"right=", &out->window_right}};
  char text[64] = "", *end;
  if (length >= sizeof text) return 0;
  memcpy(text, item, length);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    size_t key = strlen(keys[i].key);
    if (strncmp(text, keys[i].key, key) != 0 || !text[key]) continue;
    *keys[i].field = strtol(text + key, &end, 10);
    if (i == 1) out->heads_kv = *end == '/' ? strtol(end + 1, &end, 10) : out->heads_q;
    return !*end;
  }
  return 0;
}

static int shape_is_sane(const attune_shape *s) {
  enum { MOST = 1 << 20 };
  return s->batch > 0 && s->heads_kv > 0 && s->heads_q > 0 && s->len_q > 0 && s->len_k >= 0 &&
         s->heads_q % s->heads_kv == 0 && s->batch <= MOST && s->heads_q <= MOST &&
         s->len_q <= MOST && s->len_k <= MOST && s->window_left >= -1 && s->window_right >= -1 &&
         s->window_left <= MOST && s->window_right <= MOST;
}

static int read_shape(const char *text, attune_shape *out) {
  *out = (attune_shape){.batch = 1,
                        .heads_q = 2,
                        .heads_kv = 2,
                        .len_q = 256,
                        .len_k = 256,
                        .window_left = 127,
                        .window_right = 0,
                        .corner = ATTUNE_CORNER_BOTTOM_RIGHT};
  for (const char *at = text; at && *at;) {
    size_t length = strcspn(at, ",");
    if (!read_shape_item(at, length, out)) return 0;
    at += length + (at[length] == ',');
  }
  return shape_is_sane(out);
}

static int read_landing(const char *text, attune_cpu_landing *out) {
  static const char *const words[] = {"late", "early", "random"};
  for (int i = 0; text && i < 3; i++)
    if (!strcmp(text, words[i])) return *out = (attune_cpu_landing)i, 1;
  return !text;
}

static int read_options(const cli_args *args, attune_cpu_options *cpu, attune_shape *shape) {
  const char *landing = cli_value(args, "--landing"), *text = cli_value(args, "--shape");
  int64_t seed = 0;
  if (!cli_int(args, "--seed", 0, INT64_MAX, &seed)) return 0;
  cpu->schedule_seed = (uint64_t)seed;
  if (!read_landing(landing, &cpu->landing)) {
    fprintf(stderr, "attune trace: error: --landing %s: wanted late, early or random\n", landing);
    return 0;
  }
  if (read_shape(text, shape)) return 1;
  fprintf(stderr,
          "attune trace: error: --shape %s: wanted items like b=2,h=4/2,q=65,k=130,left=20,right=0;"
          " query heads are a multiple of kv heads\n",
          text);
  return 0;
}

/* ---- output -------------------------------------------------------------------------------- */

static const char *const kinds[] = {"requested_read", "requested_write", "compulsory_read",
                                    "compulsory_write"};

/* Requested and compulsory bytes in one direction (0 read, 1 write). */
static void print_row(const attune__tally_row *row, int direction, attune__text *out) {
  const uint64_t *f = row->formula + direction, *c = row->counted + direction;
  if (!f[0] && !f[2] && !c[0] && !c[2]) return;
  attune__text_printf(out, "  %-8s %-5s", row->tensor, direction ? "write" : "read");
  for (int kind = 0; kind < 4; kind += 2) {
    show_grouped(out, 16, (double)f[kind]);
    show_grouped(out, 16, (double)c[kind]);
    attune__text_printf(out, "%12lld", (long long)(c[kind] - f[kind]));
  }
  attune__text_puts(out, "\n");
}

/* Counters that are single numbers: name in JSON, words, value. */
#define COUNTERS(X)                                                                                \
  X(blocks, "blocks")                                                                              \
  X(warps, "warps")                                                                                \
  X(instructions, "instructions, by warp")                                                         \
  X(fma, "multiply-adds of single lanes")                                                          \
  X(mma_macs, "multiply-adds of tensor cores")                                                     \
  X(exp2, "exponentials")                                                                          \
  X(barriers, "barriers, by warp")                                                                 \
  X(smem_read, "bytes read from shared memory")                                                    \
  X(smem_write, "bytes written to shared memory")                                                  \
  X(smem_phases, "turns of its banks")                                                             \
  X(smem_phases_least, "turns without a conflict")                                                 \
  X(async_bytes, "bytes of asynchronous copies")

static void print_sectors(const attune_cpu_counters *c, attune__text *out) {
  uint64_t sectors = 0, bytes = 0;
  for (int i = 0; i < c->tensors; i++) {
    sectors += c->tensor[i].sectors_read + c->tensor[i].sectors_write;
    bytes += c->tensor[i].requested_read + c->tensor[i].requested_write;
  }
  attune__text_puts(out, "  32-byte sectors touched by warps       ");
  show_grouped(out, 16, (double)sectors);
  attune__text_puts(out, "  for ");
  show_grouped(out, 0, (double)bytes / 32);
  attune__text_puts(out, " sectors' worth of bytes\n");
}

static void print_part(const attune_entry *entry, const attune__tally *tally, attune__text *out) {
  attune__text_printf(out, "%s\n", entry->name);
  attune__text_printf(out, "  %-14s%44s%44s\n", "bytes", "requested", "compulsory");
  attune__text_printf(out, "  %-14s", "tensor");
  for (int i = 0; i < 2; i++)
    attune__text_printf(out, "%16s%16s%12s", "by formula", "counted", "difference");
  attune__text_puts(out, "\n");
  for (int i = 0; i < tally->count; i++)
    for (int direction = 0; direction < 2; direction++) print_row(&tally->row[i], direction, out);
#define X(field, words)                                                                            \
  if (tally->counters.field) {                                                                     \
    attune__text_printf(out, "  %-39s", words);                                                    \
    show_grouped(out, 16, (double)tally->counters.field);                                          \
    attune__text_puts(out, "\n");                                                                  \
  }
  COUNTERS(X)
#undef X
  print_sectors(&tally->counters, out);
}

static void tensor_json(const attune__tally_row *row, attune__json *json) {
  attune__json_begin(json, '{');
  show_json_text(json, "name", row->tensor);
  for (int pass = 0; pass < 2; pass++) {
    attune__json_key(json, pass ? "counted" : "formula");
    attune__json_begin(json, '{');
    for (int kind = 0; kind < ATTUNE__TALLY_COUNTS; kind++)
      show_json_count(json, kinds[kind], (int64_t)(pass ? row->counted[kind] : row->formula[kind]));
    attune__json_end(json, '}');
  }
  attune__json_end(json, '}');
}

static void part_json(const attune_entry *entry, const attune__tally *tally, attune__json *json) {
  attune__json_begin(json, '{');
  show_json_text(json, "name", entry->name);
  show_json_count(json, "difference", (int64_t)tally->difference);
  attune__json_key(json, "tensors");
  attune__json_begin(json, '[');
  for (int i = 0; i < tally->count; i++) tensor_json(&tally->row[i], json);
  attune__json_end(json, ']');
  attune__json_key(json, "counters");
  attune__json_begin(json, '{');
#define X(field, words) show_json_count(json, #field, (int64_t)tally->counters.field);
  COUNTERS(X)
#undef X
  attune__json_end(json, '}');
  attune__json_end(json, '}');
}

/* ---- a program ----------------------------------------------------------------------------- */

static attune_status run_probe(attune__probe *probe, const attune_shape *shape, uint64_t seed) {
  const attune_variant *v = &attune__probe_entry(probe, 0)->variant;
  attune__probe_sizes n = attune__probe_sizes_of(v, shape);
  float *all = malloc((n.q + n.k + n.v + n.lse + 1) * sizeof *all);
  if (!all) return attune_fail(ATTUNE_NO_MEMORY, "no memory for the tensors of this shape");
  float *q = all, *k = q + n.q, *values = k + n.k, *lse = values + n.v;
  attune__probe_normal(seed * 3, v->dtype_q, q, n.q);
  attune__probe_normal(seed * 3 + 1, v->dtype_kv, k, n.k);
  attune__probe_normal(seed * 3 + 2, v->dtype_kv, values, n.v);
  attune__probe_data data = {
      .q = q, .k = k, .v = values, .lse = lse, .scale = (float)(1.0 / sqrt(v->head_dim_qk))};
  attune_status status = attune__probe_run(probe, shape, &data);
  free(all);
  return status;
}

static attune_status open_probe(const source *s, const source_program *p,
                                const attune_cpu_options *cpu, attune__probe **out) {
  void *bytes[ATTUNE_MAX_PARTS] = {NULL};
  size_t size[ATTUNE_MAX_PARTS] = {0};
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < p->kernel_count && status == ATTUNE_OK; i++)
    status = source_entry(s, p->kernel[i], &bytes[i], &size[i]);
  if (status == ATTUNE_OK)
    status = attune__probe_open(cpu, (const void *const *)bytes, size, p->kernel_count, out);
  for (int i = 0; i < ATTUNE_MAX_PARTS; i++) free(bytes[i]);
  return status;
}

/* The parts of a run, to text or (json not NULL) JSON; adds up their differences. */
static attune_status show_parts(attune__probe *probe, attune__text *text, attune__json *json,
                                uint64_t *difference) {
  attune_status status = ATTUNE_OK;
  for (int part = 0; part < attune__probe_parts(probe) && status == ATTUNE_OK; part++) {
    attune__tally tally;
    status = attune__probe_tally(probe, part, &tally);
    if (status != ATTUNE_OK) break;
    *difference += tally.difference;
    if (json)
      part_json(attune__probe_entry(probe, part), &tally, json);
    else
      print_part(attune__probe_entry(probe, part), &tally, text);
  }
  return status;
}

static void begin_output(const attune_variant *v, const attune_shape *shape, attune__text *text,
                         attune__json *json) {
  if (!json) {
    show_shape(text, v, shape);
    attune__text_puts(text, "\n");
    return;
  }
  attune__json_begin(json, '{');
  show_json_count(json, "schema", CLI_JSON_SCHEMA);
  show_json_text(json, "device", "cpu");
  show_json_shape(json, shape);
  attune__json_key(json, "kernels");
  attune__json_begin(json, '[');
}

static void end_output(uint64_t difference, attune__text *text, attune__json *json) {
  if (json) {
    attune__json_end(json, ']');
    show_json_count(json, "difference", (int64_t)difference);
    attune__json_end(json, '}');
    attune__text_puts(text, "\n");
    return;
  }
  attune__text_puts(text, "executed on the CPU device, every check on: no fault\n");
  attune__text_puts(text, difference ? "counted bytes differ from the formula by "
                                     : "counted bytes are the formula's, difference ");
  attune__text_printf(text, "%llu\n", (unsigned long long)difference);
}

static int trace(const source *s, const attune_cpu_options *cpu, const attune_shape *shape,
                 int as_json) {
  attune__probe *probe = NULL;
  attune__text text = {0};
  attune__json json = {.text = &text};
  uint64_t difference = 0;
  const source_program *p = &s->programs[0];
  attune_status status = open_probe(s, p, cpu, &probe);
  if (status == ATTUNE_OK) status = run_probe(probe, shape, cpu->schedule_seed);
  begin_output(&p->variant, shape, &text, as_json ? &json : NULL);
  if (status == ATTUNE_OK) status = show_parts(probe, &text, as_json ? &json : NULL, &difference);
  end_output(difference, &text, as_json ? &json : NULL);
  attune__probe_close(probe);
  if (status != ATTUNE_OK) {
    attune__text_free(&text);
    return cli_fail(status);
  }
  int rc = cli_print(&text);
  return rc == CLI_OK && difference ? CLI_CHECK : rc;
}

static int run(const cli_args *args) {
  source s;
  attune_shape shape;
  attune_cpu_options cpu = attune_cpu_options_init();
  if (!read_options(args, &cpu, &shape)) return CLI_USAGE;
  int rc = source_open(args->word[0], NULL, &s);
  if (rc != CLI_OK) return rc;
  if (s.program_count == 1) {
    rc = trace(&s, &cpu, &shape, args->json);
  } else {
    fprintf(stderr,
            "attune trace: error: %s has %d programs; name one, as `attune list` prints them\n",
            args->word[0], s.program_count);
    rc = CLI_USAGE;
  }
  source_close(&s);
  return rc;
}

const cli_command cli_trace_command = {
    .name = "trace",
    .usage = "trace NAME [--shape b=1,h=2,q=256,k=256] [--seed N] [--landing late|early|random]",
    .text = "Executes one launch on the CPU device with every check, and counts: per tensor the\n"
            "bytes by formula, as counted, and their difference, which must be 0.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
