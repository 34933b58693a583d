/* tune_report.h - what `attune tune` prints. */
#ifndef ATTUNE_CLI_TUNE_REPORT_H
#define ATTUNE_CLI_TUNE_REPORT_H

#include "../tune.h"
#include "cli.h"

/* path: where the rows went; NULL: nowhere. */
void tune_report_text(const attune__tune_result *result, const char *path, attune__text *out);
void tune_report_json(const attune__tune_result *result, const char *path, attune__text *out);

#endif
