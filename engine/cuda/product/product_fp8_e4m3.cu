#include "engine/cuda/product/e4m3_scales.cuh"
#include "engine/cuda/product/fp8_format.cuh"
#include "engine/cuda/product/product_stream.cuh"

namespace tare::engine {

void launch_fp8_e4m3_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<WithE4M3Scales<FP8Format>>(
      product, launch, {"product fp8-e4m3 n8", "product fp8-e4m3 n16", "product fp8-e4m3 n32"});
}

}  // namespace tare::engine
