// Synthetic weights made in device memory, with the bits of engine/checkpoint/synthetic.h.
#pragma once

#include <cstdint>

#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/device/launch.h"

namespace tare::engine {

// out[i] = synthetic_weight(recipe, first + i) for 0 <= i < count, BF16 in device memory. For the roles that are large:
// embedding, head, projection, residual projection; Error (internal) for the others, which are made on the host.
void launch_synthetic_weights(const SyntheticRecipe& recipe, std::uint64_t first, std::uint64_t count,
                              std::uint16_t* out, const CudaLaunch& launch);

}  // namespace tare::engine
