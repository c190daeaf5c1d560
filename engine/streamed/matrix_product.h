// FP32 matrix products and the recurrence on the CPU: the two loops in which the reference spends its time.
//
// Each has one order of sums, whatever the instruction set's width, the number of threads and the rows that are
// computed together; instruction sets with and without fused multiply-add differ by rounding.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace tare::engine {

inline constexpr std::int64_t kPanelRows = 32;  // rows of a matrix that lie side by side; a multiple of every vector

// A matrix [rows, columns] as panels [rows / 32][columns][32], the last one filled up with zeros.
struct PackedMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> panels;

  [[nodiscard]] std::int64_t panel_count() const { return (rows + kPanelRows - 1) / kPanelRows; }
  [[nodiscard]] const float* panel(std::int64_t index) const { return panels.data() + index * columns * kPanelRows; }
  // Makes room for a matrix of that shape, zero.
  void resize(std::int64_t new_rows, std::int64_t new_columns);
  // Element [row][column] = source[row * row_stride + column * column_stride] for the rows of one panel.
  void fill_panel(std::int64_t index, const float* source, std::int64_t row_stride, std::int64_t column_stride);
};

// Rows of an FP32 array.
struct RowsIn {
  const float* data = nullptr;
  std::int64_t stride = 0;
};
struct RowsOut {
  float* data = nullptr;
  std::int64_t stride = 0;
};

enum class ProductTarget { kReplace, kAdd };

// c[i][n] (+)= sum over l < columns of a[i][l] b[n][l], for i < count and the rows n of panels [first, last) that are
// below row_limit. Columns are summed 512 at a time in order, and the sums of these blocks one after the other, so that
// the error grows with 512 + columns / 512 rather than with columns. `columns` may be below b's.
struct ProductRange {
  std::int64_t count = 0;
  std::int64_t first_panel = 0;
  std::int64_t last_panel = 0;
  std::int64_t row_limit = 0;
  std::int64_t columns = 0;
};
void multiply_range(const RowsIn& a, const PackedMatrix& b, const RowsOut& c, const ProductRange& range,
                    ProductTarget target);

// The same for all of b, rows of a spread over the threads.
void multiply(ThreadPool& pool, const RowsIn& a, std::int64_t count, const PackedMatrix& b, const RowsOut& c,
              ProductTarget target = ProductTarget::kReplace);

// One head of a Gated DeltaNet layer over `tokens` tokens from a state of zero (docs/method/model.md): S [dk, dv],
//   S <- alpha S + k (beta (v - alpha S^T k))^T,  o = S^T q
// Query and key are normed and scaled already. A token's gates lie at alpha[t * gate_stride], its vectors in row t.
struct HeadTokens {
  std::int64_t tokens = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  RowsIn query;
  RowsIn key;
  RowsIn value;
  const float* alpha = nullptr;
  const float* beta = nullptr;
  std::int64_t gate_stride = 0;
  RowsOut out;  // [tokens, dv]
};
// `state`: work space, resized as needed.
void run_recurrence(const HeadTokens& head, std::vector<float>& state);

}  // namespace tare::engine
