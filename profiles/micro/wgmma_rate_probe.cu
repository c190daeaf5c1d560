// What small wgmma instructions cost when operand A is in registers: clocks of an SM for one instruction, by N, type,
// groups of four kept in flight in a warpgroup, and warpgroups on the SM. Registers only, one panel in shared memory,
// no memory traffic.   wgmma_rate_probe RESULTS.jsonl
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/ptx.cuh"
#include "profiles/micro/graph_time.h"
#include "profiles/micro/small_wgmma.cuh"

namespace {

using namespace tare::engine;  // NOLINT(google-build-using-namespace): a program, not a header
using namespace tare::micro;   // NOLINT(google-build-using-namespace)

constexpr int kTurns = 512;
constexpr int kInstructionsAGroup = 4;

// clocks[block * 4 + warpgroup]: of kTurns turns, each kGroups groups of four chained instructions, then a wait for
// all.
template <int kTokens, int kGroups>
__global__ void __launch_bounds__(512) rate_kernel(long long* clocks, float* sink) {
  __shared__ __align__(128) std::uint32_t panel[64 * 16 / 2];
  for (unsigned index = threadIdx.x; index < 512; index += blockDim.x) panel[index] = 0x2C00'2E00U + index * 7U;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  std::uint32_t a[16];
  for (unsigned index = 0; index < 16; ++index) {
    a[index] = 0x3400'3500U ^ ((threadIdx.x * 2654435761U + index * 40503U) & 0x00FF'00FFU);
  }
  const std::uint32_t panel_low = panel_low_word<kTokens>(ptx::shared_address(panel));
  float sums[kGroups][kTokens / 2];
  float total = 0.0F;
  __syncthreads();
  const long long begin = clock64();
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) multiply<kTokens>(sums[group], a, panel_low);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) wait_for_sums<0>(sums[group]);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) total += sums[group][0];
  }
  const long long end = clock64();
  if (threadIdx.x % 128 == 0) clocks[blockIdx.x * 4 + threadIdx.x / 128] = end - begin;
  if (total == 12345.0F) sink[threadIdx.x] = total;
}

template <int kTokens, int kGroups>
void measure(const char* results) {
  long long* clocks = nullptr;
  float* sink = nullptr;
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&clocks), 132 * 4 * sizeof(long long)), "cudaMalloc");
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&sink), 4096), "cudaMalloc");
  for (const int warpgroups : {1, 2, 3, 4}) {
    std::vector<long long> host(132 * 4);
    for (int run = 0; run < 3; ++run) {
      rate_kernel<kTokens, kGroups><<<132, 128 * warpgroups>>>(clocks, sink);
      check_cuda(cudaGetLastError(), "rate kernel");
      check_cuda(cudaDeviceSynchronize(), "rate kernel");
    }
    check_cuda(cudaMemcpy(host.data(), clocks, host.size() * sizeof(long long), cudaMemcpyDeviceToHost), "clocks");
    std::vector<long long> block_clocks;
    for (int block = 0; block < 132; ++block) {
      block_clocks.push_back(*std::max_element(host.begin() + block * 4, host.begin() + block * 4 + warpgroups));
    }
    std::sort(block_clocks.begin(), block_clocks.end());
    const double turn_clocks = static_cast<double>(block_clocks[66]) / kTurns;
    char line[320];
    std::snprintf(line, sizeof line,
                  R"({"probe":"wgmma_rate","type":"f16","n":%d,"groups_in_flight":%d,"warpgroups":%d,)"
                  R"("clocks_a_turn":%.1f,"clocks_a_group_and_warpgroup":%.1f,"clocks_an_instruction_and_sm":%.2f})",
                  kTokens, kGroups, warpgroups, turn_clocks, turn_clocks / kGroups,
                  turn_clocks / (kGroups * kInstructionsAGroup * warpgroups));
    tare::micro::append_record(results, line);
  }
  check_cuda(cudaFree(clocks), "cudaFree");
  check_cuda(cudaFree(sink), "cudaFree");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    measure<16, 1>(argv[1]);
    measure<16, 2>(argv[1]);
    measure<16, 3>(argv[1]);
    measure<8, 1>(argv[1]);
    measure<8, 2>(argv[1]);
    return 0;
  } catch (const tare::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return tare::exit_code(error.kind());
  }
}
