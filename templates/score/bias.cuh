// A bias as a float. Finite ones end at -1e38: in units of log2 they stay finite, so that a row
// whose biases are all the lowest number has an even softmax, and one of -inf alone is empty.
__device__ __forceinline__ float bias_of(q_t x) {
  const float bias = to_float(x);
  return bias == negative_infinity() ? bias : fmaxf(bias, -1e38f);
}
