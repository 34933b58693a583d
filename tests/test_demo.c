/* test_demo.c - the nine pages: the article's deterministic figures to the digit, what is executed
 * and what is by formula, and the curves. Lengths are cut to 512 keys, so that it takes seconds.
 * Needs NVRTC. */
#include "../gen/demo.h"
#include "test.h"

#include <math.h>

static attune__demo demo;
static attune__page page;
static attune__text text;

/* In memory: each kernel is compiled once, whatever lies on this machine. */
static void open_store(void) {
  if (demo.store) return;
  ck_assert_int_eq(attune__store_open("", &demo.store), ATTUNE_OK);
  demo.cpu = attune_cpu_options_init();
  demo.longest = 512;
}

/* Makes and prints a page; every byte that was counted must be the formula's. */
static void make(int number) {
  open_store();
  attune__text_free(&text);
  attune__page_free(&page);
  ck_assert_msg(attune__demo_page(&demo, number, &page) == ATTUNE_OK, "%s", attune_error());
  attune__page_print(&page, &text);
  ck_assert_uint_eq(page.difference, 0);
  ck_assert_msg(!page.wrong, "%s", text.data);
}

/* The row begins with these cells, whatever the spaces between them. */
static void expect_row(const char *cells) {
  char line[512];
  for (const char *at = text.data, *end; (end = strchr(at, '\n')); at = end + 1) {
    size_t size = 0;
    for (const char *c = at; c < end && size < sizeof line - 1; c++)
      if (*c != ' ' || (size && line[size - 1] != ' ')) line[size++] = *c;
    line[size] = 0;
    if (!strncmp(line, cells, strlen(cells))) return;
  }
  ck_abort_msg("no row '%s' in:\n%s", cells, text.data);
}

static attune__row_source source_of(int table, int row) {
  return page.table[table].source[row];
}

START_TEST(article_1_standard) {
  make(1);
  expect_row("128 0.38 0.004 0.094 66.7 ");
  expect_row("512 4.50 0.067 0.070 88.9 ");
  expect_row("2048 66.00 1.074 0.064 97.0 ");
  expect_row("8192 1032.00 17.180 0.063 99.2 ");
  ck_assert_int_eq(source_of(0, 1), ATTUNE__EXECUTED);
  ck_assert_int_eq(source_of(0, 3), ATTUNE__FORMULA);
}
END_TEST

START_TEST(article_2_rescale) {
  make(2);
  const attune__page_table *t = &page.table[0];
  ck_assert_int_eq(t->rows, 3);
  ck_assert_double_lt(fabs(t->cell[1][6].value - 1), 1e-5);
  ck_assert_double_lt(t->cell[2][6].value, 0.9); /* the weights of the broken one */
  ck_assert_double_gt(t->cell[2][7].value, 0.05);
}
END_TEST

START_TEST(article_3_tiled) {
  static const char *const ends[] = {"64.0 70.0 64.5 0.38 0.19", "256.0 70.0 64.5 1.25 0.62",
                                     "1024.0 70.0 64.5 4.50 2.25"};
  make(3);
  const attune__page_table *t = &page.table[0];
  ck_assert_int_eq(t->rows, 3);
  for (int row = 0; row < 3; row++) {
    char cells[128];
    ck_assert_double_lt(t->cell[row][2].value, 1e-6);
    snprintf(cells, sizeof cells, "%.1f %.1f %.1f %.2f %.2f", t->cell[row][3].value,
             t->cell[row][4].value, t->cell[row][5].value, t->cell[row][6].value,
             t->cell[row][7].value);
    ck_assert_str_eq(cells, ends[row]);
  }
}
END_TEST

START_TEST(article_4_blocks) {
  make(4);
  expect_row("16 32.50 13.1 yes ");
  expect_row("32 16.50 28.2 yes ");
  expect_row("64 8.50 64.5 yes ");
  expect_row("128 4.50 161.0 NO -- spills ");
  expect_row("256 2.50 450.0 NO -- spills - no such kernel");
  expect_row("1024 1.00 4872.0 NO -- spills ");
  ck_assert_ptr_nonnull(strstr(text.data, "-1.000 at n = 4096"));
}
END_TEST

START_TEST(article_5_backward) {
  make(5);
  expect_row("512 1.38 0.38 0.17 0.20 20 by formula");
  expect_row("2048 17.50 1.52 2.68 3.22 20 by formula");
  expect_row("8192 262.00 6.06 42.95 51.54 20 by formula");
}
END_TEST

START_TEST(article_6_window) {
  make(6);
  ck_assert_double_lt(page.table[0].cell[0][1].value, 1e-6);
  ck_assert_double_gt(page.table[0].cell[1][1].value, 0.1);
}
END_TEST

START_TEST(article_7_flops) {
  make(7);
  expect_row("512 0.067 0.067 0.001 4.50 2.25 2.0");
  expect_row("1024 0.268 0.268 0.003 17.00 8.50 2.0 by formula");
  expect_row("2048 1.074 1.074 0.010 66.00 33.00 2.0");
  expect_row("4096 4.295 4.295 0.042 260.00 130.00 2.0");
}
END_TEST

/* 512 keys, 8 tiles, in rows of 64 floats: Q 8 times, O out 8 times and back 7, K and V once; LSE
 * as O but of one float. */
START_TEST(article_8_order) {
  make(8);
  const attune__page_table *t = &page.table[0];
  double row = 512 * 64 * 4.0, lse = 512 * 4.0;
  ck_assert_double_eq(t->cell[1][2].value * 1048576, row * (8 + 8 + 7 + 2) + lse * 15);
  ck_assert_double_eq(t->cell[1][1].value * 1048576, row * (2 + 8 * 2) + lse);
  ck_assert_double_eq(t->cell[1][5].value, 1); /* block */
}
END_TEST

START_TEST(article_9_overflow) {
  make(9);
  expect_row("without nan nan nan nan ");
  attune__text json_text = {0};
  attune__json json = {.text = &json_text};
  attune__page_json(&page, &json);
  ck_assert_ptr_nonnull(strstr(json_text.data, "\"w3\": null"));
  ck_assert_ptr_nonnull(strstr(json_text.data, "\"as_claimed\": true"));
  attune__text_free(&json_text);
}
END_TEST

/* Every point lies within the frame, and there is a curve for each series. */
START_TEST(curves_of_a_page) {
  attune__text svg = {0};
  make(7);
  attune__svg_draw(&page.plot, &svg);
  ck_assert_int_eq(svg.failed, 0);
  int curves = 0, points = 0;
  for (const char *at = svg.data; (at = strstr(at, "<polyline")); at++) curves++;
  for (const char *at = svg.data; (at = strstr(at, "cx=\"")); at++, points++) {
    double x = strtod(at + 4, NULL);
    ck_assert(x > 80 && x < 760);
  }
  ck_assert_int_eq(curves, 2);
  ck_assert_int_eq(points, 9); /* and one in the legend: some are by formula */
  ck_assert_ptr_nonnull(strstr(svg.data, "Same flops, less traffic"));
  attune__text_free(&svg);
}
END_TEST

START_TEST(there_are_nine) {
  attune__page none;
  ck_assert_int_eq(attune__demo_page(&demo, 10, &none), ATTUNE_INVALID);
  ck_assert_int_eq(attune__demo_page(&demo, 0, &none), ATTUNE_INVALID);
  attune__page_free(&page);
  attune__text_free(&text);
  attune__store_close(demo.store);
  demo.store = NULL;
}
END_TEST

TEST_MAIN("demo", article_1_standard, article_2_rescale, article_3_tiled, article_4_blocks,
          article_5_backward, article_6_window, article_7_flops, article_8_order,
          article_9_overflow, curves_of_a_page, there_are_nine)
