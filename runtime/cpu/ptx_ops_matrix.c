/* ptx_ops_matrix.c - ldmatrix, stmatrix and movmatrix: 8 x 8 matrices of 16-bit elements between
 * shared memory and registers.
 *
 * Lanes 8i..8i+7 give the addresses of matrix i's rows, 16 bytes each. Lane 4g+t holds elements 2t
 * and 2t+1 of row g, so a register is the matrix itself; .trans exchanges row and column. */
#include "mma.h"

enum { ROW_BYTES = 16, MATRIX_BYTES = 8 * ROW_BYTES, TRANSPOSED = 8 /* in data, with the count */ };

static void transpose(uint32_t matrix[ATTUNE__LANES]) {
  uint16_t from[8][8], to[8][8];
  memcpy(from, matrix, sizeof from);
  for (int r = 0; r < 8; r++)
    for (int c = 0; c < 8; c++) to[c][r] = from[r][c];
  memcpy(matrix, to, sizeof to);
}

/* The rows' addresses; lanes behind the last matrix give none. Counts the access. */
static uint32_t rows_of(attune__warp *w, const attune__ins *ins, uint32_t k, uint32_t count,
                        uint32_t address[ATTUNE__LANES], int store) {
  const attune__operand *o = &ins->operand[k];
  for (uint32_t l = 0; l < ATTUNE__LANES; l++) {
    uint64_t base = o->bytes == 8 ? attune__r64(w, ins, k)[l] : attune__r32(w, ins, k)[l];
    address[l] = (uint32_t)base + (uint32_t)o->offset;
  }
  uint32_t lanes = count == 4 ? ATTUNE__FULL : (UINT32_C(1) << 8 * count) - 1;
  if (w->engine->checks) attune__smem_count(w, lanes, address, ROW_BYTES, store);
  return 8 * count;
}

static void ldmatrix(attune__warp *w, const attune__ins *ins, uint32_t active) {
  uint32_t count = (uint32_t)ins->opcode->data % TRANSPOSED, address[ATTUNE__LANES];
  int transposed = ins->opcode->data >= TRANSPOSED;
  uint32_t matrix[4][ATTUNE__LANES];
  uint32_t rows = rows_of(w, ins, count, count, address, 0);
  for (uint32_t r = 0; r < rows; r++) {
    attune__smem *m;
    uint32_t offset;
    const unsigned char *from =
        attune__smem_at(w, (int)r, address[r], ROW_BYTES, "ldmatrix", &m, &offset);
    if (w->engine->checks)
      attune__smem_read(w, -1, m, offset, ROW_BYTES, ATTUNE__GENERIC, "ldmatrix");
    memcpy(&matrix[r / 8][r % 8 * 4], from, ROW_BYTES);
  }
  (void)active;
  for (uint32_t i = 0; i < count; i++) {
    if (transposed) transpose(matrix[i]);
    memcpy(attune__r32(w, ins, i), matrix[i], MATRIX_BYTES);
  }
}

static void stmatrix(attune__warp *w, const attune__ins *ins, uint32_t active) {
  uint32_t count = (uint32_t)ins->opcode->data % TRANSPOSED, address[ATTUNE__LANES];
  int transposed = ins->opcode->data >= TRANSPOSED;
  attune__require_cc(w, 90);
  rows_of(w, ins, 0, count, address, 1);
  (void)active;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t matrix[ATTUNE__LANES];
    memcpy(matrix, attune__r32(w, ins, 1 + i), MATRIX_BYTES);
    if (transposed) transpose(matrix);
    for (uint32_t r = 0; r < 8; r++) {
      attune__smem *m;
      uint32_t offset, row = 8 * i + r;
      unsigned char *to =
          attune__smem_at(w, (int)row, address[row], ROW_BYTES, "stmatrix", &m, &offset);
      if (w->engine->checks)
        attune__smem_write(w, -1, m, offset, ROW_BYTES, ATTUNE__GENERIC, ATTUNE__CELL_WRITTEN,
                           "stmatrix");
      memcpy(to, &matrix[4 * r], ROW_BYTES);
    }
  }
}

static void movmatrix(attune__warp *w, const attune__ins *ins, uint32_t active) {
  uint32_t matrix[ATTUNE__LANES];
  (void)active;
  memcpy(matrix, attune__r32(w, ins, 1), MATRIX_BYTES);
  transpose(matrix);
  memcpy(attune__r32(w, ins, 0), matrix, MATRIX_BYTES);
}

#define FORMS(opcode, run, count, number, operands, space)                                         \
  {opcode ".sync.aligned.m8n8." number space ".b16", operands, run, ATTUNE__OP_WARP, count, NULL}, \
  {                                                                                                \
    opcode ".sync.aligned.m8n8." number ".trans" space ".b16", operands, run, ATTUNE__OP_WARP,     \
        count + TRANSPOSED, NULL                                                                   \
  }
#define SPACES(opcode, run, count, number, operands)                                               \
  FORMS(opcode, run, count, number, operands, ".shared"),                                          \
      FORMS(opcode, run, count, number, operands, ".shared::cta")

static const attune__opcode rows[] = {
    SPACES("ldmatrix", ldmatrix, 1, "x1", "{W},[s]"),
    SPACES("ldmatrix", ldmatrix, 2, "x2", "{W,W},[s]"),
    SPACES("ldmatrix", ldmatrix, 4, "x4", "{W,W,W,W},[s]"),
    SPACES("stmatrix", stmatrix, 1, "x1", "[s],{w}"),
    SPACES("stmatrix", stmatrix, 2, "x2", "[s],{w,w}"),
    SPACES("stmatrix", stmatrix, 4, "x4", "[s],{w,w,w,w}"),
    {"movmatrix.sync.aligned.m8n8.trans.b16", "W,w", movmatrix, ATTUNE__OP_WARP, 0, NULL},
};

const attune__opcodes attune__ops_matrix = {rows, sizeof rows / sizeof rows[0]};
