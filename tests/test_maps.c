/* test_maps.c - the tensor maps of a launch: axes, strides and boxes of Q, K, V and O by the call,
 * the keys at which they end, and what TMA cannot have. The device is made up: it keeps the plain
 * form. */
#include "fake.h"
#include "test.h"

/* The maps in the order in which they were asked for. */
static attune__tensormap made[ATTUNE_MAPS];
static int count;
static attune_status refusal;

static attune_status keep_map(attune__device *device, const attune__tensormap *map, void *out) {
  (void)device;
  if (refusal) return attune_fail(refusal, "the device's reason");
  ck_assert_int_lt(count, ATTUNE_MAPS);
  made[count++] = *map;
  memset(out, count, ATTUNE__TENSORMAP_BYTES);
  return ATTUNE_OK;
}

static const attune__device_ops ops = {.name = "maps", .encode_map = keep_map};

static attune_variant variant;
static attune_recipe recipe;
static attune_params_attn_standard params;

/* 3 sequences of 100 queries and 70 keys, 8 heads over 2, dims 128 and 64: Q and O as [batch, seq,
 * head, dim], K and V as [batch, head, seq, dim]. */
static void plain_call(int group) {
  variant = (attune_variant){.head_dim_qk = 128,
                             .head_dim_v = 64,
                             .group = (uint8_t)group,
                             .dtype_q = ATTUNE_DTYPE_BF16,
                             .dtype_kv = ATTUNE_DTYPE_BF16,
                             .dtype_out = ATTUNE_DTYPE_BF16};
  recipe = (attune_recipe){
      .block_m = 128, .block_n = 80, .box = {{128, 64}, {80, 64}, {80, 32}, {64, 64}}};
  params = (attune_params_attn_standard){
      .batch = 3, .heads_q = 8, .heads_kv = 2, .len_q = 100, .len_k = 70};
  params.window_left = params.window_right = -1;
  params.q = fake_address(0x10000), params.k = fake_address(0x20000);
  params.v = fake_address(0x30000), params.o = fake_address(0x40000);
  params.q_stride_head = 128, params.q_stride_seq = 8 * 128, params.q_stride_batch = 100 * 8 * 128;
  params.k_stride_seq = 128, params.k_stride_head = 70 * 128, params.k_stride_batch = 2 * 70 * 128;
  params.v_stride_seq = 64, params.v_stride_head = 70 * 64, params.v_stride_batch = 2 * 70 * 64;
  params.o_stride_head = 64, params.o_stride_seq = 8 * 64, params.o_stride_batch = 100 * 8 * 64;
}

static attune_status fill(void) {
  static unsigned char bytes[ATTUNE_MAPS][ATTUNE__TENSORMAP_BYTES];
  attune__device device = {.ops = &ops};
  count = 0;
  memset(made, 0, sizeof made);
  attune_status status = attune__maps_fill(&device, &variant, &recipe, &params, bytes);
  for (int i = 0; !status && i < ATTUNE_MAPS; i++) ck_assert_int_eq(bytes[i][127], i + 1);
  return status;
}

static void filled(void) {
  ck_assert_msg(fill() == ATTUNE_OK, "%s", attune_error());
  ck_assert_int_eq(count, ATTUNE_MAPS);
}

/* An axis is extent, stride in bytes, box. */
static void expect_axis(int map, int axis, uint64_t extent, uint64_t stride, uint32_t box) {
  const attune__tensormap *m = &made[map];
  ck_assert_msg(
      m->extent[axis] == extent && m->box[axis] == box && (axis == 0 || m->stride[axis] == stride),
      "map %d axis %d: %llu elements, stride %llu, box %u", map, axis,
      (unsigned long long)m->extent[axis], (unsigned long long)m->stride[axis], m->box[axis]);
}

START_TEST(axes_follow_the_tensors) {
  plain_call(1);
  filled();
  ck_assert_uint_eq(made[0].rank, 5);
  ck_assert_uint_eq(made[1].rank, 4);
  ck_assert_uint_eq(made[2].rank, 4);
  ck_assert_uint_eq(made[3].rank, 5);
  for (int i = 0; i < ATTUNE_MAPS; i++) {
    ck_assert_uint_eq(made[i].base, 0x10000 * (uint64_t)(i + 1));
    ck_assert_int_eq(made[i].type, ATTUNE__MAP_BF16);
    ck_assert_int_eq(made[i].nan_fill, 0);
  }
  ck_assert_int_eq(made[0].swizzle, ATTUNE__SWIZZLE_128);
  ck_assert_int_eq(made[2].swizzle, ATTUNE__SWIZZLE_64); /* 32 columns of V */
  expect_axis(0, 0, 128, 0, 64);
  expect_axis(0, 1, 1, 16, 1); /* a stride that nothing multiplies */
  expect_axis(0, 2, 100, 2048, 128);
  expect_axis(0, 3, 8, 256, 1);
  expect_axis(0, 4, 3, 204800, 1);
  expect_axis(1, 0, 128, 0, 64);
  expect_axis(1, 1, 70, 256, 80);
  expect_axis(1, 2, 2, 17920, 1);
  expect_axis(1, 3, 3, 35840, 1);
  expect_axis(2, 0, 64, 0, 32);
  expect_axis(2, 1, 70, 128, 80);
  expect_axis(3, 0, 64, 0, 64);
  expect_axis(3, 2, 100, 1024, 64);
  expect_axis(3, 3, 8, 128, 1);
}
END_TEST

/* Rows of a tile are queries, and of each the heads of a group. */
START_TEST(a_group_is_an_axis) {
  plain_call(4);
  filled();
  expect_axis(0, 1, 4, 256, 4);
  expect_axis(0, 2, 100, 2048, 32);
  expect_axis(0, 3, 2, 1024, 1); /* from group to group */
  expect_axis(3, 1, 4, 128, 4);
  expect_axis(3, 2, 100, 1024, 16);
  expect_axis(3, 3, 2, 512, 1);
  expect_axis(1, 2, 2, 17920, 1);
}
END_TEST

START_TEST(types_of_elements) {
  plain_call(1);
  variant.dtype_q = variant.dtype_kv = ATTUNE_DTYPE_FP16, variant.dtype_out = ATTUNE_DTYPE_FP32;
  recipe.box[ATTUNE_MAP_Q].columns = 16;
  filled();
  ck_assert_int_eq(made[0].type, ATTUNE__MAP_F16);
  ck_assert_int_eq(made[0].swizzle, ATTUNE__SWIZZLE_32);
  ck_assert_int_eq(made[3].type, ATTUNE__MAP_F32);
  expect_axis(3, 2, 100, 2048, 64);
}
END_TEST

static uint64_t keys_of_call(int len_q, int len_k, int right, int bottom_right) {
  plain_call(1);
  params.len_q = len_q, params.len_k = len_k, params.window_right = right;
  params.bottom_right = bottom_right;
  filled();
  ck_assert_uint_eq(made[1].extent[1], made[2].extent[1]);
  return made[1].extent[1];
}

/* Keys behind the last that any row sees are no part of K and V: they may hold anything. */
START_TEST(keys_end_where_they_are_seen) {
  ck_assert_uint_eq(keys_of_call(100, 70, -1, 0), 70);
  ck_assert_uint_eq(keys_of_call(10, 70, 0, 0), 10);
  ck_assert_uint_eq(keys_of_call(10, 70, 5, 0), 15);
  ck_assert_uint_eq(keys_of_call(10, 70, 0, 1), 70);
  ck_assert_uint_eq(keys_of_call(100, 70, 0, 0), 70);
  ck_assert_uint_eq(keys_of_call(100, 70, 0, 1), 70);
  ck_assert_uint_eq(keys_of_call(10, 70, 1 << 30, 1), 70);
}
END_TEST

START_TEST(packed_sequences_are_one) {
  plain_call(1);
  variant.features = ATTUNE_FEATURE_VARLEN;
  params.total_q = 555, params.total_k = 777, params.window_right = 0;
  params.len_q = params.len_k = 0; /* they say nothing here */
  params.q_stride_batch = params.k_stride_batch = 1;
  filled();
  expect_axis(0, 2, 555, 2048, 128);
  expect_axis(0, 4, 1, 16, 1);
  ck_assert_uint_eq(made[1].base, 0x20000);
  expect_axis(1, 1, 777, 256, 80);
  expect_axis(2, 1, 777, 128, 80);
  expect_axis(1, 3, 1, 16, 1);
}
END_TEST

/* Without keys K and V are not looked at, neither their addresses nor their strides. */
START_TEST(no_keys_need_no_tensors) {
  plain_call(1);
  params.len_k = 0, params.k = NULL, params.v = fake_address(3);
  params.k_stride_head = params.v_stride_batch = -7;
  filled();
  ck_assert_uint_eq(made[1].base, 0x10000);
  ck_assert_uint_eq(made[2].base, 0x10000);
  for (int axis = 1; axis < 4; axis++) expect_axis(1, axis, 1, 16, axis == 1 ? 80 : 1);
  variant.features = ATTUNE_FEATURE_VARLEN, params.len_k = 9, params.total_k = 0;
  filled();
  ck_assert_uint_eq(made[1].base, 0x10000);
}
END_TEST

START_TEST(many_sequences_and_heads) {
  plain_call(1);
  params.batch = (1 << 29) - 1, params.heads_q = (1 << 29) - 1, params.heads_kv = 1;
  filled();
  expect_axis(0, 3, (1 << 29) - 1, 256, 1);
  expect_axis(0, 4, (1 << 29) - 1, 204800, 1);
  params.k_stride_batch = 0; /* all sequences read the same keys */
  filled();
  expect_axis(1, 3, (1 << 29) - 1, 0, 1);
}
END_TEST

static void refused(attune_status status, const char *words) {
  ck_assert_int_eq(fill(), status);
  ck_assert_msg(strstr(attune_error(), words) != NULL, "'%s' lacks '%s'", attune_error(), words);
}

START_TEST(what_tma_cannot_have_is_refused_by_name) {
  plain_call(1);
  params.k_stride_batch = (INT64_C(1) << 39) - 8; /* the largest */
  filled();
  params.k_stride_batch = INT64_C(1) << 39;
  refused(ATTUNE_INVALID, "k.stride_batch is 549755813888 elements of 2 bytes; TMA");
  params.k_stride_batch = 8, params.v_stride_head = -64;
  refused(ATTUNE_INVALID, "v.stride_head is -64 ");
  params.v_stride_head = 64, params.o_stride_seq = 12;
  refused(ATTUNE_INVALID, "o.stride_seq is 12 ");
  params.len_q = 1; /* a stride of nothing */
  filled();
  plain_call(4);
  params.q_stride_head = INT64_C(1) << 37; /* of which a group has four */
  refused(ATTUNE_INVALID, "q.stride_head is 549755813888 ");
  plain_call(1);
  refusal = ATTUNE_UNSUPPORTED;
  refused(ATTUNE_UNSUPPORTED, "tensor q: the device's reason");
  refusal = ATTUNE_OK;
}
END_TEST

TEST_MAIN("maps", axes_follow_the_tensors, a_group_is_an_axis, types_of_elements,
          keys_end_where_they_are_seen, packed_sequences_are_one, no_keys_need_no_tensors,
          many_sequences_and_heads, what_tma_cannot_have_is_refused_by_name)
