// The shape of a block drafter (DFlash), read from the config.json of its directory and checked against the target.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/checkpoint/model_config.h"
#include "engine/checkpoint/tensor_plan.h"

namespace tare::engine {

// Which keys a row of the block at position q sees besides itself: those at positions k of the context (k < F) and of
// the block (k >= F) with
//   k <= q              when causal
//   |q - k| < window    when there is a window
struct DraftLayerMask {
  std::int64_t window = 0;  // 0: none, a full layer
  bool causal = false;
};

struct BlockDrafterConfig {
  std::int64_t hidden_size = 0;  // the target's
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;  // the target's
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_dim = 0;  // all of it is rotated
  double rope_theta = 0;
  float eps = 0;                // of every norm; all gains are plain
  std::int64_t block_size = 0;  // rows it was trained for, the anchor's included
  std::int32_t mask_token = 0;
  std::vector<std::int64_t> taps;  // target layers whose output it reads, in the order of fc's columns
  std::vector<DraftLayerMask> layers;

  [[nodiscard]] std::int64_t layer_count() const { return static_cast<std::int64_t>(layers.size()); }
  [[nodiscard]] std::int64_t tap_count() const { return static_cast<std::int64_t>(taps.size()); }
  [[nodiscard]] std::int64_t query_channels() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t key_value_channels() const { return key_value_heads * head_dim; }
};

// Reads and checks DIR/config.json. `target` is the model the drafter is to draft for, `target_name` what errors call
// it. Throws Error (input) naming the field for: another architecture (DFlash2 and DSpark by name), a setting that is
// not computed here, a size that is not the target's (a drafter for another target; both named), taps out of range.
[[nodiscard]] BlockDrafterConfig read_block_drafter_config(const std::filesystem::path& directory,
                                                           const ModelConfig& target);
// The same from parsed JSON; `where` names the file in errors.
[[nodiscard]] BlockDrafterConfig parse_block_drafter_config(const Json& config, const ModelConfig& target,
                                                            const std::string& where);

// The taps of a drafter of `layers` layers whose config.json does not say: of a target of `target_layers` layers the
// middle one, or round(1 + i (target_layers - 4) / (layers - 1)), halves to even.
[[nodiscard]] std::vector<std::int64_t> default_taps(std::int64_t target_layers, std::int64_t layers);

// Its tensors, by their names in the public layout, in the order of a pass.
[[nodiscard]] std::vector<PlannedTensor> plan_block_drafter(const BlockDrafterConfig& config);

}  // namespace tare::engine
