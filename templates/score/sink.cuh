// A sink is a key without a value: it takes part in a row's maximum and sum (max in units of log2, sum
// relative to 2^max). Returns what the row's O must be multiplied by.
__device__ __forceinline__ float add_sink(float sink, float &max, float &sum) {
  const float raised = fmaxf(max, sink * kLog2e), factor = exp2_approx(max - raised);
  max = raised;
  sum = fmaf(sum, factor, exp2_approx(sink * kLog2e - raised));
  return factor;
}
