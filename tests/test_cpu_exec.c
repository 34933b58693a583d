/* test_cpu_exec.c - the CPU device: divergence, barriers, races in shared memory, bounds and kinds
 * of tensors. Right kernels are clean in every schedule tried; every seeded fault is reported at
 * its line. Needs NVRTC. */
#include "cpu_kernel.h"
#include "test.h"

#include <math.h>

enum { THREADS = 128, WORDS = 16 * THREADS, ROUNDS = 5 };

typedef struct params {
  uint64_t in, out;
  int32_t n;
} params;

static uint32_t in[WORDS], out[2 * THREADS];
static params the_params;

static void bind(void *p, const uint64_t pointer[]) {
  params *all = p;
  all->in = pointer[0], all->out = pointer[1];
}

/* out: how many words of it there are. */
static cpu_launch launch_of(int32_t n, uint32_t words, cpu_tensor tensors[2]) {
  tensors[0] = (cpu_tensor){"in", in, sizeof in, ATTUNE__TENSOR_READ};
  tensors[1] = (cpu_tensor){"out", out, words * sizeof *out, ATTUNE__TENSOR_OUTPUT};
  the_params.n = n;
  for (uint32_t k = 0; k < WORDS; k++) in[k] = k * 2654435761u;
  return (cpu_launch){.grid = words / THREADS,
                      .threads = THREADS,
                      .smem_bytes = 8192,
                      .tensor = tensors,
                      .tensors = 2,
                      .params = &the_params,
                      .params_bytes = sizeof the_params,
                      .bind = bind};
}

static void run_clean(const char *kernel, const char *arch, int32_t n, uint32_t words,
                      void (*check)(void)) {
  cpu_tensor tensors[2];
  cpu_launch launch = launch_of(n, words, tensors);
  cpu_kernel k = cpu_kernel_make("exec.cu", kernel, arch, 0);
  cpu_kernel_clean(&k, launch, check);
  cpu_kernel_free(&k);
}

/* texts[f - 1]: what the report of fault f says. */
static void run_faults(const char *kernel, const char *arch, int32_t n, const char *const *texts,
                       int count) {
  cpu_tensor tensors[2];
  cpu_launch launch = launch_of(n, THREADS, tensors);
  for (int f = 1; f <= count; f++) {
    cpu_kernel k = cpu_kernel_make("exec.cu", kernel, arch, f);
    cpu_kernel_faulty(&k, launch, f, texts[f - 1]);
    cpu_kernel_free(&k);
  }
}
#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

/* ---- divergence --------------------------------------------------------------------------------
 */

static uint32_t divergent_twin(uint32_t t, uint32_t n) {
  uint32_t a = 0;
  for (uint32_t i = 0; i < ((t * 5) & 7) + n; i++) {
    if ((i ^ t) & 1)
      a += in[i * 32 + (t & 31)];
    else
      a = a * 3 - 1;
  }
  if (t & 2) {
    a *= 5;
    if (t & 4) a ^= 0x1234;
  } else {
    for (uint32_t j = 0; j < (t & 3); j++) {
      a += in[j];
      if ((a & 63) == 7) break;
    }
  }
  if (t % 9 == 4) return a + 1;
  return __builtin_popcount(a) & 1 ? a : ~a;
}

static void check_divergent(void) {
  for (uint32_t k = 0; k < 2 * THREADS; k++)
    ck_assert_uint_eq(out[k], divergent_twin(k % THREADS, ROUNDS));
}

START_TEST(lanes_part_and_meet) {
  run_clean("divergent", "sm_75", ROUNDS, 2 * THREADS, check_divergent);
  run_clean("divergent", "sm_90a", ROUNDS, 2 * THREADS, check_divergent);
  run_clean("divergent", "sm_120a", ROUNDS, 2 * THREADS, check_divergent);
}
END_TEST

/* ---- shared memory ----------------------------------------------------------------------------
 */

static void check_ring(void) {
  for (uint32_t t = 0; t < THREADS; t++)
    ck_assert_uint_eq(out[t], in[(t + 33 * ROUNDS) % THREADS] + ROUNDS);
}
static void check_lanes(void) {
  for (uint32_t t = 0; t < THREADS; t++) ck_assert_uint_eq(out[t], 2 * in[t ^ 1]);
}
static void check_halves(void) {
  for (uint32_t t = 0; t < THREADS; t++)
    ck_assert_uint_eq(out[t], (in[t % 64 * 2] & 0xffff) | in[t % 64 * 2 + 1] << 16);
}
static void check_shared(void) {
  for (uint32_t t = 0; t < THREADS; t++) ck_assert_uint_eq(out[t], t ^ 32);
}

START_TEST(shared_memory_is_clean) {
  run_clean("ring", "sm_80", ROUNDS, THREADS, check_ring);
  run_clean("lanes", "sm_80", 0, THREADS, check_lanes);
  run_clean("halves", "sm_80", 0, THREADS, check_halves);
  run_clean("shared", "sm_80", 0, THREADS, check_shared);
}
END_TEST

START_TEST(races_are_found) {
  static const char *const warps[] = {"which nothing has written|with no barrier between",
                                      "with no barrier between"};
  static const char *const lanes[] = {
      "of the warp wrote, with no __syncwarp between|which several lanes read",
      "of the warp wrote, with no __syncwarp between",
      "of the warp read, with no __syncwarp between"};
  run_faults("ring", "sm_80", ROUNDS, warps, COUNT(warps));
  run_faults("lanes", "sm_80", 0, lanes, COUNT(lanes));
}
END_TEST

START_TEST(wrong_accesses_to_shared_memory_are_found) {
  static const char *const texts[] = {
      "of the block's 8192 bytes of shared memory",
      "is not aligned to 4",
      "of the warp wrote, with no __syncwarp between|with no barrier between",
      "overwrites byte 512",
      "at byte -4 of the block's",
      "reads byte 1024 of shared memory, which nothing has written"};
  run_faults("shared", "sm_80", 0, texts, COUNT(texts));
}
END_TEST

/* ---- barriers ---------------------------------------------------------------------------------
 */

static void check_named(void) {
  for (uint32_t t = 0; t < THREADS; t++) ck_assert_uint_eq(out[t], t < 64 ? 0 : in[t - 64]);
}

START_TEST(named_barriers_are_clean) {
  run_clean("named", "sm_80", 0, THREADS, check_named);
}
END_TEST

START_TEST(wrong_barriers_are_found) {
  static const char *const texts[] = {"deadlock: warp 0, 1 has returned; warp 2, 3 at",
                                      "said 128|said 96",
                                      "arrives at barrier 1 twice",
                                      "needs the whole warp, lane 5 is elsewhere",
                                      "barrier 16: a block has barriers 0 to 15",
                                      "must be a multiple of 32",
                                      "barrier 1, 96 of 128 threads arrived"};
  run_faults("named", "sm_80", 0, texts, COUNT(texts));
}
END_TEST

/* ---- global memory ----------------------------------------------------------------------------
 */

static void check_global(void) {
  for (uint32_t t = 0; t < THREADS; t++) ck_assert_uint_eq(out[t], in[t]);
}

START_TEST(wrong_accesses_to_tensors_are_found) {
  static const char *const texts[] = {"of in are no elements of it",
                                      "4 bytes at byte -4 of in are no elements of it",
                                      "of in is not aligned to 4",
                                      "], which is an input",
                                      "], which is an output",
                                      ", which was written before",
                                      " of in are no elements of it",
                                      "belongs to no tensor of the launch",
                                      "kernel global: out[0, 0, 0, 308] was never written"};
  run_clean("global", "sm_80", WORDS, THREADS, check_global);
  run_faults("global", "sm_80", WORDS, texts, COUNT(texts));
}
END_TEST

/* Whether a load of 4 bytes is a fault. */
static int faults(attune__warp *w, uint64_t address) {
  if (setjmp(w->engine->escape)) return 1;
  attune__gmem_access(w, 0, address, 4, 0, "load");
  return 0;
}

/* Rows of a view: [2, 3, 2, 4] elements of 4 bytes with gaps of all sizes, in each order of axes.
 */
static void check_view(int64_t batch, int64_t seq, int64_t head) {
  attune__gmem *g;
  attune__tensor t = {.name = "t",
                      .kind = ATTUNE__TENSOR_READ,
                      .base = (unsigned char *)in,
                      .element_bytes = 4,
                      .extent = {2, 3, 2, 4},
                      .stride = {batch, seq, head, 1}};
  ck_assert_int_eq(attune__gmem_make(&t, 1, 1, &g), ATTUNE_OK);
  attune__cpu_launch launch = {.gmem = g, .kernel = "view"};
  static attune__ptx program;
  static attune__ins ins;
  attune__engine *e = calloc(1, sizeof *e);
  attune__block block = {.index = 0};
  attune__warp w = {.engine = e, .block = &block, .at = &ins, .alone = ATTUNE__FULL};
  ck_assert_ptr_nonnull(e);
  launch.program = &program;
  e->launch = &launch;
  int64_t last = batch + 2 * seq + head + 4;
  for (int64_t at = -2; at < last + 2; at++) {
    int inside = 0;
    for (int64_t b = 0; b < 2; b++)
      for (int64_t s = 0; s < 3; s++)
        for (int64_t h = 0; h < 2; h++) {
          int64_t row = b * batch + s * seq + h * head;
          inside |= at >= row && at < row + 4;
        }
    ck_assert_msg(faults(&w, attune__gmem_pointer(g, 0) + (uint64_t)(at * 4)) == !inside,
                  "element %d of strides %d %d %d", (int)at, (int)batch, (int)seq, (int)head);
  }
  attune__gmem_free(g);
  free(e);
}

START_TEST(gaps_of_views_are_out_of_bounds) {
  check_view(60, 20, 8), check_view(24, 8, 4), check_view(40, 5, 17), check_view(6, 13, 50);
  check_view(0, 9, 4), check_view(31, 0, 15), check_view(9, 20, 0), check_view(0, 0, 0);
}
END_TEST

/* ---- arithmetic -------------------------------------------------------------------------------
 */

/* The approximations' own error, from the PTX text: 2^x over its whole range. */
START_TEST(exp2_is_good_to_an_ulp) {
  static const char text[] = ".version 9.0\n.target sm_80\n.address_size 64\n"
                             ".visible .entry k(.param .align 8 .b8 p[24])\n{\n"
                             ".reg .b32 %r<4>; .reg .f32 %f<3>; .reg .b64 %d<8>;\n"
                             "ld.param.u64 %d1, [p]; ld.param.u64 %d2, [p+8];\n"
                             "mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;\n"
                             "add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"
                             "ld.global.f32 %f1, [%d4]; ex2.approx.ftz.f32 %f2, %f1;\n"
                             "st.global.f32 [%d5], %f2; ret;\n}\n";
  static float x[1024], y[1024];
  static const cpu_tensor tensors[] = {{"x", x, sizeof x, ATTUNE__TENSOR_READ},
                                       {"y", y, sizeof y, ATTUNE__TENSOR_WRITE}};
  cpu_kernel k = {.name = "k"};
  ck_assert_msg(attune__ptx_parse(text, strlen(text), "k", &k.program) == ATTUNE_OK, "%s",
                attune_error());
  cpu_launch launch = {.grid = 1,
                       .threads = 1024,
                       .tensor = tensors,
                       .tensors = 2,
                       .params = &the_params,
                       .params_bytes = 24,
                       .bind = bind};
  double worst = 0;
  for (int round = 0; round < 256; round++) {
    for (int i = 0; i < 1024; i++) x[i] = -126.0f + 254.0f * (float)(round * 1024 + i) / 262144;
    ck_assert_int_eq(cpu_kernel_run(&k, &launch), ATTUNE_OK);
    for (int i = 0; i < 1024; i++) {
      double want = exp2((double)x[i]), ulp = ldexp(1, ilogb(want) - 23);
      worst = fmax(worst, fabs(want - (double)y[i]) / ulp);
    }
  }
  ck_assert_msg(worst <= 1, "off by %d hundredths of an ulp", (int)(worst * 100));
  x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY, x[3] = 128, x[4] = -127, x[5] = 1e30f,
  x[6] = -1e30f;
  x[7] = -0.0f;
  ck_assert_int_eq(cpu_kernel_run(&k, &launch), ATTUNE_OK);
  ck_assert(isnan(y[0]) && isinf(y[1]) && y[2] == 0 && isinf(y[3]) && y[4] == 0);
  ck_assert(isinf(y[5]) && y[6] == 0 && y[7] == 1);
  attune__ptx_free(k.program);
}
END_TEST

TEST_MAIN("cpu_exec", lanes_part_and_meet, shared_memory_is_clean, races_are_found,
          wrong_accesses_to_shared_memory_are_found, named_barriers_are_clean,
          wrong_barriers_are_found, wrong_accesses_to_tensors_are_found,
          gaps_of_views_are_out_of_bounds, exp2_is_good_to_an_ulp)
