/* demo_blocks.c - experiment 4: how big should a tile be? The article's table against a 96 KB
 * budget, and the IO-complexity law over budgets of 16 to 227 KB.
 *
 * Input: attn_fwd kernels of growing tiles, executed. Output: a page with both tables and the
 * fitted exponent of the bytes of K and V in block_m. */
#include "demo.h"

#include "plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char arch[] = "sm_90a"; /* for its 227 KB of shared memory a block */
enum { BUDGET_KB = 96 };

/* ---- the article's table ------------------------------------------------------------------- */

enum { TABLE_LENGTH = 1024 };

/* Warps for 4 rows a thread or more, so that registers hold a 128 x 128 tile. */
static int warps_for(int block) {
  return block >= 128 ? 8 : block >= 32 ? 4 : 2;
}

static void put_fits(attune__table_cell *cell, double bytes) {
  snprintf(cell->word, sizeof cell->word, "%s", bytes <= BUDGET_KB * 1024 ? "yes" : "NO -- spills");
}

static attune_status square_row(const attune__demo *demo, int block, attune__page *page,
                                attune__page_table *table) {
  attune_tile tile = attune__demo_tile(block, block, warps_for(block));
  attune__trial_run run = {.o = NULL};
  attune_status status = attune__demo_kernels(arch, ATTUNE_OP_ATTN_FWD, 0, ATTUNE_MASK_NONE,
                                              ATTUNE__DEMO_DIM, &tile, &run);
  int execute = attune__demo_executes(demo, TABLE_LENGTH, TABLE_LENGTH);
  run.shape = attune__demo_shape(TABLE_LENGTH);
  if (status == ATTUNE_OK && execute) status = attune__demo_execute(demo, NULL, 0, &run, page);
  if (!execute) attune__demo_predict(&run);
  double ledger = run.kernel[0].ledger.bytes;
  double article = attune__article_working_set(block, ATTUNE__DEMO_DIM, 4);
  const double cells[] = {
      block,          attune__demo_bytes(&run, ATTUNE__COUNT_REQUESTED) / ATTUNE__DEMO_MB,
      article / 1024, 0,
      ledger / 1024,  0};
  int row = attune__page_add_row(table, execute ? ATTUNE__EXECUTED : ATTUNE__FORMULA, cells);
  put_fits(&table->cell[row][3], article);
  put_fits(&table->cell[row][5], ledger);
  page->wrong |= attune__demo_bytes(&run, ATTUNE__COUNT_REQUESTED) !=
                 attune__article_traffic(TABLE_LENGTH, block, ATTUNE__DEMO_DIM, 4);
  attune__demo_free(&run);
  return status;
}

/* Larger blocks than any kernel has: 256 rows of O alone are more than a block's registers. */
static void article_row(int block, attune__page_table *table) {
  double set = attune__article_working_set(block, ATTUNE__DEMO_DIM, 4);
  const double cells[] = {
      block,
      attune__article_traffic(TABLE_LENGTH, block, ATTUNE__DEMO_DIM, 4) / ATTUNE__DEMO_MB,
      set / 1024,
      0,
      NAN,
      0};
  int row = attune__page_add_row(table, ATTUNE__FORMULA, cells);
  put_fits(&table->cell[row][3], set);
  snprintf(table->cell[row][5].word, sizeof table->cell[row][5].word, "no such kernel");
  snprintf(table->cell[row][4].word, sizeof table->cell[row][4].word, "-");
}

static attune_status square_table(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"block", "block", 0},
      {"hbm_mb", "HBM MB", 2},
      {"article_set_kb", "tile working set KB", 1},
      {"article_fits", "fits SRAM?", ATTUNE__CELL_WORD},
      {"kernel_set_kb", "the kernel's KB", 1},
      {"kernel_fits", "fits?", ATTUNE__CELL_WORD},
      {NULL, NULL, 0},
  };
  attune__page_table *table = attune__page_add_table(
      page, columns, "n = %d, SRAM budget %d KB; bytes requested", TABLE_LENGTH, BUDGET_KB);
  attune_status status = ATTUNE_OK;
  for (int block = 16; block <= 128 && status == ATTUNE_OK; block *= 2)
    status = square_row(demo, block, page, table);
  for (int block = 256; block <= TABLE_LENGTH; block *= 2) article_row(block, table);
  return status;
}

/* ---- the IO-complexity law ----------------------------------------------------------------- */

enum { LAW_LENGTH = 4096, LAW_EXECUTED = 1024 };
static const int budgets_kb[] = {16, 24, 32, 48, 64, 96, 128, 164, 227};
enum { BUDGETS = sizeof budgets_kb / sizeof *budgets_kb };

/* The tile of the family that moves least within the budget; of several the smallest. */
static int best_tile(uint32_t budget, attune_tile *out) {
  attune_tile candidates[ATTUNE_MAX_CANDIDATES];
  attune__trial_run any;
  attune_tile first = attune__demo_tile(16, 16, 2);
  if (attune__demo_kernels(arch, ATTUNE_OP_ATTN_FWD, 0, ATTUNE_MASK_NONE, ATTUNE__DEMO_DIM, &first,
                           &any) != ATTUNE_OK)
    return 0;
  const attune_model *model = attune__model(any.variant.op, 0, ATTUNE_FAMILY_FMA);
  attune_shape shape = attune__demo_shape(LAW_LENGTH);
  int count = model->candidates(&any.variant, candidates, ATTUNE_MAX_CANDIDATES), found = 0;
  double least = INFINITY;
  uint32_t smallest = 0;
  for (int i = 0; i < count; i++) {
    char reason[160];
    attune_ledger ledger = {.count = 0};
    attune_traffic traffic;
    if (!attune__tile_legal(model, &any.variant, &candidates[i], reason, sizeof reason)) continue;
    model->ledger(&any.variant, &candidates[i], &ledger);
    model->traffic(&any.variant, &candidates[i], &shape, &traffic);
    if (ledger.bytes > budget || traffic.requested > least) continue;
    if (traffic.requested == least && ledger.bytes >= smallest) continue;
    *out = candidates[i], least = traffic.requested, smallest = ledger.bytes, found = 1;
  }
  return found;
}

/* Executes the tile at LAW_EXECUTED, which confirms its formula, then states LAW_LENGTH by it. */
static attune_status law_row(const attune__demo *demo, int budget_kb, const attune_tile *tile,
                             int execute, attune__page *page, attune__page_table *table) {
  attune__trial_run run = {.o = NULL};
  attune_status status = attune__demo_kernels(arch, ATTUNE_OP_ATTN_FWD, 0, ATTUNE_MASK_NONE,
                                              ATTUNE__DEMO_DIM, tile, &run);
  run.shape = attune__demo_shape(LAW_EXECUTED);
  if (status == ATTUNE_OK && execute) status = attune__demo_execute(demo, NULL, 0, &run, page);
  if (status != ATTUNE_OK) return status;
  if (!execute) attune__demo_predict(&run);
  double small = attune__demo_tensor_bytes(&run, ATTUNE__COUNT_REQUESTED, "k") +
                 attune__demo_tensor_bytes(&run, ATTUNE__COUNT_REQUESTED, "v");
  run.shape = attune__demo_shape(LAW_LENGTH);
  attune__demo_predict(&run);
  double kv = attune__demo_tensor_bytes(&run, ATTUNE__COUNT_REQUESTED, "k") +
              attune__demo_tensor_bytes(&run, ATTUNE__COUNT_REQUESTED, "v");
  const double cells[] = {budget_kb,
                          tile->block_m,
                          tile->block_n,
                          run.kernel[0].ledger.bytes / 1024.0,
                          small / ATTUNE__DEMO_MB,
                          kv / ATTUNE__DEMO_MB,
                          attune__demo_bytes(&run, ATTUNE__COUNT_REQUESTED) / ATTUNE__DEMO_MB};
  attune__page_add_row(table, ATTUNE__FORMULA, cells);
  attune__demo_free(&run);
  return ATTUNE_OK;
}

/* Slope of log y over log x by least squares, over the rows with distinct x. */
static double fitted_exponent(const attune__page_table *table, int x, int y) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, last = 0;
  for (int row = 0; row < table->rows; row++) {
    double value = table->cell[row][x].value;
    if (value == last) continue;
    double a = log(value), b = log(table->cell[row][y].value);
    last = value, n++, sx += a, sy += b, sxx += a * a, sxy += a * b;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

static attune_status law_table(const attune__demo *demo, attune__page *page) {
  static const attune__column columns[] = {
      {"budget_kb", "SRAM KB", 0},
      {"block_m", "block_m", 0},
      {"block_n", "block_n", 0},
      {"kernel_set_kb", "used KB", 1},
      {"kv_mb_executed", "K+V MB, n 1024 executed", 2},
      {"kv_mb", "K+V MB, n 4096", 2},
      {"hbm_mb", "all MB, n 4096", 2},
      {NULL, NULL, 0},
  };
  attune__page_table *table = attune__page_add_table(
      page, columns,
      "the IO-complexity law: the tile that moves least within each budget; bytes "
      "requested");
  attune_tile before = {.family = 0};
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < BUDGETS && status == ATTUNE_OK; i++) {
    attune_tile tile;
    if (!best_tile((uint32_t)budgets_kb[i] * 1024, &tile)) continue;
    int fresh = memcmp(&tile, &before, sizeof tile) != 0;
    status = law_row(demo, budgets_kb[i], &tile, fresh, page, table);
    before = tile;
  }
  if (status != ATTUNE_OK) return status;
  double executed = fitted_exponent(table, 1, 4), stated = fitted_exponent(table, 1, 5);
  page->wrong |= !(fabs(executed + 1) <= 0.1) || !(fabs(stated + 1) <= 0.1);
  attune__text_puts(&page->notes, "Fitted exponent of the bytes of K and V in block_m: ");
  attune__text_fixed(&page->notes, executed, 3);
  attune__text_printf(&page->notes, " as counted at n = %d, ", LAW_EXECUTED);
  attune__text_fixed(&page->notes, stated, 3);
  attune__text_printf(&page->notes, " at n = %d (law: -1).\n", LAW_LENGTH);
  return ATTUNE_OK;
}

attune_status attune__demo_blocks(const attune__demo *demo, attune__page *page) {
  attune__text_printf(&page->subject,
                      "one head, head dim %d, fp32; attn_fwd on %s, a kernel for each tile, on the "
                      "CPU device\n",
                      ATTUNE__DEMO_DIM, arch);
  attune_status status = square_table(demo, page);
  if (status != ATTUNE_OK) return status;
  attune__text_puts(&page->notes, "Standard attention moves ");
  attune__text_fixed(
      &page->notes,
      attune__article_standard_traffic(TABLE_LENGTH, ATTUNE__DEMO_DIM, 4) / ATTUNE__DEMO_MB, 2);
  attune__text_puts(
      &page->notes,
      " MB here (demo 1).\n"
      "HBM MB and the working set are the article's to the digit; the kernel's own shared\n"
      "memory is larger by its padding (demo 3). 64 is the largest block that fits. Blocks\n"
      "from 256 on are the article's formula: a thread block has not the registers for them.\n"
      "Rows at n 4096 are by the formula that the same kernels confirmed to the byte at n\n"
      "1024, and none of the family has a block_m over 128, so the curve ends there, whatever\n"
      "the budget.\n");
  status = law_table(demo, page);
  page->plot.title = "Bytes over the SRAM budget, n = 4096";
  page->plot.x_title = "shared memory of a block, KB", page->plot.y_title = "MB (2^20 bytes)";
  attune__page_add_curve(page, &page->table[1], 0, 6, "all tensors");
  attune__page_add_curve(page, &page->table[1], 0, 5, "K and V");
  return status;
}
