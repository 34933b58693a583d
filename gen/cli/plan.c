/* plan.c - `attune plan`: how large a tile should be for one problem and one budget.
 *
 * Two tables: the article's, of square blocks by its own way of counting (--model article), and
 * that of the tiles attune has, with the bytes that its kernels move. */
#include "../plan.h"
#include "cli.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_option options[] = {
    {"--dtype", "T", "fp32, fp16 or bf16"},
    {"--head-dim", "D", "64, or 192x128 for Q and K, and V"},
    {"--seq", "N", "queries and keys per head"},
    {"--sram", "B", "shared memory of a block, as 96KB; default: all that the arch's board offers"},
    {"--arch", "A", "default sm_80"},
    {"--mask", "M", "none, causal or window; default none"},
    {"--window", "L", "keys that mask window keeps to the left; default 512"},
    {"--batch", "N", "default 1"},
    {"--heads", "N", "default 1"},
    {"--all", NULL, "every tile, not a dozen that fit and a dozen that don't"},
    {"--model", "M", "article: square blocks, counted as the article does"},
    {NULL, NULL, NULL},
};

static const char bad_value[] = "%s %s: wanted %s";

/* "64" or "192x128". */
static int parse_head_dim(const char *text, int32_t *qk, int32_t *v) {
  char *end;
  long first = strtol(text, &end, 10), second = first;
  if (*end == 'x') second = strtol(end + 1, &end, 10);
  *qk = (int32_t)first, *v = (int32_t)second;
  return !*end && first > 0 && first <= 65535 && second > 0 && second <= 65535;
}

/* Options -> variant, with every value checked by name. */
static attune_status read_variant(const cli_args *args, attune_variant *out) {
  const char *dtype = cli_value(args, "--dtype"), *dim = cli_value(args, "--head-dim");
  const char *mask = cli_value(args, "--mask"), *arch = cli_value(args, "--arch");
  attune_problem problem = attune_problem_init();
  if (!dtype || !dim || !cli_value(args, "--seq"))
    return attune_fail(ATTUNE_INVALID, "plan needs --dtype, --head-dim and --seq");
  problem.op = ATTUNE_OP_ATTN_FWD;
  problem.dtype_q = (attune_dtype)attune__dtype_parse(dtype);
  problem.mask = (attune_mask)attune__mask_parse(mask ? mask : "none");
  uint32_t number = attune__arch_parse(arch ? arch : "sm_80");
  if (!problem.dtype_q)
    return attune_fail(ATTUNE_INVALID, bad_value, "--dtype", dtype, "fp32, fp16 or bf16");
  if (!problem.mask)
    return attune_fail(ATTUNE_INVALID, bad_value, "--mask", mask, "none, causal or window");
  if (!number) return attune_fail(ATTUNE_INVALID, bad_value, "--arch", arch, "one like sm_80");
  if (!parse_head_dim(dim, &problem.head_dim_qk, &problem.head_dim_v))
    return attune_fail(ATTUNE_INVALID, bad_value, "--head-dim", dim, "one like 64 or 192x128");
  return attune__variant_of(&problem, number, out);
}

static int read_shape(const cli_args *args, attune_shape *out) {
  *out = (attune_shape){.batch = 1, .heads_q = 1, .window_left = 512};
  out->corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  int64_t longest = 1 << 24; /* keys; far beyond any model's context */
  int ok = cli_int(args, "--seq", 1, longest, &out->len_q) &&
           cli_int(args, "--batch", 1, 1 << 20, &out->batch) &&
           cli_int(args, "--heads", 1, 1 << 20, &out->heads_q) &&
           cli_int(args, "--window", 0, longest, &out->window_left);
  out->heads_kv = out->heads_q, out->len_k = out->len_q;
  return ok;
}

/* ---- the article's table ------------------------------------------------------------------- */

enum { ARTICLE_FIRST = 16, ARTICLE_LAST = 1024 };

/* The largest block that fits, 0 when none does. */
static int64_t article_choice(const attune_plan_request *r) {
  int bytes = attune__dtype_bytes(r->variant.dtype_q);
  int64_t best = 0;
  for (int64_t block = ARTICLE_FIRST; block <= ARTICLE_LAST; block *= 2)
    if (attune__article_working_set(block, r->variant.head_dim_qk, bytes) <= r->budget)
      best = block;
  return best;
}

static void article_text(const attune_plan_request *r, attune__text *out) {
  int bytes = attune__dtype_bytes(r->variant.dtype_q), d = r->variant.head_dim_qk;
  int64_t n = r->shape.len_q, best = article_choice(r);
  attune__text_printf(out, "n = %lld, d = %d, %s, SRAM budget ", (long long)n, d,
                      attune__dtype_name(r->variant.dtype_q));
  show_fixed(out, 0, r->budget / 1024.0, r->budget % 1024 ? 1 : 0);
  attune__text_puts(out, " KB, counted as the article does\nstandard attention traffic: ");
  show_fixed(out, 0, attune__article_standard_traffic(n, d, bytes) / 1048576, 2);
  attune__text_puts(out, " MB\n\n  block     HBM MB   tile working set KB  fits SRAM?\n");
  for (int64_t block = ARTICLE_FIRST; block <= ARTICLE_LAST; block *= 2) {
    double set = attune__article_working_set(block, d, bytes);
    attune__text_printf(out, "%7lld", (long long)block);
    show_fixed(out, 11, attune__article_traffic(n, block, d, bytes) / 1048576, 2);
    show_fixed(out, 22, set / 1024, 1);
    attune__text_puts(out, set <= r->budget ? "  yes\n" : "  NO -- spills\n");
  }
  if (best)
    attune__text_printf(out, "\nblock %lld: the largest that still fits\n", (long long)best);
  else
    attune__text_puts(out, "\nno block fits\n");
  attune__text_puts(out, "The article's model of one head; nothing here is measured.\n");
}

static void article_json(const attune_plan_request *r, attune__json *json) {
  int bytes = attune__dtype_bytes(r->variant.dtype_q), d = r->variant.head_dim_qk;
  show_json_text(json, "model", "article");
  show_json_count(json, "budget", r->budget);
  show_json_real(json, "standard_bytes",
                 attune__article_standard_traffic(r->shape.len_q, d, bytes));
  show_json_count(json, "choice", article_choice(r));
  attune__json_key(json, "blocks");
  attune__json_begin(json, '[');
  for (int64_t block = ARTICLE_FIRST; block <= ARTICLE_LAST; block *= 2) {
    double set = attune__article_working_set(block, d, bytes);
    attune__json_begin(json, '{');
    show_json_count(json, "block", block);
    show_json_real(json, "traffic_bytes", attune__article_traffic(r->shape.len_q, block, d, bytes));
    show_json_real(json, "working_set_bytes", set);
    attune__json_key(json, "fits");
    attune__json_bool(json, set <= r->budget);
    attune__json_end(json, '}');
  }
  attune__json_end(json, ']');
}

/* ---- our tiles ----------------------------------------------------------------------------- */

static void tile_line(const attune_plan *plan, const attune_candidate *c, attune__text *out) {
  const attune_plan_request *r = &plan->request;
  attune_traffic traffic;
  attune__model(r->variant.op, r->variant.part, c->tile.family)
      ->traffic(&r->variant, &c->tile, &r->shape, &traffic);
  attune__text_printf(out, "%4d x %-4d %-20s", c->tile.block_m, c->tile.block_n, c->name);
  show_fixed(out, 10, traffic.requested / 1048576, 2);
  show_fixed(out, 12, traffic.compulsory / 1048576, 2);
  show_grouped(out, 13, c->ledger.bytes);
  attune__text_printf(out, "%11d", c->registers);
  if (c->legal) {
    show_fixed(out, 12, show_microseconds(r->board, c->cost.total), 1);
    attune__text_puts(out, "  yes\n");
  } else {
    attune__text_printf(out, "           -  NO -- %s\n", c->reason);
  }
}

enum { SHOWN = 12 }; /* tiles that fit, and tiles that don't, without --all */

static void tile_lines(const attune_plan *plan, int first, int end, int all, attune__text *out) {
  int shown = all || end - first < SHOWN ? end : first + SHOWN;
  for (int i = first; i < shown; i++) tile_line(plan, &plan->candidates[i], out);
  if (shown < end) attune__text_printf(out, "%13s%d more: --all\n", "", end - shown);
}

static void tiles_text(const attune_plan *plan, int all, attune__text *out) {
  const attune_plan_request *r = &plan->request;
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&r->variant, 1, name);
  attune__text_printf(out, "%s: ", name);
  show_shape(out, &r->variant, &r->shape);
  attune__text_puts(out, "\nbudget ");
  show_grouped(out, 0, attune__plan_budget(r));
  attune__text_puts(out, " bytes of shared memory a block\n");
  show_model_note(out, r->board);
  attune__text_puts(out, "\n                              device memory, MB\n"
                         "      block  tile                 requested  compulsory  working set  "
                         "registers    model us  fits\n");
  tile_lines(plan, 0, plan->legal_count, all, out);
  tile_lines(plan, plan->legal_count, plan->count, all, out);
  show_refused(out, plan);
  if (plan->legal_count)
    attune__text_printf(out, "\nfirst choice: %s__%s\n", name, plan->candidates[0].name);
}

static void tiles_json(const attune_plan *plan, attune__json *json) {
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&plan->request.variant, 1, name);
  show_json_text(json, "model", "attune");
  show_json_text(json, "variant", name);
  show_json_request(json, plan);
  attune__json_key(json, "candidates");
  attune__json_begin(json, '[');
  for (int i = 0; i < plan->count; i++) show_json_candidate(json, plan, &plan->candidates[i]);
  attune__json_end(json, ']');
}

/* ---- the command --------------------------------------------------------------------------- */

static int print_article(const cli_args *args, const attune_plan_request *request) {
  attune__text text = {0};
  attune__json json = {.text = &text};
  if (args->json) {
    attune__json_begin(&json, '{');
    show_json_count(&json, "schema", CLI_JSON_SCHEMA);
    article_json(request, &json);
    attune__json_end(&json, '}');
    attune__text_puts(&text, "\n");
  } else {
    article_text(request, &text);
  }
  return cli_print(&text);
}

/* The table is printed even where nothing fits; the exit code then says so. */
static int print_tiles(const cli_args *args, const attune_plan_request *request) {
  attune_plan plan;
  attune__text text = {0};
  attune__json json = {.text = &text};
  attune_status status = attune__plan_make(request, &plan);
  if (status != ATTUNE_OK && status != ATTUNE_NO_FIT) return cli_fail(status);
  if (args->json) {
    attune__json_begin(&json, '{');
    show_json_count(&json, "schema", CLI_JSON_SCHEMA);
    tiles_json(&plan, &json);
    attune__json_end(&json, '}');
    attune__text_puts(&text, "\n");
  } else {
    tiles_text(&plan, cli_value(args, "--all") != NULL, &text);
  }
  int failed = status == ATTUNE_OK ? CLI_OK : cli_fail(status);
  attune__plan_free(&plan);
  int printed = cli_print(&text);
  return printed != CLI_OK ? printed : failed;
}

static int run(const cli_args *args) {
  attune_plan_request request = {.family = 0};
  const char *model = cli_value(args, "--model");
  attune_status status = read_variant(args, &request.variant);
  if (status == ATTUNE_OK) status = attune__generated(&request.variant);
  if (status == ATTUNE_OK && model && strcmp(model, "article") != 0)
    status = attune_fail(ATTUNE_INVALID, bad_value, "--model", model, "article");
  if (status != ATTUNE_OK) return cli_fail(status);
  if (!cli_bytes(args, "--sram", &request.budget) || !read_shape(args, &request.shape))
    return CLI_USAGE;
  request.board = attune__board(request.variant.arch);
  if (!model) return print_tiles(args, &request);
  if (!request.budget) request.budget = (uint32_t)request.board->smem_block;
  return print_article(args, &request);
}

const cli_command cli_plan_command = {
    .name = "plan",
    .usage = "plan --dtype T --head-dim D --seq N [--sram B] [--arch A] [--model article] ...",
    .text =
        "Shows the tiles of one problem: device-memory traffic, shared memory, whether they fit\n"
        "the budget and why not, best first.",
    .options = options,
    .min_words = 0,
    .max_words = 0,
    .run = run,
};
