// Matrices as the tensor cores want them in a warp's registers. With g = lane / 4, t = lane % 4:
//   A, 16 x 16 in 4 words   rows g and g + 8, columns 2t, 2t + 1; then the same 8 columns on
//   B, 16 x 8 in 2 words    rows 2t, 2t + 1; then the same 8 rows on; column g
//   C, 16 x 8 in 4 floats   row g, columns 2t, 2t + 1; then row g + 8
// So two C beside each other, rounded and packed, are an A. Needs lane of prim/quad.cuh.

// Four 8 x 8 matrices; lanes 8 i .. 8 i + 7 give the addresses of the rows of the i-th.
__device__ __forceinline__ void load_matrices(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_transposed(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}

// Where a lane's addresses for load_matrices begin; chunks_behind gives those of the columns behind,
// and 16 rows on they are 16 rows' bytes on.
//   A: rows row .. row + 15, columns 0 .. 15 of a tile
template <int kPitch>
__device__ __forceinline__ u32 address_of_a(u32 tile, unsigned row) {
  return chunk_address<kPitch>(tile, row + lane() % 16, lane() / 16);
}
//   two B whose columns are rows row .. row + 15 of a tile, over its columns 0 .. 15
template <int kPitch>
__device__ __forceinline__ u32 address_of_rows(u32 tile, unsigned row) {
  return chunk_address<kPitch>(tile, row + lane() / 16 * 8 + lane() % 8, lane() / 8 % 2);
}
//   two B whose columns are columns 16 pair .. 16 pair + 15 of a tile, over its rows 0 .. 15; for
//   load_transposed
template <int kPitch>
__device__ __forceinline__ u32 address_of_columns(u32 tile, unsigned pair) {
  return chunk_address<kPitch>(tile, lane() % 16, 2 * pair + lane() / 16);
}

//@ local type = dtype.kv == "bf16" and "bf16" or "f16"
// C += A B
__device__ __forceinline__ void add_product(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
//@ if arch.cc >= 80 then
  asm("mma.sync.aligned.m16n8k16.row.col.f32.$(type).$(type).f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
//@ else
  // This arch multiplies 8 columns of A by 8 rows of B at a time.
  const u32 b[2] = {b0, b1};
#pragma unroll
  for (int half = 0; half < 2; half++)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.$(type).$(type).f32 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
//@ end
}
