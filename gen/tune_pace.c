/* tune_pace.c - the rules of tune_pace.h. Input: times. Output: how long to wait. */
#include "tune_pace.h"

static double later(double a, double b) {
  return a > b ? a : b;
}

double attune__pace_wait(attune__pace *p, double now, const attune__pace_calls *calls) {
  if (!(p->asked > 0)) p->asked = now;
  double quiet = 0, captured = 0, paced = p->earliest - now;
  if (calls->launched > 0 && now - p->asked < ATTUNE__PACE_PATIENCE_MS)
    quiet = calls->launched + ATTUNE__PACE_QUIET_MS - now;
  if (calls->captured > 0) captured = calls->captured + ATTUNE__PACE_CAPTURE_MS - now;
  return later(later(paced, quiet), later(captured, 0));
}

void attune__pace_begin(attune__pace *p, double now) {
  p->began = now, p->asked = 0;
}

void attune__pace_end(attune__pace *p, double now) {
  if (!(p->began > 0)) return;
  double pause = p->share < 1 ? (now - p->began) * (1 / p->share - 1) : 0;
  p->earliest = now + pause;
  p->began = 0;
}
