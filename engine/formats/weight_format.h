// Names of the weight formats and of the scales of their groups; the definitions are weight_groups.h and nvfp4.h.
#pragma once

namespace tare::engine {

enum class WeightFormat { kBF16, kQ8, kQ5, kQ4, kQ3, kFP8, kNVFP4 };
// Of a group of 64 along K; bf16 has no groups, and NVFP4's are blocks of 16 with E4M3 scales whatever is chosen.
enum class ScaleFormat { kFP16, kE4M3 };

// How a matrix's weights are stored. `scales` says nothing of bf16 (it has none) and of nvfp4 (always E4M3).
struct WeightCodec {
  WeightFormat format = WeightFormat::kBF16;
  ScaleFormat scales = ScaleFormat::kFP16;

  WeightCodec() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a format alone has FP16 scales, as everywhere
  constexpr WeightCodec(WeightFormat format_in, ScaleFormat scales_in = ScaleFormat::kFP16)
      : format(format_in), scales(scales_in) {}
  friend bool operator==(const WeightCodec& a, const WeightCodec& b) = default;
};

}  // namespace tare::engine
