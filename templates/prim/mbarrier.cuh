// Barriers in shared memory, by address. A phase ends when as many have arrived as the barrier was
// made for, and all bytes that were announced are there. wait() returns once the phase of that
// parity has ended: of a fresh barrier the one before the first, of parity 1, has.
__device__ __forceinline__ void barrier_init(u32 at, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
// After the last init, by its thread; the others see the barriers after a __syncthreads.
__device__ __forceinline__ void barriers_publish() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(u32 at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
__device__ __forceinline__ void arrive_and_expect(u32 at, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ bool phase_ended(u32 at, u32 parity) {
  u32 ended;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(ended)
      : "r"(at), "r"(parity)
      : "memory");
  return ended;
}
__device__ __forceinline__ void wait(u32 at, u32 parity) {
  while (!phase_ended(at, parity)) {
  }
}

// Where a loop over kCount buffers stands: the buffer, and the parity of its current use.
template <int kCount>
struct Ring {
  u32 slot = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++slot == kCount) slot = 0, parity ^= 1;
  }
  //@ if family == "middle" then
  __device__ __forceinline__ void advance(u32 by) {
    const u32 to = slot + by;
    slot = to % kCount, parity ^= to / kCount & 1;
  }
  //@ end
};

// Barriers of the hardware among whole warps: `threads` take part in each round.
__device__ __forceinline__ void threads_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void threads_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
