// attn_fwd_sm90a_bf16_d128_causal__mma_m128n32s3
//
// exact attention, forward, one pass, online softmax: O = softmax(scale Q K^T) V
// made by attune 0.1.0, ABI 2, from templates/attn_fwd/mma.cu
//
// spec    {version: 1, op: attn_fwd, arch: sm_90a, dtype: bf16, head_dim: 128, mask: causal, family: mma, tile: {block_m: 128, block_n: 32, block_k: 0, stages: 3, warps: 4, share_kv: 0}}
// tile    128 rows of Q per block, 32 keys per iteration, 3 tiles of K and V in flight
// family  16-bit mma.sync on tensor cores; fp16 since sm_75, bf16 since sm_80
// launch  128 threads a block, 81,920 bytes of shared memory, early: it waits itself for what is ahead
// grid    ceil(len_q * group / block_m) * heads_q / group * batch
//
// shared memory                   offset       bytes
//   q    elem_t [128][128]             0      32,768  Q; chunks swizzled
//   k    elem_t [96][128]         32,768      24,576  K, a tile a stage
//   v    elem_t [96][128]         57,344      24,576  V, a tile a stage
//   total                                     81,920
//
// for batch 4, heads_q 16, heads_kv 16, len_q 2048, len_k 2048:
// bytes moved            requested        compulsory
//   Q    read           33,554,432        33,554,432
//   K    read          285,212,672        33,554,432
//   V    read          285,212,672        33,554,432
//   O    written        33,554,432        33,554,432
//   LSE  written           524,288           524,288
//   all                638,058,496       134,742,016

constexpr int kBlockM = 128;        // rows of Q per block
constexpr int kBlockN = 32;         // keys per iteration
constexpr int kBlockK = 0;          // elements of the inner dimension per step; 0: all
constexpr int kStages = 3;          // tiles of K and V in flight
constexpr int kWarps = 4;           // warps per block
constexpr int kShareKV = 0;         // 1: K and V take turns in one buffer
constexpr int kHeadDimQK = 128;     // elements of a row of Q and K
constexpr int kHeadDimV = 128;      // elements of a row of V and O
constexpr int kSplit = 1;           // warps that own the same rows
constexpr int kQInRegisters = 0;    // 1: Q is read from the tile once
constexpr int kBlocksPerSM = 2;     // blocks that registers allow: about 224 a thread
constexpr int kGroup = 1;           // query heads packed as rows of one tile
constexpr int kThreads = 128;       // threads per block
constexpr int kSmemBytes = 81920;   // shared memory per block

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// Elements are bf16, the upper half of a float's bits.
struct elem_t {
  unsigned short bits;
};

__device__ __forceinline__ float to_float(elem_t x) {
  return __uint_as_float((unsigned)x.bits << 16);
}

// Rounds to nearest even.
__device__ __forceinline__ elem_t from_float(float f) {
  elem_t x;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(x.bits) : "f"(f));
  return x;
}

// Loads and stores that fp16 and bf16 share; elem_t, to_float and from_float stand above.
typedef elem_t q_t, kv_t;
typedef elem_t out_t;
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
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
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

// Rounds and stores kCount (1, 2 or 4) neighbours; in one go when their row is aligned.
template <bool kAligned16, int kCount>
__device__ __forceinline__ void store_elems(elem_t *to, const float (&x)[kCount]) {
  if constexpr (kAligned16 && kCount == 4) {
    *reinterpret_cast<uint2 *>(to) = make_uint2(pack(x[0], x[1]), pack(x[2], x[3]));
  } else if constexpr (kAligned16 && kCount == 2) {
    *reinterpret_cast<unsigned *>(to) = pack(x[0], x[1]);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; e++) to[e] = from_float(x[e]);
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
  alignas(128) elem_t q[128][128];  // Q; chunks swizzled
  alignas(128) elem_t k[96][128];   // K, a tile a stage
  alignas(128) elem_t v[96][128];   // V, a tile a stage
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
// Mask causal: row i keeps keys up to its diagonal, which starts in the top left corner or ends in
// the bottom right one.
constexpr bool kMaskHasUpper = true;
constexpr bool kMaskHasLower = false;

__device__ __forceinline__ MaskBounds mask_bounds(int, int, int bottom_right, int len_q,
                                                  int len_k) {
  return {-kUnbounded, bottom_right ? len_k - len_q : 0};
}
__device__ __forceinline__ BlockClass block_class(MaskBounds bounds, int i0, int i1, int j0,
                                                  int j1) {
  if (j0 - (i1 - 1) > bounds.upper) return kBlockEmpty;
  return j1 - 1 - i0 <= bounds.upper ? kBlockFull : kBlockPartial;
}
__device__ __forceinline__ bool keep(MaskBounds bounds, int i, int j) {
  return j - i <= bounds.upper;
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
  int sequence, head_q, head_kv;
  int row0, row1;
  int len_q, len_k;  // in use
};

__device__ __forceinline__ int ceil_div(int n, int d) { return (n - 1) / d + 1; }

__device__ __forceinline__ int clamp(int n, int low, int high) { return min(max(n, low), high); }

// Of a sequence's `length` rows those in use.
__device__ __forceinline__ int in_use(const int *seqused, int sequence, int length) {
  return clamp(seqused ? seqused[sequence] : kUnbounded, 0, length);
}

__device__ __forceinline__ Place place_of(const Params &params, unsigned index, int batch,
                                          int heads_q, int heads_kv, int len_q, int len_k,
                                          int total_q, int total_k) {
  Place place;
  const unsigned tiles = ceil_div(len_q * kGroup, kBlockM), all_heads = heads_q / kGroup;
  const unsigned rest = index / tiles;
  const int heads = rest % all_heads;
  int tile = index % tiles;
  place.sequence = rest / all_heads;
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
  tensor += place.sequence * stride_batch;
  return {tensor + place.head_q * stride_head, stride_seq, stride_head};
}

// The first key of the place in K or V.
__device__ __forceinline__ const kv_t *first_key(const Place &place, const kv_t *tensor,
                                                 i64 stride_batch, i64 stride_seq,
                                                 i64 stride_head) {
  tensor += place.sequence * stride_batch;
  return tensor + place.head_kv * stride_head;
}

// Shared memory by address.
__device__ __forceinline__ u32 shared_address(const void *at) {
  return (u32)__cvta_generic_to_shared(at);
}

// Copies of 16 bytes from device to shared memory.

// The same number, of which the compiler knows nothing. In a loop, what follows from it is computed
// where it is used: the compiler would do it before the loop, at a register for each address.
template <typename Number>
__device__ __forceinline__ Number again(Number x) {
  asm volatile("" : "+r"(x));
  return x;
}

// The copies run beside the threads, in groups: a thread commits what it has issued as a group, and
// waits until all but its last kGroups groups are there. Others see them after a barrier. What is
// not `inside` becomes zeros and is not read.
__device__ __forceinline__ void copy_chunk(u32 to, const elem_t *from, bool inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kGroups>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

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

// Four lanes of a warp share a row of what the tensor cores accumulate: of each group of 8 columns a
// lane has two, which rounded are a word.
__device__ __forceinline__ unsigned lane() { return threadIdx.x % 32; }

// Neighbouring lanes swap words of two groups, so that a quad stores 32 bytes at a time: an even lane
// has four columns of the left group then, an odd one of the right, from column lane % 4 / 2 * 4 on.
__device__ __forceinline__ uint2 swap_words(u32 left, u32 right) {
  const bool odd = lane() % 2;
  const u32 got = __shfl_xor_sync(0xffffffff, odd ? left : right, 1);
  return odd ? make_uint2(got, right) : make_uint2(left, got);
}

// Matrices as the tensor cores want them in a warp's registers. With g = lane / 4, t = lane % 4:
//   A, 16 x 16 in 4 words   rows g and g + 8, columns 2t, 2t + 1; then the same 8 columns on
//   B, 16 x 8 in 2 words    rows 2t, 2t + 1; then the same 8 rows on; column g
//   C, 16 x 8 in 4 floats   row g, columns 2t, 2t + 1; then row g + 8
// So two C beside each other, rounded and packed, are an A. Needs lane of prim/quad.cuh.

// Four 8 x 8 matrices; lanes 8 i .. 8 i + 7 give the addresses of the rows of the i-th.
__device__ __forceinline__ void load_matrices(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_transposed(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}

// Where a lane's addresses for load_matrices begin; chunks_behind gives those of the columns behind,
// and 16 rows on they are 16 rows' bytes on.
//   A: rows row .. row + 15, columns 0 .. 15 of a tile
template <int kPitch>
__device__ __forceinline__ u32 address_of_a(u32 tile, unsigned row) {
  return chunk_address<kPitch>(tile, row + lane() % 16, lane() / 16);
}
//   two B whose columns are rows row .. row + 15 of a tile, over its columns 0 .. 15
template <int kPitch>
__device__ __forceinline__ u32 address_of_rows(u32 tile, unsigned row) {
  return chunk_address<kPitch>(tile, row + lane() / 16 * 8 + lane() % 8, lane() / 8 % 2);
}
//   two B whose columns are columns 16 pair .. 16 pair + 15 of a tile, over its rows 0 .. 15; for
//   load_transposed
template <int kPitch>
__device__ __forceinline__ u32 address_of_columns(u32 tile, unsigned pair) {
  return chunk_address<kPitch>(tile, lane() % 16, 2 * pair + lane() / 16);
}

// C += A B
__device__ __forceinline__ void add_product(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

constexpr int kRowsPerWarp = kBlockM * kSplit / kWarps, kKeysPerWarp = kBlockN / kSplit;
constexpr int kBands = kRowsPerWarp / 16;                      // of 16 rows
constexpr int kPitchQK = sizeof(Smem::q[0]) / sizeof(elem_t);  // elements of a row in shared memory
constexpr int kPitchV = sizeof(Smem::v[0]) / sizeof(elem_t);
constexpr int kBytesK = kBlockN * sizeof(Smem::k[0]), kBytesV = kBlockN * sizeof(Smem::v[0]);
template <int kPitch>
constexpr u32 kBytesOf16 = 16 * kPitch * sizeof(elem_t);  // of 16 rows
constexpr int kGroupsS = kKeysPerWarp / 8, kGroupsO = kPitchV / kSplit / 8;  // of 8 columns

// What a lane knows of rows row() and row() + 8 of each band after some keys: sum and o are
// relative to 2^max. It sums its own columns only; all lanes of a row are added up at the end.
struct Rows {
  float max[kBands][2], sum[kBands][2], o[kBands][kGroupsO][4];
};

// Of the block, the first row of a warp, the first of a band that a lane has, and which part of the
// keys is the warp's; of a tile of keys, the lane's first column. Warps of the same rows have 16
// columns of O in turns.
__device__ __forceinline__ int warp_row() { return threadIdx.x / 32 / kSplit * kRowsPerWarp; }
__device__ __forceinline__ int row(int band) { return warp_row() + band * 16 + lane() / 4; }
__device__ __forceinline__ int part() { return threadIdx.x / 32 % kSplit; }
__device__ __forceinline__ int column() { return part() * kKeysPerWarp + lane() % 4 * 2; }

// The tiles of keys that a block visits: all of its range.
struct KeyTiles {
  int j0;
  __device__ __forceinline__ int start(int ahead) const { return j0 + ahead * kBlockN; }
  __device__ __forceinline__ void advance() { j0 += kBlockN; }
};

__device__ __forceinline__ void clear(Rows &rows) {
#pragma unroll
  for (int b = 0; b < kBands; b++) {
    rows.max[b][0] = rows.max[b][1] = kLowest, rows.sum[b][0] = rows.sum[b][1] = 0;
#pragma unroll
    for (int g = 0; g < kGroupsO; g++)
#pragma unroll
      for (int e = 0; e < 4; e++) rows.o[b][g][e] = 0;
  }
}

// A row's maximum may fall short of its scores by so many powers of two before O and sum are brought
// to a larger one: P stays below 2^kSlack, and most tiles cost no products with O.
constexpr float kSlack = 8;

// Raises the maxima of a warp's rows to at least `largest` - kSlack.
__device__ __forceinline__ void raise_max(Rows &rows, const float (&largest)[kBands][2]) {
  bool short_of = false;
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      short_of |= largest[b][half] > rows.max[b][half] + kSlack;
  if (!__any_sync(0xffffffff, short_of)) return;
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float raised = fmaxf(rows.max[b][half], largest[b][half]);
      const float factor = exp2_approx(rows.max[b][half] - raised);
      rows.max[b][half] = raised;
      rows.sum[b][half] *= factor;
#pragma unroll
      for (int g = 0; g < kGroupsO; g++) {
        rows.o[b][g][2 * half] *= factor;
        rows.o[b][g][2 * half + 1] *= factor;
      }
    }
}

// Warps of the same rows wait for each other.
__device__ __forceinline__ void sync_rows() {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / 32 / kSplit), "n"(32 * kSplit) : "memory");
}

// The scores of pairs that are not kept become -inf, whatever K holds there.
__device__ __forceinline__ void mask_scores(float (&s)[kBands][kGroupsS][4], MaskBounds bounds,
                                            int row0, int j0, int j_end) {
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int c = 0; c < kGroupsS * 2; c++) {
        const int i = (row0 + row(b) + 8 * half) / kGroup, j = j0 + c / 2 * 8 + column() + c % 2;
        if (!(j < j_end && keep(bounds, i, j)))
          s[b][c / 2][2 * half + c % 2] = negative_infinity();
      }
}

// P = 2^(unit S - max) in the place of S, and its sum.
__device__ __forceinline__ void online_softmax(float (&s)[kBands][kGroupsS][4], Rows &rows,
                                               float unit) {
  float largest[kBands][2];
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      largest[b][half] = negative_infinity();
#pragma unroll
      for (int c = 0; c < kGroupsS * 2; c++)
        largest[b][half] = fmaxf(largest[b][half], s[b][c / 2][2 * half + c % 2]);
      largest[b][half] = lanes_max<4>(largest[b][half]) * unit;
    }
  raise_max(rows, largest);
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int c = 0; c < kGroupsS * 2; c++) {
        float &x = s[b][c / 2][2 * half + c % 2];
        x = exp2_approx(fmaf(x, unit, -rows.max[b][half]));
        rows.sum[b][half] += x;
      }
}

// S += Q K^T of a warp's rows and its keys of a tile. Order knob kQInRegisters: Q's fragments are
// kept, or read again for each tile, which leaves registers for larger tiles.
__device__ __forceinline__ void multiply_qk(float (&s)[kBands][kGroupsS][4],
                                            const u32 (&kept)[kBands][kPitchQK / 16][4], u32 tile_q,
                                            u32 tile_k) {
  const u32 q_at = address_of_a<kPitchQK>(tile_q, warp_row());
  const u32 k_at = address_of_rows<kPitchQK>(tile_k, part() * kKeysPerWarp);
#pragma unroll
  for (int step = 0; step < kPitchQK / 16; step++) {
    u32 q[kBands][4];
#pragma unroll
    for (int b = 0; b < kBands; b++) {
      if (!kQInRegisters)
        load_matrices(q[b], chunks_behind<kPitchQK>(q_at, 2 * step) + b * kBytesOf16<kPitchQK>);
#pragma unroll
      for (int w = 0; w < 4 && kQInRegisters; w++) q[b][w] = kept[b][step][w];
    }
#pragma unroll
    for (int pair = 0; pair < kGroupsS / 2; pair++) {
      u32 k[4];
      load_matrices(k, chunks_behind<kPitchQK>(k_at, 2 * step) + pair * kBytesOf16<kPitchQK>);
#pragma unroll
      for (int b = 0; b < kBands; b++) {
        add_product(s[b][2 * pair], q[b], k[0], k[1]);
        add_product(s[b][2 * pair + 1], q[b], k[2], k[3]);
      }
    }
  }
}

// O += P V, of a warp's columns of V.
__device__ __forceinline__ void add_pv(Rows &rows, const u32 (&p)[kBands][kBlockN / 16][4], u32 tile_v) {
  const u32 v_at = address_of_columns<kPitchV>(tile_v, part());
#pragma unroll
  for (int step = 0; step < kBlockN / 16; step++) {
#pragma unroll
    for (int pair = 0; pair < kGroupsO / 2; pair++) {
      u32 v[4];
      const u32 at = chunks_behind<kPitchV>(v_at, 2 * kSplit * pair);
      load_transposed(v, at + step * kBytesOf16<kPitchV>);
#pragma unroll
      for (int b = 0; b < kBands; b++) {
        add_product(rows.o[b][2 * pair], p[b][step], v[0], v[1]);
        add_product(rows.o[b][2 * pair + 1], p[b][step], v[2], v[3]);
      }
    }
  }
}

// A row that sees no key is 0, even where V is NaN and P times it too.
__device__ __forceinline__ void clear_row(Rows &rows, int band, int half) {
#pragma unroll
  for (int g = 0; g < kGroupsO; g++)
    rows.o[band][g][2 * half] = rows.o[band][g][2 * half + 1] = 0;
}

// Stores a lane's part of one row, times `factor`.
__device__ __forceinline__ void store_row(out_t *to, const Rows &rows, int band, int half,
                                          float factor, bool inside) {
  const bool odd = lane() % 2;
#pragma unroll
  for (int g = 0; g < kGroupsO; g += 2) {
    u32 word[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float(&o)[4] = rows.o[band][g + e];
      word[e] = pack(o[2 * half] * factor, o[2 * half + 1] * factor);
    }
    const uint2 four = swap_words(word[0], word[1]);
    const int at = (g / 2 * kSplit + part()) * 16 + odd * 8 + lane() % 4 / 2 * 4;
    if (inside && at < kHeadDimV) *reinterpret_cast<uint2 *>(to + at) = four;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSM)
    attn_fwd_sm90a_bf16_d128_causal__mma_m128n32s3(const __grid_constant__ Params params) {
  extern __shared__ __align__(128) unsigned char smem_bytes[];
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
  const u32 tile_q = shared_address(smem.q), tile_k = shared_address(smem.k);
  const u32 tile_v = shared_address(smem.v);
  const auto load_k = [&](int j, int slot) {
    if (j < j_end)
      load_tile<kBlockN, kHeadDimQK, kPitchQK>(tile_k + slot * kBytesK, k + j * params.k_stride_seq,
                                               params.k_stride_seq, j_end - j);
    copies_commit();
  };
  const auto load_v = [&](int j, int slot) {
    if (j < j_end)
      load_tile<kBlockN, kHeadDimV, kPitchV>(tile_v + slot * kBytesV, v + j * params.v_stride_seq,
                                             params.v_stride_seq, j_end - j);
    copies_commit();
  };
  KeyTiles tiles;
  tiles.j0 = j_begin;

  // Tiles come in the order K V K V ...; kStages of K are under way, and one less of V.
  load_rows<kBlockM, kHeadDimQK, kPitchQK>(tile_q, q, place.row0, place.row1 - place.row0);
  copies_commit();
#pragma unroll 1
  for (int slot = 0; slot < kStages; slot++) {
    load_k(tiles.start(slot), slot);
    if (slot + 1 < kStages) load_v(tiles.start(slot), slot);
  }

  // The sign of the scale goes into Q, so that the largest score of a row is always the one that
  // counts most; its size, in units of log2, into the exponent. It is not 0 even for a scale of 0,
  // since -inf * 0 is NaN: the smallest float changes no score.
  copies_wait<2 * kStages - 1>();
  if (scale < 0) negate_tile<kBlockM>(smem.q);
  const float unit = fmaxf(fabsf(scale) * kLog2e, 1.4e-45f);
  __syncthreads();
  u32 kept_q[kBands][kPitchQK / 16][4];
  const u32 q_at = address_of_a<kPitchQK>(tile_q, warp_row());
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int step = 0; step < kPitchQK / 16 && kQInRegisters; step++)
      load_matrices(kept_q[b][step], chunks_behind<kPitchQK>(q_at, 2 * step) +
                                         b * kBytesOf16<kPitchQK>);

  // Queries of a warp; none when all of its rows are beyond the last
  const int warp_i0 = (place.row0 + warp_row()) / kGroup;
  const int warp_i1 = (min(place.row0 + warp_row() + kRowsPerWarp, place.row1) - 1) / kGroup + 1;

  Rows rows;
  clear(rows);
  for (int slot = 0; tiles.start(0) < j_end;) {
    // K is there for all, and all are done with the last V
    copies_wait<2 * kStages - 2>();
    __syncthreads();
    load_v(tiles.start(kStages - 1), slot ? slot - 1 : kStages - 1);
    const int j0 = tiles.start(0), j1 = min(j0 + kBlockN, j_end);
    const BlockClass seen = block_class(bounds, warp_i0, warp_i1, j0, j1);
    u32 p[kBands][kBlockN / 16][4];
    if (seen != kBlockEmpty) {

      // S = Q K^T
      float s[kBands][kGroupsS][4] = {};
      multiply_qk(s, kept_q, again(tile_q), again(tile_k + slot * kBytesK));

      // P = exp(scale S - max), rounded for the tensor cores
      if (!(seen == kBlockFull && j1 - j0 == kBlockN))
        mask_scores(s, bounds, place.row0, j0, j_end);
      online_softmax(s, rows, unit);
#pragma unroll
      for (int b = 0; b < kBands; b++)
#pragma unroll
        for (int w = 0; w < kBlockN / 4; w++)
          p[b][w / 4][w % 4] = pack(s[b][w / 2][w % 2 * 2], s[b][w / 2][w % 2 * 2 + 1]);
    }

    // V is there for all, and all are done with this K
    copies_wait<2 * kStages - 2>();
    __syncthreads();
    load_k(tiles.start(kStages), slot);

    // O += P V
    if (seen != kBlockEmpty)
      add_pv(rows, p, again(tile_v + slot * kBytesV));
    slot = slot + 1 < kStages ? slot + 1 : 0;
    tiles.advance();
  }
  // A warp leaves the loop as one, which ptxas cannot tell: it would put a branch before each shuffle
  // from here on. It can behind a barrier.
  sync_rows();

  // O /= sum, LSE = max + log(sum). The place is found again: kept over the loop it would take
  // registers.
  const Place end = place_of(params, again(blockIdx.x), batch, heads_q, heads_kv,
                             again(len_q), len_k, total_q, total_k);
  const QueryRows<out_t> o = query_rows(end, params.o, params.o_stride_batch,
                                        params.o_stride_seq, params.o_stride_head);
  const QueryRows<float> lse = query_rows(end, params.lse, params.lse_stride_batch,
                                          params.lse_stride_seq, params.lse_stride_head);
  float sum[kBands][2];
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) sum[b][half] = lanes_sum<4>(rows.sum[b][half]);
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int r = end.row0 + row(b) + 8 * half;
      const bool inside = r < end.row1;
      const float factor = row_factor(sum[b][half]);
      if (factor == 0) clear_row(rows, b, half);
      store_row(o.at(r), rows, b, half, factor, inside);
      if (params.lse && lane() % 4 == 0 && inside)
        *lse.at(r) = row_lse(rows.max[b][half], sum[b][half]);
    }
}
