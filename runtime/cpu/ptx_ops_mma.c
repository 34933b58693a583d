/* ptx_ops_mma.c - mma.sync: D = A B + C by one warp, from registers.
 *
 * m16n8: g = lane / 4, t = lane % 4. A register of A is 8 rows (g) of 16 bytes (t gives 4 of them):
 * registers 0 and 1 are rows 0-7 and 8-15, 2 and 3 the same rows at the next 16 bytes of k. A
 * register of B is 8 columns of 16 bytes of k. C and D: rows 0-7, then 8-15. */
#include "mma.h"

typedef struct shape {
  attune__element a, b;
  uint32_t chunks; /* of k */
  int half;        /* C and D are f16 */
} shape;

static void run(attune__warp *w, const attune__ins *ins, const shape *s) {
  attune__dot dot = attune__mma_dot(w, s->a, s->b, s->chunks, s->half, 0);
  uint32_t k = dot.k, elements = attune__chunk_elements(s->a);
  uint32_t results = s->half ? 2 : 4, first_b = results + 2 * s->chunks;
  _Alignas(64) float a[16 * ATTUNE__K_MAX], b[8 * ATTUNE__K_MAX], by_column[8 * ATTUNE__K_MAX];
  _Alignas(64) float c[2][64];
  attune__mma_load_a(w, ins, results, s->a, k, a);
  for (uint32_t r = 0; r < s->chunks; r++)
    attune__mma_unpack(s->b, attune__r32(w, ins, first_b + r), 8, by_column + r * elements, k);
  for (uint32_t i = 0; i < k; i += 8) attune__mma_transpose(by_column + i, k, b + 8 * i, 8);
  for (uint32_t h = 0; h < 2; h++) {
    uint32_t step = results / 2;
    attune__mma_load(w, ins, first_b + s->chunks + h * step, s->half, c[h]);
    attune__mma_block(&dot, c[h], a + h * 8 * k, b);
  }
  for (uint32_t h = 0; h < 2; h++) attune__mma_store(w, ins, h * (results / 2), s->half, c[h]);
  w->engine->count.mma_macs += 16 * 8 * k;
}

/* Shapes by an opcode's data. */
enum { F16_K8, F16_K16, F16_K8_HALF, F16_K16_HALF, BF16_K8, BF16_K16, TF32_K8, E44, E45, E54, E55 };
static const shape shapes[] = {
    [F16_K8] = {ATTUNE__F16, ATTUNE__F16, 1, 0},
    [F16_K16] = {ATTUNE__F16, ATTUNE__F16, 2, 0},
    [F16_K8_HALF] = {ATTUNE__F16, ATTUNE__F16, 1, 1},
    [F16_K16_HALF] = {ATTUNE__F16, ATTUNE__F16, 2, 1},
    [BF16_K8] = {ATTUNE__BF16, ATTUNE__BF16, 1, 0},
    [BF16_K16] = {ATTUNE__BF16, ATTUNE__BF16, 2, 0},
    [TF32_K8] = {ATTUNE__TF32, ATTUNE__TF32, 2, 0},
    [E44] = {ATTUNE__E4M3, ATTUNE__E4M3, 2, 0},
    [E45] = {ATTUNE__E4M3, ATTUNE__E5M2, 2, 0},
    [E54] = {ATTUNE__E5M2, ATTUNE__E4M3, 2, 0},
    [E55] = {ATTUNE__E5M2, ATTUNE__E5M2, 2, 0},
};

/* The oldest arch that has it: Turing k8 of f16, Ada 8-bit elements, Ampere the rest. */
static void mma(attune__warp *w, const attune__ins *ins, uint32_t active) {
  const shape *s = &shapes[ins->opcode->data];
  (void)active;
  if (attune__chunk_elements(s->a) == 16)
    attune__require_cc(w, 89);
  else if (s->a != ATTUNE__F16 || s->chunks == 2)
    attune__require_cc(w, 80);
  run(w, ins, s);
}

#define K8    "{W,W,W,W},{w,w},{w},{w,w,w,w}"
#define K16   "{W,W,W,W},{w,w,w,w},{w,w},{w,w,w,w}"
#define K8_H  "{W,W},{w,w},{w},{w,w}"
#define K16_H "{W,W},{w,w,w,w},{w,w},{w,w}"
#define MMA(shape, types, operands, data)                                                          \
  { "mma.sync.aligned." shape ".row.col." types, operands, mma, ATTUNE__OP_WARP, data, NULL }

static const attune__opcode rows[] = {
    MMA("m16n8k8", "f32.f16.f16.f32", K8, F16_K8),
    MMA("m16n8k16", "f32.f16.f16.f32", K16, F16_K16),
    MMA("m16n8k8", "f16.f16.f16.f16", K8_H, F16_K8_HALF),
    MMA("m16n8k16", "f16.f16.f16.f16", K16_H, F16_K16_HALF),
    MMA("m16n8k8", "f32.bf16.bf16.f32", K8, BF16_K8),
    MMA("m16n8k16", "f32.bf16.bf16.f32", K16, BF16_K16),
    MMA("m16n8k8", "f32.tf32.tf32.f32", K16, TF32_K8),
    MMA("m16n8k32", "f32.e4m3.e4m3.f32", K16, E44),
    MMA("m16n8k32", "f32.e4m3.e5m2.f32", K16, E45),
    MMA("m16n8k32", "f32.e5m2.e4m3.f32", K16, E54),
    MMA("m16n8k32", "f32.e5m2.e5m2.f32", K16, E55),
};

const attune__opcodes attune__ops_mma = {rows, sizeof rows / sizeof rows[0]};
