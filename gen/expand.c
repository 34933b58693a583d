/* expand.c - from the requests of a spec to kernels and rows.
 * Every request is planned, part by part; its best tiles become kernels. Of the requests for one
 * variant that with the largest budget gets the row, of equal budgets the one planned to be
 * fastest; the kernels of the others stay in the job and are reached by name. */
#include "expand.h"

#include <stdlib.h>
#include <string.h>

/* A request after planning. */
typedef struct planned {
  attune_job_row row;         /* without its kernel indices */
  char name[ATTUNE_NAME_MAX]; /* of the variant, as a program */
  uint32_t budget;            /* bytes, what the device offers resolved */
  double time;                /* clocks by the model, parts added */
  char kernel[ATTUNE_MAX_PARTS][ATTUNE_NAME_MAX];
} planned;

static attune_status plan_part(const attune_request *request, int part, attune_kernel *kernel,
                               planned *out) {
  attune_plan_request wish = {.variant = request->variant,
                              .budget = request->budget,
                              .family = request->family,
                              .pins = request->tile,
                              .shape = attune__plan_shape(ATTUNE_CLASS_ANY)};
  wish.variant.part = (uint8_t)part;
  attune_plan plan;
  attune_status status = attune__plan_make(&wish, &plan);
  if (status == ATTUNE_OK) {
    const attune_candidate *best = &plan.candidates[0];
    status = attune__kernel_make(&wish.variant, &best->tile, &request->pins, kernel);
    out->time += best->cost.total;
    out->budget = attune__plan_budget(&plan.request);
    if (!out->row.fallback[0] &&
        !attune__plan_fallback(&plan, out->row.fallback, sizeof out->row.fallback))
      out->row.fallback[0] = 0;
    memcpy(out->kernel[part], kernel->name, sizeof out->kernel[part]);
  }
  attune__plan_free(&plan);
  return status;
}

static attune_status plan_request(const attune_request *request, attune_kernel *kernels,
                                  planned *out) {
  memset(out, 0, sizeof *out);
  out->row.variant = request->variant, out->row.cls = ATTUNE_CLASS_ANY;
  out->row.corner = request->corner;
  attune__variant_name(&request->variant, 1, out->name);
  attune_status status = attune__generated(&request->variant);
  if (status != ATTUNE_OK) return status;
  out->row.kernel_count = attune__op_parts(request->variant.op);
  for (int part = 0; part < out->row.kernel_count && status == ATTUNE_OK; part++)
    status = plan_part(request, part, &kernels[part], out);
  return status;
}

attune_status attune__expand_request(const attune_request *request, attune_kernel *kernels,
                                     int *count) {
  planned out;
  attune_status status = plan_request(request, kernels, &out);
  *count = status == ATTUNE_OK ? out.row.kernel_count : 0;
  return status;
}

/* By variant; then the one that gets the row first; the tile names decide what is left. */
static int by_preference(const void *left, const void *right) {
  const planned *a = left, *b = right;
  int order = strcmp(a->name, b->name);
  if (order) return order;
  if (a->budget != b->budget) return a->budget > b->budget ? -1 : 1;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return memcmp(a->kernel, b->kernel, sizeof a->kernel);
}

static int by_name(const void *left, const void *right) {
  return strcmp(((const attune_kernel *)left)->name, ((const attune_kernel *)right)->name);
}

static void sort_unique(attune_job *job) {
  if (job->kernel_count)
    qsort(job->kernels, (size_t)job->kernel_count, sizeof *job->kernels, by_name);
  int kept = 0;
  for (int i = 0; i < job->kernel_count; i++)
    if (!kept || by_name(&job->kernels[kept - 1], &job->kernels[i]))
      job->kernels[kept++] = job->kernels[i];
  job->kernel_count = kept;
}

static int kernel_index(const attune_job *job, const char *name) {
  int low = 0, high = job->kernel_count;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (strcmp(job->kernels[middle].name, name) <= 0)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static void make_rows(attune_job *job, planned *all, int count) {
  if (count) qsort(all, (size_t)count, sizeof *all, by_preference);
  for (int i = 0; i < count; i++) {
    if (i && !strcmp(all[i - 1].name, all[i].name)) continue;
    attune_job_row *row = &job->rows[job->row_count++];
    *row = all[i].row;
    for (int part = 0; part < row->kernel_count; part++)
      row->kernel[part] = kernel_index(job, all[i].kernel[part]);
  }
}

/* Plans every request, collecting what fails; returns the first failure. */
static attune_status plan_all(const attune_spec *spec, attune_job *job, planned *all,
                              attune_diags *diags) {
  attune_status first = ATTUNE_OK;
  for (int i = 0; i < spec->count; i++) {
    attune_status status =
        plan_request(&spec->requests[i], &job->kernels[job->kernel_count], &all[i]);
    if (status == ATTUNE_OK) {
      job->kernel_count += all[i].row.kernel_count;
    } else {
      attune__diag_add(diags, spec->requests[i].line, 1, NULL, "%s", attune_error());
      if (first == ATTUNE_OK) first = status;
    }
  }
  return first;
}

/* Kernels and rows of the job, whose arrays have room for them; `all` is scratch, one a request. */
static attune_status fill_job(const attune_spec *spec, attune_job *job, planned *all,
                              attune_diags *diags) {
  attune_status status = plan_all(spec, job, all, diags);
  if (status != ATTUNE_OK) return status;
  sort_unique(job);
  make_rows(job, all, spec->count);
  return ATTUNE_OK;
}

/* With the line and a caret where the spec is a file that can be read. */
static void print_diags(const attune_spec *spec, const attune_diags *diags, attune__text *errors) {
  void *source = NULL;
  size_t bytes = 0;
  if (!spec->path || attune__file_read(spec->path, 65536, &source, &bytes) != ATTUNE_OK)
    source = NULL, bytes = 0;
  attune__diags_print(diags, spec->path ? spec->path : "spec", source, bytes, errors);
  free(source);
}

attune_status attune__expand(const attune_spec *spec, attune_job *out, attune__text *errors) {
  memset(out, 0, sizeof *out);
  size_t count = spec->count > 0 ? (size_t)spec->count : 1;
  planned *all = calloc(count, sizeof *all);
  out->kernels = calloc(count * ATTUNE_MAX_PARTS, sizeof *out->kernels);
  out->rows = calloc(count, sizeof *out->rows);
  attune_diags diags = {.count = 0};
  attune_status status = ATTUNE_OK;
  if (!all || !out->kernels || !out->rows)
    status = attune_fail(ATTUNE_NO_MEMORY, "a job of %zu requests", count);
  else
    status = fill_job(spec, out, all, &diags);
  if (status != ATTUNE_OK) {
    if (diags.count) {
      print_diags(spec, &diags, errors);
      attune_fail(status, "%s: %d of its requests cannot be planned; first: %s",
                  spec->path ? spec->path : "spec", diags.count + diags.dropped,
                  diags.item[0].message);
    }
    attune__job_free(out);
  }
  attune__diags_free(&diags);
  free(all);
  return status;
}

void attune__job_free(attune_job *job) {
  free(job->kernels);
  free(job->rows);
  memset(job, 0, sizeof *job);
}
