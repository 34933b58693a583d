//-- attn_standard, part softmax, family fma: P = softmax(S) in the place of S, and the LSE.
//-- One warp per row. The scale is in S already, so that here the exponent's unit is log2(e).
//-- Parts as attn_fwd/fma.cu says.
//@ include("head.cuh")

//@ include("mask/" .. mask .. ".cuh")

//@ include("prim/math.cuh")

//@ include("prim/place.cuh")

//@ include("prim/scores.cuh")

extern "C" __global__ void __launch_bounds__(kThreads)
    $(name)(const __grid_constant__ Params params) {
  //@ include("prim/scalars.cuh")
  //@ include("prim/early.cuh")

  //@ include("prim/prologue.cuh")
  const int i = i0 + threadIdx.x / 32, lane = threadIdx.x % 32;  // a row is a warp's
  if (i >= i1) return;
  key_range(bounds, i, i + 1, place.len_k, j_begin, j_end);
  q_t *s = scores_row(params, place, i, heads_q, len_q);

  // Pass 1: maximum and sum, each lane over its own keys
  float largest = kLowest, sum = 0;
  for (int j = j_begin + lane; j < j_end; j += 32) {
    if (!keep(bounds, i, j)) continue;
    const float x = to_float(s[j]);
    const float raised = fmaxf(largest, x * kLog2e);
    sum = sum * exp2_approx(largest - raised) + exp2_approx(fmaf(x, kLog2e, -raised));
    largest = raised;
  }
  const float row_max = lanes_max<32>(largest);
  sum = lanes_sum<32>(sum * exp2_approx(largest - row_max));

  // Pass 2: P = exp(S - max) / sum, 0 where masked
  const float factor = row_factor(sum);
  for (int j = lane; j < len_k; j += 32) {
    float p = 0;
    if (j >= j_begin && j < j_end && keep(bounds, i, j))
      p = exp2_approx(fmaf(to_float(s[j]), kLog2e, -row_max)) * factor;
    s[j] = from_float(p);
  }

  // LSE = max + log(sum)
  if (params.lse && lane == 0) {
    const QueryRows<float> lse = query_rows(place, params.lse, params.lse_stride_batch,
                                            params.lse_stride_seq, params.lse_stride_head);
    *lse.at(i) = row_lse(row_max, sum);
  }
}
