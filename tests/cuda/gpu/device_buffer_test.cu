// Copies and fills that are over when they return, whatever stream reads the bytes next.
#include <cstdio>
#include <vector>

#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/device_buffer.h"
#include "tests/cuda/gpu/gpu_test.h"

namespace tare::engine {
namespace {

class DeviceCopies : public test::GpuTest {};

// Long enough that what only queues behind it has not run when the host goes on.
__global__ void hold_up(long long clocks) {
  const long long start = clock64();
  while (clock64() - start < clocks) {
  }
}
constexpr long long kClocks = 20'000'000;  // 10 ms at 2 GHz

bool default_stream_is_idle() {
  return cudaStreamQuery(cudaStreamLegacy) == cudaSuccess;
}

TEST_F(DeviceCopies, AFillIsOverWhenItReturns) {
  const DeviceBuffer buffer(1 << 20, "buffer");
  hold_up<<<1, 1>>>(kClocks);
  check_cuda(cudaMemset(buffer.data(), 1, buffer.bytes()), "cudaMemset");
  EXPECT_FALSE(default_stream_is_idle()) << "the control: a plain cudaMemset returns before it has run";
  fill_device(buffer.data(), buffer.bytes(), 2);
  EXPECT_TRUE(default_stream_is_idle());
}

TEST_F(DeviceCopies, ACopyIsOverWhenItReturns) {
  const DeviceBuffer buffer(48 << 10, "buffer");
  const std::vector<std::byte> host(buffer.bytes(), std::byte{7});
  int plain_returned_early = 0;
  constexpr int kCopies = 2000;
  for (int i = 0; i < kCopies; ++i) {
    check_cuda(cudaMemcpy(buffer.data(), host.data(), host.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    plain_returned_early += default_stream_is_idle() ? 0 : 1;
    copy_to_device(buffer.data(), host);
    ASSERT_TRUE(default_stream_is_idle()) << "copy " << i;
  }
  RecordProperty("plain_copies_that_returned_early", plain_returned_early);
  std::printf("plain cudaMemcpy returned early in %d of %d copies\n", plain_returned_early, kCopies);
}

}  // namespace
}  // namespace tare::engine
