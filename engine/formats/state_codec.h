// Recurrent states as they are kept: between tokens (option state.recurrent), and in a prefix cache (option
// prefix_cache.checkpoint). A state is rows of `stride` elements, and `stride` divides its size.
//
//   fp32        as it is
//   bf16, fp16  every element rounded to nearest even; fp16 beyond 65,504 becomes infinity, and the logits name it
//   int8        every row in blocks of 64 with a BF16 scale (cache_blocks.h): codes [rows][stride], then the scales
//               [rows][blocks]
// Encoding what was decoded gives the same bits in every format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/formats/weight_format.h"

namespace tare::engine {

enum class StateFormat { kFP32, kBF16, kFP16, kInt8 };

inline constexpr std::array<FormatName<StateFormat>, 4> kStateFormatNames = {{{"fp32", StateFormat::kFP32},
                                                                              {"bf16", StateFormat::kBF16},
                                                                              {"fp16", StateFormat::kFP16},
                                                                              {"int8", StateFormat::kInt8}}};

// Bytes of a state of `rows` rows.
[[nodiscard]] std::int64_t state_bytes_of(StateFormat format, std::int64_t rows, std::int64_t stride);

// `codes` has the state's bytes. Throws Error (internal) for another size.
void encode_state(StateFormat format, std::span<const float> state, std::int64_t stride, std::span<std::byte> codes);
void decode_state(StateFormat format, std::span<const std::byte> codes, std::int64_t stride, std::span<float> state);

// The values after a round trip through the format, in place.
void round_state(StateFormat format, std::span<float> state, std::int64_t stride);

}  // namespace tare::engine
