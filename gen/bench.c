/* bench.c - rounds, medians and intervals.
 *
 * Input: a timer and how many contenders it has. Output: times per call. What a call is, and how a
 * device is asked for its time, is the timer's: bench_device.c, or a test's. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double default_sample_ms = 5, default_warm_ms = 300;
/* Warm once a sample repeats to this much. */
static const double settled = 0.01;
static const double confidence = 0.95;
enum { HOST_SAMPLES = 5, HOST_CALLS = 64, CALIBRATIONS = 8 };

typedef struct bench {
  const attune__bench_timer *timer;
  attune__bench_options options;
  int count;
  attune__bench_time *out;
  double *samples; /* [count][rounds], milliseconds per call */
  double warmed;   /* milliseconds on the device so far */
} bench;

/* ---- statistics ------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of sorted values. */
static double middle(const double *sorted, int n) {
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double median_of(const double *values, int n) {
  double sorted[ATTUNE__BENCH_MAX_ROUNDS];
  memcpy(sorted, values, (size_t)n * sizeof *sorted);
  qsort(sorted, (size_t)n, sizeof *sorted, by_value);
  return middle(sorted, n);
}

double attune__bench_interval(int n, int *low, int *high) {
  double chance = ldexp(1, -n), below = 0, coverage = n > 1 ? 1 - 2 * chance : 0;
  *low = 0, *high = n - 1;
  for (int k = 1; 2 * k < n; k++) {
    below += chance; /* P(fewer than k samples lie under the median) */
    chance *= (double)(n - k + 1) / k;
    if (1 - 2 * below < confidence) break;
    *low = k - 1, *high = n - k, coverage = 1 - 2 * below;
  }
  return coverage;
}

static void summarise(const double *samples, int rounds, attune__bench_time *out) {
  double sorted[ATTUNE__BENCH_MAX_ROUNDS];
  int low, high, third = rounds >= 3 ? rounds / 3 : 1;
  memcpy(sorted, samples, (size_t)rounds * sizeof *sorted);
  qsort(sorted, (size_t)rounds, sizeof *sorted, by_value);
  out->rounds = rounds;
  out->coverage = attune__bench_interval(rounds, &low, &high);
  out->median = middle(sorted, rounds), out->low = sorted[low], out->high = sorted[high];
  out->drift = median_of(samples + rounds - third, third) / median_of(samples, third) - 1;
}

/* ---- samples --------------------------------------------------------------------------------- */

static void give_up(attune__bench_time *time, attune_status status) {
  time->status = status;
  snprintf(time->error, sizeof time->error, "%s", attune_error());
}

/* Milliseconds of a sample, 0 once the contender has failed. */
static double sample(bench *b, int contender) {
  attune__bench_time *time = &b->out[contender];
  double milliseconds = 0;
  if (time->status) return 0;
  attune_status status = b->timer->device(b->timer->user, contender, time->calls, &milliseconds);
  if (!status && !(milliseconds > 0))
    status = attune_fail(ATTUNE_DRIVER, "%d calls took no time on the device", time->calls);
  if (status) give_up(time, status);
  b->warmed += milliseconds;
  return status ? 0 : milliseconds;
}

/* Raises the number of calls until a sample is long enough. */
static void calibrate(bench *b, int contender) {
  attune__bench_time *time = &b->out[contender];
  if (!time->calls) time->calls = 1;
  for (int i = 0; i < CALIBRATIONS && !time->status; i++) {
    double took = sample(b, contender), want = b->options.sample_ms;
    if (time->status || took >= want || time->calls == ATTUNE__BENCH_MAX_CALLS) return;
    double calls = ceil(time->calls * want / took * 1.1);
    time->calls = calls > ATTUNE__BENCH_MAX_CALLS ? ATTUNE__BENCH_MAX_CALLS : (int)calls;
  }
}

static int repeats(double before, double now) {
  return fabs(now - before) <= settled * before;
}

/* Rounds that nobody keeps, until enough has run and each contender repeats itself. */
static void warm_up(bench *b, double *before) {
  b->warmed = 0;
  int steady = 0;
  while (b->warmed < b->options.warm_ms || (!steady && b->warmed < 10 * b->options.warm_ms)) {
    double started = b->warmed;
    steady = 1;
    for (int i = 0; i < b->count; i++) {
      double now = sample(b, i);
      if (!b->out[i].status && !repeats(before[i], now)) steady = 0;
      before[i] = now;
    }
    if (b->warmed <= started) return; /* none is left */
  }
}

/* Rounds are rows of a Williams design (E. J. Williams 1949, Aust. J. Sci. Res. A 2): each
 * contender stands at each place, and directly behind each other one, equally often, over `count`
 * rounds where that is even, else over twice as many. Who runs before is felt: behind a kernel that
 * draws less power the clock is higher. */
static int contender_at(int round, int place, int count) {
  int odd = count % 2, shift = odd ? round / 2 : round;
  if (odd && round % 2) place = count - 1 - place;
  int zigzag = place % 2 ? (place + 1) / 2 : count - place / 2;
  return (zigzag + shift) % count;
}

static void take_rounds(bench *b) {
  for (int round = 0; round < b->options.rounds; round++)
    for (int i = 0; i < b->count; i++) {
      int contender = contender_at(round, i, b->count);
      double took = sample(b, contender);
      b->samples[contender * b->options.rounds + round] = took / b->out[contender].calls;
    }
}

static void time_host(bench *b, int contender) {
  attune__bench_time *time = &b->out[contender];
  double samples[HOST_SAMPLES];
  for (int i = 0; i < HOST_SAMPLES && !time->status; i++) {
    attune_status status = b->timer->host(b->timer->user, contender, HOST_CALLS, &samples[i]);
    if (status) give_up(time, status);
  }
  if (!time->status) time->host = median_of(samples, HOST_SAMPLES) / HOST_CALLS;
}

/* ---- run ------------------------------------------------------------------------------------- */

static attune_status check(const attune__bench_options *o, int count) {
  if (count < 1) return attune_fail(ATTUNE_INVALID, "nothing to time");
  if (o->rounds < 1 || o->rounds > ATTUNE__BENCH_MAX_ROUNDS)
    return attune_fail(ATTUNE_INVALID, "%d rounds: wanted 1 to %d", o->rounds,
                       ATTUNE__BENCH_MAX_ROUNDS);
  return ATTUNE_OK;
}

static attune__bench_options with_defaults(const attune__bench_options *given) {
  attune__bench_options o = {0};
  if (given) o = *given;
  if (!o.rounds) o.rounds = ATTUNE__BENCH_ROUNDS;
  if (!(o.sample_ms > 0)) o.sample_ms = default_sample_ms;
  if (!(o.warm_ms > 0)) o.warm_ms = default_warm_ms;
  return o;
}

attune_status attune__bench_run(const attune__bench_timer *timer, int count,
                                const attune__bench_options *options, attune__bench_time *out) {
  bench b = {.timer = timer, .options = with_defaults(options), .count = count, .out = out};
  attune_status status = check(&b.options, count);
  if (status) return status;
  memset(out, 0, (size_t)count * sizeof *out);
  b.samples = calloc((size_t)count, (size_t)b.options.rounds * sizeof *b.samples);
  double *before = calloc((size_t)count, sizeof *before);
  if (b.samples && before) {
    for (int i = 0; i < count; i++) calibrate(&b, i);
    warm_up(&b, before);
    for (int i = 0; i < count; i++) calibrate(&b, i); /* at the clocks that hold from now on */
    take_rounds(&b);
    for (int i = 0; i < count; i++) {
      if (!out[i].status) summarise(b.samples + i * b.options.rounds, b.options.rounds, &out[i]);
      time_host(&b, i);
    }
  } else {
    status = attune_fail(ATTUNE_NO_MEMORY, "no memory for the samples of %d contenders", count);
  }
  free(b.samples);
  free(before);
  return status;
}
