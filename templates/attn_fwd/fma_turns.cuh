// K and V take turns in one buffer, which leaves room for larger tiles, for two barriers more in an
// iteration. kBlockK columns are a turn, so that long rows fit too; 0: all are.
constexpr int columns_of_turn(int left) { return kBlockK && left > kBlockK ? kBlockK : left; }

// The same numbers, of which the compiler knows nothing: else it would keep what turns have in
// common, at a register for each address.
__device__ __forceinline__ void forget(i64 &from, i64 &stride) {
  if (kBlockK) asm volatile("" : "+l"(from), "+l"(stride));
}

// S += Q K^T of `keys` keys, from column kFrom on
template <int kFrom = 0>
__device__ __forceinline__ void add_scores(float (&s)[kRowsPerThread][kColumnsPerThread], Smem &smem,
                                           const kv_t *k, i64 k_stride, const kv_t *v, i64 v_stride,
                                           int keys) {
  constexpr int kColumns = columns_of_turn(kHeadDimQK - kFrom), kNext = kFrom + kColumns;
  i64 from = kFrom, stride = k_stride;
  forget(from, stride);
  load_tile<kColumns>(smem.kv, k + from, stride, keys);
  __syncthreads();
  add_product_abt<kColumns, kFrom>(s, smem.q, smem.kv);
  if constexpr (kNext < kHeadDimQK) {
    __syncthreads();
    add_scores<kNext>(s, smem, k, k_stride, v, v_stride, keys);
  }
}

// O += P V of `keys` keys, from column kFrom on
template <int kFrom = 0>
__device__ __forceinline__ void add_output(Rows &rows, Smem &smem, const kv_t *v, i64 v_stride,
                                           int keys) {
  constexpr int kColumns = columns_of_turn(kHeadDimV - kFrom), kNext = kFrom + kColumns;
  constexpr int kGroup0 = kFrom / (kLanesN * kVecV);
  constexpr int kGroups = (kColumns + kLanesN * kVecV - 1) / (kLanesN * kVecV);
  i64 from = kFrom, stride = v_stride;
  forget(from, stride);
  __syncthreads();
  load_tile<kColumns>(smem.kv, v + from, stride, keys);
  __syncthreads();
  add_product_ab<kBlockN, kGroup0, kGroups>(rows.o, smem.p, smem.kv);
  if constexpr (kNext < kHeadDimV) add_output<kNext>(rows, smem, v, v_stride, keys);
}
