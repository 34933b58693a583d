/* traffic.c - rows of a byte count, added up. The formulas are the models'. */
#include "model.h"

static void add(attune_traffic *traffic, attune_traffic_row row) {
  traffic->row[traffic->count++] = row;
  traffic->requested += row.requested_read + row.requested_write;
  traffic->compulsory += row.compulsory_read + row.compulsory_write;
}

void attune__traffic_read(attune_traffic *traffic, const char *tensor, const char *formula,
                          double row_bytes, double requested_rows, double compulsory_rows) {
  add(traffic, (attune_traffic_row){.tensor = tensor,
                                    .formula = formula,
                                    .requested_read = requested_rows * row_bytes,
                                    .compulsory_read = compulsory_rows * row_bytes});
}

void attune__traffic_write_again(attune_traffic *traffic, const char *tensor, const char *formula,
                                 double row_bytes, double requested_rows, double compulsory_rows) {
  add(traffic, (attune_traffic_row){.tensor = tensor,
                                    .formula = formula,
                                    .requested_write = requested_rows * row_bytes,
                                    .compulsory_write = compulsory_rows * row_bytes});
}

void attune__traffic_write(attune_traffic *traffic, const char *tensor, const char *formula,
                           double row_bytes, double rows) {
  attune__traffic_write_again(traffic, tensor, formula, row_bytes, rows, rows);
}
