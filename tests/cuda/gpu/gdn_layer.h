// A GDN layer for tests: random weights and inputs, the kernels' launches with poisoned outputs, and the same layer in
// double precision from engine/cpu/gdn_definition.h, written for reading.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/backend/token_tree.h"
#include "engine/cpu/gdn_definition.h"
#include "engine/cuda/gdn/gdn_pass.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/state_codec.h"
#include "tests/cuda/gpu/gpu_test.h"

namespace tare::engine::test {

// One token's products: [q | k | v | z] and [b | a].
struct GdnInput {
  std::vector<float> qkvz;
  std::vector<float> gates;
};
using GdnInputs = std::vector<GdnInput>;
// Rows of value_heads * dv, one a token.
using GdnOutputs = std::vector<std::vector<float>>;

struct GdnLayerSettings {
  CudaGdnShape shape{.key_heads = 2, .value_heads = 6, .dk = 128, .dv = 128, .taps = 4, .eps = 1e-6F};
  GdnForm form = GdnForm::kRecurrent;
  StateFormat state = StateFormat::kFP32;
  CacheFormat columns = CacheFormat::kFP32;
  bool snapshots = false;
  int slices = 0;           // 0: the device's
  double decay_rate = 0.5;  // mean
};

struct GdnHostWeights {
  std::vector<float> convolution, decay_rate, dt_bias, norm;
  GdnHostWeights(const CudaGdnShape& shape, double mean_decay_rate, std::uint64_t seed) {
    Philox random(seed, 1);
    for (int i = 0; i < shape.channels() * shape.taps; ++i) convolution.push_back(static_cast<float>(random.normal()));
    for (int i = 0; i < shape.value_heads; ++i) {
      decay_rate.push_back(static_cast<float>(mean_decay_rate * std::exp(random.normal())));
      dt_bias.push_back(static_cast<float>(random.normal()));
    }
    for (int i = 0; i < shape.dv; ++i) norm.push_back(static_cast<float>(1 + 0.2 * random.normal()));
  }
};

inline GdnInput random_input(const CudaGdnShape& shape, std::uint64_t seed, std::uint64_t token) {
  Philox random(seed, 1000 + token);
  GdnInput input;
  const int rows = shape.channels() + shape.value_heads * shape.dv;
  for (int i = 0; i < rows; ++i) input.qkvz.push_back(static_cast<float>(random.normal()));
  for (int i = 0; i < 2 * shape.value_heads; ++i) input.gates.push_back(static_cast<float>(2 * random.normal()));
  return input;
}
inline GdnInputs random_inputs(const CudaGdnShape& shape, std::uint64_t seed, int tokens) {
  GdnInputs inputs;
  for (int token = 0; token < tokens; ++token) {
    inputs.push_back(random_input(shape, seed, static_cast<std::uint64_t>(token)));
  }
  return inputs;
}

// The layer in double precision. A copy is a snapshot.
class GdnOracle {
 public:
  GdnOracle(const GdnLayerSettings& settings, const GdnHostWeights& weights) : settings_(settings), weights_(&weights) {
    const CudaGdnShape& shape = settings.shape;
    past_.assign(3, std::vector<double>(static_cast<std::size_t>(shape.channels())));
    state_.assign(static_cast<std::size_t>(shape.value_heads),
                  std::vector<double>(static_cast<std::size_t>(shape.dk * shape.dv)));
  }
  std::vector<double> step(const GdnInput& input) {
    const CudaGdnShape& shape = settings_.shape;
    std::vector<double> y;
    for (int channel = 0; channel < shape.channels(); ++channel) {
      const float* taps = weights_->convolution.data() + channel * 4;
      const auto at = static_cast<std::size_t>(channel);
      const double sum =
          taps[0] * past_[0][at] + taps[1] * past_[1][at] + taps[2] * past_[2][at] + taps[3] * input.qkvz[at];
      y.push_back(sum / (1 + std::exp(-sum)));
    }
    past_.erase(past_.begin());
    past_.emplace_back();
    for (int channel = 0; channel < shape.channels(); ++channel) {
      const float own = input.qkvz[static_cast<std::size_t>(channel)];
      past_.back().push_back(settings_.columns == CacheFormat::kBF16 ? round_to_bfloat16(own) : own);
    }
    std::vector<double> outputs;
    for (int head = 0; head < shape.value_heads; ++head) {
      const int key_head = head / (shape.value_heads / shape.key_heads);
      const double* q = y.data() + key_head * shape.dk;
      const double* k = y.data() + (shape.key_heads + key_head) * shape.dk;
      const double* v = y.data() + 2 * shape.key_heads * shape.dk + head * shape.dv;
      const auto at = static_cast<std::size_t>(head);
      GdnToken token;
      token.query = l2_normalized({q, q + shape.dk}, 1 / std::sqrt(static_cast<double>(shape.dk)));
      token.key = l2_normalized({k, k + shape.dk}, 1);
      token.value.assign(v, v + shape.dv);
      token.gates = gdn_gates(input.gates[at], input.gates[static_cast<std::size_t>(shape.value_heads) + at],
                              std::log(static_cast<double>(weights_->decay_rate[at])), weights_->dt_bias[at]);
      const std::vector<double> o = gdn_step(token, state_[at]).o;
      double squares = 0;
      for (const double value : o) squares += value * value;
      const double factor = 1 / std::sqrt(squares / shape.dv + settings_.shape.eps);
      for (int j = 0; j < shape.dv; ++j) {
        const double z = input.qkvz[static_cast<std::size_t>(shape.channels() + head * shape.dv + j)];
        outputs.push_back(o[static_cast<std::size_t>(j)] * factor * weights_->norm[static_cast<std::size_t>(j)] * z /
                          (1 + std::exp(-z)));
      }
    }
    return outputs;
  }
  // What the layer does with a state when it stores it, after a committed path or a prefill. Of INT8 only: the others'
  // rounding is within the tests' bounds.
  void store() {
    if (settings_.state != StateFormat::kInt8) return;
    for (std::vector<double>& head : state_) {
      std::vector<float> rounded(head.begin(), head.end());
      round_state(settings_.state, rounded, settings_.shape.dv);
      head.assign(rounded.begin(), rounded.end());
    }
  }
  [[nodiscard]] std::vector<double> state() const {
    std::vector<double> all;
    for (const std::vector<double>& head : state_) all.insert(all.end(), head.begin(), head.end());
    return all;
  }

 private:
  GdnLayerSettings settings_;
  const GdnHostWeights* weights_;
  std::vector<std::vector<double>> past_;   // oldest first
  std::vector<std::vector<double>> state_;  // by value head
};

// What was committed of the last verify: its first tokens, or a path of its nodes.
struct Committed {
  std::vector<std::int32_t> path;
  Committed(int count) : path(static_cast<std::size_t>(count)) {  // NOLINT: counts are what most tests commit
    std::iota(path.begin(), path.end(), 0);
  }
  Committed(std::vector<std::int32_t> nodes) : path(std::move(nodes)) {}  // NOLINT
};

// A product of `inputs` as planes: the rows are what adding the planes gives; tokens past the last are NaN.
struct PlanesOfRows {
  ProductResult result;
  DeviceBuffer memory;
};

class GdnLayer {
 public:
  explicit GdnLayer(const GdnLayerSettings& settings_in, std::uint64_t seed = 7)
      : settings(settings_in),
        weights(settings_in.shape, settings_in.decay_rate, seed),
        cache(settings_in.shape, settings_in.state, settings_in.columns, settings_in.snapshots),
        convolution_(on_device(weights.convolution)),
        decay_rate_(on_device(weights.decay_rate)),
        dt_bias_(on_device(weights.dt_bias)),
        norm_(on_device(weights.norm)),
        control_(sizeof(RoundControl), "a test's control") {
    cache.reset(nullptr);
  }

  [[nodiscard]] GdnOracle oracle() const { return {settings, weights}; }
  [[nodiscard]] int columns() const { return settings.shape.value_heads * settings.shape.dv; }

  // A verify of `inputs` after a commit of `pending` of the last one.
  GdnOutputs round(const GdnInputs& inputs, const Committed& pending) {
    half = 1 - half;
    return run(inputs, pending, false);
  }
  // Of a tree with inputs[n] at node n.
  GdnOutputs round(const TokenTree& nodes, const GdnInputs& inputs, const Committed& pending) {
    tree = &nodes;
    GdnOutputs outputs = round(inputs, pending);
    tree = nullptr;
    return outputs;
  }
  GdnOutputs prefill(const GdnInputs& inputs, const Committed& pending) {
    half = 1 - half;
    return run(inputs, pending, true);
  }
  // Of the committed state with `pending` of the verify before half `at`.
  [[nodiscard]] std::vector<float> state(const Committed& pending, int at) const {
    return cache.state(pending.path, at);
  }
  GdnOutputs run(const GdnInputs& inputs, const Committed& pending, bool absorb) {
    const DeviceBuffer qkvz = on_device(rows_of(inputs, false));
    const DeviceBuffer gates = on_device(rows_of(inputs, true));
    return run(rows_result(qkvz, inputs, false), rows_result(gates, inputs, true), static_cast<int>(inputs.size()),
               pending, absorb);
  }
  GdnOutputs run(const ProductResult& qkvz, const ProductResult& gates, int tokens, const Committed& pending,
                 bool absorb) {
    PoisonedBuffer out(operand_bytes(OperandLayout::kFP32Rows, columns(), tokens));
    launch(qkvz, gates, tokens, pending, absorb, {OperandLayout::kFP32Rows, tokens, columns(), 0, out.data()}, {});
    EXPECT_TRUE(out.canaries_intact());
    const std::vector<float> flat = out.read<float>();
    GdnOutputs outputs;
    for (int token = 0; token < tokens; ++token) {
      outputs.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(token) * columns(),
                           flat.begin() + static_cast<std::ptrdiff_t>(token + 1) * columns());
    }
    return outputs;
  }
  void launch(const ProductResult& qkvz, const ProductResult& gates, int tokens, const Committed& pending, bool absorb,
              const Operand& out, const L2Fill& fill) {
    RoundControl control;
    control.set_path(pending.path);
    control.half = half;
    if (tree != nullptr) control.set_tree(*tree);
    copy_to_device(control_, std::span<const RoundControl>(&control, 1));
    GdnPass pass{
        .shape = settings.shape,
        .weights = {convolution_.as<float>(), decay_rate_.as<float>(), dt_bias_.as<float>(), norm_.as<float>()},
        .memory = gdn_memory(cache),
        .qkvz = qkvz,
        .gates = gates};
    pass.tokens = tokens;
    pass.control = control_.as<RoundControl>();
    pass.out = out;
    pass.fill = fill;
    pass.absorb = absorb;
    pass.tree = !absorb && (tree != nullptr || cache.keeps_snapshots);
    const int slices = settings.slices == 0 ? gdn_slices_of_device() : settings.slices;
    launch_gdn_pass("gdn_test", settings.form, slices, pass, {});
    synchronize();
  }
  [[nodiscard]] static std::vector<float> rows_of(const GdnInputs& inputs, bool gates) {
    std::vector<float> rows;
    for (const GdnInput& input : inputs) {
      const std::vector<float>& row = gates ? input.gates : input.qkvz;
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return rows;
  }
  [[nodiscard]] static ProductResult rows_result(const DeviceBuffer& rows, const GdnInputs& inputs, bool gates) {
    ProductResult result;
    result.data = rows.as<float>();
    result.rows = static_cast<int>(gates ? inputs[0].gates.size() : inputs[0].qkvz.size());
    return result;
  }

  const GdnLayerSettings settings;
  const GdnHostWeights weights;
  CudaGdnCache cache;
  int half = 1;
  const TokenTree* tree = nullptr;  // of the next launches; null: a chain

 private:
  DeviceBuffer convolution_, decay_rate_, dt_bias_, norm_, control_;
};

// Random planes of `width` tokens, as a product of `pairs` unit pairs cut among `blocks` leaves them, and, in the rows
// `part` of `inputs`, what adding them in order gives.
inline PlanesOfRows random_planes(int width, int pairs, int blocks, float factor, GdnInputs& inputs,
                                  std::vector<float> GdnInput::*part) {
  const auto rows = static_cast<int>((inputs[0].*part).size());
  PlanesOfRows planes;
  planes.result.rows = rows;
  planes.result.width = width;
  planes.result.planes = true;
  planes.result.factor = factor;
  planes.result.plan = cut_tiles(rows, 128 * pairs, blocks);
  const std::int64_t stride = plane_floats(planes.result.plan, width);
  std::vector<float> memory(static_cast<std::size_t>(stride * planes.result.plan.most_planes()),
                            std::numeric_limits<float>::quiet_NaN());
  Philox random(99, 5);
  for (std::size_t token = 0; token < inputs.size(); ++token) {
    for (int row = 0; row < rows; ++row) {
      float sum = 0;
      for (int plane = 0; plane < planes.result.plan.planes(row / 256); ++plane) {
        const auto number = static_cast<float>(random.normal());
        memory[static_cast<std::size_t>(plane * stride + plane_place(width, row, static_cast<int>(token)))] = number;
        sum = plane == 0 ? number : sum + number;
      }
      (inputs[token].*part)[static_cast<std::size_t>(row)] = sum * factor;
    }
  }
  planes.memory = on_device(memory);
  planes.result.data = planes.memory.as<float>();
  return planes;
}

inline std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
// Largest relative error over the rows of all tokens.
inline double largest_error(const GdnOutputs& outputs, const std::vector<std::vector<double>>& expected) {
  double largest = 0;
  for (std::size_t token = 0; token < outputs.size(); ++token) {
    const double error = relative_error(widened(outputs[token]), expected[token]);
    if (!(error <= largest)) largest = error;
    if (std::isnan(error)) return error;
  }
  return largest;
}
// The first element that differs in bits, for messages; empty when none does.
inline std::string first_difference(const GdnOutputs& a, const GdnOutputs& b) {
  for (std::size_t token = 0; token < std::min(a.size(), b.size()); ++token) {
    for (std::size_t column = 0; column < a[token].size(); ++column) {
      if (std::bit_cast<std::uint32_t>(a[token][column]) != std::bit_cast<std::uint32_t>(b[token][column])) {
        return "token " + std::to_string(token) + " column " + std::to_string(column) + ": " +
               std::to_string(a[token][column]) + " and " + std::to_string(b[token][column]);
      }
    }
  }
  return a.size() == b.size() ? "" : "numbers of tokens differ";
}

}  // namespace tare::engine::test
