/* plan.h - from a variant, a budget and a board to an ordered list of tiles with reasons.
 *
 * Same input, same plan. The order is by attune_cost.total, ties by name. A tile over the budget is
 * dropped with need and have in bytes; more budget never makes the first choice worse. */
#ifndef ATTUNE_PLAN_H
#define ATTUNE_PLAN_H

#include "model.h"

typedef struct attune_candidate {
  attune_tile tile;
  char name[ATTUNE_NAME_MAX]; /* of the tile: "fma_m64n64" */
  attune_ledger ledger;
  attune_cost cost; /* legal ones only */
  int registers;    /* estimate */
  int legal;
  char reason[160]; /* why not, when not legal */
} attune_candidate;

/* What a spec fixes of a tile; the other fields are the planner's choice. */
typedef struct attune_tile_pins {
  uint32_t fixed; /* bit i: field i of ATTUNE_TILE_FIELDS (ATTUNE__TILE_* of model.h) */
  attune_tile tile;
} attune_tile_pins;

typedef struct attune_plan_request {
  attune_variant variant;    /* with its part */
  const attune_board *board; /* NULL: the arch's own */
  uint32_t budget; /* bytes of shared memory per block, never more than the board's; 0: all of it */
  int family;      /* 0: any */
  attune_tile_pins pins;
  attune_shape shape; /* the order is for this shape; see attune__plan_shape */
  int64_t keys;       /* that a tile has to take beside the shape's; 0: no others */
} attune_plan_request;

/* A family that the request allows and that has no kernels of the variant (rules.h). */
typedef struct attune_refusal {
  int family;
  char reason[ATTUNE_REASON_MAX];
} attune_refusal;
enum {
#define X(name, id, text, doc) +1
  ATTUNE_FAMILY_COUNT = 0 ATTUNE_FAMILIES(X)
#undef X
};

typedef struct attune_plan {
  attune_plan_request request;
  attune_refusal refused[ATTUNE_FAMILY_COUNT];
  int refused_count;
  attune_candidate *candidates; /* legal ones first, best first; then the others by name */
  int count, legal_count;
} attune_plan;

/* ATTUNE_NO_FIT when no candidate is legal: the message has the smallest ledger, the gap in bytes
 * and the nearest budget or spec that works. The plan is filled in that case too. */
attune_status attune__plan_make(const attune_plan_request *request, attune_plan *out);
void attune__plan_free(attune_plan *plan);
/* 1 when the first choice is a fallback: a faster family that is made for such problems refuses, or
 * has no tile that fits. `reason` then says why. A spec that names the family or the tile has
 * chosen itself. */
int attune__plan_fallback(const attune_plan *plan, char *reason, size_t size);
/* Bytes that the request's tiles may use: the budget, at most what the board offers. */
uint32_t attune__plan_budget(const attune_plan_request *request);
/* The error of a plan without a legal candidate; returns ATTUNE_NO_FIT. */
attune_status attune__plan_no_fit(const attune_plan *plan);
/* Whether a tile has the values that the pins fix, those of `derived` fields aside. */
int attune__tile_matches(const attune_tile_pins *pins, uint32_t derived, const attune_tile *tile);
/* The shape that a class is planned for, one of its own; ANY's is batch 4, heads 16, len 2048
 * (stated in the output). */
attune_shape attune__plan_shape(attune_class cls);
attune_class attune__class_of(const attune_shape *shape);
/* The shape with what the pins fix of it; pins NULL: nothing. */
attune_shape attune__shape_pinned(const attune_shape *shape, const attune_pinset *pins);

/* The article's counting (square blocks, whole tiles, fp32-like statistics), for
 * `attune plan --model article`. Bytes. */
double attune__article_working_set(int64_t block, int64_t head_dim, int element_bytes);
double attune__article_traffic(int64_t len, int64_t block, int64_t head_dim, int element_bytes);
double attune__article_standard_traffic(int64_t len, int64_t head_dim, int element_bytes);

#endif
