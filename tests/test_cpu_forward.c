/* test_cpu_forward.c - two whole forwards on the CPU device, as FlashAttention-2 and -3 have them:
 * numbers against float64, bytes and phases against formulas, every seeded fault at its line. */
#include "../gen/reference.h"
#include "../runtime/cpu/tensormap_bytes.h"
#include "cpu_kernel.h"
#include "test.h"

#include <math.h>

enum { HEADS_MAX = 2, LEN_MAX = 512, DIM_MAX = 128, TILE = 64, PARAMS_BYTES = 512 };
enum { ELEMENTS = HEADS_MAX * LEN_MAX * DIM_MAX };

/* ---- a problem ---------------------------------------------------------------------------------
 */

typedef struct problem {
  int heads, len_q, len_k, dim, causal;
  const char *file, *kernel, *arch;
  int rows;    /* queries of a block */
  int variant; /* of the kernel: tens of FAULT */
} problem;

static problem now; /* the one that runs */
static uint16_t bits[3][ELEMENTS];
static float values[3][ELEMENTS], out[ELEMENTS], lse[HEADS_MAX * LEN_MAX];
static double true_out[ELEMENTS], true_lse[HEADS_MAX * LEN_MAX];
static cpu_tensor tensors[5];

static size_t length_of(int t) {
  return (size_t)now.heads * (size_t)(t == 0 ? now.len_q : now.len_k) * (size_t)now.dim;
}

static void fill(void) {
  uint64_t state = 5;
  for (int t = 0; t < 3; t++) {
    for (size_t i = 0; i < length_of(t); i++) {
      float sum = 0; /* of four: near enough to a normal distribution */
      for (int k = 0; k < 4; k++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sum += (float)((double)(int64_t)state * 0x1p-63);
      }
      values[t][i] = sum;
    }
    attune__to_dtype(ATTUNE_DTYPE_BF16, values[t], bits[t], length_of(t));
    attune__from_dtype(ATTUNE_DTYPE_BF16, bits[t], values[t], length_of(t));
  }
}

static void compute_truth(void) {
  attune_reference_problem p = {
      .scale = 1 / sqrt(now.dim), .q = values[0], .k = values[1], .v = values[2], .threads = 2};
  p.variant.head_dim_qk = p.variant.head_dim_v = (uint16_t)now.dim;
  p.variant.mask = now.causal ? ATTUNE_MASK_CAUSAL : ATTUNE_MASK_NONE;
  p.shape = (attune_shape){1,         now.heads, now.heads, now.len_q,
                           now.len_k, -1,        -1,        ATTUNE_CORNER_BOTTOM_RIGHT};
  ck_assert_int_eq(attune__reference(&p, true_out, true_lse), ATTUNE_OK);
}

/* P is rounded to bf16, so a probability is off by 2^-9 of itself: |O| of 1 by less than 2^-8. */
static void check_numbers(void) {
  for (size_t i = 0; i < length_of(0); i++)
    ck_assert_msg(fabs(out[i] - true_out[i]) < 0x1p-8, "o[%zu] is %g, not %g", i, out[i],
                  true_out[i]);
  for (int i = 0; i < now.heads * now.len_q; i++)
    ck_assert_msg(lse[i] == true_lse[i] || fabs(lse[i] - true_lse[i]) < 1e-5,
                  "lse[%d] is %g, not %g", i, lse[i], true_lse[i]);
  memset(out, 0xff, sizeof out);
  memset(lse, 0xff, sizeof lse);
}

/* ---- parameters --------------------------------------------------------------------------------
 */

typedef struct fa2_params {
  uint64_t q, k, v, o, lse;
  int32_t len_q, len_k;
  float scale_log2;
} fa2_params;

typedef struct fa3_params {
  _Alignas(64) unsigned char map[3][ATTUNE__TENSORMAP_BYTES];
  uint64_t o, lse;
  int32_t len_q, len_k;
  float scale_log2;
} fa3_params;

static float scale_log2(void) {
  return (float)(1 / sqrt(now.dim) / log(2));
}

static void bind_fa2(void *memory, const uint64_t pointer[]) {
  fa2_params p = {pointer[0], pointer[1], pointer[2], pointer[3],
                  pointer[4], now.len_q,  now.len_k,  scale_log2()};
  memcpy(memory, &p, sizeof p);
}

static void bind_fa3(void *memory, const uint64_t pointer[]) {
  fa3_params p = {.o = pointer[3], .lse = pointer[4], .len_q = now.len_q, .len_k = now.len_k};
  p.scale_log2 = scale_log2();
  for (int t = 0; t < 3; t++) {
    uint64_t len = (uint64_t)(t == 0 ? now.len_q : now.len_k), row = 2 * (uint64_t)now.dim;
    attune__tensormap map = {.type = ATTUNE__MAP_BF16,
                             .rank = 3,
                             .base = pointer[t],
                             .extent = {(uint64_t)now.dim, len, (uint64_t)now.heads},
                             .stride = {0, row, row * len},
                             .box = {TILE, TILE, 1},
                             .swizzle = ATTUNE__SWIZZLE_128};
    ck_assert_msg(!attune__tensormap_encode(&map, p.map[t]), "%s", attune_error());
  }
  memcpy(memory, &p, sizeof p);
}

static cpu_launch prepare(const problem *p) {
  static _Alignas(64) unsigned char params[PARAMS_BYTES];
  now = *p;
  fill();
  compute_truth();
  tensors[0] = (cpu_tensor){"q", bits[0], 2 * length_of(0), ATTUNE__TENSOR_READ};
  tensors[1] = (cpu_tensor){"k", bits[1], 2 * length_of(1), ATTUNE__TENSOR_READ};
  tensors[2] = (cpu_tensor){"v", bits[2], 2 * length_of(2), ATTUNE__TENSOR_READ};
  tensors[3] = (cpu_tensor){"o", out, 4 * length_of(0), ATTUNE__TENSOR_OUTPUT};
  tensors[4] = (cpu_tensor){"lse", lse, 4 * (size_t)(now.heads * now.len_q), ATTUNE__TENSOR_OUTPUT};
  int fa3 = now.rows == 2 * TILE, tiles_q = (now.len_q + now.rows - 1) / now.rows;
  return (cpu_launch){.grid = (uint32_t)(tiles_q * now.heads),
                      .threads = fa3 ? 384 : 128,
                      .smem_bytes = fa3 ? 6 * 8192 + 128 : (uint32_t)(5 * TILE * now.dim * 2),
                      .tensor = tensors,
                      .tensors = 5,
                      .params = params,
                      .params_bytes = fa3 ? sizeof(fa3_params) : sizeof(fa2_params),
                      .bind = fa3 ? bind_fa3 : bind_fa2};
}

/* ---- clean runs --------------------------------------------------------------------------------
 */

static void run_clean(const problem *p) {
  cpu_kernel k = cpu_kernel_make(p->file, p->kernel, p->arch, 10 * p->variant);
  cpu_kernel_clean(&k, prepare(p), check_numbers);
  cpu_kernel_free(&k);
}

START_TEST(fa2_is_clean) {
  run_clean(&(problem){2, 150, 200, 64, 1, "fa2.cu", "fa2", "sm_80", TILE, 0});
  run_clean(&(problem){1, 128, 190, 128, 0, "fa2.cu", "fa2", "sm_80", TILE, 3});
}
END_TEST

START_TEST(fa3_is_clean) {
  run_clean(&(problem){2, 200, 300, 64, 1, "fa3.cu", "fa3", "sm_90a", 2 * TILE, 0});
  run_clean(&(problem){1, 256, 256, 64, 0, "fa3.cu", "fa3", "sm_90a", 2 * TILE, 1});
}
END_TEST

/* ---- counts ------------------------------------------------------------------------------------
 */

/* Q once; K and V once for each block of queries; O and LSE once. No bank waits in ldmatrix, and
 * multiplications are two matrix products over whole tiles. */
static void check_counts(const problem *p) {
  cpu_kernel k = cpu_kernel_make(p->file, p->kernel, p->arch, 10 * p->variant);
  cpu_launch launch = prepare(p);
  attune_cpu_counters c = attune_cpu_counters_init();
  launch.counters = &c;
  ck_assert_msg(!cpu_kernel_run(&k, &launch), "%s", attune_error());
  uint64_t dim = (uint64_t)p->dim, head = (uint64_t)p->len_q * dim;
  uint64_t keys = (uint64_t)p->len_k * dim;
  uint64_t blocks = launch.grid, heads = (uint64_t)p->heads;
  ck_assert_uint_eq(c.tensor[0].requested_read, 2 * heads * head);
  ck_assert_uint_eq(c.tensor[1].requested_read, 2 * blocks * keys);
  ck_assert_uint_eq(c.tensor[2].requested_read, 2 * blocks * keys);
  ck_assert_uint_eq(c.tensor[1].compulsory_read, 2 * heads * keys);
  ck_assert_uint_eq(c.tensor[3].requested_write, 4 * heads * head);
  ck_assert_uint_eq(c.tensor[4].requested_write, 4 * heads * (uint64_t)p->len_q);
  ck_assert_uint_eq(c.smem_phases, c.smem_phases_least);
  ck_assert_uint_eq(c.mma_macs, 2 * blocks * (uint64_t)p->rows * keys);
  cpu_kernel_free(&k);
}

START_TEST(counts_are_exact) {
  check_counts(&(problem){2, 256, 256, 64, 0, "fa2.cu", "fa2", "sm_80", TILE, 2});
  check_counts(&(problem){2, 256, 256, 64, 0, "fa3.cu", "fa3", "sm_90a", 2 * TILE, 1});
}
END_TEST

/* ---- faults ------------------------------------------------------------------------------------
 */

typedef struct fault {
  int number;
  const char *texts; /* NULL: wrong numbers */
} fault;

static void run_faults(const problem *p, const fault *f, size_t count) {
  for (size_t i = 0; i < count; i++) {
    cpu_kernel k = cpu_kernel_make(p->file, p->kernel, p->arch, f[i].number);
    cpu_launch launch = prepare(p);
    if (f[i].texts) {
      cpu_kernel_faulty(&k, launch, f[i].number, f[i].texts);
    } else {
      ck_assert_msg(!cpu_kernel_run(&k, &launch), "%s", attune_error());
      double worst = 0;
      for (size_t e = 0; e < length_of(0); e++) worst = fmax(worst, fabs(out[e] - true_out[e]));
      ck_assert_msg(!(worst < 0.05), "fault %d: O is off by %g only", f[i].number, worst);
    }
    cpu_kernel_free(&k);
  }
}

START_TEST(fa2_faults_are_found) {
  static const fault faults[] = {{1, "is under way"},
                                 {2, "race: |nothing has written|is under way"},
                                 {3, "race: |is under way"},
                                 {4, "96 of 128 threads arrived|race: |is under way"},
                                 {5, "which was written before|out of bounds"}};
  run_faults(&(problem){2, 150, 200, 64, 1, "fa2.cu", "fa2", "sm_80", TILE, 0}, faults,
             sizeof faults / sizeof *faults);
}
END_TEST

START_TEST(fa3_faults_are_found) {
  static const fault faults[] = {{1, "no wgmma.wait_group"},
                                 {2, "no wgmma.fence"},
                                 {3, "still|overwrites|race: "},
                                 {4, "never waited for"},
                                 {6, NULL},
                                 {7, "no fence.proxy.async"}};
  run_faults(&(problem){2, 200, 300, 64, 1, "fa3.cu", "fa3", "sm_90a", 2 * TILE, 0}, faults,
             sizeof faults / sizeof *faults);
}
END_TEST

TEST_MAIN("cpu forward", fa2_is_clean, fa3_is_clean, counts_are_exact, fa2_faults_are_found,
          fa3_faults_are_found)
