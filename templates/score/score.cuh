//-- score/score.cuh - what a problem's features make of a score, in their order: softcap, bias, alibi.
//--
//-- Contract with the families. s is sign(scale) q . k: the sign lies in Q, so that without features
//-- the largest s is the largest score, and its size is applied in the exponent:
//--   kScored                   whether score() does anything
//--   score_unit(scale)         what a value that score() gives is multiplied by for a power of two; 1
//--                             where features make scores of 16-bit elements
//--   row_score(...)            what score() needs of a row; rows of the tile beyond the last are let
//--                             pass as the last
//--   score(row, s, j, ...)     the score of the row and key j, only for pairs that are kept: it may
//--                             read a tensor
//-- The backward pass will want dscore(row, ds, s, j, ...) beside it.
//@ local scored = features.softcap or features.bias or features.alibi
//@ if features.softcap then
//@   include("score/softcap.cuh")
//@ end
//@ if features.bias then
//@   include("score/bias.cuh")
//@ end

constexpr bool kScored = $(scored);

//@ if dtype.q == "fp32" then
// Scores come as they are where features make them, else without the scale. Powers of two would be
// rounded more than fp32 bears; so a family has to multiply exact differences where a bias is huge.
constexpr float kScoreOne = 1;
//@ else
// Scores come in units of log2 where features make them, else without the scale. So a product and a
// maximum are rounded alike even where a bias is huge.
constexpr float kScoreOne = kLog2e;
//@ end
__device__ __forceinline__ float score_unit(float scale) {
  return kScored ? kLog2e / kScoreOne : fabsf(scale) * kLog2e;
}

// What the score of a pair takes from its row.
struct RowScore {
  //@ if features.bias then
  const q_t *bias;  // of the row and key 0
  //@ end
  //@ if features.alibi then
  float slope;   // of the row's head, times kScoreOne
  int diagonal;  // the key at distance 0
  //@ end
};

__device__ __forceinline__ RowScore row_score(const Params &params, const Place &place, int row,
                                              int bottom_right) {
  RowScore of;
  //@ if features.bias or features.alibi then
  row = min(row, place.row1 - 1);
  const int i = row / kGroup, head = place.head_q + row % kGroup;
  //@ end
  //@ if features.bias then
  of.bias = params.bias + place.sequence * params.bias_stride_batch + head * params.bias_stride_head +
            i * params.bias_stride_q;
  //@ end
  //@ if features.alibi then
  of.slope = params.alibi_slopes[place.sequence * params.alibi_stride_batch + head] * kScoreOne;
  of.diagonal = i + (bottom_right ? place.len_k - place.len_q : 0);
  //@ end
  return of;
}

//@ if scored then
// The same from the pair's bias and j - row.diagonal, where a family has them at hand.
__device__ __forceinline__ float score_of(const RowScore &row, float s, float bias, float distance,
                                          float scale, float softcap) {
  //@ if features.softcap then
  const float unit = softcap * kScoreOne;
  s = tanh_of(s * (fabsf(scale) / softcap));
  //@ elseif scored then
  const float unit = fabsf(scale) * kScoreOne;
  //@ end
  //@ if features.bias then
  s = fmaf(s, unit, bias * kScoreOne);
  //@ else
  s *= unit;
  //@ end
  //@ if features.alibi then
  s -= row.slope * fabsf(distance);
  //@ end
  return s;
}

//@ end
__device__ __forceinline__ float score(const RowScore &row, float s, int j, float scale,
                                       float softcap, i64 bias_stride_k) {
  //@ if scored then
  float bias = 0, distance = 0;
  //@ if features.bias then
  bias = bias_of(row.bias[j * bias_stride_k]);
  //@ end
  //@ if features.alibi then
  distance = j - row.diagonal;
  //@ end
  return score_of(row, s, bias, distance, scale, softcap);
  //@ else
  return s;
  //@ end
}
