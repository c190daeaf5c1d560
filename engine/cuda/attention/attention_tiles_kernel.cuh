// attention_tiles in its two uses: a part of a round, rows of prefill.
#pragma once

#include "base/error.h"
#include "engine/cuda/attention/attention_tiles.cuh"
#include "engine/cuda/device/launch.cuh"

namespace tare::engine {

// Successors are let in when the preceding grid has ended, not at once: their weights would come before this launch's
// queries and keys, and the merge may read the gates before its own wait.
template <class Shape>
__device__ __forceinline__ void run_part(const AttentionTilesArguments& arguments, std::byte* shared, int block) {
  const int groups = arguments.columns.groups;
  const int kv_heads = arguments.kv_heads;
  // The groups of a part are neighbours: the second finds the cache in L2.
  const int group = block % groups;
  const int part = block / groups / kv_heads;
  const int frontier = first_position(arguments.positions);
  const int first_token = group * arguments.columns.tokens_a_group;
  const int first = frontier + first_token;
  const int last = frontier + min(first_token + arguments.columns.tokens_a_group, arguments.positions.tokens) - 1;
  int size = part_positions(kv_heads, first);
  const int last_size = part_positions(kv_heads, last);
  // A context shorter than the bound: nothing hangs on this block, and its place is free for the launches behind.
  if (part * size > last && part * last_size > last) return;
  TilesBlock<Shape> tiles(arguments, shared, group, block / groups % kv_heads);
  tiles.set_frontier(frontier);
  int begin = part * size;
  int end = min(begin + size, last + 1);
  if (begin < end) tiles.begin_run(begin, end, frontier);
  tiles.find_places();
  __syncthreads();
  ptx::wait_for_preceding_grid();
  tiles.load_queries();
  ptx::launch_dependents();
  // Almost always one run: the group's last token may be the first of a longer part.
  while (true) {
    if (begin < end) {
      tiles.run();
      tiles.stage();
      tiles.store_part(part, size);
    }
    if (last_size == size) return;
    if (begin < end) tiles.end_run();
    size = last_size;
    begin = part * size;
    end = min(begin + size, last + 1);
    if (begin < end) tiles.begin_run(begin, end, frontier);
  }
}

template <class Shape>
__device__ __forceinline__ void run_prefill(const AttentionTilesArguments& arguments, std::byte* shared, int block) {
  // The longest rows first.
  TilesBlock<Shape> tiles(arguments, shared, arguments.columns.groups - 1 - block / arguments.kv_heads,
                          block % arguments.kv_heads);
  tiles.set_frontier(arguments.positions.first);
  tiles.begin_run(0, tiles.last_position() + 1, arguments.positions.first);
  tiles.find_places();
  __syncthreads();
  ptx::wait_for_preceding_grid();
  tiles.load_queries();
  tiles.run();
  tiles.stage();
  tiles.store_rows();
}

template <class Shape>
__global__ void __launch_bounds__(kTilesThreads, 1)
    attention_tiles_kernel(const __grid_constant__ AttentionTilesArguments arguments) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte shared[];
  const int block = static_cast<int>(blockIdx.x);
  if constexpr (Shape::kRound) {
    if (block < arguments.fill.blocks) {
      fill_l2(arguments.fill, block);
      ptx::wait_for_preceding_grid();
      return;
    }
    run_part<Shape>(arguments, shared, block - arguments.fill.blocks);
  } else {
    ptx::launch_dependents();
    run_prefill<Shape>(arguments, shared, block);
  }
#else
  (void)arguments;
  __trap();  // attention.cpp launches attention_plain on such devices
#endif
}

template <class Shape>
void launch_tiles(const char* name, int blocks, const AttentionTilesArguments& arguments, const CudaLaunch& launch) {
  launch_kernel(name, attention_tiles_kernel<Shape>,
                {.blocks = blocks, .threads = kTilesThreads, .shared_bytes = Shape::kSharedBytes}, launch, arguments);
}

// Rounds: every column count that plan_columns gives.
template <CacheFormat kKey, CacheFormat kValue>
void launch_round_tiles(int parts, const AttentionTilesArguments& arguments, const CudaLaunch& launch) {
  const int blocks = parts * arguments.kv_heads * arguments.columns.groups + arguments.fill.blocks;
  constexpr const char* kName = "attention_tiles";
  static_assert(std::size(kColumnTileCounts) == 5);
  switch (arguments.columns.column_tiles) {
    case kColumnTileCounts[0]:
      return launch_tiles<TilesShape<kKey, kValue, kColumnTileCounts[0], true>>(kName, blocks, arguments, launch);
    case kColumnTileCounts[1]:
      return launch_tiles<TilesShape<kKey, kValue, kColumnTileCounts[1], true>>(kName, blocks, arguments, launch);
    case kColumnTileCounts[2]:
      return launch_tiles<TilesShape<kKey, kValue, kColumnTileCounts[2], true>>(kName, blocks, arguments, launch);
    case kColumnTileCounts[3]:
      return launch_tiles<TilesShape<kKey, kValue, kColumnTileCounts[3], true>>(kName, blocks, arguments, launch);
    case kColumnTileCounts[4]:
      return launch_tiles<TilesShape<kKey, kValue, kColumnTileCounts[4], true>>(kName, blocks, arguments, launch);
    default:
      throw internal_error("no attention kernel has so many columns");
  }
}
// The same of pairs that mixes_scales.
template <CacheFormat kKey, CacheFormat kValue>
void launch_mixed_tiles(int parts, const AttentionTilesArguments& arguments, const CudaLaunch& launch) {
  const int blocks = parts * arguments.kv_heads * arguments.columns.groups + arguments.fill.blocks;
  constexpr const char* kName = "attention_tiles";
  static_assert(std::size(kMixedColumnTileCounts) == 2);
  switch (arguments.columns.column_tiles) {
    case kMixedColumnTileCounts[0]:
      return launch_tiles<TilesShape<kKey, kValue, kMixedColumnTileCounts[0], true>>(kName, blocks, arguments, launch);
    case kMixedColumnTileCounts[1]:
      return launch_tiles<TilesShape<kKey, kValue, kMixedColumnTileCounts[1], true>>(kName, blocks, arguments, launch);
    default:
      throw internal_error("no attention kernel of such caches has so many columns");
  }
}
template <CacheFormat kKey, CacheFormat kValue>
void launch_prefill_tiles(const AttentionTilesArguments& arguments, const CudaLaunch& launch) {
  launch_tiles<TilesShape<kKey, kValue, kMostColumnTiles, false>>(
      "attention_prefill", arguments.kv_heads * arguments.columns.groups, arguments, launch);
}

}  // namespace tare::engine
