#include "engine/cpu/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "engine/formats/absmax.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kWordBytes = 4;
constexpr std::int64_t kBF16PerWord = 2;

constexpr std::int64_t kQ4Words = kGroupSize / kQ4CodesPerWord;
constexpr std::int64_t kQ5HighWords = 2;  // fifth bits, of four of q4's words each

std::int64_t words_a_group(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBF16:
      return kGroupSize / kBF16PerWord;
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      return kGroupSize / kQ8CodesPerWord;
    case WeightFormat::kQ5:
      return kQ4Words + kQ5HighWords;
    case WeightFormat::kQ4:
    case WeightFormat::kQ3:
    case WeightFormat::kNVFP4:
      return kQ4Words;
  }
  throw internal_error("a weight format has no packing on the CPU");
}

using GroupWords = std::array<std::uint32_t, kGroupSize / kBF16PerWord>;

// One row's group as words. `values` has 1..64 elements; what is missing are zero weights.
GroupWords bfloat16_words(std::span<const float> values) {
  GroupWords words{};
  for (std::size_t i = 0; i < values.size(); ++i)
    words[i / 2] |= static_cast<std::uint32_t>(float_to_bfloat16(values[i])) << (16 * (i % 2));
  return words;
}

constexpr std::uint32_t kLowNibbles = 0x0F0F0F0FU;
constexpr std::uint32_t kLowBits = 0x01010101U;

// Fields i .. i + 3 as the bytes of a word (little-endian, as everything here).
std::uint32_t four_fields(const std::array<std::uint8_t, kGroupSize>& fields, std::size_t i) {
  std::uint32_t word = 0;
  std::memcpy(&word, fields.data() + i, sizeof(word));
  return word;
}

// Four bits of every field in q4's order, after `bias` was added to each.
void put_nibbles(const std::array<std::uint8_t, kGroupSize>& fields, std::uint32_t bias, GroupWords& words) {
  for (std::size_t word = 0; word < static_cast<std::size_t>(kQ4Words); ++word) {
    const std::uint32_t low = four_fields(fields, kQ4CodesPerWord * word) + bias * kLowBits;
    const std::uint32_t high = four_fields(fields, kQ4CodesPerWord * word + 4) + bias * kLowBits;
    words[word] = (low & kLowNibbles) | (high & kLowNibbles) << 4;
  }
}

GroupWords words_of(WeightFormat format, const std::array<std::uint8_t, kGroupSize>& fields) {
  GroupWords words{};
  switch (format) {
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      std::memcpy(words.data(), fields.data(), fields.size());
      return words;
    case WeightFormat::kQ5:
      put_nibbles(fields, 0, words);
      for (std::size_t word = 0; word < static_cast<std::size_t>(kQ4Words); ++word) {
        const std::uint32_t low = four_fields(fields, kQ4CodesPerWord * word) >> 4 & kLowBits;
        const std::uint32_t high = four_fields(fields, kQ4CodesPerWord * word + 4) >> 4 & kLowBits;
        words[static_cast<std::size_t>(kQ4Words) + word / 4] |= (low | high << 1) << (2 * (word % 4));
      }
      return words;
    case WeightFormat::kQ4:
    case WeightFormat::kNVFP4:
      put_nibbles(fields, 0, words);
      return words;
    case WeightFormat::kQ3:
      put_nibbles(fields, kQ4Bias - kQ3Bias, words);  // the same codes as q4's
      return words;
    case WeightFormat::kBF16:
      break;
  }
  throw internal_error("bf16 weights have no fields");
}

}  // namespace

std::int64_t scale_bytes_per_panel_group(WeightCodec codec) {
  if (codec.format == WeightFormat::kBF16) return 0;
  return kPanelRows * static_cast<std::int64_t>(scales_a_group(codec.format) * scale_bytes(codec));
}

std::int64_t bytes_per_panel_group(WeightCodec codec) {
  return scale_bytes_per_panel_group(codec) + kPanelRows * words_a_group(codec.format) * kWordBytes;
}

PackedMatrix::PackedMatrix(WeightCodec codec, std::int64_t rows, std::int64_t columns)
    : codec_(normalized(codec)),
      rows_(rows),
      columns_(columns),
      groups_(group_count(columns)),
      panels_((rows + kPanelRows - 1) / kPanelRows),
      data_(static_cast<std::size_t>(panels_ * groups_ * bytes_per_panel_group(codec_))) {
  if (has_tensor_scale(codec_)) {
    row_scales_ = AlignedBuffer<float>(static_cast<std::size_t>(panels_ * kPanelRows));
    std::fill_n(row_scales_.data(), row_scales_.size(), 1.0F);
  }
  // Zero weights are not zero bytes (codes are biased): the rows that fill up the last panel are packed as well.
  const std::vector<float> zeros(static_cast<std::size_t>(columns));
  for (std::int64_t row = rows; row < panels_ * kPanelRows; ++row) pack_rows(row, zeros);
}

void PackedMatrix::set_tensor_scale(std::int64_t first_row, std::int64_t count, float scale) {
  if (!has_tensor_scale(codec_) || first_row < 0 || first_row + count > rows_)
    throw internal_error("set_tensor_scale: not of these rows");
  std::fill_n(row_scales_.data() + first_row, count, scale);
}

void PackedMatrix::pack_rows(std::int64_t first_row, std::span<const float> values) {
  const auto columns = static_cast<std::size_t>(columns_);
  const auto count = static_cast<std::int64_t>(values.size() / columns);
  const std::int64_t panel = first_row / kPanelRows;
  if (values.size() % columns != 0 || count < 1 || (first_row + count - 1) / kPanelRows != panel || panel >= panels_)
    throw internal_error("pack_rows: the rows do not lie in one panel");
  for (std::int64_t row = first_row; row < first_row + count; ++row) {
    const std::span<const float> row_values =
        values.subspan(static_cast<std::size_t>(row - first_row) * columns, columns);
    const float tensor_scale = row_scales_.size() == 0 ? 1.0F : row_scales_.data()[row];
    for (std::int64_t group = 0; group < groups_; ++group) {
      const auto begin = static_cast<std::size_t>(group * kGroupSize);
      const std::span<const float> group_values =
          row_values.subspan(begin, std::min(columns - begin, static_cast<std::size_t>(kGroupSize)));
      if (codec_.format == WeightFormat::kBF16) {
        put_words(row, group, bfloat16_words(group_values), {});
      } else {
        put_group(row, group, encode_weights(codec_, tensor_scale, group_values));
      }
    }
  }
}

void PackedMatrix::put_group(std::int64_t row, std::int64_t group, const EncodedGroup& encoded) {
  put_words(row, group, words_of(codec_.format, encoded.fields),
            std::span(encoded.scales).first(scales_a_group(codec_.format)));
}

void PackedMatrix::put_words(std::int64_t row, std::int64_t group, std::span<const std::uint32_t> words,
                             std::span<const std::uint16_t> scales) {
  const auto lane = static_cast<std::size_t>(row % kPanelRows);
  std::byte* out = data_.data() + row / kPanelRows * bytes_per_panel() + group * bytes_per_panel_group(codec_);
  const std::size_t size = scale_bytes(codec_);
  for (std::size_t i = 0; i < scales.size(); ++i)  // little-endian: an E4M3 scale is the low byte
    std::memcpy(out + (i * kPanelRows + lane) * size, &scales[i], size);
  out += scale_bytes_per_panel_group(codec_);
  for (std::size_t word = 0; word < static_cast<std::size_t>(words_a_group(codec_.format)); ++word)
    std::memcpy(out + (word * kPanelRows + lane) * kWordBytes, &words[word], kWordBytes);
}

std::int64_t PackedMatrix::row_bytes() const {
  return bytes_per_panel() / kPanelRows + (row_scales_.size() == 0 ? 0 : static_cast<std::int64_t>(sizeof(float)));
}

// Calls copy(place in the panel's group, place in the row by itself, bytes) for every word and scale of a row.
template <class Copy>
void PackedMatrix::walk_row(std::int64_t row, Copy copy) const {
  if (row < 0 || row >= rows_) throw internal_error("a row that the packed matrix does not have");
  const std::int64_t lane = row % kPanelRows;
  const std::int64_t scales_size = scale_bytes_per_panel_group(codec_);
  const auto scale_size = static_cast<std::int64_t>(scale_bytes(codec_));
  const std::int64_t words = words_a_group(codec_.format);
  const std::int64_t scales = scales_size / kPanelRows / scale_size;
  std::int64_t group_begin = row / kPanelRows * bytes_per_panel();
  for (std::int64_t group = 0; group < groups_; ++group, group_begin += bytes_per_panel_group(codec_)) {
    const std::int64_t first = group_begin + scales_size + lane * kWordBytes;
    for (std::int64_t word = 0; word < words; ++word)
      copy(static_cast<std::size_t>(first + word * kPanelRows * kWordBytes),
           static_cast<std::size_t>((group * words + word) * kWordBytes), kWordBytes);
    for (std::int64_t scale = 0; scale < scales; ++scale)
      copy(static_cast<std::size_t>(group_begin + (scale * kPanelRows + lane) * scale_size),
           static_cast<std::size_t>(groups_ * words * kWordBytes + (group * scales + scale) * scale_size), scale_size);
  }
}

void PackedMatrix::read_row(std::int64_t row, std::span<std::byte> out) const {
  walk_row(row, [&](std::size_t packed, std::size_t own, std::int64_t size) {
    std::memcpy(out.data() + own, data_.data() + packed, static_cast<std::size_t>(size));
  });
  if (row_scales_.size() == 0) return;
  std::memcpy(out.data() + out.size() - sizeof(float), row_scales_.data() + row, sizeof(float));
}

void PackedMatrix::write_row(std::int64_t row, std::span<const std::byte> in) {
  walk_row(row, [&](std::size_t packed, std::size_t own, std::int64_t size) {
    std::memcpy(data_.data() + packed, in.data() + own, static_cast<std::size_t>(size));
  });
  if (row_scales_.size() == 0) return;
  std::memcpy(row_scales_.data() + row, in.data() + in.size() - sizeof(float), sizeof(float));
}

float tensor_absmax(const Tensor& tensor, ThreadPool& pool) {
  const auto rows = static_cast<std::size_t>(tensor.shape.front());
  std::vector<float> most(static_cast<std::size_t>(pool.size()));
  pool.parallel_for(rows, 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const std::vector<float> values = to_floats(tensor.rows(static_cast<std::int64_t>(row), 1));
      float& largest = most[static_cast<std::size_t>(thread)];
      largest = std::max(largest, absmax_of(values));
    }
  });
  return *std::max_element(most.begin(), most.end());
}

PackedMatrix pack_matrix(std::span<const Tensor> tensors, WeightCodec codec, ThreadPool& pool) {
  std::int64_t rows = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.shape.size() != 2 || tensor.shape[1] != tensors.front().shape[1])
      throw internal_error("pack_matrix: tensors of different width");
    rows += tensor.shape[0];
  }
  PackedMatrix matrix(codec, rows, tensors.front().shape[1]);
  if (has_tensor_scale(matrix.codec())) {
    std::int64_t first = 0;
    for (const Tensor& tensor : tensors) {
      matrix.set_tensor_scale(first, tensor.shape[0], tensor_scale_of(codec.format, tensor_absmax(tensor, pool)));
      first += tensor.shape[0];
    }
  }
  const auto pack_panels = [&](int, std::size_t panel_begin, std::size_t panel_end) {
    const auto first = static_cast<std::int64_t>(panel_begin) * kPanelRows;
    const auto last = std::min(rows, static_cast<std::int64_t>(panel_end) * kPanelRows);
    std::int64_t offset = 0;  // of the tensor's first row in the stack
    for (const Tensor& tensor : tensors) {
      const std::int64_t tensor_end = offset + tensor.shape[0];
      for (std::int64_t row = std::max(first, offset); row < std::min(last, tensor_end);) {
        const std::int64_t panel_rest = kPanelRows - row % kPanelRows;
        const std::int64_t count = std::min({panel_rest, last - row, tensor_end - row});
        try {
          matrix.pack_rows(row, to_floats(tensor.rows(row - offset, count)));
        } catch (const Error& error) {
          if (error.parts().where.empty()) throw error.within("tensor " + tensor.name);
          throw;
        }
        row += count;
      }
      offset = tensor_end;
    }
  };
  pool.parallel_for(static_cast<std::size_t>(matrix.panels()), 1, pack_panels);
  return matrix;
}

PackedMatrix unpack_codes(const StoredCodes& stored, ThreadPool& pool) {
  PackedMatrix matrix(stored.codec, stored.rows, stored.columns);
  if (has_tensor_scale(stored.codec)) matrix.set_tensor_scale(0, stored.rows, stored.tensor_scale);
  pool.parallel_for(static_cast<std::size_t>(stored.rows), 1, [&](int, std::size_t begin, std::size_t end) {
    for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row)
      for (std::int64_t group = 0; group < matrix.groups(); ++group)
        matrix.put_group(row, group, stored.group(row, group));
  });
  return matrix;
}

}  // namespace tare::engine
