// attention_tiles of rounds with BF16 keys.
#include "engine/cuda/attention/attention_tiles_kernel.cuh"

namespace tare::engine {

void launch_attention_tiles_bf16_keys(CacheFormat value, int parts, const AttentionTilesArguments& arguments,
                                      const CudaLaunch& where) {
  constexpr CacheFormat kKey = CacheFormat::kBF16;
  if (value == CacheFormat::kFP8) return launch_round_tiles<kKey, CacheFormat::kFP8>(parts, arguments, where);
  if (value == CacheFormat::kBF16) return launch_round_tiles<kKey, CacheFormat::kBF16>(parts, arguments, where);
  throw internal_error("tensor-core attention has no such values for BF16 keys");
}

}  // namespace tare::engine
