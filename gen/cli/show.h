/* show.h - what list, plan and explain print alike: numbers in columns, boards, tiles, bytes,
 * costs. */
#ifndef ATTUNE_CLI_SHOW_H
#define ATTUNE_CLI_SHOW_H

#include "../plan.h"
#include "../text.h"

/* Right-aligned in `width` characters. */
void show_fixed(attune__text *out, int width, double value, int decimals);
void show_grouped(attune__text *out, int width, double value);
/* "sm_80, as an A100 (108 SMs at 1410 MHz)", and that nothing was measured. */
void show_model_note(attune__text *out, const attune_board *board);
/* "batch 4, heads 16, 2048 queries x 2048 keys" and the window where the mask has one. */
void show_shape(attune__text *out, const attune_variant *variant, const attune_shape *shape);
/* Microseconds of clocks on the board. */
double show_microseconds(const attune_board *board, double clocks);

void show_json_tile(attune__json *json, const attune_tile *tile);
void show_json_shape(attune__json *json, const attune_shape *shape);
void show_json_cost(attune__json *json, const attune_cost *cost);
void show_json_traffic(attune__json *json, const attune_traffic *traffic);
void show_json_ledger(attune__json *json, const attune_ledger *ledger);
/* The families that have no kernels of the variant, with their reasons, and whether a slower one
 * stands in for them; nothing when every family serves. */
void show_refused(attune__text *out, const attune_plan *plan);
/* What a plan was made for: board, budget, shape; the families that refuse. */
void show_json_request(attune__json *json, const attune_plan *plan);
/* One candidate with what its plan says of it. */
void show_json_candidate(attune__json *json, const attune_plan *plan, const attune_candidate *c);
/* "key": value */
void show_json_text(attune__json *json, const char *key, const char *value);
void show_json_count(attune__json *json, const char *key, int64_t value);
void show_json_real(attune__json *json, const char *key, double value);

#endif
