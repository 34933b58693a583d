//-- wgmma of a warpgroup on panels in shared memory: what a family with wgmma multiplies by.
//-- Family middle also has products of fewer keys than kBlockN, in steps of kBlockK.
// Tiles lie in shared memory as panels: all rows of a tile x 32, 64 or 128 bytes of each, one panel
// behind the other, every panel aligned to 1024 bytes and swizzled over its width.
//--
//-- PTX ISA, "wgmma": a matrix descriptor has the address >> 4 in bits 0..13, the leading byte offset
//-- >> 4 in 16..29, the stride byte offset >> 4 in 32..45, the swizzle in 62..63 (1: 128 bytes).

// Descriptor of a tile whose panels have rows of kWidth bytes. `leading`: bytes from a panel to the
// next, where columns run along N; of no use where they run along the inner dimension.
template <int kWidth>
__device__ __forceinline__ u64 describe(u32 tile, u32 leading) {
  constexpr u64 kSwizzle = kWidth == 128 ? 1 : kWidth == 64 ? 2 : 3;
  return (tile & 0x3ffff) >> 4 | (u64)(leading >> 4) << 16 | (u64)(8 * kWidth >> 4) << 32 |
         kSwizzle << 62;
}
// What step `step` of 16 elements adds to a descriptor: along the rows of a tile of kRows rows, where
// the inner dimension is a row's columns; and down the rows.
template <int kWidth, int kRows>
__device__ __forceinline__ constexpr u64 along(int step) {
  return (step % (kWidth / 32) * 32 + step / (kWidth / 32) * (kRows * kWidth)) >> 4;
}
template <int kWidth>
__device__ __forceinline__ constexpr u64 down(int step) {
  return step * (16 * kWidth) >> 4;
}

// Products run beside the threads: between fence and commit they are issued as a group, and until
// products_wait leaves at most kGroups of the newest, nobody may touch their registers.
__device__ __forceinline__ void products_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Values that the products use are computed here, not behind the fence, where the compiler would
// like to have them.
template <int kCount>
__device__ __forceinline__ void settle(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i++) asm volatile("" : "+f"(x[i]));
}
template <int kCount>
__device__ __forceinline__ void settle(u32 (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i++) asm volatile("" : "+r"(x[i]));
}
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kGroups>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

//@ local type = dtype.kv == "bf16" and "bf16" or "f16"
//@ local function list(count, per, text)
//@   local lines = {}
//@   for i = 0, count - 1 do
//@     local line = i // per + 1
//@     lines[line] = (lines[line] or "") .. string.format(text, i) .. (i < count - 1 and ", " or "")
//@   end
//@   return lines
//@ end
//@ local middle = family == "middle"
//@ -- Widths of a step: those of family middle's last one (kNarrow there; with a width that is missing
//@ -- here it does not compile).
//@ local narrow = middle and tile.block_k > 0 and tile.block_k or tile.block_n
//@ local least = (tile.block_n - 1) % narrow + 1
//@ local steps_qk, columns = (d.qk + 15) // 16, middle and d.v or (d.v + 15) // 16 * 16
//@ -- A product is one statement, which takes the compiler 5 to 10 % less than one a step and gives the
//@ -- same machine code. Of more than eight steps it is two a statement: with more, descriptors
//@ -- do not fit the uniform registers, and code changes.
//@ local at_once = steps_qk
//@ while at_once > (steps_qk > 8 and 2 or 8) or steps_qk % at_once > 0 do at_once = at_once - 1 end
//@ local function ended(text, count, per, after)
//@   local lines = list(count, per, text)
//@   lines[#lines] = lines[#lines] .. after
//@   return lines
//@ end
// A step of 16 elements of the inner dimension of a product of 64 rows x N columns, up to the operands
// behind its sums: the first registers of the statement.
//@ local widths = {}
//@ for n = least, tile.block_n, narrow do widths[n] = true end
//@ widths[columns] = true
//@ for n = 8, 256, 8 do
//@   if widths[n] then
//@     local sums = table.concat(list(n // 2, n, "%%%d"))
#define MULTIPLY_$(n) "wgmma.mma_async.sync.aligned.m64n$(n)k16.f32.$(type).$(type) {$(sums)}, "
//@   end
//@ end

//@ for n = least, tile.block_n, narrow do
// S of 64 rows x $(n) keys = Q K^T; both in shared memory, along their rows in panels of kWidth bytes.
template <int kWidth>
__device__ __forceinline__ void multiply_qk(float (&d)[$(n // 2)], u64 q, u64 k) {
//@   for first = 0, steps_qk - 1, at_once do
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, $(first > 0 and 1 or 0), 0;\n"
//@     for i = 0, at_once - 1 do
      MULTIPLY_$(n) "%$(n // 2 + 2 * i), %$(n // 2 + 2 * i + 1), add, 1, 1, 0, 0;\n"
//@       if i == 0 and first == 0 and at_once > 1 then
      "setp.ne.b32 add, 1, 0;\n"
//@       end
//@     end
      "}"
      :
//@     for _, line in ipairs(list(n // 2, 8, '"+f"(d[%d])')) do
      $(line)
//@     end
      :
//@     for i = first, first + at_once - 1 do
//@       local after = i < first + at_once - 1 and "," or ");"
      "l"(q + along<kWidth, kBlockM>($(i))), "l"(k + along<kWidth, kBlockN>($(i)))$(after)
//@     end
//@   end
}

//@ end
//@ local c, p = columns // 2, (tile.block_n + 15) // 16 * 4
//@ local add = middle and ", bool add" or ""
//@ for n = least, tile.block_n, narrow do
//@   local steps = (n + 15) // 16
// O of 64 rows x head_dim_v += P V of $(n) keys; P in registers, V in shared memory, down its rows, by
// the descriptor of each step.
//@   if middle then
// Without `add` it is =.
//@   end
__device__ __forceinline__ void multiply_pv(float (&d)[$(c)], const u32 (&p)[$(p)],
                                            const u64 (&v)[$(steps)]$(add)) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, $(middle and "%" .. c + 5 * steps or "1"), 0;\n"
//@   for i = 0, steps - 1 do
//@     local at = c + 4 * i
      MULTIPLY_$(columns) "{%$(at), %$(at + 1), %$(at + 2), %$(at + 3)}, %$(c + 4 * steps + i), add, 1, 1, 1;\n"
//@     if middle and i == 0 and steps > 1 then
      "setp.ne.b32 add, 1, 0;\n"
//@     end
//@   end
      "}"
      :
//@   for _, line in ipairs(list(c, 8, '"+f"(d[%d])')) do
      $(line)
//@   end
      :
//@   for _, line in ipairs(ended('"r"(p[%d])', 4 * steps, 8, ",")) do
      $(line)
//@   end
//@   for _, line in ipairs(ended('"l"(v[%d])', steps, 8, middle and "," or ");")) do
      $(line)
//@   end
//@   if middle then
      "r"((int)add));
//@   end
}

//@ end
// Registers of the warpgroup's threads, from here on.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Writes four 8 x 8 matrices; lanes 8 i .. 8 i + 7 give the addresses of the rows of the i-th.
__device__ __forceinline__ void store_matrices(u32 at, u32 x0, u32 x1, u32 x2, u32 x3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
               "r"(x0), "r"(x1), "r"(x2), "r"(x3)
               : "memory");
}
//@ if tile.block_m % 16 == 8 or (middle and d.v % 16 == 8) then
// The same of two matrices.
__device__ __forceinline__ void store_matrices(u32 at, u32 x0, u32 x1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(at), "r"(x0),
               "r"(x1)
               : "memory");
}
//@ end
