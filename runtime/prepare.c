/* prepare.c - makes a problem's program ready to launch: loads what a set has, or asks the miss
 * handler for what none has.
 *
 * Input: a problem. Output: a loaded program. One handler call at a time per variant: others that
 * want the same wait for its result. Reading and loading themselves are program.c's. */
#include "context.h"

void attune_on_miss(attune_context *context, attune_miss_fn handler, void *user) {
  pthread_mutex_lock(&context->lock);
  context->miss = handler;
  context->miss_user = user;
  pthread_mutex_unlock(&context->lock);
  atomic_store_explicit(&context->handles_misses, handler != NULL, memory_order_relaxed);
}

void attune__miss_handler(attune_context *context, attune_miss_fn *handler, void **user) {
  pthread_mutex_lock(&context->lock);
  *handler = context->miss;
  *user = context->miss_user;
  pthread_mutex_unlock(&context->lock);
}

/* ---- one handler call per variant ----------------------------------------------------------- */

static int in_flight(const attune_context *context, const attune__key *key) {
  for (const attune__flight *f = context->flights; f; f = f->next)
    if (memcmp(&f->key, key, sizeof *key) == 0) return 1;
  return 0;
}

/* Waits until nobody handles the key, then takes it. */
static void take_off(attune_context *context, attune__flight *flight) {
  pthread_mutex_lock(&context->lock);
  while (in_flight(context, &flight->key)) pthread_cond_wait(&context->landed, &context->lock);
  flight->next = context->flights;
  context->flights = flight;
  pthread_mutex_unlock(&context->lock);
}

static void land(attune_context *context, attune__flight *flight) {
  pthread_mutex_lock(&context->lock);
  attune__flight **at = &context->flights;
  while (*at != flight) at = &(*at)->next;
  *at = flight->next;
  pthread_cond_broadcast(&context->landed);
  pthread_mutex_unlock(&context->lock);
}

static attune_status ask(attune_context *context, const attune_problem *problem,
                         const attune_variant *want, attune_class cls, const attune_program *bad,
                         attune_program **out) {
  attune_miss_fn miss;
  void *user;
  attune_miss_result result = {0};
  attune__miss_handler(context, &miss, &user);
  if (!miss) return attune__miss(context, want, cls);
  attune_status status = miss(user, problem, context->arch_name, 0, &result);
  if (status) return status;
  status = attune__program_of_result(context, want, bad, &result, out);
  if (result.free_entries) result.free_entries(&result);
  return status;
}

/* `bad`, when not NULL, is the program whose entry is damaged: it does not count as found. */
static attune_status make(attune_context *context, const attune_problem *problem,
                          const attune_program *bad, attune_program **out) {
  attune_variant want;
  attune_class cls;
  attune_status status = attune__check_problem(context, problem, &want, &cls);
  if (status) return status;
  attune__flight flight = {.key = attune__key_of_variant(&want)};
  take_off(context, &flight);
  *out = attune__find(context, &flight.key, cls, problem->len_k);
  if (*out && *out != bad)
    status = attune__program_load(*out); /* the flight before this one made it */
  else
    status = ask(context, problem, &want, cls, bad, out);
  land(context, &flight);
  return status;
}

/* ---- prepare ------------------------------------------------------------------------------- */

/* A damaged, missing or foreign entry is a miss; a driver out of memory is not. */
static int entry_is_useless(attune_status status) {
  return status == ATTUNE_BAD_FILE || status == ATTUNE_IO;
}

attune_status attune_prepare(attune_context *context, const attune_problem *problem,
                             attune_program **out) {
  attune_program *found = NULL;
  attune_status status = attune_find(context, problem, out ? &found : NULL);
  if (status == ATTUNE_OK) status = attune__program_load(found);
  int missed = status == ATTUNE_NOT_FOUND || (found && entry_is_useless(status));
  if (missed && atomic_load_explicit(&context->handles_misses, memory_order_relaxed)) {
    if (found)
      attune__say(context, ATTUNE_LEVEL_WARN, "%s is made anew: %s", found->name, attune_error());
    status = make(context, problem, found, &found);
  }
  if (out) *out = status ? NULL : found;
  return status;
}
