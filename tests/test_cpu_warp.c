/* test_cpu_warp.c - the CPU device: shuffles, votes, match, redux, elect, atomics. Expected values
 * are computed here lane by lane from what CUDA's documentation says of each function. */
#include "cpu_kernel.h"
#include "test.h"

enum { LANES = 32, RESULTS = 40 };

typedef struct params {
  uint64_t in, out, floats;
} params;

static uint32_t in[LANES], out[RESULTS * LANES];
static float floats[LANES];

static const cpu_tensor tensors[] = {
    {"in", in, sizeof in, ATTUNE__TENSOR_READ},
    {"out", out, sizeof out, ATTUNE__TENSOR_READ | ATTUNE__TENSOR_WRITE},
    {"floats", floats, sizeof floats, ATTUNE__TENSOR_READ | ATTUNE__TENSOR_WRITE}};

static void bind(void *p, const uint64_t pointer[]) {
  *(params *)p = (params){pointer[0], pointer[1], pointer[2]};
}

static params the_params;
static const cpu_launch warp_launch = {.grid = 1,
                                       .threads = LANES,
                                       .smem_bytes = 1024,
                                       .tensor = tensors,
                                       .tensors = 3,
                                       .params = &the_params,
                                       .params_bytes = sizeof the_params,
                                       .bind = bind};

static void fill(void) {
  for (uint32_t l = 0; l < LANES; l++) {
    in[l] = l * 2654435761u >> 7;
    floats[l] = 0;
  }
  memset(out, 0, sizeof out);
}

/* ---- what lanes exchange -----------------------------------------------------------------------
 */

static uint32_t got(uint32_t row, uint32_t lane) {
  return out[row * LANES + lane];
}

static void check_shuffles(uint32_t l) {
  ck_assert_uint_eq(got(0, l), in[l ^ 4]);
  ck_assert_uint_eq(got(1, l), in[l < 3 ? l : l - 3]);
  ck_assert_uint_eq(got(2, l), in[l + 5 < LANES ? l + 5 : l]);
  ck_assert_uint_eq(got(3, l), in[l * 7 % 32]);
  /* xor with a width reads lower segments, not higher ones */
  ck_assert_uint_eq(got(4, l), in[(l ^ 9) / 8 <= l / 8 ? (l ^ 9) : l]);
  ck_assert_uint_eq(got(5, l), in[l % 8 < 2 ? l : l - 2]);
  ck_assert_uint_eq(got(6, l), in[l % 16 == 15 ? l : l + 1]);
  ck_assert_uint_eq(got(7, l), in[l / 4 * 4 + (l + 3) % 4]);
  ck_assert_uint_eq(got(24, l), in[l < 28 ? l + 4 : l]);
  ck_assert_uint_eq(got(25, l), l < 28);
}

static void check_votes(uint32_t l) {
  uint32_t odd = 0, same5 = 0, same3 = 0, sum = 0, least = ~0u, both = ~0u, any = 0, parity = 0;
  int32_t most = INT32_MIN;
  for (uint32_t k = 0; k < LANES; k++) {
    odd |= (in[k] & 1) << k;
    same5 |= (uint32_t)(in[k] % 5 == in[l] % 5) << k;
    same3 |= (uint32_t)(in[k] % 3 == in[l] % 3) << k;
    sum += in[k], any |= in[k], parity ^= in[k], both &= in[k] | 0xff;
    if (in[k] < least) least = in[k];
    if ((int32_t)(in[k] << 7) > most) most = (int32_t)(in[k] << 7);
  }
  ck_assert_uint_eq(got(8, l), odd);
  ck_assert_uint_eq(got(9, l), 1 | 2 | 16);
  ck_assert_uint_eq(got(10, l), same5);
  ck_assert_uint_eq(got(11, l), same3);
  ck_assert_uint_eq(got(12, l), ~0u);
  ck_assert_uint_eq(got(13, l), 0);
  ck_assert_uint_eq(got(14, l), sum);
  ck_assert_uint_eq(got(15, l), least);
  ck_assert_uint_eq(got(16, l), (uint32_t)most);
  ck_assert_uint_eq(got(17, l), both);
  ck_assert_uint_eq(got(18, l), any);
  ck_assert_uint_eq(got(19, l), parity);
  ck_assert_uint_eq(got(20, l), 0);
  ck_assert_uint_eq(got(21, l), l == 0);
  ck_assert_uint_eq(got(22, l), l & 2 ? 0xccccccccu : 0);
  ck_assert_uint_eq(got(23, l), l & 2 ? 0xccccccccu & ~0x3ffu : 0);
}

START_TEST(lanes_exchange) {
  fill();
  cpu_kernel k = cpu_kernel_make("warp.cu", "exchange", "sm_90a", 0);
  attune_status status = cpu_kernel_run(&k, &warp_launch);
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
  for (uint32_t l = 0; l < LANES; l++) {
    check_shuffles(l);
    check_votes(l);
  }
  cpu_kernel_free(&k);
}
END_TEST

/* ---- lanes that meet ---------------------------------------------------------------------------
 */

static void check_gathered(void) {
  for (uint32_t l = 0; l < LANES; l++) {
    ck_assert_uint_eq(got(0, l), UINT32_MAX);
    ck_assert_uint_eq(got(1, l), 77);
  }
}

/* Lanes at bar.warp.sync let the others run until these are there, wherever they come from. */
START_TEST(lanes_wait_for_those_they_name) {
  fill();
  cpu_kernel k = cpu_kernel_make("warp.cu", "gather", "sm_90a", 0);
  cpu_kernel_clean(&k, warp_launch, check_gathered);
  cpu_kernel_free(&k);
  k = cpu_kernel_make("warp.cu", "gather", "sm_90a", 1);
  cpu_kernel_faulty(&k, warp_launch, 1, "which nothing has written");
  cpu_kernel_free(&k);
}
END_TEST

static void check_widths(void) {
  for (uint32_t l = 0; l < LANES; l++) {
    ck_assert_uint_eq(out[2 * l], l | (200 + l) << 8 | 255u << 16 | 128u << 24);
    ck_assert_uint_eq(out[2 * l + 1], UINT32_MAX); /* the sign of 128 << 24 */
    ck_assert_uint_eq(got(2, l), 255 | l << 8 | (200 + l) << 16 | 128u << 24);
  }
}

START_TEST(bytes_and_signs_of_shared_words) {
  fill();
  cpu_kernel k = cpu_kernel_make("warp.cu", "widths", "sm_90a", 0);
  cpu_kernel_clean(&k, warp_launch, check_widths);
  cpu_kernel_free(&k);
}
END_TEST

/* ---- atomics -----------------------------------------------------------------------------------
 */

static void check_atomics(void) {
  ck_assert_uint_eq(out[0], 63 * 64 / 2);
  ck_assert_uint_eq(out[1], 63);
  ck_assert_uint_eq(out[2], 64 % 10);
  ck_assert_int_eq((int32_t)out[3], -63);
  ck_assert_uint_eq(out[4], 0);
  ck_assert_uint_eq(out[5], out[6]);
  ck_assert_uint_eq(out[8], 2 * 63 * 64 / 2);
  ck_assert_uint_eq(out[9], 58);
  uint64_t wide;
  memcpy(&wide, out + 10, sizeof wide);
  ck_assert_uint_eq(wide, (uint64_t)(2 * 63 * 64 / 2) << 31);
  uint64_t seen[2] = {0, 0};
  for (int k = 0; k < 128; k++) seen[out[64 + k] / 64] |= UINT64_C(1) << out[64 + k] % 64;
  ck_assert_uint_eq(seen[0] & seen[1], UINT64_MAX);
  ck_assert_uint_eq(out[12], 128);
  ck_assert_uint_eq(out[13], 7);
  static const float sums[8] = {1008, 32, 128, 256, 128, 256, 384, 512};
  for (int k = 0; k < 8; k++)
    ck_assert_msg(floats[k] == sums[k], "float %d: %g", k, (double)floats[k]);
  fill();
}

START_TEST(atomics_add_up) {
  fill();
  cpu_launch launch = warp_launch;
  launch.grid = 2;
  launch.threads = 64;
  cpu_kernel k = cpu_kernel_make("warp.cu", "atomics", "sm_90a", 0);
  cpu_kernel_clean(&k, launch, check_atomics);
  cpu_kernel_free(&k);
  k = cpu_kernel_make("warp.cu", "atomics", "sm_90a", 1);
  launch.grid = 1;
  cpu_kernel_faulty(&k, launch, 1, "race: |which nothing has written");
  cpu_kernel_free(&k);
}
END_TEST

/* ---- faults ------------------------------------------------------------------------------------
 */

START_TEST(wrong_lanes_are_found) {
  static const char *const text[] = {
      "the lane is in the membermask 0xffffffff and takes another path",
      "the lane is not in its own membermask 0xff", "it reads lane 16, which takes no part",
      "trap"};
  fill();
  for (int fault = 1; fault <= 4; fault++) {
    cpu_kernel k = cpu_kernel_make("warp.cu", "wrong_lanes", "sm_90a", fault);
    cpu_kernel_faulty(&k, warp_launch, fault, text[fault - 1]);
    cpu_kernel_free(&k);
  }
}
END_TEST

TEST_MAIN("cpu_warp", lanes_exchange, lanes_wait_for_those_they_name,
          bytes_and_signs_of_shared_words, atomics_add_up, wrong_lanes_are_found)
