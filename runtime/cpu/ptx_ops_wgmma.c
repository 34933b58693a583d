/* ptx_ops_wgmma.c - wgmma: a warpgroup's D = A B + D, m64nNkK, A from registers or shared memory, B
 * from shared memory.
 *
 * Warp i of the warpgroup has rows 16i .. 16i+15 and computes them alone, at issue; what is
 * unfinished until a wait is wgmma.c's business. Lane 4g+t has columns 8j+2t and 8j+2t+1 of rows g
 * and g+8: accumulators 4j, 4j+1 and 4j+2, 4j+3, packed in two registers when they are f16. */
#include "wgmma.h"

enum { ROWS = 16 /* of a warp */, GROUP = 8 /* columns of a block */ };

typedef struct form {
  attune__element a, b;
  int half;      /* D is f16 */
  int registers; /* A is in registers */
} form;

/* An instruction's operands, by index. */
typedef struct operands {
  uint32_t results, a, b, scale_d, negate_a, negate_b, transpose_a, transpose_b; /* 0: none */
} operands;

static int has_transpose(const form *f) {
  return attune__chunk_elements(f->a) == 8;
}

static operands place(const form *f, uint32_t n) {
  operands o = {.results = f->half ? n / 4 : n / 2};
  o.a = o.results;
  o.b = o.a + (f->registers ? 4 : 1);
  o.scale_d = o.b + 1, o.negate_a = o.b + 2, o.negate_b = o.b + 3;
  uint32_t next = o.b + 4;
  if (has_transpose(f) && !f->registers) o.transpose_a = next++;
  if (has_transpose(f)) o.transpose_b = next;
  return o;
}

/* An immediate that is one of two values: 1 when it is `yes`. */
static int either(attune__warp *w, const attune__ins *ins, uint32_t k, int32_t yes, int32_t no) {
  if (!k) return 0;
  int32_t value = (int32_t)attune__r32(w, ins, k)[0];
  if (value != yes && value != no)
    attune__fault(w, -1, "wgmma.mma_async: immediate %d where %d or %d is due", value, yes, no);
  return value == yes;
}

/* ---- operands ----------------------------------------------------------------------------------
 */

/* A: two blocks of 8 rows, k floats a row. */
static void load_a(attune__warp *w, const attune__ins *ins, const form *f, const operands *o,
                   uint32_t k, float *a) {
  if (f->registers) {
    attune__mma_load_a(w, ins, o->a, f->a, k, a);
    return;
  }
  unsigned char chunk[2 * ROWS * ATTUNE__CHUNK];
  uint32_t row = w->index % 4 * ROWS, elements = attune__chunk_elements(f->a);
  uint64_t descriptor = attune__uniform64(w, ins, o->a, ATTUNE__FULL, "descriptor of A");
  attune__matrix m = attune__matrix_decode(w, descriptor, "wgmma A");
  if (!either(w, ins, o->transpose_a, 1, 0)) {
    attune__matrix_rows(w, &m, row, ROWS, chunk, "wgmma A");
    attune__mma_unpack(f->a, chunk, 2 * ROWS, a, elements);
    return;
  }
  float column[GROUP * ROWS];
  attune__matrix_columns(w, &m, row / GROUP, 2, chunk, "wgmma A");
  for (uint32_t h = 0; h < 2; h++) {
    attune__mma_unpack(f->a, chunk + h * ROWS * ATTUNE__CHUNK, ROWS, column, GROUP);
    for (uint32_t i = 0; i < k; i += 8)
      attune__mma_transpose(column + i * GROUP, GROUP, a + h * 8 * k + i, k);
  }
}

/* B: for every 8 columns k rows of 8 floats. */
static void load_b(attune__warp *w, const attune__ins *ins, const form *f, const operands *o,
                   uint32_t n, uint32_t k, float *b) {
  unsigned char chunk[2 * ATTUNE__WGMMA_N_MAX * ATTUNE__CHUNK];
  uint64_t descriptor = attune__uniform64(w, ins, o->b, ATTUNE__FULL, "descriptor of B");
  attune__matrix m = attune__matrix_decode(w, descriptor, "wgmma B");
  if (either(w, ins, o->transpose_b, 1, 0)) {
    attune__matrix_columns(w, &m, 0, n / GROUP, chunk, "wgmma B");
    attune__mma_unpack(f->b, chunk, 2 * n, b, GROUP);
    return;
  }
  attune__matrix_rows(w, &m, 0, n, chunk, "wgmma B");
  for (uint32_t j = 0; j < n; j += GROUP, b += GROUP * k) {
    float column[GROUP * ATTUNE__K_MAX];
    attune__mma_unpack(f->b, chunk + 2 * j * ATTUNE__CHUNK, 2 * GROUP, column,
                       attune__chunk_elements(f->b));
    for (uint32_t i = 0; i < k; i += 8) attune__mma_transpose(column + i, k, b + 8 * i, 8);
  }
}

static int scale_d(attune__warp *w, const attune__ins *ins, uint32_t k) {
  uint32_t p = *attune__rp(w, ins, k);
  if (p && p != ATTUNE__FULL)
    attune__fault(w, -1, "wgmma.mma_async: scale-d differs between lanes");
  return p != 0;
}

/* ---- wgmma.mma_async ---------------------------------------------------------------------------
 */

static void run(attune__warp *w, const attune__ins *ins, const form *f) {
  uint32_t n = (uint32_t)ins->number;
  operands o = place(f, n);
  attune__dot dot = attune__mma_dot(w, f->a, f->b, ATTUNE__WGMMA_CHUNKS, f->half, 1);
  _Alignas(64) float a[ROWS * ATTUNE__K_MAX];
  _Alignas(64) float b[ATTUNE__WGMMA_N_MAX * ATTUNE__K_MAX];
  attune__wgmma_begin(w, ins, o.results, f->registers ? 4 : 0);
  load_a(w, ins, f, &o, dot.k, a);
  load_b(w, ins, f, &o, n, dot.k, b);
  int keep = scale_d(w, ins, o.scale_d);
  if (either(w, ins, o.negate_a, -1, 1) != either(w, ins, o.negate_b, -1, 1))
    for (uint32_t i = 0; i < ROWS * dot.k; i++) a[i] = -a[i];
  uint32_t registers = f->half ? 1 : 2;
  for (uint32_t block = 0; block < n / 4; block++) {
    _Alignas(64) float c[64] = {0};
    if (keep) attune__mma_load(w, ins, block * registers, f->half, c);
    attune__mma_block(&dot, c, a + block % 2 * 8 * dot.k, b + block / 2 * 8 * dot.k);
    attune__mma_store(w, ins, block * registers, f->half, c);
  }
  w->engine->count.mma_macs += ROWS * n * dot.k;
}

/* Forms, by an opcode's data: even from shared memory, odd from registers. */
#define FORM(a, b, half)                                                                           \
  {ATTUNE__##a, ATTUNE__##b, half, 0}, {                                                           \
    ATTUNE__##a, ATTUNE__##b, half, 1                                                              \
  }
enum { F16 = 0, F16_H = 2, BF16 = 4, TF32 = 6, E44 = 8, E45 = 10, E54 = 12, E55 = 14, HALF8 = 8 };
static const form forms[] = {
    FORM(F16, F16, 0),   FORM(F16, F16, 1),   FORM(BF16, BF16, 0), FORM(TF32, TF32, 0),
    FORM(E4M3, E4M3, 0), FORM(E4M3, E5M2, 0), FORM(E5M2, E4M3, 0), FORM(E5M2, E5M2, 0),
    FORM(E4M3, E4M3, 1), FORM(E4M3, E5M2, 1), FORM(E5M2, E4M3, 1), FORM(E5M2, E5M2, 1),
};

static void mma_async(attune__warp *w, const attune__ins *ins, uint32_t active) {
  (void)active;
  run(w, ins, &forms[ins->opcode->data]);
}

int attune__is_wgmma(const attune__opcode *opcode) {
  return opcode->run == mma_async;
}

/* ---- groups ------------------------------------------------------------------------------------
 */

static void fence(attune__warp *w, const attune__ins *ins, uint32_t active) {
  (void)ins, (void)active;
  if (w->engine->checks) attune__wgmma_fence(w);
}

static void commit_group(attune__warp *w, const attune__ins *ins, uint32_t active) {
  (void)ins, (void)active;
  if (w->engine->checks) attune__wgmma_commit(w);
}

static void wait_group(attune__warp *w, const attune__ins *ins, uint32_t active) {
  (void)active;
  if (w->engine->checks) attune__wgmma_wait(w, attune__r32(w, ins, 0)[0]);
}

/* ---- the table ---------------------------------------------------------------------------------
 */

/* Whether the count of operands goes with N: accumulators and `rest`. */
static int fits(int32_t n, uint32_t count, int half, uint32_t rest) {
  if (n < 8 || n > ATTUNE__WGMMA_N_MAX || n % 8) return 0;
  return count == (uint32_t)n / (half ? 4 : 2) + rest;
}
#define FITS(name, half, rest)                                                                     \
  static int name(int32_t n, uint32_t count) {                                                     \
    return fits(n, count, half, rest);                                                             \
  }
FITS(fits_shared, 0, 7)
FITS(fits_registers, 0, 9)
FITS(fits_shared_half, 1, 7)
FITS(fits_registers_half, 1, 9)
FITS(fits_shared_k_major, 0, 5)
FITS(fits_registers_k_major, 0, 8)
FITS(fits_shared_k_major_half, 1, 5)
FITS(fits_registers_k_major_half, 1, 8)

#define WGMMA(types, data, operands, accept)                                                       \
  { "wgmma.mma_async.sync.aligned.m64n#" types, operands, mma_async, ATTUNE__OP_WARP, data, accept }
/* With transposes (16-bit elements), and without. */
#define BOTH(types, data, accept)                                                                  \
  WGMMA(types, data, "{W*},d,d,p,i,i,i,i", fits_shared##accept),                                   \
      WGMMA(types, data + 1, "{W*},{w,w,w,w},d,p,i,i,i", fits_registers##accept)
#define K_MAJOR(types, data, accept)                                                               \
  WGMMA(types, data, "{W*},d,d,p,i,i", fits_shared_k_major##accept),                               \
      WGMMA(types, data + 1, "{W*},{w,w,w,w},d,p,i,i", fits_registers_k_major##accept)

static const attune__opcode rows[] = {
    {"wgmma.fence.sync.aligned", "", fence, ATTUNE__OP_WARP, 0, NULL},
    {"wgmma.commit_group.sync.aligned", "", commit_group, ATTUNE__OP_WARP, 0, NULL},
    {"wgmma.wait_group.sync.aligned", "i", wait_group, ATTUNE__OP_WARP, 0, NULL},
    BOTH("k16.f32.f16.f16", F16, ),
    BOTH("k16.f16.f16.f16", F16_H, _half),
    BOTH("k16.f32.bf16.bf16", BF16, ),
    K_MAJOR("k8.f32.tf32.tf32", TF32, ),
    K_MAJOR("k32.f32.e4m3.e4m3", E44, ),
    K_MAJOR("k32.f32.e4m3.e5m2", E45, ),
    K_MAJOR("k32.f32.e5m2.e4m3", E54, ),
    K_MAJOR("k32.f32.e5m2.e5m2", E55, ),
    K_MAJOR("k32.f16.e4m3.e4m3", E44 + HALF8, _half),
    K_MAJOR("k32.f16.e4m3.e5m2", E45 + HALF8, _half),
    K_MAJOR("k32.f16.e5m2.e4m3", E54 + HALF8, _half),
    K_MAJOR("k32.f16.e5m2.e5m2", E55 + HALF8, _half),
};

const attune__opcodes attune__ops_wgmma = {rows, sizeof rows / sizeof rows[0]};
