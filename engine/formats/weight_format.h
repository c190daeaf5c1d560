// Names of the weight formats and of the scales of their groups; the definitions are weight_groups.h and nvfp4.h.
#pragma once

#include <array>

namespace tare::engine {

enum class WeightFormat { kBF16, kQ8, kQ5, kQ4, kQ3, kFP8, kNVFP4 };
// Of a group of 64 along K; bf16 has no groups, and NVFP4's are blocks of 16 with E4M3 scales whatever is chosen.
enum class ScaleFormat { kFP16, kE4M3 };

// What options and files call them.
template <class Format>
struct FormatName {
  const char* text;
  Format value;
};
inline constexpr std::array<FormatName<WeightFormat>, 7> kWeightFormatNames = {{{"bf16", WeightFormat::kBF16},
                                                                                {"q8", WeightFormat::kQ8},
                                                                                {"q5", WeightFormat::kQ5},
                                                                                {"q4", WeightFormat::kQ4},
                                                                                {"q3", WeightFormat::kQ3},
                                                                                {"fp8", WeightFormat::kFP8},
                                                                                {"nvfp4", WeightFormat::kNVFP4}}};
inline constexpr std::array<FormatName<ScaleFormat>, 2> kScaleFormatNames = {
    {{"fp16", ScaleFormat::kFP16}, {"e4m3", ScaleFormat::kE4M3}}};

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
