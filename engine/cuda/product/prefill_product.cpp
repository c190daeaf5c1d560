#include "engine/cuda/product/prefill_product.h"

#include <algorithm>

#include "base/error.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/cublas.h"
#include "engine/cuda/product/widen.h"

namespace tare::engine {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr std::int64_t kNumberBytes = 2;

void check_rows(const Operand& x, std::int64_t columns, int tokens) {
  if (x.layout != OperandLayout::kBF16Rows || x.columns != columns || tokens < 1 || x.width < tokens) {
    throw internal_error("a prefill product takes BF16 rows of the matrix's columns");
  }
}

std::uint64_t gemm_bytes(std::int64_t rows, std::int64_t columns, std::int64_t tokens) {
  return static_cast<std::uint64_t>(kNumberBytes * columns * (rows + tokens) + 4 * rows * tokens);
}

}  // namespace

struct PrefillProducts::Library {
  explicit Library(std::size_t scratch_bytes)
      : widened(scratch_bytes, "weights widened for prefill"), workspace(kWorkspaceBytes, "workspace of cuBLAS") {}

  DeviceBuffer widened;
  DeviceBuffer workspace;
  Cublas cublas;

  // Rows that start at y's first column; y_stride: all rows of the result.
  void multiply(const std::uint16_t* weights, std::int64_t rows, std::int64_t columns, int stride, const Operand& x,
                int tokens, float* y, std::int64_t y_stride, const CudaLaunch& launch) const {
    cublas.multiply_bf16(static_cast<int>(rows), tokens, static_cast<int>(columns), weights, stride,
                         reinterpret_cast<const std::uint16_t*>(x.data), static_cast<int>(columns), y,
                         static_cast<int>(y_stride), workspace.data(), workspace.bytes(), launch.stream);
    if (launch.records != nullptr) {
      launch.records->push_back({"cublas_gemm", launch.part, gemm_bytes(rows, columns, tokens)});
    }
  }
};

PrefillProducts::PrefillProducts(std::size_t scratch_bytes) : library_(std::make_unique<Library>(scratch_bytes)) {}
PrefillProducts::~PrefillProducts() = default;

ProductResult PrefillProducts::multiply(const WeightMatrix& matrix, const Operand& x, int tokens, float* y,
                                        const CudaLaunch& launch) {
  check_rows(x, matrix.columns, tokens);
  const int stride = widened_stride(matrix.columns);
  const std::int64_t row_blocks = unit_row_blocks(matrix.rows);
  const std::int64_t most_blocks =
      static_cast<std::int64_t>(library_->widened.bytes()) / (kNumberBytes * stride * kUnitRows);
  if (most_blocks < 1) throw internal_error("the scratch of prefill products holds no row block of this matrix");
  // Parts of equal size: a short last one would leave the GPU half empty.
  const std::int64_t parts = (row_blocks + most_blocks - 1) / most_blocks;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first_row = row_blocks * part / parts * kUnitRows;
    const std::int64_t rows = std::min(row_blocks * (part + 1) / parts * kUnitRows, matrix.rows) - first_row;
    auto* widened = library_->widened.as<std::uint16_t>();
    CudaLaunch widen = launch;
    widen.bytes =
        static_cast<std::uint64_t>(tile_bytes(matrix.codec(), rows, matrix.columns) + kNumberBytes * rows * stride);
    launch_widen(matrix, first_row, rows, widened, widen);
    library_->multiply(widened, rows, matrix.columns, stride, x, tokens, y + first_row, matrix.rows, launch);
  }
  return {.data = y, .rows = static_cast<int>(matrix.rows), .width = tokens, .plan = {}};
}

ProductResult PrefillProducts::multiply(const std::uint16_t* weights, int rows, std::int64_t columns, const Operand& x,
                                        int tokens, float* y, const CudaLaunch& launch) {
  check_rows(x, columns, tokens);
  library_->multiply(weights, rows, columns, static_cast<int>(columns), x, tokens, y, rows, launch);
  return {.data = y, .rows = rows, .width = tokens, .plan = {}};
}

}  // namespace tare::engine
