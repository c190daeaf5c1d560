// How a kernel is put into a stream, and the list of what was put there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend/launch_record.h"

namespace tare::engine {

// `programmatic` sets the attribute that lets a kernel start before its predecessor ends. Every kernel of this folder
// is safe under it: before ptx::wait_for_preceding_grid it reads nothing but weights and what earlier rounds wrote, and
// writes nothing that the preceding grids of the round read or write.
struct CudaLaunch {
  cudaStream_t stream = nullptr;
  bool programmatic = false;
  std::vector<LaunchRecord>* records = nullptr;  // each launch adds itself; may be null
  std::string part;                              // copied into its record
  std::uint64_t bytes = 0;                       // likewise
  std::uint64_t bytes_a_position = 0;            // likewise
};

}  // namespace tare::engine
