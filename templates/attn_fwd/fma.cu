//-- attn_fwd, family fma: exact attention in one pass, fp32 arithmetic on CUDA cores, any arch.
//--
//-- One block owns kBlockM rows of Q, of one head or of kGroup that share K and V, and walks over the
//-- keys that they see, kBlockN at a time. S and P live on the chip; O, the running maximum and the
//-- running sum in registers.
//--
//-- Contract with the parts, all of which work on plain values:
//--   type/<dtype>.cuh   elem_t, q_t, kv_t, out_t, kChunk, load_chunk, store_elems, to_float,
//--                      from_float
//--   mask/<mask>.cuh    MaskBounds mask_bounds(window_left, window_right, bottom_right, len_q,
//--                      len_k); key_range(...), the keys that some row sees; and
//--                        block_class(bounds, i0, i1, j0, j1)  kBlockEmpty, kBlockPartial, kBlockFull
//--                        keep(bounds, i, j)      whether query i sees key j
//--                      i and j count from the sequence's first query and key
//--   mask/bits.cuh      the same of a bit mask: bits_class, row_bits, keep_bit
//--   score/score.cuh    what features make of the score of a kept pair; s is sign(scale) q . k
//--   prim/*.cuh         each says what it needs at its head
//-- Row reductions and the hand-over of P belong to this family, so they stand here.
//@ include("head.cuh")
//@ local scored = features.softcap or features.bias or features.alibi
//@ local exact = features.bias and dtype.q == "fp32"

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/math.cuh")

//@ include("prim/place.cuh")

//@ if features.bitmask then
//@   include("mask/bits.cuh")

//@ end
//@ if scored then
//@   include("score/score.cuh")

//@ end
//@ include("prim/tile.cuh")

//@ include("prim/product.cuh")

//@ include("prim/output.cuh")

//@ include("prim/rows.cuh")

constexpr int kColumnsPerThread = kBlockN / kLanesN;

//@ include("attn_fwd/" .. (tile.share_kv == 1 and "fma_turns.cuh" or "fma_apart.cuh"))

//@ if exact then
// Biases may be so large that a rounded product with the unit is off by more than an exponential
// bears: maxima are scores here, and the unit is applied to exact differences.
//@ end
// Gives a thread's row i the maximum of what it knew and of `largest`.
__device__ __forceinline__ void raise_max(Rows &rows, int i, float largest) {
  const float raised = fmaxf(rows.max[i], largest);
  const float factor = exp2_approx($(exact and "(rows.max[i] - raised) * kLog2e" or "rows.max[i] - raised"));
  rows.max[i] = raised;
  rows.sum[i] *= factor;
#pragma unroll
  for (int g = 0; g < kGroupsV; g++)
#pragma unroll
    for (int e = 0; e < kVecV; e++) rows.o[i][g][e] *= factor;
}

//@ local more = scored and ", float scale, float softcap, int bottom_right" or ""
// P = 2^(unit S - max) in the place of S, and its sum. kMasked: some pairs of the block are not
// seen. They are replaced before any arithmetic, since K may hold NaN there, and replaced again
// after the exponential, since -inf * 0 is NaN when the scale is 0.
template <bool kMasked>
__device__ __forceinline__ void online_softmax(float (&s)[kRowsPerThread][kColumnsPerThread],
                                               Rows &rows, float unit, MaskBounds bounds,
                                               const Params &params, const Place &place, int j0,
                                               int j_end$(more)) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++) {
    const int row = place.row0 + tile_row(i);
    //@ if features.bitmask then
    const u32 *bits = row_bits(params, place, row);
    //@ end
    //@ if scored then
    const RowScore of_row = row_score(params, place, row, bottom_right);
    //@ end
    float largest = negative_infinity();
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++) {
      const int key = j0 + tile_column(c);
      //@ local bit = features.bitmask and " && keep_bit(bits, key)" or ""
      if (kMasked && !(key < j_end && keep(bounds, row / kGroup, key)$(bit)))
        s[i][c] = negative_infinity();
      //@ if scored then
      else
        s[i][c] = score(of_row, s[i][c], key, scale, softcap, params.bias_stride_k);
      //@ end
      largest = fmaxf(largest, s[i][c]);
    }
    raise_max(rows, i, lanes_max<kLanesN>(largest)$(exact and "" or " * unit"));
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++) {
      const bool seen = !kMasked || s[i][c] != negative_infinity();
      //@ if exact then
      s[i][c] = seen ? exp2_approx((s[i][c] - rows.max[i]) * unit) : 0;
      //@ else
      s[i][c] = seen ? exp2_approx(fmaf(s[i][c], unit, -rows.max[i])) : 0;
      //@ end
      rows.sum[i] += s[i][c];
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSM)
    $(name)(const __grid_constant__ Params params) {
  extern __shared__ __align__(16) unsigned char smem_bytes[];
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

  // The sign of the scale goes into Q, so that the largest score of a row is always the one that
  // counts most; its size, in units of log2, into the exponent.
  load_rows<kHeadDimQK>(
      smem.q, [&](int row) { return q.at(place.row0 + row); }, place.row1 - place.row0,
      scale < 0 ? -1.0f : 1.0f);
  const float unit = $(scored and "score_unit(scale)" or "fabsf(scale) * kLog2e");
  //@ if tile.share_kv == 1 then
  clear_padding<columns_of_turn(kHeadDimQK > kHeadDimV ? kHeadDimQK : kHeadDimV)>(smem.kv);
  //@ else
  clear_padding<kHeadDimV>(smem.v);
  //@ end

  Rows rows;
  clear(rows);
  for (int j0 = j_begin; j0 < j_end; j0 += kBlockN) {
    const int j1 = min(j0 + kBlockN, j_end);
    //@ if features.bitmask then
    const BlockClass bits = bits_class(params, place, i0, i1, j0, j1);
    const BlockClass bounded = block_class(bounds, i0, i1, j0, j1);
    const BlockClass seen = bits < bounded ? bits : bounded;
    //@ else
    const BlockClass seen = block_class(bounds, i0, i1, j0, j1);
    //@ end
    if (seen == kBlockEmpty) continue;

    // S = Q K^T
    float s[kRowsPerThread][kColumnsPerThread] = {};
    const kv_t *k_here = k + j0 * params.k_stride_seq, *v_here = v + j0 * params.v_stride_seq;
    add_scores(s, smem, k_here, params.k_stride_seq, v_here, params.v_stride_seq, j1 - j0);

    // P = exp(scale S - max), in registers
    //@ local given = scored and ", scale, softcap, bottom_right" or ""
    if (seen == kBlockFull && j1 - j0 == kBlockN)
      online_softmax<false>(s, rows, unit, bounds, params, place, j0, j_end$(given));
    else
      online_softmax<true>(s, rows, unit, bounds, params, place, j0, j_end$(given));

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
