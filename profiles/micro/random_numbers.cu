#include "profiles/micro/random_numbers.h"

#include "engine/cuda/device/cuda_check.h"

namespace tare::micro {
namespace {

constexpr int kBlocks = 1024;
constexpr int kThreads = 256;

__global__ void fill_kernel(std::uint32_t* words, std::int64_t count, RandomBits bits) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    auto x = static_cast<std::uint32_t>(i) * 2654435761U + 12345U;
    x ^= x >> 15;
    x *= 0x2C1B3C6DU;
    x ^= x >> 12;
    x *= 0x297A2D39U;
    x ^= x >> 15;
    words[i] = (x & bits.keep) | bits.set;
  }
}

}  // namespace

void fill_random(std::byte* data, std::size_t bytes, RandomBits bits) {
  fill_kernel<<<kBlocks, kThreads>>>(reinterpret_cast<std::uint32_t*>(data), static_cast<std::int64_t>(bytes / 4),
                                     bits);
  engine::check_cuda(cudaGetLastError(), "fill");
  engine::check_cuda(cudaDeviceSynchronize(), "fill");
}

RandomBits random_bits_of(engine::CacheFormat format) {
  switch (format) {
    case engine::CacheFormat::kFP8:
    case engine::CacheFormat::kNVFP4:  // codes of any bits, scales of E4M3
      return kRandomE4M3;
    case engine::CacheFormat::kBF16:
    case engine::CacheFormat::kInt8:  // codes of any bits, scales of BF16
      return kRandomBF16;
    case engine::CacheFormat::kFP32:
      break;
  }
  return kRandomFP32;
}

engine::DeviceBuffer random_floats(std::int64_t count, RandomBits bits) {
  engine::DeviceBuffer buffer(static_cast<std::size_t>(count) * sizeof(float), "random numbers");
  fill_random(buffer.data(), buffer.bytes(), bits);
  return buffer;
}

}  // namespace tare::micro
