// y = W x for many tokens: the matrix is widened to BF16 on the device (a part at a time) and multiplied by cuBLAS,
// which is opened at run time.
//
// Numbers: a weight is code x scale, rounded to the nearest BF16 (ties to even); a round's product does not round it.
// Products are exact, sums FP32 in cuBLAS's order. So prefill differs from rounds by this one rounding of each weight
// of a quantised format, and by FP32 rounding.
#pragma once

#include <memory>

#include "engine/cuda/product/product.h"

namespace tare::engine {

class PrefillProducts {
 public:
  // scratch_bytes: for widened weights, best a whole matrix (2 rows columns), at least 256 rows of the widest; cuBLAS
  // gets 32 MiB more. Throws Error (environment) when libcublas cannot be opened, saying which names were tried and
  // what provides it.
  explicit PrefillProducts(std::size_t scratch_bytes);
  ~PrefillProducts();
  PrefillProducts(const PrefillProducts&) = delete;
  PrefillProducts& operator=(const PrefillProducts&) = delete;

  // x: kBF16Rows [tokens][columns]; y: [tokens][rows] FP32, row-major (layout rows). Launches "widen" and "cublas_gemm"
  // for each part; their records count their own bytes, not launch.bytes.
  ProductResult multiply(const WeightMatrix& matrix, const Operand& x, int tokens, float* y, const CudaLaunch& launch);
  // The same for plain BF16 rows [rows][columns].
  ProductResult multiply(const std::uint16_t* weights, int rows, std::int64_t columns, const Operand& x, int tokens,
                         float* y, const CudaLaunch& launch);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace tare::engine
