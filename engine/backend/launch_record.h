// One kernel launch as a backend declares it: what a timeline is labelled with and a byte account adds up.
#pragma once

#include <cstdint>
#include <string>

namespace tare::engine {

struct LaunchRecord {
  std::string name;         // "q4_gemm n16", "gdn_round"
  std::string part;         // what it works on: "layers.3.mlp.down_proj.weight"
  std::uint64_t bytes = 0;  // read and written in device memory, by the tensors' sizes
  // Read besides for every position in the caches, that of the round included: launches of one graph serve many
  // contexts.
  std::uint64_t bytes_a_position = 0;

  [[nodiscard]] std::uint64_t bytes_at(std::int64_t context) const {
    return bytes + bytes_a_position * static_cast<std::uint64_t>(context);
  }
};

}  // namespace tare::engine
