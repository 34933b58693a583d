/* set_diff.c - two sets compared: names added and removed, and which part of a kernel or row
 * changed.
 *
 * Input: two loaded sets. Output: a list of differences. Two kernels of one name have the same
 * fields and pins, so only what was compiled and how it launches can differ. */
#include "set_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fields of a recipe and of the facts; all are uint32. */
static const struct {
  const char *name;
  size_t at;
} numbers[] = {{"ABI", offsetof(attune_entry, recipe.abi)},
               {"parameter bytes", offsetof(attune_entry, recipe.param_bytes)},
               {"threads", offsetof(attune_entry, recipe.threads)},
               {"smem", offsetof(attune_entry, recipe.smem_bytes)},
               {"grid", offsetof(attune_entry, recipe.grid)},
               {"block_m", offsetof(attune_entry, recipe.block_m)},
               {"block_n", offsetof(attune_entry, recipe.block_n)},
               {"cluster", offsetof(attune_entry, recipe.cluster)},
               {"workspace", offsetof(attune_entry, recipe.workspace)},
               {"persistent", offsetof(attune_entry, recipe.persistent)},
               {"early", offsetof(attune_entry, recipe.early)},
               {"maps", offsetof(attune_entry, recipe.maps)},
               {"rows of Q's box", offsetof(attune_entry, recipe.box[ATTUNE_MAP_Q].rows)},
               {"columns of Q's box", offsetof(attune_entry, recipe.box[ATTUNE_MAP_Q].columns)},
               {"rows of K's box", offsetof(attune_entry, recipe.box[ATTUNE_MAP_K].rows)},
               {"columns of K's box", offsetof(attune_entry, recipe.box[ATTUNE_MAP_K].columns)},
               {"rows of V's box", offsetof(attune_entry, recipe.box[ATTUNE_MAP_V].rows)},
               {"columns of V's box", offsetof(attune_entry, recipe.box[ATTUNE_MAP_V].columns)},
               {"rows of O's box", offsetof(attune_entry, recipe.box[ATTUNE_MAP_O].rows)},
               {"columns of O's box", offsetof(attune_entry, recipe.box[ATTUNE_MAP_O].columns)},
               {"registers", offsetof(attune_entry, facts.registers)},
               {"spills", offsetof(attune_entry, facts.spill_bytes)},
               {"stack", offsetof(attune_entry, facts.stack_bytes)},
               {"static smem", offsetof(attune_entry, facts.static_smem)},
               {"C75xx lines", offsetof(attune_entry, facts.c75_lines)}};
enum { NUMBERS = sizeof numbers / sizeof *numbers };
_Static_assert(sizeof(attune_recipe) + sizeof(attune_facts) == NUMBERS * sizeof(uint32_t),
               "a field of the recipe or the facts is missing in numbers[]");

static const char *const payload_names[ATTUNE_PAYLOADS] = {"code", "PTX", "source"};

static attune_status no_memory(void) {
  return attune_fail(ATTUNE_NO_MEMORY, "no memory for the differences of two sets");
}

/* ---- the list ------------------------------------------------------------------------------ */

static int *counter(attune_diff *diff, attune_difference_kind kind) {
  switch (kind) {
    case ATTUNE_DIFF_KERNEL_REMOVED:
      return &diff->kernels_removed;
    case ATTUNE_DIFF_KERNEL_ADDED:
      return &diff->kernels_added;
    case ATTUNE_DIFF_KERNEL_CHANGED:
      return &diff->kernels_changed;
    case ATTUNE_DIFF_ROW_REMOVED:
      return &diff->rows_removed;
    case ATTUNE_DIFF_ROW_ADDED:
      return &diff->rows_added;
    case ATTUNE_DIFF_ROW_CHANGED:
      return &diff->rows_changed;
    case ATTUNE_DIFF_MADE_BY:
      break;
  }
  return NULL;
}

/* Parts of the same thing come one behind the other: it is counted once. */
static int is_new(const attune_diff *diff, const attune_difference *d) {
  const attune_difference *last = diff->count ? &diff->items[diff->count - 1] : NULL;
  return !last || last->kind != d->kind || strcmp(last->name, d->name) != 0 ||
         last->shape_class != d->shape_class;
}

/* Copies before and after; NULL stays NULL. */
static attune_status add(attune_diff *diff, attune_difference d) {
  attune_difference *items = realloc(diff->items, ((size_t)diff->count + 1) * sizeof *items);
  if (!items) return no_memory();
  diff->items = items;
  int *count = counter(diff, d.kind);
  if (count) *count += is_new(diff, &d);
  const char *before = d.before, *after = d.after;
  d.before = before ? strdup(before) : NULL;
  d.after = after ? strdup(after) : NULL;
  diff->items[diff->count++] = d;
  return (before && !d.before) || (after && !d.after) ? no_memory() : ATTUNE_OK;
}

void attune__diff_free(attune_diff *diff) {
  for (int i = 0; i < diff->count; i++) free(diff->items[i].before), free(diff->items[i].after);
  free(diff->items);
  memset(diff, 0, sizeof *diff);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static attune_difference of_kernel(attune_difference_kind kind, const char *name) {
  attune_difference d = {.kind = kind};
  snprintf(d.name, sizeof d.name, "%s", name);
  return d;
}

static attune_status add_part(attune_diff *diff, const char *name, const char *part, char *before,
                              char *after) {
  attune_difference d = of_kernel(ATTUNE_DIFF_KERNEL_CHANGED, name);
  d.part = part, d.before = before, d.after = after;
  return add(diff, d);
}

static uint32_t number_of(const attune_entry *entry, int i) {
  uint32_t value;
  memcpy(&value, (const char *)entry + numbers[i].at, sizeof value);
  return value;
}

/* "12,345 bytes 0123456789ab" of what is stored; "none". */
static void describe(const attune_entry *entry, int payload, char out[64]) {
  char digest[65];
  if (!entry->payload[payload].data) {
    snprintf(out, 64, "none");
    return;
  }
  attune__sha256_hex(entry->payload[payload].data, entry->payload[payload].bytes, digest);
  snprintf(out, 64, "%zu bytes %.12s", entry->payload[payload].raw_bytes, digest);
}

static attune_status compare_entries(attune_diff *diff, const attune_entry *a,
                                     const attune_entry *b) {
  char before[64], after[64];
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < ATTUNE_PAYLOADS && !status; i++) {
    describe(a, i, before), describe(b, i, after);
    if (strcmp(before, after) != 0)
      status = add_part(diff, a->name, payload_names[i], before, after);
  }
  for (int i = 0; i < NUMBERS && !status; i++) {
    if (number_of(a, i) == number_of(b, i)) continue;
    snprintf(before, sizeof before, "%u", number_of(a, i));
    snprintf(after, sizeof after, "%u", number_of(b, i));
    status = add_part(diff, a->name, numbers[i].name, before, after);
  }
  if (status || strcmp(a->compiler, b->compiler) == 0) return status;
  snprintf(before, sizeof before, "%s", a->compiler);
  snprintf(after, sizeof after, "%s", b->compiler);
  return add_part(diff, a->name, "compiler", before, after);
}

/* Both lists are sorted by name. */
static attune_status compare_kernels(attune_diff *diff, const attune_loaded *a,
                                     const attune_loaded *b) {
  attune_status status = ATTUNE_OK;
  for (int i = 0, j = 0; (i < a->set.kernel_count || j < b->set.kernel_count) && !status;) {
    const char *left = i < a->set.kernel_count ? a->set.kernels[i].name : NULL;
    const char *right = j < b->set.kernel_count ? b->set.kernels[j].name : NULL;
    int order = !left ? 1 : !right ? -1 : strcmp(left, right);
    if (order < 0)
      status = add(diff, of_kernel(ATTUNE_DIFF_KERNEL_REMOVED, left));
    else if (order > 0)
      status = add(diff, of_kernel(ATTUNE_DIFF_KERNEL_ADDED, right));
    else
      status = compare_entries(diff, &a->entries[i], &b->entries[j]);
    i += order <= 0, j += order >= 0;
  }
  return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const attune__set_row *find_row(const attune__set *set, const attune__set_row *like) {
  for (int i = 0; i < set->row_count; i++)
    if (set->rows[i].cls == like->cls && set->rows[i].max_len_k == like->max_len_k &&
        memcmp(&set->rows[i].variant, &like->variant, sizeof like->variant) == 0)
      return &set->rows[i];
  return NULL;
}

static attune_difference of_row(attune_difference_kind kind, const attune__set_row *row) {
  attune_difference d = {.kind = kind, .shape_class = attune__class_name((int)row->cls)};
  attune__variant_name(&row->variant, 1, d.name);
  return d;
}

static void print_kernels(const attune__set *set, const attune__set_row *row, attune__text *out) {
  for (int i = 0; i < row->kernel_count; i++)
    attune__text_printf(out, "%s%s", i ? " " : "", set->kernels[row->kernel[i]].name);
}

static attune_status compare_row_kernels(attune_diff *diff, const attune_loaded *a,
                                         const attune__set_row *left, const attune_loaded *b,
                                         const attune__set_row *right) {
  attune__text before = {0}, after = {0};
  print_kernels(&a->set, left, &before), print_kernels(&b->set, right, &after);
  attune_status status = ATTUNE_OK;
  if (before.failed || after.failed || !before.data || !after.data) {
    status = no_memory();
  } else if (strcmp(before.data, after.data) != 0) {
    attune_difference d = of_row(ATTUNE_DIFF_ROW_CHANGED, left);
    d.part = "kernels", d.before = before.data, d.after = after.data;
    status = add(diff, d);
  }
  attune__text_free(&before), attune__text_free(&after);
  return status;
}

static attune_status compare_corners(attune_diff *diff, const attune__set_row *left,
                                     const attune__set_row *right) {
  char before[32], after[32];
  if (left->corner == right->corner) return ATTUNE_OK;
  snprintf(before, sizeof before, "%s",
           left->corner ? attune__corner_name((int)left->corner) : "-");
  snprintf(after, sizeof after, "%s",
           right->corner ? attune__corner_name((int)right->corner) : "-");
  attune_difference d = of_row(ATTUNE_DIFF_ROW_CHANGED, left);
  d.part = "corner", d.before = before, d.after = after;
  return add(diff, d);
}

static attune_status compare_rows(attune_diff *diff, const attune_loaded *a,
                                  const attune_loaded *b) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < a->set.row_count && !status; i++) {
    const attune__set_row *left = &a->set.rows[i], *right = find_row(&b->set, left);
    if (!right) {
      status = add(diff, of_row(ATTUNE_DIFF_ROW_REMOVED, left));
      continue;
    }
    status = compare_row_kernels(diff, a, left, b, right);
    if (!status) status = compare_corners(diff, left, right);
  }
  for (int i = 0; i < b->set.row_count && !status; i++)
    if (!find_row(&a->set, &b->set.rows[i]))
      status = add(diff, of_row(ATTUNE_DIFF_ROW_ADDED, &b->set.rows[i]));
  return status;
}

attune_status attune__set_diff(const attune_loaded *a, const attune_loaded *b, attune_diff *out) {
  char before[sizeof a->set.made_by], after[sizeof b->set.made_by];
  memset(out, 0, sizeof *out);
  attune_status status = ATTUNE_OK;
  if (strcmp(a->set.made_by, b->set.made_by) != 0) {
    memcpy(before, a->set.made_by, sizeof before), memcpy(after, b->set.made_by, sizeof after);
    status = add(
        out, (attune_difference){.kind = ATTUNE_DIFF_MADE_BY, .before = before, .after = after});
  }
  if (!status) status = compare_kernels(out, a, b);
  if (!status) status = compare_rows(out, a, b);
  if (status) attune__diff_free(out);
  return status;
}
