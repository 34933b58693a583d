/* test_problem.c - from problems to variants, how variants differ, and error texts.
 *
 * Expected messages are written out by hand; names, which test_names.c checks, stand for variants.
 */
#include <pthread.h>

#include "../runtime/variant.h"
#include "test.h"

static attune_variant some_variant(void) {
  attune_variant v;
  attune_tile none;
  int has_tile, is_program;
  ck_assert_int_eq(
      attune__name_parse("attn_fwd_sm90a_bf16_d128", &v, &none, &has_tile, &is_program), ATTUNE_OK);
  return v;
}

/* ---- variants of problems ------------------------------------------------------------------ */

static attune_problem some_problem(void) {
  attune_problem p = attune_problem_init();
  p.op = ATTUNE_OP_ATTN_FWD;
  p.dtype_q = ATTUNE_DTYPE_BF16;
  p.head_dim_qk = 128;
  p.batch = 2, p.heads_q = 32, p.heads_kv = 8, p.len_q = 100, p.len_k = 200;
  return p;
}

START_TEST(defaults_are_filled_in) {
  attune_variant v, expected = some_variant();
  attune_problem p = some_problem();
  memset(&v, 0xff, sizeof v);
  ck_assert_int_eq(attune__variant_of(&p, attune__arch(90, 'a'), &v), ATTUNE_OK);
  ck_assert_mem_eq(&v, &expected, sizeof v);
  p.dtype_kv = p.dtype_out = ATTUNE_DTYPE_BF16;
  p.head_dim_v = 128;
  p.mask = ATTUNE_MASK_NONE, p.align = ATTUNE_ALIGN_16B, p.group = 1;
  ck_assert_int_eq(attune__variant_of(&p, attune__arch(90, 'a'), &v), ATTUNE_OK);
  ck_assert_mem_eq(&v, &expected, sizeof v);
  p.batch = 7, p.len_q = 0, p.len_k = (1 << 29) - 1,
  p.heads_q = p.heads_kv = 0; /* no shape in it */
  ck_assert_int_eq(attune__variant_of(&p, attune__arch(90, 'a'), &v), ATTUNE_OK);
  ck_assert_mem_eq(&v, &expected, sizeof v);
}
END_TEST

START_TEST(every_field_reaches_the_variant) {
  const attune_pin pins[] = {{"window_left", 127}};
  attune_problem p = some_problem();
  attune_variant v;
  char name[ATTUNE_NAME_MAX];
  p.dtype_kv = ATTUNE_DTYPE_FP16, p.dtype_out = ATTUNE_DTYPE_FP32;
  p.head_dim_v = 64;
  p.mask = ATTUNE_MASK_WINDOW, p.align = ATTUNE_ALIGN_ELEM;
  p.group = 4, p.features = ATTUNE_FEATURE_BIAS;
  p.pins = pins, p.pin_count = 1;
  ck_assert_int_eq(attune__variant_of(&p, attune__arch(80, 0), &v), ATTUNE_OK);
  attune__variant_name(&v, 0, name);
  ck_assert_str_eq(name, "attn_fwd_sm80_bf16_kvfp16_ofp32_d128x64_window_g4_bias_elem_x2b529a02");
}
END_TEST

static void check_refused(const attune_problem *p, const char *message) {
  attune_variant v;
  ck_assert_msg(attune__variant_of(p, attune__arch(80, 0), &v) == ATTUNE_INVALID, "%s", message);
  ck_assert_str_eq(attune_error(), message);
}

#define REFUSED(change, message)                                                                   \
  do {                                                                                             \
    attune_problem p = some_problem();                                                             \
    change;                                                                                        \
    check_refused(&p, message);                                                                    \
  } while (0)

START_TEST(bad_axes_are_named) {
  check_refused(NULL, "the problem is NULL");
  REFUSED(p.op = (attune_op)0,
          "attune_problem.op is 0, which is none of: attn_fwd attn_standard attn_demo");
  REFUSED(p.op = (attune_op)99,
          "attune_problem.op is 99, which is none of: attn_fwd attn_standard attn_demo");
  REFUSED(p.dtype_q = (attune_dtype)0,
          "attune_problem.dtype_q is 0, which is none of: fp32 fp16 bf16");
  REFUSED(p.dtype_kv = (attune_dtype)4,
          "attune_problem.dtype_kv is 4, which is none of: fp32 fp16 bf16");
  REFUSED(p.dtype_out = (attune_dtype)33,
          "attune_problem.dtype_out is 33, which is none of: fp32 fp16 bf16");
  REFUSED(p.mask = (attune_mask)4,
          "attune_problem.mask is 4, which is none of: none causal window");
  REFUSED(p.align = (attune_align)3, "attune_problem.align is 3, which is none of: 16b elem");
  REFUSED(p.features = 1 << 7, "attune_problem.features has unknown bits 0x80");
  char message[128];
  snprintf(message, sizeof message,
           "attune_problem.size is 0, expected %zu: begin with attune_problem_init()",
           sizeof(attune_problem));
  REFUSED(p.size = 0, message);
  attune_problem larger = some_problem(); /* of a later version of attune.h */
  attune_variant v;
  larger.size += 64;
  ck_assert_int_eq(attune__variant_of(&larger, attune__arch(80, 0), &v), ATTUNE_OK);
}
END_TEST

START_TEST(bad_numbers_are_named) {
  REFUSED(p.head_dim_qk = 0, "attune_problem.head_dim_qk is 0; 1 to 1024 are legal");
  REFUSED(p.head_dim_qk = 1025, "attune_problem.head_dim_qk is 1025; 1 to 1024 are legal");
  REFUSED(p.head_dim_v = -8, "attune_problem.head_dim_v is -8; 1 to 1024 are legal");
  REFUSED(p.head_dim_v = 65536 + 64, "attune_problem.head_dim_v is 65600; 1 to 1024 are legal");
  REFUSED(p.group = 256, "attune_problem.group is 256; 1 to 255 are legal");
  REFUSED(p.group = -1, "attune_problem.group is -1; 1 to 255 are legal");
  REFUSED(p.batch = -1, "attune_problem.batch is -1; 0 to 536870911 are legal");
  REFUSED(p.heads_q = 1 << 29, "attune_problem.heads_q is 536870912; 0 to 536870911 are legal");
  REFUSED(p.heads_kv = -8, "attune_problem.heads_kv is -8; 0 to 536870911 are legal");
  REFUSED(p.len_q = INT32_MIN, "attune_problem.len_q is -2147483648; 0 to 536870911 are legal");
  REFUSED(p.len_k = INT32_MAX, "attune_problem.len_k is 2147483647; 0 to 536870911 are legal");
  REFUSED(p.heads_kv = 3, "attune_problem.heads_q is 32, which is no multiple of heads_kv 3");
  REFUSED(p.heads_kv = 0, "attune_problem.heads_q is 32, which is no multiple of heads_kv 0");
  REFUSED(p.group = 3, "attune_problem.group is 3, which does not divide heads_q / heads_kv = 4");
}
END_TEST

START_TEST(bad_pins_of_a_problem_are_named) {
  static const attune_pin twice[] = {{"scale", 1}, {"scale", 1}}, unknown[] = {{"softcup", 1}},
                          tensor[] = {{"q", 1}}, unnamed[] = {{NULL, 1}};
  REFUSED(p.pin_count = 1, "attune_problem.pins is NULL but pin_count is 1");
  REFUSED((p.pins = twice, p.pin_count = 2), "pin scale: given twice");
  REFUSED((p.pins = unknown, p.pin_count = 1),
          "attune_problem.pins[0] is 'softcup', which is no pinnable scalar of attn_fwd");
  REFUSED((p.pins = tensor, p.pin_count = 1),
          "attune_problem.pins[0] is 'q', which is no pinnable scalar of attn_fwd");
  REFUSED((p.pins = unnamed, p.pin_count = 1),
          "attune_problem.pins[0] is '(null)', which is no pinnable scalar of attn_fwd");
}
END_TEST

static void check_difference(attune_variant want, attune_variant have, const char *expected) {
  char text[128];
  attune__variant_difference(&want, &have, text, sizeof text);
  ck_assert_str_eq(text, expected);
}

#define DIFFERENCE(change, expected)                                                               \
  do {                                                                                             \
    attune_variant v = some_variant();                                                             \
    change;                                                                                        \
    check_difference(v, some_variant(), expected);                                                 \
  } while (0)

START_TEST(differences_name_the_field) {
  DIFFERENCE((void)v, "");
  DIFFERENCE(v.arch = attune__arch(80, 0), "arch sm_80, nearest has sm_90a");
  DIFFERENCE(v.features = ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_ALIBI,
             "features alibi+sink, nearest has none");
  DIFFERENCE(v.pins = 0xabc, "pins x00000abc, nearest has none");
  DIFFERENCE(v.head_dim_qk = 96, "head_dim_qk 96, nearest has 128");
  DIFFERENCE(v.head_dim_v = 96, "head_dim_v 96, nearest has 128");
  DIFFERENCE(v.op = ATTUNE_OP_ATTN_STANDARD, "op attn_standard, nearest has attn_fwd");
  DIFFERENCE(v.dtype_q = ATTUNE_DTYPE_FP16, "dtype_q fp16, nearest has bf16");
  DIFFERENCE(v.dtype_kv = ATTUNE_DTYPE_FP16, "dtype_kv fp16, nearest has bf16");
  DIFFERENCE(v.dtype_out = ATTUNE_DTYPE_FP16, "dtype_out fp16, nearest has bf16");
  DIFFERENCE(v.mask = ATTUNE_MASK_CAUSAL, "mask causal, nearest has none");
  DIFFERENCE(v.align = ATTUNE_ALIGN_ELEM, "align elem, nearest has 16b");
  DIFFERENCE(v.group = 8, "group 8, nearest has 1");
}
END_TEST

/* ---- errors -------------------------------------------------------------------------------- */

enum { SHORT_TEXT = 64 };

static void *error_of_a_new_thread(void *out) {
  snprintf(out, SHORT_TEXT, "%s", attune_error());
  attune_fail(ATTUNE_IO, "of the other thread");
  return NULL;
}

START_TEST(messages_belong_to_a_thread) {
  char other[SHORT_TEXT] = "unset";
  pthread_t thread;
  ck_assert_int_eq(attune_fail(ATTUNE_NO_FIT, "needs %d, has %s", 3, "two"), ATTUNE_NO_FIT);
  ck_assert_str_eq(attune_error(), "needs 3, has two");
  ck_assert_int_eq(pthread_create(&thread, NULL, error_of_a_new_thread, other), 0);
  pthread_join(thread, NULL);
  ck_assert_str_eq(other, "");
  ck_assert_str_eq(attune_error(), "needs 3, has two");
  attune_fail(ATTUNE_IO, "outer: %s", attune_error());
  ck_assert_str_eq(attune_error(), "outer: needs 3, has two");
}
END_TEST

START_TEST(long_messages_are_cut_visibly) {
  static char text[10000];
  memset(text, 'x', sizeof text - 1);
  attune_fail(ATTUNE_IO, "%s", text);
  size_t length = strlen(attune_error());
  ck_assert_uint_eq(length, 4095);
  ck_assert_str_eq(attune_error() + length - 4, "x...");
}
END_TEST

START_TEST(statuses_have_names) {
  ck_assert_str_eq(attune_version(), "0.1.0");
  ck_assert_str_eq(attune_status_name(ATTUNE_OK), "ATTUNE_OK");
  ck_assert_str_eq(attune_status_name(ATTUNE_BUSY), "ATTUNE_BUSY");
  ck_assert_str_eq(attune_status_name((attune_status)999), "ATTUNE_?");
  ck_assert_str_eq(attune_status_text(ATTUNE_NOT_FOUND), "no kernel for this problem");
  ck_assert_str_eq(attune_status_text((attune_status)-1), "unknown status");
}
END_TEST

TEST_MAIN("problem", defaults_are_filled_in, every_field_reaches_the_variant, bad_axes_are_named,
          bad_numbers_are_named, bad_pins_of_a_problem_are_named, differences_name_the_field,
          messages_belong_to_a_thread, long_messages_are_cut_visibly, statuses_have_names)
