// Random weight matrices of every format, on the host as the numbers they represent and on the device as tiles, and
// the products of their rows in double precision.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "engine/cuda/product/product.h"
#include "engine/cuda/product/tiles.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_groups.h"
#include "tests/cuda/gpu/gpu_test.h"

namespace tare::engine::test {

constexpr std::array<WeightFormat, 5> kAllFormats{WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ4,
                                                  WeightFormat::kQ3, WeightFormat::kFP8};

// y of one row and token, and the sum of the magnitudes that a kernel adds up to get it: a code enters some kernels
// with its bias, which they take off again, so the bias counts.
struct Dot {
  double value = 0;
  double magnitude = 0;
};

class TestWeights {
 public:
  // Every code a format can store, except NaN.
  TestWeights(WeightFormat format, std::int64_t rows, std::int64_t columns, std::uint64_t seed)
      : format_(format), rows_(rows), columns_(columns) {
    Philox random(seed);
    for (std::int64_t index = 0; index < rows * columns; ++index) fields_.push_back(random_field(random));
    if (has_scales(format)) {
      for (std::int64_t index = 0; index < rows * group_count(columns); ++index) {
        const auto scale = static_cast<float>((0.5 + random.uniform()) / (1 << code_bits(format)));
        scales_.push_back(float_to_float16(scale));
      }
    }
    upload();
  }
  [[nodiscard]] WeightMatrix matrix() const {
    return {.format = format_, .rows = rows_, .columns = columns_, .tiles = tiles_.data()};
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  // Flips the highest bit of a stored code, in device memory only: the control that a test must catch.
  void spoil(std::int64_t row, std::int64_t column) {
    std::uint16_t& field = fields_[static_cast<std::size_t>(row * columns_ + column)];
    const std::uint16_t good = field;
    field = static_cast<std::uint16_t>(field ^ (1U << (code_bits(format_) - 1)));
    upload();
    field = good;
  }
  [[nodiscard]] double weight(std::int64_t row, std::int64_t column) const {
    const std::uint16_t field = fields_[static_cast<std::size_t>(row * columns_ + column)];
    if (format_ == WeightFormat::kBF16) return static_cast<double>(bfloat16_to_float(field));
    if (format_ == WeightFormat::kFP8) {
      return scale(row, column) * static_cast<double>(e4m3_to_float(static_cast<std::uint8_t>(field)));
    }
    return scale(row, column) * (field - code_bias(format_));
  }
  // The weight rounded to BF16, as it is widened for prefill: its bits.
  [[nodiscard]] std::uint16_t widened(std::int64_t row, std::int64_t column) const {
    return float_to_bfloat16(static_cast<float>(weight(row, column)));  // exact as a float
  }
  // x: [columns].
  template <class Number>
  [[nodiscard]] Dot dot(std::int64_t row, const Number* x) const {
    const bool biased = format_ == WeightFormat::kQ4 || format_ == WeightFormat::kQ3;
    Dot dot;
    for (std::int64_t column = 0; column < columns_; ++column) {
      const double w = weight(row, column);
      const auto value = static_cast<double>(x[column]);
      dot.value += w * value;
      dot.magnitude += (std::fabs(w) + (biased ? scale(row, column) * code_bias(format_) : 0.0)) * std::fabs(value);
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
    if (format_ == WeightFormat::kBF16) return float_to_bfloat16(static_cast<float>(0.02 * random.normal()));
    auto field = static_cast<std::uint16_t>(random.below(1U << code_bits(format_)));
    if (format_ == WeightFormat::kFP8 && (field & 0x7FU) == 0x7FU) field = static_cast<std::uint16_t>(field - 1U);
    return field;
  }
  [[nodiscard]] double scale(std::int64_t row, std::int64_t column) const {
    if (scales_.empty()) return 1;
    const std::int64_t place = row * group_count(columns_) + column / kGroupSize;
    return static_cast<double>(float16_to_float(scales_[static_cast<std::size_t>(place)]));
  }
  void upload() { tiles_ = on_device(pack_tiles({format_, rows_, columns_, fields_, scales_})); }

  WeightFormat format_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<std::uint16_t> fields_;
  std::vector<std::uint16_t> scales_;
  DeviceBuffer tiles_;
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
