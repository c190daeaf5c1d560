// Random checkpoints of any shape of the family, made on demand and never on disk:
//   synthetic:0.8b?seed=1                            a size of the family: 0.8b, 2b, 4b, 9b, 27b
//   synthetic:hidden=256,layers=8,vocab=4096?seed=3  explicit sizes; those not given are 0.8b's
//   synthetic:27b,layers=8?seed=3                    a size of the family with some sizes changed
// Keys: hidden, intermediate, layers, interval, vocab, heads, kv_heads, head_dim, rotary, linear_key_heads,
// linear_value_heads, linear_key_head_dim, linear_value_head_dim, conv_kernel, mtp_layers, positions, tied (0 or 1).
//
// Every weight is BF16 and a pure function of (seed, canonical tensor name, element index), so that other backends can
// make it where it lives:
//   block  = Philox4x32-10, key = seed (low word, high word), counter = (e / 8 as 64 bits, XXH3-64 of the name as 64
//   bits) u      = 16 bits of it: word (e % 8) / 2, its low half when e is even, its high half when e is odd w      =
//   BF16 (round to nearest even) of the float of the double  value(role, u), with x = (2u - 65535) / 65536 in (-1, 1)
//     projection                 x sqrt(3 / columns)                      standard deviation 1 / sqrt(columns)
//     projection into residual   x sqrt(3 / columns) / sqrt(2 layers)     so that the residual stream stays near 1
//     embedding, head            x sqrt(3 / columns) 2                    logits of standard deviation 2
//     convolution                x / sqrt(kernel)                         PyTorch's initialisation of Conv1d
//     norm (gain 1 + w)          x 0.1
//     norm (gain w)              1 + x 0.1
//     A_log                      log(16 (u + 0.5) / 65536)                A uniform in (0, 16), as the model
//     initialises it dt_bias                    dt + log(1 - exp(-dt)), dt = 0.001 * 100^((u + 0.5) / 65536)
//                                softplus(dt_bias) log-uniform in 0.001 to 0.1: Gated DeltaNet's initialisation
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/tensor_plan.h"

namespace tare::engine {

[[nodiscard]] bool is_synthetic(std::string_view model);

// What a maker of the same bits needs to know of a tensor.
struct SyntheticRecipe {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  // XXH3-64 of the name
  TensorRole role = TensorRole::kProjection;
  double scale = 0;  // factor of x in the table above, rounded to float; not of A_log and dt_bias
};
// One element as BF16 bits: the definition, an element at a time.
[[nodiscard]] std::uint16_t synthetic_weight(const SyntheticRecipe& recipe, std::uint64_t element);

// A tensor source whose tensors can be made elsewhere, element by element.
class SyntheticRecipes {
 public:
  virtual ~SyntheticRecipes() = default;
  // Throws Error (input) when there is no such tensor.
  [[nodiscard]] virtual SyntheticRecipe recipe(const std::string& name) const = 0;
};

// The recipe of a planned tensor of a model (or drafter) of `layers` layers: `stream_name` is what its stream is the
// hash of.
[[nodiscard]] SyntheticRecipe make_recipe(std::uint64_t seed, const std::string& stream_name,
                                          const PlannedTensor& tensor, std::int64_t layers);
// The whole tensor, made on the calling thread.
[[nodiscard]] Tensor make_synthetic_tensor(const PlannedTensor& tensor, const SyntheticRecipe& recipe);

class SyntheticCheckpoint final : public Checkpoint, public SyntheticRecipes {
 public:
  // Throws Error (input) for an unknown size, an unknown or wrong key, a missing seed.
  explicit SyntheticCheckpoint(const std::string& model);

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] std::string digest() const override;
  [[nodiscard]] bool has(const std::string& name) const override { return planned_.contains(name); }
  // Makes the tensor anew at every call, on the calling thread.
  [[nodiscard]] Tensor tensor(const std::string& name) const override;
  [[nodiscard]] std::vector<std::string> names() const override;
  [[nodiscard]] std::vector<std::int64_t> shape(const std::string& name) const override { return planned(name).shape; }
  [[nodiscard]] SyntheticRecipe recipe(const std::string& name) const override;
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  [[nodiscard]] const PlannedTensor& planned(const std::string& name) const;

  std::string model_;
  std::uint64_t seed_ = 0;
  ModelConfig config_;
  std::vector<PlannedTensor> plan_;
  std::map<std::string, std::size_t> planned_;  // name -> index in plan_
};

}  // namespace tare::engine
