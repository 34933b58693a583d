/* tune_background.c - problems that wait to be tuned, and the thread that does it between calls.
 *
 * Input: wishes. Output: what tune_online.c makes of them. The thread begins with the first wish.
 * It is the gate of its own lab: every piece of work on the device waits for its turn
 * (tune_pace.h), and pieces in which the process launched something else are counted. */
#include "tune_online.h"

#include "../runtime/context.h"
#include "nvrtc.h"
#include "tune_pace.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of samples that met other launches of this process a tenth does a median no harm. */
enum { DISTURBED_PART = 10 };

struct attune__background {
  attune__online *online;
  attune_context *context;
  double budget_s;
  attune_message_fn message;
  void *message_user;
  pthread_t thread;
  pthread_mutex_t lock; /* guards the four below */
  pthread_cond_t changed;
  attune__online_wish *wish; /* all that there ever were: none is tuned twice */
  int count, next, closing, running;
  /* the thread's own */
  attune__pace pace;
  int slices, disturbed;
};

/* ---- the gate -------------------------------------------------------------------------------- */

static double now_ms(void) {
  return (double)attune__microseconds() / 1e3;
}

static attune__pace_calls calls_of(attune_context *context) {
  attune__pace_calls calls = {
      .launched = (double)atomic_load_explicit(&context->launched_us, memory_order_relaxed) / 1e3,
      .captured = (double)atomic_load_explicit(&context->captured_us, memory_order_relaxed) / 1e3};
  attune__device *device = attune__context_device(context);
  if (device && device->ops->capturing && device->ops->capturing(device, NULL))
    calls.captured = now_ms();
  return calls;
}

static int is_closing(attune__background *b) {
  pthread_mutex_lock(&b->lock);
  int closing = b->closing;
  pthread_mutex_unlock(&b->lock);
  return closing;
}

/* Sleeps, or is woken by the closing; 0 when it is. */
static int sleep_ms(attune__background *b, double ms) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  int64_t ns = until.tv_nsec + (int64_t)(ms * 1e6) + 1;
  until.tv_sec += ns / 1000000000, until.tv_nsec = ns % 1000000000;
  pthread_mutex_lock(&b->lock);
  if (!b->closing) pthread_cond_timedwait(&b->changed, &b->lock, &until);
  int closing = b->closing;
  pthread_mutex_unlock(&b->lock);
  return !closing;
}

static int enter(void *user) {
  attune__background *b = user;
  for (;;) {
    attune__pace_calls calls = calls_of(b->context);
    double wait = attune__pace_wait(&b->pace, now_ms(), &calls);
    if (!(wait > 0)) break;
    if (!sleep_ms(b, wait)) return 0;
  }
  attune__pace_begin(&b->pace, now_ms());
  return !is_closing(b);
}

static void leave(void *user) {
  attune__background *b = user;
  double began = b->pace.began;
  if (!(began > 0)) return;
  b->slices++;
  b->disturbed += calls_of(b->context).launched >= began;
  attune__pace_end(&b->pace, now_ms());
}

static int disturbed(void *user) {
  attune__background *b = user;
  leave(b);
  int many = b->disturbed * DISTURBED_PART > b->slices;
  b->disturbed = b->slices = 0;
  return many;
}

/* Between two pieces of work of one call of the lab. */
static void beat(void *user, int contender) {
  (void)contender;
  leave(user);
  enter(user);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void say(const attune__background *b, attune_level level, const attune__online_wish *wish,
                const char *what) {
  char name[ATTUNE_NAME_MAX];
  attune__text text = {0};
  if (!b->message) return;
  attune__variant_name(&wish->request.variant, 1, name);
  attune__text_printf(&text, "%s, %s: %s", name, attune__class_name((int)wish->cls), what);
  if (text.data) b->message(b->message_user, level, text.data);
  attune__text_free(&text);
}

static void say_row(const attune__background *b, const attune__online_wish *wish,
                    const attune__online_result *result) {
  attune__text text = {0};
  double gain, low, high;
  attune__tuned_gain(&result->row, &gain, &low, &high);
  attune__text_puts(&text, "measured ");
  attune__tiles_print(&result->row.tiles, &text);
  attune__text_puts(&text, ", ");
  attune__text_fixed(&text, gain, 1);
  attune__text_puts(&text, " % faster than planned");
  if (result->row.provisional)
    attune__text_printf(&text, "; provisional, not used: %s", result->row.why);
  if (text.data) say(b, ATTUNE_LEVEL_INFO, wish, text.data);
  attune__text_free(&text);
}

static void tune_one(attune__background *b, const attune__online_wish *wish) {
  const attune__guard_gate gate = {b, enter, leave, disturbed};
  const attune__online_tuning how = {.budget_s = b->budget_s,
                                     .seed = 1,
                                     .install = 1,
                                     .gate = &gate,
                                     .beat = beat,
                                     .beat_user = b};
  attune__online_result result;
  attune_status status = attune__online_tune(b->online, wish, &how, &result);
  if (is_closing(b)) return;
  if (status)
    say(b, ATTUNE_LEVEL_WARN, wish, attune_error());
  else
    say_row(b, wish, &result);
}

/* 1 and the next wish; waits for one. 0: it is over. */
static int take(attune__background *b, attune__online_wish *wish) {
  pthread_mutex_lock(&b->lock);
  while (!b->closing && b->next == b->count) pthread_cond_wait(&b->changed, &b->lock);
  int there = !b->closing;
  if (there) *wish = b->wish[b->next++];
  pthread_mutex_unlock(&b->lock);
  return there;
}

static void *work(void *user) {
  attune__background *b = user;
  attune__device *device = attune__context_device(b->context);
  attune__online_wish wish;
  if (device && device->ops->relax) device->ops->relax(device);
  while (take(b, &wish)) tune_one(b, &wish);
  return NULL;
}

/* ---- wishes ---------------------------------------------------------------------------------- */

static int is_known(const attune__background *b, const attune__online_wish *wish) {
  for (int i = 0; i < b->count; i++)
    if (b->wish[i].cls == wish->cls &&
        !memcmp(&b->wish[i].request.variant, &wish->request.variant, sizeof(attune_variant)))
      return 1;
  return 0;
}

/* With the lock held. */
static attune_status append(attune__background *b, const attune__online_wish *wish) {
  attune__online_wish *grown = realloc(b->wish, ((size_t)b->count + 1) * sizeof *grown);
  if (!grown) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a problem to tune");
  b->wish = grown;
  grown[b->count++] = *wish;
  if (b->running) return ATTUNE_OK;
  attune__watch_launches(b->context);
  if (pthread_create(&b->thread, NULL, work, b))
    return attune_fail(ATTUNE_NO_MEMORY, "no thread to tune in");
  b->running = 1;
  return ATTUNE_OK;
}

attune_status attune__background_add(attune__background *b, const attune__online_wish *wish) {
  if (!b) return attune_fail(ATTUNE_INVALID, "the tuner is closed");
  pthread_mutex_lock(&b->lock);
  attune_status status = is_known(b, wish) ? ATTUNE_OK : append(b, wish);
  pthread_cond_broadcast(&b->changed);
  pthread_mutex_unlock(&b->lock);
  return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

attune_status attune__background_open(attune__online *online, const attune__online_options *options,
                                      attune__background **out) {
  attune__background *b = *out = calloc(1, sizeof *b);
  if (!b) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a tuner");
  b->online = online, b->context = options->context;
  b->pace.share = options->share;
  b->budget_s = options->budget_s / (options->share < 1 ? options->share : 1);
  b->message = options->message, b->message_user = options->message_user;
  pthread_mutex_init(&b->lock, NULL);
  pthread_cond_init(&b->changed, NULL);
  return ATTUNE_OK;
}

void attune__background_close(attune__background *b) {
  if (!b) return;
  pthread_mutex_lock(&b->lock);
  b->closing = 1;
  pthread_cond_broadcast(&b->changed);
  int running = b->running;
  pthread_mutex_unlock(&b->lock);
  if (running) pthread_join(b->thread, NULL);
  pthread_mutex_destroy(&b->lock);
  pthread_cond_destroy(&b->changed);
  free(b->wish);
  free(b);
}
