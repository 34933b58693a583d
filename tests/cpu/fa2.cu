// fa2.cu - a forward as FlashAttention-2 has it on sm_80: 64 query rows a block, four warps, cp.async in two
// stages, ldmatrix, mma.sync, online softmax, P from registers. Tests of the whole CPU device.
// FAULT's tens say which forward: 0 and 2 head dimension 64, 1 and 3 128; 0 and 1 causal.
static constexpr int D = FAULT / 10 % 2 ? 128 : 64;
static constexpr bool kCausal = FAULT / 10 < 2;
typedef unsigned short u16;

struct FwdParams {
  const u16 *q, *k, *v; // [head][len][D], bf16
  float *o, *lse;
  int len_q, len_k;
  float scale_log2;
};

static constexpr int kRows = 64; // of a tile: queries, or keys

// 16-byte chunk c of row r; the xor spreads eight rows over all banks.
DEV u32 chunk_at(u32 tile, int r, int c) {
  return tile + r * (2 * D) + ((c ^ (r & 7)) << 4);
}

// Rows [row, row + 64) of a head, zeros past its end.
DEV void load_tile(u32 tile, const u16 *head, int row, int len) {
#pragma unroll
  for (int i = threadIdx.x; i < kRows * D / 8; i += 128) {
    const int r = i / (D / 8), c = i % (D / 8);
    const bool inside = row + r < len;
    copy16(chunk_at(tile, r, c), head + (inside ? (row + r) * D + c * 8 : 0), inside ? 16 : 0);
  }
}

DEV void load_matrices(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}
DEV void load_transposed(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}
DEV void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEV float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEV u32 pack(float low, float high) {
  u32 x;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
  return x;
}
// Over the four lanes that share a row.
DEV float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
DEV float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
#define kMinusInfinity __int_as_float(0xff800000)

extern "C" __global__ void __launch_bounds__(128) fa2(const __grid_constant__ FwdParams p) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane % 4;
  const int tiles_q = (p.len_q + kRows - 1) / kRows, head = blockIdx.x / tiles_q;
  const int m0 = blockIdx.x % tiles_q * kRows, row = m0 + warp * 16 + lane / 4, off = p.len_k - p.len_q;
  const u16 *q = p.q + (u64)head * p.len_q * D, *k = p.k + (u64)head * p.len_k * D, *v = p.v + (u64)head * p.len_k * D;
  const u32 tile_q = smem_base(), tile_k = tile_q + kRows * D * 2, tile_v = tile_k + 2 * kRows * D * 2;
  int end = p.len_k;
  if (kCausal) end = min(end, m0 + kRows + off);
  const int tiles = (end + kRows - 1) / kRows;

  load_tile(tile_q, q, m0, p.len_q);
  load_tile(tile_k, k, 0, p.len_k);
  load_tile(tile_v, v, 0, p.len_k);
  commit();

  u32 fragment_q[D / 16][4];
  float o[D / 8][4], max_[2] = {kMinusInfinity, kMinusInfinity}, sum[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < D / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;

  for (int j = 0; j < tiles; j++) {
    const u32 stage = j % 2 * kRows * D * 2, other = (j + 1) % 2 * kRows * D * 2;
    if (j + 1 < tiles) {
      load_tile(tile_k + other, k, (j + 1) * kRows, p.len_k); /*@3*/
      load_tile(tile_v + other, v, (j + 1) * kRows, p.len_k);
    }
    commit();
#if FAULT != 1
    wait_group<1>();
#endif
#if FAULT != 2
    __syncthreads();
#endif
    if (j == 0) {
#pragma unroll
      for (int c = 0; c < D / 16; c++)
        load_matrices(fragment_q[c], chunk_at(tile_q, warp * 16 + lane % 16, lane / 16 + 2 * c)); /*@1*/ /*@2*/
    }
    float s[kRows / 8][4];
#pragma unroll
    for (int n = 0; n < kRows / 8; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
#pragma unroll
      for (int n = 0; n < kRows / 16; n++) {
        u32 b[4];
        load_matrices(b, chunk_at(tile_k + stage, lane % 8 + lane / 16 * 8 + n * 16, lane / 8 % 2 + 2 * c)); /*@3*/ /*@4*/
        multiply(s[2 * n], fragment_q[c], b[0], b[1]);
        multiply(s[2 * n + 1], fragment_q[c], b[2], b[3]);
      }
    }
    if ((j + 1) * kRows > p.len_k || (kCausal && (j + 1) * kRows > m0 + warp * 16 + off)) {
#pragma unroll
      for (int n = 0; n < kRows / 8; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int key = j * kRows + n * 8 + quad * 2 + e % 2;
          if (key >= p.len_k || (kCausal && key > row + e / 2 * 8 + off)) s[n][e] = kMinusInfinity;
        }
      }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float m = max_[h], t = 0;
#pragma unroll
      for (int n = 0; n < kRows / 8; n++) m = fmaxf(m, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
      m = row_max(m);
      const float scaled = m == kMinusInfinity ? 0 : m * p.scale_log2;
      const float rescale = exp2_approx(max_[h] * p.scale_log2 - scaled);
#pragma unroll
      for (int n = 0; n < kRows / 8; n++) {
        s[n][2 * h] = exp2_approx(s[n][2 * h] * p.scale_log2 - scaled);
        s[n][2 * h + 1] = exp2_approx(s[n][2 * h + 1] * p.scale_log2 - scaled);
        t += s[n][2 * h] + s[n][2 * h + 1];
      }
      sum[h] = sum[h] * rescale + t;
      max_[h] = m;
#pragma unroll
      for (int n = 0; n < D / 8; n++) {
        o[n][2 * h] *= rescale;
        o[n][2 * h + 1] *= rescale;
      }
    }
#pragma unroll
    for (int c = 0; c < kRows / 16; c++) {
      const u32 a[4] = {pack(s[2 * c][0], s[2 * c][1]), pack(s[2 * c][2], s[2 * c][3]),
                        pack(s[2 * c + 1][0], s[2 * c + 1][1]), pack(s[2 * c + 1][2], s[2 * c + 1][3])};
#pragma unroll
      for (int n = 0; n < D / 16; n++) {
        u32 b[4];
        load_transposed(b, chunk_at(tile_v + stage, lane % 16 + 16 * c, lane / 16 + 2 * n)); /*@3*/
        multiply(o[2 * n], a, b[0], b[1]);
        multiply(o[2 * n + 1], a, b[2], b[3]);
      }
    }
#if FAULT == 4
    if (warp != 2 || j > 0)
#endif
#if FAULT != 3
      __syncthreads();
#endif
  }
  wait_group<0>();
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const float t = row_sum(sum[h]), inverse = t == 0 ? 0 : 1 / t;
    const int r = row + 8 * h;
#if FAULT == 5
    if (r > p.len_q) continue;
#else
    if (r >= p.len_q) continue;
#endif
    float *out = p.o + ((u64)head * p.len_q + r) * D + quad * 2;
#pragma unroll
    for (int n = 0; n < D / 8; n++)
      *(float2 *)(out + 8 * n) = make_float2(o[n][2 * h] * inverse, o[n][2 * h + 1] * inverse); /*@5*/
    if (quad == 0) /*@5*/
      p.lse[(u64)head * p.len_q + r] = t == 0 ? kMinusInfinity : (max_[h] * p.scale_log2 + __log2f(t)) * 0.693147182f; /*@5*/
  }
}
