// tma.cu - tensor copies of boxes that leave their tensor. Block i's coordinates are the input's words a + 4 i ..;
// a box has b bytes. Loads: the box as it lies in shared memory. Stores: the tensor is the output.
DEVICE void wait(u32 barrier) {
  asm volatile("{ .reg .pred p; LOOP: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @p bra DONE; bra LOOP; DONE: }"
               :: "r"(barrier) : "memory");
}

#define TENSOR_LOAD(name, rank, list, ...)                                                                    \
  KERNEL(name, 32) {                                                                                          \
    const u32 box = shared_address(smem), bytes = (u32)params.b, barrier = box + bytes;                       \
    const u32* c = params.in + params.a + 4 * blockIdx.x;                                                     \
    if (threadIdx.x == 0) {                                                                                   \
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");                      \
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");                                      \
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory"); \
      asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, " list "], [%2];" \
                   :: "r"(box), "l"(params.map), "r"(barrier), __VA_ARGS__ : "memory");                       \
    }                                                                                                         \
    __syncwarp();                                                                                             \
    wait(barrier);                                                                                            \
    for (u32 i = lane(); i < bytes / 4; i += 32) params.out[blockIdx.x * (bytes / 4) + i] = smem[i];          \
  }
TENSOR_LOAD(tma_load_1d, "1d", "{%3}", "r"(c[0]))
TENSOR_LOAD(tma_load_2d, "2d", "{%3,%4}", "r"(c[0]), "r"(c[1]))
TENSOR_LOAD(tma_load_3d, "3d", "{%3,%4,%5}", "r"(c[0]), "r"(c[1]), "r"(c[2]))
TENSOR_LOAD(tma_load_4d, "4d", "{%3,%4,%5,%6}", "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]))

#define TENSOR_STORE(name, operation, list, ...)                                                              \
  KERNEL(name, 32) {                                                                                          \
    const u32 bytes = (u32)params.b;                                                                          \
    const u32* c = params.in + params.a + 4 * blockIdx.x;                                                     \
    for (u32 i = lane(); i < bytes / 4; i += 32) smem[i] = params.in[blockIdx.x * (bytes / 4) + i];           \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                              \
    __syncwarp();                                                                                             \
    if (threadIdx.x == 0) {                                                                                   \
      asm volatile(operation " [%0, " list "], [%1];"                                                         \
                   :: "l"(params.map), "r"(shared_address(smem)), __VA_ARGS__ : "memory");                    \
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");                                               \
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");                                               \
    }                                                                                                         \
  }
TENSOR_STORE(tma_store_2d, "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", "{%2,%3}", "r"(c[0]), "r"(c[1]))
TENSOR_STORE(tma_store_3d, "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group", "{%2,%3,%4}", "r"(c[0]), "r"(c[1]), "r"(c[2]))
TENSOR_STORE(tma_add_2d, "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group", "{%2,%3}", "r"(c[0]), "r"(c[1]))
