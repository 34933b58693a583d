// Boxes of a tensor between device and shared memory, moved by one thread. What a box covers beyond
// the tensor reads as zeros, and is not written.
// What L2 should do with the lines: let them go first, or keep them. Of what is read once they may go
// first, unless the next head's rows lie in them too (on an H200 3 to 10 % at head dim 32).
constexpr u64 kEvictFirst = 0x12f0000000000000, kEvictNormal = 0x1000000000000000,
              kEvictLast = 0x14f0000000000000;
constexpr u64 kReadOnce = kHeadDimQK * sizeof(elem_t) % 128 ? kEvictNormal : kEvictFirst;

__device__ __forceinline__ bool elect_one() {
  u32 elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected;
}
__device__ __forceinline__ void prefetch_map(const TensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Keys: dim, key, head, sequence.
__device__ __forceinline__ void load_box(u32 to, const TensorMap *map, u32 barrier, int dim, int key,
                                         int head, int sequence, u64 hint) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
      "l"(map), "r"(dim), "r"(key), "r"(head), "r"(sequence), "r"(barrier), "l"(hint)
      : "memory");
}
// Rows of Q: dim, head of the packed group (from its first), query, group, sequence.
__device__ __forceinline__ void load_box(u32 to, const TensorMap *map, u32 barrier, int dim,
                                         int query, int group, int sequence) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(to),
      "l"(map), "r"(dim), "r"(0), "r"(query), "r"(group), "r"(sequence), "r"(barrier),
      "l"(kReadOnce)
      : "memory");
}
__device__ __forceinline__ void store_box(u32 from, const TensorMap *map, int dim, int query,
                                          int group, int sequence) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::
          "l"(map), "r"(dim), "r"(0), "r"(query), "r"(group), "r"(sequence), "r"(from)
      : "memory");
}
__device__ __forceinline__ void stores_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// All stores of the thread have read their shared memory, which must stay until then. They have
// landed when the kernel has ended.
__device__ __forceinline__ void stores_have_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// What the thread wrote to shared memory becomes visible to TMA and wgmma that follow a barrier.
__device__ __forceinline__ void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
