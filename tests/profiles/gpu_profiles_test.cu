// The read rate and the kernel collector on a GPU.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/backends/make_backend.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "profiles/format_savings.h"
#include "profiles/gpu_read_rate.h"
#include "profiles/round_profile.h"
#include "profiles/timeline/cupti_collector.h"
#include "profiles/timeline/round_table.h"
#include "profiles/timeline/timeline.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/source_folder.h"

namespace tare::profiles {
namespace {

using engine::check_cuda;
using engine::test::GpuTest;
using engine::test::sanitized;

constexpr std::size_t kMib = std::size_t{1} << 20;

double peak_bytes_per_s() {
  int clock_khz = 0;
  int bits = 0;
  check_cuda(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, 0), "cudaDevAttrMemoryClockRate");
  check_cuda(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0), "cudaDevAttrGlobalMemoryBusWidth");
  return 2.0 * clock_khz * 1e3 * bits / 8;
}

// Rates are not judged where every access is watched.
class GpuReadRate : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (sanitized()) GTEST_SKIP() << "a rate, while compute-sanitizer watches";
  }
};

// Bytes that were not read would come out above the memory's peak, a lame kernel far below it.
TEST_F(GpuReadRate, OfMemoryLiesBelowThePeakAndNotFarBelow) {
  const ReadRateSource source = gpu_read_rate(0);
  const std::unique_ptr<ReadRateProbe> probe = source.make(2048 * kMib);
  EXPECT_EQ(probe->bytes(), 2048 * kMib);
  (void)probe->measure(4);
  const double share = probe->measure(8) / peak_bytes_per_s();
  std::printf("read rate of 2 GiB: %.1f GB/s, %.1f %% of the peak\n", share * peak_bytes_per_s() / 1e9, share * 100);
  EXPECT_GT(share, 0.7);
  EXPECT_LT(share, 1.0);
}

TEST_F(GpuReadRate, OfASetInTheCacheIsHigherThanOfMemory) {
  const ReadRateSource source = gpu_read_rate(0);
  const double small = source.make(8 * kMib)->measure(200);
  const double large = source.make(2048 * kMib)->measure(2);
  std::printf("read rate of 8 MiB: %.1f GB/s, of 2 GiB: %.1f GB/s\n", small / 1e9, large / 1e9);
  EXPECT_GT(small, large);
}

// Spins for so many ns of the GPU's clock.
template <int kKind>
__global__ void spin(long long ns) {
  long long start = 0;
  long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
}

class Graph {
 public:
  template <class Enqueue>
  Graph(cudaStream_t stream, const Enqueue& enqueue) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    enqueue();
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
    check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { (void)cudaGraphExecDestroy(executable_); }
  void launch(cudaStream_t stream) const { check_cuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// Kernels of 20 and 60 us in turns.
Graph spin_graph(cudaStream_t stream, int kernels) {
  return Graph(stream, [&] {
    for (int i = 0; i < kernels; ++i) {
      if (i % 2 == 0) spin<0><<<1, 32, 0, stream>>>(20'000);
      if (i % 2 == 1) spin<1><<<1, 32, 0, stream>>>(60'000);
    }
  });
}

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void expect_rounds(const KernelRecords& records, std::int64_t rounds, std::size_t kernels, const char* graph) {
  ASSERT_EQ(records.dropped, 0U) << graph;
  ASSERT_EQ(records.invalid, 0U) << graph;
  ASSERT_EQ(records.records.size(), static_cast<std::size_t>(rounds) * kernels) << graph;
  std::set<std::uint64_t> nodes;
  for (const KernelRecord& record : records.records) nodes.insert(record.graph_node);
  EXPECT_EQ(nodes.size(), kernels) << graph;
  EXPECT_FALSE(nodes.contains(0)) << graph;
  for (const std::vector<KernelRecord>& round : split_rounds(records, rounds)) {
    const Timeline timeline = make_timeline(round);
    for (std::size_t i = 0; i < kernels; ++i) {
      EXPECT_EQ(records.names[static_cast<std::size_t>(round[i].name)], i % 2 == 0 ? "spin<0>" : "spin<1>");
      EXPECT_NEAR(static_cast<double>(timeline.share_ns[i]), i % 2 == 0 ? 20e3 : 60e3, 10e3) << graph << " " << i;
    }
  }
}

// A process has one collector; tests share it. Null, with the reason, where there is none.
KernelCollector* shared_collector(std::string& why) {
  static std::unique_ptr<KernelCollector> collector;
  if (!collector) {
    try {
      collector = make_cupti_collector();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kEnvironment) throw;
      why = error.what();
    }
  }
  return collector.get();
}

class Borrowed final : public KernelCollector {
 public:
  explicit Borrowed(KernelCollector& collector) : collector_(&collector) {}
  void start() override { collector_->start(); }
  KernelRecords take() override { return collector_->take(); }

 private:
  KernelCollector* collector_;
};

// compute-sanitizer is a profiler to CUPTI, which serves one at a time.
constexpr const char* kHeld = "compute-sanitizer holds CUPTI";
class Collector : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (sanitized()) GTEST_SKIP() << kHeld;
  }
};
class Profile : public engine::test::HopperTest {
 protected:
  void SetUp() override {
    HopperTest::SetUp();
    if (sanitized()) GTEST_SKIP() << kHeld;
  }
};

// The graph that was made before the collector must be seen as
// well as the one made after it, for profiles time first and collect then.
TEST_F(Collector, SeesEveryKernelOfGraphsMadeBeforeAndAfterIt) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const Graph before = spin_graph(stream, 5);
  before.launch(stream);
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");

  std::string why;
  KernelCollector* const collector = shared_collector(why);
  if (collector == nullptr) GTEST_SKIP() << why;
  EXPECT_THROW((void)make_cupti_collector(), Error);
  collector->start();
  constexpr int kRounds = 20;
  const std::int64_t begin = steady_ns();
  for (int round = 0; round < kRounds; ++round) before.launch(stream);
  const KernelRecords first = collector->take();
  const std::int64_t end = steady_ns();
  expect_rounds(first, kRounds, 5, "graph made before");
  constexpr std::int64_t kClockSlack = 1'000'000;  // GPU times are interpolated onto the steady clock
  for (const KernelRecord& record : first.records) {
    EXPECT_GT(record.start_ns, begin - kClockSlack);
    EXPECT_LT(record.end_ns, end + kClockSlack);
  }
  const Graph after = spin_graph(stream, 4);
  for (int round = 0; round < kRounds; ++round) after.launch(stream);
  expect_rounds(collector->take(), kRounds, 4, "graph made after");
  EXPECT_TRUE(collector->take().records.empty());
  check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

// Copies and fills, in graphs and out of them, are records like kernels.
TEST_F(Collector, SeesCopiesAndFillsInGraphsAndOutOfThem) {
  std::string why;
  KernelCollector* const collector = shared_collector(why);
  if (collector == nullptr) GTEST_SKIP() << why;
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  constexpr std::size_t kUp = 3 * kMib;
  constexpr std::size_t kDown = 2 * kMib;
  constexpr std::size_t kFill = kMib;
  const engine::DeviceBuffer device(kUp, "a test's copies");
  void* host = nullptr;
  check_cuda(cudaHostAlloc(&host, kUp, cudaHostAllocDefault), "cudaHostAlloc");
  const auto enqueue = [&] {
    check_cuda(cudaMemcpyAsync(device.data(), host, kUp, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    spin<0><<<1, 32, 0, stream>>>(20'000);
    check_cuda(cudaMemsetAsync(device.data(), 1, kFill, stream), "cudaMemsetAsync");
    check_cuda(cudaMemcpyAsync(host, device.data(), kDown, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  };
  collector->start();
  const Graph graph(stream, enqueue);
  constexpr int kRounds = 10;
  for (const bool in_graph : {false, true}) {
    for (int round = 0; round < kRounds; ++round) {
      if (in_graph) {
        graph.launch(stream);
      } else {
        enqueue();
      }
    }
    const KernelRecords records = collector->take();
    const std::vector<std::vector<KernelRecord>> rounds = split_rounds(records, kRounds);
    const MatchedLaunches matched =
        match_launches(rounds, {.kinds = {{{"spin", "a part", 0, 0}}}, .kind_of = {}, .context_of = [](std::size_t) {
                                  return std::int64_t{0};
                                }});
    EXPECT_EQ(matched.unmatched, "") << in_graph;
    for (const std::vector<KernelRecord>& round : rounds) {
      ASSERT_EQ(round.size(), 4U) << in_graph;
      const auto name = [&](std::size_t i) { return records.names[static_cast<std::size_t>(round[i].name)]; };
      EXPECT_EQ(name(0), "[memcpy HtoD]");
      EXPECT_EQ(round[0].copied_bytes, kUp);
      EXPECT_EQ(name(1), "spin<0>");
      EXPECT_FALSE(round[1].copy);
      EXPECT_EQ(name(2), "[memset]");
      EXPECT_EQ(round[2].copied_bytes, kFill);
      EXPECT_EQ(name(3), "[memcpy DtoH]");
      EXPECT_EQ(round[3].copied_bytes, kDown);
      for (const KernelRecord& record : round) EXPECT_EQ(record.graph_node != 0, in_graph);
    }
  }
  check_cuda(cudaFreeHost(host), "cudaFreeHost");
  check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A collector that costs much changes what it watches. Whole graphs would cost 8 to 16 % here.
TEST_F(Profile, CostsLessThanATwentiethOfARoundOfThe27B) {
  std::string why;
  KernelCollector* const collector = shared_collector(why);
  if (collector == nullptr) GTEST_SKIP() << why;
  constexpr std::size_t kNeededBytes = std::size_t{24} << 30;
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
  if (free_bytes < kNeededBytes) GTEST_SKIP() << "a 27B with 4-bit weights needs 24 GB";
  const auto checkpoint = engine::open_checkpoint("synthetic:27b?seed=1");
  engine::EngineOptions options;
  options.backend = engine::BackendKind::kCuda;
  options.weights.format = engine::WeightFormat::kQ4;
  options.context = 2048;
  const auto backend = engine::make_backend(*checkpoint, options);
  // Where another test of this process has started the collector, the rounds before are under it too, and only what
  // lies outside of the kernels means something; ctest runs every test alone.
  const RoundProfile profile = profile_rounds(*backend, {512, 1, 60, 1}, [&] {
    backend->expect_driver_records();
    return std::make_unique<Borrowed>(*collector);
  });
  const double round_us = median(profile.profiled_us);
  const double outside_us = round_us - profile.span_us;
  std::printf("27B: %.1f us before, %.1f us a round under the collector, %.1f us of it outside of its kernels\n",
              median(profile.timed_us), round_us, outside_us);
  EXPECT_LT(outside_us, 0.03 * round_us);
  EXPECT_LT(round_us, 1.05 * median(profile.timed_us));
}

// A kernel of a round under programmatic launch: it starts early, waits, and computes for so many ns.
template <int kKind>
__global__ void compute(long long ns) {
  engine::ptx::launch_dependents();
  engine::ptx::wait_for_preceding_grid();
  long long start = 0;
  long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
}

// 20 us more inside one of five kernels are that kernel's, though its successor waits as much longer.
TEST_F(Profile, NamesTheKernelThatIsSlowerInside) {
  std::string why;
  KernelCollector* const collector = shared_collector(why);
  if (collector == nullptr) GTEST_SKIP() << why;
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  constexpr int kRounds = 20;
  const auto table_of = [&](long long handicap_ns) {
    const Graph graph(stream, [&] {
      const engine::CudaLaunch launch{.stream = stream, .programmatic = true};
      engine::launch_kernel("a", compute<0>, {.threads = 32}, launch, 30'000LL);
      engine::launch_kernel("b", compute<1>, {.threads = 32}, launch, 10'000LL);
      engine::launch_kernel("c", compute<2>, {.threads = 32}, launch, 40'000LL + handicap_ns);
      engine::launch_kernel("d", compute<3>, {.threads = 32}, launch, 10'000LL);
      engine::launch_kernel("e", compute<4>, {.threads = 32}, launch, 30'000LL);
    });
    collector->start();
    for (int round = 0; round < kRounds; ++round) {
      graph.launch(stream);
      check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
    const KernelRecords records = collector->take();
    const RoundTable table =
        make_round_table(split_rounds(records, kRounds), records.names, std::vector<engine::LaunchRecord>(1),
                         [](std::size_t, std::size_t) { return RecordLabel{}; });
    std::map<std::string, KernelRow> rows;
    for (const KernelRow& row : table.rows) rows[row.kernel] = row;
    return rows;
  };
  auto plain = table_of(0);
  auto slower = table_of(20'000);
  for (const char* name : {"compute<0>", "compute<1>", "compute<2>", "compute<3>", "compute<4>"}) {
    const double more_us = slower[name].us - plain[name].us;
    std::printf("%s: %.2f -> %.2f us, durations %.2f -> %.2f us\n", name, plain[name].us, slower[name].us,
                plain[name].duration_us, slower[name].duration_us);
    EXPECT_NEAR(more_us, std::string_view(name) == "compute<2>" ? 20.0 : 0.0, 1.0) << name;
  }
  EXPECT_GT(slower["compute<3>"].duration_us - plain["compute<3>"].duration_us, 15.0)
      << "its duration alone would accuse the successor too";
  check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

// One thread that ends at once: as many records a second as a GPU can make.
__global__ void nothing() {}

// Of more kernels than any profile of ours has, every one gives a record with times.
TEST_F(Collector, LosesNoRecordOfAMillionKernels) {
  std::string why;
  KernelCollector* const collector = shared_collector(why);
  if (collector == nullptr) GTEST_SKIP() << why;
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  constexpr int kKernels = 512;
  constexpr int kLaunches = 2000;
  const Graph graph(stream, [&] {
    for (int i = 0; i < kKernels; ++i) nothing<<<1, 32, 0, stream>>>();
  });
  collector->start();
  for (int i = 0; i < kLaunches; ++i) graph.launch(stream);
  const KernelRecords records = collector->take();
  std::printf("%d kernels: %zu records, %llu dropped, %llu invalid\n", kKernels * kLaunches, records.records.size(),
              static_cast<unsigned long long>(records.dropped), static_cast<unsigned long long>(records.invalid));
  EXPECT_EQ(records.records.size(), static_cast<std::size_t>(kKernels) * kLaunches);
  EXPECT_EQ(records.dropped, 0U);
  EXPECT_EQ(records.invalid, 0U);
  std::map<std::uint64_t, int> of_node;
  for (const KernelRecord& record : records.records) ++of_node[record.graph_node];
  EXPECT_EQ(of_node.size(), static_cast<std::size_t>(kKernels));
  for (const auto& [node, count] : of_node) EXPECT_EQ(count, kLaunches) << node;
  check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

// What the backend declares it launched is what ran, kernel for kernel, and the times add up.
TEST_F(Profile, OfTheEmbeddedModelMatchesItsLaunchesAndAddsUp) {
  std::string why;
  KernelCollector* const collector = shared_collector(why);
  if (collector == nullptr) GTEST_SKIP() << why;
  const auto checkpoint = engine::open_checkpoint((source_folder() / "models/embedded").string());
  engine::EngineOptions options;
  options.backend = engine::BackendKind::kCuda;
  options.weights.format = engine::WeightFormat::kQ4;
  const auto backend = engine::make_backend(*checkpoint, options);
  for (const std::int64_t width : {1, 16}) {
    const RoundProfile profile = profile_rounds(*backend, {64, width, 20, 1}, [&] {
      backend->expect_driver_records();  // rounds cut into parts have the same kernels
      return std::make_unique<Borrowed>(*collector);
    });
    EXPECT_EQ(profile.unmatched, "") << width;
    EXPECT_EQ(profile.records, static_cast<std::uint64_t>(20 * profile.kernels));
    double us = profile.idle_us;
    double product_bytes = 0;
    for (const KernelRow& row : profile.rows) {
      us += row.us;
      if (row.launch.starts_with("product")) product_bytes += row.declared_bytes;
    }
    EXPECT_NEAR(us, profile.span_us, 1e-6 * profile.span_us) << width;
    // The products stream every quantised weight once.
    double streamed = 0;
    for (const engine::InventoryEntry& entry : backend->inventory(64, width).entries)
      if (class_of(entry)) streamed += static_cast<double>(entry.bytes_per_round);
    EXPECT_NEAR(product_bytes, streamed, 0.02 * streamed) << width;
  }
}

}  // namespace
}  // namespace tare::profiles
