// Google Benchmark on a GPU: what every area's benchmarks share. gpu_bench.cpp is the program; an area registers its
// own.
#pragma once

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace tare::micro {

// Working sets rotate past the L2 cache this many times over.
constexpr int kCachesApart = 4;

// Bytes of device 0's L2 cache.
[[nodiscard]] std::size_t l2_bytes();
// Plain read rate of device 0, bytes a second, measured once in this process.
[[nodiscard]] double read_rate();

// Times what `enqueue` puts into the stream as one graph of `launches` launches, the benchmark's iterations being
// launches, and sets the counters: GB/s, share of the read rate (`bytes` of one launch), the read rate, us_a_launch.
void run_graph(benchmark::State& state, const std::function<void(cudaStream_t)>& enqueue, int launches,
               std::size_t bytes);

// Thread blocks of a product as the engine launches it: two an SM.
[[nodiscard]] int product_blocks();

// One function an area; called before the benchmarks run.
void register_attention_benchmarks();
void register_gdn_benchmarks();
void register_product_benchmarks();

}  // namespace tare::micro
