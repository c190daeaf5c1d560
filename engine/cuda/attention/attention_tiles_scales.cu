// attention_tiles of caches with scales, rounds and prefill. Keys and values of one format: of unlike ones every pair
// would be six kernels more, and they run in FP32 (attention_layout.h: has_tiles_kernel).
#include "engine/cuda/attention/attention_tiles_kernel.cuh"

namespace tare::engine {

void launch_attention_tiles_scales(CacheFormat format, int parts, const AttentionTilesArguments& arguments,
                                   const CudaLaunch& where) {
  constexpr CacheFormat kInt8 = CacheFormat::kInt8;
  constexpr CacheFormat kNVFP4 = CacheFormat::kNVFP4;
  if (format == kInt8) return launch_round_tiles<kInt8, kInt8>(parts, arguments, where);
  if (format == kNVFP4) return launch_round_tiles<kNVFP4, kNVFP4>(parts, arguments, where);
  throw internal_error("tensor-core attention has no such caches with scales");
}

void launch_attention_prefill_scales(CacheFormat format, const AttentionTilesArguments& arguments,
                                     const CudaLaunch& where) {
  constexpr CacheFormat kInt8 = CacheFormat::kInt8;
  constexpr CacheFormat kNVFP4 = CacheFormat::kNVFP4;
  if (format == kInt8) return launch_prefill_tiles<kInt8, kInt8>(arguments, where);
  if (format == kNVFP4) return launch_prefill_tiles<kNVFP4, kNVFP4>(arguments, where);
  throw internal_error("tensor-core attention has no such caches with scales");
}

}  // namespace tare::engine
