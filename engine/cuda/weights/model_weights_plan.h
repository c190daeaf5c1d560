// Which tensors lie stacked in which matrix on the device, in which format, and how much room they need.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/options.h"
#include "engine/checkpoint/model_config.h"
#include "engine/formats/weight_format.h"

namespace tare::engine {

// Matrices of one input, rows of the first tensor over those of the next; or of two tensors in turn.
struct StackedMatrix {
  struct Part {
    std::string name;
    std::int64_t rows = 0;  // of the tensor
  };
  std::vector<Part> parts;
  std::int64_t columns = 0;
  WeightCodec codec;
  std::vector<std::int32_t> chosen;  // not empty: these rows of the only part, rising, in place of all
  bool alternating = false;          // gate over up, in the order of product/gate_up_rows.h

  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::vector<std::string> names() const;
};

// gate_proj and up_proj, `size` rows each.
[[nodiscard]] StackedMatrix gate_and_up(const std::string& gate, const std::string& up, std::int64_t size,
                                        std::int64_t columns, WeightCodec codec);

// Device memory through which the rows of these matrices pass on their way, as BF16 or FP32: room for a row block of
// each in FP32, more where a matrix has more, up to a limit.
[[nodiscard]] std::uint64_t staging_bytes(std::span<const StackedMatrix> matrices);

// Of a model's shape and the formats that the options choose. Embedding and gates are plain BF16 rows, the others
// tiles.
class WeightPlan {
 public:
  WeightPlan(const ModelConfig& config, const EngineOptions& options) : config_(config), options_(options) {}

  [[nodiscard]] StackedMatrix embedding() const;
  [[nodiscard]] StackedMatrix gdn_input(std::int64_t layer) const;  // in_proj_qkv over in_proj_z
  [[nodiscard]] StackedMatrix gdn_gates(std::int64_t layer) const;  // in_proj_b over in_proj_a
  [[nodiscard]] StackedMatrix gdn_output(std::int64_t layer) const;
  [[nodiscard]] StackedMatrix attention_input(std::int64_t layer) const;  // q_proj over k_proj over v_proj
  [[nodiscard]] StackedMatrix attention_output(std::int64_t layer) const;
  [[nodiscard]] StackedMatrix mlp_input(std::int64_t layer) const;  // gate_proj and up_proj in turn
  [[nodiscard]] StackedMatrix mlp_output(std::int64_t layer) const;
  [[nodiscard]] StackedMatrix head() const;    // the embedding again when they are tied
  [[nodiscard]] StackedMatrix screen() const;  // the head's rows in the format of head.screen

  [[nodiscard]] std::uint64_t staging_bytes() const;  // of all its matrices

 private:
  const ModelConfig& config_;
  const EngineOptions& options_;
};

}  // namespace tare::engine
