/* fake_lab.h - a lab that makes its times up (gen/tune_lab.h), and a compiler that makes nothing.
 *
 * Time is a table: a function of the tile. Around it: noise, a drift, a watch, tiles that are
 * wrong, that fault, that hang or that do not compile. */
#ifndef ATTUNE_FAKE_LAB_H
#define ATTUNE_FAKE_LAB_H

#include "../gen/tune.h"

typedef enum fake_fate {
  FAKE_FINE,
  FAKE_WRONG,
  FAKE_FAULT,
  FAKE_HANG,
  FAKE_NOT_COMPILED
} fake_fate;

typedef struct fake_lab {
  double (*cost)(const attune_tile *tile);    /* milliseconds of a call */
  fake_fate (*fate)(const attune_tile *tile); /* NULL: all are fine */
  int fails_when_timed; /* 1: faults and hangs come in the rounds, not in the check */
  double noise;         /* standard deviation of a sample, part of it */
  double drift;         /* a sample is slower by so much than the one before it */
  double add_ms;        /* real time that a check takes */
  attune__watch watch;
  int arch_cc; /* of the device; 0: 90 */
  /* what happened */
  int opened, added, checked, timed, timed_wrong;
  uint64_t random;
  double slowness;
  attune__tiles in[64];
  int count;
} fake_lab;

attune__lab fake_lab_of(fake_lab *fake);
attune__tune_compiler fake_compiler_of(fake_lab *fake);

#endif
