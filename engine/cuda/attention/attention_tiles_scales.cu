// attention_tiles of caches with scales, rounds and prefill: keys and values of one format, and the unlike ones of
// has_tiles_kernel.
#include "engine/cuda/attention/attention_tiles_kernel.cuh"

namespace tare::engine {
namespace {

constexpr CacheFormat kBF16 = CacheFormat::kBF16;
constexpr CacheFormat kInt8 = CacheFormat::kInt8;
constexpr CacheFormat kNVFP4 = CacheFormat::kNVFP4;

}  // namespace

void launch_attention_tiles_scales(CacheFormat key, CacheFormat value, int parts,
                                   const AttentionTilesArguments& arguments, const CudaLaunch& where) {
  if (key == kInt8 && value == kInt8) return launch_round_tiles<kInt8, kInt8>(parts, arguments, where);
  if (key == kNVFP4 && value == kNVFP4) return launch_round_tiles<kNVFP4, kNVFP4>(parts, arguments, where);
  if (key == kBF16 && value == kInt8) return launch_mixed_tiles<kBF16, kInt8>(parts, arguments, where);
  if (key == kBF16 && value == kNVFP4) return launch_mixed_tiles<kBF16, kNVFP4>(parts, arguments, where);
  if (key == kInt8 && value == kNVFP4) return launch_mixed_tiles<kInt8, kNVFP4>(parts, arguments, where);
  throw internal_error("tensor-core attention has no such caches with scales");
}

void launch_attention_prefill_scales(CacheFormat key, CacheFormat value, const AttentionTilesArguments& arguments,
                                     const CudaLaunch& where) {
  if (key == kInt8 && value == kInt8) return launch_prefill_tiles<kInt8, kInt8>(arguments, where);
  if (key == kNVFP4 && value == kNVFP4) return launch_prefill_tiles<kNVFP4, kNVFP4>(arguments, where);
  if (key == kBF16 && value == kInt8) return launch_prefill_tiles<kBF16, kInt8>(arguments, where);
  if (key == kBF16 && value == kNVFP4) return launch_prefill_tiles<kBF16, kNVFP4>(arguments, where);
  if (key == kInt8 && value == kNVFP4) return launch_prefill_tiles<kInt8, kNVFP4>(arguments, where);
  throw internal_error("tensor-core attention has no such caches with scales");
}

}  // namespace tare::engine
