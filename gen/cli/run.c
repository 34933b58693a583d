/* run.c - `attune run SPEC`: build, show, verify in a row; what `make run` calls.
 *
 * Building and verifying are those commands themselves. Shown are the facts of the set's entries
 * and the bytes that the planner's formulas give for a stated shape. */
#include "../../runtime/device.h"
#include "../../runtime/set.h"
#include "../plan.h"
#include "cli.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const cli_command cli_build_command, cli_verify_command;

static const cli_option options[] = {
    {"-o", "DIR", "folder of the set; default: build/sets/run"},
    {"--arch", "A", "for this arch instead of the spec's; default with a GPU: native"},
    {"--device", "D", "cuda or cpu; default: cuda where there is a GPU"},
    {"--checks", "on|off", "on the CPU device: off for speed; default on"},
    {NULL, NULL, NULL},
};

/* Of the shape with what the kernel pins of it. */
static attune_traffic traffic_of(const attune_entry *entry, const attune_shape *shape) {
  const attune_shape pinned = attune__shape_pinned(shape, &entry->pins);
  attune_traffic traffic = {.count = 0};
  const attune_model *model =
      attune__model(entry->variant.op, entry->variant.part, entry->tile.family);
  if (model) model->traffic(&entry->variant, &entry->tile, &pinned, &traffic);
  return traffic;
}

static void show_kernel(const attune_entry *entry, const attune_shape *shape, int width,
                        attune__text *out) {
  attune_traffic traffic = traffic_of(entry, shape);
  attune__text_printf(out, "%-*s  %3d x %-3d  %9u  ", width, entry->name, entry->tile.block_m,
                      entry->tile.block_n, entry->facts.registers);
  show_grouped(out, 8, entry->recipe.smem_bytes);
  show_fixed(out, 12, traffic.requested / 1e6, 1);
  show_fixed(out, 12, traffic.compulsory / 1e6, 1);
  attune__text_puts(out, "\n");
}

static void kernel_json(const attune_entry *entry, const attune_shape *shape, attune__json *json) {
  attune_traffic traffic = traffic_of(entry, shape);
  attune__json_begin(json, '{');
  show_json_text(json, "name", entry->name);
  show_json_tile(json, &entry->tile);
  show_json_count(json, "registers", entry->facts.registers);
  show_json_count(json, "smem_bytes", entry->recipe.smem_bytes);
  show_json_traffic(json, &traffic);
  const attune_shape pinned = attune__shape_pinned(shape, &entry->pins);
  show_json_shape(json, &pinned);
  attune__json_end(json, '}');
}

/* Each entry of the set, to one of the two above; json NULL: to text. */
static attune_status each_kernel(const attune__set *set, const attune_shape *shape, int width,
                                 attune__text *text, attune__json *json) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < set->kernel_count && status == ATTUNE_OK; i++) {
    attune_entry entry;
    void *bytes = NULL;
    status = attune__set_entry(set, i, &bytes, &entry);
    if (status == ATTUNE_OK && json) kernel_json(&entry, shape, json);
    if (status == ATTUNE_OK && !json) show_kernel(&entry, shape, width, text);
    free(bytes);
  }
  return status;
}

static int has_pins(const attune__set *set) {
  for (int i = 0; i < set->row_count; i++)
    if (set->rows[i].variant.pins) return 1;
  return 0;
}

static attune_status show_table(const attune__set *set, const attune_shape *shape,
                                attune__text *out) {
  int width = 6;
  for (int i = 0; i < set->kernel_count; i++)
    if ((int)strlen(set->kernels[i].name) > width) width = (int)strlen(set->kernels[i].name);
  attune__text_printf(out, "\n%-*s  %9s  %9s  %8s%12s%12s\n", width, "kernel", "tile", "registers",
                      "shared B", "MB moved", "MB at least");
  attune_status status = each_kernel(set, shape, width, out, NULL);
  attune__text_puts(out, "MB = 10^6 bytes of device memory by formula, for ");
  show_shape(out, &(attune_variant){.mask = ATTUNE_MASK_NONE}, shape);
  attune__text_printf(out,
                      " (window masks: %d to the left, %d to the right)%s:\n"
                      "moved = loaded and stored by all blocks; at least = each byte once.\n",
                      (int)shape->window_left, (int)shape->window_right,
                      has_pins(set) ? ", but for what a kernel pins" : "");
  return status;
}

static attune_status show_json(const attune__set *set, const attune_shape *shape,
                               attune__text *out) {
  attune__json json = {.text = out};
  attune__json_begin(&json, '{');
  show_json_count(&json, "schema", CLI_JSON_SCHEMA);
  show_json_text(&json, "set", set->path);
  show_json_shape(&json, shape);
  attune__json_key(&json, "kernels");
  attune__json_begin(&json, '[');
  attune_status status = each_kernel(set, shape, 0, out, &json);
  attune__json_end(&json, ']');
  attune__json_end(&json, '}');
  attune__text_puts(out, "\n");
  return status;
}

static int show(const char *folder, int as_json) {
  attune__set set = {0};
  attune__text text = {0};
  attune_shape shape = attune__plan_shape(ATTUNE_CLASS_ANY);
  attune_status status = attune__set_read(folder, &set);
  if (status == ATTUNE_OK)
    status = as_json ? show_json(&set, &shape, &text) : show_table(&set, &shape, &text);
  attune__set_free(&set);
  if (status == ATTUNE_OK) return cli_print(&text);
  attune__text_free(&text);
  return cli_fail(status);
}

static int build(const char *spec, const char *folder, const char *arch, int as_json) {
  const char *words[6] = {spec, "-o", folder};
  int count = 3;
  if (arch) words[count++] = "--arch", words[count++] = arch;
  if (as_json) words[count++] = "--json";
  return cli_run(&cli_build_command, count, (char **)words);
}

/* With run's own options for it. */
static int verify(const char *what, const cli_args *args) {
  static const char *const handed_on[] = {"--device", "--checks", NULL};
  const char *words[6] = {what};
  int count = 1;
  for (int i = 0; handed_on[i]; i++) {
    const char *value = cli_value(args, handed_on[i]);
    if (value) words[count++] = handed_on[i], words[count++] = value;
  }
  if (args->json) words[count++] = "--json";
  return cli_run(&cli_verify_command, count, (char **)words);
}

static int have_gpu(void) {
  attune__device *device;
  if (attune__cuda_open(0, &device) != ATTUNE_OK) return 0;
  device->ops->close(device);
  return 1;
}

/* Not a file: a kernel's or variant's name, for verify alone. */
static int is_name(const char *word) {
  return access(word, F_OK) != 0 && !strchr(word, '.') && !strchr(word, '/');
}

static int run(const cli_args *args) {
  const char *folder = cli_value(args, "-o"), *arch = cli_value(args, "--arch");
  const char *device = cli_value(args, "--device");
  if (is_name(args->word[0])) return verify(args->word[0], args);
  if (!folder) folder = "build/sets/run";
  if (!arch && !(device && !strcmp(device, "cpu")) && have_gpu()) arch = "native";
  int rc = build(args->word[0], folder, arch, args->json);
  if (rc == CLI_OK) rc = show(folder, args->json);
  return rc == CLI_OK ? verify(folder, args) : rc;
}

const cli_command cli_run_command = {
    .name = "run",
    .usage = "run SPEC|NAME [-o DIR] [--arch A] [--device cuda|cpu] [--checks on|off]",
    .text = "Builds the set of a spec where that is needed, shows each kernel, and verifies them,\n"
            "without a GPU on the CPU device. A name is verified alone. With --json: an object a\n"
            "line, of build, run and verify.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
