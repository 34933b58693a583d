// Tiles between device memory and the threads. In shared memory they are float whatever the dtype.
constexpr bool kAligned = $(align == "16b");  // rows begin at multiples of 16 bytes

// A block's threads as 16 lanes across columns (half a warp) by kLanesM rows of lanes. A thread owns
// rows tile_row(0 ..) of a tile, a float4's worth of columns at a time.
constexpr int kLanesN = 16;
constexpr int kLanesM = kThreads / kLanesN;
constexpr int kRowsPerThread = kBlockM / kLanesM;

__device__ __forceinline__ int lane_n() { return threadIdx.x % kLanesN; }
__device__ __forceinline__ int lane_m() { return threadIdx.x / kLanesN; }
__device__ __forceinline__ int tile_row(int i) { return i * kLanesM + lane_m(); }
__device__ __forceinline__ int tile_column(int j) { return j * kLanesN + lane_n(); }

// Products read rows in whole vectors of 4 floats: the columns that loads fill, of kColumns.
template <int kColumns>
constexpr int kWholeVectors = (kColumns + 3) / 4 * 4;

// Zeroes the columns that loads of kColumns leave alone, since products read beyond them. Once is
// enough; the threads do not wait for each other here.
template <int kColumns, int kRows, int kPitch>
__device__ __forceinline__ void clear_padding(float (&tile)[kRows][kPitch]) {
  constexpr int kFilled = kWholeVectors<kColumns>, kPadding = kPitch - kFilled;
  if constexpr (kPadding > 0) {
    for (int index = threadIdx.x; index < kRows * kPadding; index += kThreads)
      tile[index / kPadding][kFilled + index % kPadding] = 0;
  }
}

// Loads `rows` rows of kColumns elements, row r from from(r), times `factor`, and zeroes the tile's
// other rows: nothing beyond `rows` is read, and products with the tile stay finite. Neighbouring
// threads load neighbouring chunks of 16 bytes.
template <int kColumns, int kRows, int kPitch, typename From>
__device__ __forceinline__ void load_rows(float (&tile)[kRows][kPitch], const From &from, int rows,
                                          float factor = 1) {
  constexpr int kChunks = (kColumns + kChunk - 1) / kChunk;  // of a row
  constexpr int kSteps = (kRows * kChunks + kThreads - 1) / kThreads;
#pragma unroll 4
  for (int step = 0; step < kSteps; step++) {
    const unsigned index = step * kThreads + threadIdx.x;
    if (kRows * kChunks % kThreads != 0 && index >= kRows * kChunks) break;
    const int row = index / kChunks, column = index % kChunks * kChunk;
    float x[kChunk] = {};
    if (row < rows) {
      if constexpr (kColumns % kChunk == 0) {
        load_chunk<kAligned>(from(row) + column, x);
      } else {
#pragma unroll
        for (int e = 0; e < kChunk; e++)
          if (column + e < kColumns) x[e] = to_float(from(row)[column + e]);
      }
    }
#pragma unroll
    for (int e = 0; e < kChunk; e += 4) {
      if (kWholeVectors<kColumns> % kChunk != 0 && column + e >= kColumns) break;
      *reinterpret_cast<float4 *>(&tile[row][column + e]) = make_float4(
          x[e] * factor, x[e + 1] * factor, x[e + 2] * factor, x[e + 3] * factor);
    }
  }
}

// The same of rows `stride` elements apart.
template <int kColumns, int kRows, int kPitch>
__device__ __forceinline__ void load_tile(float (&tile)[kRows][kPitch], const elem_t *from,
                                          i64 stride, int rows, float factor = 1) {
  load_rows<kColumns>(tile, [=](int row) { return from + row * stride; }, rows, factor);
}
