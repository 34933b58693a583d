/* demo.c - `attune demo [1..9]`: the article's experiments, executed on the CPU device.
 *
 * Without a number all nine, one page after the other. The pages are gen/demo.c's. */
#include "../demo.h"

#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_option options[] = {
    {"--plot", "FILE", "also write the page's curves as an SVG file"},
    {NULL, NULL, NULL},
};

static attune_status write_plot(const attune__page *page, const char *path) {
  attune__text svg = {0};
  if (!page->plot.series_count)
    return attune_fail(ATTUNE_INVALID, "demo %d has no curves; 1, 3, 4, 5, 7 and 8 have",
                       page->number);
  attune__svg_draw(&page->plot, &svg);
  attune_status status = svg.failed ? attune_fail(ATTUNE_NO_MEMORY, "no memory for %s", path)
                                    : attune__file_publish(path, svg.data, svg.size);
  attune__text_free(&svg);
  return status;
}

/* One page; to `json` when that is not NULL. The exit code. */
static int show_page(const attune__demo *demo, int number, const char *plot, attune__json *json) {
  attune__page *page = malloc(sizeof *page);
  attune__text text = {0};
  if (!page) return cli_fail(attune_fail(ATTUNE_NO_MEMORY, "no memory for a page"));
  attune_status status = attune__demo_page(demo, number, page);
  if (status == ATTUNE_OK && plot) status = write_plot(page, plot);
  if (status == ATTUNE_OK && json) attune__page_json(page, json);
  if (status == ATTUNE_OK && !json) attune__page_print(page, &text);
  int failed = page->difference || page->wrong;
  attune__page_free(page);
  free(page);
  if (status != ATTUNE_OK) {
    attune__text_free(&text);
    return cli_fail(status);
  }
  int rc = json ? CLI_OK : cli_print(&text);
  return rc == CLI_OK && failed ? CLI_CHECK : rc;
}

static int show_pages(const attune__demo *demo, int first, int last, const char *plot,
                      int as_json) {
  attune__text text = {0};
  attune__json json = {.text = &text};
  int rc = CLI_OK;
  if (as_json) {
    attune__json_begin(&json, '{');
    attune__json_key(&json, "schema"), attune__json_int(&json, CLI_JSON_SCHEMA);
    attune__json_key(&json, "pages");
    attune__json_begin(&json, '[');
  }
  for (int number = first; number <= last && rc != CLI_MISSING && rc != CLI_USAGE; number++) {
    if (number > first && !as_json) printf("\n");
    int page = show_page(demo, number, plot, as_json ? &json : NULL);
    if (page != CLI_OK) rc = page;
  }
  if (!as_json) return rc;
  attune__json_end(&json, ']');
  attune__json_end(&json, '}');
  attune__text_puts(&text, "\n");
  int printed = cli_print(&text);
  return rc != CLI_OK ? rc : printed;
}

/* The number given, 1 .. 9, or both ends when there is none. */
static int read_number(const cli_args *args, int *first, int *last) {
  const char *word = args->words ? args->word[0] : NULL;
  *first = 1, *last = ATTUNE__DEMOS;
  if (!word) return 1;
  if (word[0] >= '1' && word[0] <= '0' + ATTUNE__DEMOS && !word[1])
    return *first = *last = word[0] - '0', 1;
  fprintf(stderr, "attune demo: error: %s: wanted a number from 1 to %d:\n", word, ATTUNE__DEMOS);
  for (int i = 1; i <= ATTUNE__DEMOS; i++) fprintf(stderr, "  %d  %s\n", i, attune__demo_title(i));
  return 0;
}

static int run(const cli_args *args) {
  attune__demo demo = {.cpu = attune_cpu_options_init()};
  const char *plot = cli_value(args, "--plot");
  int first, last;
  if (!read_number(args, &first, &last)) return CLI_USAGE;
  if (plot && first != last) {
    fprintf(stderr, "attune demo: error: --plot is for one demo: name its number\n");
    return CLI_USAGE;
  }
  attune_status status = attune__store_open(NULL, &demo.store);
  if (status != ATTUNE_OK) return cli_fail(status);
  int rc = show_pages(&demo, first, last, plot, args->json);
  attune__store_close(demo.store);
  return rc;
}

const cli_command cli_demo_command = {
    .name = "demo",
    .usage = "demo [1..9] [--plot FILE.svg]",
    .text = "The nine experiments of the FlashAttention article, from kernels generated and\n"
            "executed here, on the CPU device, with counted bytes and multiply-adds. A row that\n"
            "takes too long to execute is by formula, which the others confirm, and says so.",
    .options = options,
    .min_words = 0,
    .max_words = 1,
    .run = run,
};
