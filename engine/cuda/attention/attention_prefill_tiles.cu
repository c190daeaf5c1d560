// attention_tiles of prefill.
#include "base/error.h"
#include "engine/cuda/attention/attention_tiles_kernel.cuh"

namespace tare::engine {
namespace {

template <CacheFormat kKey, CacheFormat kValue>
void launch(const AttentionTilesArguments& arguments, const CudaLaunch& launch) {
  launch_tiles<TilesShape<kKey, kValue, kMostColumnTiles, false>>(
      "attention_prefill", arguments.kv_heads * arguments.columns.groups, arguments, launch);
}

}  // namespace

void launch_attention_prefill_tiles(CacheFormat key, CacheFormat value, const AttentionTilesArguments& arguments,
                                    const CudaLaunch& where) {
  constexpr CacheFormat kBF16 = CacheFormat::kBF16;
  constexpr CacheFormat kFP8 = CacheFormat::kFP8;
  if (key == kBF16 && value == kBF16) return launch<kBF16, kBF16>(arguments, where);
  if (key == kFP8 && value == kFP8) return launch<kFP8, kFP8>(arguments, where);
  if (key == kBF16 && value == kFP8) return launch<kBF16, kFP8>(arguments, where);
  if (key == kFP8 && value == kBF16) return launch<kFP8, kBF16>(arguments, where);
  throw internal_error("tensor-core attention has no FP32 caches");
}

}  // namespace tare::engine
