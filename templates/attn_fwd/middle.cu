//-- attn_fwd, family middle: exact attention of some hundred to some thousand keys on Hopper, where
//-- a tile of rows has so few steps that its first product and its last one count.
//--
//-- Each warpgroup that multiplies has tiles of 64 rows of its own, one behind the other: the last
//-- P V of a tile is issued with the first Q K^T of the next, and while one warpgroup writes O, the
//-- others multiply. The last step of a tile is as narrow as the keys that are left for it.
//--
//-- K and V pass through shared memory, kBlockN keys a step, kStages of them at a time. A pass serves
//-- one tile of each warpgroup; without a mask all keys of a head stay for all its tiles, where they
//-- fit and where there are heads enough for every SM. Of the steps of a pass, under a mask each tile
//-- takes part in those that it sees. One warp loads K and V, and frees at once what a tile does not
//-- see; for each warpgroup another loads its Q, a tile ahead, and stores its O and LSE.
//--
//-- Contract with the parts: type/<dtype>.cuh, mask/<mask>.cuh (its bounds), score/score.cuh (its
//-- unit), prim/*.cuh; each says what it needs at its head.
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

//@ local masked, ordered = mask ~= "none", tile.order > 0
//@ if masked then
//@   include("prim/columns.cuh")

//@   include("prim/sections.cuh")

//@ end
__device__ __forceinline__ unsigned warp_of_group() { return threadIdx.x % 128 / 32; }

constexpr int kGroups = kWarps / 4 - 1;  // warpgroups that multiply
constexpr int kSlots = 2 + kSecondQ;     // tiles of rows of each; Q is loaded one or two ahead
constexpr int kNarrow = kBlockK ? kBlockK : kBlockN;  // keys by which a tile's last step gets narrower
constexpr int kColumns = kPanel / 2;  // elements of a panel's row
constexpr int kPanels = (kPadded + kColumns - 1) / kColumns;
constexpr u32 kBytesQ = kPanels * kBlockM * kPanel, kBytesKV = kPanels * kBlockN * kPanel;

// Barriers of a hardware number: 0 is __syncthreads'.
enum { kTurn = 1 };

//@ include("prim/turns.cuh")

// What a block works with: addresses in shared memory. Of each of a group's tiles of rows: Q, whose
// place its O takes.
struct Block {
  u32 q, k, v;
  u32 q_full, q_done;                  // barriers, one a tile of rows
  u32 k_full, k_free, v_full, v_free;  // one a stage
  u32 landed;                          // one for each warp that loads
  __device__ __forceinline__ u32 tile_q(int group, u32 slot) const {
    return q + (kSlots * group + slot) * kBytesQ;
  }
  __device__ __forceinline__ u32 full_q(int group, u32 slot) const {
    return q_full + 8 * (kSlots * group + slot);
  }
  __device__ __forceinline__ u32 done_q(int group, u32 slot) const {
    return q_done + 8 * (kSlots * group + slot);
  }
  __device__ __forceinline__ u32 tile_k(u32 slot) const { return k + slot * kBytesKV; }
  __device__ __forceinline__ u32 tile_v(u32 slot) const { return v + slot * kBytesKV; }
};

__device__ __forceinline__ Block block_of(Smem &smem) {
  Block b;
  b.q = shared_address(smem.q), b.k = shared_address(smem.k), b.v = shared_address(smem.v);
  b.q_full = shared_address(smem.barriers), b.q_done = b.q_full + 8 * kSlots * kGroups;
  b.k_full = b.q_done + 8 * kSlots * kGroups, b.k_free = b.k_full + 8 * kStages;
  b.v_full = b.k_free + 8 * kStages, b.v_free = b.v_full + 8 * kStages;
  b.landed = b.v_free + 8 * kStages;
  return b;
}

// A tile of kBlockM rows may read a stage before it is loaded again: `uses` of them do.
__device__ __forceinline__ void init_barriers(const Block &b, int uses) {
  for (int i = 0; i < kSlots * kGroups; i++)
    barrier_init(b.q_full + 8 * i, 1), barrier_init(b.q_done + 8 * i, 128);
  for (int i = 0; i < kStages; i++) {
    barrier_init(b.k_full + 8 * i, 1), barrier_init(b.k_free + 8 * i, 4 * uses);
    barrier_init(b.v_full + 8 * i, 1), barrier_init(b.v_free + 8 * i, 4 * uses);
  }
  for (int i = 0; i <= kGroups; i++) barrier_init(b.landed + 8 * i, 1);
  barriers_publish();
}

// How the heads are passed through: a pass is K and V once through shared memory, for some tiles.
struct Course {
  unsigned tiles, passes_of_head;  // tiles of kBlockM rows of a head
  bool stay;                       // all keys of a head fit: it needs one pass
  int tiles_of_pass;               // some may be beyond the rows
};

// Each warpgroup must see each pass, and all passes are alike.
__device__ __forceinline__ Course course_of(const Params &params, int batch, int heads_q, int len_q,
                                            int len_k) {
  Course c;
  c.tiles = ceil_div(len_q, kBlockM);
  //@ if masked then
  c.stay = false;
  //@ else
  c.stay = len_k <= kStages * kBlockN && heads_q * batch >= kHeadsToStay && c.tiles > kGroups &&
           len_q <= kRowsToStay && !params.seqused_q && !params.seqused_k;
  //@ end
  c.tiles_of_pass = c.stay ? c.tiles : kGroups;
  c.passes_of_head = c.stay ? 1 : (c.tiles - 1) / kGroups + 1;
  return c;
}

//@ if not masked then
// All passes are alike: a block takes every gridDim.x-th.
struct Sections {
  unsigned passes;
  __device__ __forceinline__ unsigned index(unsigned, unsigned t) const { return t; }
};
struct Walk {
  unsigned first, t, round;
  __device__ __forceinline__ bool next(const Sections &s) {
    t = round++ * gridDim.x + blockIdx.x;
    return t < s.passes;
  }
};

//@ end
// A pass: the place of its first tile, the keys that its tiles see in steps of kBlockN, and where
// the first of them goes.
struct Pass {
  Place place;
  MaskBounds bounds;
  int first_key, keys, steps;
  Ring<kStages> ring;
};

// The first row of a pass's tile t: where the longest rows start first, tiles go up.
__device__ __forceinline__ int row_of(const Pass &pass, int t) {
  return pass.place.row0 + (kMaskHasUpper ? -t : t) * kBlockM;
}

// Two steps at least, so that one may be without keys.
__device__ __forceinline__ void set_keys(Pass &pass, int tiles) {
  const Place &place = pass.place;
  const int far = row_of(pass, tiles - 1);
  int end;
  key_range(pass.bounds, clamp(far, 0, place.row0),
            clamp(far + kBlockM, place.row1, place.len_q), place.len_k, pass.first_key, end);
  pass.keys = end - pass.first_key;
  pass.steps = max(ceil_div(pass.keys, kBlockN), 2);
}

// The place of a pass, from what of it another lane has found.
__device__ __forceinline__ Place of_lane(const Place &found, int lane, const Params &params,
                                         int heads_of_kv, int len_q, int len_k) {
  const auto get = [&](int x) { return __shfl_sync(0xffffffff, x, lane); };
  Place place;
  place.sequence = get(found.sequence);
  place.head_q = get(found.head_q), place.head_kv = place.head_q / heads_of_kv;
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
  int steps;           // that it takes part in; without a tile turns that others still wait for
  int left;            // keys of the last of them
  Ring<kStages> ring;  // where its first K and V are
  //@ if masked then
  int first_key;             // of them
  int full_begin, full_end;  // of its steps those that the mask leaves whole
  MaskBounds bounds;
  //@ end
};
static_assert(sizeof(Job) <= sizeof(Smem::jobs[0]), "a job has outgrown its place");

//@ if masked then
// A warpgroup takes part in those steps of a pass that its tile sees; of the others it hears nothing.
// But it must not miss a whole round of the stages, since a wait knows a round from the next one
// alone: the steps between the last of a tile and the first of the next one are fewer.
constexpr int kRowsApart = (kGroups - 1) * kBlockM;
static_assert((kRowsApart - 1) / kBlockN + 1 + kRowsApart / kBlockN < kStages,
              "too few stages for tiles of a pass that see other steps");

// Of a pass's steps those that a tile sees: [first, last), two at least, all without rows. Its keys
// end at `end`.
__device__ __forceinline__ void steps_of_tile(const Pass &pass, int row0, int row1, int &first,
                                              int &last, int &end) {
  first = 0, last = pass.steps;
  if (row0 < 0 || row0 >= row1) return;
  int begin;
  key_range(pass.bounds, row0, row1, pass.place.len_k, begin, end);
  first = clamp((begin - pass.first_key) / kBlockN, 0, pass.steps - 2);
  last = clamp(ceil_div(end - pass.first_key, kBlockN), first + 2, pass.steps);
}

//@ end
__device__ __forceinline__ Job job_of_tile(const Pass &pass, int tile) {
  Job job = {};
  Place &place = job.place;
  place = pass.place;
  place.row0 = row_of(pass, tile), place.row1 = min(place.row0 + kBlockM, place.len_q);
  job.rows = place.row0 < 0 ? 0 : max(place.row1 - place.row0, 0);
  job.steps = pass.steps, job.ring = pass.ring;
  //@ if masked then
  if (job.rows == 0) return job;
  int first, last, end;
  steps_of_tile(pass, place.row0, place.row1, first, last, end);
  job.steps = last - first;
  job.ring.advance(first);
  job.first_key = pass.first_key + first * kBlockN;
  job.bounds = pass.bounds;
  whole_steps(job.bounds, place.row0, place.row1, job.first_key, end, job.full_begin, job.full_end);
  job.left = end - job.first_key - (job.steps - 1) * kBlockN;
  //@ else
  job.left = place.len_k - (job.steps - 1) * kBlockN;
  //@ end
  return job;
}

__device__ __forceinline__ Job &job_of(Smem &smem, int group, u32 slot) {
  return *reinterpret_cast<Job *>(smem.jobs[kSlots * group + slot]);
}
// What its rows end with: maximum and sum of each.
__device__ __forceinline__ float2 *ends_of(Smem &smem, int group, u32 slot) {
  return reinterpret_cast<float2 *>(smem.ends[kSlots * group + slot]);
}

//@ include("attn_fwd/middle_load.cuh")

//@ include("attn_fwd/middle_rows.cuh")

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
  //@ include("prim/early.cuh")
  __syncthreads();

  if (warpgroup == 0) {
    give_registers<kRegistersLoad>();
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp > kGroups) return;
    //@ if masked then
    const Sections sections = sections_of<true>(course.passes_of_head, heads_q * batch,
                                                heads_q / heads_kv, len_k);
    //@ else
    const Sections sections = {heads_q * batch * course.passes_of_head};
    //@ end
    const auto place_of_pass = [&](unsigned pass) {
      const unsigned head = pass / course.passes_of_head, round = pass % course.passes_of_head;
      return place_of(params, head * course.tiles + round * kGroups, batch, heads_q, heads_kv,
                      len_q, len_k, total_q, total_k);
    };
    // The first warp: K and V of a pass
    const u32 landed = b.landed + 8 * warp;
    u32 parity = 0;  // of landed
    const auto load_keys_of = [&](const Pass &pass) {
      const u64 hint = course.stay && heads_q == heads_kv ? kReadOnce : kEvictLast;
      const Place &place = pass.place;
      Ring<kStages> ring = pass.ring;
      int from, seen;  // keys of the sequence that some row sees
      key_range(pass.bounds, 0, place.len_q, place.len_k, from, seen);
      //@ if masked then
      // A lane for each of a tile's four warps: it frees for it what the tile does not see. Some
      // tile sees each step: what tiles next to each other see meets.
      const int row_of_lane = row_of(pass, lane() / 4);
      int from_step, to_step, end;
      steps_of_tile(pass, row_of_lane, min(row_of_lane + kBlockM, place.len_q), from_step, to_step,
                    end);
      //@ end
#pragma unroll 1
      for (int step = 0; step < pass.steps; step++, ring.next()) {
        // What is beyond the tensor comes as zeros, and that ends where no row sees more
        const int first = pass.first_key + step * kBlockN;
        const int keys = step * kBlockN < pass.keys ? seen - first : 0;
        const int key = keys > 0 ? first : max(len_k, 1);
        const bool dirty = 0 < keys && keys < kBlockN && (params.seqused_q || params.seqused_k);
        const u32 tile_k = b.tile_k(ring.slot), tile_v = b.tile_v(ring.slot);
        const u32 k_full = b.k_full + 8 * ring.slot, v_full = b.v_full + 8 * ring.slot;
        wait(b.k_free + 8 * ring.slot, ring.parity ^ 1);
        load_keys(tile_k, k_full, &params.map_k, place, key, hint);
        wait(b.v_free + 8 * ring.slot, ring.parity ^ 1);
        load_keys(tile_v, dirty ? landed : v_full, &params.map_v, place, key, hint);
        //@ if masked then
        if (lane() < 4 * kGroups && (step < from_step || step >= to_step))
          arrive(b.k_free + 8 * ring.slot), arrive(b.v_free + 8 * ring.slot);
        __syncwarp();
        //@ end
        if (!dirty) continue;
        wait(landed, parity), parity ^= 1;
        clean_values(tile_v, keys);
        if (lane() == 0) arrive(v_full);
      }
    };

    // The others: a warpgroup's tiles of rows
    const int group = warp - 1;
    Ring<kSlots> ring;
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

    //@ if masked then
    bool back = false;  // lengths fall from one tile to the next: every second time the other way
    const auto load_rows_of = [&](const Pass &pass) {
      clear_slot();
      give(job_of_tile(pass, back ? kGroups - 1 - group : group));
      back = !back;
    };
    //@ else
    int tile = group, steps = 0;  // tile: of its pass
    const auto load_rows_of = [&](const Pass &pass) {
      for (steps = pass.steps; tile < course.tiles_of_pass; tile += kGroups) {
        clear_slot();
        give(job_of_tile(pass, tile));
      }
      tile -= course.tiles_of_pass;
    };
    //@ end

    if (warp > 0)
      for (int slot = 0; slot < kSlots; slot++)
        if (lane() == 0) job_of(smem, group, slot).rows = 0;
    __syncwarp();
    // The passes of the block. Finding a place takes divisions, about as long as a step: each lane of
    // the warp finds another one.
    Pass pass;
    Walk walk = {};
    for (int found = 32; found == 32;) {
      unsigned first = 0, t = 0;  // of the lane's
#pragma unroll 1
      for (found = 0; found < 32 && walk.next(sections); found++)
        if (lane() == found) first = walk.first, t = walk.t;
      const Place of_lanes = place_of_pass(sections.index(first, t));
#pragma unroll 1
      for (int n = 0; n < found; n++) {
        pass.place = of_lane(of_lanes, n, params, heads_q / heads_kv, len_q, len_k);
        if (pass.place.row0 >= pass.place.row1) continue;
        pass.bounds = mask_bounds(window_left, window_right, bottom_right, pass.place.len_q,
                                  pass.place.len_k);
        set_keys(pass, course.tiles_of_pass);
        if (warp == 0)
          load_keys_of(pass);
        else
          load_rows_of(pass);
        pass.ring.advance(pass.steps);
      }
    }
    if (warp == 0) return;
    Job job = {};
    //@ if not masked then
    if (tile < group) job.steps = steps;  // it has a tile less than others
    //@ end
    job.rows = kNoTile;
#pragma unroll 1
    for (int slot = 0; slot < kSlots; slot++) {
      clear_slot();
      if (slot == 0)
        give(job);
      else
        ring.next();
    }
    stores_have_read();
    return;
  }
  take_registers<kRegistersMultiply>();

  // Scale 0 must leave -inf what it is.
  const float unit = fmaxf(score_unit(scale), 1e-37f);
  const int group = warpgroup - 1;
  // Warpgroups issue their products in turn, so that they don't run in step, all multiplying and then
  // all in the softmax.
  open_turns(group);
  const auto free = [&](u32 barriers, u32 slot) {
    if (lane() == 0) arrive(barriers + 8 * slot);
  };

  float s[kBlockN / 2];
  Ring<kSlots> ring_q;
  bool begun = false;  // the tile's first scores are there
  for (;;) {
    const u32 slot = ring_q.slot, tile_q = b.tile_q(group, slot);
    wait(b.full_q(group, slot), ring_q.parity);
    const Job &job = job_of(smem, group, slot);
    const int steps = job.steps, rows_of_tile = job.rows;
    if (rows_of_tile == kNoTile) {
      for (int n = 0; n < steps; n++) take_turn(group), pass_turn(group);
      break;
    }
    ring_q.next();
    Ring<kStages> ring_k = job.ring, ring_v = ring_k;
    if (rows_of_tile == 0) {
      for (int n = 0; n < steps; n++, ring_k.next()) {
        wait(b.k_full + 8 * ring_k.slot, ring_k.parity);
        free(b.k_free, ring_k.slot);
        take_turn(group), pass_turn(group);
        wait(b.v_full + 8 * ring_k.slot, ring_k.parity);
        free(b.v_free, ring_k.slot);
      }
      arrive(b.done_q(group, slot));
      __syncwarp();
      continue;
    }
    const int left = job.left;
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
    //@ if masked then
    const MaskBounds bounds = job.bounds;
    const int full_begin = job.full_begin, full_end = job.full_end, end_key = job.place.len_k;
    const int row = job.place.row0 + warp_of_group() * 16 + lane() / 4;
    const int first_key = job.first_key + lane() % 4 * 2;
    const auto cut = [&](auto &x, int n) {
      if (n >= full_begin && n < full_end) return;
      mask_scores(x, bounds, row, row + 8, first_key + n * kBlockN, end_key);
    };
    cut(s, 0);
    //@ else
    if (left < 0) cut_scores<0>(s, left + kBlockN);
    //@ end
    raise_max(s, rows, factor, unit);
    float sum[4] = {0, 0, 0, 0};
    exponentials(s, rows, sum, unit, 0, kBlockN / 2);
    add_sums(rows, factor, sum);
    round_p(p, s);
    //@ if ordered then
    wait(b.v_full + 8 * ring_v.slot, ring_v.parity);
    //@ end

    // S of a step beside O += P V of the one before, then P of the step
    const auto step = [&](auto &x, int n) {
      wait(b.k_full + 8 * ring_k.slot, ring_k.parity);
      //@ if not ordered then
      wait(b.v_full + 8 * ring_v.slot, ring_v.parity);
      //@ end
      take_turn(group);
      start_scores(x, tile_q, b.tile_k(ring_k.slot));
      start_output<kBlockN>(rows, p, b.tile_v(ring_v.slot), n > 1);
      //@ if ordered then
      const u32 slot_v = ring_v.slot;
      ring_v.next();
      //@ end
      pass_turn(group);
      products_wait<1>();
      free(b.k_free, ring_k.slot), ring_k.next();
      //@ if masked then
      cut(x, n);
      //@ else
      constexpr int kKeys = sizeof x / sizeof *x * 2;
      const int keys = n < steps - 1 ? kBlockN : left;
      if (keys < kKeys) cut_scores<kKeys - kNarrow>(x, keys);
      //@ end
      constexpr int kElements = sizeof x / sizeof *x;
      raise_max(x, rows, factor, unit);
      float sum[4] = {0, 0, 0, 0};
      //@ if ordered then
      // The compiler moves exponentials down across the wait for P V unless a loop stands between:
      // that of the wait for the next V does. Order knob kOrder: how many stand before it.
      constexpr int kBefore = kElements * (kOrder - 1) / 8 / 4 * 4;
      exponentials(x, rows, sum, unit, 0, kBefore);
      wait(b.v_full + 8 * ring_v.slot, ring_v.parity);
      products_wait<0>();
      free(b.v_free, slot_v);
      exponentials(x, rows, sum, unit, kBefore, kElements);
      add_sums(rows, factor, sum);
      //@ else
      exponentials(x, rows, sum, unit, 0, kElements);
      add_sums(rows, factor, sum);
      products_wait<0>();
      free(b.v_free, ring_v.slot), ring_v.next();
      //@ end
      round_p(p, x);
      rescale(rows, factor);
    };
    const bool narrow = kNarrow < kBlockN && left <= kBlockN - kNarrow;  // the last step
    const int whole = narrow ? steps - 1 : steps;
#pragma unroll 1
    for (int n = 1; n < whole; n++) step(s, n);

    // The last step by its width, and the first scores of the next tile beside its P V
    with_width<kNarrow>(left, [&](auto wide) {
      if constexpr (wide.keys < kBlockN) {
        float x[wide.keys / 2];
        step(x, steps - 1);
      }
    });
    finish_rows(rows, factor, ends_of(smem, group, slot) + warp_of_group() * 16 + lane() / 4);
    //@ if not ordered then
    wait(b.v_full + 8 * ring_v.slot, ring_v.parity);
    //@ end
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
    take_turn(group);
    with_width<kNarrow>(left, [&](auto wide) { start_output<wide.keys>(rows, p, tile_v, true); });
    start_scores(s, next_q, next_k);
    pass_turn(group);
    if (begun)
      products_wait<1>();
    else
      products_wait<0>();
    free(b.v_free, ring_v.slot);
    scale_output(rows, factor);
    keep_output(rows, tile_q);
    products_wait<0>();
    fence_async();
    arrive(b.done_q(group, slot));  // all threads: each has written a row's end and read the job
    __syncwarp();
  }
}
