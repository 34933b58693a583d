//-- attn_demo, family fma: attention made wrong or old on purpose, for `attune demo` and for tests
//-- that must find what is wrong. No lookup of attn_fwd returns it.
//--
//--   norescale   the running sum and O are not converted when the maximum rises: wrong
//--   nomax       exponentials without a maximum: NaN when scores are large
//--   fa1         FlashAttention-1's loop order: keys outside, rows inside; right, moves more bytes
//--
//-- Parts as attn_fwd/fma.cu says; the mask is `none`, so that only keys beyond the last are hidden.
//@ include("head.cuh")

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/math.cuh")

//@ include("prim/place.cuh")

//@ include("prim/tile.cuh")

//@ include("prim/product.cuh")

//@ include("prim/output.cuh")

constexpr int kColumnsPerThread = kBlockN / kLanesN;

// P to shared memory: its rows are written and read by the same half of a warp
__device__ __forceinline__ void share_p(Smem &smem,
                                        const float (&p)[kRowsPerThread][kColumnsPerThread]) {
#pragma unroll
  for (int i = 0; i < kRowsPerThread; i++)
#pragma unroll
    for (int c = 0; c < kColumnsPerThread; c++) smem.p[tile_row(i)][tile_column(c)] = p[i][c];
  __syncwarp();
}

//@ if features.fa1 then
//@   include("attn_demo/keys_outside.cuh")
//@ else
//@   include("attn_demo/rows_outside.cuh")
//@ end
