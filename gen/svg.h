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

/* Markup of one thing, for drawings of other kinds: ' x="1.0" y="2.0"', a line, words that are
 * escaped, a number. style: further attributes. */
void attune__svg_place(attune__text *out, const char *x_name, double x, const char *y_name,
                       double y);
void attune__svg_line(attune__text *out, double x1, double y1, double x2, double y2,
                      const char *style);
void attune__svg_words(attune__text *out, double x, double y, const char *style, const char *words);
void attune__svg_number(attune__text *out, double x, double y, const char *style, double value);
/* Text for the inside of an element or of an attribute in double quotes. */
void attune__svg_escape(attune__text *out, const char *words);

void attune__svg_draw(const attune__svg_plot *plot, attune__text *out);

#endif
