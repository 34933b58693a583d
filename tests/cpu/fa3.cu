// fa3.cu - a forward as FlashAttention-3 has it on sm_90a: 128 query rows a block, a warp that loads by TMA in two
// stages, two warpgroups that multiply by wgmma: S = Q K^T from shared memory, O += P V with P in registers.
// Head dimension 64. FAULT's tens: 0 causal, 1 not.
static constexpr bool kCausal = FAULT / 10 == 0;
static constexpr int kDim = 64, kRows = 64, kTile = kRows * kDim * 2; // bytes of 64 rows

struct Fa3Params {
  TensorMap q, k, v; // [head][len][64] bf16, boxes of 64 x 64, 128-byte swizzle
  float *o, *lse;
  int len_q, len_k;
  float scale_log2;
};

DEV void load_tile(u32 to, const TensorMap *map, int row, int head, u32 bar) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(map), "r"(0), "r"(row), "r"(head), "r"(bar)
               : "memory");
}
// Rows of 128 bytes, 8 of them 1024 bytes, base offset 0.
DEV u64 descriptor(u32 at) { return (u64)(at >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
// Step c of k, 16 elements: along a row of Q and K; 16 rows of V.
DEV u64 step_along(u32 tile, int c) { return descriptor(tile + 32 * c); }
#if FAULT == 6
DEV u64 step_down(u32 tile, int c) { return descriptor(tile + 1024 * c); }
#else
DEV u64 step_down(u32 tile, int c) { return descriptor(tile + 2048 * c); }
#endif

DEV void wgmma_fence() {
#if FAULT != 2
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kKeep> DEV void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kKeep) : "memory"); }

#define EIGHT(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define LIST                                                                                                     \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
DEV void wgmma_ss(float (&d)[32], u64 a, u64 b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LIST
               ", %32, %33, p, 1, 1, 0, 0;\n}" : EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
               : "l"(a), "l"(b), "r"(add));
}
DEV void wgmma_rs(float (&d)[32], const u32 *a, u64 b) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LIST
               ", {%32,%33,%34,%35}, %36, p, 1, 1, 1;\n}" : EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
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
#define kMinusInfinity __int_as_float(0xff800000)

// Places in shared memory.
struct Places {
  u32 q, k, v;             // tiles: two, and two stages each
  u32 full_q, full_k, full_v, free_k, free_v; // mbarriers: one, and one a stage
};
DEV Places places() {
  Places s;
  s.q = smem_base(), s.k = s.q + 2 * kTile, s.v = s.k + 2 * kTile, s.full_q = s.v + 2 * kTile;
  s.full_k = s.full_q + 8, s.full_v = s.full_k + 16, s.free_k = s.full_v + 16, s.free_v = s.free_k + 16;
  return s;
}

DEV void produce(const Fa3Params &p, const Places &s, int m0, int head, int tiles) {
  expect(s.full_q, 2 * kTile);
  load_tile(s.q, &p.q, m0, head, s.full_q);
  load_tile(s.q + kTile, &p.q, m0 + kRows, head, s.full_q);
  for (int j = 0; j < tiles; j++) {
    const u32 stage = j % 2, phase = j / 2 % 2;
    wait(s.free_k + 8 * stage, phase ^ 1);
    expect(s.full_k + 8 * stage, kTile);
    load_tile(s.k + stage * kTile, &p.k, j * kRows, head, s.full_k + 8 * stage); /*@3*/
    wait(s.free_v + 8 * stage, phase ^ 1);
    expect(s.full_v + 8 * stage, kTile);
    load_tile(s.v + stage * kTile, &p.v, j * kRows, head, s.full_v + 8 * stage);
  }
}

// S of tile j, under way when it returns.
DEV void start_scores(float (&s)[32], const Places &at, u32 q, int j) {
  const u32 stage = j % 2;
  wait(at.full_k + 8 * stage, j / 2 % 2);
  wgmma_fence();
#pragma unroll
  for (int c = 0; c < 4; c++) wgmma_ss(s, step_along(q, c), step_along(at.k + stage * kTile, c), c > 0);
  wgmma_commit();
}

// P of a tile from its S, and what O must be multiplied by.
DEV void softmax(float (&s)[32], float (&max_)[2], float (&sum)[2], float (&rescale)[2], float scale_log2) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float m = max_[h], t = 0;
#pragma unroll
    for (int n = 0; n < 8; n++) m = fmaxf(m, fmaxf(s[4 * n + 2 * h], s[4 * n + 2 * h + 1]));
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
    const float scaled = m == kMinusInfinity ? 0 : m * scale_log2;
    rescale[h] = exp2_approx(max_[h] * scale_log2 - scaled);
#pragma unroll
    for (int n = 0; n < 8; n++) {
      s[4 * n + 2 * h] = exp2_approx(s[4 * n + 2 * h] * scale_log2 - scaled);
      s[4 * n + 2 * h + 1] = exp2_approx(s[4 * n + 2 * h + 1] * scale_log2 - scaled);
      t += s[4 * n + 2 * h] + s[4 * n + 2 * h + 1];
    }
    sum[h] = sum[h] * rescale[h] + t;
    max_[h] = m;
  }
}

extern "C" __global__ void __launch_bounds__(384, 1) fa3(const __grid_constant__ Fa3Params p) {
  const int tiles_q = (p.len_q + 2 * kRows - 1) / (2 * kRows), head = blockIdx.x / tiles_q;
  const int m0 = blockIdx.x % tiles_q * 2 * kRows;
  const Places at = places();
  int end = p.len_k;
  if (kCausal) end = min(end, m0 + 2 * kRows + p.len_k - p.len_q);
  const int tiles = (end + kRows - 1) / kRows;
  if (threadIdx.x == 0) {
    init(at.full_q, 1);
    for (int i = 0; i < 2; i++) {
      init(at.full_k + 8 * i, 1), init(at.full_v + 8 * i, 1);
      init(at.free_k + 8 * i, 8), init(at.free_v + 8 * i, 8);
    }
    init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x / 32 == 0 && elect()) produce(p, at, m0, head, tiles); /*@3*/
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  const int lane = threadIdx.x % 32, quad = lane % 4, group = threadIdx.x / 128 - 1, off = p.len_k - p.len_q;
  const int first = m0 + group * kRows + threadIdx.x / 32 % 4 * 16, row = first + lane / 4;
  const u32 q = at.q + group * kTile;
  float o[32], s[32], max_[2] = {kMinusInfinity, kMinusInfinity}, sum[2] = {0, 0}, rescale[2];
#pragma unroll
  for (int i = 0; i < 32; i++) o[i] = 0;
  wait(at.full_q, 0);
  for (int j = 0; j < tiles; j++) {
    const u32 stage = j % 2;
    start_scores(s, at, q, j); /*@2*/
#if FAULT == 3
    if (elect()) arrive(at.free_k + 8 * stage);
#endif
#if FAULT != 1
    wgmma_wait<0>(); /*@3*/
#endif
#if FAULT != 3
    if (elect()) arrive(at.free_k + 8 * stage);
#endif
    if ((j + 1) * kRows > p.len_k || (kCausal && (j + 1) * kRows > first + off)) {
#pragma unroll
      for (int i = 0; i < 32; i++) {
        const int key = j * kRows + i / 4 * 8 + quad * 2 + i % 2;
        if (key >= p.len_k || (kCausal && key > row + i / 2 % 2 * 8 + off)) s[i] = kMinusInfinity; /*@1*/
      }
    }
    softmax(s, max_, sum, rescale, p.scale_log2); /*@1*/
    u32 a[16];
#pragma unroll
    for (int i = 0; i < 16; i++) a[i] = pack(s[2 * i], s[2 * i + 1]);
#pragma unroll
    for (int i = 0; i < 32; i++) o[i] *= rescale[i / 2 % 2];
    wait(at.full_v + 8 * stage, j / 2 % 2);
    wgmma_fence();
#if FAULT == 7 // a generic store to V with no fence for the asynchronous proxy
    store_shared(at.v + stage * kTile + 4 * (threadIdx.x - 128), load_shared(at.v + stage * kTile + 4 * (threadIdx.x - 128)));
    asm volatile("bar.sync 1, 256;" ::: "memory");
#endif
#pragma unroll
    for (int c = 0; c < 4; c++) wgmma_rs(o, a + 4 * c, step_down(at.v + stage * kTile, c)); /*@4*/ /*@7*/
    wgmma_commit();
#if FAULT == 4
    if (j + 1 < tiles)
#endif
      wgmma_wait<0>();
#if FAULT == 4
    if (j + 1 == tiles) return;
#endif
    if (elect()) arrive(at.free_v + 8 * stage);
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float t = sum[h] + __shfl_xor_sync(~0u, sum[h], 1);
    t += __shfl_xor_sync(~0u, t, 2);
    const float inverse = t == 0 ? 0 : 1 / t;
    const int r = row + 8 * h;
    if (r >= p.len_q) continue;
    float *out = p.o + ((u64)head * p.len_q + r) * kDim + quad * 2;
#pragma unroll
    for (int n = 0; n < 8; n++)
      *(float2 *)(out + 8 * n) = make_float2(o[4 * n + 2 * h] * inverse, o[4 * n + 2 * h + 1] * inverse);
    if (quad == 0)
      p.lse[(u64)head * p.len_q + r] = t == 0 ? kMinusInfinity : (max_[h] * p.scale_log2 + __log2f(t)) * 0.693147182f;
  }
}
