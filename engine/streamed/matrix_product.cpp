#include "engine/streamed/matrix_product.h"

#include <algorithm>

namespace tare::engine {
namespace {

constexpr std::int64_t kRowBlock = 96;  // rows of a that share a panel while it is in a cache; of every tile's height
// Panels of one piece: enough pieces for the threads when there are few rows.
constexpr std::int64_t kPanelBlock = 16;

}  // namespace

void PackedMatrix::resize(std::int64_t new_rows, std::int64_t new_columns) {
  rows = new_rows;
  columns = new_columns;
  panels.assign(static_cast<std::size_t>(panel_count() * columns * kPanelRows), 0.0F);
}

void PackedMatrix::fill_panel(std::int64_t index, const float* source, std::int64_t row_stride,
                              std::int64_t column_stride) {
  float* target = panels.data() + index * columns * kPanelRows;
  const std::int64_t valid = std::min(kPanelRows, rows - index * kPanelRows);
  for (std::int64_t row = 0; row < valid; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      target[column * kPanelRows + row] = source[row * row_stride + column * column_stride];
}

void multiply(ThreadPool& pool, const RowsIn& a, std::int64_t count, const PackedMatrix& b, const RowsOut& c,
              ProductTarget target) {
  const std::int64_t row_blocks = (count + kRowBlock - 1) / kRowBlock;
  const std::int64_t panel_blocks = (b.panel_count() + kPanelBlock - 1) / kPanelBlock;
  pool.parallel_for(static_cast<std::size_t>(row_blocks * panel_blocks), 1,
                    [&](int, std::size_t begin, std::size_t end) {
                      for (std::size_t piece = begin; piece < end; ++piece) {
                        // Neighbouring pieces share rows of a: these are read most often.
                        const std::int64_t row = static_cast<std::int64_t>(piece) / panel_blocks * kRowBlock;
                        const std::int64_t panel = static_cast<std::int64_t>(piece) % panel_blocks * kPanelBlock;
                        multiply_range({a.data + row * a.stride, a.stride}, b, {c.data + row * c.stride, c.stride},
                                       {.count = std::min(kRowBlock, count - row),
                                        .first_panel = panel,
                                        .last_panel = std::min(panel + kPanelBlock, b.panel_count()),
                                        .row_limit = b.rows,
                                        .columns = b.columns},
                                       target);
                      }
                    });
}

}  // namespace tare::engine
