// Where a block works: rows of Q of the query heads that share its tile, in one sequence. Row r is
// query r / kGroup of head head_q + r % kGroup; rows [row0, row1) are the tile's, none when row0 is
// not below row1. Tiles come fastest, so that blocks that run together share K and V in L2; under a
// mask with an upper bound the longest rows start first, so that the last blocks are short.
struct Place {
  //@ if features.varlen then
  i64 token_q, token_k;  // of the sequence's first query and key in the packed tensors
  //@ end
  int sequence, head_q, head_kv;
  int row0, row1;
  int len_q, len_k;  // in use
};

__device__ __forceinline__ int ceil_div(int n, int d) { return (n - 1) / d + 1; }

__device__ __forceinline__ int clamp(int n, int low, int high) { return min(max(n, low), high); }

//@ if features.varlen then
// The sequence of a tile. Sequence s has its tiles from cu_seqlens_q[s] * kGroup / kBlockM + s on: a
// number that grows from one to the next by at least its tiles, so that no list of them is needed.
__device__ __forceinline__ int sequence_of(const int *cu_seqlens_q, int batch, int tile) {
  int low = 0, high = batch;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    const int first = cu_seqlens_q[middle] * kGroup / kBlockM + middle;
    (first <= tile ? low : high) = middle;
  }
  return low;
}

// Where a sequence lies: whatever its ends say, within the tensor's `total` rows.
__device__ __forceinline__ int packed_length(int begin, int end, int total, i64 &first) {
  first = clamp(begin, 0, total);
  return clamp(end, (int)first, total) - (int)first;
}
//@ end

// Of a sequence's `length` rows those in use.
__device__ __forceinline__ int in_use(const int *seqused, int sequence, int length) {
  return clamp(seqused ? seqused[sequence] : kUnbounded, 0, length);
}

//@ local dealt = features.varlen and tile.persistent == 1
//@ if dealt then
// Of a grid that stays, whose blocks take every gridDim.x-th tile: tiles of one sequence after the
// other, so that those of a round take equally long; under a mask the longest of all heads first,
// and every second round backwards. `at` counts from the sequence's first tile; behind its last
// there is a tile without rows.
struct Turn {
  int heads, tile;
};
__device__ __forceinline__ Turn turn_of(unsigned at, unsigned tiles, unsigned heads) {
  const unsigned all = tiles * heads;
  if (at >= all) return {0, (int)tiles};
  //@ if mask == "none" then
  return {(int)(at / tiles), (int)(at % tiles)};
  //@ else
  const unsigned first = at / gridDim.x * gridDim.x;
  if (at / gridDim.x % 2) at = first + min(all - first, gridDim.x) - 1 - (at - first);
  return {(int)(at % heads), (int)(at / heads)};
  //@ end
}

//@ end
//@ if features.varlen then
// The place of a block in the sequence that is its tile's.
__device__ __forceinline__ Place place_in(const Params &params, unsigned index, int sequence,
                                          int batch, int heads_q, int heads_kv, int len_q,
                                          int len_k, int total_q, int total_k) {
  Place place;
  place.sequence = sequence;
  const int *cu_q = params.cu_seqlens_q + sequence, *cu_k = params.cu_seqlens_k + sequence;
  const int begin_q = cu_q[0], end_q = cu_q[1];
  const int first = begin_q * kGroup / kBlockM + sequence;
  //@ if dealt then
  const int all_heads = heads_q / kGroup, tiles = end_q * kGroup / kBlockM + sequence + 1 - first;
  const Turn turn = turn_of(index - first * all_heads, max(tiles, 0), all_heads);
  const int heads = turn.heads;
  int tile = turn.tile;
  //@ else
  const unsigned tiles = total_q * kGroup / kBlockM + batch;
  const int heads = index / tiles;
  int tile = index % tiles - first;
  //@ end
  len_q = packed_length(begin_q, end_q, total_q, place.token_q);
  len_k = packed_length(cu_k[0], cu_k[1], total_k, place.token_k);
  //@ else
__device__ __forceinline__ Place place_of(const Params &params, unsigned index, int batch,
                                          int heads_q, int heads_kv, int len_q, int len_k,
                                          int total_q, int total_k) {
  Place place;
  const unsigned tiles = ceil_div(len_q * kGroup, kBlockM), all_heads = heads_q / kGroup;
  const unsigned rest = index / tiles;
  const int heads = rest % all_heads;
  int tile = index % tiles;
  place.sequence = rest / all_heads;
  //@ end
  place.head_q = heads * kGroup;
  place.head_kv = place.head_q / (heads_q / heads_kv);
  place.len_q = in_use(params.seqused_q, place.sequence, len_q);
  place.len_k = in_use(params.seqused_k, place.sequence, len_k);
  const int last = ceil_div(place.len_q * kGroup, kBlockM) - 1;
  if (kMaskHasUpper && tile <= last) tile = last - tile;
  place.row0 = tile * kBlockM;
  place.row1 = min(place.row0 + kBlockM, place.len_q * kGroup);
  return place;
}

//@ if features.varlen then
__device__ __forceinline__ Place place_of(const Params &params, unsigned index, int batch,
                                          int heads_q, int heads_kv, int len_q, int len_k,
                                          int total_q, int total_k) {
  //@ if dealt then
  const int sequence = sequence_of(params.cu_seqlens_q, batch, index / (heads_q / kGroup));
  //@ else
  const unsigned tiles = total_q * kGroup / kBlockM + batch;
  const int sequence = sequence_of(params.cu_seqlens_q, batch, index % tiles);
  //@ end
  return place_in(params, index, sequence, batch, heads_q, heads_kv, len_q, len_k, total_q,
                  total_k);
}

//@ end
// Rows of a tensor of queries, by their number in the place.
template <typename Element>
struct QueryRows {
  Element *first;
  i64 stride_seq, stride_head;
  __device__ __forceinline__ Element *at(int row) const {
    return first + row / kGroup * stride_seq + row % kGroup * stride_head;
  }
};

template <typename Element>
__device__ __forceinline__ QueryRows<Element> query_rows(const Place &place, Element *tensor,
                                                         i64 stride_batch, i64 stride_seq,
                                                         i64 stride_head) {
  //@ if features.varlen then
  tensor += place.token_q * stride_seq;
  //@ else
  tensor += place.sequence * stride_batch;
  //@ end
  return {tensor + place.head_q * stride_head, stride_seq, stride_head};
}

// The first key of the place in K or V.
__device__ __forceinline__ const kv_t *first_key(const Place &place, const kv_t *tensor,
                                                 i64 stride_batch, i64 stride_seq,
                                                 i64 stride_head) {
  //@ if features.varlen then
  tensor += place.token_k * stride_seq;
  //@ else
  tensor += place.sequence * stride_batch;
  //@ end
  return tensor + place.head_kv * stride_head;
}
