/* test_params_features.c - the arguments that belong to a feature: what fills the block, what a
 * kernel with the feature needs, and that one without it refuses them. */
#include "fake.h"
#include "test.h"

#include <math.h>

static const char F16[] = "attn_fwd_sm80_fp16_d64", SOFTCAP[] = "attn_fwd_sm80_fp16_d64_softcap",
                  ALIBI[] = "attn_fwd_sm80_fp16_d64_alibi", BIAS[] = "attn_fwd_sm80_fp16_d64_bias",
                  SINK[] = "attn_fwd_sm80_fp16_d64_sink",
                  BITMASK[] = "attn_fwd_sm80_fp16_d64_bitmask",
                  VARLEN[] = "attn_fwd_sm80_fp16_d64_varlen",
                  ALL[] = "attn_fwd_sm80_fp16_d64_softcap_alibi_bias_sink_bitmask_varlen";

/* Everything that a feature can ask for. */
static attune_attn_args full_args(void) {
  attune_attn_args a = fake_args();
  a.cu_seqlens_q = fake_address(0x60000), a.cu_seqlens_k = fake_address(0x61000);
  a.total_q = 150, a.total_k = 170;
  a.softcap = 50;
  a.alibi_slopes = fake_address(0x62000), a.alibi_stride_batch = 8;
  a.bias = fake_address(0x63002);
  a.bias_stride_batch = 1, a.bias_stride_head = 2, a.bias_stride_q = 3, a.bias_stride_k = 4;
  a.sinks = fake_address(0x64004);
  a.bitmask = fake_address(0x65004);
  a.bitmask_stride_batch = 5, a.bitmask_stride_head = 6, a.bitmask_stride_q = 7;
  a.bitmask_classes = fake_address(0x66001);
  a.bitmask_classes_stride_batch = 8, a.bitmask_classes_stride_head = 9;
  a.bitmask_classes_stride_q = 10;
  a.seqused_q = fake_address(0x67000), a.seqused_k = fake_address(0x68000);
  a.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  return a;
}

START_TEST(features_reach_the_block) {
  attune_attn_args a = full_args();
  attune_params_attn_standard p;
  fake_filled(ALL, (attune_corner)0, &a, &p);
  ck_assert_ptr_eq(p.cu_seqlens_q, a.cu_seqlens_q);
  ck_assert_ptr_eq(p.cu_seqlens_k, a.cu_seqlens_k);
  ck_assert_ptr_eq(p.seqused_q, a.seqused_q);
  ck_assert_ptr_eq(p.seqused_k, a.seqused_k);
  ck_assert_ptr_eq(p.alibi_slopes, a.alibi_slopes);
  ck_assert_ptr_eq(p.bias, a.bias);
  ck_assert_ptr_eq(p.sinks, a.sinks);
  ck_assert_ptr_eq(p.bitmask, a.bitmask);
  ck_assert_ptr_eq(p.bitmask_classes, a.bitmask_classes);
  ck_assert_int_eq(p.total_q, 150);
  ck_assert_int_eq(p.total_k, 170);
  ck_assert(p.softcap == 50);
  ck_assert_int_eq(p.alibi_stride_batch, 8);
  const int64_t strides[] = {p.bias_stride_batch,
                             p.bias_stride_head,
                             p.bias_stride_q,
                             p.bias_stride_k,
                             p.bitmask_stride_batch,
                             p.bitmask_stride_head,
                             p.bitmask_stride_q,
                             p.bitmask_classes_stride_batch,
                             p.bitmask_classes_stride_head,
                             p.bitmask_classes_stride_q};
  for (int i = 0; i < 10; i++) ck_assert_int_eq(strides[i], i + 1);
  ck_assert_int_eq(p.bottom_right, 1);
  ck_assert_int_eq(p.window_left, -1); /* slopes need the diagonal, which is no bound */
  ck_assert_int_eq(p.window_right, -1);
}
END_TEST

/* Full arguments for a kernel of everything, with one of them missing or wrong. */
#define LACKS(change, words)                                                                       \
  do {                                                                                             \
    attune_attn_args bad = full_args();                                                            \
    change;                                                                                        \
    fake_refused(ALL, &bad, words);                                                                \
  } while (0)

START_TEST(a_feature_needs_its_arguments) {
  LACKS(bad.softcap = 0, "softcap is 0, must be over 0 and finite");
  LACKS(bad.softcap = -2.5f, "softcap is -2.5, must be");
  LACKS(bad.softcap = INFINITY, "must be over 0 and finite");
  LACKS(bad.softcap = NAN, "softcap is not a number");
  LACKS(bad.softcap = 1e-40f; bad.scale = 1, "scale / softcap overflows");
  LACKS(bad.alibi_slopes = NULL, "alibi_slopes is NULL");
  LACKS(bad.alibi_slopes = NULL, "the kernel is for alibi");
  LACKS(bad.alibi_slopes = fake_address(0x62002), "alibi_slopes is 0x62002, not a multiple of 4");
  LACKS(bad.bias = NULL, "bias is NULL");
  LACKS(bad.bias = fake_address(0x63001), "bias is 0x63001, not a multiple of 2 bytes");
  LACKS(bad.sinks = NULL, "sinks is NULL");
  LACKS(bad.sinks = fake_address(0x64001), "sinks is 0x64001, not a multiple of 4");
  LACKS(bad.bitmask = NULL, "bitmask is NULL");
  LACKS(bad.bitmask = fake_address(0x65002), "bitmask is 0x65002, not a multiple of 4");
  LACKS(bad.cu_seqlens_q = NULL, "cu_seqlens_q is NULL");
  LACKS(bad.cu_seqlens_k = NULL, "cu_seqlens_k is NULL");
  LACKS(bad.cu_seqlens_k = NULL, "the kernel is for varlen");
  LACKS(bad.cu_seqlens_q = fake_address(0x60001), "cu_seqlens_q is 0x60001");
  LACKS(bad.cu_seqlens_k = fake_address(0x61002), "cu_seqlens_k is 0x61002");
  LACKS(bad.total_q = -1, "total_q is -1, must be 0 .. 536870911");
  LACKS(bad.total_k = 1 << 29, "total_k is 536870912");
  LACKS(bad.corner = (attune_corner)0, "with varlen lengths may differ");
  attune_attn_args a = full_args();
  attune_params_attn_standard p;
  a.bitmask_classes = NULL; /* every block is loaded then */
  fake_filled(ALL, (attune_corner)0, &a, &p);
  ck_assert_int_eq(p.bitmask_classes_stride_q, 0);
  a.total_k = 0, a.k.data = a.v.data = NULL, a.bias = NULL, a.bitmask = NULL; /* no pairs */
  fake_filled(ALL, (attune_corner)0, &a, &p);
  a = full_args(), a.total_q = 0;
  a.q.data = a.o.data = NULL, a.sinks = NULL, a.alibi_slopes = NULL, a.cu_seqlens_q = NULL;
  fake_filled(ALL, (attune_corner)0, &a, &p); /* no rows */
}
END_TEST

#define REFUSED(variant, change, words)                                                            \
  do {                                                                                             \
    attune_attn_args bad = fake_args();                                                            \
    change;                                                                                        \
    fake_refused(variant, &bad, words);                                                            \
  } while (0)

START_TEST(a_kernel_without_the_feature_refuses_its_arguments) {
  REFUSED(F16, bad.softcap = 50, "softcap is set, but the kernel has no feature softcap");
  REFUSED(F16, bad.softcap = NAN, "softcap is set");
  REFUSED(F16, bad.alibi_slopes = fake_address(0x62000), "alibi_slopes is set");
  REFUSED(F16, bad.bias = fake_address(0x63000), "bias is set, but the kernel has no feature bias");
  REFUSED(F16, bad.sinks = fake_address(0x64000),
          "sinks is set, but the kernel has no feature sink");
  REFUSED(F16, bad.bitmask = fake_address(0x65000), "bitmask is set");
  REFUSED(F16, bad.bitmask_classes = fake_address(0x66000),
          "bitmask_classes is set, but the kernel has no feature bitmask");
  REFUSED(F16, bad.cu_seqlens_q = fake_address(0x60000), "cu_seqlens_q is set");
  REFUSED(F16, bad.cu_seqlens_k = fake_address(0x60000), "cu_seqlens_k is set");
  REFUSED(F16, bad.total_q = 1, "total_q is set, but the kernel has no feature varlen");
  REFUSED(F16, bad.total_k = 1, "total_k is set");
  REFUSED(SOFTCAP, bad.softcap = 1; bad.sinks = fake_address(0x64000), "sinks is set");
  REFUSED(F16, bad.len_q = 0; bad.softcap = 50, "softcap is set"); /* nothing to do all the same */
}
END_TEST

/* Each alone, with the rest of the block as it was. */
START_TEST(unused_features_leave_the_block_zero) {
  attune_attn_args args = fake_args();
  attune_params_attn_standard plain, p;
  fake_filled(F16, (attune_corner)0, &args, &plain);
  ck_assert_ptr_null(plain.bias);
  ck_assert_ptr_null(plain.cu_seqlens_q);
  ck_assert(plain.softcap == 0);
  args.bias_stride_q = 5, args.alibi_stride_batch = 6; /* strides of nothing mean nothing */
  args.bitmask_stride_q = args.bitmask_classes_stride_q = 7;
  fake_filled(F16, (attune_corner)0, &args, &p);
  ck_assert_mem_eq(&p, &plain, sizeof p);
  args = fake_args(), args.softcap = 30;
  fake_filled(SOFTCAP, (attune_corner)0, &args, &p);
  ck_assert(p.softcap == 30);
  p.softcap = 0;
  ck_assert_mem_eq(&p, &plain, sizeof p);
  args = fake_args(), args.sinks = fake_address(0x64000);
  fake_filled(SINK, (attune_corner)0, &args, &p);
  ck_assert_ptr_eq(p.sinks, args.sinks);
  args = fake_args(), args.bias = fake_address(0x63000);
  fake_filled(BIAS, (attune_corner)0, &args, &p); /* strides 0: one number for all */
  ck_assert_ptr_eq(p.bias, args.bias);
  args = fake_args(), args.bitmask = fake_address(0x65000);
  fake_filled(BITMASK, (attune_corner)0, &args, &p);
  ck_assert_ptr_eq(p.bitmask, args.bitmask);
}
END_TEST

START_TEST(slopes_need_the_corner) {
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  args.alibi_slopes = fake_address(0x62000);
  fake_filled(ALIBI, (attune_corner)0, &args, &p);
  ck_assert_int_eq(p.bottom_right, 0);
  args.len_q = 1;
  fake_refused(ALIBI, &args, "corner is not named, but the lengths differ");
  fake_filled(ALIBI, ATTUNE_CORNER_BOTTOM_RIGHT, &args, &p);
  ck_assert_int_eq(p.bottom_right, 1);
  args.len_q = 100, args.seqused_q = fake_address(0x67000);
  fake_refused(ALIBI, &args, "with seqused_q lengths may differ");
}
END_TEST

/* Packed tensors have no batch axis, and no lengths but those on the device. */
START_TEST(packed_sequences_are_one_axis) {
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  args.cu_seqlens_q = fake_address(0x60000), args.cu_seqlens_k = fake_address(0x61000);
  args.total_q = 150, args.total_k = 170;
  args.len_q = args.len_k = 0; /* they choose among tiles, no more */
  args.q.stride_batch = 3, args.o.stride_batch = 0, args.lse_stride_batch = 0;
  fake_filled(VARLEN, (attune_corner)0, &args, &p);
  ck_assert_int_eq(p.q_stride_batch, 0);
  ck_assert_int_eq(p.k_stride_batch, 0);
  ck_assert_int_eq(p.v_stride_batch, 0);
  ck_assert_int_eq(p.q_stride_seq, 8 * 64);
  ck_assert_int_eq(p.lse_stride_head, 100);
  args.o.stride_seq = 0;
  fake_refused(VARLEN, &args, "o.stride_seq is 0");
  args = fake_args(), args.total_q = 150;
  args.batch = 0; /* no sequence: nothing is looked at */
  fake_filled(VARLEN, (attune_corner)0, &args, &p);
}
END_TEST

/* Rows are numbered in an int: query heads of a group times tokens, and two tiles of 65535. */
START_TEST(groups_bound_the_rows) {
  const int32_t most = (INT32_MAX - 2 * 65535) / 8;
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  args.heads_kv = 1, args.len_q = most;
  fake_filled("attn_fwd_sm80_fp16_d64_g8", (attune_corner)0, &args, &p);
  args.len_q = most + 1;
  fake_refused("attn_fwd_sm80_fp16_d64_g8", &args, "len_q is 268419073, must be 0 .. 268419072");
  args.cu_seqlens_q = fake_address(0x60000), args.cu_seqlens_k = fake_address(0x61000);
  args.total_q = most;
  fake_filled("attn_fwd_sm80_fp16_d64_g8_varlen", (attune_corner)0, &args, &p);
  args.total_q = most + 1;
  fake_refused("attn_fwd_sm80_fp16_d64_g8_varlen", &args, "total_q is 268419073");
}
END_TEST

START_TEST(new_scalars_are_pinned_as_all_are) {
  attune_attn_args args = full_args();
  attune_params_attn_standard p;
  attune_pinset pins = {0};
  fake_filled(ALL, (attune_corner)0, &args, &p);
  ck_assert_int_eq(attune__pinset_add(&pins, "softcap", 50), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&pins, "total_q", 150), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&pins, "total_k", 170), ATTUNE_OK);
  ck_assert_int_eq(attune__params_check_pins(&pins, ATTUNE_OP_ATTN_FWD, &p), ATTUNE_OK);
  p.softcap = 30;
  ck_assert_int_eq(attune__params_check_pins(&pins, ATTUNE_OP_ATTN_FWD, &p), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "softcap is 30, but"));
  p.softcap = 50, p.total_k = 171;
  ck_assert_int_eq(attune__params_check_pins(&pins, ATTUNE_OP_ATTN_FWD, &p), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "total_k is 171, but"));
}
END_TEST

TEST_MAIN("params_features", features_reach_the_block, a_feature_needs_its_arguments,
          a_kernel_without_the_feature_refuses_its_arguments, unused_features_leave_the_block_zero,
          slopes_need_the_corner, packed_sequences_are_one_axis, groups_bound_the_rows,
          new_scalars_are_pinned_as_all_are)
