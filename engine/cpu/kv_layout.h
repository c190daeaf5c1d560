// Layout of one head's cache. Keys: blocks of 16 positions, inside a block [channel][16 positions], channels rounded up
// to 4, so that a score needs no sum across lanes. Values: [position][channels rounded up to 16].
#pragma once

#include <cstdint>

namespace tare::engine {

constexpr std::int64_t kKeyBlock = 16;
constexpr std::int64_t kKeyChannelPadding = 4;
constexpr std::int64_t kValueChannelPadding = 16;

}  // namespace tare::engine
