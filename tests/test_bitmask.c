/* test_bitmask.c - block classes of bit masks against a count of their bits one by one. */
#include "../runtime/attune.h"
#include "test.h"

static uint64_t state = 5;
static uint32_t random_word(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 32);
}

static int kept(const uint32_t *bits, int64_t stride, int i, int j) {
  return (int)(bits[i * stride + j / 32] >> (j % 32) & 1);
}

/* The class of the block of 64 x 64 that (i0, j0) begins. */
static int counted_class(const uint32_t *bits, int64_t stride, int rows, int keys, int i0, int j0) {
  int count = 0, pairs = 0;
  for (int i = i0; i < rows && i < i0 + 64; i++)
    for (int j = j0; j < keys && j < j0 + 64; j++) count += kept(bits, stride, i, j), pairs++;
  return count == 0 ? 0 : count == pairs ? 2 : 1;
}

static int seen[3]; /* how often each class was wanted */

static void check_classes(const uint32_t *bits, int64_t stride, int rows, int keys) {
  int across = (keys + 63) / 64, down = (rows + 63) / 64;
  uint8_t *classes =
      malloc((size_t)across * (size_t)down); /* exactly: sanitizers see one too many */
  ck_assert_ptr_nonnull(classes);
  ck_assert_int_eq(attune_bitmask_classes(bits, stride, rows, keys, classes), ATTUNE_OK);
  for (int m = 0; m < down; m++)
    for (int n = 0; n < across; n++) {
      int want = counted_class(bits, stride, rows, keys, m * 64, n * 64);
      seen[want]++;
      ck_assert_msg(classes[m * across + n] == want, "%d x %d, block %d, %d: %d, must be %d", rows,
                    keys, m, n, classes[m * across + n], want);
    }
  free(classes);
}

/* Blocks all set, all clear, one bit off, or any bits; what lies behind the keys is any bits. */
static void fill(uint32_t *bits, int64_t stride, int rows, int keys) {
  int words = (keys + 31) / 32;
  for (int m = 0; m < rows; m += 64)
    for (int n = 0; n < words; n += 2) {
      uint32_t kind = random_word() % 5;
      for (int i = m; i < rows && i < m + 64; i++)
        for (int w = n; w < words && w < n + 2; w++)
          bits[i * stride + w] = kind == 4 ? random_word() : kind % 2 ? UINT32_MAX : 0;
      if (kind == 2 || kind == 3) bits[m * stride + n] ^= 1u << random_word() % 32;
    }
  for (int i = 0; keys % 32 && i < rows; i++)
    bits[i * stride + words - 1] ^= random_word() << keys % 32;
}

START_TEST(classes_are_what_a_count_says) {
  static const int sizes[] = {1, 31, 32, 33, 63, 64, 65, 96, 97, 128, 200, 257};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  for (int r = 0; r < SIZES; r++)
    for (int k = 0; k < SIZES; k++)
      for (int gap = 0; gap < 3; gap++) {
        int rows = sizes[r], keys = sizes[k], words = (keys + 31) / 32;
        int64_t stride = words + gap;
        size_t count = (size_t)(stride * (rows - 1) + words);
        uint32_t *bits = malloc(count * sizeof *bits);
        ck_assert_ptr_nonnull(bits);
        for (size_t i = 0; i < count; i++) bits[i] = random_word();
        fill(bits, stride, rows, keys);
        check_classes(bits, stride, rows, keys);
        free(bits);
      }
  for (int class = 0; class < 3; class ++) ck_assert_int_gt(seen[class], 100);
}
END_TEST

/* Stride 0: all rows are one. A negative stride: they go upwards in memory. */
START_TEST(strides_are_any) {
  uint32_t bits[100 * 3];
  for (int i = 0; i < 300; i++) bits[i] = random_word() | UINT32_C(0x77777777);
  bits[0] = bits[1] = UINT32_MAX;
  check_classes(bits, 0, 100, 96);
  check_classes(bits + 99 * 3, -3, 100, 96);
  check_classes(bits, 1, 100, 96); /* overlapping, as a mask of relative positions is */
}
END_TEST

START_TEST(wrong_calls_are_refused) {
  const uint32_t bits[1] = {1};
  uint8_t class = 7;
  ck_assert_int_eq(attune_bitmask_classes(bits, 1, -1, 1, &class), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "rows is -1"));
  ck_assert_int_eq(attune_bitmask_classes(bits, 1, 1, -2, &class), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "keys is -2"));
  ck_assert_int_eq(attune_bitmask_classes(NULL, 1, 1, 1, &class), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "bits is NULL"));
  ck_assert_int_eq(attune_bitmask_classes(bits, 1, 1, 1, NULL), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "classes is NULL"));
  ck_assert_int_eq(attune_bitmask_classes(NULL, 1, 0, 5, NULL), ATTUNE_OK); /* no block */
  ck_assert_int_eq(attune_bitmask_classes(NULL, 1, 5, 0, NULL), ATTUNE_OK);
  ck_assert_int_eq(class, 7);
  ck_assert_int_eq(attune_bitmask_classes(bits, 1, 1, 1, &class), ATTUNE_OK);
  ck_assert_int_eq(class, ATTUNE_BLOCK_FULL);
  ck_assert_int_eq(attune_bitmask_classes(bits, 1, 1, 2, &class), ATTUNE_OK);
  ck_assert_int_eq(class, ATTUNE_BLOCK_PARTIAL);
}
END_TEST

TEST_MAIN("bitmask", classes_are_what_a_count_says, strides_are_any, wrong_calls_are_refused)
