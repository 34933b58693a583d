//-- attn_fwd, family mma: exact attention in one pass, 16-bit products on tensor cores by mma.sync.
//--
//-- One block owns kBlockM rows of Q, of one head or of kGroup that share K and V, and walks over the
//-- keys that they see, kBlockN at a time. A warp owns 16 or 32 of the rows; S, P, O and the softmax
//-- live in its registers, and the scores that it computed are, rounded, the operand that it
//-- multiplies by V. Where O is too wide for that, or rows are few, kSplit warps own the same rows:
//-- each has a part of a tile's keys and of O's columns, and they pass maxima and P to each other.
//--
//-- Contract with the parts, all of which work on plain values:
//--   type/<dtype>.cuh   elem_t of 16 bits, out_t, kChunk, pack
//--   mask/, score/      as in attn_fwd/fma.cu
//--   prim/*.cuh         each says what it needs at its head
//-- Row reductions and the hand-over of P belong to this family, so they stand here.
//@ include("head.cuh")
//@ local scored = features.softcap or features.bias or features.alibi
//@ local beside = features.bias or features.bitmask
//@ local shared_rows = tile.warps * 16 > tile.block_m

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/math.cuh")

//@ include("prim/place.cuh")

//@ if features.bitmask then
//@   include("mask/bits.cuh")

//@ end
//@ if scored then
//@   include("score/score.cuh")

//@ end
//@ if features.sink then
//@   include("score/sink.cuh")

//@ end
//@ include("prim/address.cuh")

//@ include("prim/copy.cuh")

//@ include("prim/tile16.cuh")

//@ include("prim/quad.cuh")

//@ include("prim/fragment.cuh")

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

//@ include("attn_fwd/key_tiles.cuh")

//@ if scored or beside then
//@   include("attn_fwd/mma_scores.cuh")

//@ end
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

//@ if shared_rows then
// Maximum of a value of each row over the warps that share it: each leaves its own in shared memory.
__device__ __forceinline__ void share_max(float (&largest)[kBands][2], float (*all)[kBlockM]) {
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      if (lane() % 4 == 0) all[part()][row(b) + 8 * half] = largest[b][half];
  sync_rows();
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int other = 0; other < kSplit; other++)
        largest[b][half] = fmaxf(largest[b][half], all[other][row(b) + 8 * half]);
}

// Sum of a row's parts over the warps that share it.
__device__ __forceinline__ void share_sum(float (&sum)[kBands][2], float (*all)[kBlockM]) {
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      if (lane() % 4 == 0) all[part()][row(b) + 8 * half] = sum[b][half];
  sync_rows();
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      sum[b][half] = 0;
#pragma unroll
      for (int other = 0; other < kSplit; other++) sum[b][half] += all[other][row(b) + 8 * half];
    }
}

// P to shared memory, where all warps of its rows read it.
__device__ __forceinline__ void store_p(u32 tile_p, const float (&s)[kBands][kGroupsS][4]) {
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int w = 0; w < kGroupsS * 2; w++) {
      const u32 at = chunk_address<kBlockN>(tile_p, row(b) + w % 2 * 8, part() * kGroupsS + w / 2);
      const u32 word = pack(s[b][w / 2][w % 2 * 2], s[b][w / 2][w % 2 * 2 + 1]);
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + lane() % 4 * 4), "r"(word) : "memory");
    }
}
//@ end

//@ local with_beside = features.bitmask and "const Beside &beside, " or ""
// The scores of pairs that are not kept become -inf, whatever K holds there.
__device__ __forceinline__ void mask_scores(float (&s)[kBands][kGroupsS][4], MaskBounds bounds,
                                            $(with_beside)int row0, int j0, int j_end) {
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int c = 0; c < kGroupsS * 2; c++) {
        const int i = (row0 + row(b) + 8 * half) / kGroup, j = j0 + c / 2 * 8 + column() + c % 2;
        //@ if features.bitmask then
        const int bit = c / 2 * 8 + c % 2;
        if (!(beside.bits[b][half][bit / 32] >> bit % 32 & 1))
          s[b][c / 2][2 * half + c % 2] = negative_infinity();
        //@ end
        if (!(j < j_end && keep(bounds, i, j)))
          s[b][c / 2][2 * half + c % 2] = negative_infinity();
      }
}

//@ local with_all = shared_rows and ", float (*all)[kBlockM]" or ""
// P = 2^(unit S - max) in the place of S, and its sum.
__device__ __forceinline__ void online_softmax(float (&s)[kBands][kGroupsS][4], Rows &rows,
                                               float unit$(with_all)) {
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
  //@ if shared_rows then
  share_max(largest, all);
  //@ end
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
//@ local p = shared_rows and "u32 tile_p" or "const u32 (&p)[kBands][kBlockN / 16][4]"
__device__ __forceinline__ void add_pv(Rows &rows, $(p), u32 tile_v) {
  //@ if shared_rows then
  const u32 p_at = address_of_a<kBlockN>(tile_p, warp_row());
  //@ end
  const u32 v_at = address_of_columns<kPitchV>(tile_v, part());
#pragma unroll
  for (int step = 0; step < kBlockN / 16; step++) {
    //@ if shared_rows then
    u32 p[kBands][4];
#pragma unroll
    for (int b = 0; b < kBands; b++)
      load_matrices(p[b], chunks_behind<kBlockN>(p_at, 2 * step) + b * kBytesOf16<kBlockN>);
    //@ end
#pragma unroll
    for (int pair = 0; pair < kGroupsO / 2; pair++) {
      u32 v[4];
      const u32 at = chunks_behind<kPitchV>(v_at, 2 * kSplit * pair);
      load_transposed(v, at + step * kBytesOf16<kPitchV>);
#pragma unroll
      for (int b = 0; b < kBands; b++) {
        //@ local of_step = shared_rows and "p[b]" or "p[b][step]"
        add_product(rows.o[b][2 * pair], $(of_step), v[0], v[1]);
        add_product(rows.o[b][2 * pair + 1], $(of_step), v[2], v[3]);
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

//@ if dtype.out == "fp32" then
// Stores a lane's part of one row, times `factor`: a quad writes 32 bytes at a time.
__device__ __forceinline__ void store_row(out_t *to, const Rows &rows, int band, int half,
                                          float factor, bool inside) {
#pragma unroll
  for (int g = 0; g < kGroupsO; g++) {
    const float(&o)[4] = rows.o[band][g];
    const int at = (g / 2 * kSplit + part()) * 16 + g % 2 * 8 + lane() % 4 * 2;
    if (inside && at < kHeadDimV)
      *reinterpret_cast<float2 *>(to + at) =
          make_float2(o[2 * half] * factor, o[2 * half + 1] * factor);
  }
}
//@ else
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
//@ end

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSM)
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(128) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  //@ include("prim/scalars.cuh")
  //@ include("prim/early.cuh")

  //@ include("prim/prologue.cuh")
  const QueryRows<const q_t> q = query_rows(place, params.q, params.q_stride_batch,
                                            params.q_stride_seq, params.q_stride_head);
  const kv_t *k = first_key(place, params.k, params.k_stride_batch, params.k_stride_seq,
                            params.k_stride_head);
  const kv_t *v = first_key(place, params.v, params.v_stride_batch, params.v_stride_seq,
                            params.v_stride_head);
  const u32 tile_q = shared_address(smem.q), tile_k = shared_address(smem.k);
  const u32 tile_v = shared_address(smem.v);
  //@ if shared_rows then
  const u32 tile_p = shared_address(smem.p);
  //@ end
  //@ local seen = features.bitmask and "j_end - j, j_begin - j" or "j_end - j"
  const auto load_k = [&](int j, int slot) {
    if (j < j_end)
      load_tile<kBlockN, kHeadDimQK, kPitchQK>(tile_k + slot * kBytesK, k + j * params.k_stride_seq,
                                               params.k_stride_seq, $(seen));
    copies_commit();
  };
  const auto load_v = [&](int j, int slot) {
    if (j < j_end)
      load_tile<kBlockN, kHeadDimV, kPitchV>(tile_v + slot * kBytesV, v + j * params.v_stride_seq,
                                             params.v_stride_seq, $(seen));
    copies_commit();
  };
  KeyTiles tiles;
  //@ if features.bitmask then
  const auto class_of = [&](int j) {
    return bits_class(params, place, i0, i1, j, min(j + kBlockN, j_end));
  };
  tiles.begin(j_begin, j_end, class_of);
  //@ else
  tiles.j0 = j_begin;
  //@ end

  // Tiles come in the order K V K V ...; kStages of K are under way, and one less of V.
  //-- What runs once is not unrolled, which would only take the compiler's time, except where it must.
  //@ local times = features.bitmask and "kStages" or "1"
  load_rows<kBlockM, kHeadDimQK, kPitchQK>(tile_q, q, place.row0, place.row1 - place.row0);
  copies_commit();
#pragma unroll $(times)
  for (int slot = 0; slot < kStages; slot++) {
    load_k(tiles.start(slot), slot);
    if (slot + 1 < kStages) load_v(tiles.start(slot), slot);
  }

  // The sign of the scale goes into Q, so that the largest score of a row is always the one that
  // counts most; its size, in units of log2, into the exponent. It is not 0 even for a scale of 0,
  // since -inf * 0 is NaN: the smallest float changes no score.
  copies_wait<2 * kStages - 1>();
  if (scale < 0) negate_tile<kBlockM>(smem.q);
  //@ local unit = scored and "score_unit(scale)" or "fmaxf(fabsf(scale) * kLog2e, 1.4e-45f)"
  const float unit = $(unit);
  __syncthreads();
  u32 kept_q[kBands][kPitchQK / 16][4];
  const u32 q_at = address_of_a<kPitchQK>(tile_q, warp_row());
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int step = 0; step < kPitchQK / 16 && kQInRegisters; step++)
      load_matrices(kept_q[b][step], chunks_behind<kPitchQK>(q_at, 2 * step) +
                                         b * kBytesOf16<kPitchQK>);
  //@ if scored then
  RowScore of_row[kBands][2];
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      of_row[b][half] = row_score(params, place, place.row0 + row(b) + 8 * half, bottom_right);
  //@ end

  // Queries of a warp; none when all of its rows are beyond the last
  const int warp_i0 = (place.row0 + warp_row()) / kGroup;
  const int warp_i1 = (min(place.row0 + warp_row() + kRowsPerWarp, place.row1) - 1) / kGroup + 1;

  //@ local many = features.varlen or group > 1 or scored or beside
  //@ local idle = many and "warp_i0 >= warp_i1 ? kBlockEmpty : " or ""

  Rows rows;
  clear(rows);
  for (int slot = 0; tiles.start(0) < j_end;) {
    // K is there for all, and all are done with the last V
    copies_wait<2 * kStages - 2>();
    __syncthreads();
    load_v(tiles.start(kStages - 1), slot ? slot - 1 : kStages - 1);
    const int j0 = tiles.start(0), j1 = min(j0 + kBlockN, j_end);
    const BlockClass seen = $(idle)block_class(bounds, warp_i0, warp_i1, j0, j1);
    //@ if not shared_rows then
    u32 p[kBands][kBlockN / 16][4];
    //@ end
    if (seen != kBlockEmpty) {
      //@ if beside then
      //@ local rows = features.bias and "of_row, " or ""
      //@ local full = features.bitmask and ", tiles.classes[0] == kBlockFull" or ""
      Beside beside;
      read_beside(beside, params, place, $(rows)j0, j_end$(full));
      //@ end

      // S = Q K^T
      float s[kBands][kGroupsS][4] = {};
      multiply_qk(s, kept_q, again(tile_q), again(tile_k + slot * kBytesK));

      // P = exp(scale S - max), rounded for the tensor cores
      //@ if scored then
      apply_features(s, of_row, $(features.bias and "beside, " or "")j0, scale, softcap);
      //@ end
      //@ local bits = features.bitmask and " && tiles.classes[0] == kBlockFull" or ""
      //@ local seen_bits = features.bitmask and "beside, " or ""
      //@ local all = shared_rows and ", smem.row" or ""
      if (!(seen == kBlockFull && j1 - j0 == kBlockN$(bits)))
        mask_scores(s, bounds, $(seen_bits)place.row0, j0, j_end);
      online_softmax(s, rows, unit$(all));
      //@ if shared_rows then
      store_p(tile_p, s);
      //@ else
#pragma unroll
      for (int b = 0; b < kBands; b++)
#pragma unroll
        for (int w = 0; w < kBlockN / 4; w++)
          p[b][w / 4][w % 4] = pack(s[b][w / 2][w % 2 * 2], s[b][w / 2][w % 2 * 2 + 1]);
      //@ end
    }

    // V is there for all, and all are done with this K
    copies_wait<2 * kStages - 2>();
    __syncthreads();
    load_k(tiles.start(kStages), slot);

    // O += P V
    if (seen != kBlockEmpty)
      add_pv(rows, $(shared_rows and "again(tile_p)" or "p"), again(tile_v + slot * kBytesV));
    slot = slot + 1 < kStages ? slot + 1 : 0;
    tiles.advance($(features.bitmask and "j_end, class_of" or ""));
  }
  // A warp leaves the loop as one, which ptxas cannot tell: it would put a branch before each shuffle
  // from here on. It can behind a barrier.
  sync_rows();

  // O /= sum, LSE = max + log(sum). The place is found again: kept over the loop it would take
  // registers.
  //@ local found = features.varlen and "place_in" or "place_of"
  //@ local sequence = features.varlen and "again(place.sequence), " or ""
  const Place end = $(found)(params, again(blockIdx.x), $(sequence)batch, heads_q, heads_kv,
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
  //@ if shared_rows then
  share_sum(sum, smem.row);
  //@ end
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int r = end.row0 + row(b) + 8 * half;
      const bool inside = r < end.row1;
      //@ if features.sink then
      const float sink = params.sinks[end.head_q + r % kGroup];
      const float rest = add_sink(sink, rows.max[b][half], sum[b][half]);
      const float factor = row_factor(sum[b][half]) * rest;
      //@ else
      const float factor = row_factor(sum[b][half]);
      //@ end
      if (factor == 0) clear_row(rows, b, half);
      store_row(o.at(r), rows, b, half, factor, inside);
      if (params.lse && lane() % 4 == 0$(shared_rows and " && part() == 0" or "") && inside)
        *lse.at(r) = row_lse(rows.max[b][half], sum[b][half]);
    }
}
