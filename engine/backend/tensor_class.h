// Which tensors a weight format may be chosen for, by name: the one place that says so. Whatever is not named here is
// never quantised: the embedding as it is looked up, norms, the convolution, the a and b projections, A_log and
// dt_bias.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend/options.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

struct ClassedTensor {
  TensorClass tensors = TensorClass::kMlp;
  std::int64_t layer = 0;  // of the head: layer_count()
};
// Of a canonical name (checkpoint.h); null: never quantised. With tied embeddings embed_tokens is the head.
[[nodiscard]] std::optional<ClassedTensor> class_of_tensor(const std::string& name, const ModelConfig& config);

// What the options say of the tensor: bf16 for those that are never quantised.
[[nodiscard]] WeightCodec codec_of_tensor(const EngineOptions& options, const ModelConfig& config,
                                          const std::string& name);

// The modules ("in_proj_a", "input_layernorm", "A_log") of a model's tensors that are never quantised, each once, in
// the order of the forward pass.
[[nodiscard]] std::vector<std::string> excluded_modules(const ModelConfig& config);

// The options with weights as the checkpoint stores them, where it is quantised. Throws Error (input): the options ask
// for other weights (bf16, the default, asks for nothing), a tensor that is stored otherwise than the checkpoint's own
// options say, or whose module is excluded; another list of excluded modules.
[[nodiscard]] EngineOptions with_stored_weights(EngineOptions options, const Checkpoint& checkpoint);

}  // namespace tare::engine
