/* diff.c - `attune diff A B`: what differs between two sets, each a folder or a pack. */
#include "../set_diff.h"
#include "cli.h"
#include "show.h"

#include <string.h>

static const cli_option options[] = {{NULL, NULL, NULL}};

/* By attune_difference_kind. */
static const struct {
  char mark;
  const char *what, *how;
} kinds[] = {
    [ATTUNE_DIFF_KERNEL_REMOVED] = {'-', "kernel", "removed"},
    [ATTUNE_DIFF_KERNEL_ADDED] = {'+', "kernel", "added"},
    [ATTUNE_DIFF_KERNEL_CHANGED] = {'~', "kernel", "changed"},
    [ATTUNE_DIFF_ROW_REMOVED] = {'-', "row", "removed"},
    [ATTUNE_DIFF_ROW_ADDED] = {'+', "row", "added"},
    [ATTUNE_DIFF_ROW_CHANGED] = {'~', "row", "changed"},
    [ATTUNE_DIFF_MADE_BY] = {'~', "made-by", "changed"},
};

static int continues(const attune_difference *d, const attune_difference *before) {
  return before && d->kind == before->kind && d->shape_class == before->shape_class &&
         strcmp(d->name, before->name) == 0;
}

/* A line per kernel or row, its parts behind it. */
static void print_item(const attune_difference *d, const attune_difference *before,
                       attune__text *out) {
  if (continues(d, before)) {
    attune__text_puts(out, ",");
  } else {
    attune__text_printf(out, "%s%c %s", before ? "\n" : "", kinds[d->kind].mark,
                        kinds[d->kind].what);
    if (*d->name) attune__text_printf(out, " %s", d->name);
    if (d->shape_class) attune__text_printf(out, " %s", d->shape_class);
    if (d->before) attune__text_puts(out, ":");
  }
  if (d->part) attune__text_printf(out, " %s", d->part);
  if (d->before) attune__text_printf(out, " %s -> %s", d->before, d->after);
}

static void print_text(const attune_diff *diff, attune__text *out) {
  for (int i = 0; i < diff->count; i++)
    print_item(&diff->items[i], i ? &diff->items[i - 1] : NULL, out);
  if (diff->count)
    attune__text_printf(out,
                        "\nkernels: %d added, %d removed, %d changed; rows: %d added, %d removed, "
                        "%d changed\n",
                        diff->kernels_added, diff->kernels_removed, diff->kernels_changed,
                        diff->rows_added, diff->rows_removed, diff->rows_changed);
  else
    attune__text_puts(out, "the sets are equal\n");
}

static void print_json(const attune_diff *diff, attune__text *out) {
  attune__json json = {.text = out};
  attune__json_begin(&json, '{');
  show_json_count(&json, "schema", CLI_JSON_SCHEMA);
  attune__json_key(&json, "equal"), attune__json_bool(&json, !diff->count);
  attune__json_key(&json, "differences");
  attune__json_begin(&json, '[');
  for (int i = 0; i < diff->count; i++) {
    const attune_difference *d = &diff->items[i];
    attune__json_begin(&json, '{');
    show_json_text(&json, "what", kinds[d->kind].what);
    show_json_text(&json, "how", kinds[d->kind].how);
    if (*d->name) show_json_text(&json, "name", d->name);
    if (d->shape_class) show_json_text(&json, "shape_class", d->shape_class);
    if (d->part) show_json_text(&json, "part", d->part);
    if (d->before) show_json_text(&json, "before", d->before);
    if (d->after) show_json_text(&json, "after", d->after);
    attune__json_end(&json, '}');
  }
  attune__json_end(&json, ']');
  attune__json_end(&json, '}');
  attune__text_puts(out, "\n");
}

static int run(const cli_args *args) {
  attune_loaded a = {.entries = NULL}, b = {.entries = NULL};
  attune_diff diff = {.count = 0};
  attune__text text = {0};
  attune_status status = attune__loaded_read(args->word[0], &a);
  if (status == ATTUNE_OK) status = attune__loaded_read(args->word[1], &b);
  if (status == ATTUNE_OK) status = attune__set_diff(&a, &b, &diff);
  int rc = diff.count ? CLI_CHECK : CLI_OK;
  if (status != ATTUNE_OK) {
    rc = cli_fail(status);
  } else {
    args->json ? print_json(&diff, &text) : print_text(&diff, &text);
    int printed = cli_print(&text);
    if (printed != CLI_OK) rc = printed;
  }
  attune__diff_free(&diff);
  attune__loaded_free(&a);
  attune__loaded_free(&b);
  return rc;
}

const cli_command cli_diff_command = {
    .name = "diff",
    .usage = "diff A B",
    .text =
        "Compares two sets, each a folder or a pack: kernels and rows added (+), removed (-) and\n"
        "changed (~), and what of them: code, registers, smem, spills, recipe, ABI, compiler.\n"
        "Exit: 0 equal, 1 different.",
    .options = options,
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
