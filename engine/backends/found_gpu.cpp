#include "engine/backends/found_gpu.h"

#ifdef TARE_WITH_CUDA
#include <fmt/format.h>

#include "base/error.h"
#include "engine/cuda/device/cuda_device.h"
#endif

namespace tare::engine {

#ifdef TARE_WITH_CUDA
std::string found_gpu() {
  try {
    const CudaDevice device = open_cuda_device(0);
    return fmt::format("{} (compute capability {}.{}, driver for CUDA {})", device.name, device.major, device.minor,
                       cuda_version_text(device.driver_version));
  } catch (const Error& error) {
    return fmt::format("no GPU ({})", error.parts().what);
  }
}
#else
std::string found_gpu() {
  return "no GPU (built without CUDA)";
}
#endif

}  // namespace tare::engine
