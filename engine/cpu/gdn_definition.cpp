#include "engine/cpu/gdn_definition.h"

#include <cmath>

namespace tare::engine {
namespace {

constexpr double kL2NormEps = 1e-6;       // added to the sum of squares, inside the root
constexpr double kSoftplusLinear = 20.0;  // softplus(x) = x above

double dot(std::span<const double> x, std::span<const double> y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// state^T x, [dv]
std::vector<double> transposed_product(std::span<const double> state, std::span<const double> x, std::size_t dv) {
  std::vector<double> result(dv);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < dv; ++j) result[j] += state[i * dv + j] * x[i];
  return result;
}

// state += weight * key u^T
void add_outer(std::span<double> state, std::span<const double> key, std::span<const double> u, double weight) {
  for (std::size_t i = 0; i < key.size(); ++i)
    for (std::size_t j = 0; j < u.size(); ++j) state[i * u.size() + j] += weight * key[i] * u[j];
}

}  // namespace

GdnGates gdn_gates(double b, double a, double a_log, double dt_bias) {
  const double x = a + dt_bias;
  const double softplus = x > kSoftplusLinear ? x : std::log1p(std::exp(x));
  return {1.0 / (1.0 + std::exp(-b)), -std::exp(a_log) * softplus};
}

std::vector<double> l2_normalized(std::span<const double> x, double factor) {
  const double scale = factor / std::sqrt(dot(x, x) + kL2NormEps);
  std::vector<double> result(x.begin(), x.end());
  for (double& value : result) value *= scale;
  return result;
}

GdnResult gdn_step(const GdnToken& token, std::span<double> state) {
  const std::size_t dv = token.value.size();
  const double alpha = std::exp(token.gates.log_decay);
  for (double& value : state) value *= alpha;
  const std::vector<double> predicted = transposed_product(state, token.key, dv);
  GdnResult result;
  for (std::size_t j = 0; j < dv; ++j) result.u.push_back(token.gates.beta * (token.value[j] - predicted[j]));
  add_outer(state, token.key, result.u, 1.0);
  result.o = transposed_product(state, token.query, dv);
  return result;
}

GdnChunkResult gdn_chunk(std::span<const GdnToken> tokens, std::span<double> state) {
  const std::size_t n = tokens.size();
  GdnChunkResult result;
  result.a.assign(n * n, 0.0);
  std::vector<double> c;
  for (const GdnToken& token : tokens) c.push_back((c.empty() ? 0.0 : c.back()) + token.gates.log_decay);

  for (std::size_t i = 0; i < n; ++i) {
    const GdnToken& token = tokens[i];
    const std::size_t dv = token.value.size();
    const std::vector<double> state_key = transposed_product(state, token.key, dv);
    const std::vector<double> state_query = transposed_product(state, token.query, dv);
    GdnResult row;
    for (std::size_t v = 0; v < dv; ++v) {
      row.u.push_back(token.gates.beta * (token.value[v] - std::exp(c[i]) * state_key[v]));
      row.o.push_back(std::exp(c[i]) * state_query[v]);
    }
    for (std::size_t j = 0; j < i; ++j) {
      const double decay = std::exp(c[i] - c[j]);
      result.a[i * n + j] = token.gates.beta * dot(token.key, tokens[j].key) * decay;
      for (std::size_t v = 0; v < dv; ++v) {
        row.u[v] -= result.a[i * n + j] * result.tokens[j].u[v];
        row.o[v] += decay * dot(token.query, tokens[j].key) * result.tokens[j].u[v];
      }
    }
    for (std::size_t v = 0; v < dv; ++v) row.o[v] += dot(token.query, token.key) * row.u[v];
    result.tokens.push_back(std::move(row));
  }
  for (double& value : state) value *= std::exp(c.back());
  for (std::size_t j = 0; j < n; ++j) add_outer(state, tokens[j].key, result.tokens[j].u, std::exp(c.back() - c[j]));
  return result;
}

}  // namespace tare::engine
