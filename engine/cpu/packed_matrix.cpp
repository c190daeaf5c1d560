#include "engine/cpu/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kWordBytes = 4;
constexpr std::int64_t kBF16PerWord = 2;
constexpr std::int64_t kScaleBytes = 2;

std::int64_t codes_per_word(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBF16:
      return kBF16PerWord;
    case WeightFormat::kQ8:
      return kQ8CodesPerWord;
    case WeightFormat::kQ4:
    case WeightFormat::kQ3:
      return kQ4CodesPerWord;
    case WeightFormat::kFP8:
      break;
  }
  throw internal_error("a weight format has no packing on the CPU");
}

std::int64_t scale_bytes_per_panel_group(WeightFormat format) {
  return format == WeightFormat::kBF16 ? 0 : kPanelRows * kScaleBytes;
}

int most_code(WeightFormat format) {
  return format == WeightFormat::kQ8 ? kQ8MostCode : format == WeightFormat::kQ4 ? kQ4MostCode : kQ3MostCode;
}

// One row's group as words, and its scale. `values` has 1..64 elements; what is missing are zero weights.
struct GroupWords {
  std::array<std::uint32_t, kGroupSize / kBF16PerWord> words{};
  std::uint16_t scale = 0;
};

GroupWords encode_words(WeightFormat format, std::span<const float> values) {
  GroupWords result;
  if (format == WeightFormat::kBF16) {
    for (std::size_t i = 0; i < values.size(); ++i)
      result.words[i / 2] |= static_cast<std::uint32_t>(float_to_bfloat16(values[i])) << (16 * (i % 2));
    return result;
  }
  std::array<std::int8_t, kGroupSize> codes{};
  result.scale = encode_group(values, most_code(format), std::span(codes).first(values.size()));
  const std::span<const std::int8_t> all(codes);
  const auto per_word = static_cast<std::size_t>(codes_per_word(format));
  for (std::size_t word = 0; word < codes.size() / per_word; ++word)
    result.words[word] = format == WeightFormat::kQ8
                             ? pack_q8_word(all.subspan(word * per_word).first<kQ8CodesPerWord>())
                             : pack_q4_word(all.subspan(word * per_word).first<kQ4CodesPerWord>());
  return result;
}

}  // namespace

std::int64_t bytes_per_panel_group(WeightFormat format) {
  return scale_bytes_per_panel_group(format) + kPanelRows * kGroupSize / codes_per_word(format) * kWordBytes;
}

PackedMatrix::PackedMatrix(WeightFormat format, std::int64_t rows, std::int64_t columns)
    : format_(format),
      rows_(rows),
      columns_(columns),
      groups_(group_count(columns)),
      panels_((rows + kPanelRows - 1) / kPanelRows),
      data_(static_cast<std::size_t>(panels_ * groups_ * bytes_per_panel_group(format))) {
  // Zero weights are not zero bytes (codes are biased): the rows that fill up the last panel are packed as well.
  const std::vector<float> zeros(static_cast<std::size_t>(columns));
  for (std::int64_t row = rows; row < panels_ * kPanelRows; ++row) pack_rows(row, zeros);
}

void PackedMatrix::pack_rows(std::int64_t first_row, std::span<const float> values) {
  const auto columns = static_cast<std::size_t>(columns_);
  const auto count = static_cast<std::int64_t>(values.size() / columns);
  const std::int64_t panel = first_row / kPanelRows;
  if (values.size() % columns != 0 || count < 1 || (first_row + count - 1) / kPanelRows != panel || panel >= panels_)
    throw internal_error("pack_rows: the rows do not lie in one panel");
  const std::int64_t scales_size = scale_bytes_per_panel_group(format_);
  const auto words = static_cast<std::size_t>(kGroupSize / codes_per_word(format_));
  for (std::int64_t row = 0; row < count; ++row) {
    const std::size_t lane = static_cast<std::size_t>(first_row + row) % kPanelRows;
    const std::span<const float> row_values = values.subspan(static_cast<std::size_t>(row) * columns, columns);
    for (std::int64_t group = 0; group < groups_; ++group) {
      const auto begin = static_cast<std::size_t>(group * kGroupSize);
      const GroupWords encoded = encode_words(
          format_, row_values.subspan(begin, std::min(columns - begin, static_cast<std::size_t>(kGroupSize))));
      std::byte* out = data_.data() + panel * bytes_per_panel() + group * bytes_per_panel_group(format_);
      if (scales_size > 0) std::memcpy(out + lane * kScaleBytes, &encoded.scale, kScaleBytes);
      out += scales_size;
      for (std::size_t word = 0; word < words; ++word)
        std::memcpy(out + (word * kPanelRows + lane) * kWordBytes, &encoded.words[word], kWordBytes);
    }
  }
}

std::int64_t PackedMatrix::row_bytes() const {
  return bytes_per_panel() / kPanelRows;
}

// Calls copy(place in the panel's group, place in the row by itself, bytes) for every word and scale of a row.
template <class Copy>
void PackedMatrix::walk_row(std::int64_t row, Copy copy) const {
  if (row < 0 || row >= rows_) throw internal_error("a row that the packed matrix does not have");
  const std::int64_t lane = row % kPanelRows;
  const std::int64_t scales_size = scale_bytes_per_panel_group(format_);
  const std::int64_t words = kGroupSize / codes_per_word(format_);
  std::int64_t group_begin = row / kPanelRows * bytes_per_panel();
  for (std::int64_t group = 0; group < groups_; ++group, group_begin += bytes_per_panel_group(format_)) {
    const std::int64_t first = group_begin + scales_size + lane * kWordBytes;
    for (std::int64_t word = 0; word < words; ++word)
      copy(static_cast<std::size_t>(first + word * kPanelRows * kWordBytes),
           static_cast<std::size_t>((group * words + word) * kWordBytes), kWordBytes);
    if (scales_size > 0)
      copy(static_cast<std::size_t>(group_begin + lane * kScaleBytes),
           static_cast<std::size_t>(groups_ * words * kWordBytes + group * kScaleBytes), kScaleBytes);
  }
}

void PackedMatrix::read_row(std::int64_t row, std::span<std::byte> out) const {
  walk_row(row, [&](std::size_t packed, std::size_t own, std::int64_t size) {
    std::memcpy(out.data() + own, data_.data() + packed, static_cast<std::size_t>(size));
  });
}

void PackedMatrix::write_row(std::int64_t row, std::span<const std::byte> in) {
  walk_row(row, [&](std::size_t packed, std::size_t own, std::int64_t size) {
    std::memcpy(data_.data() + packed, in.data() + own, static_cast<std::size_t>(size));
  });
}

PackedMatrix pack_matrix(std::span<const Tensor> tensors, WeightFormat format, ThreadPool& pool) {
  std::int64_t rows = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.shape.size() != 2 || tensor.shape[1] != tensors.front().shape[1])
      throw internal_error("pack_matrix: tensors of different width");
    rows += tensor.shape[0];
  }
  PackedMatrix matrix(format, rows, tensors.front().shape[1]);
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

}  // namespace tare::engine
