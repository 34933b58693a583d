/* bench_page.c - programs of sources, timed on one problem and shape.
 *
 * Input: a device, a shape, programs. Output: a page. Timing is gen/bench.c's, what a time means
 * gen/bench_figures.c's, printing bench_report.c's. */
#include "bench_page.h"

#include "../verify.h"

#include <stdio.h>
#include <stdlib.h>

attune_status bench_page_open(attune__device *device, const source *s,
                              const source_program *program, const attune_shape *shape,
                              attune__l2 l2, bench_page *out) {
  source_entries entries;
  *out = (bench_page){.variant = program->variant, .l2 = l2, .device = device};
  out->line = calloc(BENCH_MAX_LINES, sizeof *out->line);
  if (!out->line) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a page");
  attune_status status = source_entries_get(s, program, &entries);
  if (status == ATTUNE_OK)
    status = attune__bench_open(device, &out->variant, &entries.pins, shape, l2, &out->bench);
  source_entries_free(&entries);
  if (status != ATTUNE_OK) return status;
  out->shape = *attune__bench_shape(out->bench);
  out->sets = attune__bench_sets(out->bench);
  out->set_bytes = attune__bench_set_bytes(out->bench);
  return ATTUNE_OK;
}

void bench_page_close(bench_page *page) {
  attune__bench_close(page->bench);
  for (int i = 0; i < page->contexts; i++) attune_close(page->context[i]);
  free(page->line);
  *page = (bench_page){.lines = 0};
}

static attune_status add_program(bench_page *page, const source_program *p,
                                 const source_entries *entries) {
  attune_context *context;
  attune_program *program;
  attune_status status = attune_open(NULL, &context);
  if (status != ATTUNE_OK) return status;
  page->context[page->contexts++] = context;
  status =
      attune__verify_open(context, &p->variant, &entries->pins, (const void *const *)entries->bytes,
                          entries->size, entries->count, &program);
  return status == ATTUNE_OK ? attune__bench_add(page->bench, program) : status;
}

attune_status bench_page_add(bench_page *page, const source *s, const source_program *program,
                             const char *name) {
  source_entries entries;
  if (page->contexts == BENCH_MAX_LINES)
    return attune_fail(ATTUNE_INVALID, "more than %d kernels of one problem", BENCH_MAX_LINES);
  attune_status status = source_entries_get(s, program, &entries);
  if (status == ATTUNE_OK) status = add_program(page, program, &entries);
  source_entries_free(&entries);
  if (status != ATTUNE_OK) return status;
  bench_line *line = &page->line[page->lines++];
  snprintf(line->name, sizeof line->name, "%s", name);
  return ATTUNE_OK;
}

/* A contender's kernels, and what its time means. */
static void describe(const bench_page *page, int contender, bench_line *out) {
  const attune__bench *bench = page->bench;
  const attune_entry *entries[ATTUNE_MAX_PARTS] = {attune__bench_entry(bench, contender, 0)};
  out->parts = attune__bench_parts(bench, contender);
  for (int i = 0; i < out->parts; i++) {
    const attune_entry *entry = entries[i] = attune__bench_entry(bench, contender, i);
    bench_part *part = &out->part[i];
    snprintf(part->name, sizeof part->name, "%s", entry->name);
    part->registers = (int)entry->facts.registers;
    part->spill_bytes = (int)entry->facts.spill_bytes;
    part->threads = (int)entry->recipe.threads;
    part->smem_bytes = (int)entry->recipe.smem_bytes;
    part->blocks_per_sm = attune__bench_occupancy(bench, contender, i);
  }
  uint32_t here = page->device->facts.arch;
  uint32_t arch = attune__board(here) ? here : entries[0]->variant.arch;
  attune__bench_figures_of(entries, out->parts, arch, &page->shape, out->time.median,
                           &out->figures);
}

attune_status bench_page_time(bench_page *page, const attune__bench_options *options) {
  attune__bench_time times[BENCH_MAX_LINES];
  attune_status status = attune__bench_times(page->bench, options, times);
  for (int i = 0; i < page->lines && status == ATTUNE_OK; i++) {
    page->line[i].time = times[i];
    describe(page, i, &page->line[i]);
  }
  return status;
}
