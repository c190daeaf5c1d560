// How a kernel is put into a stream, and the list of what was put there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tare::engine {

// One launch, in order of the stream: what a timeline is labelled with and a byte account adds up.
struct LaunchRecord {
  std::string name;         // "q4_gemm n16", "gdn_round"
  std::string part;         // what it works on: "layers.3.mlp.down_proj.weight"
  std::uint64_t bytes = 0;  // read and written in device memory, by the tensors' sizes
};

// `programmatic` sets the attribute that lets a kernel start before its predecessor ends. Every kernel of this folder
// is safe under it: before ptx::wait_for_preceding_grid it reads nothing but weights and what earlier rounds wrote, and
// writes nothing that the preceding grids of the round read or write.
struct CudaLaunch {
  cudaStream_t stream = nullptr;
  bool programmatic = false;
  std::vector<LaunchRecord>* records = nullptr;  // each launch adds itself; may be null
  std::string part;                              // copied into its record
  std::uint64_t bytes = 0;                       // likewise
};

}  // namespace tare::engine
