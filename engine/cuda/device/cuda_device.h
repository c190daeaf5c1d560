// Which GPU, and whether this program can use it.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace tare::engine {

struct CudaDevice {
  int index = 0;
  std::string name;
  std::string
      pci_bus_id;  // "0000:01:00.0": what other tools know it by, whatever CUDA_VISIBLE_DEVICES did to the index
  int major = 0;   // compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_bytes = 0;  // now
  int driver_version = 0;        // 13000: CUDA 13.0
  int runtime_version = 0;

  [[nodiscard]] bool is_hopper() const { return major == 9 && minor == 0; }
};

// Makes GPU `index` the calling thread's device. Throws Error (environment): no GPU, no driver, a driver older than
// this program's CUDA (both versions named), a compute capability without kernels here; Error (input): no such index.
[[nodiscard]] CudaDevice open_cuda_device(int index);

[[nodiscard]] std::string cuda_version_text(int version);  // 13000 -> "13.0"
[[nodiscard]] Json to_json(const CudaDevice& device);

}  // namespace tare::engine
