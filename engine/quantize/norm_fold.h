// A checkpoint whose layer norms are folded into the projections that read them: W' = W diag(1 + w), w' = 0, since the
// gain of a stored w is 1 + w (docs/method/model.md). The model computes the same function; what changes is what a
// quantiser sees, columns that differ by the norm's gains.
//
// Folded: input_layernorm into q, k, v, or in_proj_qkv, z, b, a; post_attention_layernorm into gate and up. Not folded:
// the final norm, whose output drafters read; norms of heads (q_norm, k_norm, GDN's own), which are not followed by a
// projection alone; those of the MTP head. Folded matrices are F32: the products are not rounded here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

class NormFoldedCheckpoint final : public Checkpoint {
 public:
  // `checkpoint` outlives this and is not quantised.
  explicit NormFoldedCheckpoint(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  [[nodiscard]] const ModelConfig& config() const override { return checkpoint_.config(); }
  // Of the checkpoint it was made from, marked.
  [[nodiscard]] std::string digest() const override;
  [[nodiscard]] std::filesystem::path directory() const override { return checkpoint_.directory(); }
  [[nodiscard]] bool has(const std::string& name) const override { return checkpoint_.has(name); }
  [[nodiscard]] std::vector<std::string> names() const override { return checkpoint_.names(); }
  [[nodiscard]] std::vector<std::int64_t> shape(const std::string& name) const override {
    return checkpoint_.shape(name);
  }
  [[nodiscard]] Tensor tensor(const std::string& name) const override;

 private:
  const Checkpoint& checkpoint_;
};

// The norm whose gain is folded into the tensor of this name; empty: none.
[[nodiscard]] std::string folded_norm_of(const std::string& name);

}  // namespace tare::engine
