#include "engine/cuda/product/fp8_format.cuh"
#include "engine/cuda/product/product_stream.cuh"

namespace tare::engine {

void launch_fp8_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<FP8Format>(product, launch, {"product fp8 n8", "product fp8 n16", "product fp8 n32"});
}

}  // namespace tare::engine
