/* tune_page.h - a tuning run as one page that a browser shows, with nothing to load.
 *
 *   tune_page.c  the page: tables, text, what failed
 *   tune_plot.c  its drawings */
#ifndef ATTUNE_TUNE_PAGE_H
#define ATTUNE_TUNE_PAGE_H

#include "tune.h"

/* HTML that is well-formed XML, too. The same result gives the same bytes: no time of now in it. */
void attune__tune_page(const attune__tune_result *result, attune__text *out);

/* A cell's candidates: time over shared memory, and over registers. */
void attune__tune_draw_trials(const attune__tune_cell *cell, const attune_board *board,
                              attune__text *out);
/* What the cells' winners reach, under the board's ceilings. The cells are of one variant. */
void attune__tune_draw_roofline(const attune__tune_cell *cells, int count,
                                const attune_board *board, attune__text *out);

#endif
