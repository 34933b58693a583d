/* bench_page.h - one bench of the command line: programs of sources, timed on one problem and
 * shape, as a page that can be printed. */
#ifndef ATTUNE_CLI_BENCH_PAGE_H
#define ATTUNE_CLI_BENCH_PAGE_H

#include "../bench.h"
#include "../text.h"
#include "source.h"

enum { BENCH_MAX_LINES = 64 };

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

typedef struct bench_page {
  attune_variant variant;
  attune_shape shape;
  attune__l2 l2;
  int sets;
  size_t set_bytes;
  bench_line *line; /* BENCH_MAX_LINES of them */
  int lines;
  attune__device *device;
  attune__bench *bench;
  attune_context *context[BENCH_MAX_LINES]; /* each its own: tiles of one variant do not meet */
  int contexts;
} bench_page;

/* For the problem of a program; what its pins fix of the shape is as they say. bench_page_close is
 * due on failure too. */
attune_status bench_page_open(attune__device *device, const source *s,
                              const source_program *program, const attune_shape *shape,
                              attune__l2 l2, bench_page *out);
void bench_page_close(bench_page *page);
/* A program of a source, under a name. */
attune_status bench_page_add(bench_page *page, const source *s, const source_program *program,
                             const char *name);
/* Times the lines and fills times, figures, kernels. Ceilings are those of the device's arch, where
 * it is one to generate for. */
attune_status bench_page_time(bench_page *page, const attune__bench_options *options);

/* bench_report.c */
void bench_page_print(const bench_page *page, attune__text *out);
void bench_page_json(const bench_page *page, attune__json *json);
/* What holds for all pages: how the figures are to be read. */
void bench_legend_print(const attune__device_facts *device, int rounds, attune__text *out);

#endif
