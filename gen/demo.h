/* demo.h - the article's nine experiments, each made of kernels that attune generates and the CPU
 * device executes here, with counted bytes and multiply-adds.
 *
 *   demo.c          the list; kernels, data and runs that the experiments share
 *   demo_traffic.c  what moves: 1, 3, 4, 5, 7, 8
 *   demo_exact.c    what comes out: 2, 6, 9
 *   demo_page.c     a page as text, JSON and curves */
#ifndef ATTUNE_DEMO_H
#define ATTUNE_DEMO_H

#include "probe.h"
#include "svg.h"

/* ---- pages -------------------------------------------------------------------------------------
 */

enum { ATTUNE__PAGE_TABLES = 3, ATTUNE__TABLE_COLUMNS = 9, ATTUNE__TABLE_ROWS = 16 };

typedef enum attune__cell_style {
  ATTUNE__CELL_SCIENTIFIC = -1, /* 1.23e-07; 0 or more: that many decimals */
  ATTUNE__CELL_WORD = -2
} attune__cell_style;

typedef struct attune__column {
  const char *key, *heading; /* in JSON and in text */
  int style;                 /* attune__cell_style or decimals */
} attune__column;

typedef enum attune__row_source {
  ATTUNE__EXECUTED = 0,
  ATTUNE__FORMULA,  /* too slow to execute; the executed rows confirm the formula */
  ATTUNE__REFERENCE /* float64 on the host */
} attune__row_source;

typedef struct attune__table_cell {
  double value;
  char word[24]; /* of CELL_WORD; in other columns, unless "", instead of the value */
} attune__table_cell;

typedef struct attune__page_table {
  char title[200];
  attune__column column[ATTUNE__TABLE_COLUMNS];
  int columns, rows;
  attune__row_source source[ATTUNE__TABLE_ROWS];
  attune__table_cell cell[ATTUNE__TABLE_ROWS][ATTUNE__TABLE_COLUMNS];
} attune__page_table;

typedef struct attune__page {
  int number;
  const char *title;
  attune__text subject; /* what ran, one line */
  attune__page_table table[ATTUNE__PAGE_TABLES];
  int tables;
  attune__text notes; /* lines */
  attune__svg_plot plot;
  uint64_t
      difference; /* bytes counted but for the formula, over all that was executed: must be 0 */
  int wrong;      /* an executed result is not what the page claims */
} attune__page;

void attune__page_free(attune__page *page);
/* Columns end with key NULL. */
attune__page_table *attune__page_add_table(attune__page *page, const attune__column *columns,
                                           const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A row; its cells in order follow as doubles, and words set in place. */
int attune__page_add_row(attune__page_table *table, attune__row_source source,
                         const double *values);
/* A curve of two columns of a table. */
void attune__page_add_curve(attune__page *page, const attune__page_table *table, int x, int y,
                            const char *name);
void attune__page_print(const attune__page *page, attune__text *out);
void attune__page_json(const attune__page *page, attune__json *json);

/* ---- experiments -------------------------------------------------------------------------------
 */

enum { ATTUNE__DEMOS = 9 };

typedef struct attune__demo {
  attune_store *store;
  attune_cpu_options cpu;
  int64_t longest; /* longer rows are by formula or left out; 0: as long as 30 seconds allow */
} attune__demo;

/* Fills the page of experiment 1 .. 9. ATTUNE_MISMATCH: a kernel failed a check. */
attune_status attune__demo_page(const attune__demo *demo, int number, attune__page *page);
const char *attune__demo_title(int number);

/* ---- shared by the experiments -----------------------------------------------------------------
 */

/* One program and its run. */
typedef struct attune__trial_run {
  attune_variant variant;
  attune_kernel kernel[ATTUNE_MAX_PARTS];
  int kernels;
  attune_shape shape;
  attune__tally tally[ATTUNE_MAX_PARTS]; /* by part */
  float *o, *lse;                        /* lse NULL: not asked for */
} attune__trial_run;

enum { ATTUNE__DEMO_DIM = 64 }; /* the article's head dim; all demos are fp32, one head */
/* What the article calls a megabyte. */
#define ATTUNE__DEMO_MB 1048576.0

/* tile NULL: the planner's choice. */
attune_status attune__demo_kernels(const char *arch, int op, uint32_t features, int mask, int dim,
                                   const attune_tile *tile, attune__trial_run *out);
attune_tile attune__demo_tile(int block_m, int block_n, int warps);
/* One head of n queries and n keys. */
attune_shape attune__demo_shape(int64_t n);
/* Executes with these data, NULL: normal ones of a fixed seed; lse: whether it is written. The
 * page's difference grows by what was counted beside the formula. */
attune_status attune__demo_execute(const attune__demo *demo, const attune__probe_data *data,
                                   int lse, attune__trial_run *run, attune__page *page);
/* Whether n keys are executed where the page takes `longest` of them. */
int attune__demo_executes(const attune__demo *demo, int64_t n, int64_t longest);
void attune__demo_free(attune__trial_run *run);
/* Bytes by formula, without executing. */
void attune__demo_predict(attune__trial_run *run);
/* Bytes read and written, requested or compulsory, as counted or predicted: over all parts; of one
 * tensor of them. */
typedef enum attune__demo_count {
  ATTUNE__COUNT_REQUESTED,
  ATTUNE__COUNT_COMPULSORY
} attune__demo_count;
double attune__demo_bytes(const attune__trial_run *run, attune__demo_count count);
double attune__demo_tensor_bytes(const attune__trial_run *run, attune__demo_count count,
                                 const char *tensor);
/* The data of attune__demo_execute's fixed seed. Each malloc'ed. */
attune_status attune__demo_data(const attune_variant *v, const attune_shape *s, float **q,
                                float **k, float **values);
double attune__demo_max_difference(const float *a, const float *b, size_t count);

attune_status attune__demo_standard(const attune__demo *demo, attune__page *page);
attune_status attune__demo_rescale(const attune__demo *demo, attune__page *page);
attune_status attune__demo_tiled(const attune__demo *demo, attune__page *page);
attune_status attune__demo_blocks(const attune__demo *demo, attune__page *page);
attune_status attune__demo_backward(const attune__demo *demo, attune__page *page);
attune_status attune__demo_window(const attune__demo *demo, attune__page *page);
attune_status attune__demo_flops(const attune__demo *demo, attune__page *page);
attune_status attune__demo_order(const attune__demo *demo, attune__page *page);
attune_status attune__demo_overflow(const attune__demo *demo, attune__page *page);

#endif
