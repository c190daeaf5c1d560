#include "engine/formats/cache_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "engine/formats/absmax.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

constexpr std::uint16_t kBFloat16NaN = 0x7FC0U;

void check_block(std::size_t values, std::size_t codes, std::int64_t most) {
  if (values == 0 || values != codes || values > static_cast<std::size_t>(most))
    throw internal_error("a block of a cache has one code a value, and not more than its format says");
}

template <std::int64_t kBlock, class Code, class Encode, class Value>
void round_blocks(std::span<float> row, Encode encode, Value value) {
  std::array<Code, kBlock> codes{};
  for (std::size_t begin = 0; begin < row.size(); begin += kBlock) {
    const std::span<float> block = row.subspan(begin, std::min(row.size() - begin, static_cast<std::size_t>(kBlock)));
    const auto scale = encode(block, std::span(codes).first(block.size()));
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = value(scale, codes[i]);
  }
}

}  // namespace

std::uint16_t encode_int8_block(std::span<const float> values, std::span<std::int8_t> codes) {
  check_block(values.size(), codes.size(), kInt8Block);
  const float absmax = absmax_of(values);
  const bool finite = std::isfinite(absmax);
  if (!finite || absmax < kLeastInt8Absmax) {
    std::fill(codes.begin(), codes.end(), std::int8_t{0});
    return finite ? std::uint16_t{0} : kBFloat16NaN;
  }
  const std::uint16_t scale = float_to_bfloat16(absmax / kInt8MostCode);
  const float reciprocal = 1.0F / bfloat16_to_float(scale);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float code = nearest_integer(values[i] * reciprocal);
    const float held = code > kInt8MostCode ? kInt8MostCode : (code < -kInt8MostCode ? -kInt8MostCode : code);
    codes[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(held));
  }
  return scale;
}

std::uint8_t encode_nvfp4_block(std::span<const float> values, std::span<std::uint8_t> codes) {
  check_block(values.size(), codes.size(), kNVFP4Block);
  const float absmax = absmax_of(values);
  const bool finite = std::isfinite(absmax);
  if (!finite || absmax == 0) {
    std::fill(codes.begin(), codes.end(), std::uint8_t{0});
    return finite ? std::uint8_t{0} : kE4M3NaN;
  }
  const std::uint8_t scale = std::max(float_to_e4m3(absmax / kE2M1Largest), kE4M3LeastSubnormal);
  const float reciprocal = 1.0F / e4m3_to_float(scale);
  for (std::size_t i = 0; i < values.size(); ++i) codes[i] = float_to_e2m1(values[i] * reciprocal);
  return scale;
}

float int8_value(std::uint16_t scale, std::int8_t code) {
  return bfloat16_to_float(scale) * static_cast<float>(code);
}

float nvfp4_value(std::uint8_t scale, std::uint8_t code) {
  return e4m3_to_float(scale) * e2m1_to_float(code);
}

void round_to_int8_blocks(std::span<float> row) {
  round_blocks<kInt8Block, std::int8_t>(row, encode_int8_block, int8_value);
}

void round_to_nvfp4_blocks(std::span<float> row) {
  round_blocks<kNVFP4Block, std::uint8_t>(row, encode_nvfp4_block, nvfp4_value);
}

}  // namespace tare::engine
