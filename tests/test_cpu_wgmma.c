/* test_cpu_wgmma.c - wgmma on the CPU device: right use is clean, and each misuse is reported. */
#include "cpu_kernel.h"
#include "test.h"

enum { ROWS = 64, COLUMNS = 8, K = 16, THREADS = 128 };

typedef struct params {
  uint64_t in, out;
} params;

/* Core matrices of 8 rows by 8 elements, as the descriptors have them: bf16. */
static uint16_t in[(ROWS + COLUMNS) * K];
static float out[THREADS * 4];
static params the_params;
static const cpu_tensor tensors[] = {{"in", in, sizeof in, ATTUNE__TENSOR_READ},
                                     {"out", out, sizeof out, ATTUNE__TENSOR_OUTPUT}};

static void bind(void *memory, const uint64_t pointer[]) {
  params *p = memory;
  *p = (params){pointer[0], pointer[1]};
}

static cpu_launch launch_of(uint32_t threads) {
  return (cpu_launch){.grid = 1,
                      .threads = threads,
                      .smem_bytes = sizeof in,
                      .tensor = tensors,
                      .tensors = 2,
                      .params = &the_params,
                      .params_bytes = sizeof the_params,
                      .bind = bind};
}

/* Small whole numbers: every sum is exact. */
static int number(int row, int k) {
  return (row * 7 + k * 3) % 11 - 5;
}

static void fill(void) {
  for (int row = 0; row < ROWS + COLUMNS; row++)
    for (int k = 0; k < K; k++) {
      int place = row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8;
      in[place] = (uint16_t)(attune__bits((float)number(row, k)) >> 16);
    }
  memset(out, 0xff, sizeof out);
}

/* Twice the product: A from shared memory and A from registers. */
static void check(void) {
  for (int t = 0; t < THREADS; t++)
    for (int i = 0; i < 4; i++) {
      int row = t / 32 * 16 + t % 32 / 4 + i / 2 * 8, column = t % 4 * 2 + i % 2, sum = 0;
      for (int k = 0; k < K; k++) sum += number(row, k) * number(ROWS + column, k);
      ck_assert_msg(out[4 * t + i] == (float)(2 * sum), "row %d column %d: %g, not %d", row, column,
                    out[4 * t + i], 2 * sum);
    }
  memset(out, 0xff, sizeof out);
}

START_TEST(right_use_is_clean) {
  cpu_kernel k = cpu_kernel_make("wgmma.cu", "products", "sm_90a", 0);
  fill();
  cpu_kernel_clean(&k, launch_of(THREADS), check);
  cpu_kernel_free(&k);
}
END_TEST

START_TEST(misuse_is_found) {
  static const char *const texts[] = {
      NULL,
      "base offset 1 in the descriptor",
      "bits 0x80000000000000 of the descriptor have no meaning",
      "scale-d differs between lanes",
      "of its warpgroup",
      "a register of the accumulator was written after the last wgmma.fence",
      "a register of A was written after the last wgmma.fence",
      "writes a register that wgmma.mma_async still reads",
      "a register that wgmma.mma_async still writes",
      "while asynchronous work reads it",
      "with no wgmma.fence since the start or the last wgmma.wait_group",
      "reads a register that wgmma.mma_async still writes"};
  fill();
  for (int fault = 1; fault < (int)(sizeof texts / sizeof *texts); fault++) {
    cpu_kernel k = cpu_kernel_make("wgmma.cu", "products", "sm_90a", fault);
    cpu_kernel_faulty(&k, launch_of(THREADS), fault, texts[fault]);
    cpu_kernel_free(&k);
  }
}
END_TEST

START_TEST(half_a_warpgroup_is_refused) {
  cpu_kernel k = cpu_kernel_make("wgmma.cu", "products", "sm_90a", 12);
  fill();
  cpu_kernel_faulty(&k, launch_of(64), 12, "fewer than 4 warps");
  cpu_kernel_free(&k);
}
END_TEST

TEST_MAIN("cpu wgmma", right_use_is_clean, misuse_is_found, half_a_warpgroup_is_refused)
