#include "engine/cuda/product/bf16_format.cuh"
#include "engine/cuda/product/product_stream.cuh"

namespace tare::engine {

void launch_bf16_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<BF16Format>(product, launch, {"product bf16 n8", "product bf16 n16", "product bf16 n32"});
}

}  // namespace tare::engine
