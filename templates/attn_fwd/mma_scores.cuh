//-- attn_fwd/mma_scores.cuh - what features make of the scores that a lane has: where it reads what
//-- they need of device memory, once a tile and a row, and how it puts them to the scores.
//@ local scored = features.softcap or features.bias or features.alibi
//@ if features.bitmask then
constexpr int kWordsS = (kKeysPerWarp + 31) / 32;  // of bits

//@ end
//@ if features.bias or features.bitmask then
// What a lane needs of a tile's part of its rows, read while the product runs.
struct Beside {
  //@ if features.bias then
  u32 bias[kBands][2][kGroupsS];  // two neighbours a word
  //@ end
  //@ if features.bitmask then
  u32 bits[kBands][2][kWordsS];
  //@ end
};

//@ end
//@ if features.bias then
// Biases of a row at a lane's columns of a tile: of two neighbours at once where they lie so.
__device__ __forceinline__ void read_bias(u32 (&bias)[kGroupsS], const q_t *row, int j0, int j_end,
                                          i64 stride) {
  const q_t *from = row + (j0 + column()) * stride;
  if (stride == 1 && j0 + kBlockN <= j_end && reinterpret_cast<u64>(from) % sizeof(u32) == 0) {
#pragma unroll
    for (int g = 0; g < kGroupsS; g++) bias[g] = *reinterpret_cast<const u32 *>(from + g * 8);
  } else {
#pragma unroll
    for (int g = 0; g < kGroupsS; g++) {
      const int j = j0 + column() + g * 8;
      const q_t *two = from + g * 8 * stride;
      bias[g] = (j < j_end ? two[0].bits : 0) | (j + 1 < j_end ? two[stride].bits : 0) << 16;
    }
  }
}

//@ end
//@ if features.bitmask then
// Bits of a row of a tile, whose first key is at a multiple of kBlockN; the lane's first column comes
// first. Of a tile that the bits leave whole they are not read.
__device__ __forceinline__ void read_bits(u32 (&bits)[kWordsS], const u32 *row, int j0, int j_end,
                                          bool full) {
#pragma unroll
  for (int w = 0; w < kWordsS; w++) {
    const int j = j0 + part() * kKeysPerWarp + w * 32;
    bits[w] = full ? 0xffffffff : j < j_end ? row[j / 32] >> (j % 32 + lane() % 4 * 2) : 0;
  }
}

//@ end
//@ if features.bias or features.bitmask then
//@ local rows = features.bias and "const RowScore (&of_row)[kBands][2], " or ""
//@ local full = features.bitmask and ", bool full" or ""
__device__ __forceinline__ void read_beside(Beside &beside, const Params &params,
                                            const Place &place, $(rows)int j0, int j_end$(full)) {
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      //@ if features.bias then
      read_bias(beside.bias[b][half], of_row[b][half].bias, j0, j_end, params.bias_stride_k);
      //@ end
      //@ if features.bitmask then
      const u32 *bits = row_bits(params, place, place.row0 + row(b) + 8 * half);
      read_bits(beside.bits[b][half], bits, j0, j_end, full);
      //@ end
    }
}

//@ end
//@ if scored then
//@ local with_beside = features.bias and "const Beside &beside, " or ""
// S becomes scores, in units of log2; those of pairs that are not kept may become anything.
__device__ __forceinline__ void apply_features(float (&s)[kBands][kGroupsS][4],
                                               const RowScore (&of_row)[kBands][2],
                                               $(with_beside)int j0, float scale, float softcap) {
#pragma unroll
  for (int b = 0; b < kBands; b++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      //@ if features.alibi then
      const float distance = j0 + column() - of_row[b][half].diagonal;
      //@ end
#pragma unroll
      for (int c = 0; c < kGroupsS * 2; c++) {
        float &x = s[b][c / 2][2 * half + c % 2];
        //@ local word = "beside.bias[b][half][c / 2] >> c % 2 * 16"
        //@ local bias = features.bias and "bias_of(q_t{(unsigned short)(" .. word .. ")})" or "0"
        //@ local distance = features.alibi and "distance + (c / 2 * 8 + c % 2)" or "0"
        x = score_of(of_row[b][half], x, $(bias), $(distance), scale, softcap);
      }
    }
}

//@ end
