//-- attn_fwd/key_tiles.cuh - which tiles of keys a block visits, in order.
//--
//-- Copies run ahead of the products, so a block knows the first key of the tile at hand and of the
//-- kStages behind it; start(n) at or beyond the end: there is none. With a bit mask, whose classes
//-- are in device memory, 32 tiles are looked up at a time, one by each lane.
//@ if features.bitmask then
// The tiles of keys that a block visits: the one at hand and kStages behind it. Those that the bits
// leave nothing of are passed over.
struct KeyTiles {
  int starts[kStages + 1];
  BlockClass classes[kStages + 1];  // by the bits alone
  int base;                         // the first key of 32 tiles under view; bits of those:
  u32 left, full;                   // not yet given out and not empty; all pairs kept

  __device__ __forceinline__ int start(int ahead) const { return starts[ahead]; }

  // class_of(j): of the tile whose first key is j. All lanes of a warp come here together.
  template <typename ClassOf>
  __device__ __forceinline__ void advance(int end, const ClassOf &class_of) {
#pragma unroll
    for (int n = 0; n < kStages; n++) starts[n] = starts[n + 1], classes[n] = classes[n + 1];
    starts[kStages] = end;
    while (!left) {
      base += 32 * kBlockN;
      if (base >= end) return;
      const int j = base + threadIdx.x % 32 * kBlockN;
      const BlockClass of_lane = j < end ? class_of(j) : kBlockEmpty;
      left = __ballot_sync(0xffffffff, of_lane != kBlockEmpty);
      full = __ballot_sync(0xffffffff, of_lane == kBlockFull);
    }
    const int first = __popc((left - 1) & ~left);  // the lowest set bit
    starts[kStages] = base + first * kBlockN;
    classes[kStages] = full >> first & 1 ? kBlockFull : kBlockPartial;
    left &= left - 1;
  }

  // Tiles begin at multiples of 64 keys or divide them, as the classes do.
  template <typename ClassOf>
  __device__ __forceinline__ void begin(int first, int end, const ClassOf &class_of) {
    base = first < end ? first / 64 * 64 - 32 * kBlockN : end;
    left = 0;
    for (int n = 0; n <= kStages; n++) advance(end, class_of);
  }
};
//@ else
// The tiles of keys that a block visits: all of its range.
struct KeyTiles {
  int j0;
  __device__ __forceinline__ int start(int ahead) const { return j0 + ahead * kBlockN; }
  __device__ __forceinline__ void advance() { j0 += kBlockN; }
};
//@ end
