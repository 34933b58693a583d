/* tune_api.c - attune_tune: one problem tuned because the program asks for it.
 *
 * Input: a problem, a budget. Output: the winner at work in the context, and its figures. */
#include "jit_parts.h"

#include "../runtime/context.h"

static const double default_budget = 10; /* seconds */

attune_status attune__may_tune(attune__device *device) {
  if (!device->ops->capturing || !device->ops->capturing(device, NULL)) return ATTUNE_OK;
  return attune_fail(ATTUNE_BUSY, "a stream is being captured: tune before or after that");
}

static attune_status check(const attune_jit *jit, const attune_problem *problem,
                           const attune_tune_options *options, const attune_tune_result *out) {
  if (!jit || !problem)
    return attune_fail(ATTUNE_INVALID, "attune_tune: %s is NULL", jit ? "problem" : "jit");
  if ((options && options->size != sizeof *options) || (out && out->size != sizeof *out))
    return attune_fail(ATTUNE_INVALID,
                       "attune_tune: begin with attune_tune_options_init() and "
                       "attune_tune_result_init() of the jit.h that belongs to this library");
  return ATTUNE_OK;
}

static attune_status find_tuner(attune_jit *jit, attune_context **context, attune__online **out) {
  *out = attune__jit_online(jit, context);
  attune__device *device = attune__context_device(*context);
  if (!device)
    return attune_fail(ATTUNE_NO_DEVICE, "attune_tune: the context has no GPU to measure on");
  if (!*out)
    return attune_fail(ATTUNE_UNSUPPORTED,
                       "attune_tune: candidates must be compiled, and compiling is off (no_jit or "
                       "ATTUNE_NO_JIT)");
  return attune__may_tune(device);
}

static void report(const attune__online_result *r, attune_program *program,
                   attune_tune_result *out) {
  out->program = program;
  out->planned = r->row.over_time.median, out->winner = r->row.time.median;
  attune__tuned_gain(&r->row, &out->gain, &out->gain_low, &out->gain_high);
  out->tried = r->row.tried, out->provisional = r->row.provisional;
  out->changed = r->changed && !r->row.provisional;
}

attune_status attune_tune(attune_jit *jit, const attune_problem *problem,
                          const attune_tune_options *options, attune_tune_result *out) {
  attune_context *context;
  attune__online *online;
  attune_request request;
  attune__online_result result;
  attune_program *program;
  attune_status status = check(jit, problem, options, out);
  if (!status) status = find_tuner(jit, &context, &online);
  if (!status) status = attune__jit_request(problem, attune_context_arch(context), &request);
  if (status) return status;
  attune_tune_options o = options ? *options : attune_tune_options_init();
  attune__online_wish wish = attune__online_wish_of(&request, problem);
  attune__online_tuning how = {.budget_s = o.budget > 0 ? o.budget : default_budget,
                               .seed = o.seed,
                               .max_trials = o.max_trials,
                               .install = 1};
  status = attune__online_tune(online, &wish, &how, &result);
  if (!status) status = attune_prepare(context, problem, &program);
  if (!status && out) report(&result, program, out);
  return status;
}
