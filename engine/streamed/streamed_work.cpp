#include "engine/streamed/streamed_work.h"

namespace tare::engine {
namespace {

constexpr double kFlopsAWeight = 2;
constexpr double kFlopsAStateElement = 7;  // decay 1, prediction 2, update 2, output 2
constexpr double kFlopsAScore = 4;         // a dimension of a score, and of the value that it weighs

double product(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

}  // namespace

double layer_flops(const ModelConfig& config, std::int64_t layer, std::int64_t window_tokens) {
  const double hidden = static_cast<double>(config.hidden_size);
  const double tokens = static_cast<double>(window_tokens);
  const double mlp = 3 * product(config.intermediate_size, config.hidden_size);
  if (config.layers[static_cast<std::size_t>(layer)] == LayerKind::kFullAttention) {
    const double weights = static_cast<double>(3 * config.query_channels() + 2 * config.key_value_channels()) * hidden;
    const double seen = tokens * (tokens + 1) / 2;
    return kFlopsAWeight * (mlp + weights) * tokens +
           kFlopsAScore * static_cast<double>(config.query_channels()) * seen;
  }
  const double rows =
      static_cast<double>(config.conv_channels() + 2 * config.linear_value_channels() + 2 * config.linear_value_heads);
  const double convolution = product(config.conv_channels(), config.conv_kernel);
  const double state = product(config.linear_key_head_dim, config.linear_value_channels());
  return (kFlopsAWeight * (mlp + rows * hidden + convolution) + kFlopsAStateElement * state) * tokens;
}

double head_flops(const ModelConfig& config, std::int64_t window_tokens) {
  return kFlopsAWeight * product(config.vocab_size, config.hidden_size) * static_cast<double>(window_tokens);
}

double reference_flops(const ModelConfig& config, std::int64_t windows, std::int64_t window_tokens) {
  double flops = head_flops(config, window_tokens);
  for (std::int64_t layer = 0; layer < config.layer_count(); ++layer)
    flops += layer_flops(config, layer, window_tokens);
  return flops * static_cast<double>(windows);
}

}  // namespace tare::engine
