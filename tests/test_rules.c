/* test_rules.c - what combines with what: the table in the manual is what the rules say, the rules
 * say all that there is to say, and spec reader, support query, planner and JIT have no second
 * opinion. What must be served and what must not stands here as literal rows. */
#include "../gen/combinations.h"
#include "../gen/expand.h"
#include "../gen/jit.h"
#include "scratch.h"

/* ---- helpers ---- */

static uint32_t random_state = 7;
static int random_below(int limit) {
  random_state = random_state * 1664525u + 1013904223u;
  return (int)(random_state >> 8) % limit;
}

/* The variant of a spec of one line. */
static attune_variant variant_of(const char *fields) {
  attune__text line = {0}, errors = {0};
  attune_spec spec;
  attune__text_printf(&line, "{version: 1, %s}", fields);
  attune_status status = attune__spec_read("line", line.data, line.size, NULL, &spec, &errors);
  ck_assert_msg(status == ATTUNE_OK && spec.count == 1, "%s: %s", line.data, errors.data);
  attune_variant v = spec.requests[0].variant;
  attune__spec_free(&spec);
  attune__text_free(&line);
  return v;
}

/* ---- the table in the manual ---- */

/* The text between the marks of a file; those that have none need none but the manual. */
static void check_file(const char *path, int needed, const char *want) {
  static const char begin[] = "\n<!-- combinations -->\n", end[] = "<!-- end of combinations -->\n";
  void *text;
  size_t size;
  ck_assert_int_eq(attune__file_read(path, 1 << 20, &text, &size), ATTUNE_OK);
  const char *from = strstr(text, begin);
  ck_assert_msg(from != NULL || !needed, "%s has no mark%s", path, begin);
  if (from) {
    from += strlen(begin);
    const char *to = strstr(from, end);
    ck_assert_ptr_nonnull(to);
    ck_assert_msg((size_t)(to - from) == strlen(want) && !memcmp(from, want, strlen(want)),
                  "%s is behind the rules; `make golden` writes it", path);
  }
  free(text);
}

START_TEST(the_manual_has_the_table) {
  attune__text table = {0};
  attune__combinations_markdown(&table);
  ck_assert(!table.failed);
  check_file("specs/README.md", 1, table.data);
  check_file("README.md", 0, table.data);
  attune__text_free(&table);
}
END_TEST

static int serves(int op, int family, const attune_value *const *values, int count) {
  attune_variant v = attune__variant_with(op, values, count);
  return attune__family_refusal(&v, family) == NULL;
}

/* Marks and refused pairs are all that the table shows. So they must tell of any number of values:
 * served if and only if each is, and each pair is. */
static void check_values(int op, int family) {
  const attune_value *values[5], *pair[2];
  int count = 0, want = 1;
  for (int tries = 0; tries < 8 && count < 5; tries++) {
    const attune_value *value = &attune__values[random_below(attune__value_count)];
    int taken = 0;
    for (int i = 0; i < count; i++)
      taken |= values[i]->kind == value->kind &&
               (value->kind != ATTUNE_VALUE_FEATURES || values[i]->first == value->first);
    if (!taken) values[count++] = value;
  }
  for (int i = 0; i < count; i++) {
    want &= serves(op, family, &values[i], 1);
    for (int j = 0; j < i; j++) {
      /* in the order of the list, as the table has them: a later one overrides */
      pair[0] = values[i] < values[j] ? values[i] : values[j];
      pair[1] = values[i] < values[j] ? values[j] : values[i];
      want &= serves(op, family, pair, 2);
    }
  }
  for (int i = 1; i < count; i++)
    for (int j = i; j > 0 && values[j] < values[j - 1]; j--) {
      const attune_value *other = values[j];
      values[j] = values[j - 1], values[j - 1] = other;
    }
  ck_assert_int_eq(serves(op, family, values, count), want);
}

START_TEST(values_and_pairs_tell_all) {
  static const int columns[][2] = {{ATTUNE_OP_ATTN_FWD, ATTUNE_FAMILY_FMA},
                                   {ATTUNE_OP_ATTN_FWD, ATTUNE_FAMILY_MMA},
                                   {ATTUNE_OP_ATTN_STANDARD, ATTUNE_FAMILY_FMA},
                                   {ATTUNE_OP_ATTN_DEMO, ATTUNE_FAMILY_FMA}};
  for (int run = 0; run < 20000; run++) check_values(columns[run % 4][0], columns[run % 4][1]);
}
END_TEST

/* ---- literal rows ---- */

#define FWD "op: attn_fwd, arch: sm_80, dtype: fp16, head_dim: 64"

START_TEST(families_serve_what_they_should) {
  static const struct {
    const char *fields;
    int fma, mma;
  } rows[] = {
      {FWD, 1, 1},
      {FWD ", align: elem", 1, 0},
      {FWD ", mask: causal", 1, 1},
      {FWD ", mask: window", 1, 1},
      {"op: attn_fwd, arch: sm_80, dtype: fp32, head_dim: 64", 1, 0},
      {"op: attn_fwd, arch: sm_75, dtype: bf16, head_dim: 64", 1, 0},
      {"op: attn_fwd, arch: sm_75, dtype: fp16, head_dim: 64", 1, 1},
      {"op: attn_fwd, arch: sm_90a, dtype: bf16, head_dim: {qk: 192, v: 128}", 1, 1},
      {"op: attn_standard, arch: sm_80, dtype: fp32, head_dim: 64, mask: causal", 1, 0},
      {"op: attn_demo, arch: sm_80, dtype: fp32, head_dim: 64, features: nomax", 1, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    attune_variant v = variant_of(rows[i].fields);
    ck_assert_int_eq(attune__generated(&v), ATTUNE_OK);
    ck_assert_int_eq(!attune__family_refusal(&v, ATTUNE_FAMILY_FMA), rows[i].fma);
    ck_assert_int_eq(!attune__family_refusal(&v, ATTUNE_FAMILY_MMA), rows[i].mma);
  }
}
END_TEST

/* Only what a family is not made for is no fallback. */
START_TEST(a_fallback_is_told_from_another_kind_of_work) {
  attune_variant fp32 = variant_of("op: attn_fwd, arch: sm_80, dtype: fp32, head_dim: 64");
  attune_variant elem = variant_of(FWD ", align: elem");
  attune_variant plain = variant_of(FWD);
  attune_variant standard = variant_of("op: attn_standard, arch: sm_80, dtype: fp32, head_dim: 64");
  ck_assert_int_eq(attune__family_is_apart(&fp32, ATTUNE_FAMILY_MMA), 1);
  ck_assert_int_eq(attune__family_is_apart(&standard, ATTUNE_FAMILY_MMA), 1);
  ck_assert_int_eq(attune__family_is_apart(&elem, ATTUNE_FAMILY_MMA), 0);
  ck_assert_int_eq(attune__family_is_apart(&plain, ATTUNE_FAMILY_MMA), 0);
}
END_TEST

static void expect_refused(attune_variant v, const char *message) {
  ck_assert_int_eq(attune__generated(&v), ATTUNE_UNSUPPORTED);
  ck_assert_str_eq(attune_error(), message);
}

START_TEST(refusals_name_field_value_reason_and_way_out) {
  attune_variant v = variant_of("op: attn_standard, arch: sm_80, dtype: fp32, head_dim: 64"), w;
  w = v, w.features = ATTUNE_FEATURE_VARLEN;
  expect_refused(w, "features varlen with op attn_standard: the baseline is plain attention; op "
                    "attn_fwd has features");
  w = v, w.group = 3;
  expect_refused(w, "group 3 with op attn_standard: the baseline packs no heads; group 1 serves "
                    "any grouping of them");
  w = variant_of(FWD), w.features = ATTUNE_FEATURE_PAGED;
  expect_refused(w, "features paged with op attn_fwd: not generated yet");
  w = variant_of(FWD), w.features = ATTUNE_FEATURE_NOMAX | ATTUNE_FEATURE_FA1;
  expect_refused(w, "features nomax, fa1 with op attn_fwd: op attn_demo is wrong on purpose, and "
                    "has it");
  w = variant_of(FWD), w.head_dim_v = 44;
  expect_refused(w,
                 "head_dim_v 44: with align 16b rows are multiples of 8 elements; align elem has "
                 "any other");
  w = variant_of(FWD), w.head_dim_qk = 600;
  expect_refused(w, "head_dim_qk 600: not generated yet; 1 to 576 are");
  w = variant_of(FWD), w.dtype_out = ATTUNE_DTYPE_BF16;
  expect_refused(w, "dtype q fp16, kv fp16, out bf16: not generated yet; O of Q's dtype or in fp32 "
                    "is");
  w = variant_of(FWD), w.dtype_kv = ATTUNE_DTYPE_BF16;
  expect_refused(w, "dtype q fp16, kv bf16, out fp16: not generated yet; K and V of Q's dtype are");
}
END_TEST

/* ---- one opinion ---- */

static int one_of(const int *values, int count) {
  return values[random_below(count)];
}

/* Any variant that can be asked for, near the edges of what there is. */
static attune_variant random_variant(void) {
  static const int dims[] = {1, 8, 35, 40, 64, 72, 100, 128, 192, 256, 264, 512, 520, 576, 584};
  static const int groups[] = {1, 1, 1, 1, 4, 255};
  static const uint32_t bits[] = {
#define X(name, bit, text, families) ATTUNE_FEATURE_##name,
      ATTUNE_FEATURES(X)
#undef X
  };
  attune_variant v;
  memset(&v, 0, sizeof v);
  v.op = (uint8_t)(1 + random_below(3)), v.arch = attune__boards[random_below(ATTUNE_BOARDS)].arch;
  v.dtype_q = v.dtype_kv = v.dtype_out = (uint8_t)(1 + random_below(3));
  if (!random_below(8)) v.dtype_out = ATTUNE_DTYPE_FP32;
  if (!random_below(16)) v.dtype_kv = (uint8_t)(1 + random_below(3));
  v.head_dim_qk = v.head_dim_v = (uint16_t)one_of(dims, 15);
  if (!random_below(4)) v.head_dim_v = (uint16_t)one_of(dims, 15);
  v.mask = (uint8_t)(1 + random_below(3)), v.align = (uint8_t)(1 + random_below(2));
  v.group = (uint8_t)one_of(groups, 6);
  int features = v.op == ATTUNE_OP_ATTN_DEMO ? 1 : random_below(3);
  for (int i = 0; i < features; i++)
    v.features |= bits[random_below((int)(sizeof bits / sizeof *bits))];
  return v;
}

static attune_problem problem_of(const attune_variant *v) {
  attune_problem p = attune_problem_init();
  p.op = (attune_op)v->op, p.mask = (attune_mask)v->mask, p.align = (attune_align)v->align;
  p.dtype_q = (attune_dtype)v->dtype_q, p.dtype_kv = (attune_dtype)v->dtype_kv;
  p.dtype_out = (attune_dtype)v->dtype_out;
  p.head_dim_qk = v->head_dim_qk, p.head_dim_v = v->head_dim_v;
  p.features = v->features, p.group = v->group;
  p.batch = 2, p.heads_kv = 4, p.heads_q = 4 * v->group, p.len_q = p.len_k = 100;
  return p;
}

/* Served: there are kernels, of a family that serves, within the SRAM of the board. */
static void check_served(const attune_request *r, const char *name) {
  attune_kernel kernels[ATTUNE_MAX_PARTS];
  int count;
  ck_assert_msg(attune__expand_request(r, ATTUNE_CLASS_ANY, 0, kernels, &count) == ATTUNE_OK,
                "%s: %s", name, attune_error());
  ck_assert_int_eq(count, attune__op_parts(r->variant.op));
  for (int i = 0; i < count; i++) {
    ck_assert_uint_le(kernels[i].ledger.bytes,
                      (uint32_t)attune__board(r->variant.arch)->smem_block);
    ck_assert_ptr_null(attune__family_refusal(&kernels[i].variant, kernels[i].tile.family));
  }
}

/* The plan has tiles of exactly the families that serve, and the others' reasons. */
static void check_plan(const attune_variant *v) {
  attune_plan_request request = {.variant = *v, .shape = attune__plan_shape(ATTUNE_CLASS_ANY)};
  attune_plan plan;
  int has[ATTUNE_FAMILY_COUNT + 1] = {0};
  ck_assert_int_eq(attune__plan_make(&request, &plan), ATTUNE_OK);
  for (int i = 0; i < plan.count; i++) has[plan.candidates[i].tile.family] = 1;
  for (int family = 1; family <= ATTUNE_FAMILY_COUNT; family++)
    ck_assert_int_eq(has[family], !attune__family_refusal(v, family));
  for (int i = 0; i < plan.refused_count; i++) {
    ck_assert(attune__family_refusal(v, plan.refused[i].family) != NULL);
    ck_assert_ptr_nonnull(
        strstr(plan.refused[i].reason, attune__family_refusal(v, plan.refused[i].family)));
  }
  attune__plan_free(&plan);
}

/* The spec that asks for the variant is read if and only if there are kernels. */
static void check_spec(const attune_variant *v, attune_status want) {
  attune__text line = {0}, errors = {0};
  attune_spec spec;
  attune__spec_line(v, NULL, NULL, &line);
  attune_status status = attune__spec_read("line", line.data, line.size, NULL, &spec, &errors);
  ck_assert_msg((status == ATTUNE_OK) == (want == ATTUNE_OK), "%s: %s", line.data,
                errors.data ? errors.data : "");
  attune__spec_free(&spec);
  attune__text_free(&line);
  attune__text_free(&errors);
}

static void check_one_opinion(attune_context *context, const attune_variant *v) {
  char name[ATTUNE_NAME_MAX], reason[512];
  attune_request request = {.variant = *v};
  attune_problem problem = problem_of(v);
  attune__variant_name(v, 1, name);
  attune_status generated = attune__generated(v);
  snprintf(reason, sizeof reason, "%s", generated ? attune_error() : "");
  attune_status supported = attune_supports(context, &problem);
  ck_assert_msg(supported == generated, "%s: generated says %s (%s), supports says %s (%s)", name,
                attune_status_name(generated), reason, attune_status_name(supported),
                attune_error());
  if (generated == ATTUNE_OK) {
    check_served(&request, name);
    check_plan(v);
  } else {
    ck_assert_str_eq(attune_error(), reason);
    ck_assert_msg(strchr(reason, ':') && strlen(reason) < ATTUNE_REASON_MAX - 1, "%s", reason);
  }
  check_spec(v, generated);
}

START_TEST(there_is_one_opinion) {
  char folder[64];
  scratch_make(folder);
  for (int board = 0; board < ATTUNE_BOARDS; board++) {
    attune_options options = attune_options_init();
    attune_jit_options jit_options = attune_jit_options_init();
    attune_context *context;
    attune_jit *jit;
    options.arch = attune__boards[board].arch_name, jit_options.store = folder;
    ck_assert_int_eq(attune_open(&options, &context), ATTUNE_OK);
    ck_assert_int_eq(attune_jit_install(context, &jit_options, &jit), ATTUNE_OK);
    for (int run = 0; run < 400; run++) {
      attune_variant v = random_variant();
      v.arch = attune__boards[board].arch;
      check_one_opinion(context, &v);
    }
    attune_close(context);
    attune_jit_close(jit);
  }
  scratch_remove(folder);
}
END_TEST

TEST_MAIN("rules", the_manual_has_the_table, values_and_pairs_tell_all,
          families_serve_what_they_should, a_fallback_is_told_from_another_kind_of_work,
          refusals_name_field_value_reason_and_way_out, there_is_one_opinion)
