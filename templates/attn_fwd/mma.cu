//-- attn_fwd, family mma: exact attention in one pass, 16-bit products on tensor cores by mma.sync.
//--
//-- One block owns kBlockM rows of Q of one head and walks over the keys that they see, kBlockN at
//-- a time. A warp owns 16 or 32 of the rows; S, P, O and the softmax live in its registers, and
//-- the scores that it computed are, rounded, the operand that it multiplies by V.
//--
//-- Contract with the parts, all of which work on plain values:
//--   type/<dtype>.cuh   elem_t of 16 bits, kChunk, pack
//--   mask/<mask>.cuh    as in attn_fwd/fma.cu
//--   prim/*.cuh         each says what it needs at its head
//-- Row reductions and the hand-over of P belong to this family, so they stand here.
//@ include("head.cuh")

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/math.cuh")

//@ include("prim/block.cuh")

//@ include("prim/copy.cuh")

//@ include("prim/tile16.cuh")

//@ include("prim/fragment.cuh")

constexpr int kRowsPerWarp = kBlockM / kWarps;
constexpr int kBands = kRowsPerWarp / 16;                      // of 16 rows
constexpr int kPitchQK = sizeof(Smem::q[0]) / sizeof(elem_t);  // elements of a row in shared memory
constexpr int kPitchV = sizeof(Smem::v[0]) / sizeof(elem_t);
constexpr int kBytesK = kBlockN * sizeof(Smem::k[0]), kBytesV = kBlockN * sizeof(Smem::v[0]);
constexpr int kGroupsS = kBlockN / 8, kGroupsO = kPitchV / 8;  // of 8 columns

// What a lane knows of rows row() and row() + 8 of each band after some keys: sum and o are
// relative to 2^max. It sums its own columns only; the four lanes of a row are added up at the end.
struct Rows {
  float max[kBands][2], sum[kBands][2], o[kBands][kGroupsO][4];
};

// Of the block, the first row of a band that a lane has, and of 8 columns the first.
__device__ __forceinline__ int row(int band) {
  return threadIdx.x / 32 * kRowsPerWarp + band * 16 + lane() / 4;
}
__device__ __forceinline__ int column() { return lane() % 4 * 2; }

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

// Gives row `half` of a band the maximum of what was known and of `largest`.
__device__ __forceinline__ void raise_max(Rows &rows, int band, int half, float largest) {
  const float raised = fmaxf(rows.max[band][half], largest);
  const float factor = exp2_approx(rows.max[band][half] - raised);
  rows.max[band][half] = raised;
  rows.sum[band][half] *= factor;
#pragma unroll
  for (int g = 0; g < kGroupsO; g++) {
    rows.o[band][g][2 * half] *= factor;
    rows.o[band][g][2 * half + 1] *= factor;
  }
}

// P = 2^(unit S - max) in the place of S, and its sum. kMasked: some pairs of the tile are not
// seen. They are replaced before any arithmetic, since K may hold NaN there, and replaced again
// after the exponential, since -inf * 0 is NaN when the scale is 0.
template <bool kMasked>
__device__ __forceinline__ void online_softmax(float (&s)[kBands][kGroupsS][4], Rows &rows,
                                               float unit, MaskBounds bounds, int i0, int j0,
                                               int j_end) {
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float largest = negative_infinity();
#pragma unroll
      for (int c = 0; c < kGroupsS * 2; c++) {
        float &x = s[b][c / 2][2 * half + c % 2];
        const int i = i0 + row(b) + 8 * half, j = j0 + c / 2 * 8 + column() + c % 2;
        if (kMasked && !(j < j_end && keep(bounds, i, j))) x = negative_infinity();
        largest = fmaxf(largest, x);
      }
      raise_max(rows, b, half, lanes_max<4>(largest) * unit);
#pragma unroll
      for (int c = 0; c < kGroupsS * 2; c++) {
        float &x = s[b][c / 2][2 * half + c % 2];
        const bool seen = !kMasked || x != negative_infinity();
        x = seen ? exp2_approx(fmaf(x, unit, -rows.max[b][half])) : 0;
        rows.sum[b][half] += x;
      }
    }
}

// S += Q K^T of a warp's rows and a tile of K. Order knob kQInRegisters: Q's fragments are kept, or
// read again for each tile, which leaves registers for larger tiles.
__device__ __forceinline__ void multiply_qk(float (&s)[kBands][kGroupsS][4],
                                            const u32 (&kept)[kBands][kPitchQK / 16][4], u32 tile_q,
                                            u32 tile_k) {
#pragma unroll
  for (int step = 0; step < kPitchQK / 16; step++) {
    u32 q[kBands][4];
#pragma unroll
    for (int b = 0; b < kBands; b++) {
      if (!kQInRegisters)
        load_a<kPitchQK>(q[b], tile_q, threadIdx.x / 32 * kRowsPerWarp + b * 16, step);
#pragma unroll
      for (int w = 0; w < 4 && kQInRegisters; w++) q[b][w] = kept[b][step][w];
    }
#pragma unroll
    for (int pair = 0; pair < kGroupsS / 2; pair++) {
      u32 k[4];
      load_b_of_rows<kPitchQK>(k, tile_k, pair * 16, step);
#pragma unroll
      for (int b = 0; b < kBands; b++) {
        add_product(s[b][2 * pair], q[b], k[0], k[1]);
        add_product(s[b][2 * pair + 1], q[b], k[2], k[3]);
      }
    }
  }
}

// O += P V
__device__ __forceinline__ void add_pv(Rows &rows, const u32 (&p)[kBands][kBlockN / 16][4],
                                       u32 tile_v) {
#pragma unroll
  for (int step = 0; step < kBlockN / 16; step++)
#pragma unroll
    for (int pair = 0; pair < kGroupsO / 2; pair++) {
      u32 v[4];
      load_b_of_columns<kPitchV>(v, tile_v, step * 16, pair);
#pragma unroll
      for (int b = 0; b < kBands; b++) {
        add_product(rows.o[b][2 * pair], p[b][step], v[0], v[1]);
        add_product(rows.o[b][2 * pair + 1], p[b][step], v[2], v[3]);
      }
    }
}

// Stores a lane's part of one row, times `factor`. Neighbouring lanes swap words, so that each has
// four columns of one group: a quad writes 32 bytes at a time.
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
    const u32 got = __shfl_xor_sync(0xffffffff, odd ? word[0] : word[1], 1);
    const uint2 four = odd ? make_uint2(got, word[1]) : make_uint2(word[0], got);
    const int at = (g + odd) * 8 + lane() % 4 / 2 * 4;
    if (inside && at < kHeadDimV) *reinterpret_cast<uint2 *>(to + at) = four;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSM)
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(16) unsigned char smem_bytes[];
  Smem &smem = *reinterpret_cast<Smem *>(smem_bytes);
  //@ include("prim/scalars.cuh")

  // Which rows, and which keys they see
  const BlockPlace place = block_place(blockIdx.x, ceil_div(len_q, kBlockM), heads_q);
  const int i0 = place.tile * kBlockM, i1 = min(i0 + kBlockM, len_q);
  const int keys = keys_in_use(params.seqused_k, place.sequence, len_k);
  const MaskBounds bounds = mask_bounds(window_left, window_right, bottom_right, len_q, keys);
  int j_begin, j_end;
  key_range(bounds, i0, i1, keys, j_begin, j_end);

  const int head_kv = place.head / (heads_q / heads_kv);
  const q_t *q = params.q + place.sequence * params.q_stride_batch +
                 place.head * params.q_stride_head + i0 * params.q_stride_seq;
  const kv_t *k = params.k + place.sequence * params.k_stride_batch + head_kv * params.k_stride_head;
  const kv_t *v = params.v + place.sequence * params.v_stride_batch + head_kv * params.v_stride_head;
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

  // Tiles come in the order K V K V ...; kStages of K are under way, and one less of V.
  load_tile<kBlockM, kHeadDimQK, kPitchQK>(tile_q, q, params.q_stride_seq, i1 - i0);
  copies_commit();
#pragma unroll
  for (int slot = 0; slot < kStages; slot++) {
    load_k(j_begin + slot * kBlockN, slot);
    if (slot + 1 < kStages) load_v(j_begin + slot * kBlockN, slot);
  }

  // The sign of the scale goes into Q, so that the largest score of a row is always the one that
  // counts most; its size, in units of log2, into the exponent.
  copies_wait<2 * kStages - 1>();
  if (scale < 0) negate_tile<kBlockM>(smem.q);
  const float unit = fabsf(scale) * kLog2e;
  __syncthreads();
  const int i_warp = i0 + threadIdx.x / 32 * kRowsPerWarp;
  u32 kept_q[kBands][kPitchQK / 16][4];
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int step = 0; step < kPitchQK / 16 && kQInRegisters; step++)
      load_a<kPitchQK>(kept_q[b][step], tile_q, i_warp - i0 + b * 16, step);

  Rows rows;
  clear(rows);
  for (int j0 = j_begin, slot = 0; j0 < j_end; j0 += kBlockN) {
    // K is there for all, and all are done with the last V
    copies_wait<2 * kStages - 2>();
    __syncthreads();
    load_v(j0 + (kStages - 1) * kBlockN, slot ? slot - 1 : kStages - 1);

    // S = Q K^T
    float s[kBands][kGroupsS][4] = {};
    multiply_qk(s, kept_q, again(tile_q), again(tile_k + slot * kBytesK));

    // P = exp(scale S - max), rounded for the tensor cores
    const int j1 = min(j0 + kBlockN, j_end);
    const BlockClass seen = block_class(bounds, i_warp, i_warp + kRowsPerWarp, j0, j1);
    if (seen == kBlockFull && j1 - j0 == kBlockN)
      online_softmax<false>(s, rows, unit, bounds, i0, j0, j_end);
    else
      online_softmax<true>(s, rows, unit, bounds, i0, j0, j_end);
    u32 p[kBands][kBlockN / 16][4];
#pragma unroll
    for (int b = 0; b < kBands; b++)
#pragma unroll
      for (int w = 0; w < kBlockN / 4; w++)
        p[b][w / 4][w % 4] = pack(s[b][w / 2][w % 2 * 2], s[b][w / 2][w % 2 * 2 + 1]);

    // V is there for all, and all are done with this K
    copies_wait<2 * kStages - 2>();
    __syncthreads();
    load_k(j0 + kStages * kBlockN, slot);

    // O += P V
    add_pv(rows, p, again(tile_v + slot * kBytesV));
    slot = slot + 1 < kStages ? slot + 1 : 0;
  }

  // O /= sum, LSE = max + log(sum)
  float *lse = params.lse + place.sequence * params.lse_stride_batch +
               place.head * params.lse_stride_head + i0 * params.lse_stride_seq;
  out_t *o = params.o + place.sequence * params.o_stride_batch +
             place.head * params.o_stride_head + i0 * params.o_stride_seq;
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int i = row(b) + 8 * half;
      const float sum = lanes_sum<4>(rows.sum[b][half]);
      store_row(o + i * params.o_stride_seq, rows, b, half, row_factor(sum), i < i1 - i0);
      if (params.lse && lane() % 4 == 0 && i < i1 - i0)
        lse[i * params.lse_stride_seq] = row_lse(rows.max[b][half], sum);
    }
}
