/* svg.h - curves as an SVG file that a browser shows: hand-written markup, no library. */
#ifndef ATTUNE_SVG_H
#define ATTUNE_SVG_H

#include "text.h"

enum { ATTUNE__SVG_POINTS = 24, ATTUNE__SVG_SERIES = 6 };

typedef struct attune__svg_series {
  const char *name;
  int count;
  double x[ATTUNE__SVG_POINTS], y[ATTUNE__SVG_POINTS]; /* above 0; others are left out */
  int hollow[ATTUNE__SVG_POINTS];                      /* 1: an open marker: given by formula */
} attune__svg_series;

/* Both axes are logarithmic; marks of x stand at the points, marks of y at 1, 2 and 5. */
typedef struct attune__svg_plot {
  const char *title, *x_title, *y_title, *hollow_means;
  int series_count;
  attune__svg_series series[ATTUNE__SVG_SERIES];
} attune__svg_plot;

void attune__svg_draw(const attune__svg_plot *plot, attune__text *out);

#endif
