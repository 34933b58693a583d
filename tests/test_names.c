/* test_names.c - names, archs, shape classes and pins.
 *
 * Expected names and messages are written out by hand; pin digests come from sha256sum. */
#include <locale.h>

#include "../runtime/variant.h"
#include "test.h"

/* ---- names --------------------------------------------------------------------------------- */

static attune_variant some_variant(void) {
  attune_variant v = {0};
  v.arch = attune__arch(90, 'a');
  v.op = ATTUNE_OP_ATTN_FWD;
  v.dtype_q = v.dtype_kv = v.dtype_out = ATTUNE_DTYPE_BF16;
  v.head_dim_qk = v.head_dim_v = 128;
  v.mask = ATTUNE_MASK_NONE;
  v.align = ATTUNE_ALIGN_16B;
  v.group = 1;
  return v;
}

static attune_tile some_tile(void) {
  attune_tile t = {0};
  t.block_m = t.block_n = 64;
  t.stages = 1;
  t.warps = 4;
  t.family = ATTUNE_FAMILY_FMA;
  return t;
}

/* Asserts by hand: Check writes to a pipe for every ck_assert, and this runs a million times. */
static void check_round_trip(const attune_variant *v, const attune_tile *t, int program) {
  char name[ATTUNE_NAME_MAX];
  attune_variant back;
  attune_tile back_tile;
  int has_tile, is_program, names_program = !t && (program || attune__op_parts(v->op) == 1);
  if (t)
    attune__kernel_name(v, t, name);
  else
    attune__variant_name(v, program, name);
  if (attune__name_parse(name, &back, &back_tile, &has_tile, &is_program))
    ck_abort_msg("%s: %s", name, attune_error());
  if (memcmp(v, &back, sizeof back) != 0) ck_abort_msg("%s parses to another variant", name);
  if (has_tile != (t != NULL)) ck_abort_msg("%s: has_tile is %d", name, has_tile);
  if (t && memcmp(t, &back_tile, sizeof *t) != 0) ck_abort_msg("%s parses to another tile", name);
  if (is_program != names_program) ck_abort_msg("%s: is_program is %d", name, is_program);
  if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")])
    ck_abort_msg("%s is no C identifier", name);
}

static attune_tile numbered_tile(unsigned number) {
  static const uint16_t blocks[] = {0, 16, 64, 128, UINT16_MAX};
  static const uint8_t small[] = {0, 1, 2, 4, UINT8_MAX};
  attune_tile t = some_tile();
  t.block_m = blocks[number % 5];
  t.block_n = blocks[number / 5 % 5];
  t.block_k = blocks[number / 25 % 5];
  t.stages = small[number / 125 % 5];
  t.warps = small[number / 625 % 5];
  t.share_kv = small[number / 3125 % 5];
  return t;
}

START_TEST(every_tile_round_trips) {
  attune_variant v = some_variant();
  for (unsigned i = 0; i < 5 * 5 * 5 * 5 * 5 * 5; i++) {
    attune_tile t = numbered_tile(i);
    check_round_trip(&v, &t, 0);
  }
}
END_TEST

/* All dtypes, dims, masks, groups, features, alignments and pins of one op, part and arch, each
 * with some tile. */
static void check_variants(attune_variant v, int program) {
  static const uint16_t dims[][2] = {{8, 8}, {128, 128}, {192, 128}, {128, 192}, {1, 1024}};
  static const uint32_t features[] = {0, ATTUNE_FEATURE_SOFTCAP,
                                      ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_PAGED, 0x7f};
  static const uint32_t pins[] = {0, 1, 0xdeadbeef};
  static const uint8_t groups[] = {1, 4, UINT8_MAX};
  static unsigned tile_number;
  for (int i = 0; i < 27 * 5 * 3 * 3 * 4 * 2 * 3; i++) {
    int rest = i;
    v.dtype_q = (uint8_t)(1 + rest % 3), rest /= 3;
    v.dtype_kv = (uint8_t)(1 + rest % 3), rest /= 3;
    v.dtype_out = (uint8_t)(1 + rest % 3), rest /= 3;
    v.head_dim_qk = dims[rest % 5][0], v.head_dim_v = dims[rest % 5][1], rest /= 5;
    v.mask = (uint8_t)(1 + rest % 3), rest /= 3;
    v.group = groups[rest % 3], rest /= 3;
    v.features = features[rest % 4], rest /= 4;
    v.align = (uint8_t)(1 + rest % 2), rest /= 2;
    v.pins = pins[rest];
    check_round_trip(&v, NULL, program);
    attune_tile t = numbered_tile(tile_number++);
    if (!program) check_round_trip(&v, &t, 0);
  }
}

START_TEST(every_variant_round_trips) {
  const uint32_t archs[] = {attune__arch(75, 0), attune__arch(120, 'a')};
  for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
    for (int op = 1; attune__op_name(op); op++) {
      attune_variant v = some_variant();
      v.arch = archs[a];
      v.op = (uint8_t)op;
      for (int part = 0; part < attune__op_parts(op); part++) {
        v.part = (uint8_t)part;
        check_variants(v, 0);
      }
      v.part = 0;
      check_variants(v, 1);
    }
}
END_TEST

/* What engines ask for at once: every set of features, with packed heads and a float output. */
START_TEST(every_set_of_features_round_trips) {
  attune_variant v = some_variant();
  v.dtype_out = ATTUNE_DTYPE_FP32, v.group = 16;
  v.head_dim_qk = 576, v.head_dim_v = 512;
  for (uint32_t set = 0; set < 1u << 7; set++) {
    v.features = set;
    check_round_trip(&v, NULL, 1);
    attune_tile t = numbered_tile(set);
    check_round_trip(&v, &t, 0);
  }
  v.features = 0x3f, v.align = ATTUNE_ALIGN_ELEM, v.head_dim_qk = v.head_dim_v = 7;
  char name[ATTUNE_NAME_MAX];
  attune__variant_name(&v, 1, name);
  ck_assert_str_eq(name,
                   "attn_fwd_sm90a_bf16_ofp32_d7_g16_softcap_alibi_bias_sink_bitmask_varlen_elem");
}
END_TEST

START_TEST(names_are_spelled_as_documented) {
  char name[ATTUNE_NAME_MAX];
  attune_variant v = some_variant();
  attune_tile t = some_tile();
  v.mask = ATTUNE_MASK_CAUSAL;
  t.block_m = t.block_n = 128;
  t.stages = 2;
  attune__kernel_name(&v, &t, name);
  ck_assert_str_eq(name, "attn_fwd_sm90a_bf16_d128_causal__fma_m128n128s2");
  attune__tile_name(&t, name);
  ck_assert_str_eq(name, "fma_m128n128s2");
  v.op = ATTUNE_OP_ATTN_STANDARD;
  attune__variant_name(&v, 1, name);
  ck_assert_str_eq(name, "attn_standard_sm90a_bf16_d128_causal");
  attune__variant_name(&v, 0, name);
  ck_assert_str_eq(name, "attn_standard_qk_sm90a_bf16_d128_causal");
  v = some_variant();
  v.arch = attune__arch(80, 0);
  v.dtype_kv = ATTUNE_DTYPE_FP16, v.dtype_out = ATTUNE_DTYPE_FP32;
  v.head_dim_qk = 192;
  v.mask = ATTUNE_MASK_WINDOW;
  v.group = 8;
  v.features = ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_SINK;
  v.align = ATTUNE_ALIGN_ELEM;
  v.pins = 0xabc;
  attune__variant_name(&v, 0, name);
  ck_assert_str_eq(
      name, "attn_fwd_sm80_bf16_kvfp16_ofp32_d192x128_window_g8_softcap_sink_elem_x00000abc");
}
END_TEST

START_TEST(longest_name_fits) {
  char name[ATTUNE_NAME_MAX];
  attune_variant v = some_variant();
  v.arch = attune__arch(120, 'a');
  v.op = ATTUNE_OP_ATTN_STANDARD, v.part = 1;
  v.dtype_kv = ATTUNE_DTYPE_FP16, v.dtype_out = ATTUNE_DTYPE_FP32;
  v.head_dim_qk = 1024, v.head_dim_v = 1023;
  v.mask = ATTUNE_MASK_CAUSAL, v.align = ATTUNE_ALIGN_ELEM;
  v.group = UINT8_MAX, v.features = 0x7f, v.pins = UINT32_MAX;
  attune_tile t = numbered_tile(5 * 5 * 5 * 5 * 5 * 5 - 1);
  check_round_trip(&v, &t, 0);
  attune__kernel_name(&v, &t, name);
  ck_assert_uint_lt(strlen(name), ATTUNE_NAME_MAX - 1); /* not cut */
}
END_TEST

START_TEST(another_field_is_another_name) {
  enum { CHANGES = 19 };
  char names[CHANGES][ATTUNE_NAME_MAX];
  for (int i = 0; i < CHANGES; i++) {
    attune_variant v = some_variant();
    attune_tile t = some_tile();
    if (i == 1) v.arch = attune__arch(90, 0);
    if (i == 2) v.features = ATTUNE_FEATURE_SINK;
    if (i == 3) v.pins = 7;
    if (i == 4) v.head_dim_qk = 96;
    if (i == 5) v.head_dim_v = 96;
    if (i == 6) v.op = ATTUNE_OP_ATTN_STANDARD;
    if (i == 7) v.op = ATTUNE_OP_ATTN_STANDARD, v.part = 2;
    if (i == 8) v.dtype_q = ATTUNE_DTYPE_FP16;
    if (i == 9) v.dtype_kv = ATTUNE_DTYPE_FP16;
    if (i == 10) v.dtype_out = ATTUNE_DTYPE_FP16;
    if (i == 11) v.mask = ATTUNE_MASK_WINDOW;
    if (i == 12) v.align = ATTUNE_ALIGN_ELEM;
    if (i == 13) v.group = 2;
    if (i == 14) t.block_m = 32;
    if (i == 15) t.block_n = 32;
    if (i == 16) t.block_k = 32, t.stages = 2;
    if (i == 17) t.warps = 8;
    if (i == 18) t.share_kv = 1;
    attune__kernel_name(&v, &t, names[i]);
    for (int j = 0; j < i; j++) ck_assert_str_ne(names[i], names[j]);
  }
}
END_TEST

START_TEST(misspelled_names_say_the_right_spelling) {
  static const char *const cases[][2] = {
      {"attn_fwd_sm80_fp16_d64_none", "attn_fwd_sm80_fp16_d64"},
      {"attn_fwd_sm80_fp16_kvfp16_d64", "attn_fwd_sm80_fp16_d64"},
      {"attn_fwd_sm80_fp16_ofp16_d64", "attn_fwd_sm80_fp16_d64"},
      {"attn_fwd_sm80_fp16_d64x64", "attn_fwd_sm80_fp16_d64"},
      {"attn_fwd_sm80_fp16_d064", "attn_fwd_sm80_fp16_d64"},
      {"attn_fwd_sm80_fp16_d64_g1", "attn_fwd_sm80_fp16_d64"},
      {"attn_fwd_sm80_fp16_d64_g08", "attn_fwd_sm80_fp16_d64_g8"},
      {"attn_fwd_sm80_fp16_d64_16b", "attn_fwd_sm80_fp16_d64"},
      {"attn_fwd_sm80_fp16_d64_x00000000", "attn_fwd_sm80_fp16_d64"},
      {"attn_fwd_fp16_sm80_d64", "attn_fwd_sm80_fp16_d64"},
      {"attn_fwd_sm80_fp16_d64_elem_causal", "attn_fwd_sm80_fp16_d64_causal_elem"},
      {"attn_fwd_sm80_fp16_d64_sink_softcap", "attn_fwd_sm80_fp16_d64_softcap_sink"},
      {"attn_fwd_sm80_fp16_d64__fma_n64m32", "attn_fwd_sm80_fp16_d64__fma_m32n64"},
      {"attn_fwd_sm80_fp16_d64__fma_m64s1", "attn_fwd_sm80_fp16_d64__fma_m64"},
      {"attn_fwd_sm80_fp16_d64__fma_m064", "attn_fwd_sm80_fp16_d64__fma_m64"},
      {"attn_fwd_sm80_fp16_d64__fma_m0", "attn_fwd_sm80_fp16_d64__fma"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attune_variant v;
    attune_tile t;
    int has_tile, is_program;
    char expected[512];
    snprintf(expected, sizeof expected, "'%s' is not how this kernel is spelled: write '%s'",
             cases[i][0], cases[i][1]);
    ck_assert_int_eq(attune__name_parse(cases[i][0], &v, &t, &has_tile, &is_program),
                     ATTUNE_INVALID);
    ck_assert_str_eq(attune_error(), expected);
    ck_assert_int_eq(attune__name_parse(cases[i][1], &v, &t, &has_tile, &is_program), ATTUNE_OK);
  }
}
END_TEST

#define WORDS  "expected an arch, dtype, d<dim>, mask, g<group>, feature, elem or _x<8 hex>"
#define FIELDS "expected tile fields such as m64n64s2, each once"

START_TEST(other_texts_are_no_names) {
  static const char *const cases[][2] = {
      {"", "it begins with no known op"},
      {"attn_fwd", "it begins with no known op"},
      {"attn_fwdx_sm80_fp16_d64", "it begins with no known op"},
      {" attn_fwd_sm80_fp16_d64", "it begins with no known op"},
      {"attn_fwd_", "the arch is missing, such as sm80"},
      {"attn_fwd__fma", "the arch is missing, such as sm80"},
      {"attn_fwd_fp16_d64", "the arch is missing, such as sm80"},
      {"attn_fwd_sm80_d64", "the dtype is missing, such as bf16"},
      {"attn_fwd_sm80_fp16", "the head dimension is missing, such as d128"},
      {"attn_fwd_qk_sm80_fp16_d64", WORDS ", found qk"},
      {"attn_fwd_sm_80_fp16_d64", WORDS ", found sm"},
      {"attn_fwd_sm80_fp16_d0", WORDS ", found d0"},
      {"attn_fwd_sm80_fp16_d1025", WORDS ", found d1025"},
      {"attn_fwd_sm80_fp16_d4294967360", WORDS ", found d4294967360"},
      {"attn_fwd_sm80_fp16_d64x", WORDS ", found d64x"},
      {"attn_fwd_sm80_fp16_d64x0", WORDS ", found d64x0"},
      {"attn_fwd_sm80_fp16_d+64", WORDS ", found d+64"},
      {"attn_fwd_sm80_fp16_d 64", WORDS ", found d 64"},
      {"attn_fwd_sm80_fp16_D64", WORDS ", found D64"},
      {"attn_fwd_sm80_fp16_d64_g0", WORDS ", found g0"},
      {"attn_fwd_sm80_fp16_d64_g256", WORDS ", found g256"},
      {"attn_fwd_sm80_fp16_d64_xabc", WORDS ", found xabc"},
      {"attn_fwd_sm80_fp16_d64_x0000ABCD", WORDS ", found x0000ABCD"},
      {"attn_fwd_sm80_fp64_d64", WORDS ", found fp64"},
      {"attn_fwd_sm80_fp16_d64_ring", WORDS ", found ring"},
      {"attn_fwd_sm80_fp16_d64_causal_window", "a word of one kind may stand once, found window"},
      {"attn_fwd_sm80_fp16_fp16_d64", "a word of one kind may stand once, found fp16"},
      {"attn_fwd_sm80_fp16_d64_sink_sink", "a word of one kind may stand once, found sink"},
      {"attn_fwd_sm80_fp16_d64_", "it ends in '_'"},
      {"attn_fwd_sm80_fp16_d64__", "expected the tile's family after '__'"},
      {"attn_fwd_sm80_fp16_d64__tcgen05", "expected the tile's family after '__', found tcgen05"},
      {"attn_fwd_sm80_fp16_d64__fma_", "it ends in '_'"},
      {"attn_fwd_sm80_fp16_d64__fma_64", FIELDS ", found 64"},
      {"attn_fwd_sm80_fp16_d64__fma_m", FIELDS ", found m"},
      {"attn_fwd_sm80_fp16_d64__fma_x4", FIELDS ", found x4"},
      {"attn_fwd_sm80_fp16_d64__fma_m64m64", FIELDS ", found m64"},
      {"attn_fwd_sm80_fp16_d64__fma_m65536", FIELDS ", found m65536"},
      {"attn_fwd_sm80_fp16_d64__fma_s256", FIELDS ", found s256"},
      {"attn_fwd_sm80_fp16_d64__fma_m64 ", FIELDS ", found  "},
      {"attn_fwd_sm80_fp16_d64__fma_m64__fma", FIELDS ", found __fma"},
      {"attn_standard_sm80_fp32_d64__fma_m64",
       "a tile belongs to one kernel, so name the part after the op"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attune_variant v;
    attune_tile t;
    int has_tile, is_program;
    char expected[512];
    snprintf(expected, sizeof expected, "'%s' is not a kernel name: %s", cases[i][0], cases[i][1]);
    ck_assert_int_eq(attune__name_parse(cases[i][0], &v, &t, &has_tile, &is_program),
                     ATTUNE_INVALID);
    ck_assert_str_eq(attune_error(), expected);
  }
}
END_TEST

START_TEST(overlong_names_are_refused) {
  char name[4096];
  memset(name, 'a', sizeof name);
  name[sizeof name - 1] = 0;
  attune_variant v;
  attune_tile t;
  int has_tile, is_program;
  ck_assert_int_eq(attune__name_parse(name, &v, &t, &has_tile, &is_program), ATTUNE_INVALID);
}
END_TEST

/* ---- axes, archs, shape classes ------------------------------------------------------------- */

static void check_axis(const char *(*name)(int), int (*parse)(const char *), int rows) {
  ck_assert_ptr_null(name(0));
  ck_assert_ptr_null(name(rows + 1));
  ck_assert_ptr_null(name(-1));
  for (int id = 1; id <= rows; id++) ck_assert_int_eq(parse(name(id)), id);
  ck_assert_int_eq(parse(""), 0);
  ck_assert_int_eq(parse("CAUSAL"), 0);
}

START_TEST(axes_go_both_ways) {
  check_axis(attune__op_name, attune__op_parse, 3);
  check_axis(attune__dtype_name, attune__dtype_parse, 3);
  check_axis(attune__mask_name, attune__mask_parse, 3);
  check_axis(attune__align_name, attune__align_parse, 2);
  check_axis(attune__corner_name, attune__corner_parse, 2);
  check_axis(attune__family_name, attune__family_parse, 5);
  int ok;
  for (int cls = 0; cls <= 5; cls++) {
    ck_assert_int_eq(attune__class_parse(attune__class_name(cls), &ok), cls);
    ck_assert_int_eq(ok, 1);
  }
  ck_assert_int_eq(attune__class_parse("middling", &ok), 0);
  ck_assert_int_eq(ok, 0);
  ck_assert_int_eq(attune__dtype_bytes(ATTUNE_DTYPE_FP32), 4);
  ck_assert_int_eq(attune__dtype_bytes(ATTUNE_DTYPE_BF16), 2);
  ck_assert_int_eq(attune__mask_has_lower(ATTUNE_MASK_CAUSAL), 0);
  ck_assert_int_eq(attune__mask_has_upper(ATTUNE_MASK_CAUSAL), 1);
  ck_assert_int_eq(attune__mask_has_lower(ATTUNE_MASK_WINDOW), 1);
  ck_assert_int_eq(attune__op_parts(ATTUNE_OP_ATTN_STANDARD), 3);
  ck_assert_int_eq(attune__op_parts(0), 0);
  ck_assert_str_eq(attune__part_suffix(ATTUNE_OP_ATTN_STANDARD, 1), "softmax");
  ck_assert_ptr_null(attune__part_suffix(ATTUNE_OP_ATTN_FWD, 1));
  ck_assert_str_eq(attune__feature_name(6), "paged");
  ck_assert_ptr_null(attune__feature_name(7));
}
END_TEST

START_TEST(archs_parse_and_print) {
  char text[ATTUNE_ARCH_MAX];
  ck_assert_uint_eq(attune__arch_parse("sm_90a"), 90 << 8 | 'a');
  ck_assert_uint_eq(attune__arch_parse("sm90a"), 90 << 8 | 'a');
  ck_assert_uint_eq(attune__arch_parse("sm_120"), 120 << 8);
  static const char *const bad[] = {"",       "sm",         "sm_",     "sm_9",   "sm_090",
                                    "sm_90b", "sm_90A",     "sm_1000", "sm-90",  "sm_90aa",
                                    "90",     "compute_90", "SM_90",   "sm_ 90", "sm__90"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_msg(attune__arch_parse(bad[i]) == 0, "'%s' parses", bad[i]);
  attune__arch_print(attune__arch(90, 'a'), 1, text);
  ck_assert_str_eq(text, "sm_90a");
  attune__arch_print(attune__arch(75, 0), 0, text);
  ck_assert_str_eq(text, "sm75");
}
END_TEST

static int runs(const char *code, const char *device) {
  return attune__arch_runs(attune__arch_parse(code), attune__arch_parse(device));
}

START_TEST(code_runs_within_its_major) {
  ck_assert_int_eq(runs("sm_80", "sm_80"), 1);
  ck_assert_int_eq(runs("sm_80", "sm_86"), 1);
  ck_assert_int_eq(runs("sm_80", "sm_89"), 1);
  ck_assert_int_eq(runs("sm_86", "sm_80"), 0);
  ck_assert_int_eq(runs("sm_89", "sm_86"), 0);
  ck_assert_int_eq(runs("sm_75", "sm_80"), 0);
  ck_assert_int_eq(runs("sm_80", "sm_90a"), 0);
  ck_assert_int_eq(runs("sm_90", "sm_90a"), 1);
  ck_assert_int_eq(runs("sm_90a", "sm_90a"), 1);
  ck_assert_int_eq(runs("sm_90a", "sm_90"), 0);
  ck_assert_int_eq(runs("sm_100a", "sm_103a"), 0);
  ck_assert_int_eq(runs("sm_100", "sm_103a"), 1);
  ck_assert_int_eq(runs("sm_100", "sm_110a"), 0);
  ck_assert_int_eq(runs("sm_100", "sm_120a"), 0);
}
END_TEST

START_TEST(shape_classes_change_at_their_bounds) {
  ck_assert_int_eq((int)attune__shape_class(1, 1, 0, 0), ATTUNE_CLASS_DECODE);
  ck_assert_int_eq((int)attune__shape_class(1, 1, 16, 99999), ATTUNE_CLASS_DECODE);
  ck_assert_int_eq((int)attune__shape_class(1000, 64, 16, 16), ATTUNE_CLASS_DECODE);
  ck_assert_int_eq((int)attune__shape_class(1, 64, 17, 17), ATTUNE_CLASS_SHORT_FEW);
  ck_assert_int_eq((int)attune__shape_class(8, 8, 512, 512), ATTUNE_CLASS_SHORT_FEW);
  ck_assert_int_eq((int)attune__shape_class(127, 1, 512, 1), ATTUNE_CLASS_SHORT_FEW);
  ck_assert_int_eq((int)attune__shape_class(3855, 1, 17, 1), ATTUNE_CLASS_SHORT_FEW);
  ck_assert_int_eq((int)attune__shape_class(3856, 1, 17, 1), ATTUNE_CLASS_BRIEF_MANY);
  ck_assert_int_eq((int)attune__shape_class(255, 1, 256, 1), ATTUNE_CLASS_SHORT_FEW);
  ck_assert_int_eq((int)attune__shape_class(16, 16, 256, 9999), ATTUNE_CLASS_BRIEF_MANY);
  ck_assert_int_eq((int)attune__shape_class(16, 16, 257, 1), ATTUNE_CLASS_SHORT_MANY);
  ck_assert_int_eq((int)attune__shape_class(8, 16, 512, 1), ATTUNE_CLASS_SHORT_MANY);
  ck_assert_int_eq((int)attune__shape_class(8, 16, 513, 1), ATTUNE_CLASS_MEDIUM_MANY);
  ck_assert_int_eq((int)attune__shape_class(1, 127, 513, 1), ATTUNE_CLASS_LONG_FEW);
  ck_assert_int_eq((int)attune__shape_class(1, 4, 16384, 1), ATTUNE_CLASS_LONG_MANY);
  ck_assert_int_eq((int)attune__shape_class(1, 128, 513, 1), ATTUNE_CLASS_MEDIUM_MANY);
  ck_assert_int_eq((int)attune__shape_class(64, 1, 1024, 1), ATTUNE_CLASS_MEDIUM_MANY);
  ck_assert_int_eq((int)attune__shape_class(64, 1, 1025, 1), ATTUNE_CLASS_LONG_MANY);
  int64_t most = (1 << 29) - 1; /* batch x heads beyond 32 bits */
  ck_assert_int_eq((int)attune__shape_class(most, most, most, most), ATTUNE_CLASS_LONG_MANY);
  ck_assert_int_eq((int)attune__shape_class(65536, 65536, 1025, 1), ATTUNE_CLASS_LONG_MANY);
}
END_TEST

/* ---- pins ---------------------------------------------------------------------------------- */

static uint32_t digest_of(const char *name, double value) {
  attune_pinset set = {0};
  ck_assert_int_eq(attune__pinset_add(&set, name, value), ATTUNE_OK);
  return attune__pinset_digest(&set);
}

/* printf 'window_left=127\n' | sha256sum, first 8 digits, and so on. */
static void check_digests(void) {
  attune_pinset two = {0}, swapped = {0}, none = {0};
  ck_assert_uint_eq(attune__pinset_digest(&none), 0);
  ck_assert_uint_eq(digest_of("window_left", 127), 0x2b529a02);
  ck_assert_int_eq(attune__pinset_add(&two, "scale", 0.125), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&two, "window_left", -1), ATTUNE_OK);
  ck_assert_uint_eq(attune__pinset_digest(&two), 0x6dddd2bf);
  ck_assert_int_eq(attune__pinset_add(&swapped, "window_left", -1), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&swapped, "scale", 0.125), ATTUNE_OK);
  ck_assert_mem_eq(&two, &swapped, sizeof two);
  ck_assert_uint_eq(digest_of("scale", 0.1), 0x31baca2b);
  ck_assert_uint_eq(digest_of("scale", (double)0.1f), 0x31baca2b);
  ck_assert_uint_eq(digest_of("len_q", 536870911), 0xd70fedd8);
  ck_assert_uint_eq(digest_of("scale", 1e10), 0x2a0d128b);
  ck_assert_uint_eq(digest_of("scale", -0.0), digest_of("scale", 0));
  ck_assert_uint_ne(digest_of("scale", 16777217), digest_of("scale", 16777216));
}

START_TEST(pins_have_a_digest) {
  check_digests();
}
END_TEST

START_TEST(pins_print_exactly_and_parse) {
  static const double values[] = {0,         1,          -1,        127,  0.125,
                                  536870911, -536870911, 999999999, 1e10, 3e38};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    attune_pinset set = {0};
    char text[ATTUNE_PIN_TEXT_MAX];
    double back;
    ck_assert_int_eq(attune__pinset_add(&set, "scale", values[i]), ATTUNE_OK);
    attune__pin_print(set.pin[0].value, text);
    ck_assert_int_eq(attune__pin_parse(text, &back), 1);
    ck_assert_msg((float)back == (float)values[i], "%s", text);
  }
  static const char *const bad[] = {"",    "1,5", "1.5x", " 1",  "0x10",
                                    "nan", "inf", "1 ",   "--1", "e"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    double value;
    ck_assert_msg(!attune__pin_parse(bad[i], &value), "'%s' parses", bad[i]);
  }
}
END_TEST

START_TEST(bad_pins_are_refused) {
  attune_pinset set = {0};
  ck_assert_int_eq(attune__pinset_add(&set, "scale", 1), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&set, "scale", 2), ATTUNE_INVALID);
  ck_assert_str_eq(attune_error(), "pin scale: given twice");
  ck_assert_int_eq(attune__pinset_add(&set, "", 2), ATTUNE_INVALID);
  ck_assert_int_eq(attune__pinset_add(&set, "a b", 2), ATTUNE_INVALID);
  ck_assert_int_eq(attune__pinset_add(&set, "a_name_of_24_characters_", 2), ATTUNE_INVALID);
  ck_assert_int_eq(attune__pinset_add(&set, "nan", strtod("nan", NULL)), ATTUNE_INVALID);
  ck_assert_int_eq(attune__pinset_add(&set, "inf", strtod("inf", NULL)), ATTUNE_INVALID);
  ck_assert_int_eq(attune__pinset_add(&set, "huge", 1e39), ATTUNE_INVALID);
  char name[] = "a";
  for (; set.count < ATTUNE_MAX_PINS; name[0]++)
    ck_assert_int_eq(attune__pinset_add(&set, name, 1), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&set, "one_too_many", 1), ATTUNE_INVALID);
  ck_assert_uint_eq(set.count, ATTUNE_MAX_PINS);
}
END_TEST

START_TEST(a_comma_locale_changes_nothing) {
  ck_assert_int_eq(system("sh tests/locale.sh"), 0);
  setenv("LOCPATH", "build/locale", 1);
  ck_assert_ptr_nonnull(setlocale(LC_ALL, "de_DE.UTF-8"));
  char text[ATTUNE_PIN_TEXT_MAX];
  snprintf(text, sizeof text, "%.1f", 1.5);
  ck_assert_str_eq(text, "1,5"); /* the locale is at work */
  check_digests();
  attune__pin_print(0.125, text);
  ck_assert_str_eq(text, "0.125");
  double value;
  ck_assert_int_eq(attune__pin_parse("0.125", &value), 1);
  ck_assert(value == 0.125);
  ck_assert_int_eq(attune__pin_parse("0,125", &value), 0);
  snprintf(text, sizeof text, "%.1f", 1.5);
  ck_assert_str_eq(text, "1,5"); /* and was left as it was */
  setlocale(LC_ALL, "C");
}
END_TEST

TEST_MAIN("names", every_tile_round_trips, every_variant_round_trips,
          every_set_of_features_round_trips, names_are_spelled_as_documented, longest_name_fits,
          another_field_is_another_name, misspelled_names_say_the_right_spelling,
          other_texts_are_no_names, overlong_names_are_refused, axes_go_both_ways,
          archs_parse_and_print, code_runs_within_its_major, shape_classes_change_at_their_bounds,
          pins_have_a_digest, pins_print_exactly_and_parse, bad_pins_are_refused,
          a_comma_locale_changes_nothing)
