// Where a block works: a tile of query rows of one head of one sequence. Tiles come fastest, so that
// blocks that run together share K and V in L2; under a mask with an upper bound the longest rows
// start first, so that the last blocks are short.
struct BlockPlace {
  int tile, head, sequence;
};

__device__ __forceinline__ BlockPlace block_place(unsigned index, unsigned tiles, unsigned heads) {
  const int tile = index % tiles;
  const unsigned row = index / tiles;
  return {kMaskHasUpper ? (int)tiles - 1 - tile : tile, (int)(row % heads), (int)(row / heads)};
}

__device__ __forceinline__ int ceil_div(int n, int d) { return (n - 1) / d + 1; }

// Keys of a sequence that are in use.
__device__ __forceinline__ int keys_in_use(const int *seqused_k, int sequence, int len_k) {
  return seqused_k ? min(max(seqused_k[sequence], 0), len_k) : len_k;
}
