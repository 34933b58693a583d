//-- attn_fwd, family fma: exact attention in one pass, fp32 arithmetic on CUDA cores, any arch.
//--
//-- One block owns kBlockM rows of Q of one head and walks over the keys that they see, kBlockN at
//-- a time. S and P live on the chip; O, the running maximum and the running sum in registers.
//--
//-- Contract with the parts, all of which work on plain values:
//--   type/<dtype>.cuh   elem_t, kChunk, load_chunk, store_elems, to_float, from_float
//--   mask/<mask>.cuh    MaskBounds mask_bounds(window_left, window_right, bottom_right, len_q,
//--                      len_k); key_range(...), the keys that some row sees; and
//--                        block_class(bounds, i0, i1, j0, j1)  kBlockEmpty, kBlockPartial, kBlockFull
//--                        keep(bounds, i, j)      whether row i sees key j
//--                        score(s, i, j)          the score of a kept pair
//--                        dscore(ds, s, i, j)     its gradient, for the backward pass
//--                      i and j count from the head's first row and key. s is sign(scale) q . k
//--                      here: a score that is not the identity multiplies by |scale| itself.
//--   prim/*.cuh         each says what it needs at its head
//-- Row reductions and the hand-over of P belong to this family, so they stand here.
//@ include("head.cuh")

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/math.cuh")

//@ include("prim/block.cuh")

//@ include("prim/tile.cuh")

//@ include("prim/product.cuh")

//@ include("prim/output.cuh")

constexpr int kColumnsPerThread = kBlockN / kLanesN;

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
                                               Rows &rows, float unit, MaskBounds bounds, int i0,
                                               int j0, int j_end) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    float largest = negative_infinity();
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++) {
      const int row = i0 + tile_row(i), key = j0 + tile_column(c);
      s[i][c] = score(s[i][c], row, key);
      if (kMasked && !(key < j_end && keep(bounds, row, key))) s[i][c] = negative_infinity();
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

  // Order knob kShareKV: K and V in one buffer leave room for larger tiles, for two barriers more
  // in an iteration; apart, both are loaded at once.
  auto &tile_k = smem.$(tile.share_kv == 1 and "kv" or "k");
  auto &tile_v = smem.$(tile.share_kv == 1 and "kv" or "v");

  // The sign of the scale goes into Q, so that the largest score of a row is always the one that
  // counts most; its size, in units of log2, into the exponent.
  load_tile<kHeadDimQK>(smem.q, q, params.q_stride_seq, i1 - i0, scale < 0 ? -1.0f : 1.0f);
  const float unit = fabsf(scale) * kLog2e;
  clear_padding<(kShareKV && kHeadDimQK > kHeadDimV) ? kHeadDimQK : kHeadDimV>(tile_v);

  Rows rows;
  clear(rows);
  for (int j0 = j_begin; j0 < j_end; j0 += kBlockN) {
    const int j1 = min(j0 + kBlockN, j_end);
    const BlockClass seen = block_class(bounds, i0, i1, j0, j1);
    if (seen == kBlockEmpty) continue;

    load_tile<kHeadDimQK>(tile_k, k + j0 * params.k_stride_seq, params.k_stride_seq, j1 - j0);
    if (!kShareKV)
      load_tile<kHeadDimV>(tile_v, v + j0 * params.v_stride_seq, params.v_stride_seq, j1 - j0);
    __syncthreads();

    // S = Q K^T
    float s[kRowsPerThread][kColumnsPerThread] = {};
    add_product_abt<kHeadDimQK>(s, smem.q, tile_k);

    // P = exp(scale S - max), in registers
    if (seen == kBlockFull && j1 - j0 == kBlockN)
      online_softmax<false>(s, rows, unit, bounds, i0, j0, j_end);
    else
      online_softmax<true>(s, rows, unit, bounds, i0, j0, j_end);

    // P to shared memory: its rows are written and read by the same half of a warp
#pragma unroll
    for (int i = 0; i < kRowsPerThread; i++)
#pragma unroll
      for (int c = 0; c < kColumnsPerThread; c++) smem.p[tile_row(i)][tile_column(c)] = s[i][c];
    if (kShareKV) {
      __syncthreads();
      load_tile<kHeadDimV>(tile_v, v + j0 * params.v_stride_seq, params.v_stride_seq, j1 - j0);
      __syncthreads();
    } else {
      __syncwarp();
    }

    // O += P V
    add_product_ab<kBlockN>(rows.o, smem.p, tile_v);
    __syncthreads();
  }

  // O /= sum, LSE = max + log(sum)
  float *lse = params.lse + place.sequence * params.lse_stride_batch +
               place.head * params.lse_stride_head + i0 * params.lse_stride_seq;
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    const float sum = lanes_sum<kLanesN>(rows.sum[i]);
    const float factor = row_factor(sum);
#pragma unroll
    for (int g = 0; g < kGroupsV; g++)
#pragma unroll
      for (int e = 0; e < kVecV; e++) rows.o[i][g][e] *= factor;
    if (params.lse && lane_n() == 0 && tile_row(i) < i1 - i0)
      lse[tile_row(i) * params.lse_stride_seq] = row_lse(rows.max[i], sum);
  }
  out_t *o = params.o + place.sequence * params.o_stride_batch +
             place.head * params.o_stride_head + i0 * params.o_stride_seq;
  store_output(o, params.o_stride_seq, i1 - i0, rows.o);
}
