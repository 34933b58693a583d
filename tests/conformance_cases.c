/* conformance_cases.c - which conformance kernels run, and with what. */
#include "conformance.h"

/* clang-format off */
#define NUMBERS(t)                                                                                 \
  { TYPE_##t, 3, 0 } /* of like size: sums round */
#define WIDE(t)                                                                                    \
  { TYPE_##t, EVERYTHING, 0 } /* all exponents, subnormals */
#define ODD(t)                                                                                     \
  { TYPE_##t, EVERYTHING, 1 } /* zeros, infinities, NaN too */
#define WITHIN(t, spread, odd) {TYPE_##t, spread, odd}
#define NONE                                                                                       \
  { TYPE_RAW, 0, 0 }

/* ---- mma.sync: 16 blocks of a warp -------------------------------------------------------------
 */

enum { BLOCKS = 16, LANES = BLOCKS * 32 };
#define MMA(k, suffix, ab, c, fill_, cfill)                                                         \
  {.name = #k #suffix,                                                                             \
   .file = "mma.cu",                                                                               \
   .kernel = #k,                                                                                   \
   .grid = BLOCKS,                                                                                 \
   .threads = 32,                                                                                  \
   .words = LANES * ab,                                                                            \
   .more_words = LANES * c,                                                                        \
   .fill = fill_,                                                                                  \
   .more_fill = cfill,                                                                             \
   .out_words = LANES * c},

/* ---- wgmma -------------------------------------------------------------------------------------
 *
 * 32 KB of operands. Descriptors: start, leading and stride offset in bytes, swizzle's code. */
enum { WG_WORDS = 8192 + 512 };
#define DESCRIPTOR(start, leading, stride, swizzle)                                                \
  ((uint64_t)(start) >> 4 | (uint64_t)(leading) >> 4 << 16 | (uint64_t)(stride) >> 4 << 32 |       \
   (uint64_t)(swizzle) << 62)
#define OVERWRITE (UINT64_C(1) << 61) /* in b: scale-d is false */
#define WGMMA(k, suffix, registers, fill_, cfill, a_, b_)                                          \
  {.name = #k #suffix,                                                                             \
   .file = "wgmma.cu",                                                                             \
   .kernel = #k,                                                                                   \
   .grid = 1,                                                                                      \
   .threads = 128,                                                                                 \
   .smem_bytes = 32768,                                                                            \
   .words = WG_WORDS,                                                                              \
   .more_words = 128 * (registers),                                                                \
   .fill = fill_,                                                                                  \
   .more_fill = cfill,                                                                             \
   .out_words = 128 * (registers),                                                                 \
   .a = a_,                                                                                        \
   .b = b_},
/* K-major, 128-byte swizzle, at 0 and 8 KB; 32: one step of k further. */
#define A128 DESCRIPTOR(0, 16, 1024, 1)
#define B128 DESCRIPTOR(8192 + 32, 16, 1024, 1)
/* MN-major, panels of 64. */
#define AT128 DESCRIPTOR(0, 2048, 1024, 1)
#define BT128 DESCRIPTOR(8192, 2048, 1024, 1)

/* ---- lane by lane ------------------------------------------------------------------------------
 */

enum { COUNT = 1024 };
#define EACH(k, fill_)                                                                             \
  {.name = #k,                                                                                     \
   .file = "convert.cu",                                                                           \
   .kernel = #k,                                                                                   \
   .grid = 1,                                                                                      \
   .threads = 32,                                                                                  \
   .words = 3 * COUNT,                                                                             \
   .fill = fill_,                                                                                  \
   .out_words = COUNT},
/* fp32, bit for bit but for the bits of NaN: the GPU's are 0x7fffffff, the host's differ. */
#define FLOAT(k, fill_)                                                                            \
  {.name = #k, .file = "convert.cu", .kernel = #k, .grid = 1, .threads = 32, .words = 3 * COUNT,   \
   .fill = fill_, .out_words = COUNT, .any_nan = 1},
/* Bounds as the PTX ISA states them, and a unit of f16's subnormals. */
#define NEAR(k, fill_, type, relative_, absolute_)                                                 \
  {.name = #k,                                                                                     \
   .file = "convert.cu",                                                                           \
   .kernel = #k,                                                                                   \
   .grid = 1,                                                                                      \
   .threads = 32,                                                                                  \
   .words = 3 * COUNT,                                                                             \
   .fill = fill_,                                                                                  \
   .out_words = COUNT,                                                                             \
   .result = TYPE_##type,                                                                          \
   .relative = relative_,                                                                          \
   .absolute = absolute_},
#define SMALL(file_, k, grid_, smem, words_, fill_, out)                                           \
  {.name = #k,                                                                                     \
   .file = file_,                                                                                  \
   .kernel = #k,                                                                                   \
   .grid = grid_,                                                                                  \
   .threads = 32,                                                                                  \
   .smem_bytes = smem,                                                                             \
   .words = words_,                                                                                \
   .fill = fill_,                                                                                  \
   .out_words = out},

/* ---- tensor copies -----------------------------------------------------------------------------
 */

/* No case here does what stopped an H200 (driver 580) in trials of one kernel a process: an illegal
 * instruction for axis 0's coordinate off a multiple of 16 bytes, in loads, stores, additions and
 * prefetches, in bounds or not; and for a negative coordinate of stores and additions, whatever the
 * axis (of additions, axes 0 and 1 were tried). tests/test_cpu_tma.c has these as faults. */

static const conformance_map line = {TYPE_F32, 4, 1, {100}, {0}, {64}, 0, 0};
static const conformance_map plain = {TYPE_BF16, 2, 2, {100, 30}, {0, 208}, {24, 16}, 0, 0};
static const conformance_map swizzled32 = {TYPE_BF16, 2, 2, {100, 30}, {0, 208}, {16, 16}, 32, 0};
static const conformance_map swizzled64 = {TYPE_BF16, 2, 2, {100, 30}, {0, 208}, {32, 16}, 64, 0};
static const conformance_map swizzled128 = {TYPE_BF16, 2, 2, {100, 30}, {0, 208}, {64, 16}, 128, 0};
static const conformance_map cube = {TYPE_F16, 2, 3, {40, 9, 5}, {0, 80, 720}, {32, 4, 3}, 64, 0};
static const conformance_map heads = {TYPE_BF16,     2,   4, {64, 20, 3, 2}, {0, 384, 128, 7680},
                                      {64, 8, 2, 1}, 128, 0};
static const conformance_map bytes = {TYPE_RAW, 1, 2, {200, 30}, {0, 208}, {48, 16}, 0, 0};
static const conformance_map bytes128 = {TYPE_RAW, 1, 2, {200, 30}, {0, 208}, {128, 16}, 128, 0};
static const conformance_map floats128 = {TYPE_F32, 4, 2, {50, 30}, {0, 208}, {32, 16}, 128, 0};
static const conformance_map sheet = {TYPE_F32, 4, 2, {20, 10}, {0, 80}, {16, 8}, 0, 1};
static const conformance_map sheet128 = {TYPE_F32, 4, 2, {38, 12}, {0, 160}, {32, 8}, 128, 1};
static const conformance_map sheet16 = {TYPE_F16, 2, 2, {52, 12}, {0, 112}, {24, 8}, 0, 1};
static const conformance_map sheet16_128 = {TYPE_BF16, 2, 2, {84, 20}, {0, 176}, {64, 8}, 128, 1};
static const conformance_map stack16_64 = {TYPE_F16,   2,  3, {36, 9, 5}, {0, 80, 720},
                                           {32, 4, 3}, 64, 1};
static const conformance_map sheet8_128 = {TYPE_RAW, 1, 2, {150, 12}, {0, 160}, {128, 8}, 128, 1};

static const int32_t on_line[4][4] = {{0}, {-20}, {60}, {200}};
static const int32_t on_plane[5][4] = {{0, 0}, {8, 20}, {-8, -5}, {88, 28}, {48, 40}};
static const int32_t in_cube[4][4] = {{0, 0, 0}, {16, 7, 3}, {-8, -1, -2}, {8, 2, 1}};
static const int32_t in_heads[4][4] = {{0, 0, 0, 0}, {0, 16, 2, 1}, {8, -3, 1, 1}, {0, 8, 0, 2}};
static const int32_t on_bytes[6][4] = {{0, 0},    {16, 20},  {-16, -5},
                                       {176, 28}, {192, 10}, {-160, 40}};
static const int32_t on_floats[5][4] = {{0, 0}, {4, 20}, {-4, -5}, {44, 28}, {52, 0}};
/* Inside, past the last column, past the last row, past both, wholly past each; disjoint. */
static const int32_t in_sheet[6][4] = {{0, 0}, {16, 0}, {0, 8}, {16, 8}, {20, 0}, {0, 10}};
static const int32_t in_sheet128[6][4] = {{0, 0}, {32, 0}, {0, 8}, {32, 8}, {40, 0}, {4, 12}};
static const int32_t in_sheet16[6][4] = {{8, 0}, {32, 0}, {0, 8}, {48, 8}, {56, 0}, {0, 1000}};
static const int32_t in_sheet16_128[7][4] = {{0, 0},  {64, 0}, {24, 8}, {0, 16},
                                             {80, 16}, {88, 0}, {0, 20}};
static const int32_t in_sheet8_128[6][4] = {{0, 0}, {128, 0}, {16, 8}, {144, 8}, {160, 0}, {0, 12}};
static const int32_t in_stack16_64[8][4] = {{0, 0, 0}, {32, 0, 0}, {0, 4, 2}, {0, 8, 0},
                                            {0, 0, 3}, {40, 0, 0}, {0, 9, 0}, {0, 0, 5}};
/* Their sums at the row's end, and one wholly past it. */
static const int32_t in_sums[4][4] = {{0, 0}, {32, 0}, {32, 2}, {40, 0}};
static const int32_t overlapping[2][4] = {{0, 0}, {12, 6}};

#define TMA(name_, k, grid_, words_, fill_, out, box_bytes, map_, at)                              \
  {.name = #name_,                                                                                 \
   .file = "tma.cu",                                                                               \
   .kernel = #k,                                                                                   \
   .grid = grid_,                                                                                  \
   .threads = 32,                                                                                  \
   .smem_bytes = box_bytes + 64,                                                                   \
   .words = words_,                                                                                \
   .fill = fill_,                                                                                  \
   .out_words = out,                                                                               \
   .a = words_,                                                                                    \
   .b = box_bytes,                                                                                 \
   .map = &map_,                                                                                   \
   .coordinates = at},

const conformance_case conformance_cases[] = {
  MMA(mma_k8_f16, , 3, 4, NUMBERS(F16), NUMBERS(F32))
  MMA(mma_k8_bf16, , 3, 4, NUMBERS(BF16), NUMBERS(F32))
  MMA(mma_k8_half, , 3, 2, NUMBERS(F16), NUMBERS(F16))
  MMA(mma_k16_f16, , 6, 4, NUMBERS(F16), NUMBERS(F32))
  MMA(mma_k16_f16, _wide, 6, 4, WIDE(F16), WITHIN(F32, 30, 0))
  MMA(mma_k16_f16, _odd, 6, 4, ODD(F16), ODD(F32))
  MMA(mma_k16_bf16, , 6, 4, NUMBERS(BF16), NUMBERS(F32))
  MMA(mma_k16_bf16, _wide, 6, 4, WIDE(BF16), WIDE(F32))
  MMA(mma_k16_bf16, _odd, 6, 4, WITHIN(BF16, 63, 1), ODD(F32))
  MMA(mma_k16_half, , 6, 2, NUMBERS(F16), NUMBERS(F16))
  MMA(mma_k16_half, _wide, 6, 2, WITHIN(F16, 8, 1), ODD(F16))
  MMA(mma_k8_tf32, , 6, 4, NUMBERS(F32), NUMBERS(F32))
  MMA(mma_k8_tf32, _wide, 6, 4, WIDE(F32), WIDE(F32))
  MMA(mma_k32_e4m3_e4m3, , 6, 4, NUMBERS(E4M3), NUMBERS(F32))
  MMA(mma_k32_e4m3_e4m3, _odd, 6, 4, ODD(E4M3), WITHIN(F32, 20, 1))
  MMA(mma_k32_e4m3_e5m2, , 6, 4, WITHIN(RAW, 0, 0), NUMBERS(F32))
  MMA(mma_k32_e5m2_e4m3, , 6, 4, WITHIN(RAW, 0, 0), NUMBERS(F32))
  MMA(mma_k32_e5m2_e5m2, , 6, 4, NUMBERS(E5M2), NUMBERS(F32))
  MMA(mma_k32_e5m2_e5m2, _odd, 6, 4, ODD(E5M2), WITHIN(F32, 30, 1))

  WGMMA(wgmma_bf16_n8, , 4, NUMBERS(BF16), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_bf16_n24, , 12, NUMBERS(BF16), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_bf16_n32, , 16, NUMBERS(BF16), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_bf16_n32, _overwrite, 16, NUMBERS(BF16), NUMBERS(F32), A128, B128 | OVERWRITE)
  WGMMA(wgmma_bf16_n32, _swizzle64, 16, NUMBERS(BF16), NUMBERS(F32), DESCRIPTOR(32, 16, 512, 2),
        DESCRIPTOR(8192, 16, 512, 2))
  WGMMA(wgmma_bf16_n32, _swizzle32, 16, NUMBERS(BF16), NUMBERS(F32), DESCRIPTOR(0, 16, 256, 3),
        DESCRIPTOR(8192, 16, 256, 3))
  WGMMA(wgmma_bf16_n32, _unswizzled, 16, NUMBERS(BF16), NUMBERS(F32), DESCRIPTOR(0, 128, 256, 0),
        DESCRIPTOR(8192, 512, 128, 0))
  WGMMA(wgmma_bf16_n32, _wide, 16, WIDE(BF16), WIDE(F32), A128, B128)
  WGMMA(wgmma_bf16_n32, _odd, 16, WITHIN(BF16, 63, 1), ODD(F32), A128, B128)
  WGMMA(wgmma_bf16_n256_t, , 128, NUMBERS(BF16), NUMBERS(F32), A128, BT128)
  WGMMA(wgmma_bf16_n136_tt, , 68, NUMBERS(BF16), NUMBERS(F32), AT128, BT128)
  WGMMA(wgmma_bf16_n136_tt, _swizzle64, 68, NUMBERS(BF16), NUMBERS(F32),
        DESCRIPTOR(0, 1024, 512, 2), DESCRIPTOR(8192, 1024, 512, 2))
  WGMMA(wgmma_bf16_n136_tt, _swizzle32, 68, NUMBERS(BF16), NUMBERS(F32),
        DESCRIPTOR(0, 512, 256, 3), DESCRIPTOR(8192, 512, 256, 3))
  WGMMA(wgmma_bf16_n136_tt, _unswizzled, 68, NUMBERS(BF16), NUMBERS(F32),
        DESCRIPTOR(0, 1024, 128, 0), DESCRIPTOR(8192, 2304, 128, 0))
  WGMMA(wgmma_bf16_n32_minus_a, , 16, NUMBERS(BF16), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_bf16_n32_minus_ab, , 16, NUMBERS(BF16), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_bf16_n32_rs, , 16, NUMBERS(BF16), NUMBERS(F32), 0, B128)
  WGMMA(wgmma_bf16_n32_rs_t, , 16, NUMBERS(BF16), NUMBERS(F32), 0, BT128)
  WGMMA(wgmma_f16_n32, , 16, NUMBERS(F16), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_f16_n32, _odd, 16, ODD(F16), WITHIN(F32, 30, 1), A128, B128)
  WGMMA(wgmma_f16_n32_ta, , 16, NUMBERS(F16), NUMBERS(F32), AT128, B128)
  WGMMA(wgmma_f16_n32_rs_t, , 16, NUMBERS(F16), NUMBERS(F32), 0, BT128)
  WGMMA(wgmma_half_n32, , 8, NUMBERS(F16), NUMBERS(F16), A128, B128)
  WGMMA(wgmma_half_n32, _odd, 8, WITHIN(F16, 8, 1), ODD(F16), A128, B128)
  WGMMA(wgmma_half_n32_rs_t, , 8, NUMBERS(F16), NUMBERS(F16), 0, BT128)
  WGMMA(wgmma_tf32_n32, , 16, NUMBERS(F32), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_tf32_n32, _wide, 16, WIDE(F32), WIDE(F32), A128, B128)
  WGMMA(wgmma_tf32_n32_rs, , 16, NUMBERS(F32), NUMBERS(F32), 0, B128)
  WGMMA(wgmma_e4m3_e4m3_n32, , 16, NUMBERS(E4M3), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_e4m3_e4m3_n32, _odd, 16, ODD(E4M3), WITHIN(F32, 20, 1), A128, B128)
  WGMMA(wgmma_e4m3_e5m2_n32, , 16, NUMBERS(E4M3), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_e5m2_e4m3_n32, , 16, NUMBERS(E5M2), NUMBERS(F32), A128, B128)
  WGMMA(wgmma_e5m2_e5m2_n32_rs, , 16, NUMBERS(E5M2), NUMBERS(F32), 0, B128)
  WGMMA(wgmma_half_e4m3_n32, , 8, NUMBERS(E4M3), NUMBERS(F16), A128, B128)
  WGMMA(wgmma_half_e5m2_n32_rs, , 8, NUMBERS(E5M2), NUMBERS(F16), 0, B128)

  SMALL("matrix.cu", ldmatrix_x1, 1, 2048, 544, NONE, 32)
  SMALL("matrix.cu", ldmatrix_x2, 1, 2048, 544, NONE, 64)
  SMALL("matrix.cu", ldmatrix_x4, 1, 2048, 544, NONE, 128)
  SMALL("matrix.cu", ldmatrix_x1_trans, 1, 2048, 544, NONE, 32)
  SMALL("matrix.cu", ldmatrix_x2_trans, 1, 2048, 544, NONE, 64)
  SMALL("matrix.cu", ldmatrix_x4_trans, 1, 2048, 544, NONE, 128)
  SMALL("matrix.cu", stmatrix_x1, 1, 2048, 672, NONE, 512)
  SMALL("matrix.cu", stmatrix_x2_trans, 1, 2048, 672, NONE, 512)
  SMALL("matrix.cu", stmatrix_x4, 1, 2048, 672, NONE, 512)
  SMALL("matrix.cu", stmatrix_x4_trans, 1, 2048, 672, NONE, 512)
  SMALL("matrix.cu", movmatrix, 1, 0, 32, NONE, 32)

  EACH(cvt_f16, WITHIN(F32, 26, 1))
  EACH(cvt_bf16, ODD(F32))
  EACH(cvt_f16x2, WITHIN(F32, 26, 1))
  EACH(cvt_bf16x2, ODD(F32))
  EACH(cvt_f16x2_relu, WITHIN(F32, 26, 1))
  EACH(cvt_bf16x2_relu, ODD(F32))
  EACH(cvt_tf32, ODD(F32))
  EACH(cvt_from_f16, ODD(F16))
  EACH(cvt_from_bf16, ODD(BF16))
  EACH(cvt_e4m3x2, WITHIN(F32, 12, 1))
  EACH(cvt_e5m2x2, WITHIN(F32, 20, 1))
  EACH(cvt_e4m3x2_f16x2, ODD(F16))
  EACH(cvt_e5m2x2_f16x2, ODD(F16))
  EACH(cvt_from_e4m3x2, NONE)
  EACH(cvt_from_e5m2x2, NONE)
  EACH(cvt_s32_rzi, WITHIN(F32, 33, 1))
  EACH(cvt_s32_rni, WITHIN(F32, 33, 1))
  EACH(cvt_s32_rmi, WITHIN(F32, 33, 1))
  EACH(cvt_s32_rpi, WITHIN(F32, 33, 1))
  EACH(cvt_u32_rzi, WITHIN(F32, 33, 1))
  FLOAT(cvt_f32_rni, WITHIN(F32, 26, 1))
  FLOAT(cvt_f32_rpi, WITHIN(F32, 26, 1))
  EACH(cvt_f32_sat, WITHIN(F32, 5, 1))
  EACH(cvt_from_s32, NONE)
  EACH(cvt_from_u32, NONE)
  EACH(cvt_from_s64, NONE)
  EACH(cvt_from_u64, NONE)
  EACH(add_f16x2, ODD(F16))
  EACH(sub_f16x2, ODD(F16))
  EACH(mul_f16x2, ODD(F16))
  EACH(fma_f16x2, ODD(F16))
  EACH(fma_relu_f16x2, ODD(F16))
  EACH(max_f16x2, ODD(F16))
  EACH(min_f16x2, ODD(F16))
  EACH(add_bf16x2, WITHIN(BF16, 10, 1))
  EACH(mul_bf16x2, ODD(BF16))
  EACH(fma_bf16x2, WITHIN(BF16, 10, 1))
  EACH(max_bf16x2, ODD(BF16))
  EACH(min_bf16x2, ODD(BF16))
  FLOAT(add_f32, WITHIN(F32, 20, 1))
  FLOAT(mul_f32, ODD(F32))
  FLOAT(fma_f32, WITHIN(F32, 20, 1))
  FLOAT(add_ftz_f32, ODD(F32))
  FLOAT(mul_ftz_f32, ODD(F32))
  FLOAT(fma_ftz_f32, ODD(F32))
  EACH(max_f32, ODD(F32))
  EACH(min_f32, ODD(F32))
  FLOAT(div_f32, ODD(F32))
  FLOAT(rcp_f32, ODD(F32))
  FLOAT(sqrt_f32, ODD(F32))
  NEAR(ex2_f32_approx, WITHIN(F32, 8, 1), F32, 0x1p-22, 0)
  NEAR(lg2_f32_approx, ODD(F32), F32, 0x1p-22, 0x1p-22)
  NEAR(rcp_f32_approx, ODD(F32), F32, 0x1p-23, 0)
  NEAR(rsqrt_f32_approx, ODD(F32), F32, 0x1.2p-23, 0)
  NEAR(tanh_f32_approx, WITHIN(F32, 8, 1), F32, 0x1.03p-11, 0)
  NEAR(ex2_approx_f16x2, WITHIN(F16, 4, 1), F16, 0x1.13p-10, 0x1p-24)
  NEAR(ex2_approx_bf16x2, WITHIN(BF16, 6, 1), BF16, 0x1p-7, 0)
  NEAR(tanh_approx_f16x2, WITHIN(F16, 6, 1), F16, 0, 0x1.03p-11)

  SMALL("warp.cu", shuffles, 1, 0, 64, NONE, 512)
  SMALL("warp.cu", votes, 1, 0, 32, NONE, 160)
  SMALL("warp.cu", redux, 1, 0, 32, NONE, 256)

  SMALL("async.cu", mbarrier_phases, 1, 256, 16, NONE, 25)
  SMALL("async.cu", cp_async, 1, 1792, 224, NONE, 448)
  SMALL("async.cu", bulk_copy, 1, 1152, 320, NONE, 256)
  SMALL("async.cu", bulk_add_f32, 2, 640, 256, NUMBERS(F32), 128)
  SMALL("async.cu", bulk_add_f16, 2, 640, 256, NUMBERS(F16), 128)
  SMALL("async.cu", bulk_add_bf16, 2, 640, 256, NUMBERS(BF16), 128)
  SMALL("async.cu", bulk_add_u32, 2, 640, 256, NONE, 128)
  SMALL("async.cu", red_add_f32, 2, 0, 64, NUMBERS(F32), 32)
  SMALL("async.cu", red_add_u32, 2, 0, 64, NONE, 32)
  SMALL("async.cu", red_max_s32, 2, 0, 64, NONE, 32)
  SMALL("async.cu", red_add_f16x2, 2, 0, 64, NUMBERS(F16), 32)
  SMALL("async.cu", red_add_bf16x2, 2, 0, 64, NUMBERS(BF16), 32)
  SMALL("async.cu", atom_shared, 1, 128, 64, NONE, 160)
  {.name = "cluster_exchange", .file = "async.cu", .kernel = "cluster_exchange", .grid = 2,
   .threads = 32, .smem_bytes = 384, .cluster = 2, .words = 64, .fill = NONE, .out_words = 128},

  TMA(tma_1d, tma_load_1d, 4, 100, NUMBERS(F32), 4 * 64, 256, line, on_line)
  TMA(tma_2d, tma_load_2d, 5, 1560, NUMBERS(BF16), 5 * 192, 768, plain, on_plane)
  TMA(tma_2d_swizzle32, tma_load_2d, 5, 1560, NUMBERS(BF16), 5 * 128, 512, swizzled32, on_plane)
  TMA(tma_2d_swizzle64, tma_load_2d, 5, 1560, NUMBERS(BF16), 5 * 256, 1024, swizzled64, on_plane)
  TMA(tma_2d_swizzle128, tma_load_2d, 5, 1560, NUMBERS(BF16), 5 * 512, 2048, swizzled128, on_plane)
  TMA(tma_3d, tma_load_3d, 4, 900, NUMBERS(F16), 4 * 192, 768, cube, in_cube)
  TMA(tma_4d, tma_load_4d, 4, 3840, NUMBERS(BF16), 4 * 512, 2048, heads, in_heads)
  TMA(tma_2d_bytes, tma_load_2d, 6, 1560, NONE, 6 * 192, 768, bytes, on_bytes)
  TMA(tma_2d_bytes_swizzle128, tma_load_2d, 6, 1560, NONE, 6 * 512, 2048, bytes128, on_bytes)
  TMA(tma_2d_floats_swizzle128, tma_load_2d, 5, 1560, NUMBERS(F32), 5 * 512, 2048, floats128,
      on_floats)
  TMA(tma_store, tma_store_2d, 6, 768, NUMBERS(F32), 200, 512, sheet, in_sheet)
  TMA(tma_store_swizzle128, tma_store_2d, 6, 1536, NUMBERS(F32), 480, 1024, sheet128, in_sheet128)
  TMA(tma_store_16bit, tma_store_2d, 6, 576, NUMBERS(F16), 336, 384, sheet16, in_sheet16)
  TMA(tma_store_16bit_swizzle128, tma_store_2d, 7, 1792, NUMBERS(BF16), 880, 1024, sheet16_128,
      in_sheet16_128)
  TMA(tma_store_8bit_swizzle128, tma_store_2d, 6, 1536, NONE, 480, 1024, sheet8_128, in_sheet8_128)
  TMA(tma_store_3d, tma_store_3d, 8, 1536, NUMBERS(F16), 900, 768, stack16_64, in_stack16_64)
  TMA(tma_add_tail, tma_add_2d, 4, 1024, NUMBERS(F32), 480, 1024, sheet128, in_sums)
  TMA(tma_add_outside, tma_add_2d, 6, 768, NUMBERS(F32), 200, 512, sheet, in_sheet)
  TMA(tma_add, tma_add_2d, 2, 256, NUMBERS(F32), 200, 512, sheet, overlapping)
};
/* clang-format on */
const size_t conformance_count = sizeof conformance_cases / sizeof conformance_cases[0];
