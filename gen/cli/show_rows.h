/* show_rows.h - what `attune explain` says of measured rows: when, on what, by how much; or that
 * the kernel is planned. */
#ifndef ATTUNE_CLI_SHOW_ROWS_H
#define ATTUNE_CLI_SHOW_ROWS_H

#include "../plan.h"
#include "../text.h"

/* The rows of a variant on any GPU, and which of them name the tile of part `variant.part`. */
void show_rows(attune__text *out, const attune_variant *variant, const attune_tile *tile,
               uint32_t budget);
/* "measured": the same as a list. */
void show_rows_json(attune__json *json, const attune_variant *variant, const attune_tile *tile,
                    uint32_t budget);

#endif
