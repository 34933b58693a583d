/* test_cli.c - how the commands read their options: gen/cli/cli.c with a command of its own. */
#include "../gen/cli/cli.h"

#include "test.h"

static cli_args seen; /* what the command below was last run with */
static int runs;

static int run(const cli_args *args) {
  seen = *args;
  runs++;
  return CLI_OK;
}

static const cli_option options[] = {{"-o", "DIR", "a folder"},   {"-j", "N", "a number"},
                                     {"-k", NULL, "a switch"},    {"--sram", "B", "bytes"},
                                     {"--all", NULL, "a switch"}, {"--shape", "S...", "several"},
                                     {NULL, NULL, NULL}};
static const cli_command command = {.name = "sample",
                                    .usage = "sample WORD",
                                    .text = "A sample.",
                                    .options = options,
                                    .max_words = 2,
                                    .run = run};

enum { MAX_WORDS = 6 };

/* Exit code of the command with these words; NULL ends them. */
static int run_words(const char *const *words) {
  static char copies[MAX_WORDS][32];
  char *argv[MAX_WORDS];
  int argc = 0;
  for (; words[argc]; argc++) {
    snprintf(copies[argc], sizeof copies[argc], "%s", words[argc]);
    argv[argc] = copies[argc];
  }
  seen = (cli_args){.words = -1};
  return cli_run(&command, argc, argv);
}

START_TEST(values_attached_or_apart) {
  static const struct {
    const char *words[MAX_WORDS];
    const char *name, *value;
    int plain; /* words that are no option */
  } cases[] = {
      {{"-j", "2"}, "-j", "2", 0},
      {{"-j2"}, "-j", "2", 0},
      {{"-j=2"}, "-j", "2", 0},
      {{"x", "-j12", "y"}, "-j", "12", 2},
      {{"-oa=b"}, "-o", "a=b", 0},
      {{"-o", "-"}, "-o", "-", 0},
      {{"--sram", "96KB", "x"}, "--sram", "96KB", 1},
      {{"--sram=96KB"}, "--sram", "96KB", 0},
      {{"--sram="}, "--sram", "", 0},
      {{"--all", "x"}, "--all", "", 1},
      {{"-k", "x"}, "-k", "", 1},
      {{"-"}, "-k", NULL, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ck_assert_msg(run_words(cases[i].words) == CLI_OK, "case %zu", i);
    const char *value = cli_value(&seen, cases[i].name);
    ck_assert_msg(!value == !cases[i].value && (!value || !strcmp(value, cases[i].value)),
                  "case %zu: %s is %s", i, cases[i].name, value ? value : "absent");
    ck_assert_int_eq(seen.words, cases[i].plain);
  }
}
END_TEST

START_TEST(wrong_words_do_not_run) {
  static const char *const cases[][MAX_WORDS] = {
      {"-x"},        {"-x2"},         {"--jobs=2"},       {"--sramx", "1"},   {"--sra=1"},
      {"-j"},        {"--sram"},      {"-j2", "-j", "3"}, {"--all", "--all"}, {"-k2"},
      {"--all=yes"}, {"a", "b", "c"}, {"-sram", "96KB"},
  };
  int before = runs;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    ck_assert_msg(run_words(cases[i]) == CLI_USAGE, "case %zu", i);
  ck_assert_int_eq(runs, before);
}
END_TEST

START_TEST(options_given_several_times) {
  ck_assert_int_eq(run_words((const char *[]){"--shape", "a", "--shape=b", "x", NULL}), CLI_OK);
  ck_assert_int_eq(seen.many_count, 2);
  ck_assert_str_eq(seen.many[0], "a");
  ck_assert_str_eq(seen.many[1], "b");
  ck_assert_int_eq(seen.words, 1);
  ck_assert_int_eq(run_words((const char *[]){"-j2", "x", NULL}), CLI_OK);
  ck_assert_int_eq(seen.many_count, 0);
}
END_TEST

START_TEST(numbers) {
  int64_t number = 7;
  run_words((const char *[]){"x", NULL});
  ck_assert(cli_int(&seen, "-j", 1, 256, &number) && number == 7);
  static const char *const bad[] = {"", " 2", "2 ", "0", "257", "1.5", "99999999999999999999", "x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    run_words((const char *[]){"-j", bad[i], NULL});
    ck_assert_msg(!cli_int(&seen, "-j", 1, 256, &number), "case %zu", i);
  }
  run_words((const char *[]){"-j256", NULL});
  ck_assert(cli_int(&seen, "-j", 1, 256, &number) && number == 256);
}
END_TEST

START_TEST(sizes) {
  uint32_t bytes = 7;
  run_words((const char *[]){"x", NULL});
  ck_assert(cli_bytes(&seen, "--sram", &bytes) && bytes == 7);
  static const char *const bad[] = {"", "0", "0KB", "KB", "96kb", "-1", "9999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    run_words((const char *[]){"--sram", bad[i], NULL});
    ck_assert_msg(!cli_bytes(&seen, "--sram", &bytes), "case %zu", i);
  }
  run_words((const char *[]){"--sram=96KB", NULL});
  ck_assert(cli_bytes(&seen, "--sram", &bytes) && bytes == 98304);
}
END_TEST

TEST_MAIN("cli", values_attached_or_apart, wrong_words_do_not_run, options_given_several_times,
          numbers, sizes)
