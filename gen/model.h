/* model.h - what the planner knows of one (op, part, family): candidates, ledger, rules, cost,
 * bytes. A new op or family adds a row to the table in model.c, a model_*.c and a template. */
#ifndef ATTUNE_MODEL_H
#define ATTUNE_MODEL_H

#include "board.h"
#include "kernel.h"
#include "rules.h"

/* A shape for costs and byte counts; window_left/right -1: unbounded; corner for masks. */
typedef struct attune_shape {
  int64_t batch, heads_q, heads_kv, len_q, len_k;
  int64_t window_left, window_right;
  attune_corner corner;
} attune_shape;

/* Bytes between device memory and the chip. requested: what each block loads and stores, summed
 * (the article's count for tiled kernels); compulsory: each distinct byte once. */
typedef struct attune_traffic_row {
  const char *tensor;  /* "Q" "K" "V" "O" "LSE" "S" "P" "BIAS" ... */
  const char *formula; /* of requested, in elements: "batch * heads_q * len_q * head_dim_qk" */
  double requested_read, requested_write, compulsory_read, compulsory_write;
} attune_traffic_row;
enum { ATTUNE_MAX_TENSORS = 16 };
typedef struct attune_traffic {
  attune_traffic_row row[ATTUNE_MAX_TENSORS];
  int count;
  double requested, compulsory; /* sums */
} attune_traffic;

/* Time of a launch by ceiling, in SM clocks of the board; the largest binds. A model, not a
 * measurement. */
typedef struct attune_cost {
  double fma, tensor, exponential, shared_memory, issue, device_memory; /* cycles per SM, whole
                                                                             launch */
  double startup;          /* cycles outside the loop, per SM */
  double waves, occupancy; /* waves of blocks incl. the last partial one; blocks resident per SM */
  double total;            /* what the order sorts by */
  const char *binds;       /* name of the largest ceiling */
} attune_cost;

/* Tile fields by their place in ATTUNE_TILE_FIELDS: bit numbers of field sets. */
enum {
#define X(type, field, letters, def, constant, text) ATTUNE__TILE_##field,
  ATTUNE_TILE_FIELDS(X)
#undef X
};

enum { ATTUNE_MAX_CANDIDATES = 256 };

/* Order knobs: how the steps of an algorithm are put in line. Only some families have them: a model
 * lists its sizes with the knobs that it thinks best, a spec may pin others, the tuner tries them.
 */
enum {
  ATTUNE_TILE_KNOBS = 1u << ATTUNE__TILE_second_q | 1u << ATTUNE__TILE_order |
                      1u << ATTUNE__TILE_turns | 1u << ATTUNE__TILE_lazy |
                      1u << ATTUNE__TILE_chains | 1u << ATTUNE__TILE_persistent
};

typedef struct attune_model {
  int op, part, family;
  uint32_t knobs; /* those of ATTUNE_TILE_KNOBS that it has; the others stay 0 */
  const char *template_path;
  uint32_t derived; /* bits of tile fields that follow from others here: a spec's pin of them is
                       meant for the program's other parts */
  /* Writes candidate tiles in no particular order; returns how many (<= max,
   * ATTUNE_MAX_CANDIDATES). */
  int (*candidates)(const attune_variant *v, attune_tile *out, int max);
  /* 1 when the tile is legal for a variant that the family serves (rules.h), whatever the budget;
   * else 0 and the reason. */
  int (*legal)(const attune_variant *v, const attune_tile *t, char *reason, size_t size);
  void (*ledger)(const attune_variant *v, const attune_tile *t, attune_ledger *out);
  void (*constants)(attune_kernel *kernel); /* template constants beyond the tile's own */
  void (*recipe)(const attune_variant *v, const attune_tile *t, attune_recipe *out);
  int (*registers)(const attune_variant *v, const attune_tile *t); /* estimate per thread */
  void (*traffic)(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                  attune_traffic *out);
  void (*cost)(const attune_variant *v, const attune_tile *t, const attune_board *b,
               const attune_shape *s, attune_cost *out);
} attune_model;

/* As the model's legal, of all fields: knobs that it has not must be 0. */
int attune__tile_legal(const attune_model *model, const attune_variant *v, const attune_tile *t,
                       char *reason, size_t size);
/* Whether a model has a tile field, by its bit number. */
int attune__model_has(const attune_model *model, int field);
/* The model, NULL when none makes that kernel. family 0: the first family that does. */
const attune_model *attune__model(int op, int part, int family);
/* FLOPs of the op on a shape by the field's convention: 2 per multiply-add, 4 * pairs * d for
 * forward; pairs are those the mask keeps. */
double attune__flops(const attune_variant *variant, const attune_shape *shape);
/* Number of (i, j) pairs kept by the variant's mask for one head. */
double attune__mask_pairs(const attune_variant *variant, const attune_shape *shape);
/* Keys that rows [i0, i1) of a head can see, as a half-open range within [0, len_k): the one host
 * twin of templates/mask (block rows, traffic and reference use it). */
void attune__mask_range(const attune_variant *variant, const attune_shape *shape, int64_t i0,
                        int64_t i1, int64_t *begin, int64_t *end);
/* What the blocks of block_m rows visit in steps of block_n keys, summed over those of one group of
 * query heads, whose rows are packed: row r is query r / group. */
typedef struct attune_mask_sums {
  int64_t blocks; /* ceil(len_q * group / block_m) */
  int64_t keys;   /* lengths of their key ranges */
  int64_t loaded; /* the same in whole tiles, up to the last key that some row of the head sees */
  int64_t pairs;  /* rows in the block times that length */
  int64_t steps;  /* whole and partial tiles of block_n keys */
} attune_mask_sums;
void attune__mask_blocks(const attune_variant *variant, const attune_shape *shape, int64_t block_m,
                         int64_t block_n, attune_mask_sums *out);
/* The same of the blocks that rows [from, to) are cut into. */
void attune__mask_blocks_of(const attune_variant *variant, const attune_shape *shape, int64_t from,
                            int64_t to, int64_t block_m, int64_t block_n, attune_mask_sums *out);

/* For models: one tensor's bytes, appended and added to the sums; rows over batch and heads. */
void attune__traffic_read(attune_traffic *traffic, const char *tensor, const char *formula,
                          double row_bytes, double requested_rows, double compulsory_rows);
void attune__traffic_write(attune_traffic *traffic, const char *tensor, const char *formula,
                           double row_bytes, double rows);
/* The same for rows that are written several times. */
void attune__traffic_write_again(attune_traffic *traffic, const char *tensor, const char *formula,
                                 double row_bytes, double requested_rows, double compulsory_rows);

#endif
