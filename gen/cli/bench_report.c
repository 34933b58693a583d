/* bench_report.c - the times of one bench as a table and as JSON: what `attune bench` and
 * `attune verify --source` print.
 *
 * Input: a page. Output: text. Timing is bench_page.c's. */
#include "bench_page.h"
#include "show.h"

#include <math.h>
#include <string.h>

static int is_provisional(const attune__bench_time *time) {
  return fabs(time->drift) > ATTUNE__BENCH_DRIFT;
}

/* ---- text ------------------------------------------------------------------------------------ */

void bench_legend_print(const attune__device_facts *device, int rounds, attune__text *out) {
  int low, high;
  double coverage = attune__bench_interval(rounds, &low, &high);
  const attune_board *board = attune__board(device->arch);
  attune__text_printf(out,
                      "%s, %d SMs. Median of %d interleaved rounds; the interval is that of order "
                      "statistics %d and %d, which hold the median with ",
                      device->name, device->sm_count, rounds, low + 1, high + 1);
  attune__text_fixed(out, 100 * coverage, 1);
  attune__text_puts(out, " %.\nGB/s: each byte once, by formula. Of ceiling: what the unit that "
                         "binds needs at least, by the model");
  if (board) attune__text_printf(out, " for the %s", board->name);
  attune__text_puts(out, ", over the time.\n");
}

static void print_head(const bench_page *page, int width, attune__text *out) {
  attune__text_puts(out, "\n");
  show_shape(out, &page->variant, &page->shape);
  attune__text_printf(out, "; L2 %s: %d set%s of ", page->l2 == ATTUNE__L2_COLD ? "cold" : "warm",
                      page->sets, page->sets == 1 ? "" : "s");
  attune__text_fixed(out, (double)page->set_bytes / 1e6, 1);
  attune__text_printf(out, " MB\n%-*s  %10s  %21s  %8s  %8s  %-22s%9s%10s%8s%9s\n", width, "kernel",
                      "us", "interval", "TFLOP/s", "GB/s", "  of ceiling", "registers", "shared B",
                      "blocks", "host us");
}

static void print_ceiling(const attune__bench_figures *f, attune__text *out) {
  attune__text cell = {0};
  if (f->board) {
    show_fixed(&cell, 5, 100 * f->share, 1);
    attune__text_printf(&cell, " %% %s", f->binds);
  }
  attune__text_printf(out, "  %-20s", cell.data ? cell.data : "");
  attune__text_free(&cell);
}

static void print_part(const bench_part *part, attune__text *out) {
  attune__text_printf(out, "%9d", part->registers);
  show_grouped(out, 10, part->smem_bytes);
  if (part->blocks_per_sm)
    attune__text_printf(out, "%8d", part->blocks_per_sm);
  else
    attune__text_printf(out, "%8s", "-");
}

static void print_time(const bench_line *line, attune__text *out) {
  const attune__bench_time *t = &line->time;
  attune__text interval = {0};
  show_fixed(out, 12, t->median * 1e3, 2);
  attune__text_fixed(&interval, t->low * 1e3, 2);
  attune__text_puts(&interval, " .. ");
  attune__text_fixed(&interval, t->high * 1e3, 2);
  attune__text_printf(out, "  %21s", interval.data ? interval.data : "");
  attune__text_free(&interval);
  show_fixed(out, 10, line->figures.tflops, 1);
  show_fixed(out, 10, line->figures.gbs, 0);
  print_ceiling(&line->figures, out);
}

static void print_line(const bench_line *line, int width, attune__text *out) {
  attune__text_printf(out, "%-*s", width, line->name);
  if (line->time.status) {
    attune__text_printf(out, "  not timed: %s\n", line->time.error);
    return;
  }
  print_time(line, out);
  if (line->parts == 1) print_part(&line->part[0], out);
  if (line->parts > 1) attune__text_printf(out, "%27s", "");
  show_fixed(out, 9, line->time.host * 1e3, 2);
  if (is_provisional(&line->time)) {
    attune__text_puts(out, "  provisional: drifted by ");
    attune__text_fixed(out, 100 * line->time.drift, 1);
    attune__text_puts(out, " %");
  }
  attune__text_puts(out, "\n");
  for (int i = 0; i < line->parts && line->parts > 1; i++) {
    attune__text_printf(out, "  %-*s", width + 75, line->part[i].name);
    print_part(&line->part[i], out);
    attune__text_puts(out, "\n");
  }
}

void bench_page_print(const bench_page *page, attune__text *out) {
  int width = 6;
  for (int i = 0; i < page->lines; i++)
    if ((int)strlen(page->line[i].name) > width) width = (int)strlen(page->line[i].name);
  print_head(page, width, out);
  for (int i = 0; i < page->lines; i++) print_line(&page->line[i], width, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void part_json(const bench_part *part, attune__json *json) {
  attune__json_begin(json, '{');
  show_json_text(json, "name", part->name);
  show_json_count(json, "registers", part->registers);
  show_json_count(json, "spill_bytes", part->spill_bytes);
  show_json_count(json, "threads", part->threads);
  show_json_count(json, "smem_bytes", part->smem_bytes);
  show_json_count(json, "blocks_per_sm", part->blocks_per_sm);
  attune__json_end(json, '}');
}

static void time_json(const attune__bench_time *t, attune__json *json) {
  show_json_real(json, "us", t->median * 1e3);
  show_json_real(json, "us_low", t->low * 1e3);
  show_json_real(json, "us_high", t->high * 1e3);
  show_json_real(json, "coverage", t->coverage);
  show_json_count(json, "rounds", t->rounds);
  show_json_count(json, "calls", t->calls);
  show_json_real(json, "drift", t->drift);
  attune__json_key(json, "provisional");
  attune__json_bool(json, is_provisional(t));
  show_json_real(json, "host_us", t->host * 1e3);
}

static void figures_json(const attune__bench_figures *f, attune__json *json) {
  show_json_real(json, "flops", f->flops);
  show_json_real(json, "bytes", f->bytes);
  show_json_real(json, "tflops", f->tflops);
  show_json_real(json, "gbs", f->gbs);
  show_json_text(json, "board", f->board ? f->board->name : NULL);
  show_json_text(json, "binds", f->binds);
  show_json_real(json, "ceiling_us", f->ceiling * 1e3);
  show_json_real(json, "share", f->share);
}

static void line_json(const bench_line *line, attune__json *json) {
  attune__json_begin(json, '{');
  show_json_text(json, "name", line->name);
  show_json_text(json, "error", line->time.status ? line->time.error : NULL);
  if (!line->time.status) {
    time_json(&line->time, json);
    figures_json(&line->figures, json);
  }
  attune__json_key(json, "kernels");
  attune__json_begin(json, '[');
  for (int i = 0; i < line->parts; i++) part_json(&line->part[i], json);
  attune__json_end(json, ']');
  attune__json_end(json, '}');
}

void bench_page_json(const bench_page *page, attune__json *json) {
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&page->variant, 1, name);
  attune__json_begin(json, '{');
  show_json_text(json, "variant", name);
  show_json_shape(json, &page->shape);
  show_json_text(json, "l2", page->l2 == ATTUNE__L2_COLD ? "cold" : "warm");
  show_json_count(json, "sets", page->sets);
  show_json_count(json, "set_bytes", (int64_t)page->set_bytes);
  attune__json_key(json, "contenders");
  attune__json_begin(json, '[');
  for (int i = 0; i < page->lines; i++) line_json(&page->line[i], json);
  attune__json_end(json, ']');
  attune__json_end(json, '}');
}
