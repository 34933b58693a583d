/* expand.c - from the requests of a spec to kernels and rows.
 * Every request is planned, part by part; its best tiles become kernels. Of the requests for one
 * variant (and, where kernels take so many keys and no more, for one such number) that with the
 * largest budget gets the row, of equal budgets the one planned to be fastest; the kernels of the
 * others stay in the job and are reached by name. A request that names a GPU gets rows for the
 * classes that were measured there, too. */
#include "expand.h"
#include "tune_use.h"

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

#define X(name, id, text, doc) +1
enum { CLASSES = 0 ATTUNE_CLASSES(X) };
#undef X

attune_plan_request attune__request_plan(const attune_request *request, int part, attune_class cls,
                                         int64_t keys) {
  const attune_shape shape = attune__plan_shape(cls);
  attune_plan_request wish = {.variant = request->variant,
                              .budget = request->budget,
                              .family = request->family,
                              .pins = request->tile,
                              .shape = attune__shape_pinned(&shape, &request->pins),
                              .keys = keys};
  wish.variant.part = (uint8_t)part;
  return wish;
}

static int is_avoided(const attune__avoided *avoided, const char *name) {
  for (int i = 0; avoided && i < avoided->count; i++)
    if (!strcmp(avoided->name[i], name)) return 1;
  return 0;
}

/* The first candidate that is not to be avoided; the first when all are. */
static attune_status choose(const attune_plan *plan, const attune_pinset *pins,
                            const attune__avoided *avoided, attune_kernel *kernel,
                            const attune_candidate **chosen) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < plan->legal_count && !status; i++) {
    *chosen = &plan->candidates[i];
    status = attune__kernel_make(&plan->request.variant, &(*chosen)->tile, pins, kernel);
    if (!status && !is_avoided(avoided, kernel->name)) return ATTUNE_OK;
  }
  if (status) return status;
  *chosen = &plan->candidates[0];
  return attune__kernel_make(&plan->request.variant, &(*chosen)->tile, pins, kernel);
}

static attune_status plan_part(const attune_request *request, const attune_plan_request *ask,
                               const attune__avoided *avoided, attune_kernel *kernel,
                               planned *out) {
  const int part = ask->variant.part;
  attune_plan plan;
  attune_status status = attune__plan_make(ask, &plan);
  const attune_candidate *best = NULL;
  if (status == ATTUNE_OK) status = choose(&plan, &request->pins, avoided, kernel, &best);
  if (status == ATTUNE_OK) {
    out->time += best->cost.total;
    attune__limit_len_k(&out->row.max_len_k, &best->tile);
    out->budget = attune__plan_budget(&plan.request);
    if (!out->row.fallback[0] &&
        !attune__plan_fallback(&plan, out->row.fallback, sizeof out->row.fallback))
      out->row.fallback[0] = 0;
    memcpy(out->kernel[part], kernel->name, sizeof out->kernel[part]);
  }
  attune__plan_free(&plan);
  return status;
}

static attune_status plan_request(const attune_request *request, attune_class cls, int64_t keys,
                                  const attune__avoided *avoided, attune_kernel *kernels,
                                  planned *out) {
  memset(out, 0, sizeof *out);
  out->row.variant = request->variant, out->row.cls = cls;
  out->row.corner = request->corner;
  attune__variant_name(&request->variant, 1, out->name);
  attune_status status = attune__generated(&request->variant);
  if (status != ATTUNE_OK) return status;
  out->row.kernel_count = attune__op_parts(request->variant.op);
  for (int part = 0; part < out->row.kernel_count && status == ATTUNE_OK; part++) {
    const attune_plan_request ask = attune__request_plan(request, part, cls, keys);
    status = plan_part(request, &ask, avoided, &kernels[part], out);
  }
  return status;
}

attune_status attune__expand_request(const attune_request *request, attune_class cls, int64_t keys,
                                     attune_kernel *kernels, int *count) {
  planned out;
  attune_status status = plan_request(request, cls, keys, NULL, kernels, &out);
  *count = status == ATTUNE_OK ? out.row.kernel_count : 0;
  return status;
}

/* By variant and class; then the one that gets the row first; the tile names decide what is left.
 */
static int by_preference(const void *left, const void *right) {
  const planned *a = left, *b = right;
  int order = strcmp(a->name, b->name);
  if (!order) order = (int)a->row.cls - (int)b->row.cls;
  if (order) return order;
  if (a->row.max_len_k != b->row.max_len_k) return a->row.max_len_k < b->row.max_len_k ? -1 : 1;
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

static int same_place(const planned *a, const planned *b) {
  return a->row.cls == b->row.cls && a->row.max_len_k == b->row.max_len_k &&
         !strcmp(a->name, b->name);
}

static void make_rows(attune_job *job, planned *all, int count) {
  if (count) qsort(all, (size_t)count, sizeof *all, by_preference);
  for (int i = 0; i < count; i++) {
    if (i && same_place(&all[i - 1], &all[i])) continue;
    attune_job_row *row = &job->rows[job->row_count++];
    *row = all[i].row;
    for (int part = 0; part < row->kernel_count; part++)
      row->kernel[part] = kernel_index(job, all[i].kernel[part]);
  }
}

/* ---- measured rows ------------------------------------------------------------------------- */

/* Rows and kernels under way: a row for each request and class at most. */
typedef struct expansion {
  const attune_spec *spec;
  const attune__avoided *avoided; /* NULL: none */
  attune_job *job;
  planned *all;
  int count;
  attune__tuned_db db;
  int has_db; /* opened at the first request that names a GPU */
} expansion;

/* The kernels of a measured row. */
static attune_status measured_kernels(const attune_request *request, const attune__tuned_row *row,
                                      attune_kernel *kernels, planned *out) {
  attune_variant v = request->variant;
  attune_status status = ATTUNE_OK;
  out->row.max_len_k = 0;
  for (int part = 0; part < row->tiles.count && !status; part++) {
    attune__limit_len_k(&out->row.max_len_k, &row->tiles.tile[part]);
    v.part = (uint8_t)part;
    status = attune__kernel_make(&v, &row->tiles.tile[part], &request->pins, &kernels[part]);
    memcpy(out->kernel[part], kernels[part].name, sizeof out->kernel[part]);
  }
  return status;
}

/* The row of a class, like the planned one but for its kernels. */
static attune_status add_measured(expansion *e, const attune_request *request,
                                  const attune__tuned_key *key, const planned *plan,
                                  attune_class cls) {
  char why[ATTUNE_REASON_MAX];
  const attune__tuned_row *row = attune__tuned_for(&e->db, key, request, cls, why, sizeof why);
  if (why[0] && !row)
    attune__text_printf(&e->job->notes, "%s, %s: planned, not measured: %s\n", plan->name,
                        attune__class_name((int)cls), why);
  if (!row) return ATTUNE_OK;
  planned *out = &e->all[e->count];
  *out = *plan;
  out->row.cls = cls, out->row.measured = 1, out->row.fallback[0] = 0;
  attune_status status =
      measured_kernels(request, row, &e->job->kernels[e->job->kernel_count], out);
  if (!status) e->count++, e->job->kernel_count += out->row.kernel_count;
  return status;
}

static attune_status open_db(expansion *e) {
  if (e->has_db) return ATTUNE_OK;
  e->has_db = 1;
  return attune__tuned_db_open(NULL, &e->db, &e->job->notes);
}

/* Once for each arch: the GPU has no rows that hold here. */
static void note_absent(expansion *e, const attune_request *request) {
  for (const attune_request *r = e->spec->requests; r < request; r++)
    if (!strcmp(r->gpu, request->gpu) && r->variant.arch == request->variant.arch) return;
  attune__text_printf(&e->job->notes, "planned, not measured: %s\n", attune_error());
}

static attune_status add_classes(expansion *e, const attune_request *request, const planned *plan) {
  attune__tuned_key key;
  attune_status status = open_db(e);
  if (!status) status = attune__tuned_key_named(&e->db, request->gpu, request->variant.arch, &key);
  if (status == ATTUNE_NOT_FOUND) return note_absent(e, request), ATTUNE_OK;
#define X(name, id, text, doc)                                                                     \
  if (!status) status = add_measured(e, request, &key, plan, ATTUNE_CLASS_##name);
  ATTUNE_CLASSES(X)
#undef X
  return status;
}

/* ---- all requests -------------------------------------------------------------------------- */

static attune_status expand_request(expansion *e, const attune_request *request) {
  planned plan;
  attune_status status = plan_request(request, ATTUNE_CLASS_ANY, 0, e->avoided,
                                      &e->job->kernels[e->job->kernel_count], &plan);
  if (status) return status;
  e->all[e->count++] = plan;
  e->job->kernel_count += plan.row.kernel_count;
  return request->gpu[0] ? add_classes(e, request, &plan) : ATTUNE_OK;
}

/* Plans every request, collecting what fails; returns the first failure. */
static attune_status plan_all(expansion *e, attune_diags *diags) {
  attune_status first = ATTUNE_OK;
  for (int i = 0; i < e->spec->count; i++) {
    const attune_request *request = &e->spec->requests[i];
    attune_status status = expand_request(e, request);
    if (status == ATTUNE_OK) continue;
    attune__diag_add(diags, request->line, 1, NULL, "%s", attune_error());
    if (first == ATTUNE_OK) first = status;
  }
  return first;
}

/* Kernels and rows of the job, whose arrays have room for them; `all` is scratch, as many as rows.
 */
static attune_status fill_job(const attune_spec *spec, const attune__avoided *avoided,
                              attune_job *job, planned *all, attune_diags *diags) {
  expansion e = {.spec = spec, .avoided = avoided, .job = job, .all = all};
  attune_status status = plan_all(&e, diags);
  if (status == ATTUNE_OK) {
    sort_unique(job);
    make_rows(job, all, e.count);
  }
  if (e.has_db) attune__tuned_db_close(&e.db);
  return status;
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
  return attune__expand_without(spec, NULL, out, errors);
}

attune_status attune__expand_without(const attune_spec *spec, const attune__avoided *avoided,
                                     attune_job *out, attune__text *errors) {
  memset(out, 0, sizeof *out);
  size_t count = spec->count > 0 ? (size_t)spec->count : 1;
  for (int i = 0, named = 0; i < spec->count && !named; i++) {
    named = spec->requests[i].gpu[0] != 0;
    if (named) count *= 1 + CLASSES; /* a row for each class, and the planner's */
  }
  planned *all = calloc(count, sizeof *all);
  out->kernels = calloc(count * ATTUNE_MAX_PARTS, sizeof *out->kernels);
  out->rows = calloc(count, sizeof *out->rows);
  attune_diags diags = {.count = 0};
  attune_status status = ATTUNE_OK;
  if (!all || !out->kernels || !out->rows)
    status = attune_fail(ATTUNE_NO_MEMORY, "a job of %zu requests", count);
  else
    status = fill_job(spec, avoided, out, all, &diags);
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
  attune__text_free(&job->notes);
  memset(job, 0, sizeof *job);
}
