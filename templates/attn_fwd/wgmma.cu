//-- attn_fwd, family wgmma: exact attention in one pass on Hopper. A warpgroup of 128 threads loads
//-- tiles by TMA; the others, 64 rows of Q each, multiply by wgmma and do the softmax.
//--
//-- A block takes tiles of kBlockM rows of Q. For each it walks down the keys that they see, kBlockN
//-- at a time, from the last to the first: the masked ones come first. While the tensor cores compute
//-- P V of one step, the threads compute the softmax of the next: S = Q K^T of the next step is issued
//-- before O += P V of this one.
//--
//-- Contract with the parts, all of which work on plain values:
//--   type/<dtype>.cuh   elem_t of 16 bits, kChunk, pack
//--   mask/<mask>.cuh    as in attn_fwd/fma.cu; a mask is its bounds here
//--   score/score.cuh    softcap and alibi
//--   prim/*.cuh         each says what it needs at its head
//-- Row reductions and the hand-over of P belong to this family, so they stand here.
//@ include("head.cuh")

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/math.cuh")

//@ include("prim/place.cuh")

//@ include("score/score.cuh")

//@ if features.sink then
//@   include("score/sink.cuh")
//@ end

//@ include("prim/address.cuh")

//@ include("prim/chunk.cuh")

//@ include("prim/mbarrier.cuh")

//@ include("prim/tma.cuh")

//@ include("prim/wgmma.cuh")

//@ include("prim/quad.cuh")

//@ include("prim/accumulator.cuh")

//@ include("prim/columns.cuh")

//@ local sections = not features.varlen and mask ~= "none"
//@ if sections then
//@   include("prim/sections.cuh")
//@ end

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

//@ include("prim/turns.cuh")

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

//@ if not sections then
// Tiles of rows of all heads and sequences.
__device__ __forceinline__ unsigned tiles_of(int batch, int heads_q, int len_q, int total_q) {
  //@ if features.varlen then
  return (total_q * kGroup / kBlockM + batch) * (heads_q / kGroup);
  //@ else
  return ceil_div(len_q * kGroup, kBlockM) * (heads_q / kGroup) * batch;
  //@ end
}

//@ end
// Calls take with the index of each tile that is the block's.
template <typename Take>
__device__ __forceinline__ void each_tile(int batch, int heads_q, int heads_kv, int len_q, int len_k,
                                          int total_q, Take take) {
//@ if sections then
  const Sections s = sections_of<$(tile.persistent == 1 and "true" or "false")>(
      ceil_div(len_q * kGroup, kBlockM), heads_q / kGroup * batch, heads_q / heads_kv / kGroup, len_k);
//@   if tile.persistent == 1 then
  for (Walk walk = {}; walk.next(s);) take(s.index(walk.first, walk.t));
//@   else
  const unsigned first = blockIdx.x / (s.section * s.units) * s.section;
  take(s.index(first, blockIdx.x - first * s.units));
//@   end
//@ else
  const unsigned all = tiles_of(batch, heads_q, len_q, total_q);
  for (unsigned t = blockIdx.x; t < all; t += gridDim.x) take(t);
//@ end
}

// Coordinates of a place in the tensor maps: with varlen all sequences are one.
//@ local varlen = features.varlen
__device__ __forceinline__ int sequence_of_map(const Place &place) {
  return $(varlen and "0" or "place.sequence");
}
__device__ __forceinline__ int query_of_map(const Place &place, int row) {
  return $(varlen and "(int)place.token_q + " or "")row / kGroup;
}
__device__ __forceinline__ int key_of_map(const Place &place, int j) {
  return $(varlen and "(int)place.token_k + " or "")j;
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
  //@ if not features.varlen then
  if (!params.seqused_q && !params.seqused_k) return;
  //@ end
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
//@ if features.softcap or features.alibi then
  const RowScore of[2] = {row_score(params, place, row, bottom_right),
                          row_score(params, place, row + 8, bottom_right)};
//@ end
  const int first = j0 + lane() % 4 * 2;
//@ if features.softcap or features.alibi then
#pragma unroll
  for (int e = 0; e < kBlockN / 2; e++)
    s[e] = score(of[half(e)], s[e], first + e / 4 * 8 + e % 2, scale, softcap, params.bias_stride_k);
//@ end
  if (!kMasked) return;
  mask_scores(s, bounds, row / kGroup, (row + 8) / kGroup, first, j_end);
}

//@ local staged = tile.second_q == 1 and dtype.out == dtype.q and not features.varlen
//@ if staged then
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

//@ end
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
//@ if dtype.out == dtype.q then
      const float *x = &rows.o[4 * g + 2 * h];
      const bool odd = lane() % 2;
      const uint2 four = swap_words(pack(x[0] * factor[h], x[1] * factor[h]),
                                    pack(x[4] * factor[h], x[5] * factor[h]));
      const int at = (g + odd) * 8 + lane() % 4 / 2 * 4;
      if (inside && at < kHeadDimV) *reinterpret_cast<uint2 *>(to + at) = four;
//@ else
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const float *x = &rows.o[4 * (g + e) + 2 * h];
        const int at = (g + e) * 8 + lane() % 4 * 2;
        if (inside && at < kHeadDimV)
          *reinterpret_cast<float2 *>(to + at) = make_float2(x[0] * factor[h], x[1] * factor[h]);
      }
//@ end
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
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  //@ include("prim/scalars.cuh")
  const Block b = block_of(smem);
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);

  if (threadIdx.x == 0) {
    prefetch_map(&params.map_q), prefetch_map(&params.map_k), prefetch_map(&params.map_v);
    init_barriers(b);
  }
  //@ include("prim/early.cuh")
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
        const bool begun = !masked.yes$(mask ~= "none" and " || n < steps.count - 1" or "");
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
//@ if mask == "none" then
      step(n--, Yes());
#pragma unroll 1
      for (; n >= steps.full_begin; n--) step(n, No());
//@ else
      do {  // masked ones at both ends, by one piece of code
        step(n--, Yes());
        if (n < steps.full_end)
#pragma unroll 1
          for (; n >= steps.full_begin; n--) step(n, No());
      } while (n >= 0);
//@ end

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
      //@ if features.sink then
      shrink = add_sink(params.sinks[place.head_q + min(row + 8 * h, place.row1 - 1) % kGroup],
                        rows.max[h], sum);
      //@ end
      factor[h] = row_factor(sum) * shrink;
      if (params.lse && lane() % 4 == 0 && row + 8 * h < place.row1)
        *lse.at(row + 8 * h) = row_lse(rows.max[h], sum);
    }
    clear_empty(rows.o, factor);
    __syncwarp();
    //@ if staged then
    // TMA leaves alone what is beyond the tensor, but not what is beyond the rows in use.
    if (!params.seqused_q)
      store_box_of(params, place, rows, factor, tile_q, group);
    else
      store_rows(params, place, rows, factor, row);
    //@ else
    store_rows(params, place, rows, factor, row);
    //@ end
    __syncwarp();
    ring_q.next();
  }
  if (kSecondQ && first_of_group) stores_have_read();
}
