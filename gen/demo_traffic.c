/* demo_traffic.c - the experiments about what moves: standard attention, tiling, the size of a
 * tile, the backward pass, flops beside bytes, the order of loops.
 *
 * Input: generated kernels, executed where the length allows. Output: pages. A row that is not
 * executed is the planner's formula, which every executed row of the page must equal to the byte.
 */
#include "demo.h"

#include "plan.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char arch[] = "sm_80";

/* Executes up to `longest` keys, else takes the formula. */
static attune_status run_or_predict(const attune__demo *demo, int64_t n, int64_t longest, int lse,
                                    attune__trial_run *run, attune__page *page) {
  run->shape = attune__demo_shape(n);
  if (attune__demo_executes(demo, n, longest))
    return attune__demo_execute(demo, NULL, lse, run, page);
  attune__demo_predict(run);
  return ATTUNE_OK;
}

static attune__row_source source_of(const attune__demo *demo, int64_t n, int64_t longest) {
  return attune__demo_executes(demo, n, longest) ? ATTUNE__EXECUTED : ATTUNE__FORMULA;
}

static attune_status standard_kernels(attune__trial_run *out) {
  return attune__demo_kernels(arch, ATTUNE_OP_ATTN_STANDARD, 0, ATTUNE_MASK_NONE, ATTUNE__DEMO_DIM,
                              NULL, out);
}

static attune_status tiled_kernels(const attune_tile *tile, attune__trial_run *out) {
  return attune__demo_kernels(arch, ATTUNE_OP_ATTN_FWD, 0, ATTUNE_MASK_NONE, ATTUNE__DEMO_DIM, tile,
                              out);
}

/* "head dim 64, fp32, one head; NAME + NAME executed on the CPU device". */
static void name_subject(attune__page *page, const attune__trial_run *const *runs, int count) {
  attune__text_printf(&page->subject, "one head, head dim %d, fp32. On the CPU device:\n",
                      ATTUNE__DEMO_DIM);
  for (int i = 0; i < count; i++)
    for (int part = 0; part < runs[i]->kernels; part++)
      attune__text_printf(&page->subject, "  %s\n", runs[i]->kernel[part].name);
}

/* Multiply-adds of both products, n^2 d each. */
static double product_macs(double n) {
  return 2 * n * n * ATTUNE__DEMO_DIM;
}

/* ---- 1 ------------------------------------------------------------------------------------- */

static void add_standard_row(const attune__trial_run *run, int64_t n, attune__row_source source,
                             attune__page *page, attune__page_table *table) {
  double bytes = attune__demo_bytes(run, ATTUNE__COUNT_COMPULSORY), macs = product_macs((double)n);
  double scores = attune__demo_tensor_bytes(run, ATTUNE__COUNT_COMPULSORY, "scores");
  if (source == ATTUNE__EXECUTED) {
    double counted = (double)(run->tally[0].counters.fma + run->tally[2].counters.fma);
    page->wrong |= counted != macs;
    macs = counted;
  }
  const double cells[] = {(double)n,
                          bytes / ATTUNE__DEMO_MB,
                          2 * macs / 1e9,
                          bytes / (2 * macs),
                          100 * scores / bytes,
                          scores / ATTUNE__DEMO_MB,
                          (bytes - scores) / ATTUNE__DEMO_MB};
  attune__page_add_row(table, source, cells);
}

attune_status attune__demo_standard(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"n", "n", 0},
      {"hbm_mb", "HBM MB", 2},
      {"gflop", "GFLOPs", 3},
      {"bytes_per_flop", "bytes/flop", 3},
      {"n2_share_percent", "n^2 share %", 1},
      {"scores_mb", "S and P, MB", 2},
      {"others_mb", "others, MB", 2},
      {NULL, NULL, 0},
  };
  static const int64_t lengths[] = {128, 512, 2048, 8192};
  enum { LONGEST = 2048 };
  attune__page_table *table = attune__page_add_table(page, columns, "%s", "");
  for (int i = 0; i < 4; i++) {
    attune__trial_run run;
    attune_status status = standard_kernels(&run);
    if (status == ATTUNE_OK) status = run_or_predict(demo, lengths[i], LONGEST, 0, &run, page);
    if (status == ATTUNE_OK)
      add_standard_row(&run, lengths[i], source_of(demo, lengths[i], LONGEST), page, table);
    if (i == 0) name_subject(page, (const attune__trial_run *[]){&run}, 1);
    attune__demo_free(&run);
    if (status != ATTUNE_OK) return status;
  }
  attune__text_puts(
      &page->notes,
      "The count is the compulsory one, each byte once per kernel, as the article counts\n"
      "standard attention; MB = 2^20 bytes. GFLOPs: counted multiply-adds of Q K^T and P V,\n"
      "times two. All columns are the article's to the digit. S and P are written and read: 4\n"
      "n^2 floats.\n");
  page->plot.title = "Standard attention: bytes to and from device memory";
  page->plot.x_title = "n (queries = keys)", page->plot.y_title = "MB (2^20 bytes)";
  attune__page_add_curve(page, table, 0, 5, "S and P");
  attune__page_add_curve(page, table, 0, 6, "Q, K, V and O");
  return ATTUNE_OK;
}

/* ---- 3 ------------------------------------------------------------------------------------- */

/* Largest difference between O and attention in float64. */
static attune_status against_float64(const attune__trial_run *run, double *out) {
  attune__probe_sizes n = attune__probe_sizes_of(&run->variant, &run->shape);
  float *q, *k, *v;
  double *o = malloc(n.o * sizeof *o);
  if (!o) return attune_fail(ATTUNE_NO_MEMORY, "no memory for O in float64");
  attune_status status = attune__demo_data(&run->variant, &run->shape, &q, &k, &v);
  attune_reference_problem problem = {.variant = run->variant,
                                      .shape = run->shape,
                                      .scale = (float)(1 / sqrt(run->variant.head_dim_qk)),
                                      .q = q,
                                      .k = k,
                                      .v = v};
  if (status == ATTUNE_OK) status = attune__reference(&problem, o, NULL);
  *out = 0;
  for (size_t i = 0; i < n.o && status == ATTUNE_OK; i++)
    *out = fmax(*out, fabs((double)run->o[i] - o[i]));
  free(q), free(k), free(v), free(o);
  return status;
}

static attune_status add_tiled_row(const attune__trial_run *standard,
                                   const attune__trial_run *tiled, attune__page *page,
                                   attune__page_table *table) {
  double n = (double)standard->shape.len_q, exact = 0;
  attune_status status = against_float64(tiled, &exact);
  attune__probe_sizes sizes = attune__probe_sizes_of(&tiled->variant, &tiled->shape);
  double difference = attune__demo_max_difference(tiled->o, standard->o, sizes.o);
  /* S as the first part wrote it; what a block of the tiled kernel holds */
  double scores = attune__demo_tensor_bytes(standard, ATTUNE__COUNT_COMPULSORY, "scores") / 4;
  double tile = tiled->kernel[0].ledger.bytes;
  double article = attune__article_working_set(tiled->kernel[0].tile.block_m, ATTUNE__DEMO_DIM, 4);
  const double cells[] = {n,
                          difference,
                          exact,
                          scores / 1024,
                          tile / 1024,
                          article / 1024,
                          attune__demo_bytes(standard, ATTUNE__COUNT_COMPULSORY) / ATTUNE__DEMO_MB,
                          attune__demo_bytes(tiled, ATTUNE__COUNT_REQUESTED) / ATTUNE__DEMO_MB};
  attune__page_add_row(table, ATTUNE__EXECUTED, cells);
  page->wrong |= !(difference < 1e-5);
  return status;
}

static attune_status tiled_row(const attune__demo *demo, int64_t n, const attune_tile *tile,
                               attune__page *page, attune__page_table *table) {
  attune__trial_run standard = {.o = NULL}, tiled = {.o = NULL};
  attune_status status = standard_kernels(&standard);
  if (status == ATTUNE_OK) status = tiled_kernels(tile, &tiled);
  if (status == ATTUNE_OK) status = run_or_predict(demo, n, n, 0, &standard, page);
  if (status == ATTUNE_OK) status = run_or_predict(demo, n, n, 0, &tiled, page);
  if (status == ATTUNE_OK) status = add_tiled_row(&standard, &tiled, page, table);
  if (!page->subject.size) name_subject(page, (const attune__trial_run *[]){&tiled, &standard}, 2);
  attune__demo_free(&standard), attune__demo_free(&tiled);
  return status;
}

attune_status attune__demo_tiled(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"n", "n", 0},
      {"max_abs_diff", "max abs diff", ATTUNE__CELL_SCIENTIFIC},
      {"max_abs_error", "to float64", ATTUNE__CELL_SCIENTIFIC},
      {"standard_peak_kb", "std peak KB", 1},
      {"tiled_peak_kb", "flash peak KB", 1},
      {"article_peak_kb", "(article's)", 1},
      {"standard_hbm_mb", "std HBM MB", 2},
      {"tiled_hbm_mb", "flash HBM MB", 2},
      {NULL, NULL, 0},
  };
  attune_tile tile = attune__demo_tile(64, 64, 4);
  attune__page_table *table = attune__page_add_table(page, columns, "%s", "");
  for (int64_t n = 128; attune__demo_executes(demo, n, 2048); n *= 2) {
    attune_status status = tiled_row(demo, n, &tile, page, table);
    if (status != ATTUNE_OK) return status;
  }
  attune__text_puts(
      &page->notes,
      "HBM of standard attention is the compulsory count, of the tiled kernel the requested\n"
      "one (what all blocks load and store), as in the article; both, and the standard peak\n"
      "(S), are the article's to the digit. Its differences are about 1e-16: it computes in\n"
      "float64, the kernels here in fp32. Its flash peak is 64.5 KB: tiles without padding,\n"
      "and m and l of each row; the kernel pads rows of Q, K and P, so that no two lanes want\n"
      "one bank, and keeps m and l in registers: 70.0 KB. Either way the column is flat.\n");
  page->plot.title = "Working set beside the inputs";
  page->plot.x_title = "n (queries = keys)", page->plot.y_title = "KB";
  attune__page_add_curve(page, table, 0, 3, "standard");
  attune__page_add_curve(page, table, 0, 4, "tiled");
  return ATTUNE_OK;
}

/* ---- 5 ------------------------------------------------------------------------------------- */

/* As the article counts: standard keeps Q, K, V and P, the tiled one Q, K, V, m and l; five
 * products backward, six with the recomputed scores. */
attune_status attune__demo_backward(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"n", "n", 0},
      {"standard_stored_mb", "std stored MB", 2},
      {"tiled_stored_mb", "flash stored MB", 2},
      {"standard_gflop", "std GFLOPs", 2},
      {"tiled_gflop", "flash GFLOPs", 2},
      {"extra_percent", "extra flops %", 0},
      {NULL, NULL, 0},
  };
  static const double lengths[] = {512, 2048, 8192};
  (void)demo;
  attune__page_table *table = attune__page_add_table(page, columns, "%s", "");
  for (int i = 0; i < 3; i++) {
    double n = lengths[i], d = ATTUNE__DEMO_DIM, qkv = 3 * n * d * 4;
    double standard = 5 * 2 * n * n * d, tiled = 6 * 2 * n * n * d;
    const double cells[] = {n,
                            (qkv + n * n * 4) / ATTUNE__DEMO_MB,
                            (qkv + 2 * n * 4) / ATTUNE__DEMO_MB,
                            standard / 1e9,
                            tiled / 1e9,
                            100 * (tiled / standard - 1)};
    attune__page_add_row(table, ATTUNE__FORMULA, cells);
  }
  attune__text_puts(
      &page->subject,
      "Nothing is executed: attune generates no backward kernel yet. This page comes with the\n"
      "backward op; until then it is the article's formula.\n");
  attune__text_puts(
      &page->notes,
      "Stored for the backward pass: Q, K, V and P, against Q, K, V, m and l. Flops of five\n"
      "products, and of six when S is computed again.\n");
  page->plot.title = "Stored for the backward pass";
  page->plot.x_title = "n (queries = keys)", page->plot.y_title = "MB (2^20 bytes)";
  attune__page_add_curve(page, table, 0, 1, "standard");
  attune__page_add_curve(page, table, 0, 2, "tiled");
  return ATTUNE_OK;
}

/* ---- 7 ------------------------------------------------------------------------------------- */

/* An attn_fwd kernel's multiply-adds beside the products: one a score in the exponent, and one for
 * each lane's row and tile of keys, which rescales the sum. */
static double softmax_macs(const attune_tile *tile, double n) {
  enum { LANES = 16 }; /* across a tile of family fma */
  return n * n + n * n / tile->block_n * LANES;
}

static void add_flops_row(const attune__trial_run *standard, const attune__trial_run *tiled,
                          attune__row_source source, attune__page *page,
                          attune__page_table *table) {
  double n = (double)standard->shape.len_q, products = product_macs(n);
  double softmax = softmax_macs(&tiled->kernel[0].tile, n);
  double of_standard = products, of_tiled = products;
  if (source == ATTUNE__EXECUTED) {
    of_standard = (double)(standard->tally[0].counters.fma + standard->tally[2].counters.fma);
    of_tiled = (double)tiled->tally[0].counters.fma - softmax;
    page->wrong |= of_standard != products || of_tiled != products;
  }
  double standard_bytes = attune__demo_bytes(standard, ATTUNE__COUNT_COMPULSORY);
  double tiled_bytes = attune__demo_bytes(tiled, ATTUNE__COUNT_REQUESTED);
  const double cells[] = {n,
                          2 * of_standard / 1e9,
                          2 * of_tiled / 1e9,
                          2 * softmax / 1e9,
                          standard_bytes / ATTUNE__DEMO_MB,
                          tiled_bytes / ATTUNE__DEMO_MB,
                          standard_bytes / tiled_bytes};
  attune__page_add_row(table, source, cells);
}

static attune_status flops_row(const attune__demo *demo, int64_t n, int64_t longest,
                               attune__page *page, attune__page_table *table) {
  attune__trial_run standard = {.o = NULL}, tiled = {.o = NULL};
  attune_tile tile = attune__demo_tile(64, 64, 4);
  attune_status status = standard_kernels(&standard);
  if (status == ATTUNE_OK) status = tiled_kernels(&tile, &tiled);
  if (status == ATTUNE_OK) status = run_or_predict(demo, n, longest, 0, &standard, page);
  if (status == ATTUNE_OK) status = run_or_predict(demo, n, longest, 0, &tiled, page);
  if (status == ATTUNE_OK)
    add_flops_row(&standard, &tiled, source_of(demo, n, longest), page, table);
  if (!page->subject.size) name_subject(page, (const attune__trial_run *[]){&tiled, &standard}, 2);
  attune__demo_free(&standard), attune__demo_free(&tiled);
  return status;
}

attune_status attune__demo_flops(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"n", "n", 0},
      {"standard_gflop", "std GFLOPs", 3},
      {"tiled_gflop", "flash GFLOPs", 3},
      {"softmax_gflop", "(+ softmax)", 3},
      {"standard_hbm_mb", "std HBM MB", 2},
      {"tiled_hbm_mb", "flash HBM MB", 2},
      {"cut", "traffic cut", 1},
      {NULL, NULL, 0},
  };
  enum { LONGEST = 4096 };
  attune__page_table *table = attune__page_add_table(page, columns, "%s", "");
  for (int64_t n = 512; n <= 4096; n *= 2) {
    attune_status status = flops_row(demo, n, LONGEST, page, table);
    if (status != ATTUNE_OK) return status;
  }
  attune__text_puts(
      &page->notes,
      "GFLOPs: counted multiply-adds of Q K^T and P V, times two: equal, and the article's to\n"
      "the digit, as are the bytes (standard: compulsory, flash: requested, with the\n"
      "article's tile of 64 x 64). Softmax is the tiled kernel's: a multiply-add a score for\n"
      "the exponent, and one a row, lane and tile of keys for the sum. The article does not\n"
      "count it; here everything is counted, and comes to products plus softmax, to the last\n"
      "multiply-add.\n");
  page->plot.title = "Same flops, less traffic";
  page->plot.x_title = "n (queries = keys)", page->plot.y_title = "MB (2^20 bytes)";
  attune__page_add_curve(page, table, 0, 4, "standard");
  attune__page_add_curve(page, table, 0, 5, "tiled, 64 x 64");
  return ATTUNE_OK;
}

/* ---- 8 ------------------------------------------------------------------------------------- */

static void add_order_row(const attune__trial_run *fa2, const attune__trial_run *fa1,
                          attune__page *page, attune__page_table *table) {
  attune__probe_sizes sizes = attune__probe_sizes_of(&fa2->variant, &fa2->shape);
  double difference = attune__demo_max_difference(fa2->o, fa1->o, sizes.o);
  double bytes2 = attune__demo_bytes(fa2, ATTUNE__COUNT_REQUESTED);
  double bytes1 = attune__demo_bytes(fa1, ATTUNE__COUNT_REQUESTED);
  const double cells[] = {(double)fa2->shape.len_q,
                          bytes2 / ATTUNE__DEMO_MB,
                          bytes1 / ATTUNE__DEMO_MB,
                          bytes1 / bytes2,
                          (double)fa2->tally[0].counters.blocks,
                          (double)fa1->tally[0].counters.blocks,
                          difference};
  attune__page_add_row(table, ATTUNE__EXECUTED, cells);
  page->wrong |= !(difference < 1e-5) || bytes1 <= bytes2;
}

static attune_status order_row(const attune__demo *demo, int64_t n, attune__page *page,
                               attune__page_table *table) {
  attune__trial_run fa2 = {.o = NULL}, fa1 = {.o = NULL};
  attune_tile tile = attune__demo_tile(64, 64, 4);
  attune_status status = tiled_kernels(&tile, &fa2);
  if (status == ATTUNE_OK)
    status = attune__demo_kernels(arch, ATTUNE_OP_ATTN_DEMO, ATTUNE_FEATURE_FA1, ATTUNE_MASK_NONE,
                                  ATTUNE__DEMO_DIM, &tile, &fa1);
  if (status == ATTUNE_OK) status = run_or_predict(demo, n, n, 1, &fa2, page);
  if (status == ATTUNE_OK) status = run_or_predict(demo, n, n, 1, &fa1, page);
  if (status == ATTUNE_OK) add_order_row(&fa2, &fa1, page, table);
  if (!page->subject.size) name_subject(page, (const attune__trial_run *[]){&fa2, &fa1}, 2);
  attune__demo_free(&fa2), attune__demo_free(&fa1);
  return status;
}

attune_status attune__demo_order(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"n", "n", 0},
      {"fa2_hbm_mb", "FA2 HBM MB", 2},
      {"fa1_hbm_mb", "FA1 HBM MB", 2},
      {"ratio", "FA1 / FA2", 2},
      {"fa2_blocks", "FA2 blocks", 0},
      {"fa1_blocks", "FA1 blocks", 0},
      {"max_abs_diff", "max abs diff", ATTUNE__CELL_SCIENTIFIC},
      {NULL, NULL, 0},
  };
  attune__page_table *table = attune__page_add_table(page, columns, "%s", "");
  for (int64_t n = 256; attune__demo_executes(demo, n, 1024); n *= 2) {
    attune_status status = order_row(demo, n, page, table);
    if (status != ATTUNE_OK) return status;
  }
  attune__text_puts(
      &page->notes,
      "The count is the requested one, LSE included. FlashAttention-1 takes a tile of keys\n"
      "and walks over all rows: K and V are read once, but Q comes in, and O and LSE go out\n"
      "and back in, for every tile of keys; and a head is one block's, so that few heads\n"
      "leave most of a GPU idle. FlashAttention-2 takes a tile of rows and walks over the\n"
      "keys: O stays in registers, and every tile of rows is a block. The article names the\n"
      "change and gives no figures for it.\n");
  page->plot.title = "Loop order: bytes requested, tiles of 64 x 64";
  page->plot.x_title = "n (queries = keys)", page->plot.y_title = "MB (2^20 bytes)";
  attune__page_add_curve(page, table, 0, 2, "FlashAttention-1's");
  attune__page_add_curve(page, table, 0, 1, "FlashAttention-2's");
  return ATTUNE_OK;
}
