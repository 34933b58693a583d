//-- attn_fwd, family middle: exact attention of some hundred to some thousand keys on Hopper, where
//-- a tile of rows has so few steps that its first product and its last one count.
//--
//-- Each warpgroup that multiplies has tiles of 64 rows of its own, one behind the other: the last
//-- P V of a tile is issued with the first Q K^T of the next, and while one warpgroup writes O, the
//-- others multiply. The last step of a tile is as narrow as the keys that are left for it.
//--
//-- K and V pass through shared memory, kBlockN keys a step, kStages of them at a time. All keys of a
//-- head stay there for all its tiles, where they fit and where there are heads enough for every SM;
//-- else a pass serves one tile of each warpgroup. One warp loads them, and for each warpgroup another
//-- loads its Q, a tile ahead, and stores its O and LSE.
//--
//-- Contract with the parts: type/<dtype>.cuh, mask/none.cuh, score/score.cuh (its unit),
//-- prim/*.cuh; each says what it needs at its head.
//@ include("head.cuh")

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/math.cuh")

//@ include("prim/place.cuh")

//@ include("score/score.cuh")

//@ include("prim/address.cuh")

//@ include("prim/chunk.cuh")

//@ include("prim/mbarrier.cuh")

//@ include("prim/tma.cuh")

//@ include("prim/wgmma.cuh")

//@ include("prim/quad.cuh")

//@ include("prim/accumulator.cuh")

__device__ __forceinline__ unsigned warp_of_group() { return threadIdx.x % 128 / 32; }

constexpr int kGroups = kWarps / 4 - 1;  // warpgroups that multiply
constexpr int kStepsQK = kPadded / 16;
// Keys by which a tile's last step gets narrower
constexpr int kNarrow = kBlockK ? kBlockK : kBlockN;
constexpr int kColumns = kPanel / 2;  // elements of a panel's row
constexpr int kPanels = (kPadded + kColumns - 1) / kColumns;
constexpr u32 kBytesQ = kPanels * kBlockM * kPanel, kBytesKV = kPanels * kBlockN * kPanel;

// Barriers of a hardware number: 0 is __syncthreads'.
enum { kTurn = 1 };

// What a block works with: addresses in shared memory. Of a group's two tiles of rows: Q, whose
// place its O takes.
struct Block {
  u32 q, k, v;
  u32 q_full, q_done;                  // barriers, one a tile of rows
  u32 k_full, k_free, v_full, v_free;  // one a stage
  u32 landed;                          // one for each warp that loads
  __device__ __forceinline__ u32 tile_q(int group, u32 slot) const {
    return q + (2 * group + slot) * kBytesQ;
  }
  __device__ __forceinline__ u32 full_q(int group, u32 slot) const {
    return q_full + 8 * (2 * group + slot);
  }
  __device__ __forceinline__ u32 done_q(int group, u32 slot) const {
    return q_done + 8 * (2 * group + slot);
  }
  __device__ __forceinline__ u32 tile_k(u32 slot) const { return k + slot * kBytesKV; }
  __device__ __forceinline__ u32 tile_v(u32 slot) const { return v + slot * kBytesKV; }
};

__device__ __forceinline__ Block block_of(Smem &smem) {
  Block b;
  b.q = shared_address(smem.q), b.k = shared_address(smem.k), b.v = shared_address(smem.v);
  b.q_full = shared_address(smem.barriers), b.q_done = b.q_full + 8 * 2 * kGroups;
  b.k_full = b.q_done + 8 * 2 * kGroups, b.k_free = b.k_full + 8 * kStages;
  b.v_full = b.k_free + 8 * kStages, b.v_free = b.v_full + 8 * kStages;
  b.landed = b.v_free + 8 * kStages;
  return b;
}

// A tile of kBlockM rows may read a stage before it is loaded again: `uses` of them do.
__device__ __forceinline__ void init_barriers(const Block &b, int uses) {
  for (int i = 0; i < 2 * kGroups; i++)
    barrier_init(b.q_full + 8 * i, 1), barrier_init(b.q_done + 8 * i, 4);
  for (int i = 0; i < kStages; i++) {
    barrier_init(b.k_full + 8 * i, 1), barrier_init(b.k_free + 8 * i, 4 * uses);
    barrier_init(b.v_full + 8 * i, 1), barrier_init(b.v_free + 8 * i, 4 * uses);
  }
  for (int i = 0; i <= kGroups; i++) barrier_init(b.landed + 8 * i, 1);
  barriers_publish();
}

// The passes of K and V of all blocks.
struct Course {
  unsigned tiles, passes_of_head, passes;  // tiles of kBlockM rows of a head; passes of all heads
  bool stay;                               // all keys of a head fit: it needs one pass
  int tiles_of_pass;                       // some may be beyond the rows
};

__device__ __forceinline__ Course course_of(const Params &params, int batch, int heads_q, int len_q,
                                            int len_k) {
  const unsigned heads = heads_q * batch;
  Course c;
  c.tiles = ceil_div(len_q, kBlockM);
  // Each warpgroup must see each pass, and all passes are alike.
  c.stay = len_k <= kStages * kBlockN && heads >= kHeadsToStay && c.tiles > kGroups &&
           len_q <= kRowsToStay && !params.seqused_q && !params.seqused_k;
  c.tiles_of_pass = c.stay ? c.tiles : kGroups;
  c.passes_of_head = c.stay ? 1 : (c.tiles - 1) / kGroups + 1;
  c.passes = heads * c.passes_of_head;
  return c;
}

// A pass: the place of its first tile, steps of kBlockN keys, and where the first of them goes.
struct Pass {
  Place place;
  int steps;
  Ring<kStages> ring;
};

// Two steps at least, so that one may be without keys.
__device__ __forceinline__ int steps_of(int len_k) { return max(ceil_div(len_k, kBlockN), 2); }

// The place of a tile, from what of it another lane has found.
__device__ __forceinline__ Place of_lane(const Place &found, int lane, const Params &params,
                                         int len_q, int len_k) {
  const auto get = [&](int x) { return __shfl_sync(0xffffffff, x, lane); };
  Place place;
  place.sequence = get(found.sequence);
  place.head_q = get(found.head_q), place.head_kv = get(found.head_kv);
  place.len_q = in_use(params.seqused_q, place.sequence, len_q);
  place.len_k = in_use(params.seqused_k, place.sequence, len_k);
  place.row0 = get(found.row0), place.row1 = min(place.row0 + kBlockM, place.len_q);
  return place;
}

enum { kNoTile = -1 };

// A tile of rows: what the warp that loads it has found out, for those that multiply.
struct Job {
  Place place;
  int rows;            // of it; 0: it is beyond those in use; kNoTile: there is no more
  int steps;           // of its pass; without a tile turns that others still wait for
  Ring<kStages> ring;  // where its first K and V are
};
static_assert(sizeof(Job) <= sizeof(Smem::jobs[0]), "a job has outgrown its place");

__device__ __forceinline__ Job &job_of(Smem &smem, int group, u32 slot) {
  return *reinterpret_cast<Job *>(smem.jobs[2 * group + slot]);
}
// What its rows end with: maximum and sum of each.
__device__ __forceinline__ float2 *ends_of(Smem &smem, int group, u32 slot) {
  return reinterpret_cast<float2 *>(smem.ends[2 * group + slot]);
}

// ---- the warp that loads K and V ---------------------------------------------------------------

// V may hold NaN where keys are not in use, and P is 0 there, not nothing: the warp puts zeros
// there. Where a tensor ends TMA does.
__device__ __forceinline__ void clean_values(u32 tile_v, int keys) {
  for (int p = 0; p < kPanels; p++)
    for (int at = keys * kPanel + lane() * 16; at < kBlockN * kPanel; at += 32 * 16)
      store_shared(tile_v + p * (kBlockN * kPanel) + at, make_uint4(0, 0, 0, 0));
  fence_async();
  __syncwarp();
}

__device__ __forceinline__ void load_keys(u32 to, u32 full, const TensorMap *map,
                                          const Place &place, int key, u64 hint) {
  if (lane() != 0) return;
  arrive_and_expect(full, kBytesKV);
#pragma unroll
  for (int p = 0; p < kPanels; p++)
    load_box(to + p * (kBlockN * kPanel), map, full, p * kColumns, key, place.head_kv,
             place.sequence, hint);
}

// ---- the warps that load Q and store O ---------------------------------------------------------

__device__ __forceinline__ void load_rows(u32 to, u32 full, const Params &params,
                                          const Place &place) {
  arrive_and_expect(full, kBytesQ);
#pragma unroll
  for (int p = 0; p < kPanels; p++)
    load_box(to + p * (kBlockM * kPanel), &params.map_q, full, p * kColumns, place.row0,
             place.head_q, place.sequence);
}

// Changes the sign of a tile of Q: with a scale below 0 the largest score of a row is the one that
// counts most then, too.
__device__ __forceinline__ void negate_rows(u32 tile) {
  for (int at = lane() * 16; at < (int)kBytesQ; at += 32 * 16) {
    const uint4 x = load_shared(tile + at);
    store_shared(tile + at, make_uint4(x.x ^ 0x80008000, x.y ^ 0x80008000, x.z ^ 0x80008000,
                                       x.w ^ 0x80008000));
  }
  fence_async();
  __syncwarp();
}

// O of a tile. TMA leaves alone what is beyond the tensor, but not what is beyond the rows in use:
// then the warp copies them.
__device__ __forceinline__ void store_rows(u32 tile, const Params &params, const Place &place) {
  if (params.seqused_q && place.row1 - place.row0 < kBlockM) {
    const auto o = query_rows(place, params.o, params.o_stride_batch, params.o_stride_seq,
                              params.o_stride_head);
    constexpr int kChunks = kHeadDimV / kChunk;
    for (int i = lane(); i < (place.row1 - place.row0) * kChunks; i += 32)
      *reinterpret_cast<uint4 *>(o.at(place.row0 + i / kChunks) + i % kChunks * kChunk) =
          load_shared(swizzled_chunk<kPanel, kBlockM>(tile, i / kChunks, i % kChunks));
  } else if (lane() == 0) {
#pragma unroll
    for (int p = 0; p < kPanels; p++)
      store_box(tile + p * (kBlockM * kPanel), &params.map_o, p * kColumns, place.row0,
                place.head_q, place.sequence);
    stores_commit();
    stores_have_read();
  }
}

// The LSE of a tile, from each row's maximum and sum.
__device__ __forceinline__ void store_lse(const float2 *of_rows, const Params &params,
                                          const Place &place) {
  if (!params.lse) return;
  const auto lse = query_rows(place, params.lse, params.lse_stride_batch, params.lse_stride_seq,
                              params.lse_stride_head);
  for (int row = place.row0 + lane(); row < place.row1; row += 32) {
    const float2 x = of_rows[row - place.row0];
    *lse.at(row) = row_lse(x.x, x.y);
  }
}

// ---- the warpgroups that multiply --------------------------------------------------------------

// What a thread knows of its two rows after some keys: sum and o are relative to 2^max. It sums its
// own columns only; the four lanes of a row are added up at the end.
struct Rows {
  float max[2], sum[2], o[kHeadDimV / 2];
};

// Scores of a step with kKeys keys are float[kKeys / 2], its P u32[kKeys / 4].
template <int kKeys>
struct Wide {
  static constexpr int keys = kKeys;
};

// Calls with the width of a tile's last step, the least that holds its keys.
template <int kKeys = kBlockN, typename Take>
__device__ __forceinline__ void with_width(int keys, Take take) {
  if constexpr (kKeys > kNarrow) {
    if (keys <= kKeys - kNarrow) return with_width<kKeys - kNarrow>(keys, take);
  }
  take(Wide<kKeys>());
}

// S = Q K^T, under way.
template <int kElements>
__device__ __forceinline__ void start_scores(float (&s)[kElements], u32 tile_q, u32 tile_k) {
  const u64 q = describe<kPanel>(tile_q, 0), k = describe<kPanel>(tile_k, 0);
  products_fence();
#pragma unroll
  for (int step = 0; step < kStepsQK; step++)
    multiply_qk(s, q + along<kPanel, kBlockM>(step), k + along<kPanel, kBlockN>(step), step > 0);
  products_commit();
}

// O += P V, under way, of kKeys keys; or O = P V.
template <int kKeys>
__device__ __forceinline__ void start_output(Rows &rows, const u32 (&p)[kBlockN / 4], u32 tile_v,
                                             bool add) {
  const u64 v = describe<kPanel>(tile_v, kBlockN * kPanel);
  products_fence();
#pragma unroll
  for (int step = 0; step < kKeys / 16; step++)
    multiply_pv(rows.o, p[4 * step], p[4 * step + 1], p[4 * step + 2], p[4 * step + 3],
                v + down<kPanel>(step), add || step > 0);
  products_commit();
}

// -inf where there is no key, from column kFrom on: before any arithmetic, since K may hold NaN.
template <int kFrom, int kElements>
__device__ __forceinline__ void mask_scores(float (&s)[kElements], int keys) {
  const int left = keys - lane() % 4 * 2;
#pragma unroll
  for (int e = max(kFrom, 0) / 2; e < kElements; e++)
    if (e / 4 * 8 + e % 2 >= left) s[e] = negative_infinity();
}

// Gives the rows the maxima of what was known and of these scores; factor is what their O must be
// multiplied by. Order knob kLazy: a maximum that grew by less than 2^8 is not taken over: P stays
// far below what 16 bits hold, and O need not be rescaled.
template <int kElements>
__device__ __forceinline__ void raise_max(const float (&s)[kElements], Rows &rows,
                                          float (&factor)[2], float unit) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float raised = fmaxf(rows.max[h], row_max(s, h) * unit);
    if (kLazy && raised - rows.max[h] <= 8) raised = rows.max[h];
    factor[h] = exp2_approx(rows.max[h] - raised);
    rows.max[h] = raised;
  }
}

// P = 2^(unit S - max) in the place of S, and its sums.
template <int kElements>
__device__ __forceinline__ void exponentials(float (&s)[kElements], Rows &rows,
                                             const float (&factor)[2], float unit) {
  float sum[4] = {0, 0, 0, 0};
#pragma unroll
  for (int e = 0; e < kElements; e++) {
    s[e] = exp2_approx(fmaf(s[e], unit, -rows.max[half(e)]));
    sum[e % 4] += s[e];
  }
#pragma unroll
  for (int h = 0; h < 2; h++)
    rows.sum[h] = fmaf(rows.sum[h], factor[h], sum[2 * h] + sum[2 * h + 1]);
}

template <int kElements>
__device__ __forceinline__ void round_p(u32 (&p)[kBlockN / 4], const float (&s)[kElements]) {
#pragma unroll
  for (int w = 0; w < kElements / 2; w++) p[w] = pack(s[2 * w], s[2 * w + 1]);
}

__device__ __forceinline__ void rescale(Rows &rows, const float (&factor)[2]) {
  if (kLazy && !__any_sync(0xffffffff, factor[0] != 1 || factor[1] != 1)) return;
#pragma unroll
  for (int e = 0; e < kHeadDimV / 2; e++) rows.o[e] *= factor[half(e)];
}

// What O of each row is multiplied by; maximum and sum go to the warp that writes the LSE.
__device__ __forceinline__ void finish_rows(Rows &rows, float (&factor)[2], float2 *of_rows) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    rows.sum[h] = lanes_sum<4>(rows.sum[h]);
    factor[h] = row_factor(rows.sum[h]);
  }
  const unsigned h = lane() % 4;
  if (h < 2)
    of_rows[8 * h] = make_float2(h ? rows.max[1] : rows.max[0], h ? rows.sum[1] : rows.sum[0]);
}

// O /= sum.
__device__ __forceinline__ void scale_output(Rows &rows, const float (&factor)[2]) {
#pragma unroll
  for (int e = 0; e < kHeadDimV / 2; e++) rows.o[e] *= factor[half(e)];
  clear_empty(rows.o, factor);
}

// O of a warp's 16 rows to their place among the rows of Q.
__device__ __forceinline__ void keep_output(const Rows &rows, u32 tile_q) {
  const unsigned row = warp_of_group() * 16 + lane() % 16;
#pragma unroll
  for (int step = 0; step < (kHeadDimV + 15) / 16; step++) {
    const float *o = &rows.o[8 * step];
    const u32 place = swizzled_chunk<kPanel, kBlockM>(tile_q, row, 2 * step + lane() / 16);
    //@ if d.v % 16 == 8 then
    // The last 8 columns
    if (16 * step + 8 == kHeadDimV) {
      store_matrices(swizzled_chunk<kPanel, kBlockM>(tile_q, row, 2 * step), pack(o[0], o[1]),
                     pack(o[2], o[3]));
      continue;
    }
    //@ end
    store_matrices(place, pack(o[0], o[1]), pack(o[2], o[3]), pack(o[4], o[5]), pack(o[6], o[7]));
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  //@ include("prim/scalars.cuh")
  const Block b = block_of(smem);
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  const Course course = course_of(params, batch, heads_q, len_q, len_k);

  if (threadIdx.x == 0) {
    prefetch_map(&params.map_q), prefetch_map(&params.map_k), prefetch_map(&params.map_v);
    init_barriers(b, course.tiles_of_pass);
  }
  __syncthreads();

  if (warpgroup == 0) {
    give_registers<kRegistersLoad>();
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp > kGroups) return;
    const auto place_of_pass = [&](unsigned pass) {
      const unsigned head = pass / course.passes_of_head, round = pass % course.passes_of_head;
      return place_of(params, head * course.tiles + round * kGroups, batch, heads_q, heads_kv,
                      len_q, len_k, total_q, total_k);
    };
    // Calls take with each pass of the block; find(n, i) gives the place of the n-th, pass i of all
    const auto each_pass = [&](auto find, auto take) {
      Pass pass;
      for (unsigned n = 0, i = blockIdx.x; i < course.passes; n++, i += gridDim.x) {
        pass.place = find(n, i);
        if (pass.place.row0 >= pass.place.row1) continue;
        pass.steps = steps_of(pass.place.len_k);
        take(pass);
        for (int step = 0; step < pass.steps; step++) pass.ring.next();
      }
    };

    if (warp == 0) {
      const u64 hint = course.stay && heads_q == heads_kv ? kEvictFirst : kEvictLast;
      u32 parity = 0;  // of b.landed
      // Finding a place takes divisions, about as long as a step: each lane finds another one
      Place of_32;
      const auto find = [&](unsigned n, unsigned i) {
        if (n % 32 == 0) of_32 = place_of_pass(min(i + lane() * gridDim.x, course.passes - 1));
        return of_lane(of_32, n % 32, params, len_q, len_k);
      };
      each_pass(find, [&](const Pass &pass) {
        const Place &place = pass.place;
        Ring<kStages> ring = pass.ring;
        for (int step = 0; step < pass.steps; step++, ring.next()) {
          // What is beyond the tensor comes as zeros
          const int keys = place.len_k - step * kBlockN;
          const int key = keys > 0 ? step * kBlockN : max(len_k, 1);
          const bool dirty = 0 < keys && keys < kBlockN && place.len_k < len_k;
          const u32 tile_k = b.tile_k(ring.slot), tile_v = b.tile_v(ring.slot);
          const u32 k_full = b.k_full + 8 * ring.slot, v_full = b.v_full + 8 * ring.slot;
          wait(b.k_free + 8 * ring.slot, ring.parity ^ 1);
          load_keys(tile_k, k_full, &params.map_k, place, key, hint);
          wait(b.v_free + 8 * ring.slot, ring.parity ^ 1);
          load_keys(tile_v, dirty ? b.landed : v_full, &params.map_v, place, key, hint);
          if (!dirty) continue;
          wait(b.landed, parity), parity ^= 1;
          clean_values(tile_v, keys);
          if (lane() == 0) arrive(v_full);
        }
      });
      return;
    }

    const int group = warp - 1;
    const u32 landed = b.landed + 8 * warp;
    u32 parity = 0;  // of landed
    Ring<2> ring;
    // What the tile before left in its place goes to device memory
    const auto clear_slot = [&] {
      wait(b.done_q(group, ring.slot), ring.parity ^ 1);
      const Job &job = job_of(smem, group, ring.slot);
      if (job.rows > 0) {
        store_lse(ends_of(smem, group, ring.slot), params, job.place);
        store_rows(b.tile_q(group, ring.slot), params, job.place);
      }
      __syncwarp();
    };
    const auto give = [&](const Job &job) {
      clear_slot();
      const u32 tile = b.tile_q(group, ring.slot), full = b.full_q(group, ring.slot);
      const bool negative = job.rows > 0 && scale < 0;
      if (lane() == 0) {
        job_of(smem, group, ring.slot) = job;
        if (job.rows > 0)
          load_rows(tile, negative ? landed : full, params, job.place);
        else
          arrive(full);
      }
      __syncwarp();
      if (negative) {
        wait(landed, parity), parity ^= 1;
        negate_rows(tile);
        if (lane() == 0) arrive(full);
        __syncwarp();
      }
      ring.next();
    };

    if (lane() == 0) job_of(smem, group, 0).rows = job_of(smem, group, 1).rows = 0;
    __syncwarp();
    Job job = {};
    int tile = group;  // of its pass
    const auto find = [&](unsigned, unsigned i) { return place_of_pass(i); };
    each_pass(find, [&](const Pass &pass) {
      job.steps = pass.steps, job.ring = pass.ring;
      for (; tile < course.tiles_of_pass; tile += kGroups) {
        job.place = pass.place;
        job.place.row0 += tile * kBlockM;
        job.place.row1 = min(job.place.row0 + kBlockM, job.place.len_q);
        job.rows = max(job.place.row1 - job.place.row0, 0);
        give(job);
      }
      tile -= course.tiles_of_pass;
    });
    job.rows = kNoTile;
    if (tile >= group) job.steps = 0;  // else it has a tile less than others
    give(job);
    clear_slot();
    stores_wait();
    return;
  }
  take_registers<kRegistersMultiply>();

  // Scale 0 must leave -inf what it is.
  const float unit = fmaxf(score_unit(scale), 1e-37f);
  const int group = warpgroup - 1;
  // Order knob kTurns: warpgroups issue their products in turn, so that they don't run in step, all
  // multiplying and then all in the softmax.
  const auto turn = [&] {
    if (kTurns) threads_sync(kTurn + group, 256);
  };
  const auto pass_turn = [&] {
    if (kTurns) threads_arrive(kTurn + (group + 1) % kGroups, 256);
  };
  if (kTurns && group == kGroups - 1) threads_arrive(kTurn, 256);  // the first turn
  const auto free = [&](u32 barriers, u32 slot) {
    if (lane() == 0) arrive(barriers + 8 * slot);
  };

  float s[kBlockN / 2];
  Ring<2> ring_q;
  bool begun = false;  // the tile's first scores are there
  for (;;) {
    const u32 slot = ring_q.slot, tile_q = b.tile_q(group, slot);
    wait(b.full_q(group, slot), ring_q.parity);
    const Job &job = job_of(smem, group, slot);
    const int steps = job.steps, rows_of_tile = job.rows;
    if (rows_of_tile == kNoTile) {
      for (int n = 0; n < steps; n++) turn(), pass_turn();
      break;
    }
    ring_q.next();
    Ring<kStages> ring_k = job.ring, ring_v = ring_k;
    if (rows_of_tile == 0) {
      for (int n = 0; n < steps; n++, ring_k.next()) {
        wait(b.k_full + 8 * ring_k.slot, ring_k.parity);
        free(b.k_free, ring_k.slot);
        turn(), pass_turn();
        wait(b.v_full + 8 * ring_k.slot, ring_k.parity);
        free(b.v_free, ring_k.slot);
      }
      __syncwarp();
      free(b.done_q(group, slot), 0);
      __syncwarp();
      continue;
    }
    const int left = job.place.len_k - (steps - 1) * kBlockN;  // keys of the last step
    if (!begun) {
      wait(b.k_full + 8 * ring_k.slot, ring_k.parity);
      start_scores(s, tile_q, b.tile_k(ring_k.slot));
      products_wait<0>();
    }
    free(b.k_free, ring_k.slot), ring_k.next();

    // P of the first step
    Rows rows;
    u32 p[kBlockN / 4];
    float factor[2];
    rows.max[0] = rows.max[1] = kLowest, rows.sum[0] = rows.sum[1] = 0;
    if (left < 0) mask_scores<0>(s, left + kBlockN);
    raise_max(s, rows, factor, unit);
    exponentials(s, rows, factor, unit);
    round_p(p, s);

    // S of a step beside O += P V of the one before, then P of the step
    const auto step = [&](auto &x, bool add, int keys) {
      constexpr int kKeys = sizeof x / sizeof *x * 2;
      wait(b.k_full + 8 * ring_k.slot, ring_k.parity);
      wait(b.v_full + 8 * ring_v.slot, ring_v.parity);
      turn();
      start_scores(x, tile_q, b.tile_k(ring_k.slot));
      start_output<kBlockN>(rows, p, b.tile_v(ring_v.slot), add);
      pass_turn();
      products_wait<1>();
      free(b.k_free, ring_k.slot), ring_k.next();
      if (keys < kKeys) mask_scores<kKeys - kNarrow>(x, keys);
      raise_max(x, rows, factor, unit);
      exponentials(x, rows, factor, unit);
      products_wait<0>();
      free(b.v_free, ring_v.slot), ring_v.next();
      round_p(p, x);
      rescale(rows, factor);
    };
    const bool narrow = kNarrow < kBlockN && left <= kBlockN - kNarrow;  // the last step
    const int whole = narrow ? steps - 1 : steps;
#pragma unroll 1
    for (int n = 1; n < whole; n++) step(s, n > 1, n < steps - 1 ? kBlockN : left);

    // The last step, and the first scores of the next tile beside its P V
    with_width(left, [&](auto wide) {
      constexpr int kKeys = wide.keys;
      if constexpr (kKeys < kBlockN) {
        float x[kKeys / 2];
        step(x, steps > 2, left);
      }
      finish_rows(rows, factor, ends_of(smem, group, slot) + warp_of_group() * 16 + lane() / 4);
      wait(b.v_full + 8 * ring_v.slot, ring_v.parity);
      wait(b.full_q(group, ring_q.slot), ring_q.parity);
      const u32 tile_v = b.tile_v(ring_v.slot);
      const Job &next = job_of(smem, group, ring_q.slot);
      begun = next.rows > 0;
      // Without a next tile, scores of what is at hand
      u32 next_q = tile_v, next_k = tile_v;
      if (begun) {
        ring_k = next.ring;
        next_q = b.tile_q(group, ring_q.slot), next_k = b.tile_k(ring_k.slot);
        wait(b.k_full + 8 * ring_k.slot, ring_k.parity);
      }
      turn();
      start_output<kKeys>(rows, p, tile_v, true);
      start_scores(s, next_q, next_k);
      pass_turn();
      if (begun)
        products_wait<1>();
      else
        products_wait<0>();
      free(b.v_free, ring_v.slot);
      scale_output(rows, factor);
      keep_output(rows, tile_q);
      products_wait<0>();
    });
    fence_async();
    __syncwarp();
    free(b.done_q(group, slot), 0);
    __syncwarp();
  }
}
