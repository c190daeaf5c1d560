// attention_tiles of rounds with FP8 keys: every column count that plan_columns gives.
#include "base/error.h"
#include "engine/cuda/attention/attention_tiles_kernel.cuh"

namespace tare::engine {
namespace {

template <CacheFormat kValue, int kTiles>
void launch_columns(int blocks, const AttentionTilesArguments& arguments, const CudaLaunch& launch) {
  constexpr CacheFormat kKey = CacheFormat::kFP8;
  launch_tiles<TilesShape<kKey, kValue, kTiles, true>>("attention_tiles", blocks, arguments, launch);
}

template <CacheFormat kValue>
void launch(int parts, const AttentionTilesArguments& arguments, const CudaLaunch& launch) {
  const int blocks = parts * arguments.kv_heads * arguments.columns.groups + arguments.fill.blocks;
  static_assert(std::size(kColumnTileCounts) == 5);
  switch (arguments.columns.column_tiles) {
    case kColumnTileCounts[0]:
      return launch_columns<kValue, kColumnTileCounts[0]>(blocks, arguments, launch);
    case kColumnTileCounts[1]:
      return launch_columns<kValue, kColumnTileCounts[1]>(blocks, arguments, launch);
    case kColumnTileCounts[2]:
      return launch_columns<kValue, kColumnTileCounts[2]>(blocks, arguments, launch);
    case kColumnTileCounts[3]:
      return launch_columns<kValue, kColumnTileCounts[3]>(blocks, arguments, launch);
    case kColumnTileCounts[4]:
      return launch_columns<kValue, kColumnTileCounts[4]>(blocks, arguments, launch);
    default:
      throw internal_error("no attention kernel has so many columns");
  }
}

}  // namespace

void launch_attention_tiles_fp8_keys(CacheFormat value, int parts, const AttentionTilesArguments& arguments,
                                     const CudaLaunch& where) {
  if (value == CacheFormat::kFP8) return launch<CacheFormat::kFP8>(parts, arguments, where);
  if (value == CacheFormat::kBF16) return launch<CacheFormat::kBF16>(parts, arguments, where);
  throw internal_error("tensor-core attention has no FP32 values");
}

}  // namespace tare::engine
