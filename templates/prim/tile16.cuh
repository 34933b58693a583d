// Tiles of 16-bit elements in shared memory. A row is kPitch elements, an even number of 16-byte
// chunks; columns beyond those in use are zeros. Chunk c of row r lies in place c ^ swizzle(r), so
// that one chunk of each of 8 neighbouring rows, which ldmatrix reads at once, hits all banks.
template <int kPitch>
constexpr unsigned kSpan = kPitch / kChunk % 8 == 0 ? 8 : kPitch / kChunk % 4 == 0 ? 4 : 2;

template <int kPitch>
__device__ __forceinline__ unsigned swizzle(unsigned row) {
  return row / (8 / kSpan<kPitch>) % kSpan<kPitch>;
}

template <int kPitch>
__device__ __forceinline__ u32 chunk_address(u32 tile, unsigned row, unsigned chunk) {
  return tile + row * (kPitch * (u32)sizeof(elem_t)) + ((chunk ^ swizzle<kPitch>(row)) * 16);
}

// From the address of a chunk, one of the first of its row, that of the chunk so many behind it whose
// number has no bit in common with its own. Tiles begin at multiples of 128 bytes, so that the bits
// that the swizzle changes are the address's own.
template <int kPitch>
__device__ __forceinline__ u32 chunks_behind(u32 at, unsigned chunks) {
  return (at ^ (chunks % kSpan<kPitch> * 16)) + chunks / kSpan<kPitch> * (kSpan<kPitch> * 16);
}

// How threads share the copy of a tile. As many lanes as the largest power of two that divides a
// row's chunks take a row, whose copies then meet no bank twice; a thread has every kRowsAtOnce-th
// row, and of it every kLanes-th chunk.
template <int kPitch>
struct Sharing {
  static constexpr unsigned kChunks = kPitch / kChunk, kLanes = kChunks & -kChunks;
  static constexpr unsigned kRowsAtOnce = kThreads / kLanes;
};

// Starts the copy of rows first .. rows - 1 of kColumns elements; the tile's other rows and columns
// become zeros: nothing beyond is read, and products with the tile stay finite.
template <int kRows, int kColumns, int kPitch>
__device__ __forceinline__ void load_tile(u32 tile, const elem_t *from, i64 stride, int rows,
                                          int first = 0) {
  using By = Sharing<kPitch>;
  const unsigned thread = again(threadIdx.x), lane = thread % By::kLanes;
  unsigned row = thread / By::kLanes;
  from += row * stride + lane * kChunk;
#pragma unroll
  for (int above = 0; above < kRows; above += By::kRowsAtOnce) {
    if (kRows % By::kRowsAtOnce != 0 && row >= kRows) break;
#pragma unroll
    for (unsigned step = 0; step < By::kChunks; step += By::kLanes) {
      const bool inside = row - first < (unsigned)(rows - first) &&
                          (kColumns == kPitch || lane + step < kColumns / kChunk);
      copy_chunk(chunk_address<kPitch>(tile, row, lane + step), from + step * kChunk, inside);
    }
    row += By::kRowsAtOnce, from += By::kRowsAtOnce * stride;
  }
}

// The same of rows from row0 on that lie as `from` says, once.
template <int kRows, int kColumns, int kPitch, typename From>
__device__ __forceinline__ void load_rows(u32 tile, const From &from, int row0, int rows) {
  using By = Sharing<kPitch>;
  for (unsigned row = threadIdx.x / By::kLanes; row < kRows; row += By::kRowsAtOnce) {
    const elem_t *row_from = from.at(row0 + row);
#pragma unroll
    for (unsigned step = 0; step < By::kChunks; step += By::kLanes) {
      const unsigned chunk = step + threadIdx.x % By::kLanes;
      const bool inside = (int)row < rows && (kColumns == kPitch || chunk < kColumns / kChunk);
      copy_chunk(chunk_address<kPitch>(tile, row, chunk), row_from + chunk * kChunk, inside);
    }
  }
}

// Changes the sign of what a thread has copied into a tile; its copies must be there.
template <int kRows, int kPitch>
__device__ __forceinline__ void negate_tile(elem_t (*tile)[kPitch]) {
  using By = Sharing<kPitch>;
  for (unsigned row = threadIdx.x / By::kLanes; row < kRows; row += By::kRowsAtOnce)
    for (unsigned at = threadIdx.x % By::kLanes; at < By::kChunks; at += By::kLanes) {
      const unsigned place = (at ^ swizzle<kPitch>(row)) * kChunk;
      uint4 &all = *reinterpret_cast<uint4 *>(&tile[row][place]);
      all = make_uint4(all.x ^ 0x80008000, all.y ^ 0x80008000, all.z ^ 0x80008000,
                       all.w ^ 0x80008000);
    }
}
