// What the loader must have put into device memory, made on the host by the scalar definitions, and how it is compared.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/options.h"
#include "engine/checkpoint/stored_codes.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/tiles.h"
#include "engine/formats/absmax.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_codes.h"
#include "tests/cuda/weight_codecs.h"

namespace tare::engine::test {

inline std::string to_text(WeightCodec codec) {
  return engine::to_text(codec.format) + (has_tensor_scale(codec) ? " e4m3" : "");
}

// The scale of each row's tensor, where the codec has one: tensors of so many rows lie over each other in `values`
// [rows][columns]. No part is all rows.
inline std::vector<float> host_row_scales(WeightCodec codec, std::span<const float> values, std::int64_t columns,
                                          std::span<const std::int64_t> parts = {}) {
  std::vector<float> scales;
  if (!has_tensor_scale(codec)) return scales;
  const std::int64_t all = std::ssize(values) / columns;
  const std::vector<std::int64_t> one = {all};
  for (const std::int64_t rows : parts.empty() ? std::span<const std::int64_t>(one) : parts) {
    const std::span<const float> tensor = values.first(static_cast<std::size_t>(rows * columns));
    scales.insert(scales.end(), static_cast<std::size_t>(rows), tensor_scale_of(codec.format, absmax_of(tensor)));
    values = values.subspan(tensor.size());
  }
  return scales;
}

// Two tensors' rows, eight of each in turn.
template <class Element>
std::vector<Element> alternating_rows(std::span<const Element> rows, std::size_t row_size) {
  constexpr std::size_t kRun = 8;
  const std::size_t half = rows.size() / row_size / 2;
  std::vector<Element> result;
  for (std::size_t first = 0; first < half; first += kRun) {
    const std::size_t count = std::min(kRun, half - first);
    for (const std::size_t begin : {first, half + first}) {
      const std::span<const Element> run = rows.subspan(begin * row_size, count * row_size);
      result.insert(result.end(), run.begin(), run.end());
    }
  }
  return result;
}

// The tiles of a matrix [rows][columns] by the encoders of engine/formats and the host's packing.
inline std::vector<std::byte> host_tiles(WeightCodec codec, std::span<const float> values, std::int64_t columns,
                                         std::span<const std::int64_t> parts = {}, bool alternating = false) {
  const auto row_size = static_cast<std::size_t>(columns);
  std::vector<float> row_scales = host_row_scales(codec, values, columns, parts);
  std::vector<float> reordered;
  if (alternating) {
    reordered = alternating_rows(values, row_size);
    values = reordered;
    row_scales = alternating_rows<float>(row_scales, 1);
  }
  std::vector<std::uint16_t> fields;
  std::vector<std::uint16_t> scales;
  fields.reserve(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += row_size) {
    const std::span<const float> row = values.subspan(begin, row_size);
    if (codec.format == WeightFormat::kBF16) {
      std::transform(row.begin(), row.end(), std::back_inserter(fields), float_to_bfloat16);
      continue;
    }
    const float tensor_scale = row_scales.empty() ? 1.0F : row_scales[begin / row_size];
    const std::size_t count = static_cast<std::size_t>(scales_a_row(codec, columns));
    const std::size_t a_group = scales_a_group(codec.format);
    for (std::size_t first = 0; first < row_size; first += static_cast<std::size_t>(kGroupSize)) {
      const std::size_t size = std::min(static_cast<std::size_t>(kGroupSize), row_size - first);
      const EncodedGroup group = encode_weights(codec, tensor_scale, row.subspan(first, size));
      fields.insert(fields.end(), group.fields.begin(), group.fields.begin() + static_cast<std::ptrdiff_t>(size));
      const std::size_t done = first / static_cast<std::size_t>(kGroupSize) * a_group;
      const auto here = static_cast<std::ptrdiff_t>(std::min(a_group, count - done));
      scales.insert(scales.end(), group.scales.begin(), group.scales.begin() + here);
    }
  }
  return pack_tiles({.format = codec.format,
                     .rows = static_cast<std::int64_t>(values.size() / row_size),
                     .columns = columns,
                     .fields = fields,
                     .scales = scales,
                     .scale_format = codec.scales,
                     .row_scales = row_scales});
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
