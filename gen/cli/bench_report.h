/* bench_report.h - the times of one bench as a table and as JSON: what `attune bench` and
 * `attune verify --source` print. */
#ifndef ATTUNE_CLI_BENCH_REPORT_H
#define ATTUNE_CLI_BENCH_REPORT_H

#include "../bench.h"
#include "../text.h"

typedef struct bench_part {
  char name[ATTUNE_NAME_MAX];
  int registers, threads, smem_bytes, spill_bytes;
  int blocks_per_sm; /* 0: unknown */
} bench_part;

/* One contender. */
typedef struct bench_line {
  char name[ATTUNE_NAME_MAX + 16];
  attune__bench_time time; /* status not OK: there is none, .error says why */
  attune__bench_figures figures;
  bench_part part[ATTUNE_MAX_PARTS];
  int parts;
} bench_line;

/* Contenders of one problem on one shape. */
typedef struct bench_page {
  attune_variant variant;
  attune_shape shape;
  attune__l2 l2;
  int sets;
  size_t set_bytes;
  bench_line *line;
  int lines;
} bench_page;

/* Runs a bench whose contenders are the page's lines in that order, and fills times, figures,
 * kernels. Ceilings are those of the device's arch, where it is one to generate for. */
attune_status bench_page_time(attune__bench *bench, const attune__bench_options *options,
                              const attune__device_facts *device, bench_page *page);
void bench_page_print(const bench_page *page, attune__text *out);
void bench_page_json(const bench_page *page, attune__json *json);
/* What holds for all pages: how the figures are to be read. */
void bench_legend_print(const attune__device_facts *device, int rounds, attune__text *out);

#endif
