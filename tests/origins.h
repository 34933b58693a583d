/* origins.h - checks that the #line directives of an expanded text tell the truth: every line of
 * the text must be the template's line that the directives before it point at. */
#ifndef ATTUNE_TEST_ORIGINS_H
#define ATTUNE_TEST_ORIGINS_H

#include "../gen/template.h"

/* Fails the running test at the first line that is not where it says; returns the lines checked. */
int check_origins(const attune_template_file *files, int count, const char *text);
/* Appends text without its #line directives. */
void without_directives(const char *text, attune__text *out);

#endif
