// A tensor whose weights a checkpoint holds as codes (docs/protocol/quantised-checkpoint.md).
#pragma once

#include <cstdint>

#include "engine/checkpoint/checkpoint.h"
#include "engine/formats/weight_codes.h"

namespace tare::engine {

struct StoredCodes {
  WeightCodec codec;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float tensor_scale = 1;
  Tensor codes;   // U8 [rows, packed_bytes(columns, bits)]
  Tensor scales;  // F16 or F8_E4M3 [rows, groups], NVFP4 [rows, blocks of 16]

  // The fields and scales of a group of a row; what is missing to 64 in the last one is code 0.
  [[nodiscard]] EncodedGroup group(std::int64_t row, std::int64_t group) const;
};

// In a file, beside the name of the tensor: NAME.codes, NAME.scales, and NAME.tensor_scale where the codec has one.
inline constexpr const char* kCodesSuffix = ".codes";
inline constexpr const char* kScalesSuffix = ".scales";
inline constexpr const char* kTensorScaleSuffix = ".tensor_scale";

// How many scales a row of `columns` has.
[[nodiscard]] std::int64_t scales_a_row(WeightCodec codec, std::int64_t columns);

}  // namespace tare::engine
