// Weights of any format as plain BF16 rows in device memory.
#pragma once

#include "engine/cuda/product/product.h"

namespace tare::engine {

// Numbers from one widened row to the next: whole 16-byte parts.
[[nodiscard]] constexpr int widened_stride(std::int64_t columns) {
  return static_cast<int>((columns + 7) / 8 * 8);
}

// Rows first_row .. first_row + rows - 1 of the matrix as BF16 [rows][widened_stride(columns)]; first_row is a multiple
// of 256. A weight is code x scale, exact in FP32 (with E4M3 scales times its tensor's, one rounding), rounded to
// the nearest BF16 number (ties to even).
void launch_widen(const WeightMatrix& matrix, std::int64_t first_row, std::int64_t rows, std::uint16_t* out,
                  const CudaLaunch& launch);

}  // namespace tare::engine
