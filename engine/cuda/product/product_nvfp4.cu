#include "engine/cuda/product/nvfp4_format.cuh"
#include "engine/cuda/product/product_stream.cuh"

namespace tare::engine {

void launch_nvfp4_product(const StreamProduct& product, const CudaLaunch& launch) {
  launch_stream_product<NVFP4Format>(product, launch, {"product nvfp4 n8", "product nvfp4 n16", "product nvfp4 n32"});
}

}  // namespace tare::engine
