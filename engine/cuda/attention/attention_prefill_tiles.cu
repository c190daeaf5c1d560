// attention_tiles of prefill, formats without scales.
#include "engine/cuda/attention/attention_tiles_kernel.cuh"

namespace tare::engine {

void launch_attention_prefill_tiles(CacheFormat key, CacheFormat value, const AttentionTilesArguments& arguments,
                                    const CudaLaunch& where) {
  constexpr CacheFormat kBF16 = CacheFormat::kBF16;
  constexpr CacheFormat kFP8 = CacheFormat::kFP8;
  if (key == kBF16 && value == kBF16) return launch_prefill_tiles<kBF16, kBF16>(arguments, where);
  if (key == kFP8 && value == kFP8) return launch_prefill_tiles<kFP8, kFP8>(arguments, where);
  if (key == kBF16 && value == kFP8) return launch_prefill_tiles<kBF16, kFP8>(arguments, where);
  if (key == kFP8 && value == kBF16) return launch_prefill_tiles<kFP8, kBF16>(arguments, where);
  throw internal_error("tensor-core attention has no such caches");
}

}  // namespace tare::engine
