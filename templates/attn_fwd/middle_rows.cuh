//-- attn_fwd/middle_rows.cuh - what a warpgroup that multiplies does with its rows, piece by piece.
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

// Calls with the width of a tile's last step: the least that holds its keys, of those that are kBy
// apart.
template <int kBy, int kKeys = kBlockN, typename Take>
__device__ __forceinline__ void with_width(int keys, Take take) {
  if constexpr (kKeys > kBy) {
    if (keys <= kKeys - kBy) return with_width<kBy, kKeys - kBy>(keys, take);
  }
  take(Wide<kKeys>());
}

// S = Q K^T, under way.
template <int kElements>
__device__ __forceinline__ void start_scores(float (&s)[kElements], u32 tile_q, u32 tile_k) {
  const u64 q = describe<kPanel>(tile_q, 0), k = describe<kPanel>(tile_k, 0);
  products_fence();
  multiply_qk<kPanel>(s, q, k);
  products_commit();
}

// O += P V, under way, of kKeys keys; or O = P V.
template <int kKeys>
__device__ __forceinline__ void start_output(Rows &rows, const u32 (&p)[kBlockN / 4], u32 tile_v,
                                             bool add) {
  const u64 v = describe<kPanel>(tile_v, kBlockN * kPanel);
  u64 vs[kKeys / 16];
#pragma unroll
  for (int step = 0; step < kKeys / 16; step++) vs[step] = v + down<kPanel>(step);
  products_fence();
  multiply_pv(rows.o, p, vs, add);
  products_commit();
}

//@ if mask == "none" then
// -inf where there is no key, from column kFrom on: before any arithmetic, since K may hold NaN.
template <int kFrom, int kElements>
__device__ __forceinline__ void cut_scores(float (&s)[kElements], int keys) {
  const int left = keys - lane() % 4 * 2;
#pragma unroll
  for (int e = max(kFrom, 0) / 2; e < kElements; e++)
    s[e] = e / 4 * 8 + e % 2 < left ? s[e] : negative_infinity();
}

//@ end
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

// P = 2^(unit S - max) in the place of S, elements [from, to), added up: sum[0] and [1] are of the
// first row.
template <int kElements>
__device__ __forceinline__ void exponentials(float (&s)[kElements], const Rows &rows,
                                             float (&sum)[4], float unit, int from, int to) {
#pragma unroll
  for (int e = 0; e < kElements; e++) {
    if (e < from || e >= to) continue;
    s[e] = exp2_approx(fmaf(s[e], unit, -rows.max[half(e)]));
    sum[e % 4] += s[e];
  }
}

__device__ __forceinline__ void add_sums(Rows &rows, const float (&factor)[2],
                                         const float (&sum)[4]) {
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
  __syncwarp();  // rows without a key were cleared apart
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
