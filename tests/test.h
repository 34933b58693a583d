/* test.h - the frame of every test program: Check, no fork (NVRTC and threads do not survive it).
 *
 *   START_TEST(name) { ... } END_TEST
 *   TEST_MAIN("suite", name, name2)
 */
#ifndef ATTUNE_TEST_H
#define ATTUNE_TEST_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST_MAIN(suite_name, ...)                                                                 \
  int main(void) {                                                                                 \
    const TTest *tests[] = {__VA_ARGS__, NULL};                                                    \
    Suite *suite = suite_create(suite_name);                                                       \
    TCase *tcase = tcase_create(suite_name);                                                       \
    for (int i = 0; tests[i]; i++) tcase_add_test(tcase, tests[i]);                                \
    suite_add_tcase(suite, tcase);                                                                 \
    SRunner *runner = srunner_create(suite);                                                       \
    srunner_set_fork_status(runner, CK_NOFORK);                                                    \
    srunner_run_all(runner, CK_NORMAL);                                                            \
    int failed = srunner_ntests_failed(runner);                                                    \
    srunner_free(runner);                                                                          \
    return failed != 0;                                                                            \
  }

#endif
