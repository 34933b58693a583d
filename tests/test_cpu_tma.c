/* test_cpu_tma.c - the CPU device: TMA, bulk copies, setmaxnreg, tensor maps. Right kernels are
 * clean under every landing and schedule tried; every seeded fault is reported at its line. */
#include "../runtime/cpu/tensormap_bytes.h"
#include "cpu_kernel.h"
#include "test.h"

enum { COLUMNS = 72, ROWS = 20, BOX_ROWS = 16, BOX_COLUMNS = 64, TILES = 6 };

typedef struct params {
  _Alignas(64) unsigned char in[ATTUNE__TENSORMAP_BYTES];
  unsigned char out[ATTUNE__TENSORMAP_BYTES], sums[ATTUNE__TENSORMAP_BYTES];
  uint64_t plain, floats;
  int32_t tiles;
} params;

static _Alignas(64) uint16_t in[ROWS][COLUMNS], out[ROWS][BOX_COLUMNS];
static _Alignas(64) uint32_t plain[TILES][BOX_ROWS][BOX_COLUMNS / 2];
static _Alignas(64) float sums[8][32], floats[256];

enum { BOTH = ATTUNE__TENSOR_READ | ATTUNE__TENSOR_WRITE };
static cpu_tensor tensors[] = {{"in", in, sizeof in, ATTUNE__TENSOR_READ},
                               {"out", out, sizeof out, ATTUNE__TENSOR_OUTPUT},
                               {"sums", sums, sizeof sums, BOTH},
                               {"plain", plain, sizeof plain, BOTH},
                               {"floats", floats, sizeof floats, BOTH}};

static void encode(unsigned char *bytes, attune__map_type type, uint64_t base, uint32_t columns,
                   uint32_t rows, uint32_t box_columns, uint32_t box_rows,
                   attune__map_swizzle swizzle) {
  attune__tensormap map = {.type = type,
                           .rank = 2,
                           .base = base,
                           .extent = {columns, rows},
                           .stride = {0, columns * attune__map_type_bytes(type)},
                           .box = {box_columns, box_rows},
                           .swizzle = swizzle};
  attune_status status = attune__tensormap_encode(&map, bytes);
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
}

static attune__tensormap *other_map; /* NULL, or what `in` is instead */

static void bind(void *memory, const uint64_t pointer[]) {
  params *p = memory;
  encode(p->in, ATTUNE__MAP_BF16, pointer[0], COLUMNS, ROWS, BOX_COLUMNS, BOX_ROWS,
         ATTUNE__SWIZZLE_128);
  encode(p->out, ATTUNE__MAP_BF16, pointer[1], BOX_COLUMNS, ROWS, BOX_COLUMNS, BOX_ROWS,
         ATTUNE__SWIZZLE_128);
  encode(p->sums, ATTUNE__MAP_F32, pointer[2], 32, 8, 32, 8, ATTUNE__SWIZZLE_NONE);
  if (other_map) {
    other_map->base = pointer[0];
    ck_assert_int_eq(attune__tensormap_encode(other_map, p->in), ATTUNE_OK);
  }
  p->plain = pointer[3];
  p->floats = pointer[4];
  p->tiles = TILES;
}

static params the_params;

static cpu_launch launch_of(uint32_t grid, uint32_t threads, unsigned out_kind) {
  tensors[1].kind = out_kind;
  return (cpu_launch){.grid = grid,
                      .threads = threads,
                      .smem_bytes = 8192,
                      .tensor = tensors,
                      .tensors = 5,
                      .params = &the_params,
                      .params_bytes = sizeof the_params,
                      .bind = bind};
}

static void fill(void) {
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++) in[r][c] = (uint16_t)(r * 1000 + c + 1);
  memset(out, 0, sizeof out);
  memset(sums, 0, sizeof sums);
  memset(floats, 0, sizeof floats);
  memset(plain, 0, sizeof plain);
}

typedef struct fault {
  int number;
  const char *texts;
} fault;

static void run_faults(const char *kernel, cpu_launch launch, const fault *f, size_t count) {
  for (size_t k = 0; k < count; k++) {
    cpu_kernel made = cpu_kernel_make("tma.cu", kernel, "sm_90a", f[k].number);
    fill();
    cpu_kernel_faulty(&made, launch, f[k].number, f[k].texts);
    cpu_kernel_free(&made);
  }
}

static void run_clean(const char *kernel, cpu_launch launch, void (*check)(void)) {
  cpu_kernel k = cpu_kernel_make("tma.cu", kernel, "sm_90a", 0);
  fill();
  cpu_kernel_clean(&k, launch, check);
  cpu_kernel_free(&k);
}

/* ---- loads -------------------------------------------------------------------------------------
 */

/* Element (x, y) of the tensor, 0 out of bounds. */
static uint16_t element(int x, int y) {
  return x >= 0 && x < COLUMNS && y >= 0 && y < ROWS ? in[y][x] : 0;
}

static void check_loads(void) {
  static const int corner_x[] = {-8, 0, 24}, corner_y[] = {-3, 10};
  for (int i = 0; i < TILES; i++)
    for (int r = 0; r < BOX_ROWS; r++)
      for (int c = 0; c < BOX_COLUMNS; c++) {
        uint32_t got = plain[i][r][c / 2] >> 16 * (c % 2) & 0xffff;
        ck_assert_uint_eq(got, element(corner_x[i % 3] + c, corner_y[i % 2] + r));
      }
  memset(plain, 0, sizeof plain);
}

START_TEST(loads_are_clean) {
  run_clean("pipeline", launch_of(1, 96, BOTH), check_loads);
}
END_TEST

START_TEST(load_faults_are_found) {
  static const fault faults[] = {
      {10, "with no barrier after its init|mbarrier.init is missing"},
      {11, "had no fence.mbarrier_init or fence.proxy.async"},
      {12, "is under way|with no wait at its mbarrier|2 arrivals and 0 bytes missing"},
      {13, "0 arrivals and 16 bytes missing"},
      {14, "overwrites byte|more arrivals|is under way|race: "},
      {15, "nothing has written|is under way|with no wait at its mbarrier"},
      {16, "2 arrivals and 0 bytes missing"},
      {17, "nobody waited for the copies of phase 2 of mbarrier 0x1408"},
      {18, "mbarrier.init is missing"},
      {19, "overwrites byte|is under way|nothing has written|with no wait at its mbarrier"},
      {20, "2 arrivals and 0 bytes missing"},
      {21, "0 arrivals missing, 16 bytes too many"}};
  run_faults("pipeline", launch_of(1, 96, BOTH), faults, sizeof faults / sizeof *faults);
}
END_TEST

/* The word at a box's element, by what the map says; its fill out of bounds. */
static uint32_t boxed(const attune__tensormap *m, const int at[5], const uint32_t index[5]) {
  uint64_t byte = 0;
  uint32_t word;
  for (uint32_t a = 0; a < m->rank; a++) {
    int64_t k = (int64_t)at[a] + index[a];
    if (k < 0 || k >= (int64_t)m->extent[a]) return m->nan_fill ? 0x7fff7fff : 0;
    byte += (uint64_t)k * (a ? m->stride[a] : 4);
  }
  memcpy(&word, (const char *)in + byte, sizeof word);
  return word;
}

static void check_rank(attune__tensormap map, int rank, const int at[5]) {
  uint32_t index[5], n = 0;
  cpu_kernel k = cpu_kernel_make("tma.cu", "ranks", "sm_90a", rank);
  cpu_launch launch = launch_of(1, 32, BOTH);
  fill();
  other_map = &map;
  attune_status status = cpu_kernel_run(&k, &launch);
  other_map = NULL;
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
  const uint32_t *words = &plain[0][0][0];
  for (index[4] = 0; index[4] < (rank > 4 ? map.box[4] : 1); index[4]++)
    for (index[3] = 0; index[3] < (rank > 3 ? map.box[3] : 1); index[3]++)
      for (index[2] = 0; index[2] < (rank > 2 ? map.box[2] : 1); index[2]++)
        for (index[1] = 0; index[1] < (rank > 1 ? map.box[1] : 1); index[1]++)
          for (index[0] = 0; index[0] < map.box[0]; index[0]++, n++)
            ck_assert_uint_eq(words[n], boxed(&map, at, index));
  cpu_kernel_free(&k);
}

START_TEST(every_rank) {
  attune__tensormap one = {.type = ATTUNE__MAP_F32, .rank = 1, .extent = {100}, .box = {8}};
  attune__tensormap three = {.type = ATTUNE__MAP_U32,
                             .rank = 3,
                             .extent = {5, 3, 4},
                             .stride = {0, 32, 144},
                             .box = {4, 2, 2},
                             .nan_fill = 1};
  attune__tensormap five = {.type = ATTUNE__MAP_S32,
                            .rank = 5,
                            .extent = {6, 3, 2, 3, 2},
                            .stride = {0, 48, 160, 320, 960},
                            .box = {4, 2, 2, 2, 1}};
  check_rank(one, 1, (const int[5]){-4});
  check_rank(three, 3, (const int[5]){4, 2, -1});
  check_rank(five, 5, (const int[5]){4, -1, 1, 2, 1});
}
END_TEST

/* A box's bytes are counted where they are in bounds, and all of them arrive. */
START_TEST(bytes_are_counted) {
  attune_cpu_counters count = {.size = sizeof count};
  cpu_launch launch = launch_of(1, 96, BOTH);
  launch.counters = &count;
  fill();
  cpu_kernel k = cpu_kernel_make("tma.cu", "pipeline", "sm_90a", 0);
  ck_assert_int_eq(cpu_kernel_run(&k, &launch), ATTUNE_OK);
  /* boxes at x -8, 0, 24 have 56, 64, 48 columns in bounds; at y -3, 10 13 and 10 rows */
  ck_assert_uint_eq(count.tensor[0].requested_read, 2 * (56 + 64 + 48) * (13 + 10));
  ck_assert_uint_eq(count.async_bytes, TILES * BOX_ROWS * BOX_COLUMNS * 2);
  cpu_kernel_free(&k);
}
END_TEST

/* ---- stores ------------------------------------------------------------------------------------
 */

static void check_stores(void) {
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < BOX_COLUMNS; c++) ck_assert_uint_eq(out[r][c], (uint16_t)(r * 100 + c));
  memset(out, 0, sizeof out);
}

START_TEST(stores) {
  static const fault faults[] = {{1, "with no fence.proxy.async between"},
                                 {2, "of shared memory while asynchronous work reads it"},
                                 {3, "never waited for this store"},
                                 {4, "while asynchronous work reads it"},
                                 {5, "while asynchronous work reads it|race: "}};
  cpu_launch launch = launch_of(1, 64, ATTUNE__TENSOR_OUTPUT);
  run_clean("store", launch, check_stores);
  run_faults("store", launch, faults, sizeof faults / sizeof *faults);
}
END_TEST

/* Columns 68 to 71 are beyond the map, but in the 16 bytes of column 67. */
static void check_tail(void) {
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++) {
      int is_old = r < 10 || c < 64;
      ck_assert_int_eq(in[r][c], is_old ? r * 1000 + c + 1 : (r - 10) * 64 + c - 64);
    }
  fill();
}

/* `in` is written, and seen as 68 columns wide. Without its last 8 bytes the last row's store
 * leaves it. */
START_TEST(last_chunks_are_whole) {
  static const fault faults[] = {{1, "TMA store of a row's last 16 bytes, always whole: 16 bytes"}};
  attune__tensormap narrow = {.type = ATTUNE__MAP_BF16,
                              .rank = 2,
                              .extent = {68, ROWS},
                              .stride = {0, sizeof in[0]},
                              .box = {BOX_COLUMNS, BOX_ROWS}};
  cpu_launch launch = launch_of(1, 32, BOTH);
  other_map = &narrow;
  tensors[0].kind = BOTH;
  run_clean("tail", launch, check_tail);
  tensors[0].bytes -= 8;
  run_faults("tail", launch, faults, 1);
  tensors[0].bytes += 8;
  tensors[0].kind = ATTUNE__TENSOR_READ;
  other_map = NULL;
}
END_TEST

static void check_sums(void) {
  for (int r = 0; r < 8; r++)
    for (int c = 0; c < 32; c++) {
      ck_assert(sums[r][c] == (r < 2 ? 0.0f : 4.0f * (float)(r - 2 + c + 1)));
      ck_assert(floats[r * 32 + c] == 4.0f * (float)(r + c + 1));
    }
  const uint32_t *words = &plain[0][0][0];
  for (int k = 0; k < 128; k++)
    for (int b = 1; b < 5; b++) ck_assert_uint_eq(words[b * 128 + k], words[k]);
  fill();
  for (uint32_t k = 0; k < 128; k++) plain[0][k / 32][k % 32] = k * 77;
}

START_TEST(reductions_and_runs) {
  run_clean("sum", launch_of(4, 32, BOTH), check_sums);
}
END_TEST

/* ---- registers ---------------------------------------------------------------------------------
 */

static void check_threads(void) {
  for (uint32_t t = 0; t < 384; t++) ck_assert_uint_eq((&plain[0][0][0])[t], t);
  memset(plain, 0, sizeof plain);
}

START_TEST(registers_move) {
  static const fault faults[] = {{1, "setmaxnreg.inc: has 168 registers a thread"}};
  run_clean("registers", launch_of(1, 384, BOTH), check_threads);
  run_faults("registers", launch_of(1, 384, BOTH), faults, 1);
}
END_TEST

/* ---- polls, misuse -----------------------------------------------------------------------------
 */

static void check_either(void) {
  const uint32_t *words = &plain[0][0][0];
  for (int k = 0; k < 64; k++) ck_assert_uint_eq(words[64 + k], words[k]);
  fill();
  for (uint32_t k = 0; k < 64; k++) plain[0][k / 32][k % 32] = k * 91;
}

START_TEST(polls_end) {
  static const fault faults[] = {{60, "times in vain: mbarrier 0x808 phase 0: 0 arrivals and 128"}};
  run_clean("either", launch_of(1, 32, BOTH), check_either);
  run_faults("either", launch_of(1, 32, BOTH), faults, 1);
}
END_TEST

START_TEST(misuse_is_found) {
  static const fault faults[] = {
      {31, "TMA: shared address 0x440 is not aligned to 128"},
      {32, "the tensor map is no kernel parameter"},
      {33, "the 128 bytes at byte 320 of the parameters are no tensor map"},
      {34, "both addresses and the size must be multiples of 16"},
      {35, "both addresses and the size must be multiples of 16"},
      {36, "128 bytes at byte 8128 of the block's 8192 bytes of shared memory"},
      {37, "no elements of it"},
      {38, "mbarrier.inval is missing"},
      {39, "st.shared overwrites an mbarrier"},
      {40, "count 0 is not within 1"},
      {41, "copies to mbarrier 0x1400 were not waited for"},
      {42, "counts at most 1048575 bytes in a phase"},
      {43, "parity 2 is neither 0 nor 1"},
      {44, "while asynchronous work reads it"},
      {45, "barrier.cluster.wait with no barrier.cluster.arrive before"},
      {46, "with no barrier.cluster.wait between"},
      {47, "mapa: rank 1 of a cluster of 1"},
      {48, "setmaxnreg.dec to 32, the warp has 24"},
      {49, "TMA: coordinate 4 of axis 0 is byte 8 of a row: must be a multiple of 16"},
      {50, "TMA: coordinate -1 of axis 0 is byte -2 of a row"},
      {51, "TMA: coordinate 2 of axis 0 is byte 4 of a row"},
      {52, "TMA: coordinate 100 of axis 0 is byte 200 of a row"},
      {53, "TMA store: coordinate -8 of axis 0 is negative"},
      {54, "TMA store: coordinate -1 of axis 1 is negative"},
      {55, "TMA store: coordinate -2 of axis 1 is negative"}};
  run_faults("misuse", launch_of(1, 32, BOTH), faults, sizeof faults / sizeof *faults);
}
END_TEST

/* ---- tensor maps -------------------------------------------------------------------------------
 */

static void refused(attune__tensormap map, const char *text) {
  unsigned char bytes[ATTUNE__TENSORMAP_BYTES];
  ck_assert_int_eq(attune__tensormap_encode(&map, bytes), ATTUNE_INVALID);
  ck_assert_msg(strstr(attune_error(), text) != NULL, "wanted \"%s\": %s", text, attune_error());
}

START_TEST(maps_are_checked) {
  attune__tensormap good = {.type = ATTUNE__MAP_F16,
                            .rank = 3,
                            .base = UINT64_C(2) << 56 | 4096,
                            .extent = {128, 50, 7},
                            .stride = {0, 256, 12800},
                            .box = {64, 16, 1},
                            .swizzle = ATTUNE__SWIZZLE_128},
                    bad = good, back;
  unsigned char bytes[ATTUNE__TENSORMAP_BYTES] = {0};
  ck_assert_int_eq(attune__tensormap_decode(bytes, &back), 0);
  ck_assert_int_eq(attune__tensormap_encode(&good, bytes), ATTUNE_OK);
  ck_assert_int_eq(attune__tensormap_decode(bytes, &back), 1);
  ck_assert(back.base == good.base && back.extent[2] == 7 && back.stride[2] == 12800 &&
            back.box[0] == 64 && back.box[4] == 1 && back.swizzle == ATTUNE__SWIZZLE_128);
  bad.base += 8, refused(bad, "the base is not aligned"), bad = good;
  bad.rank = 6, refused(bad, "rank 6"), bad = good;
  bad.stride[1] = 250, refused(bad, "axis 1 has a stride of 250 bytes"), bad = good;
  bad.stride[2] = UINT64_C(1) << 40, refused(bad, "axis 2"), bad = good;
  bad.box[1] = 257, refused(bad, "a box of 257 on axis 1"), bad = good;
  bad.box[0] = 32, refused(bad, "rows have 64 bytes, its swizzle wants 128"), bad = good;
  bad.box[0] = 4, bad.swizzle = 0, refused(bad, "rows have 8 bytes"), bad = good;
  bad.extent[0] = 0, refused(bad, "axis 0 has 0 elements"), bad = good;
  bad.type = (attune__map_type)5, refused(bad, "element type 5");
}
END_TEST

TEST_MAIN("cpu_tma", loads_are_clean, every_rank, load_faults_are_found, bytes_are_counted, stores,
          last_chunks_are_whole, reductions_and_runs, registers_move, polls_end, misuse_is_found,
          maps_are_checked)
