// tma.cu - TMA with mbarriers and bulk groups, right and wrong. Boxes have 16 rows of 64 16-bit
// elements, swizzled by 128 bytes.
struct P {
  TensorMap in, out, sums;
  u32 *plain;
  float *floats;
  int tiles;
};
enum { kBox = 16 * 128, kCorners = 6 };

DEV u32 swizzled(u32 at) { return at ^ (at >> 7 & 7) << 4; }
DEV int corner_x(int i) { return i % 3 == 0 ? -8 : i % 3 == 1 ? 0 : 24; }
DEV int corner_y(int i) { return i % 2 ? 10 : -3; }

// Warp 0 loads, warps 1 and 2 copy eight rows each to `plain`.
extern "C" __global__ void __launch_bounds__(96) pipeline(const __grid_constant__ P p) {
  const u32 base = smem_base(), full = base + 2 * kBox, empty = full + 16;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; s++) {
      init(full + 8 * s, 1);
#if FAULT != 18
      init(empty + 8 * s, 2);
#endif
    }
#if FAULT != 11
    init_fence();
#endif
  }
#if FAULT != 10
  __syncthreads();
#endif
  if (warp == 0) {
    if (elect()) {
      for (int i = 0; i < p.tiles; i++) {
        const u32 s = i & 1, parity = i >> 1 & 1;
#if FAULT == 20
        wait(empty + 8 * s, parity); /*@20*/
#elif FAULT != 14
        wait(empty + 8 * s, parity ^ 1); /*@16*/ /*@18*/ /*@13*/
#endif
        expect(full + 8 * s, FAULT == 13 ? kBox + 16 : FAULT == 21 ? kBox - 16 : kBox); /*@14*/
        load_box(base + s * kBox, &p.in, corner_x(i), corner_y(i), full + 8 * s); /*@11*/ /*@14*/ /*@19*/
      }
    }
  } else {
    for (int i = 0; i < p.tiles; i++) {
      const u32 s = i & 1, parity = i >> 1 & 1;
#if FAULT == 12
      wait(full + 8 * (s ^ 1), parity); /*@12*/
#elif FAULT == 17
      if (i + 1 < p.tiles) wait(full + 8 * s, parity); else continue;
#elif FAULT != 15
      wait(full + 8 * s, parity); /*@13*/ /*@10*/ /*@21*/
#endif
#if FAULT == 19
      if (lane == 0) arrive(empty + 8 * s);
#endif
      for (u32 r = (warp - 1) * 8; r < warp * 8; r++)
        p.plain[(i * 16 + r) * 32 + lane] =
            load_shared(swizzled(base + s * kBox + r * 128 + lane * 4)); /*@12*/ /*@15*/ /*@14*/ /*@19*/
      __syncwarp();
#if FAULT != 16 && FAULT != 19
      if (lane == 0) arrive(empty + 8 * s); /*@18*/
#endif
    }
  }
}

// Two warps write a box of row * 100 + column, TMA stores it; the tensor is smaller than the boxes.
extern "C" __global__ void __launch_bounds__(64) store(const __grid_constant__ P p) {
  const u32 base = smem_base(), t = threadIdx.x;
  for (int i = 0; i < 2; i++) {
    for (u32 r = 0; r < 8; r++) {
      const u32 row = t / 32 * 8 + r, at = swizzled(base + row * 128 + t % 32 * 4);
      const u32 y = i * 16 + row, x = t % 32 * 2;
      store_shared(at, y * 100 + x | (y * 100 + x + 1) << 16); /*@2*/ /*@4*/ /*@5*/
    }
#if FAULT != 1
    proxy_fence();
#endif
    __syncthreads();
    if (t == 0) {
      store_box(&p.out, 0, i * 16, base); /*@1*/ /*@3*/ /*@5*/
#if FAULT != 4
      bulk_commit();
#endif
#if FAULT == 2
      if (i == 1)
#endif
#if FAULT == 3
      if (i == 0)
#endif
        bulk_wait_read();
    }
#if FAULT != 5
    __syncthreads();
#endif
  }
}

// A box of which two chunks of each row leave the tensor, and half of the first chunk.
extern "C" __global__ void __launch_bounds__(32) tail(const __grid_constant__ P p) {
  const u32 base = smem_base();
  for (u32 k = threadIdx.x; k < kBox / 4; k += 32) store_shared(base + 4 * k, 2 * k | (2 * k + 1) << 16);
  proxy_fence();
  __syncwarp();
  if (threadIdx.x == 0) {
    prefetch_box(&p.in, -64, -10);
    store_box(&p.in, 64, 10, base); /*@1*/
    bulk_commit();
    bulk_wait();
  }
}

// The same box of floats is added by four blocks, by TMA and as runs of bytes.
extern "C" __global__ void __launch_bounds__(32) sum(const __grid_constant__ P p) {
  const u32 base = smem_base(), t = threadIdx.x, bar = base + 1024;
  for (u32 r = 0; r < 8; r++) store_shared(base + r * 128 + t * 4, __float_as_uint(r + t + 1.0f));
  if (t == 0) {
    init(bar, 1);
    init_fence();
  }
  proxy_fence();
  __syncwarp();
  if (t == 0) {
    add_box(&p.sums, 0, 2, base);
    bulk_add(p.floats, base, 1024);
    bulk_commit();
    bulk_wait();
    expect(bar, 512);
    bulk_load(base, p.plain, 512, bar);
    wait(bar, 0);
    bulk_store(p.plain + 128 + blockIdx.x * 128, base, 512);
    bulk_commit();
    bulk_wait_read();
    invalidate(bar);
  }
}

// Registers from the producer's warpgroup to the two consumers'.
extern "C" __global__ void __launch_bounds__(384, 1) registers(const __grid_constant__ P p) {
  if (threadIdx.x < 128) {
#if FAULT == 1
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
#endif
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); /*@1*/
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");
  p.plain[threadIdx.x] = threadIdx.x;
  asm volatile("griddepcontrol.launch_dependents;");
}

DEV bool poll(u32 bar) {
  u32 ended;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0;\n"
               "selp.u32 %0, 1, 0, p;\n}" : "=r"(ended) : "r"(bar) : "memory");
  return ended;
}

// Whichever of two runs of bytes comes first; the other is waited for by its state.
extern "C" __global__ void __launch_bounds__(32) either(const __grid_constant__ P p) {
  const u32 base = smem_base(), bar = base + 1024, t = threadIdx.x;
  if (t == 0) {
    u64 state;
    u32 ended = 0;
    init(bar, 1);
    init(bar + 8, 1);
    init_fence();
    bulk_load(base, p.plain, 128, bar);
    expect(bar, 128);
#if FAULT != 60
    bulk_load(base + 128, p.plain + 32, 128, bar + 8);
#endif
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %0, [%1], 128;"
                 : "=l"(state) : "r"(bar + 8) : "memory");
#if FAULT == 60
    while (!poll(bar + 8) && !poll(bar + 8)) {} /*@60*/
#else
    while (!poll(bar) && !poll(bar + 8)) {}
#endif
    wait(bar, 0);
    while (!ended)
      asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.shared::cta.b64 p, [%1], %2;\n"
                   "selp.u32 %0, 1, 0, p;\n}" : "=r"(ended) : "r"(bar + 8), "l"(state) : "memory");
    for (u32 k = 0; k < 64; k++) p.plain[64 + k] = load_shared(base + k * 4);
  }
}

// One wrong thing each.
extern "C" __global__ void __launch_bounds__(32) misuse(const __grid_constant__ P p) {
  const u32 base = smem_base(), bar = base + 4096, t = threadIdx.x;
  if (t == 0) {
    init(bar, 1);
    init_fence();
    for (u32 k = 0; k < 4; k++) store_shared(base + 4 * k, k);
    proxy_fence();
#if FAULT == 31
    load_box(base + 64, &p.in, 0, 0, bar); /*@31*/
#elif FAULT == 32
    load_box(base, (const TensorMap *)p.plain, 0, 0, bar); /*@32*/
#elif FAULT == 33
    load_box(base, (const TensorMap *)((const char *)&p + 320), 0, 0, bar); /*@33*/
#elif FAULT == 34
    bulk_load(base, (const char *)p.plain + 4, 128, bar); /*@34*/
#elif FAULT == 35
    bulk_load(base, p.plain, 120, bar); /*@35*/
#elif FAULT == 36
    bulk_load(base + 8192 - 64, p.plain, 128, bar); /*@36*/
#elif FAULT == 37
    bulk_load(base, p.plain + 6 * 512 - 16, 128, bar); /*@37*/
    expect(bar, 128);
    wait(bar, 0);
#elif FAULT == 38
    init(bar, 1); /*@38*/
#elif FAULT == 39
    store_shared(bar, 0); /*@39*/
#elif FAULT == 40
    init(bar + 8, 0); /*@40*/
#elif FAULT == 41
    expect(bar, 128);
    bulk_load(base, p.plain, 128, bar);
    invalidate(bar); /*@41*/
#elif FAULT == 42
    expect(bar, 1 << 20); /*@42*/
#elif FAULT == 43
    wait(bar, 2); /*@43*/
#elif FAULT == 44
    bulk_store(p.plain, base, 16);
    bulk_commit();
    wait(bar, 1);
    store_shared(base, 2); /*@44*/
#elif FAULT == 49
    load_box(base, &p.in, 4, 0, bar); /*@49*/
#elif FAULT == 50
    load_box(base, &p.in, -1, 1000, bar); /*@50*/
#elif FAULT == 51
    prefetch_box(&p.in, 2, 0); /*@51*/
#elif FAULT == 52
    store_box(&p.out, 100, 0, base); /*@52*/
#elif FAULT == 53
    store_box(&p.out, -8, 0, base); /*@53*/
#elif FAULT == 54
    store_box(&p.out, 64, -1, base); /*@54*/
#elif FAULT == 55
    add_box(&p.sums, 0, -2, base); /*@55*/
#endif
  }
#if FAULT == 45
  cluster_wait(); /*@45*/
#elif FAULT == 46
  cluster_arrive();
  cluster_arrive(); /*@46*/
#elif FAULT == 47
  p.plain[0] = peer_load(peer_address(base, 1)); /*@47*/
#elif FAULT == 48
  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 32;"); /*@48*/
#endif
}

// Boxes of one, three and five axes of `in`, whatever the map says of them: FAULT is the rank.
extern "C" __global__ void __launch_bounds__(32) ranks(const __grid_constant__ P p) {
  const u32 base = smem_base(), bar = base + 1024, t = threadIdx.x;
  if (t == 0) {
    init(bar, 1);
    init_fence();
    expect(bar, FAULT == 1 ? 32 : FAULT == 3 ? 64 : 128);
#if FAULT == 1
    asm volatile("cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2}], [%3], %4;" ::"r"(base), "l"(&p.in), "r"(-4),
                 "r"(bar), "l"(0x14F0000000000000ull) : "memory");
#elif FAULT == 3
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(base), "l"(&p.in), "r"(4), "r"(2),
                 "r"(-1), "r"(bar) : "memory");
#else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(base), "l"(&p.in), "r"(4),
                 "r"(-1), "r"(1), "r"(2), "r"(1), "r"(bar) : "memory");
#endif
    wait(bar, 0);
    for (u32 k = 0; k < (FAULT == 1 ? 8 : FAULT == 3 ? 16 : 32); k++)
      p.plain[k] = load_shared(base + 4 * k);
  }
}
