// matrix.cu - ldmatrix, stmatrix, movmatrix by one warp: 128 rows of 16 bytes in shared memory, a row address for
// each lane from the input.
enum { kRows = 128, kWords = kRows * 4 };

DEVICE u32 begin(const Params& params) {
  for (u32 i = lane(); i < kWords; i += 32) smem[i] = params.in[i];
  __syncwarp();
  return shared_address(smem) + params.in[kWords + lane()] % kRows * 16;
}

#define LOAD(name, form, list, count, ...)                                                              \
  KERNEL(name, 32) {                                                                                    \
    u32 r[4] = {0, 0, 0, 0}, row = begin(params);                                                       \
    asm volatile("ldmatrix.sync.aligned.m8n8." form " " list : __VA_ARGS__ : "r"(row) : "memory");      \
    for (int i = 0; i < count; i++) params.out[lane() * count + i] = r[i];                              \
  }
LOAD(ldmatrix_x1, "x1.shared.b16", "{%0}, [%1];", 1, "=r"(r[0]))
LOAD(ldmatrix_x2, "x2.shared.b16", "{%0,%1}, [%2];", 2, "=r"(r[0]), "=r"(r[1]))
LOAD(ldmatrix_x4, "x4.shared.b16", "{%0,%1,%2,%3}, [%4];", 4, "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]))
LOAD(ldmatrix_x1_trans, "x1.trans.shared.b16", "{%0}, [%1];", 1, "=r"(r[0]))
LOAD(ldmatrix_x2_trans, "x2.trans.shared.b16", "{%0,%1}, [%2];", 2, "=r"(r[0]), "=r"(r[1]))
LOAD(ldmatrix_x4_trans, "x4.trans.shared::cta.b16", "{%0,%1,%2,%3}, [%4];", 4, "=r"(r[0]), "=r"(r[1]), "=r"(r[2]),
     "=r"(r[3]))

// Rows of lane l: 3 l, so that none is written twice; the input's first words go there.
#define STORE(name, form, list, ...)                                                                     \
  KERNEL(name, 32) {                                                                                     \
    begin(params);                                                                                       \
    u32 r[4], row = shared_address(smem) + lane() * 48;                                                  \
    for (int i = 0; i < 4; i++) r[i] = params.in[kWords + 32 + 4 * lane() + i];                          \
    asm volatile("stmatrix.sync.aligned.m8n8." form " " list : : "r"(row), __VA_ARGS__ : "memory");      \
    __syncwarp();                                                                                        \
    for (u32 i = lane(); i < kWords; i += 32) params.out[i] = smem[i];                                   \
  }
STORE(stmatrix_x1, "x1.shared.b16", "[%0], {%1};", "r"(r[0]))
STORE(stmatrix_x2_trans, "x2.trans.shared.b16", "[%0], {%1,%2};", "r"(r[0]), "r"(r[1]))
STORE(stmatrix_x4, "x4.shared.b16", "[%0], {%1,%2,%3,%4};", "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]))
STORE(stmatrix_x4_trans, "x4.trans.shared.b16", "[%0], {%1,%2,%3,%4};", "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]))

KERNEL(movmatrix, 32) {
  u32 r, x = params.in[lane()];
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x));
  params.out[lane()] = r;
}
