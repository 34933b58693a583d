// cp_async.cu - pipelines of cp.async, right and wrong.
struct P {
  const uint4 *in;
  uint4 *out;
  int tiles;
};
enum { kTile = 128 * 16 }; // bytes

// out[tile][t] = in[tile][127 - t], through two stages.
extern "C" __global__ void __launch_bounds__(128) pipeline(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, base = smem_base();
  copy16(base + t * 16, p.in + t);
  commit();
  for (int i = 0; i < p.tiles; i++) {
    const u32 here = base + (i & 1) * kTile, next = base + (~i & 1) * kTile;
    if (i + 1 < p.tiles) copy16(next + t * 16, p.in + (i + 1) * 128 + t); /*@3*/
    commit();
#if FAULT == 5
    wait_group<2>();
#elif FAULT != 1
    wait_group<1>();
#endif
#if FAULT != 2
    __syncthreads();
#endif
    uint4 x;
    x.x = load_shared(here + (127 - t) * 16); /*@1*/ /*@2*/ /*@3*/ /*@5*/
    x.y = load_shared(here + (127 - t) * 16 + 4);
    x.z = load_shared(here + (127 - t) * 16 + 8);
    x.w = load_shared(here + (127 - t) * 16 + 12); /*@3*/
    p.out[i * 128 + t] = x;
#if FAULT != 3
    __syncthreads();
#endif
  }
#if FAULT == 4
  copy16(base + t * 16, p.in + t); /*@4*/
#endif
}

// Each warp for itself: lanes hand on to each other. Tails are filled with zeros, of 16, 12, 0 bytes.
extern "C" __global__ void __launch_bounds__(128) tails(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, base = smem_base();
  const u32 bytes = t % 3 == 0 ? 16 : t % 3 == 1 ? 12 : 0;
  copy16(base + t * 16, bytes ? p.in + t : p.in - 1, bytes);
  wait_all();
#if FAULT != 1
  __syncwarp();
#endif
  uint4 x;
  x.x = load_shared(base + (t ^ 1) * 16); /*@1*/
  x.y = load_shared(base + (t ^ 1) * 16 + 4);
  x.z = load_shared(base + (t ^ 1) * 16 + 8);
  x.w = load_shared(base + (t ^ 1) * 16 + 12);
  p.out[t] = x;
}

#if __CUDA_ARCH__ >= 900
// Threads 0..63 copy, an mbarrier counts their arrivals, threads 64..127 read.
extern "C" __global__ void __launch_bounds__(128) tracked(const __grid_constant__ P p) {
  const u32 t = threadIdx.x, base = smem_base(), full = base + 2 * kTile, empty = full + 8;
  if (t == 0) {
    init(full, 64);
    init(empty, 64);
  }
#if FAULT != 2
  __syncthreads();
#endif
  for (int i = 0; i < p.tiles; i++) {
    if (t < 64) {
#if FAULT != 3
      wait(empty, (i & 1) ^ 1); /*@2*/
#endif
      copy16(base + t * 16, p.in + i * 128 + t); /*@3*/
      copy16(base + (t + 64) * 16, p.in + i * 128 + t + 64);
      copies_arrive(full); /*@3*/
    } else {
#if FAULT != 1
      wait(full, i & 1); /*@2*/
#endif
      uint4 x[2];
      for (int h = 0; h < 2; h++) {
        const u32 at = base + (t - 64 + 64 * h) * 16;
        x[h].x = load_shared(at); /*@1*/
        x[h].y = load_shared(at + 4);
        x[h].z = load_shared(at + 8);
        x[h].w = load_shared(at + 12);
        p.out[i * 128 + t - 64 + 64 * h] = x[h];
      }
      arrive(empty);
    }
  }
}
#endif
