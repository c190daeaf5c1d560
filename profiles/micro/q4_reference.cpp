#include "profiles/micro/q4_reference.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/philox.h"
#include "engine/cuda/q4_tiles.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_groups.h"

namespace tare::micro {
namespace {

using engine::kGroupSize;
using engine::kQ4BlockRows;

struct Rows {
  std::vector<std::int8_t> codes;
  std::vector<std::uint16_t> scales;
};

std::uint16_t random_scale(std::uint64_t bits) {
  if (bits % 97 == 0) return 0;
  if (bits % 97 == 1) return static_cast<std::uint16_t>(1 + (bits >> 32) % 0x3FF);                 // subnormal
  return static_cast<std::uint16_t>(0x1800 + 0x400 * ((bits >> 8) % 3) + ((bits >> 32) & 0x3FF));  // 2^-9 .. 2^-6
}

Rows random_rows(std::int64_t first_row, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const std::int64_t groups = engine::group_count(columns);
  Rows made{.codes = std::vector<std::int8_t>(static_cast<std::size_t>(rows * columns)),
            .scales = std::vector<std::uint16_t>(static_cast<std::size_t>(rows * groups))};
  for (std::int64_t row = 0; row < rows; ++row) {
    const Philox random(seed, static_cast<std::uint64_t>(first_row + row));
    for (std::int64_t group = 0; group < groups; ++group) {
      const auto index = static_cast<std::uint64_t>(group) * 5;
      made.scales[static_cast<std::size_t>(row * groups + group)] = random_scale(random.bits_at(index));
      const std::int64_t last = std::min(columns, (group + 1) * kGroupSize);
      for (std::int64_t column = group * kGroupSize; column < last; ++column) {
        const std::int64_t within = column % kGroupSize;
        const std::uint64_t bits = random.bits_at(index + 1 + static_cast<std::uint64_t>(within / 16));
        made.codes[static_cast<std::size_t>(row * columns + column)] =
            static_cast<std::int8_t>(static_cast<int>(bits >> (4 * (within % 16)) & 15U) - 8);
      }
    }
  }
  return made;
}

double group_dot(const std::int8_t* codes, const double* x, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t index = 0; index < count; ++index) sum += codes[index] * x[index];
  return sum;
}

template <class Work>
void on_all_threads(std::int64_t count, const Work& work) {
  std::atomic<std::int64_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned thread = 0; thread < std::max(1U, std::thread::hardware_concurrency()); ++thread) {
    threads.emplace_back([&] {
      for (std::int64_t index = next++; index < count; index = next++) work(index);
    });
  }
}

}  // namespace

std::vector<std::uint16_t> random_activations(int tokens, std::int64_t columns, std::uint64_t seed) {
  std::vector<std::uint16_t> x(static_cast<std::size_t>(tokens * columns));
  for (int token = 0; token < tokens; ++token) {
    const Philox random(seed, 1'000'000U + static_cast<std::uint64_t>(token));
    const double magnitude = static_cast<double>(1U << token) / 64.0;
    for (std::int64_t column = 0; column < columns; ++column) {
      const double outlier = column % 611 == 7 ? 30.0 : 1.0;
      const double value = random.normal_at(static_cast<std::uint64_t>(column)) * magnitude * outlier;
      x[static_cast<std::size_t>(token * columns + column)] = engine::float_to_bfloat16(static_cast<float>(value));
    }
  }
  return x;
}

Q4TestProduct random_product(std::int64_t rows, std::int64_t columns, std::uint64_t seed, int tokens,
                             const std::vector<std::uint16_t>& x) {
  std::vector<double> wide(x.size());
  std::transform(x.begin(), x.end(), wide.begin(), [](std::uint16_t bits) { return engine::bfloat16_to_float(bits); });
  const std::int64_t block_bytes = engine::q4_units_a_row_block(columns) * engine::kQ4UnitBytes;
  const std::int64_t groups = engine::group_count(columns);
  Q4TestProduct product{
      .packed = std::vector<std::byte>(static_cast<std::size_t>(engine::q4_matrix_bytes(rows, columns))),
      .y = std::vector<double>(static_cast<std::size_t>(tokens * rows))};
  on_all_threads(engine::q4_row_blocks(rows), [&](std::int64_t row_block) {
    const std::int64_t first_row = row_block * kQ4BlockRows;
    const std::int64_t count = std::min<std::int64_t>(kQ4BlockRows, rows - first_row);
    const Rows made = random_rows(first_row, count, columns, seed);
    engine::pack_q4_row_block(
        {.rows = count, .columns = columns, .codes = made.codes, .scales = made.scales}, 0,
        std::span(product.packed)
            .subspan(static_cast<std::size_t>(row_block * block_bytes), static_cast<std::size_t>(block_bytes)));
    for (std::int64_t row = 0; row < count; ++row) {
      for (int token = 0; token < tokens; ++token) {
        double sum = 0.0;
        for (std::int64_t group = 0; group < groups; ++group) {
          const std::int64_t first = group * kGroupSize;
          const double scale = engine::float16_to_float(made.scales[static_cast<std::size_t>(row * groups + group)]);
          sum += scale * group_dot(made.codes.data() + row * columns + first, wide.data() + token * columns + first,
                                   std::min(kGroupSize, columns - first));
        }
        product.y[static_cast<std::size_t>(token * rows + first_row + row)] = sum;
      }
    }
  });
  return product;
}

}  // namespace tare::micro
