/* tune_pace.h - when a tuner in the background may use the device: values and rules, no clock.
 *
 * It works in slices of a few milliseconds. A slice begins when
 *   - the share allows it: after a slice of t ms there is a pause of t (1 / share - 1) ms;
 *   - nobody has launched for ATTUNE__PACE_QUIET_MS, so that it falls between calls; a process that
 *     launches without a pause is waited for no longer than ATTUNE__PACE_PATIENCE_MS;
 *   - no launch was captured in the last ATTUNE__PACE_CAPTURE_MS. There is no patience with that.
 */
#ifndef ATTUNE_TUNE_PACE_H
#define ATTUNE_TUNE_PACE_H

#define ATTUNE__PACE_QUIET_MS    2
#define ATTUNE__PACE_PATIENCE_MS 1000
#define ATTUNE__PACE_CAPTURE_MS  1000

/* All in milliseconds of one clock that never goes back; 0 is before any of them. */
typedef struct attune__pace {
  double share;    /* of the time, over 0; 1 and more: no pauses */
  double began;    /* of the slice under way; 0: there is none */
  double earliest; /* of the next slice */
  double asked;    /* since when the next slice waits; 0: it does not */
} attune__pace;

/* What the callers of the context did last; 0: nothing so far. */
typedef struct attune__pace_calls {
  double launched, captured;
} attune__pace_calls;

/* How long to wait before asking again; 0: a slice may begin. */
double attune__pace_wait(attune__pace *pace, double now, const attune__pace_calls *calls);
void attune__pace_begin(attune__pace *pace, double now);
void attune__pace_end(attune__pace *pace, double now);

#endif
