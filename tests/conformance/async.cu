// async.cu - mbarrier phases, cp.async, bulk copies and reductions, red and atom, distributed shared memory.
DEVICE void wait(u32 barrier, u32 parity) {
  asm volatile("{ .reg .pred p; LOOP: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra DONE; bra LOOP; DONE: }"
               :: "r"(barrier), "r"(parity) : "memory");
}
DEVICE void init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory"); }
DEVICE void arrive_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
DEVICE u32 passes(u32 barrier, u32 parity) {
  u32 yes;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(yes) : "r"(barrier), "r"(parity) : "memory");
  return yes;
}
DEVICE void copy_in(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
DEVICE void finish_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// One thread; after every step, whether waits for parity 0 and 1 pass.
KERNEL(mbarrier_phases, 32) {
  const u32 barrier = shared_address(smem), data = barrier + 128;
  u32 step = 0;
  if (threadIdx.x != 0) return;
#define LOG()                                                                           \
  params.out[step] = passes(barrier, 0) | passes(barrier, 1) << 1;                      \
  step++;
  init(barrier, 3);
  LOG()
  arrive(barrier);
  arrive(barrier);
  LOG()
  arrive(barrier);
  LOG()
  arrive_expect(barrier, 64);
  arrive(barrier);
  arrive(barrier);
  LOG()
  copy_in(data, params.in, 64, barrier);
  wait(barrier, 1);
  LOG()
  u64 state;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 2;" : "=l"(state) : "r"(barrier) : "memory");
  LOG()
  u32 yes;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(yes) : "r"(barrier), "l"(state) : "memory");
  params.out[step++] = yes;
  arrive(barrier);
  asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(yes) : "r"(barrier), "l"(state) : "memory");
  params.out[step++] = yes;
  LOG()
  for (u32 i = 0; i < 16; i++) params.out[step + i] = smem[32 + i];
}

// Lane l copies 4, 8 or 16 bytes; of the last three kinds only the first bytes, zeros behind.
KERNEL(cp_async, 32) {
  const u32 l = lane(), to = shared_address(smem);
  const u32* from = params.in;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to + 4 * l), "l"(from + l) : "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(to + 128 + 8 * l), "l"(from + 32 + 2 * l) : "memory");
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + 384 + 16 * l), "l"(from + 96 + 4 * l) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(to + 896 + 16 * l), "l"(from + 96 + 4 * l), "r"(l % 17) : "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
               :: "r"(to + 1408 + 8 * l), "l"(from + 32 + 2 * l), "r"(l % 9) : "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"(to + 1664 + 4 * l), "l"(from + l), "r"(l % 5) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncwarp();
  for (u32 i = l; i < 448; i += 32) params.out[i] = smem[i];
}

// In, and out again at another place.
KERNEL(bulk_copy, 32) {
  const u32 barrier = shared_address(smem), data = barrier + 128;
  if (threadIdx.x != 0) return;
  init(barrier, 1);
  arrive_expect(barrier, 1024);
  copy_in(data, params.in, 768, barrier);
  copy_in(data + 768, params.in + 256, 256, barrier);
  wait(barrier, 0);
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(params.out), "r"(data + 512), "r"(512) : "memory");
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(params.out + 128), "r"(data), "r"(512) : "memory");
  finish_stores();
}

// Two blocks add to zeros: two addends, so their order doesn't matter.
#define BULK_REDUCE(name, operation)                                                                      \
  KERNEL(name, 32) {                                                                                      \
    const u32 barrier = shared_address(smem), data = barrier + 128;                                       \
    if (threadIdx.x != 0) return;                                                                         \
    init(barrier, 1);                                                                                     \
    arrive_expect(barrier, 512);                                                                          \
    copy_in(data, params.in + 128 * blockIdx.x, 512, barrier);                                            \
    wait(barrier, 0);                                                                                     \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." operation " [%0], [%1], %2;"       \
                 :: "l"(params.out), "r"(data), "r"(512) : "memory");                                     \
    finish_stores();                                                                                      \
  }
BULK_REDUCE(bulk_add_f32, "add.f32")
BULK_REDUCE(bulk_add_f16, "add.noftz.f16")
BULK_REDUCE(bulk_add_bf16, "add.noftz.bf16")
BULK_REDUCE(bulk_add_u32, "add.u32")

// Word i of the output for lane i of each of two blocks, from zeros.
#define RED(name, type, constraint, value)                                                                 \
  KERNEL(name, 32) {                                                                                       \
    const u32 x = params.in[blockIdx.x * 32 + lane()];                                                     \
    asm volatile("red.global." type " [%0], %1;" :: "l"(params.out + lane()), constraint(value) : "memory"); \
  }
RED(red_add_f32, "add.f32", "f", __uint_as_float(x))
RED(red_add_u32, "add.u32", "r", x)
RED(red_max_s32, "max.s32", "r", x)
RED(red_add_f16x2, "add.noftz.f16x2", "r", x)
RED(red_add_bf16x2, "add.noftz.bf16x2", "r", x)

// What atom returns in shared memory, and what is left there.
KERNEL(atom_shared, 32) {
  const u32 x = params.in[lane()], y = params.in[32 + lane()], at = shared_address(smem) + 4 * lane();
  u32 r[4];
  smem[lane()] = y;
  __syncwarp();
  asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(r[0]) : "r"(at), "r"(x) : "memory");
  asm volatile("atom.shared.exch.b32 %0, [%1], %2;" : "=r"(r[1]) : "r"(at), "r"(y) : "memory");
  asm volatile("atom.shared.cas.b32 %0, [%1], %2, %3;" : "=r"(r[2]) : "r"(at), "r"(y & ~1u), "r"(x) : "memory");
  asm volatile("atom.shared.max.u32 %0, [%1], %2;" : "=r"(r[3]) : "r"(at), "r"(x) : "memory");
  for (int i = 0; i < 4; i++) params.out[i * 32 + lane()] = r[i];
  params.out[128 + lane()] = smem[lane()];
}

// Two blocks: each reads the other's shared memory, then sends it words that an mbarrier there counts.
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32, 1)
    cluster_exchange(const __grid_constant__ Params params) {
  u32 rank, peer_data, peer_barrier, peer_inbox, seen;
  const u32 l = lane(), barrier = shared_address(smem), data = barrier + 128, inbox = barrier + 256;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const u32 x = params.in[rank * 32 + l];
  smem[32 + l] = x;
  if (l == 0) {
    init(barrier, 1);
    arrive_expect(barrier, 128);
  }
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_data) : "r"(data), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_barrier) : "r"(barrier), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_inbox) : "r"(inbox), "r"(rank ^ 1));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(seen) : "r"(peer_data + 4 * l) : "memory");
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
               :: "r"(peer_inbox + 4 * l), "r"(x + seen), "r"(peer_barrier) : "memory");
  wait(barrier, 0);
  params.out[rank * 64 + l] = seen;
  params.out[rank * 64 + 32 + l] = smem[64 + l];
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
