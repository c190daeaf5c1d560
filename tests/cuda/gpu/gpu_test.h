// Tests that need a GPU: a fixture that skips without one, and buffers that catch writes where none belong.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/philox.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/device_buffer.h"

namespace tare::engine::test {

// Why there is nothing to test on here, or an empty text.
inline std::string no_gpu(int least_major) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return "no NVIDIA GPU here";
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "cudaDeviceGetAttribute");
  if (major < least_major) return "the GPU's compute capability is below " + std::to_string(least_major) + ".0";
  return "";
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_gpu(8); !why.empty()) GTEST_SKIP() << why;
  }
};
class HopperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_gpu(9); !why.empty()) GTEST_SKIP() << why;
  }
};

// Device memory for an output: filled with 0xFF bytes (NaN as FP32, FP16, BF16, E4M3) between two canaries.
class PoisonedBuffer {
 public:
  explicit PoisonedBuffer(std::size_t bytes)
      : bytes_(bytes), memory_(bytes + 2 * kCanaryBytes, "a test's poisoned buffer") {
    fill_device(memory_.data(), memory_.bytes(), kCanary);
    poison();
  }
  void poison() { fill_device(data(), bytes_, 0xFF); }
  [[nodiscard]] std::byte* data() const { return memory_.data() + kCanaryBytes; }
  template <class Element>
  [[nodiscard]] Element* as() const {
    return reinterpret_cast<Element*>(data());
  }
  template <class Element>
  [[nodiscard]] std::vector<Element> read() const {
    std::vector<Element> values(bytes_ / sizeof(Element));
    copy_to_host(std::as_writable_bytes(std::span(values)), data());
    return values;
  }
  [[nodiscard]] bool canaries_intact() const {
    std::vector<std::byte> all(memory_.bytes());
    copy_to_host(all, memory_.data());
    for (std::size_t i = 0; i < kCanaryBytes; ++i) {
      if (all[i] != std::byte{kCanary} || all[all.size() - 1 - i] != std::byte{kCanary}) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kCanaryBytes = 1024;
  static constexpr unsigned char kCanary = 0xA5;
  std::size_t bytes_;
  DeviceBuffer memory_;
};

// Device memory with a host vector's content.
template <class Element>
DeviceBuffer on_device(const std::vector<Element>& values) {
  DeviceBuffer buffer(values.size() * sizeof(Element), "a test's input");
  copy_to_device(buffer, std::span<const Element>(values));
  return buffer;
}

inline void synchronize() {
  check_cuda(cudaGetLastError(), "a launch of the test");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

// |a - b| over all elements against |b|, both L2; NaN when anything is.
inline double relative_error(std::span<const double> a, std::span<const double> b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference) / std::sqrt(size);
}

}  // namespace tare::engine::test
