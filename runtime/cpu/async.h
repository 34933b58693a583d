/* async.h - work that a warp starts and that lands later: the queue, and when it lands.
 *
 * An opcode pushes an operation; the scheduler lands it early (at once), late (when no warp can
 * run) or at random, as the launch's options say. Landing moves the bytes, records them in the
 * shadow and completes what waits for them. Work whose order the program fixes by waiting in its
 * own warp (cp.async groups, wgmma) need not come here: it lands at that wait. */
#ifndef ATTUNE_CPU_ASYNC_H
#define ATTUNE_CPU_ASYNC_H

#include "engine.h"

/* The head of an operation's own struct, malloc'ed as one; the queue frees it after land, or
 * unlanded when the launch ends with a fault, so it owns no other memory. */
typedef struct attune__pending {
  void (*land)(attune__engine *e, struct attune__pending *self);
  attune__warp *warp;     /* that issued it; the warp's `at` is set to `ins` while it lands */
  const attune__ins *ins; /* for reports */
  uint32_t lanes;         /* that issued it */
  int grouped;            /* lands no later than their next cp.async.bulk.wait_group */
} attune__pending;

/* Takes p. Under early landing it has landed when this returns. p NULL: a fault, no memory. */
void attune__async_push(attune__warp *w, attune__pending *p);

#endif
