// Rows of the residual stream that a drafter reads ("taps"), and where the passes of a target leave them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tare::engine {

// Where a norm also leaves the rows of x.
struct TapRows {
  std::byte* data = nullptr;  // null: nowhere
  bool bf16 = false;          // else FP32
  std::int64_t stride = 0;    // numbers from one token's row to the next, even
};

// A row has the taps of one token side by side, in the order of `layers`.
struct TapBuffers {
  std::vector<std::int64_t> layers;  // the taps are what these leave; empty: none
  std::int64_t hidden = 0;
  std::byte* round = nullptr;    // FP32 [kMostRoundTokens][taps][hidden]
  std::byte* prefill = nullptr;  // BF16 [prefill.chunk][taps][hidden]

  // Of a layer; data is null when nobody reads it.
  [[nodiscard]] TapRows rows_of(std::int64_t layer, bool is_prefill) const {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (layers[i] != layer) continue;
      const auto offset = static_cast<std::int64_t>(i) * hidden * (is_prefill ? 2 : 4);
      return {(is_prefill ? prefill : round) + offset, is_prefill, static_cast<std::int64_t>(layers.size()) * hidden};
    }
    return {};
  }
};

}  // namespace tare::engine
