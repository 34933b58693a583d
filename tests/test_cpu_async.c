/* test_cpu_async.c - the CPU device: cp.async and mbarriers. Right kernels are clean under every
 * landing and schedule tried; every seeded fault is reported at its line. */
#include "cpu_kernel.h"
#include "test.h"

enum { THREADS = 128, TILES = 5, WORDS = TILES * THREADS * 4 };

typedef struct params {
  uint64_t in, out;
  int32_t tiles;
} params;

static uint32_t in[WORDS], out[WORDS];
static const cpu_tensor tensors[] = {{"in", in, sizeof in, ATTUNE__TENSOR_READ},
                                     {"out", out, sizeof out, ATTUNE__TENSOR_WRITE}};
static params the_params;

static void bind(void *p, const uint64_t pointer[]) {
  *(params *)p = (params){pointer[0], pointer[1], TILES};
}

static const cpu_launch launch = {.grid = 1,
                                  .threads = THREADS,
                                  .smem_bytes = 8192,
                                  .tensor = tensors,
                                  .tensors = 2,
                                  .params = &the_params,
                                  .params_bytes = sizeof the_params,
                                  .bind = bind};

static void fill(void) {
  for (uint32_t k = 0; k < WORDS; k++) in[k] = k * 2654435761u;
  memset(out, 0, sizeof out);
}

typedef struct fault {
  int number;
  const char *texts;
} fault;

static void run_faults(const char *kernel, const char *arch, const fault *f, size_t count) {
  fill();
  for (size_t k = 0; k < count; k++) {
    cpu_kernel made = cpu_kernel_make("cp_async.cu", kernel, arch, f[k].number);
    cpu_kernel_faulty(&made, launch, f[k].number, f[k].texts);
    cpu_kernel_free(&made);
  }
}

static void run_clean(const char *kernel, const char *arch, void (*check)(void)) {
  fill();
  cpu_kernel k = cpu_kernel_make("cp_async.cu", kernel, arch, 0);
  cpu_kernel_clean(&k, launch, check);
  cpu_kernel_free(&k);
}

/* ---- groups ------------------------------------------------------------------------------------
 */

static void check_pipeline(void) {
  for (uint32_t i = 0; i < TILES; i++)
    for (uint32_t t = 0; t < THREADS; t++)
      for (uint32_t k = 0; k < 4; k++)
        ck_assert_uint_eq(out[(i * THREADS + t) * 4 + k],
                          in[(i * THREADS + THREADS - 1 - t) * 4 + k]);
  memset(out, 0, sizeof out);
}

START_TEST(pipeline_is_clean) {
  run_clean("pipeline", "sm_80", check_pipeline);
  run_clean("pipeline", "sm_90a", check_pipeline);
}
END_TEST

START_TEST(pipeline_faults_are_found) {
  static const fault faults[] = {{1, "is under way: a wait is missing|nothing has written"},
                                 {2, "is under way: a wait is missing|nothing has written|race: "},
                                 {3, "overwrites byte|is under way"},
                                 {4, "the thread exits and never waited for this cp.async"},
                                 {5, "is under way: a wait is missing|nothing has written"}};
  run_faults("pipeline", "sm_80", faults, sizeof faults / sizeof *faults);
}
END_TEST

static void check_tails(void) {
  for (uint32_t t = 0; t < THREADS; t++)
    for (uint32_t k = 0; k < 4; k++) {
      uint32_t from = t ^ 1, words = from % 3 == 0 ? 4 : from % 3 == 1 ? 3 : 0;
      ck_assert_uint_eq(out[t * 4 + k], k < words ? in[from * 4 + k] : 0);
    }
  memset(out, 0, sizeof out);
}

START_TEST(tails_are_zero) {
  static const fault faults[] = {{1, "with no __syncwarp between"}};
  run_clean("tails", "sm_80", check_tails);
  run_faults("tails", "sm_80", faults, 1);
}
END_TEST

/* Bytes of each tensor are those that the copies asked for, not what they filled with zeros. */
START_TEST(bytes_are_counted) {
  attune_cpu_counters count = {.size = sizeof count};
  cpu_launch counted = launch;
  counted.counters = &count;
  fill();
  cpu_kernel k = cpu_kernel_make("cp_async.cu", "tails", "sm_80", 0);
  ck_assert_int_eq(cpu_kernel_run(&k, &counted), ATTUNE_OK);
  ck_assert_uint_eq(count.tensor[0].requested_read, 43 * 16 + 43 * 12);
  ck_assert_uint_eq(count.tensor[0].compulsory_read, 43 * 16 + 43 * 12);
  ck_assert_uint_eq(count.async_bytes, THREADS * 16);
  cpu_kernel_free(&k);
}
END_TEST

/* ---- mbarriers ---------------------------------------------------------------------------------
 */

static void check_tracked(void) {
  ck_assert_mem_eq(out, in, sizeof in);
  memset(out, 0, sizeof out);
}

START_TEST(tracked_copies) {
  static const fault faults[] = {
      {1, "is under way: a wait is missing|nothing has written|with no wait at its mbarrier"},
      {2, "with no barrier after its init|mbarrier.init is missing"},
      {3, "overwrites byte|more arrivals|with no wait at its mbarrier"}};
  run_clean("tracked", "sm_90a", check_tracked);
  run_faults("tracked", "sm_90a", faults, sizeof faults / sizeof *faults);
}
END_TEST

TEST_MAIN("cpu_async", pipeline_is_clean, pipeline_faults_are_found, tails_are_zero,
          bytes_are_counted, tracked_copies)
