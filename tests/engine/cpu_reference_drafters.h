// The drafters in double precision, from the model specification alone (sections 6 and 7): whole sequences, no caches,
// no kernels. Slow and plain on purpose.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/speculate/block_drafter_config.h"
#include "tests/engine/cpu_reference_model.h"

namespace tare::engine::test {

// What an MTP head is fed wrongly, for controls.
struct MtpFault {
  bool hidden_first = false;    // [h; e] instead of [e; h]
  std::size_t token_shift = 1;  // row i pairs H_i with token x_{i + shift}
};

class ReferenceMtp : public ReferenceModel {
 public:
  explicit ReferenceMtp(const Checkpoint& checkpoint)
      : ReferenceModel(checkpoint, [](const std::string&, std::vector<float>&, std::size_t) {}) {}

  [[nodiscard]] Doubles final_norm(const Doubles& stream) const { return norm(stream, "norm.weight"); }

  // Outputs m, after mtp.norm, of rows 0 .. n-1: row i has token tokens[i] and hidden[i], and stands at position i.
  std::vector<Doubles> outputs(std::span<const std::int32_t> tokens, const std::vector<Doubles>& hidden,
                               const MtpFault& fault = {}) const {
    const std::string prefix = "mtp.layers.0.";
    const auto size = static_cast<std::size_t>(config_.hidden_size);
    std::vector<Doubles> x;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const double* row = tensors_.at("embed_tokens.weight").data() + static_cast<std::size_t>(tokens[i]) * size;
      Doubles first = norm(Doubles(row, row + size), "mtp.pre_fc_norm_embedding.weight");
      Doubles second = norm(hidden[i], "mtp.pre_fc_norm_hidden.weight");
      if (fault.hidden_first) std::swap(first, second);
      first.insert(first.end(), second.begin(), second.end());
      x.push_back(product("mtp.fc.weight", first));
    }
    std::vector<Doubles> normed;
    for (const Doubles& row : x) normed.push_back(norm(row, prefix + "input_layernorm.weight"));
    const std::vector<Doubles> mixed = full_attention(normed, prefix + "self_attn.");
    for (std::size_t i = 0; i < x.size(); ++i) {
      add(x[i], mixed[i]);
      const Doubles h = norm(x[i], prefix + "post_attention_layernorm.weight");
      Doubles gate = product(prefix + "mlp.gate_proj.weight", h);
      const Doubles up = product(prefix + "mlp.up_proj.weight", h);
      for (std::size_t k = 0; k < gate.size(); ++k) gate[k] = silu(gate[k]) * up[k];
      add(x[i], product(prefix + "mlp.down_proj.weight", gate));
      x[i] = norm(x[i], "mtp.norm.weight");
    }
    return x;
  }

  [[nodiscard]] Doubles logits_of(const Doubles& output) const { return head(output); }
};

inline Doubles log_softmax(Doubles logits, double temperature = 1) {
  double most = logits.front();
  for (const double value : logits) most = std::max(most, value);
  double sum = 0;
  for (const double value : logits) sum += std::exp((value - most) / temperature);
  for (double& value : logits) value = (value - most) / temperature - std::log(sum);
  return logits;
}

class ReferenceBlockDrafter {
 public:
  ReferenceBlockDrafter(const TensorSource& source, BlockDrafterConfig config) : config_(std::move(config)) {
    for (const std::string& name : source.names()) {
      const std::vector<float> values = to_floats(source.tensor(name));
      tensors_[name] = Doubles(values.begin(), values.end());
    }
  }

  // Rows after the final norm of a block whose rows enter as `block`, behind features [F][taps * hidden].
  std::vector<Doubles> outputs(const std::vector<Doubles>& features, std::vector<Doubles> x) const {
    std::vector<Doubles> context;
    for (const Doubles& row : features) context.push_back(norm(product("fc.weight", row), "hidden_norm.weight"));
    const std::size_t frontier = context.size();
    for (std::size_t i = 0; i < config_.layers.size(); ++i) {
      const std::string prefix = "layers." + std::to_string(i) + ".";
      const std::string attention = prefix + "self_attn.";
      std::vector<Doubles> normed;
      for (const Doubles& row : x) normed.push_back(norm(row, prefix + "input_layernorm.weight"));
      std::vector<Doubles> inputs = context;
      inputs.insert(inputs.end(), normed.begin(), normed.end());
      std::vector<Doubles> keys;
      std::vector<Doubles> values;
      for (std::size_t t = 0; t < inputs.size(); ++t) {
        keys.push_back(heads_normed(product(attention + "k_proj.weight", inputs[t]), attention + "k_norm.weight", t));
        values.push_back(product(attention + "v_proj.weight", inputs[t]));
      }
      for (std::size_t row = 0; row < x.size(); ++row) {
        const Doubles query = heads_normed(product(attention + "q_proj.weight", normed[row]),
                                           attention + "q_norm.weight", frontier + row);
        add(x[row], product(attention + "o_proj.weight",
                            attend(query, keys, values, config_.layers[i], static_cast<std::int64_t>(frontier + row))));
      }
      for (Doubles& row : x) {
        const Doubles h = norm(row, prefix + "post_attention_layernorm.weight");
        Doubles gate = product(prefix + "mlp.gate_proj.weight", h);
        const Doubles up = product(prefix + "mlp.up_proj.weight", h);
        for (std::size_t k = 0; k < gate.size(); ++k) gate[k] = gate[k] / (1 + std::exp(-gate[k])) * up[k];
        add(row, product(prefix + "mlp.down_proj.weight", gate));
      }
    }
    for (Doubles& row : x) row = norm(row, "norm.weight");
    return x;
  }

 private:
  BlockDrafterConfig config_;
  std::map<std::string, Doubles> tensors_;

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
  // Plain gain.
  Doubles norm(Doubles x, const std::string& name) const {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + static_cast<double>(config_.eps));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= factor * tensors_.at(name)[i];
    return x;
  }
  Doubles heads_normed(const Doubles& x, const std::string& gain, std::size_t position) const {
    const auto size = static_cast<std::size_t>(config_.head_dim);
    const std::size_t half = size / 2;
    Doubles result;
    for (std::size_t begin = 0; begin < x.size(); begin += size) {
      const auto at = x.begin() + static_cast<std::ptrdiff_t>(begin);
      const Doubles head = norm(Doubles(at, at + static_cast<std::ptrdiff_t>(size)), gain);
      for (std::size_t i = 0; i < size; ++i) {
        const std::size_t pair = i % half;
        const double angle = static_cast<double>(position) *
                             std::pow(config_.rope_theta, -static_cast<double>(pair) / static_cast<double>(half));
        result.push_back(i < half ? head[pair] * std::cos(angle) - head[pair + half] * std::sin(angle)
                                  : head[pair + half] * std::cos(angle) + head[pair] * std::sin(angle));
      }
    }
    return result;
  }
  Doubles attend(const Doubles& query, const std::vector<Doubles>& keys, const std::vector<Doubles>& values,
                 const DraftLayerMask& mask, std::int64_t position) const {
    const auto size = static_cast<std::size_t>(config_.head_dim);
    const std::size_t group = query.size() / keys.front().size();
    Doubles result;
    for (std::size_t head = 0; head * size < query.size(); ++head) {
      const std::size_t shared = head / group * size;
      Doubles weights;
      double sum = 0;
      for (std::size_t t = 0; t < keys.size(); ++t) {
        const std::int64_t distance = position - static_cast<std::int64_t>(t);
        const bool seen = !(mask.causal && distance < 0) && (mask.window == 0 || std::abs(distance) < mask.window);
        double score = 0;
        for (std::size_t i = 0; i < size; ++i) score += query[head * size + i] * keys[t][shared + i];
        weights.push_back(seen ? std::exp(score / std::sqrt(static_cast<double>(size))) : 0);
        sum += weights.back();
      }
      for (std::size_t i = 0; i < size; ++i) {
        double value = 0;
        for (std::size_t t = 0; t < keys.size(); ++t) value += weights[t] / sum * values[t][shared + i];
        result.push_back(value);
      }
    }
    return result;
  }
};

}  // namespace tare::engine::test
