// Layout of a GDN head's state and block records, shared by kernels and their callers.
#pragma once

#include <cstdint>

namespace tare::engine {

constexpr std::int64_t kGdnBlock = 64;            // positions of a block in the chunk form, aligned at position 0
constexpr std::int64_t kStateColumnPadding = 16;  // dv is rounded up to this

}  // namespace tare::engine
