// The mixing half of a Gated DeltaNet layer.
#include <cmath>

#include "engine/cpu/forward_pass.h"

namespace tare::engine {
namespace {

constexpr float kL2NormEps = 1e-6F;       // added to the sum of squares, inside the root; a literal of the model
constexpr double kSoftplusLinear = 20.0;  // softplus(x) = x above: PyTorch's threshold

float sigmoid(float x) {
  return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(x))));
}

double softplus(double x) {
  return x > kSoftplusLinear ? x : std::log1p(std::exp(x));
}

}  // namespace

void ForwardPass::run_gdn(const GdnWeights& weights, const LayerOps& ops, GdnLayerState& state, const Pass& pass) {
  const bool absorbs = pass.mode == PassMode::kAbsorb;
  RowBuffer& projected = absorbs ? projected_ : state.verified;
  projected.reserve(tokens_);
  const Product products[] = {
      {&weights.qkv.matrix, &projected}, {&weights.z.matrix, &z_}, {&weights.beta_and_decay.matrix, &beta_and_decay_}};
  multiply(products, normed_, ops.in);
  {
    const OpScope scope(
        collector_, ops.mixing,
        mixing_bytes(state, pass.mode, pass.position, tokens_) + (absorbs ? state.columns.bytes_written(tokens_) : 0));
    mix_gdn(weights, state, projected, pass);
  }
  multiply_into_residual(weights.out.matrix, mixed_gdn_, ops.out);
}

void ForwardPass::mix_gdn(const GdnWeights& weights, GdnLayerState& state, const RowBuffer& projected,
                          const Pass& pass) {
  const auto parents = nodes_lie_apart() ? pass.tree->parents() : std::span<const std::int32_t>();
  state.columns.begin_pass(projected, tokens_, parents, kernels_.vectors);
  if (pass.mode == PassMode::kVerify) {
    state.recurrence.begin_verify(*walk_);
  } else {
    state.recurrence.begin_absorb(tokens_);
  }
  const auto heads = static_cast<std::size_t>(config_.linear_value_heads);
  pool_.parallel_for(heads, 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (std::size_t head = begin; head < end; ++head)
      run_gdn_head(weights, state, static_cast<std::int64_t>(head), spaces_[static_cast<std::size_t>(thread)]);
  });
  state.recurrence.end_pass();
  if (pass.mode == PassMode::kAbsorb) state.columns.absorb(projected, tokens_, kernels_.vectors);
  for_tokens(tokens_, [&](std::int64_t token) { mixed_gdn_.quantize(token, kernels_.vectors); });
}

// Convolution, normalisation, recurrence and gated norm of one value head over all tokens of the pass. Value heads that
// share a key head repeat its convolution: cheaper than another hand-over.
void ForwardPass::run_gdn_head(const GdnWeights& weights, GdnLayerState& state, std::int64_t head, ThreadSpace& space) {
  const std::int64_t dk = config_.linear_key_head_dim;
  const std::int64_t dv = config_.linear_value_head_dim;
  const std::int64_t key_head = head / (config_.linear_value_heads / config_.linear_key_heads);
  const std::int64_t query_channel = key_head * dk;
  const std::int64_t key_channel = config_.linear_key_channels() + key_head * dk;
  const std::int64_t value_channel = 2 * config_.linear_key_channels() + head * dv;
  const float query_scale = 1.0F / std::sqrt(static_cast<float>(dk));
  const auto at = static_cast<std::size_t>(head);

  const auto convolve = [&](std::int64_t channel, std::int64_t count, float* out) {
    std::vector<const float*>& rows = space.taps;
    for (const float*& row : rows) row += channel;
    kernels_.gdn.convolve_silu(rows.data(), weights.convolution.data() + channel, state.columns.taps(),
                               weights.convolution_stride, count, out);
    for (const float*& row : rows) row -= channel;
  };

  for (std::int64_t i = 0; i < tokens_; ++i) {
    const std::int64_t token = walk_ ? walk_->order[static_cast<std::size_t>(i)] : i;
    state.columns.taps_of(token, space.taps);
    float* query = space.gdn_query.data();
    float* key = space.gdn_key.data();
    convolve(query_channel, dk, query);
    convolve(key_channel, dk, key);
    convolve(value_channel, dv, space.gdn_value.data());
    const auto inverse_norm = [&](const float* x) {
      return 1.0F / std::sqrt(kernels_.vectors.dot(x, x, dk) + kL2NormEps);
    };
    kernels_.vectors.scale(query, inverse_norm(query) * query_scale, dk);
    kernels_.vectors.scale(key, inverse_norm(key), dk);

    const float* gates = beta_and_decay_.row(token);
    const float decay_input = gates[config_.linear_value_heads + head] + weights.dt_bias[at];
    const GdnTokenInput input{
        query,
        key,
        space.gdn_value.data(),
        kernels_.vectors.dot(key, query, dk),
        sigmoid(gates[head]),
        -static_cast<float>(static_cast<double>(weights.decay_rate[at]) * softplus(static_cast<double>(decay_input)))};
    state.recurrence.step(kernels_, head, token, input, space.gdn, space.gdn_output.data());
    kernels_.vectors.gated_rms_norm(space.gdn_output.data(), weights.norm.data(), z_.row(token) + head * dv, dv,
                                    config_.rms_norm_eps, mixed_gdn_.row(token) + head * dv);
  }
}

}  // namespace tare::engine
