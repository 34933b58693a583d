/* test_kernels.c - the templates through the compiler: every kernel of specs/ci.yaml and
 * ci_features.yaml, every cross of mask, type and alignment, and the tiles at the edges of what is
 * legal, on the archs that differ. None may spill, keep a stack frame or be warned about. What they
 * compute is for verify. Needs NVRTC. */
#include "../gen/expand.h"
#include "../gen/nvrtc.h"
#include "../gen/plan.h"
#include "../gen/template.h"
#include "built.h"
#include "test.h"

#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 2, MAX_KERNELS = 256, FAULT_MAX = 600 };

/* Kernels to compile, and the first fault of each: "" when clean. */
static attune_kernel kernels[MAX_KERNELS];
static char faults[MAX_KERNELS][FAULT_MAX];
static int count;
static atomic_int next;

static void judge(const attune_kernel *kernel, const char *source, char *fault) {
  attune_image image;
  if (attune__nvrtc_compile(source, kernel->name, kernel->variant.arch, &image) != ATTUNE_OK) {
    snprintf(fault, FAULT_MAX, "%s", attune_error());
    return;
  }
  const attune_facts *facts = &image.facts;
  const char *warning = strstr(image.log, "warning");
  if (facts->spill_bytes || facts->stack_bytes || facts->static_smem || facts->c75_lines)
    snprintf(fault, FAULT_MAX, "spills %u, stack %u, static shared memory %u, C75xx %u",
             facts->spill_bytes, facts->stack_bytes, facts->static_smem, facts->c75_lines);
  else if (!facts->registers)
    snprintf(fault, FAULT_MAX, "no registers reported");
  else if (warning)
    snprintf(fault, FAULT_MAX, "%.500s", warning);
  attune__image_free(&image);
}

static void *worker(void *unused) {
  (void)unused;
  for (int i = atomic_fetch_add(&next, 1); i < count; i = atomic_fetch_add(&next, 1)) {
    attune__text source = {0};
    attune_emit_options options = {.lines = 1};
    if (attune__emit(&kernels[i], &options, &source) != ATTUNE_OK)
      snprintf(faults[i], FAULT_MAX, "%s", attune_error());
    else
      judge(&kernels[i], source.data, faults[i]);
    attune__text_free(&source);
  }
  return NULL;
}

/* Compiles kernels[0 .. count) and fails with the names and faults of those that aren't clean. */
static void compile_all(void) {
  pthread_t thread[THREADS];
  attune__text report = {0};
  memset(faults, 0, sizeof faults);
  atomic_store(&next, 0);
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&thread[i], NULL, worker, NULL), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < count; i++)
    if (faults[i][0]) attune__text_printf(&report, "\n%s: %s", kernels[i].name, faults[i]);
  ck_assert_msg(!report.size, "%s", report.data);
}

static void add(const attune_variant *variant, const attune_tile *tile) {
  ck_assert_int_lt(count, MAX_KERNELS);
  ck_assert_msg(attune__kernel_make(variant, tile, NULL, &kernels[count++]) == ATTUNE_OK, "%s",
                attune_error());
}

static attune_variant fwd(const char *arch, int dtype, int mask, int align) {
  return (attune_variant){.arch = attune__arch_parse(arch),
                          .op = ATTUNE_OP_ATTN_FWD,
                          .head_dim_qk = 24,
                          .head_dim_v = 40,
                          .group = 1,
                          .dtype_q = (uint8_t)dtype,
                          .dtype_kv = (uint8_t)dtype,
                          .dtype_out = (uint8_t)dtype,
                          .mask = (uint8_t)mask,
                          .align = (uint8_t)align};
}

static attune_tile fma_tile(int m, int n, int warps, int share_kv) {
  return (attune_tile){.family = ATTUNE_FAMILY_FMA,
                       .block_m = (uint16_t)m,
                       .block_n = (uint16_t)n,
                       .stages = 1,
                       .warps = (uint8_t)warps,
                       .share_kv = (uint8_t)share_kv};
}

static void check_built(const char *name) {
  attune_job job;
  build_spec(name, &job);
  ck_assert_int_ge(job.kernel_count, 20);
  for (int i = 0; i < job.kernel_count; i++) {
    void *bytes = NULL;
    size_t size;
    attune_entry entry;
    ck_assert_int_eq(read_built(name, job.kernels[i].name, &bytes, &size), ATTUNE_OK);
    ck_assert_int_eq(attune__entry_read(bytes, size, &entry), ATTUNE_OK);
    const attune_facts *facts = &entry.facts;
    ck_assert_msg(!facts->spill_bytes && !facts->stack_bytes && !facts->static_smem &&
                      facts->registers,
                  "%s: spills %u, stack %u, static shared memory %u, registers %u", entry.name,
                  facts->spill_bytes, facts->stack_bytes, facts->static_smem, facts->registers);
    free(bytes);
  }
  attune__job_free(&job);
}

START_TEST(ci_matrix) {
  check_built("ci");
}
END_TEST

START_TEST(ci_features) {
  check_built("ci_features");
}
END_TEST

/* One kernel of each spec in specs/models/, archs taking turns; `make check-spills` compiles them
 * all for every arch. */
static void add_of_model(const char *path, int turn) {
  attune_spec spec;
  attune_job job;
  attune__text errors = {0};
  attune_spec_options options = {.arch = attune__boards[turn % ATTUNE_BOARDS].arch_name};
  ck_assert_msg(attune__spec_read(path, NULL, 0, &options, &spec, &errors) == ATTUNE_OK, "%s",
                errors.data);
  ck_assert_msg(attune__expand(&spec, &job, &errors) == ATTUNE_OK, "%s", errors.data);
  ck_assert_int_lt(count, MAX_KERNELS);
  kernels[count++] = job.kernels[5 * turn % job.kernel_count];
  attune__job_free(&job);
  attune__spec_free(&spec);
}

START_TEST(models_sample) {
  glob_t models;
  ck_assert_int_eq(glob("specs/models/*.yaml", 0, NULL, &models), 0);
  count = 0;
  for (size_t i = 0; i < models.gl_pathc; i++) add_of_model(models.gl_pathv[i], (int)i);
  ck_assert_int_ge(count, 4);
  globfree(&models);
  compile_all();
}
END_TEST

/* Archs take turns, so that each type meets one that rounds bf16 in integers and one that doesn't.
 */
START_TEST(masks_types_alignments) {
  static const char *const archs[] = {"sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"};
  attune_tile tile = fma_tile(32, 32, 4, 0);
  count = 0;
  for (int mask = ATTUNE_MASK_NONE; mask <= ATTUNE_MASK_WINDOW; mask++)
    for (int dtype = ATTUNE_DTYPE_FP32; dtype <= ATTUNE_DTYPE_BF16; dtype++)
      for (int align = ATTUNE_ALIGN_16B; align <= ATTUNE_ALIGN_ELEM; align++) {
        attune_variant variant = fwd(archs[count % 5], dtype, mask, align);
        add(&variant, &tile);
      }
  ck_assert_int_eq(count, 18);
  compile_all();
}
END_TEST

/* One row and eight rows a thread, one column and eight, K and V apart and in turns. */
START_TEST(edges_of_tiles) {
  attune_variant variant = fwd("sm_80", ATTUNE_DTYPE_BF16, ATTUNE_MASK_WINDOW, ATTUNE_ALIGN_ELEM);
  count = 0;
  for (int share_kv = 0; share_kv <= 1; share_kv++) {
    attune_tile smallest = fma_tile(16, 16, 8, share_kv), tall = fma_tile(128, 16, 8, share_kv);
    attune_tile wide = fma_tile(16, 128, 8, share_kv), largest = fma_tile(128, 128, 8, share_kv);
    add(&variant, &smallest), add(&variant, &tall), add(&variant, &wide), add(&variant, &largest);
  }
  compile_all();
}
END_TEST

static void add_named(const char *name) {
  attune_variant variant;
  attune_tile tile;
  int has_tile, is_program;
  ck_assert_msg(attune__name_parse(name, &variant, &tile, &has_tile, &is_program) == ATTUNE_OK,
                "%s", attune_error());
  ck_assert_int_eq(has_tile, 1);
  add(&variant, &tile);
}

/* Each feature alone at a tile that takes most registers, and all at once at the edges; every arch
 * in turn. */
START_TEST(features_of_family_fma) {
  static const char *const names[] = {
      "attn_fwd_sm75_fp32_d64_window_softcap_elem__fma_m128n128w8kv1",
      "attn_fwd_sm80_bf16_d128_window_alibi__fma_m64n64kv1",
      "attn_fwd_sm86_fp32_d64_window_bias_elem__fma_m64n64",
      "attn_fwd_sm89_fp16_d128_causal_sink__fma_m128n64w8kv1",
      "attn_fwd_sm90a_bf16_d64_window_bitmask_elem__fma_m64n64",
      "attn_fwd_sm100a_fp16_d128_window_varlen_elem__fma_m64n64w8",
      "attn_fwd_sm120a_bf16_d64_window_g7__fma_m64n64",
      "attn_fwd_sm75_fp16_d24x40_window_g3_softcap_alibi_bias_sink_bitmask_varlen_elem__fma_"
      "m16n16w8",
      "attn_fwd_sm80_bf16_d24x40_window_g3_softcap_alibi_bias_sink_bitmask_varlen_elem__fma_"
      "m128n16w8",
      "attn_fwd_sm90a_fp16_d24x40_window_g3_softcap_alibi_bias_sink_bitmask_varlen_elem__fma_"
      "m16n128w8kv1",
      "attn_fwd_sm120a_fp32_d24x40_window_softcap_alibi_bias_sink_bitmask_varlen__fma_m32n32"};
  count = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) add_named(names[i]);
  compile_all();
}
END_TEST

/* Any head dim by elements, fp32 out of 16 bits, and rows that come a part at a time. */
START_TEST(head_dims_of_family_fma) {
  static const char *const names[] = {"attn_fwd_sm80_fp32_d1_elem__fma_m16n16w8",
                                      "attn_fwd_sm75_bf16_d5x17_causal_elem__fma_m64n64w8",
                                      "attn_fwd_sm90a_fp16_ofp32_d33x63_window_elem__fma_m64n64",
                                      "attn_fwd_sm80_bf16_ofp32_d128_causal__fma_m64n64w8kv1",
                                      "attn_fwd_sm120a_fp16_d257x255_elem__fma_m32n16k64kv1",
                                      "attn_fwd_sm75_fp16_d576x512_window__fma_m16n16k128w8kv1",
                                      "attn_fwd_sm75_fp32_d576x512_window__fma_m16n16k64kv1",
                                      "attn_fwd_sm100a_bf16_d512_causal__fma_m64n32k128w8kv1",
                                      "attn_standard_qk_sm75_bf16_d33_elem__fma_m64n64w8",
                                      "attn_standard_softmax_sm75_bf16_d33_window_elem__fma_m8w8",
                                      "attn_standard_pv_sm90a_fp16_d64_causal__fma_m64n64w8"};
  count = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) add_named(names[i]);
  compile_all();
}
END_TEST

static attune_tile mma_tile(int m, int n, int warps, int stages) {
  return (attune_tile){.family = ATTUNE_FAMILY_MMA,
                       .block_m = (uint16_t)m,
                       .block_n = (uint16_t)n,
                       .stages = (uint8_t)stages,
                       .warps = (uint8_t)warps};
}

static void add_mma(const char *arch, int dtype, int mask, int d, attune_tile tile) {
  attune_variant variant = fwd(arch, dtype, mask, ATTUNE_ALIGN_16B);
  variant.head_dim_qk = variant.head_dim_v = (uint16_t)d;
  add(&variant, &tile);
}

/* Each feature of family mma alone and all of them, one warp a row and several, and long rows. */
START_TEST(tensor_cores_with_features) {
  static const char *const names[] = {
      "attn_fwd_sm75_fp16_d64_window_softcap__mma_m128n64",
      "attn_fwd_sm80_bf16_d128_window_g4_alibi_sink__mma_m32n64w2",
      "attn_fwd_sm90a_bf16_d64_causal_bias__mma_m32n128",
      "attn_fwd_sm120a_fp16_d128_causal_sink__mma_m128n64s2",
      "attn_fwd_sm86_bf16_d64_window_bitmask__mma_m64n128s2",
      "attn_fwd_sm100a_bf16_ofp32_d128_causal_varlen__mma_m128n64s2",
      "attn_fwd_sm80_fp16_d64_window_g8_softcap_alibi_bias_sink_bitmask_varlen__mma_m64n64",
      "attn_fwd_sm90a_bf16_d64_causal_softcap_alibi_bias_sink_bitmask_varlen__mma_m16n128s2",
      "attn_fwd_sm90a_bf16_d512_causal__mma_m64n64w8",
      "attn_fwd_sm80_fp16_d576x512_window__mma_m32n32"};
  count = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) add_named(names[i]);
  compile_all();
}
END_TEST

/* The tiles of family short that take most registers, and those with most in flight. */
START_TEST(all_keys_in_one_step) {
  static const char *const names[] = {"attn_fwd_sm90a_bf16_d64__short_m200n200s3w16c1",
                                      "attn_fwd_sm90a_fp16_d64_window__short_m200n200s2w16t1",
                                      "attn_fwd_sm90a_bf16_d64_causal_g8__short_m256n256s2w12c3",
                                      "attn_fwd_sm90a_fp16_d32_window__short_m136n136s4w20",
                                      "attn_fwd_sm90a_bf16_d64_causal__short_m80n80s7w24c1",
                                      "attn_fwd_sm90a_bf16_d64__short_m88n88s4w24t1c1",
                                      "attn_fwd_sm90a_fp16_d128_window_g4__short_m128n128s2w16",
                                      "attn_fwd_sm90a_bf16_d80__short_m192n208s2w12",
                                      "attn_fwd_sm90a_bf16_d64__short_m200n200s3w16o1t1c1",
                                      "attn_fwd_sm90a_fp16_d64_causal__short_m256n256s2w12o1c3",
                                      "attn_fwd_sm90a_bf16_d32_window__short_m128n128s4w16o1t1"};
  count = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) add_named(names[i]);
  compile_all();
}
END_TEST

static void expect_refused(const char *name, const char *why) {
  attune_variant variant;
  attune_tile tile;
  attune_kernel kernel;
  int has_tile, is_program;
  ck_assert_int_eq(attune__name_parse(name, &variant, &tile, &has_tile, &is_program), ATTUNE_OK);
  ck_assert_int_ne(attune__kernel_make(&variant, &tile, NULL, &kernel), ATTUNE_OK);
  ck_assert_str_eq(attune_error(), why);
}

/* They would compile without spills. One has its products one after the other (C7512), two wait for
 * a round of the stages that is over. */
START_TEST(what_would_compile_and_not_work) {
  expect_refused("attn_fwd_sm90a_bf16_d64__short_m96n96s4w24t1c1",
                 "tile: registers: scores, P and O need 104, of 24 warps at most 100");
  expect_refused("attn_fwd_sm90a_bf16_d64__short_m64n64s4w24o1",
                 "tile: order 1: 5 warpgroups need more than 4 stages");
  expect_refused("attn_fwd_sm90a_bf16_d64__short_m64n56s6w16o1",
                 "tile: order 1: block_n 56, from 64 on");
  expect_refused("attn_fwd_sm90a_bf16_d64_window__middle_m64n64k64s4w16",
                 "tile: stages 4: under a mask steps of 64 keys need 5");
  expect_refused("attn_fwd_sm90a_bf16_d64__middle_m64n128k16s5w16",
                 "tile: block_k 16: family middle has 0 and multiples of 16 from 32 to block_n");
  expect_refused("attn_fwd_sm90a_bf16_d64__middle_m64n128s5w16o10",
                 "tile: second_q, turns and lazy are 0 or 1, chains 0 to 3, order to 9");
  expect_refused("attn_fwd_sm90a_bf16_d64_causal__middle_m64n128k64s2w16",
                 "tile: stages 2: under a mask steps of 128 keys need 3");
}
END_TEST

/* The tiles of family middle that take most registers, and each of its knobs. */
START_TEST(tiles_end_to_end) {
  static const char *const names[] = {"attn_fwd_sm90a_bf16_d64__middle_m64n128k48s5w16o6z1c2",
                                      "attn_fwd_sm90a_fp16_d72__middle_m64n128k32s3w16t1c3",
                                      "attn_fwd_sm90a_bf16_d80__middle_m64n112k32s3w16t1z1c1",
                                      "attn_fwd_sm90a_fp16_d96__middle_m64n112k64s3w16",
                                      "attn_fwd_sm90a_bf16_d8__middle_m64n160k64s8w16t1c1",
                                      "attn_fwd_sm90a_bf16_d64__middle_m64n192s3w12t1c1",
                                      "attn_fwd_sm90a_bf16_d64_causal__middle_m64n128k64s5w16",
                                      "attn_fwd_sm90a_fp16_d64_window__middle_m64n64k32s8w16q1",
                                      "attn_fwd_sm90a_bf16_d96_window__middle_m64n64k32s5w16z1c1",
                                      "attn_fwd_sm90a_bf16_d8_causal__middle_m64n160k64s8w16",
                                      "attn_fwd_sm90a_bf16_d64__middle_m64n128s5w16o5t1z1",
                                      "attn_fwd_sm90a_fp16_d96_causal__middle_m64n96k32s4w16o9"};
  count = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) add_named(names[i]);
  compile_all();
}
END_TEST

static void add_first_choice(const char *name, int family) {
  attune_plan_request request = {.family = family, .shape = attune__plan_shape(ATTUNE_CLASS_ANY)};
  attune_tile unnamed;
  attune_plan plan;
  int has_tile, is_program;
  ck_assert_int_eq(attune__name_parse(name, &request.variant, &unnamed, &has_tile, &is_program),
                   ATTUNE_OK);
  ck_assert_msg(attune__plan_make(&request, &plan) == ATTUNE_OK, "%s", attune_error());
  add(&request.variant, &plan.candidates[0].tile);
  attune__plan_free(&plan);
}

/* What a spec without a tile gets where the registers that a first choice needs are nearly those
 * that the estimate leaves it: the tiles before these spilled. */
START_TEST(first_choices_at_the_limit) {
  count = 0;
  add_first_choice("attn_fwd_sm90a_fp32_d64_window_bias", 0);
  add_first_choice("attn_fwd_sm90a_fp16_ofp32_d192x128_softcap", ATTUNE_FAMILY_MMA);
  add_first_choice("attn_fwd_sm90a_fp16_ofp32_d192x128_window_g4_bitmask", 0);
  add_first_choice("attn_fwd_sm90a_bf16_d64_window", ATTUNE_FAMILY_SHORT);
  add_first_choice("attn_fwd_sm100a_bf16_d128_window_g2", ATTUNE_FAMILY_MMA);
  compile_all();
}
END_TEST

/* Tensor cores: the tiles that take most registers for their head dim, one band and two, one stage
 * and several, with Q kept in registers and read again. */
START_TEST(tensor_cores) {
  static const int causal = ATTUNE_MASK_CAUSAL, window = ATTUNE_MASK_WINDOW;
  static const int fp16 = ATTUNE_DTYPE_FP16, bf16 = ATTUNE_DTYPE_BF16;
  count = 0;
  add_mma("sm_80", bf16, window, 64, mma_tile(128, 64, 4, 2));
  add_mma("sm_90a", fp16, causal, 64, mma_tile(64, 128, 4, 1));
  add_mma("sm_80", bf16, window, 128, mma_tile(128, 32, 4, 2));
  add_mma("sm_90a", fp16, causal, 128, mma_tile(64, 64, 4, 1));
  add_mma("sm_80", fp16, causal, 128, mma_tile(128, 128, 8, 2));
  add_mma("sm_100a", bf16, causal, 128, mma_tile(128, 64, 8, 3));
  add_mma("sm_90a", bf16, window, 256, mma_tile(128, 32, 8, 2));
  add_mma("sm_120a", fp16, causal, 256, mma_tile(64, 16, 4, 1));
  add_mma("sm_80", bf16, window, 24, mma_tile(32, 16, 2, 4));
  add_mma("sm_75", fp16, window, 64, mma_tile(128, 64, 8, 1));
  add_mma("sm_75", fp16, window, 128, mma_tile(64, 32, 4, 1));
  add_mma("sm_75", fp16, causal, 256, mma_tile(64, 16, 4, 1));
  compile_all();
}
END_TEST

/* Hopper's warpgroups at what is legal: one to three that multiply, the smallest and the largest
 * tiles and head dims, panels of each width, unequal dims, each type of O, every order, and each
 * feature where registers are scarce. */
START_TEST(edges_of_family_wgmma) {
  static const char *const names[] = {
      "attn_fwd_sm90a_bf16_d8__wgmma_m64n32s2w8",
      "attn_fwd_sm90a_fp16_d32__wgmma_m128n256s2w12o2",
      "attn_fwd_sm90a_fp16_d104_causal__wgmma_m128n128s2w12q1o3c1g1",
      "attn_fwd_sm90a_fp16_ofp32_d256_causal__wgmma_m128n80s2w12o2t1z1c1",
      "attn_fwd_sm90a_bf16_d256x8__wgmma_m64n64s2w8o10",
      "attn_fwd_sm90a_fp16_d128_window__wgmma_m192n80s2w16o5t1",
      "attn_fwd_sm90a_fp16_d64_causal_sink__wgmma_m192n128s2w16q1o2t1c1g1",
      "attn_fwd_sm90a_bf16_d128_g64__wgmma_m128n128s2w12q1o6c2g1",
      ("attn_fwd_sm90a_fp16_ofp32_d192x128_window_g4_softcap_alibi_sink_varlen__wgmma_"
       "m128n80s2w12o2c1")};
  count = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) add_named(names[i]);
  compile_all();
}
END_TEST

TEST_MAIN("kernels", edges_of_family_wgmma, ci_matrix, ci_features, models_sample,
          masks_types_alignments, edges_of_tiles, features_of_family_fma, head_dims_of_family_fma,
          tensor_cores, tensor_cores_with_features, all_keys_in_one_step,
          what_would_compile_and_not_work, tiles_end_to_end, first_choices_at_the_limit)
