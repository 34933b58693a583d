/* tune_use.h - measured rows at work: the tiles of a request for a class, in the planner's place.
 */
#ifndef ATTUNE_TUNE_USE_H
#define ATTUNE_TUNE_USE_H

#include "spec.h"
#include "tune_rows.h"

/* The row that chooses for a request: measured, legal within its budget, and as its family and tile
 * want it. NULL: the planner chooses; `why` says what was passed over, "" when there was nothing.
 */
const attune__tuned_row *attune__tuned_for(const attune__tuned_db *db, const attune__tuned_key *key,
                                           const attune_request *request, attune_class cls,
                                           char *why, size_t size);

#endif
