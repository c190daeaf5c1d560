// y = W x for many tokens: the matrix is widened to BF16 on the device (a part at a time) and multiplied by cuBLAS,
// which is opened at run time. Sums are cuBLAS's, so they differ from a round's by rounding.
#pragma once

#include <memory>

#include "engine/cuda/product.h"

namespace tare::engine {

class PrefillProducts {
 public:
  // Throws Error (environment) when libcublas cannot be opened, saying which names were tried and what provides it.
  explicit PrefillProducts(std::size_t scratch_bytes);
  ~PrefillProducts();
  PrefillProducts(const PrefillProducts&) = delete;
  PrefillProducts& operator=(const PrefillProducts&) = delete;

  // x: kBF16Rows [tokens][columns]; y: [tokens][rows] FP32, row-major (layout rows).
  ProductResult multiply(const WeightMatrix& matrix, const Operand& x, int tokens, float* y, const CudaLaunch& launch);
  // The same for plain BF16 rows [rows][columns].
  ProductResult multiply(const std::uint16_t* weights, int rows, std::int64_t columns, const Operand& x, int tokens,
                         float* y, const CudaLaunch& launch);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace tare::engine
