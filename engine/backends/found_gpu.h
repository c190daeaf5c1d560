// What `tare --version` says of the GPU.
#pragma once

#include <string>

namespace tare::engine {

// "NVIDIA H200 (compute capability 9.0, driver for CUDA 13.0)", or why the CUDA backend cannot run here. Never throws.
[[nodiscard]] std::string found_gpu();

}  // namespace tare::engine
