/* test_cpu_kernels.c - the templates' kernels on the CPU device: numbers against the float64
 * reference, bytes against the planner's formula, to the byte, for archs, dtypes, masks and both
 * ops; under several schedules and with checks off. Needs NVRTC. */
#include "../gen/reference.h"
#include "cpu_trial.h"
#include "test.h"

#include <math.h>

static const attune_shape shapes[] = {
    {2, 2, 1, 70, 133, 20, 10, ATTUNE_CORNER_BOTTOM_RIGHT}, /* GQA, tails in rows and keys */
    {1, 2, 2, 33, 64, 5, -1, ATTUNE_CORNER_TOP_LEFT},
    {1, 3, 3, 1, 40, 8, 0, ATTUNE_CORNER_BOTTOM_RIGHT}, /* decode */
    {1, 1, 1, 40, 7, 3, 0, ATTUNE_CORNER_BOTTOM_RIGHT}  /* rows that see nothing */
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- judgement --------------------------------------------------------------------------------
 */

/* What tensor cores add to an element of O: each p of at most 1 is off by the dtype's unit roundoff
 * of itself, and in fp16 by half of 2^-24 at least; they add up to 1 after the division. */
static double rounding_of_p(const trial *t, int family) {
  double largest = 0;
  if (family == ATTUNE_FAMILY_FMA) return 0;
  for (size_t k = 0; k < trial_elements(&t->v); k++)
    largest = fmax(largest, fabs((double)t->v.values[k]));
  return largest * (attune__ulp(t->variant.dtype_q, 1) / 2 + (double)t->shape->len_k * 0x1p-25);
}

/* fp32 arithmetic on 240 keys at most is good to 4e-6 for values near 4; O is rounded once. */
static void check_numbers(const trial *t, const attune_kernel *kernel) {
  const char *name = kernel->name;
  double of_p = rounding_of_p(t, kernel->tile.family);
  attune_reference_problem p = {.variant = t->variant,
                                .shape = *t->shape,
                                .scale = 1 / sqrt(t->variant.head_dim_qk),
                                .q = t->q.values,
                                .k = t->k.values,
                                .v = t->v.values};
  size_t rows = (size_t)(t->shape->batch * t->shape->heads_q * t->shape->len_q);
  double *o = malloc(trial_elements(&t->o) * sizeof *o), *lse = malloc(rows * sizeof *lse);
  ck_assert(o && lse);
  must(attune__reference(&p, o, lse));
  for (size_t k = 0; k < trial_elements(&t->o); k++) {
    double bound = 4e-6 + of_p + attune__ulp(t->variant.dtype_out, o[k]);
    ck_assert_msg(fabs(o[k] - t->o.values[k]) <= bound, "%s: O[%zu] is %a, must be %a", name, k,
                  (double)t->o.values[k], o[k]);
  }
  for (size_t k = 0; k < rows; k++) {
    int same =
        isinf(lse[k]) ? (double)t->lse[k] == lse[k] : fabs(lse[k] - (double)t->lse[k]) <= 4e-6;
    ck_assert_msg(same, "%s: LSE[%zu] is %a, must be %a", name, k, (double)t->lse[k], lse[k]);
  }
  free(o), free(lse);
}

/* Formula rows by the device's names: S and P lie in one tensor. */
static int same_tensor(const char *row, const char *name) {
  if (strcmp(row, "S") == 0 || strcmp(row, "P") == 0) return strcmp(name, "scores") == 0;
  return strcasecmp(row, name) == 0;
}

static void check_tensor(const attune_traffic *traffic, const attune_cpu_tensor *have,
                         const char *name) {
  double read = 0, write = 0;
  for (int r = 0; r < traffic->count; r++) {
    if (!same_tensor(traffic->row[r].tensor, have->name)) continue;
    read += traffic->row[r].requested_read, write += traffic->row[r].requested_write;
  }
  ck_assert_msg(read == (double)have->requested_read && write == (double)have->requested_write,
                "%s: %s: counted %llu read and %llu written, by formula %a and %a", name,
                have->name, (unsigned long long)have->requested_read,
                (unsigned long long)have->requested_write, read, write);
}

static void check_bytes(const trial *t, const trial_part *parts, int count) {
  for (int i = 0; i < count; i++) {
    const attune_kernel *k = &parts[i].kernel;
    attune_traffic traffic = {.count = 0};
    attune_cpu_counters counted = attune_cpu_counters_init();
    attune__model(k->variant.op, k->variant.part, k->tile.family)
        ->traffic(&k->variant, &k->tile, t->shape, &traffic);
    must(attune_cpu_count(t->context, i, &counted));
    double sum = 0;
    for (int32_t n = 0; n < counted.tensors; n++) {
      check_tensor(&traffic, &counted.tensor[n], k->name);
      sum += (double)(counted.tensor[n].requested_read + counted.tensor[n].requested_write);
    }
    ck_assert_msg(sum == traffic.requested, "%s: counted %a bytes in all, by formula %a", k->name,
                  sum, traffic.requested);
  }
}

/* Compulsory bytes are those of the tensors: each element once. */
static void check_compulsory(const trial *t) {
  attune_cpu_counters counted = attune_cpu_counters_init();
  must(attune_cpu_count(t->context, -1, &counted));
  uint64_t element = (uint64_t)attune__dtype_bytes(t->variant.dtype_q);
  for (int32_t n = 0; n < counted.tensors; n++) {
    const attune_cpu_tensor *c = &counted.tensor[n];
    ck_assert(c->compulsory_read <= c->requested_read);
    ck_assert(c->compulsory_write <= c->requested_write);
    if (strcmp(c->name, "o") == 0)
      ck_assert_uint_eq(c->compulsory_write, trial_elements(&t->o) * element);
    if (strcmp(c->name, "q") == 0 && t->variant.mask == ATTUNE_MASK_NONE)
      ck_assert_uint_eq(c->compulsory_read, trial_elements(&t->q) * element);
    if (strcmp(c->name, "k") == 0 && t->variant.mask == ATTUNE_MASK_NONE)
      ck_assert_uint_eq(c->compulsory_read, trial_elements(&t->k) * element);
  }
}

static void configure(attune_context *c, attune_cpu_options *o, uint64_t seed, int unchecked) {
  o->schedule_seed = seed, o->unchecked = unchecked;
  must(attune_cpu_configure(c, o));
}

/* One program on shapes: in turns, the first under random schedules, and without checks. */
static void run_on(const attune_shape *list, int list_count, const char *arch,
                   const char *const *names, int count) {
  attune_cpu_options options = attune_cpu_options_init();
  attune_context *context;
  trial_part parts[ATTUNE_MAX_PARTS];
  options.arch = arch;
  must(attune_cpu_open(&options, &context));
  for (int i = 0; i < count; i++) trial_compile(names[i], NULL, NULL, &parts[i]);
  attune_program *program = trial_program(context, parts, count);
  for (int s = 0; s < list_count; s++) {
    trial t = trial_make(context, &parts[0].kernel.variant, &list[s]);
    for (uint64_t seed = 0; seed < 4; seed += s == 0 ? 1 : 3) {
      configure(context, &options, seed, seed == 3);
      must(trial_launch(&t, program));
      check_numbers(&t, &parts[0].kernel);
      if (seed == 3) continue;
      check_bytes(&t, parts, count);
      check_compulsory(&t);
    }
    trial_free(&t);
  }
  attune_close(context);
  for (int i = 0; i < count; i++) free(parts[i].entry);
}

static void run_program(const char *arch, const char *const *names, int count) {
  run_on(shapes, SHAPES, arch, names, count);
}

/* ---- tests ------------------------------------------------------------------------------------
 */

START_TEST(one_pass_kernels) {
  static const struct {
    const char *arch, *name;
  } list[] = {
      {"sm_75", "attn_fwd_sm75_fp16_d40_causal_elem__fma_m32n32"},
      {"sm_75", "attn_fwd_sm75_bf16_d72_window_elem__fma_m32n16w2kv1"},
      {"sm_80", "attn_fwd_sm80_fp32_d64__fma_m64n64w8"},
      {"sm_80", "attn_fwd_sm80_bf16_d64_causal__fma_m32n64kv1"},
      {"sm_86", "attn_fwd_sm86_fp16_d64_window__fma_m32n32w2"},
      {"sm_89", "attn_fwd_sm89_fp32_d32_causal__fma_m16n16w2"},
      {"sm_90a", "attn_fwd_sm90a_fp32_d192x128_window__fma_m32n32w8"},
      {"sm_90a", "attn_fwd_sm90a_fp16_d96__fma_m128n128w8"},
      {"sm_100a", "attn_fwd_sm100a_bf16_d128_causal__fma_m64n64kv1"},
      {"sm_120a", "attn_fwd_sm120a_fp32_d8_causal_elem__fma_m32n64w2"},
      {"sm_80", "attn_fwd_sm80_fp32_d33x17_causal_elem__fma_m32n32"},
      {"sm_75", "attn_fwd_sm75_fp16_d264x72_window__fma_m16n32k64kv1"},
  };
  for (size_t k = 0; k < sizeof list / sizeof *list; k++)
    run_program(list[k].arch, &list[k].name, 1);
}
END_TEST

/* Every class of variant and tile that family mma has: types, archs, masks, dims that a step of the
 * tensor cores doesn't divide, one band and two, Q in registers and not, one stage to four, and two
 * or four warps of the same rows. */
START_TEST(tensor_core_kernels) {
  static const struct {
    const char *arch, *name;
  } list[] = {
      {"sm_75", "attn_fwd_sm75_fp16_d64_causal__mma_m64n32"},
      {"sm_75", "attn_fwd_sm75_fp16_d40x24_window__mma_m64n16w2"},
      {"sm_80", "attn_fwd_sm80_fp16_d64__mma_m64n64s2"},
      {"sm_80", "attn_fwd_sm80_bf16_d128_causal__mma_m128n32s3"},
      {"sm_86", "attn_fwd_sm86_fp16_d72_window__mma_m32n32s2w2"},
      {"sm_89", "attn_fwd_sm89_bf16_d8_causal__mma_m64n128"},
      {"sm_90a", "attn_fwd_sm90a_bf16_d192x128_window__mma_m128n32s2w8"},
      {"sm_90a", "attn_fwd_sm90a_fp16_d256__mma_m64n16"},
      {"sm_100a", "attn_fwd_sm100a_bf16_d96_causal__mma_m64n64s4"},
      {"sm_120a", "attn_fwd_sm120a_fp16_d16x88_window__mma_m64n16s2w2"},
      {"sm_75", "attn_fwd_sm75_fp16_d64_causal__mma_m16n64"},
      {"sm_80", "attn_fwd_sm80_bf16_d576x512_causal__mma_m32n32"},
      {"sm_90a", "attn_fwd_sm90a_fp16_d328_window__mma_m32n64s2w8"},
  };
  for (size_t k = 0; k < sizeof list / sizeof *list; k++)
    run_program(list[k].arch, &list[k].name, 1);
}
END_TEST

/* Warpgroups: one to three that multiply, panels of each width, each type and mask, one buffer of Q
 * and two, orders on both sides of the wait for P V, in turns, in turns at a tile's first step and
 * not, a maximum that stays behind. */
START_TEST(warpgroup_kernels) {
  static const char *const list[] = {
      "attn_fwd_sm90a_bf16_d40_causal__wgmma_m64n32s2w8q1o3g1",
      "attn_fwd_sm90a_fp16_d96x72_window__wgmma_m128n48s3w12o5t1c1",
      "attn_fwd_sm90a_bf16_d64__wgmma_m192n64s2w16q1o1z1g1",
      "attn_fwd_sm90a_fp16_d192x128_causal__wgmma_m128n32s2w12t1",
      "attn_fwd_sm90a_bf16_d48_window__wgmma_m192n48s2w16q1o3t2g1",
  };
  for (size_t k = 0; k < sizeof list / sizeof *list; k++) run_program("sm_90a", &list[k], 1);
}
END_TEST

/* Family short: one panel and several, keys that end in half a step of P V, fewer rows a tile than
 * queries, a tile beyond the queries, packed heads, warpgroups that take turns, and the next scores
 * before O leaves. */
START_TEST(kernels_of_few_keys) {
  static const char *const names[] = {"attn_fwd_sm90a_bf16_d64__short_m72n136s2w16c1",
                                      "attn_fwd_sm90a_fp16_d40_causal__short_m64n144s2w12t1",
                                      "attn_fwd_sm90a_bf16_d32_window__short_m136n136s3w16t1c2",
                                      "attn_fwd_sm90a_fp16_d72_window__short_m128n144s2w16",
                                      "attn_fwd_sm90a_bf16_d64__short_m72n136s3w16o1t1c1",
                                      "attn_fwd_sm90a_fp16_d32_window__short_m64n144s5w16o1"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) run_program("sm_90a", &names[k], 1);
}
END_TEST

/* Family middle: two warpgroups and three, in turns and not, one panel and several, O in whole
 * steps and not; keys that end at, before and behind a whole step and each width of the last one,
 * warpgroups without a tile, heads enough for their keys to stay, and tiles that see nothing of
 * some steps of their pass. */
#define BAND .corner = ATTUNE_CORNER_BOTTOM_RIGHT, .window_left = 90, .window_right = 9
START_TEST(kernels_of_some_more_keys) {
  static const char *const names[] = {"attn_fwd_sm90a_bf16_d64__middle_m64n64k32s2w16t1c1",
                                      /* widths 112, 64 and 16 */
                                      "attn_fwd_sm90a_fp16_d64__middle_m64n112k48s2w16z1",
                                      "attn_fwd_sm90a_fp16_d72__middle_m64n80k32s3w12z1",
                                      "attn_fwd_sm90a_bf16_d8__middle_m64n80s5w16t1c3",
                                      "attn_fwd_sm90a_fp16_d64_causal__middle_m64n128k64s4w16q1",
                                      "attn_fwd_sm90a_bf16_d40_window__middle_m64n64k32s8w16c1",
                                      /* as few stages as there may be under a mask */
                                      "attn_fwd_sm90a_bf16_d64_window__middle_m64n64k64s5w16",
                                      "attn_fwd_sm90a_bf16_d40_causal__middle_m64n128k64s3w16",
                                      "attn_fwd_sm90a_fp16_d40_window__middle_m64n128s2w12",
                                      /* in an order, which waits for V earlier */
                                      "attn_fwd_sm90a_bf16_d64__middle_m64n64k32s2w16o5t1c1",
                                      "attn_fwd_sm90a_bf16_d40_causal__middle_m64n128k64s3w16o1",
                                      "attn_fwd_sm90a_fp16_d40_window__middle_m64n128s2w12o9z1"};
  static const attune_shape list[] = {
      {.batch = 1, .heads_q = 2, .heads_kv = 1, .len_q = 260, .len_k = 159, BAND},
      {.batch = 1, .heads_q = 2, .heads_kv = 2, .len_q = 64, .len_k = 192, BAND},
      {.batch = 2, .heads_q = 1, .heads_kv = 1, .len_q = 127, .len_k = 63, BAND},
      {.batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 65, .len_k = 161, BAND},
      {.batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 1, .len_k = 177, BAND},
      {.batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 64, .len_k = 225, BAND},
      {.batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 192, .len_k = 240, BAND},
      {.batch = 1, .heads_q = 3, .heads_kv = 1, .len_q = 800, .len_k = 790, BAND},
  };
  static const attune_shape many_heads = {
      .batch = 4, .heads_q = 64, .heads_kv = 32, .len_q = 193, .len_k = 97, BAND};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    run_program("sm_90a", &names[k], 1);
    run_on(list, sizeof list / sizeof *list, "sm_90a", &names[k], 1);
  }
  run_on(&many_heads, 1, "sm_90a", &names[3], 1);
}
END_TEST
#undef BAND

START_TEST(standard_attention) {
  static const char *const causal[] = {"attn_standard_qk_sm80_fp32_d64_causal__fma_m32n64",
                                       "attn_standard_softmax_sm80_fp32_d64_causal__fma_m2w2",
                                       "attn_standard_pv_sm80_fp32_d64_causal__fma_m32n32"};
  static const char *const window[] = {"attn_standard_qk_sm90a_fp32_d32_window__fma_m64n32w8",
                                       "attn_standard_softmax_sm90a_fp32_d32_window__fma_m2w2",
                                       "attn_standard_pv_sm90a_fp32_d32_window__fma_m16n64w2"};
  run_program("sm_80", causal, 3);
  run_program("sm_90a", window, 3);
}
END_TEST

/* Blocks over threads: same numbers, same counts, and the first faulty block's report. */
START_TEST(threads_count_alike) {
  static const char *const name = "attn_fwd_sm80_fp32_d64__fma_m64n64w8";
  attune_cpu_options options = attune_cpu_options_init();
  attune_context *context;
  attune_cpu_counters one = attune_cpu_counters_init(), four = one;
  trial_part p;
  options.arch = "sm_80", options.threads = 1;
  must(attune_cpu_open(&options, &context));
  trial_compile(name, NULL, NULL, &p);
  attune_program *program = trial_program(context, &p, 1);
  trial t = trial_make(context, &p.kernel.variant, &shapes[0]);
  must(trial_launch(&t, program));
  must(attune_cpu_count(context, 0, &one));
  options.threads = 4;
  configure(context, &options, 0, 0);
  must(trial_launch(&t, program));
  must(attune_cpu_count(context, 0, &four));
  check_numbers(&t, &p.kernel);
  ck_assert_mem_eq(&one, &four, sizeof one);
  ck_assert_uint_gt(one.fma, 0);
  ck_assert_uint_gt(one.exp2, 0);
  /* every float of a conflict-free tile is read without waiting for a bank */
  ck_assert_uint_eq(one.smem_phases, one.smem_phases_least);
  trial_free(&t);
  attune_close(context);
  free(p.entry);
}
END_TEST

/* A right kernel is clean in every order of its warps, and gives the same bits. */
START_TEST(a_hundred_schedules) {
  attune_cpu_options options = attune_cpu_options_init();
  attune_context *context;
  trial_part p;
  options.arch = "sm_80";
  must(attune_cpu_open(&options, &context));
  trial_compile("attn_fwd_sm80_bf16_d64_causal__fma_m32n32kv1", NULL, NULL, &p);
  attune_program *program = trial_program(context, &p, 1);
  trial t = trial_make(context, &p.kernel.variant, &shapes[0]);
  must(trial_launch(&t, program));
  size_t bytes = trial_elements(&t.o) * sizeof *t.o.values;
  float *first = malloc(bytes);
  ck_assert_ptr_nonnull(first);
  memcpy(first, t.o.values, bytes);
  for (uint64_t seed = 1; seed <= 100; seed++) {
    configure(context, &options, seed, 0);
    must(trial_launch(&t, program));
    ck_assert_mem_eq(first, t.o.values, bytes);
  }
  free(first);
  trial_free(&t);
  attune_close(context);
  free(p.entry);
}
END_TEST

TEST_MAIN("cpu_kernels", one_pass_kernels, tensor_core_kernels, warpgroup_kernels,
          kernels_of_few_keys, kernels_of_some_more_keys, standard_attention, threads_count_alike,
          a_hundred_schedules)
