/* test_launch.c - grids and workspaces by rule, and what a launch asks of the device: the numbers,
 * the order of a program's parts, and what it refuses. The device is fake (fake.h): it records. */
#include "fake.h"
#include "test.h"

/* ---- grids and workspaces -------------------------------------------------------------------- */

static uint32_t blocks_of(uint32_t grid, int32_t batch, int32_t heads, int32_t len_q,
                          int32_t len_k) {
  attune_recipe recipe = {.grid = grid, .block_m = 64, .block_n = 32};
  attune_params_attn_standard p = {
      .batch = batch, .heads_q = heads, .len_q = len_q, .len_k = len_k};
  uint32_t blocks;
  attune_variant plain = {.group = 1};
  return attune__grid(&plain, &recipe, &p, &blocks) ? UINT32_MAX : blocks;
}

START_TEST(grids_follow_their_rule) {
  ck_assert_uint_eq(blocks_of(ATTUNE_GRID_Q_TILES, 2, 8, 100, 1000), 2 * 8 * 2);
  ck_assert_uint_eq(blocks_of(ATTUNE_GRID_Q_TILES, 1, 1, 1, 0), 1);
  ck_assert_uint_eq(blocks_of(ATTUNE_GRID_Q_TILES, 1, 1, 64, 0), 1);
  ck_assert_uint_eq(blocks_of(ATTUNE_GRID_Q_TILES, 1, 1, 65, 0), 2);
  ck_assert_uint_eq(blocks_of(ATTUNE_GRID_S_TILES, 2, 8, 100, 100), 2 * 8 * 2 * 4);
  ck_assert_uint_eq(blocks_of(ATTUNE_GRID_S_TILES, 2, 8, 100, 0), 0);
  ck_assert_uint_eq(blocks_of(ATTUNE_GRID_Q_TILES, 0x7fffffff / 3, 3, 1, 1), 0x7fffffff / 3 * 3);
  ck_assert_uint_eq(blocks_of(ATTUNE_GRID_Q_TILES, 1 << 28, 7, 1, 1), 7u << 28);
  ck_assert_uint_eq(blocks_of(ATTUNE_GRID_Q_TILES, 1 << 28, 8, 1, 1), UINT32_MAX);
  ck_assert_uint_eq(
      blocks_of(ATTUNE_GRID_S_TILES, (1 << 29) - 1, (1 << 29) - 1, (1 << 29) - 1, (1 << 29) - 1),
      UINT32_MAX); /* 2^103 */
  ck_assert_ptr_nonnull(strstr(attune_error(), "2147483647 blocks"));
}
END_TEST

static uint32_t grouped_blocks(int group, int32_t len_q, int32_t heads) {
  attune_recipe recipe = {.grid = ATTUNE_GRID_Q_TILES, .block_m = 64};
  attune_params_attn_standard p = {.batch = 3, .heads_q = heads, .len_q = len_q};
  attune_variant v = {.group = (uint8_t)group};
  uint32_t blocks;
  return attune__grid(&v, &recipe, &p, &blocks) ? UINT32_MAX : blocks;
}

/* The heads of a group are rows of one tile: a decode step of 8 heads is one of 8 rows. */
START_TEST(a_group_shares_its_tiles) {
  ck_assert_uint_eq(grouped_blocks(8, 1, 32), 3 * 4);
  ck_assert_uint_eq(grouped_blocks(8, 8, 32), 3 * 4);
  ck_assert_uint_eq(grouped_blocks(8, 9, 32), 3 * 4 * 2);
  ck_assert_uint_eq(grouped_blocks(4, 100, 8), 3 * 2 * 7); /* 400 rows */
  ck_assert_uint_eq(grouped_blocks(1, 100, 8), 3 * 8 * 2);
  ck_assert_uint_eq(grouped_blocks(255, (1 << 29) - 1, 255), UINT32_MAX); /* 3 * 2139095037 */
}
END_TEST

/* Every sequence of whatever length has its tiles: floor(total / 64) + batch, as counted here. */
static uint32_t packed_blocks(int group, int32_t batch, int32_t total, int32_t heads) {
  attune_recipe recipe = {.grid = ATTUNE_GRID_VARLEN_TILES, .block_m = 64};
  attune_params_attn_standard p = {
      .batch = batch, .heads_q = heads, .len_q = 7, .total_q = total}; /* len_q says nothing */
  attune_variant v = {.group = (uint8_t)group, .features = ATTUNE_FEATURE_VARLEN};
  uint32_t blocks;
  return attune__grid(&v, &recipe, &p, &blocks) ? UINT32_MAX : blocks;
}

START_TEST(packed_sequences_have_tiles_each) {
  ck_assert_uint_eq(packed_blocks(1, 1, 1, 8), 8);
  ck_assert_uint_eq(packed_blocks(1, 1, 63, 8), 8);
  ck_assert_uint_eq(packed_blocks(1, 1, 64, 8), 2 * 8); /* the second without a row */
  ck_assert_uint_eq(packed_blocks(1, 5, 130, 8), 7 * 8);
  ck_assert_uint_eq(packed_blocks(4, 5, 130, 8), (8 + 5) * 2); /* 520 rows */
  ck_assert_uint_eq(packed_blocks(1, 1000, 0, 1), 1000);
  ck_assert_uint_eq(packed_blocks(1, (1 << 29) - 1, (1 << 29) - 1, 4), UINT32_MAX);
  ck_assert_ptr_nonnull(strstr(attune_error(), "total_q 536870911 need more than"));
  for (int a = 0; a < 200; a += 13) /* no two lengths need more than there are */
    for (int b = 0; b < 200; b += 7) {
      uint32_t need = (uint32_t)((a + 63) / 64 + (b + 63) / 64);
      ck_assert_uint_ge(packed_blocks(1, 2, a + b, 1), need);
    }
}
END_TEST

START_TEST(workspaces_follow_their_rule) {
  const uint32_t scores = ATTUNE_WORKSPACE_SCORES;
  const int64_t most = (1 << 29) - 1;
  ck_assert_uint_eq(attune__workspace_bytes(ATTUNE_WORKSPACE_NONE, ATTUNE_DTYPE_FP32, 2, 8, 9, 9),
                    0);
  ck_assert_uint_eq(attune__workspace_bytes(scores, ATTUNE_DTYPE_FP32, 2, 8, 9, 9),
                    2 * 8 * 9 * 16 * 4);
  ck_assert_uint_eq(attune__workspace_bytes(scores, ATTUNE_DTYPE_BF16, 2, 8, 9, 8),
                    2 * 8 * 9 * 8 * 2);
  ck_assert_uint_eq(attune__workspace_bytes(scores, ATTUNE_DTYPE_FP32, most, most, most, 0), 0);
  ck_assert_uint_eq(attune__workspace_bytes(scores, ATTUNE_DTYPE_FP32, most, most, most, most),
                    SIZE_MAX);
  ck_assert_uint_eq(attune__workspace_bytes(scores, ATTUNE_DTYPE_FP32, 1, 1, 1 << 20, 1 << 20),
                    (size_t)1 << 42);
}
END_TEST

START_TEST(recipes_that_cannot_be_launched_are_refused) {
  const attune_entry good = fake_entry("attn_standard_qk_sm80_fp32_d64__fma_m64n64", NULL);
  attune_entry entry = good;
  ck_assert_msg(!attune__recipe_check(&entry), "%s", attune_error());
#define WRONG(field, value)                                                                        \
  entry = good, entry.field = value;                                                               \
  ck_assert_int_eq(attune__recipe_check(&entry), ATTUNE_BAD_FILE)
  WRONG(recipe.abi, ATTUNE_ABI + 1);
  WRONG(recipe.param_bytes, sizeof(attune_params_attn_fwd));
  WRONG(recipe.threads, 0);
  WRONG(recipe.threads, 1025);
  WRONG(recipe.grid, 0);
  WRONG(recipe.grid, 99);
  WRONG(recipe.grid, ATTUNE_GRID_VARLEN_TILES);
  WRONG(variant.features, ATTUNE_FEATURE_VARLEN);
  WRONG(recipe.workspace, 99);
  WRONG(recipe.block_m, 0);
  WRONG(recipe.block_n, 0);
  WRONG(recipe.cluster, 2);
  WRONG(recipe.early, 2);
#undef WRONG
}
END_TEST

/* ---- launches -------------------------------------------------------------------------------- */

/* A context with one row, prepared. */
typedef struct bench {
  char path[FAKE_PATH];
  fake_log log;
  attune_context *context;
  attune_problem problem;
  attune_program *program;
} bench;

static void bench_open(bench *b, const fake_row *row) {
  memset(b, 0, sizeof *b);
  b->context = fake_open("sm_80", NULL, &b->log);
  b->problem = fake_problem(row->variant);
  fake_folder(b->path);
  fake_open_set(b->context, b->path, row, 1);
}

static void bench_prepare(bench *b) {
  ck_assert_msg(!attune_prepare(b->context, &b->problem, &b->program), "%s", attune_error());
}

static void bench_close(bench *b) {
  attune_close(b->context);
  fake_remove(b->path);
}

START_TEST(a_launch_takes_its_numbers_from_the_recipe) {
  const fake_row row = {.variant = "attn_fwd_sm80_fp16_d64", .tile = "fma_m32n64w8"};
  bench b;
  bench_open(&b, &row);
  attune_attn_args args = fake_args();
  attune_program *unready;
  ck_assert_int_eq(attune_find(b.context, &b.problem, &unready), ATTUNE_OK);
  ck_assert_int_eq(attune_launch(unready, &args, NULL), ATTUNE_BUSY);
  size_t bytes = 1;
  ck_assert_int_eq(attune_workspace(unready, 2, 8, 100, 100, &bytes), ATTUNE_BUSY);
  bench_prepare(&b);
  ck_assert_int_eq(attune_workspace(b.program, 2, 8, 100, 100, &bytes), ATTUNE_OK);
  ck_assert_uint_eq(bytes, 0);
  ck_assert_msg(!attune_launch(b.program, &args, fake_address(0x1234)), "%s", attune_error());
  ck_assert_int_eq(b.log.launches, 1);
  ck_assert_str_eq(b.log.launch[0].kernel, "attn_fwd_sm80_fp16_d64__fma_m32n64w8");
  ck_assert_uint_eq(b.log.launch[0].config.grid, 4 * 8 * 2);
  ck_assert_uint_eq(b.log.launch[0].config.threads, 256);
  ck_assert_uint_eq(b.log.launch[0].config.smem_bytes, 1024);
  ck_assert_uint_eq(b.log.launch[0].config.cluster, 1);
  ck_assert_uint_eq(b.log.launch[0].config.early, 1);
  ck_assert_ptr_eq(b.log.launch[0].stream, fake_address(0x1234));
  ck_assert_uint_eq(b.log.launch[0].param_bytes, sizeof(attune_params_attn_fwd));
  ck_assert_ptr_eq(b.log.launch[0].params.o, args.o.data);
  b.log.launch_status = ATTUNE_DRIVER;
  ck_assert_int_eq(attune_launch(b.program, &args, NULL), ATTUNE_DRIVER);
  ck_assert_int_eq(attune_launch(NULL, &args, NULL), ATTUNE_INVALID);
  ck_assert_int_eq(attune_launch(b.program, NULL, NULL), ATTUNE_INVALID);
  bench_close(&b);
}
END_TEST

START_TEST(a_program_of_three_launches_in_order) {
  const fake_row row = {.variant = "attn_standard_sm80_fp32_d64"};
  bench b;
  bench_open(&b, &row);
  bench_prepare(&b);
  attune_attn_args args = fake_args();
  size_t bytes;
  ck_assert_int_eq(attune_workspace(b.program, 2, 8, 100, 100, &bytes), ATTUNE_OK);
  ck_assert_uint_eq(bytes, 2 * 8 * 100 * 104 * 4);
  ck_assert_int_eq(attune_launch(b.program, &args, NULL), ATTUNE_WORKSPACE);
  ck_assert_ptr_nonnull(strstr(attune_error(), "665600"));
  args.workspace = fake_address(0x70000), args.workspace_bytes = bytes - 1;
  ck_assert_int_eq(attune_launch(b.program, &args, NULL), ATTUNE_WORKSPACE);
  args.workspace = fake_address(0x70010), args.workspace_bytes = bytes;
  ck_assert_int_eq(attune_launch(b.program, &args, NULL), ATTUNE_WORKSPACE);
  ck_assert_int_eq(b.log.launches, 0);
  args.workspace = fake_address(0x70000);
  ck_assert_msg(!attune_launch(b.program, &args, NULL), "%s", attune_error());
  ck_assert_int_eq(b.log.launches, 3);
  const char *kernels[] = {"attn_standard_qk_sm80_fp32_d64__fma_m64n64",
                           "attn_standard_softmax_sm80_fp32_d64__fma_m64n64",
                           "attn_standard_pv_sm80_fp32_d64__fma_m64n64"};
  const uint32_t grids[] = {2 * 2 * 8 * 2, 2 * 8 * 2, 2 * 8 * 2};
  for (int i = 0; i < 3; i++) {
    ck_assert_str_eq(b.log.launch[i].kernel, kernels[i]);
    ck_assert_uint_eq(b.log.launch[i].config.grid, grids[i]);
    ck_assert_ptr_eq(b.log.launch[i].params.scores, fake_address(0x70000));
    ck_assert_int_eq(b.log.launch[i].params.scores_pitch, 104);
  }
  args.len_k = 0, args.workspace = NULL,
  args.workspace_bytes = 0; /* no S: two launches, no memory */
  ck_assert_msg(!attune_launch(b.program, &args, NULL), "%s", attune_error());
  ck_assert_int_eq(b.log.launches, 5);
  ck_assert_str_eq(b.log.launch[3].kernel, kernels[1]);
  ck_assert_int_eq(attune_workspace(b.program, 1 << 28, 1 << 28, 1 << 28, 8, &bytes),
                   ATTUNE_INVALID);
  ck_assert_int_eq(attune_workspace(b.program, -1, 1, 1, 1, &bytes), ATTUNE_INVALID);
  bench_close(&b);
}
END_TEST

START_TEST(nothing_to_do_is_no_launch) {
  const fake_row row = {.variant = "attn_standard_sm80_fp32_d64"};
  bench b;
  bench_open(&b, &row);
  bench_prepare(&b);
  for (int i = 0; i < 3; i++) {
    attune_attn_args args = fake_args();
    int32_t *size[] = {&args.batch, &args.heads_q, &args.len_q};
    *size[i] = 0;
    args.q.data = args.o.data = NULL;
    ck_assert_msg(!attune_launch(b.program, &args, NULL), "%s", attune_error());
    args.len_k = -1; /* what is wrong stays wrong */
    ck_assert_int_eq(attune_launch(b.program, &args, NULL), ATTUNE_INVALID);
  }
  ck_assert_int_eq(b.log.launches, 0);
  bench_close(&b);
}
END_TEST

/* Of packed sequences total_q says whether there are rows, and len_q nothing. */
START_TEST(packed_sequences_launch_by_their_total) {
  const fake_row row = {.variant = "attn_fwd_sm80_fp16_d64_varlen"};
  bench b;
  bench_open(&b, &row);
  attune_attn_args args = fake_args();
  args.cu_seqlens_q = fake_address(0x60000), args.cu_seqlens_k = fake_address(0x61000);
  args.total_q = 200, args.total_k = 300, args.len_q = 0;
  ck_assert_msg(!attune_launch_problem(b.context, &b.problem, &args, NULL), "%s", attune_error());
  ck_assert_int_eq(b.log.launches, 1);
  ck_assert_int_eq(b.log.launch[0].params.total_q, 200);
  ck_assert_ptr_eq(b.log.launch[0].params.cu_seqlens_k, args.cu_seqlens_k);
  args.total_q = 0, args.len_q = 100;
  ck_assert_msg(!attune_launch_problem(b.context, &b.problem, &args, NULL), "%s", attune_error());
  args.total_q = 200, args.batch = 0, args.cu_seqlens_q = NULL;
  ck_assert_msg(!attune_launch_problem(b.context, &b.problem, &args, NULL), "%s", attune_error());
  ck_assert_int_eq(b.log.launches, 1);
  bench_close(&b);
}
END_TEST

START_TEST(a_grid_too_large_launches_no_part) {
  const fake_row row = {.variant = "attn_standard_sm80_fp32_d64"};
  bench b;
  bench_open(&b, &row);
  bench_prepare(&b);
  attune_attn_args args = fake_args();
  args.batch = 1 << 29, args.batch -= 1, args.len_q = 1, args.len_k = 0;
  ck_assert_int_eq(attune_launch(b.program, &args, NULL), ATTUNE_INVALID);
  ck_assert_int_eq(b.log.launches, 0);
  bench_close(&b);
}
END_TEST

/* fake_args has 100 keys. */
START_TEST(more_keys_than_a_kernel_takes_are_refused) {
  const fake_row row = {.variant = "attn_fwd_sm80_fp16_d64", .tile = "short_m104n104s2w12"};
  bench b;
  bench_open(&b, &row);
  b.problem.len_k = 104;
  bench_prepare(&b);
  attune_attn_args args = fake_args();
  ck_assert_msg(!attune_launch(b.program, &args, NULL), "%s", attune_error());
  ck_assert_int_eq(b.log.launches, 1);
  args.len_k = 104;
  ck_assert_msg(!attune_launch(b.program, &args, NULL), "%s", attune_error());
  args.len_k = 105;
  ck_assert_int_eq(attune_launch(b.program, &args, NULL), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(),
                               "len_k 105: kernel attn_fwd_sm80_fp16_d64__short_m104n104s2w12 "
                               "takes up to 104 keys"));
  ck_assert_int_eq(b.log.launches, 2);
  bench_close(&b);
}
END_TEST

START_TEST(pins_are_verified_at_launch) {
  attune_pinset pins = {0};
  attune_pin wanted = {"window_left", 127};
  ck_assert_int_eq(attune__pinset_add(&pins, wanted.name, wanted.value), ATTUNE_OK);
  const fake_row row = {.variant = "attn_fwd_sm80_fp16_d64_window", .pins = &pins};
  bench b;
  bench_open(&b, &row);
  b.problem.pins = &wanted, b.problem.pin_count = 1;
  bench_prepare(&b);
  attune_attn_args args = fake_args();
  args.window_left = 127;
  ck_assert_msg(!attune_launch(b.program, &args, NULL), "%s", attune_error());
  args.window_left = 64;
  ck_assert_int_eq(attune_launch(b.program, &args, NULL), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "window_left is 64"));
  ck_assert_int_eq(b.log.launches, 1);
  bench_close(&b);
}
END_TEST

START_TEST(the_specs_corner_is_the_default) {
  const fake_row row = {.variant = "attn_fwd_sm80_fp16_d64_causal",
                        .corner = ATTUNE_CORNER_BOTTOM_RIGHT};
  bench b;
  bench_open(&b, &row);
  bench_prepare(&b);
  attune_attn_args args = fake_args();
  args.len_k = 101;
  ck_assert_msg(!attune_launch(b.program, &args, NULL), "%s", attune_error());
  args.corner = ATTUNE_CORNER_TOP_LEFT;
  ck_assert_msg(!attune_launch(b.program, &args, NULL), "%s", attune_error());
  ck_assert_int_eq(b.log.launch[0].params.bottom_right, 1);
  ck_assert_int_eq(b.log.launch[1].params.bottom_right, 0);
  bench_close(&b);
}
END_TEST

START_TEST(launching_a_problem_is_the_three_steps) {
  const fake_row row = {.variant = "attn_fwd_sm80_fp16_d64", .cls = ATTUNE_CLASS_SHORT_FEW};
  bench b;
  bench_open(&b, &row);
  attune_attn_args args = fake_args();
  b.problem.len_q = 1; /* the shape comes from args: 100 rows of 16 heads */
  ck_assert_msg(!attune_launch_problem(b.context, &b.problem, &args, fake_address(0x99)), "%s",
                attune_error());
  ck_assert_msg(!attune_launch_problem(b.context, &b.problem, &args, fake_address(0x99)), "%s",
                attune_error());
  ck_assert_int_eq(b.log.loads, 1);
  ck_assert_int_eq(b.log.launches, 2);
  ck_assert_ptr_eq(b.log.launch[1].stream, fake_address(0x99));
  args.len_q = 1;
  ck_assert_int_eq(attune_launch_problem(b.context, &b.problem, &args, NULL), ATTUNE_NOT_FOUND);
  ck_assert_int_eq(attune_launch_problem(b.context, NULL, &args, NULL), ATTUNE_INVALID);
  ck_assert_int_eq(attune_launch_problem(b.context, &b.problem, NULL, NULL), ATTUNE_INVALID);
  bench_close(&b);
}
END_TEST

/* An aligned problem that an element-aligned kernel serves needs no more than that kernel does. */
START_TEST(alignment_is_the_kernels) {
  const fake_row row = {.variant = "attn_fwd_sm80_fp16_d64_elem"};
  bench b;
  bench_open(&b, &row);
  b.problem.align = ATTUNE_ALIGN_16B;
  bench_prepare(&b);
  attune_attn_args args = fake_args();
  args.q.data = fake_address(0x10002);
  ck_assert_msg(!attune_launch(b.program, &args, NULL), "%s", attune_error());
  bench_close(&b);
}
END_TEST

START_TEST(buffers_go_to_the_device) {
  const fake_row row = {.variant = "attn_fwd_sm80_fp16_d64"};
  const char sent[8] = "payload";
  char back[8] = "";
  void *memory;
  bench b;
  bench_open(&b, &row);
  ck_assert_int_eq(attune_alloc(b.context, sizeof sent, &memory), ATTUNE_OK);
  ck_assert_int_eq(attune_upload(b.context, memory, sent, sizeof sent), ATTUNE_OK);
  ck_assert_int_eq(attune_download(b.context, back, memory, sizeof back), ATTUNE_OK);
  ck_assert_int_eq(attune_synchronize(b.context), ATTUNE_OK);
  ck_assert_str_eq(back, sent);
  attune_free(b.context, memory);
  attune_free(b.context, NULL);
  ck_assert_int_eq(attune_alloc(NULL, 1, &memory), ATTUNE_INVALID);
  bench_close(&b);
}
END_TEST

TEST_MAIN("launch", grids_follow_their_rule, a_group_shares_its_tiles,
          packed_sequences_have_tiles_each, packed_sequences_launch_by_their_total,
          workspaces_follow_their_rule, recipes_that_cannot_be_launched_are_refused,
          a_launch_takes_its_numbers_from_the_recipe, a_program_of_three_launches_in_order,
          nothing_to_do_is_no_launch, a_grid_too_large_launches_no_part,
          more_keys_than_a_kernel_takes_are_refused, pins_are_verified_at_launch,
          the_specs_corner_is_the_default, launching_a_problem_is_the_three_steps,
          alignment_is_the_kernels, buffers_go_to_the_device)
