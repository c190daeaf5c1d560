// The text model in double precision, token by token, from the model specification alone: no chunks, no packing, no
// kernels. Weights may be replaced on the way in (for example by their dequantised values). Slow and plain on purpose.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/cpu/gdn_definition.h"

namespace tare::engine::test {

using Doubles = std::vector<double>;

class ReferenceModel {
 public:
  // `transform(name, rows [n, columns], columns)` changes a matrix in place.
  using Transform = std::function<void(const std::string&, std::vector<float>&, std::size_t columns)>;

  ReferenceModel(const Checkpoint& checkpoint, const Transform& transform) : config_(checkpoint.config()) {
    for (const std::string& name : checkpoint.names()) {
      const Tensor tensor = checkpoint.tensor(name);
      std::vector<float> values = to_floats(tensor);
      if (tensor.shape.size() == 2 && name != "embed_tokens.weight")
        transform(name, values, static_cast<std::size_t>(tensor.shape[1]));
      tensors_[name] = Doubles(values.begin(), values.end());
    }
  }

  // Logits [T][vocab] of a whole sequence.
  std::vector<Doubles> logits(std::span<const std::int32_t> tokens) const {
    std::vector<Doubles> result;
    for (const Doubles& row : streams(tokens)) result.push_back(head(norm(row, "norm.weight")));
    return result;
  }

  // The residual stream [T][hidden] after the last layer, before the final norm.
  std::vector<Doubles> streams(std::span<const std::int32_t> tokens) const {
    std::vector<Doubles> x;
    const auto hidden = static_cast<std::size_t>(config_.hidden_size);
    for (const std::int32_t token : tokens) {
      const double* row = tensors_.at("embed_tokens.weight").data() + static_cast<std::size_t>(token) * hidden;
      x.emplace_back(row, row + hidden);
    }
    for (std::size_t layer = 0; layer < config_.layers.size(); ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      std::vector<Doubles> normed;
      for (const Doubles& row : x) normed.push_back(norm(row, prefix + "input_layernorm.weight"));
      const std::vector<Doubles> mixed = config_.layers[layer] == LayerKind::kLinearAttention
                                             ? linear_attention(normed, prefix + "linear_attn.")
                                             : full_attention(normed, prefix + "self_attn.");
      for (std::size_t t = 0; t < x.size(); ++t) {
        add(x[t], mixed[t]);
        const Doubles h = norm(x[t], prefix + "post_attention_layernorm.weight");
        Doubles gate = product(prefix + "mlp.gate_proj.weight", h);
        const Doubles up = product(prefix + "mlp.up_proj.weight", h);
        for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = silu(gate[i]) * up[i];
        add(x[t], product(prefix + "mlp.down_proj.weight", gate));
      }
    }
    return x;
  }

 protected:
  ModelConfig config_;
  std::map<std::string, Doubles> tensors_;

  static double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
  static double silu(double x) { return x * sigmoid(x); }
  static void add(Doubles& x, const Doubles& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  Doubles product(const std::string& name, const Doubles& x) const {
    const Doubles& matrix = tensors_.at(name);
    Doubles result(matrix.size() / x.size());
    for (std::size_t row = 0; row < result.size(); ++row)
      for (std::size_t i = 0; i < x.size(); ++i) result[row] += matrix[row * x.size() + i] * x[i];
    return result;
  }

  Doubles head(const Doubles& x) const {
    return product(config_.tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight", x);
  }

  double inverse_rms(const Doubles& x) const {
    double squares = 0;
    for (const double value : x) squares += value * value;
    return 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + static_cast<double>(config_.rms_norm_eps));
  }

  // Zero-centred gain.
  Doubles norm(Doubles x, const std::string& name) const {
    const double factor = inverse_rms(x);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= factor * (1.0 + tensors_.at(name)[i]);
    return x;
  }

  static Doubles slice(const Doubles& x, std::int64_t begin, std::int64_t count) {
    return {x.begin() + begin, x.begin() + begin + count};
  }

  std::vector<Doubles> linear_attention(const std::vector<Doubles>& h, const std::string& prefix) const {
    const std::int64_t dk = config_.linear_key_head_dim;
    const std::int64_t dv = config_.linear_value_head_dim;
    const std::int64_t keys = config_.linear_key_channels();
    const std::int64_t heads = config_.linear_value_heads;
    const auto taps = static_cast<std::size_t>(config_.conv_kernel);
    std::vector<Doubles> projected;
    std::vector<Doubles> states(static_cast<std::size_t>(heads), Doubles(static_cast<std::size_t>(dk * dv)));
    std::vector<Doubles> out;
    for (const Doubles& row : h) {
      projected.push_back(product(prefix + "in_proj_qkv.weight", row));
      Doubles y(projected.back().size());
      for (std::size_t c = 0; c < y.size(); ++c) {
        for (std::size_t tap = 0; tap < taps && tap < projected.size(); ++tap)
          y[c] += tensors_.at(prefix + "conv1d.weight")[c * taps + taps - 1 - tap] *
                  projected[projected.size() - 1 - tap][c];
        y[c] = silu(y[c]);
      }
      const Doubles z = product(prefix + "in_proj_z.weight", row);
      const Doubles b = product(prefix + "in_proj_b.weight", row);
      const Doubles a = product(prefix + "in_proj_a.weight", row);
      Doubles mixed;
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto at = static_cast<std::size_t>(head);
        const std::int64_t key_head = head / (heads / config_.linear_key_heads);
        const GdnToken token{
            l2_normalized(slice(y, key_head * dk, dk), 1 / std::sqrt(static_cast<double>(dk))),
            l2_normalized(slice(y, keys + key_head * dk, dk), 1.0), slice(y, 2 * keys + head * dv, dv),
            gdn_gates(b[at], a[at], tensors_.at(prefix + "A_log")[at], tensors_.at(prefix + "dt_bias")[at])};
        const Doubles o = gdn_step(token, states[at]).o;
        const double factor = inverse_rms(o);
        for (std::int64_t i = 0; i < dv; ++i)
          mixed.push_back(o[static_cast<std::size_t>(i)] * factor *
                          tensors_.at(prefix + "norm.weight")[static_cast<std::size_t>(i)] *
                          silu(z[static_cast<std::size_t>(head * dv + i)]));
      }
      out.push_back(product(prefix + "out_proj.weight", mixed));
    }
    return out;
  }

  void rotate(Doubles& x, std::size_t position) const {
    const auto half = static_cast<std::size_t>(config_.rotary_dim / 2);
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(config_.rope_theta, -static_cast<double>(i) / static_cast<double>(half));
      const double first = x[i];
      const double second = x[i + half];
      x[i] = first * std::cos(angle) - second * std::sin(angle);
      x[i + half] = second * std::cos(angle) + first * std::sin(angle);
    }
  }

  std::vector<Doubles> full_attention(const std::vector<Doubles>& h, const std::string& prefix) const {
    const std::int64_t size = config_.head_dim;
    const std::int64_t group = config_.attention_heads / config_.key_value_heads;
    std::vector<std::vector<Doubles>> keys(h.size());
    std::vector<Doubles> values;
    std::vector<Doubles> out;
    for (std::size_t t = 0; t < h.size(); ++t) {
      const Doubles k = product(prefix + "k_proj.weight", h[t]);
      values.push_back(product(prefix + "v_proj.weight", h[t]));
      for (std::int64_t head = 0; head < config_.key_value_heads; ++head) {
        keys[t].push_back(norm(slice(k, head * size, size), prefix + "k_norm.weight"));
        rotate(keys[t].back(), t);
      }
      const Doubles q = product(prefix + "q_proj.weight", h[t]);
      Doubles mixed;
      for (std::int64_t head = 0; head < config_.attention_heads; ++head) {
        const auto shared = static_cast<std::size_t>(head / group);
        Doubles query = norm(slice(q, 2 * head * size, size), prefix + "q_norm.weight");
        rotate(query, t);
        Doubles weights;
        double sum = 0;
        for (std::size_t j = 0; j <= t; ++j) {
          double score = 0;
          for (std::size_t i = 0; i < query.size(); ++i) score += query[i] * keys[j][shared][i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          sum += weights.back();
        }
        for (std::size_t i = 0; i < query.size(); ++i) {
          double value = 0;
          for (std::size_t j = 0; j <= t; ++j) value += weights[j] / sum * values[j][shared * query.size() + i];
          mixed.push_back(value * sigmoid(q[static_cast<std::size_t>((2 * head + 1) * size) + i]));
        }
      }
      out.push_back(product(prefix + "o_proj.weight", mixed));
    }
    return out;
  }
};

}  // namespace tare::engine::test
