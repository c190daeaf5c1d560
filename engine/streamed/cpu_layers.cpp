#include "engine/streamed/cpu_layers.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tare::engine {
namespace {

constexpr std::int64_t kQueryBlock = 96;  // queries of one piece of attention
constexpr std::size_t kRowGrain = 16;     // rows of one piece of everything else
constexpr double kL2NormEps = 1e-6;       // added to the sum of squares, inside the root
constexpr double kSoftplusLinear = 20.0;  // softplus(x) = x above, to 2e-9

double sum_of_squares(const float* x, std::int64_t size) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

double rms_factor(const float* x, std::int64_t size, float eps) {
  return 1.0 / std::sqrt(sum_of_squares(x, size) / static_cast<double>(size) + static_cast<double>(eps));
}

// Rounded once.
float product(float x, double factor, float gain) {
  return static_cast<float>(static_cast<double>(x) * factor * static_cast<double>(gain));
}

float sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

float silu(float x) {
  return x * sigmoid(x);
}

struct Widths {
  std::int64_t first, second, third;
};

// What a layer's kinds need of the three arrays: projections, then what becomes of them.
Widths widths_of(const ModelConfig& config) {
  return {std::max({config.conv_channels(), 2 * config.query_channels(), config.intermediate_size}),
          std::max({config.linear_value_channels(), config.query_channels(), config.intermediate_size}),
          std::max(config.conv_channels(), 2 * config.key_value_channels())};
}

std::int64_t padded(std::int64_t count) {
  return (count + kPanelRows - 1) / kPanelRows * kPanelRows;
}

std::size_t numbers(std::int64_t a, std::int64_t b) {
  return static_cast<std::size_t>(a * b);
}

// exp(score - max), zero for positions after the query's; returns their sum.
double exponentials(float* scores, std::int64_t visible, std::int64_t count, float scale) {
  float largest = scores[0];
  for (std::int64_t j = 1; j < visible; ++j) largest = std::max(largest, scores[j]);
  double sum = 0;
  for (std::int64_t j = 0; j < visible; ++j) {
    scores[j] = std::exp((scores[j] - largest) * scale);
    sum += static_cast<double>(scores[j]);
  }
  std::fill(scores + visible, scores + count, 0.0F);
  return sum;
}

}  // namespace

CpuLayers::CpuLayers(const ModelConfig& config, std::int64_t windows, std::int64_t window_tokens, ThreadPool& pool)
    : config_(config), window_tokens_(window_tokens), pool_(pool) {
  const std::int64_t positions = windows * window_tokens;
  const Widths widths = widths_of(config);
  hidden_.resize(numbers(positions, config.hidden_size));
  first_.resize(numbers(positions, widths.first));
  second_.resize(numbers(positions, widths.second));
  third_.resize(numbers(positions, widths.third));
  gates_.resize(numbers(positions, 2 * config.linear_value_heads));
  keys_.resize(numbers(windows, config.key_value_heads));
  values_.resize(keys_.size());
  thread_space_.resize(static_cast<std::size_t>(pool.size()));
  // Frequencies and angles are FP32 products, as transformers computes them; their sine and cosine are exact and
  // rounded once.
  for (std::int64_t position = 0; position < window_tokens; ++position)
    for (std::int64_t i = 0; i < config.rotary_dim; i += 2) {
      const float exponent = static_cast<float>(i) / static_cast<float>(config.rotary_dim);
      const float frequency = 1.0F / static_cast<float>(std::pow(config.rope_theta, static_cast<double>(exponent)));
      const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
      cosines_.push_back(static_cast<float>(std::cos(angle)));
      sines_.push_back(static_cast<float>(std::sin(angle)));
    }
}

std::uint64_t CpuLayers::work_bytes(const ModelConfig& config, std::int64_t windows, std::int64_t window_tokens,
                                    int threads) {
  const Widths widths = widths_of(config);
  const std::int64_t positions = windows * window_tokens;
  const std::int64_t a_position = config.hidden_size + widths.first + widths.second + widths.third +
                                  2 * config.linear_value_heads + 2 * config.key_value_channels();
  const std::int64_t a_thread = std::max(kQueryBlock * padded(window_tokens), config.linear_key_head_dim * kPanelRows);
  return sizeof(float) *
         static_cast<std::uint64_t>(positions * a_position + threads * a_thread + window_tokens * config.rotary_dim);
}

template <class Body>
void CpuLayers::for_rows(std::int64_t count, const Body& body) {
  pool_.parallel_for(static_cast<std::size_t>(count), kRowGrain, [&](int, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(static_cast<std::int64_t>(row));
  });
}

void CpuLayers::norm(const float* x, std::span<const float> gain, std::int64_t rows, std::int64_t size, float* out) {
  for_rows(rows, [&](std::int64_t row) {
    const float* source = x + row * size;
    const double factor = rms_factor(source, size, config_.rms_norm_eps);
    for (std::int64_t i = 0; i < size; ++i)
      out[row * size + i] = product(source[i], factor, gain[static_cast<std::size_t>(i)]);
  });
}

void CpuLayers::run(const StreamedLayerWeights& weights, std::int64_t windows, float* x) {
  const std::int64_t positions = windows * window_tokens_;
  norm(x, weights.input_gain, positions, config_.hidden_size, hidden_.data());
  if (weights.kind == LayerKind::kLinearAttention)
    run_gdn(weights.gdn, windows, x);
  else
    run_attention(weights.attention, windows, x);
  norm(x, weights.mlp_gain, positions, config_.hidden_size, hidden_.data());
  run_mlp(weights, positions, x);
}

void CpuLayers::run_gdn(const StreamedGdnWeights& weights, std::int64_t windows, float* x) {
  const std::int64_t positions = windows * window_tokens_;
  const std::int64_t channels = config_.conv_channels();
  const std::int64_t value_channels = config_.linear_value_channels();
  const std::int64_t heads = config_.linear_value_heads;
  const RowsIn hidden{hidden_.data(), config_.hidden_size};
  float* alphas = gates_.data();
  float* betas = gates_.data() + positions * heads;
  multiply(pool_, hidden, positions, weights.qkv, {first_.data(), channels});
  multiply(pool_, hidden, positions, weights.z, {second_.data(), value_channels});
  multiply(pool_, hidden, positions, weights.a, {alphas, heads});
  multiply(pool_, hidden, positions, weights.b, {betas, heads});
  for_rows(positions, [&](std::int64_t row) {
    convolve(weights, row);
    normalize_keys(row);
    make_gates(weights, alphas + row * heads, betas + row * heads);
  });
  recur(windows, alphas, betas);
  for_rows(positions, [&](std::int64_t row) { gate_values(weights, row); });
  multiply(pool_, {first_.data(), value_channels}, positions, weights.out, {x, config_.hidden_size},
           ProductTarget::kAdd);
}

// From the projections in first_ to third_.
void CpuLayers::convolve(const StreamedGdnWeights& weights, std::int64_t row) {
  const std::int64_t channels = config_.conv_channels();
  const std::int64_t taps = config_.conv_kernel;
  float* y = third_.data() + row * channels;
  const std::int64_t position = row % window_tokens_;
  std::fill(y, y + channels, 0.0F);
  for (std::int64_t tap = std::max<std::int64_t>(0, taps - 1 - position); tap < taps; ++tap) {
    const float* source = first_.data() + (row - (taps - 1 - tap)) * channels;
    for (std::int64_t c = 0; c < channels; ++c)
      y[c] += weights.convolution[static_cast<std::size_t>(c * taps + tap)] * source[c];
  }
  for (std::int64_t c = 0; c < channels; ++c) y[c] = silu(y[c]);
}

// Queries, then keys, in third_.
void CpuLayers::normalize_keys(std::int64_t row) {
  const std::int64_t key_dim = config_.linear_key_head_dim;
  for (std::int64_t head = 0; head < 2 * config_.linear_key_heads; ++head) {
    float* vector = third_.data() + row * config_.conv_channels() + head * key_dim;
    const double scale = head < config_.linear_key_heads ? 1.0 / std::sqrt(static_cast<double>(key_dim)) : 1.0;
    const double factor = scale / std::sqrt(sum_of_squares(vector, key_dim) + kL2NormEps);
    for (std::int64_t i = 0; i < key_dim; ++i) vector[i] = product(vector[i], factor, 1.0F);
  }
}

void CpuLayers::make_gates(const StreamedGdnWeights& weights, float* alphas, float* betas) const {
  for (std::int64_t head = 0; head < config_.linear_value_heads; ++head) {
    const auto at = static_cast<std::size_t>(head);
    const double a = static_cast<double>(alphas[head]) + static_cast<double>(weights.dt_bias[at]);
    const double softplus = a > kSoftplusLinear ? a : std::log1p(std::exp(a));
    alphas[head] = static_cast<float>(std::exp(-std::exp(static_cast<double>(weights.a_log[at])) * softplus));
    betas[head] = sigmoid(betas[head]);
  }
}

// From third_ to first_, whose projections are not needed any more.
void CpuLayers::recur(std::int64_t windows, const float* alphas, const float* betas) {
  const std::int64_t channels = config_.conv_channels();
  const std::int64_t value_channels = config_.linear_value_channels();
  const std::int64_t heads = config_.linear_value_heads;
  const std::int64_t key_dim = config_.linear_key_head_dim;
  const std::int64_t value_dim = config_.linear_value_head_dim;
  const std::int64_t group = heads / config_.linear_key_heads;
  pool_.parallel_for(static_cast<std::size_t>(windows * heads), 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (std::size_t piece = begin; piece < end; ++piece) {
      const std::int64_t head = static_cast<std::int64_t>(piece) % heads;
      const std::int64_t row = static_cast<std::int64_t>(piece) / heads * window_tokens_;
      const float* y = third_.data() + row * channels;
      run_recurrence({.tokens = window_tokens_,
                      .key_dim = key_dim,
                      .value_dim = value_dim,
                      .query = {y + head / group * key_dim, channels},
                      .key = {y + config_.linear_key_channels() + head / group * key_dim, channels},
                      .value = {y + 2 * config_.linear_key_channels() + head * value_dim, channels},
                      .alpha = alphas + row * heads + head,
                      .beta = betas + row * heads + head,
                      .gate_stride = heads,
                      .out = {first_.data() + row * value_channels + head * value_dim, value_channels}},
                     thread_space_[static_cast<std::size_t>(thread)]);
    }
  });
}

void CpuLayers::gate_values(const StreamedGdnWeights& weights, std::int64_t row) {
  const std::int64_t value_dim = config_.linear_value_head_dim;
  for (std::int64_t head = 0; head < config_.linear_value_heads; ++head) {
    const std::int64_t begin = row * config_.linear_value_channels() + head * value_dim;
    float* o = first_.data() + begin;
    const float* z = second_.data() + begin;
    const double factor = rms_factor(o, value_dim, config_.rms_norm_eps);
    for (std::int64_t i = 0; i < value_dim; ++i)
      o[i] = product(o[i], factor, weights.norm[static_cast<std::size_t>(i)]) * silu(z[i]);
  }
}

void CpuLayers::rotate(float* row, std::int64_t position) const {
  const std::int64_t half = config_.rotary_dim / 2;
  const float* cosines = cosines_.data() + position * half;
  const float* sines = sines_.data() + position * half;
  for (std::int64_t i = 0; i < half; ++i) {
    const float first = row[i];
    const float second = row[i + half];
    row[i] = first * cosines[i] - second * sines[i];
    row[i + half] = second * cosines[i] + first * sines[i];
  }
}

void CpuLayers::run_attention(const StreamedAttentionWeights& weights, std::int64_t windows, float* x) {
  const std::int64_t positions = windows * window_tokens_;
  const std::int64_t dim = config_.head_dim;
  const std::int64_t query_width = 2 * config_.query_channels();
  const std::int64_t key_width = config_.key_value_channels();
  const RowsIn hidden{hidden_.data(), config_.hidden_size};
  float* keys = third_.data();
  multiply(pool_, hidden, positions, weights.query, {first_.data(), query_width});
  multiply(pool_, hidden, positions, weights.key, {keys, key_width});
  multiply(pool_, hidden, positions, weights.value, {keys + positions * key_width, key_width});
  for_rows(positions, [&](std::int64_t row) {
    const auto prepare = [&](float* vector, const std::vector<float>& gain) {
      const double factor = rms_factor(vector, dim, config_.rms_norm_eps);
      for (std::int64_t i = 0; i < dim; ++i) vector[i] = product(vector[i], factor, gain[static_cast<std::size_t>(i)]);
      rotate(vector, row % window_tokens_);
    };
    for (std::int64_t head = 0; head < config_.attention_heads; ++head)
      prepare(first_.data() + row * query_width + head * 2 * dim, weights.query_gain);
    for (std::int64_t head = 0; head < config_.key_value_heads; ++head)
      prepare(keys + row * key_width + head * dim, weights.key_gain);
  });
  pack_keys_and_values(windows);
  const std::int64_t heads = config_.attention_heads;
  const std::int64_t blocks = (window_tokens_ + kQueryBlock - 1) / kQueryBlock;
  pool_.parallel_for(
      static_cast<std::size_t>(windows * heads * blocks), 1, [&](int thread, std::size_t begin, std::size_t end) {
        for (std::size_t piece = begin; piece < end; ++piece) {
          const auto at = static_cast<std::int64_t>(piece);
          const std::int64_t first = at % blocks * kQueryBlock;
          attend(at / blocks / heads, at / blocks % heads, first, std::min(kQueryBlock, window_tokens_ - first),
                 thread_space_[static_cast<std::size_t>(thread)]);
        }
      });
  multiply(pool_, {second_.data(), config_.query_channels()}, positions, weights.out, {x, config_.hidden_size},
           ProductTarget::kAdd);
}

void CpuLayers::pack_keys_and_values(std::int64_t windows) {
  const std::int64_t dim = config_.head_dim;
  const std::int64_t width = config_.key_value_channels();
  const std::int64_t heads = config_.key_value_heads;
  pool_.parallel_for(static_cast<std::size_t>(windows * heads), 1, [&](int, std::size_t begin, std::size_t end) {
    for (std::size_t piece = begin; piece < end; ++piece) {
      const std::int64_t row = static_cast<std::int64_t>(piece) / heads * window_tokens_;
      const float* key = third_.data() + row * width + static_cast<std::int64_t>(piece) % heads * dim;
      const float* value = key + windows * window_tokens_ * width;
      PackedMatrix& keys = keys_[piece];
      keys.resize(window_tokens_, dim);
      for (std::int64_t panel = 0; panel < keys.panel_count(); ++panel)
        keys.fill_panel(panel, key + panel * kPanelRows * width, width, 1);
      PackedMatrix& values = values_[piece];
      values.resize(dim, window_tokens_);
      for (std::int64_t panel = 0; panel < values.panel_count(); ++panel)
        values.fill_panel(panel, value + panel * kPanelRows, 1, width);
    }
  });
}

void CpuLayers::attend(std::int64_t window, std::int64_t head, std::int64_t first_query, std::int64_t count,
                       std::vector<float>& scores) {
  const std::int64_t dim = config_.head_dim;
  const std::int64_t query_width = 2 * config_.query_channels();
  const std::int64_t out_width = config_.query_channels();
  const std::int64_t group = config_.attention_heads / config_.key_value_heads;
  const auto pair = static_cast<std::size_t>(window * config_.key_value_heads + head / group);
  const std::int64_t row = window * window_tokens_ + first_query;
  const float* query = first_.data() + row * query_width + head * 2 * dim;
  const std::int64_t seen = first_query + count;  // by the last query
  const std::int64_t stride = padded(window_tokens_);
  scores.resize(std::max(scores.size(), numbers(count, stride)));
  multiply_range({query, query_width}, keys_[pair], {scores.data(), stride},
                 {.count = count,
                  .first_panel = 0,
                  .last_panel = (seen + kPanelRows - 1) / kPanelRows,
                  .row_limit = seen,
                  .columns = dim},
                 ProductTarget::kReplace);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  std::array<double, kQueryBlock> sums{};
  for (std::int64_t i = 0; i < count; ++i)
    sums[static_cast<std::size_t>(i)] = exponentials(scores.data() + i * stride, first_query + i + 1, seen, scale);
  float* out = second_.data() + row * out_width + head * dim;
  const PackedMatrix& values = values_[pair];
  multiply_range(
      {scores.data(), stride}, values, {out, out_width},
      {.count = count, .first_panel = 0, .last_panel = values.panel_count(), .row_limit = dim, .columns = seen},
      ProductTarget::kReplace);
  for (std::int64_t i = 0; i < count; ++i) {
    const float* gate = query + i * query_width + dim;
    for (std::int64_t j = 0; j < dim; ++j)
      out[i * out_width + j] =
          product(out[i * out_width + j], 1.0 / sums[static_cast<std::size_t>(i)], sigmoid(gate[j]));
  }
}

void CpuLayers::run_mlp(const StreamedLayerWeights& weights, std::int64_t positions, float* x) {
  const std::int64_t width = config_.intermediate_size;
  const RowsIn hidden{hidden_.data(), config_.hidden_size};
  multiply(pool_, hidden, positions, weights.gate, {first_.data(), width});
  multiply(pool_, hidden, positions, weights.up, {second_.data(), width});
  for_rows(positions, [&](std::int64_t row) {
    for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
      const auto at = static_cast<std::size_t>(i);
      first_[at] = silu(first_[at]) * second_[at];
    }
  });
  multiply(pool_, {first_.data(), width}, positions, weights.down, {x, config_.hidden_size}, ProductTarget::kAdd);
}

}  // namespace tare::engine
