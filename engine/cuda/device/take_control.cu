#include "engine/cuda/device/take_control.h"

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {
namespace {

constexpr int kMostWords = 1024;

__global__ void __launch_bounds__(kMostWords)
    take_control_kernel(const volatile std::int32_t* host, std::int32_t* control) {
  ptx::launch_dependents();
  control[threadIdx.x] = host[threadIdx.x];
}

}  // namespace

void launch_take_control(const void* host, void* control, int words, const CudaLaunch& launch) {
  if (words < 1 || words > kMostWords) throw internal_error("a control of too many words");
  CudaLaunch alone = launch;
  alone.programmatic = false;
  launch_kernel("take_control", take_control_kernel, {.blocks = 1, .threads = words}, alone,
                static_cast<const volatile std::int32_t*>(host), static_cast<std::int32_t*>(control));
}

}  // namespace tare::engine
