// Read rate of a ring of bulk copies without any computing: by stage size, stages, thread blocks an SM, megabytes a
// launch and programmatic launch.   ring_probe RESULTS.jsonl
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "profiles/micro/graph_time.h"

namespace {

using namespace tare::engine;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr double kReadRate = 4534e9;
constexpr std::size_t kTotalBytes = std::size_t{13} << 30;
constexpr std::size_t kGraphBytes = std::size_t{3} << 30;
constexpr int kMostStages = 32;

// Thread 32 asks for the stages of this block's contiguous slice, warp 0 waits for each and frees it.
__global__ void __launch_bounds__(64)
    ring_kernel(const std::byte* data, int stage_bytes, int stages, int blocks_stages) {
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ std::uint64_t full[kMostStages];
  __shared__ std::uint64_t empty[kMostStages];
  ptx::launch_dependents();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; ++stage) {
      ptx::barrier_init(ptx::shared_address(full + stage), 1);
      ptx::barrier_init(ptx::shared_address(empty + stage), 1);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    const std::uint64_t policy = ptx::evict_first_policy();
    const std::byte* source = data + static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(blocks_stages) *
                                         static_cast<std::size_t>(stage_bytes);
    int stage = 0;
    std::uint32_t parity = 1;  // the first lap finds every stage free
    for (int index = 0; index < blocks_stages; ++index) {
      ptx::barrier_wait(ptx::shared_address(empty + stage), parity);
      ptx::barrier_arrive_expect(ptx::shared_address(full + stage), static_cast<std::uint32_t>(stage_bytes));
      ptx::bulk_copy(ptx::shared_address(shared) + static_cast<std::uint32_t>(stage * stage_bytes), source,
                     static_cast<std::uint32_t>(stage_bytes), ptx::shared_address(full + stage), policy);
      source += stage_bytes;
      if (++stage == stages) stage = 0, parity ^= 1U;
    }
    ptx::wait_for_preceding_grid();
  } else if (threadIdx.x < 32) {
    ptx::wait_for_preceding_grid();
    int stage = 0;
    std::uint32_t parity = 0;
    for (int index = 0; index < blocks_stages; ++index) {
      ptx::barrier_wait(ptx::shared_address(full + stage), parity);
      __syncwarp();
      if (threadIdx.x == 0) ptx::barrier_arrive(ptx::shared_address(empty + stage));
      if (++stage == stages) stage = 0, parity ^= 1U;
    }
  }
}

__global__ void fill(uint4* words, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t index = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; index < count;
       index += step) {
    const auto word = static_cast<std::uint32_t>(index * 2654435761U ^ (index >> 7));
    words[index] = make_uint4(word, word * 40503U, ~word, word ^ 0x5A5A'5A5AU);
  }
}

struct Ring {
  int stage_bytes;
  int stages;
  int blocks;
};

void measure(cudaStream_t stream, const std::byte* data, const Ring& ring, double megabytes, bool programmatic,
             const char* results) {
  const int blocks_stages = static_cast<int>(megabytes * 1e6 / ring.blocks / ring.stage_bytes + 0.5);
  const std::size_t launch_bytes = static_cast<std::size_t>(ring.blocks) * static_cast<std::size_t>(blocks_stages) *
                                   static_cast<std::size_t>(ring.stage_bytes);
  const int launches = static_cast<int>(kGraphBytes / launch_bytes);
  const tare::micro::GraphTime time = tare::micro::time_graph(
      stream,
      [&] {
        for (int launch = 0; launch < launches; ++launch) {
          launch_kernel("ring", ring_kernel,
                        {.blocks = ring.blocks, .threads = 64, .shared_bytes = ring.stages * ring.stage_bytes},
                        {.stream = stream, .programmatic = programmatic},
                        data + static_cast<std::size_t>(launch) * launch_bytes, ring.stage_bytes, ring.stages,
                        blocks_stages);
        }
      },
      2, 7);
  const double bytes = static_cast<double>(launch_bytes) * launches;
  char line[400];
  std::snprintf(line, sizeof line,
                R"({"probe":"ring","stage_bytes":%d,"stages":%d,"blocks":%d,"megabytes_a_launch":%.1f,"launches":%d,)"
                R"("programmatic":%s,"us_a_launch":%.2f,"gb_per_s":%.1f,"share":%.4f})",
                ring.stage_bytes, ring.stages, ring.blocks, static_cast<double>(launch_bytes) / 1e6, launches,
                programmatic ? "true" : "false", time.median_us / launches, bytes / time.median_us / 1e3,
                bytes / (time.median_us * 1e-6) / kReadRate);
  tare::micro::append_record(results, line);
}

void run(const char* results) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreate(&stream), "stream");
  std::byte* data = nullptr;
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&data), kTotalBytes), "cudaMalloc");
  fill<<<1056, 512, 0, stream>>>(reinterpret_cast<uint4*>(data), kTotalBytes / 16);
  check_cuda(cudaStreamSynchronize(stream), "fill");
  // One block an SM that leaves room for its successor; two an SM; one an SM with all of the shared memory.
  const Ring rings[] = {{8704, 10, 132}, {8704, 12, 132}, {17408, 5, 132}, {17408, 6, 132}, {4352, 24, 132},
                        {34816, 3, 132}, {8704, 12, 264}, {17408, 6, 264}, {8704, 25, 132}, {17408, 12, 132}};
  for (const double megabytes : {211.0, 53.0, 25.0, 16.7}) {
    for (const bool programmatic : {true, false}) {
      for (const Ring& ring : rings) measure(stream, data, ring, megabytes, programmatic, results);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    run(argv[1]);
    return 0;
  } catch (const tare::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return tare::exit_code(error.kind());
  }
}
