/* model_attn_fwd.h - what attn_fwd is in every family: a block owns block_m rows of one head and
 * walks over the keys that they see. */
#ifndef ATTUNE_MODEL_ATTN_FWD_H
#define ATTUNE_MODEL_ATTN_FWD_H

#include "model.h"

void attune__forward_recipe(const attune_variant *v, const attune_tile *t, attune_recipe *out);
/* Q, O and LSE once per block, K and V over the key range of each block and query head. */
void attune__forward_traffic(const attune_variant *v, const attune_tile *t, const attune_shape *s,
                             attune_traffic *out);
/* The same where K and V come in whole tiles of block_n keys (TMA). */
void attune__forward_traffic_whole(const attune_variant *v, const attune_tile *t,
                                   const attune_shape *s, attune_traffic *out);

/* For the order of tiles, which asks for hundreds of tiles: biases and bits of the pairs that
 * blocks look at, `word_bytes` of bits a pair. Rows beyond the last, slopes, sinks and lengths are
 * left out. */
void attune__forward_bulk_traffic(const attune_variant *v, const attune_shape *s,
                                  const attune_mask_sums *sums, double word_bytes,
                                  attune_traffic *out);

/* What feature varlen has `threads_block` threads of each block read of cu_seqlens; of sequences of
 * one length. */
void attune__forward_varlen_traffic(const attune_variant *v, const attune_tile *t,
                                    const attune_shape *s, int threads_block, attune_traffic *out);

#endif
