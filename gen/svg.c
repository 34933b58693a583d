/* svg.c - draws curves over two logarithmic axes.
 *
 * Input: named points. Output: a complete SVG document. Colours are chosen to stay apart for the
 * colour-blind too (Okabe and Ito 2008); light or dark is the viewer's background, so one is drawn.
 */
#include "svg.h"

#include <math.h>

enum { WIDTH = 760, HEIGHT = 460, LEFT = 84, RIGHT = 210, TOP = 52, BOTTOM = 58 };

static const char *const colors[ATTUNE__SVG_SERIES] = {"#0072b2", "#d55e00", "#009e73",
                                                       "#cc79a7", "#e69f00", "#56b4e9"};

typedef struct frame {
  double x0, x1, y0, y1; /* log10 of what the edges stand for */
} frame;

static int usable(double x, double y) {
  return isfinite(x) && isfinite(y) && x > 0 && y > 0;
}

static frame frame_of(const attune__svg_plot *plot) {
  frame f = {INFINITY, -INFINITY, INFINITY, -INFINITY};
  for (int i = 0; i < plot->series_count; i++)
    for (int j = 0; j < plot->series[i].count; j++) {
      double x = plot->series[i].x[j], y = plot->series[i].y[j];
      if (!usable(x, y)) continue;
      f.x0 = fmin(f.x0, log10(x)), f.x1 = fmax(f.x1, log10(x));
      f.y0 = fmin(f.y0, log10(y)), f.y1 = fmax(f.y1, log10(y));
    }
  if (f.x0 > f.x1) f = (frame){0, 1, 0, 1};
  double margin_x = fmax(0.03 * (f.x1 - f.x0), 0.05), margin_y = fmax(0.06 * (f.y1 - f.y0), 0.05);
  return (frame){f.x0 - margin_x, f.x1 + margin_x, f.y0 - margin_y, f.y1 + margin_y};
}

static double place_x(const frame *f, double x) {
  return LEFT + (log10(x) - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}
static double place_y(const frame *f, double y) {
  return HEIGHT - BOTTOM - (log10(y) - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

void attune__svg_place(attune__text *out, const char *x_name, double x, const char *y_name,
                       double y) {
  attune__text_printf(out, " %s=\"", x_name);
  attune__text_fixed(out, x, 1);
  attune__text_printf(out, "\" %s=\"", y_name);
  attune__text_fixed(out, y, 1);
  attune__text_puts(out, "\"");
}

void attune__svg_line(attune__text *out, double x1, double y1, double x2, double y2,
                      const char *style) {
  attune__text_puts(out, "<line");
  attune__svg_place(out, "x1", x1, "y1", y1);
  attune__svg_place(out, "x2", x2, "y2", y2);
  attune__text_printf(out, " %s/>\n", style);
}

void attune__svg_escape(attune__text *out, const char *words) {
  for (; *words; words++) {
    const char *entity = *words == '<'   ? "&lt;"
                         : *words == '&' ? "&amp;"
                         : *words == '"' ? "&quot;"
                                         : NULL;
    if (entity)
      attune__text_puts(out, entity);
    else
      attune__text_add(out, words, 1);
  }
}

void attune__svg_words(attune__text *out, double x, double y, const char *style,
                       const char *words) {
  attune__text_puts(out, "<text");
  attune__svg_place(out, "x", x, "y", y);
  attune__text_printf(out, " %s>", style);
  attune__svg_escape(out, words);
  attune__text_puts(out, "</text>\n");
}

void attune__svg_number(attune__text *out, double x, double y, const char *style, double value) {
  attune__text words = {0};
  attune__text_number(&words, value);
  attune__svg_words(out, x, y, style, words.data ? words.data : "");
  attune__text_free(&words);
}

/* ---- axes ---------------------------------------------------------------------------------- */

/* A mark at every x that some point has, where there is room for its number. */
static void put_x_marks(const attune__svg_plot *plot, const frame *f, attune__text *out) {
  enum { ROOM = 34 };
  double last = -ROOM;
  const attune__svg_series *longest = &plot->series[0];
  for (int i = 1; i < plot->series_count; i++)
    if (plot->series[i].count > longest->count) longest = &plot->series[i];
  for (int j = 0; j < longest->count; j++) {
    if (!usable(longest->x[j], 1)) continue;
    double x = place_x(f, longest->x[j]);
    if (x < last + ROOM) continue;
    attune__svg_line(out, x, TOP, x, HEIGHT - BOTTOM, "class=\"grid\"");
    attune__svg_number(out, x, HEIGHT - BOTTOM + 18, "text-anchor=\"middle\"", longest->x[j]);
    last = x;
  }
}

static void put_y_marks(const frame *f, attune__text *out) {
  static const double steps[] = {1, 2, 5};
  int wide = f->y1 - f->y0 > 2.5; /* decades: then 2 and 5 have no room */
  for (int decade = (int)floor(f->y0); decade <= (int)ceil(f->y1); decade++)
    for (int i = 0; i < (wide ? 1 : 3); i++) {
      double value = steps[i] * pow(10, decade), y = place_y(f, value);
      if (y < TOP || y > HEIGHT - BOTTOM) continue;
      attune__svg_line(out, LEFT, y, WIDTH - RIGHT, y, "class=\"grid\"");
      attune__svg_number(out, LEFT - 8, y + 4, "text-anchor=\"end\"", value);
    }
}

static void put_axes(const attune__svg_plot *plot, const frame *f, attune__text *out) {
  put_x_marks(plot, f, out);
  put_y_marks(f, out);
  attune__svg_line(out, LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "stroke=\"#333\"");
  attune__svg_line(out, LEFT, TOP, LEFT, HEIGHT - BOTTOM, "stroke=\"#333\"");
  attune__svg_words(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, "text-anchor=\"middle\"",
                    plot->x_title);
  attune__text_printf(out,
                      "<text transform=\"translate(20 %d) rotate(-90)\" "
                      "text-anchor=\"middle\">",
                      (TOP + HEIGHT - BOTTOM) / 2);
  attune__svg_escape(out, plot->y_title);
  attune__text_puts(out, ", log scale");
  attune__text_puts(out, "</text>\n");
}

/* ---- curves -------------------------------------------------------------------------------- */

static void put_curve(const attune__svg_series *s, const frame *f, const char *color,
                      attune__text *out) {
  attune__text_printf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                      color);
  for (int i = 0; i < s->count; i++) {
    if (!usable(s->x[i], s->y[i])) continue;
    attune__text_fixed(out, place_x(f, s->x[i]), 1);
    attune__text_puts(out, ",");
    attune__text_fixed(out, place_y(f, s->y[i]), 1);
    attune__text_puts(out, " ");
  }
  attune__text_puts(out, "\"/>\n");
  for (int i = 0; i < s->count; i++) {
    if (!usable(s->x[i], s->y[i])) continue;
    attune__text_puts(out, "<circle r=\"4\"");
    attune__svg_place(out, "cx", place_x(f, s->x[i]), "cy", place_y(f, s->y[i]));
    attune__text_printf(out, " fill=\"%s\" stroke=\"%s\" stroke-width=\"2\"/>\n",
                        s->hollow[i] ? "white" : color, color);
  }
}

static void put_legend(const attune__svg_plot *plot, attune__text *out) {
  double x = WIDTH - RIGHT + 16, y = TOP + 10;
  int hollow = 0;
  for (int i = 0; i < plot->series_count; i++, y += 22) {
    attune__text style = {0};
    attune__text_printf(&style, "stroke=\"%s\" stroke-width=\"3\"", colors[i]);
    attune__svg_line(out, x, y - 4, x + 20, y - 4, style.data ? style.data : "");
    attune__text_free(&style);
    attune__svg_words(out, x + 26, y, "", plot->series[i].name);
    for (int j = 0; j < plot->series[i].count; j++) hollow |= plot->series[i].hollow[j];
  }
  if (!hollow || !plot->hollow_means) return;
  attune__text_puts(out, "<circle r=\"4\"");
  attune__svg_place(out, "cx", x + 10, "cy", y - 4);
  attune__text_puts(out, " fill=\"white\" stroke=\"#333\" stroke-width=\"2\"/>\n");
  attune__svg_words(out, x + 26, y, "", plot->hollow_means);
}

void attune__svg_draw(const attune__svg_plot *plot, attune__text *out) {
  frame f = frame_of(plot);
  attune__text_printf(out,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                      "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\" "
                      "fill=\"#222\">\n<style>.grid{stroke:#ddd}</style>\n"
                      "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
                      WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
  attune__svg_words(out, LEFT, 28, "font-size=\"16\" font-weight=\"bold\"", plot->title);
  put_axes(plot, &f, out);
  for (int i = 0; i < plot->series_count; i++) put_curve(&plot->series[i], &f, colors[i], out);
  put_legend(plot, out);
  attune__text_puts(out, "</svg>\n");
}
