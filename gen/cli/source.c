/* source.c - a spec, a set (folder or pack) or a name as kernels and programs.
 *
 * A row makes a program. A kernel that no row speaks of (of several SRAM budgets in a spec only the
 * largest gets the row) makes one by itself, in its place among the other parts of its variant. */
#include "source.h"

#include "../../runtime/pack.h"
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *source_kernel_name(const source *s, int kernel) {
  return s->store ? s->job.kernels[kernel].name : s->set.kernels[kernel].name;
}

static attune_status copy(const void *from, size_t size, void **bytes, size_t *bytes_size) {
  *bytes = malloc(size), *bytes_size = size;
  if (!*bytes) return attune_fail(ATTUNE_NO_MEMORY, "no memory for an entry of %zu bytes", size);
  memcpy(*bytes, from, size);
  return ATTUNE_OK;
}

/* malloc'ed in any case: a pack's are copied. */
static attune_status set_entry(const attune__set *set, int kernel, void **bytes, size_t *size) {
  const void *data;
  attune_status status = attune__set_entry_file(set, kernel, bytes, &data, size);
  if (status != ATTUNE_OK || *bytes) return status;
  return copy(data, *size, bytes, size);
}

attune_status source_entry(const source *s, int kernel, void **bytes, size_t *size) {
  if (kernel < ATTUNE_MAX_PARTS && s->edited[kernel])
    return copy(s->edited[kernel], s->edited_bytes[kernel], bytes, size);
  if (!s->store) return set_entry(&s->set, kernel, bytes, size);
  return attune__store_get(s->store, &s->job.kernels[kernel], 1, bytes, size, NULL);
}

/* ---- a program's entries and name ------------------------------------------------------------ */

void source_entries_free(source_entries *e) {
  for (int i = 0; i < ATTUNE_MAX_PARTS; i++) free(e->bytes[i]);
  *e = (source_entries){.count = 0};
}

attune_status source_entries_get(const source *s, const source_program *p, source_entries *out) {
  attune_entry entry;
  *out = (source_entries){.count = p->kernel_count};
  for (int i = 0; i < p->kernel_count; i++) {
    attune_status status = source_entry(s, p->kernel[i], &out->bytes[i], &out->size[i]);
    if (status == ATTUNE_OK) status = attune__entry_read(out->bytes[i], out->size[i], &entry);
    if (status != ATTUNE_OK) return status;
    out->pins = entry.pins;
  }
  return ATTUNE_OK;
}

void source_program_name(const source *s, const source_program *p, char out[ATTUNE_NAME_MAX]) {
  int fresh = 0, which = 0;
  for (int i = 0; i < p->kernel_count; i++)
    if (p->fresh[i]) which = p->kernel[i], fresh++;
  if (fresh == 1)
    snprintf(out, ATTUNE_NAME_MAX, "%s", source_kernel_name(s, which));
  else
    attune__variant_name(&p->variant, 1, out);
}

/* ---- programs ------------------------------------------------------------------------------ */

static int row_count(const source *s) {
  return s->store ? s->job.row_count : s->set.row_count;
}

static source_program row_program(const source *s, int row) {
  source_program p = {.kernel_count = 0};
  if (s->store) {
    const attune_job_row *r = &s->job.rows[row];
    p.variant = r->variant, p.corner = r->corner, p.kernel_count = r->kernel_count;
    memcpy(p.kernel, r->kernel, sizeof p.kernel);
  } else {
    const attune__set_row *r = &s->set.rows[row];
    p.variant = r->variant, p.corner = r->corner, p.kernel_count = r->kernel_count;
    memcpy(p.kernel, r->kernel, sizeof p.kernel);
  }
  return p;
}

/* Appends a program when it has a kernel that none before it has. */
static void add_program(source *s, source_program p, unsigned char *spoken_of) {
  int fresh = 0;
  for (int i = 0; i < p.kernel_count; i++) {
    p.fresh[i] = !spoken_of[p.kernel[i]];
    fresh += p.fresh[i];
    spoken_of[p.kernel[i]] = 1;
  }
  if (fresh) s->programs[s->program_count++] = p;
}

/* A kernel without a row: alone, or in the place of its part in its variant's row. */
static int rowless_program(const source *s, int kernel, source_program *out) {
  attune_variant v;
  attune_tile tile;
  int has_tile, is_program;
  if (attune__name_parse(source_kernel_name(s, kernel), &v, &tile, &has_tile, &is_program))
    return 0;
  int part = v.part;
  v.part = 0;
  *out = (source_program){.variant = v, .kernel_count = 1, .kernel = {kernel}};
  if (attune__op_parts(v.op) == 1) return 1;
  for (int row = 0; row < row_count(s); row++) {
    *out = row_program(s, row);
    out->kernel[part] = kernel;
    if (!memcmp(&out->variant, &v, sizeof v)) return 1;
  }
  return 0;
}

attune_status source_make_programs(source *s) {
  int rows = row_count(s);
  unsigned char *spoken_of = calloc((size_t)s->kernel_count + 1, 1);
  s->programs = calloc((size_t)(rows + s->kernel_count) + 1, sizeof *s->programs);
  if (!spoken_of || !s->programs) {
    free(spoken_of);
    return attune_fail(ATTUNE_NO_MEMORY, "no memory for the list of programs");
  }
  for (int row = 0; row < rows; row++) add_program(s, row_program(s, row), spoken_of);
  for (int kernel = 0; kernel < s->kernel_count; kernel++) {
    source_program p;
    if (!spoken_of[kernel] && rowless_program(s, kernel, &p)) add_program(s, p, spoken_of);
  }
  free(spoken_of);
  return ATTUNE_OK;
}

/* ---- what the word may be ------------------------------------------------------------------ */

attune_status source_job_of_request(const attune_request *request, attune_job *job) {
  int count = 0;
  job->kernels = calloc(ATTUNE_MAX_PARTS, sizeof *job->kernels);
  job->rows = calloc(1, sizeof *job->rows);
  if (!job->kernels || !job->rows) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a program");
  attune_status status = attune__expand_request(request, ATTUNE_CLASS_ANY, 0, job->kernels, &count);
  job->kernel_count = count, job->row_count = 1;
  job->rows[0].variant = request->variant, job->rows[0].kernel_count = count;
  for (int i = 0; i < count; i++) job->rows[0].kernel[i] = i;
  return status;
}

/* The planner's kernels of the variant; a name with a tile puts its own in its place. */
static attune_status job_of_name(const char *word, attune_job *job) {
  attune_request request = {.line = 0};
  attune_tile tile;
  int has_tile, is_program;
  attune_status status = attune__name_parse(word, &request.variant, &tile, &has_tile, &is_program);
  if (status != ATTUNE_OK) return status;
  if (request.variant.pins)
    return attune_fail(ATTUNE_INVALID,
                       "%s: _x%08x stands for pins that the name does not hold; verify the spec or "
                       "the set that it comes from",
                       word, request.variant.pins);
  attune_variant variant = request.variant;
  request.variant.part = 0;
  status = source_job_of_request(&request, job);
  if (status == ATTUNE_OK && has_tile)
    status = attune__kernel_make(&variant, &tile, NULL, &job->kernels[variant.part]);
  return status;
}

static int is_spec(const char *word) {
  size_t length = strlen(word);
  struct stat s;
  if (length > 5 && !strcmp(word + length - 5, ".yaml")) return 1;
  return !stat(word, &s) && S_ISREG(s.st_mode);
}

int cli_is_set(const char *word) {
  struct stat s;
  return !stat(word, &s) && (S_ISDIR(s.st_mode) || attune__is_pack(word));
}

/* Reads the kernels; the programs are made of them. */
static int read_kernels(const char *word, const char *arch, source *out) {
  attune_status status = ATTUNE_OK;
  if (cli_is_set(word)) {
    status = attune__set_read(word, &out->set);
    out->kernel_count = out->set.kernel_count;
    return status == ATTUNE_OK ? CLI_OK : cli_fail(status);
  }
  if (is_spec(word)) {
    int rc = cli_read_job(word, arch, &out->job);
    if (rc != CLI_OK) return rc;
  } else {
    status = job_of_name(word, &out->job);
  }
  if (status == ATTUNE_OK) status = attune__store_open(NULL, &out->store);
  out->kernel_count = out->job.kernel_count;
  return status == ATTUNE_OK ? CLI_OK : cli_fail(status);
}

int source_open(const char *word, const char *arch, source *out) {
  *out = (source){.store = NULL};
  if (arch && (cli_is_set(word) || !is_spec(word))) {
    fprintf(stderr, "attune: error: --arch is for a spec; %s says its arch itself\n", word);
    return CLI_USAGE;
  }
  int rc = read_kernels(word, arch, out);
  if (rc == CLI_OK) {
    attune_status status = source_make_programs(out);
    if (status != ATTUNE_OK) rc = cli_fail(status);
  }
  if (rc != CLI_OK) source_close(out);
  return rc;
}

void source_close(source *s) {
  attune__job_free(&s->job);
  attune__set_free(&s->set);
  if (s->store) attune__store_close(s->store);
  free(s->programs);
  for (int i = 0; i < ATTUNE_MAX_PARTS; i++) free(s->edited[i]);
  *s = (source){.store = NULL};
}
