// A bit for each pair beside the mask's bounds: the pair is kept when both keep it.
__device__ __forceinline__ const u32 *row_bits(const Params &params, const Place &place, int row) {
  row = min(row, place.row1 - 1);
  return params.bitmask + place.sequence * params.bitmask_stride_batch +
         (place.head_q + row % kGroup) * params.bitmask_stride_head +
         row / kGroup * params.bitmask_stride_q;
}

__device__ __forceinline__ bool keep_bit(const u32 *bits, int j) {
  return bits[j / 32u] >> (j % 32u) & 1;
}

// What the bits leave of queries [i0, i1) x keys [j0, j1), by the classes of 64 x 64 pairs; partial
// where there are none.
__device__ __forceinline__ BlockClass bits_class(const Params &params, const Place &place, int i0,
                                                 int i1, int j0, int j1) {
  if (!params.bitmask_classes) return kBlockPartial;
  const unsigned char *classes = params.bitmask_classes +
                                 place.sequence * params.bitmask_classes_stride_batch +
                                 place.head_q * params.bitmask_classes_stride_head;
  bool some = false, all = true;
  for (int head = 0; head < kGroup; head++)
    for (int m = i0 / 64; m <= (i1 - 1) / 64; m++)
      for (int n = j0 / 64; n <= (j1 - 1) / 64; n++) {
        const unsigned char seen = classes[head * params.bitmask_classes_stride_head +
                                           m * params.bitmask_classes_stride_q + n];
        some |= seen != 0, all &= seen == 2;
      }
  return !some ? kBlockEmpty : all ? kBlockFull : kBlockPartial;
}
