#include "engine/formats/weight_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/formats/absmax.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

std::uint16_t group_scale(float absmax, float most_code) {
  const std::uint16_t scale = float_to_float16(absmax / most_code);
  if (scale >= kFloat16Infinity)
    throw input_error("", fmt::format("a weight of magnitude {} is too large for a group's FP16 scale", absmax),
                      "keep this tensor in bf16 with weights.overrides");
  if (scale == 0 && absmax > 0) return kFloat16LeastSubnormal;
  return scale;
}

void check_group(std::size_t values, std::size_t codes) {
  if (values == 0 || values != codes || values > static_cast<std::size_t>(kGroupSize))
    throw internal_error("encode_group: a group has 1 to 64 values and as many codes");
}

// A row is its groups, one after the other; `encode` takes the values and codes of one and returns its scale.
template <class Row, class Encode>
Row encode_groups(std::span<const float> values, Encode encode) {
  const auto columns = static_cast<std::int64_t>(values.size());
  Row row{};
  row.codes.resize(values.size());
  for (std::int64_t begin = 0; begin < columns; begin += kGroupSize) {
    const auto offset = static_cast<std::size_t>(begin);
    const auto size = static_cast<std::size_t>(std::min(kGroupSize, columns - begin));
    row.scales.push_back(encode(values.subspan(offset, size), std::span(row.codes).subspan(offset, size)));
  }
  return row;
}

template <class Row, class Value>
std::vector<float> decode_groups(const Row& row, Value value) {
  std::vector<float> values(row.codes.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = float16_to_float(row.scales[i / static_cast<std::size_t>(kGroupSize)]) * value(row.codes[i]);
  return values;
}

}  // namespace

std::uint16_t encode_group(std::span<const float> values, int most_code, std::span<std::int8_t> codes) {
  check_group(values.size(), codes.size());
  const auto most = static_cast<float>(most_code);
  const std::uint16_t scale = group_scale(absmax_of(values), most);
  if (scale == 0) {
    std::fill(codes.begin(), codes.end(), std::int8_t{0});
    return scale;
  }
  const float reciprocal = 1.0F / float16_to_float(scale);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float code = nearest_integer(values[i] * reciprocal);
    const float held = code > most ? most : (code < -most ? -most : code);
    codes[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(held));
  }
  return scale;
}

std::uint16_t encode_fp8_group(std::span<const float> values, std::span<std::uint8_t> codes) {
  check_group(values.size(), codes.size());
  const std::uint16_t scale = group_scale(absmax_of(values), kE4M3Largest);
  if (scale == 0) {
    std::fill(codes.begin(), codes.end(), std::uint8_t{0});
    return scale;
  }
  const float reciprocal = 1.0F / float16_to_float(scale);
  for (std::size_t i = 0; i < values.size(); ++i) codes[i] = float_to_e4m3(values[i] * reciprocal);
  return scale;
}

EncodedRow encode_row(std::span<const float> values, int most_code) {
  return encode_groups<EncodedRow>(values, [most_code](std::span<const float> group, std::span<std::int8_t> codes) {
    return encode_group(group, most_code, codes);
  });
}

EncodedFP8Row encode_fp8_row(std::span<const float> values) {
  return encode_groups<EncodedFP8Row>(values, encode_fp8_group);
}

std::vector<float> decode_row(const EncodedRow& row) {
  return decode_groups(row, [](std::int8_t code) { return static_cast<float>(code); });
}

std::vector<float> decode_row(const EncodedFP8Row& row) {
  return decode_groups(row, e4m3_to_float);
}

std::uint32_t pack_q8_word(std::span<const std::int8_t, kQ8CodesPerWord> codes) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) word |= static_cast<std::uint32_t>(codes[i] + kQ8Bias) << (8 * i);
  return word;
}

std::array<std::int8_t, kQ8CodesPerWord> unpack_q8_word(std::uint32_t word) {
  std::array<std::int8_t, kQ8CodesPerWord> codes{};
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::int8_t>(static_cast<int>((word >> (8 * i)) & 0xFFU) - kQ8Bias);
  return codes;
}

std::uint32_t pack_q4_word(std::span<const std::int8_t, kQ4CodesPerWord> codes) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    word |= static_cast<std::uint32_t>(codes[i] + kQ4Bias) << (8 * i);
    word |= static_cast<std::uint32_t>(codes[i + 4] + kQ4Bias) << (8 * i + 4);
  }
  return word;
}

std::array<std::int8_t, kQ4CodesPerWord> unpack_q4_word(std::uint32_t word) {
  std::array<std::int8_t, kQ4CodesPerWord> codes{};
  for (std::size_t i = 0; i < 4; ++i) {
    codes[i] = static_cast<std::int8_t>(static_cast<int>((word >> (8 * i)) & 0xFU) - kQ4Bias);
    codes[i + 4] = static_cast<std::int8_t>(static_cast<int>((word >> (8 * i + 4)) & 0xFU) - kQ4Bias);
  }
  return codes;
}

}  // namespace tare::engine
