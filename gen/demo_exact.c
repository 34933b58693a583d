/* demo_exact.c - the experiments about what comes out: the rescale, a window against exact
 * attention, scores that overflow.
 *
 * Input: right and wrong kernels, executed on the same data. Output: pages. To show softmax weights
 * a kernel gets the identity as V: then O is the weights, row by row. */
#include "demo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char arch[] = "sm_80";

/* ---- weights of one row -------------------------------------------------------------------- */

enum { WEIGHTS_MAX = 64 };

/* A row of scores: q = e0 and k_j = score_j e0, so that q . k_j is the score itself. */
typedef struct weights {
  int count, dim;
  float score[WEIGHTS_MAX];
  double exact[WEIGHTS_MAX], lse; /* softmax in float64 */
  float q[WEIGHTS_MAX], k[WEIGHTS_MAX * WEIGHTS_MAX], v[WEIGHTS_MAX * WEIGHTS_MAX];
} weights;

static void fill_weights(weights *w) {
  double largest = -INFINITY, sum = 0;
  w->q[0] = 1;
  for (int j = 0; j < w->count; j++) {
    w->k[j * w->dim] = w->score[j];
    w->v[j * w->dim + j] = 1;
    largest = fmax(largest, (double)w->score[j]);
  }
  for (int j = 0; j < w->count; j++) sum += w->exact[j] = exp((double)w->score[j] - largest);
  for (int j = 0; j < w->count; j++) w->exact[j] /= sum;
  w->lse = largest + log(sum);
}

/* The weights as a kernel computes them, keys by 16, and its LSE. */
static attune_status run_weights(const attune__demo *demo, int op, uint32_t features,
                                 const weights *w, float *out, float *lse, attune__page *page) {
  attune__trial_run run = {.o = NULL};
  attune_tile tile = attune__demo_tile(16, 16, 2);
  attune_status status =
      attune__demo_kernels(arch, op, features, ATTUNE_MASK_NONE, w->dim, &tile, &run);
  if (status != ATTUNE_OK) return status;
  attune__text_printf(&page->subject, "  %s\n", run.kernel[0].name);
  run.shape = attune__demo_shape(w->count);
  run.shape.len_q = 1;
  attune__probe_data data = {.q = w->q, .k = w->k, .v = w->v, .scale = 1};
  status = attune__demo_execute(demo, &data, 1, &run, page);
  if (status == ATTUNE_OK) memcpy(out, run.o, (size_t)w->count * sizeof *out), *lse = run.lse[0];
  attune__demo_free(&run);
  return status;
}

/* A row of the table: a word, the first weights, the sum of exp(score - LSE), the largest error. */
static double add_weights_row(attune__page_table *table, const char *word,
                              attune__row_source source, const double *value, double lse,
                              const weights *w, int shown) {
  double cells[ATTUNE__TABLE_COLUMNS] = {0}, sum = 0, error = 0;
  for (int j = 0; j < w->count; j++) {
    double off = fabs(value[j] - w->exact[j]);
    sum += exp((double)w->score[j] - lse);
    if (!(off <= error)) error = off;
  }
  for (int j = 0; j < shown; j++) cells[1 + j] = value[j];
  cells[1 + shown] = isnan(sum) ? NAN : sum, cells[2 + shown] = error;
  int row = attune__page_add_row(table, source, cells);
  snprintf(table->cell[row][0].word, sizeof table->cell[row][0].word, "%s", word);
  return error;
}

static attune_status add_kernel_row(const attune__demo *demo, const char *word, int op,
                                    uint32_t features, const weights *w, int shown,
                                    attune__page *page, attune__page_table *table, double *error) {
  float out[WEIGHTS_MAX], lse = 0;
  double value[WEIGHTS_MAX];
  attune_status status = run_weights(demo, op, features, w, out, &lse, page);
  if (status != ATTUNE_OK) return status;
  for (int j = 0; j < w->count; j++) value[j] = isnan(out[j]) ? (double)NAN : (double)out[j];
  *error = add_weights_row(table, word, ATTUNE__EXECUTED, value, (double)lse, w, shown);
  return ATTUNE_OK;
}

/* ---- 2 ------------------------------------------------------------------------------------- */

attune_status attune__demo_rescale(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"kernel", "weights", ATTUNE__CELL_WORD},
      {"w0", "w0", 6},
      {"w1", "w1", 6},
      {"w2", "w2", 6},
      {"w3", "w3", 6},
      {"w4", "w4", 6},
      {"sum", "sum by LSE", 6},
      {"max_abs_error", "max abs diff", ATTUNE__CELL_SCIENTIFIC},
      {NULL, NULL, 0},
  };
  enum { SHOWN = 5 };
  weights *w = calloc(1, sizeof *w);
  if (!w) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a row of scores");
  w->count = w->dim = 64;
  attune__probe_normal(7, ATTUNE_DTYPE_FP32, w->score, (size_t)w->count);
  for (int j = 0; j < w->count; j++) w->score[j] = 2 * w->score[j] + (float)(j / 16);
  fill_weights(w);
  attune__page_table *table = attune__page_add_table(page, columns, "%s", "");
  attune__text_puts(&page->subject,
                    "one row of 64 scores in four blocks of 16, V = identity, fp32. "
                    "On the CPU device:\n");
  double online = 0, broken = 0;
  add_weights_row(table, "ordinary, float64", ATTUNE__REFERENCE, w->exact, w->lse, w, SHOWN);
  attune_status status =
      add_kernel_row(demo, "online", ATTUNE_OP_ATTN_FWD, 0, w, SHOWN, page, table, &online);
  if (status == ATTUNE_OK)
    status = add_kernel_row(demo, "no rescale", ATTUNE_OP_ATTN_DEMO, ATTUNE_FEATURE_NORESCALE, w,
                            SHOWN, page, table, &broken);
  page->wrong |= !(online < 1e-6) || !(broken > 1e-3);
  free(w);
  attune__text_puts(
      &page->notes,
      "The kernel without the rescale adds numbers scaled against different maxima: every\n"
      "check passes, nothing is thrown, the weights are wrong. In O they even add up to 1,\n"
      "since O and its sum miss the same factors; a second pass over the row, exp(score -\n"
      "LSE), shows it. So does the article, with 32 scores of its own in blocks of 8: sum\n"
      "0.190131, max abs diff 6.53e-01. Here keys come by 16 at least, and the scores are of\n"
      "another seed. The article's online softmax differs by 0.0 in float64; fp32 and the\n"
      "GPU's exp2 differ by rounding.\n");
  return status;
}

/* ---- 6 ------------------------------------------------------------------------------------- */

enum { WINDOW_LENGTH = 512, WINDOW_KEYS = 128 };

/* numpy's allclose with the tolerances of fp32: 1e-6 + 1e-5 |b|. */
static int all_close(const float *a, const float *b, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!(fabs((double)a[i] - (double)b[i]) <= 1e-6 + 1e-5 * fabs((double)b[i]))) return 0;
  return 1;
}

static void add_window_row(attune__page_table *table, const char *word,
                           const attune__trial_run *run, const attune__trial_run *standard) {
  size_t count = attune__probe_sizes_of(&run->variant, &run->shape).o;
  const double cells[] = {0, attune__demo_max_difference(run->o, standard->o, count), 0,
                          (double)run->tally[0].counters.fma * 2 / 1e9,
                          attune__demo_bytes(run, ATTUNE__COUNT_REQUESTED) / ATTUNE__DEMO_MB};
  int row = attune__page_add_row(table, ATTUNE__EXECUTED, cells);
  snprintf(table->cell[row][0].word, sizeof table->cell[row][0].word, "%s", word);
  snprintf(table->cell[row][2].word, sizeof table->cell[row][2].word, "%s",
           all_close(run->o, standard->o, count) ? "True" : "False");
}

/* One program on 512 keys; a window's bounds only matter to mask window. */
static attune_status run_512(const attune__demo *demo, int op, int mask, const attune_tile *tile,
                             attune__trial_run *run, attune__page *page) {
  attune_status status = attune__demo_kernels(arch, op, 0, mask, ATTUNE__DEMO_DIM, tile, run);
  if (status != ATTUNE_OK) return status;
  run->shape = attune__demo_shape(WINDOW_LENGTH);
  if (mask == ATTUNE_MASK_WINDOW)
    run->shape.window_left = WINDOW_KEYS / 2, run->shape.window_right = WINDOW_KEYS / 2 - 1;
  for (int part = 0; part < run->kernels; part++)
    attune__text_printf(&page->subject, "  %s\n", run->kernel[part].name);
  return attune__demo_execute(demo, NULL, 0, run, page);
}

attune_status attune__demo_window(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"compared", "against standard", ATTUNE__CELL_WORD},
      {"max_abs_diff", "max abs diff", ATTUNE__CELL_SCIENTIFIC},
      {"all_close", "allclose", ATTUNE__CELL_WORD},
      {"gflop", "GFLOPs", 4},
      {"hbm_mb", "HBM MB", 2},
      {NULL, NULL, 0},
  };
  attune__trial_run standard = {.o = NULL}, exact = {.o = NULL}, window = {.o = NULL};
  attune_tile tile = attune__demo_tile(64, 64, 4);
  attune__page_table *table = attune__page_add_table(page, columns, "%s", "");
  attune__text_printf(&page->subject,
                      "%d queries and keys, one head, head dim %d, fp32. On the CPU device:\n",
                      WINDOW_LENGTH, ATTUNE__DEMO_DIM);
  attune_status status =
      run_512(demo, ATTUNE_OP_ATTN_STANDARD, ATTUNE_MASK_NONE, NULL, &standard, page);
  if (status == ATTUNE_OK)
    status = run_512(demo, ATTUNE_OP_ATTN_FWD, ATTUNE_MASK_NONE, &tile, &exact, page);
  if (status == ATTUNE_OK)
    status = run_512(demo, ATTUNE_OP_ATTN_FWD, ATTUNE_MASK_WINDOW, &tile, &window, page);
  if (status == ATTUNE_OK) {
    add_window_row(table, "tiled, exact", &exact, &standard);
    add_window_row(table, "128-wide window", &window, &standard);
    page->wrong |= strcmp(table->cell[0][2].word, "True") != 0;
    page->wrong |= strcmp(table->cell[1][2].word, "False") != 0;
  }
  attune__demo_free(&standard), attune__demo_free(&exact), attune__demo_free(&window);
  attune__text_puts(
      &page->notes,
      "The tiled kernel computes the same function; what differs is the order of additions.\n"
      "The window computes another one: less arithmetic, fewer bytes, another answer. The\n"
      "article has 1.665e-16 and 3.224e-01 on its own random numbers in float64; fp32 rounds\n"
      "about 1e-7. allclose here: 1e-6 + 1e-5 |b|. Bytes are the requested ones, GFLOPs all\n"
      "multiply-adds.\n");
  return status;
}

/* ---- 9 ------------------------------------------------------------------------------------- */

attune_status attune__demo_overflow(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"kernel", "weights", ATTUNE__CELL_WORD},
      {"w0", "w0", 6},
      {"w1", "w1", 6},
      {"w2", "w2", 6},
      {"w3", "w3", 6},
      {"sum", "sum by LSE", 6},
      {"max_abs_error", "max abs diff", ATTUNE__CELL_SCIENTIFIC},
      {NULL, NULL, 0},
  };
  static const float scores[] = {800, 801, 802, 799};
  enum { SHOWN = 4 };
  weights *w = calloc(1, sizeof *w);
  if (!w) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a row of scores");
  w->count = SHOWN, w->dim = 8;
  memcpy(w->score, scores, sizeof scores);
  fill_weights(w);
  attune__page_table *table = attune__page_add_table(page, columns, "%s", "");
  attune__text_puts(&page->subject, "one row of scores 800, 801, 802, 799, V = identity, fp32. On "
                                    "the CPU device:\n");
  double with = 0, without = 0;
  add_weights_row(table, "ordinary, float64", ATTUNE__REFERENCE, w->exact, w->lse, w, SHOWN);
  attune_status status =
      add_kernel_row(demo, "with the maximum", ATTUNE_OP_ATTN_FWD, 0, w, SHOWN, page, table, &with);
  if (status == ATTUNE_OK)
    status = add_kernel_row(demo, "without", ATTUNE_OP_ATTN_DEMO, ATTUNE_FEATURE_NOMAX, w, SHOWN,
                            page, table, &without);
  page->wrong |= !(with < 1e-6) || !isnan(without);
  free(w);
  attune__text_puts(
      &page->notes,
      "exp(800) is beyond every float: without the maximum the exponentials are inf, their\n"
      "sum is inf, and the weights come back [nan nan nan nan], as in the article.\n");
  return status;
}
