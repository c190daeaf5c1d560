// Benchmarks of the CUDA backend's kernels. gpu_bench --benchmark_filter=product/q4 --benchmark_out=FILE
// --benchmark_out_format=json, and the other options of Google Benchmark. Times are those of a launch inside a CUDA
// graph under programmatic launch, by events; weights come from DRAM.
#include "profiles/micro/gpu_bench.h"

#include <cstdio>

#include "base/error.h"
#include "engine/cuda/device/cuda_check.h"
#include "profiles/gpu_read_rate.h"

namespace tare::micro {
namespace {

using engine::check_cuda;

// A captured graph and what it is timed with.
class TimedGraph {
 public:
  explicit TimedGraph(const std::function<void(cudaStream_t)>& enqueue) {
    check_cuda(cudaStreamCreate(&stream_), "create stream");
    check_cuda(cudaEventCreate(&begin_), "create event");
    check_cuda(cudaEventCreate(&end_), "create event");
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "begin capture");
    enqueue(stream_);
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream_, &graph), "end capture");
    check_cuda(cudaGraphInstantiate(&executable_, graph, 0), "instantiate graph");
    check_cuda(cudaGraphDestroy(graph), "destroy graph");
  }
  TimedGraph(const TimedGraph&) = delete;
  TimedGraph& operator=(const TimedGraph&) = delete;
  ~TimedGraph() {
    cudaGraphExecDestroy(executable_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  double replay_seconds() {
    check_cuda(cudaEventRecord(begin_, stream_), "record event");
    check_cuda(cudaGraphLaunch(executable_, stream_), "launch graph");
    check_cuda(cudaEventRecord(end_, stream_), "record event");
    check_cuda(cudaEventSynchronize(end_), "wait for graph");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "read events");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::size_t l2_bytes() {
  int bytes = 0;
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, 0), "L2 cache size");
  return static_cast<std::size_t>(bytes);
}

int product_blocks() {
  int multiprocessors = 0;
  check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "multiprocessors");
  return 2 * multiprocessors;
}

double read_rate() {
  static const double rate = [] {
    constexpr int kPasses = 5;
    const profiles::ReadRateSource source = profiles::gpu_read_rate(0);
    return source.make(source.beyond_caches)->measure(kPasses);
  }();
  return rate;
}

void run_graph(benchmark::State& state, const std::function<void(cudaStream_t)>& enqueue, int launches,
               std::size_t bytes) {
  TimedGraph graph(enqueue);
  (void)graph.replay_seconds();  // not timed: clocks and instruction caches
  double seconds = 0;
  while (state.KeepRunningBatch(launches)) {
    const double replay = graph.replay_seconds();
    seconds += replay;
    state.SetIterationTime(replay);
  }
  const double rate = static_cast<double>(bytes) * static_cast<double>(state.iterations()) / seconds;
  state.counters["GB/s"] = 1e-9 * rate;
  state.counters["read_GB/s"] = 1e-9 * read_rate();
  state.counters["share"] = rate / read_rate();
  state.counters["us_a_launch"] = 1e6 * seconds / static_cast<double>(state.iterations());
}

}  // namespace tare::micro

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    tare::micro::register_product_benchmarks();
    tare::micro::register_attention_benchmarks();
    tare::micro::register_gdn_benchmarks();
    benchmark::RunSpecifiedBenchmarks();
  } catch (const tare::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return tare::exit_code(error.kind());
  }
  benchmark::Shutdown();
  return 0;
}
