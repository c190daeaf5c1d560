#include "engine/checkpoint/stored_codes.h"

#include <algorithm>
#include <cstring>

namespace tare::engine {

std::int64_t scales_a_row(WeightCodec codec, std::int64_t columns) {
  const std::int64_t block = kGroupSize / static_cast<std::int64_t>(scales_a_group(codec.format));
  return (columns + block - 1) / block;
}

EncodedGroup StoredCodes::group(std::int64_t row, std::int64_t group) const {
  const int bits = code_bits_of(codec.format);
  const auto count = static_cast<std::size_t>(std::min(kGroupSize, columns - group * kGroupSize));
  EncodedGroup result;
  result.fields.fill(static_cast<std::uint8_t>(field_bias_of(codec.format)));
  // A group begins at a whole byte: 64 fields of any width fill whole bytes.
  const auto first =
      static_cast<std::size_t>(row * packed_bytes(columns, bits) + packed_bytes(group * kGroupSize, bits));
  const auto bytes = static_cast<std::size_t>(packed_bytes(static_cast<std::int64_t>(count), bits));
  unpack_fields({reinterpret_cast<const std::uint8_t*>(codes.bytes.data()) + first, bytes}, bits,
                std::span(result.fields).first(count));
  const auto a_group = static_cast<std::int64_t>(scales_a_group(codec.format));
  const std::int64_t a_row = scales_a_row(codec, columns);
  const std::size_t size = scale_bytes(codec);
  for (std::int64_t i = group * a_group; i < std::min(a_row, (group + 1) * a_group); ++i)  // little-endian
    std::memcpy(&result.scales[static_cast<std::size_t>(i - group * a_group)],
                scales.bytes.data() + static_cast<std::size_t>(row * a_row + i) * size, size);
  return result;
}

}  // namespace tare::engine
