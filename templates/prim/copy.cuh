// Copies of 16 bytes from device to shared memory.

// The same number, of which the compiler knows nothing. In a loop, what follows from it is computed
// where it is used: the compiler would do it before the loop, at a register for each address.
template <typename Number>
__device__ __forceinline__ Number again(Number x) {
  asm volatile("" : "+r"(x));
  return x;
}

//@ if arch.cc >= 80 then
// The copies run beside the threads, in groups: a thread commits what it has issued as a group, and
// waits until all but its last kGroups groups are there. Others see them after a barrier. What is
// not `inside` becomes zeros and is not read.
__device__ __forceinline__ void copy_chunk(u32 to, const elem_t *from, bool inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kGroups>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}
//@ else
// This arch has no copies beside the threads: each is there when its thread goes on, and there is
// nothing to commit or to wait for. What is not `inside` becomes zeros and is not read.
__device__ __forceinline__ void copy_chunk(u32 to, const elem_t *from, bool inside) {
  uint4 all = make_uint4(0, 0, 0, 0);
  if (inside) all = *reinterpret_cast<const uint4 *>(from);
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(all.x), "r"(all.y),
               "r"(all.z), "r"(all.w)
               : "memory");
}
__device__ __forceinline__ void copies_commit() {}
template <int kGroups>
__device__ __forceinline__ void copies_wait() {}
//@ end
