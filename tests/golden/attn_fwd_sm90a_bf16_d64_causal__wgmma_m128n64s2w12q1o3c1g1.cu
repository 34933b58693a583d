// attn_fwd_sm90a_bf16_d64_causal__wgmma_m128n64s2w12q1o3c1g1
//
// exact attention, forward, one pass, online softmax: O = softmax(scale Q K^T) V
// made by attune 0.1.0, ABI 2, from templates/attn_fwd/wgmma.cu
//
// spec    {version: 1, op: attn_fwd, arch: sm_90a, dtype: bf16, head_dim: 64, mask: causal, family: wgmma, tile: {block_m: 128, block_n: 64, block_k: 0, stages: 2, warps: 12, share_kv: 0, second_q: 1, order: 3, turns: 0, lazy: 0, chains: 1, persistent: 1}}
// tile    128 rows of Q per block, 64 keys per iteration, 2 tiles of K and V in flight, 12 warps per block, the next tile's Q is loaded beside this one's, 3 which pieces of the softmax stand before the wait for P V, 1 chains of a row's maximum beside the first, a block an SM takes one tile after the other
// family  16-bit wgmma of warpgroups beside TMA loads; sm_90a
// launch  384 threads a block, 66,560 bytes of shared memory, early: it waits itself for what is ahead
// grid    ceil(len_q * group / block_m) * heads_q / group * batch
//
// shared memory                   offset       bytes
//   q    elem_t [256][64]              0      32,768  panels of Q, then of O
//   k    elem_t [128][64]         32,768      16,384  panels of K, a tile a stage
//   v    elem_t [128][64]         49,152      16,384  panels of V, a tile a stage
//   jobs u32 [2][24]              65,536         192  of each tile of Q: place, mask, steps
//   barriers u64 [12][1]              65,728          96  mbarriers: full and free of each buffer
//   total                                     66,560
//
// for batch 4, heads_q 16, heads_kv 16, len_q 2048, len_k 2048:
// bytes moved            requested        compulsory
//   Q    read           16,777,216        16,777,216
//   K    read          142,606,336        16,777,216
//   V    read          142,606,336        16,777,216
//   O    written        16,777,216        16,777,216
//   LSE  written           524,288           524,288
//   all                319,291,392        67,633,152

constexpr int kBlockM = 128;        // rows of Q per block
constexpr int kBlockN = 64;         // keys per iteration
constexpr int kBlockK = 0;          // elements of the inner dimension per step; 0: all
constexpr int kStages = 2;          // tiles of K and V in flight
constexpr int kWarps = 12;          // warps per block
constexpr int kShareKV = 0;         // 1: K and V take turns in one buffer
constexpr int kSecondQ = 1;         // 1: the next tile's Q is loaded beside this one's
constexpr int kOrder = 3;           // which pieces of the softmax stand before the wait for P V; short: 1: scores before O leaves
constexpr int kTurns = 0;           // 1: warpgroups take turns in issuing products, 2: a tile's first alone; short: at exponentials
constexpr int kLazy = 0;            // 1: O is rescaled when a maximum grew by over 2^8, else kept
constexpr int kChains = 1;          // chains of a row's maximum beside the first
constexpr int kPersistent = 1;      // 1: a block an SM takes one tile after the other
constexpr int kHeadDimQK = 64;      // elements of a row of Q and K
constexpr int kHeadDimV = 64;       // elements of a row of V and O
constexpr int kPaddedQK = 64;       // whole steps of 16 of them
constexpr int kPaddedV = 64;        // the same
constexpr int kPanelQK = 128;       // bytes of a panel's row of Q, K, O
constexpr int kPanelV = 128;        // bytes of a panel's row of V
constexpr int kRegistersLoad = 24;  // of a thread that loads
constexpr int kRegistersMultiply = 240;  // of a thread that multiplies
constexpr int kKeysInL2 = 131072;   // keys of heads that work beside each other
constexpr int kGroup = 1;           // query heads packed as rows of one tile
constexpr int kThreads = 384;       // threads per block
constexpr int kSmemBytes = 66560;   // shared memory per block

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

// What TMA must know of a tensor; made by the launch, read by the hardware.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

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
  TensorMap map_q;            // boxes of kBlockM rows
  TensorMap map_k;            // boxes of kBlockN keys
  TensorMap map_v;            // boxes of kBlockN keys
  TensorMap map_o;            // boxes of a warpgroup's 64 rows
};
static_assert(sizeof(Params) == 896, "struct Params and its C twin differ");

// Shared memory, as in the ledger above.
struct Smem {
  alignas(1024) elem_t q[256][64];  // panels of Q, then of O
  alignas(1024) elem_t k[128][64];  // panels of K, a tile a stage
  alignas(1024) elem_t v[128][64];  // panels of V, a tile a stage
  alignas(16) u32 jobs[2][24];      // of each tile of Q: place, mask, steps
  alignas(8) u64 barriers[12][1];   // mbarriers: full and free of each buffer
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

constexpr bool kScored = false;

// Scores come in units of log2 where features make them, else without the scale. So a product and a
// maximum are rounded alike even where a bias is huge.
constexpr float kScoreOne = kLog2e;
__device__ __forceinline__ float score_unit(float scale) {
  return kScored ? kLog2e / kScoreOne : fabsf(scale) * kLog2e;
}

// What the score of a pair takes from its row.
struct RowScore {
};

__device__ __forceinline__ RowScore row_score(const Params &params, const Place &place, int row,
                                              int bottom_right) {
  RowScore of;
  return of;
}

__device__ __forceinline__ float score(const RowScore &row, float s, int j, float scale,
                                       float softcap, i64 bias_stride_k) {
  return s;
}

// Shared memory by address.
__device__ __forceinline__ u32 shared_address(const void *at) {
  return (u32)__cvta_generic_to_shared(at);
}

// Chunks of 16 bytes in shared memory, by address.
__device__ __forceinline__ uint4 load_shared(u32 at) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(at)
               : "memory");
  return x;
}
__device__ __forceinline__ void store_shared(u32 at, uint4 x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}

// Barriers in shared memory, by address. A phase ends when as many have arrived as the barrier was
// made for, and all bytes that were announced are there. wait() returns once the phase of that
// parity has ended: of a fresh barrier the one before the first, of parity 1, has.
__device__ __forceinline__ void barrier_init(u32 at, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
// After the last init, by its thread; the others see the barriers after a __syncthreads.
__device__ __forceinline__ void barriers_publish() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(u32 at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
__device__ __forceinline__ void arrive_and_expect(u32 at, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ bool phase_ended(u32 at, u32 parity) {
  u32 ended;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(ended)
      : "r"(at), "r"(parity)
      : "memory");
  return ended;
}
__device__ __forceinline__ void wait(u32 at, u32 parity) {
  while (!phase_ended(at, parity)) {
  }
}

// Where a loop over kCount buffers stands: the buffer, and the parity of its current use.
template <int kCount>
struct Ring {
  u32 slot = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++slot == kCount) slot = 0, parity ^= 1;
  }
};

// Barriers of the hardware among whole warps: `threads` take part in each round.
__device__ __forceinline__ void threads_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void threads_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Boxes of a tensor between device and shared memory, moved by one thread. What a box covers beyond
// the tensor reads as zeros, and is not written.
// What L2 should do with the lines: let them go first, or keep them. Of what is read once they may go
// first, unless the next head's rows lie in them too (on an H200 3 to 10 % at head dim 32).
constexpr u64 kEvictFirst = 0x12f0000000000000, kEvictNormal = 0x1000000000000000,
              kEvictLast = 0x14f0000000000000;
constexpr u64 kReadOnce = kHeadDimQK * sizeof(elem_t) % 128 ? kEvictNormal : kEvictFirst;

__device__ __forceinline__ bool elect_one() {
  u32 elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected;
}
__device__ __forceinline__ void prefetch_map(const TensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Keys: dim, key, head, sequence.
__device__ __forceinline__ void load_box(u32 to, const TensorMap *map, u32 barrier, int dim, int key,
                                         int head, int sequence, u64 hint) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
      "l"(map), "r"(dim), "r"(key), "r"(head), "r"(sequence), "r"(barrier), "l"(hint)
      : "memory");
}
// Rows of Q: dim, head of the packed group (from its first), query, group, sequence.
__device__ __forceinline__ void load_box(u32 to, const TensorMap *map, u32 barrier, int dim,
                                         int query, int group, int sequence) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(to),
      "l"(map), "r"(dim), "r"(0), "r"(query), "r"(group), "r"(sequence), "r"(barrier),
      "l"(kReadOnce)
      : "memory");
}
__device__ __forceinline__ void store_box(u32 from, const TensorMap *map, int dim, int query,
                                          int group, int sequence) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::
          "l"(map), "r"(dim), "r"(0), "r"(query), "r"(group), "r"(sequence), "r"(from)
      : "memory");
}
__device__ __forceinline__ void stores_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// All stores of the thread have read their shared memory, which must stay until then. They have
// landed when the kernel has ended.
__device__ __forceinline__ void stores_have_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// What the thread wrote to shared memory becomes visible to TMA and wgmma that follow a barrier.
__device__ __forceinline__ void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Tiles lie in shared memory as panels: all rows of a tile x 32, 64 or 128 bytes of each, one panel
// behind the other, every panel aligned to 1024 bytes and swizzled over its width.

// Descriptor of a tile whose panels have rows of kWidth bytes. `leading`: bytes from a panel to the
// next, where columns run along N; of no use where they run along the inner dimension.
template <int kWidth>
__device__ __forceinline__ u64 describe(u32 tile, u32 leading) {
  constexpr u64 kSwizzle = kWidth == 128 ? 1 : kWidth == 64 ? 2 : 3;
  return (tile & 0x3ffff) >> 4 | (u64)(leading >> 4) << 16 | (u64)(8 * kWidth >> 4) << 32 |
         kSwizzle << 62;
}
// What step `step` of 16 elements adds to a descriptor: along the rows of a tile of kRows rows, where
// the inner dimension is a row's columns; and down the rows.
template <int kWidth, int kRows>
__device__ __forceinline__ constexpr u64 along(int step) {
  return (step % (kWidth / 32) * 32 + step / (kWidth / 32) * (kRows * kWidth)) >> 4;
}
template <int kWidth>
__device__ __forceinline__ constexpr u64 down(int step) {
  return step * (16 * kWidth) >> 4;
}

// Products run beside the threads: between fence and commit they are issued as a group, and until
// products_wait leaves at most kGroups of the newest, nobody may touch their registers.
__device__ __forceinline__ void products_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Values that the products use are computed here, not behind the fence, where the compiler would
// like to have them.
template <int kCount>
__device__ __forceinline__ void settle(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i++) asm volatile("" : "+f"(x[i]));
}
template <int kCount>
__device__ __forceinline__ void settle(u32 (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i++) asm volatile("" : "+r"(x[i]));
}
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kGroups>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

// A step of 16 elements of the inner dimension of a product of 64 rows x N columns, up to the operands
// behind its sums: the first registers of the statement.
#define MULTIPLY_64 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "

// S of 64 rows x 64 keys = Q K^T; both in shared memory, along their rows in panels of kWidth bytes.
template <int kWidth>
__device__ __forceinline__ void multiply_qk(float (&d)[32], u64 q, u64 k) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"
      MULTIPLY_64 "%32, %33, add, 1, 1, 0, 0;\n"
      "setp.ne.b32 add, 1, 0;\n"
      MULTIPLY_64 "%34, %35, add, 1, 1, 0, 0;\n"
      MULTIPLY_64 "%36, %37, add, 1, 1, 0, 0;\n"
      MULTIPLY_64 "%38, %39, add, 1, 1, 0, 0;\n"
      "}"
      :
      "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
      "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
      "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      :
      "l"(q + along<kWidth, kBlockM>(0)), "l"(k + along<kWidth, kBlockN>(0)),
      "l"(q + along<kWidth, kBlockM>(1)), "l"(k + along<kWidth, kBlockN>(1)),
      "l"(q + along<kWidth, kBlockM>(2)), "l"(k + along<kWidth, kBlockN>(2)),
      "l"(q + along<kWidth, kBlockM>(3)), "l"(k + along<kWidth, kBlockN>(3)));
}

// O of 64 rows x head_dim_v += P V of 64 keys; P in registers, V in shared memory, down its rows, by
// the descriptor of each step.
__device__ __forceinline__ void multiply_pv(float (&d)[32], const u32 (&p)[16],
                                            const u64 (&v)[4]) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
      MULTIPLY_64 "{%32, %33, %34, %35}, %48, add, 1, 1, 1;\n"
      MULTIPLY_64 "{%36, %37, %38, %39}, %49, add, 1, 1, 1;\n"
      MULTIPLY_64 "{%40, %41, %42, %43}, %50, add, 1, 1, 1;\n"
      MULTIPLY_64 "{%44, %45, %46, %47}, %51, add, 1, 1, 1;\n"
      "}"
      :
      "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
      "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
      "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      :
      "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(p[4]), "r"(p[5]), "r"(p[6]), "r"(p[7]),
      "r"(p[8]), "r"(p[9]), "r"(p[10]), "r"(p[11]), "r"(p[12]), "r"(p[13]), "r"(p[14]), "r"(p[15]),
      "l"(v[0]), "l"(v[1]), "l"(v[2]), "l"(v[3]));
}

// Registers of the warpgroup's threads, from here on.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Writes four 8 x 8 matrices; lanes 8 i .. 8 i + 7 give the addresses of the rows of the i-th.
__device__ __forceinline__ void store_matrices(u32 at, u32 x0, u32 x1, u32 x2, u32 x3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
               "r"(x0), "r"(x1), "r"(x2), "r"(x3)
               : "memory");
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

// A warpgroup's accumulators: of 64 rows, 16 a warp, a thread has the elements e at
//   row     lane / 4 + 8 half(e) of the warp's
//   column  e / 4 * 8 + lane % 4 * 2 + e % 2
// Needs lanes_max of prim/math.cuh, lane of prim/quad.cuh, and order knob kChains.
__device__ __forceinline__ constexpr int half(int e) { return e / 2 % 2; }

// The largest score of row h, over the four lanes that share it. Order knob kChains: maxima in
// several chains, so that they wait less for each other.
template <int kElements>
__device__ __forceinline__ float row_max(const float (&s)[kElements], int h) {
  float chain[kChains + 1];
#pragma unroll
  for (int c = 0; c <= kChains; c++) chain[c] = s[c / 2 * 4 + 2 * h + c % 2];
#pragma unroll
  for (int c = kChains + 1; c < kElements / 2; c++)
    chain[c % (kChains + 1)] = fmaxf(chain[c % (kChains + 1)], s[c / 2 * 4 + 2 * h + c % 2]);
#pragma unroll
  for (int c = 1; c <= kChains; c++) chain[0] = fmaxf(chain[0], chain[c]);
  return lanes_max<4>(chain[0]);
}

// A row whose factor is 0, since it sees no key, gives 0, whatever V holds where others look.
template <int kElements>
__device__ __forceinline__ void clear_empty(float (&o)[kElements], const float (&factor)[2]) {
  if (factor[0] != 0 && factor[1] != 0) return;
#pragma unroll
  for (int e = 0; e < kElements; e++) o[e] = factor[half(e)] != 0 ? o[e] : 0;
}

// Where chunk `chunk` of 16 bytes of a row is, in panels of kRows rows of kPanel bytes, swizzled as
// TMA does.
template <int kPanel, int kRows>
__device__ __forceinline__ u32 swizzled_chunk(u32 tile, unsigned row, unsigned chunk) {
  constexpr int kChunks = kPanel / 16;
  const u32 at = row * kPanel + chunk % kChunks * 16;
  return tile + chunk / kChunks * (kRows * kPanel) + (at ^ (at >> 3 & (kChunks - 1) * 16));
}

// Masks of a warpgroup: of steps of kBlockN keys, and of its scores by bits; a thread has two columns in
// a group of 8. Needs quad.cuh, math.cuh, bounds and kMaskHasLower of the mask.

// Of the steps of kBlockN keys from `first` to `end` those in which each of rows [i0, i1) sees all:
// [from, to). Steps before and behind them are masked.
__device__ __forceinline__ void whole_steps(MaskBounds bounds, int i0, int i1, int first, int end,
                                            int &from, int &to) {
  const int all = min(end, i0 + bounds.upper + 1) - first;  // keys that every row sees, from above
  to = max(all, 0) / kBlockN;
  from = (max(i1 - 1 + bounds.lower - first, 0) + kBlockN - 1) / kBlockN;
}

// A bit for each of a thread's columns of those below `end`; the first 32.
__device__ __forceinline__ u32 columns_below(int end) {
  const u32 at = max(end, 0), count = at / 8 * 2 + min(at % 8, 2);
  u32 above;  // of shl 32 bits are none, which C++ leaves open
  asm("shl.b32 %0, 0xffffffff, %1;" : "=r"(above) : "r"(count));
  return ~above;
}

// Scores of row h to -inf outside columns [low, high] of the thread. Bits become predicates seven at a
// time (R2P), which spares a comparison each.
template <int kElements>
__device__ __forceinline__ void mask_row(float (&s)[kElements], int h, int low, int high) {
#pragma unroll
  for (int word = 0; word < kElements / 2; word += 32) {
    u32 seen = columns_below(high + 1 - 4 * word);
    if (kMaskHasLower) seen &= ~columns_below(low - 4 * word);
#pragma unroll
    for (int c = word; c < min(word + 32, kElements / 2); c++) {
      float &x = s[c / 2 * 4 + 2 * h + c % 2];
      x = seen >> (c - word) & 1 ? x : negative_infinity();  // an if takes longer to compile
    }
  }
}

// Scores of 64 rows to -inf where a pair is not seen: before any arithmetic, since K may hold NaN
// there. Of the thread's first row, whose number is `row`, and of `row_last`, its second: `key` is
// that of its first column. A warp has 16 rows, of which a masked tile often cuts off nothing.
template <int kElements>
__device__ __forceinline__ void mask_scores(float (&s)[kElements], MaskBounds bounds, int row,
                                            int row_last, int key, int end) {
  const int low = row + bounds.lower - key, low_last = row_last + bounds.lower - key;
  const int high = min(row + bounds.upper, end - 1) - key;
  const int high_last = min(row_last + bounds.upper, end - 1) - key;
  constexpr int kColumns = 2 * kElements;
  if (!__any_sync(0xffffffff, high < kColumns - 1 || (kMaskHasLower && low_last > 0))) return;
  mask_row(s, 0, low, high), mask_row(s, 1, low_last, high_last);
}

// Under a mask units of work, tiles of rows or passes over keys, differ in length. They are taken in
// sections of heads whose K and V fit L2 together; in a section the longest of all its heads come
// first. Needs place.cuh, and kKeysInL2.
struct Sections {
  unsigned units, heads, section;  // of a head; all; at most in a section

  // The number of unit t of the section that begins at head `first`: heads come slowest.
  __device__ __forceinline__ unsigned index(unsigned first, unsigned t) const {
    const unsigned here = count(first);
    return (first + t % here) * units + t / here;
  }
  __device__ __forceinline__ unsigned count(unsigned first) const {
    return min(section, heads - first);
  }
};

// `share` heads beside each other read the same K and V. On a grid that stays sections are whole
// rounds to and fro, which are even; an odd one more gives some blocks all the longer units.
template <bool kStays>
__device__ __forceinline__ Sections sections_of(unsigned units, unsigned heads, unsigned share,
                                                int len_k) {
  const unsigned most = max(kKeysInL2 / max(len_k, 1), 1) * share;
  Sections s;
  s.units = units, s.heads = heads;
  s.section = ceil_div(heads, ceil_div(heads, most));
  if (kStays) {
    const unsigned both = 2 * gridDim.x, times = max((s.section * units + gridDim.x) / both, 1);
    s.section = min(s.section, max(times * both / units, 1));
  }
  return s;
}

// The way of a block that stays through the sections: unit t of the one that begins at head `first`.
// Rounds go to and fro over the blocks, and each section begins where the last one ended: so the
// blocks have equally much to do, within about 1 %.
struct Walk {
  unsigned first, t, round, begin;

  __device__ __forceinline__ bool next(const Sections &s) {
    const unsigned blocks = gridDim.x, back = blocks - 1;
    for (; first < s.heads; first += s.section, round = 0) {
      const unsigned all = s.count(first) * s.units, mine = (blockIdx.x + blocks - begin) % blocks;
      t = round * blocks + (round % 2 ? back - mine : mine);
      round++;
      if (t < all) return true;
      begin = (begin + all) % blocks;
    }
    return false;
  }
};

constexpr int kGroups = kWarps / 4 - 1;                       // warpgroups that multiply
constexpr int kStepsPV = kBlockN / 16, kStepsO = kPaddedV / 16;
constexpr int kColumnsQ = kPanelQK / 2, kColumnsV = kPanelV / 2;  // elements of a panel's row
constexpr int kPanelsQ = kPaddedQK / kColumnsQ, kPanelsV = kPaddedV / kColumnsV;
constexpr int kPanelsO = (kPaddedV + kColumnsQ - 1) / kColumnsQ;  // O lies as Q does
constexpr int kQTiles = kSecondQ + 1;
constexpr u32 kBytesQ = sizeof(Smem::q) / kQTiles;
constexpr u32 kBytesK = kBlockN * kPaddedQK * 2, kBytesV = kBlockN * kPaddedV * 2;

// Barriers of a hardware number: 0 is __syncthreads'.
enum { kAllMultiply = 1, kTurn = 2, kOneGroup = kTurn + kGroups };

// Turns of the warpgroups that multiply, in a circle, by barriers of the hardware from number kTurn on.
// Order knob kTurns; without it there are none. Needs mbarrier.cuh, kGroups and kTurn.
__device__ __forceinline__ void take_turn(int group) {
  if (kTurns) threads_sync(kTurn + group, 256);
}
__device__ __forceinline__ void pass_turn(int group) {
  if (kTurns) threads_arrive(kTurn + (group + 1) % kGroups, 256);
}
// The first turn is group 0's.
__device__ __forceinline__ void open_turns(int group) {
  if (kTurns && group == kGroups - 1) threads_arrive(kTurn, 256);
}

// What a block works with: addresses in shared memory.
struct Block {
  u32 q, k, v;
  u32 q_full, q_free, k_full, k_free, v_full, v_free;  // barriers, one a buffer
};

__device__ __forceinline__ Block block_of(Smem &smem) {
  const u32 barriers = shared_address(smem.barriers);
  Block b;
  b.q = shared_address(smem.q), b.k = shared_address(smem.k), b.v = shared_address(smem.v);
  b.q_full = barriers, b.q_free = b.q_full + 8 * kQTiles;
  b.k_full = b.q_free + 8 * kQTiles, b.k_free = b.k_full + 8 * kStages;
  b.v_full = b.k_free + 8 * kStages, b.v_free = b.v_full + 8 * kStages;
  return b;
}

__device__ __forceinline__ void init_barriers(const Block &b) {
  for (int i = 0; i < kQTiles; i++)
    barrier_init(b.q_full + 8 * i, 1), barrier_init(b.q_free + 8 * i, 128 * kGroups);
  for (int i = 0; i < kStages; i++) {
    barrier_init(b.k_full + 8 * i, 1), barrier_init(b.k_free + 8 * i, 4 * kGroups);
    barrier_init(b.v_full + 8 * i, 1), barrier_init(b.v_free + 8 * i, 4 * kGroups);
  }
  barriers_publish();
}

// The keys of a tile of rows: steps [0, count) of kBlockN from `begin` on; those from `full_end` on
// and those before `full_begin` are masked for some row.
struct Steps {
  int begin, end, count, full_begin, full_end;
};

__device__ __forceinline__ Steps steps_of(const Place &place, MaskBounds bounds) {
  const int i0 = place.row0 / kGroup, i1 = (place.row1 - 1) / kGroup + 1;
  Steps s;
  key_range(bounds, i0, i1, place.len_k, s.begin, s.end);
  s.count = (s.end - s.begin + kBlockN - 1) / kBlockN;
  whole_steps(bounds, i0, i1, s.begin, s.end, s.full_begin, s.full_end);
  return s;
}

// A tile of rows: what the thread that loads has found out, for those that multiply.
struct Job {
  Place place;
  MaskBounds bounds;
  Steps steps;  // count -1: there is no more
};
static_assert(sizeof(Job) <= sizeof(Smem::jobs[0]), "a job has outgrown its place");

__device__ __forceinline__ Job &job_of(Smem &smem, int slot) {
  return *reinterpret_cast<Job *>(smem.jobs[slot]);
}

// Calls take with the index of each tile that is the block's.
template <typename Take>
__device__ __forceinline__ void each_tile(int batch, int heads_q, int heads_kv, int len_q, int len_k,
                                          int total_q, Take take) {
  const Sections s = sections_of<true>(
      ceil_div(len_q * kGroup, kBlockM), heads_q / kGroup * batch, heads_q / heads_kv / kGroup, len_k);
  for (Walk walk = {}; walk.next(s);) take(s.index(walk.first, walk.t));
}

// Coordinates of a place in the tensor maps: with varlen all sequences are one.
__device__ __forceinline__ int sequence_of_map(const Place &place) {
  return place.sequence;
}
__device__ __forceinline__ int query_of_map(const Place &place, int row) {
  return row / kGroup;
}
__device__ __forceinline__ int key_of_map(const Place &place, int j) {
  return j;
}

// ---- the warpgroup that loads ---------------------------------------------------------------------

__device__ __forceinline__ void load_rows(const Params &params, const Block &b, const Place &place,
                                          const Ring<kQTiles> &ring) {
  const u32 full = b.q_full + 8 * ring.slot;
  arrive_and_expect(full, kBlockM * kPaddedQK * 2);
#pragma unroll
  for (int p = 0; p < kPanelsQ; p++)
    load_box(b.q + ring.slot * kBytesQ + p * (kBlockM * kPanelQK), &params.map_q, full,
             p * kColumnsQ, query_of_map(place, place.row0), place.head_q / kGroup,
             sequence_of_map(place));
}

template <int kPanels, int kColumns, int kPanel>
__device__ __forceinline__ void load_keys(u32 to, u32 full, u32 free, const TensorMap *map,
                                          const Place &place, Ring<kStages> &ring, int j) {
  constexpr u32 kBytes = kPanels * kBlockN * kPanel;
  wait(free + 8 * ring.slot, ring.parity ^ 1);
  arrive_and_expect(full + 8 * ring.slot, kBytes);
#pragma unroll
  for (int p = 0; p < kPanels; p++)
    load_box(to + ring.slot * kBytes + p * (kBlockN * kPanel), map, full + 8 * ring.slot,
             p * kColumns, key_of_map(place, j), place.head_kv, sequence_of_map(place), kEvictLast);
  ring.next();
}

// K of the next step before V of this one: that is the order in which they are wanted.
__device__ __forceinline__ void load_tile(const Params &params, const Block &b, const Job &job,
                                          const Ring<kQTiles> &ring_q, Ring<kStages> &ring_k,
                                          Ring<kStages> &ring_v) {
  load_rows(params, b, job.place, ring_q);
  for (int n = job.steps.count; n >= 0; n--) {
    if (n > 0)
      load_keys<kPanelsQ, kColumnsQ, kPanelQK>(b.k, b.k_full, b.k_free, &params.map_k, job.place,
                                               ring_k, job.steps.begin + (n - 1) * kBlockN);
    if (n < job.steps.count)
      load_keys<kPanelsV, kColumnsV, kPanelV>(b.v, b.v_full, b.v_free, &params.map_v, job.place,
                                              ring_v, job.steps.begin + n * kBlockN);
  }
}

// ---- the warpgroups that multiply -----------------------------------------------------------------

// What a thread knows of its two rows after some keys: sum and o are relative to 2^max. It sums its
// own columns only; the four lanes of a row are added up at the end.
struct Rows {
  float max[2], sum[2], o[kPaddedV / 2];
};

__device__ __forceinline__ void clear(Rows &rows) {
  rows.max[0] = rows.max[1] = kLowest, rows.sum[0] = rows.sum[1] = 0;
#pragma unroll
  for (int e = 0; e < kPaddedV / 2; e++) rows.o[e] = 0;
}

// S = Q K^T, under way.
__device__ __forceinline__ void start_scores(float (&s)[kBlockN / 2], u32 tile_q, u32 tile_k) {
  const u64 q = describe<kPanelQK>(tile_q, 0), k = describe<kPanelQK>(tile_k, 0);
  products_fence();
  multiply_qk<kPanelQK>(s, q, k);
  products_commit();
}

// O += P V, under way.
__device__ __forceinline__ void start_output(Rows &rows, u32 (&p)[kBlockN / 4], u32 tile_v) {
  const u64 v = describe<kPanelV>(tile_v, kBlockN * kPanelV);
  u64 vs[kStepsPV];
#pragma unroll
  for (int step = 0; step < kStepsPV; step++) vs[step] = v + down<kPanelV>(step);
  settle(rows.o), settle(p);
  products_fence();
  multiply_pv(rows.o, p, vs);
  products_commit();
}

// Gives row h the maximum of what was known and of `largest`; returns what its O must be multiplied
// by. Order knob kLazy: a maximum that grew by less than 2^8 is not taken over: P stays far below
// what 16 bits hold, and O need not be rescaled.
__device__ __forceinline__ float raise_max(Rows &rows, int h, float largest) {
  float raised = fmaxf(rows.max[h], largest);
  if (kLazy && raised - rows.max[h] <= 8) raised = rows.max[h];
  const float factor = exp2_approx(rows.max[h] - raised);
  rows.max[h] = raised;
  rows.sum[h] *= factor;
  return factor;
}

// P = 2^(unit S - max) in the place of S for columns [from, to) of row h, and its sum.
__device__ __forceinline__ void exponentials(float (&s)[kBlockN / 2], Rows &rows, int h, float unit,
                                             int from, int to) {
  float sum[2] = {0, 0};
#pragma unroll
  for (int c = 0; c < kBlockN / 4; c++) {
    if (c < from || c >= to) continue;
    float &x = s[c / 2 * 4 + 2 * h + c % 2];
    x = exp2_approx(fmaf(x, unit, -rows.max[h]));
    sum[c % 2] += x;
  }
  rows.sum[h] += sum[0] + sum[1];
}

__device__ __forceinline__ void rescale(Rows &rows, const float (&factor)[2]) {
  if (kLazy && !__any_sync(0xffffffff, factor[0] != 1 || factor[1] != 1)) return;
#pragma unroll
  for (int e = 0; e < kPaddedV / 2; e++) rows.o[e] *= factor[half(e)];
}

__device__ __forceinline__ void round_p(u32 (&p)[kBlockN / 4], const float (&s)[kBlockN / 2]) {
#pragma unroll
  for (int w = 0; w < kBlockN / 4; w++) p[w] = pack(s[2 * w], s[2 * w + 1]);
}

// Changes the sign of a warpgroup's rows of Q.
__device__ __forceinline__ void negate_rows(u32 tile_q, int group) {
  for (int at = threadIdx.x % 128 * 16; at < kPanelsQ * 64 * kPanelQK; at += 128 * 16) {
    const u32 place = tile_q + at / (64 * kPanelQK) * (kBlockM * kPanelQK) + at % (64 * kPanelQK);
    const uint4 x = load_shared(place);
    store_shared(place, make_uint4(x.x ^ 0x80008000, x.y ^ 0x80008000, x.z ^ 0x80008000,
                                   x.w ^ 0x80008000));
  }
  fence_async();
  threads_sync(kOneGroup + group, 128);
}

// V may hold NaN where no row of the sequence sees it, and P is 0 there, not nothing: zeros take its
// place. Of whole sequences the tensor map ends where they are seen.
__device__ __forceinline__ void clean_values(u32 tile_v, const Params &params, const Place &place,
                                             MaskBounds bounds, int j0) {
  if (!params.seqused_q && !params.seqused_k) return;
  int begin, end;
  key_range(bounds, 0, place.len_q, place.len_k, begin, end);
  if (j0 + kBlockN <= end) return;
  const int first = max(end - j0, 0) * kPanelV;
  for (int p = 0; p < kPanelsV; p++)
    for (int at = first + (threadIdx.x - 128) * 16; at < kBlockN * kPanelV; at += kGroups * 128 * 16)
      store_shared(tile_v + p * (kBlockN * kPanelV) + at, make_uint4(0, 0, 0, 0));
  fence_async();
  threads_sync(kAllMultiply, kGroups * 128);
}

// Scores by the problem's features, and -inf where a pair is not seen.
template <bool kMasked>
__device__ __forceinline__ void adjust_scores(float (&s)[kBlockN / 2], const Params &params,
                                              const Place &place, MaskBounds bounds, int row, int j0,
                                              int j_end, float scale, float softcap,
                                              int bottom_right) {
  const int first = j0 + lane() % 4 * 2;
  if (!kMasked) return;
  mask_scores(s, bounds, row / kGroup, (row + 8) / kGroup, first, j_end);
}

// O by TMA, from the place of the warpgroup's rows of Q; all of them are read, and the next tile's Q
// lies in the other buffer.
__device__ __forceinline__ void store_box_of(const Params &params, const Place &place,
                                             const Rows &rows, const float (&factor)[2], u32 tile,
                                             int group) {
#pragma unroll
  for (int step = 0; step < kStepsO; step++) {
    const float *o = &rows.o[8 * step];
    store_matrices(swizzled_chunk<kPanelQK, kBlockM>(tile, threadIdx.x % 128 / 32 * 16 + lane() % 16,
                                                     2 * step + lane() / 16),
                   pack(o[0] * factor[0], o[1] * factor[0]),
                   pack(o[2] * factor[1], o[3] * factor[1]),
                   pack(o[4] * factor[0], o[5] * factor[0]),
                   pack(o[6] * factor[1], o[7] * factor[1]));
  }
  fence_async();
  threads_sync(kOneGroup + group, 128);
  if (threadIdx.x % 128 == 0) {
    for (int p = 0; p < kPanelsO; p++)
      store_box(tile + p * (kBlockM * kPanelQK), &params.map_o, p * kColumnsQ,
                query_of_map(place, place.row0 + group * 64), place.head_q / kGroup,
                sequence_of_map(place));
    stores_commit();
  }
  __syncwarp();
}

// O from the registers.
__device__ __forceinline__ void store_rows(const Params &params, const Place &place,
                                           const Rows &rows, const float (&factor)[2], int row) {
  const auto o = query_rows(place, params.o, params.o_stride_batch, params.o_stride_seq,
                            params.o_stride_head);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const bool inside = row + 8 * h < place.row1;
    out_t *to = o.at(inside ? row + 8 * h : place.row0);
#pragma unroll
    for (int g = 0; g < kPaddedV / 8; g += 2) {
      const float *x = &rows.o[4 * g + 2 * h];
      const bool odd = lane() % 2;
      const uint2 four = swap_words(pack(x[0] * factor[h], x[1] * factor[h]),
                                    pack(x[4] * factor[h], x[5] * factor[h]));
      const int at = (g + odd) * 8 + lane() % 4 / 2 * 4;
      if (inside && at < kHeadDimV) *reinterpret_cast<uint2 *>(to + at) = four;
    }
  }
}

struct Yes {
  static constexpr bool yes = true;
};
struct No {
  static constexpr bool yes = false;
};

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    attn_fwd_sm90a_bf16_d64_causal__wgmma_m128n64s2w12q1o3c1g1(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
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
  const Block b = block_of(smem);
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);

  if (threadIdx.x == 0) {
    prefetch_map(&params.map_q), prefetch_map(&params.map_k), prefetch_map(&params.map_v);
    init_barriers(b);
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
  __syncthreads();

  if (warpgroup == 0) {
    give_registers<kRegistersLoad>();
    if (threadIdx.x / 32 == 0 && elect_one()) {
      Ring<kQTiles> ring_q;
      Ring<kStages> ring_k, ring_v;
      Job job = {};
      each_tile(batch, heads_q, heads_kv, len_q, len_k, total_q, [&](unsigned index) {
        job.place = place_of(params, index, batch, heads_q, heads_kv, len_q, len_k, total_q, total_k);
        if (job.place.row0 >= job.place.row1) return;
        job.bounds =
            mask_bounds(window_left, window_right, bottom_right, job.place.len_q, job.place.len_k);
        job.steps = steps_of(job.place, job.bounds);
        wait(b.q_free + 8 * ring_q.slot, ring_q.parity ^ 1);
        job_of(smem, ring_q.slot) = job;
        load_tile(params, b, job, ring_q, ring_k, ring_v);
        ring_q.next();
      });
      wait(b.q_free + 8 * ring_q.slot, ring_q.parity ^ 1);
      job.steps.count = -1;
      job_of(smem, ring_q.slot) = job;
      arrive(b.q_full + 8 * ring_q.slot);
    }
    return;
  }
  take_registers<kRegistersMultiply>();

  // Scale 0 must leave -inf what it is. Its sign goes into Q, so that the largest score of a row is
  // always the one that counts most.
  const float unit = fmaxf(score_unit(scale), 1e-37f);
  const int group = warpgroup - 1, row_of_thread = group * 64 + threadIdx.x % 128 / 32 * 16 + lane() / 4;
  const bool first_of_group = threadIdx.x % 128 == 0;
  Ring<kQTiles> ring_q;
  Ring<kStages> ring_k, ring_v;
  open_turns(group);

  for (bool first_tile = true;; first_tile = false) {
    wait(b.q_full + 8 * ring_q.slot, ring_q.parity);
    const Job job = job_of(smem, ring_q.slot);
    const Place &place = job.place;
    const MaskBounds &bounds = job.bounds;
    const Steps &steps = job.steps;
    if (steps.count < 0) break;
    const int row = place.row0 + row_of_thread;
    const u32 tile_q = b.q + ring_q.slot * kBytesQ + group * 64 * kPanelQK;
    // All threads arrive, since all of them have read the job. Alone, the buffer is free for the next
    // tile's Q once the last scores are there.
    const auto free_q = [&] {
      if (!kSecondQ) arrive(b.q_free + 8 * ring_q.slot);
    };
    // The last tile's O must have left the second buffer; its store had time until now.
    const auto free_other_q = [&] {
      if (!kSecondQ || first_tile) return;
      if (first_of_group) stores_have_read();
      __syncwarp();
      arrive(b.q_free + 8 * (1 - ring_q.slot));
    };

    Rows rows;
    clear(rows);
    if (scale < 0) negate_rows(tile_q, group);

    u32 p[kBlockN / 4];
    float factor[2];
    // S of one step to scores, and to the maximum of row h
    const auto adjust = [&](float(&s)[kBlockN / 2], int n, auto masked) {
      adjust_scores<masked.yes>(s, params, place, bounds, row, steps.begin + n * kBlockN, steps.end,
                                scale, softcap, bottom_right);
    };
    const auto raise = [&](const float(&s)[kBlockN / 2], int h) {
      factor[h] = raise_max(rows, h, row_max(s, h) * unit);
    };

    if (steps.count > 0) {
      // S of step n beside O += P V of step n + 1, if that has begun: the first step, which is masked,
      // has none beside it
      const auto step = [&](int n, auto masked) {
        const bool begun = !masked.yes || n < steps.count - 1;
        // Order knob kTurns: 1: steps go in turn, but for the first, which all begin at once; 2: the
        // first alone, and one warpgroup has its scores while the next one's are under way.
        const bool turn = begun ? kTurns == 1 : kTurns == 2;
        const u32 tile_v = b.v + ring_v.slot * kBytesV, v_free = b.v_free + 8 * ring_v.slot;
        float s[kBlockN / 2];
        wait(b.k_full + 8 * ring_k.slot, ring_k.parity);
        if (begun) ring_v.next();
        if (turn) take_turn(group);
        start_scores(s, tile_q, b.k + ring_k.slot * kBytesK);
        if (begun) {
          if (kPaddedV > 128) rescale(rows, factor);
          start_output(rows, p, tile_v);
          if (turn) pass_turn(group);
          products_wait<1>();
        } else {
          if (turn) pass_turn(group);
          free_other_q();
          products_wait<0>();
        }
        if (n == 0) free_q();
        if (lane() == 0) arrive(b.k_free + 8 * ring_k.slot);
        ring_k.next();
        adjust(s, n, masked);

        // The compiler moves exponentials down across the wait for P V unless a loop stands between:
        // that of the wait for the next V does. Order knob kOrder: what stands before the two.
        const auto values_there = [&] { wait(b.v_full + 8 * ring_v.slot, ring_v.parity); };
        const auto output_done = [&] {
          products_wait<0>();
          if (begun && lane() == 0) arrive(v_free);
          if (masked.yes)
            clean_values(b.v + ring_v.slot * kBytesV, params, place, bounds, steps.begin + n * kBlockN);
        };
        constexpr int kAll = kBlockN / 4;
        if (kOrder == 0) {  // everything
          raise(s, 0), exponentials(s, rows, 0, unit, 0, kAll);
          raise(s, 1), exponentials(s, rows, 1, unit, 0, kAll);
          values_there(), output_done();
        } else if (kOrder == 1) {  // the first row, and between them the second one's maximum
          raise(s, 0), exponentials(s, rows, 0, unit, 0, kAll);
          values_there();
          raise(s, 1);
          output_done();
          exponentials(s, rows, 1, unit, 0, kAll);
        } else if (kOrder == 2) {  // both maxima and the first row's exponentials
          raise(s, 0), raise(s, 1), exponentials(s, rows, 0, unit, 0, kAll);
          values_there(), output_done();
          exponentials(s, rows, 1, unit, 0, kAll);
        } else if (kOrder == 3) {  // both maxima
          raise(s, 0), raise(s, 1);
          values_there(), output_done();
          exponentials(s, rows, 0, unit, 0, kAll), exponentials(s, rows, 1, unit, 0, kAll);
        } else {  // both maxima, and kOrder - 3 of 8 columns
          constexpr int kSome = kAll * (kOrder - 3) / 8 / 2 * 2;
          raise(s, 0), raise(s, 1);
          exponentials(s, rows, 0, unit, 0, kSome), exponentials(s, rows, 1, unit, 0, kSome);
          values_there(), output_done();
          exponentials(s, rows, 0, unit, kSome, kAll), exponentials(s, rows, 1, unit, kSome, kAll);
        }
        round_p(p, s);
        if (kPaddedV <= 128 && begun) rescale(rows, factor);
      };
      int n = steps.count - 1;
      do {  // masked ones at both ends, by one piece of code
        step(n--, Yes());
        if (n < steps.full_end)
#pragma unroll 1
          for (; n >= steps.full_begin; n--) step(n, No());
      } while (n >= 0);

      if (kPaddedV > 128) rescale(rows, factor);
      start_output(rows, p, b.v + ring_v.slot * kBytesV);
      products_wait<0>();
      if (lane() == 0) arrive(b.v_free + 8 * ring_v.slot);
      ring_v.next();
    } else {
      free_q(), free_other_q();
    }

    // O /= sum, LSE = max + log(sum)
    const auto lse = query_rows(place, params.lse, params.lse_stride_batch, params.lse_stride_seq,
                                params.lse_stride_head);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float sum = lanes_sum<4>(rows.sum[h]), shrink = 1;
      factor[h] = row_factor(sum) * shrink;
      if (params.lse && lane() % 4 == 0 && row + 8 * h < place.row1)
        *lse.at(row + 8 * h) = row_lse(rows.max[h], sum);
    }
    clear_empty(rows.o, factor);
    __syncwarp();
    // TMA leaves alone what is beyond the tensor, but not what is beyond the rows in use.
    if (!params.seqused_q)
      store_box_of(params, place, rows, factor, tile_q, group);
    else
      store_rows(params, place, rows, factor, row);
    __syncwarp();
    ring_q.next();
  }
  if (kSecondQ && first_of_group) stores_have_read();
}
