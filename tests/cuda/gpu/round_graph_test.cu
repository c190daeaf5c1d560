// Rounds as graphs, whole and cut.
#include <numeric>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/device/round_graph.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine {
namespace {

using test::GpuTest;

constexpr std::uint32_t kFactor = 1664525;  // odd: no step is lost, and steps do not commute

__global__ void step(std::uint32_t* value, std::uint32_t number) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  *value = *value * kFactor + number;
}

std::uint32_t after_steps(std::uint32_t value, int steps) {
  for (int i = 0; i < steps; ++i) value = value * kFactor + static_cast<std::uint32_t>(i);
  return value;
}

class RoundGraphs : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    value_ = test::on_device(std::vector<std::uint32_t>{7});
  }
  void TearDown() override {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  [[nodiscard]] RoundGraph graph_of(int steps, RoundCut cut, bool programmatic) const {
    return {stream_,
            [&] {
              for (int i = 0; i < steps; ++i)
                launch_kernel("step", step, {}, {.stream = stream_, .programmatic = programmatic},
                              value_.as<std::uint32_t>(), static_cast<std::uint32_t>(i));
            },
            cut};
  }
  [[nodiscard]] std::uint32_t value() const {
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    std::vector<std::uint32_t> read(1);
    copy_to_host(std::as_writable_bytes(std::span(read)), value_.data());
    return read[0];
  }

  cudaStream_t stream_ = nullptr;
  DeviceBuffer value_;
};

TEST(GrowingParts, HoldEveryKernelAndGrow) {
  for (std::size_t kernels = 0; kernels < 3000; ++kernels) {
    const std::vector<std::size_t> parts = growing_parts(kernels);
    ASSERT_EQ(std::accumulate(parts.begin(), parts.end(), std::size_t{0}), kernels);
    for (std::size_t i = 1; i < parts.size(); ++i)
      ASSERT_LE(parts[i], 4 * parts[i - 1]) << kernels << ": the part before does not last as long";
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) ASSERT_GT(parts[i], parts[i - 1]) << kernels;
    if (!parts.empty()) {
      ASSERT_LE(parts[0], 16U) << kernels;
      ASSERT_GT(parts.back(), 0U) << kernels;
    }
  }
}

// Every kernel once, in order, whatever a round is cut into.
TEST_F(RoundGraphs, ComputeTheSameCutAndWhole) {
  std::uint32_t expected = 7;
  const int most = test::amount("steps of a graph", 549, 81);
  for (const int steps : {1, 16, 17, 80, 81, 336, 337, 549}) {
    if (steps > most) break;
    for (const bool programmatic : {false, true})
      for (const RoundCut cut : {RoundCut::kWhole, RoundCut::kGrowing}) {
        const RoundGraph graph = graph_of(steps, cut, programmatic);
        EXPECT_EQ(graph.parts(), cut == RoundCut::kWhole ? 1U : growing_parts(static_cast<std::size_t>(steps)).size());
        for (int again = 0; again < 2; ++again) {
          graph.launch(stream_);
          expected = after_steps(expected, steps);
          EXPECT_EQ(value(), expected) << steps << " steps, programmatic " << programmatic;
        }
      }
  }
  EXPECT_NE(after_steps(7, 2), after_steps(after_steps(7, 1), 1)) << "steps out of order would be seen";
}

TEST_F(RoundGraphs, AreNotCutWhereLaunchesFork) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  const auto fork = [&] {
    step<<<1, 1, 0, stream_>>>(value_.as<std::uint32_t>(), 1);
    check_cuda(cudaEventRecord(event, stream_), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(other, event), "cudaStreamWaitEvent");
    step<<<1, 1, 0, stream_>>>(value_.as<std::uint32_t>(), 2);
    step<<<1, 1, 0, other>>>(value_.as<std::uint32_t>() + 1, 3);
    check_cuda(cudaEventRecord(event, other), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(stream_, event), "cudaStreamWaitEvent");
  };
  EXPECT_NO_THROW(RoundGraph(stream_, fork));
  EXPECT_THROW(RoundGraph(stream_, fork, RoundCut::kGrowing), Error);
  check_cuda(cudaEventDestroy(event), "cudaEventDestroy");
  check_cuda(cudaStreamDestroy(other), "cudaStreamDestroy");
}

}  // namespace
}  // namespace tare::engine
