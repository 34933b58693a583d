/* article.c - the article's own counting of tiles and traffic ("How big should a tile be?"), as in
 * its listing: c.move() and c.scratch(). Square blocks, every tile in the dtype, statistics in
 * fp32. Our kernels' true figures are the models'. */
#include "plan.h"

/* One tile of Q, one each of K and V, one of scores, and m and l of each row. */
double attune__article_working_set(int64_t block, int64_t head_dim, int element_bytes) {
  double b = (double)block, d = (double)head_dim;
  return (3 * b * d + b * b) * element_bytes + 2 * b * 4;
}

/* Q and O once; K and V once for every block of queries. */
double attune__article_traffic(int64_t len, int64_t block, int64_t head_dim, int element_bytes) {
  double matrix = (double)len * (double)head_dim * element_bytes;
  int64_t passes = (len + block - 1) / block;
  return 2 * matrix + (double)passes * 2 * matrix;
}

/* Q, K, V and O once; S written and read, P written and read. */
double attune__article_standard_traffic(int64_t len, int64_t head_dim, int element_bytes) {
  double n = (double)len;
  return (4 * n * (double)head_dim + 4 * n * n) * element_bytes;
}
