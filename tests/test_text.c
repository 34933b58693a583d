/* test_text.c - gen/text.c and gen/json.c: exact bytes, in the C locale and in a comma locale made
 * by tests/locale.sh. Spec-level locale tests stand in test_spec.c. */
#include "../gen/text.h"
#include "test.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>

#define EXPECT(text, want)                                                                         \
  do {                                                                                             \
    ck_assert_str_eq((text).data ? (text).data : "", want);                                        \
    attune__text_free(&(text));                                                                    \
  } while (0)

START_TEST(appends) {
  attune__text t = {0};
  attune__text_puts(&t, "");
  ck_assert_str_eq(t.data, "");
  attune__text_add(&t, "ab\0c", 4);
  ck_assert_uint_eq(t.size, 4);
  ck_assert_int_eq(t.data[4], 0);
  attune__text_free(&t);
  ck_assert_ptr_null(t.data);
  for (int i = 0; i < 1000; i++) attune__text_printf(&t, "%d,", i);
  ck_assert_uint_eq(t.size, strlen(t.data));
  ck_assert_uint_eq(t.size, 10 * 2 + 90 * 3 + 900 * 4);
  ck_assert_str_eq(t.data + t.size - 8, "998,999,");
  attune__text_free(&t);
}
END_TEST

START_TEST(failure_drops_the_text) {
  attune__text t = {0};
  attune__text_puts(&t, "something");
  attune__text_add(&t, NULL, SIZE_MAX / 2); /* more than can be had: refused before any copy */
  ck_assert_int_eq(t.failed, 1);
  ck_assert_ptr_null(t.data);
  attune__text_puts(&t, "more");
  attune__text_printf(&t, "%d", 1);
  ck_assert_ptr_null(t.data);
  ck_assert_uint_eq(t.size, 0);
  attune__text_free(&t);
  ck_assert_int_eq(t.failed, 0);
}
END_TEST

static void check_numbers(void) {
  static const struct {
    double value;
    const char *fixed2, *number;
  } rows[] = {{0, "0.00", "0"},
              {1.5, "1.50", "1.5"},
              {-1234567.125, "-1234567.12", "-1234567.125"},
              {0.1, "0.10", "0.1"},
              {1.0 / 3, "0.33", "0.33333333333333331"},
              {1e300, NULL, "1e+300"},
              {5e-324, "0.00", "4.94065646e-324"},
              {INFINITY, "inf", "inf"},
              {-INFINITY, "-inf", "-inf"},
              {-NAN, "nan", "nan"}};
  attune__text t = {0};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    attune__text_number(&t, rows[i].value);
    double back = 0;
    ck_assert_int_eq(attune__parse_double(t.data, &back), 1);
    ck_assert(back == rows[i].value || (isnan(back) && isnan(rows[i].value)));
    EXPECT(t, rows[i].number);
    if (!rows[i].fixed2) continue;
    attune__text_fixed(&t, rows[i].value, 2);
    EXPECT(t, rows[i].fixed2);
  }
}

START_TEST(numbers) {
  check_numbers();
  attune__text t = {0};
  attune__text_fixed(&t, 2.5, 0);
  EXPECT(t, "2");
  attune__text_fixed(&t, -1.7976931348623157e308, 1000);
  ck_assert_uint_eq(t.size, 1 + 309 + 1 + 60);
  attune__text_free(&t);
}
END_TEST

START_TEST(grouped) {
  static const struct {
    uint64_t value;
    const char *want;
  } rows[] = {{0, "0"},
              {7, "7"},
              {999, "999"},
              {1000, "1,000"},
              {1234567, "1,234,567"},
              {UINT64_MAX, "18,446,744,073,709,551,615"}};
  attune__text t = {0};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    attune__text_grouped(&t, rows[i].value);
    EXPECT(t, rows[i].want);
  }
}
END_TEST

START_TEST(parses) {
  static const char *const bad[] = {"", " 1", "1 ", "1,5", "x", "1.5.", "--1", "1e", "\t2"};
  double out = 42;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_msg(!attune__parse_double(bad[i], &out) && out == 42, "accepted '%s'", bad[i]);
  ck_assert(attune__parse_double("-1.25e2", &out) && out == -125);
}
END_TEST

START_TEST(utf8) {
  static const struct {
    const char *text;
    size_t bytes;
  } rows[] = {{"a", 1},
              {"\xc3\xa4", 2},
              {"\xe2\x82\xac", 3},
              {"\xf0\x9f\x98\x80", 4},
              {"\xf4\x8f\xbf\xbf", 4},
              {"\x80", 0},             /* continuation alone */
              {"\xc0\xaf", 0},         /* overlong */
              {"\xe0\x9f\xbf", 0},     /* overlong */
              {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
              {"\xed\xa0\x80", 0},     /* surrogate */
              {"\xf4\x90\x80\x80", 0}, /* over U+10FFFF */
              {"\xf5\x80\x80\x80", 0}, /* no such lead */
              {"\xe2\x82", 0},         /* cut */
              {"\xe2\x28\xa1", 0}};    /* second byte is none */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    ck_assert_uint_eq(attune__utf8_bytes(rows[i].text, strlen(rows[i].text)), rows[i].bytes);
  ck_assert_uint_eq(attune__utf8_bytes("", 0), 0);
}
END_TEST

static void write_json(attune__json *j) {
  attune__json_begin(j, '{');
  attune__json_key(j, "name");
  attune__json_string(j, "a\"b\\c\n\x01\x7f \xc3\xa4 \xff!");
  attune__json_key(j, "list");
  attune__json_begin(j, '[');
  attune__json_int(j, INT64_MIN);
  attune__json_number(j, 0.5);
  attune__json_number(j, NAN);
  attune__json_bool(j, 1);
  attune__json_string(j, NULL);
  attune__json_begin(j, '{');
  attune__json_end(j, '}');
  attune__json_end(j, ']');
  attune__json_key(j, "last");
  attune__json_bool(j, 0);
  attune__json_end(j, '}');
}

static const char json_want[] =
    "{\"name\": \"a\\\"b\\\\c\\n\\u0001\\u007f \xc3\xa4 \xef\xbf\xbd!\", \"list\": "
    "[-9223372036854775808, 0.5, null, true, null, {}], \"last\": false}";

START_TEST(json) {
  attune__text t = {0};
  attune__json j = {.text = &t};
  write_json(&j);
  ck_assert_int_eq(j.depth, 0);
  EXPECT(t, json_want);
}
END_TEST

START_TEST(json_misuse_fails_the_text) {
  attune__text t = {0};
  attune__json j = {.text = &t};
  for (int i = 0; i < 100; i++) attune__json_begin(&j, '[');
  ck_assert_int_eq(t.failed, 1);
  attune__text_free(&t);
  j = (attune__json){.text = &t};
  attune__json_end(&j, ']');
  ck_assert_int_eq(t.failed, 1);
  attune__text_free(&t);
}
END_TEST

static void *number_thread(void *unused) {
  (void)unused;
  for (int i = 0; i < 200; i++) check_numbers();
  return NULL;
}

/* The whole program in a locale whose decimal point is a comma, on several threads. */
START_TEST(comma_locale) {
  ck_assert_int_eq(system("sh tests/locale.sh"), 0);
  setenv("LOCPATH", "build/locale", 1);
  ck_assert_msg(setlocale(LC_ALL, "de_DE.UTF-8") != NULL, "build/locale/de_DE.UTF-8 is unusable");
  char probe[8];
  snprintf(probe, sizeof probe, "%.1f", 0.5);
  ck_assert_str_eq(probe, "0,5"); /* the locale does what the test is about */
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, number_thread, NULL);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  attune__text t = {0};
  attune__json j = {.text = &t};
  write_json(&j);
  EXPECT(t, json_want);
  snprintf(probe, sizeof probe, "%.1f", 0.5);
  ck_assert_str_eq(probe, "0,5"); /* and it is still in force afterwards */
  setlocale(LC_ALL, "C");
}
END_TEST

TEST_MAIN("text", appends, failure_drops_the_text, numbers, grouped, parses, utf8, json,
          json_misuse_fails_the_text, comma_locale)
