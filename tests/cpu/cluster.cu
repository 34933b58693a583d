// cluster.cu - two blocks that share: multicast, arrivals, loads and stores in each other's memory.
struct P {
  TensorMap in;
  u32 *out;
  int tiles;
};
enum { kHalf = 8 * 128, kBox = 2 * kHalf };

DEV u32 swizzled(u32 at) { return at ^ (at >> 7 & 7) << 4; }

// Each block loads half of a box for both. out[rank][tile][16][32]
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
    multicast(const __grid_constant__ P p) {
  const u32 base = smem_base(), full = base + kBox, empty = full + 8, own = rank();
  const u32 t = threadIdx.x;
  if (t == 0) {
    init(full, 1);
    init(empty, 2);
    init_fence();
  }
#if FAULT == 1
  __syncthreads();
#else
  cluster_arrive();
  cluster_wait();
#endif
  for (int i = 0; i < p.tiles; i++) {
    if (t == 0) {
      wait(empty, i & 1 ^ 1);
      expect(full, kBox);
      load_box_many(base + own * kHalf, &p.in, 0, i * 16 + own * 8, full, 3); /*@1*/
    }
    __syncwarp();
    if (t >= 32) {
      const u32 lane = t - 32;
      wait(full, i & 1);
      for (u32 r = 0; r < 16; r++)
        p.out[((own * p.tiles + i) * 16 + r) * 32 + lane] =
            load_shared(swizzled(base + r * 128 + lane * 4));
      __syncwarp();
      if (lane < 2) peer_arrive(peer_address(empty, lane)); /*@1*/
    }
  }
  cluster_arrive();
  cluster_wait();
}

// Each thread sends a word to the peer, which also reads one there. out[rank][2][64]
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
    exchange(const __grid_constant__ P p) {
  const u32 base = smem_base(), bar = base + 1024, own = rank(), peer = own ^ 1, t = threadIdx.x;
  store_shared(base + t * 4, 1000 * own + t);
  if (t == 0) {
    init(bar, 1);
    init_fence();
    expect(bar, 256);
  }
  cluster_arrive();
  cluster_wait();
  peer_store(peer_address(base + 512 + t * 4, peer), 7000 * own + t, peer_address(bar, peer));
#if FAULT != 4
  wait(bar, 0);
#endif
  p.out[own * 128 + t] = load_shared(base + 512 + (63 - t) * 4); /*@4*/
  p.out[own * 128 + 64 + t] = peer_load(peer_address(base + t * 4, peer));
  cluster_arrive();
  cluster_wait();
}

// Nothing keeps block 1 from leaving before block 0 reads there.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
    leave(const __grid_constant__ P p) {
  const u32 base = smem_base(), t = threadIdx.x;
  store_shared(base + t * 4, t);
  cluster_arrive();
  if (rank() == 1) return;
  cluster_wait();
  p.out[t] = peer_load(peer_address(base + t * 4, 1));
}
