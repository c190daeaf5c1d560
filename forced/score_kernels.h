// The two long loops of scoring, for every instruction set (Highway chooses at run time): a pass over a row of logits,
// and a matrix product that keeps its sums in double precision.
#pragma once

#include <cstdint>

namespace tare::forced {

struct RowMaximum {
  float value = 0;      // of the row; -inf when every logit is
  bool finite = false;  // no NaN and no +inf; -inf is a logit (a token that cannot follow)
};

// Copies `size` >= 1 floats to `copy` and returns their maximum.
[[nodiscard]] RowMaximum copy_row(const float* logits, std::int64_t size, float* copy);

// sum of exp(x_i - shift), each term and the sum in double precision; x_i = -inf adds 0. `shift` >= all x_i.
[[nodiscard]] double sum_of_exp(const float* x, std::int64_t size, double shift);

// out[r][v] = sum over k of x[r][k] w[v][k], products and sums in double precision, rounded once to FP32. w holds BF16
// numbers. x: [rows, size], w: [count, size]; row r of out begins at out + r * out_stride.
void multiply_bf16(const double* x, std::int64_t rows, const std::uint16_t* w, std::int64_t count, std::int64_t size,
                   float* out, std::int64_t out_stride);

}  // namespace tare::forced
