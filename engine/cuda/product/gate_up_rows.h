// The order of gate's and up's rows in their one matrix: eight of gate, the eight of up beside them, and so on. A
// tile's lane holds rows g and g + 8 (tiles.h), so the sums of a gate row and of its up row end in one lane, and a
// product can apply the activation to them itself. The last run is as short as `size` leaves it.
#pragma once

#include <cstdint>

namespace tare::engine {

constexpr std::int64_t kGateRun = 8;

// Where row `column` (0 .. size - 1) of gate, and of up, lies among the 2 size rows.
[[nodiscard]] constexpr std::int64_t gate_place(std::int64_t column) {
  return column / kGateRun * (2 * kGateRun) + column % kGateRun;
}
[[nodiscard]] constexpr std::int64_t up_place(std::int64_t column, std::int64_t size) {
  const std::int64_t left = size - column / kGateRun * kGateRun;
  return gate_place(column) + (left < kGateRun ? left : kGateRun);
}
// What lies at place `row`, counted with gate over up: column, or size + column.
[[nodiscard]] constexpr std::int64_t stacked_row(std::int64_t row, std::int64_t size) {
  const std::int64_t first = row / (2 * kGateRun) * kGateRun;
  const std::int64_t left = size - first;
  const std::int64_t run = left < kGateRun ? left : kGateRun;
  const std::int64_t inside = row - 2 * first;
  return inside < run ? first + inside : size + first + inside - run;
}

}  // namespace tare::engine
