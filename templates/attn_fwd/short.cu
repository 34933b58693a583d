//-- attn_fwd, family short: exact attention of short sequences on Hopper, where device memory is the
//-- limit. All keys of a head are one step, so that no maximum runs and nothing is rescaled:
//-- len_k <= kBlockN, which the launch checks.
//--
//-- An item is kBlockM rows of Q of a head (mostly all of them) with its K and V. A block goes from item to
//-- item, kStages of them in shared memory: one thread loads and stores whole items by TMA, and
//-- warpgroups take tiles of 64 rows in turn, whatever item these belong to. So loads never wait for
//-- the arithmetic of more than an item, and the bytes in flight are those of kStages items.
//--
//-- Contract with the parts: type/<dtype>.cuh, mask/<mask>.cuh, score/score.cuh (its unit),
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
constexpr int kTiles = (kBlockM + 63) / 64;  // of 64 rows, in an item
constexpr int kStepsO = kPadded / 16;
constexpr int kStepsPV = (kBlockN + 15) / 16;
constexpr int kColumns = kPanel / 2;  // elements of a panel's row
constexpr int kPanels = (kPadded + kColumns - 1) / kColumns;
constexpr u32 kBytesQ = kPanels * kBlockM * kPanel, kBytesK = kPanels * kBlockN * kPanel;
constexpr u32 kBytesItem = kBytesQ + 2 * kBytesK;

// Barriers of a hardware number: 0 is __syncthreads'.
enum { kTurn = 1 };

//@ include("prim/turns.cuh")

// What a block works with: addresses in shared memory. Of an item: the rows of Q, whose place its O
// takes, then K, then V.
struct Block {
  u32 items, zeros;
  u32 loaded, loaded_v, clean_v, done;  // barriers, one an item
  __device__ __forceinline__ u32 q(u32 slot) const { return items + slot * kBytesItem; }
  __device__ __forceinline__ u32 k(u32 slot) const { return q(slot) + kBytesQ; }
  __device__ __forceinline__ u32 v(u32 slot) const { return k(slot) + kBytesK; }
};

__device__ __forceinline__ Block block_of(Smem &smem) {
  Block b;
  b.items = shared_address(smem.items), b.zeros = shared_address(smem.zeros);
  b.loaded = shared_address(smem.barriers);
  b.loaded_v = b.loaded + 8 * kStages, b.clean_v = b.loaded_v + 8 * kStages;
  b.done = b.clean_v + 8 * kStages;
  return b;
}

__device__ __forceinline__ void init_barriers(const Block &b) {
  for (int i = 0; i < kStages; i++) {
    barrier_init(b.loaded + 8 * i, 1), barrier_init(b.loaded_v + 8 * i, 1);
    barrier_init(b.clean_v + 8 * i, 1), barrier_init(b.done + 8 * i, 4 * kTiles);
  }
  barriers_publish();
}

// An item: what the thread that loads has found out, for those that multiply.
struct Job {
  Place place;
  MaskBounds bounds;
  int begin, end;  // keys that some row of the item sees
  int seen;        // where those end that some row of the sequence sees
};
static_assert(sizeof(Job) <= sizeof(Smem::jobs[0]), "a job has outgrown its place");

__device__ __forceinline__ Job &job_of(Smem &smem, u32 slot) {
  return *reinterpret_cast<Job *>(smem.jobs[slot]);
}

// ---- the warpgroup that loads ---------------------------------------------------------------------

__device__ __forceinline__ void load_item(const Params &params, const Block &b, const Job &job,
                                          u32 slot, u64 hint) {
  const Place &place = job.place;
  const bool keys = job.end > job.begin, scores = keys || kOrder;
  const u32 full = b.loaded + 8 * slot, full_v = b.loaded_v + 8 * slot;
  arrive_and_expect(full, kBytesQ + (scores ? kBytesK : 0));
#pragma unroll
  for (int p = 0; p < kPanels; p++) {
    load_box(b.q(slot) + p * (kBlockM * kPanel), &params.map_q, full, p * kColumns,
             place.row0 / kGroup, place.head_q / kGroup, place.sequence);
    if (scores)
      load_box(b.k(slot) + p * (kBlockN * kPanel), &params.map_k, full, p * kColumns, job.begin,
               place.head_kv, place.sequence, hint);
  }
  arrive_and_expect(full_v, keys ? kBytesK : 0);
#pragma unroll
  for (int p = 0; p < kPanels; p++)
    if (keys)
      load_box(b.v(slot) + p * (kBlockN * kPanel), &params.map_v, full_v, p * kColumns, job.begin,
               place.head_kv, place.sequence, hint);
}

// O of an item, from the place of its Q. TMA leaves alone what is beyond the tensor.
__device__ __forceinline__ void store_item(const Params &params, const Block &b, const Job &job,
                                           u32 slot) {
#pragma unroll
  for (int p = 0; p < kPanels; p++)
    store_box(b.q(slot) + p * (kBlockM * kPanel), &params.map_o, p * kColumns,
              job.place.row0 / kGroup, job.place.head_q / kGroup, job.place.sequence);
  stores_commit();
}

// V may hold NaN where no row of the sequence sees it, and P is 0 there, not nothing: a warp puts
// zeros there. Of whole sequences the tensor map ends where they are seen.
__device__ __forceinline__ void clean_values(const Job &job, u32 tile_v) {
  const int first = max(job.seen - job.begin, 0) * kPanel;
  for (int p = 0; p < kPanels; p++)
    for (int at = first + lane() * 16; at < kBlockN * kPanel; at += 32 * 16)
      store_shared(tile_v + p * (kBlockN * kPanel) + at, make_uint4(0, 0, 0, 0));
  fence_async();
  __syncwarp();
}

// ---- the warpgroups that multiply -----------------------------------------------------------------

// What a thread knows of its two rows. It sums its own columns only; the four lanes of a row are
// added up at the end.
struct Rows {
  float max[2], sum[2], o[kPadded / 2];
};

// S = Q K^T, under way. Rows of Q beyond the item's are K's: what comes of them goes nowhere.
__device__ __forceinline__ void start_scores(float (&s)[kBlockN / 2], u32 tile_q, u32 tile_k) {
  const u64 q = describe<kPanel>(tile_q, 0), k = describe<kPanel>(tile_k, 0);
  products_fence();
  multiply_qk<kPanel>(s, q, k);
  products_commit();
}

// O = P V, under way. Where keys end in half a step, its other rows of V are zeros that lie apart:
// the stride of its descriptor leads there.
__device__ __forceinline__ void start_output(Rows &rows, u32 (&p)[kStepsPV * 4], u32 tile_v,
                                             u32 zeros) {
  const u64 v = describe<kPanel>(tile_v, kBlockN * kPanel);
#pragma unroll
  for (int e = 0; e < kPadded / 2; e++) rows.o[e] = 0;
  u64 vs[kStepsPV];
#pragma unroll
  for (int step = 0; step < kStepsPV; step++) {
    vs[step] = v + down<kPanel>(step);
    if (step * 16 + 16 > kBlockN)
      vs[step] += (u64)((zeros - (tile_v + step * 16 * kPanel) - 8 * kPanel) >> 4) << 32;
  }
  settle(rows.o), settle(p);
  products_fence();
  multiply_pv(rows.o, p, vs);
  products_commit();
}

// -inf where a pair is not seen: before any arithmetic, since K may hold NaN there. Columns from
// kFrom on, which are those that may be masked.
template <int kFrom>
__device__ __forceinline__ void mask_scores(float (&s)[kBlockN / 2], const Job &job, int row) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int first = job.begin + lane() % 4 * 2, i = (row + 8 * h) / kGroup;
    const int low = i + job.bounds.lower - first;
    const int high = min(i + job.bounds.upper, job.end - 1) - first;
#pragma unroll
    for (int c = max(kFrom, 0) / 8 * 2; c < kBlockN / 4; c++) {
      float &x = s[c / 2 * 4 + 2 * h + c % 2];
      const int at = c / 2 * 8 + c % 2;
      x = (kMaskHasLower && at < low) || at > high ? negative_infinity() : x;
    }
  }
}

__device__ __forceinline__ void maxima(const float (&s)[kBlockN / 2], Rows &rows, float unit) {
#pragma unroll
  for (int h = 0; h < 2; h++) rows.max[h] = fmaxf(kLowest, row_max(s, h) * unit);
}

// P = 2^(unit S - max) in the place of S, and its sums.
__device__ __forceinline__ void exponentials(float (&s)[kBlockN / 2], Rows &rows, float unit) {
  float sum[4] = {0, 0, 0, 0};
#pragma unroll
  for (int e = 0; e < kBlockN / 2; e++) {
    s[e] = exp2_approx(fmaf(s[e], unit, -rows.max[half(e)]));
    sum[e % 4] += s[e];
  }
  rows.sum[0] = sum[0] + sum[1], rows.sum[1] = sum[2] + sum[3];
}

// What O of each row is multiplied by, and its LSE.
__device__ __forceinline__ void finish_rows(const Params &params, const Place &place, Rows &rows,
                                            float (&factor)[2], int row) {
  const auto lse = query_rows(place, params.lse, params.lse_stride_batch, params.lse_stride_seq,
                              params.lse_stride_head);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const float sum = lanes_sum<4>(rows.sum[h]);
    factor[h] = row_factor(sum);
    if (params.lse && lane() % 4 == 0 && row + 8 * h < place.row1)
      *lse.at(row + 8 * h) = row_lse(rows.max[h], sum);
  }
}

// O / sum of a thread, rounded: words of two neighbours.
__device__ __forceinline__ void round_output(u32 (&out)[kPadded / 4], Rows &rows,
                                             const float (&factor)[2]) {
#pragma unroll
  for (int e = 0; e < kPadded / 2; e++) rows.o[e] *= factor[half(e)];
  clear_empty(rows.o, factor);
#pragma unroll
  for (int w = 0; w < kPadded / 4; w++) out[w] = pack(rows.o[2 * w], rows.o[2 * w + 1]);
}

// O of a warp's 16 rows, from row `first` of the item on, to their place among the rows of Q.
__device__ __forceinline__ void keep_output(const u32 (&out)[kPadded / 4], u32 tile_q, int first) {
  __syncwarp();  // rows without a key were cleared apart
#pragma unroll
  for (int step = 0; step < kStepsO; step++) {
    const u32 *o = &out[4 * step];
    const auto place_of_chunk = [&](unsigned row, unsigned chunk) {
      return swizzled_chunk<kPanel, kBlockM>(tile_q, first + row, chunk);
    };
    //@ if tile.block_m % 16 == 8 then
    // The item's last 8 rows
    if (first + 8 == kBlockM) {
      store_matrices(place_of_chunk(lane() % 8, 2 * step + lane() / 8 % 2), o[0], o[2]);
      continue;
    }
    //@ end
    store_matrices(place_of_chunk(lane() % 16, 2 * step + lane() / 16), o[0], o[1], o[2], o[3]);
  }
}

// O from the registers, where TMA would write rows that are not in use.
__device__ __forceinline__ void store_rows(const Params &params, const Place &place,
                                           const u32 (&out)[kPadded / 4], int row) {
  const auto o = query_rows(place, params.o, params.o_stride_batch, params.o_stride_seq,
                            params.o_stride_head);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const bool inside = row + 8 * h < place.row1, odd = lane() % 2;
    out_t *to = o.at(inside ? row + 8 * h : place.row0);
#pragma unroll
    for (int g = 0; g < kPadded / 8; g += 2) {
      const uint2 four = swap_words(out[2 * g + h], out[2 * g + 2 + h]);
      const int at = (g + odd) * 8 + lane() % 4 / 2 * 4;
      if (inside && at < kHeadDimV) *reinterpret_cast<uint2 *>(to + at) = four;
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  //@ include("prim/scalars.cuh")
  const Block b = block_of(smem);
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  const unsigned all = ceil_div(len_q * kGroup, kBlockM) * (heads_q / kGroup) * batch;
  const int items = (all - blockIdx.x + gridDim.x - 1) / gridDim.x;  // of this block
  const bool in_use_only = params.seqused_q || params.seqused_k;

  // Finding an item takes about as long as the products of a tile, so it is never waited for.
  const auto find = [&](int i) {
    Job job;
    job.place = place_of(params, blockIdx.x + i * gridDim.x, batch, heads_q, heads_kv, len_q, len_k,
                         total_q, total_k);
    const Place &place = job.place;
    job.bounds = mask_bounds(window_left, window_right, bottom_right, place.len_q, place.len_k);
    key_range(job.bounds, 0, place.len_q, place.len_k, job.begin, job.seen);
    key_range(job.bounds, place.row0 / kGroup, (place.row1 - 1) / kGroup + 1, place.len_k,
              job.begin, job.end);
    if (place.row0 >= place.row1) job.end = job.begin;
    return job;
  };
  const auto load = [&](u32 slot) {
    load_item(params, b, job_of(smem, slot), slot,
              heads_q / kGroup > heads_kv ? kEvictLast : kReadOnce);
  };
  const int first_items = min(items, kStages);
  if (threadIdx.x == 0) init_barriers(b);
  //@ if early then
  if (in_use_only) asm volatile("griddepcontrol.wait;" ::: "memory");  // lengths are tensors too
  //@ end
  if (threadIdx.x < first_items) job_of(smem, threadIdx.x) = find(threadIdx.x);
  //@ include("prim/early.cuh")
  if (threadIdx.x == 0) load(0);
  //@ if tile.block_n % 16 == 8 then
  if (warpgroup == 1 && threadIdx.x % 128 < 8 * kPanel / 16) {
    store_shared(b.zeros + threadIdx.x % 128 * 16, make_uint4(0, 0, 0, 0));
    fence_async();
  }
  //@ end
  __syncthreads();

  if (warpgroup == 0) {
    give_registers<kRegistersLoad>();
    Ring<kStages> ring;
    if (threadIdx.x == 0) {
      for (int i = 1; i < first_items; i++) load(i);
      for (int i = 0; i < items; i++, ring.next()) {
        const bool more = i + kStages < items;
        Job next = {};
        if (more) next = find(i + kStages);
        wait(b.done + 8 * ring.slot, ring.parity);
        if (in_use_only) wait(b.clean_v + 8 * ring.slot, ring.parity);  // not all tiles waited for it
        if (!params.seqused_q) store_item(params, b, job_of(smem, ring.slot), ring.slot);
        if (!more) continue;
        stores_have_read();
        job_of(smem, ring.slot) = next;
        load(ring.slot);
      }
      stores_have_read();
    } else if (threadIdx.x / 32 == 1 && in_use_only) {
      for (int i = 0; i < items; i++, ring.next()) {
        wait(b.loaded + 8 * ring.slot, ring.parity);
        wait(b.loaded_v + 8 * ring.slot, ring.parity);
        clean_values(job_of(smem, ring.slot), b.v(ring.slot));
        if (lane() == 0) arrive(b.clean_v + 8 * ring.slot);
        __syncwarp();
      }
    }
    return;
  }
  take_registers<kRegistersMultiply>();

  // Scale 0 must leave -inf what it is.
  const float unit = fmaxf(score_unit(scale), 1e-37f);
  const int group = warpgroup - 1;
  // Warpgroups take turns at their exponentials, so that one has the unit for itself while others
  // multiply, load and store. Without, all wait for the same item and then run in step.
  open_turns(group);

  const int tiles = items * kTiles, rounds = (tiles + kGroups - 1) / kGroups;
  Ring<kStages> ring;
  int t = group;  // the tile in its item
  const auto find_tile = [&] {
    while (t >= kTiles) t -= kTiles, ring.next();
  };
  float s[kBlockN / 2];
  if (kOrder && group < tiles) {
    find_tile();
    wait(b.loaded + 8 * ring.slot, ring.parity);
    start_scores(s, b.q(ring.slot) + t * 64 * kPanel, b.k(ring.slot));
    products_wait<0>();
  }
  for (int n = group; n < (kTurns ? rounds * kGroups : tiles); n += kGroups) {
    if (kTurns && n >= tiles) {
      take_turn(group), pass_turn(group);
      break;
    }
    find_tile();
    const u32 slot = ring.slot, tile_q = b.q(slot);
    if (!kOrder) wait(b.loaded + 8 * slot, ring.parity);
    const Job job = job_of(smem, slot);
    const Place &place = job.place;
    const int first = t * 64 + warp_of_group() * 16, row = place.row0 + first + lane() / 4;
    // Some row of the warp is. By vote, since ptxas puts a branch before each shuffle where it cannot
    // tell that the warp stays together.
    const bool live = __any_sync(0xffffffff, place.row0 + first < place.row1);
    Rows rows = {};
    float factor[2] = {0, 0};
    rows.max[0] = rows.max[1] = kLowest;

    if (place.row0 + t * 64 < place.row1 && job.end > job.begin) {
      u32 p[kStepsPV * 4];
      if (!kOrder) {
        start_scores(s, tile_q + t * 64 * kPanel, b.k(slot));
        products_wait<0>();
      }
      if (live) {
        if (scale < 0) {
#pragma unroll
          for (int e = 0; e < kBlockN / 2; e++) s[e] = -s[e];
        }
        const int beyond = kBlockN - (job.end - job.begin);  // columns without a key
        if (kMaskHasUpper || kMaskHasLower || beyond > 16)
          mask_scores<0>(s, job, row);
        else if (beyond > 0)
          mask_scores<kBlockN - 16>(s, job, row);
        maxima(s, rows, unit);
      }
      take_turn(group);
      settle(rows.max);
      if (live) exponentials(s, rows, unit);
      settle(s);
      pass_turn(group);
#pragma unroll
      for (int w = 0; w < kStepsPV * 4; w++)
        p[w] = w < kBlockN / 4 ? pack(s[2 * w], s[2 * w + 1]) : 0;
      wait(b.loaded_v + 8 * slot, ring.parity);
      if (in_use_only) wait(b.clean_v + 8 * slot, ring.parity);
      start_output(rows, p, b.v(slot), b.zeros);
      if (live) finish_rows(params, place, rows, factor, row);
      products_wait<0>();
    } else {
      take_turn(group), pass_turn(group);
      if (live) finish_rows(params, place, rows, factor, row);
    }
    u32 out[kPadded / 4];
    round_output(out, rows, factor);
    if (live && params.seqused_q) store_rows(params, place, out, row);
    t += kGroups;
    // Order knob kOrder: the next tile's scores are begun before this one's O leaves. Without a next
    // one, scores of what is at hand.
    if (kOrder) {
      const bool more = n + kGroups < tiles;
      if (more) find_tile();
      if (more) wait(b.loaded + 8 * ring.slot, ring.parity);
      const u32 next_k = b.k(ring.slot);
      start_scores(s, more ? b.q(ring.slot) + t * 64 * kPanel : next_k, next_k);
      if (!more) products_wait<0>();
    }
    if (live && !params.seqused_q) keep_output(out, tile_q, first);
    fence_async();
    __syncwarp();
    if (lane() == 0) arrive(b.done + 8 * slot);
    __syncwarp();
    if (kOrder) products_wait<0>();
  }
}
