// Every codec of weights that CUDA has, for tests that go through all of them.
#pragma once

#include "engine/formats/weight_codes.h"

namespace tare::engine::test {

constexpr WeightCodec kAllCodecs[] = {{WeightFormat::kBF16},
                                      {WeightFormat::kQ8},
                                      {WeightFormat::kQ5},
                                      {WeightFormat::kQ4},
                                      {WeightFormat::kQ3},
                                      {WeightFormat::kFP8},
                                      {WeightFormat::kQ8, ScaleFormat::kE4M3},
                                      {WeightFormat::kQ5, ScaleFormat::kE4M3},
                                      {WeightFormat::kQ4, ScaleFormat::kE4M3},
                                      {WeightFormat::kQ3, ScaleFormat::kE4M3},
                                      {WeightFormat::kFP8, ScaleFormat::kE4M3},
                                      {WeightFormat::kNVFP4, ScaleFormat::kE4M3}};

}  // namespace tare::engine::test
