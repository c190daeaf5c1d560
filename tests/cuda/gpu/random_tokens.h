// Texts at random, the same for a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/philox.h"

namespace tare::engine::test {

// Below 4,000: ids of the embedded model and of the narrow synthetic ones.
inline std::vector<std::int32_t> random_tokens(std::size_t count, std::uint64_t seed) {
  Philox random(seed);
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(random.below(4000)));
  return tokens;
}

}  // namespace tare::engine::test
