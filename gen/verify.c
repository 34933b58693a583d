/* verify.c - runs a program on every case, twice, and keeps the verdict.
 *
 * Input: a prepared program and the device that its context uses. Output: a verdict. A case passes
 * when the launch is accepted, nothing but O and LSE was written, all of O and LSE is right
 * (verify_judge.c), and a second run from the same memory gives the same bits. The cases come from
 * cases.c, their numbers from verify_data.c, device memory from verify_arena.c. */
#include "verify.h"

#include "cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct verifier {
  attune_program *program;
  attune__device *device;
  const attune_variant *variant;
  const attune_verify_options *options;
  attune__real real;
  attune_verdict *verdict;
  attune__trial *made; /* by case, with options->ahead; taken as they are run */
  int *is_made;
  int stop; /* the device is of no use any more */
} verifier;

/* A case under way: the host's side of it. */
typedef struct run {
  attune__trial trial;
  attune__arena arena;
  unsigned char *after; /* the image as it came back */
  void *raw[2];         /* O of both runs, as elements */
  float *lse[2];
  float *o; /* of the first run */
} run;

/* ---- one launch ---------------------------------------------------------------------------- */

static attune_status check_untouched(const run *r) {
  const attune__arena *a = &r->arena;
  size_t bytes = (size_t)a->islands * a->island_bytes;
  if (!memcmp(r->after, a->image, bytes)) return ATTUNE_OK;
  size_t at = 0;
  while (r->after[at] == a->image[at]) at++;
  return attune_fail(ATTUNE_MISMATCH, "wrote where it must not: %s", attune__arena_region(a, at));
}

static attune_status launch(const verifier *v, run *r, const attune__case *c, int which) {
  attune_attn_args args;
  attune__arena_args(&r->arena, c, &r->trial, &args);
  attune_status status = attune__arena_upload(&r->arena);
  if (status == ATTUNE_OK) status = attune_launch(v->program, &args, NULL);
  if (status == ATTUNE_OK) status = v->device->ops->synchronize(v->device);
  if (status == ATTUNE_OK) status = attune__arena_download(&r->arena, r->after);
  if (status != ATTUNE_OK) return status;
  attune__arena_take(&r->arena, r->after, r->raw[which],
                     c->lse == ATTUNE__LSE_NULL ? NULL : r->lse[which]);
  return check_untouched(r);
}

/* ---- one case ------------------------------------------------------------------------------ */

static attune_status allocate_run(run *r) {
  const attune_variant *v = &r->trial.problem.variant;
  size_t rows = (size_t)r->trial.rows, elements = rows * v->head_dim_v;
  size_t bytes = elements * (size_t)attune__dtype_bytes(v->dtype_out);
  r->after = malloc((size_t)r->arena.islands * r->arena.island_bytes);
  r->o = malloc(elements * sizeof *r->o + 1);
  for (int i = 0; i < 2; i++) {
    r->raw[i] = calloc(bytes + 1, 1); /* rows that are not in use stay as they are */
    r->lse[i] = calloc(rows + 1, sizeof *r->lse[i]);
  }
  if (r->after && r->o && r->raw[0] && r->raw[1] && r->lse[0] && r->lse[1]) return ATTUNE_OK;
  return attune_fail(ATTUNE_NO_MEMORY, "no host memory for a case's outputs");
}

static void free_run(run *r) {
  attune__arena_free(&r->arena);
  attune__trial_free(&r->trial);
  free(r->after), free(r->o);
  for (int i = 0; i < 2; i++) free(r->raw[i]), free(r->lse[i]);
}

static uint64_t seed_of(const verifier *v, int index) {
  return v->options->seed * 1000003 + (uint64_t)index;
}

static attune_status get_trial(const verifier *v, const attune__case *c, int index,
                               attune__trial *out) {
  if (!v->is_made || !v->is_made[index])
    return attune__trial_make(v->variant, c, &v->real, seed_of(v, index), v->options->threads, out);
  *out = v->made[index];
  v->is_made[index] = 0;
  return ATTUNE_OK;
}

static attune_status prepare_run(const verifier *v, const attune__case *c, int index, run *r) {
  size_t workspace = 0;
  *r = (run){0};
  attune_status status = get_trial(v, c, index, &r->trial);
  if (status == ATTUNE_OK)
    status = attune_workspace(v->program, (int32_t)c->shape.batch, (int32_t)c->shape.heads_q,
                              (int32_t)c->shape.len_q, (int32_t)c->shape.len_k, &workspace);
  if (status == ATTUNE_OK)
    status = attune__arena_make(v->device, c, &r->trial, workspace, &r->arena);
  if (status == ATTUNE_OK) status = allocate_run(r);
  return status;
}

static attune_status check_equal_runs(const run *r, const attune__case *c) {
  const attune_variant *v = &r->trial.problem.variant;
  size_t rows = (size_t)r->trial.rows;
  size_t bytes = rows * v->head_dim_v * (size_t)attune__dtype_bytes(v->dtype_out);
  int same = !memcmp(r->raw[0], r->raw[1], bytes);
  if (same && c->lse != ATTUNE__LSE_NULL)
    same = !memcmp(r->lse[0], r->lse[1], rows * sizeof *r->lse[0]);
  if (same) return ATTUNE_OK;
  return attune_fail(ATTUNE_MISMATCH, "two runs on the same input differ in their bits");
}

/* Both launches and all checks; what was judged goes to `judgement`. */
static attune_status try_case(const verifier *v, const attune__case *c, run *r,
                              attune__judgement *judgement) {
  const attune_variant *variant = v->variant;
  attune_status status = launch(v, r, c, 0);
  if (status != ATTUNE_OK) return status;
  attune__from_dtype(variant->dtype_out, r->raw[0], r->o,
                     (size_t)r->trial.rows * variant->head_dim_v);
  attune__outputs outputs = {r->o, c->lse == ATTUNE__LSE_NULL ? NULL : r->lse[0]};
  attune__judge(&r->trial, c, &outputs, judgement);
  if (judgement->fault[0]) return attune_fail(ATTUNE_MISMATCH, "%s", judgement->fault);
  status = launch(v, r, c, 1);
  return status == ATTUNE_OK ? check_equal_runs(r, c) : status;
}

/* ---- the verdict --------------------------------------------------------------------------- */

static void explain_bound(const verifier *v, const attune__judgement *j, char *out, size_t size) {
  attune__text text = {0};
  attune__text_puts(&text, "2 x ");
  attune__put_short(&text, j->reference_error);
  attune__text_printf(&text, " of standard attention + 1 %s ulp at |O| ",
                      attune__dtype_name(v->variant->dtype_out));
  attune__put_short(&text, j->max_o);
  if (v->variant->dtype_out == ATTUNE_DTYPE_FP32) {
    attune__text_puts(&text, " + 8 ulp at |V| ");
    attune__put_short(&text, j->max_v);
  }
  snprintf(out, size, "%s", text.data ? text.data : "");
  attune__text_free(&text);
}

/* Keeps the first failure; before one, the case nearest to its bound. */
static void keep(verifier *v, const attune__case *c, const attune__judgement *j, int failed) {
  attune_verdict *d = v->verdict;
  int had_failed = d->passed + failed < d->cases;
  if (had_failed) return;
  if (!failed && d->worst_bound > 0 && j->error * d->worst_bound <= d->worst_error * j->bound)
    return;
  d->worst_error = j->error, d->worst_bound = j->bound;
  attune__case_print(v->variant, c, d->worst_case, sizeof d->worst_case);
  if (failed)
    snprintf(d->reason, sizeof d->reason, "%s", attune_error());
  else
    explain_bound(v, j, d->reason, sizeof d->reason);
}

static void note_not_run(verifier *v, const char *why) {
  attune_verdict *d = v->verdict;
  if (!d->not_run++) snprintf(d->not_run_why, sizeof d->not_run_why, "%s", why);
}

/* Not being able to prepare a far case is no failure: it wants more memory than a device may have.
 */
static attune_status run_case(verifier *v, const attune__case *c, int index) {
  run r;
  attune__judgement judgement = {0};
  attune_status status = prepare_run(v, c, index, &r);
  if (status != ATTUNE_OK) {
    free_run(&r);
    if (!attune__case_far(c)) return status;
    note_not_run(v, "offsets over 2^31 elements: the device has not the memory");
    return ATTUNE_OK;
  }
  status = try_case(v, c, &r, &judgement);
  v->stop = status == ATTUNE_DRIVER;
  v->verdict->cases++;
  v->verdict->passed += status == ATTUNE_OK;
  keep(v, c, &judgement, status != ATTUNE_OK);
  free_run(&r);
  return ATTUNE_OK;
}

/* ---- a program ----------------------------------------------------------------------------- */

static attune_status make_cases(const verifier *v, const attune_program_info *info,
                                attune__case_list *out) {
  attune_tile tiles[ATTUNE_MAX_PARTS] = {0};
  for (int i = 0; i < info->kernel_count; i++) {
    attune_variant ignored;
    int has_tile, is_program;
    attune_status status =
        attune__name_parse(info->kernels[i].name, &ignored, &tiles[i], &has_tile, &is_program);
    if (status != ATTUNE_OK) return status;
  }
  attune__case_request request = {.variant = v->variant,
                                  .pins = v->options->pins,
                                  .tiles = tiles,
                                  .tile_count = info->kernel_count,
                                  .corner = info->corner,
                                  .sm_count = v->device->facts.sm_count,
                                  .quick = v->options->quick,
                                  .small = v->options->brief};
  return attune__cases_make(&request, out);
}

static attune_status run_cases(verifier *v, const attune__case_list *list) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < list->count && status == ATTUNE_OK && !v->stop; i++) {
    const attune__case *c = &list->item[i];
    if (c->fill == ATTUNE__FILL_REAL && !v->real.q)
      note_not_run(v, "real data: not found");
    else if (v->options->brief && !c->quick)
      note_not_run(v, "longer ones; --all runs them");
    else
      status = run_case(v, c, i);
  }
  return status;
}

/* ---- references ahead ---------------------------------------------------------------------- */

typedef struct ahead {
  verifier *v;
  const attune__case_list *list;
  atomic_int next;
} ahead;

/* One that fails is made again when its case is run, which then has the reason. */
static void *make_trials(void *argument) {
  ahead *a = argument;
  for (int i; (i = atomic_fetch_add(&a->next, 1)) < a->list->count;) {
    const attune__case *c = &a->list->item[i];
    if (attune__case_far(c) || (c->fill == ATTUNE__FILL_REAL && !a->v->real.q)) continue;
    if (a->v->options->brief && !c->quick) continue;
    a->v->is_made[i] =
        !attune__trial_make(a->v->variant, c, &a->v->real, seed_of(a->v, i), 1, &a->v->made[i]);
  }
  return NULL;
}

/* Without memory or threads the cases make their own. */
static void make_ahead(verifier *v, const attune__case_list *list) {
  enum { MOST = 32 };
  pthread_t thread[MOST];
  ahead a = {.v = v, .list = list};
  int threads = v->options->ahead < MOST ? v->options->ahead : MOST, started = 0;
  if (threads < 2) return;
  v->made = calloc((size_t)list->count + 1, sizeof *v->made);
  v->is_made = v->made ? calloc((size_t)list->count + 1, sizeof *v->is_made) : NULL;
  if (!v->is_made) return;
  while (started < threads - 1 && !pthread_create(&thread[started], NULL, make_trials, &a))
    started++;
  make_trials(&a);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

static void free_ahead(verifier *v, const attune__case_list *list) {
  for (int i = 0; v->is_made && i < list->count; i++)
    if (v->is_made[i]) attune__trial_free(&v->made[i]);
  free(v->made);
  free(v->is_made);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void read_real(verifier *v) {
  const char *folder = v->options->data ? v->options->data : "tests/data/minilm";
  if (attune__real_fits(v->variant)) attune__real_read(folder, &v->real);
}

static void name_verdict(attune_verdict *out, const attune_program_info *info) {
  *out = (attune_verdict){.kernels = info->kernel_count};
  snprintf(out->name, sizeof out->name, "%s",
           info->kernel_count == 1 ? info->kernels[0].name : info->variant);
}

attune_status attune__verify_program(attune_program *program, attune__device *device,
                                     const attune_variant *variant,
                                     const attune_verify_options *options, attune_verdict *out) {
  static const attune_verify_options defaults = {0};
  attune_program_info info = attune_program_info_init();
  attune__case_list list = {0};
  verifier v = {.program = program,
                .device = device,
                .variant = variant,
                .options = options ? options : &defaults,
                .verdict = out};
  attune_status status = attune_info(program, &info);
  if (status != ATTUNE_OK) return status;
  name_verdict(out, &info);
  read_real(&v);
  status = make_cases(&v, &info, &list);
  if (status == ATTUNE_OK) make_ahead(&v, &list);
  if (status == ATTUNE_OK) status = run_cases(&v, &list);
  free_ahead(&v, &list);
  free(list.item);
  attune__real_free(&v.real);
  if (status != ATTUNE_OK || out->passed == out->cases) return status;
  return attune_fail(ATTUNE_MISMATCH, "%s: %d of %d cases failed, the first: %s: %s", out->name,
                     out->cases - out->passed, out->cases, out->worst_case, out->reason);
}

void attune__verdict_print(const attune_verdict *d, attune__text *out) {
  int failed = d->passed < d->cases || !d->cases;
  attune__text_printf(out, "%s: %s  max|err| ", d->name, failed ? "FAIL" : "pass");
  attune__put_short(out, d->worst_error);
  attune__text_puts(out, ", bound ");
  attune__put_short(out, d->worst_bound);
  attune__text_printf(out, "  (%s)", d->reason);
  if (d->worst_case[0]) attune__text_printf(out, "  at %s", d->worst_case);
  attune__text_printf(out, "  %d of %d cases", d->passed, d->cases);
  if (d->not_run) attune__text_printf(out, ", %d not run (%s)", d->not_run, d->not_run_why);
  attune__text_puts(out, "\n");
}
