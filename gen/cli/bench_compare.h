/* bench_compare.h - `attune bench --compare`. */
#ifndef ATTUNE_CLI_BENCH_COMPARE_H
#define ATTUNE_CLI_BENCH_COMPARE_H

#include "../bench.h"
#include "cli.h"

/* Times the winners of measured rows of this GPU again; words are variants, none: all. Returns the
 * exit code: 1 when one is slower than the planner's choice outside the noise, or fails. */
int bench_compare(const cli_args *args, const attune__bench_options *options);

#endif
