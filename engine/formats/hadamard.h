// The rotation of keys and queries: the orthonormal Walsh-Hadamard transform in Sylvester's order,
//   H_1 = [1],  H_2n = [H_n H_n; H_n -H_n],  y = H_n x / sqrt(n)
// H is symmetric and its own inverse, so (H q).(H k) = q.k: scores stay the same but for rounding, while an outlier
// channel of a key is spread over all of them before its codec sees it. It must be applied to keys and to queries
// alike.
#pragma once

#include <cstdint>
#include <span>

namespace tare::engine {

[[nodiscard]] constexpr bool has_hadamard(std::int64_t size) {
  return size > 0 && (size & (size - 1)) == 0;
}

// In place. n = x.size() is a power of two: log2 n stages of sums and differences of elements 1, 2, 4 ... apart, in
// FP32, then the factor (exact when log2 n is even). Throws Error (internal) for other sizes.
void rotate_hadamard(std::span<float> x);

}  // namespace tare::engine
