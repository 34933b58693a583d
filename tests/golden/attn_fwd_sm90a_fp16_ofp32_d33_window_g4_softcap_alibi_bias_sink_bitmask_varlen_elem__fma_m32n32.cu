// attn_fwd_sm90a_fp16_ofp32_d33_window_g4_softcap_alibi_bias_sink_bitmask_varlen_elem__fma_m32n32
//
// exact attention, forward, one pass, online softmax: O = softmax(scale Q K^T) V
// made by attune 0.1.0, ABI 2, from templates/attn_fwd/fma.cu
//
// spec    {version: 1, op: attn_fwd, arch: sm_90a, dtype: {q: fp16, kv: fp16, out: fp32}, head_dim: 33, mask: window, align: elem, group: 4, features: [[softcap, alibi, bias, sink, bitmask, varlen]], family: fma, tile: {block_m: 32, block_n: 32, block_k: 0, stages: 1, warps: 4, share_kv: 0}}
// tile    32 rows of Q per block, 32 keys per iteration
// family  fp32 FMA on CUDA cores; every GPU since sm_75
// launch  128 threads a block, 23,552 bytes of shared memory, early: it waits itself for what is ahead
// grid    (floor(total_q * group / block_m) + batch) * heads_q / group
//
// shared memory                   offset       bytes
//   q    float [32][36]                0       4,608  Q; 3 floats of padding a row
//   k    float [32][36]            4,608       4,608  K; 3 floats of padding a row
//   v    float [32][64]            9,216       8,192  V; padded to whole loads
//   p    float [32][48]           17,408       6,144  P; 16 floats of padding a row
//   total                                     23,552
//
// for batch 4, heads_q 16, heads_kv 16, len_q 2048, len_k 2048, window_left 512, window_right 0:
// bytes moved            requested        compulsory
//   Q    read            8,650,752         8,650,752
//   K    read          123,002,880         8,650,752
//   V    read          123,002,880         8,650,752
//   O    written        17,301,504        17,301,504
//   LSE  written           524,288           524,288
//   BIAS read          117,669,888       117,669,888
//   BITS read          235,339,776         7,798,784
//   SLOPES read          124,780,544               256
//   SINKS read            8,388,608                64
//   CU_Q read            8,421,376                20
//   CU_K read            4,210,688                20
//   all                771,293,184       169,247,080

constexpr int kBlockM = 32;         // rows of Q per block
constexpr int kBlockN = 32;         // keys per iteration
constexpr int kBlockK = 0;          // elements of the inner dimension per step; 0: all
constexpr int kStages = 1;          // tiles of K and V in flight
constexpr int kWarps = 4;           // warps per block
constexpr int kShareKV = 0;         // 1: K and V take turns in one buffer
constexpr int kHeadDimQK = 33;      // elements of a row of Q and K
constexpr int kHeadDimV = 33;       // elements of a row of V and O
constexpr int kVecV = 4;            // floats of V per thread and load
constexpr int kBlocksPerSM = 2;     // blocks that registers allow: about 224 a thread
constexpr int kGroup = 4;           // query heads packed as rows of one tile
constexpr int kThreads = 128;       // threads per block
constexpr int kSmemBytes = 23552;   // shared memory per block

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// Elements are fp16, held as bits: NVRTC has no __half without headers.
struct elem_t {
  unsigned short bits;
};

__device__ __forceinline__ float to_float(elem_t x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
  return f;
}

// Rounds to nearest even; beyond 65504 becomes infinite.
__device__ __forceinline__ elem_t from_float(float f) {
  elem_t x;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(f));
  return x;
}

// Loads and stores that fp16 and bf16 share; elem_t, to_float and from_float stand above.
typedef elem_t q_t, kv_t;
typedef float out_t;
constexpr int kChunk = 8;  // elements in 16 bytes

// Two elements of a 32-bit word, and back. The lower address is the lower half.
__device__ __forceinline__ float low_to_float(unsigned word) {
  return to_float(elem_t{(unsigned short)word});
}
__device__ __forceinline__ float high_to_float(unsigned word) {
  return to_float(elem_t{(unsigned short)(word >> 16)});
}
__device__ __forceinline__ unsigned pack(float low, float high) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;"
      : "=r"(word)
      : "f"(high), "f"(low));
  return word;
}

// Loads kChunk elements; in one go when aligned to 16 bytes.
template <bool kAligned16>
__device__ __forceinline__ void load_chunk(const elem_t *from, float (&x)[kChunk]) {
  if constexpr (kAligned16) {
    const uint4 all = *reinterpret_cast<const uint4 *>(from);
    const unsigned word[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
    for (int w = 0; w < 4; w++) {
      x[2 * w] = low_to_float(word[w]);
      x[2 * w + 1] = high_to_float(word[w]);
    }
  } else {
#pragma unroll
    for (int e = 0; e < kChunk; e++) x[e] = to_float(from[e]);
  }
}

// Stores kCount (1, 2 or 4) neighbours; in one go when their row is aligned.
template <bool kAligned16, int kCount>
__device__ __forceinline__ void store_elems(float *to, const float (&x)[kCount]) {
  if constexpr (kAligned16 && kCount == 4) {
    *reinterpret_cast<float4 *>(to) = make_float4(x[0], x[1], x[2], x[3]);
  } else if constexpr (kAligned16 && kCount == 2) {
    *reinterpret_cast<float2 *>(to) = make_float2(x[0], x[1]);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; e++) to[e] = x[e];
  }
}

// The launch fills this block, whose C twin has the same layout. Strides are in elements.
struct Params {
  u32 size;                   // bytes of this block
  u32 abi;                    // ATTUNE_ABI of the caller
  const q_t *q;               // Q [batch, len_q, heads_q, head_dim_qk]
  const kv_t *k;              // K [batch, len_k, heads_kv, head_dim_qk]
  const kv_t *v;              // V [batch, len_k, heads_kv, head_dim_v]
  out_t *o;                   // O [batch, len_q, heads_q, head_dim_v]
  float *lse;                 // natural-log LSE [batch, heads_q, len_q], null: not wanted
  const int *seqused_q;       // queries in use per sequence [batch], null: all
  const int *seqused_k;       // keys in use per sequence [batch], null: all
  const int *cu_seqlens_q;    // varlen: first query of each sequence and total [batch + 1]
  const int *cu_seqlens_k;    // varlen: first key of each sequence and total [batch + 1]
  const float *alibi_slopes;  // alibi: slopes [batch, heads_q]
  const q_t *bias;            // bias: added to the scores [batch, heads_q, len_q, len_k]
  const float *sinks;         // sink: a logit per head in the denominator [heads_q]
  const u32 *bitmask;         // bitmask: 32 keys a word [batch, heads_q, len_q, len_k / 32]
  const unsigned char *bitmask_classes;  // bitmask: of 64 x 64 pairs 0 empty, 1 partial, 2 full; may be null
  i64 q_stride_batch;
  i64 q_stride_seq;
  i64 q_stride_head;
  i64 k_stride_batch;
  i64 k_stride_seq;
  i64 k_stride_head;
  i64 v_stride_batch;
  i64 v_stride_seq;
  i64 v_stride_head;
  i64 o_stride_batch;
  i64 o_stride_seq;
  i64 o_stride_head;
  i64 lse_stride_batch;
  i64 lse_stride_seq;
  i64 lse_stride_head;
  i64 alibi_stride_batch;
  i64 bias_stride_batch;
  i64 bias_stride_head;
  i64 bias_stride_q;
  i64 bias_stride_k;
  i64 bitmask_stride_batch;
  i64 bitmask_stride_head;
  i64 bitmask_stride_q;
  i64 bitmask_classes_stride_batch;
  i64 bitmask_classes_stride_head;
  i64 bitmask_classes_stride_q;
  int batch;                  // sequences
  int heads_q;                // query heads
  int heads_kv;               // key/value heads; heads_q is a multiple of it
  int len_q;                  // queries per sequence; varlen: of the longest
  int len_k;                  // keys per sequence; varlen: of the longest
  int total_q;                // varlen: queries of all sequences, the extent of Q and O
  int total_k;                // varlen: keys of all sequences, the extent of K and V
  float scale;                // multiplies Q K^T before the softmax; any finite number
  float softcap;              // softcap: the scaled score s becomes softcap * tanh(s / softcap); over 0
  int window_left;            // keys kept left of the diagonal, inclusive; -1: all
  int window_right;           // keys kept right of the diagonal, inclusive; -1: all
  int bottom_right;           // 1: the diagonal ends in the bottom right corner; 0: starts top left
};
static_assert(sizeof(Params) == 376, "struct Params and its C twin differ");

// Shared memory, as in the ledger above.
struct Smem {
  alignas(16) float q[32][36];      // Q; 3 floats of padding a row
  alignas(16) float k[32][36];      // K; 3 floats of padding a row
  alignas(16) float v[32][64];      // V; padded to whole loads
  alignas(16) float p[32][48];      // P; 16 floats of padding a row
};
static_assert(sizeof(Smem) == kSmemBytes, "struct Smem and the ledger differ");

// A mask is bounds on the diagonal: row i keeps key j when lower <= j - i <= upper.
struct MaskBounds {
  int lower, upper;
};
constexpr int kUnbounded = 1 << 30;  // beyond any j - i: lengths and windows stay below 2^29

// What a mask leaves of rows [i0, i1) x keys [j0, j1).
enum BlockClass { kBlockEmpty, kBlockPartial, kBlockFull };

// Keys that rows [i0, i1) see, clipped to [0, len_k): [begin, end), begin == end when none.
__device__ __forceinline__ void key_range(MaskBounds bounds, int i0, int i1, int len_k, int &begin,
                                          int &end) {
  begin = max(i0 + bounds.lower, 0);
  end = min(i1 + bounds.upper, len_k);
  if (end < begin) end = begin;
}
// Mask window: row i keeps window_left keys left of its diagonal, the diagonal, and window_right
// keys right of it; -1 leaves a side unbounded.
constexpr bool kMaskHasUpper = true;
constexpr bool kMaskHasLower = true;

__device__ __forceinline__ MaskBounds mask_bounds(int window_left, int window_right,
                                                  int bottom_right, int len_q, int len_k) {
  const int offset = bottom_right ? len_k - len_q : 0;
  return {window_left < 0 ? -kUnbounded : offset - window_left,
          window_right < 0 ? kUnbounded : offset + window_right};
}
__device__ __forceinline__ BlockClass block_class(MaskBounds bounds, int i0, int i1, int j0,
                                                  int j1) {
  const int lowest = j0 - (i1 - 1), highest = j1 - 1 - i0;  // of j - i within the block
  if (highest < bounds.lower || lowest > bounds.upper) return kBlockEmpty;
  return lowest >= bounds.lower && highest <= bounds.upper ? kBlockFull : kBlockPartial;
}
__device__ __forceinline__ bool keep(MaskBounds bounds, int i, int j) {
  return j - i >= bounds.lower && j - i <= bounds.upper;
}

// Softmax arithmetic. Exponentials are powers of two, the GPU's native kind; a running maximum starts
// at the lowest finite float instead of -inf, so that no difference of two of them is NaN.
constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;
constexpr float kLowest = -3.40282347e38f;

__device__ __forceinline__ float negative_infinity() { return __int_as_float(0xff800000); }

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / sum of a row, off by one ulp at most; 0 for a row that sees no key, whose O becomes 0.
__device__ __forceinline__ float row_factor(float sum) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(sum));
  return sum == 0 ? 0 : y;
}

// Natural-log LSE of a row: sum of 2^(x - max) with max in units of log2. Off by 2^-22 or two ulp of
// log(sum); -inf for a row that sees no key.
__device__ __forceinline__ float row_lse(float max_log2, float sum) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(sum));
  return fmaf(max_log2, kLn2, y * kLn2);
}

// Maximum and sum over groups of kLanes neighbouring lanes; every lane gets the result. The order
// is fixed, so that two runs agree bit for bit.
template <int kLanes>
__device__ __forceinline__ float lanes_max(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
  return x;
}
template <int kLanes>
__device__ __forceinline__ float lanes_sum(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffff, x, step);
  return x;
}

// Where a block works: rows of Q of the query heads that share its tile, in one sequence. Row r is
// query r / kGroup of head head_q + r % kGroup; rows [row0, row1) are the tile's, none when row0 is
// not below row1. Tiles come fastest, so that blocks that run together share K and V in L2; under a
// mask with an upper bound the longest rows start first, so that the last blocks are short.
struct Place {
  i64 token_q, token_k;  // of the sequence's first query and key in the packed tensors
  int sequence, head_q, head_kv;
  int row0, row1;
  int len_q, len_k;  // in use
};

__device__ __forceinline__ int ceil_div(int n, int d) { return (n - 1) / d + 1; }

__device__ __forceinline__ int clamp(int n, int low, int high) { return min(max(n, low), high); }

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

// Of a sequence's `length` rows those in use.
__device__ __forceinline__ int in_use(const int *seqused, int sequence, int length) {
  return clamp(seqused ? seqused[sequence] : kUnbounded, 0, length);
}

// The place of a block in the sequence that is its tile's.
__device__ __forceinline__ Place place_in(const Params &params, unsigned index, int sequence,
                                          int batch, int heads_q, int heads_kv, int len_q,
                                          int len_k, int total_q, int total_k) {
  Place place;
  place.sequence = sequence;
  const int *cu_q = params.cu_seqlens_q + sequence, *cu_k = params.cu_seqlens_k + sequence;
  const int begin_q = cu_q[0], end_q = cu_q[1];
  const int first = begin_q * kGroup / kBlockM + sequence;
  const unsigned tiles = total_q * kGroup / kBlockM + batch;
  const int heads = index / tiles;
  int tile = index % tiles - first;
  len_q = packed_length(begin_q, end_q, total_q, place.token_q);
  len_k = packed_length(cu_k[0], cu_k[1], total_k, place.token_k);
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

__device__ __forceinline__ Place place_of(const Params &params, unsigned index, int batch,
                                          int heads_q, int heads_kv, int len_q, int len_k,
                                          int total_q, int total_k) {
  const unsigned tiles = total_q * kGroup / kBlockM + batch;
  const int sequence = sequence_of(params.cu_seqlens_q, batch, index % tiles);
  return place_in(params, index, sequence, batch, heads_q, heads_kv, len_q, len_k, total_q,
                  total_k);
}

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
  tensor += place.token_q * stride_seq;
  return {tensor + place.head_q * stride_head, stride_seq, stride_head};
}

// The first key of the place in K or V.
__device__ __forceinline__ const kv_t *first_key(const Place &place, const kv_t *tensor,
                                                 i64 stride_batch, i64 stride_seq,
                                                 i64 stride_head) {
  tensor += place.token_k * stride_seq;
  return tensor + place.head_kv * stride_head;
}

// A bit for each pair beside the mask's bounds: the pair is kept when both keep it.
__device__ __forceinline__ const u32 *row_bits(const Params &params, const Place &place, int row) {
  row = min(row, place.row1 - 1);
  return params.bitmask + place.sequence * params.bitmask_stride_batch +
         (place.head_q + row % kGroup) * params.bitmask_stride_head +
         row / kGroup * params.bitmask_stride_q;
}

__device__ __forceinline__ bool keep_bit(const u32 *bits, int j) {
  return bits[j / 32u] >> (j % 32u) & 1;
}

// What the bits leave of queries [i0, i1) x keys [j0, j1), by the classes of 64 x 64 pairs; partial
// where there are none.
__device__ __forceinline__ BlockClass bits_class(const Params &params, const Place &place, int i0,
                                                 int i1, int j0, int j1) {
  if (!params.bitmask_classes) return kBlockPartial;
  const unsigned char *classes = params.bitmask_classes +
                                 place.sequence * params.bitmask_classes_stride_batch +
                                 place.head_q * params.bitmask_classes_stride_head;
  bool some = false, all = true;
  for (int head = 0; head < kGroup; head++)
    for (int m = i0 / 64; m <= (i1 - 1) / 64; m++)
      for (int n = j0 / 64; n <= (j1 - 1) / 64; n++) {
        const unsigned char seen = classes[head * params.bitmask_classes_stride_head +
                                           m * params.bitmask_classes_stride_q + n];
        some |= seen != 0, all &= seen == 2;
      }
  return !some ? kBlockEmpty : all ? kBlockFull : kBlockPartial;
}

// 1 - 2 / (e^(2x) + 1): off by about 2^-22 of the softcap, far below a step of 16 bits. The GPU's own
// tanh.approx is off by 2^-11.
__device__ __forceinline__ float tanh_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(exp2_approx(x * (2 * kLog2e)) + 1));
  return fmaf(-2, y, 1);
}
// A bias as a float. Finite ones end at -1e38: in units of log2 they stay finite, so that a row
// whose biases are all the lowest number has an even softmax, and one of -inf alone is empty.
__device__ __forceinline__ float bias_of(q_t x) {
  const float bias = to_float(x);
  return bias == negative_infinity() ? bias : fmaxf(bias, -1e38f);
}

constexpr bool kScored = true;

// Scores come in units of log2 where features make them, else without the scale. So a product and a
// maximum are rounded alike even where a bias is huge.
constexpr float kScoreOne = kLog2e;
__device__ __forceinline__ float score_unit(float scale) {
  return kScored ? kLog2e / kScoreOne : fabsf(scale) * kLog2e;
}

// What the score of a pair takes from its row.
struct RowScore {
  const q_t *bias;  // of the row and key 0
  float slope;   // of the row's head, times kScoreOne
  int diagonal;  // the key at distance 0
};

__device__ __forceinline__ RowScore row_score(const Params &params, const Place &place, int row,
                                              int bottom_right) {
  RowScore of;
  row = min(row, place.row1 - 1);
  const int i = row / kGroup, head = place.head_q + row % kGroup;
  of.bias = params.bias + place.sequence * params.bias_stride_batch + head * params.bias_stride_head +
            i * params.bias_stride_q;
  of.slope = params.alibi_slopes[place.sequence * params.alibi_stride_batch + head] * kScoreOne;
  of.diagonal = i + (bottom_right ? place.len_k - place.len_q : 0);
  return of;
}

// The same from the pair's bias and j - row.diagonal, where a family has them at hand.
__device__ __forceinline__ float score_of(const RowScore &row, float s, float bias, float distance,
                                          float scale, float softcap) {
  const float unit = softcap * kScoreOne;
  s = tanh_of(s * (fabsf(scale) / softcap));
  s = fmaf(s, unit, bias * kScoreOne);
  s -= row.slope * fabsf(distance);
  return s;
}

__device__ __forceinline__ float score(const RowScore &row, float s, int j, float scale,
                                       float softcap, i64 bias_stride_k) {
  float bias = 0, distance = 0;
  bias = bias_of(row.bias[j * bias_stride_k]);
  distance = j - row.diagonal;
  return score_of(row, s, bias, distance, scale, softcap);
}

// Tiles between device memory and the threads. In shared memory they are float whatever the dtype.
constexpr bool kAligned = false;  // rows begin at multiples of 16 bytes

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

// Products of tiles in shared memory. A thread keeps its part of the result in registers and reads
// both operands four floats at a time. Loops are unrolled to about kUnrolledFmas multiply-adds: with
// more, the compiler loads ahead into so many registers that fewer blocks fit an SM.
constexpr int kUnrolledFmas = 128;

template <int kFmas>
constexpr int kStepsUnrolled = kFmas < kUnrolledFmas ? kUnrolledFmas / kFmas : 1;

template <int kCount>
__device__ __forceinline__ void read(float (&x)[kCount], const float *from) {
  if constexpr (kCount == 4) {
    const float4 all = *reinterpret_cast<const float4 *>(from);
    x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
  } else if constexpr (kCount == 2) {
    const float2 all = *reinterpret_cast<const float2 *>(from);
    x[0] = all.x, x[1] = all.y;
  } else {
    x[0] = *from;
  }
}

// s += A B^T: s[i][j] gets row tile_row(i) of A, from column kFrom on, times row tile_column(j) of B,
// kDepth long.
template <int kDepth, int kFrom = 0, int kRows, int kColumns, int kTileM, int kPitchA, int kTileN, int kPitchB>
__device__ __forceinline__ void add_product_abt(float (&s)[kRows][kColumns],
                                                const float (&a)[kTileM][kPitchA],
                                                const float (&b)[kTileN][kPitchB]) {
#pragma unroll kStepsUnrolled<kRows * kColumns * 4>
  for (int d = 0; d < kDepth; d += 4) {
    float x[kRows][4], y[kColumns][4];
#pragma unroll
    for (int i = 0; i < kRows; i++) read(x[i], &a[tile_row(i)][kFrom + d]);
#pragma unroll
    for (int j = 0; j < kColumns; j++) read(y[j], &b[tile_column(j)][d]);
#pragma unroll
    for (int e = 0; e < 4; e++)
#pragma unroll
      for (int i = 0; i < kRows; i++)
#pragma unroll
        for (int j = 0; j < kColumns; j++) s[i][j] = fmaf(x[i][e], y[j][e], s[i][j]);
  }
}

// o += A B: o[i][kFirst + g][e] gets row tile_row(i) of A, kDepth long, times column
// tile_column(g) * kVec + e of B, of which kCount groups are in use (0: all of o).
template <int kDepth, int kFirst = 0, int kCount = 0, int kRows, int kGroups, int kVec, int kTileM,
          int kPitchA, int kTileN, int kPitchB>
__device__ __forceinline__ void add_product_ab(float (&o)[kRows][kGroups][kVec],
                                               const float (&a)[kTileM][kPitchA],
                                               const float (&b)[kTileN][kPitchB]) {
  constexpr int kUsed = kCount ? kCount : kGroups;
#pragma unroll kStepsUnrolled<kRows * kUsed * kVec * 4>
  for (int n = 0; n < kDepth; n += 4) {
    float x[kRows][4];
#pragma unroll
    for (int i = 0; i < kRows; i++) read(x[i], &a[tile_row(i)][n]);
#pragma unroll
    for (int step = 0; step < 4; step++)
#pragma unroll
      for (int g = 0; g < kUsed; g++) {
        float y[kVec];
        read(y, &b[n + step][tile_column(g) * kVec]);
#pragma unroll
        for (int i = 0; i < kRows; i++)
#pragma unroll
          for (int e = 0; e < kVec; e++)
            o[i][kFirst + g][e] = fmaf(x[i][step], y[e], o[i][kFirst + g][e]);
      }
  }
}

// Rows of O in registers, as add_product_ab leaves them: kGroupsV groups of kVecV columns a row.
constexpr int kGroupsV = (kHeadDimV + kLanesN * kVecV - 1) / (kLanesN * kVecV);

// Stores the thread's part of the rows of a place. Columns beyond kHeadDimV are padding of the tile
// of V: they were computed from its zeros, and end here.
__device__ __forceinline__ void store_output(
    const QueryRows<out_t> &to, const Place &place,
    const float (&o)[kRowsPerThread][kGroupsV][kVecV]) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    const int row = place.row0 + tile_row(i);
    if (row >= place.row1) continue;
    out_t *of_row = to.at(row);
#pragma unroll
    for (int g = 0; g < kGroupsV; g++) {
      const int column = tile_column(g) * kVecV;
      if constexpr (kHeadDimV % kVecV == 0) {
        if (column < kHeadDimV) store_elems<kAligned>(of_row + column, o[i][g]);
      } else {
#pragma unroll
        for (int e = 0; e < kVecV; e++) {
          const float one[1] = {o[i][g][e]};
          if (column + e < kHeadDimV) store_elems<kAligned>(of_row + column + e, one);
        }
      }
    }
  }
}

// What the threads know of their rows after some keys: sum and o are relative to 2^max. A thread
// sums its own columns only; the lanes of a row are added up once, at the end.
struct Rows {
  float max[kRowsPerThread], sum[kRowsPerThread], o[kRowsPerThread][kGroupsV][kVecV];
};

__device__ __forceinline__ void clear(Rows &rows) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    rows.max[i] = kLowest, rows.sum[i] = 0;
#pragma unroll
    for (int g = 0; g < kGroupsV; g++)
#pragma unroll
      for (int e = 0; e < kVecV; e++) rows.o[i][g][e] = 0;
  }
}

// A sink is a key without a value: it takes part in a row's maximum and sum (max in units of log2, sum
// relative to 2^max). Returns what the row's O must be multiplied by.
__device__ __forceinline__ float add_sink(float sink, float &max, float &sum) {
  const float raised = fmaxf(max, sink * kLog2e), factor = exp2_approx(max - raised);
  max = raised;
  sum = fmaf(sum, factor, exp2_approx(sink * kLog2e - raised));
  return factor;
}

// O /= sum and LSE = max + log(sum), to device memory
__device__ __forceinline__ void store_rows(const Params &params, const Place &place, Rows &rows) {
  const QueryRows<float> lse = query_rows(place, params.lse, params.lse_stride_batch,
                                          params.lse_stride_seq, params.lse_stride_head);
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    const int row = place.row0 + tile_row(i);
    float sum = lanes_sum<kLanesN>(rows.sum[i]);
    const bool seen = sum != 0;  // some key: else O is 0 even where V is NaN
    const float sink = params.sinks[place.head_q + min(row, place.row1 - 1) % kGroup];
    const float raised = add_sink(sink, rows.max[i], sum), factor = raised * row_factor(sum);
#pragma unroll
    for (int g = 0; g < kGroupsV; g++)
#pragma unroll
      for (int e = 0; e < kVecV; e++) rows.o[i][g][e] = seen ? rows.o[i][g][e] * factor : 0;
    if (params.lse && lane_n() == 0 && row < place.row1) *lse.at(row) = row_lse(rows.max[i], sum);
  }
  store_output(query_rows(place, params.o, params.o_stride_batch, params.o_stride_seq,
                          params.o_stride_head),
               place, rows.o);
}

constexpr int kColumnsPerThread = kBlockN / kLanesN;

// K and V in buffers of their own: both are loaded at once.
// S += Q K^T of `keys` keys
__device__ __forceinline__ void add_scores(float (&s)[kRowsPerThread][kColumnsPerThread], Smem &smem,
                                           const kv_t *k, i64 k_stride, const kv_t *v, i64 v_stride,
                                           int keys) {
  load_tile<kHeadDimQK>(smem.k, k, k_stride, keys);
  load_tile<kHeadDimV>(smem.v, v, v_stride, keys);
  __syncthreads();
  add_product_abt<kHeadDimQK>(s, smem.q, smem.k);
}

// O += P V: rows of P are written and read by the same half of a warp.
__device__ __forceinline__ void add_output(Rows &rows, Smem &smem, const kv_t *, i64, int) {
  __syncwarp();
  add_product_ab<kBlockN>(rows.o, smem.p, smem.v);
}

// Gives a thread's row i the maximum of what it knew and of `largest`.
__device__ __forceinline__ void raise_max(Rows &rows, int i, float largest) {
  const float raised = fmaxf(rows.max[i], largest);
  const float factor = exp2_approx(rows.max[i] - raised);
  rows.max[i] = raised;
  rows.sum[i] *= factor;
#pragma unroll
  for (int g = 0; g < kGroupsV; g++)
#pragma unroll
    for (int e = 0; e < kVecV; e++) rows.o[i][g][e] *= factor;
}

// P = 2^(unit S - max) in the place of S, and its sum. kMasked: some pairs of the block are not
// seen. They are replaced before any arithmetic, since K may hold NaN there, and replaced again
// after the exponential, since -inf * 0 is NaN when the scale is 0.
template <bool kMasked>
__device__ __forceinline__ void online_softmax(float (&s)[kRowsPerThread][kColumnsPerThread],
                                               Rows &rows, float unit, MaskBounds bounds,
                                               const Params &params, const Place &place, int j0,
                                               int j_end, float scale, float softcap, int bottom_right) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    const int row = place.row0 + tile_row(i);
    const u32 *bits = row_bits(params, place, row);
    const RowScore of_row = row_score(params, place, row, bottom_right);
    float largest = negative_infinity();
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++) {
      const int key = j0 + tile_column(c);
      if (kMasked && !(key < j_end && keep(bounds, row / kGroup, key) && keep_bit(bits, key)))
        s[i][c] = negative_infinity();
      else
        s[i][c] = score(of_row, s[i][c], key, scale, softcap, params.bias_stride_k);
      largest = fmaxf(largest, s[i][c]);
    }
    raise_max(rows, i, lanes_max<kLanesN>(largest) * unit);
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++) {
      const bool seen = !kMasked || s[i][c] != negative_infinity();
      s[i][c] = seen ? exp2_approx(fmaf(s[i][c], unit, -rows.max[i])) : 0;
      rows.sum[i] += s[i][c];
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSM)
    attn_fwd_sm90a_fp16_ofp32_d33_window_g4_softcap_alibi_bias_sink_bitmask_varlen_elem__fma_m32n32(const __grid_constant__ Params params) {
  extern __shared__ __align__(16) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  const int batch = params.batch;
  const int heads_q = params.heads_q;
  const int heads_kv = params.heads_kv;
  const int len_q = params.len_q;
  const int len_k = params.len_k;
  const int total_q = params.total_q;
  const int total_k = params.total_k;
  const float scale = params.scale;
  const float softcap = params.softcap;
  const int window_left = params.window_left;
  const int window_right = params.window_right;
  const int bottom_right = params.bottom_right;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");

  // Which rows, and which keys they see
  const Place place = place_of(params, blockIdx.x, batch, heads_q, heads_kv, len_q, len_k, total_q,
                               total_k);
  if (place.row0 >= place.row1) return;
  const int i0 = place.row0 / kGroup, i1 = (place.row1 - 1) / kGroup + 1;  // queries
  const MaskBounds bounds =
      mask_bounds(window_left, window_right, bottom_right, place.len_q, place.len_k);
  int j_begin, j_end;
  key_range(bounds, i0, i1, place.len_k, j_begin, j_end);
  const QueryRows<const q_t> q = query_rows(place, params.q, params.q_stride_batch,
                                            params.q_stride_seq, params.q_stride_head);
  const kv_t *k = first_key(place, params.k, params.k_stride_batch, params.k_stride_seq,
                            params.k_stride_head);
  const kv_t *v = first_key(place, params.v, params.v_stride_batch, params.v_stride_seq,
                            params.v_stride_head);

  // The sign of the scale goes into Q, so that the largest score of a row is always the one that
  // counts most; its size, in units of log2, into the exponent.
  load_rows<kHeadDimQK>(
      smem.q, [&](int row) { return q.at(place.row0 + row); }, place.row1 - place.row0,
      scale < 0 ? -1.0f : 1.0f);
  const float unit = score_unit(scale);
  clear_padding<kHeadDimV>(smem.v);

  Rows rows;
  clear(rows);
  for (int j0 = j_begin; j0 < j_end; j0 += kBlockN) {
    const int j1 = min(j0 + kBlockN, j_end);
    const BlockClass bits = bits_class(params, place, i0, i1, j0, j1);
    const BlockClass bounded = block_class(bounds, i0, i1, j0, j1);
    const BlockClass seen = bits < bounded ? bits : bounded;
    if (seen == kBlockEmpty) continue;

    // S = Q K^T
    float s[kRowsPerThread][kColumnsPerThread] = {};
    const kv_t *k_here = k + j0 * params.k_stride_seq, *v_here = v + j0 * params.v_stride_seq;
    add_scores(s, smem, k_here, params.k_stride_seq, v_here, params.v_stride_seq, j1 - j0);

    // P = exp(scale S - max), in registers
    if (seen == kBlockFull && j1 - j0 == kBlockN)
      online_softmax<false>(s, rows, unit, bounds, params, place, j0, j_end, scale, softcap, bottom_right);
    else
      online_softmax<true>(s, rows, unit, bounds, params, place, j0, j_end, scale, softcap, bottom_right);

    // P to shared memory
#pragma unroll
    for (int i = 0; i < kRowsPerThread; i++)
#pragma unroll
      for (int c = 0; c < kColumnsPerThread; c++) smem.p[tile_row(i)][tile_column(c)] = s[i][c];

    // O += P V
    add_output(rows, smem, v_here, params.v_stride_seq, j1 - j0);
    __syncthreads();
  }
  store_rows(params, place, rows);
}
