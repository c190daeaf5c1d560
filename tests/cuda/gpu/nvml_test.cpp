// The real NVML on a real GPU: found by the id that CUDA gives, and readings that follow the work.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdio>

#include "engine/cuda/device/cuda_device.h"
#include "harness/environment/doctor.h"
#include "harness/environment/gpu.h"
#include "harness/environment/rules.h"
#include "harness/environment/sampler.h"
#include "tests/cuda/gpu/gpu_test.h"

namespace tare::harness {
namespace {

using namespace std::chrono_literals;
using NvmlOfGpu = engine::test::GpuTest;

constexpr std::size_t kBytes = std::size_t{1} << 30;

std::string text_of(const std::optional<double>& value) {
  return value ? std::to_string(*value) : "missing";
}

// Writes memory for the given time: enough for clock and power to leave their idle values.
void keep_busy(std::chrono::milliseconds time) {
  void* memory = nullptr;
  engine::check_cuda(cudaMalloc(&memory, kBytes), "cudaMalloc");
  const auto end = std::chrono::steady_clock::now() + time;
  for (int value = 0; std::chrono::steady_clock::now() < end; value = (value + 37) % 256) {
    for (int i = 0; i < 16; ++i) engine::check_cuda(cudaMemsetAsync(memory, value, kBytes), "cudaMemsetAsync");
    engine::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  engine::check_cuda(cudaFree(memory), "cudaFree");
}

TEST_F(NvmlOfGpu, IsTheDeviceThatCudaNames) {
  const engine::CudaDevice device = engine::open_cuda_device(0);
  const GpuDevice gpu = Nvml().device(device.pci_bus_id);
  std::printf("CUDA: %s at %s; NVML: %s, driver %s\n", device.name.c_str(), device.pci_bus_id.c_str(),
              gpu.facts().name.c_str(), gpu.facts().driver_version.c_str());
  for (const MissingReading& missing : gpu.facts().missing)
    std::printf("missing: %s: %s\n", missing.reading.c_str(), missing.why.c_str());
  EXPECT_EQ(gpu.facts().name, device.name);
  EXPECT_THAT(gpu.facts().uuid, testing::StartsWith("GPU-"));
}

TEST_F(NvmlOfGpu, ReadingsFollowTheWork) {
  const engine::CudaDevice device = engine::open_cuda_device(0);
  const GpuDevice gpu = Nvml().device(device.pci_bus_id);
  keep_busy(300ms);  // out of the idle clock
  RunReadings run;
  const Watched watched{{}, {}, &gpu};
  run.before = sample_fully(watched);
  Sampler sampler(10, watched);
  sampler.follow();
  keep_busy(2000ms);
  run.during = sampler.finish();
  run.after = sample_fully(watched);
  ASSERT_GE(run.during.size(), 5U);
  double cost_us = 0;
  for (const EnvironmentSample& sample : run.during) {
    cost_us += static_cast<double>(sample.cost_ns.value_or(0)) * 1e-3 / static_cast<double>(run.during.size());
    ASSERT_TRUE(sample.gpu);
    std::printf("SM %s MHz, memory %s MHz, %s C, %s W, reasons %s\n", text_of(sample.gpu->sm_clock_mhz).c_str(),
                text_of(sample.gpu->memory_clock_mhz).c_str(), text_of(sample.gpu->temperature_c).c_str(),
                text_of(sample.gpu->power_w).c_str(),
                event_reasons_text(sample.gpu->event_reasons.value_or(0)).c_str());
  }
  const auto energy = energy_j(run);
  std::printf("%zu samples of %.0f us processor time each; energy %s J in %.2f s; limit %s W; other processes %lld\n",
              run.during.size(), cost_us, text_of(energy).c_str(), duration_s(run).value_or(0),
              text_of(run.after.gpu->power_limit_w).c_str(),
              static_cast<long long>(run.after.gpu->other_processes.value_or(-1)));
  const auto clock = clock_of(run, Clock::kGpuSm);
  ASSERT_TRUE(clock);
  EXPECT_GT(clock->median_mhz, 0);
  EXPECT_LE(clock->highest_mhz, gpu.facts().max_sm_clock_mhz.value_or(clock->highest_mhz));
  ASSERT_TRUE(energy) << "a data-centre GPU has an energy counter";
  // Mean power by the counter against the samples' mean: the same thing measured twice.
  double power = 0;
  for (const EnvironmentSample& sample : run.during) power += sample.gpu->power_w.value_or(0);
  power /= static_cast<double>(run.during.size());
  EXPECT_NEAR(*energy / *duration_s(run), power, 0.3 * power);
  // Other tests may run on this GPU meanwhile: how many is their business, that they can be counted is ours.
  ASSERT_TRUE(run.before.gpu->other_processes.has_value());
  EXPECT_TRUE(run.after.gpu->other_processes.has_value());
}

TEST_F(NvmlOfGpu, TheDoctorSeesIt) {
  const Diagnosis diagnosis = diagnose({});
  bool seen = false;
  for (const Check& check : diagnosis.checks) {
    std::printf("%-8s %-16s %s %s\n", to_text(check.state).c_str(), check.name.c_str(), check.about.c_str(),
                check.found.c_str());
    seen = seen || check.name == "gpu_power_limit";
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace tare::harness
