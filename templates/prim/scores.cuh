// Row i of S, or of P in its place, in the workspace [batch, heads_q, len_q, scores_pitch].
__device__ __forceinline__ q_t *scores_row(const Params &params, const Place &place, int i,
                                           int heads_q, int len_q) {
  const i64 head = (i64)place.sequence * heads_q + place.head_q;
  return params.scores + (head * len_q + i) * params.scores_pitch;
}
