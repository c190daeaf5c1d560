// What the loader must have put into device memory, made on the host by the scalar definitions, and how it is compared.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/tiles.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine::test {

constexpr WeightFormat kAllFormats[] = {WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ3,
                                        WeightFormat::kFP8};

// The tiles of a matrix [rows][columns] by the encoders of engine/formats and the host's packing.
inline std::vector<std::byte> host_tiles(WeightFormat format, std::span<const float> values, std::int64_t columns) {
  const auto row_size = static_cast<std::size_t>(columns);
  std::vector<std::uint16_t> fields;
  std::vector<std::uint16_t> scales;
  fields.reserve(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += row_size) {
    const std::span<const float> row = values.subspan(begin, row_size);
    if (format == WeightFormat::kBF16) {
      std::transform(row.begin(), row.end(), std::back_inserter(fields), float_to_bfloat16);
    } else if (format == WeightFormat::kFP8) {
      const EncodedFP8Row encoded = encode_fp8_row(row);
      fields.insert(fields.end(), encoded.codes.begin(), encoded.codes.end());
      scales.insert(scales.end(), encoded.scales.begin(), encoded.scales.end());
    } else {
      const int most = format == WeightFormat::kQ8   ? kQ8MostCode
                       : format == WeightFormat::kQ4 ? kQ4MostCode
                                                     : kQ3MostCode;
      const int bias = format == WeightFormat::kQ8 ? kQ8Bias : format == WeightFormat::kQ4 ? kQ4Bias : kQ3Bias;
      const EncodedRow encoded = encode_row(row, most);
      for (const std::int8_t code : encoded.codes) fields.push_back(static_cast<std::uint16_t>(code + bias));
      scales.insert(scales.end(), encoded.scales.begin(), encoded.scales.end());
    }
  }
  return pack_tiles({.format = format,
                     .rows = static_cast<std::int64_t>(values.size() / row_size),
                     .columns = columns,
                     .fields = fields,
                     .scales = scales});
}

inline std::vector<std::uint16_t> host_bfloat16(std::span<const float> values) {
  std::vector<std::uint16_t> bits;
  std::transform(values.begin(), values.end(), std::back_inserter(bits), float_to_bfloat16);
  return bits;
}

inline std::vector<std::byte> read_bytes(const std::byte* data, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  copy_to_host(result, data);
  return result;
}
inline std::vector<std::byte> read_bytes(const DeviceBuffer& buffer) {
  return read_bytes(buffer.data(), buffer.bytes());
}

// Equal, or how many bytes differ and where the first is.
inline testing::AssertionResult same_bytes(std::span<const std::byte> found, std::span<const std::byte> wanted) {
  if (found.size() != wanted.size())
    return testing::AssertionFailure() << found.size() << " bytes instead of " << wanted.size();
  if (found.empty()) return testing::AssertionFailure() << "nothing to compare";
  std::size_t different = 0;
  std::size_t first = 0;
  for (std::size_t i = found.size(); i-- > 0;)
    if (found[i] != wanted[i]) {
      ++different;
      first = i;
    }
  if (different == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << fmt::format("{} of {} bytes differ, first at {}: {:#04x} instead of {:#04x}",
                                                    different, found.size(), first, static_cast<int>(found[first]),
                                                    static_cast<int>(wanted[first]));
}
template <class Element>
testing::AssertionResult same_bytes(std::span<const std::byte> found, const std::vector<Element>& wanted) {
  return same_bytes(found, std::as_bytes(std::span(wanted)));
}

}  // namespace tare::engine::test
