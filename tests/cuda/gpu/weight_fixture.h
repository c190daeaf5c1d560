// Random weight matrices of every codec, on the host as the numbers they represent and on the device as tiles, and
// the products of their rows in double precision.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/options.h"
#include "engine/checkpoint/stored_codes.h"
#include "engine/cuda/product/product.h"
#include "engine/cuda/product/tiles.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_groups.h"
#include "tests/cuda/gpu/gpu_test.h"

namespace tare::engine::test {

constexpr std::array<WeightCodec, 12> kAllCodecs{WeightCodec{WeightFormat::kBF16},
                                                 WeightCodec{WeightFormat::kQ8},
                                                 WeightCodec{WeightFormat::kQ5},
                                                 WeightCodec{WeightFormat::kQ4},
                                                 WeightCodec{WeightFormat::kQ3},
                                                 WeightCodec{WeightFormat::kFP8},
                                                 WeightCodec{WeightFormat::kQ8, ScaleFormat::kE4M3},
                                                 WeightCodec{WeightFormat::kQ5, ScaleFormat::kE4M3},
                                                 WeightCodec{WeightFormat::kQ4, ScaleFormat::kE4M3},
                                                 WeightCodec{WeightFormat::kQ3, ScaleFormat::kE4M3},
                                                 WeightCodec{WeightFormat::kFP8, ScaleFormat::kE4M3},
                                                 WeightCodec{WeightFormat::kNVFP4, ScaleFormat::kE4M3}};
inline std::string to_text(WeightCodec codec) {
  return engine::to_text(codec.format) + (has_tensor_scale(codec) ? " e4m3" : "");
}

// y of one row and token, and the sum of the magnitudes that a kernel adds up to get it: a code enters some kernels
// with its bias, which they take off again, so the bias counts.
struct Dot {
  double value = 0;
  double magnitude = 0;
};

// Which scales: E4M3 ones within a factor of four of each other, or every byte, NaN and negative ones included.
enum class ScaleBytes { kNear, kAll };

class TestWeights {
 public:
  // Every code a format can store, except NaN; with E4M3 scales the rows' own, as of several tensors stacked.
  TestWeights(WeightCodec codec, std::int64_t rows, std::int64_t columns, std::uint64_t seed,
              ScaleBytes bytes = ScaleBytes::kNear)
      : codec_(codec), rows_(rows), columns_(columns) {
    Philox random(seed);
    const WeightFormat format = codec.format;
    for (std::int64_t index = 0; index < rows * columns; ++index) fields_.push_back(random_field(random));
    if (has_scales(format)) {
      for (std::int64_t index = 0; index < rows * scales_a_row(codec, columns); ++index) {
        if (has_tensor_scale(codec)) {
          scales_.push_back(bytes == ScaleBytes::kAll ? static_cast<std::uint16_t>(index % 256)
                                                      : static_cast<std::uint16_t>(0x30 + random.below(16)));
        } else {
          const auto scale = static_cast<float>((0.5 + random.uniform()) / (1 << code_bits(format)));
          scales_.push_back(float_to_float16(scale));
        }
      }
    }
    for (std::int64_t row = 0; has_tensor_scale(codec) && row < rows; ++row)
      row_scales_.push_back(row % 3 == 0 ? 0.0123F : row % 3 == 1 ? 1.7e-5F : 61.9F);
    upload();
  }
  [[nodiscard]] WeightMatrix matrix() const {
    return {
        .format = codec_.format, .rows = rows_, .columns = columns_, .tiles = tiles_.data(), .scales = codec_.scales};
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  // Flips a high bit of a stored code (of NVFP4 not the sign, which a zero has too), in device memory only: the control
  // that a test must catch.
  void spoil(std::int64_t row, std::int64_t column) {
    std::uint16_t& field = fields_[static_cast<std::size_t>(row * columns_ + column)];
    const std::uint16_t good = field;
    const int bit = code_bits(codec_.format) - (codec_.format == WeightFormat::kNVFP4 ? 2 : 1);
    field = static_cast<std::uint16_t>(field ^ (1U << bit));
    upload();
    field = good;
  }
  // Makes the scale of a row's tensor another one, in device memory only.
  void spoil_row_scale(std::int64_t row) {
    float& scale = row_scales_[static_cast<std::size_t>(row)];
    const float good = scale;
    scale *= 1.001F;
    upload();
    scale = good;
  }
  // By weight_codes.h, in its FP32 arithmetic.
  [[nodiscard]] double weight(std::int64_t row, std::int64_t column) const {
    const std::uint16_t field = fields_[static_cast<std::size_t>(row * columns_ + column)];
    if (codec_.format == WeightFormat::kBF16) return static_cast<double>(bfloat16_to_float(field));
    return static_cast<double>(
        decode_weight(codec_, row_scale(row), scale_bits(row, column), static_cast<std::uint8_t>(field)));
  }
  // The weight rounded to BF16, as it is widened for prefill: its bits.
  [[nodiscard]] std::uint16_t widened(std::int64_t row, std::int64_t column) const {
    return float_to_bfloat16(static_cast<float>(weight(row, column)));  // exact as a float
  }
  // x: [columns].
  template <class Number>
  [[nodiscard]] Dot dot(std::int64_t row, const Number* x) const {
    decode(row);
    Dot dot;
    for (std::int64_t column = 0; column < columns_; ++column) {
      const auto [weight, magnitude] = decoded_[static_cast<std::size_t>(column)];
      const auto value = static_cast<double>(x[column]);
      dot.value += weight * value;
      dot.magnitude += magnitude * std::fabs(value);
    }
    return dot;
  }
  template <class Number>
  [[nodiscard]] Dot dot_of_widened(std::int64_t row, const Number* x) const {
    Dot dot;
    for (std::int64_t column = 0; column < columns_; ++column) {
      const double product =
          static_cast<double>(bfloat16_to_float(widened(row, column))) * static_cast<double>(x[column]);
      dot.value += product;
      dot.magnitude += std::fabs(product);
    }
    return dot;
  }

 private:
  [[nodiscard]] std::uint16_t random_field(Philox& random) const {
    if (codec_.format == WeightFormat::kBF16) return float_to_bfloat16(static_cast<float>(0.02 * random.normal()));
    auto field = static_cast<std::uint16_t>(random.below(1U << code_bits(codec_.format)));
    if (codec_.format == WeightFormat::kFP8 && (field & 0x7FU) == 0x7FU) field = static_cast<std::uint16_t>(field - 1U);
    return field;
  }
  [[nodiscard]] std::uint16_t scale_bits(std::int64_t row, std::int64_t column) const {
    const std::int64_t width = codec_.format == WeightFormat::kNVFP4 ? kNVFP4WeightBlock : kGroupSize;
    return scales_[static_cast<std::size_t>(row * scales_a_row(codec_, columns_) + column / width)];
  }
  [[nodiscard]] float row_scale(std::int64_t row) const {
    return row_scales_.empty() ? 1.0F : row_scales_[static_cast<std::size_t>(row)];
  }
  // Fills decoded_ with a row's weights; the next token's product finds them there.
  void decode(std::int64_t row) const {
    if (row == decoded_row_) return;
    decoded_row_ = row;
    decoded_.clear();
    const bool biased =
        codec_.format == WeightFormat::kQ5 || codec_.format == WeightFormat::kQ4 || codec_.format == WeightFormat::kQ3;
    for (std::int64_t column = 0; column < columns_; ++column) {
      const double w = weight(row, column);
      decoded_.emplace_back(w, std::fabs(w) + (biased ? bias(row, column) : 0.0));
    }
  }
  // The magnitude of the weight of code code_bias.
  [[nodiscard]] double bias(std::int64_t row, std::int64_t column) const {
    return std::fabs(static_cast<double>(decode_weight(codec_, row_scale(row), scale_bits(row, column), 0)));
  }
  void upload() {
    tiles_ = on_device(pack_tiles({codec_.format, rows_, columns_, fields_, scales_, codec_.scales, row_scales_}));
  }

  WeightCodec codec_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<std::uint16_t> fields_;
  std::vector<std::uint16_t> scales_;
  std::vector<float> row_scales_;
  DeviceBuffer tiles_;
  mutable std::int64_t decoded_row_ = -1;
  mutable std::vector<std::pair<double, double>> decoded_;  // weight, and magnitude that a kernel adds up
};

inline std::vector<float> random_numbers(std::size_t count, std::uint64_t seed) {
  Philox random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random.normal());
  return numbers;
}

// BF16 rows beside a product.
struct TestSideRows {
  TestSideRows(int rows, std::int64_t columns, std::uint64_t seed) : rows(rows), columns(columns) {
    for (const float value : random_numbers(static_cast<std::size_t>(rows * columns), seed)) {
      weights.push_back(float_to_bfloat16(value));
    }
    memory = on_device(weights);
  }
  [[nodiscard]] SideRows view(float* out) const { return {memory.as<std::uint16_t>(), rows, out}; }
  template <class Number>
  [[nodiscard]] Dot dot(int row, const Number* x) const {
    Dot dot;
    for (std::int64_t column = 0; column < columns; ++column) {
      const double product =
          static_cast<double>(bfloat16_to_float(weights[static_cast<std::size_t>(row * columns + column)])) *
          static_cast<double>(x[column]);
      dot.value += product;
      dot.magnitude += std::fabs(product);
    }
    return dot;
  }

  int rows = 0;
  std::int64_t columns = 0;
  std::vector<std::uint16_t> weights;
  DeviceBuffer memory;
};

// How far results are from true ones, the worst of all compared: |y - value| in parts of the sum of magnitudes, which
// is what FP32 sums are held to. A NaN is as far as can be.
class WorstError {
 public:
  void compare(float y, const Dot& dot, std::int64_t row, int token) {
    const double error = std::fabs(static_cast<double>(y) - dot.value) / dot.magnitude;
    if (error <= worst_) return;  // false for NaN
    worst_ = std::isnan(error) ? HUGE_VAL : error;
    where_ = "row " + std::to_string(row) + " token " + std::to_string(token) + ": " + std::to_string(y) + ", true " +
             std::to_string(dot.value);
  }
  [[nodiscard]] double worst() const { return worst_; }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  double worst_ = 0;
  std::string where_;
};

}  // namespace tare::engine::test
