// Scalar definition of Gated DeltaNet on one head, in double precision, in both forms of the model specification
// (docs/method/model.md): the oracle of the kernels and of gdn_cache.h, written for reading.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare::engine {

struct GdnGates {
  double beta = 0;       // sigmoid(b)
  double log_decay = 0;  // g = -exp(A_log) * softplus(a + dt_bias), at most 0
};
[[nodiscard]] GdnGates gdn_gates(double b, double a, double a_log, double dt_bias);

// x * (sum of x^2 + 1e-6)^-1/2 * factor
[[nodiscard]] std::vector<double> l2_normalized(std::span<const double> x, double factor);

struct GdnToken {
  std::vector<double> query;  // [dk], normalised, times dk^-1/2
  std::vector<double> key;    // [dk], normalised
  std::vector<double> value;  // [dv]
  GdnGates gates;
};
struct GdnResult {
  std::vector<double> u;  // [dv]
  std::vector<double> o;  // [dv]
};

// One token of the recurrence on `state` [dk, dv], in place:
//   S <- alpha S;  u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q
GdnResult gdn_step(const GdnToken& token, std::span<double> state);

struct GdnChunkResult {
  std::vector<GdnResult> tokens;
  std::vector<double> a;  // the strictly lower triangular matrix A, [n, n]
};
// n tokens at once, in place:
//   (I + A) U = diag(beta) V - diag(beta e^c) K S,   A_ij = beta_i (k_i . k_j) e^(c_i - c_j) for j < i
//   O = diag(e^c) Q S + (tril(Q K^T) o e^(c_i - c_j)) U,   S <- e^(c_n) S + (diag(e^(c_n - c)) K)^T U
GdnChunkResult gdn_chunk(std::span<const GdnToken> tokens, std::span<double> state);

}  // namespace tare::engine
