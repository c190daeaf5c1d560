// Faults planted for compute-sanitizer: what finds none in the tests has to find these. They do no harm elsewhere, and
// without TARE_SANITIZED they are skipped. The tool's report is the verdict (scripts/sanitize): of tests called Planted
// there must be one, of those called Clean none; those called Asked are sound, too, and say what a tool can follow.
#include <gtest/gtest.h>

#include "engine/cuda/device/warps_barrier.cuh"
#include "engine/cuda/product/ring_hand_over.cuh"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine {
namespace {

class SanitizerControl : public test::HopperTest {
 protected:
  void SetUp() override {
    test::HopperTest::SetUp();
    if (!test::sanitized()) GTEST_SKIP() << "a control of compute-sanitizer, which is not watching";
  }
};

constexpr int kThreads = 64;
constexpr std::uint32_t kLongNs = 1'000'000;  // the most that __nanosleep takes

__global__ void overrun_kernel(std::uint32_t* words, int count) {
  if (static_cast<int>(threadIdx.x) <= count) words[threadIdx.x] = threadIdx.x;  // <= is the fault
}

// memcheck: one word behind an allocation, in the rest of its 512 bytes that belongs to nobody.
TEST_F(SanitizerControl, PlantedOverrun) {
  constexpr int kWords = 50;
  std::uint32_t* words = nullptr;
  check_cuda(cudaMalloc(&words, kWords * sizeof(std::uint32_t)), "cudaMalloc");
  overrun_kernel<<<1, kThreads>>>(words, kWords);
  // A tool that has seen the fault ends the context.
  const cudaError_t status = cudaDeviceSynchronize();
  EXPECT_TRUE(status == cudaSuccess || status == cudaErrorLaunchFailure) << cudaGetErrorString(status);
  (void)cudaFree(words);
}

// Each thread reads what one of the other warp wrote; without `wait` there is no barrier in between.
__global__ void exchange_kernel(std::uint32_t* out, bool wait) {
  __shared__ std::uint32_t words[kThreads];
  words[threadIdx.x] = threadIdx.x + 1;
  if (wait) __syncthreads();
  out[threadIdx.x] = words[kThreads - 1 - threadIdx.x];
}

void exchange(bool wait) {
  const DeviceBuffer out(kThreads * sizeof(std::uint32_t), "words of the other warp");
  exchange_kernel<<<1, kThreads>>>(out.as<std::uint32_t>(), wait);
  test::synchronize();
  std::vector<std::uint32_t> words(kThreads);
  copy_to_host(std::as_writable_bytes(std::span(words)), out.data());
  if (!wait) return;
  for (std::uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(words[i], kThreads - i);
}

// racecheck: threads of two warps.
TEST_F(SanitizerControl, PlantedRace) {
  exchange(false);
}
TEST_F(SanitizerControl, CleanExchange) {
  exchange(true);
}

// The second warp reads what the first one wrote once it has arrived at a named barrier, where the second waits. With
// `both` the first waits there, too.
__global__ void arrival_kernel(std::uint32_t* out, bool both) {
  constexpr int kBarrier = 1;
  __shared__ std::uint32_t words[kThreads / 2];
  if (threadIdx.x < kThreads / 2) {
    words[threadIdx.x] = threadIdx.x + 1;
    if (both) {
      ptx::named_barrier_sync(kBarrier, kThreads);
    } else {
      ptx::named_barrier_arrive(kBarrier, kThreads);
    }
  } else {
    ptx::named_barrier_sync(kBarrier, kThreads);
    out[threadIdx.x - kThreads / 2] = words[kThreads - 1 - threadIdx.x];
  }
}

void arrive(bool both) {
  const DeviceBuffer out(kThreads / 2 * sizeof(std::uint32_t), "words of the first warp");
  arrival_kernel<<<1, kThreads>>>(out.as<std::uint32_t>(), both);
  test::synchronize();
  std::vector<std::uint32_t> words(kThreads / 2);
  copy_to_host(std::as_writable_bytes(std::span(words)), out.data());
  for (std::uint32_t i = 0; i < kThreads / 2; ++i) EXPECT_EQ(words[i], kThreads / 2 - i);
}

TEST_F(SanitizerControl, CleanArrival) {
  arrive(false);
}
TEST_F(SanitizerControl, CleanNamedBarrier) {
  arrive(true);
}

// An exchange at __syncthreads, before which the first warp alone, or with `all` as warps_barrier.cuh has it, passes a
// named barrier; where the second does not come to that, it waits at the other one by then.
__global__ void some_warps_kernel(std::uint32_t* out, bool all) {
  constexpr int kBarrier = 1;
  __shared__ std::uint32_t words[kThreads];
  if (threadIdx.x < kThreads / 2) {
    __nanosleep(kLongNs);
    if (all) {
      meet<kThreads>(kBarrier, kThreads / 2);
    } else {
      ptx::named_barrier_sync(kBarrier, kThreads / 2);
    }
  } else if (all) {
    pass_by<kThreads>(kBarrier);
  }
  words[threadIdx.x] = threadIdx.x + 1;
  __syncthreads();
  out[threadIdx.x] = words[kThreads - 1 - threadIdx.x];
}

void exchange_after_some_met(bool all) {
  const DeviceBuffer out(kThreads * sizeof(std::uint32_t), "words of the other warp");
  some_warps_kernel<<<1, kThreads>>>(out.as<std::uint32_t>(), all);
  test::synchronize();
  std::vector<std::uint32_t> words(kThreads);
  copy_to_host(std::as_writable_bytes(std::span(words)), out.data());
  for (std::uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(words[i], kThreads - i);
}

// Sound both; a tool that reports the first does not tell a block's barriers apart.
TEST_F(SanitizerControl, AskedWhetherABarrierOfSomeWarpsMisleads) {
  exchange_after_some_met(false);
}
TEST_F(SanitizerControl, CleanBarrierOfSomeWarps) {
  exchange_after_some_met(true);
}

constexpr int kStages = 2;
constexpr int kStageWords = 32;
constexpr std::uint32_t kStageBytes = kStageWords * sizeof(std::uint32_t);

// The product's ring, small: both warps read every stage of a run of them, warp 0 asks for the stage after it once both
// have handed it back. `early`: they hand it back before they have read it, and warp 1 reads it only after a while,
// when the next one has come (racecheck reports what it sees happen, not what might).
__global__ void ring_kernel(const std::uint32_t* words, int stages, std::uint32_t* sums, bool early,
                            std::uint32_t zero) {
  __shared__ alignas(16) std::uint32_t ring[kStages][kStageWords];
  __shared__ std::uint64_t barriers[2][kStages];
  const auto full = [&](int stage) { return ptx::shared_address(&barriers[0][stage]); };
  const auto empty = [&](int stage) { return ptx::shared_address(&barriers[1][stage]); };
  const auto fill = [&](int index) {
    ptx::warp_bulk_copies(ptx::shared_address(ring[index % kStages]), words + index * kStageWords, kStageBytes / 2,
                          ptx::evict_first_policy(), words + index * kStageWords + kStageWords / 2, kStageBytes / 2,
                          full(index % kStages));
  };
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::barrier_init(full(stage), 1);
      ptx::barrier_init(empty(stage), kThreads / 32 * kWarpArrivals);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  const bool first_warp = threadIdx.x < 32;
  if (first_warp) {
    for (int index = 0; index < kStages; ++index) fill(index);
  }
  std::uint32_t sum = 0;
  for (int index = 0; index < stages; ++index) {
    const int stage = index % kStages;
    const auto parity = static_cast<std::uint32_t>(index / kStages % 2);
    ptx::barrier_wait(full(stage), parity);
    if (early) {
      hand_over_stage(empty(stage), 0, zero);
      if (!first_warp) __nanosleep(kLongNs);
    }
    const std::uint32_t word = ptx::load_shared_4(ptx::shared_address(&ring[stage][(threadIdx.x + 7) % kStageWords]));
    if (!early) hand_over_stage(empty(stage), word, zero);
    sum += word;
    if (first_warp && index + kStages < stages) {
      ptx::barrier_wait(empty(stage), parity);
      __syncwarp();
      fill(index + kStages);
    }
  }
  sums[threadIdx.x] = sum;
}

void go_round(bool early) {
  constexpr int kAll = 16;
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < kAll * kStageWords; ++i) words.push_back(i * i);
  const DeviceBuffer words_device = test::on_device(words);
  const DeviceBuffer sums_device(kThreads * sizeof(std::uint32_t), "sums");
  ring_kernel<<<1, kThreads>>>(words_device.as<std::uint32_t>(), kAll, sums_device.as<std::uint32_t>(), early, 0);
  test::synchronize();
  std::vector<std::uint32_t> sums(kThreads);
  copy_to_host(std::as_writable_bytes(std::span(sums)), sums_device.data());
  if (early) return;
  for (int thread = 0; thread < kThreads; ++thread) {
    std::uint32_t wanted = 0;
    for (int index = 0; index < kAll; ++index)
      wanted += words[static_cast<std::size_t>(index * kStageWords + (thread + 7) % kStageWords)];
    EXPECT_EQ(sums[static_cast<std::size_t>(thread)], wanted) << "thread " << thread;
  }
}

// racecheck: the copy engine against a warp's loads.
TEST_F(SanitizerControl, PlantedEarlyHandOver) {
  go_round(true);
}
TEST_F(SanitizerControl, CleanHandOver) {
  go_round(false);
}

}  // namespace
}  // namespace tare::engine
