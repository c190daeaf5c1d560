#include "engine/formats/state_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "engine/formats/cache_blocks.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

std::int64_t blocks_a_row(std::int64_t stride) {
  return (stride + kInt8Block - 1) / kInt8Block;
}

// float_to_float16 and float16_to_float without branches, so that loops over states vectorise; the same bits.
std::uint16_t narrow_to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFF'FFFFU;
  // Normal results: the exponent's bias from 127 to 15, and 13 bits rounded away; a carry may reach infinity.
  const std::uint32_t rebiased = magnitude - (112U << 23);
  const std::uint32_t normal = (rebiased + 0xFFFU + (rebiased >> 13 & 1U)) >> 13;
  // Below 2^-14: added to 0.5 the least significant bit is 2^-24, and the sum rounds as it should.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - (126U << 23);
  std::uint32_t half = magnitude < (113U << 23) ? subnormal : normal;
  half = magnitude >= (143U << 23) ? std::uint32_t{kFloat16Infinity} : half;  // 65,536 and beyond
  half = magnitude > 0x7F80'0000U ? 0x7E00U : half;                           // NaN
  return static_cast<std::uint16_t>(sign | half);
}

float widen_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t shifted = static_cast<std::uint32_t>(half & 0x7FFFU) << 13;
  const std::uint32_t normal = shifted + (112U << 23);
  const float subnormal = std::bit_cast<float>(shifted + (113U << 23)) - 0x1p-14F;
  std::uint32_t bits = shifted < (1U << 23) ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  bits = shifted >= (31U << 23) ? shifted + (224U << 23) : bits;  // infinity, NaN
  return std::bit_cast<float>(bits | sign);
}

void check_sizes(StateFormat format, std::size_t elements, std::int64_t stride, std::size_t bytes) {
  const auto rows = static_cast<std::int64_t>(elements) / stride;
  if (static_cast<std::int64_t>(bytes) != state_bytes_of(format, rows, stride))
    throw internal_error("a state's codes have not the size of the state");
}

}  // namespace

std::int64_t state_bytes_of(StateFormat format, std::int64_t rows, std::int64_t stride) {
  switch (format) {
    case StateFormat::kFP32:
      return rows * stride * 4;
    case StateFormat::kBF16:
    case StateFormat::kFP16:
      return rows * stride * 2;
    case StateFormat::kInt8:
      return rows * (stride + 2 * blocks_a_row(stride));
  }
  throw internal_error("a state's format has no size");
}

void decode_state(StateFormat format, std::span<const std::byte> codes, std::int64_t stride, std::span<float> state) {
  check_sizes(format, state.size(), stride, codes.size());
  const std::size_t count = state.size();
  const std::byte* data = codes.data();
  switch (format) {
    case StateFormat::kFP32:
      std::memcpy(state.data(), data, count * sizeof(float));
      return;
    case StateFormat::kBF16:
      std::transform(reinterpret_cast<const std::uint16_t*>(data), reinterpret_cast<const std::uint16_t*>(data) + count,
                     state.begin(), bfloat16_to_float);
      return;
    case StateFormat::kFP16:
      std::transform(reinterpret_cast<const std::uint16_t*>(data), reinterpret_cast<const std::uint16_t*>(data) + count,
                     state.begin(), widen_float16);
      return;
    case StateFormat::kInt8: {
      const auto* int8_codes = reinterpret_cast<const std::int8_t*>(data);
      const std::byte* scales = data + count;
      const std::int64_t rows = static_cast<std::int64_t>(count) / stride;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t block = 0; block < blocks_a_row(stride); ++block) {
          std::uint16_t scale = 0;
          std::memcpy(&scale, scales + (row * blocks_a_row(stride) + block) * 2, sizeof(scale));
          const std::int64_t end = row * stride + std::min(stride, (block + 1) * kInt8Block);
          for (std::int64_t i = row * stride + block * kInt8Block; i < end; ++i)
            state[static_cast<std::size_t>(i)] = int8_value(scale, int8_codes[i]);
        }
      return;
    }
  }
}

void encode_state(StateFormat format, std::span<const float> state, std::int64_t stride, std::span<std::byte> codes) {
  check_sizes(format, state.size(), stride, codes.size());
  const std::size_t count = state.size();
  std::byte* data = codes.data();
  switch (format) {
    case StateFormat::kFP32:
      std::memcpy(data, state.data(), count * sizeof(float));
      return;
    case StateFormat::kBF16:
      std::transform(state.begin(), state.end(), reinterpret_cast<std::uint16_t*>(data), float_to_bfloat16);
      return;
    case StateFormat::kFP16:
      std::transform(state.begin(), state.end(), reinterpret_cast<std::uint16_t*>(data), narrow_to_float16);
      return;
    case StateFormat::kInt8: {
      auto* int8_codes = reinterpret_cast<std::int8_t*>(data);
      std::byte* scales = data + count;
      const std::int64_t rows = static_cast<std::int64_t>(count) / stride;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t block = 0; block < blocks_a_row(stride); ++block) {
          const std::int64_t begin = row * stride + block * kInt8Block;
          const auto size = static_cast<std::size_t>(std::min(kInt8Block, stride - block * kInt8Block));
          const std::uint16_t scale =
              encode_int8_block(state.subspan(static_cast<std::size_t>(begin), size), {int8_codes + begin, size});
          std::memcpy(scales + (row * blocks_a_row(stride) + block) * 2, &scale, sizeof(scale));
        }
      return;
    }
  }
}

void round_state(StateFormat format, std::span<float> state, std::int64_t stride) {
  switch (format) {
    case StateFormat::kFP32:
      return;
    case StateFormat::kBF16:
      for (float& value : state) value = round_to_bfloat16(value);
      return;
    case StateFormat::kFP16:
      for (float& value : state) value = widen_float16(narrow_to_float16(value));
      return;
    case StateFormat::kInt8:
      for (std::size_t row = 0; row < state.size(); row += static_cast<std::size_t>(stride))
        round_to_int8_blocks(state.subspan(row, static_cast<std::size_t>(stride)));
      return;
  }
}

}  // namespace tare::engine
