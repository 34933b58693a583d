/* test_params.c - from arguments to the parameter block: its layout on both sides, what fills it,
 * every check of an argument, and pins. */
#include "fake.h"
#include "test.h"

#include <math.h>

/* ---- the parameter block --------------------------------------------------------------------- */

/* Sizes of the CUDA types that params.def's types stand for, as nvcc lays them out: naturally
 * aligned, pointers and long long 8 bytes, int, unsigned and float 4. */
#define CUDA_U32     4
#define CUDA_I32     4
#define CUDA_F32     4
#define CUDA_I64     8
#define CUDA_IN_Q    8
#define CUDA_IN_KV   8
#define CUDA_OUT     8
#define CUDA_OUT_F32 8
#define CUDA_IN_I32  8
#define CUDA_IN_U32  8
#define CUDA_IN_U8   8
#define CUDA_IN_F32  8
#define CUDA_SCRATCH 8

typedef struct field {
  const char *name;
  size_t bytes, offset;
} field;

static size_t round_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

static void check_layout(const field *fields, int count, size_t total) {
  size_t at = 0;
  for (int i = 0; i < count; i++) {
    at = round_up(at, fields[i].bytes);
    ck_assert_msg(fields[i].offset == at, "%s is at %zu, CUDA has it at %zu", fields[i].name,
                  fields[i].offset, at);
    at += fields[i].bytes;
  }
  ck_assert_uint_eq(total, round_up(at, 8));
}

START_TEST(both_sides_lay_the_block_out_alike) {
#define P(type, name, pinnable, text) {#name, CUDA_##type, offsetof(attune_params_attn_fwd, name)},
  static const field forward[] = {ATTUNE_PARAMS_ATTN_FWD(P)};
#undef P
#define P(type, name, pinnable, text)                                                              \
  {#name, CUDA_##type, offsetof(attune_params_attn_standard, name)},
  static const field standard[] = {ATTUNE_PARAMS_ATTN_STANDARD(P)};
#undef P
  check_layout(forward, sizeof forward / sizeof *forward,
               attune__param_bytes(ATTUNE_OP_ATTN_FWD, 0));
  check_layout(standard, sizeof standard / sizeof *standard,
               attune__param_bytes(ATTUNE_OP_ATTN_STANDARD, 0));
  ck_assert_uint_eq(attune__param_bytes(0, 0), 0);
  ck_assert_str_eq(standard[0].name, "size"); /* first members, whatever follows */
  ck_assert_str_eq(standard[1].name, "abi");
}
END_TEST

START_TEST(only_scalars_can_be_pinned) {
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_FWD, "window_left"), 1);
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_FWD, "scale"), 1);
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_STANDARD, "len_k"), 1);
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_FWD, "softcap"), 1);
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_FWD, "total_q"), 1);
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_FWD, "total_k"), 1);
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_FWD, "bias_stride_k"), 0);
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_FWD, "q"), 0);
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_FWD, "size"), 0);
  ck_assert_int_eq(attune__pinnable(ATTUNE_OP_ATTN_FWD, "window"), 0);
  ck_assert_int_eq(attune__pinnable(0, "scale"), 0);
}
END_TEST

/* ---- arguments ------------------------------------------------------------------------------- */

START_TEST(good_arguments_become_the_block) {
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  int32_t *used = fake_address(0x60000);
  args.seqused_k = used;
  args.workspace = fake_address(0x70000);
  fake_filled("attn_fwd_sm80_fp16_d64", (attune_corner)0, &args, &p);
  ck_assert_uint_eq(p.size, sizeof(attune_params_attn_fwd));
  ck_assert_uint_eq(p.abi, ATTUNE_ABI);
  ck_assert_ptr_eq(p.q, fake_address(0x10000));
  ck_assert_ptr_eq(p.k, fake_address(0x20000));
  ck_assert_ptr_eq(p.v, fake_address(0x30000));
  ck_assert_ptr_eq(p.o, fake_address(0x40000));
  ck_assert_ptr_eq(p.lse, fake_address(0x50000));
  ck_assert_ptr_eq(p.seqused_k, used);
  ck_assert_int_eq(p.q_stride_batch, 100 * 8 * 64);
  ck_assert_int_eq(p.q_stride_seq, 8 * 64);
  ck_assert_int_eq(p.q_stride_head, 64);
  ck_assert_int_eq(p.k_stride_batch, 2 * 100 * 64);
  ck_assert_int_eq(p.k_stride_seq, 64);
  ck_assert_int_eq(p.v_stride_head, 100 * 64);
  ck_assert_int_eq(p.o_stride_seq, 8 * 64);
  ck_assert_int_eq(p.lse_stride_batch, 800);
  ck_assert_int_eq(p.lse_stride_seq, 1);
  ck_assert_int_eq(p.lse_stride_head, 100);
  ck_assert_int_eq(p.batch, 2);
  ck_assert_int_eq(p.heads_q, 8);
  ck_assert_int_eq(p.heads_kv, 2);
  ck_assert_int_eq(p.len_q, 100);
  ck_assert_int_eq(p.len_k, 100);
  ck_assert(p.scale == 0.125f);
  ck_assert_ptr_null(p.scores);
  ck_assert_int_eq(p.scores_pitch, 0);
  args.lse = NULL, args.seqused_k = NULL, args.len_k = 101;
  fake_filled("attn_standard_sm80_fp16_d64", (attune_corner)0, &args, &p);
  ck_assert_uint_eq(p.size, sizeof p);
  ck_assert_ptr_eq(p.scores, fake_address(0x70000));
  ck_assert_int_eq(p.scores_pitch, 104);
  ck_assert_ptr_null(p.lse);
}
END_TEST

#define REFUSED(variant, change, words)                                                            \
  do {                                                                                             \
    attune_attn_args bad = fake_args();                                                            \
    change;                                                                                        \
    fake_refused(variant, &bad, words);                                                            \
  } while (0)
static const char F16[] = "attn_fwd_sm80_fp16_d64", ELEM[] = "attn_fwd_sm80_fp16_d64_elem",
                  CAUSAL[] = "attn_fwd_sm80_fp16_d64_causal",
                  WINDOW[] = "attn_fwd_sm80_fp16_d64_window";

START_TEST(sizes_are_checked) {
  REFUSED(F16, bad.size = sizeof bad - 8, "args.size");
  REFUSED(F16, bad.size = sizeof bad + 8, "args.size");
  REFUSED(F16, bad.batch = -1, "batch is -1, must be 0 .. 536870911");
  REFUSED(F16, bad.heads_q = -8, "heads_q is -8");
  REFUSED(F16, bad.heads_kv = INT32_MIN, "heads_kv is -2147483648");
  REFUSED(F16, bad.len_q = 1 << 29, "len_q is 536870912");
  REFUSED(F16, bad.len_k = INT32_MAX, "len_k is 2147483647");
  REFUSED(F16, bad.heads_kv = 3, "heads_q 8 is not a multiple of heads_kv 3");
  REFUSED(F16, bad.heads_kv = 0, "not a multiple of heads_kv 0");
  REFUSED("attn_fwd_sm80_fp16_d64_g8", bad.heads_kv = 2, "group 8");
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  fake_filled("attn_fwd_sm80_fp16_d64_g4", (attune_corner)0, &args, &p);
  args.len_q = (1 << 29) - 1;
  fake_filled(F16, (attune_corner)0, &args, &p);
}
END_TEST

START_TEST(addresses_and_strides_are_checked) {
  REFUSED(F16, bad.q.data = fake_address(0x10008), "q.data is 0x10008, not a multiple of 16 bytes");
  REFUSED(F16, bad.k.data = fake_address(0x20002), "k.data");
  REFUSED(F16, bad.v.data = fake_address(0x30001), "v.data");
  REFUSED(F16, bad.o.data = fake_address(0x4000c), "o.data");
  REFUSED(F16, bad.q.data = NULL, "q.data is NULL");
  REFUSED(F16, bad.k.data = NULL, "k.data is NULL");
  REFUSED(F16, bad.v.data = NULL, "v.data is NULL");
  REFUSED(F16, bad.o.data = NULL, "o.data is NULL");
  REFUSED(F16, bad.q.stride_seq = 516, "q.stride_seq is 516 elements of 2 bytes");
  REFUSED(F16, bad.k.stride_head = 6404, "k.stride_head");
  REFUSED(F16, bad.v.stride_batch = -12, "v.stride_batch");
  REFUSED(F16, bad.o.stride_head = 68, "o.stride_head");
  REFUSED("attn_fwd_sm80_fp32_d64", bad.q.stride_seq = 514, "q.stride_seq");
  REFUSED(F16, bad.o.stride_seq = 0, "o.stride_seq is 0");
  REFUSED(F16, bad.lse_stride_head = 0, "lse.stride_head is 0");
  REFUSED(F16, bad.lse = fake_address(0x50002), "lse.data");
  REFUSED(F16, bad.seqused_k = fake_address(0x60001), "seqused_k is 0x60001, not a multiple of 4");
  REFUSED(F16, bad.seqused_q = fake_address(0x60002), "seqused_q is 0x60002, not a multiple of 4");
  REFUSED("attn_fwd_sm80_fp16_ofp32_d64", bad.o.stride_seq = 514, "514 elements of 4 bytes");
  REFUSED(ELEM, bad.q.data = fake_address(0x10001), "q.data is 0x10001, not a multiple of 2 bytes");
}
END_TEST

START_TEST(what_is_legal_passes) {
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  args.q.data = fake_address(0x10002), args.k.stride_seq = 65; /* element alignment asks no more */
  fake_filled(ELEM, (attune_corner)0, &args, &p);
  args = fake_args();
  args.q.stride_batch = args.k.stride_head = 0; /* inputs may be broadcast */
  args.q.stride_seq = 520, args.v.stride_seq = -64;
  fake_filled(F16, (attune_corner)0, &args, &p);
  args = fake_args();
  args.batch = 1, args.o.stride_batch = 0, args.q.stride_batch = 3; /* never multiplied by but 0 */
  fake_filled(F16, (attune_corner)0, &args, &p);
  args = fake_args();
  args.k.stride_seq = 68; /* 16 bytes are 4 floats */
  fake_filled("attn_fwd_sm80_fp32_d64", (attune_corner)0, &args, &p);
  args = fake_args();
  args.o.stride_head = 68, args.q.stride_head = 72; /* 16 bytes are 8 halves, O is of floats */
  fake_filled("attn_fwd_sm80_fp16_ofp32_d64", (attune_corner)0, &args, &p);
  args = fake_args();
  args.len_k = 0, args.k.data = args.v.data = NULL;
  fake_filled(F16, (attune_corner)0, &args, &p);
  args.len_q = 0, args.q.data = args.o.data = NULL, args.lse = NULL;
  fake_filled(F16, (attune_corner)0, &args, &p);
}
END_TEST

START_TEST(scale_is_any_finite_number) {
  const float legal[] = {0.0f, -0.0f, -2.5f, 1e-30f, 3e38f};
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  for (size_t i = 0; i < sizeof legal / sizeof *legal; i++) {
    args.scale = legal[i];
    fake_filled(F16, (attune_corner)0, &args, &p);
    ck_assert_int_eq(memcmp(&p.scale, &legal[i], sizeof p.scale), 0);
  }
  REFUSED(F16, bad.scale = NAN, "scale is not a number");
  REFUSED(F16, bad.scale = -INFINITY, "scale is infinite");
  REFUSED(F16, bad.flags = 2, "flags is 0x2");
  args.scale = NAN, args.flags = ATTUNE_DEFAULT_SCALE;
  fake_filled(F16, (attune_corner)0, &args, &p);
  ck_assert(p.scale == 0.125f);
  args.q = attune_bshd(fake_address(0x10000), 100, 8, 192);
  args.k = attune_bhsd(fake_address(0x20000), 100, 2, 192);
  fake_filled("attn_fwd_sm80_fp16_d192x64", (attune_corner)0, &args, &p);
  ck_assert(fabs((double)p.scale - 0.07216878364870323) < 4e-9); /* half an fp32 ulp there */
}
END_TEST

START_TEST(the_corner_is_named_where_it_matters) {
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  fake_filled(CAUSAL, (attune_corner)0, &args, &p); /* equal lengths: no corner to choose */
  args.len_k = 101;
  fake_refused(CAUSAL, &args, "corner is not named, but the lengths differ (len_q 100, len_k 101)");
  fake_refused(WINDOW, &args, "corner is not named");
  fake_filled(F16, (attune_corner)0, &args, &p);
  args.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  fake_filled(CAUSAL, (attune_corner)0, &args, &p);
  ck_assert_int_eq(p.bottom_right, 1);
  fake_filled(CAUSAL, ATTUNE_CORNER_TOP_LEFT, &args, &p); /* the call over the spec */
  ck_assert_int_eq(p.bottom_right, 1);
  args.corner = (attune_corner)0;
  fake_filled(WINDOW, ATTUNE_CORNER_BOTTOM_RIGHT, &args, &p);
  ck_assert_int_eq(p.bottom_right, 1);
  fake_filled(WINDOW, ATTUNE_CORNER_TOP_LEFT, &args, &p);
  ck_assert_int_eq(p.bottom_right, 0);
  REFUSED(CAUSAL, bad.seqused_k = fake_address(0x60000), "with seqused_k lengths may differ");
  REFUSED(CAUSAL, bad.seqused_q = fake_address(0x60000), "with seqused_q lengths may differ");
  REFUSED(CAUSAL, bad.corner = (attune_corner)3, "corner is 3");
}
END_TEST

static void expect_window(const char *variant, int32_t left, int32_t right, int32_t out_left,
                          int32_t out_right) {
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  args.window_left = left, args.window_right = right;
  fake_filled(variant, (attune_corner)0, &args, &p);
  ck_assert_int_eq(p.window_left, out_left);
  ck_assert_int_eq(p.window_right, out_right);
}

START_TEST(window_bounds_belong_to_the_mask) {
  const int32_t most = (1 << 29) - 1; /* reaches every key */
  expect_window(WINDOW, 5, 7, 5, 7);
  expect_window(WINDOW, 0, 0, 0, 0);
  expect_window(WINDOW, -1, 3, -1, 3);
  expect_window(WINDOW, INT32_MAX, 1 << 29, most, most);
  expect_window(WINDOW, most, most - 1, most, most - 1);
  expect_window(CAUSAL, 5, 7, -1, 0);
  expect_window(F16, 5, 7, -1, -1);
  REFUSED(WINDOW, bad.window_left = -2, "window_left is -2");
  REFUSED(WINDOW, bad.window_right = INT32_MIN, "window_right is -2147483648");
}
END_TEST

START_TEST(pinned_values_are_compared) {
  attune_attn_args args = fake_args();
  attune_params_attn_standard p;
  attune_pinset pins = {0};
  args.window_left = 127, args.scale = 0.1f;
  fake_filled(WINDOW, (attune_corner)0, &args, &p);
  ck_assert_int_eq(attune__params_check_pins(&pins, ATTUNE_OP_ATTN_FWD, &p), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&pins, "window_left", 127), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&pins, "scale", 0.1), ATTUNE_OK);
  ck_assert_int_eq(attune__pinset_add(&pins, "bottom_right", 0), ATTUNE_OK);
  ck_assert_int_eq(attune__params_check_pins(&pins, ATTUNE_OP_ATTN_FWD, &p), ATTUNE_OK);
  p.window_left = 126;
  ck_assert_int_eq(attune__params_check_pins(&pins, ATTUNE_OP_ATTN_FWD, &p), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "window_left is 126, but"));
  ck_assert_ptr_nonnull(strstr(attune_error(), "window_left=127"));
  p.window_left = 127, p.scale = nextafterf(0.1f, 1);
  ck_assert_int_eq(attune__params_check_pins(&pins, ATTUNE_OP_ATTN_FWD, &p), ATTUNE_INVALID);
  attune_pinset foreign = {0};
  ck_assert_int_eq(attune__pinset_add(&foreign, "page_size", 50), ATTUNE_OK);
  ck_assert_int_eq(attune__params_check_pins(&foreign, ATTUNE_OP_ATTN_FWD, &p), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "pins page_size, which attn_fwd does not have"));
}
END_TEST

TEST_MAIN("params", both_sides_lay_the_block_out_alike, only_scalars_can_be_pinned,
          good_arguments_become_the_block, sizes_are_checked, addresses_and_strides_are_checked,
          what_is_legal_passes, scale_is_any_finite_number, the_corner_is_named_where_it_matters,
          window_bounds_belong_to_the_mask, pinned_values_are_compared)
