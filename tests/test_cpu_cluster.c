/* test_cpu_cluster.c - the CPU device: blocks of a cluster. Multicast, arrivals at a peer's
 * mbarrier, st.async, loads from a peer; and what goes wrong when a block comes too late or leaves
 * early. */
#include "../runtime/cpu/tensormap_bytes.h"
#include "cpu_kernel.h"
#include "test.h"

enum { COLUMNS = 64, BOX_ROWS = 16, TILES = 5, THREADS = 64, BLOCKS = 4 };

typedef struct params {
  _Alignas(64) unsigned char in[ATTUNE__TENSORMAP_BYTES];
  uint64_t out;
  int32_t tiles;
} params;

static _Alignas(64) uint16_t in[TILES * BOX_ROWS][COLUMNS];
static _Alignas(64) uint32_t out[2][TILES][BOX_ROWS][COLUMNS / 2];

static const cpu_tensor tensors[] = {
    {"in", in, sizeof in, ATTUNE__TENSOR_READ},
    {"out", out, sizeof out, ATTUNE__TENSOR_READ | ATTUNE__TENSOR_WRITE}};

static void bind(void *memory, const uint64_t pointer[]) {
  params *p = memory;
  attune__tensormap map = {.type = ATTUNE__MAP_BF16,
                           .rank = 2,
                           .base = pointer[0],
                           .extent = {COLUMNS, TILES * BOX_ROWS},
                           .stride = {0, COLUMNS * 2},
                           .box = {COLUMNS, BOX_ROWS / 2},
                           .swizzle = ATTUNE__SWIZZLE_128};
  ck_assert_int_eq(attune__tensormap_encode(&map, p->in), ATTUNE_OK);
  p->out = pointer[1];
  p->tiles = TILES;
}

static params the_params;
static const cpu_launch launch = {.grid = BLOCKS,
                                  .cluster = 2,
                                  .threads = THREADS,
                                  .smem_bytes = 4096,
                                  .tensor = tensors,
                                  .tensors = 2,
                                  .params = &the_params,
                                  .params_bytes = sizeof the_params,
                                  .bind = bind};

static void fill(void) {
  for (int r = 0; r < TILES * BOX_ROWS; r++)
    for (int c = 0; c < COLUMNS; c++) in[r][c] = (uint16_t)(r * 500 + c + 1);
  memset(out, 0, sizeof out);
}

static void run_clean(const char *kernel, void (*check)(void)) {
  cpu_kernel k = cpu_kernel_make("cluster.cu", kernel, "sm_90a", 0);
  fill();
  cpu_kernel_clean(&k, launch, check);
  cpu_kernel_free(&k);
}

static void run_fault(const char *kernel, int fault, const char *texts) {
  cpu_kernel k = cpu_kernel_make("cluster.cu", kernel, "sm_90a", fault);
  fill();
  cpu_kernel_faulty(&k, launch, fault, texts);
  cpu_kernel_free(&k);
}

/* ---- multicast ---------------------------------------------------------------------------------
 */

static void check_multicast(void) {
  for (int b = 0; b < 2; b++) ck_assert_mem_eq(out[b], in, sizeof in);
  memset(out, 0, sizeof out);
}

START_TEST(multicast) {
  run_clean("multicast", check_multicast);
  run_fault("multicast", 1, "mbarrier.init is missing|with no barrier after its init");
}
END_TEST

/* ---- a word for the peer -----------------------------------------------------------------------
 */

static void check_exchange(void) {
  const uint32_t *words = &out[0][0][0][0];
  for (uint32_t own = 0; own < 2; own++)
    for (uint32_t t = 0; t < THREADS; t++) {
      ck_assert_uint_eq(words[own * 128 + t], 7000 * (own ^ 1) + THREADS - 1 - t);
      ck_assert_uint_eq(words[own * 128 + 64 + t], 1000 * (own ^ 1) + t);
    }
  memset(out, 0, sizeof out);
}

START_TEST(exchange) {
  run_clean("exchange", check_exchange);
  run_fault("exchange", 4, "is under way|with no wait at its mbarrier|nothing has written");
}
END_TEST

/* Whether a peer has left depends on the schedule; in turns, block 1 has when block 0 looks. */
START_TEST(a_block_that_left_has_no_memory) {
  cpu_kernel k = cpu_kernel_make("cluster.cu", "leave", "sm_90a", 0);
  fill();
  ck_assert_int_eq(cpu_kernel_run(&k, &launch), ATTUNE_MISMATCH);
  ck_assert_msg(strstr(attune_error(), "block 1, rank 1 of the cluster, has exited") != NULL, "%s",
                attune_error());
  cpu_kernel_free(&k);
}
END_TEST

TEST_MAIN("cpu_cluster", multicast, exchange, a_block_that_left_has_no_memory)
