/* tune_plot.c - the drawings of a tuning run: candidates as points, and the roofline.
 *
 * Input: cells. Output: SVG elements for the inside of a page. Times of candidates are over the
 * planner's choice in the same rounds, so that what drifted between rounds moves no point. */
#include "tune_page.h"

#include "svg.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 240, TOP = 14, BOTTOM = 44, LEFT = 58, GAP = 62, RIGHT = 12 };
enum { MOST_REGISTERS = 255 }; /* of a thread: CUDA C++ Programming Guide, technical limits */

/* Okabe and Ito 2008, which stay apart for the colour-blind too. */
#define CANDIDATE "#0072b2"
#define PLANNED   "#e69f00"
#define WINNER    "#d55e00"

/* One pair of axes: where they lie on the page, and what their ends stand for. */
typedef struct axes {
  double left, top, width, height;
  double x0, x1, y0, y1; /* log10 where the axis is logarithmic */
  int log_x;             /* y always is */
} axes;

static double place_x(const axes *a, double x) {
  return a->left + ((a->log_x ? log10(x) : x) - a->x0) / (a->x1 - a->x0) * a->width;
}
static double place_y(const axes *a, double y) {
  return a->top + a->height - (log10(y) - a->y0) / (a->y1 - a->y0) * a->height;
}

static void open_svg(attune__text *out, const char *label) {
  attune__text_printf(out,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                      "width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"",
                      WIDTH, HEIGHT, WIDTH, HEIGHT);
  attune__svg_escape(out, label);
  attune__text_puts(out, "\">\n");
}

/* ---- axes ------------------------------------------------------------------------------------ */

static void y_mark(const axes *a, double value, attune__text *out) {
  double y = place_y(a, value);
  if (y < a->top - 0.5 || y > a->top + a->height + 0.5) return;
  attune__svg_line(out, a->left, y, a->left + a->width, y,
                   value == 1 && !a->log_x ? "class=\"one\"" : "class=\"grid\"");
  attune__svg_number(out, a->left - 6, y + 4, "text-anchor=\"end\"", value);
}

static void x_mark(const axes *a, double value, attune__text *out) {
  double x = place_x(a, value), bottom = a->top + a->height;
  if (x < a->left - 0.5 || x > a->left + a->width + 0.5) return;
  attune__svg_line(out, x, a->top, x, bottom, "class=\"grid\"");
  attune__svg_number(out, x, bottom + 16, "text-anchor=\"middle\"", value);
}

static void frame(const axes *a, const char *x_title, const char *y_title, attune__text *out) {
  double bottom = a->top + a->height;
  attune__svg_line(out, a->left, bottom, a->left + a->width, bottom, "class=\"axis\"");
  attune__svg_line(out, a->left, a->top, a->left, bottom, "class=\"axis\"");
  attune__svg_words(out, a->left + a->width / 2, bottom + 34, "text-anchor=\"middle\"", x_title);
  attune__text_puts(out, "<text transform=\"translate(");
  attune__text_fixed(out, a->left - 44, 1);
  attune__text_puts(out, " ");
  attune__text_fixed(out, a->top + a->height / 2, 1);
  attune__text_puts(out, ") rotate(-90)\" text-anchor=\"middle\">");
  attune__svg_escape(out, y_title);
  attune__text_puts(out, "</text>\n");
}

/* Marks at 1, 2 and 5 of every decade, or at the decades alone where there are many. */
static void decades(const axes *a, void (*mark)(const axes *, double, attune__text *), double low,
                    double high, attune__text *out) {
  static const double steps[] = {1, 2, 5};
  int wide = high - low > 3;
  for (int decade = (int)floor(low); decade <= (int)ceil(high); decade++)
    for (int i = 0; i < (wide ? 1 : 3); i++) mark(a, steps[i] * pow(10, decade), out);
}

/* ---- points ---------------------------------------------------------------------------------- */

typedef struct point {
  double x, y;
  int square; /* 1: the planner's choice, 2: the winner's ring */
  const char *color;
} point;

/* A point whose words a browser shows under the pointer. */
static void put_point(const axes *a, const point *p, const attune__text *words, attune__text *out) {
  double x = place_x(a, p->x), y = place_y(a, p->y);
  if (p->square) {
    attune__text_puts(out, "<rect width=\"9\" height=\"9\"");
    attune__svg_place(out, "x", x - 4.5, "y", y - 4.5);
  } else {
    attune__text_puts(out, "<circle r=\"4\"");
    attune__svg_place(out, "cx", x, "cy", y);
  }
  attune__text_printf(out, " fill=\"%s\"><title>", p->color);
  if (words->data) attune__svg_escape(out, words->data);
  attune__text_puts(out, p->square ? "</title></rect>\n" : "</title></circle>\n");
}

static void put_ring(const axes *a, double x, double y, attune__text *out) {
  attune__text_puts(out, "<circle r=\"8\" fill=\"none\" stroke=\"" WINNER "\" stroke-width=\"2\"");
  attune__svg_place(out, "cx", place_x(a, x), "cy", place_y(a, y));
  attune__text_puts(out, "/>\n");
}

/* ---- candidates ------------------------------------------------------------------------------ */

static double shared_of(const attune__tune_trial *t) {
  return t->smem_bytes / 1024.0;
}
static double registers_of(const attune__tune_trial *t) {
  return t->registers;
}

static void trial_words(const attune__tune_trial *t, attune__text *out) {
  attune__tiles_print(&t->tiles, out);
  attune__text_puts(out, ": ");
  attune__text_fixed(out, 1e3 * t->time.median, 2);
  attune__text_puts(out, " us, ");
  attune__text_fixed(out, t->ratio, 3);
  attune__text_printf(out, " of the planned; %u bytes of shared memory", t->smem_bytes);
  if (t->registers) attune__text_printf(out, ", %u registers", t->registers);
}

static int is_drawn(const attune__tune_trial *t, double x) {
  return t->state == ATTUNE__TRIAL_TIMED && t->ratio > 0 && isfinite(t->ratio) && x >= 0;
}

/* The winner last, so that nothing lies over it. */
static void put_trials(const axes *a, const attune__tune_cell *c,
                       double (*x_of)(const attune__tune_trial *), attune__text *out) {
  for (int late = 0; late < 2; late++)
    for (int i = 0; i < c->trials; i++) {
      const attune__tune_trial *t = &c->trial[i];
      if ((i == c->winner || i == 0) != late || !is_drawn(t, x_of(t))) continue;
      attune__text words = {0};
      point p = {.x = x_of(t), .y = t->ratio, .square = i == 0};
      p.color = i == 0 ? PLANNED : i == c->winner ? WINNER : CANDIDATE;
      trial_words(t, &words);
      put_point(a, &p, &words, out);
      attune__text_free(&words);
      if (i == c->winner) put_ring(a, p.x, p.y, out);
    }
}

/* The range of the times, with room around it; the planner's 1 is always within. */
static void range(const attune__tune_cell *c, axes *a) {
  double low = 1, high = 1;
  for (int i = 0; i < c->trials; i++) {
    if (!is_drawn(&c->trial[i], 0)) continue;
    low = fmin(low, c->trial[i].ratio), high = fmax(high, c->trial[i].ratio);
  }
  double room = fmax(0.08 * log10(high / low), 0.01);
  a->y0 = log10(low) - room, a->y1 = log10(high) + room;
}

static void ratio_marks(const axes *a, attune__text *out) {
  static const double fine[] = {0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.4};
  static const double coarse[] = {0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100};
  int near_by = a->y1 - a->y0 < log10(1.8);
  const double *mark = near_by ? fine : coarse;
  size_t count = near_by ? sizeof fine / sizeof *fine : sizeof coarse / sizeof *coarse;
  for (size_t i = 0; i < count; i++) y_mark(a, mark[i], out);
}

static void put_legend(attune__text *out) {
  attune__text_puts(out, "<rect width=\"9\" height=\"9\" x=\"590\" y=\"18\" fill=\"" PLANNED
                         "\"/>\n<circle r=\"4\" cx=\"594\" cy=\"38\" fill=\"" WINNER
                         "\"/>\n<circle r=\"8\" cx=\"594\" cy=\"38\" fill=\"none\" stroke=\"" WINNER
                         "\" stroke-width=\"2\"/>\n");
  attune__svg_words(out, 606, 27, "", "planned");
  attune__svg_words(out, 606, 42, "", "measured winner");
}

void attune__tune_draw_trials(const attune__tune_cell *c, const attune_board *board,
                              attune__text *out) {
  enum { PANEL = 250 };
  axes a = {.left = LEFT, .top = TOP, .width = PANEL, .height = HEIGHT - TOP - BOTTOM};
  open_svg(out, "time of each candidate over its shared memory and its registers");
  range(c, &a);
  a.x1 = board->smem_block / 1024.0;
  ratio_marks(&a, out);
  for (int kb = 0; kb <= (int)a.x1; kb += a.x1 > 128 ? 64 : 32) x_mark(&a, kb, out);
  frame(&a, "shared memory of a block, KB", "time, planned = 1", out);
  put_trials(&a, c, shared_of, out);
  a.left += PANEL + GAP, a.width = PANEL - 50, a.x1 = MOST_REGISTERS;
  ratio_marks(&a, out);
  for (int registers = 0; registers < MOST_REGISTERS; registers += 64) x_mark(&a, registers, out);
  frame(&a, "registers of a thread", "time, planned = 1", out);
  put_trials(&a, c, registers_of, out);
  put_legend(out);
  attune__text_puts(out, "</svg>\n");
}

/* ---- the roofline ---------------------------------------------------------------------------- */

/* FLOPs of a call and the bytes that it cannot do without. */
static void work(const attune__tune_cell *c, const attune__tiles *tiles, double *flops,
                 double *bytes) {
  attune_variant v = c->variant;
  *flops = attune__flops(&v, &c->shape), *bytes = 0;
  for (int part = 0; part < tiles->count; part++) {
    attune_traffic traffic;
    v.part = (uint8_t)part;
    const attune_model *model = attune__model(v.op, part, tiles->tile[part].family);
    if (!model) continue;
    model->traffic(&v, &tiles->tile[part], &c->shape, &traffic);
    *bytes += traffic.compulsory;
  }
}

/* FLOP/s of the unit that the winners compute with. */
static double peak(const attune__tune_cell *cells, int count, const attune_board *b,
                   const char **unit) {
  int fma = 1;
  for (int i = 0; i < count; i++)
    if (cells[i].winner >= 0) fma &= cells[i].row.tiles.tile[0].family == ATTUNE_FAMILY_FMA;
  *unit = fma ? "fp32 FMA" : "tensor cores, 16 bit";
  return 1e6 * b->mhz * b->sms * (fma ? 2 * b->fp32_lanes : b->tensor_flop);
}

static void roof(const axes *a, double peak_flops, double bandwidth, const char *unit,
                 attune__text *out) {
  double left = pow(10, a->x0), right = pow(10, a->x1), ridge = peak_flops / bandwidth;
  attune__text_puts(out, "<polyline class=\"roof\" fill=\"none\" points=\"");
  const double x[] = {left, fmin(fmax(ridge, left), right), right};
  for (int i = 0; i < 3; i++) {
    attune__text_fixed(out, place_x(a, x[i]), 1);
    attune__text_puts(out, ",");
    attune__text_fixed(out, place_y(a, fmin(peak_flops, bandwidth * x[i]) / 1e12), 1);
    attune__text_puts(out, i < 2 ? " " : "\"/>\n");
  }
  attune__text words = {0};
  attune__text_printf(&words, "%s: ", unit);
  attune__text_fixed(&words, peak_flops / 1e12, peak_flops < 1e14 ? 1 : 0);
  attune__text_puts(&words, " TFLOP/s; device memory: ");
  attune__text_fixed(&words, bandwidth / 1e9, 0);
  attune__text_puts(&words, " GB/s");
  attune__svg_words(out, a->left + a->width - 4, a->top + a->height - 8, "text-anchor=\"end\"",
                    words.data ? words.data : "");
  attune__text_free(&words);
}

/* The name of a class beside its point: of every other on the left, for some lie close together. */
static void name_point(const axes *a, const point *p, attune_class cls, attune__text *out) {
  int left = (int)cls % 2;
  attune__svg_words(out, place_x(a, p->x) + (left ? -9 : 9), place_y(a, p->y) + 4,
                    left ? "text-anchor=\"end\"" : "", attune__class_name((int)cls));
}

static void put_reached(const axes *a, const attune__tune_cell *c, attune__text *out) {
  double flops, bytes;
  for (int winner = 0; winner < 2; winner++) {
    const attune__tiles *tiles = winner ? &c->row.tiles : &c->row.over;
    double ms = winner ? c->row.time.median : c->row.over_time.median;
    attune__text words = {0};
    work(c, tiles, &flops, &bytes);
    if (!(bytes > 0) || !(ms > 0)) continue;
    point p = {.x = flops / bytes, .y = flops / ms / 1e9, .square = !winner};
    p.color = winner ? WINNER : PLANNED;
    attune__text_printf(&words, "%s, ", attune__class_name((int)c->cls));
    attune__tiles_print(tiles, &words);
    attune__text_puts(&words, ": ");
    attune__text_fixed(&words, p.y, 2);
    attune__text_puts(&words, " TFLOP/s, ");
    attune__text_fixed(&words, bytes / ms / 1e6, 0);
    attune__text_puts(&words, " GB/s");
    put_point(a, &p, &words, out);
    if (winner) name_point(a, &p, c->cls, out);
    attune__text_free(&words);
  }
}

/* Axes around all points and the ridge. */
static void reach(const attune__tune_cell *cells, int count, double peak_flops, double bandwidth,
                  axes *a) {
  double ridge = peak_flops / bandwidth, low = peak_flops / 1e12;
  a->x0 = a->x1 = log10(ridge);
  for (int i = 0; i < count; i++) {
    double flops, bytes;
    if (cells[i].winner < 0) continue;
    work(&cells[i], &cells[i].row.tiles, &flops, &bytes);
    if (!(bytes > 0) || !(flops > 0)) continue;
    a->x0 = fmin(a->x0, log10(flops / bytes)), a->x1 = fmax(a->x1, log10(flops / bytes));
    double slowest = fmax(cells[i].row.time.median, cells[i].row.over_time.median);
    if (slowest > 0) low = fmin(low, flops / slowest / 1e9);
  }
  a->x0 -= 0.3, a->x1 += 0.5;
  a->y1 = log10(peak_flops / 1e12) + 0.15, a->y0 = fmin(log10(low) - 0.2, a->y1 - 1);
}

void attune__tune_draw_roofline(const attune__tune_cell *cells, int count,
                                const attune_board *board, attune__text *out) {
  const char *unit;
  double flops = peak(cells, count, board, &unit), bandwidth = 1e9 * board->dram_gbs;
  axes a = {.left = LEFT, .top = TOP, .width = WIDTH - LEFT - RIGHT, .log_x = 1};
  a.height = HEIGHT - TOP - BOTTOM;
  open_svg(out, "roofline: what planned tiles and winners reach");
  reach(cells, count, flops, bandwidth, &a);
  decades(&a, x_mark, a.x0, a.x1, out);
  decades(&a, y_mark, a.y0, a.y1, out);
  frame(&a, "FLOP for each byte that must move", "TFLOP/s", out);
  roof(&a, flops, bandwidth, unit, out);
  for (int i = 0; i < count; i++)
    if (cells[i].winner >= 0) put_reached(&a, &cells[i], out);
  attune__text_puts(out, "</svg>\n");
}
