#include "tests/cuda/gpu/encode_conversions.h"

#include "engine/cuda/weights/encode_group.cuh"

namespace tare::engine::test {
namespace {

constexpr int kThreads = 256;

__global__ void convert_kernel(const float* values, std::int64_t count, std::uint8_t* e4m3, std::uint8_t* e2m1,
                               std::uint16_t* scales) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  e4m3[i] = device_e4m3(values[i]);
  e2m1[i] = static_cast<std::uint8_t>(device_e2m1(values[i]));
  scales[i] = device_group_scale(fabsf(values[i]), 1.0F);
}

}  // namespace

void launch_conversions(const float* values, std::int64_t count, std::uint8_t* e4m3, std::uint8_t* e2m1,
                        std::uint16_t* scales) {
  convert_kernel<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads>>>(values, count, e4m3, e2m1,
                                                                                         scales);
}

}  // namespace tare::engine::test
