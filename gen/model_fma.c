/* model_fma.c - family fma: thread layout, candidates, common rules, pieces of the ledger,
 * constants. Which pieces an op has is for the model_*.c of the op; time is in model_fma_cost.c. */
#include "model_fma.h"

#include <stdio.h>
#include <string.h>

int attune__fma_lane_rows(const attune_tile *t) {
  return 32 * t->warps / FMA_LANES;
}

int attune__fma_rows_per_thread(const attune_tile *t) {
  return t->block_m / attune__fma_lane_rows(t);
}

int attune__fma_cols_per_thread(const attune_tile *t) {
  return t->block_n / FMA_LANES;
}

static int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

int attune__fma_vec_v(int head_dim_v) {
  if (head_dim_v <= FMA_LANES) return 1;
  return round_up(head_dim_v, 4 * FMA_LANES) == round_up(head_dim_v, 2 * FMA_LANES) ? 4 : 2;
}

int attune__fma_padded_v(int head_dim_v) {
  return round_up(head_dim_v, FMA_LANES * attune__fma_vec_v(head_dim_v));
}

static int is_count(int value) {
  return value == 1 || value == 2 || value == 4 || value == 8;
}

int attune__fma_legal_blocks(const attune_tile *t, char *reason, size_t size) {
  int lane_rows = attune__fma_lane_rows(t);
  if (t->block_m % lane_rows || !is_count(t->block_m / lane_rows)) {
    snprintf(
        reason, size, "block_m %d: %d warps make %d rows of lanes, so block_m is %d, %d, %d or %d",
        t->block_m, t->warps, lane_rows, lane_rows, 2 * lane_rows, 4 * lane_rows, 8 * lane_rows);
    return 0;
  }
  if (t->block_n % FMA_LANES || !is_count(t->block_n / FMA_LANES)) {
    snprintf(reason, size, "block_n %d: there are 16 lanes across, so block_n is 16, 32, 64 or 128",
             t->block_n);
    return 0;
  }
  return 1;
}

int attune__fma_candidates(attune_tile *out, int max, int ways) {
  static const int blocks[] = {16, 32, 64, 128}, warps[] = {2, 4, 8}, turns[] = {0, 0, 64, 128};
  char ignored[160];
  int count = 0;
  for (int i = 0; i < 4 * 4 * 3 * ways && count < max; i++) {
    attune_tile *tile = &out[count];
    memset(tile, 0, sizeof *tile);
    tile->family = ATTUNE_FAMILY_FMA, tile->stages = 1;
    tile->block_m = (uint16_t)blocks[i % 4], tile->block_n = (uint16_t)blocks[i / 4 % 4];
    tile->warps = (uint8_t)warps[i / 16 % 3];
    tile->share_kv = i >= 48, tile->block_k = (uint16_t)turns[i / 48];
    count += attune__fma_legal_blocks(tile, ignored, sizeof ignored);
  }
  return count;
}

int attune__fma_legal_fields(const attune_tile *t, int share, char *reason, size_t size) {
  if (t->warps != 2 && t->warps != 4 && t->warps != 8)
    return snprintf(reason, size, "warps %d: family fma has 2, 4 or 8", t->warps), 0;
  if (t->block_k && !share)
    return snprintf(reason, size, "block_k %d: this kernel has whole rows in its tiles",
                    t->block_k),
           0;
  if (t->stages != 1) return snprintf(reason, size, "stages %d: family fma has 1", t->stages), 0;
  if (t->share_kv > share)
    return snprintf(reason, size, "share_kv %d: this kernel has 0%s", t->share_kv,
                    share ? " or 1" : ""),
           0;
  return 1;
}

int attune__fma_legal_registers(int registers, char *reason, size_t size) {
  if (registers <= FMA_MAX_REGISTERS) return 1;
  snprintf(reason, size, "registers: needs about %d, a thread has %d", registers,
           FMA_MAX_REGISTERS);
  return 0;
}

static void add(attune_ledger *ledger, const char *name, int rows, int columns, const char *note) {
  attune__ledger_add(ledger, name, "float", 4, (uint32_t)rows, (uint32_t)columns, 16, note);
}

/* Columns that are in a buffer at once. */
static int of_turn(const attune_tile *t, int columns) {
  return t->block_k && t->block_k < columns ? t->block_k : columns;
}

int attune__fma_turns(const attune_tile *t, int columns) {
  return t->block_k ? (columns + t->block_k - 1) / t->block_k : 1;
}

/* An odd number of 16-byte units a row: float4 reads of 8 consecutive rows hit each bank once. */
static int padded_qk(int head_dim_qk) {
  return ((head_dim_qk + 3) / 4 | 1) * 4;
}

static void add_padded(attune_ledger *ledger, const char *name, const char *tensor, int rows,
                       int head_dim) {
  char note[48];
  int columns = padded_qk(head_dim), pad = columns - head_dim;
  snprintf(note, sizeof note, "%s; %d float%s of padding a row", tensor, pad, pad == 1 ? "" : "s");
  add(ledger, name, rows, columns, pad ? note : tensor);
}

void attune__fma_add_q(attune_ledger *ledger, const attune_variant *v, const attune_tile *t) {
  add_padded(ledger, "q", "Q", t->block_m, v->head_dim_qk);
}

void attune__fma_add_k(attune_ledger *ledger, const attune_variant *v, const attune_tile *t) {
  add_padded(ledger, "k", "K", t->block_n, v->head_dim_qk);
}

void attune__fma_add_v(attune_ledger *ledger, const attune_variant *v, const attune_tile *t) {
  add(ledger, "v", t->block_n, attune__fma_padded_v(v->head_dim_v), "V; padded to whole loads");
}

void attune__fma_add_kv(attune_ledger *ledger, const attune_variant *v, const attune_tile *t) {
  int v_columns = of_turn(t, attune__fma_padded_v(v->head_dim_v));
  int columns = padded_qk(of_turn(t, v->head_dim_qk));
  /* also where V is the wider one: K's reads are those that conflict */
  if (columns < v_columns) columns = v_columns + 4;
  add(ledger, "kv", t->block_n, columns, "K, then V, in turns; K's padding");
}

/* A pitch of 16 mod 32 floats: the two rows that a warp touches at once use different banks. */
void attune__fma_add_p(attune_ledger *ledger, const attune_tile *t) {
  int pad = t->block_n % 32 == 0 ? 16 : 0;
  add(ledger, "p", t->block_m, t->block_n + pad, pad ? "P; 16 floats of padding a row" : "P");
}

void attune__fma_constants(attune_kernel *kernel) {
  const attune_variant *v = &kernel->variant;
  attune__add_constant(kernel, "kHeadDimQK", v->head_dim_qk, "elements of a row of Q and K");
  attune__add_constant(kernel, "kHeadDimV", v->head_dim_v, "elements of a row of V and O");
  attune__add_constant(kernel, "kVecV", attune__fma_vec_v(v->head_dim_v),
                       "floats of V per thread and load");
  int registers = attune__model(v->op, v->part, kernel->tile.family)->registers(v, &kernel->tile);
  char note[80];
  snprintf(note, sizeof note, "blocks that registers allow: about %d a thread", registers);
  attune__add_constant(kernel, "kBlocksPerSM",
                       attune__blocks_by_registers(kernel->tile.warps, registers), note);
}
