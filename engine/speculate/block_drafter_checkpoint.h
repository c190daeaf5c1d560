// The tensors of a block drafter: a directory in the public layout, or a synthetic one for a synthetic target.
#pragma once

#include <memory>
#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/speculate/block_drafter_config.h"

namespace tare::engine {

// The value of option speculate.drafter that asks for random weights.
constexpr const char* kSyntheticDrafter = "synthetic";

// Names are those of plan_block_drafter.
class BlockDrafterCheckpoint : public TensorSource {
 public:
  [[nodiscard]] virtual const BlockDrafterConfig& config() const = 0;
};

// `drafter` is a directory, or the name of one in the model's directory, with config.json and model.safetensors, else
// all its *.safetensors (a leading "model." of a tensor's name is dropped; every tensor of the plan must be there in
// its shape, and nothing else may be), or "synthetic".
//
// synthetic: the public geometry of the 27B's drafter with the target's hidden size, intermediate size and vocabulary:
// 5 layers of full attention, 32 query and 8 key-value heads of 128, a block of 16, theta 1e7, default taps, the
// vocabulary's last token as mask. Weights are those of synthetic.h with the target's seed, the stream of tensor NAME
// being the hash of "drafter.NAME". A target must have at least 5 layers.
//
// Throws Error (input) naming file, field or tensor: what read_block_drafter_config refuses, tensors missing, misshapen
// or left over, "synthetic" with a target that is not.
[[nodiscard]] std::unique_ptr<BlockDrafterCheckpoint> open_block_drafter(const std::string& drafter,
                                                                         const Checkpoint& target);

}  // namespace tare::engine
