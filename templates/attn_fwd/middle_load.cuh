//-- attn_fwd/middle_load.cuh - what the warps do that load Q, K and V and store O and LSE.
//-- Loops stay loops: unrolled they take long to compile, and the places of three panels do not fit
//-- the registers that these warps have.
// V may hold NaN where keys are not in use, and P is 0 there, not nothing: the warp puts zeros
// there. Where a tensor ends TMA does.
__device__ __forceinline__ void clean_values(u32 tile_v, int keys) {
#pragma unroll 1
  for (int p = 0; p < kPanels; p++)
#pragma unroll 1
    for (int at = keys * kPanel + lane() * 16; at < kBlockN * kPanel; at += 32 * 16)
      store_shared(tile_v + p * (kBlockN * kPanel) + at, make_uint4(0, 0, 0, 0));
  fence_async();
  __syncwarp();
}

__device__ __forceinline__ void load_keys(u32 to, u32 full, const TensorMap *map,
                                          const Place &place, int key, u64 hint) {
  if (lane() != 0) return;
  arrive_and_expect(full, kBytesKV);
#pragma unroll 1
  for (int p = 0; p < kPanels; p++)
    load_box(to + p * (kBlockN * kPanel), map, full, p * kColumns, key, place.head_kv,
             place.sequence, hint);
}

__device__ __forceinline__ void load_rows(u32 to, u32 full, const Params &params,
                                          const Place &place) {
  arrive_and_expect(full, kBytesQ);
#pragma unroll 1
  for (int p = 0; p < kPanels; p++)
    load_box(to + p * (kBlockM * kPanel), &params.map_q, full, p * kColumns, place.row0,
             place.head_q, place.sequence);
}

// Changes the sign of a tile of Q: with a scale below 0 the largest score of a row is the one that
// counts most then, too.
__device__ __forceinline__ void negate_rows(u32 tile) {
#pragma unroll 1
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
#pragma unroll 1
    for (int i = lane(); i < (place.row1 - place.row0) * kChunks; i += 32)
      *reinterpret_cast<uint4 *>(o.at(place.row0 + i / kChunks) + i % kChunks * kChunk) =
          load_shared(swizzled_chunk<kPanel, kBlockM>(tile, i / kChunks, i % kChunks));
  } else if (lane() == 0) {
#pragma unroll 1
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
#pragma unroll 1
  for (int row = place.row0 + lane(); row < place.row1; row += 32) {
    const float2 x = of_rows[row - place.row0];
    *lse.at(row) = row_lse(x.x, x.y);
  }
}
